"""NOUN Execution: what running some blocks of a launch has told, gathered before a model times it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kerncast.traces.footprint import FootprintCurve
from kerncast.traces.recording import SMTrace
from kerncast.traces.trace import Trace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SMRecording:
    """What a simulation of one SM needs beyond the counts of a sample."""

    blocks: SMTrace
    """the blocks that one SM gets, in detail"""
    footprint: FootprintCurve
    side_by_side: SMTrace | None = None
    """two blocks with consecutive numbers; None where nothing asks for them, or they cannot run by themselves"""
    longest: SMTrace | None = None
    """the longest block of the grid; None where the recorded ones last about as long"""


@dataclass(frozen=True, slots=True)
class Execution:
    """One launch after a sample of its blocks has run."""

    trace: Trace
    weights: Floats
    """[n] how many blocks of the grid each block of the sample stands for"""
    is_independent: bool
    """whether no block may read what another one has written"""
    sm: SMRecording | None = None
    """None where no simulation is asked for"""

    @property
    def grid_blocks(self) -> int:
        """Number of blocks of the grid."""
        return round(float(self.weights.sum()))

    def mean(self, per_block: npt.NDArray[np.float64]) -> float:
        """Return the mean over the grid of values [n] of the blocks that ran."""
        return float(self.weights @ per_block) / self.grid_blocks


class Recorder(Protocol):
    """Runs further blocks of a launch whose sample has run, and writes down what they do.

    Each method raises the Refusals that running blocks raises.
    """

    def execution(self) -> Execution:
        """Return the sample."""

    def footprint(self) -> FootprintCurve:
        """Return how many distinct sectors growing groups of neighbouring blocks touch."""

    def sm_blocks(self, sms: int, blocks: int) -> SMTrace:
        """Record so many of the blocks that one of ``sms`` SMs gets, fewer where they make too many events."""

    def block(self, number: int) -> SMTrace:
        """Record one block of the grid."""
