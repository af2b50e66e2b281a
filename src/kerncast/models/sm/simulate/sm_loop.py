"""One SM's blocks from start to end: which warp issues when.

A loose round robin in each sub-partition: of the warps whose operands are there and whose pipe or queue has room, the
first after the one that issued last. No cycle is visited in which nothing can happen, and no warp that waits is asked.
"""

import numpy as np

from kerncast.models.sm.micro_ops import BARRIERS, Memory, Pipe
from kerncast.models.sm.results import Stall
from kerncast.models.sm.simulate.chains import (
    OF_EVENTS,
    end_group,
    event_number,
    event_object,
    forget,
    prepare_next,
    sleep,
)
from kerncast.models.sm.simulate.events import happen, receive
from kerncast.models.sm.simulate.memory_system import exchange, request
from kerncast.models.sm.simulate.state import (
    ARITHMETIC,
    FULL_WHEEL,
    KIND_BITS,
    KINDS,
    LONG,
    NEVER,
    NO_LINE,
    SHORT,
    TO_ATOMIC,
    TO_END,
    TO_LOAD,
    TO_NOTHING,
    TO_STORE,
    WHEEL,
    ZERO,
    Code,
    Op,
    Real,
    State,
    SubPartition,
    Warp,
    Whole,
    bit,
    called,
    inlined,
    lowest,
    upward,
)

FMA, XU, LSU, BRANCH = int(Pipe.FMA), int(Pipe.XU), int(Pipe.LSU), int(Pipe.BRANCH)
NO_MEMORY, BARRIER, STORED = int(Memory.NONE), int(Memory.BARRIER), int(Memory.STORE)
ARRIVE = int(Memory.ARRIVE)
COPY, COMMIT, AWAIT, PRODUCT = int(Memory.COPY), int(Memory.COMMIT), int(Memory.AWAIT), int(Memory.PRODUCT)


@inlined
def free_at(code: Code, state: State, part: SubPartition, unit: Whole) -> Real:
    """Return from when on a sub-partition can issue to a unit.

    A queue has room while less work than its depth is before it. A store waits for the queues to L2 and DRAM itself; a
    load does not, because its warp waits for the data anyway. The depths are assumed, see ``data/architectures``.
    """
    if unit < TO_LOAD and unit != LSU:
        free = part.pipe_free[unit]
        # An integer instruction that needs the FMA pipe, too, waits for both.
        if code.sm.fma_cycles[unit] > 0.0:
            free = max(free, part.pipe_free[FMA])
        return free
    if unit >= TO_NOTHING:
        return 0.0
    queues, sm = state.queues, code.sm
    free = max(part.pipe_free[LSU], queues.lsu - sm.lsu_queue_cycles)
    if unit >= TO_LOAD:
        free = max(free, queues.l1 - sm.lsu_queue_cycles)
    if unit >= TO_STORE:
        free = max(free, queues.l2 - sm.l2_queue_cycles, queues.dram - sm.dram_queue_cycles)
    if unit == TO_ATOMIC:
        free = max(free, queues.atomic - sm.atomic_queue_cycles)
    return free


FIRST_OPERAND_STALL = int(Stall.WAIT)
SELECTED, NOT_SELECTED = int(Stall.SELECTED), int(Stall.NOT_SELECTED)
MATH, LG, MIO = int(Stall.MATH_PIPE_THROTTLE), int(Stall.LG_THROTTLE), int(Stall.MIO_THROTTLE)
BRANCH_RESOLVING = int(Stall.BRANCH_RESOLVING)


@inlined
def issue(code: Code, state: State, x: Whole, now: Whole) -> bool:
    """Issue a warp's next micro-op; returns whether it now waits at a barrier."""
    warp, number = state.warps[x], x % code.sm.sub_partitions
    part, op = state.parts[number], code.ops[warp.op]
    _account(state, warp, part, now)
    state.totals.issued += 1
    warp.last_op = warp.op
    warp.op += 1
    if warp.unit == TO_NOTHING:
        return False
    # The load/store queue is the one that all sub-partitions want: who had it last is asked last.
    if op.pipe == LSU:
        state.flow.first_part = number + 1
    _occupy_pipe(code, state, part, op, now)
    if op.memory == BARRIER:
        return True
    if op.memory >= OF_EVENTS:
        ready = happen(code, state, x, op, now)
    elif AWAIT >= op.memory >= COMMIT or ARRIVE >= op.memory >= PRODUCT:
        _change_groups(code, state, x, op, now)
        return False
    elif op.memory != NO_MEMORY:
        ready = _access(code, state, x, op, now)
    elif op.pipe == LSU:
        ready = upward(exchange(code, state, op, now)) << KIND_BITS | SHORT
    else:
        ready = upward(now + op.latency) << KIND_BITS | (SHORT if op.pipe == XU else ARITHMETIC)
        if op.pipe == BRANCH:
            # No branch is predicted: the warp fetches nothing until it knows where it goes on.
            warp.gate = now + max(1, upward(op.latency))
            warp.gate_reason = BRANCH_RESOLVING
    _write_results(state, x, op, ready)
    return False


@inlined
def _change_groups(code: Code, state: State, x: Whole, op: Op, now: Whole) -> None:
    """Do what concerns groups of asynchronous operations, or arrive at a barrier: nothing that the warp waits for."""
    if op.memory == ARRIVE:
        _meet(code, state, x, op, now)
    elif op.memory == COMMIT:
        if op.pipe == LSU:
            exchange(code, state, op, now)
        end_group(state.groups[x * KINDS + op.group])
    elif op.memory == PRODUCT:
        free = state.parts[x % code.sm.sub_partitions].pipe_free[op.pipe]
        _add_to_group(state, x, op, upward(free + op.latency) << KIND_BITS | ARITHMETIC)


@inlined
def _access(code: Code, state: State, x: Whole, op: Op, now: Whole) -> Whole:
    """Make a micro-op's accesses; returns when its data are there, and which kind brings them."""
    warp = state.warps[x]
    done, is_global = request(code, state, x, op, now)
    ready = upward(done) << KIND_BITS | (LONG if is_global else SHORT)
    if op.memory == COPY:
        _add_to_group(state, x, op, ready)
    # A block leaves when L2 has what it stored.
    if op.memory == STORED and is_global:
        warp.result = max(warp.result, upward(done + code.sm.store_latency) << KIND_BITS | LONG)
    # What the next barrier waits for: other warps read the shared memory that this one wrote.
    if not is_global:
        warp.shared = max(warp.shared, ready)
    return ready


@inlined
def _add_to_group(state: State, x: Whole, op: Op, ready: Whole) -> None:
    """Note when an asynchronous operation is done; its block's shared memory is not given to another one before."""
    groups, warp = state.groups[x * KINDS + op.group], state.warps[x]
    groups.open = max(groups.open, ready)
    warp.result = max(warp.result, ready)


@inlined
def second_is_free(code: Code, state: State, x: Whole, now: Whole) -> bool:
    """Tell whether a warp's next micro-op can issue in the same cycle as the one before.

    No memory access issues second: two would go to the same load/store queue, which takes one at a time.
    """
    warp, part = state.warps[x], state.parts[x % code.sm.sub_partitions]
    if warp.unit >= TO_LOAD or warp.ready > now:
        return False
    if code.ops[warp.op].memory != NO_MEMORY:
        return False
    if free_at(code, state, part, warp.unit) >= now + 1:
        return False
    warp.wake = now
    warp.woken = part.issued
    return True


@inlined
def _occupy_pipe(code: Code, state: State, part: SubPartition, op: Op, now: Whole) -> None:
    """Keep a micro-op's pipe busy, and the FMA pipe where it takes part: half of GA10x's FP32 lanes do integers.

    A product of 64 bits, which takes twice as long, takes the FMA pipe twice as long.
    """
    # What an engine does for a warp takes the warp's own pipe as long as any request does.
    cycles = op.cycles if op.memory < OF_EVENTS else code.sm.pipe_cycles[LSU]
    part.pipe_free[op.pipe] = max(float(now), part.pipe_free[op.pipe]) + cycles
    state.totals.busy_cycles[op.pipe] += cycles
    shared = code.sm.fma_cycles[op.pipe]
    if shared > 0.0:
        shared *= op.cycles / code.sm.pipe_cycles[op.pipe]
        part.pipe_free[FMA] = max(float(now), part.pipe_free[FMA]) + shared
        state.totals.busy_cycles[FMA] += shared


@inlined
def _write_results(state: State, x: Whole, op: Op, ready: Whole) -> None:
    if op.result_count == 0:
        return
    warp = state.warps[x]
    if ready < NEVER:
        warp.result = max(warp.result, ready)
    for number in range(op.result_count):
        state.ready[x, op.results[number]] = ready


@inlined
def _account(state: State, warp: Warp, part: SubPartition, now: Whole) -> None:
    """Say where a warp's cycles since its last issue went.

    Until a branch or barrier let it go on: to that one's micro-op. Then, until its operands were there: to what brought
    the last of them. After that, cycles in which its sub-partition issued for another warp: not selected; the others:
    its pipe or queue had no room.
    """
    if now < warp.since:
        return
    gate = max(warp.since, warp.gate)
    state.stalls[warp.last_op, warp.gate_reason] += gate - warp.since
    ready = max(gate, warp.ready)
    state.stalls[warp.op, FIRST_OPERAND_STALL + warp.kind] += ready - gate
    others = part.issued - warp.woken
    state.stalls[warp.op, NOT_SELECTED] += others
    throttle = MATH
    if warp.unit == LSU:
        throttle = MIO
    elif warp.unit >= TO_LOAD:
        throttle = LG
    state.stalls[warp.op, throttle] += now - ready - others
    state.stalls[warp.op, SELECTED] += 1
    warp.since = now + 1


BARRIER_STALL = int(Stall.BARRIER)


def run(code: Code, state: State) -> None:
    """Simulate all blocks, or until the cycle where to stop; it goes on where it stopped.

    Each turn of the loop serves the next cycle in which a sub-partition has something to do.
    """
    rows, parts = len(state.finish), code.sm.sub_partitions
    now = np.int64(0)  # a literal would be compiled for apart
    if state.flow.next_row == 0:
        for slot in range(len(state.blocks)):
            if state.flow.next_row < rows:
                _launch(code, state, slot, now, now)
    receive(code, state, state.flow.since - 1)
    state.flow.since = state.flow.until
    while state.flow.finished < rows:
        now = np.int64(NEVER)
        for number in range(parts):
            now = min(now, state.parts[number].next_cycle)
        # All that are left wait for what nobody here does: the caller knows whether another SM does.
        if now >= state.flow.until:
            return
        # What all share is asked first by the sub-partition after the one that had it last: else one of them would
        # always be first at a full queue, and its warps would run ahead of the others.
        first = state.flow.first_part
        for turn in range(parts):
            number = (first + turn) % parts
            if state.parts[number].next_cycle == now:
                _serve(code, state, number, now)


@inlined
def _serve(code: Code, state: State, number: Whole, now: Whole) -> None:
    """Do what a sub-partition does in one cycle, and find the next cycle in which it may do something."""
    part = state.parts[number]
    _wake(code, state, number, now)
    chosen, soonest = _choose(code, state, part, now)
    # One warp issues per cycle; the others that could are asked again in the next cycle.
    if chosen >= 0:
        _issue_of(code, state, number, chosen, now)
        soonest = now + 1 if part.units != ZERO else NEVER
    part.next_cycle = min(soonest, part.far_cycle, _next_wake(part, now))


@inlined
def _next_wake(part: SubPartition, now: Whole) -> Whole:
    """Return the first time on the wheel."""
    if part.occupied == ZERO:
        return NEVER
    turn = np.uint64(now) & FULL_WHEEL
    # Rotated so that this cycle's place is bit 0: the lowest bit is then the cycles until the next wake-up.
    turned = part.occupied >> turn | part.occupied << (np.uint64(WHEEL) - turn & FULL_WHEEL)
    return now + lowest(turned)


@inlined
def _wake(code: Code, state: State, number: Whole, now: Whole) -> None:
    """Let the warps that this cycle wakes wait for their unit, or end."""
    part = state.parts[number]
    if part.far_cycle <= now:
        _bring_near(code, state, number, now)
    place = now & (WHEEL - 1)
    woken = part.waking[place]
    if woken == ZERO:
        return
    part.waking[place] = ZERO
    part.occupied &= ~bit(place)
    while woken != ZERO:
        place_of_warp = lowest(woken)
        woken &= ~bit(place_of_warp)
        x = place_of_warp * code.sm.sub_partitions + number
        warp = state.warps[x]
        if warp.unit == TO_END:
            _end(code, state, x, now)
        else:
            part.waiting[warp.unit] |= bit(place_of_warp)
            part.units |= bit(warp.unit)
            warp.woken = part.issued


@called
def _bring_near(code: Code, state: State, number: Whole, now: Whole) -> None:
    """Put warps on the wheel that wake within its turn."""
    part = state.parts[number]
    far = part.far_warps
    part.far_warps = ZERO
    part.far_cycle = NEVER
    while far != ZERO:
        own = lowest(far)
        far &= ~bit(own)
        sleep(code, state, own * code.sm.sub_partitions + number, now)


@inlined
def _choose(code: Code, state: State, part: SubPartition, now: Whole) -> tuple[Whole, Whole]:
    """Return which warp may issue (its number in the sub-partition, or -1), and when else one may.

    Turing and later take the warp in the lowest slot: against round robin it fits the convolutions, coulomb and
    HeCBench better. Volta's one kernel is worse with it (docs/timing-validation.md, What is fitted).
    """
    candidates: Whole = ZERO
    soonest: Whole = NEVER
    left = part.units
    while left != ZERO:
        unit = lowest(left)
        left &= ~bit(unit)
        free = free_at(code, state, part, unit)
        # Pipes are free at fractions of a cycle (0.67 for Kepler's FMA): issue is possible in the cycle around it.
        if free < now + 1:
            candidates |= part.waiting[unit]
        else:
            soonest = min(soonest, np.int64(free))
    if candidates == ZERO:
        return -1, soonest
    if code.sm.is_oldest_first:
        return lowest(candidates), soonest
    # Round robin: the first candidate at or after the turn, else the first of all.
    turn = np.uint64(part.turn)
    after = candidates >> turn << turn
    return lowest(after if after != ZERO else candidates), soonest


@inlined
def _issue_of(code: Code, state: State, number: Whole, chosen: Whole, now: Whole) -> None:
    """Issue a warp's next micro-op, and as many more in the same cycle as the architecture allows."""
    part = state.parts[number]
    x = chosen * code.sm.sub_partitions + number
    warp = state.warps[x]
    unit = warp.unit
    part.waiting[unit] &= ~bit(chosen)
    if part.waiting[unit] == ZERO:
        part.units &= ~bit(unit)
    part.turn = (chosen + 1) & (WHEEL - 1)
    for turn in range(code.sm.issue_width):
        if turn > 0 and not second_is_free(code, state, x, now):
            break
        # ``issued`` counts cycles in which the scheduler issued, so that two micro-ops at once are one.
        if issue(code, state, x, now):
            part.issued += 1
            _arrive(code, state, x, now)
            return
        prepare_next(code, state, x)
    part.issued += 1
    warp.wake = max(now + 1, warp.ready)
    sleep(code, state, x, now)


@called
def _arrive(code: Code, state: State, x: Whole, now: Whole) -> None:
    """Have a warp wait at its block's barrier; the last one releases all."""
    op = code.ops[state.warps[x].last_op]
    barrier, _ = _barrier_of(code, state, x, op)
    state.warps[x].barrier = barrier + 1
    _meet(code, state, x, op, now)


@inlined
def _barrier_of(code: Code, state: State, x: Whole, op: Op) -> tuple[Whole, Whole]:
    """Return the number of a warp's barrier, and for how many warps it waits, 0 for all: an event may tell both."""
    barrier, wanted = op.group, op.left
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at >= 0:
            barrier, wanted = event_object(code.events[at]) % BARRIERS, event_number(code.events[at])
    return barrier, wanted


@called
def _meet(code: Code, state: State, x: Whole, op: Op, now: Whole) -> None:
    """Count a warp's arrival at a barrier; the last one releases all that wait there."""
    slot = x // code.derived.warps
    block = state.blocks[slot]
    barrier, wanted = _barrier_of(code, state, x, op)
    block.waiting[barrier] += 1
    block.wanted[barrier] = wanted
    if block.waiting[barrier] >= (wanted if wanted > 0 else block.live):
        _release(code, state, (slot, barrier), now)


@called
def _release(code: Code, state: State, which: tuple[Whole, Whole], now: Whole) -> None:
    """Let the warps go on that wait at a block's barrier; ``which``: slot, barrier."""
    slot, barrier = which
    state.blocks[slot].waiting[barrier] = 0
    for x in range(slot * code.derived.warps, (slot + 1) * code.derived.warps):
        warp = state.warps[x]
        if warp.barrier == barrier + 1:
            warp.barrier = 0
            # All leave at once; the latency is one for all, measured from the last warp's arrival.
            warp.gate = now + code.derived.barrier_cycles
            warp.gate_reason = BARRIER_STALL
            _go_on(code, state, x, warp.gate, now)


@called
def _go_on(code: Code, state: State, x: Whole, earliest: Whole, now: Whole) -> None:
    warp = state.warps[x]
    prepare_next(code, state, x)
    warp.wake = max(earliest, warp.ready)
    sleep(code, state, x, now)


@called
def _end(code: Code, state: State, x: Whole, now: Whole) -> None:
    """End a warp; its block may end with it, or have waited at a barrier for nobody else."""
    warp, flow = state.warps[x], state.flow
    if now > warp.since:
        gate = min(max(warp.gate, warp.since), now)
        state.stalls[warp.last_op, warp.gate_reason] += gate - warp.since
        state.stalls[warp.last_op, FIRST_OPERAND_STALL + warp.kind] += now - gate
    slot = x // code.derived.warps
    block = state.blocks[slot]
    block.live -= 1
    if block.live == 0:
        state.finish[flow.finished] = now
        state.progress[flow.finished] = state.totals.issued
        flow.finished += 1
        # The slot is empty until the next block has been launched (about 300 cycles): short blocks feel it.
        if flow.next_row < len(state.finish):
            _launch(code, state, slot, now + code.derived.launch_cycles, now)
        return
    for barrier in range(BARRIERS):
        if block.waiting[barrier] == block.live and block.live > 0 and block.wanted[barrier] == 0:
            _release(code, state, (slot, barrier), now)


@called
def _launch(code: Code, state: State, slot: Whole, start: Whole, now: Whole) -> None:
    """Give a slot the next block; its warps begin at a time."""
    warps, row, block = code.derived.warps, state.flow.next_row, state.blocks[slot]
    state.flow.next_row += 1
    block.row, block.live = row, warps
    for barrier in range(BARRIERS):
        block.waiting[barrier] = 0
    for number in range(slot * code.derived.objects, (slot + 1) * code.derived.objects):
        state.mbarriers[number].expected = 0
        state.mbarriers[number].ended = 0
    for number in range(warps):
        x, serial = slot * warps + number, row * warps + number
        warp = state.warps[x]
        forget(state, x)
        warp.op = warp.end = 0
        warp.event, warp.stop = code.chains[serial], code.chains[serial + 1]
        warp.since, warp.gate = start, start
        warp.shared = warp.result = warp.last_op = 0
        warp.stored = NO_LINE
        for kind in range(KINDS):
            groups = state.groups[x * KINDS + kind]
            groups.open = groups.count = groups.latest = 0
        # Counters start at the warp's number: micro-ops of blocks that run once are spread over the warps.
        for counter in range(state.counters.shape[1]):
            state.counters[x, counter] = serial
        _go_on(code, state, x, start, now)
