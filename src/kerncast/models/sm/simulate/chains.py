"""A warp's way through its chain of events: which micro-op comes next, and when its operands let it issue."""

from kerncast.models.sm.micro_ops import FULL_WEIGHT, Memory, Pipe
from kerncast.models.sm.simulate.state import (
    I_PARTS,
    KIND_BITS,
    KIND_MASK,
    M_FAR,
    M_OCCUPIED,
    M_WHEEL,
    OP_CLASS,
    OP_MEMORY,
    OP_PHASE,
    OP_SLOT,
    OP_SLOTS,
    OP_WAIT,
    OP_WAITS,
    OP_WEIGHT,
    P_FAR,
    P_NEXT,
    TO_ATOMIC,
    TO_END,
    TO_LOAD,
    TO_NOTHING,
    TO_STORE,
    W_CLASS,
    W_END,
    W_EVENT,
    W_EXECUTION,
    W_GATE,
    W_KIND,
    W_OP,
    W_READY,
    W_RESULT,
    W_SHARED,
    W_STOP,
    W_WAKE,
    WHEEL,
    Code,
    State,
    Whole,
    bit,
    inlined,
)
from kerncast.traces import INSTRUCTION_SHIFT, MOST_INSTRUCTIONS, OPERATION_MASK, OPERATION_SHIFT, Operation

BASIC_BLOCK = int(Operation.BASIC_BLOCK)
LOCAL_STORE = int(Operation.LOCAL_STORE)
STORE, ATOMIC, REDUCTION = int(Operation.STORE), int(Operation.ATOMIC), int(Operation.REDUCTION)
LOAD_UNCACHED = int(Operation.LOAD_UNCACHED)
LOCAL_LOAD, CONTENTION = int(Operation.LOCAL_LOAD), int(Operation.CONTENTION)
BARRIER = int(Memory.BARRIER)
LSU = int(Pipe.LSU)


@inlined
def operation_of(event: Whole) -> Whole:
    """Return what an event does."""
    return event >> OPERATION_SHIFT & OPERATION_MASK


@inlined
def instruction_of(event: Whole) -> Whole:
    """Return which PTX instruction, or basic block, an event is of."""
    return event >> INSTRUCTION_SHIFT & (MOST_INSTRUCTIONS - 1)


@inlined
def prepare_next(code: Code, state: State, x: Whole) -> None:
    """Find a warp's next micro-op, what it needs, and when its operands are there."""
    op = _next_op(code, state, x)
    state.warps[x, W_OP] = op
    if op < 0:
        state.warps[x, W_CLASS] = TO_END
        need = state.warps[x, W_RESULT]
    else:
        state.warps[x, W_CLASS] = _class_of(code, state, x, op)
        need = _operands(code, state, x, op)
    state.warps[x, W_KIND] = need & KIND_MASK
    state.warps[x, W_READY] = max(need >> KIND_BITS, state.warps[x, W_GATE])


@inlined
def sleep(code: Code, state: State, x: Whole, now: Whole) -> None:
    """Have a warp looked at again at its wake time."""
    parts = code.settings[I_PARTS]
    part, own = x % parts, bit(x // parts)
    wake = state.warps[x, W_WAKE]
    state.clocks[part, P_NEXT] = min(state.clocks[part, P_NEXT], wake)
    if wake - now < WHEEL:
        place = wake & (WHEEL - 1)
        state.masks[part, M_WHEEL + place] |= own
        state.masks[part, M_OCCUPIED] |= bit(place)
    else:
        state.masks[part, M_FAR] |= own
        state.clocks[part, P_FAR] = min(state.clocks[part, P_FAR], wake)


@inlined
def _next_op(code: Code, state: State, x: Whole) -> Whole:
    """Return the next micro-op that runs, or -1 at the end of the chain."""
    op, end = state.warps[x, W_OP], state.warps[x, W_END]
    while True:
        while op < end:
            weight = code.ops[op, OP_WEIGHT]
            if weight == FULL_WEIGHT:
                return op
            turn = state.warps[x, W_EXECUTION] * weight + code.ops[op, OP_PHASE]
            if turn & (FULL_WEIGHT - 1) < weight:
                return op
            op += 1
        if not _enter_block(code, state, x):
            return -1
        op, end = state.warps[x, W_OP], state.warps[x, W_END]


@inlined
def _enter_block(code: Code, state: State, x: Whole) -> bool:
    """Go to the next basic blocks of the chain that are issued as one; False: there are none.

    Notes where the events of their accesses are. Blocks that are issued as one have rising numbers: one that has no
    higher number than the one before belongs to the next time.
    """
    at, stop = state.warps[x, W_EVENT], state.warps[x, W_STOP]
    blocks = len(code.slots)
    while at < stop and not (operation_of(code.events[at]) == BASIC_BLOCK and instruction_of(code.events[at]) < blocks):
        at += 1
    if at >= stop:
        return False
    latest = instruction_of(code.events[at])
    block = code.leader[latest]
    at += 1
    for number in range(code.slots[block]):
        state.places[x, number] = -1
    before = -1
    while at < stop:
        instruction = instruction_of(code.events[at])
        if operation_of(code.events[at]) == BASIC_BLOCK:
            if instruction <= latest or instruction >= blocks or code.leader[instruction] != block:
                break
            latest = instruction
            before = -1
            at += 1
            continue
        slot = code.slot_of[instruction]
        if instruction != before and slot >= 0:
            state.places[x, slot] = at
        before = instruction
        at += 1
    state.warps[x, W_EVENT] = at
    state.warps[x, W_OP], state.warps[x, W_END] = code.starts[block], code.starts[block + 1]
    counter = code.counter_of[block]
    if counter >= 0:
        state.warps[x, W_EXECUTION] = state.counters[x, counter]
        state.counters[x, counter] += 1
    return True


@inlined
def _operands(code: Code, state: State, x: Whole, op: Whole) -> Whole:
    """Return when the last of a micro-op's registers is there, and of which kind it is."""
    need = 0
    for number in range(code.ops[op, OP_WAITS]):
        need = max(need, state.ready[x, code.ops[op, OP_WAIT + number]])
    if code.ops[op, OP_MEMORY] == BARRIER:
        need = max(need, state.warps[x, W_SHARED])
    return need


@inlined
def _class_of(code: Code, state: State, x: Whole, op: Whole) -> Whole:
    """Return what a micro-op waits for besides operands: for an access, by what the recording says that it is."""
    slots = code.ops[op, OP_SLOTS]
    if slots == 0:
        return code.ops[op, OP_CLASS]
    for number in range(slots):
        place = state.places[x, code.ops[op, OP_SLOT + number]]
        if place >= 0:
            operation = operation_of(code.events[place])
            if operation in (STORE, LOCAL_STORE):
                return TO_STORE
            if operation in (ATOMIC, REDUCTION, CONTENTION):
                return TO_ATOMIC
            return TO_LOAD if operation <= LOCAL_LOAD else LSU
    return TO_NOTHING
