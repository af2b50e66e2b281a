"""Counts of the reference engine, per block of threads."""

import numpy as np
import numpy.typing as npt

from kerncast.execute.arena import check_room
from kerncast.execute.layout import Program
from kerncast.execute.reference.coalescing import (
    Lanes,
    Numbers,
    contention,
    global_pieces,
    local_pieces,
    sectors_and_lines,
    shared_passes,
)
from kerncast.execute.reference.memory import Part
from kerncast.execute.reference.recorder import Recorder
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.state import ACCESS_COUNTS, MEMORY_ROOTS, is_switched
from kerncast.execute.touched import Touched
from kerncast.kernel_profile import SECTOR_BYTES
from kerncast.ptx.module import Instruction
from kerncast.recording import CONTENT_SHIFT, Operation
from kerncast.trace import Counts

_ATOMICS = frozenset({"atom", "red"})


class Tally:
    """Adds up what the blocks of a launch do; one row per executed block."""

    def __init__(self, program: Program, touched: Touched, limit_bytes: int, recorder: Recorder | None = None) -> None:
        code = program.function.instructions
        self.guarded = tuple(n for n, i in enumerate(code) if is_switched(i))
        self.accessing = tuple(n for n, i in enumerate(code) if i.root in MEMORY_ROOTS)
        self._columns = {n: c for c, n in enumerate(self.accessing)}
        self._guard_columns = {n: c for c, n in enumerate(self.guarded)}
        self._block_of = {block.start: number for number, block in enumerate(program.cfg.blocks)}
        self._lengths = program.cfg.lengths
        widths = {"block_warps": len(program.cfg.blocks), "block_threads": len(program.cfg.blocks)}
        widths |= {"guarded_threads": len(self.guarded)} | dict.fromkeys(ACCESS_COUNTS, len(self.accessing))
        self.counts: dict[str, Counts] = {name: np.zeros((0, width), np.int64) for name, width in widths.items()}
        self.divergent_branches: Counts = np.zeros(0, np.int64)
        self.longest_warp: Counts = np.zeros(0, np.int64)
        self.remarks: dict[str, None] = {}
        """an ordered set"""
        self.finished = 0
        self._touched = touched
        self._limit_bytes = limit_bytes
        self.recorder = recorder

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""
        row = 8 * sum(counts.shape[1] for counts in self.counts.values())
        check_room(blocks * row, self._limit_bytes, f"the counts of {blocks} blocks need")

    def extend(self, blocks: int) -> None:
        """Make room for further blocks."""
        for name, counts in self.counts.items():
            self.counts[name] = np.concatenate([counts, np.zeros((blocks, counts.shape[1]), np.int64)])
        self.divergent_branches = np.concatenate([self.divergent_branches, np.zeros(blocks, np.int64)])
        self.longest_warp = np.concatenate([self.longest_warp, np.zeros(blocks, np.int64)])

    def start(self, threads: Threads) -> None:
        """Begin a batch."""
        self._threads = threads
        self._rows = slice(self.finished, self.finished + threads.blocks)
        self.finished += threads.blocks
        self._issued = np.zeros(threads.warps, np.int64)
        if self.recorder:
            self.recorder.start(threads)

    def end(self) -> None:
        """End a batch."""
        self.longest_warp[self._rows] = self._issued.reshape(self._threads.blocks, -1).max(axis=1)
        if self.recorder:
            self.recorder.end()

    def enter(self, start: int, warps: Index, active: Index) -> None:
        """Count the basic block that begins at instruction ``start`` for these threads, which belong to these warps."""
        number = self._block_of[start]
        issued = np.bincount(warps // self._threads.warps_per_block, minlength=self._threads.blocks)
        self.counts["block_threads"][self._rows, number] += self._per_block(active)
        self.counts["block_warps"][self._rows, number] += issued
        if self.recorder:
            lanes = np.bincount(self._threads.warp[active], 2.0 ** self._threads.lane[active], self._threads.warps)
            self.recorder.note(Operation.BASIC_BLOCK, number, warps, lanes[warps])
        self._issued[warps] += self._lengths[number]

    def guard(self, number: int, executing: Index) -> None:
        """Count a guarded instruction: all threads issue it, only these execute it."""
        self.counts["guarded_threads"][self._rows, self._guard_columns[number]] += self._per_block(executing)

    def memory(self, number: int, ins: Instruction, parts: list[Part]) -> None:
        """Count a memory instruction (ld, st, atom, …)."""
        for part in parts:
            lanes = Lanes(self._threads.warp[part.threads], self._threads.lane[part.threads], part.address, part.size)
            if part.space in {"global", "const"}:
                self._touch(ins.root, part.offsets // SECTOR_BYTES)
            match part.space:
                case "global":
                    self._global(number, ins, lanes)
                case "shared":
                    self._shared(number, ins, lanes)
                case "local":
                    self._local(number, ins, lanes)

    def wait(self, warps: Index) -> None:
        """Note that warps wait at a barrier of their block."""
        if self.recorder:
            self.recorder.wait(warps)

    def divergent(self, warps: Index) -> None:
        """Count branches that split these warps."""
        blocks = warps // self._threads.warps_per_block
        self.divergent_branches[self._rows] += np.bincount(blocks, minlength=self._threads.blocks)

    def remark(self, text: str) -> None:
        """Note something that a reader of the counts should know, once."""
        self.remarks[text] = None

    def _global(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        pieces = global_pieces(lanes)
        sectors, lines = sectors_and_lines(pieces, self._threads.warps)
        self._requests(number, lanes, "accesses", "requests")
        self._add("sectors", number, sectors)
        self._add("lines", number, lines)
        if ins.root in _ATOMICS:
            self._contention(number, lanes)
        if self.recorder:
            if self.recorder.in_detail:
                pieces = pieces._replace(passes=self._passes(lanes, is_atomic=False)[0])
            self.recorder.access(number, ins, "global", pieces)

    def _shared(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        is_atomic = ins.root in _ATOMICS
        wavefronts, least = self._passes(lanes, is_atomic=is_atomic)
        self._requests(number, lanes, "shared_accesses", "shared_requests")
        self._add("shared_wavefronts", number, wavefronts)
        self._add("shared_conflicts", number, wavefronts - least)
        warps, content = np.unique(lanes.warp), wavefronts
        if is_atomic:
            most, _ = contention(lanes, self._threads.warps)
            self._add("contention", number, most)
            content = wavefronts | most << CONTENT_SHIFT
        if self.recorder:
            self.recorder.note(_shared_operation(ins.root), number, warps, content[warps])

    def _passes(self, lanes: Lanes, *, is_atomic: bool) -> tuple[Numbers, Numbers]:
        pairs_words = self._threads.program.pairs_words
        return shared_passes(lanes, self._threads.warps, is_atomic=is_atomic, pairs_words=pairs_words)

    def _contention(self, number: int, lanes: Lanes) -> None:
        most, addresses = contention(lanes, self._threads.warps)
        self._add("contention", number, most)
        if self.recorder:
            warps = np.unique(lanes.warp)
            self.recorder.note(Operation.CONTENTION, number, warps, (most | addresses << CONTENT_SHIFT)[warps])

    def _local(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        pieces = local_pieces(lanes)
        sectors, lines = sectors_and_lines(pieces, self._threads.warps)
        self._requests(number, lanes, "local_accesses", "local_requests")
        self._add("local_sectors", number, sectors)
        self._add("local_lines", number, lines)
        if self.recorder:
            self.recorder.access(number, ins, "local", pieces)

    def _requests(self, number: int, lanes: Lanes, threads: str, requests: str) -> None:
        """Count the threads of the lanes, and the warps that have any, by these names."""
        per_warp = np.bincount(lanes.warp, minlength=self._threads.warps)
        self._add(threads, number, per_warp)
        self._add(requests, number, per_warp > 0)

    def _touch(self, root: str, sectors: npt.NDArray[np.int64]) -> None:
        if root != "st":
            self._touched.read[sectors] = True
        if root not in {"ld", "ldu"}:
            self._touched.written[sectors] = True

    def _add(self, name: str, number: int, per_warp: "npt.NDArray[np.int64] | npt.NDArray[np.bool_]") -> None:
        per_block = per_warp.reshape(self._threads.blocks, -1).sum(axis=1)
        self.counts[name][self._rows, self._columns[number]] += per_block

    def _per_block(self, threads: Index) -> npt.NDArray[np.intp]:
        if len(threads) == self._threads.count:
            return np.full(self._threads.blocks, self._threads.count // self._threads.blocks)
        return np.bincount(self._threads.row[threads], minlength=self._threads.blocks)


def _shared_operation(root: str) -> Operation:
    if root in _ATOMICS:
        return Operation.SHARED_ATOMIC
    return Operation.SHARED_STORE if root == "st" else Operation.SHARED_LOAD
