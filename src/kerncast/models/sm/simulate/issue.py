"""What issuing a micro-op does: to its pipe, to the registers it writes, and to the account of why its warp waited."""

from kerncast.models.sm.micro_ops import Memory, Pipe
from kerncast.models.sm.results import Stall
from kerncast.models.sm.simulate.compiled import inlined, upward
from kerncast.models.sm.simulate.memory_system import exchange, request
from kerncast.models.sm.simulate.queues import free_at
from kerncast.models.sm.simulate.state import (
    ARITHMETIC,
    C_BUSY,
    F_FIRST,
    KIND_BITS,
    LONG,
    N_ISSUED,
    OP_CYCLES,
    OP_LATENCY,
    OP_MEMORY,
    OP_PIPE,
    OP_RESULT,
    OP_RESULTS,
    P_ISSUED,
    R_FMA,
    SHORT,
    TO_LOAD,
    TO_NOTHING,
    W_CLASS,
    W_GATE,
    W_GATE_REASON,
    W_KIND,
    W_LAST_OP,
    W_OP,
    W_READY,
    W_RESULT,
    W_SHARED,
    W_SINCE,
    W_WAKE,
    W_WOKEN,
    Code,
    State,
    Whole,
)

FMA, LSU = int(Pipe.FMA), int(Pipe.LSU)
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
