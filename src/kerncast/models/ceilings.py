"""Ceilings: a measured run, projected by a roofline of three memory levels with the kernel's own ceilings."""

from dataclasses import dataclass, replace
from typing import ClassVar

from kerncast.architecture import WARP_SIZE
from kerncast.errors import MissingEvidenceError
from kerncast.float_mix import FloatMix
from kerncast.kernel_profile import KernelProfile
from kerncast.kernel_roofline import KernelRoofline, LevelCeiling
from kerncast.models.base import Case, Estimate, Model, Question
from kerncast.models.calibration import coverage_text
from kerncast.models.ceiling_equations import Demand, KernelCeilings, kernel_ceilings
from kerncast.models.demands import float_mixes_of, memory_levels_of, not_counted, taken_as_none
from kerncast.models.machine_maxima import maxima_of
from kerncast.models.measured_run import counted, measured_run, present, timing_caveats
from kerncast.models.special_functions import float_mixes_on_both
from kerncast.models.transfer_checks import transfer_caveats
from kerncast.prediction import Figure, Prediction, Term, Timing, Transfer
from kerncast.remembered import remembered

_INTERVAL = (
    "the interval is the published one: the span of the projections by L1, L2 and DRAM, not widened; of times measured"
    " on pairs of GPUs it held {}"
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
    """the published interval is not widened"""
    uses_measured_run: ClassVar[bool] = True
    uses_caches: ClassVar[bool] = True

    def predict(self, case: Case, question: Question) -> Prediction:
        """Return the forecast with the published interval, of the timing that was measured."""
        found = measured_run(case, self.name)
        estimate = self.estimate(case, found.run.timing)
        profile, gpu = case.profile, case.gpu
        return Prediction(
            kernel=profile.kernel,
            launch=profile.index,
            gpu=gpu.name,
            gpu_id=gpu.id,
            seconds=estimate.seconds,
            low=estimate.low,
            high=estimate.high,
            level=question.level,
            timing=found.run.timing,
            limiter=estimate.limiter,
            terms=estimate.terms,
            caveats=(*profile.caveats, *estimate.caveats, *timing_caveats(found, question.timing), _interval_caveat()),
            model=self.name,
            transfer=estimate.transfer,
        )

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the middle of the three projections, with every ceiling of both GPUs."""
        del timing
        found = measured_run(case, self.name)
        sides = _sides(case)
        levels = project(found.run.seconds, sides.source, sides.target)
        low, high = min(level.seconds for level in levels), max(level.seconds for level in levels)
        terms = _terms(sides.target)
        return Estimate(
            seconds=(low + high) / 2,
            limiter=max(terms, key=lambda term: term.seconds).name,
            terms=terms,
            low=low,
            high=high,
            caveats=(*sides.caveats, *_left_out(found.profile), *_beyond(levels), *transfer_caveats(case)),
            transfer=Transfer(
                found.run.gpu.name, found.run.gpu.id, found.run.seconds, _figures(found.run.seconds, sides, levels)
            ),
        )


def _left_out(profile: KernelProfile) -> tuple[str, ...]:
    return taken_as_none(not_counted(profile, float_mixes_of(profile) or ()))


def _interval_caveat() -> str:
    return _INTERVAL.format(coverage_text(Ceilings.name))


@dataclass(frozen=True, slots=True)
class _Sides:
    source: KernelCeilings
    target: KernelCeilings
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LevelProjection:
    """The projection by one level of memory."""

    level: str
    efficiency: float
    """Perf_s / roof_s: what the run reached of the kernel's roof, the same on the target"""
    seconds: float
    """on the target"""


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


def projected_rate(measured: float, source_roof: float, target_roof: float) -> float:
    """Return Perf_t from Perf_s and the roofs of one level, in FLOP/s (equation 9).

    >>> projected_rate(50e9, 100e9, 300e9) / 1e9
    150.0
    """
    return measured / source_roof * target_roof


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


def _beyond(levels: tuple[LevelProjection, ...]) -> tuple[str, ...]:
    """Return at which levels the run was faster than its roof, which the model does not know."""
    told = [f"{level.level} ({level.efficiency:.3g} times)" for level in levels if level.efficiency > _MOST_EFFICIENT]
    if not told:
        return ()
    return (f"the run is faster than its roof at {', '.join(told)}: the counts or maxima do not fit its time",)


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
    levels = memory_levels_of(profile)
    shared = "smsp__sass_data_bytes_mem_shared.sum"
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
    dram = "dram__bytes_read.sum and dram__bytes_write.sum"
    return Demand(
        mixes=mixes,
        active_threads=_active_threads(profile),
        l1_bytes=counted(levels.l1_bytes, "traffic of L1", "l1tex__t_bytes.sum", profile),
        shared_bytes=counted(levels.shared_bytes, "traffic of shared memory", shared, profile),
        shared_wavefronts=counted(levels.shared_wavefronts, "cycles of shared memory", wavefronts, profile),
        l2_bytes=counted(levels.l2_bytes, "traffic of L2", "lts__t_bytes.sum", profile),
        dram_bytes=counted(levels.dram_bytes, "DRAM traffic", dram, profile),
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
    loads, stores = profile.traffic.global_load_requests, profile.traffic.global_store_requests
    loads = loads if loads is not None else profile.traffic.global_load_sectors
    stores = stores if stores is not None else profile.traffic.global_store_sectors
    return loads is not None and stores is not None and not loads.value and stores.value > 0
