"""Measured cases with a known law for the simulation's error."""

import math
from typing import Any

GPUS = {"titan-v": 1455.0, "rtx-2080-ti": 1545.0, "rtx-3090": 1695.0, "k40": 745.0}


def case(kernel: str, gpu: str, dram_share: float, log_error: float, **changes: Any) -> dict[str, Any]:
    """Return one case as score_timing.py writes it: simulated in 100 µs or so, off by a factor."""
    seconds = 1e-4 * (1 + 0.1 * dram_share)
    terms = {"dram": dram_share * seconds, "issue": 0.3 * seconds, "launch": 1e-6}
    forecast = {"seconds": seconds, "low": seconds / 2, "high": seconds * 2, "limiter": "dram", "terms": terms}
    roofline = forecast | {
        "seconds": 0.6 * seconds,
        "terms": {"fp32": 0.1 * seconds, "dram": 0.5 * seconds, "issue": 0.2 * seconds},
    }
    found: dict[str, Any] = {
        "set": "mine", "kernel": kernel, "size": "1", "gpu": gpu, "clock_mhz": GPUS[gpu], "grid": [800], "block": [256],
        "defines": {}, "registers": 32, "spills": False, "measured_seconds": seconds * math.exp(log_error),
        "forecasts": {"simulation": forecast, "roofline": roofline, "template": roofline},
    }  # fmt: skip
    return found | changes


def law(dram_share: float) -> float:
    """Return the error of the simulation: it takes DRAM for too fast."""
    return 0.3 * (dram_share - 0.5)


def cases(kernels: int = 12) -> list[dict[str, Any]]:
    """Return kernels with different shares of DRAM on all GPUs, off by the law and by a little of their own."""
    found = []
    for number in range(kernels):
        share = 0.2 + 0.7 * number / (kernels - 1)
        for place, gpu in enumerate(GPUS):
            own = 0.01 * ((-1) ** number) + 0.004 * (place - 1.5)
            found.append(case(f"kernel{number}", gpu, share, law(share) + own))
    return found
