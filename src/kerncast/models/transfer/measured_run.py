"""The measured run that a transfer starts from, and what its kernel asks of memory and of the pipes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError, Refusal
from kerncast.gpu import GPU
from kerncast.models.base import Case
from kerncast.occupancy import BlockRequest, Occupancy, occupancy, why_not
from kerncast.prediction import Timing
from kerncast.profiles import Count, FloatMix, KernelProfile, Origin, SourceRun
from kerncast.profiles.counts import FLOPS

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
            f"{model} needs a time of {case.profile.kernel} measured on another GPU",
            cure='Give --measured "GPU=TIME", or a profile.',
        )
    return Measured(source, source.run, case.gpu)


def occupancy_on(request: BlockRequest, gpu: GPU) -> Occupancy:
    """Return the blocks that an SM of a GPU holds; raises Refusal where not even one fits."""
    found = occupancy(request, gpu.architecture)
    if not found.blocks_per_sm:
        reason = why_not(request, gpu.architecture) or "not even one block fits"
        raise Refusal(f"this launch cannot run on {gpu.name}: {reason}", cure="Change the launch.")
    return found


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


_WIDTHS = (16, 32, 64)


def float_mixes_of(profile: KernelProfile) -> tuple[FloatMix, ...] | None:
    """Return a mix per precision that occurs: as a profiler counted it, else from the executed PTX; None if unknown.

    PTX divides and takes roots in one instruction where machine code has a sequence: these are not in it.
    """
    profiled = [FloatMix.of(bits, profile.counts) for bits in _WIDTHS]
    occurring = tuple(mix for mix in profiled if mix is not None and mix.flops.high)
    if occurring or None not in profiled[1:]:  # profilers often cannot count FP16
        return occurring
    if profile.mix is None:
        return None
    mixes = []
    for bits in _WIDTHS:
        of_width = [kind for kind in profile.mix.kinds if kind.kind.endswith(f".f{bits}")]
        sums = [
            sum((kind.thread_instructions for kind in of_width if kind.kind.split(".")[0] in roots), Count.exact(0.0))
            for roots in (("add", "sub"), ("mul",), ("fma", "mad"))
        ]
        if any(count.high for count in sums):
            mixes.append(FloatMix(bits, *sums))
    return tuple(mixes)


def not_counted(profile: KernelProfile, mixes: Iterable[FloatMix] | None = None) -> tuple[str, ...]:
    """Return the precisions of a profiler's profile whose operations are unknown; with mixes, or are in none of them.

    Counts that somebody declared or an executor made are whole.
    """
    if profile.origin is not Origin.PROFILED:
        return ()
    mixed = None if mixes is None else {mix.bits for mix in mixes}
    counts = [(bits, profile.counts.get(name)) for bits, name in FLOPS.items()]
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
