"""Simulates one streaming multiprocessor: when each of its blocks ends, and what its warps waited for.

Method: resident warps in order, a scoreboard per register, a pipe interval per sub-partition, one load/store queue,
L1 with the time of each fill, and this SM's share of L2 and DRAM as queues. Fails when: what the SMs do to one another
is more than a smaller share (camped channels, atomics of all SMs on one address), or instructions miss their cache.
"""

import importlib.util
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from kerncast.compile.cache import Store
from kerncast.errors import LaunchError, MachineLimitError, UnsupportedError
from kerncast.models.jit_cache import hand_on, is_ready, jitted
from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Simulated
from kerncast.models.sm.simulate import state as layout
from kerncast.traces import SMTrace, event_changes

# numba loads what it has compiled, but not scipy: the first forecast is a tenth of a second earlier.

_BLAS = "scipy.linalg.cython_blas"
_ASKS, _ANSWER = "numba.np.arraymath", "_HAVE_BLAS"


@contextmanager
def without_blas() -> Iterator[None]:
    """Keep numba from loading scipy.linalg, which takes a tenth of a second, only to learn whether it is there.

    numba learns so when it loads its first compiled function; the simulator multiplies no matrices. Afterwards numba
    knows again what is true. Nothing is done where another thread could be importing the same at this time.
    """
    if _BLAS in sys.modules or _ASKS in sys.modules or not _is_alone():
        yield
        return
    sys.modules[_BLAS] = None  # type: ignore[assignment]  # this is how an import is made to fail
    try:
        yield
    finally:
        sys.modules.pop(_BLAS, None)
        known = vars(sys.modules.get(_ASKS, sys))
        if _ANSWER in known:
            known[_ANSWER] = importlib.util.find_spec("scipy") is not None


def _is_alone() -> bool:
    """Whether this is the only thread, but for those that wait until they show how far the work is."""
    return all(
        isinstance(each, threading.Timer) or each is threading.current_thread() for each in threading.enumerate()
    )


#: Warps of one sub-partition that its masks have a bit for; none has more than 16 today.
MOST_WARPS = layout.WHEEL


def simulate(program: Program, trace: SMTrace, sm: SM, resident: int) -> Simulated:
    """Return what an SM does with its blocks, of which so many are resident at once.

    The first ones start together at cycle 0; each block that ends is replaced by the next. A micro-op of a weight
    below FULL_WEIGHT runs by the count of its block's executions by its warp, which begins at the warp's number among
    all warps of the trace: so that blocks which every warp executes once have their share, too.
    Raises LaunchError for blocks that the SM cannot hold, MachineLimitError where memory for its tables is not free,
    UnsupportedError for warps that wait for what none of the blocks does.
    """
    rows = len(trace.block_ids)
    resident = max(1, min(resident, rows))
    if resident * trace.warps > MOST_WARPS * sm.sub_partitions:
        raise LaunchError(
            f"{resident} resident blocks of {trace.warps} warps are more than the simulated SM can hold: "
            "give fewer resident blocks"
        )
    try:
        code = layout.code_of(program, trace, sm)
        state = layout.state_of(code, program, rows, resident)
    except MemoryError:
        raise MachineLimitError("the simulation needs more memory than is free", cure="Use --model roofline.") from None
    # The loop changes the state in place; it knows nothing of Python objects and holds no lock.
    with without_blas():
        _loop()(code, state)
    if state.flow.finished < rows:
        raise _endless(state)
    return _simulated(state)


def simulate_together(
    program: Program, traces: Sequence[SMTrace], sms: Sequence[SM], resident: int
) -> tuple[Simulated, ...]:
    """Return what the SMs do that blocks of the same clusters lie on, one trace and one SM for each rank.

    Row n of all traces is cluster n. Each SM is simulated by itself for as many cycles as it takes to tell another one
    anything; then each gets what the others have told. Fails when: a barrier of the cluster has ranks wait long for
    one another, as each SM passes it alone.
    Raises as ``simulate``, which a single trace is left to.
    """
    if len(traces) == 1:
        return (simulate(program, traces[0], sms[0], resident),)
    places = layout.places_of(*traces)
    rows = len(traces[0].block_ids)
    codes = [layout.code_of(program, trace, sm, places) for trace, sm in zip(traces, sms, strict=True)]
    room = [int(np.count_nonzero(event_changes(trace).told)) for trace in traces]
    states = [layout.state_of(code, program, rows, resident, most) for code, most in zip(codes, room, strict=True)]
    step, until, news, idle = max(1, math.floor(min(max(sm.shared_latency, sm.signal_latency) for sm in sms))), 0, 1, 0
    with without_blas():
        while any(state.flow.finished < rows for state in states):
            left = [state.parts for state in states if state.flow.finished < rows]
            soonest = min(int(parts[number].next_cycle) for parts in left for number in range(len(parts)))
            idle = 0 if news or soonest < layout.NEVER else idle + 1
            if idle > 1:  # once an mbarrier has begun, what was told of it before is taken in the next turn
                raise _endless(states[0])
            # What was told just now may wake warps sooner than any that is known of.
            until = step + (until if news or idle else max(until, soonest))
            for code, state in zip(codes, states, strict=True):
                state.flow.until = until
                _loop()(code, state)
            states, news = _delivered(states)
    return tuple(map(_simulated, states))


def _delivered(states: Sequence[layout.State]) -> tuple[list[layout.State], int]:
    """Return the states of SMs by rank, each with what others have told it, and how much was told just now."""
    fields = layout.Message
    told = [state.sent[: state.flow.sent].copy() for state in states]
    found = []
    for rank, state in enumerate(states):
        state.flow.sent = 0
        new = [sent[sent[:, fields.RANK] ^ other == rank] for other, sent in enumerate(told)]
        kept = state.received[state.received[:, fields.ROW] >= 0]
        found.append(state._replace(received=np.concatenate([kept, *new])))
    return found, sum(map(len, told))


def _endless(state: layout.State) -> UnsupportedError:
    """Return the refusal of blocks whose warps all wait for what none of them does."""
    is_asleep = any(state.warps[x].is_asleep for x in range(len(state.warps)))
    where = "an mbarrier" if is_asleep else "a barrier"
    return UnsupportedError(
        f"in the simulation of one SM, warps wait at {where} for what none of its blocks does",
        cure="Use --model roofline.",
    )


def prepare() -> None:
    """Compile the simulation, once per machine: the cache keeps it (``jit_cache``)."""
    simulate(_NOTHING, _ONE_WARP, ANY_SM, 1)


def is_prepared() -> bool:
    """Tell whether the compiled simulation is loaded or kept on this machine."""
    return is_ready(_loop(), _any_arguments())


def hand_on_machine_code(store: Store) -> None:
    """Copy the compiled simulation into another store, where it is kept."""
    hand_on(_loop(), _any_arguments(), store)


def _any_arguments() -> tuple[layout.Code, layout.State]:
    code = layout.code_of(_NOTHING, _ONE_WARP, ANY_SM)
    return code, layout.state_of(code, _NOTHING, 1, 1)


@cache
def _loop() -> Any:
    from kerncast.models.sm.simulate.sm_loop import run  # noqa: PLC0415  all of it compiles, or none

    return jitted(run, nogil=True, **layout.OPTIONS)


def _simulated(state: layout.State) -> Simulated:
    totals = state.totals
    return Simulated(
        finish_cycles=state.finish,
        issued_at_finish=state.progress,
        busy_cycles=totals.busy_cycles.copy(),
        issued=int(totals.issued),
        l1_cycles=float(totals.l1_cycles),
        shared_cycles=float(totals.shared_cycles),
        exchange_cycles=float(totals.exchange_cycles),
        atomic_cycles=float(totals.atomic_cycles),
        l1_sectors=int(totals.l1_sectors),
        l1_hits=int(totals.l1_hits),
        l2_requests=int(totals.l2_requests),
        l2_read_sectors=int(totals.l2_read_sectors),
        l2_write_sectors=int(totals.l2_write_sectors),
        l2_merged_sectors=int(totals.l2_merged_sectors),
        l2_atomic_sectors=int(totals.l2_atomic_sectors),
        local_read_sectors=int(totals.local_read_sectors),
        local_write_sectors=int(totals.local_write_sectors),
        dram_sectors=int(totals.dram_sectors),
        stalls=state.stalls.astype(np.float64),
    )


_NONE = np.full(1, FULL_WEIGHT, np.int32)
_NOTHING = Program(
    starts=np.array([0, 1], np.int32), leader=np.zeros(1, np.int32), pipe=np.zeros(1, np.int32),
    memory=np.zeros(1, np.int32),
    cycles=np.zeros(1, np.float32), latency=np.zeros(1, np.float32), weight=_NONE, phase=np.zeros(1, np.int32),
    sources=np.full((1, MOST_SOURCES), -1, np.int32), destinations=np.full((1, MOST_DESTINATIONS), -1, np.int32),
    accesses=np.full((1, MOST_DESTINATIONS), -1, np.int32), instruction=np.zeros(1, np.int32),
    group=np.zeros(1, np.int32), left=np.zeros(1, np.int32), registers=0,
)  # fmt: skip
_ONE_WARP = SMTrace(
    np.zeros(1, np.int64), warps=1, local_lines=0, events=np.zeros(0, np.uint64), chains=np.zeros(2, np.int64)
)
ANY_SM = SM(
    sub_partitions=1, issue_width=1, is_oldest_first=False,
    pipe_cycles=(1.0,) * len(Pipe), pipe_latency=(1.0,) * len(Pipe),
    fma_cycles=(0.0,) * len(Pipe), lsu_cycles=1.0, wavefront_cycles=1.0, replay_cycles=1.0, l1_tag_cycles=1.0,
    l1_bytes_per_cycle=128.0,
    store_line_cycles=1.0, l1_is_apart=False, l1_lines=16, l1_operations=0, stores_allocate=False,
    l2_path_bytes_per_cycle=64.0, l2_bytes_per_cycle=64.0,
    l2_write_bytes_per_cycle=64.0, dram_bytes_per_cycle=16.0, dram_write_bytes_per_cycle=16.0,
    dram_read_share=1.0, dram_write_share=1.0, dram_local_share=0.0, dram_atomic_share=0.0,
    shared_latency=1.0, l1_latency=1.0, l2_latency=1.0, dram_latency=1.0, barrier_latency=1.0, branch_latency=1.0,
    block_launch_cycles=1.0, atomic_cycles=1.0, shared_atomic_cycles=1.0,
    lsu_queue_cycles=1.0, l2_queue_cycles=1.0, dram_queue_cycles=1.0, atomic_queue_cycles=1.0,
)  # fmt: skip
