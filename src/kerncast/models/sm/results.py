"""NOUN Simulated: what one SM did with its blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

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
    l2_requests: int
    """lines of which L2 was asked for sectors"""
    l2_read_sectors: int
    """sectors read from L2"""
    l2_write_sectors: int
    """sectors written to L2"""
    l2_merged_sectors: int
    """part of ``l2_write_sectors`` that a store fills in part only"""
    l2_atomic_sectors: int
    """part of ``l2_read_sectors``, and of ``l2_write_sectors``, that atomics update"""
    local_read_sectors: int
    """part of ``l2_read_sectors`` that is local memory"""
    local_write_sectors: int
    """part of ``l2_write_sectors`` that is local memory"""
    dram_sectors: int
    """sectors read from DRAM or written to it"""
    stalls: Floats
    """[micro-ops of the program, Stall] warp-cycles that warps spent at a micro-op in a state"""


#: What SMs of a cluster take of a resource of their own: the busiest decides.
_BUSIEST = ("l1_cycles", "shared_cycles", "exchange_cycles", "atomic_cycles", "l2_requests")
#: What they ask of all SMs' memory, issue and wait for: the mean stands for the grid.
_MEAN = (
    "issued", "l1_sectors", "l1_hits", "l2_read_sectors", "l2_write_sectors", "l2_merged_sectors", "l2_atomic_sectors",
    "local_read_sectors", "local_write_sectors", "dram_sectors",
)  # fmt: skip


def of_cluster(by_rank: Sequence[Simulated]) -> Simulated:
    """Return what stands for all SMs that blocks of the same clusters lie on: the one that ends last tells the time."""
    if len(by_rank) == 1:
        return by_rank[0]
    last = max(by_rank, key=lambda each: float(each.finish_cycles[-1]))
    busiest: dict[str, Any] = {name: max(getattr(each, name) for each in by_rank) for name in _BUSIEST}
    mean: dict[str, Any] = {name: round(sum(getattr(each, name) for each in by_rank) / len(by_rank)) for name in _MEAN}
    busy, stalls = np.max([each.busy_cycles for each in by_rank], axis=0), np.mean([r.stalls for r in by_rank], axis=0)
    return replace(last, busy_cycles=busy, stalls=stalls, **busiest, **mean)


#: Least share of a rank's traffic in that of the mean: one that asks for nothing at first may do so later.
_LEAST_PART = 0.05


def parts_of(traffic: Sequence[float]) -> list[float]:
    """Return each rank's share of the traffic in that of the mean rank.

    >>> parts_of([3.0, 1.0]), parts_of([0.0, 0.0])
    ([1.5, 0.5], [1.0, 1.0])
    """
    mean = sum(traffic) / len(traffic)
    return [max(_LEAST_PART, each / mean) if mean else 1.0 for each in traffic]


@dataclass(frozen=True, slots=True)
class SMLoad:
    """Blocks of the busiest SM, and how many of them are simulated."""

    blocks: int
    """blocks that this SM gets"""
    active_sms: float
    """SMs that compete for L2 and DRAM on average, if all had as many blocks as this one"""
    simulated: int
    """blocks that are simulated"""


def load_of(grid_blocks: int, sms: int, resident: int, waves: int) -> SMLoad:
    """Return the work of the busiest SM and how many of its blocks to simulate.

    All of them where they are few; else some whole waves and a last one as full as the launch's last one. The tail is
    simulated, not scaled: an SM that is half empty is not half as fast.

    >>> load_of(1000, 10, 8, 2)
    SMLoad(blocks=100, active_sms=10.0, simulated=20)
    """
    blocks = -(-grid_blocks // sms)
    simulated = blocks
    if blocks > (waves + 1) * resident:
        simulated = waves * resident + (blocks % resident or resident)
    return SMLoad(blocks, grid_blocks / blocks, simulated)


def cycles_of(simulated: Simulated, load: SMLoad, resident: int, floor_cycles_per_block: float, work: float) -> float:
    """Return the cycles of all blocks of the busiest SM.

    T = t(simulated) + (blocks - simulated) x max(slope x work, floor), where ``work`` is what a block of the grid does
    over what a simulated one does. The floor is the time that bandwidth needs: two waves may still run from queues that
    have room, all others cannot (1.9 points of MAPE in the timing study).
    """
    finish = simulated.finish_cycles
    left = load.blocks - len(finish)
    if left <= 0:
        return float(finish[-1]) * max(1.0, work)
    return float(finish[-1]) + left * max(slope(simulated, resident) * work, floor_cycles_per_block)


#: Waves until whose end blocks may run in step; with fewer, what follows the first wave is too short to be measured.
_WAVES_IN_STEP = 3


def slope(simulated: Simulated, resident: int) -> float:
    """Return cycles per block in the steady state: while all slots hold a block, from the end of the first one on.

    Where three waves or more ran, from the end of the first wave on: its blocks have started at once, and run in step.

    Blocks that run in step end in waves, others one after the other: counted are the micro-ops issued meanwhile, since
    the number of ends in between says little about the work done. The mean over all simulated blocks, with what it
    takes to fill the SM and to drain it, is never below the steady state.
    """
    finish, issued = simulated.finish_cycles, simulated.issued_at_finish
    done = len(finish)
    per_block, mean = issued[-1] / done, float(finish[-1]) / done
    full_until = done - resident
    first = resident if full_until >= _WAVES_IN_STEP * resident else 0
    if full_until >= 1 and issued[full_until] - issued[first] >= resident * per_block / 2:
        cycles, done_meanwhile = finish[full_until] - finish[first], issued[full_until] - issued[first]
        return min(mean, float(cycles / done_meanwhile * per_block))
    return mean
