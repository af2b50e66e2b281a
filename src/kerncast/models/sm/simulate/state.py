"""What the compiled simulation works on: flat arrays, and which column holds what.

Times are cycles. When a register is ready is kept as ``time << KIND_BITS | kind``, so that the later of two is the
larger number and tells what was waited for.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from kerncast.models.sm.micro_ops import (
    FULL_WEIGHT,
    MOST_DESTINATIONS,
    MOST_SOURCES,
    NO_REGISTER,
    Memory,
    Pipe,
    Program,
)
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Stall
from kerncast.traces import MOST_INSTRUCTIONS, SMTrace

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Masks = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
#: Numbers inside compiled functions: what Python, NumPy and the compiler each have a type of their own for.
Whole = Any
Real = Any

KIND_BITS, KIND_MASK = 2, 3
ARITHMETIC, SHORT, LONG = 0, 1, 2
NEVER = 2**62

# What a warp that could issue may still have to wait for: a pipe (of which LSU stands for shared memory), or a queue.
TO_LOAD, TO_STORE, TO_ATOMIC = len(Pipe), len(Pipe) + 1, len(Pipe) + 2
#: A predicated-off access: nothing but a turn.
TO_NOTHING = len(Pipe) + 3
TO_END = len(Pipe) + 4

# Columns of a micro-op.
(OP_CLASS, OP_PIPE, OP_MEMORY, OP_WEIGHT, OP_PHASE, OP_WAITS, OP_RESULTS, OP_SLOTS) = range(8)
OP_WAIT = 8
OP_RESULT = OP_WAIT + MOST_SOURCES + MOST_DESTINATIONS
OP_SLOT = OP_RESULT + MOST_DESTINATIONS
OP_COLUMNS = OP_SLOT + MOST_DESTINATIONS
OP_CYCLES, OP_LATENCY = range(2)

# Columns of a warp.
(W_OP, W_END, W_EVENT, W_STOP, W_CLASS, W_KIND, W_READY, W_WAKE, W_WOKEN, W_SINCE, W_GATE, W_GATE_REASON, W_LAST_OP,
 W_EXECUTION, W_SHARED, W_RESULT, W_WAITS, W_COLUMNS) = range(18)  # fmt: skip

# Columns of a sub-partition's masks of warps: a wheel of wake times, and who waits for what.
WHEEL = 64
M_OCCUPIED, M_FAR, M_CLASSES, M_WHEEL = 0, 1, 2, 3
M_READY = M_WHEEL + WHEEL
M_COLUMNS = M_READY + TO_NOTHING + 1
# Columns of a sub-partition's clock.
P_NEXT, P_FAR, P_ISSUED, P_TURN, P_COLUMNS = range(5)

# Queues: when each has done what it has been given, and sectors of DRAM that are owed.
Q_LSU, Q_L1, Q_L2, Q_PATH, Q_SLICE, Q_DRAM, Q_ATOMIC, Q_READ_DEBT, Q_WRITE_DEBT, Q_COLUMNS = range(10)
B_LIVE, B_WAITING, B_COLUMNS = range(3)
F_ROW, F_FINISHED, F_TICK, F_FIRST, F_COLUMNS = range(5)

(N_ISSUED, N_L1_SECTORS, N_L1_HITS, N_L2_READ, N_L2_WRITE, N_LOCAL_READ, N_LOCAL_WRITE, N_DRAM, N_COLUMNS) = range(9)
C_BUSY = 0
C_L1, C_SHARED, C_EXCHANGE, C_ATOMIC, C_COLUMNS = range(len(Pipe), len(Pipe) + 5)

(R_LSU, R_WAVEFRONT, R_JOINED, R_TAG, R_SECTOR, R_STORE_LINE, R_L2_READ, R_L2_WRITE, R_DRAM, R_READ_SHARE,
 R_WRITE_SHARE, R_SHARED_LATENCY, R_L1_LATENCY, R_L2_LATENCY, R_DRAM_LATENCY, R_ATOMIC, R_SHARED_ATOMIC, R_REPLAY,
 R_PATH, R_LOCAL_SHARE, R_LSU_ROOM, R_L2_ROOM, R_DRAM_ROOM, R_ATOMIC_ROOM, R_HOT, R_SLICE, R_REISSUE, R_PASS,
 R_DRAM_WRITE, R_FMA) = range(30)  # fmt: skip
(I_WARPS, I_PARTS, I_WIDTH, I_LOCAL_LINES, I_L1_SETS, I_L1_WAYS, I_L1_OPERATIONS, I_ALLOCATE, I_BARRIER, I_LAUNCH,
 I_OLDEST, I_APART, I_HOT_LINE, I_COLUMNS) = range(14)  # fmt: skip

SECTOR_BYTES = 32
WAYS = 16
NO_LINE = -1
#: Bits of a line that tell it from others.
TAG_MASK = 2**31 - 1


class Code(NamedTuple):
    """What stays as it is during a simulation."""

    starts: Int32s
    leader: Int32s
    ops: Int32s
    costs: Floats
    slot_of: Int32s
    """[PTX instruction] its place among the accesses of its basic block, or -1"""
    slots: Int32s
    """[basic block] how many accesses it has"""
    counter_of: Int32s
    """[basic block] which of a warp's counters counts its executions; -1: no micro-op of it asks"""
    events: Int64s
    chains: Int64s
    rates: Floats
    settings: Int64s


class State(NamedTuple):
    """What a simulation changes."""

    warps: Int64s
    ready: Int64s
    """[warp, register]"""
    places: Int64s
    """[warp, access of its basic block] first event, or -1"""
    counters: Int64s
    masks: Masks
    clocks: Int64s
    pipes: Floats
    """[sub-partition, Pipe] from when it is free"""
    queues: Floats
    tags: Int32s
    sectors: Int32s
    used: Int64s
    filled: Floats
    """[line of L1] when its latest sector came"""
    blocks: Int64s
    flow: Int64s
    counts: Int64s
    cycles: Floats
    stalls: Int64s
    finish: Floats
    progress: Int64s
    """[block that has ended] micro-ops issued until then"""


def code_of(program: Program, trace: SMTrace, sm: SM) -> Code:
    """Return a program, a trace and an SM as the arrays that a simulation reads."""
    slot_of, slots = _slots(program)
    blocks_of = np.repeat(np.arange(len(program.starts) - 1), np.diff(program.starts))
    partial = np.unique(blocks_of[program.weight < FULL_WEIGHT])
    counter_of = np.full(len(program.starts) - 1, -1, np.int32)
    counter_of[partial] = np.arange(len(partial))
    return Code(
        program.starts.astype(np.int32),
        program.leader.astype(np.int32),
        _ops(program, slot_of),
        _costs(program, sm),
        slot_of,
        slots,
        counter_of,
        np.ascontiguousarray(trace.events).view(np.int64),
        np.ascontiguousarray(trace.chains, np.int64),
        _rates(sm),
        _settings(sm, trace),
    )


def state_of(code: Code, program: Program, rows: int, resident: int) -> State:
    """Return a simulation's state before its first cycle."""
    warps = resident * int(code.settings[I_WARPS])
    parts = int(code.settings[I_PARTS])
    lines = int(code.settings[I_L1_SETS]) * WAYS
    clocks = np.zeros((parts, P_COLUMNS), np.int64)
    clocks[:, [P_NEXT, P_FAR]] = NEVER
    return State(
        np.zeros((warps, W_COLUMNS), np.int64),
        np.zeros((warps, program.registers + 1), np.int64),
        np.full((warps, int(code.slots.max(initial=0)) + 1), -1, np.int64),
        np.zeros((warps, int(code.counter_of.max(initial=-1)) + 2), np.int64),
        np.zeros((parts, M_COLUMNS), np.uint64),
        clocks,
        np.zeros((parts, len(Pipe))),
        np.zeros(Q_COLUMNS),
        np.full(lines, NO_LINE, np.int32),
        np.zeros(lines, np.int32),
        np.zeros(lines, np.int64),
        np.zeros(lines),
        np.zeros((resident, B_COLUMNS), np.int64),
        np.zeros(F_COLUMNS, np.int64),
        np.zeros(N_COLUMNS, np.int64),
        np.zeros(C_COLUMNS),
        np.zeros((len(program.pipe), len(Stall)), np.int64),
        np.zeros(rows),
        np.zeros(rows, np.int64),
    )


def _slots(program: Program) -> tuple[Int32s, Int32s]:
    """Return each instruction's place among the accesses of its basic block, and how many there are."""
    slot_of = np.full(MOST_INSTRUCTIONS, -1, np.int32)
    slots = np.zeros(len(program.starts) - 1, np.int32)
    for block, (start, stop) in enumerate(zip(program.starts[:-1], program.starts[1:], strict=True)):
        accesses = program.accesses[start:stop]
        own = np.unique(accesses[accesses >= 0])
        slot_of[own] = np.arange(len(own))
        slots[block] = len(own)
    return slot_of, slots


def _ops(program: Program, slot_of: Int32s) -> Int32s:
    ops = np.zeros((len(program.pipe), OP_COLUMNS), np.int32)
    by_memory = np.full(len(Memory), Pipe.LSU, np.int32)
    by_memory[[Memory.NONE, Memory.LOAD, Memory.STORE]] = -1, TO_LOAD, TO_STORE
    by_memory[[Memory.ATOMIC, Memory.REDUCTION, Memory.BARRIER]] = TO_ATOMIC, TO_ATOMIC, Pipe.BRANCH
    classes = by_memory[program.memory]
    ops[:, OP_CLASS] = np.where(program.memory == Memory.NONE, program.pipe, classes)
    ops[:, OP_PIPE] = np.where(program.memory == Memory.NONE, program.pipe, np.minimum(classes, Pipe.BRANCH))
    ops[:, OP_PIPE] = np.where((program.memory != Memory.NONE) & (classes != Pipe.BRANCH), Pipe.LSU, ops[:, OP_PIPE])
    ops[:, OP_MEMORY], ops[:, OP_WEIGHT], ops[:, OP_PHASE] = program.memory, program.weight, program.phase
    accesses = np.where(program.accesses >= 0, slot_of[program.accesses], NO_REGISTER)
    waits = np.concatenate([program.sources, program.destinations], axis=1)
    for count, first, values in (
        (OP_WAITS, OP_WAIT, waits),
        (OP_RESULTS, OP_RESULT, program.destinations),
        (OP_SLOTS, OP_SLOT, accesses),
    ):
        is_used = values >= 0
        packed = np.take_along_axis(values, np.argsort(~is_used, axis=1, kind="stable"), axis=1)
        ops[:, count] = is_used.sum(axis=1)
        ops[:, first : first + values.shape[1]] = packed
    return ops


def _costs(program: Program, sm: SM) -> Floats:
    """Return cycles and latency of each micro-op; a latency of 0 is that of what a memory access finds."""
    costs = np.empty((len(program.pipe), 2))
    pipe = np.where((program.memory == Memory.NONE) | (program.memory == Memory.BARRIER), program.pipe, Pipe.LSU)
    costs[:, OP_CYCLES] = np.where(program.cycles > 0, program.cycles, np.array(sm.pipe_cycles)[pipe])
    latency = np.array(sm.pipe_latency, float)
    latency[Pipe.BRANCH] = sm.branch_latency
    costs[:, OP_LATENCY] = np.where(
        program.latency > 0, program.latency, np.where(program.memory == Memory.NONE, latency[pipe], 0.0)
    )
    return costs


def _rates(sm: SM) -> Floats:
    def per_sector(bytes_per_cycle: float) -> float:
        return SECTOR_BYTES / bytes_per_cycle if bytes_per_cycle > 0 else 0.0

    named = {
        R_LSU: sm.lsu_cycles, R_WAVEFRONT: sm.wavefront_cycles, R_JOINED: sm.joined_wavefronts,
        R_REPLAY: sm.replay_cycles, R_TAG: sm.l1_tag_cycles, R_SECTOR: per_sector(sm.l1_bytes_per_cycle),
        R_PASS: sm.l1_pass_cycles, R_STORE_LINE: sm.store_line_cycles, R_PATH: per_sector(sm.l2_path_bytes_per_cycle),
        R_L2_READ: per_sector(sm.l2_bytes_per_cycle), R_L2_WRITE: per_sector(sm.l2_write_bytes_per_cycle),
        R_DRAM: per_sector(sm.dram_bytes_per_cycle), R_DRAM_WRITE: per_sector(sm.dram_write_bytes_per_cycle),
        R_READ_SHARE: sm.dram_read_share, R_WRITE_SHARE: sm.dram_write_share, R_LOCAL_SHARE: sm.dram_local_share,
        R_SHARED_LATENCY: sm.shared_latency, R_L1_LATENCY: sm.l1_latency,
        R_L2_LATENCY: sm.l2_latency, R_DRAM_LATENCY: sm.dram_latency, R_ATOMIC: sm.atomic_cycles,
        R_SHARED_ATOMIC: sm.shared_atomic_cycles, R_LSU_ROOM: sm.lsu_queue_cycles, R_L2_ROOM: sm.l2_queue_cycles,
        R_DRAM_ROOM: sm.dram_queue_cycles, R_ATOMIC_ROOM: sm.atomic_queue_cycles,
        R_HOT: sm.hot_sector_cycles, R_SLICE: sm.sector_slice_cycles, R_REISSUE: sm.reissue_cycles,
        **{R_FMA + pipe: cycles for pipe, cycles in enumerate(sm.fma_cycles)},
    }  # fmt: skip
    return np.array([named[column] for column in range(len(named))])


def _settings(sm: SM, trace: SMTrace) -> Int64s:
    named = {
        I_WARPS: trace.warps, I_PARTS: sm.sub_partitions, I_WIDTH: sm.issue_width, I_OLDEST: sm.is_oldest_first,
        I_LOCAL_LINES: trace.local_lines, I_L1_SETS: max(1, sm.l1_lines // WAYS), I_L1_WAYS: min(sm.l1_lines, WAYS),
        I_L1_OPERATIONS: sm.l1_operations if sm.l1_lines else 0, I_ALLOCATE: sm.stores_allocate,
        I_HOT_LINE: sm.hot_line & TAG_MASK if sm.hot_line >= 0 else NO_LINE,
        I_BARRIER: max(1, np.ceil(sm.barrier_latency)), I_LAUNCH: max(1, np.ceil(sm.block_launch_cycles)),
        I_APART: sm.l1_is_apart,
    }  # fmt: skip
    return np.array([named[column] for column in range(len(named))], np.int64)


# How the functions of the simulation are compiled; importing this module imports numba.


F = TypeVar("F", bound=Callable[..., Any])

#: No array is made or kept: counting references to them would take most of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_OPTIONS = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
ONE = np.uint64(1)
ZERO = np.uint64(0)
FULL_WHEEL = np.uint64(63)


def inlined(function: F) -> F:
    """Return a function that becomes part of those that call it: arrays are not handed over one by one."""
    return cast("F", njit(forceinline=True, **_OPTIONS)(function))


def called(function: F) -> F:
    """Return a function that is seldom needed, compiled once for all that call it."""
    return cast("F", njit(**_OPTIONS)(function))


@inlined
def bit(number: Whole) -> np.uint64:
    """Return a mask of one bit."""
    return ONE << np.uint64(number)


@inlined
def lowest(mask: np.uint64) -> Whole:
    """Return the number of the lowest bit that is set."""
    return np.int64(trailing_zeros(mask))  # type: ignore[call-arg]


@inlined
def upward(time: Real) -> Whole:
    """Return the first whole cycle at or after a time."""
    return np.int64(np.ceil(time))
