"""Runs a recording through the caches of one GPU.

Sectored caches of 128-byte lines that replace the line used longest ago, with sets chosen by a hash. L1 is written
through; L2 keeps what is written until it needs the place. Fails when: a GPU prefetches, compresses, or replaces lines
by another rule; blocks start at other times than here, where every warp issues one request per turn. Where L2 has
partitions that each hold what their own SMs read, one of them is simulated, with all SMs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from kerncast.execute.caches.hierarchy import (
    CACHE,
    COUNTERS,
    EMPTY_SLOT,
    GONE,
    SIMULATION,
    SLOT,
    SM,
    WARP,
    WAYS,
    write_caches,
    write_hierarchy,
)
from kerncast.execute.caches.turns import write_turns
from kerncast.execute.native.ir import Unit
from kerncast.execute.native.jit import Host, Machine, compile_text, this_host
from kerncast.execute.native.scheduler import NOT_DONE
from kerncast.occupancy import CacheGeometry, l1_operations
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import LINE_BYTES, SEGMENT, Recording

_MOST_WARPS_PER_SM = 64
#: Turns of warps until control comes back to Python, where a user may interrupt: a fraction of a second.
_TURNS_AT_ONCE = 4_000_000
_ALIGNMENT = 64
_NO_LINE = 0xFFFFFFFF
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Sectors that caches were asked for, and what hit; ``launch_traffic`` scales them to counts of a launch."""

    l1_load_sectors: int
    l1_load_hits: int
    l1_local_sectors: int
    l1_local_hits: int
    l2_read_sectors: int
    l2_read_hits: int
    l2_write_sectors: int
    l2_write_hits: int
    l2_atomic_sectors: int
    l2_atomic_hits: int
    l2_dirtied_sectors: int
    """sectors written that were not yet dirty"""
    dram_read_sectors: int
    dram_write_sectors: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The counts of a recording run through caches that were cold at its start."""

    blocks: Counts
    """[k] blocks that had ended at each look; the last is all of them"""
    counts: tuple[CacheCounts, ...]
    """[k] counts at each look"""

    @property
    def left_dirty_sectors(self) -> int:
        """Sectors written that are still in L2 at the end."""
        return self.total.l2_dirtied_sectors - self.total.dram_write_sectors

    @property
    def total(self) -> CacheCounts:
        """Counts of the whole recording."""
        return self.counts[-1]


def simulate(recording: Recording, geometry: CacheGeometry, looks: int = 8, host: Host | None = None) -> Simulation:
    """Run a recording through the caches of a GPU, from cold; its first blocks fill the SMs, the others follow.

    ``looks`` is how often counts are noted on the way; ``host`` is the CPU that the simulator is compiled for.
    """
    run = _Run(recording, geometry, looks)
    function = _machine(host or this_host()).function("run_simulation")
    while function(run.address) == NOT_DONE:
        run.state["rounds"] = run.rounds
    return run.result()


@cache
def _machine(host: Host) -> Machine:
    unit = Unit()
    write_caches(unit)
    write_hierarchy(unit)
    write_turns(unit)
    return compile_text(unit.text, host, optimises=True)


class _Run:
    """The memory of one simulation."""

    def __init__(self, recording: Recording, geometry: CacheGeometry, looks: int) -> None:
        rows, warps = len(recording.block_ids), recording.warps
        resident = max(1, min(geometry.resident, _MOST_WARPS_PER_SM // warps))
        self._rows = rows
        self.rounds = max(1, _TURNS_AT_ONCE // geometry.sms)
        self._keep: list[npt.NDArray[np.uint8]] = []
        memory = self._memory(SIMULATION.itemsize)
        self.address, self.state = memory.ctypes.data, memory.view(SIMULATION)[0]
        order = np.argsort(_chain_of(recording.segments, recording.warps), kind="stable")
        self._segments = np.ascontiguousarray(recording.segments[order])
        chains = np.searchsorted(_chain_of(self._segments, warps), np.arange(rows * warps)).astype(np.int64)
        self._events, self._chains = np.ascontiguousarray(recording.events), chains
        slots = self._memory(SLOT.itemsize * geometry.sms * resident)
        slots.view(SLOT)["row"] = EMPTY_SLOT
        states = self._memory(WARP.itemsize * geometry.sms * resident * warps)
        states.view(WARP)["state"] = GONE
        every = max(1, rows // looks)
        self._looks = self._memory(8 * len(COUNTERS) * (rows // every + 1)).view(np.int64).reshape(-1, len(COUNTERS))
        l2 = _Caches(self._memory, [geometry.l2_bytes // geometry.l2_partitions])
        l1 = _Caches(self._memory, [geometry.l1_bytes or 0] * geometry.sms + _read_only_caches(geometry))
        values = {
            "events": self._events.ctypes.data, "segments": self._segments.ctypes.data, "chains": chains.ctypes.data,
            "l1": l1.address, "l2": l2.address, "warps": states.ctypes.data, "slots": slots.ctypes.data,
            "sms": self._memory(SM.itemsize * geometry.sms).ctypes.data, "snapshots": self._looks.ctypes.data,
            "rows": rows, "snapshot_every": every, "sm_count": geometry.sms, "resident": resident,
            "block_warps": warps, "local_lines": recording.local_lines, "uses_l1": l1_operations(geometry),
            "stores_allocate": geometry.stores_allocate, "fetch": geometry.l2_fetch_bytes // SECTOR_BYTES,
            "read_only_bytes": CACHE.itemsize * len(_read_only_caches(geometry)), "rounds": self.rounds,
        }  # fmt: skip
        for name, value in values.items():
            self.state[name] = value

    def result(self) -> Simulation:
        """Return what was counted."""
        count, every = int(self.state["snapshot_count"]), int(self.state["snapshot_every"])
        looks = [*self._looks[:count].tolist(), self.state["counters"].tolist()]
        blocks = [*(every * (n + 1) for n in range(count)), self._rows]
        if count and blocks[-1] == blocks[-2]:
            looks, blocks = [*looks[:-2], looks[-1]], blocks[:-1]
        return Simulation(np.array(blocks, np.int64), tuple(CacheCounts(*look) for look in looks))

    def _memory(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return zeroed memory that begins at a cache line of this machine."""
        memory = np.zeros(nbytes + _ALIGNMENT, np.uint8)
        self._keep.append(memory)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + nbytes]


class _Caches:
    """The memory of some caches."""

    def __init__(self, memory: Callable[[int], npt.NDArray[np.uint8]], sizes_bytes: list[int]) -> None:
        lines = np.array(sizes_bytes) // LINE_BYTES
        sets = np.maximum(1, lines // WAYS)
        starts = WAYS * np.concatenate([[0], np.cumsum(sets)])
        bits = memory(int(starts[-1]))
        tags, ages = memory(4 * int(starts[-1])), memory(4 * int(starts[-1]))
        tags.view(np.uint32)[:] = _NO_LINE
        entries = memory(len(sizes_bytes) * CACHE.itemsize)
        table = entries.view(CACHE)
        for name, array, width in (("tags", tags, 4), ("ages", ages, 4), ("bits", bits, 1)):
            table[name] = array.ctypes.data + width * starts[:-1]
        table["sets"], table["ways"] = sets, (1 << np.clip(lines, 1, WAYS)) - 1
        self.address = entries.ctypes.data


def _read_only_caches(geometry: CacheGeometry) -> list[int]:
    """Return the sizes of the caches for read-only loads where an SM has one beside its L1."""
    return [] if geometry.read_only_bytes is None else [geometry.read_only_bytes] * geometry.sms


def _chain_of(segments: npt.NDArray[np.void], warps: int) -> Counts:
    chains: Counts = segments["row"].astype(np.int64) * warps + segments["warp"]
    return chains


assert SEGMENT.itemsize % 8 == 0
