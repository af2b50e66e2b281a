"""Counts of the reference engine, per block of threads."""

import numpy as np
import numpy.typing as npt

from kerncast.execute.arena import check_room
from kerncast.execute.layout import Program
from kerncast.execute.reference.memory import Part
from kerncast.execute.reference.threads import Threads
from kerncast.execute.state import ACCESS_COUNTS, MEMORY_ROOTS, is_switched
from kerncast.execute.touched import Touched
from kerncast.kernel_profile import SECTOR_BYTES
from kerncast.trace import Counts

Index = npt.NDArray[np.intp]


class Tally:
    """Adds up what the blocks of a launch do; one row per executed block."""

    def __init__(self, program: Program, touched: Touched, limit_bytes: int) -> None:
        code = program.function.instructions
        self.guarded = tuple(n for n, i in enumerate(code) if is_switched(i))
        self.accessing = tuple(n for n, i in enumerate(code) if i.root in MEMORY_ROOTS)
        self._columns = {n: c for c, n in enumerate(self.accessing)}
        self._guard_columns = {n: c for c, n in enumerate(self.guarded)}
        self._block_of = {block.start: number for number, block in enumerate(program.cfg.blocks)}
        widths = {"block_warps": len(program.cfg.blocks), "block_threads": len(program.cfg.blocks)}
        widths |= {"guarded_threads": len(self.guarded)} | dict.fromkeys(ACCESS_COUNTS, len(self.accessing))
        self.counts: dict[str, Counts] = {name: np.zeros((0, width), np.int64) for name, width in widths.items()}
        self.divergent_branches: Counts = np.zeros(0, np.int64)
        self.remarks: dict[str, None] = {}
        """an ordered set"""
        self.finished = 0
        self._touched = touched
        self._limit_bytes = limit_bytes

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""
        row = 8 * sum(counts.shape[1] for counts in self.counts.values())
        check_room(blocks * row, self._limit_bytes, f"the counts of {blocks} blocks need")

    def extend(self, blocks: int) -> None:
        """Make room for further blocks."""
        for name, counts in self.counts.items():
            self.counts[name] = np.concatenate([counts, np.zeros((blocks, counts.shape[1]), np.int64)])
        self.divergent_branches = np.concatenate([self.divergent_branches, np.zeros(blocks, np.int64)])

    def start(self, threads: Threads) -> None:
        """Begin a batch."""
        self._threads = threads
        self._rows = slice(self.finished, self.finished + threads.blocks)
        self.finished += threads.blocks

    def enter(self, start: int, warps: Index, active: Index) -> None:
        """Count the basic block that begins at instruction ``start`` for these threads, which belong to these warps."""
        issued = np.bincount(warps // self._threads.warps_per_block, minlength=self._threads.blocks)
        self.counts["block_threads"][self._rows, self._block_of[start]] += self._per_block(active)
        self.counts["block_warps"][self._rows, self._block_of[start]] += issued

    def guard(self, number: int, executing: Index) -> None:
        """Count a guarded instruction: all threads issue it, only these execute it."""
        self.counts["guarded_threads"][self._rows, self._guard_columns[number]] += self._per_block(executing)

    def memory(self, number: int, root: str, parts: list[Part]) -> None:
        """Count a memory instruction (ld, st, atom, …)."""
        for part in parts:
            match part.space:
                case "global":
                    self._add("accesses", number, part.threads)
                    self._add("requests", number, self._first_of_each_warp(part.threads))
                    self._global(number, root, part)
                case "const":
                    self._touch(root, part.offsets // SECTOR_BYTES)
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

    def _global(self, number: int, root: str, part: Part) -> None:
        sectors, total = part.offsets // SECTOR_BYTES, self._touched.sectors
        self._touch(root, sectors)
        key = self._threads.warp[part.threads] * total + sectors
        key.sort()
        new = np.ones(len(key), np.bool_)
        np.not_equal(key[1:], key[:-1], out=new[1:])
        blocks = key[new] // (total * self._threads.warps_per_block)
        counted = np.bincount(blocks, minlength=self._threads.blocks)
        self.counts["sectors"][self._rows, self._columns[number]] += counted

    def _touch(self, root: str, sectors: npt.NDArray[np.int64]) -> None:
        if root != "st":
            self._touched.read[sectors] = True
        if root not in {"ld", "ldu"}:
            self._touched.written[sectors] = True

    def _add(self, name: str, number: int, threads: Index) -> None:
        self.counts[name][self._rows, self._columns[number]] += self._per_block(threads)

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
