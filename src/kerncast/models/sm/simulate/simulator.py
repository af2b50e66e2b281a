"""Simulates one streaming multiprocessor: when each of its blocks ends, and what its warps waited for.

Method: resident warps in order, a scoreboard per register, a pipe interval per sub-partition, one load/store queue,
L1 with the time of each fill, and this SM's share of L2 and DRAM as queues. Fails when: what the SMs do to one another
is more than a smaller share (camped channels, atomics of all SMs on one address), or instructions miss their cache.
"""

import hashlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import kerncast
from kerncast.errors import LaunchError
from kerncast.models.sm.micro_ops import FULL_WEIGHT, MOST_DESTINATIONS, MOST_SOURCES, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Simulated
from kerncast.models.sm.simulate import state as layout
from kerncast.traces import SMTrace

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


_IMPORTED = re.compile(r"^\s*from (kerncast\.[\w.]+) import", re.MULTILINE)
#: Warps of one sub-partition that its masks have a bit for; none has more than 16 today.
MOST_WARPS = layout.WHEEL


def simulate(program: Program, trace: SMTrace, sm: SM, resident: int) -> Simulated:
    """Return what an SM does with its blocks, of which so many are resident at once.

    The first ones start together at cycle 0; each block that ends is replaced by the next. A micro-op of a weight
    below FULL_WEIGHT runs by the count of its block's executions by its warp, which begins at the warp's number among
    all warps of the trace: so that blocks which every warp executes once have their share, too.
    """
    rows = len(trace.block_ids)
    resident = max(1, min(resident, rows))
    if resident * trace.warps > MOST_WARPS * sm.sub_partitions:
        raise LaunchError(
            f"{resident} resident blocks of {trace.warps} warps are more than the simulated SM can hold: "
            "give fewer resident blocks"
        )
    code = layout.code_of(program, trace, sm)
    state = layout.state_of(code, program, rows, resident)
    # The loop changes the state in place; it knows nothing of Python objects and holds no lock.
    with without_blas():
        _loop()(code, state)
    return _simulated(state)


def prepare() -> None:
    """Compile the simulation, once per machine: numba keeps it beside this file or in the user's cache folder."""
    simulate(_NOTHING, _ONE_WARP, _ANY_SM, 1)


def is_prepared() -> bool:
    """Tell whether the compiled simulation is loaded or kept on this machine."""
    folder = kept_in()
    name = f"{Path(__file__).with_name('sm_loop').name}.{_name()}-*.nbi"
    return bool(_loop().signatures) or (folder is not None and any(folder.glob(name)))


def kept_in() -> Path | None:
    """Return the folder in which numba keeps the compiled simulation; None where it can write to none."""
    folder = getattr(_loop().stats, "cache_path", None)
    return None if folder is None else Path(folder)


@cache
def _name() -> str:
    """Return a name for the compiled function that changes with any of the files that it is made of.

    numba looks for changes in a function's own file only.
    """
    digest = hashlib.sha256()
    for source in made_of(Path(__file__).with_name("sm_loop.py")):
        digest.update(source.read_bytes())
    return f"run_{digest.hexdigest()[:12]}"


def made_of(file: Path) -> list[Path]:
    """Return a file of this package and all files of it that its import statements lead to, however far."""
    root = Path(kerncast.__path__[0]).parent
    found, left = {file}, [file]
    while left:
        for name in _IMPORTED.findall(left.pop().read_text(encoding="utf-8")):
            place = root.joinpath(*name.split("."))
            for each in (place.with_suffix(".py"), place / "__init__.py"):
                if each not in found and each.is_file():
                    found.add(each)
                    left.append(each)
    return sorted(found)


@cache
def _loop() -> Any:
    from numba import njit  # noqa: PLC0415  it takes a third of a second

    from kerncast.models.sm.simulate.sm_loop import run  # noqa: PLC0415
    from kerncast.models.sm.simulate.state import OPTIONS  # noqa: PLC0415

    run.__qualname__ = _name()
    try:
        return njit(cache=True, nogil=True, **OPTIONS)(run)
    except RuntimeError:  # no folder to keep it in
        return njit(nogil=True, **OPTIONS)(run)


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
    accesses=np.full((1, MOST_DESTINATIONS), -1, np.int32), instruction=np.zeros(1, np.int32), registers=0,
)  # fmt: skip
_ONE_WARP = SMTrace(
    np.zeros(1, np.int64), warps=1, local_lines=0, events=np.zeros(0, np.uint64), chains=np.zeros(2, np.int64)
)
_ANY_SM = SM(
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
