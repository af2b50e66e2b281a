"""Counts of the reference engine, per block of threads."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat
from kerncast.execute.reference.memory import Part
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.execute.setup.arena import Touched, check_room
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import ACCESS_COUNTS, is_switched
from kerncast.profiles import SECTOR_BYTES
from kerncast.ptx import Instruction
from kerncast.traces import (
    CONTENT_SHIFT,
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BYTES,
    MASK_SHIFT,
    MOST_INSTRUCTIONS,
    OPERATION_SHIFT,
    PASSES_SHIFT,
    SEGMENT,
    Counts,
    End,
    Operation,
    Recording,
)
from kerncast.traces import operation_of as operation_in_global

# What the warp-level requests of one memory instruction cost: sectors and lines, passes of shared memory, contention.
#
# A warp's local memory lies interleaved by 4-byte words, so that equal addresses of its 32 lanes fill one 128-byte
# line. Source: banks and words from the CUDA C++ Programming Guide 12.9, section "Shared Memory"; that 16-byte
# accesses are served by quarters of a warp from NVIDIA's talk S9593 at GTC 2019. That quarters and halves merge where
# neighbours agree has been observed, and is not documented by NVIDIA.


Numbers = npt.NDArray[np.int64]

_BANKS = 32
_WORD_BYTES = 4
_SECTOR_BITS = 2
"""low bits that number the sectors of a line"""
#: Lanes that shared memory serves together, by the bytes of each; twice as many where neighbours agree.
_GROUP_LANES = {8: 16, 16: 8, 32: 4}
_MERGED_BYTES = (8, 16)


class Lanes(NamedTuple):
    """Lanes that access one state space by one instruction, in rising order; those of one warp are one request."""

    warp: Index
    lane: Index
    address: Numbers
    """address of each lane in its state space: that of the block (shared) or of the thread (local)"""
    size: int
    """bytes per lane"""


class Pieces(NamedTuple):
    """The sectors that lanes touch, by lane, then by rising word; some occur more than once."""

    warp: Index
    line: Numbers
    """number of the 128-byte line; in local memory each lane's word has one"""
    sector: Numbers
    """sector of the line, 0 to 3"""
    passes: Numbers | None = None
    """[warps] passes of the warp's request through the banks of shared memory; None where nobody asks"""


def global_pieces(lanes: Lanes) -> Pieces:
    """Return the sectors of accesses to global memory: each lies in one sector, because it is naturally aligned."""
    return Pieces(lanes.warp, lanes.address // LINE_BYTES, lanes.address % LINE_BYTES // SECTOR_BYTES)


def local_pieces(lanes: Lanes) -> Pieces:
    """Return the sectors of accesses to local memory."""
    words = _words(lanes)
    per_lane = words.shape[1]
    sector = lanes.lane * _WORD_BYTES // SECTOR_BYTES
    return Pieces(np.repeat(lanes.warp, per_lane), words.ravel(), np.repeat(sector, per_lane))


def sectors_and_lines(pieces: Pieces, warps: int) -> tuple[Numbers, Numbers]:
    """Return [warps] the distinct sectors and the distinct lines that the request of each warp touches."""
    bits = _bits(pieces.line)
    sectors = _distinct((pieces.warp << bits | pieces.line) << _SECTOR_BITS | pieces.sector)
    lines = _distinct(sectors >> _SECTOR_BITS)
    return np.bincount(sectors >> _SECTOR_BITS + bits, minlength=warps), np.bincount(lines >> bits, minlength=warps)


def shared_passes(lanes: Lanes, warps: int, *, is_atomic: bool, pairs_words: bool = False) -> tuple[Numbers, Numbers]:
    """Return [warps] the wavefronts that the request of each warp takes, and how many it takes without a conflict.

    A group of lanes takes as many as its busiest bank has words to serve. Lanes that ask for one word are served
    together, except by atomics. Banks of 8 bytes (``pairs_words``) serve two words 32 apart in a row of 64 together.
    """
    group_lanes = _GROUP_LANES.get(lanes.size, WARP_LANES)
    groups = WARP_LANES // group_lanes
    group = lanes.lane // group_lanes
    if lanes.size in _MERGED_BYTES:
        group = np.where(_neighbours_agree(lanes, warps)[lanes.warp], group // 2, group)
    words = _words(lanes)
    if pairs_words and lanes.size <= _WORD_BYTES and not is_atomic:
        words = words // (2 * _BANKS) * _BANKS + words % _BANKS
    served = np.repeat(lanes.warp * groups + group, words.shape[1])
    bits = _bits(words)
    wanted = served << bits | words.ravel()
    if not is_atomic:
        wanted = _distinct(wanted)
    bank = wanted & (1 << bits) - 1 & _BANKS - 1
    in_bank = np.bincount((wanted >> bits) * _BANKS + bank, minlength=warps * groups * _BANKS)
    wavefronts = in_bank.reshape(warps, groups, _BANKS).max(axis=2)
    return wavefronts.sum(axis=1), np.count_nonzero(wavefronts, axis=1)


def contention(lanes: Lanes, warps: int) -> tuple[Numbers, Numbers]:
    """Return [warps] how many lanes of the request of each warp have its most frequent address, and its addresses."""
    room = int(lanes.address.max(initial=0)) + 1
    key, lanes_there = np.unique(lanes.warp * room + lanes.address, return_counts=True)
    most: Numbers = np.zeros(warps, np.int64)
    np.maximum.at(most, key // room, lanes_there)
    return most, np.bincount(key // room, minlength=warps)


def _words(lanes: Lanes) -> Numbers:
    """Return [lanes, words] the numbers of the 4-byte words that each lane accesses."""
    words: Numbers = (lanes.address // _WORD_BYTES)[:, None] + np.arange(max(1, lanes.size // _WORD_BYTES))
    return words


def _neighbours_agree(lanes: Lanes, warps: int) -> npt.NDArray[np.bool_]:
    """Return [warps] whether lanes that differ in their lowest bit only, or in the next, have one address.

    A lane whose neighbour does not take part agrees with it.
    """
    address = np.full((warps, WARP_LANES), -1, np.int64)
    address[lanes.warp, lanes.lane] = lanes.address
    agrees = np.zeros(warps, np.bool_)
    for distance in (1, 2):
        other = address[:, np.arange(WARP_LANES) ^ distance]
        agrees |= ((address == other) | (address < 0) | (other < 0)).all(axis=1)
    return agrees


def _bits(numbers: Numbers) -> int:
    """Return how many bits the largest number has."""
    return int(numbers.max(initial=0)).bit_length()


def _distinct(values: npt.NDArray[Any]) -> Numbers:
    """Return the values without repetitions, in rising order."""
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    distinct: Numbers = ordered[is_new]
    return distinct


# Writes down every access to global and local memory, warp by warp, in the order of the program.
#
# In detail also basic blocks, shared memory and how far atomics contend.


Events = npt.NDArray[np.uint64]

_LOCAL_LINE_BYTES = 4
"""bytes of a thread in a line of local memory, which 32 threads share"""
_ENTRY_BYTES = 16


class Recorder:
    """Collects events of batches of blocks."""

    def __init__(self, program: Program, warps: int, limit_bytes: int, *, in_detail: bool = False) -> None:
        self._program = program
        self.in_detail = in_detail
        self._warps = warps
        self._limit_bytes = limit_bytes
        self._nbytes = 0
        self._rows = 0
        self._block_ids: list[npt.NDArray[np.int64]] = []
        self._events: list[Events] = []
        self._segments: list[npt.NDArray[np.void]] = []
        self._positions = 0
        """events of the batches that have ended"""

    def start(self, threads: Threads) -> None:
        """Begin a batch."""
        self._threads = threads
        self._entries: list[tuple[Index, Events]] = []
        """warps and their events, in the order of time"""
        self._seen = np.zeros(threads.warps, np.int64)
        """events of each warp so far"""
        self._waits: list[list[int]] = [[] for _ in range(threads.warps)]
        """[warps][barriers passed] events that the warp had when it came to the barrier"""

    def access(self, number: int, ins: Instruction, space: str, pieces: Pieces) -> None:
        """Write down the requests of instruction ``number`` to global or local memory."""
        operation = operation_of(ins, space, self._program.read)
        lines = int(pieces.line.max(initial=0)) + 1
        _, first, which = np.unique(pieces.warp * lines + pieces.line, return_index=True, return_inverse=True)
        masks = np.zeros(len(first), np.uint64)
        np.bitwise_or.at(masks, which, np.uint64(1) << pieces.sector.astype(np.uint64))
        order = np.argsort(first)
        warp, line = pieces.warp[first[order]], pieces.line[first[order]].astype(np.uint64)
        is_last = np.append(warp[1:] != warp[:-1], [True]).astype(np.uint64)
        events = line | masks[order] << np.uint64(MASK_SHIFT) | is_last << np.uint64(LAST_SHIFT)
        if self.in_detail and pieces.passes is not None:
            events |= pieces.passes[warp].astype(np.uint64) << np.uint64(PASSES_SHIFT)
        self._append(warp, events | _tag(operation, number))

    def note(self, operation: Operation, number: int, warps: Index, contents: npt.NDArray[Any]) -> None:
        """Write down one event without a line for each of these warps, if the recording is in detail."""
        if self.in_detail:
            last = 0 if operation is Operation.CONTENTION else 1 << LAST_SHIFT
            self._append(warps, contents.astype(np.uint64) | _tag(operation, number) | np.uint64(last))

    def _append(self, warp: Index, events: Events) -> None:
        self._entries.append((warp, events))
        self._seen += np.bincount(warp, minlength=len(self._seen))
        self._nbytes += _ENTRY_BYTES * len(events)
        check_room(self._nbytes, self._limit_bytes, "the recorded accesses need")

    def wait(self, warps: Index) -> None:
        """Note that warps wait at a barrier of their block."""
        for warp in warps.tolist():
            self._waits[warp].append(int(self._seen[warp]))

    def end(self) -> None:
        """End a batch: put the events of each warp together."""
        threads, per_block = self._threads, self._warps
        warps = np.concatenate([np.zeros(0, np.intp), *(warp for warp, _ in self._entries)])
        events = np.concatenate([np.zeros(0, np.uint64), *(events for _, events in self._entries)])
        begins = self._positions + np.cumsum(self._seen) - self._seen
        segments = [
            (self._rows + warp // per_block, warp % per_block, begin + start, begin + stop, end, 0)
            for warp, begin in enumerate(begins.tolist())
            for start, stop, end in _pieces_of(self._waits[warp], int(self._seen[warp]))
        ]
        self._events.append(events[np.argsort(warps, kind="stable")])
        self._segments.append(np.array(segments, SEGMENT))
        self._block_ids.append(threads.block_ids)
        self._rows += threads.blocks
        self._positions += len(events)

    def recording(self) -> Recording:
        """Return what the batches that have ended did."""
        return Recording(
            np.concatenate([np.zeros(0, np.int64), *self._block_ids]),
            self._warps,
            self._program.private_bytes // _LOCAL_LINE_BYTES,
            np.concatenate([np.zeros(0, np.uint64), *self._events]),
            np.concatenate([np.zeros(0, SEGMENT), *self._segments]),
        )


def operation_of(ins: Instruction, space: str, read: frozenset[str]) -> Operation:
    """Return what an instruction does in global or local memory; ``read`` are the registers that the kernel reads."""
    if space == "local":
        return Operation.LOCAL_STORE if ins.is_store else Operation.LOCAL_LOAD
    return operation_in_global(ins, read)


def _tag(operation: Operation, number: int) -> np.uint64:
    """Return the bits of an event that tell what is done, and by which instruction."""
    return np.uint64(operation << OPERATION_SHIFT | min(number, MOST_INSTRUCTIONS - 1) << INSTRUCTION_SHIFT)


def _pieces_of(waits: list[int], events: int) -> list[tuple[int, int, End]]:
    """Return start, stop and end of a warp's segments."""
    ends = [End.BARRIER] * len(waits) + [End.EXIT]
    return [(start, stop, end) for (start, stop), end in zip(pairwise([0, *waits, events]), ends, strict=True)]


class Tally:
    """Adds up what the blocks of a launch do; one row per executed block."""

    def __init__(self, program: Program, touched: Touched, limit_bytes: int, recorder: Recorder | None = None) -> None:
        code = program.function.instructions
        self.guarded = tuple(n for n, i in enumerate(code) if is_switched(i))
        self.accessing = tuple(n for n, i in enumerate(code) if i.opcode.access is not None)
        self._columns = {n: c for c, n in enumerate(self.accessing)}
        self._guard_columns = {n: c for c, n in enumerate(self.guarded)}
        self._block_of = {block.start: number for number, block in enumerate(program.cfg.blocks)}
        self._lengths = program.cfg.lengths
        widths = {"block_warps": len(program.cfg.blocks), "block_threads": len(program.cfg.blocks)}
        widths |= {"guarded_threads": len(self.guarded)} | dict.fromkeys(ACCESS_COUNTS, len(self.accessing))
        self.counts: dict[str, Counts] = {name: np.zeros((0, width), np.int64) for name, width in widths.items()}
        self.divergent_branches: Counts = np.zeros(0, np.int64)
        self.longest_warp: Counts = np.zeros(0, np.int64)
        self.remarks: dict[Caveat, None] = {}
        """caveats in the order in which they were found"""
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
                self._touch(ins, part.offsets // SECTOR_BYTES)
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

    def remark(self, caveat: Caveat) -> None:
        """Note something that a reader of the counts should know, once."""
        self.remarks[caveat] = None

    def _global(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        pieces = global_pieces(lanes)
        sectors, lines = sectors_and_lines(pieces, self._threads.warps)
        self._requests(number, lanes, "accesses", "requests")
        self._add("sectors", number, sectors)
        self._add("lines", number, lines)
        if ins.is_update:
            self._contention(number, lanes)
        if self.recorder:
            if self.recorder.in_detail:
                pieces = pieces._replace(passes=self._passes(lanes, is_atomic=False)[0])
            self.recorder.access(number, ins, "global", pieces)

    def _shared(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        is_atomic = ins.is_update
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
            self.recorder.note(_shared_operation(ins), number, warps, content[warps])

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

    def _touch(self, ins: Instruction, sectors: npt.NDArray[np.int64]) -> None:
        if not ins.is_store:
            self._touched.read[sectors] = True
        if not ins.is_load:
            self._touched.written[sectors] = True

    def _add(self, name: str, number: int, per_warp: "npt.NDArray[np.int64] | npt.NDArray[np.bool_]") -> None:
        per_block = per_warp.reshape(self._threads.blocks, -1).sum(axis=1)
        self.counts[name][self._rows, self._columns[number]] += per_block

    def _per_block(self, threads: Index) -> npt.NDArray[np.intp]:
        if len(threads) == self._threads.count:
            return np.full(self._threads.blocks, self._threads.count // self._threads.blocks)
        return np.bincount(self._threads.row[threads], minlength=self._threads.blocks)


def _shared_operation(ins: Instruction) -> Operation:
    if ins.is_update:
        return Operation.SHARED_ATOMIC
    return Operation.SHARED_STORE if ins.is_store else Operation.SHARED_LOAD
