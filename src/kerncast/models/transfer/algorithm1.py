"""Algorithm 1 of the cross-GPU report: a measured time moves with the roofline and the occupancy."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.base import Case, Estimate, Model, Question
from kerncast.models.transfer.checks import Roofs, transfer_caveats
from kerncast.models.transfer.measured_run import (
    Measured,
    counted,
    float_mixes_of,
    measured_run,
    not_counted,
    occupancy_on,
    present,
    taken_as_none,
    timing_caveats,
)
from kerncast.occupancy import BlockRequest, block_request_of
from kerncast.prediction import Figure, Prediction, Term, Timing, Transfer
from kerncast.profiles import Count, KernelProfile, Origin
from kerncast.profiles.counts import DRAM_CROSSING, FLOPS
from kerncast.units import GIGA

#: Efficiencies above it are told; a measured maximum is sometimes exceeded by so much.
_MOST_EFFICIENT = 1.05
_FP32_METRICS, _FP64_METRICS = (
    " and ".join(f"smsp__sass_thread_inst_executed_op_{letter}{name}_pred_on.sum" for name in ("add", "mul", "fma"))
    for letter in "fd"
)


class Algorithm1(Model):
    """T_tgt = T_src x Roof_src / Roof_tgt x O_src / O_tgt: the efficiency eta = P / (O x Roof) stays the same.

    Without floating-point operations Roof is the bandwidth, else min(C, FLOPs / Bytes x BW); O is the theoretical
    occupancy; C a large matrix product and BW a copy where both GPUs have one measured, else peaks of both.

    Source: Srivastava, Naha, Gupta, Rao, "Cross-GPU Performance Prediction Using Analytical Models and Machine
    Learning", Algorithm 1, sections 4.1 to 5.5. Fails when: one of the assumptions of section 5.5 does not hold, which
    ``transfer_checks`` tells; above all where occupancy is not what limits the kernel.

    A copy of 541 MB took 1.25 ms on the RTX 2080 Ti, which copies 541 GB/s; the TITAN V copies 609.8 GB/s. Blocks of
    256 threads with 16 registers fill both: eta = 432.8 / 541 = 0.8, and 541 MB / (0.8 x 609.8 GB/s) = 1.1090 ms.

    >>> from dataclasses import replace
    >>> from kerncast.gpu.gpu import load_gpu
    >>> from kerncast.profiles.kernel_profile import Resources
    >>> from kerncast.read.declared import declared_profile
    >>> from kerncast.profiles.kernel_profile import SourceRun
    >>> kernel = declared_profile("copy", (8192, 1, 1), (256, 1, 1), fp32_flops=0, dram_bytes=541e6)
    >>> kernel = replace(kernel, resources=Resources("sm_75", 16, 0, 0, 0, 0, 0, 0, None))
    >>> measured = replace(kernel, run=SourceRun(load_gpu("RTX 2080 Ti"), 1.25e-3, Timing.SERIES))
    >>> found = Algorithm1().estimate(Case(kernel, load_gpu("TITAN V"), None, measured), Timing.SERIES)
    >>> print(f"{found.seconds * 1e3:.4f} ms", round(found.transfer.figure("efficiency").source, 3))
    1.1090 ms 0.8
    """

    name: ClassVar[str] = "algorithm1"
    log_sigma: ClassVar[float] = 0.45
    """round figure; serves only without ``data/calibration/algorithm1.toml``"""
    uses_measured_run: ClassVar[bool] = True

    def other_generation(self, case: Case, factor: float) -> Caveat | None:
        """Return that the time is of another generation, wherever the counts are from; None within one."""
        gpu = measured_run(case, self.name).run.gpu
        if _same_generation(gpu, case.gpu):
            return None
        return Caveat.of(CaveatKind.TIME_OF_OTHER_GENERATION, gpu.compute_capability, factor=factor)

    def error_factor(self, case: Case, estimate: Estimate, level: float) -> tuple[float, tuple[Caveat, ...]]:
        """Return the factor of the model's error; 1 for the GPU that was measured, at the clock that it has there."""
        measured = measured_run(case, self.name).run.gpu
        if measured.id == case.gpu.id and measured.clock_hz == case.gpu.clock_hz:
            return 1.0, (Caveat.of(CaveatKind.TIME_AS_MEASURED, measured.name),)
        return super().error_factor(case, estimate, level)

    def predict(self, case: Case, question: Question) -> Prediction:
        """Return the forecast, of the timing that was measured."""
        timing = measured_run(case, self.name).run.timing
        found = super().predict(case, replace(question, timing=timing))
        return replace(found, caveats=(*found.caveats, *timing_caveats(measured_run(case, self.name), question.timing)))

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the time on the target, with O, eta and the roofs of both GPUs."""
        del timing
        found = measured_run(case, self.name)
        shares, occupancy_notes = occupancies(case)
        roofs, roof_notes = roofs_of(found)
        measured = roofs.work / found.run.seconds
        eta = efficiency(measured, shares[0], roofs.source)
        seconds = target_seconds(roofs.work, eta, shares[1], roofs.target)
        by_compute = _by_compute(found, roofs, shares) if _is_work_unknown(found.profile) else seconds
        terms = (Term("compute", roofs.compute_s[1]), Term("dram", roofs.dram_s[1]))
        return Estimate(
            seconds=seconds,
            limiter=max(terms, key=lambda term: term.seconds).name,
            terms=tuple(term for term in terms if term.seconds),
            low=min(seconds, by_compute),
            high=max(seconds, by_compute),
            caveats=(
                *occupancy_notes,
                *roof_notes,
                *_beyond(eta, measured / roofs.source),
                *transfer_caveats(case, roofs),
            ),
            transfer=Transfer(
                found.run.gpu.name,
                found.run.gpu.id,
                found.run.seconds,
                (
                    Figure("occupancy", "1", *shares),
                    Figure("efficiency", "1", eta, eta),
                    Figure("roof", roofs.unit, roofs.source, roofs.target),
                    Figure("achieved", roofs.unit, measured, roofs.work / seconds),
                    Figure("compute maximum", "FLOP/s", *roofs.flops_per_s),
                    Figure("dram maximum", "B/s", *roofs.bytes_per_s),
                ),
            ),
        )


def efficiency(measured: float, occupied: float, roof: float) -> float:
    """Return eta = measured / (O x roof), in FLOP/s or B/s (lines 6 and 13; equations 7 and 11).

    >>> efficiency(0.45e12, 0.75, 1e12)
    0.6
    """
    return measured / (occupied * roof)


def target_seconds(work: float, eta: float, occupied: float, roof: float) -> float:
    """Return T_tgt = work / (eta x O x roof), of FLOPs or bytes (lines 7 and 14; equations 8 and 12).

    >>> target_seconds(1e9, 0.5, 0.5, 4e12)
    0.001
    """
    return work / (eta * occupied * roof)


def _beyond(eta: float, of_roof: float) -> tuple[Caveat, ...]:
    """Return why an efficiency above 1, which the model does not know, is one."""
    if eta <= _MOST_EFFICIENT:
        return ()
    if of_roof > _MOST_EFFICIENT:
        return (Caveat.of(CaveatKind.FASTER_THAN_ROOF, times=of_roof),)
    return (Caveat.of(CaveatKind.EFFICIENCY_ABOVE_ONE, efficiency=eta),)


def occupancies(case: Case) -> tuple[tuple[float, float], tuple[Caveat, ...]]:
    """Return O of the source and of the target, and what had to be assumed."""
    found = measured_run(case, Algorithm1.name)
    requests = block_request_of(found.profile), block_request_of(case.profile)
    gpus = found.run.gpu, case.gpu
    if requests[0] is not None and requests[1] is not None:
        same = found.profile.resources is not case.profile.resources or _same_generation(*gpus)
        notes = () if same else (Caveat.of(CaveatKind.REGISTERS_TAKEN_AS_SAME),)
        return (occupancy_on(requests[0], gpus[0]).fraction, occupancy_on(requests[1], gpus[1]).fraction), notes
    achieved = present(found.run.achieved_occupancy or 0.0)
    if not achieved:
        raise MissingEvidenceError(
            f"neither the registers of {found.profile.kernel} nor its achieved occupancy are known",
            cure="Collect launch__registers_per_thread or sm__warps_active.avg.pct_of_peak_sustained_active"
            " (ncu --set full), or give the source of this launch.",
        )
    threads = BlockRequest(math.prod(case.profile.block), 0, 0, case.profile.shared_bytes, 0)
    bounds = occupancy_on(threads, gpus[0]).fraction, occupancy_on(threads, gpus[1]).fraction
    share = min(1.0, achieved * bounds[1] / bounds[0])
    return (achieved, share), (Caveat.of(CaveatKind.REGISTERS_UNKNOWN),)


def _same_generation(one: GPU, other: GPU) -> bool:
    return one.architecture.number // 10 == other.architecture.number // 10


@dataclass(frozen=True, slots=True)
class _Flops:
    """Operations by precision."""

    fp16: float
    fp32: float
    fp64: float

    @property
    def total(self) -> float:
        return self.fp16 + self.fp32 + self.fp64


def roofs_of(found: Measured) -> tuple[Roofs, tuple[Caveat, ...]]:
    """Return the roofline of the kernel on both GPUs, and by which maxima; raises MissingEvidenceError."""
    flops = _flops_of(found.profile)
    profile = found.profile
    dram = profile.counts.first(DRAM_CROSSING)
    nbytes = counted(dram, "DRAM traffic", "dram__bytes_read.sum and dram__bytes_write.sum", profile)
    if not flops.total and not nbytes:
        raise MissingEvidenceError(
            f"{profile.kernel} makes no floating-point operations and moves no bytes to or from DRAM",
            cure="Use another model.",
        )
    bandwidths, bandwidth_note = _bandwidths(found.run.gpu, found.target)
    rates, notes = _compute_rates(flops, found.run.gpu, found.target)
    unknown = (Caveat.of(CaveatKind.OPERATIONS_UNKNOWN),)
    none = unknown if _is_work_unknown(profile) else taken_as_none(not_counted(profile))
    return Roofs(flops.total, nbytes, rates, bandwidths), (bandwidth_note, *notes, *none)


def _is_work_unknown(profile: KernelProfile) -> bool:
    """Return whether a profiler counted no operations, but bytes that cross DRAM."""
    is_counted = profile.counts.first(FLOPS.values()) is not None or float_mixes_of(profile) is not None
    dram = profile.counts.first(DRAM_CROSSING)
    return profile.origin is Origin.PROFILED and not is_counted and dram is not None and present(dram.value) > 0


def _by_compute(found: Measured, roofs: Roofs, shares: tuple[float, float]) -> float:
    """Return the time on the target if FP32 arithmetic were the roof on both: whatever FLOPs is, Roof moves between."""
    (source, target) = roofs.flops_per_s
    return found.run.seconds * (source / target) * (shares[0] / shares[1])


def _flops_of(profile: KernelProfile) -> _Flops:
    if _is_work_unknown(profile):
        return _Flops(0.0, 0.0, 0.0)
    counts = [profile.counts.get(name) for name in FLOPS.values()]
    mixes = float_mixes_of(profile)
    if mixes is not None and counts[1] is None:
        counts = [next((m.flops for m in mixes if m.bits == bits), Count.exact(0)) for bits in (16, 32, 64)]
    fp32 = counted(counts[1], "FP32 work", _FP32_METRICS, profile)
    if not fp32 and "FP64" in not_counted(profile):  # then the roof would be the bandwidth, whatever it computes
        counted(None, "FP64 work", _FP64_METRICS, profile)
    others = [present(count.value) if count else 0.0 for count in (counts[0], counts[2])]
    return _Flops(others[0], fp32, others[1])


def _bandwidths(source: GPU, target: GPU) -> tuple[tuple[float, float], Caveat]:
    """Return BW of both GPUs, of the same kind: what a copy sustains, else the peaks."""
    of_source, of_target = source.dram_rate, target.dram_rate
    if of_source is None or of_target is None:
        peaks = Caveat.of(CaveatKind.BANDWIDTH_MAXIMUM, measure="data-sheet peaks")
        return (source.dram_bytes_per_s, target.dram_bytes_per_s), peaks
    guessed = [gpu.name for gpu, rate in ((source, of_source), (target, of_target)) if not rate.is_measured]
    measure = "what a copy sustains"
    caveat = Caveat.of(CaveatKind.BANDWIDTH_MAXIMUM, measure=measure)
    if guessed:
        caveat = Caveat.of(CaveatKind.BANDWIDTH_MAXIMUM_USUAL, " and ".join(guessed), measure=measure)
    return (of_source.bytes_per_s, of_target.bytes_per_s), caveat


_Rate = Callable[[GPU], float | None]

#: By precision, the best kind first; the first that both GPUs have is taken.
_MATRIX_PRODUCT: tuple[tuple[str, _Rate], ...] = (
    ("a large cuBLAS matrix product", lambda gpu: gpu.sgemm_flops_per_s),
    ("a large matrix product", lambda gpu: _fact(gpu, "sustained.matrix_product_gflops")),
    ("sustained fused multiply-adds", lambda gpu: gpu.sustained_fp32_flops_per_s),
)
_FP64: tuple[tuple[str, _Rate], ...] = (
    ("sustained fused multiply-adds", lambda gpu: gpu.sustained_fp64_flops_per_s),
)  # fmt: skip


def _fact(gpu: GPU, key: str) -> float | None:
    found = gpu.fact(key)
    return found.value * GIGA if found is not None and isinstance(found.value, int | float) else None


def _compute_rates(flops: _Flops, source: GPU, target: GPU) -> tuple[tuple[float, float], tuple[Caveat, ...]]:
    """Return C of both GPUs for the kernel's precisions: their operations over the sum of their times."""
    parts = [
        ("FP16", flops.fp16, (), lambda gpu: gpu.peak_fp16_flops_per_s or gpu.peak_fp32_flops_per_s),
        ("FP32", flops.fp32, _MATRIX_PRODUCT, lambda gpu: gpu.peak_fp32_flops_per_s),
        ("FP64", flops.fp64, _FP64, lambda gpu: gpu.peak_fp64_flops_per_s),
    ]
    seconds, notes = [0.0, 0.0], []
    used = [part for part in parts if part[1]]
    for name, amount, kinds, peak in used:
        rates, kind = _same_kind(kinds, peak, source, target)
        seconds[0] += amount / rates[0]
        seconds[1] += amount / rates[1]
        notes.append(Caveat.of(CaveatKind.COMPUTE_MAXIMUM, name, measure=kind))
    if len(used) > 1:
        notes.append(Caveat.of(CaveatKind.PRECISIONS_IN_TURN, " and ".join(part[0] for part in used)))
    if not used:
        return (source.peak_fp32_flops_per_s, target.peak_fp32_flops_per_s), ()
    return (flops.total / seconds[0], flops.total / seconds[1]), tuple(notes)


def _same_kind(
    kinds: tuple[tuple[str, _Rate], ...], peak: Callable[[GPU], float], source: GPU, target: GPU
) -> tuple[tuple[float, float], str]:
    for name, rate in kinds:
        of_source, of_target = rate(source), rate(target)
        if of_source and of_target:
            return (of_source * _clock(source), of_target * _clock(target)), name
    return (peak(source), peak(target)), "data-sheet peaks, as no sustained rate is known of both"


def _clock(gpu: GPU) -> float:
    """Return the clock asked for over that of the measurement."""
    return gpu.clock_hz / gpu.default_clock_hz
