"""Which part of what L2 is asked for comes from DRAM, from how many distinct sectors neighbouring blocks touch.

Blocks of one wave run side by side: what they share is read once. Over longer stretches L2 keeps as much as it holds:
its miss rate is the growth of the footprint where the footprint equals its capacity.
Source: Xiang, Ding, Luo, Bao, "HOTL: a Higher Order Theory of Locality", ASPLOS 2013 (miss rate = derivative of the
average footprint at the cache's size). Fails when: blocks of a wave drift far apart, so that one's reads are pushed
out before the other wants them.
"""

from dataclasses import dataclass

from kerncast.cache_geometry import CacheGeometry
from kerncast.footprint import FootprintCurve, Kind
from kerncast.kernel_profile import SECTOR_BYTES
from kerncast.models.base import lost_from_l2


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
