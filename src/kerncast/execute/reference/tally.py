"""Counts of the reference engine, per block of threads."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat
from kerncast.execute.reference.memory import Part
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.execute.setup.arena import PAGE_BITS, PAGE_BYTES, Touched, check_room
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import ACCESS_COUNTS, is_switched
from kerncast.execute.setup.tensor_copies import Moved, touch, touched_sectors
from kerncast.profiles import SECTOR_BYTES
from kerncast.ptx import MOST_WAITING_BLOCKS, Instruction
from kerncast.traces import LINE_BYTES, Counts

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


class Tally:
    """Adds up what the blocks of a launch do; one row per executed block."""

    def __init__(self, program: Program, touched: Touched, limit_bytes: int) -> None:
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
        self._walked = np.zeros((MOST_WAITING_BLOCKS, threads.count), np.bool_)

    def end(self) -> None:
        """End a batch."""
        self.longest_warp[self._rows] = self._issued.reshape(self._threads.blocks, -1).max(axis=1)

    def enter(self, start: int, warps: Index, active: Index) -> None:
        """Count the basic block that begins at instruction ``start`` for these threads, which belong to these warps."""
        number = self._block_of[start]
        issued = np.bincount(warps // self._threads.warps_per_block, minlength=self._threads.blocks)
        self.counts["block_threads"][self._rows, number] += self._per_block(active)
        self.counts["block_warps"][self._rows, number] += issued
        self._issued[warps] += self._lengths[number]

    def walk(self, blocks: tuple[int, ...], here: int, active: Index) -> None:
        """Note who runs a block of a loop that only asks for the end of a phase; at its head a turn begins."""
        if here == blocks[0]:
            self._walked[: len(blocks), active] = False
        if here in blocks:
            self._walked[blocks.index(here), active] = True

    def take_back(self, blocks: tuple[int, ...], active: Index) -> None:
        """Forget a turn of a loop which only asks in vain: nobody knows how many a GPU takes."""
        for position, number in enumerate(blocks):
            lanes = active[self._walked[position, active]]
            warps = np.unique(self._threads.warp[lanes])
            issued = np.bincount(warps // self._threads.warps_per_block, minlength=self._threads.blocks)
            self.counts["block_threads"][self._rows, number] -= self._per_block(lanes)
            self.counts["block_warps"][self._rows, number] -= issued
            self._issued[warps] -= self._lengths[number]

    def guard(self, number: int, executing: Index) -> None:
        """Count a guarded instruction: all threads issue it, only these execute it."""
        self.counts["guarded_threads"][self._rows, self._guard_columns[number]] += self._per_block(executing)

    def memory(self, number: int, ins: Instruction, parts: list[Part]) -> None:
        """Count a memory instruction (ld, st, atom, …)."""
        for part in parts:
            lanes = Lanes(self._threads.warp[part.threads], self._threads.lane[part.threads], part.address, part.size)
            if part.space in {"global", "const"}:
                self._touch(ins, part)
            match part.space:
                case "global":
                    self._global(number, ins, lanes)
                case "shared":
                    self._shared(number, ins, lanes)
                case "local":
                    self._local(number, lanes)

    def bulk(self, number: int, ins: Instruction, copies: list[tuple[int, Moved]]) -> None:
        """Count copies of many bytes: each is a request, and has no request to shared memory."""
        for thread, moved in copies:
            sectors, lines = touched_sectors(moved)
            row, column = self._rows.start + int(self._threads.row[thread]), self._columns[number]
            for name, amount in (("requests", 1), ("accesses", 1), ("sectors", len(sectors)), ("lines", len(lines))):
                self.counts[name][row, column] += amount
            touch(self._touched, sectors, writes=ins.writes_global, reads=ins.reads_global)

    def wait(self, warps: Index) -> None:
        """Note that warps wait at a barrier of their block: nothing is counted of it."""

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
        self.add("sectors", number, sectors)
        self.add("lines", number, lines)
        if ins.is_update:
            self.add("contention", number, contention(lanes, self._threads.warps)[0])

    def _shared(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        self._requests(number, lanes, "shared_accesses", "shared_requests")
        served = self._served(number, lanes)
        if served is not None:
            wavefronts, least = self._passes(served, is_atomic=ins.is_update)
            self.add("shared_wavefronts", number, wavefronts)
            self.add("shared_conflicts", number, wavefronts - least)
        if ins.is_update:
            self.add("contention", number, contention(lanes, self._threads.warps)[0])

    def _served(self, number: int, lanes: Lanes) -> Lanes | None:
        """Return the lanes of the wide load that an instruction stands for; None where another one does."""
        joined = self._threads.program.joined.get(number)
        if joined is None:
            return lanes
        if joined.first != number:
            return None
        return lanes._replace(address=lanes.address + joined.shift, size=joined.nbytes)

    def _passes(self, lanes: Lanes, *, is_atomic: bool) -> tuple[Numbers, Numbers]:
        pairs_words = self._threads.program.pairs_words
        return shared_passes(lanes, self._threads.warps, is_atomic=is_atomic, pairs_words=pairs_words)

    def _local(self, number: int, lanes: Lanes) -> None:
        pieces = local_pieces(lanes)
        sectors, lines = sectors_and_lines(pieces, self._threads.warps)
        self._requests(number, lanes, "local_accesses", "local_requests")
        self.add("local_sectors", number, sectors)
        self.add("local_lines", number, lines)

    def _requests(self, number: int, lanes: Lanes, threads: str, requests: str) -> None:
        """Count the threads of the lanes, and the warps that have any, by these names."""
        per_warp = np.bincount(lanes.warp, minlength=self._threads.warps)
        self.add(threads, number, per_warp)
        self.add(requests, number, per_warp > 0)

    def _touch(self, ins: Instruction, part: Part) -> None:
        page = part.offsets // PAGE_BYTES
        sectors, word = part.offsets // SECTOR_BYTES, part.offsets % SECTOR_BYTES // _WORD_BYTES
        if not ins.is_store:
            self._touched.read[sectors] = True
            self._touched.pages[page] |= PAGE_BITS["read"]
        if ins.is_store or ins.is_update:
            words = ((1 << max(1, part.size // _WORD_BYTES)) - 1 << word).astype(np.uint8)
            np.bitwise_or.at(self._touched.written, sectors, words)
            self._touched.pages[page] |= PAGE_BITS["written"]

    def add(self, name: str, number: int, per_warp: "npt.NDArray[np.int64] | npt.NDArray[np.bool_]") -> None:
        """Add [warps] numbers to a count of a memory instruction, by its name in ACCESS_COUNTS."""
        per_block = per_warp.reshape(self._threads.blocks, -1).sum(axis=1)
        self.counts[name][self._rows, self._columns[number]] += per_block

    def _per_block(self, threads: Index) -> npt.NDArray[np.intp]:
        if len(threads) == self._threads.count:
            return np.full(self._threads.blocks, self._threads.count // self._threads.blocks)
        return np.bincount(self._threads.row[threads], minlength=self._threads.blocks)
