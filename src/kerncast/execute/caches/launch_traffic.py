"""Traffic of a whole launch through the caches of a GPU, from a window of neighbouring blocks.

The sectors that L1 is asked for come from the spread sample of blocks; which share of them hits, from the simulation.
Where the window is not the whole grid, what follows it is taken to hit as its second half does; where it has less than
two waves, the launch's footprint decides whether later waves find in L2 what the first one read.
"""

from dataclasses import dataclass, replace

from kerncast.errors import UnsupportedError
from kerncast.execute.caches.simulate import Simulation, simulate
from kerncast.execute.counting import touched
from kerncast.execute.recording import Window, record_chain, record_window
from kerncast.execute.sampling.run import Executed
from kerncast.execute.setup.state import Progress
from kerncast.occupancy import CacheGeometry
from kerncast.profiles import SECTOR_BYTES, CacheSimulation, Count, Counts, KernelProfile, Origin
from kerncast.profiles.counts import (
    DRAM_READ_SECTORS,
    DRAM_WRITE_SECTORS,
    GLOBAL_LOAD_SECTORS,
    L1_LOAD_HITS,
    L1_LOAD_SECTORS,
    L1_LOCAL_HITS,
    L2_ATOMIC_HITS,
    L2_ATOMIC_SECTORS,
    L2_DIRTY_BYTES,
    L2_INSTRUCTION_SECTORS,
    L2_LOAD_HITS,
    L2_LOAD_SECTORS,
    L2_WRITE_HITS,
    L2_WRITE_SECTORS,
    access_name,
    with_totals,
)

_STEADY_WAVES = 2
#: Blocks that run in another order may take each other's work, and load a little more or less in all.
_REPEATED = 0.01
#: L2 that holds a launch's footprint without pushing anything out: a little less than all, as sets fill unevenly.
_FILLED = 0.9
#: The fields of a simulation's counts.
_SIMULATED = {
    L1_LOAD_SECTORS: "l1_load_sectors", L1_LOAD_HITS: "l1_load_hits", L1_LOCAL_HITS: "l1_local_hits",
    L2_LOAD_SECTORS: "l2_read_sectors", L2_LOAD_HITS: "l2_read_hits", L2_WRITE_SECTORS: "l2_write_sectors",
    L2_WRITE_HITS: "l2_write_hits", L2_ATOMIC_SECTORS: "l2_atomic_sectors", L2_ATOMIC_HITS: "l2_atomic_hits",
    DRAM_READ_SECTORS: "dram_read_sectors", DRAM_WRITE_SECTORS: "dram_write_sectors",
}  # fmt: skip


def cache_traffic(
    profile: KernelProfile, executed: Executed, geometry: CacheGeometry, gpu_id: str, progress: Progress | None = None
) -> tuple[CacheSimulation, Counts]:
    """Return the traffic of a launch through the caches of one GPU, from cold; its profile says what is asked of L1."""
    window = record_window(executed, geometry.sms * geometry.resident, progress)
    if window.is_whole_grid:
        found = _counted(simulate(window.recording, geometry))
        _check_repeated(profile, found[L1_LOAD_SECTORS])
    else:
        found = _Scaled(profile, executed, geometry, window).counts()
    if geometry.writes_back_early:
        found |= _written_early(found[DRAM_WRITE_SECTORS], found[L2_DIRTY_BYTES])
    found[L2_INSTRUCTION_SECTORS] = _instructions(executed, geometry)
    simulation = CacheSimulation(
        gpu=gpu_id,
        resident_blocks_per_sm=geometry.resident,
        l1_bytes=geometry.l1_bytes if geometry.caches_global or geometry.caches_local else None,
        l2_bytes=geometry.l2_bytes,
        blocks_simulated=len(window.recording.block_ids),
        wave_blocks=window.wave_blocks,
        wave_sectors=window.wave_sectors,
    )
    return simulation, with_totals(Counts.of(Origin.SIMULATED, found))


def _check_repeated(profile: KernelProfile, recorded: Count) -> None:
    """Refuse a recording whose blocks did other work than those that were counted, such as taking other tickets."""
    counted = profile.counts.total((GLOBAL_LOAD_SECTORS,))
    if counted.is_exact and abs(counted.value - recorded.value) > _REPEATED * counted.value:
        raise UnsupportedError("the loads of the blocks depend on the order in which they run")


def _instructions(executed: Executed, geometry: CacheGeometry) -> Count:
    """Return sectors of code that each block reads from L2 because it does not fit into the instruction cache.

    Taken is one pass through the code per block; if the blocks of an SM run in step, they share it. Fails when: most
    of the code is not executed, or a loop is larger than the cache.
    """
    if geometry.instruction_bytes is None:
        return Count.exact(0)
    excess = max(0, executed.kernel.resources.code_bytes - geometry.instruction_bytes) / SECTOR_BYTES
    blocks = executed.sampler.blocks
    return Count(blocks * excess, blocks * excess / geometry.resident, blocks * excess)


def _counted(simulation: Simulation) -> dict[str, Count]:
    """Return the counts of a simulation of the whole grid."""
    counts = {name: Count.exact(getattr(simulation.total, field)) for name, field in _SIMULATED.items()}
    return counts | {L2_DIRTY_BYTES: Count.exact(simulation.left_dirty_sectors).times(SECTOR_BYTES)}


def _written_early(pushed_out: Count, left_bytes: Count) -> dict[str, Count]:
    """Return DRAM writes where little stays in L2: all that was written, and at least what was pushed out."""
    left = left_bytes.times(1 / SECTOR_BYTES)
    return {
        DRAM_WRITE_SECTORS: Count(pushed_out.value + left.value, pushed_out.low, pushed_out.high + left.high),
        L2_DIRTY_BYTES: Count(0.0, 0.0, left_bytes.high),
    }


@dataclass(frozen=True, slots=True)
class _Share:
    """A share of some sectors, and the bracket around it."""

    value: float
    low: float
    high: float

    def of(self, count: Count) -> Count:
        return Count(self.value * count.value, self.low * count.low, self.high * count.high)

    @property
    def rest(self) -> "_Share":
        return _Share(1 - self.value, 1 - self.high, 1 - self.low)


class _Scaled:
    """Scales a window to the whole launch."""

    def __init__(self, profile: KernelProfile, executed: Executed, geometry: CacheGeometry, window: Window) -> None:
        self._executed = executed
        self._asked = profile.counts
        self._is_steady = window.waves >= _STEADY_WAVES
        blocks, wave = len(window.recording.block_ids), geometry.sms * geometry.resident
        self._capacity = geometry.l2_bytes // geometry.l2_partitions / SECTOR_BYTES
        whole_l2 = geometry.l2_bytes
        if blocks < wave:
            geometry = _shrunken(geometry, blocks)
        self._parts = whole_l2 / geometry.l2_bytes
        """capacity of the GPU's L2 over that of the simulated L2"""
        self._simulation = simulate(window.recording, geometry)
        self._l1 = self._simulation
        if not self._is_steady:
            chain = record_chain(executed, geometry.sms, geometry.resident)
            self._l1 = simulate(chain, replace(geometry, sms=1))

    def counts(self) -> dict[str, Count]:
        """Return the counts of the launch."""
        loads, local = self._sectors(("global", "ld"), ("global", "ldgsts")), self._sectors(("local", "ld"))
        writes = self._sectors(("global", "st"), ("local", "st"))
        atomics = self._sectors(("global", "atom"), ("global", "red"))
        load_hits, local_hits = self._l1_share("load"), self._l1_share("local")
        reads = load_hits.rest.of(loads) + local_hits.rest.of(local)
        missed = {kind: self._misses(kind, asked) for kind, asked in (("read", reads), ("atomic", atomics))}
        from_dram = (missed["read"] + missed["atomic"]).times(self._fetched)
        pushed_out, left = self._dram_writes(writes + atomics)
        return {
            L1_LOAD_SECTORS: loads,
            L1_LOAD_HITS: load_hits.of(loads),
            L1_LOCAL_HITS: local_hits.of(local),
            L2_LOAD_SECTORS: reads,
            L2_LOAD_HITS: reads - missed["read"],
            L2_WRITE_SECTORS: writes,
            L2_WRITE_HITS: writes - self._misses("write", writes),
            L2_ATOMIC_SECTORS: atomics,
            L2_ATOMIC_HITS: atomics - missed["atomic"],
            DRAM_READ_SECTORS: from_dram,
            DRAM_WRITE_SECTORS: pushed_out,
            L2_DIRTY_BYTES: left.times(SECTOR_BYTES),
        }

    def _sectors(self, *kinds: tuple[str, str]) -> Count:
        return self._asked.total(access_name(*kind, "sectors") for kind in kinds)

    def _l1_share(self, kind: str) -> _Share:
        """Return what share of loads from global or local memory hits in L1.

        Where it comes from the blocks of one SM, the window, whose SMs are cold, belongs to the bracket.
        """
        part, whole = (f"l1_{kind}_hits",), (f"l1_{kind}_sectors",)
        found = _rate(self._l1, part, whole, is_short=not self._is_steady)
        if self._is_steady or not getattr(self._simulation.total, whole[0]):
            return found
        other = _rate(self._simulation, part, whole, is_short=True)
        return _Share(found.value, min(found.low, other.low), max(found.high, other.high))

    def _misses(self, kind: str, asked: Count) -> Count:
        """Return what misses L2; if it holds all of the launch, each sector is missed once, or comes with another.

        The second half of a window may miss nothing that its first half has fetched. Sectors that are read and never
        written are missed all the same, once at least: compulsory misses, which no cache that starts cold avoids.
        """
        part, whole = (f"l2_{kind}_hits",), (f"l2_{kind}_sectors",)
        share = _rate(self._simulation, part, whole, is_short=not self._is_steady).rest
        first = self._compulsory(kind, asked)
        if self._is_steady:
            total = self._simulation.total
            seen, found = getattr(total, whole[0]), getattr(total, part[0])
            scaled = Count.exact(min(seen - found, asked.value)) + share.of(asked - Count.exact(seen))
            return _at_least(scaled, first.low, first.low)
        once = self._touched("read" if kind == "read" else "written").times(1 / self._fetched)
        cold = share.of(asked)
        value = min(once.value, cold.value) if self._fits else cold.value
        scaled = Count(value, min(once.value, cold.low, value), max(cold.high, value))
        return _at_least(scaled, first.low, first.value)

    def _compulsory(self, kind: str, asked: Count) -> Count:
        """Return misses of sectors that only this kind of access touches; low are those that the sample has touched.

        Atomics read and write: what they touch first is not told from what stores do. Copies in bulk touch memory, but
        are not among what L1 asks for.
        """
        if kind == "atomic":
            return Count.exact(0)
        found = self._touched(f"only_{'read' if kind == 'read' else 'written'}")
        found = found.times(1 / self._fetched) if kind == "read" else found
        return Count(*(min(each, asked.value) for each in (found.value, found.low, found.high)))

    @property
    def _fetched(self) -> float:
        """Sectors that DRAM reads per sector that a load or an atomic misses: neighbours come with it."""
        total = self._simulation.total
        missed = total.l2_read_sectors + total.l2_atomic_sectors - total.l2_read_hits - total.l2_atomic_hits
        return total.dram_read_sectors / missed if missed else 1.0

    def _dram_writes(self, written: Count) -> tuple[Count, Count]:
        """Return what is pushed out to DRAM, and what is left in L2; ``written`` are sectors of stores and atomics."""
        dirtied = self._continued("l2_dirtied_sectors", ("l2_write_sectors", "l2_atomic_sectors"), written)
        once, both = self._touched("written"), self._touched("either")
        if not self._is_steady:
            value = max(once.low, min(once.value, dirtied.value) if self._fits else dirtied.value)
            dirtied = Count(value, min(once.low, value), max(once.high, dirtied.high))
        room = self._capacity * once.value / both.value if both.value else 0.0
        if _counted_between(self._simulation, ("dram_write_sectors",), 0.5, 1):
            room = self._simulation.left_dirty_sectors * self._parts
        if self._fits:
            room = self._capacity
        left = Count(min(dirtied.value, room), 0.0, min(dirtied.high, self._capacity))
        out = Count(
            dirtied.value - left.value,
            max(0.0, min(dirtied.low, dirtied.value) - left.high),
            max(dirtied.value - left.value, dirtied.high),
        )
        return out, left

    def _continued(self, name: str, of: tuple[str, ...], asked: Count) -> Count:
        """Return a count of the window, and of what follows it at the rate of its second half."""
        total = self._simulation.total
        in_window = sum(getattr(total, each) for each in of)
        rate = _rate(self._simulation, (name,), of, is_short=not self._is_steady)
        return Count.exact(getattr(total, name)) + rate.of(asked - Count.exact(in_window))

    @property
    def _fits(self) -> bool:
        """Whether L2 holds all that the launch touches."""
        return self._touched("either").value <= _FILLED * self._capacity

    def _touched(self, access: str) -> Count:
        """Return distinct sectors of the whole launch."""
        executed = self._executed
        return touched(executed.trace, access, executed.sampler.blocks).times(1 / SECTOR_BYTES)


def _at_least(count: Count, low: float, value: float) -> Count:
    """Return a count whose low end and value are at least these; ``value`` is at least ``low``."""
    value = max(count.value, value)
    return Count(value, min(value, max(count.low, low)), max(count.high, value))


def _rate(simulation: Simulation, part: tuple[str, ...], whole: tuple[str, ...], *, is_short: bool = False) -> _Share:
    """Return one count over another in the second half of the window, with its two quarters as the bracket.

    The bracket of a short window also holds the rate over all of it.
    """
    rates = []
    for start, stop in ((0.5, 1), (0.5, 0.75), (0.75, 1), *([(0, 1)] if is_short else [])):
        of = _counted_between(simulation, whole, start, stop)
        rates += [_counted_between(simulation, part, start, stop) / of] if of else []
    if not rates and (of := _counted_between(simulation, whole, 0, 1)):
        rates = [_counted_between(simulation, part, 0, 1) / of]
    return _Share(rates[0], min(rates), max(rates)) if rates else _Share(0.0, 0.0, 0.0)


def _counted_between(simulation: Simulation, names: tuple[str, ...], start: float, stop: float) -> int:
    """Return what was counted while these parts of the blocks ended."""

    def until(part: float) -> int:
        looks = round(part * len(simulation.counts))
        return sum(int(getattr(simulation.counts[looks - 1], name)) for name in names) if looks else 0

    return until(stop) - until(start)


def _shrunken(geometry: CacheGeometry, blocks: int) -> CacheGeometry:
    """Return a part of the GPU that these blocks fill, with its share of L2."""
    sms = max(1, blocks // geometry.resident)
    return replace(geometry, sms=sms, l2_bytes=geometry.l2_bytes * sms // geometry.sms)
