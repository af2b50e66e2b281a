"""NOUN SMTrace: the basic blocks and memory accesses of the blocks that one SM gets, warp by warp."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.recording import INSTRUCTION_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation

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
