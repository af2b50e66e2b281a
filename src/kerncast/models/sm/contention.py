"""Where all SMs wait for one another: open rows of DRAM, and one line of L2 that all blocks read."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kerncast.gpu import GPU
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import LINE_BITS, MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, FootprintCurve, Operation, SMTrace

# How much longer DRAM takes where each row that it opens gives or takes few bytes.
#
# A channel opens a row at most every so many nanoseconds. Bytes that lie in one row and are wanted at about the same
# time need it opened once: reads, what is on its way at once (bandwidth x latency), but of some neighbouring blocks
# at least, because they run in step; writes, what the blocks of a wave write, because L2 keeps it longer. Equation:
# slowdown = max(1, bandwidth / (bytes per row x rows per second)), for reads and for writes by itself. Fails when:
# each thread walks along a row of its own for long, because the rows of whole blocks are looked at, which these fill
# in the end; when L2 gathers what later waves write; where what L2 holds hides how scattered the rest is. Without it,
# transposes of HeCBench were forecast at 0.55 to 0.72 of their times.

#: Neighbouring blocks that are taken to run in step, whatever they touch; blocks far apart would make random accesses
#: look dense.
_IN_STEP = 8
#: Counted blocks below which nothing is known of the rows beside a block's tile.
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class RowSlowdown:
    """Time that DRAM takes relative to as many bytes in long rows; at least 1."""

    read: float = 1.0
    """factor for reads"""
    written: float = 1.0
    """factor for writes"""


NO_SLOWDOWN = RowSlowdown()


def row_slowdown(curve: FootprintCurve, gpu: GPU, wave_blocks: int) -> RowSlowdown:
    """Return what opening rows costs; nothing where the GPU's file does not tell how fast it opens them."""
    rows_per_s, latency = gpu.dram_rows_per_s, gpu.dram_latency
    bandwidth = gpu.dram_rate.bytes_per_s if gpu.dram_rate else gpu.dram_bytes_per_s
    counted = int(curve.blocks[-1])
    if rows_per_s is None or latency is None or counted < min(_FEWEST, curve.grid_blocks):
        return NO_SLOWDOWN
    # Little's law: bandwidth x latency is in flight at once, and can be sorted by row.
    on_the_way = bandwidth * latency / gpu.clock_hz / SECTOR_BYTES
    sectors_at_full_rate = bandwidth / rows_per_s / SECTOR_BYTES
    reading = min(max(_IN_STEP, curve.blocks_for(on_the_way, "read")), wave_blocks)
    return RowSlowdown(
        read=max(1.0, sectors_at_full_rate / curve.sectors_per_row(reading, "read")),
        written=max(1.0, sectors_at_full_rate / curve.sectors_per_row(wave_blocks, "written")),
    )


# The line of global memory that all blocks read most: it lies in one slice of L2, which all SMs then wait for.
#
# A slice delivers so many bytes per clock, whoever asks. Of what is spread over many lines each slice has its share;
# what every warp of a grid reads from one and the same line comes from one of them. Source: counters of
# backprop_adjust_weights on K20, K40 and GTX TITAN (gpuperfpredict): 6 sectors of one line and 27.5 others per warp
# in 20, 24 and 24 slices make 7.4, 7.1 and 7.1 cycles per warp of the grid; measured are 7.2, 7.8 and 7.0, whatever
# the number of SMs. Fails when: several such lines lie in one slice, or blocks read a line at the same time though
# not all of the grid do.

_LOADS = (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation.LOAD_UNCACHED)
_SECTORS = np.array([mask.bit_count() for mask in range(16)], np.int64)


@dataclass(frozen=True, slots=True)
class HotLine:
    """One 128-byte line that every block reads."""

    line: int
    """number of the line"""
    sectors_per_block: float
    """sectors of it that a block reads from L2, on average"""


def hot_line(trace: SMTrace, l1_operations: int, slices: float, beside: SMTrace) -> HotLine | None:
    """Return the line that makes one slice of L2 busier than the mean of all, None where there is none.

    ``l1_operations``: one bit for each operation that L1 answers. ``beside``: two blocks with consecutive numbers,
    because blocks of one SM may share what others do not read.
    """
    for line in hot_lines(trace, l1_operations, slices):
        if _is_in_each(line, beside, l1_operations):
            all_lines, all_sectors = _loads(trace.events, l1_operations)
            return HotLine(int(line), float(all_sectors[all_lines == line].sum()) / len(trace.block_ids))
    return None


def hot_lines(trace: SMTrace, l1_operations: int, slices: float) -> Iterator[np.uint64]:
    """Yield the lines that each of these blocks reads, and that keep one slice busier than the mean of all."""
    lines, sectors = _loads(trace.head(1).events, l1_operations)
    own, place = np.unique(lines, return_inverse=True)
    read = np.bincount(place, sectors, len(own))
    for number in np.argsort(-read, kind="stable"):
        # No line that is read less can exceed a slice's share of the traffic either.
        if read[number] * slices <= read.sum():
            return
        if _is_in_each(own[number], trace, l1_operations):
            yield own[number]


def _is_in_each(line: np.uint64, trace: SMTrace, l1_operations: int) -> bool:
    """Tell whether each block reads a line."""
    ends = trace.chains[:: trace.warps]
    blocks = (trace.events[start:stop] for start, stop in pairwise(ends.tolist()))
    return all(bool((_loads(events, l1_operations)[0] == line).any()) for events in blocks)


def _loads(events: npt.NDArray[np.uint64], l1_operations: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return line and number of sectors of each load that L1 does not answer."""
    operation = events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    wanted = [load for load in _LOADS if not l1_operations >> load & 1]
    found = events[np.isin(operation, np.array(wanted, np.uint64))]
    masks = (found >> np.uint64(MASK_SHIFT) & np.uint64(0xF)).astype(np.int64)
    return found & np.uint64(2**LINE_BITS - 1), _SECTORS[masks]
