"""How much longer DRAM takes where each row that it opens gives or takes few bytes.

A channel opens a row at most every so many nanoseconds. Bytes that lie in one row and are wanted at about the same time
need it opened once: reads, what is on its way at once (bandwidth x latency), but of some neighbouring blocks at least,
because they run in step; writes, what the blocks of a wave write, because L2 keeps it longer.
Equation: slowdown = max(1, bandwidth / (bytes per row x rows per second)), for reads and for writes by itself.
Fails when: each thread walks along a row of its own for long, because the rows of whole blocks are looked at, which
these fill in the end; when L2 gathers what later waves write; where what L2 holds hides how scattered the rest is.
"""

from dataclasses import dataclass

from kerncast.footprint import FootprintCurve
from kerncast.gpu import GPU
from kerncast.kernel_profile import SECTOR_BYTES

#: Neighbouring blocks that are taken to run in step, whatever they touch; blocks far apart would make random accesses
#: look dense.
_IN_STEP = 8
#: Fewer do not tell what lies beside a block's tile.
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class RowSlowdown:
    """Times as long as DRAM takes for as many bytes in long rows."""

    read: float = 1.0
    written: float = 1.0


NO_SLOWDOWN = RowSlowdown()


def row_slowdown(curve: FootprintCurve, gpu: GPU, wave_blocks: int) -> RowSlowdown:
    """Return what opening rows costs; nothing where the GPU's file does not tell how fast it opens them."""
    rows_per_s, latency = gpu.dram_rows_per_s, gpu.dram_latency
    bandwidth = gpu.dram_rate.bytes_per_s if gpu.dram_rate else gpu.dram_bytes_per_s
    counted = int(curve.blocks[-1])
    if rows_per_s is None or latency is None or counted < min(_FEWEST, curve.grid_blocks):
        return NO_SLOWDOWN
    on_the_way = bandwidth * latency / gpu.clock_hz / SECTOR_BYTES
    sectors_at_full_rate = bandwidth / rows_per_s / SECTOR_BYTES
    reading = min(max(_IN_STEP, curve.blocks_for(on_the_way, "read")), wave_blocks)
    return RowSlowdown(
        read=max(1.0, sectors_at_full_rate / curve.sectors_per_row(reading, "read")),
        written=max(1.0, sectors_at_full_rate / curve.sectors_per_row(wave_blocks, "written")),
    )
