"""L1 of one SM: sets of 128-byte lines with four sectors, of which the one used longest ago gives way."""

import numpy as np

from kerncast.models.sm.simulate.compiled import inlined
from kerncast.models.sm.simulate.l2_share import read, sectors_of
from kerncast.models.sm.simulate.state import (
    F_TICK,
    I_ALLOCATE,
    I_L1_SETS,
    I_L1_WAYS,
    N_L1_HITS,
    WAYS,
    Code,
    Real,
    State,
    Whole,
)

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
