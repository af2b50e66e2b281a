"""What a warp's memory request costs an SM: its turn in the load/store queue, then each of its 128-byte lines.

Where L1 is apart from shared memory, lines wait in a queue of their own, behind that one.

Every queue is known by when it will have done what it has been given.
"""

from kerncast.architecture import WARP_SIZE
from kerncast.models.sm.micro_ops import Memory
from kerncast.models.sm.results import Stall
from kerncast.models.sm.simulate.chains import (
    ATOMIC,
    BASIC_BLOCK,
    CONTENTION,
    LOAD_UNCACHED,
    LOCAL_LOAD,
    LOCAL_STORE,
    REDUCTION,
    STORE,
    instruction_of,
    operation_of,
)
from kerncast.models.sm.simulate.compiled import called, inlined, upward
from kerncast.models.sm.simulate.l1 import drop_from_l1, load_through_l1, store_in_l1
from kerncast.models.sm.simulate.l2_share import LINE_MASK, change, contend, read, sectors_of, write
from kerncast.models.sm.simulate.state import (
    C_EXCHANGE,
    C_L1,
    C_SHARED,
    I_APART,
    I_L1_OPERATIONS,
    I_LOCAL_LINES,
    N_L1_SECTORS,
    OP_LATENCY,
    OP_MEMORY,
    OP_RESULTS,
    OP_SLOT,
    OP_SLOTS,
    Q_L1,
    Q_LSU,
    R_JOINED,
    R_L1_LATENCY,
    R_LSU,
    R_PASS,
    R_REISSUE,
    R_REPLAY,
    R_SECTOR,
    R_SHARED_ATOMIC,
    R_SHARED_LATENCY,
    R_STORE_LINE,
    R_TAG,
    R_WAVEFRONT,
    TAG_MASK,
    W_GATE,
    W_GATE_REASON,
    W_STOP,
    Code,
    Real,
    State,
    Whole,
)
from kerncast.recording import MASK_SHIFT, PASSES_MASK, PASSES_SHIFT, Operation

SHARED_ATOMIC, MIO = int(Operation.SHARED_ATOMIC), int(Stall.MIO_THROTTLE)
SECTORS_PER_LINE = 4
SHARED_FIRST, SHARED_LAST = int(Memory.SHARED_LOAD), int(Memory.SHARED_ATOMIC_JOINED_BY_ALL)
JOINED, JOINED_BY_ALL = int(Memory.SHARED_ATOMIC_JOINED), int(Memory.SHARED_ATOMIC_JOINED_BY_ALL)


@inlined
def occupy(state: State, time: Real, cost: Real) -> Real:
    """Put work into the load/store queue; returns when it begins."""
    start = max(time, state.queues[Q_LSU])
    state.queues[Q_LSU] = start + cost
    return start


@inlined
def exchange(code: Code, state: State, op: Whole, now: Whole) -> Real:
    """Exchange registers between lanes, which occupies the load/store queue; returns when they are there."""
    start = occupy(state, now, code.rates[R_LSU])
    state.cycles[C_EXCHANGE] += code.rates[R_LSU]
    return start + code.costs[op, OP_LATENCY]


@called
def request(code: Code, state: State, x: Whole, op: Whole, now: Whole) -> tuple[Real, bool]:
    """Make a micro-op's accesses; returns when the last is done, and whether any went to global or local memory."""
    own, shared, replays = _work_of(code, state, x, op)
    memory = code.ops[op, OP_MEMORY]
    is_global = own > 0.0 or (shared == 0.0 and not SHARED_FIRST <= memory <= SHARED_LAST)
    least = code.rates[R_LSU]
    cost = max(least, own + shared)
    start = _begin(code, state, now, (own, shared))
    state.cycles[C_L1 if is_global else C_SHARED] += cost
    latency = code.costs[op, OP_LATENCY]
    if latency == 0.0:
        latency = code.rates[R_L1_LATENCY if is_global else R_SHARED_LATENCY]
    reissued = replays * code.rates[R_REISSUE]
    if reissued > 0.0:
        state.warps[x, W_GATE] = upward(start + reissued)
        state.warps[x, W_GATE_REASON] = MIO
    data = start + max(cost - least, reissued)
    done = data + latency if shared > 0.0 or own == 0.0 else data
    if own > 0.0:
        done = max(done, _lines(code, state, x, op, (start, data + latency)))
    return done, is_global


@inlined
def _begin(code: Code, state: State, now: Whole, work: tuple[Real, Real]) -> Real:
    """Put an access's work with lines and with shared memory into one queue or two; returns when it begins."""
    own, shared = work
    least = code.rates[R_LSU]
    if not code.settings[I_APART]:
        return occupy(state, now, max(least, own + shared))
    start = occupy(state, now, max(least, shared))
    if own > 0.0:
        start = max(start, state.queues[Q_L1])
        state.queues[Q_L1] = start + own
    return start


@inlined
def _is_of(code: Code, at: Whole, stop: Whole, instruction: Whole) -> bool:
    """Tell whether an event still belongs to an instruction's access."""
    if at >= stop:
        return False
    event = code.events[at]
    return bool(instruction_of(event) == instruction and operation_of(event) != BASIC_BLOCK)


@inlined
def _work_of(code: Code, state: State, x: Whole, op: Whole) -> tuple[Real, Real, Whole]:
    """Return the cycles that a micro-op's lines and shared accesses take in the load/store queue, and its conflicts."""
    rates = code.rates
    stop = state.warps[x, W_STOP]
    lines, stored, sectors, passes, joined, shared, replays = 0, 0, 0, 0, 0, 0.0, 0
    for number in range(code.ops[op, OP_SLOTS]):
        at = state.places[x, code.ops[op, OP_SLOT + number]]
        if at < 0:
            continue
        instruction = instruction_of(code.events[at])
        while _is_of(code, at, stop, instruction):
            event = code.events[at]
            operation = operation_of(event)
            if operation in (STORE, LOCAL_STORE):
                stored += 1
            elif operation <= LOCAL_LOAD:
                lines += 1
                sectors += sectors_of(event >> MASK_SHIFT & 0xF)
                if operation <= LOAD_UNCACHED:
                    passes = max(passes, event >> PASSES_SHIFT & PASSES_MASK)
            elif operation != CONTENTION:
                joined += 1
                shared = max(shared, _shared_work(code, op, event))
                replays = max(replays, (event & 0xFF) - _words(code, op, event))
            at += 1
    if joined > 1:
        shared = max(shared, joined * rates[R_JOINED])
    loaded = max(lines * rates[R_TAG], _data_work(code, sectors, passes))
    return loaded + stored * rates[R_STORE_LINE], shared, replays


@inlined
def _data_work(code: Code, sectors: Whole, passes: Whole) -> Real:
    """Return the cycles that the data of a load takes: its passes through the banks of L1, of a line's bytes each."""
    rates = code.rates
    if passes == 0 or rates[R_PASS] == 0.0:
        return sectors * rates[R_SECTOR]
    return max(passes * rates[R_PASS], min(sectors, passes * SECTORS_PER_LINE) * rates[R_SECTOR])


@inlined
def _shared_work(code: Code, op: Whole, event: Whole) -> Real:
    """Return the cycles that one access to shared memory takes; one of several words has a wavefront for each.

    Lanes that want one address atomically have a wavefront each, unless they are joined.
    """
    line, memory = event & LINE_MASK, code.ops[op, OP_MEMORY]
    wavefronts, lanes, words = line & 0xFF, line >> 8 & 0xFF, _words(code, op, event)
    if memory == JOINED or (memory == JOINED_BY_ALL and lanes == WARP_SIZE):
        wavefronts, lanes = max(wavefronts - lanes, 0) + 1, 1
        words = min(words, wavefronts)
    work = words * code.rates[R_WAVEFRONT] + (wavefronts - words) * code.rates[R_REPLAY]
    if operation_of(event) == SHARED_ATOMIC:
        return max(work, lanes * code.rates[R_SHARED_ATOMIC])
    return work


@inlined
def _words(code: Code, op: Whole, event: Whole) -> Whole:
    """Return how many of an access's wavefronts no bank conflict adds."""
    return min(event & 0xFF, max(1, code.ops[op, OP_RESULTS] // max(1, code.ops[op, OP_SLOTS])))


@inlined
def _lines(code: Code, state: State, x: Whole, op: Whole, times: tuple[Real, Real]) -> Real:
    """Send a micro-op's lines on their way; returns when the last one's data is there.

    ``times``: when the first leaves, and when what L1 has comes.
    """
    start, hit = times
    stop = state.warps[x, W_STOP]
    done, asked = 0.0, start
    for number in range(code.ops[op, OP_SLOTS]):
        at = state.places[x, code.ops[op, OP_SLOT + number]]
        if at < 0:
            continue
        instruction = instruction_of(code.events[at])
        while _is_of(code, at, stop, instruction):
            event = code.events[at]
            operation = operation_of(event)
            if operation == CONTENTION:
                done = max(done, contend(code, state, event, start))
            elif operation <= LOCAL_STORE:
                done = max(done, _line(code, state, x, event, (asked, hit)))
                asked += code.rates[R_TAG]
            at += 1
    return done


@inlined
def _line(code: Code, state: State, x: Whole, event: Whole, times: tuple[Real, Real]) -> Real:
    """Read, write or change one line; returns when it is there."""
    asked = times[0]
    operation, mask = operation_of(event), event >> MASK_SHIFT & 0xF
    tag = event & TAG_MASK
    if operation in (LOCAL_LOAD, LOCAL_STORE):
        tag = -2 - (x * code.settings[I_LOCAL_LINES] + (event & LINE_MASK))
    uses_l1 = code.settings[I_L1_OPERATIONS] >> operation & 1
    if operation in (STORE, LOCAL_STORE):
        if uses_l1:
            store_in_l1(code, state, tag, mask, asked)
        write(code, state, (sectors_of(mask), tag), asked)
        return asked
    if operation in (ATOMIC, REDUCTION):
        if uses_l1:
            drop_from_l1(code, state, tag, mask)
        return change(code, state, sectors_of(mask), asked)
    state.counts[N_L1_SECTORS] += sectors_of(mask)
    if not uses_l1:
        return read(code, state, (sectors_of(mask), tag), asked)
    return load_through_l1(code, state, tag, mask, times)
