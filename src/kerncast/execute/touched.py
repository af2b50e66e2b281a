"""Which sectors of global memory a launch has touched."""

import numpy as np

from kerncast.execute.arena import Arena
from kerncast.execute.dram_rows import PIECE_BYTES, opened_rows
from kerncast.kernel_profile import SECTOR_BYTES
from kerncast.trace import Counts, Footprint


class Touched:
    """One truth value per 32-byte sector of the arena, for reading and for writing."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        # Whole lines, as an engine marks the four sectors of a line at once, and whole pieces of DRAM rows.
        sectors = -(-len(arena.data) // PIECE_BYTES) * (PIECE_BYTES // SECTOR_BYTES)
        self.sectors = sectors
        self.read = np.zeros(sectors, np.bool_)
        self.written = np.zeros(sectors, np.bool_)

    def footprint(self, blocks: int) -> Footprint:
        """Return how many sectors of each allocation were touched by the blocks that have run."""
        counts = (self._per_allocation(m) for m in (self.read, self.written, self.read | self.written))
        return Footprint(blocks, *counts)

    def rows(self) -> tuple[float, float]:
        """Return the rows of DRAM that reading, and that writing what was touched would open."""
        return opened_rows(self.read), opened_rows(self.written)

    def _per_allocation(self, touched: "np.typing.NDArray[np.bool_]") -> Counts:
        bounds = ((a.start // SECTOR_BYTES, -(-(a.start + a.nbytes) // SECTOR_BYTES)) for a in self._arena.allocations)
        return np.array([np.count_nonzero(touched[start:stop]) for start, stop in bounds], np.int64)
