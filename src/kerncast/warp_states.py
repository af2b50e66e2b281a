"""NOUN WarpStates: what the warps of a launch wait for on one GPU, and at which source lines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateCycles:
    """How long warps were in one state."""

    state: str
    """after Nsight Compute's warp states: selected, not_selected, wait, short_scoreboard, long_scoreboard, barrier,
    math_pipe_throttle, lg_throttle, mio_throttle, branch_resolving"""
    warp_cycles: float


@dataclass(frozen=True, slots=True)
class LineStates:
    """How long warps were in which state at the instructions of one line of the user's source."""

    file: str
    line: int
    states: tuple[StateCycles, ...]
    """those that occurred, longest first"""

    @property
    def warp_cycles(self) -> float:
        """Cycles in all states."""
        return sum(each.warp_cycles for each in self.states)


@dataclass(frozen=True, slots=True)
class ResourceTime:
    """What one resource alone would need for the whole launch."""

    resource: str
    share: float
    """of the time of the launch; near 1, the resource decides"""


@dataclass(frozen=True, slots=True)
class WarpStates:
    """What the warps of one SM of a GPU wait for, from a simulation of some of its blocks."""

    gpu: str
    """id"""
    seconds: float
    """of the whole launch, as a profiler would time it"""
    cycles: float
    """of the whole launch"""
    blocks_simulated: int
    simulated_cycles: float
    schedulers: int
    """of the SM"""
    issued: int
    """machine instructions"""
    states: tuple[StateCycles, ...]
    """all of them, selected first"""
    lines: tuple[LineStates, ...]
    """at which a warp was, in the order of files and lines; line 0 of no file is what the PTX names no line for"""
    resources: tuple[ResourceTime, ...]
    """those in use, busiest first"""

    @property
    def warp_cycles(self) -> float:
        """Cycles in all states."""
        return sum(each.warp_cycles for each in self.states)
