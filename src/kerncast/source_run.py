"""NOUN SourceRun: one run of a kernel on a GPU that is at hand, timed or profiled; other GPUs are forecast from it."""

from dataclasses import dataclass

from kerncast.gpu import GPU
from kerncast.prediction import Timing
from kerncast.tuning import Settings


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A measured time, and what else a profiler told of the run."""

    gpu: GPU
    seconds: float
    timing: Timing
    """what was timed: a profiler gives the kernel's own duration"""
    achieved_occupancy: float | None = None
    """resident warps over the most that an SM holds, 0 to 1, mean over active cycles"""
    active_threads: float | None = None
    """per warp instruction, 0 to 32"""
    clock_hz: float | None = None
    """of the SMs during the run"""
    not_in_profile: tuple[str, ...] = ()
    """what the profile lacks and the executor counted instead"""
    settings: Settings = ()
    """a tuner's parameters that the kernel was compiled with"""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"{self.seconds} s is no time")
