"""NOUN Simulated: what one SM did with its blocks."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Stall(IntEnum):
    """Why a warp did not issue, after Nsight Compute's warp states."""

    SELECTED = 0
    """it issued"""
    NOT_SELECTED = 1
    """another warp did"""
    WAIT = 2
    """result of an arithmetic instruction"""
    SHORT_SCOREBOARD = 3
    """data from shared memory, special functions"""
    LONG_SCOREBOARD = 4
    """data from L1, L2 or DRAM"""
    BARRIER = 5
    MATH_PIPE_THROTTLE = 6
    """its arithmetic pipe is busy"""
    LG_THROTTLE = 7
    """the queue to global memory is full"""
    MIO_THROTTLE = 8
    """the queue to shared memory is full"""
    BRANCH_RESOLVING = 9


@dataclass(frozen=True, slots=True)
class Simulated:
    """One SM's blocks from the first one's start to the last one's end."""

    finish_cycles: Floats
    """[blocks] in the order in which they ended"""
    issued_at_finish: npt.NDArray[np.int64]
    """[blocks] micro-ops of all blocks until then"""
    busy_cycles: Floats
    """[Pipe] summed over the sub-partitions"""
    issued: int
    """micro-ops"""
    l1_cycles: float
    """that the load/store queue was busy with global and local memory"""
    shared_cycles: float
    """that it was busy with shared memory"""
    exchange_cycles: float
    """that it was busy with registers that go to other lanes, and with special ones that are read"""
    atomic_cycles: float
    l1_sectors: int
    """asked for by loads"""
    l1_hits: int
    l2_read_sectors: int
    l2_write_sectors: int
    local_read_sectors: int
    """of l2_read_sectors: local memory's"""
    local_write_sectors: int
    """of l2_write_sectors: local memory's"""
    dram_sectors: int
    """both ways"""
    stalls: Floats
    """[micro-ops of the program, Stall] warp-cycles"""
