"""The memory of the compiled simulation: records whose fields have names, and tables of them.

Times are cycles. When a register is ready is kept as ``time << KIND_BITS | kind``, so that the later of two is the
larger number and tells what was waited for.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, cast, get_type_hints

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from kerncast.models.sm.micro_ops import (
    BARRIERS,
    FULL_WEIGHT,
    JOINED,
    MOST_DESTINATIONS,
    MOST_GROUPS,
    MOST_SOURCES,
    NO_REGISTER,
    Group,
    Memory,
    Pipe,
    Program,
)
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Stall
from kerncast.traces import (
    MASK_SHIFT,
    MOST_INSTRUCTIONS,
    OBJECT_BITS,
    OPERATION_MASK,
    OPERATION_SHIFT,
    EventChange,
    Operation,
    SMTrace,
)

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: Numbers inside compiled functions: Python, NumPy and the compiler each have a type of their own for them.
Whole = Any
Real = Any

KIND_BITS, KIND_MASK = 2, 3
ARITHMETIC, SHORT, LONG = 0, 1, 2
NEVER = 2**62
OBJECT_MASK = (1 << OBJECT_BITS) - 1

# The unit that a micro-op issues to has to have room first: a pipe, of which LSU stands for shared memory, or a queue.
TO_LOAD, TO_STORE, TO_ATOMIC = len(Pipe), len(Pipe) + 1, len(Pipe) + 2
#: A predicated-off access: it takes an issue slot and no unit.
TO_NOTHING = len(Pipe) + 3
#: A product of four warps: it waits for its pipe in a queue, and its warp goes on.
TO_PRODUCTS = len(Pipe) + 4
TO_END = len(Pipe) + 5
_UNITS = TO_PRODUCTS + 1

#: Kinds of groups of asynchronous operations.
KINDS = len(Group)
_NO_ACCESS = [
    int(each)
    for each in (Memory.NONE, Memory.BARRIER, Memory.ARRIVE, Memory.COMMIT, Memory.AWAIT, Memory.PRODUCT)
]  # fmt: skip
_BY_PIPE = [int(each) for each in (Memory.NONE, Memory.PRODUCT)]

#: Cycles that a turn of the wheel of wake times has, and bits of a mask of warps.
WHEEL = 64
SECTOR_BYTES = 32
#: Lines of a set of L1. Volta has 4 sets of many ways (Accel-Sim); 16 ways are a compromise, their tags one vector.
WAYS = 16
NO_LINE = -1
#: The bits of a line's number that L1 keeps as its tag.
TAG_MASK = 2**31 - 1

# How a field lies in memory: the type for mypy, then what NumPy has to know.
_Int32 = Annotated[Any, np.int32]
_Int64 = Annotated[Any, np.int64]
_Float = Annotated[Any, np.float64]
_Flag = Annotated[Any, np.bool_]
#: One bit for each warp of a sub-partition, or for each place of its wheel.
_Mask = Annotated[Any, np.uint64]


class Op:
    """A micro-op on one SM."""

    unit: _Int32
    """Pipe or ``TO_``: the unit that must have room before it issues; of an access, where the trace names no other"""
    pipe: _Int32
    """Pipe that it occupies"""
    memory: _Int32
    """Memory"""
    weight: _Int32
    """executions of its block in which it runs, of FULL_WEIGHT"""
    phase: _Int32
    """offset of these executions, see ``micro_ops.Program``"""
    wait_count: _Int32
    """registers in ``waits``"""
    waits: Annotated[Any, np.int32, (MOST_SOURCES + MOST_DESTINATIONS,)]
    """registers that must be ready; also its results, because writes to a register stay in order"""
    result_count: _Int32
    """registers in ``results``"""
    results: Annotated[Any, np.int32, (MOST_DESTINATIONS,)]
    """registers that it writes"""
    slot_count: _Int32
    """accesses in ``slots``"""
    slots: Annotated[Any, np.int32, (MOST_DESTINATIONS,)]
    """its accesses, as columns of ``State.places``"""
    group: _Int32
    """Group that it belongs to, ends or waits for; of a barrier its number"""
    left: _Int32
    """groups that it lets go on where it waits for the others; see ``micro_ops.Program``"""
    cycles: _Float
    """cycles that it occupies its pipe"""
    latency: _Float
    """cycles from issue to result; 0: those of the memory that its access finds"""


class Derived:
    """Numbers that follow from the SM and the trace, worked out once per simulation."""

    warps: _Int64
    """warps of a block"""
    local_lines: _Int64
    """128-byte lines of local memory that a warp owns"""
    l1_sets: _Int64
    l1_ways: _Int64
    """lines of a set; fewer than WAYS only where L1 is smaller than one set"""
    l1_operations: _Int64
    """one bit for each Operation that L1 keeps data for; 0 without L1"""
    hot_line: _Int64
    """tag of the line that keeps one slice of L2 busier than the others, or NO_LINE"""
    barrier_cycles: _Int64
    """cycles from a barrier's last warp to the next issue"""
    objects: _Int64
    """mbarriers of a block"""
    launch_cycles: _Int64
    """cycles from the end of a block to the start of the next one"""
    l1_sector_cycles: _Float
    """cycles of L1 for a sector that it has"""
    path_sector_cycles: _Float
    """cycles of the path from L2 to this SM for a sector"""
    l2_read_sector_cycles: _Float
    """cycles of this SM's share of L2 for a sector read"""
    l2_write_sector_cycles: _Float
    """cycles of this SM's share of L2 for a sector written"""
    dram_read_sector_cycles: _Float
    """cycles of this SM's share of DRAM for a sector read"""
    dram_write_sector_cycles: _Float
    """cycles of this SM's share of DRAM for a sector written"""


class Warp:
    """A resident warp: where it is in its chain, what its next micro-op needs, and why it waits."""

    op: _Int64
    """its next micro-op; -1 at the end of its chain"""
    end: _Int64
    """number behind the last micro-op of its basic blocks"""
    event: _Int64
    """its next event in the trace"""
    stop: _Int64
    """number behind its last event"""
    execution: _Int64
    """executions of its basic block before this one, which select micro-ops of partial weight"""
    unit: _Int64
    """unit that its next micro-op issues to, or TO_END"""
    ready: _Int64
    """cycle from which operands and gate allow its next micro-op"""
    kind: _Int64
    """ARITHMETIC, SHORT or LONG: what brings the last of these operands"""
    wake: _Int64
    """cycle in which its sub-partition looks at it again"""
    woken: _Int64
    """its sub-partition's ``issued`` when this warp began to wait for its unit"""
    since: _Int64
    """first cycle that is not accounted for in ``State.stalls``"""
    gate: _Int64
    """cycle until which a branch, a barrier or a repeated access holds it"""
    gate_reason: _Int64
    """Stall of that gate"""
    last_op: _Int64
    """micro-op that it issued last"""
    shared: _Int64
    """time and kind of its latest access to shared memory, for which a barrier waits"""
    result: _Int64
    """time and kind of its latest result, for which its end waits"""
    stored: _Int64
    """first line and its sectors of its latest store to global memory, or NO_LINE"""
    goes_on: _Flag
    """whether that store went on with the one before it"""
    barrier: _Int64
    """number of the barrier at which it waits, and one; 0: it waits at none"""
    is_asleep: _Flag
    """whether its next micro-op waits for a phase that lacks what no warp has done yet"""
    asked: _Int64
    """number of the mbarrier whose phase it has asked for without an answer, and one; 0: it has asked for none"""
    asked_parity: _Int64
    """parity of that phase"""
    asked_by: _Int64
    """micro-op that asked, whose results nobody knows yet: NEVER stands for their time"""


class Groups:
    """A warp's groups of asynchronous operations of one kind: when each will be done, with all before it."""

    open: _Int64
    """time and kind of what was issued since the last group ended"""
    count: _Int64
    """groups that have ended"""
    latest: _Int64
    """time and kind by which all groups that have ended are done"""
    done: Annotated[Any, np.int64, (MOST_GROUPS,)]
    """[number modulo MOST_GROUPS] time and kind by which a group and all before it are done"""


class Mbarrier:
    """A barrier in shared memory whose phases end when all arrivals and bytes have come."""

    expected: _Int64
    """arrivals of each phase; 0: it is not initialised"""
    pending: _Int64
    """arrivals that the phase lacks"""
    missing: _Int64
    """bytes that it lacks"""
    ended: _Int64
    """phases that have ended"""
    latest: _Int64
    """time and kind of the latest arrival or byte of the phase"""
    done: _Int64
    """time and kind by which the phase before is done"""


class SubPartition:
    """One scheduler with its pipes; bit n of a mask is its n-th warp. No list is searched: masks answer in one step."""

    next_cycle: _Int64
    """next cycle in which something may happen here"""
    far_cycle: _Int64
    """first cycle in which a warp of ``far_warps`` wakes"""
    far_warps: _Mask
    """warps that wake later than the wheel reaches"""
    occupied: _Mask
    """places of the wheel at which a warp wakes"""
    waking: Annotated[Any, np.uint64, (WHEEL,)]
    """[cycle modulo WHEEL] warps that wake then"""
    units: _Mask
    """units that a warp waits for, one bit each"""
    waiting: Annotated[Any, np.uint64, (_UNITS,)]
    """[unit] warps whose operands are there and that wait for it"""
    pipe_free: Annotated[Any, np.float64, (len(Pipe),)]
    """[Pipe] cycle from which it is free"""
    issued: _Int64
    """cycles in which it issued"""
    turn: _Int64
    """number of the warp that is asked first"""


class Queues:
    """The cycle in which each queue that the sub-partitions share will have done what it was given."""

    lsu: _Float
    """load/store queue: requests and shared memory"""
    l1: _Float
    """lines, where L1 is apart from shared memory"""
    l2: _Float
    """this SM's share of L2"""
    requests: _Float
    """what asks L2 for lines"""
    path: _Float
    """path from L2 to this SM"""
    slice: _Float
    """this SM's share of the slice of L2 that holds the hot line"""
    dram: _Float
    """this SM's share of DRAM"""
    atomic: _Float
    """this SM's share of the units that do atomics in L2"""
    bulk: _Float
    """copy engine"""
    tensor: _Float
    """products in tensor memory, and copies to it"""
    read_debt: _Float
    """sectors to be read from DRAM, below one: shares are fractions, but DRAM moves whole sectors"""
    write_debt: _Float
    """sectors to be written to DRAM, below one"""


class Message(IntEnum):
    """The numbers of which a message consists: a change of an mbarrier in a block on another SM."""

    ROW = 0
    """number of the block in its trace, which is that of its cluster"""
    RANK = 1
    """rank of the block that is told, combined by exclusive or with that of the one that tells"""
    OBJECT = 2
    """number of the mbarrier"""
    CHANGE = 3
    """EventChange"""
    NUMBER = 4
    """arrivals or bytes"""
    TOLD = 5
    """when that happens, and what kind brings it"""


class Block:
    """A resident block."""

    row: _Int64
    """its number in the trace"""
    live: _Int64
    """warps that have not ended"""
    waiting: Annotated[Any, np.int64, (BARRIERS,)]
    """[barrier] warps at it, or that have arrived"""
    wanted: Annotated[Any, np.int64, (BARRIERS,)]
    """[barrier] warps that meet there; 0: all that have not ended"""


class Flow:
    """The progress of the simulation."""

    next_row: _Int64
    """first block of the trace that has not started"""
    finished: _Int64
    """blocks that have ended"""
    tick: _Int64
    """accesses to L1 so far, which date its lines"""
    first_part: _Int64
    """sub-partition that is served first"""
    since: _Int64
    """first cycle that has not been simulated"""
    until: _Int64
    """cycle before which the simulation stops, to go on later"""
    sent: _Int64
    """messages in ``State.sent``"""


class Totals:
    """The counts, under the names of ``results.Simulated``."""

    issued: _Int64
    busy_cycles: Annotated[Any, np.float64, (len(Pipe),)]
    l1_cycles: _Float
    shared_cycles: _Float
    exchange_cycles: _Float
    atomic_cycles: _Float
    l1_sectors: _Int64
    l1_hits: _Int64
    l2_requests: _Int64
    l2_read_sectors: _Int64
    l2_write_sectors: _Int64
    l2_merged_sectors: _Int64
    l2_atomic_sectors: _Int64
    local_read_sectors: _Int64
    local_write_sectors: _Int64
    dram_sectors: _Int64


R_co = TypeVar("R_co", covariant=True)


class Table(Protocol[R_co]):
    """Records one after the other; each is changed in place."""

    def __getitem__(self, number: Whole) -> R_co: ...

    def __len__(self) -> int: ...


class Code(NamedTuple):
    """The constant part of a simulation."""

    starts: Int32s
    """[basic blocks + 1] first micro-op"""
    leader: Int32s
    """[basic block] block with whose micro-ops it is issued"""
    ops: Table[Op]
    slot_of: Int32s
    """[PTX instruction] its place among the accesses of its basic block, or -1"""
    slots: Int32s
    """[basic block] number of its accesses"""
    counter_of: Int32s
    """[basic block] number of the counter of its executions; -1: all its micro-ops always run"""
    events: Int64s
    """the trace's events"""
    chains: Int64s
    """[warps of all blocks + 1] first event of each warp"""
    sm: SM
    """the SM as a record"""
    derived: Derived


class State(NamedTuple):
    """The variable part of a simulation.

    L1 is kept as one array per field, because a set's 16 tags must lie side by side to be compared at once.
    """

    warps: Table[Warp]
    """warp ``x`` belongs to sub-partition ``x % sub_partitions`` and to block slot ``x // warps``"""
    ready: Int64s
    """[warp, register] time and kind"""
    places: Int64s
    """[warp, access of its basic block] first event, or -1"""
    counters: Int64s
    """[warp, counter] executions of a basic block"""
    groups: Table[Groups]
    """groups of warp ``x`` of a kind, at ``x * KINDS + kind``"""
    mbarriers: Table[Mbarrier]
    """mbarrier of a block slot, at ``slot * objects + number``"""
    parts: Table[SubPartition]
    queues: Queues
    tags: Int32s
    """[line of L1] tag, or NO_LINE"""
    sectors: Int32s
    """[line of L1] mask of the sectors that it holds"""
    used: Int64s
    """[line of L1] tick of its last use"""
    filled: Floats
    """[line of L1] cycle in which its latest sector came"""
    blocks: Table[Block]
    flow: Flow
    totals: Totals
    stalls: Int64s
    """[micro-op, Stall] warp-cycles"""
    finish: Floats
    """[block that has ended] cycle"""
    progress: Int64s
    """[block that has ended] micro-ops issued until then"""
    sent: Int64s
    """[message, field of Message] what blocks tell those of their clusters on other SMs; without room nothing is"""
    received: Int64s
    """[message, field of Message] what those tell the blocks here; one that is no longer waiting has the row -1"""


@cache
def layout(fields: type[Any]) -> np.dtype[Any]:
    """Return how records of a class lie in memory: each annotated field in turn, aligned.

    >>> layout(Block).names
    ('row', 'live', 'waiting', 'wanted')
    """
    hints = get_type_hints(fields, include_extras=True).items()
    return np.dtype((np.record, np.dtype([(name, *_memory_of(hint)) for name, hint in hints], align=True)))


def _memory_of(hint: Any) -> tuple[Any, ...]:
    """Return NumPy's type of a field, and its shape where it has several numbers; an SM's tuples are by pipe."""
    if hint == tuple[float, ...]:
        return float, (len(Pipe),)
    return getattr(hint, "__metadata__", (hint,))


def _table(fields: Any, length: int) -> Any:
    return np.zeros(length, layout(fields))


def _record(fields: Any) -> Any:
    return _table(fields, 1)[0]


def _record_of(sm: SM) -> SM:
    """Return an SM as a record, for which mypy knows the same names."""
    found = _record(SM)
    for name in layout(SM).names or ():
        found[name] = getattr(sm, name)
    return cast("SM", found)


def code_of(program: Program, trace: SMTrace, sm: SM, places: Int64s | None = None) -> Code:
    """Return a program, a trace and an SM as the records that a simulation reads.

    ``places``: where mbarriers lie in shared memory, which are numbered in this order; None: those of the trace.
    """
    slot_of, slots = _slots(program)
    places = places_of(trace) if places is None else places
    events = _with_numbered_objects(np.ascontiguousarray(trace.events).view(np.int64), places)
    blocks_of = np.repeat(np.arange(len(program.starts) - 1), np.diff(program.starts))
    partial = np.unique(blocks_of[program.weight < FULL_WEIGHT])
    counter_of = np.full(len(program.starts) - 1, -1, np.int32)
    counter_of[partial] = np.arange(len(partial))
    return Code(
        starts=program.starts.astype(np.int32),
        leader=program.leader.astype(np.int32),
        ops=_ops(program, slot_of, sm),
        slot_of=slot_of,
        slots=slots,
        counter_of=counter_of,
        events=events,
        chains=np.ascontiguousarray(trace.chains, np.int64),
        sm=_record_of(sm),
        derived=_derived(sm, trace, len(places)),
    )


def _is_of_mbarrier(events: Int64s) -> npt.NDArray[np.bool_]:
    is_event = (events >> OPERATION_SHIFT & OPERATION_MASK) == Operation.EVENT
    is_other = np.isin(events >> MASK_SHIFT & 0xF, [EventChange.PRODUCT, EventChange.BARRIER])
    return np.asarray(is_event & ~is_other)


def places_of(*traces: SMTrace) -> Int64s:
    """Return where the mbarriers of traces lie in shared memory, in rising order."""
    every = [np.ascontiguousarray(trace.events).view(np.int64) for trace in traces]
    return np.unique(np.concatenate([events[_is_of_mbarrier(events)] & OBJECT_MASK for events in every]))


def _with_numbered_objects(events: Int64s, places: Int64s) -> Int64s:
    """Return events whose mbarriers are numbered in the order of ``places``, in place of where they lie."""
    is_event = _is_of_mbarrier(events)
    if not is_event.any():
        return events
    numbered = events.copy()
    numbered[is_event] = events[is_event] & ~OBJECT_MASK | np.searchsorted(places, events[is_event] & OBJECT_MASK)
    return numbered


def state_of(code: Code, program: Program, rows: int, resident: int, messages: int = 0) -> State:
    """Return a simulation's state before its first cycle, with room for so many messages to other SMs."""
    warps = resident * int(code.derived.warps)
    lines = int(code.derived.l1_sets) * WAYS
    parts = _table(SubPartition, int(code.sm.sub_partitions))
    parts["next_cycle"] = parts["far_cycle"] = NEVER
    flow = _record(Flow)
    flow.until = NEVER
    return State(
        warps=_table(Warp, warps),
        ready=np.zeros((warps, program.registers + 1), np.int64),
        places=np.full((warps, int(code.slots.max(initial=0)) + 1), -1, np.int64),
        counters=np.zeros((warps, int(code.counter_of.max(initial=-1)) + 2), np.int64),
        groups=_table(Groups, warps * KINDS),
        mbarriers=_table(Mbarrier, max(1, resident * int(code.derived.objects))),
        parts=parts,
        queues=_record(Queues),
        tags=np.full(lines, NO_LINE, np.int32),
        sectors=np.zeros(lines, np.int32),
        used=np.zeros(lines, np.int64),
        filled=np.zeros(lines),
        blocks=_table(Block, resident),
        flow=flow,
        totals=_record(Totals),
        stalls=np.zeros((len(program.pipe), len(Stall)), np.int64),
        finish=np.zeros(rows),
        progress=np.zeros(rows, np.int64),
        sent=np.zeros((messages, len(Message)), np.int64),
        received=np.zeros((0, len(Message)), np.int64),
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


def _ops(program: Program, slot_of: Int32s, sm: SM) -> Table[Op]:
    """Return the micro-ops with what they cost on an SM."""
    ops = _table(Op, len(program.pipe))
    by_memory = np.full(len(Memory), Pipe.LSU, np.int32)
    by_memory[[Memory.NONE, Memory.LOAD, Memory.STORE]] = -1, TO_LOAD, TO_STORE
    by_memory[[Memory.COMMIT, Memory.AWAIT]] = -1
    by_memory[Memory.ARRIVE] = Pipe.BRANCH
    by_memory[Memory.COPY] = TO_LOAD
    by_memory[Memory.BARRIER], by_memory[Memory.PRODUCT] = Pipe.BRANCH, TO_PRODUCTS
    for plain in (Memory.ATOMIC, Memory.REDUCTION):
        by_memory[[plain, *JOINED[plain]]] = TO_ATOMIC
    is_access = ~np.isin(program.memory, _NO_ACCESS)
    ops["unit"] = np.where(by_memory[program.memory] < 0, program.pipe, by_memory[program.memory])
    ops["pipe"] = np.where(is_access, Pipe.LSU, np.where(ops["unit"] < len(Pipe), ops["unit"], program.pipe))
    ops["memory"], ops["weight"], ops["phase"] = program.memory, program.weight, program.phase
    accesses = np.where(program.accesses >= 0, slot_of[program.accesses], NO_REGISTER)
    _pack(ops, "wait_count", "waits", np.concatenate([program.sources, program.destinations], axis=1))
    _pack(ops, "result_count", "results", program.destinations)
    _pack(ops, "slot_count", "slots", accesses)
    ops["group"], ops["left"] = program.group, program.left
    ops["cycles"], ops["latency"] = _costs(program, sm)
    return cast("Table[Op]", ops)


def _pack(ops: npt.NDArray[Any], count: str, field: str, values: Int32s) -> None:
    """Put the used values of each row first, and their number into a field of its own."""
    is_used = values >= 0
    ops[count] = is_used.sum(axis=1)
    ops[field] = np.take_along_axis(values, np.argsort(~is_used, axis=1, kind="stable"), axis=1)


def _costs(program: Program, sm: SM) -> tuple[Floats, Floats]:
    """Return cycles and latency of each micro-op; an access has a latency of 0 where its memory decides it."""
    pipe = np.where(np.isin(program.memory, _NO_ACCESS), program.pipe, Pipe.LSU)
    cycles = np.where(program.cycles > 0, program.cycles, np.array(sm.pipe_cycles)[pipe])
    by_pipe = np.array(sm.pipe_latency, float)
    by_pipe[Pipe.BRANCH] = sm.branch_latency
    unless_given = np.where(np.isin(program.memory, _BY_PIPE), by_pipe[pipe], 0.0)
    return cycles, np.where(program.latency > 0, program.latency, unless_given)


def _derived(sm: SM, trace: SMTrace, objects: int) -> Derived:
    def per_sector(bytes_per_cycle: float) -> float:
        return SECTOR_BYTES / bytes_per_cycle if bytes_per_cycle > 0 else 0.0

    found: Derived = _record(Derived)
    found.warps, found.local_lines, found.objects = trace.warps, trace.local_lines, objects
    found.l1_sets, found.l1_ways = max(1, sm.l1_lines // WAYS), min(sm.l1_lines, WAYS)
    found.l1_operations = sm.l1_operations if sm.l1_lines else 0
    found.hot_line = sm.hot_line & TAG_MASK if sm.hot_line >= 0 else NO_LINE
    # A warp issues in whole cycles, and never in the one in which it was held.
    found.barrier_cycles = max(1, np.ceil(sm.barrier_latency))
    found.launch_cycles = max(1, np.ceil(sm.block_launch_cycles))
    found.l1_sector_cycles = per_sector(sm.l1_bytes_per_cycle)
    found.path_sector_cycles = per_sector(sm.l2_path_bytes_per_cycle)
    found.l2_read_sector_cycles = per_sector(sm.l2_bytes_per_cycle)
    found.l2_write_sector_cycles = per_sector(sm.l2_write_bytes_per_cycle)
    found.dram_read_sector_cycles = per_sector(sm.dram_bytes_per_cycle)
    found.dram_write_sector_cycles = per_sector(sm.dram_write_bytes_per_cycle)
    return found


F = TypeVar("F", bound=Callable[..., Any])

#: No array is made or kept: counting references to them would take most of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_OPTIONS = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
ONE = np.uint64(1)
ZERO = np.uint64(0)
FULL_WHEEL = np.uint64(WHEEL - 1)


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
