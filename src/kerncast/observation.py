"""NOUN Observation: one measured time of one launch, as evidence for forecasts of others; NOUN TimedKernel."""

from dataclasses import dataclass

from kerncast.caveats import Caveat
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.prediction import Timing

#: No measurement is more exact: variance of ln(time).
LEAST_VARIANCE = 0.001**2
#: Part of a time that is left at least when its launch is taken off.
LEAST_BODY = 0.1


@dataclass(frozen=True, slots=True)
class Observation:
    """A time that somebody measured."""

    gpu: GPU
    seconds: float
    """mean or median of the runs"""
    launch: int | None = None
    """zero-based number of the launch among those that are forecast; None: the only one, or the kernel's only one"""
    kernel: str | None = None
    """name of the kernel; None where the number of the launch is enough"""
    spread_seconds: float | None = None
    """standard deviation of the runs; None where unknown"""
    timing: Timing | None = None
    """kind of the time; None: the kind that is forecast"""
    other: Launch | None = None
    """launch that was timed, where it is none of those that are forecast"""
    caveats: tuple[Caveat, ...] = ()
    """assumptions about the GPU's name"""
    where: str = "--measured"
    """place of the time, for messages"""

    def log_variance(self, usual: float) -> float:
        """Return the variance of ln(time); the usual one where the spread of the runs is unknown."""
        return usual if self.spread_seconds is None else (self.spread_seconds / self.seconds) ** 2

    def tells_clock(self, gpu: GPU) -> bool:
        """Whether the clock that it was measured at is known, and that of this GPU."""
        return self.gpu.id == gpu.id and self.gpu.clock_hz == gpu.clock_hz and self.gpu.clock_tensor_hz is None

    def seconds_without(self, overhead_s: float) -> float:
        """Return the time without so much of a launch; a tenth of it is left at least."""
        return max(self.seconds - overhead_s, LEAST_BODY * self.seconds)


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel of which only measured times are known: no source, no counts, and not how it was launched."""

    kernel: str
    index: int
    """zero-based place in its file"""
    times: tuple[Observation, ...]
    caveats: tuple[Caveat, ...] = ()
