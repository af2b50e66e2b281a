"""The measured run that the published cross-GPU models start from, and what they say of its timing."""

from dataclasses import dataclass

from kerncast.count import Count
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile
from kerncast.models.base import Case
from kerncast.prediction import Timing
from kerncast.source_run import SourceRun
from kerncast.units import MEGA

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


def timing_caveats(found: Measured, timing: Timing) -> tuple[str, ...]:
    """Return how the measured time differs from what is asked for: in what is timed, and in the clock."""
    run = found.run
    caveats = []
    if run.timing is not timing:
        caveats.append(f"the measured time is of timing {run.timing}, and so is the forecast, not {timing}")
    if run.clock_hz is not None and abs(run.clock_hz / run.gpu.clock_hz - 1) > _CLOCK_TOLERANCE:
        caveats.append(
            f"the run was at {run.clock_hz / MEGA:.0f} MHz, the roofs of {run.gpu.name} are for"
            f" {run.gpu.clock_hz / MEGA:.0f} MHz: the published model knows no clock"
        )
    return tuple(caveats)
