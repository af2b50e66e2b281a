"""The line of global memory that all blocks read most: it lies in one slice of L2, which all SMs then wait for.

A slice delivers so many bytes per clock, whoever asks. Of what is spread over many lines each slice has its share; what
every warp of a grid reads from one and the same line comes from one of them.
Source: counters of backprop_adjust_weights on K20, K40 and GTX TITAN (gpuperfpredict): 6 sectors of one line and 27.5
others per warp in 20, 24 and 24 slices make 7.4, 7.1 and 7.1 cycles per warp of the grid; measured are 7.2, 7.8 and
7.0, whatever the number of SMs. Fails when: several such lines lie in one slice, or blocks read a line at the same
time though not all of the grid do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kerncast.recording import LINE_BITS, MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation
from kerncast.sm_trace import SMTrace

_LOADS = (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation.LOAD_UNCACHED)
_SECTORS = np.array([mask.bit_count() for mask in range(16)], np.int64)


@dataclass(frozen=True, slots=True)
class HotLine:
    """One 128-byte line that every block reads."""

    line: int
    sectors_per_block: float


def hot_line(trace: SMTrace, l1_operations: int, slices: float, neighbours: Callable[[], SMTrace]) -> HotLine | None:
    """Return the line that makes one slice of L2 busier than the mean of all, None where there is none.

    ``l1_operations``: one bit for each operation that L1 answers. ``neighbours`` records two blocks side by side: those
    of one SM may share what others do not read. It is called where these blocks have such a line.
    """
    lines, sectors = _loads(trace.head(1).events, l1_operations)
    own, place = np.unique(lines, return_inverse=True)
    read = np.bincount(place, sectors, len(own))
    beside: SMTrace | None = None
    for number in np.argsort(-read, kind="stable"):
        if read[number] * slices <= read.sum():
            return None
        line = own[number]
        if not _is_in_each(line, trace, l1_operations):
            continue
        beside = beside or neighbours()
        if _is_in_each(line, beside, l1_operations):
            all_lines, all_sectors = _loads(trace.events, l1_operations)
            return HotLine(int(line), float(all_sectors[all_lines == line].sum()) / len(trace.block_ids))
    return None


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
