"""NOUN Simulated: what one SM did with its blocks."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Stall(IntEnum):
    """Why a warp did not issue, after Nsight Compute's warp states."""

    SELECTED = 0
    """The warp issued."""
    NOT_SELECTED = 1
    """Its sub-partition issued for another warp."""
    WAIT = 2
    """Waits for the result of an arithmetic instruction."""
    SHORT_SCOREBOARD = 3
    """Waits for data from shared memory or a special function."""
    LONG_SCOREBOARD = 4
    """Waits for data from L1, L2 or DRAM."""
    BARRIER = 5
    """Waits for the other warps of its block."""
    MATH_PIPE_THROTTLE = 6
    """Its arithmetic pipe is busy."""
    LG_THROTTLE = 7
    """The queue to global memory is full."""
    MIO_THROTTLE = 8
    """The queue to shared memory is full."""
    BRANCH_RESOLVING = 9
    """Waits until a branch knows its target."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """One SM's blocks from the first one's start to the last one's end."""

    finish_cycles: Floats
    """[blocks] end of each block in cycles, in the order in which they ended"""
    issued_at_finish: npt.NDArray[np.int64]
    """[blocks] micro-ops of all blocks issued until that block ended"""
    busy_cycles: Floats
    """[Pipe] cycles in which each pipe was busy, summed over the sub-partitions"""
    issued: int
    """micro-ops issued"""
    l1_cycles: float
    """cycles of the load/store queue for global and local memory"""
    shared_cycles: float
    """cycles of the load/store queue for shared memory"""
    exchange_cycles: float
    """cycles of the load/store queue for registers exchanged between lanes and for special registers"""
    atomic_cycles: float
    """cycles of this SM's share of the atomic units in L2"""
    l1_sectors: int
    """sectors that loads asked L1 for"""
    l1_hits: int
    """sectors among these that L1 had, or that were on their way to it"""
    l2_read_sectors: int
    """sectors read from L2"""
    l2_write_sectors: int
    """sectors written to L2"""
    local_read_sectors: int
    """part of ``l2_read_sectors`` that is local memory"""
    local_write_sectors: int
    """part of ``l2_write_sectors`` that is local memory"""
    dram_sectors: int
    """sectors read from DRAM or written to it"""
    stalls: Floats
    """[micro-ops of the program, Stall] warp-cycles that warps spent at a micro-op in a state"""
