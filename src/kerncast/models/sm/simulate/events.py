"""Events: what comes later than its instruction, and the waits for it.

An mbarrier's phase ends with its last arrival and its last byte. Both are worked out when they are asked for, with the
time at which they come; a warp that waits goes on at the latest of these times. A warp whose phase lacks an arrival
that no warp has made yet sleeps until one makes it; one that only asks sleeps where it reads the answer. What one block
tells another one of its cluster counts as told to itself, where the others do the same. Where they have other roles,
their SMs are simulated, too, and it is sent there.
"""

from kerncast.models.sm.micro_ops import Group, Memory, Pipe
from kerncast.models.sm.simulate.chains import (
    STORE,
    answer,
    ask,
    event_number,
    event_object,
    instruction_of,
    is_of,
    need_of,
    operation_of,
    resume,
)
from kerncast.models.sm.simulate.memory_system import occupy, read, sectors_of, write
from kerncast.models.sm.simulate.state import (
    KIND_BITS,
    KINDS,
    LONG,
    SHORT,
    TAG_MASK,
    Code,
    Mbarrier,
    Message,
    Op,
    Real,
    State,
    Whole,
    called,
    inlined,
    upward,
)
from kerncast.traces import (
    LINE_BYTES,
    MASK_SHIFT,
    PASSES_MASK,
    PASSES_SHIFT,
    TOLD_MASK,
    TOLD_SHIFT,
    EventChange,
    Operation,
)

TELL, WAIT, ASK, BULK = int(Memory.TELL), int(Memory.WAIT), int(Memory.ASK), int(Memory.BULK)
TENSOR_PRODUCT, TENSOR = int(Memory.TENSOR_PRODUCT), int(Pipe.TENSOR)
OF_BULK, OF_READS = int(Group.BULK), int(Group.BULK_READS)
EVENT = int(Operation.EVENT)
BEGIN, ARRIVE, DROP = int(EventChange.BEGIN), int(EventChange.ARRIVE), int(EventChange.DROP)
EXPECT, COMPLETE = int(EventChange.EXPECT), int(EventChange.COMPLETE)
ROW, RANK, OBJECT = int(Message.ROW), int(Message.RANK), int(Message.OBJECT)
CHANGE, NUMBER, TOLD = int(Message.CHANGE), int(Message.NUMBER), int(Message.TOLD)
#: Bytes of a row of A, or of a column of B, over those that shared memory gives in a cycle.
ROW_CYCLES = 32 / LINE_BYTES


@called
def happen(code: Code, state: State, x: Whole, op: Op, now: Whole) -> Whole:
    """Do what concerns events; returns when the micro-op's results are there, and which kind brings them."""
    start = occupy(state, now, code.sm.lsu_cycles)
    state.totals.exchange_cycles += code.sm.lsu_cycles
    ready = upward(start + code.sm.shared_latency) << KIND_BITS | SHORT
    if op.memory == WAIT:
        return ready
    if op.memory == ASK:
        return max(ready, ask(code, state, x, op))
    told = ready
    further = upward(max(0.0, code.sm.signal_latency - code.sm.shared_latency)) << KIND_BITS
    if op.memory == BULK:  # its data come to all SMs alike
        told, further = _copy(code, state, x, op, now), 0
    elif op.memory == TELL:
        groups = state.groups[x * KINDS + op.group]
        told = max(ready, max(groups.open, groups.latest) + (upward(op.latency) << KIND_BITS))
    elif op.memory >= TENSOR_PRODUCT:
        _multiply(code, state, x, op, now)
        return ready
    elif op.latency > 0:
        told = upward(start + op.latency) << KIND_BITS | LONG
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at >= 0:
            _tell(code, state, (x, at, now), (told, told + further))
    return ready


@inlined
def _tell(code: Code, state: State, which: tuple[Whole, Whole, Whole], told: tuple[Whole, Whole]) -> None:
    """Change the mbarriers that the events of an instruction name; ``which``: warp, first event, this cycle.

    ``told``: when that happens here and on other SMs, and what kind brings it.
    """
    x, at, now = which
    slot, stop = x // code.derived.warps, state.warps[x].stop
    instruction = instruction_of(code.events[at])
    while is_of(code, at, stop, instruction):
        event = code.events[at]
        at += 1
        if operation_of(event) != EVENT:
            continue
        change, number = event >> MASK_SHIFT & 0xF, event_number(event)
        rank = event >> TOLD_SHIFT & TOLD_MASK
        if rank == 0:
            _change(code, state, (slot, now), event_object(event), (change, number, told[0]))
        elif state.flow.sent < len(state.sent):
            sent, last = state.sent, state.flow.sent
            sent[last, ROW], sent[last, RANK], sent[last, OBJECT] = state.blocks[slot].row, rank, event_object(event)
            sent[last, CHANGE], sent[last, NUMBER], sent[last, TOLD] = change, number, told[1]
            state.flow.sent += 1


@inlined
def _change(
    code: Code, state: State, where: tuple[Whole, Whole], number: Whole, what: tuple[Whole, Whole, Whole]
) -> None:
    """Change an mbarrier of a block, by its number; ``where``: slot, this cycle; ``what``: change, number, when."""
    change, amount, told = what
    phase = state.mbarriers[where[0] * code.derived.objects + number]
    if change == BEGIN:
        phase.expected = phase.pending = amount
        phase.missing = phase.ended = phase.latest = phase.done = 0
    elif change == EXPECT:
        phase.missing += amount
    elif change == DROP:
        phase.expected -= amount
    elif change in (COMPLETE, ARRIVE):
        if change == COMPLETE:
            phase.missing -= amount
        else:
            phase.pending -= amount
        phase.latest = max(phase.latest, told)
        _end_phases(code, state, where, phase)


@called
def receive(code: Code, state: State, now: Whole) -> None:
    """Change mbarriers as other SMs tell: of those that have not begun later, of blocks that have ended never."""
    came = state.received
    for at in range(len(came)):
        row, slot = came[at, ROW], -1
        if row < 0 or row >= state.flow.next_row:
            continue
        for each in range(len(state.blocks)):
            if state.blocks[each].row == row and state.blocks[each].live > 0:
                slot = each
        if slot >= 0 and state.mbarriers[slot * code.derived.objects + came[at, OBJECT]].expected == 0:
            continue
        came[at, ROW] = -1
        if slot >= 0:
            _change(code, state, (slot, now), came[at, OBJECT], (came[at, CHANGE], came[at, NUMBER], came[at, TOLD]))


@inlined
def _end_phases(code: Code, state: State, where: tuple[Whole, Whole], phase: Mbarrier) -> None:
    """End a phase that lacks nothing, and let the warps go on that sleep until it ends; ``where``: slot, this cycle."""
    has_ended = False
    # More arrivals than one phase expects, by one instruction, end several.
    while phase.pending <= 0 and phase.missing == 0 and phase.expected > 0:
        phase.pending += phase.expected
        phase.done = phase.latest
        phase.ended += 1
        has_ended = True
    if not has_ended:
        return
    phase.latest = 0
    slot, now = where
    for x in range(slot * code.derived.warps, (slot + 1) * code.derived.warps):
        answer(code, state, x)
        if state.warps[x].is_asleep and need_of(code, state, x) >= 0:
            resume(code, state, x, now)


@inlined
def _copy(code: Code, state: State, x: Whole, op: Op, now: Whole) -> Whole:
    """Ask the copy engine for many bytes; returns when they are where they go, and which kind brings them.

    One copy after the other: each takes the engine's turns for its bytes. The lines that it reads come from L2 and
    DRAM as any others do, past L1; what it writes goes there once it has been read. Of lines that several blocks
    get, those of one count: each has shared memory of its own. Fails when: pairs tell one block of what both get.
    """
    warp, sm, queues = state.warps[x], code.sm, state.queues
    start = max(float(now), queues.bulk)
    moved, own, read_bytes, done, first = 0, 0, 0, 0.0, -1
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at < 0:
            continue
        instruction = instruction_of(code.events[at])
        while is_of(code, at, warp.stop, instruction):
            event = code.events[at]
            at += 1
            operation = operation_of(event)
            if operation == EVENT:
                told = event >> TOLD_SHIFT & TOLD_MASK
                first = told if first < 0 else first
                moved += event_number(event)
                own += event_number(event) if told == first else 0
                continue
            sectors = sectors_of(event >> MASK_SHIFT & 0xF)
            read_bytes += sectors * 32
            asked = start + read_bytes / LINE_BYTES * op.cycles
            if operation == STORE:
                partly = event >> PASSES_SHIFT & PASSES_MASK
                write(code, state, (sectors, event & TAG_MASK, partly), asked + sm.shared_latency)
            else:
                done = max(done, read(code, state, (sectors, event & TAG_MASK), start))
    work = (max(own, read_bytes) if read_bytes else moved) / LINE_BYTES * op.cycles
    queues.bulk = start + work
    state.totals.shared_cycles += work
    done = max(done, start + work) + op.latency
    ready = upward(done) << KIND_BITS | LONG
    if moved == 0:
        _group_stores(code, state, x, start + work)
        return ready
    warp.result = max(warp.result, ready)
    return ready


@inlined
def _group_stores(code: Code, state: State, x: Whole, read_at: Real) -> None:
    """Add a copy from shared memory to the groups that wait until it is read, and until it is written."""
    warp, sm = state.warps[x], code.sm
    source = upward(read_at + sm.shared_latency) << KIND_BITS | LONG
    written = upward(read_at + sm.shared_latency + sm.l2_latency) << KIND_BITS | LONG
    reads, writes = state.groups[x * KINDS + OF_READS], state.groups[x * KINDS + OF_BULK]
    reads.open, writes.open = max(reads.open, source), max(writes.open, written)
    warp.result = max(warp.result, written)


@inlined
def _multiply(code: Code, state: State, x: Whole, op: Op, now: Whole) -> None:
    """Put a product in tensor memory, or a copy to it, into the queue of the SM's tensor cores.

    Shared memory gives 128 bytes per clock for B, and for A where that lies there: the slower of this and of the
    multiply-adds decides. All sub-partitions work on it.
    """
    cycles = 0.0
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at >= 0:
            event = code.events[at]
            rows, columns = event_object(event) * op.left, event_number(event)
            cycles += max(columns * op.cycles, (rows + columns) * ROW_CYCLES)
    if op.memory != TENSOR_PRODUCT:
        cycles = op.cycles
    state.queues.tensor = max(float(now), state.queues.tensor) + cycles
    state.totals.busy_cycles[TENSOR] += cycles * code.sm.sub_partitions
    groups = state.groups[x * KINDS + op.group]
    groups.open = max(groups.open, upward(state.queues.tensor) << KIND_BITS)
