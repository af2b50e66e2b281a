"""One SM's share of L2 and DRAM, as queues that are known by when they will have done what they have been given."""

import numpy as np

from kerncast.models.sm.simulate.compiled import inlined
from kerncast.models.sm.simulate.state import (
    C_ATOMIC,
    I_HOT_LINE,
    N_DRAM,
    N_L2_READ,
    N_L2_WRITE,
    N_LOCAL_READ,
    N_LOCAL_WRITE,
    Q_ATOMIC,
    Q_DRAM,
    Q_L2,
    Q_PATH,
    Q_READ_DEBT,
    Q_SLICE,
    Q_WRITE_DEBT,
    R_ATOMIC,
    R_DRAM,
    R_DRAM_LATENCY,
    R_DRAM_WRITE,
    R_HOT,
    R_L2_LATENCY,
    R_L2_READ,
    R_L2_WRITE,
    R_LOCAL_SHARE,
    R_PATH,
    R_READ_SHARE,
    R_SLICE,
    R_WRITE_SHARE,
    Code,
    Real,
    State,
    Whole,
)
from kerncast.recording import LINE_BITS

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
