"""Ceilings: a measured run, projected by a roofline of three memory levels with the kernel's own ceilings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import WARP_SIZE
from kerncast.models.base import Case, Estimate, Model, Needs, Question
from kerncast.models.calibration import coverage_text
from kerncast.models.transfer.checks import transfer_caveats
from kerncast.models.transfer.machine_maxima import SHARED_BYTES_PER_CLOCK, MachineMaxima, maxima_of
from kerncast.models.transfer.measured_run import (
    counted,
    float_mixes_of,
    measured_run,
    not_counted,
    present,
    taken_as_none,
    timing_caveats,
)
from kerncast.models.transfer.special_functions import float_mixes_on_both
from kerncast.prediction import Figure, Prediction, Term, Timing, Transfer
from kerncast.profiles import FloatMix, KernelProfile, KernelRoofline, LevelCeiling
from kerncast.profiles.counts import (
    DRAM_CROSSING,
    GLOBAL_LOAD_REQUESTS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_SECTORS_WRITTEN,
    GLOBAL_WRITES,
    L1_BYTES,
    L2_BYTES,
    L2_CROSSING,
    SHARED_BYTES,
    SHARED_WAVEFRONTS,
)
from kerncast.remembered import remembered

# Equations 1 to 8 and 10 of Van Lanker et al., Euro-Par 2024, one function each; rates per second, sizes in bytes.
#
# Source: Van Lanker, Taboada, Brunet, Trahay, "Predicting GPU kernel's performance on upcoming architectures".


#: An addition or a multiplication takes the place of a fused multiply-add, which is two operations.
_ADD_MUL_OVER_FMA = 0.5
#: A precision with less of the time of all operations is not named: a round figure.
_TRACE = 0.02


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one kernel on a machine: its operations, and the bytes N+ that cross each level of memory."""

    mixes: tuple[FloatMix, ...]
    """operations by precision, for each that occurs"""
    active_threads: float
    """active threads per warp instruction, up to 32"""
    l1_bytes: float
    """bytes that cross L1, without shared memory"""
    shared_bytes: float
    shared_wavefronts: float
    """cycles of shared memory, as wavefronts"""
    l2_bytes: float
    dram_bytes: float

    @property
    def flops(self) -> float:
        """FLOP of equation 10."""
        return sum([mix.flops_value for mix in self.mixes])


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A place that data come from."""

    name: str
    """name of the place: l1, shared, l2 or dram"""
    nbytes: float
    """bytes that are found there"""
    seconds: float


@dataclass(frozen=True, slots=True)
class LevelTime:
    """One level of memory: the bytes that cross it, and the least time for all that these come from."""

    level: str
    crossing_bytes: float
    """N+, the bytes that cross the level; at L1, with shared memory"""
    ceiling_bytes_per_s: float
    """BW^Ceil, the level's ceiling for this kernel"""

    @property
    def seconds(self) -> float:
        """Time of all bytes that cross the level, at its ceiling."""
        return self.crossing_bytes / self.ceiling_bytes_per_s


def roofline(intensity: float, bytes_per_s: float, flops_per_s: float) -> float:
    """Return what can be reached, in FLOP/s (equation 1).

    >>> roofline(2.0, 846e9, 6890e9) / 1e9
    1692.0
    """
    return min(bytes_per_s * intensity, flops_per_s)


def mix_rate(fma_flops_per_s: float, fused: float, others: float) -> float:
    """Return Perf^mix of so many fused and other instructions (equation 2); additions have half the rate.

    A quarter fused on the V100 of Table 1: 6890 x 1/4 + 3445 x 3/4 GFLOP/s:

    >>> mix_rate(6890e9, 1, 3) / 1e9
    4306.25
    """
    share = fused / (fused + others)
    return fma_flops_per_s * share + _ADD_MUL_OVER_FMA * fma_flops_per_s * (1 - share)


def active_rate(active_threads: float, mix_flops_per_s: float) -> float:
    """Return Perf^ceil with so many active threads per warp instruction (equation 3).

    >>> active_rate(24, 4306.25)
    3229.6875
    """
    return active_threads / WARP_SIZE * mix_flops_per_s


def memory_time(nbytes: float, max_bytes_per_s: float) -> float:
    """Return the seconds for bytes that one level delivers (equation 4).

    >>> memory_time(846e6, 846e9)
    0.001
    """
    return nbytes / max_bytes_per_s


def shared_time(nbytes: float, bytes_per_clock: float, max_bytes_per_s: float) -> float:
    """Return the seconds of shared memory at so many bytes per clock (equation 5): 128 are without conflict.

    >>> shared_time(128e6, 64, 12800e9)  # two-way conflicts: twice 10 us
    2e-05
    """
    return nbytes / bytes_per_clock * SHARED_BYTES_PER_CLOCK / max_bytes_per_s


def bandwidth_ceiling(parts: Sequence[MemoryPart]) -> float | None:
    """Return BW^Ceil, all bytes over all times (equations 6 to 8); None without bytes.

    >>> bandwidth_ceiling([MemoryPart("l2", 3e9, 1.0), MemoryPart("dram", 1e9, 1.0)]) / 1e9
    2.0
    """
    seconds = sum([part.seconds for part in parts])
    return sum([part.nbytes for part in parts]) / seconds if seconds else None


def intensity(flops: float, crossing_bytes: float) -> float:
    """Return OI in FLOP per byte that crosses a level (equation 10); infinite without bytes.

    >>> intensity(6e9, 3e9)
    2.0
    """
    return flops / crossing_bytes if crossing_bytes else float("inf")


def memory_parts(demand: Demand, machine: MachineMaxima) -> tuple[MemoryPart, ...]:
    """Return L1, shared memory, L2 and DRAM with the bytes that hit each (equations 4 and 5).

    What crosses a level and not the next hits it, at least 0: DRAM may move more than L2 was asked for.
    """
    hits_l1, hits_l2 = max(0.0, demand.l1_bytes - demand.l2_bytes), max(0.0, demand.l2_bytes - demand.dram_bytes)
    wavefronts = demand.shared_wavefronts or demand.shared_bytes / SHARED_BYTES_PER_CLOCK
    per_clock = demand.shared_bytes / wavefronts if demand.shared_bytes else SHARED_BYTES_PER_CLOCK
    return (
        MemoryPart("l1", hits_l1, memory_time(hits_l1, machine.l1.rate)),
        MemoryPart("shared", demand.shared_bytes, shared_time(demand.shared_bytes, per_clock, machine.shared.rate)),
        MemoryPart("l2", hits_l2, memory_time(hits_l2, machine.l2.rate)),
        MemoryPart("dram", demand.dram_bytes, memory_time(demand.dram_bytes, machine.dram.rate)),
    )


def _level_times(demand: Demand, machine: MachineMaxima, parts: tuple[MemoryPart, ...]) -> tuple[LevelTime, ...]:
    """Return L1, L2 and DRAM with the kernel's ceilings (equations 6 to 8); without bytes, with the machine's."""
    crossing = demand.l1_bytes + demand.shared_bytes, demand.l2_bytes, demand.dram_bytes
    maxima = machine.l1.rate, machine.l2.rate, machine.dram.rate
    beyond = parts, parts[2:], parts[3:]
    return tuple(
        [
            LevelTime(name, nbytes, bandwidth_ceiling(own) or most)
            for name, nbytes, own, most in zip(("l1", "l2", "dram"), crossing, beyond, maxima, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class ComputeCeiling:
    """The compute roofs of one kernel: of the machine, of its mix, and of its active threads."""

    max_flops_per_s: float
    mix_flops_per_s: float
    ceiling_flops_per_s: float
    peak_flops_per_s: float | None
    is_measured: bool
    """whether the machine's maximum was measured, for all precisions"""
    bits: tuple[int, ...] = ()
    """bits of the precisions that make up the machine's maximum"""


def compute_ceiling(demand: Demand, machine: MachineMaxima) -> ComputeCeiling:
    """Return the ceilings of equations 2 and 3; of several precisions, the mean that their times give.

    The paper has one precision. Here each takes its FLOP over its own rate, one after the other.
    """
    used = [mix for mix in demand.mixes if mix.flops_value > 0]
    if not used:  # nothing asks for it: any precision will do
        known = machine.fp32 or machine.fma(64)
        ceiling = active_rate(demand.active_threads, known.rate)
        return ComputeCeiling(known.rate, known.rate, ceiling, known.peak, known.is_measured)
    flops = [mix.flops_value for mix in used]
    maxima = [machine.fma(mix.bits) for mix in used]
    rates = [
        mix_rate(maximum.rate, mix.fused.value, mix.additions.value + mix.multiplications.value)
        for mix, maximum in zip(used, maxima, strict=True)
    ]
    peaks = [maximum.peak for maximum in maxima if maximum.peak]
    mixed = _harmonic(flops, rates)
    return ComputeCeiling(
        max_flops_per_s=_harmonic(flops, [maximum.rate for maximum in maxima]),
        mix_flops_per_s=mixed,
        ceiling_flops_per_s=active_rate(demand.active_threads, mixed),
        peak_flops_per_s=_harmonic(flops, peaks) if len(peaks) == len(used) else None,
        is_measured=all(maximum.is_measured for maximum in maxima),
        bits=_telling(used, [amount / maximum.rate for amount, maximum in zip(flops, maxima, strict=True)]),
    )


def _telling(mixes: Sequence[FloatMix], seconds: Sequence[float]) -> tuple[int, ...]:
    """Return the precisions whose operations take more than a trace of the time."""
    least = _TRACE * sum(seconds)
    return tuple([mix.bits for mix, its in zip(mixes, seconds, strict=True) if its > least])


def _harmonic(flops: Sequence[float], rates: Sequence[float]) -> float:
    """Return the rate of all operations together, each precision at its own rate."""
    return sum(flops) / sum([each / rate for each, rate in zip(flops, rates, strict=True)])


@dataclass(frozen=True, slots=True)
class KernelCeilings:
    """One kernel under its own ceilings on one machine."""

    machine: MachineMaxima
    flops: float
    compute: ComputeCeiling
    parts: tuple[MemoryPart, ...]
    levels: tuple[LevelTime, ...]
    """levels in the order L1, L2, DRAM"""

    @property
    def compute_s(self) -> float:
        """FLOP / Perf^Ceil."""
        return self.flops / self.compute.ceiling_flops_per_s

    def floor_s(self, level: LevelTime) -> float:
        """Return FLOP / roof by one level, max(N+ / BW^Ceil, FLOP / Perf^Ceil): it holds where FLOP is 0, too."""
        return max(level.seconds, self.compute_s)

    def intensity(self, level: LevelTime) -> float:
        """Return OI (equation 10)."""
        return intensity(self.flops, level.crossing_bytes)

    def roof(self, level: LevelTime) -> float:
        """Return the roof of equation 1 with the kernel's ceilings, in FLOP/s."""
        return roofline(self.intensity(level), level.ceiling_bytes_per_s, self.compute.ceiling_flops_per_s)


def kernel_ceilings(demand: Demand, machine: MachineMaxima) -> KernelCeilings:
    """Put a kernel under its ceilings on a machine (equations 2 to 8)."""
    parts = memory_parts(demand, machine)
    return KernelCeilings(
        machine, demand.flops, compute_ceiling(demand, machine), parts, _level_times(demand, machine, parts)
    )


#: Efficiencies above it are told; a measured maximum is sometimes exceeded by so much.
_MOST_EFFICIENT = 1.05


class Ceilings(Model):
    """T_tgt = T_src x [FLOP / roof]_tgt / [FLOP / roof]_src at each of L1, L2 and DRAM (equations 2 to 10).

    The interval spans the three; the forecast is its middle in time. FLOP / roof = max(N+ / BW^Ceil, FLOP / Perf^Ceil)
    holds without floating-point operations too. Bytes are the same on both GPUs, operations differ by special
    functions.

    Source: Van Lanker, Taboada, Brunet, Trahay, "Predicting GPU kernel's performance on upcoming architectures",
    Euro-Par 2024. Fails when: the GPU is not filled, few threads of a warp are active, or a cache holds on one GPU what
    it does not hold on the other (its sections 5.3 to 5.6).
    """

    name: ClassVar[str] = "ceilings"
    log_sigma: ClassVar[float] = 0.0
    """zero: the published interval is not widened"""
    uses_measured_run: ClassVar[bool] = True
    uses_caches: ClassVar[bool] = True
    has_published_interval: ClassVar[bool] = True
    follows_clock: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs.SAMPLE

    def error_factor(self, case: Case, estimate: Estimate, level: float) -> tuple[float, tuple[Caveat, ...]]:
        """Return that the published interval stays as it is."""
        del case, estimate, level
        return 1.0, (Caveat.of(CaveatKind.INTERVAL_PUBLISHED, coverage_text(self.name)),)

    def forecast(self, case: Case, estimate: Estimate, question: Question) -> Prediction:
        """Return the forecast with the published interval, of the timing that was measured."""
        found = measured_run(case, self.name)
        estimate = replace(estimate, caveats=(*estimate.caveats, *timing_caveats(found, question.timing)))
        return super().forecast(case, estimate, replace(question, timing=found.run.timing))

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the middle of the three projections, with every ceiling of both GPUs."""
        del timing
        found = measured_run(case, self.name)
        sides = _sides(case)
        levels = project(found.run.seconds, sides.source, sides.target)
        low, high = min(level.seconds for level in levels), max(level.seconds for level in levels)
        terms = _terms(sides.target)
        left_out = taken_as_none(not_counted(found.profile, float_mixes_of(found.profile) or ()))
        return Estimate(
            seconds=(low + high) / 2,
            limiter=max(terms, key=lambda term: term.seconds).name,
            terms=terms,
            low=low,
            high=high,
            caveats=(*sides.caveats, *left_out, *_beyond(levels), *transfer_caveats(case)),
            transfer=Transfer(
                found.run.gpu.name, found.run.gpu.id, found.run.seconds, _figures(found.run.seconds, sides, levels)
            ),
        )


@dataclass(frozen=True, slots=True)
class _Sides:
    source: KernelCeilings
    target: KernelCeilings
    caveats: tuple[Caveat, ...]


@dataclass(frozen=True, slots=True)
class LevelProjection:
    """The projection by one level of memory."""

    level: str
    efficiency: float
    """Perf_s / roof_s, the share of the kernel's roof that the run reached; the same on the target"""
    seconds: float
    """projected time on the target"""


def project(seconds: float, source: KernelCeilings, target: KernelCeilings) -> tuple[LevelProjection, ...]:
    """Return the time on the target by each level that the kernel uses (equation 9, in times).

    Perf_t = Perf_s / roof_s x roof_t and T = FLOP / Perf give T_t = T_s x (FLOP / roof)_t / (FLOP / roof)_s.
    """
    found = []
    for before, after in zip(source.levels, target.levels, strict=True):
        floors = source.floor_s(before), target.floor_s(after)
        if all(floors):
            found.append(LevelProjection(before.level, floors[0] / seconds, seconds * (floors[1] / floors[0])))
    if not found:
        raise MissingEvidenceError(
            "the kernel makes no floating-point operations and moves no bytes", cure="Use another model."
        )
    return tuple(found)


def kernel_rooflines(case: Case) -> tuple[KernelRoofline, KernelRoofline]:
    """Return the kernel under its ceilings on the GPU of the run and on the one to forecast, for pictures.

    A level without bytes is left out; without floating-point operations all rates and intensities are 0.
    """
    found = measured_run(case, Ceilings.name)
    sides = _sides(case)
    times = [level.seconds for level in project(found.run.seconds, sides.source, sides.target)]
    measured = sides.source.flops / found.run.seconds
    low, high = (sides.target.flops / seconds for seconds in (max(times), min(times)))
    source = _kernel_roofline(case.profile.kernel, sides.source, measured, measured)
    return source, replace(_kernel_roofline(case.profile.kernel, sides.target, low, high), is_projected=True)


def _beyond(levels: tuple[LevelProjection, ...]) -> tuple[Caveat, ...]:
    """Return at which levels the run was faster than its roof, which the model does not know."""
    return tuple(
        Caveat.of(CaveatKind.FASTER_THAN_LEVEL, level.level, times=level.efficiency)
        for level in levels
        if level.efficiency > _MOST_EFFICIENT
    )


def _kernel_roofline(kernel: str, side: KernelCeilings, low: float, high: float) -> KernelRoofline:
    maxima = {"l1": side.machine.l1, "l2": side.machine.l2, "dram": side.machine.dram}
    return KernelRoofline(
        kernel=kernel,
        gpu=side.machine.name,
        flops=side.flops,
        max_flops_per_s=side.compute.max_flops_per_s,
        mix_flops_per_s=side.compute.mix_flops_per_s,
        ceiling_flops_per_s=side.compute.ceiling_flops_per_s,
        levels=tuple(
            LevelCeiling(
                level=found.level,
                crossing_bytes=found.crossing_bytes,
                intensity=side.intensity(found),
                max_bytes_per_s=maxima[found.level].rate,
                ceiling_bytes_per_s=found.ceiling_bytes_per_s,
                is_measured=maxima[found.level].is_measured,
                peak_bytes_per_s=maxima[found.level].peak,
            )
            for found in side.levels
            if found.crossing_bytes
        ),
        low_flops_per_s=low,
        high_flops_per_s=high,
        is_projected=False,
        is_compute_measured=side.compute.is_measured,
        peak_flops_per_s=side.compute.peak_flops_per_s,
        precision="+".join(f"FP{bits}" for bits in sorted(side.compute.bits)),
    )


def _terms(side: KernelCeilings) -> tuple[Term, ...]:
    """Return what the arithmetic and each place that data come from would need alone (equations 3 to 5)."""
    terms = (Term("compute", side.compute_s), *(Term(part.name, part.seconds) for part in side.parts))
    return tuple(term for term in terms if term.seconds)


def _figures(measured_s: float, sides: _Sides, projections: tuple[LevelProjection, ...]) -> tuple[Figure, ...]:
    source, target = sides.source, sides.target
    before, after = source.compute, target.compute
    figures = []
    if source.flops:
        figures = [
            Figure("operations", "FLOP", source.flops, target.flops),
            Figure("compute maximum", "FLOP/s", before.max_flops_per_s, after.max_flops_per_s),
            Figure("mix ceiling", "FLOP/s", before.mix_flops_per_s, after.mix_flops_per_s),
            Figure("compute ceiling", "FLOP/s", before.ceiling_flops_per_s, after.ceiling_flops_per_s),
        ]
    pairs = {own.level: (own, other) for own, other in zip(source.levels, target.levels, strict=True)}
    for found in projections:
        own, other = pairs[found.level]
        name = found.level
        figures.append(Figure(f"{name} ceiling", "B/s", own.ceiling_bytes_per_s, other.ceiling_bytes_per_s))
        if own.crossing_bytes and source.flops:
            figures += [
                Figure(f"{name} intensity", "FLOP/B", source.intensity(own), target.intensity(other)),
                Figure(f"{name} roof", "FLOP/s", source.roof(own), target.roof(other)),
            ]
        figures += [
            Figure(f"{name} efficiency", "1", found.efficiency, found.efficiency),
            Figure(f"{name} time", "s", measured_s, found.seconds),
        ]
    return tuple(figures)


def _sides(case: Case) -> _Sides:
    """Return the kernel under its ceilings on both GPUs; raises MissingEvidenceError that names what is missing."""
    found = measured_run(case, Ceilings.name)
    mixes = float_mixes_on_both(case, found.profile)
    own = _demand(found.profile, mixes.source)
    other = own if mixes.target is mixes.source else replace(own, mixes=mixes.target)
    bits = tuple([mix.bits for mix in mixes.source])
    maxima = maxima_of(found.run.gpu, case.gpu, bits, writes_only=_only_writes(found.profile))
    return _Sides(
        _source_ceilings(own, maxima.source), kernel_ceilings(other, maxima.target), (*mixes.caveats, *maxima.caveats)
    )


#: They are the same for many targets.
_source_ceilings = remembered(16)(kernel_ceilings)


@remembered(8)
def _demand(profile: KernelProfile, mixes: tuple[FloatMix, ...]) -> Demand:
    """Return the operations, and what crosses each level; the target is taken to move the same bytes."""
    counts = profile.counts
    wavefronts = counts.get(SHARED_WAVEFRONTS)
    dram = "dram__bytes_read.sum and dram__bytes_write.sum"
    return Demand(
        mixes=mixes,
        active_threads=_active_threads(profile),
        l1_bytes=counted(counts.get(L1_BYTES), "traffic of L1", L1_BYTES, profile),
        shared_bytes=counted(counts.get(SHARED_BYTES), "traffic of shared memory", SHARED_BYTES, profile),
        shared_wavefronts=counted(wavefronts, "cycles of shared memory", SHARED_WAVEFRONTS, profile),
        l2_bytes=counted(counts.first(L2_CROSSING), "traffic of L2", L2_BYTES, profile),
        dram_bytes=counted(counts.first(DRAM_CROSSING), "DRAM traffic", dram, profile),
    )


def _active_threads(profile: KernelProfile) -> float:
    measured = profile.run.active_threads if profile.run else None
    known = present(measured or (profile.mix.active_lanes if profile.mix else 0.0))
    if not known:
        metric = "smsp__thread_inst_executed_per_inst_executed.ratio"
        raise MissingEvidenceError(
            f"the active threads per warp instruction of {profile.kernel} are unknown: {metric} is missing",
            cure=f"Collect it: ncu --metrics {metric} (or --set full), or give the source of this launch.",
        )
    return min(known, WARP_SIZE)


def _only_writes(profile: KernelProfile) -> bool:
    loads = profile.counts.first((GLOBAL_LOAD_REQUESTS, GLOBAL_LOAD_SECTORS))
    stores = profile.counts.first((*GLOBAL_WRITES, *GLOBAL_SECTORS_WRITTEN))
    return loads is not None and stores is not None and not loads.value and stores.value > 0
