"""Counts of a running batch, per block and instruction."""

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError
from kerncast.execute.arena import SECTOR_BYTES, Arena
from kerncast.execute.memory import Part
from kerncast.execute.threads import Threads
from kerncast.trace import Counts, Footprint
from kerncast.units import format_bytes

Index = npt.NDArray[np.intp]

#: Counts that Trace keeps per block and instruction.
COUNTED = (
    "warp_executions", "thread_executions", "requests", "sectors", "accesses", "shared_requests", "shared_accesses",
    "local_accesses",
)  # fmt: skip


class Tally:
    """Adds up what the blocks of a launch do; one row per executed block."""

    def __init__(self, instructions: int, arena: Arena, limit_bytes: int) -> None:
        self.counts: dict[str, Counts] = {name: np.zeros((0, instructions), np.int64) for name in COUNTED}
        self.divergent_branches: Counts = np.zeros(0, np.int64)
        self.footprints: list[Footprint] = []
        self.remarks: dict[str, None] = {}
        """an ordered set"""
        self.finished = 0
        self._arena = arena
        self._limit_bytes = limit_bytes
        sectors = -(-len(arena.data) // SECTOR_BYTES)
        self._read = np.zeros(sectors, np.bool_)
        self._written = np.zeros(sectors, np.bool_)
        self._sectors = sectors

    def extend(self, blocks: int) -> None:
        """Make room for further blocks."""
        self.check_room(self.finished + blocks)
        for name, counts in self.counts.items():
            self.counts[name] = np.concatenate([counts, np.zeros((blocks, counts.shape[1]), np.int64)])
        self.divergent_branches = np.concatenate([self.divergent_branches, np.zeros(blocks, np.int64)])

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""
        needed = 8 * len(COUNTED) * blocks * self.counts["requests"].shape[1]
        if needed > self._limit_bytes:
            raise BudgetExceededError(
                f"the counts of {blocks} blocks need {format_bytes(needed)}, over the budget of memory",
                cure="Let the grid be sampled, or use a larger memory budget.",
            )

    def start(self, threads: Threads) -> None:
        """Begin a batch."""
        self._threads = threads
        self._rows = slice(self.finished, self.finished + threads.blocks)
        self.finished += threads.blocks

    def enter(self, start: int, stop: int, warps: Index, active: Index) -> None:
        """Count instructions [start, stop) for these threads, which belong to these warps."""
        self._entered = self._per_block(active)
        issued = np.bincount(warps // self._threads.warps_per_block, minlength=self._threads.blocks)
        self.counts["thread_executions"][self._rows, start:stop] += self._entered[:, None]
        self.counts["warp_executions"][self._rows, start:stop] += issued[:, None]

    def guarded(self, number: int, executing: Index) -> None:
        """Correct a guarded instruction: all threads issue it, only these execute it."""
        self.counts["thread_executions"][self._rows, number] += self._per_block(executing) - self._entered

    def memory(self, number: int, root: str, parts: list[Part]) -> None:
        """Count a memory instruction (ld, st, atom, …)."""
        for part in parts:
            match part.space:
                case "global":
                    self._add("accesses", number, part.threads)
                    self._add("requests", number, self._first_of_each_warp(part.threads))
                    self._global(number, root, part)
                case "const":
                    self._touch(root, part.offsets >> 5)
                case "shared":
                    self._add("shared_accesses", number, part.threads)
                    self._add("shared_requests", number, self._first_of_each_warp(part.threads))
                case "local":
                    self._add("local_accesses", number, part.threads)

    def divergent(self, warps: Index) -> None:
        """Count branches that split these warps."""
        blocks = warps // self._threads.warps_per_block
        self.divergent_branches[self._rows] += np.bincount(blocks, minlength=self._threads.blocks)

    def remark(self, text: str) -> None:
        """Note something that a reader of the counts should know, once."""
        self.remarks[text] = None

    def note_footprint(self) -> None:
        """Record how many sectors of each allocation were touched so far."""
        counts = (self._per_allocation(m) for m in (self._read, self._written, self._read | self._written))
        self.footprints.append(Footprint(self.finished, *counts))

    def _global(self, number: int, root: str, part: Part) -> None:
        sectors = part.offsets >> 5
        self._touch(root, sectors)
        key = self._threads.warp[part.threads] * self._sectors + sectors
        key.sort()
        new = np.ones(len(key), np.bool_)
        np.not_equal(key[1:], key[:-1], out=new[1:])
        blocks = key[new] // (self._sectors * self._threads.warps_per_block)
        self.counts["sectors"][self._rows, number] += np.bincount(blocks, minlength=self._threads.blocks)

    def _touch(self, root: str, sectors: npt.NDArray[np.int64]) -> None:
        if root != "st":
            self._read[sectors] = True
        if root not in {"ld", "ldu"}:
            self._written[sectors] = True

    def _add(self, name: str, number: int, threads: Index) -> None:
        self.counts[name][self._rows, number] += self._per_block(threads)

    def _per_block(self, threads: Index) -> npt.NDArray[np.intp]:
        if len(threads) == self._threads.count:
            return np.full(self._threads.blocks, self._threads.count // self._threads.blocks)
        return np.bincount(self._threads.row[threads], minlength=self._threads.blocks)

    def _first_of_each_warp(self, threads: Index) -> Index:
        """Return the first of these threads in each warp; threads come in order."""
        warp = self._threads.warp[threads]
        first = np.ones(len(warp), np.bool_)
        np.not_equal(warp[1:], warp[:-1], out=first[1:])
        return threads[first]

    def _per_allocation(self, touched: npt.NDArray[np.bool_]) -> Counts:
        bounds = ((a.start // SECTOR_BYTES, -(-(a.start + a.nbytes) // SECTOR_BYTES)) for a in self._arena.allocations)
        return np.array([np.count_nonzero(touched[start:stop]) for start, stop in bounds], np.int64)
