"""A small simulation whose result is known, to try the machine code on that this CPU runs.

Three blocks of four warps, two of them at a time; each warp loads, computes, exchanges through shared memory behind a
barrier, adds atomically and stores, twice. ``KNOWN`` is from the simulation cycle by cycle in plain Python that the
tests compare with (``tests/helpers/sm_oracle.py``), not from this one.
"""

from dataclasses import dataclass, replace

import numpy as np

from kerncast.gpu import WARP_SIZE
from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES, Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Simulated
from kerncast.models.sm.simulate.simulator import ANY_SM, simulate
from kerncast.models.sm.simulate.state import Int32s
from kerncast.traces import (
    CONTENT_SHIFT,
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    MASK_SHIFT,
    OPERATION_SHIFT,
    Operation,
    SMTrace,
)

RESIDENT = 2
_BLOCKS, _WARPS, _TURNS = 3, 4, 2
_NONE = -1
#: Pipe, memory, register that is read, register that is written, access.
_OPS = (
    (Pipe.LSU, Memory.LOAD, 0, 1, 0),
    (Pipe.FMA, Memory.NONE, 1, 2, _NONE),
    (Pipe.LSU, Memory.SHARED_STORE, 2, _NONE, 1),
    (Pipe.BRANCH, Memory.BARRIER, _NONE, _NONE, _NONE),
    (Pipe.LSU, Memory.SHARED_LOAD, 0, 3, 2),
    (Pipe.XU, Memory.NONE, 3, 0, _NONE),
    (Pipe.LSU, Memory.REDUCTION, 0, _NONE, 3),
    (Pipe.LSU, Memory.STORE, 2, _NONE, 4),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is compared of a simulation."""

    finish_cycles: tuple[float, ...]
    """cycle at which each block ends"""
    issued: int
    stall_cycles: int
    """cycles that warps were resident, for whatever reason they waited"""
    l1_hits: int
    l2_sectors: int
    """sectors read from L2 and written to it"""
    dram_sectors: int


KNOWN = Answer((696.0, 1156.0, 1681.0), issued=192, stall_cycles=9899, l1_hits=64, l2_sectors=128, dram_sectors=80)


def wrong_answer() -> str | None:
    """Say what the compiled simulation gives in place of what is known; None where it is right."""
    found = answer_of(simulate(program(), trace(), sm(), RESIDENT))
    return None if found == KNOWN else f"{found} in place of {KNOWN}"


def answer_of(found: Simulated) -> Answer:
    """Return what is compared of a simulation."""
    sectors = found.l2_read_sectors + found.l2_write_sectors
    finish = tuple(found.finish_cycles.tolist())
    return Answer(finish, found.issued, int(found.stalls.sum()), found.l1_hits, sectors, found.dram_sectors)


def program() -> Program:
    """Return one basic block of all ``_OPS``."""
    count = len(_OPS)
    pipe, memory, source, destination, access = np.array(_OPS, np.int32).T
    return Program(
        starts=np.array([0, count], np.int32),
        leader=np.zeros(1, np.int32),
        pipe=pipe,
        memory=memory,
        cycles=np.zeros(count, np.float32),
        latency=np.zeros(count, np.float32),
        weight=np.full(count, FULL_WEIGHT, np.int32),
        phase=np.zeros(count, np.int32),
        sources=_first_of(source, MOST_SOURCES),
        destinations=_first_of(destination, MOST_DESTINATIONS),
        accesses=_first_of(access, MOST_DESTINATIONS),
        group=np.zeros(count, np.int32),
        left=np.zeros(count, np.int32),
        instruction=np.arange(count, dtype=np.int32),
        registers=4,
    )


def _first_of(values: Int32s, width: int) -> Int32s:
    found = np.full((len(values), width), _NONE, np.int32)
    found[:, 0] = values
    return found


def trace() -> SMTrace:
    """Return what the warps do in turn: neighbours load the same line, and each stores to its own."""
    warps = _BLOCKS * _WARPS
    events = [event for warp in range(warps) for turn in range(_TURNS) for event in _events(warp, turn)]
    return SMTrace(
        block_ids=np.arange(_BLOCKS, dtype=np.int64),
        warps=_WARPS,
        local_lines=0,
        events=np.array(events, np.uint64),
        chains=np.arange(warps + 1, dtype=np.int64) * (len(events) // warps),
    )


def _events(warp: int, turn: int) -> list[int]:
    """Return the execution of the basic block by a warp: each access's instruction, kind, content, sectors, and end."""
    line, lanes, addresses = 2 * warp + turn, 4, 2
    return [
        _event(0, Operation.BASIC_BLOCK, WARP_SIZE),
        _event(0, Operation.LOAD, line // 3, sectors=0b1111),
        _event(1, Operation.SHARED_STORE, 2),
        _event(2, Operation.SHARED_LOAD, 1 + warp % 2),
        _event(3, Operation.CONTENTION, lanes | addresses << CONTENT_SHIFT, is_last=False),
        _event(3, Operation.REDUCTION, 100, sectors=0b0001),
        _event(4, Operation.STORE, 200 + line, sectors=0b0110),
    ]


def _event(access: int, operation: Operation, content: int, *, sectors: int = 0, is_last: bool = True) -> int:
    kind = access << INSTRUCTION_SHIFT | operation << OPERATION_SHIFT | is_last << LAST_SHIFT
    return kind | sectors << MASK_SHIFT | content


def sm() -> SM:
    """Return an SM of two sub-partitions whose latencies are told apart."""
    return replace(
        ANY_SM, sub_partitions=2, pipe_cycles=(2.0,) * len(Pipe), pipe_latency=(4.0,) * len(Pipe), l1_lines=64,
        l1_operations=1 << Operation.LOAD, shared_latency=19.0, l1_latency=28.0, l2_latency=215.0, dram_latency=437.0,
        barrier_latency=10.0, branch_latency=8.0, block_launch_cycles=300.0, atomic_cycles=2.0,
    )  # fmt: skip
