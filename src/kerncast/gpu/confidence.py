"""VERB: find in a GPU's facts what is possible, but most likely a slip.

What cannot be true is a fault, with which a file is not loaded. A doubt stops nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from kerncast.gpu.files import Fact
from kerncast.gpu.gpu import GPU, WARP_SIZE, list_gpus
from kerncast.units import BITS_PER_BYTE, GIGA, PERCENT

#: Factor beyond the GPUs of the catalogue within which a value may lie: three generations took so long to get there.
BEYOND = 3.0
#: Least number of GPUs; a range of fewer says little.
_LEAST_GPUS = 5
#: A fused multiply-add of every lane at a clock above the maker's boost, and what timing adds.
_CLOCK_RESERVE = 1.25
_TOLERANCE = 1 * PERCENT


@dataclass(frozen=True, slots=True)
class Doubt:
    """A value that lies outside what others make likely."""

    key: str
    """key in the GPU's file, such as peak.l2_kib"""
    value: float
    """value in the file's unit"""
    unit: str
    low: float | None
    """lower bound in the file's unit; None without one"""
    high: float | None
    """upper bound in the file's unit; None without one"""
    by: str | None
    """key that the bounds follow from; None: the GPUs of the catalogue"""


def doubts(gpu: GPU) -> tuple[Doubt, ...]:
    """Return what is most likely a slip, in the order of the facts.

    >>> from dataclasses import replace
    >>> from kerncast.gpu.gpu import load_gpu
    >>> doubts(load_gpu("titan-v")), doubts(replace(load_gpu("titan-v"), sm_count=81))[0].by
    ((), 'limits.sms_per_tpc')
    """
    return (*_beyond_catalogue(gpu), *_unlike_one_another(gpu))


def _beyond_catalogue(gpu: GPU) -> Iterator[Doubt]:
    for fact in gpu.facts:
        bounds = _bounds().get(fact.key)
        if bounds is not None and _is_number(fact) and not bounds[0] <= _number(fact) <= bounds[1]:
            yield Doubt(fact.key, _number(fact), fact.unit, *bounds, None)


def _unlike_one_another(gpu: GPU) -> Iterator[Doubt]:
    """Yield values that do not fit other values of the same file."""
    a = gpu.architecture
    if a.sms_per_tpc is not None and gpu.sm_count % a.sms_per_tpc:
        below = gpu.sm_count - gpu.sm_count % a.sms_per_tpc
        yield Doubt("peak.sm_count", gpu.sm_count, "1", below or None, below + a.sms_per_tpc, "limits.sms_per_tpc")
    yield from _wrong_pin_rate(gpu)
    dram, l2, l1 = gpu.dram_rate, gpu.l2_bytes_per_s, gpu.l1_bytes_per_s
    if l2 is not None and dram is not None and l2 < dram.bytes_per_s:
        yield Doubt("sustained.l2_gb_per_s", l2 / GIGA, "GB/s", dram.bytes_per_s / GIGA, None, "peak.dram_gb_per_s")
    if l1 is not None and l2 is not None and l1 < l2:
        yield Doubt("sustained.l1_gb_per_s", l1 / GIGA, "GB/s", l2 / GIGA, None, "sustained.l2_gb_per_s")
    yield from _above_peak(gpu)
    if a.cycles.fp64 is not None:
        expected = WARP_SIZE * a.schedulers_per_sm / a.fp64_lanes_per_sm
        if abs(a.cycles.fp64 / expected - 1) > _TOLERANCE:
            yield Doubt("cycles.fp64", a.cycles.fp64, "cycle", expected, expected, "lanes.fp64_per_sm")


def _wrong_pin_rate(gpu: GPU) -> Iterator[Doubt]:
    """Yield a bus width and a bandwidth that together make a data rate which no memory has."""
    low, high = _bounds()["peak.dram_gbit_per_s_per_pin"]
    if gpu.dram_bus_bits is None:
        return
    gbit_per_s, bits = gpu.dram_bytes_per_s * BITS_PER_BYTE / GIGA, gpu.dram_bus_bits
    if not low <= gbit_per_s / bits <= high:
        yield Doubt("peak.dram_bus_bits", bits, "bit", gbit_per_s / high, gbit_per_s / low, "peak.dram_gb_per_s")


def _above_peak(gpu: GPU) -> Iterator[Doubt]:
    boosted = gpu.at_clock("boost")
    for key, rate, peak in (
        ("fp32_gflops", gpu.sustained_fp32_flops_per_s, boosted.peak_fp32_flops_per_s),
        ("sgemm_gflops", gpu.sgemm_flops_per_s, boosted.peak_fp32_flops_per_s),
        ("fp64_gflops", gpu.sustained_fp64_flops_per_s, boosted.peak_fp64_flops_per_s),
    ):
        most = _CLOCK_RESERVE * peak
        if rate is not None and rate > most:
            yield Doubt(f"sustained.{key}", rate / GIGA, "GFLOP/s", None, most / GIGA, "peak.clock_boost_mhz")


@cache
def _bounds() -> dict[str, tuple[float, float]]:
    """Return what is likely of each key that enough GPUs of the catalogue have, in the file's unit."""
    found: dict[str, list[float]] = {}
    for gpu in list_gpus():
        for fact in gpu.facts:
            if _is_number(fact) and fact.unit != "year":
                found.setdefault(fact.key, []).append(_number(fact))
    return {key: (min(v) / BEYOND, max(v) * BEYOND) for key, v in found.items() if len(v) >= _LEAST_GPUS}


def _is_number(fact: Fact) -> bool:
    return isinstance(fact.value, int | float) and not isinstance(fact.value, bool)


def _number(fact: Fact) -> float:
    assert isinstance(fact.value, int | float)
    return fact.value
