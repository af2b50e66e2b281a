"""One SM's blocks from start to end: which warp issues when.

A loose round robin in each sub-partition: of the warps whose operands are there and whose pipe or queue has room, the
first after the one that issued last. No cycle is visited in which nothing can happen, and no warp that waits is asked.
"""

import numpy as np

from kerncast.models.sm.results import Stall
from kerncast.models.sm.simulate.chains import prepare_next, sleep
from kerncast.models.sm.simulate.compiled import FULL_WHEEL, ZERO, bit, called, inlined, lowest
from kerncast.models.sm.simulate.issue import issue, second_is_free
from kerncast.models.sm.simulate.queues import free_at
from kerncast.models.sm.simulate.state import (
    B_LIVE,
    B_WAITING,
    F_FINISHED,
    F_FIRST,
    F_ROW,
    I_BARRIER,
    I_LAUNCH,
    I_OLDEST,
    I_PARTS,
    I_WARPS,
    I_WIDTH,
    M_CLASSES,
    M_FAR,
    M_OCCUPIED,
    M_READY,
    M_WHEEL,
    N_ISSUED,
    NEVER,
    P_FAR,
    P_ISSUED,
    P_NEXT,
    P_TURN,
    TO_END,
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
    Code,
    State,
    Whole,
)

BARRIER_STALL = int(Stall.BARRIER)
FIRST_OPERAND_STALL = int(Stall.WAIT)


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
