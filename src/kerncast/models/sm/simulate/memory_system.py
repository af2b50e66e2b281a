"""The cost of a warp's memory request: its turn in the load/store queue, then each of its 128-byte lines.

Where L1 is apart from shared memory, lines wait in a queue of their own, behind that one.

Every queue is known by when it will have done what it has been given.
"""

import numpy as np

from kerncast.gpu import WARP_SIZE
from kerncast.models.sm.micro_ops import Memory
from kerncast.models.sm.results import Stall
from kerncast.models.sm.simulate.chains import (
    ATOMIC,
    CONTENTION,
    LOAD_UNCACHED,
    LOCAL_LOAD,
    LOCAL_STORE,
    REDUCTION,
    STORE,
    instruction_of,
    is_of,
    operation_of,
)
from kerncast.models.sm.simulate.state import TAG_MASK, WAYS, Code, Op, Real, State, Whole, called, inlined, upward
from kerncast.traces import LINE_BITS, MASK_SHIFT, PASSES_MASK, PASSES_SHIFT, Operation

# One SM's share of L2 and DRAM, as queues that are known by when they will have done what they have been given.
#
# Each is a rate, not a cache: what L2 keeps is known from footprints beforehand, as the share of its sectors that
# DRAM sees. Latency comes on top of the queue, because requests overlap.

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
    its slice; other lines are spread over all slices, and L2's rate is theirs together. Lines are asked for one after
    the other, however few sectors of each are missing.
    """
    sectors, line = wanted
    is_hot = line == code.derived.hot_line
    sm, derived, queues = code.sm, code.derived, state.queues
    state.totals.l2_requests += 1
    state.totals.l2_read_sectors += sectors
    share = sm.dram_read_share
    if line < 0:
        state.totals.local_read_sectors += sectors
        share = sm.dram_local_share
    slice_cycles = sm.hot_sector_cycles if is_hot else sm.sector_slice_cycles
    asked = max(asked, queues.requests) + sm.l2_request_cycles
    queues.requests = asked
    queues.l2 = max(asked, queues.l2) + sectors * derived.l2_read_sector_cycles
    queues.path = max(asked, queues.path) + sectors * derived.path_sector_cycles
    queues.slice = max(asked, queues.slice) + sectors * slice_cycles
    # The share of L2 and the path back work side by side: the slower of them decides.
    there = max(queues.l2, queues.path)
    if is_hot:
        there = max(there, queues.slice)
    return max(there + sm.l2_latency, _read_dram(code, state, sectors * share, asked))


@inlined
def _read_dram(code: Code, state: State, sectors: Real, asked: Real) -> Real:
    """Read from DRAM what the debt of whole sectors is; returns when it is there, 0 where there is none.

    The debt keeps the share exact without a random number: two runs give the same time.
    """
    queues = state.queues
    queues.read_debt += sectors
    if queues.read_debt < 1.0:
        return 0.0
    owed = np.floor(queues.read_debt)
    queues.read_debt -= owed
    state.totals.dram_sectors += np.int64(owed)
    _occupy_dram(code, state, owed * code.derived.dram_read_sector_cycles, asked)
    return max(asked, queues.dram) + code.sm.dram_latency


@inlined
def _occupy_dram(code: Code, state: State, work: Real, asked: Real) -> None:
    """Put work into the queue to DRAM.

    The queue is this SM's share of DRAM. What the SM left unused a short while ago others have used, and they leave as
    much now, so that a burst does not wait for its share: only a queue that is full for longer does. All SMs start at
    once, so that nothing was left before the first request.
    """
    left = asked - code.sm.dram_burst_cycles if state.queues.dram > 0.0 else asked
    state.queues.dram = max(left, state.queues.dram) + work


@inlined
def write(code: Code, state: State, given: tuple[Whole, Whole, Whole], asked: Real) -> None:
    """Write sectors of a line to L2, and a part of them to DRAM. No warp waits for it.

    ``given``: how many, the line as for ``read``, and how many of them are filled in part only: L2 merges those.
    """
    sectors, line, partly = given
    state.totals.l2_write_sectors += sectors
    state.totals.l2_merged_sectors += partly
    share = code.sm.dram_write_share
    if line < 0:
        state.totals.local_write_sectors += sectors
        share = code.sm.dram_local_share
    state.queues.l2 = max(asked, state.queues.l2) + (
        sectors * code.derived.l2_write_sector_cycles + partly * code.sm.merge_cycles
    )
    # Written sectors are spread over the slices: they delay the hot line's readers by the average slice's work.
    state.queues.slice = max(asked, state.queues.slice) + sectors * code.sm.sector_slice_cycles
    _write_dram(code, state, sectors * share, asked)


@inlined
def _write_dram(code: Code, state: State, sectors: Real, asked: Real) -> None:
    queues = state.queues
    queues.write_debt += sectors
    if queues.write_debt >= 1.0:
        owed = np.floor(queues.write_debt)
        queues.write_debt -= owed
        state.totals.dram_sectors += np.int64(owed)
        _occupy_dram(code, state, owed * code.derived.dram_write_sector_cycles, asked)


@inlined
def change(code: Code, state: State, sectors: Whole, asked: Real) -> Real:
    """Read and write an atomic's sectors; they are updated one after the other. Returns when all is done."""
    state.totals.l2_read_sectors += sectors
    state.totals.l2_write_sectors += sectors
    # They pass neither L2's queue of reads nor its path: the units that update have a rate of their own.
    state.totals.l2_atomic_sectors += sectors
    done = _read_dram(code, state, sectors * code.sm.dram_atomic_share, asked)
    _write_dram(code, state, sectors * code.sm.dram_atomic_share, asked)
    return max(done, _update(code, state, sectors * code.sm.atomic_cycles, asked))


@inlined
def _update(code: Code, state: State, work: Real, asked: Real) -> Real:
    """Occupy what does atomics in L2; returns when the result is there."""
    state.queues.atomic = max(asked, state.queues.atomic) + work
    state.totals.atomic_cycles += work
    return state.queues.atomic + code.sm.l2_latency


@inlined
def contend(code: Code, state: State, op: Op, event: Whole, asked: Real) -> Real:
    """Update an atomic's addresses once more for each further lane that wants them; returns when that is done.

    L2 updates the words of a sector at once, but one word once at a time. Lanes that the compiler has joined are one.
    Source: atomicIntrinsics of HeCBench on an RTX 3080 (gpuFLOPBench): of nine atomics of a warp the compiler joins
    seven; these and the 64 lanes of the other two take 70.5 ns.
    """
    line = event & LINE_MASK
    lanes, addresses = line & 0xFF, line >> 8 & 0xFF
    if op.memory in (ATOMIC_JOINED, REDUCTION_JOINED):
        return asked
    if lanes == WARP_SIZE and op.memory in (ATOMIC_JOINED_BY_ALL, REDUCTION_JOINED_BY_ALL):
        return asked
    further = min(WARP_SIZE, lanes * addresses) - addresses
    return _update(code, state, max(further, 0) * code.sm.atomic_cycles, asked)


# L1 of one SM: sets of 128-byte lines with four sectors, of which the one used longest ago gives way.
#
# Without it for global loads on Volta and later, errors of the timing study grow by 16 points of MAPE.

#: Knuth's multiplier, 2^32 over the golden ratio: neighbouring lines spread evenly over the sets.
SPREAD = 0x9E3779B1
LOW_WORD = 2**32 - 1


@inlined
def load_through_l1(code: Code, state: State, tag: Whole, mask: Whole, times: tuple[Real, Real]) -> Real:
    """Load a line: sectors that L1 has, after the fill that brings them; the others from L2.

    A hit on a line that is still on its way waits for it, so that warps which load the same line share one latency.
    """
    asked, hit = times
    place = _find(code, state, tag)
    held = 0
    if place >= 0:
        held = state.sectors[place] & mask
    else:
        place = _take(code, state, tag)
    state.flow.tick += 1
    state.used[place] = state.flow.tick
    done = hit
    if held:
        done = max(done, state.filled[place])
        state.totals.l1_hits += sectors_of(held)
    missing = mask & ~held
    if missing:
        done = max(done, read(code, state, (sectors_of(missing), tag), asked))
        state.sectors[place] |= missing
        state.filled[place] = max(state.filled[place], done)
    return done


@inlined
def store_in_l1(code: Code, state: State, tag: Whole, mask: Whole, asked: Real) -> None:
    """Let L1 take what is stored in, or drop it: architectures differ in whether a store allocates its line."""
    if not code.sm.stores_allocate:
        drop_from_l1(code, state, tag, mask)
        return
    place = _find(code, state, tag)
    if place < 0:
        place = _take(code, state, tag)
    state.flow.tick += 1
    state.used[place] = state.flow.tick
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
    # The hash keeps strides of a power of two from camping in one set.
    return ((tag * SPREAD & LOW_WORD) * code.derived.l1_sets >> 32) * WAYS


@inlined
def _find(code: Code, state: State, tag: Whole) -> Whole:
    """Return the place of a line in L1, or -1; all ways are compared, without a branch, as one vector."""
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
    for way in range(1, code.derived.l1_ways):
        if state.used[first + way] < state.used[place]:
            place = first + way
    state.tags[place] = tag
    state.sectors[place] = 0
    state.filled[place] = 0.0
    return place


SHARED_ATOMIC, MIO = int(Operation.SHARED_ATOMIC), int(Stall.MIO_THROTTLE)
SECTORS_PER_LINE = 4
COPY = int(Memory.COPY)
SHARED_FIRST, SHARED_LAST = int(Memory.SHARED_LOAD), int(Memory.SHARED_ATOMIC_JOINED_BY_ALL)
ATOMIC_JOINED, ATOMIC_JOINED_BY_ALL = int(Memory.ATOMIC_JOINED), int(Memory.ATOMIC_JOINED_BY_ALL)
REDUCTION_JOINED, REDUCTION_JOINED_BY_ALL = int(Memory.REDUCTION_JOINED), int(Memory.REDUCTION_JOINED_BY_ALL)
JOINED, JOINED_BY_ALL = int(Memory.SHARED_ATOMIC_JOINED), int(Memory.SHARED_ATOMIC_JOINED_BY_ALL)


@inlined
def occupy(state: State, time: Real, cost: Real) -> Real:
    """Put work into the load/store queue; returns when it begins."""
    start = max(time, state.queues.lsu)
    state.queues.lsu = start + cost
    return start


@inlined
def exchange(code: Code, state: State, op: Op, now: Whole) -> Real:
    """Exchange registers between lanes, which occupies the load/store queue; returns when they are there."""
    start = occupy(state, now, code.sm.lsu_cycles)
    state.totals.exchange_cycles += code.sm.lsu_cycles
    return start + op.latency


@called
def request(code: Code, state: State, x: Whole, op: Op, now: Whole) -> tuple[Real, bool]:
    """Make a micro-op's accesses; returns when the last is done, and whether any went to global or local memory.

    Data come one latency after the queue is done with them. Where the architecture issues a conflicting access again
    for each further wavefront, the warp issues nothing else meanwhile; that holds it longer than the queue is busy.
    """
    own, shared, replays = _work_of(code, state, x, op)
    is_copy = op.memory == COPY
    is_global = own > 0.0 or is_copy or (shared == 0.0 and not SHARED_FIRST <= op.memory <= SHARED_LAST)
    least = code.sm.lsu_cycles
    cost = max(least, own + shared)
    start = _begin(code, state, now, (own, shared))
    if is_copy:
        state.totals.l1_cycles += cost - shared
        state.totals.shared_cycles += shared
    elif is_global:
        state.totals.l1_cycles += cost
    else:
        state.totals.shared_cycles += cost
    latency = op.latency
    if latency == 0.0:
        latency = code.sm.l1_latency if is_global else code.sm.shared_latency
    reissued = replays * code.sm.reissue_cycles
    if reissued > 0.0:
        state.warps[x].gate = upward(start + reissued)
        state.warps[x].gate_reason = MIO
    data = start + max(cost - least, reissued)
    done = data + latency if shared > 0.0 or own == 0.0 else data
    if own > 0.0 or is_copy:
        done = max(done, _lines(code, state, x, op, (start, data + latency)))
    # What is copied is written when it is there.
    return done + shared if is_copy else done, is_global


@inlined
def _begin(code: Code, state: State, now: Whole, work: tuple[Real, Real]) -> Real:
    """Put an access's work with lines and with shared memory into one queue or two; returns when it begins."""
    own, shared = work
    least = code.sm.lsu_cycles
    if not code.sm.l1_is_apart:
        return occupy(state, now, max(least, own + shared))
    # Lines pass the common queue first, then their own; shared memory does not wait for them.
    start = occupy(state, now, max(least, shared))
    if own > 0.0:
        start = max(start, state.queues.l1)
        state.queues.l1 = start + own
    return start


@inlined
def _work_of(code: Code, state: State, x: Whole, op: Op) -> tuple[Real, Real, Whole]:
    """Return the cycles that a micro-op's lines and shared accesses take in the load/store queue, and its conflicts."""
    stop = state.warps[x].stop
    lines, stored, sectors, passes, shared, replays, is_kept = 0, 0, 0, 0, 0.0, 0, 0
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at < 0:
            continue
        instruction = instruction_of(code.events[at])
        while is_of(code, at, stop, instruction):
            event = code.events[at]
            operation = operation_of(event)
            if operation in (STORE, LOCAL_STORE):
                stored += 1
            elif operation <= LOCAL_LOAD:
                lines += 1
                is_kept = code.derived.l1_operations >> operation & 1
                sectors += sectors_of(event >> MASK_SHIFT & 0xF)
                if operation <= LOAD_UNCACHED:
                    passes = max(passes, event >> PASSES_SHIFT & PASSES_MASK)
            elif operation != CONTENTION:
                shared = max(shared, _shared_work(code, op, event))
                replays = max(replays, (event & 0xFF) - _words(op, event))
            at += 1
    # Registers take in so many bytes per clock, whatever the banks do.
    if shared > 0 and op.result_count > 1:
        shared = max(shared, op.result_count * code.sm.shared_word_cycles)
    # L1 looks up one line at a time while the data of others leave it: the slower of the two decides.
    looked_up, data = lines * code.sm.l1_tag_cycles, _data_work(code, sectors, passes)
    if op.memory == COPY:
        # Data that pass L1 by are written to shared memory as they come, while the next lines are looked up.
        return max(looked_up - shared, data if is_kept else 0.0), shared, replays
    loaded = max(looked_up, data)
    return loaded + stored * code.sm.store_line_cycles, shared, replays


@inlined
def _data_work(code: Code, sectors: Whole, passes: Whole) -> Real:
    """Return the cycles that the data of a load takes: its passes through the banks of L1, of a line's bytes each.

    Without passes, sparse rows with dense values (spmv of HeCBench) were forecast at a quarter of their time.
    """
    sector_cycles = code.derived.l1_sector_cycles
    if passes == 0 or code.sm.l1_pass_cycles == 0.0:
        return sectors * sector_cycles
    return max(passes * code.sm.l1_pass_cycles, min(sectors, passes * SECTORS_PER_LINE) * sector_cycles)


@inlined
def _shared_work(code: Code, op: Op, event: Whole) -> Real:
    """Return the cycles that one access to shared memory takes; one of several words has a wavefront for each.

    Lanes that want one address atomically have a wavefront each, unless they are joined.
    """
    line = event & LINE_MASK
    wavefronts, lanes, words = line & 0xFF, line >> 8 & 0xFF, _words(op, event)
    if op.memory == JOINED or (op.memory == JOINED_BY_ALL and lanes == WARP_SIZE):
        wavefronts, lanes = max(wavefronts - lanes, 0) + 1, 1
        words = min(words, wavefronts)
    # Wavefronts that the words need are no conflict; each further one is a replay.
    work = words * code.sm.wavefront_cycles + (wavefronts - words) * code.sm.replay_cycles
    if operation_of(event) == SHARED_ATOMIC:
        return max(work, lanes * code.sm.shared_atomic_cycles)
    return work


@inlined
def _words(op: Op, event: Whole) -> Whole:
    """Return how many of an access's wavefronts no bank conflict adds."""
    return min(event & 0xFF, max(1, op.result_count))


@inlined
def _lines(code: Code, state: State, x: Whole, op: Op, times: tuple[Real, Real]) -> Real:
    """Send a micro-op's lines on their way; returns when the last one's data is there.

    ``times``: when the first leaves, and when what L1 has comes.
    """
    start, hit = times
    stop = state.warps[x].stop
    done, asked = 0.0, start
    for number in range(op.slot_count):
        at = state.places[x, op.slots[number]]
        if at < 0:
            continue
        instruction = instruction_of(code.events[at])
        while is_of(code, at, stop, instruction):
            event = code.events[at]
            operation = operation_of(event)
            if operation == CONTENTION:
                done = max(done, contend(code, state, op, event, start))
            elif operation <= LOCAL_STORE:
                if operation == STORE and asked == start:
                    _goes_on(code, state, x, at)
                done = max(done, _line(code, state, x, event, (asked, hit)))
                # Lines leave one after the other, as their tags are looked up.
                asked += code.sm.l1_tag_cycles
            at += 1
    return done


@inlined
def _goes_on(code: Code, state: State, x: Whole, at: Whole) -> None:
    """Note whether a warp's store, whose first line is event ``at``, goes on in the sectors of the store just before.

    They are put together on their way to L2: threads that write three floats side by side, one after the other, take
    no longer than those that write four at once (rodrigues of HeCBench on an RTX 3080). Fails when: two stores have
    the same first sectors and others of their own.
    """
    warp, event = state.warps[x], code.events[at]
    first = event & TAG_MASK | (event >> MASK_SHIFT & 0xF) << LINE_BITS
    warp.goes_on = first == warp.stored and operation_of(code.events[at - 1]) == STORE
    warp.stored = first


@inlined
def _line(code: Code, state: State, x: Whole, event: Whole, times: tuple[Real, Real]) -> Real:
    """Read, write or change one line; returns when it is there."""
    asked = times[0]
    operation, mask = operation_of(event), event >> MASK_SHIFT & 0xF
    tag = event & TAG_MASK
    if operation in (LOCAL_LOAD, LOCAL_STORE):
        # Each warp's local lines are its own: negative tags, below NO_LINE, tell them from global memory.
        tag = -2 - (x * code.derived.local_lines + (event & LINE_MASK))
    uses_l1 = code.derived.l1_operations >> operation & 1
    if operation in (STORE, LOCAL_STORE):
        if uses_l1:
            store_in_l1(code, state, tag, mask, asked)
        sectors, partly = sectors_of(mask), 0
        if operation == STORE:
            partly = event >> PASSES_SHIFT & PASSES_MASK
            if state.warps[x].goes_on:
                sectors, partly = sectors - partly, 0
        write(code, state, (sectors, tag, partly), asked)
        return asked
    if operation in (ATOMIC, REDUCTION):
        # Atomics are done in L2: what L1 has of the sectors is old afterwards.
        if uses_l1:
            drop_from_l1(code, state, tag, mask)
        return change(code, state, sectors_of(mask), asked)
    state.totals.l1_sectors += sectors_of(mask)
    if not uses_l1:
        return read(code, state, (sectors_of(mask), tag), asked)
    return load_through_l1(code, state, tag, mask, times)
