"""The roofline of a forecast: what a launch does and moves on one GPU, under the roofs of that GPU.

A point is (work / bytes that cross a level, work / forecast time). Of a kernel without floating-point operations the
work is warp instructions, and bytes are counted in transactions of 32 bytes.

Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; several levels of memory: Yang, Kurth, Williams,
"Hierarchical Roofline analysis for GPUs", CCPE 2020; instructions: Ding, Williams, "An Instruction Roofline Model for
GPUs", PMBS 2019.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, group_rate, rate_in_use
from kerncast.models.base import Case, lost_from_l2
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import SECTOR_BYTES, KernelProfile
from kerncast.profiles.counts import (
    FLOPS,
    GLOBAL_BYTES_TOUCHED,
    INSTRUCTIONS,
    L1_BYTES,
    L2_CROSSING,
    SHARED_WAVEFRONTS,
    TENSOR_OPS,
    dram_bytes_of_launch,
)

#: A wavefront of shared memory: 32 banks of 4 bytes.
_WAVEFRONT_BYTES = 128
#: Work that takes less of the time of all work has no roof of its own: an index in a float, a scale at the end.
_TRACE = 0.02
#: A ceiling nearer to the roof than that is not told.
_TOLD_CEILING = 1.1
#: How a type of A is written in data sheets.
_TENSOR_NAMES = {
    "f16": "FP16", "bf16": "BF16", "tf32": "TF32", "f64": "FP64", "e4m3": "FP8", "s8": "INT8", "s4": "INT4",
    "b1": "1-bit",
}  # fmt: skip


class Unit(StrEnum):
    """The work of a roofline."""

    FLOP = "FLOP"
    OPERATION = "OP"
    """operations of integers on tensor cores, and floating-point ones beside them"""
    INSTRUCTION = "inst"
    """warp instructions, of kernels that do neither"""


@dataclass(frozen=True, slots=True)
class BandwidthRoof:
    """One level of memory, and what crosses it."""

    name: str
    """name of the level: shared, l1, l2 or dram"""
    nbytes: float
    """bytes that cross the level in the launch; of shared memory, passes of 128 bytes, bank conflicts included"""
    bytes_per_s: float
    """bandwidth that the GPU sustains"""
    peak_bytes_per_s: float | None = None
    """bandwidth by the data sheet; None where it gives none"""
    ceiling_bytes_per_s: float | None = None
    """bandwidth that the kernel's own accesses can reach, where a simulation says that it is less; else None"""
    is_upper_bound: bool = False
    """whether ``nbytes`` is what the level could be asked for at most, as the cache before it was not simulated"""

    @property
    def seconds(self) -> float:
        """Least time of the bytes."""
        return self.nbytes / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class ComputeRoof:
    """One kind of work, and how fast the GPU does it."""

    name: str
    """name of the kind: FP32, FP64, FP16, such as FP16 tensor, or issue"""
    work: float
    """operations, or warp instructions, of the launch"""
    per_s: float | None
    """most of them per second; None where that is unknown"""
    grouped_per_s: float | None = None
    """rate of the same products by groups of warps (wgmma), which this kernel does not use; None: there is no such"""

    @property
    def seconds(self) -> float:
        """Least time of the work; 0 where the rate is unknown."""
        return self.work / self.per_s if self.per_s else 0.0


@dataclass(frozen=True, slots=True)
class ForecastRoofline:
    """One forecast under the roofs of its GPU."""

    kernel: str
    launch: int
    gpu: str
    gpu_id: str
    unit: Unit
    seconds: float
    low: float
    """lower end of the forecast's interval, in seconds"""
    high: float
    confidence: float
    """share of measured times that the interval should hold"""
    limiter: str
    """name of the term that decides in the forecast"""
    bandwidths: tuple[BandwidthRoof, ...]
    """levels of memory, the nearest to the SMs first; those that nothing crosses, too"""
    computes: tuple[ComputeRoof, ...]
    """kinds of work that occur, the one that takes longest first"""
    work: float
    """operations or warp instructions of the launch"""

    @property
    def rate(self) -> float:
        """Work per second at the forecast time."""
        return self.work / self.seconds

    @property
    def rates(self) -> tuple[float, float]:
        """Work per second at the ends of the interval, the slower first; infinite where the shortest time is 0."""
        return self.work / self.high, self.work / self.low if self.low else float("inf")

    @property
    def bytes_per_x(self) -> int:
        """Bytes of one unit across: transactions have 32."""
        return SECTOR_BYTES if self.unit is Unit.INSTRUCTION else 1

    def intensity(self, roof: BandwidthRoof) -> float:
        """Return work per byte, or warp instructions per transaction; infinite where nothing crosses the level."""
        return self.work / (roof.nbytes / self.bytes_per_x) if roof.nbytes else float("inf")

    def slope(self, roof: BandwidthRoof) -> float:
        """Return bytes per second, or transactions per second."""
        return roof.bytes_per_s / self.bytes_per_x

    def share(self, roof: BandwidthRoof | ComputeRoof) -> float:
        """Return the part of a roof that the forecast reaches: least time of what the roof is of over the forecast."""
        return roof.seconds / self.seconds

    @property
    def roofs(self) -> "tuple[BandwidthRoof | ComputeRoof, ...]":
        """All roofs, those of memory first."""
        return (*self.bandwidths, *self.computes)

    @property
    def crossed(self) -> tuple[BandwidthRoof, ...]:
        """Levels that something crosses."""
        return tuple(roof for roof in self.bandwidths if roof.nbytes)

    def ceiling_share(self, roof: BandwidthRoof) -> float | None:
        """Return the part of the kernel's own ceiling that the forecast reaches; None where it has none."""
        ceiling = roof.ceiling_bytes_per_s
        return None if ceiling is None else roof.nbytes / ceiling / self.seconds

    @property
    def nearest(self) -> BandwidthRoof | ComputeRoof:
        """The roof of what limits the forecast; where that has none (latency, launches), the one it comes nearest."""
        own = [roof for roof in self.roofs if self.limiter in _limiters_of(roof) and roof.seconds]
        return max(own or self.roofs, key=lambda roof: roof.seconds)

    @property
    def is_limited_by_nearest(self) -> bool:
        """Whether the nearest roof is the one of what limits the forecast."""
        return self.limiter in _limiters_of(self.nearest)


def _limiters_of(roof: BandwidthRoof | ComputeRoof) -> tuple[str, ...]:
    """Return the limiters of models that a roof is of."""
    if isinstance(roof, BandwidthRoof):
        return (roof.name,)
    if roof.name.endswith("tensor"):
        return ("tensor",)
    return {"FP32": ("fp32", "fma"), "issue": ("issue",)}.get(roof.name, (roof.name.lower(),))


def forecast_roofline(prediction: Prediction, case: Case) -> ForecastRoofline:
    """Return a forecast under the roofs of its GPU, at the clock of the case.

    Raises MissingEvidenceError where neither operations nor instructions are counted.
    """
    profile, gpu = case.profile, case.gpu
    unit, computes = _computes(prediction, profile, gpu)
    whole = sum(roof.seconds for roof in computes)
    telling = [roof for roof in computes if not roof.per_s or roof.seconds >= _TRACE * whole]
    return ForecastRoofline(
        kernel=prediction.kernel,
        launch=prediction.launch,
        gpu=prediction.gpu,
        gpu_id=prediction.gpu_id,
        unit=unit,
        seconds=prediction.seconds,
        low=prediction.low,
        high=prediction.high,
        confidence=prediction.level,
        limiter=prediction.limiter,
        bandwidths=tuple(_with_ceiling(roof, prediction) for roof in _bandwidths(prediction, profile, gpu)),
        computes=tuple(sorted(telling, key=lambda roof: -roof.seconds)),
        work=sum(roof.work for roof in computes),
    )


def _computes(prediction: Prediction, profile: KernelProfile, gpu: GPU) -> tuple[Unit, list[ComputeRoof]]:
    tensor = list(_tensor_roofs(profile, gpu))
    floats = [
        ComputeRoof(f"FP{bits}", count.value, rate)
        for bits, rate in _float_rates(gpu).items()
        if (count := profile.counts.get(FLOPS[bits])) is not None and count.value
    ]
    if floats or tensor:
        has_integers = any(roof.name.startswith(("INT", "1-bit")) for roof in tensor)
        return Unit.OPERATION if has_integers else Unit.FLOP, [*floats, *tensor]
    issued = _instructions(prediction, profile)
    if not issued:
        raise MissingEvidenceError(
            f"neither operations nor instructions of {prediction.kernel} are counted",
            cure="Give its source, or a profile with smsp__inst_executed.sum.",
        )
    return Unit.INSTRUCTION, [ComputeRoof("issue", issued, gpu.peak_warp_instructions_per_s)]


def _float_rates(gpu: GPU) -> Mapping[int, float]:
    """Return FLOP/s of fused multiply-adds by the bits of the precision."""
    fp16 = gpu.peak_fp16_flops_per_s or gpu.peak_fp32_flops_per_s
    return {32: gpu.peak_fp32_flops_per_s, 64: gpu.peak_fp64_flops_per_s, 16: fp16}


def _tensor_roofs(profile: KernelProfile, gpu: GPU) -> Iterator[ComputeRoof]:
    """Yield the tensor cores' work by types, at the rate of the instructions that the kernel uses."""
    kinds = [each.kind for each in profile.mix.kinds] if profile.mix is not None else []
    in_groups = any(each.startswith(("wgmma", "tcgen05")) for each in kinds)
    seen: set[str] = set()
    for (factor, total), name in TENSOR_OPS.items():
        count = profile.counts.get(name)
        if count is None or not count.value or name in seen:
            continue
        seen.add(name)
        grouped = group_rate(gpu.architecture, factor)
        per_sm = rate_in_use(gpu.architecture, (factor, total), kinds)
        other = None if in_groups or grouped is None or grouped == per_sm else grouped
        label = f"{_TENSOR_NAMES[factor]} tensor"
        yield ComputeRoof(label, count.value, _per_second(gpu, per_sm), _per_second(gpu, other))


def _per_second(gpu: GPU, multiply_adds_per_sm: float | None) -> float | None:
    return 2 * multiply_adds_per_sm * gpu.sm_count * gpu.clock_hz if multiply_adds_per_sm else None


def _instructions(prediction: Prediction, profile: KernelProfile) -> float:
    """Return the warp instructions of a launch: simulated, disassembled, profiled, or those of its PTX."""
    if prediction.work is not None:
        return prediction.work.warp_instructions
    if profile.machine is not None:
        return profile.machine.warp_instructions.value
    counted = profile.counts.get(INSTRUCTIONS) or (profile.mix.warp_instructions if profile.mix else None)
    return counted.value if counted else 0.0


def _bandwidths(prediction: Prediction, profile: KernelProfile, gpu: GPU) -> Iterator[BandwidthRoof]:
    """Yield the levels whose bandwidth and traffic are known, the nearest to the SMs first."""
    counts, a, work = profile.counts, gpu.architecture, prediction.work
    wavefronts, l1_bytes = counts.get(SHARED_WAVEFRONTS), counts.get(L1_BYTES)
    if wavefronts is not None:
        per_s = gpu.sm_count * gpu.clock_hz / (a.cycles.shared_wavefront or 1.0)
        yield BandwidthRoof("shared", wavefronts.value * _WAVEFRONT_BYTES, per_s * _WAVEFRONT_BYTES)
    l1_rate = _l1_rate(gpu)
    if l1_bytes is not None and l1_rate and a.caches_global_loads_in_l1:
        yield BandwidthRoof("l1", l1_bytes.value, l1_rate)
    if gpu.l2_rate is not None:
        crossing = counts.first(L2_CROSSING)
        if work is not None:
            yield BandwidthRoof("l2", work.l2_bytes, gpu.l2_rate.bytes_per_s)
        elif crossing is not None or l1_bytes is not None:
            known = crossing or l1_bytes
            assert known is not None
            yield BandwidthRoof("l2", known.value, gpu.l2_rate.bytes_per_s, is_upper_bound=crossing is None)
    yield from _dram(prediction, profile, gpu)


def _with_ceiling(roof: BandwidthRoof, prediction: Prediction) -> BandwidthRoof:
    """Add the bandwidth at which a simulation's term for the level would be as long as it is."""
    own = prediction.term(roof.name) if prediction.work is not None else None
    if not own or not roof.nbytes or own < _TOLD_CEILING * roof.seconds:
        return roof
    return replace(roof, ceiling_bytes_per_s=roof.nbytes / own)


def _l1_rate(gpu: GPU) -> float | None:
    """Return the bandwidth of L1: measured at the default clock, else by the architecture."""
    if gpu.l1_bytes_per_s is not None:
        return gpu.l1_bytes_per_s * gpu.clock_hz / gpu.default_clock_hz
    per_clock = gpu.architecture.l1_bytes_per_clock
    return None if per_clock is None else per_clock * gpu.sm_count * gpu.clock_hz


def _dram(prediction: Prediction, profile: KernelProfile, gpu: GPU) -> Iterator[BandwidthRoof]:
    work = prediction.work
    if work is not None:
        written = work.dram_written_bytes / work.dram_bytes if work.dram_bytes else 0.5
        rate = gpu.dram_bytes_per_s_of(written)
        yield BandwidthRoof("dram", work.dram_bytes, rate, gpu.dram_bytes_per_s)
        return
    once, touched = dram_bytes_of_launch(profile.counts), profile.counts.get(GLOBAL_BYTES_TOUCHED)
    if once is None:
        return
    # What the launch before has left in L2 is not read again.
    lost = 1.0
    if prediction.timing is not Timing.COLD and touched is not None and gpu.l2_bytes:
        lost = lost_from_l2(touched.value / gpu.l2_bytes)
    rate = gpu.dram_rate.bytes_per_s if gpu.dram_rate else gpu.dram_bytes_per_s
    yield BandwidthRoof("dram", once.value * lost, rate, gpu.dram_bytes_per_s)
