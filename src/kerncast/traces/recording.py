"""NOUN Recording and NOUN SMTrace: what neighbouring blocks did, event by event."""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from kerncast.ptx import Instruction, MemoryAccess, Register, Vector

# NOUN Recording: every access to global and local memory of some blocks, warp by warp, in the order of the program.
#
# In detail, for timing, also the basic blocks that warps enter, shared memory, and how far atomics contend.


LINE_BYTES = 128
#: Bits of an event: which line, how many passes its request takes, which of its four sectors, whether the request has
#: no further line, what is done, and by which PTX instruction. Where an operation has no line, those bits hold what its
#: docstring says.
LINE_BITS, PASSES_SHIFT, MASK_SHIFT, LAST_SHIFT, OPERATION_SHIFT, INSTRUCTION_SHIFT = 32, 32, 40, 44, 45, 49
OPERATION_MASK = 0xF
#: Passes through 32 banks of 4 bytes, as shared memory has them, that loads, stores and atomics in global memory would
#: take; the same in each event of a request, and 0 where the recording is not in detail.
PASSES_MASK = 0xFF
#: Where an event has two numbers instead of a line, so many bits hold the first.
CONTENT_SHIFT = 8
#: Kernels with more PTX instructions, or basic blocks, than an event can name are not traced for timing.
MOST_INSTRUCTIONS = 2**15


#: Modifiers of loads that L1 does not serve.
_PASSES_L1 = {"volatile", "relaxed", "acquire", "mmio", "cg", "cv"}


class Operation(IntEnum):
    """What an event does."""

    LOAD = 0
    LOAD_READ_ONLY = 1
    """ld.global.nc: data that no thread writes while the kernel runs"""
    LOAD_UNCACHED = 2
    """volatile, relaxed, .cg and the like: L1 is passed by"""
    STORE = 3
    ATOMIC = 4
    """its result is read"""
    REDUCTION = 5
    LOCAL_LOAD = 6
    LOCAL_STORE = 7
    # The rest is recorded in detail only: a simulation of caches has no use for it.
    SHARED_LOAD = 8
    """wavefronts instead of a line"""
    SHARED_STORE = 9
    """wavefronts instead of a line"""
    SHARED_ATOMIC = 10
    """wavefronts in the low CONTENT_SHIFT bits, above them how many lanes want the most wanted address"""
    BASIC_BLOCK = 11
    """a warp enters a basic block: its number instead of an instruction, one bit per active lane instead of a line"""
    CONTENTION = 12
    """begins the request of an atomic or a reduction, whose lines follow: in the low CONTENT_SHIFT bits how many lanes
    want its most wanted address, above them how many addresses it has"""


def operation_of(ins: Instruction, read: frozenset[str]) -> Operation:
    """Return what a recording says of an access to global memory; ``read`` are the registers that anything reads."""
    modifiers = set(ins.modifiers)
    if ins.is_load:
        if "nc" in modifiers:
            return Operation.LOAD_READ_ONLY
        return Operation.LOAD_UNCACHED if modifiers & _PASSES_L1 else Operation.LOAD
    if ins.is_store:
        return Operation.STORE
    results = ins.operands[0] if ins.opcode.access is MemoryAccess.ATOMIC else None
    registers = results.elements if isinstance(results, Vector) else (results,)
    is_read = any(isinstance(r, Register) and r.name in read for r in registers)
    return Operation.ATOMIC if is_read else Operation.REDUCTION


class End(IntEnum):
    """Why a segment ends."""

    PAUSE = 0
    """the warp had its turn"""
    BARRIER = 1
    EXIT = 2


#: A run of events of one warp. A warp's segments follow one another in the order of the table.
SEGMENT = np.dtype([("row", "i4"), ("warp", "i4"), ("start", "i8"), ("stop", "i8"), ("end", "i4"), ("pad", "i4")])


@dataclass(frozen=True, slots=True)
class Recording:
    """What ``execute`` recorded; an event is one 128-byte line of one request of one warp, or as Operation says."""

    block_ids: npt.NDArray[np.int64]
    """[n] linear numbers of the blocks that ran to their end"""
    warps: int
    """per block"""
    local_lines: int
    """128-byte lines of local memory of one warp"""
    events: npt.NDArray[np.uint64]
    """line of the arena (of the warp's own memory for local accesses) in the low bits; see LINE_BITS and the others"""
    segments: npt.NDArray[np.void]
    """SEGMENT: ``row`` is a position in block_ids; every warp of every block has at least the one that ends it"""

    def head(self, blocks: int) -> "Recording":
        """Return the first blocks of it; events of others stay in the array."""
        kept = self.segments[self.segments["row"] < blocks]
        return replace(self, block_ids=self.block_ids[:blocks], segments=kept)

    def without_local(self) -> "Recording":
        """Return it without accesses to local memory, for a kernel whose arrays the compiler holds in registers."""
        operation = self.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
        kept = (operation != Operation.LOCAL_LOAD) & (operation != Operation.LOCAL_STORE)
        before = np.concatenate([[0], np.cumsum(kept)])
        segments = self.segments.copy()
        segments["start"], segments["stop"] = before[segments["start"]], before[segments["stop"]]
        return replace(self, local_lines=0, events=self.events[kept], segments=segments)


#: Of a trace; a recording that would be longer ends.
MOST_EVENTS = 2**24


@dataclass(frozen=True, slots=True)
class SMTrace:
    """What one SM executes: one chain of events (see ``recording``) per warp, blocks in the order of their start."""

    block_ids: npt.NDArray[np.int64]
    """[n] linear numbers"""
    warps: int
    """per block"""
    local_lines: int
    """128-byte lines of local memory of one warp"""
    events: npt.NDArray[np.uint64]
    chains: npt.NDArray[np.int64]
    """[n x warps + 1] where each warp's events start: those of warp w of row r from chains[r x warps + w] on"""

    def head(self, blocks: int) -> "SMTrace":
        """Return the first blocks of it."""
        chains = self.chains[: min(blocks, len(self.block_ids)) * self.warps + 1]
        return SMTrace(self.block_ids[:blocks], self.warps, self.local_lines, self.events[: chains[-1]], chains)

    def only(self, row: int) -> "SMTrace":
        """Return one block of it."""
        chains = self.chains[row * self.warps : (row + 1) * self.warps + 1]
        events = self.events[chains[0] : chains[-1]]
        return SMTrace(self.block_ids[row : row + 1], self.warps, self.local_lines, events, chains - chains[0])


def instructions_of_warps(trace: SMTrace, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return [n, warps] the PTX instructions of each warp; ``lengths`` are those of the basic blocks."""
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    per_event = np.zeros(len(trace.events), np.int64)
    per_event[operation == Operation.BASIC_BLOCK] = lengths[entered_blocks(trace)]
    before = np.concatenate([[0], np.cumsum(per_event)])
    found: npt.NDArray[np.int64] = np.diff(before[trace.chains]).reshape(-1, trace.warps)
    return found


def entered_blocks(trace: SMTrace) -> npt.NDArray[np.int64]:
    """Return the number of each basic block that a warp entered, one after the other."""
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    entries = trace.events[operation == Operation.BASIC_BLOCK]
    numbers: npt.NDArray[np.int64] = (entries >> np.uint64(INSTRUCTION_SHIFT)).astype(np.int64)
    return numbers
