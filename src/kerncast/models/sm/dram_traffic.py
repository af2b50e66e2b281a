"""Which part of what L2 is asked for comes from DRAM, from how many distinct sectors neighbouring blocks touch.

Blocks of one wave run side by side: what they share is read once. Over longer stretches L2 keeps as much as it holds:
its miss rate is the growth of the footprint where the footprint equals its capacity.
Source: Xiang, Ding, Luo, Bao, "HOTL: a Higher Order Theory of Locality", ASPLOS 2013 (miss rate = derivative of the
average footprint at the cache's size). Fails when: blocks of a wave drift far apart, so that one's reads are pushed
out before the other wants them.

Local memory is each thread's own, and its words lie side by side with those of its warp's other threads: L2 holds the
frames of the threads that are resident on all SMs, or loses them.
"""

from dataclasses import dataclass

import numpy as np

from kerncast.cache_geometry import CacheGeometry
from kerncast.footprint import FootprintCurve, Kind
from kerncast.kernel_profile import SECTOR_BYTES
from kerncast.models.base import lost_from_l2
from kerncast.recording import LINE_BITS, MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation
from kerncast.sm_trace import SMTrace

_SECTORS_PER_LINE = 4


@dataclass(frozen=True, slots=True)
class DramSectors:
    """Sectors that one block causes DRAM to read and to write, on average."""

    read: float
    written: float


def dram_sectors_per_block(
    curve: FootprintCurve, geometry: CacheGeometry, grid_blocks: int, *, is_warm: bool
) -> DramSectors:
    """Return the DRAM traffic of a block; ``is_warm`` where the same launch has run just before."""
    capacity = geometry.l2_bytes / geometry.l2_partitions / SECTOR_BYTES
    wave = min(grid_blocks, geometry.sms * geometry.resident)
    lost = lost_from_l2(curve.sectors(curve.grid_blocks, "either") / capacity) if is_warm else 1.0
    read = lost * _cold(curve, "read", wave, grid_blocks, capacity)
    written = _cold(curve, "written", wave, grid_blocks, capacity)
    return DramSectors(read, written if geometry.writes_back_early else lost * written)


def _cold(curve: FootprintCurve, kind: Kind, wave: int, grid_blocks: int, capacity: float) -> float:
    """Return distinct sectors per block as L2 sees them: shared within a wave, and within what L2 holds."""
    # The curve's blocks may reach beyond those that are not idle: what the launch touches is that of its whole grid.
    once = curve.sectors(curve.grid_blocks, kind) / grid_blocks
    in_wave = max(once, curve.sectors(wave, kind) / wave)
    held = _blocks_held(curve, grid_blocks, capacity)
    if held >= grid_blocks:
        return once
    if held <= wave:
        return in_wave
    return min(in_wave, max(once, curve.rate(held, kind)))


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
