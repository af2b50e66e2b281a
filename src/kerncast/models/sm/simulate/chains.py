"""A warp's way through its chain of events: which micro-op comes next, and when its operands let it issue."""

from kerncast.models.sm.micro_ops import FIRST_OF_EVENTS, FULL_WEIGHT, MOST_GROUPS, Memory, Pipe
from kerncast.models.sm.simulate.state import (
    KIND_BITS,
    KIND_MASK,
    KINDS,
    NEVER,
    OBJECT_MASK,
    TO_ATOMIC,
    TO_END,
    TO_LOAD,
    TO_NOTHING,
    TO_STORE,
    WHEEL,
    Code,
    Groups,
    Op,
    State,
    Whole,
    bit,
    called,
    inlined,
    upward,
)
from kerncast.traces import (
    INSTRUCTION_SHIFT,
    MOST_INSTRUCTIONS,
    NUMBER_MASK,
    OBJECT_BITS,
    OPERATION_MASK,
    OPERATION_SHIFT,
    Operation,
)

BASIC_BLOCK = int(Operation.BASIC_BLOCK)
LOCAL_STORE = int(Operation.LOCAL_STORE)
STORE, ATOMIC, REDUCTION = int(Operation.STORE), int(Operation.ATOMIC), int(Operation.REDUCTION)
LOAD_UNCACHED = int(Operation.LOAD_UNCACHED)
LOCAL_LOAD, CONTENTION = int(Operation.LOCAL_LOAD), int(Operation.CONTENTION)
BARRIER, AWAIT = int(Memory.BARRIER), int(Memory.AWAIT)
WAIT, ASK = int(Memory.WAIT), int(Memory.ASK)
OF_EVENTS = int(FIRST_OF_EVENTS)
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
def is_of(code: Code, at: Whole, stop: Whole, instruction: Whole) -> bool:
    """Tell whether the event at a place still belongs to one execution of an instruction."""
    if at >= stop:
        return False
    event = code.events[at]
    return bool(instruction_of(event) == instruction and operation_of(event) != BASIC_BLOCK)


@inlined
def event_object(event: Whole) -> Whole:
    """Return the number of the mbarrier that an EVENT is of."""
    return event & OBJECT_MASK


@inlined
def event_number(event: Whole) -> Whole:
    """Return the number that an EVENT has besides."""
    return event >> OBJECT_BITS & NUMBER_MASK


@inlined
def prepare_next(code: Code, state: State, x: Whole) -> None:
    """Find a warp's next micro-op, the unit that it issues to, and when its operands are ready."""
    warp = state.warps[x]
    number = _next_op(code, state, x)
    warp.op = number
    warp.is_asleep = False
    if number < 0:
        # A warp keeps its place until its results have arrived: a load that nobody reads delays the block's end.
        warp.unit = TO_END
        need = warp.result
    else:
        op = code.ops[number]
        warp.unit = _unit_of(code, state, x, op)
        need = need_of(code, state, x)
        if need < 0:
            warp.is_asleep = True
            need = 0
    warp.kind = need & KIND_MASK
    warp.ready = NEVER if warp.is_asleep else max(need >> KIND_BITS, warp.gate)


@inlined
def need_of(code: Code, state: State, x: Whole) -> Whole:
    """Return when a warp's next micro-op has what it needs, and which kind brings the last of it.

    -1: it waits for a phase that lacks what nobody has done yet. A warp asks for one phase at a time: what follows the
    next question of a pipeline needs the answer to the one before, also where machine code shows nothing of that.
    """
    warp = state.warps[x]
    op = code.ops[warp.op]
    need = _operands(state, x, op)
    if op.memory == WAIT:
        phase = _awaited_phase(code, state, x, op)
        if phase < 0:
            return -1
        need = max(need, phase)
    if op.memory == ASK and warp.asked > 0 and warp.unit != TO_NOTHING:
        return -1
    return -1 if need >= NEVER else need


@inlined
def _mbarrier_of(code: Code, x: Whole, event: Whole) -> Whole:
    """Return the place of the mbarrier, of the warp's own block, that an EVENT is of."""
    return x // code.derived.warps * code.derived.objects + event_object(event)


@inlined
def _awaited_phase(code: Code, state: State, x: Whole, op: Op) -> Whole:
    """Return when the phase has ended that a micro-op waits for; -1: nobody knows yet.

    A parity tells the phase: it has ended where the one that runs has the other parity, or none has ended and it is 1.
    """
    need = 0
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at >= 0:
            event = code.events[at]
            phase = state.mbarriers[_mbarrier_of(code, x, event)]
            if phase.ended & 1 == event_number(event):
                return -1
            need = max(need, phase.done)
    return need


@inlined
def ask(code: Code, state: State, x: Whole, op: Op) -> Whole:
    """Return when the answer to a question for a phase is there, NEVER where nobody knows yet."""
    phase, warp = _awaited_phase(code, state, x, op), state.warps[x]
    if phase >= 0:
        return phase + (upward(code.sm.shared_latency) << KIND_BITS)
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at >= 0:
            event = code.events[at]
            warp.asked = _mbarrier_of(code, x, event) + 1
            warp.asked_parity, warp.asked_by = event_number(event), warp.last_op
    return NEVER


@inlined
def answer(code: Code, state: State, x: Whole) -> None:
    """Answer what a warp has asked for, if it has and the phase has ended."""
    warp = state.warps[x]
    if warp.asked > 0:
        phase = state.mbarriers[warp.asked - 1]
        if phase.ended & 1 != warp.asked_parity:
            ready = phase.done + (upward(code.sm.shared_latency) << KIND_BITS)
            warp.asked, warp.result = 0, max(warp.result, ready)
            op = code.ops[warp.asked_by]
            for number in range(op.result_count):
                state.ready[x, op.results[number]] = ready


@inlined
def forget(state: State, x: Whole) -> None:
    """Let go of what the warp before had in its registers: it may have asked without reading the answer."""
    state.warps[x].asked = 0
    for register in range(state.ready.shape[1]):
        state.ready[x, register] = 0


@called
def resume(code: Code, state: State, x: Whole, now: Whole) -> None:
    """Let a warp go on that slept until a phase ended."""
    warp, part = state.warps[x], state.parts[x % code.sm.sub_partitions]
    part.far_warps &= ~bit(x // code.sm.sub_partitions)
    warp.is_asleep = False
    need = need_of(code, state, x)
    warp.kind = need & KIND_MASK
    warp.ready = max(need >> KIND_BITS, warp.gate)
    warp.wake = max(now + 1, warp.ready)
    sleep(code, state, x, now)


@inlined
def sleep(code: Code, state: State, x: Whole, now: Whole) -> None:
    """Have a warp looked at again at its wake time.

    Most wake within a turn of the wheel; those behind it, as after DRAM, are set apart until the first of them is due.
    """
    part, own = state.parts[x % code.sm.sub_partitions], bit(x // code.sm.sub_partitions)
    wake = state.warps[x].wake
    part.next_cycle = min(part.next_cycle, wake)
    # Latencies of arithmetic and L1 are below 64 cycles: nearly all warps find their place on the wheel at once.
    if wake - now < WHEEL:
        place = wake & (WHEEL - 1)
        part.waking[place] |= own
        part.occupied |= bit(place)
    else:
        part.far_warps |= own
        part.far_cycle = min(part.far_cycle, wake)


@inlined
def _next_op(code: Code, state: State, x: Whole) -> Whole:
    """Return the next micro-op that runs, or -1 at the end of the chain.

    One of partial weight runs in some of its block's executions, evenly spread: so counts agree with the averages of
    the lowering table, and no random number makes two runs differ.
    """
    warp = state.warps[x]
    number, end = warp.op, warp.end
    while True:
        while number < end:
            weight = code.ops[number].weight
            if weight == FULL_WEIGHT:
                return number
            turn = warp.execution * weight + code.ops[number].phase
            if turn & (FULL_WEIGHT - 1) < weight:
                return number
            number += 1
        if not _enter_block(code, state, x):
            return -1
        number, end = warp.op, warp.end


@inlined
def _enter_block(code: Code, state: State, x: Whole) -> bool:
    """Go to the next basic blocks of the chain that are issued as one; False: there are none.

    Notes where the events of their accesses are. Blocks that are issued as one have rising numbers: one that has no
    higher number than the one before belongs to the next time.
    """
    warp = state.warps[x]
    at, stop = warp.event, warp.stop
    blocks = len(code.slots)
    while at < stop and not (operation_of(code.events[at]) == BASIC_BLOCK and instruction_of(code.events[at]) < blocks):
        at += 1
    if at >= stop:
        return False
    latest = instruction_of(code.events[at])
    block = code.leader[latest]
    for number in range(code.slots[block]):
        state.places[x, number] = -1
    warp.event = _note_accesses(code, state, x, (at + 1, stop, latest))
    warp.op, warp.end = code.starts[block], code.starts[block + 1]
    # Only blocks with micro-ops of partial weight count their executions: most have none.
    counter = code.counter_of[block]
    if counter >= 0:
        warp.execution = state.counters[x, counter]
        state.counters[x, counter] += 1
    return True


@inlined
def _note_accesses(code: Code, state: State, x: Whole, events: tuple[Whole, Whole, Whole]) -> Whole:
    """Note the first event of each access of blocks that are issued as one; returns the event behind them.

    ``events``: the first one, the end of the chain, and the number of the block that was entered.
    """
    at, stop, latest = events
    blocks, block = len(code.slots), code.leader[latest]
    before = -1
    while at < stop:
        instruction = instruction_of(code.events[at])
        # A loop comes back to a lower or the same number; a block with another leader is issued by itself.
        if operation_of(code.events[at]) == BASIC_BLOCK:
            if instruction <= latest or instruction >= blocks or code.leader[instruction] != block:
                break
            latest = instruction
            before = -1
        else:
            slot = code.slot_of[instruction]
            if instruction != before and slot >= 0:
                state.places[x, slot] = at
            before = instruction
        at += 1
    return at


@inlined
def _operands(state: State, x: Whole, op: Op) -> Whole:
    """Return when the last of a micro-op's registers is ready, and which kind brings it.

    A barrier waits for the warp's own shared accesses, too: others read behind it what they wrote.
    """
    need = 0
    for number in range(op.wait_count):
        need = max(need, state.ready[x, op.waits[number]])
    if op.memory == BARRIER:
        need = max(need, state.warps[x].shared)
    if op.memory == AWAIT:
        need = max(need, _awaited(state.groups[x * KINDS + op.group], op.left))
    return need


@inlined
def _awaited(groups: Groups, left: Whole) -> Whole:
    """Return when all groups but the latest ones are done, and which kind brings the last of them."""
    number = groups.count - 1 - left
    return groups.done[number & (MOST_GROUPS - 1)] if number >= 0 else 0


@inlined
def end_group(groups: Groups) -> None:
    """End a group of asynchronous operations: it is done no sooner than those before it."""
    before = groups.done[(groups.count - 1) & (MOST_GROUPS - 1)] if groups.count > 0 else 0
    groups.done[groups.count & (MOST_GROUPS - 1)] = groups.latest = max(groups.open, before)
    groups.count += 1
    groups.open = 0


@inlined
def _unit_of(code: Code, state: State, x: Whole, op: Op) -> Whole:
    """Return the unit that a micro-op issues to: of a generic access, the trace tells which memory it touched."""
    if op.slot_count == 0:
        return op.unit
    for number in range(op.slot_count):
        place = state.places[x, op.slots[number]]
        if place >= 0:
            operation = operation_of(code.events[place])
            if op.memory >= OF_EVENTS:
                return LSU
            if operation in (STORE, LOCAL_STORE):
                return TO_STORE
            if operation in (ATOMIC, REDUCTION, CONTENTION):
                return TO_ATOMIC
            return TO_LOAD if operation <= LOCAL_LOAD else LSU
    # All lanes are predicated off: the instruction is issued and asks no memory.
    return TO_NOTHING
