"""The measured run that a transfer starts from, and what its kernel asks of memory and of the pipes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.models.base import Case
from kerncast.prediction import Timing
from kerncast.profiles import SECTOR_BYTES, Count, FloatMix, KernelProfile, MemoryLevels, Origin, SourceRun

# The measured run that the published cross-GPU models start from, and what they say of its timing.


#: A run's clock that is further from the GPU's is told.
_CLOCK_TOLERANCE = 0.03
#: Counts are of whole events: less than this, in a launch, is none.
LEAST_COUNT = 1e-5


@dataclass(frozen=True, slots=True)
class Measured:
    """A run with the profile of its kernel on the GPU that it was measured on."""

    profile: KernelProfile
    run: SourceRun
    target: GPU


def measured_run(case: Case, model: str) -> Measured:
    """Return the measured run of a case; raises MissingEvidenceError without one."""
    source = case.source
    if source is None or source.run is None:
        raise MissingEvidenceError(
            f"{model} needs a time of {case.profile.kernel} that was measured on another GPU",
            cure='Give --measured "GPU=TIME", or a profile.',
        )
    return Measured(source, source.run, case.gpu)


def counted(count: Count | None, what: str, metrics: str, profile: KernelProfile) -> float:
    """Return a count's value; raises MissingEvidenceError that names the profiler's metrics for it."""
    if count is None:
        raise MissingEvidenceError(
            f"{what} of {profile.kernel} is unknown: {metrics} is missing",
            cure=f"Collect it: ncu --metrics {metrics.replace(' and ', ',')} (or --set full), or give the source of"
            " this launch.",
        )
    return present(count.value)


def present(value: float) -> float:
    """Return a count, or 0 where it is so small that there is nothing: divisions by it would only overflow.

    >>> present(3.0), present(1e-300)
    (3.0, 0.0)
    """
    return value if value >= LEAST_COUNT else 0.0


def timing_caveats(found: Measured, timing: Timing) -> tuple[Caveat, ...]:
    """Return how the measured time differs from what is asked for: in what is timed, and in the clock."""
    run = found.run
    caveats = []
    if run.timing is not timing:
        caveats.append(Caveat.of(CaveatKind.TIMING_OF_RUN, measured=run.timing, asked=timing))
    if run.clock_hz is not None and abs(run.clock_hz / run.gpu.clock_hz - 1) > _CLOCK_TOLERANCE:
        caveats.append(Caveat.of(CaveatKind.CLOCK_OF_RUN, run.gpu.name, run_hz=run.clock_hz, gpu_hz=run.gpu.clock_hz))
    return tuple(caveats)


# What a kernel asks of memory and of the FP pipes: as a profiler counted it, else from what was executed.


_READ_AND_WRITTEN = 2


def memory_levels_of(profile: KernelProfile) -> MemoryLevels:
    """Return the bytes at each level: as a profiler counted them, else from what was executed and from its caches."""
    if profile.levels is not None:
        return profile.levels
    asked = [access for access in profile.accesses if access.space in {"global", "local"}]
    shared = [access for access in profile.accesses if access.space == "shared"]
    is_executed = profile.mix is not None and profile.sampling is not None
    return MemoryLevels(
        l1_bytes=_sum(access.sectors.times(SECTOR_BYTES) for access in asked) if is_executed else None,
        shared_bytes=_sum(access.nbytes for access in shared) if is_executed else None,
        shared_wavefronts=_sum(access.wavefronts for access in shared) if is_executed else None,
        l2_bytes=_l2_bytes(profile),
        dram_bytes=_dram_bytes(profile),
    )


def _l2_bytes(profile: KernelProfile) -> Count | None:
    caches = profile.caches
    if caches is None:
        return None
    atomics = caches.l2_atomic_sectors.times(_READ_AND_WRITTEN)
    return (caches.l2_read_sectors + caches.l2_write_sectors + atomics).times(SECTOR_BYTES)


def _dram_bytes(profile: KernelProfile) -> Count | None:
    caches = profile.caches
    if caches is None:
        return profile.traffic.dram_bytes
    return (caches.dram_read_sectors + caches.dram_write_sectors).times(SECTOR_BYTES)


def float_mixes_of(profile: KernelProfile) -> tuple[FloatMix, ...] | None:
    """Return a mix per precision that occurs: as a profiler counted it, else from the executed PTX; None if unknown.

    PTX divides and takes roots in one instruction where machine code has a sequence: these are not in it.
    """
    if profile.float_mixes is not None:
        return profile.float_mixes
    if profile.mix is None:
        return None
    mixes = []
    for bits in (16, 32, 64):
        of_width = [kind for kind in profile.mix.kinds if kind.kind.endswith(f".f{bits}")]
        sums = [
            _sum(kind.thread_instructions for kind in of_width if kind.kind.split(".")[0] in roots)
            for roots in (("add", "sub"), ("mul",), ("fma", "mad"))
        ]
        if any(count.high for count in sums):
            mixes.append(FloatMix(bits, *sums))
    return tuple(mixes)


def not_counted(profile: KernelProfile, mixes: Iterable[FloatMix] | None = None) -> tuple[str, ...]:
    """Return the precisions of a profiler's profile whose operations are unknown; with mixes, or are in none of them.

    Counts that somebody declared or an executor made are whole.
    """
    work = profile.work
    if work.origin is not Origin.PROFILED:
        return ()
    mixed = None if mixes is None else {mix.bits for mix in mixes}
    counts = (16, work.fp16_flops), (32, work.fp32_flops), (64, work.fp64_flops)
    return tuple(
        f"FP{bits}"
        for bits, count in counts
        if (mixed is None or bits not in mixed) and (count is None or (mixed is not None and count.value))
    )


def taken_as_none(names: Sequence[str]) -> tuple[Caveat, ...]:
    """Return the caveat for precisions that are not counted.

    >>> taken_as_none(("FP32", "FP64"))[0].subject
    'FP32 and FP64'
    """
    return (Caveat.of(CaveatKind.OPERATIONS_TAKEN_AS_NONE, " and ".join(names)),) if names else ()


def _sum(counts: Iterable[Count]) -> Count:
    return sum(counts, Count.exact(0.0))
