"""What a warp's memory request costs an SM: its turn in the load/store queue, then each of its 128-byte lines.

Where L1 is apart from shared memory, lines wait in a queue of their own, behind that one.

Every queue is known by when it will have done what it has been given.
"""

import numpy as np

from kerncast.gpu import WARP_SIZE
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
from kerncast.models.sm.simulate.state import (
    C_ATOMIC,
    C_EXCHANGE,
    C_L1,
    C_SHARED,
    F_TICK,
    I_ALLOCATE,
    I_APART,
    I_HOT_LINE,
    I_L1_OPERATIONS,
    I_L1_SETS,
    I_L1_WAYS,
    I_LOCAL_LINES,
    N_DRAM,
    N_L1_HITS,
    N_L1_SECTORS,
    N_L2_READ,
    N_L2_WRITE,
    N_LOCAL_READ,
    N_LOCAL_WRITE,
    OP_LATENCY,
    OP_MEMORY,
    OP_RESULTS,
    OP_SLOT,
    OP_SLOTS,
    Q_ATOMIC,
    Q_DRAM,
    Q_L1,
    Q_L2,
    Q_LSU,
    Q_PATH,
    Q_READ_DEBT,
    Q_SLICE,
    Q_WRITE_DEBT,
    R_ATOMIC,
    R_DRAM,
    R_DRAM_LATENCY,
    R_DRAM_WRITE,
    R_HOT,
    R_JOINED,
    R_L1_LATENCY,
    R_L2_LATENCY,
    R_L2_READ,
    R_L2_WRITE,
    R_LOCAL_SHARE,
    R_LSU,
    R_PASS,
    R_PATH,
    R_READ_SHARE,
    R_REISSUE,
    R_REPLAY,
    R_SECTOR,
    R_SHARED_ATOMIC,
    R_SHARED_LATENCY,
    R_SLICE,
    R_STORE_LINE,
    R_TAG,
    R_WAVEFRONT,
    R_WRITE_SHARE,
    TAG_MASK,
    W_GATE,
    W_GATE_REASON,
    W_STOP,
    WAYS,
    Code,
    Real,
    State,
    Whole,
    called,
    inlined,
    upward,
)
from kerncast.traces import LINE_BITS, MASK_SHIFT, PASSES_MASK, PASSES_SHIFT, Operation

# One SM's share of L2 and DRAM, as queues that are known by when they will have done what they have been given.


LINE_MASK = 2**LINE_BITS - 1
#: Number of bits of each of the 16 masks of sectors, four bits each.
SECTORS_OF = 0x4332322132212110


@inlined
def sectors_of(mask: Whole) -> Whole:
    """Return how many sectors a mask has."""
    return SECTORS_OF >> (4 * mask) & 0xF


@inlined
def read(code: Code, state: State, wanted: tuple[Whole, Whole], asked: Real) -> Real:
    """Read sectors of a line from L2, and a part of them from DRAM; returns when they are there.

    ``wanted``: how many, and the line, which is negative in local memory. For the line that all SMs read, they wait for
    its slice.
    """
    sectors, line = wanted
    is_hot = line == code.settings[I_HOT_LINE]
    rates, queues = code.rates, state.queues
    state.counts[N_L2_READ] += sectors
    share = rates[R_READ_SHARE]
    if line < 0:
        state.counts[N_LOCAL_READ] += sectors
        share = rates[R_LOCAL_SHARE]
    queues[Q_L2] = max(asked, queues[Q_L2]) + sectors * rates[R_L2_READ]
    queues[Q_PATH] = max(asked, queues[Q_PATH]) + sectors * rates[R_PATH]
    queues[Q_SLICE] = max(asked, queues[Q_SLICE]) + sectors * rates[R_HOT if is_hot else R_SLICE]
    there = max(queues[Q_L2], queues[Q_PATH])
    if is_hot:
        there = max(there, queues[Q_SLICE])
    return max(there + rates[R_L2_LATENCY], _read_dram(code, state, sectors * share, asked))


@inlined
def _read_dram(code: Code, state: State, sectors: Real, asked: Real) -> Real:
    """Read from DRAM what the debt of whole sectors is; returns when it is there, 0 where there is none."""
    rates, queues = code.rates, state.queues
    queues[Q_READ_DEBT] += sectors
    if queues[Q_READ_DEBT] < 1.0:
        return 0.0
    owed = np.floor(queues[Q_READ_DEBT])
    queues[Q_READ_DEBT] -= owed
    state.counts[N_DRAM] += np.int64(owed)
    queues[Q_DRAM] = max(asked, queues[Q_DRAM]) + owed * rates[R_DRAM]
    return queues[Q_DRAM] + rates[R_DRAM_LATENCY]


@inlined
def write(code: Code, state: State, given: tuple[Whole, Whole], asked: Real) -> None:
    """Write sectors of a line to L2, and a part of them to DRAM; ``given`` as for ``read``."""
    sectors, line = given
    state.counts[N_L2_WRITE] += sectors
    share = code.rates[R_WRITE_SHARE]
    if line < 0:
        state.counts[N_LOCAL_WRITE] += sectors
        share = code.rates[R_LOCAL_SHARE]
    state.queues[Q_L2] = max(asked, state.queues[Q_L2]) + sectors * code.rates[R_L2_WRITE]
    state.queues[Q_SLICE] = max(asked, state.queues[Q_SLICE]) + sectors * code.rates[R_SLICE]
    _write_dram(code, state, sectors * share, asked)


@inlined
def _write_dram(code: Code, state: State, sectors: Real, asked: Real) -> None:
    queues = state.queues
    queues[Q_WRITE_DEBT] += sectors
    if queues[Q_WRITE_DEBT] >= 1.0:
        owed = np.floor(queues[Q_WRITE_DEBT])
        queues[Q_WRITE_DEBT] -= owed
        state.counts[N_DRAM] += np.int64(owed)
        queues[Q_DRAM] = max(asked, queues[Q_DRAM]) + owed * code.rates[R_DRAM_WRITE]


@inlined
def change(code: Code, state: State, sectors: Whole, asked: Real) -> Real:
    """Read and write an atomic's sectors; they are updated one after the other. Returns when all is done."""
    state.counts[N_L2_READ] += sectors
    state.counts[N_L2_WRITE] += sectors
    done = _read_dram(code, state, sectors * code.rates[R_READ_SHARE], asked)
    _write_dram(code, state, sectors * code.rates[R_WRITE_SHARE], asked)
    return max(done, _update(code, state, sectors * code.rates[R_ATOMIC], asked))


@inlined
def _update(code: Code, state: State, work: Real, asked: Real) -> Real:
    """Occupy what does atomics in L2; returns when the result is there."""
    state.queues[Q_ATOMIC] = max(asked, state.queues[Q_ATOMIC]) + work
    state.cycles[C_ATOMIC] += work
    return state.queues[Q_ATOMIC] + code.rates[R_L2_LATENCY]


@inlined
def contend(code: Code, state: State, event: Whole, asked: Real) -> Real:
    """Update an atomic's most wanted address once more per further lane; returns when that is done.

    A warp whose lanes all want one address updates it once: compiler or L2 add up what its lanes bring.
    """
    rates, line = code.rates, event & LINE_MASK
    lanes, addresses = line & 0xFF, line >> 8 & 0xFF
    if addresses <= 1:
        return asked
    return _update(code, state, max(lanes - 1, 0) * rates[R_ATOMIC], asked)


# L1 of one SM: sets of 128-byte lines with four sectors, of which the one used longest ago gives way.


#: Knuth's multiplier, 2^32 over the golden ratio: neighbouring lines spread evenly over the sets.
SPREAD = 0x9E3779B1
LOW_WORD = 2**32 - 1


@inlined
def load_through_l1(code: Code, state: State, tag: Whole, mask: Whole, times: tuple[Real, Real]) -> Real:
    """Load a line: sectors that L1 has, after the fill that brings them; the others from L2."""
    asked, hit = times
    place = _find(code, state, tag)
    held = 0
    if place >= 0:
        held = state.sectors[place] & mask
    else:
        place = _take(code, state, tag)
    state.flow[F_TICK] += 1
    state.used[place] = state.flow[F_TICK]
    done = hit
    if held:
        done = max(done, state.filled[place])
        state.counts[N_L1_HITS] += sectors_of(held)
    missing = mask & ~held
    if missing:
        done = max(done, read(code, state, (sectors_of(missing), tag), asked))
        state.sectors[place] |= missing
        state.filled[place] = max(state.filled[place], done)
    return done


@inlined
def store_in_l1(code: Code, state: State, tag: Whole, mask: Whole, asked: Real) -> None:
    """Let L1 take what is stored in, or drop it."""
    if not code.settings[I_ALLOCATE]:
        drop_from_l1(code, state, tag, mask)
        return
    place = _find(code, state, tag)
    if place < 0:
        place = _take(code, state, tag)
    state.flow[F_TICK] += 1
    state.used[place] = state.flow[F_TICK]
    state.sectors[place] |= mask
    state.filled[place] = max(state.filled[place], asked)


@inlined
def drop_from_l1(code: Code, state: State, tag: Whole, mask: Whole) -> None:
    """Forget sectors of a line, if L1 has it."""
    place = _find(code, state, tag)
    if place >= 0:
        state.sectors[place] &= ~mask


@inlined
def _first_way(code: Code, tag: Whole) -> Whole:
    """Return where a line's set begins."""
    return ((tag * SPREAD & LOW_WORD) * code.settings[I_L1_SETS] >> 32) * WAYS


@inlined
def _find(code: Code, state: State, tag: Whole) -> Whole:
    """Return the place of a line in L1, or -1."""
    first = _first_way(code, tag)
    wanted, found = np.int32(tag), -1
    for way in range(WAYS):
        if state.tags[first + way] == wanted:
            found = first + way
    return found


@inlined
def _take(code: Code, state: State, tag: Whole) -> Whole:
    """Give a line the place in its set that was used longest ago, and return it."""
    first = _first_way(code, tag)
    place = first
    for way in range(1, code.settings[I_L1_WAYS]):
        if state.used[first + way] < state.used[place]:
            place = first + way
    state.tags[place] = tag
    state.sectors[place] = 0
    state.filled[place] = 0.0
    return place


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
