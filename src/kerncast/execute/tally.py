"""Counts of a running batch, per block and instruction."""

import numpy as np
import numpy.typing as npt

from kerncast.execute.arena import SECTOR_BYTES, Arena
from kerncast.execute.layout import Program
from kerncast.execute.memory import Accessed
from kerncast.execute.threads import WARP_LANES, Threads
from kerncast.trace import Counts, Footprint

Index = npt.NDArray[np.intp]


class Tally:
    """Adds up what the blocks of a launch do; one row per executed block."""

    def __init__(self, program: Program, arena: Arena, blocks: int) -> None:
        shape = (blocks, len(program.function.instructions))
        self.warp_executions: Counts = np.zeros(shape, np.int64)
        self.thread_executions: Counts = np.zeros(shape, np.int64)
        self.requests: Counts = np.zeros(shape, np.int64)
        self.sectors: Counts = np.zeros(shape, np.int64)
        self.divergent_branches: Counts = np.zeros(blocks, np.int64)
        self.footprints: list[Footprint] = []
        self.printed = False
        self.finished = 0
        self._arena = arena
        sectors = -(-len(arena.data) // SECTOR_BYTES)
        self._read = np.zeros(sectors, np.bool_)
        self._written = np.zeros(sectors, np.bool_)

    def extend(self, blocks: int) -> None:
        """Make room for further blocks."""
        for name in ("warp_executions", "thread_executions", "requests", "sectors", "divergent_branches"):
            counts = getattr(self, name)
            more = np.zeros((blocks, *counts.shape[1:]), np.int64)
            setattr(self, name, np.concatenate([counts, more]))

    def start(self, threads: Threads) -> None:
        """Begin a batch."""
        self._threads = threads
        self._rows = self.finished + threads.row
        self.finished += threads.blocks

    def enter(self, start: int, stop: int, active: Index) -> None:
        """Count instructions [start, stop) for these threads."""
        self._entered = np.bincount(self._rows[active], minlength=len(self.requests))
        rows = np.flatnonzero(self._entered)
        warps = np.bincount(self._rows[_first_of_each(self._threads.warp[active], active)])
        self.thread_executions[rows, start:stop] += self._entered[rows, None]
        self.warp_executions[rows, start:stop] += warps[rows, None]

    def guarded(self, number: int, executing: Index) -> None:
        """Correct a guarded instruction: all threads issue it, only these execute it."""
        threads = np.bincount(self._rows[executing], minlength=len(self.requests))
        self.thread_executions[:, number] += threads - self._entered

    def memory(self, number: int, root: str, active: Index, accessed: Accessed) -> None:
        """Count a memory instruction (ld, st, atom, …): warps that took part, distinct sectors of each."""
        first = _first_of_each(self._threads.warp[active], active)
        self.requests[:, number] += np.bincount(self._rows[first], minlength=len(self.requests))
        if not len(accessed.sectors):
            return
        if root != "st":
            self._read[accessed.sectors] = True
        if root not in {"ld", "ldu"}:
            self._written[accessed.sectors] = True
        warp = self._threads.warp[accessed.threads]
        order = np.lexsort((accessed.sectors, warp))
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(warp[order]) != 0) | (np.diff(accessed.sectors[order]) != 0)
        rows = self._rows[accessed.threads[order[new]]]
        self.sectors[:, number] += np.bincount(rows, minlength=len(self.sectors))

    def divergent(self, warps: Index) -> None:
        """Count branches that split these warps."""
        rows = self._rows[warps * WARP_LANES]
        self.divergent_branches += np.bincount(rows, minlength=len(self.divergent_branches))

    def note_footprint(self) -> None:
        """Record how many sectors of each allocation were touched so far."""
        counts = (self._per_allocation(m) for m in (self._read, self._written, self._read | self._written))
        self.footprints.append(Footprint(self.finished, *counts))

    def _per_allocation(self, touched: npt.NDArray[np.bool_]) -> Counts:
        bounds = ((a.start // SECTOR_BYTES, -(-(a.start + a.nbytes) // SECTOR_BYTES)) for a in self._arena.allocations)
        return np.array([int(touched[start:stop].sum()) for start, stop in bounds], np.int64)


def _first_of_each(warp: Index, active: Index) -> Index:
    """Return the first active thread of each warp; threads come in order."""
    first = np.ones(len(warp), np.bool_)
    first[1:] = warp[1:] != warp[:-1]
    return active[first]
