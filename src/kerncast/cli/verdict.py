"""Whether forecasts are slower than a limit, or than an older forecast."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.prediction import Prediction
from kerncast.units import format_seconds, parse_seconds

Key = tuple[str, int, str]
Baseline = Mapping[Key, tuple[float, float]]
"""(kernel, launch, GPU id): low and high"""


def parse_limit(text: str | None) -> float | None:
    """Return the seconds of --max."""
    if text is None:
        return None
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InputError(f"--max: {error}") from None


def read_baseline(path: Path) -> Baseline:
    """Read the forecasts of an earlier ``--json`` output; raises InputError for anything else."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return {_key(row): (_seconds(row, "low"), _seconds(row, "high")) for row in table["predictions"]}
    except OSError as error:
        raise InputError(f"--compare-to cannot be read ({error.strerror})", where=str(path)) from None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise InputError(
            f"--compare-to is no output of kerncast predict --json ({type(error).__name__}: {error})", where=str(path)
        ) from None


def without_baseline(predictions: Sequence[Prediction], baseline: Baseline, path: Path) -> list[str]:
    """Return a sentence for each forecast that the baseline lacks; raises InputError when it lacks them all."""
    lacking = [p for p in predictions if (p.kernel, p.launch, p.gpu_id) not in baseline]
    if predictions and len(lacking) == len(predictions):
        raise InputError("--compare-to holds none of these kernels, launches and GPUs", where=str(path))
    return [f"{p.kernel} (launch {p.launch}) on {p.gpu} is not in {path}: nothing to compare" for p in lacking]


def slower_than(predictions: Sequence[Prediction], limit_seconds: float | None, baseline: Baseline | None) -> list[str]:
    """Return a sentence for each forecast that is slower than the limit, or than the baseline beyond both intervals."""
    sentences = []
    for p in predictions:
        what = f"{p.kernel} (launch {p.launch}) on {p.gpu} takes {format_seconds(p.seconds)}"
        if limit_seconds is not None and p.seconds > limit_seconds:
            sentences.append(f"{what}, over --max {format_seconds(limit_seconds)}")
        old = baseline.get((p.kernel, p.launch, p.gpu_id)) if baseline else None
        if old is not None and p.low > old[1]:
            sentences.append(
                f"{what}, slower than before beyond both intervals (it was at most {format_seconds(old[1])})"
            )
    return sentences


def _key(row: Mapping[str, Any]) -> Key:
    return str(row["kernel"]), int(row["launch"]), str(row["gpu_id"])


def _seconds(row: Mapping[str, Any], name: str) -> float:
    value = float(row[name])
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {value}")
    return value
