"""One SM's blocks from start to end: which warp issues when.

A loose round robin in each sub-partition: of the warps whose operands are there and whose pipe or queue has room, the
first after the one that issued last. No cycle is visited in which nothing can happen, and no warp that waits is asked.
"""

import numpy as np

from kerncast.models.sm.micro_ops import Memory, Pipe
from kerncast.models.sm.results import Stall
from kerncast.models.sm.simulate.chains import prepare_next, sleep
from kerncast.models.sm.simulate.memory_system import exchange, request
from kerncast.models.sm.simulate.state import (
    ARITHMETIC,
    B_LIVE,
    B_WAITING,
    C_BUSY,
    F_FINISHED,
    F_FIRST,
    F_ROW,
    FULL_WHEEL,
    I_BARRIER,
    I_LAUNCH,
    I_OLDEST,
    I_PARTS,
    I_WARPS,
    I_WIDTH,
    KIND_BITS,
    LONG,
    M_CLASSES,
    M_FAR,
    M_OCCUPIED,
    M_READY,
    M_WHEEL,
    N_ISSUED,
    NEVER,
    OP_CYCLES,
    OP_LATENCY,
    OP_MEMORY,
    OP_PIPE,
    OP_RESULT,
    OP_RESULTS,
    P_FAR,
    P_ISSUED,
    P_NEXT,
    P_TURN,
    Q_ATOMIC,
    Q_DRAM,
    Q_L1,
    Q_L2,
    Q_LSU,
    R_ATOMIC_ROOM,
    R_DRAM_ROOM,
    R_FMA,
    R_L2_ROOM,
    R_LSU_ROOM,
    SHORT,
    TO_ATOMIC,
    TO_END,
    TO_LOAD,
    TO_NOTHING,
    TO_STORE,
    W_CLASS,
    W_END,
    W_EVENT,
    W_GATE,
    W_GATE_REASON,
    W_KIND,
    W_LAST_OP,
    W_OP,
    W_READY,
    W_RESULT,
    W_SHARED,
    W_SINCE,
    W_STOP,
    W_WAITS,
    W_WAKE,
    W_WOKEN,
    WHEEL,
    ZERO,
    Code,
    Real,
    State,
    Whole,
    bit,
    called,
    inlined,
    lowest,
    upward,
)

# When a pipe or a queue has room for another micro-op.


FMA, LSU = int(Pipe.FMA), int(Pipe.LSU)


@inlined
def free_at(code: Code, state: State, part: Whole, group: Whole) -> Real:
    """Return from when on a sub-partition can issue what waits for a pipe or a queue."""
    if group < TO_LOAD and group != LSU:
        free = state.pipes[part, group]
        if code.rates[R_FMA + group] > 0.0:
            free = max(free, state.pipes[part, FMA])
        return free
    if group == TO_NOTHING:
        return 0.0
    queues, rates = state.queues, code.rates
    free = max(state.pipes[part, LSU], queues[Q_LSU] - rates[R_LSU_ROOM])
    if group >= TO_LOAD:
        free = max(free, queues[Q_L1] - rates[R_LSU_ROOM])
    if group >= TO_STORE:
        free = max(free, queues[Q_L2] - rates[R_L2_ROOM], queues[Q_DRAM] - rates[R_DRAM_ROOM])
    if group == TO_ATOMIC:
        free = max(free, queues[Q_ATOMIC] - rates[R_ATOMIC_ROOM])
    return free


# What issuing a micro-op does: to its pipe, to the registers it writes, and to the account of why its warp waited.

XU, BRANCH = int(Pipe.XU), int(Pipe.BRANCH)
NO_MEMORY, BARRIER = int(Memory.NONE), int(Memory.BARRIER)
FIRST_OPERAND_STALL = int(Stall.WAIT)
SELECTED, NOT_SELECTED = int(Stall.SELECTED), int(Stall.NOT_SELECTED)
MATH, LG, MIO = int(Stall.MATH_PIPE_THROTTLE), int(Stall.LG_THROTTLE), int(Stall.MIO_THROTTLE)
BRANCH_RESOLVING = int(Stall.BRANCH_RESOLVING)


@inlined
def issue(code: Code, state: State, x: Whole, part: Whole, now: Whole) -> bool:
    """Issue a warp's next micro-op; returns whether it now waits at a barrier."""
    op = state.warps[x, W_OP]
    _account(state, x, part, op, now)
    state.counts[N_ISSUED] += 1
    state.warps[x, W_LAST_OP] = op
    state.warps[x, W_OP] = op + 1
    if state.warps[x, W_CLASS] == TO_NOTHING:
        return False
    pipe, memory = code.ops[op, OP_PIPE], code.ops[op, OP_MEMORY]
    if pipe == LSU:
        state.flow[F_FIRST] = part + 1
    _occupy_pipe(code, state, part, op, now)
    if memory == BARRIER:
        return True
    latency = code.costs[op, OP_LATENCY]
    if memory != NO_MEMORY:
        done, is_global = request(code, state, x, op, now)
        ready = upward(done) << KIND_BITS | (LONG if is_global else SHORT)
        if not is_global:
            state.warps[x, W_SHARED] = max(state.warps[x, W_SHARED], ready)
    elif pipe == LSU:
        ready = upward(exchange(code, state, op, now)) << KIND_BITS | SHORT
    else:
        ready = upward(now + latency) << KIND_BITS | (SHORT if pipe == XU else ARITHMETIC)
        if pipe == BRANCH:
            state.warps[x, W_GATE] = now + max(1, upward(latency))
            state.warps[x, W_GATE_REASON] = BRANCH_RESOLVING
    _write_results(code, state, x, op, ready)
    return False


@inlined
def second_is_free(code: Code, state: State, x: Whole, part: Whole, now: Whole) -> bool:
    """Tell whether a warp's next micro-op can issue in the same cycle as the one before."""
    group = state.warps[x, W_CLASS]
    if group >= TO_LOAD or state.warps[x, W_READY] > now:
        return False
    if code.ops[state.warps[x, W_OP], OP_MEMORY] != NO_MEMORY:
        return False
    if free_at(code, state, part, group) >= now + 1:
        return False
    state.warps[x, W_WAKE] = now
    state.warps[x, W_WOKEN] = state.clocks[part, P_ISSUED]
    return True


@inlined
def _occupy_pipe(code: Code, state: State, part: Whole, op: Whole, now: Whole) -> None:
    pipe = code.ops[op, OP_PIPE]
    cycles = code.costs[op, OP_CYCLES]
    state.pipes[part, pipe] = max(float(now), state.pipes[part, pipe]) + cycles
    state.cycles[C_BUSY + pipe] += cycles
    shared = code.rates[R_FMA + pipe]
    if shared > 0.0:
        state.pipes[part, FMA] = max(float(now), state.pipes[part, FMA]) + shared
        state.cycles[C_BUSY + FMA] += shared


@inlined
def _write_results(code: Code, state: State, x: Whole, op: Whole, ready: Whole) -> None:
    results = code.ops[op, OP_RESULTS]
    if results == 0:
        return
    state.warps[x, W_RESULT] = max(state.warps[x, W_RESULT], ready)
    for number in range(results):
        state.ready[x, code.ops[op, OP_RESULT + number]] = ready


@inlined
def _account(state: State, x: Whole, part: Whole, op: Whole, now: Whole) -> None:
    """Say where a warp's cycles since its last issue went.

    Until a branch or barrier let it go on: to that one's micro-op. Then, until its operands were there: to what brought
    the last of them. After that, cycles in which its sub-partition issued for another warp: not selected; the others:
    its pipe or queue had no room.
    """
    since = state.warps[x, W_SINCE]
    if now < since:
        return
    gate = max(since, state.warps[x, W_GATE])
    state.stalls[state.warps[x, W_LAST_OP], state.warps[x, W_GATE_REASON]] += gate - since
    ready = max(gate, state.warps[x, W_READY])
    state.stalls[op, FIRST_OPERAND_STALL + state.warps[x, W_KIND]] += ready - gate
    others = state.clocks[part, P_ISSUED] - state.warps[x, W_WOKEN]
    state.stalls[op, NOT_SELECTED] += others
    group = state.warps[x, W_CLASS]
    throttle = MATH
    if group == LSU:
        throttle = MIO
    elif group >= TO_LOAD:
        throttle = LG
    state.stalls[op, throttle] += now - ready - others
    state.stalls[op, SELECTED] += 1
    state.warps[x, W_SINCE] = now + 1


BARRIER_STALL = int(Stall.BARRIER)


def run(code: Code, state: State) -> None:
    """Simulate all blocks; each turn of the loop serves the next cycle in which a sub-partition has something to do."""
    rows = len(state.finish)
    now = np.int64(0)  # a literal would be compiled for apart
    for slot in range(len(state.blocks)):
        if state.flow[F_ROW] < rows:
            _launch(code, state, slot, now, now)
    while state.flow[F_FINISHED] < rows:
        now = np.int64(NEVER)
        for part in range(code.settings[I_PARTS]):
            now = min(now, state.clocks[part, P_NEXT])
        # What all share is asked first by the sub-partition after the one that had it last.
        first = state.flow[F_FIRST]
        for turn in range(code.settings[I_PARTS]):
            part = (first + turn) % code.settings[I_PARTS]
            if state.clocks[part, P_NEXT] == now:
                _serve(code, state, part, now)


@inlined
def _serve(code: Code, state: State, part: Whole, now: Whole) -> None:
    """Do what a sub-partition does in one cycle, and find the next cycle in which it may do something."""
    _wake(code, state, part, now)
    chosen, soonest = _choose(code, state, part, now)
    if chosen >= 0:
        _issue_of(code, state, part, chosen, now)
        soonest = now + 1 if state.masks[part, M_CLASSES] != ZERO else NEVER
    state.clocks[part, P_NEXT] = min(soonest, state.clocks[part, P_FAR], _next_wake(state, part, now))


@inlined
def _next_wake(state: State, part: Whole, now: Whole) -> Whole:
    """Return the first time on the wheel."""
    occupied = state.masks[part, M_OCCUPIED]
    if occupied == ZERO:
        return NEVER
    turn = np.uint64(now) & FULL_WHEEL
    turned = occupied >> turn | occupied << (np.uint64(WHEEL) - turn & FULL_WHEEL)
    return now + lowest(turned)


@inlined
def _wake(code: Code, state: State, part: Whole, now: Whole) -> None:
    """Let the warps that this cycle wakes wait for their pipe, or end."""
    masks = state.masks
    if state.clocks[part, P_FAR] <= now:
        _bring_near(code, state, part, now)
    place = now & (WHEEL - 1)
    woken = masks[part, M_WHEEL + place]
    if woken == ZERO:
        return
    masks[part, M_WHEEL + place] = ZERO
    masks[part, M_OCCUPIED] &= ~bit(place)
    while woken != ZERO:
        number = lowest(woken)
        woken &= ~bit(number)
        x = number * code.settings[I_PARTS] + part
        group = state.warps[x, W_CLASS]
        if group == TO_END:
            _end(code, state, x, now)
        else:
            masks[part, M_READY + group] |= bit(number)
            masks[part, M_CLASSES] |= bit(group)
            state.warps[x, W_WOKEN] = state.clocks[part, P_ISSUED]


@called
def _bring_near(code: Code, state: State, part: Whole, now: Whole) -> None:
    """Put warps on the wheel that wake within its turn."""
    far = state.masks[part, M_FAR]
    state.masks[part, M_FAR] = ZERO
    state.clocks[part, P_FAR] = NEVER
    while far != ZERO:
        number = lowest(far)
        far &= ~bit(number)
        sleep(code, state, number * code.settings[I_PARTS] + part, now)


@inlined
def _choose(code: Code, state: State, part: Whole, now: Whole) -> tuple[Whole, Whole]:
    """Return which warp may issue (its number in the sub-partition, or -1), and when else one may."""
    masks = state.masks
    candidates: Whole = ZERO
    soonest: Whole = NEVER
    left = masks[part, M_CLASSES]
    while left != ZERO:
        group = lowest(left)
        left &= ~bit(group)
        free = free_at(code, state, part, group)
        if free < now + 1:
            candidates |= masks[part, M_READY + group]
        else:
            soonest = min(soonest, np.int64(free))
    if candidates == ZERO:
        return -1, soonest
    if code.settings[I_OLDEST]:
        return lowest(candidates), soonest
    turn = np.uint64(state.clocks[part, P_TURN])
    after = candidates >> turn << turn
    return lowest(after if after != ZERO else candidates), soonest


@inlined
def _issue_of(code: Code, state: State, part: Whole, number: Whole, now: Whole) -> None:
    """Issue a warp's next micro-op, and as many more in the same cycle as the architecture allows."""
    masks = state.masks
    x = number * code.settings[I_PARTS] + part
    group = state.warps[x, W_CLASS]
    masks[part, M_READY + group] &= ~bit(number)
    if masks[part, M_READY + group] == ZERO:
        masks[part, M_CLASSES] &= ~bit(group)
    state.clocks[part, P_TURN] = (number + 1) & (WHEEL - 1)
    for turn in range(code.settings[I_WIDTH]):
        if turn > 0 and not second_is_free(code, state, x, part, now):
            break
        if issue(code, state, x, part, now):
            state.clocks[part, P_ISSUED] += 1
            _arrive(code, state, x, now)
            return
        prepare_next(code, state, x)
    state.clocks[part, P_ISSUED] += 1
    state.warps[x, W_WAKE] = max(now + 1, state.warps[x, W_READY])
    sleep(code, state, x, now)


@called
def _arrive(code: Code, state: State, x: Whole, now: Whole) -> None:
    """Have a warp wait at its block's barrier; the last one releases all."""
    slot = x // code.settings[I_WARPS]
    state.warps[x, W_WAITS] = 1
    state.blocks[slot, B_WAITING] += 1
    if state.blocks[slot, B_WAITING] == state.blocks[slot, B_LIVE]:
        _release(code, state, slot, now)


@called
def _release(code: Code, state: State, slot: Whole, now: Whole) -> None:
    """Let the warps go on that wait at a block's barrier."""
    warps = code.settings[I_WARPS]
    state.blocks[slot, B_WAITING] = 0
    for x in range(slot * warps, (slot + 1) * warps):
        if state.warps[x, W_WAITS]:
            state.warps[x, W_WAITS] = 0
            state.warps[x, W_GATE] = now + code.settings[I_BARRIER]
            state.warps[x, W_GATE_REASON] = BARRIER_STALL
            _go_on(code, state, x, state.warps[x, W_GATE], now)


@called
def _go_on(code: Code, state: State, x: Whole, earliest: Whole, now: Whole) -> None:
    prepare_next(code, state, x)
    state.warps[x, W_WAKE] = max(earliest, state.warps[x, W_READY])
    sleep(code, state, x, now)


@called
def _end(code: Code, state: State, x: Whole, now: Whole) -> None:
    """End a warp; its block may end with it, or have waited at a barrier for nobody else."""
    last, since = state.warps[x, W_LAST_OP], state.warps[x, W_SINCE]
    if now > since:
        gate = min(max(state.warps[x, W_GATE], since), now)
        state.stalls[last, state.warps[x, W_GATE_REASON]] += gate - since
        state.stalls[last, FIRST_OPERAND_STALL + state.warps[x, W_KIND]] += now - gate
    slot = x // code.settings[I_WARPS]
    state.blocks[slot, B_LIVE] -= 1
    live = state.blocks[slot, B_LIVE]
    if live == 0:
        state.finish[state.flow[F_FINISHED]] = now
        state.progress[state.flow[F_FINISHED]] = state.counts[N_ISSUED]
        state.flow[F_FINISHED] += 1
        if state.flow[F_ROW] < len(state.finish):
            _launch(code, state, slot, now + code.settings[I_LAUNCH], now)
    elif state.blocks[slot, B_WAITING] == live:
        _release(code, state, slot, now)


@called
def _launch(code: Code, state: State, slot: Whole, start: Whole, now: Whole) -> None:
    """Give a slot the next block; its warps begin at a time."""
    warps = code.settings[I_WARPS]
    row = state.flow[F_ROW]
    state.flow[F_ROW] += 1
    state.blocks[slot, B_LIVE], state.blocks[slot, B_WAITING] = warps, 0
    for warp in range(warps):
        x, serial = slot * warps + warp, row * warps + warp
        state.warps[x, W_OP] = state.warps[x, W_END] = 0
        state.warps[x, W_EVENT], state.warps[x, W_STOP] = code.chains[serial], code.chains[serial + 1]
        state.warps[x, W_SINCE], state.warps[x, W_GATE] = start, start
        state.warps[x, W_SHARED] = state.warps[x, W_RESULT] = state.warps[x, W_LAST_OP] = 0
        for counter in range(state.counters.shape[1]):
            state.counters[x, counter] = serial
        _go_on(code, state, x, start, now)
