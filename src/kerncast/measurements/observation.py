"""NOUN Observation: one measured time of one launch, as evidence for forecasts of others; NOUN TimedKernel."""

from dataclasses import dataclass

from kerncast.caveats import Caveat
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.prediction import Timing


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


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel of which only measured times are known: no source, no counts, and not how it was launched."""

    kernel: str
    index: int
    """zero-based place in its file"""
    times: tuple[Observation, ...]
    caveats: tuple[Caveat, ...] = ()
