"""The demand of a whole grid on L2 and DRAM, and the share of one SM in it."""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kerncast.gpu import GPU, WARP_SIZE
from kerncast.machine.control_flow import bits_of
from kerncast.models.base import lost_from_l2
from kerncast.models.sm.multiprocessor import (
    HotLine,
    MemoryShares,
    hot_line,
    hot_lines,
    row_slowdown,
    updated_lines,
)
from kerncast.models.sm.results import Simulated, SMLoad
from kerncast.occupancy import CacheGeometry, l1_operations
from kerncast.profiles import SECTOR_BYTES, Resources
from kerncast.traces import (
    LINE_BITS,
    LINE_BYTES,
    MASK_SHIFT,
    OPERATION_MASK,
    OPERATION_SHIFT,
    Execution,
    FootprintCurve,
    Kind,
    Operation,
    SMRecording,
    SMTrace,
)
from kerncast.units import BITS_PER_BYTE

# Which part of what L2 is asked for comes from DRAM, from how many distinct sectors neighbouring blocks touch.
#
# Blocks of one wave run side by side: what they share is read once. Over longer stretches L2 keeps as much as it
# holds: its miss rate is the growth of the footprint where the footprint equals its capacity. Source: Xiang, Ding,
# Luo, Bao, "HOTL: a Higher Order Theory of Locality", ASPLOS 2013 (miss rate = derivative of the average footprint at
# the cache's size). Fails when: blocks of a wave drift far apart, so that one's reads are pushed out before the other
# wants them.
#
# Where architectures say so, L2 reads what it lacks of a sector that was stored in part before it writes it to DRAM.
# Source: copies of every eighth float on an RTX 2080 Ti take as long as three streams, on a TITAN V as long as two.
#
# Local memory is each thread's own, and its words lie side by side with those of its warp's other threads: L2 holds
# the frames of the threads that are resident on all SMs, or loses them.

_SECTORS_PER_LINE = 4
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class DramSectors:
    """DRAM traffic that one block causes, on average."""

    read: float
    """sectors read per block"""
    written: float
    """sectors written per block"""
    filled: float = 0.0
    """sectors read per block because L2 has only a part of what it writes"""


def dram_sectors_per_block(
    curve: FootprintCurve, geometry: CacheGeometry, grid_blocks: int, *, is_warm: bool
) -> DramSectors:
    """Return the DRAM traffic of a block; ``is_warm`` where the same launch has run just before.

    L2 that is still warm from the last launch was worth 1.9 points of MAPE in the timing study.
    """
    wave = min(grid_blocks, geometry.sms * geometry.resident)
    lost = _lost(curve, geometry) if is_warm else 1.0
    held = _blocks_held(curve, grid_blocks, _l2_sectors(geometry))
    read = lost * _cold(curve, "read", wave, grid_blocks, held)
    written = _cold(curve, "written", wave, grid_blocks, held)
    filled = min(written, _left_in_part(curve, max(wave, held), grid_blocks)) if geometry.fills_sectors else 0.0
    # An L2 that writes back early does so between launches, too: warm data saves it no write.
    return DramSectors(read, written if geometry.writes_back_early else lost * written, lost * filled)


def _left_in_part(curve: FootprintCurve, blocks: float, grid_blocks: int) -> float:
    """Return the sectors per block that are still stored in part when L2 needs their place: neighbours fill others.

    Fails when: a sector gets a part of a word, which counts as all of it.
    """
    return _like_mean(curve, blocks, grid_blocks, curve.left_in_part(blocks))


def _lost(curve: FootprintCurve, geometry: CacheGeometry) -> float:
    """Return the part of what a launch touches that L2 has lost before the next one."""
    return lost_from_l2(curve.sectors(curve.grid_blocks, "either") / _l2_sectors(geometry))


def _l2_sectors(geometry: CacheGeometry) -> float:
    """Return how many sectors L2 holds, each as often as it has partitions."""
    return geometry.l2_bytes / geometry.l2_partitions / SECTOR_BYTES


#: How much more than the mean of the grid counted blocks must ask for: a sample errs.
_FAR_BUSIER = 1.25


def _cold(curve: FootprintCurve, kind: Kind, wave: int, grid_blocks: int, held: float) -> float:
    """Return distinct sectors per block as L2 sees them: shared within a wave, and within the blocks that L2 holds."""
    # The curve's blocks may reach beyond those that are not idle: what the launch touches is that of its whole grid.
    once = curve.sectors(curve.grid_blocks, kind) / grid_blocks
    in_wave = max(once, _like_mean(curve, wave, grid_blocks, curve.sectors(wave, kind) / wave))
    if held >= grid_blocks:
        return once
    # Blocks of a wave run at once: what they share is read once, however little L2 holds. ``times_read`` corrects that.
    if held <= wave:
        return in_wave
    return min(in_wave, max(once, _like_mean(curve, held, grid_blocks, curve.rate(held, kind))))


def _like_mean(curve: FootprintCurve, blocks: float, grid_blocks: int, sectors: float) -> float:
    """Return the sectors per block of so many neighbours, as if they asked for no more than the mean of the grid.

    The counted blocks lie where the accesses do. Others may ask for less, without being idle: of a sum that takes two
    elements per thread, on a grid of one thread per element, half of the blocks load nothing, but add like the others.
    """
    busier = curve.busier_than_mean(blocks) * grid_blocks / curve.grid_blocks
    return sectors / busier if busier > _FAR_BUSIER else sectors


def _blocks_held(curve: FootprintCurve, grid_blocks: int, capacity: float) -> float:
    """Return how many neighbouring blocks touch as much as L2 holds, at most the whole grid."""
    if curve.sectors(curve.grid_blocks, "either") <= capacity:
        return float(grid_blocks)
    low, high = 0.0, float(grid_blocks)
    while high - low > 0.5:
        middle = (low + high) / 2
        if curve.sectors(middle, "either") > capacity:
            high = middle
        else:
            low = middle
    return low


def local_share(trace: SMTrace, geometry: CacheGeometry, resident_warps: float) -> float:
    """Return the part of local memory's traffic with L2 that goes on to DRAM.

    share = 1 - (sectors of L2) / (sectors that a warp touches x warps resident on the GPU), at least 0
    Source: any replacement that does not know which frame is next finds that part; Nsight Compute's counters of 389
    kernels on an RTX 2080 Ti agree (docs/timing-validation.md). Fails when: global memory pushes frames out that
    would fit (written sectors reached DRAM from half of L2 on), or a small part of a frame is touched often.
    """
    capacity = geometry.l2_bytes / SECTOR_BYTES
    if trace.local_lines * _SECTORS_PER_LINE * resident_warps <= capacity:
        return 0.0
    return max(0.0, 1 - capacity / max(1.0, _local_sectors_per_warp(trace) * resident_warps))


def _local_sectors_per_warp(trace: SMTrace) -> float:
    """Return the distinct sectors of local memory that a warp touches, on average."""
    events = trace.events
    operation = events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    places = np.flatnonzero((operation == Operation.LOCAL_LOAD) | (operation == Operation.LOCAL_STORE))
    local = events[places]
    warps = len(trace.chains) - 1
    owner = np.searchsorted(trace.chains, places, side="right") - 1
    line = (local & np.uint64(2**LINE_BITS - 1)).astype(np.int64) + owner * trace.local_lines
    masks = local >> np.uint64(MASK_SHIFT)
    per_sector = (np.unique(line[(masks >> np.uint64(n) & np.uint64(1)) > 0]) for n in range(_SECTORS_PER_LINE))
    return sum(map(len, per_sector)) / warps


# Registers that the compiler spills: the PTX, and so the recording, knows nothing of them.
#
# The kernel's own machine code says how often, where it was read; else the compiler says how many bytes a thread stores
# and loads, and each is taken to run once. They go to L2 and come from there, but for frames that fit L1. Of the loads
# DRAM gets the part that local memory sends there. Stores reach it long before L2 is full: the part 1 - exp(-2.4 x
# frames / L2), by Nsight Compute's counters of 344 convolutions on an RTX 2080 Ti (0.16 at 0.13 of L2, 0.64 at 0.43,
# 0.90 at 0.85). Fails when: the machine code was not read, and spills lie in a loop, where they run more than once, or
# in a branch that few threads take.


_WRITTEN_BACK = 2.4


@dataclass(frozen=True, slots=True)
class Spills:
    """What spilled registers of one block ask of memory."""

    requests: float = 0.0
    """loads and stores, a warp instruction each"""
    l2_read: float = 0.0
    """sectors that L2 is asked for"""
    l2_written: float = 0.0
    """sectors that L2 takes"""
    dram_read: float = 0.0
    """sectors that L2 does not hold any more"""
    dram_written: float = 0.0
    """sectors that L2 sends on"""


def spilled_words(resources: Resources, execution: Execution, warps_per_block: int) -> tuple[float, float]:
    """Return the words of registers that the warps of a block load and store on average, a request each."""
    if not resources.spills:
        return 0.0, 0.0
    if not execution.machine.operations:
        return words_once(resources, warps_per_block)
    words: dict[str, float] = {"LDL": 0.0, "STL": 0.0}
    for each in execution.machine.operations:
        if each.opcode in words:
            words[each.opcode] += each.warps * -(-bits_of(each.modifiers) // (_WORD_BYTES * BITS_PER_BYTE))
    # What the PTX itself keeps in local memory is recorded.
    trace = execution.trace
    arrays = trace.counts.local_sectors.sum(axis=0) / _SECTORS_PER_LINE
    for number, of_array in zip(trace.counts.accessing, arrays.tolist(), strict=True):
        ins = trace.function.instructions[number]
        if ins.space == "local":  # one that any space may serve becomes LD or ST
            words["STL" if ins.is_store else "LDL"] -= of_array
    blocks = len(trace.block_ids)
    return max(0.0, words["LDL"]) / blocks, max(0.0, words["STL"]) / blocks


def words_once(resources: Resources, warps_per_block: int) -> tuple[float, float]:
    """Return the words of registers that a block loads and stores where each thread does all of it once."""
    spilled = resources.spill_load_bytes, resources.spill_store_bytes
    loads, stores = (warps_per_block * nbytes / _WORD_BYTES for nbytes in spilled)
    return loads, stores


def spills_of(resources: Resources, warps_per_block: int, grid: "GridOnGPU", words: tuple[float, float]) -> Spills:
    """Return what the spills of a block ask of memory; ``words`` are those that its warps load, and store.

    A request moves 4 bytes of each of a warp's threads, which lie side by side: 4 sectors.
    """
    loads, stores = words
    if not loads + stores:
        return Spills()
    frames = resources.local_bytes_per_thread * WARP_SIZE * warps_per_block * grid.resident
    in_l1 = grid.gpu.architecture.caches_local_in_l1 and frames <= (grid.geometry.l1_bytes or 0)
    fill = frames * grid.load.active_sms / grid.geometry.l2_bytes
    read, written = 0.0 if in_l1 else loads * _SECTORS_PER_LINE, stores * _SECTORS_PER_LINE
    return Spills(
        requests=loads + stores,
        l2_read=read,
        l2_written=written,
        dram_read=read * max(0.0, 1 - 1 / fill) if fill else 0.0,
        dram_written=written * -math.expm1(-_WRITTEN_BACK * fill),
    )


# How often DRAM is read for the same data, because the blocks of one wave have more in use than L2 holds.
#
# The accesses of one SM's resident warps, each warp's next one in turn, stand for what all SMs do at once. L2 keeps
# the same part of this SM's 128-byte lines as of the whole wave's; what comes again after more lines than that is
# lost where L1 does not hold it either. Equation: fp(w), the mean number of distinct lines in w accesses, from reuse
# times; lost is what comes again after more than the w for which fp(w) is what is kept. Source: Xiang, Ding, Luo,
# Bao, "HOTL: a Higher Order Theory of Locality", ASPLOS 2013. Fails when: warps drift apart, so that one which runs
# ahead has less in use; or L2 does not replace what was used least recently.


#: Accesses beyond which the estimate does not change.
_MOST_ACCESSES = 2**21
_ROUNDING = 2.0**-30

Numbers = npt.NDArray[np.int64]


def times_read(trace: SMTrace, resident: int, geometry: CacheGeometry, wave_sectors: float) -> float:
    """Return how many times DRAM is read for a sector, at least once.

    ``wave_sectors`` counts the distinct sectors that the blocks of one wave touch. Without this effect softMax2 and
    find_membership of HeCBench were forecast at 0.68 and 0.57 of their times.
    """
    capacity = _l2_sectors(geometry) / _SECTORS_PER_LINE
    if wave_sectors <= capacity:
        return 1.0
    accesses = _accesses(trace.head(resident))
    if not len(accesses.line):
        return 1.0
    wave_lines = wave_sectors * accesses.lines / accesses.sectors
    if wave_lines <= capacity:
        return 1.0
    # What L1 holds never asks L2 again, so that at least this much is kept.
    in_l1 = (geometry.l1_bytes or 0) // LINE_BYTES if l1_operations(geometry) >> Operation.LOAD & 1 else 0
    kept = max(capacity / wave_lines * accesses.lines, float(in_l1))
    lost = accesses.is_read & (accesses.since > _window(accesses, kept))
    read = _distinct_sectors(accesses.line[accesses.is_read], accesses.mask[accesses.is_read])
    return 1.0 + float(np.bitwise_count(accesses.mask[lost]).sum()) / read if read else 1.0


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Accesses to global memory in the order of time."""

    line: Numbers
    """[access] number of its 128-byte line"""
    mask: Numbers
    """[access] sectors that it touches, one bit each"""
    is_read: npt.NDArray[np.bool_]
    """[access] whether it reads: loads and atomics"""
    since: Numbers
    """[access] accesses since the same line's last one; 0 at its first"""
    lines: int
    """distinct lines"""
    sectors: int
    """distinct sectors"""


def _accesses(trace: SMTrace) -> _Accesses:
    """Return the accesses of all warps, the n-th of each before the next of any."""
    lengths = np.diff(trace.chains)
    place = np.arange(len(trace.events)) - np.repeat(trace.chains[:-1], lengths)
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    in_global = np.flatnonzero(operation <= Operation.REDUCTION)
    order = in_global[np.argsort(place[in_global], kind="stable")][:_MOST_ACCESSES]
    events = trace.events[order]
    line = (events & np.uint64(2**LINE_BITS - 1)).astype(np.int64)
    mask = (events >> np.uint64(MASK_SHIFT) & np.uint64(2**_SECTORS_PER_LINE - 1)).astype(np.int64)
    since = _since(line)
    distinct = int(np.count_nonzero(since == 0))
    return _Accesses(line, mask, operation[order] != Operation.STORE, since, distinct, _distinct_sectors(line, mask))


def _since(line: Numbers) -> Numbers:
    by_line = np.argsort(line, kind="stable")
    again = line[by_line[1:]] == line[by_line[:-1]]
    since = np.zeros(len(line), np.int64)
    since[by_line[1:][again]] = np.diff(by_line)[again]
    return since


def _distinct_sectors(line: Numbers, mask: Numbers) -> int:
    order = np.argsort(line, kind="stable")
    starts = np.flatnonzero(np.diff(line[order], prepend=-1))
    return int(np.bitwise_count(np.bitwise_or.reduceat(mask[order], starts)).sum()) if len(starts) else 0


def _window(accesses: _Accesses, kept: float) -> int:
    """Return in how many accesses so many distinct lines occur on average, at most all."""
    count = len(accesses.line)
    first = np.flatnonzero(accesses.since == 0)
    last = np.flatnonzero(_since(accesses.line[::-1])[::-1] == 0)
    gaps = np.concatenate([accesses.since[accesses.since > 0], first + 1, count - last])
    # Windows of w accesses that lie in a gap of t miss the line: t - w of them.
    longer = len(gaps) - np.cumsum(np.bincount(gaps, minlength=count + 1))
    missed = np.cumsum(longer[::-1])[::-1][: count + 1]
    windows = count - np.arange(count + 1) + 1
    distinct = accesses.lines - missed / windows
    return max(0, int(np.searchsorted(distinct, kept + _ROUNDING, side="right")) - 1)


@dataclass(frozen=True, slots=True)
class GridOnGPU:
    """A grid's blocks, without idle ones, on a GPU."""

    gpu: GPU
    geometry: CacheGeometry
    """its caches as this kernel finds them"""
    load: SMLoad
    """blocks of the busiest SM"""
    resident: int
    """blocks that an SM holds at once"""
    blocks: int
    """blocks of the grid that are not idle"""


@dataclass(frozen=True, slots=True)
class GridMemory:
    """Memory traffic of a grid's blocks, each on average."""

    once: DramSectors
    """DRAM sectors per block if L2 kept everything that a wave re-reads"""
    with_reuse: DramSectors
    """DRAM sectors per block, with what L2 loses before a wave re-reads it"""
    shares: MemoryShares
    """one SM's shares before anything is simulated: DRAM sees all that L2 is asked for"""

    def after(self, simulated: Simulated) -> MemoryShares:
        """Return the shares of DRAM in what L2 was asked for while some blocks were simulated.

        Footprints say what DRAM moves, the simulated L1 what L2 is asked for; neither knows the other's number. Atomics
        have a share of their own.
        """
        blocks, others = len(simulated.finish_cycles), simulated.l2_atomic_sectors
        read = simulated.l2_read_sectors - simulated.local_read_sectors - others
        written = simulated.l2_write_sectors - simulated.local_write_sectors - others
        theirs = self.shares.dram_atomic * others
        return replace(
            self.shares,
            dram_read=_part(max(0.0, self.with_reuse.read * blocks - theirs), read),
            dram_write=_part(max(0.0, self.with_reuse.written * blocks - theirs), written)
            + _part(self.with_reuse.filled * blocks, written),
        )

    def dram_sectors(self, simulated: Simulated) -> DramSectors:
        """Return what a block causes DRAM to do: what comes again is read again where L1 has not caught it."""
        blocks = len(simulated.finish_cycles)
        asked = (simulated.l2_read_sectors - simulated.local_read_sectors) / blocks
        of_frames = self.shares.dram_local / blocks
        return DramSectors(
            min(self.with_reuse.read, max(self.once.read, asked)) + of_frames * simulated.local_read_sectors,
            self.with_reuse.written + of_frames * simulated.local_write_sectors,
            self.with_reuse.filled,
        )


def grid_memory(sm: SMRecording, trace: SMTrace, grid: GridOnGPU, *, is_warm: bool) -> GridMemory:
    """Return what a grid asks of memory, by its footprint and by ``trace``, the blocks that are simulated."""
    curve, side_by_side = sm.footprint, min(grid.blocks, grid.gpu.sm_count * grid.resident)
    once = dram_sectors_per_block(curve, grid.geometry, grid.blocks, is_warm=is_warm)
    times = times_read(trace, grid.resident, grid.geometry, curve.sectors(side_by_side, "either"))
    updated = updated_lines(trace)
    written = once.written / (once.read + once.written) if once.read + once.written else 0.5
    shares = MemoryShares(
        active_sms=grid.load.active_sms,
        dram_read=1.0,
        dram_write=1.0,
        dram_local=local_share(
            trace.head(grid.resident), grid.geometry, grid.resident * trace.warps * grid.load.active_sms
        ),
        dram_atomic=updated.first_share(grid.blocks) * (_lost(curve, grid.geometry) if is_warm else 1.0),
        atomic_pieces=updated.pieces(grid.blocks),
        hot_line=_hot_line(sm, trace, grid),
        rows=row_slowdown(curve, grid.gpu, side_by_side, written),
        written=written,
    )
    return GridMemory(once, replace(once, read=once.read * times), shares)


def asks_for_neighbours(trace: SMTrace, grid: GridOnGPU) -> bool:
    """Tell whether blocks of one SM have a line that all SMs may wait for: blocks side by side then tell."""
    slices = _slices(grid)
    return slices is not None and any(True for _ in hot_lines(trace, l1_operations(grid.geometry), slices))


def _hot_line(sm: SMRecording, trace: SMTrace, grid: GridOnGPU) -> HotLine | None:
    """Return the line whose slice of L2 is busier than the others; None where there is none or no fact about it."""
    slices = _slices(grid)
    if slices is None or sm.side_by_side is None:
        return None
    return hot_line(trace, l1_operations(grid.geometry), slices, sm.side_by_side)


def _slices(grid: GridOnGPU) -> float | None:
    """Return the slices of L2; None where nothing is known of them, or a single block waits for nobody."""
    known = grid.gpu.architecture.l2_bytes_per_clock_per_slice
    return grid.gpu.l2_slices if grid.blocks > 1 and known else None


def _part(some: float, everything: float) -> float:
    return min(1.0, some / everything) if everything else 0.0
