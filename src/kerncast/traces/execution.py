"""NOUN Execution: what running some blocks of a launch has told, gathered before a model times it."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.traces.recording import SMTrace
from kerncast.traces.trace import Counts, Trace

Kind = Literal["read", "written", "either"]
#: A rate is the growth from this part of the blocks to as many times them: a steeper one would show every row of a
#: grid, a wider one would blur where reuse begins.
_AROUND = 1.5


@dataclass(frozen=True, slots=True)
class Touches:
    """Distinct 32-byte sectors of a whole launch."""

    read: float
    written: float
    either: float

    def of(self, kind: Kind) -> float:
        """Return those of one kind."""
        return {"read": self.read, "written": self.written, "either": self.either}[kind]


@dataclass(frozen=True, slots=True)
class FootprintCurve:
    """Distinct 32-byte sectors of global memory that blocks with consecutive numbers touch, per allocation."""

    blocks: Counts
    """[n] how many blocks, growing from one"""
    read: Counts
    """[n, allocations] sectors that a load or an atomic touched"""
    written: Counts
    """[n, allocations] sectors that a store or an atomic touched"""
    either: Counts
    """[n, allocations]"""
    allocation_sectors: Counts
    """[allocations] how many there are"""
    grid_blocks: int
    total: Touches | None = None
    """Sectors of the whole launch; None where no sample of its blocks tells them."""
    rows: npt.NDArray[np.float64] | None = None
    """[n, 2] rows of DRAM that reading and that writing these sectors would open; None where nobody counted"""

    @property
    def is_whole_grid(self) -> bool:
        """Whether the last point is the whole grid."""
        return int(self.blocks[-1]) == self.grid_blocks

    def sectors(self, blocks: float, kind: Kind) -> float:
        """Return the sectors that so many blocks touch: between two points a power of the blocks.

        Beyond the last point it grows on as over the second half of the points, and a little faster where that would
        not meet the total at the end of the grid. Fails when: what blocks share lies further apart than the blocks
        that were counted, and there is no total.
        """
        blocks, last = min(blocks, self.grid_blocks), int(self.blocks[-1])
        found = self._counted(kind)
        if blocks <= last:
            return float(_between(self.blocks, found, blocks).sum())
        grown, seen = float(self._beyond(found, blocks).sum()), float(found[-1].sum())
        if self.total is None:
            return grown
        total = max(seen, self.total.of(kind))
        at_end = float(self._beyond(found, self.grid_blocks).sum())
        if not at_end:
            return total * (blocks - last) / (self.grid_blocks - last)
        reached = math.log(blocks / last) / math.log(self.grid_blocks / last)
        return min(total, grown * math.pow(max(1.0, total / at_end), reached))

    def sectors_per_row(self, blocks: float, kind: Literal["read", "written"]) -> float:
        """Return the sectors of each row of DRAM that is opened, where so many blocks, at least one, run side by side.

        Infinite where nobody counted rows.
        """
        if self.rows is None:
            return math.inf
        point = max(0, int(np.searchsorted(self.blocks, blocks, side="right")) - 1)
        opened = float(self.rows[point, 0 if kind == "read" else 1])
        return float(self._counted(kind)[point].sum()) / opened if opened else math.inf

    def blocks_for(self, sectors: float, kind: Kind) -> int:
        """Return how many of the counted blocks, at least one, touch no more sectors than this."""
        touched = self._counted(kind).sum(axis=1)
        return int(self.blocks[max(0, int(np.searchsorted(touched, sectors, side="right")) - 1)])

    def rate(self, blocks: float, kind: Kind) -> float:
        """Return the new sectors that a further block touches after so many blocks, at least one."""
        blocks = max(1.0, blocks)
        high = min(blocks * _AROUND, float(self.grid_blocks))
        low = min(blocks / _AROUND, high / _AROUND)
        return (self.sectors(high, kind) - self.sectors(low, kind)) / (high - low)

    def _counted(self, kind: Kind) -> Counts:
        return {"read": self.read, "written": self.written, "either": self.either}[kind]

    def _beyond(self, found: Counts, blocks: float) -> npt.NDArray[np.float64]:
        """Return [allocations] the sectors of more blocks than were counted, by the power of the second half."""
        last = int(self.blocks[-1])
        half = int(np.argmin(np.abs(self.blocks - last / 2)))
        exponents = np.ones(found.shape[1])
        if self.blocks[half] < last:
            growth = np.log(np.maximum(found[-1], 1) / np.maximum(found[half], 1)) / np.log(last / self.blocks[half])
            exponents = np.where(found[half] > 0, np.minimum(growth, 1.0), 1.0)
        return np.asarray(np.minimum(self.allocation_sectors, found[-1] * (blocks / last) ** exponents))


def _between(counted: Counts, found: Counts, blocks: float) -> npt.NDArray[np.float64]:
    """Return [allocations] the sectors of no more blocks than were counted."""
    after = int(np.searchsorted(counted, blocks, side="left"))
    if not after:
        return np.asarray(found[0] * max(0.0, blocks) / counted[0])
    few, many = float(counted[after - 1]), float(counted[after])
    low, high = found[after - 1], found[after]
    exponent = math.log(blocks / few) / math.log(many / few)
    power = low * (high / np.maximum(low, 1)) ** exponent
    return np.asarray(np.where(low > 0, power, high * (blocks - few) / (many - few)))


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
