"""Streams of DRAM at an eighth, a quarter, half and all of the warps that two blocks on each SM can have.

Data, read from ``../shared/data``: facts of te42kyfo/gpu-benches, gpu-stream, on seven GPUs from Volta to Hopper. With
few warps their bandwidth is latency under load.
"""

import csv
import re
from dataclasses import replace

from counter_cases import DATA
from timing_cases import FOLDER, Case, Measured, launch_of, zeros

from kerncast.gpu import load_gpu
from kerncast.launch import Launch, Value
from kerncast.prediction import Timing
from kerncast.units import GIGA, KIB

FACTS = DATA / "microbench.csv"
SOURCE = FOLDER / "kernels" / "streams.cu"
_GPUS = {
    "V100-PCIe-16GB": "v100-pcie-16gb", "A100-SXM4-40GB": "a100-sxm-40gb", "A100-SXM4-80GB": "a100-sxm-80gb",
    "A40": "a40", "L40": "l40", "H100-PCIe": "h100-pcie", "H200": "h200",
}  # fmt: skip
#: Arrays of 2^27 elements were timed; a quarter is far above L2, too, and the time is that of a quarter.
ELEMENTS = 2**25
_ELEMENT_BYTES = 8
_ARRAYS = {"read": 1, "scale": 2}
_METRIC = re.compile(r"dram_stream_(read|scale)_GBps_at_occ(\d+(?:\.\d)?)")
_THREADS = re.compile(r"blockSize (\d+), 2 blocks/SM")


def streams(count: int | None) -> list[Case]:
    """Return all streams at all occupancies; a smaller sample is of the first of them."""
    if not FACTS.exists():
        return []
    with FACTS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if _METRIC.fullmatch(row["metric"]) and row["gpu"] in _GPUS]
    return [case for row in rows[:count] for case in _measured(row).cases("streams", Timing.SERIES)]


def _measured(row: dict[str, str]) -> Measured:
    metric, block = _METRIC.fullmatch(row["metric"]), _THREADS.fullmatch(row["detail"])
    assert metric is not None
    assert block is not None
    kind, threads, gpu = metric[1], int(block[1]), _GPUS[row["gpu"]]
    seconds = _ARRAYS[kind] * _ELEMENT_BYTES * ELEMENTS / (float(row["value"]) * GIGA)
    return Measured(
        f"stream_{kind}", f"{metric[2]} % of the warps", stream_launch(kind, threads, gpu), ((gpu, seconds),)
    )


def stream_launch(kind: str, threads: int, gpu: str, elements: int = ELEMENTS) -> Launch:
    """Return a stream in blocks of so many threads, of which two fit an SM of the GPU."""
    values: dict[str, Value] = {
        "out": zeros(elements, element="f64"),
        "in": zeros(elements, element="f64"),
        "n": elements,
        "never": 0,
    }
    one = launch_of(SOURCE, f"stream_{kind}", ((-(-elements // threads), 1, 1), (threads, 1, 1)), values)
    room = load_gpu(gpu).architecture.shared_bytes_per_sm
    # Three blocks would want more than an SM has.
    return replace(one, shared_bytes=room // 5 * 2 // KIB * KIB)
