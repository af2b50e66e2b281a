"""How often DRAM is read for the same data, because the blocks of one wave have more in use than L2 holds.

The accesses of one SM's resident warps, each warp's next one in turn, stand for what all SMs do at once. L2 keeps the
same part of this SM's 128-byte lines as of the whole wave's; what comes again after more lines than that is lost
where L1 does not hold it either.
Equation: fp(w), the mean number of distinct lines in w accesses, from reuse times; lost is what comes again after more
than the w for which fp(w) is what is kept.
Source: Xiang, Ding, Luo, Bao, "HOTL: a Higher Order Theory of Locality", ASPLOS 2013. Fails when: warps drift apart, so
that one which runs ahead has less in use; or L2 does not replace what was used least recently.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.cache_geometry import CacheGeometry, l1_operations
from kerncast.recording import LINE_BITS, LINE_BYTES, MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Operation
from kerncast.sm_trace import SMTrace

#: More accesses than that tell no more.
_MOST_ACCESSES = 2**21
_SECTORS_PER_LINE = 4
_ROUNDING = 2.0**-30

Numbers = npt.NDArray[np.int64]


def times_read(trace: SMTrace, resident: int, geometry: CacheGeometry, wave_sectors: float) -> float:
    """Return how many times DRAM is read for a sector, at least once.

    ``wave_sectors`` are distinct ones that all blocks which run side by side touch.
    """
    capacity = geometry.l2_bytes / geometry.l2_partitions / LINE_BYTES
    if wave_sectors <= capacity:
        return 1.0
    accesses = _accesses(trace.head(resident))
    if not len(accesses.line):
        return 1.0
    wave_lines = wave_sectors * accesses.lines / accesses.sectors
    if wave_lines <= capacity:
        return 1.0
    in_l1 = (geometry.l1_bytes or 0) // LINE_BYTES if l1_operations(geometry) >> Operation.LOAD & 1 else 0
    kept = max(capacity / wave_lines * accesses.lines, float(in_l1))
    lost = accesses.is_read & (accesses.since > _window(accesses, kept))
    read = _distinct_sectors(accesses.line[accesses.is_read], accesses.mask[accesses.is_read])
    return 1.0 + float(np.bitwise_count(accesses.mask[lost]).sum()) / read if read else 1.0


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Accesses to global memory in the order of time."""

    line: Numbers
    mask: Numbers
    is_read: npt.NDArray[np.bool_]
    since: Numbers
    """accesses since the line's last one; 0 at its first"""
    lines: int
    """distinct ones"""
    sectors: int


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
