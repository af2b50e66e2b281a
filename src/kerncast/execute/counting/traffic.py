"""Memory accesses of the executed blocks, scaled to the whole launch."""

import math
from collections.abc import Sequence

import numpy as np

from kerncast.execute.counting.sums import Totals, access_bytes, column, indicators, operation_of
from kerncast.profiles import SECTOR_BYTES, Count, Counts, Origin
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    DRAM_BYTES_ONCE,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS,
    LOCAL_BYTES_REQUESTED,
    OPERATIONS,
    SHARED_REQUESTS,
    access_name,
    with_totals,
)
from kerncast.ptx import Instruction, sources_of
from kerncast.traces import BlockCounts, Operation, Trace
from kerncast.traces import Counts as PerBlock

_OPERATION_NAMES = {Operation.STORE: "st", Operation.ATOMIC: "atom", Operation.REDUCTION: "red"}


def memory_counts(totals: Totals, trace: Trace, blocks: int) -> Counts:
    """Return what a launch of so many blocks accesses, by state space and operation, and what that sums up to."""
    found = _accesses(totals) | _sums(totals, trace, blocks)
    return with_totals(Counts.of(Origin.EXECUTED, found))


def _accesses(totals: Totals) -> dict[str, Count]:
    """Return what was accessed, by state space and operation."""
    counts = totals.counts
    operations = _operations(totals.code, counts.accessing)
    of_bytes = operations * _nbytes(totals.code, counts.accessing)
    found: dict[str, Count] = {}
    for space, columns in _by_space(counts).items():
        sums = {quantity: totals.accesses(column, operations) for quantity, column in columns.items()}
        sums["bytes"] = totals.accesses(columns["threads"], of_bytes)
        for quantity, row in sums.items():
            names = (access_name(space, operation, quantity) for operation in OPERATIONS)
            found |= dict(zip(names, row, strict=True))
    return found


def _sums(totals: Totals, trace: Trace, blocks: int) -> dict[str, Count]:
    """Return sums over operations; where they are scaled, their intervals are narrower than those of the parts."""
    code, counts = totals.code, totals.counts
    every, nbytes = np.ones((len(code), 1), np.int64), _nbytes(code, counts.accessing)
    atomics = column([ins.is_update for ins in code])
    writes = atomics + column([ins.is_store for ins in code])
    once = touched(trace, "read", blocks) + touched(trace, "written", blocks)
    (sectors,) = totals.accesses(counts.sectors, every)
    return {
        GLOBAL_WRITE_REQUESTS: totals.accesses(counts.requests, writes)[0],
        GLOBAL_WRITE_SECTORS: totals.accesses(counts.sectors, writes)[0],
        GLOBAL_BYTES_REQUESTED: totals.accesses(counts.accesses, nbytes)[0],
        GLOBAL_BYTES_TOUCHED: touched(trace, "either", blocks),
        DRAM_BYTES_ONCE: Count(once.value, once.low, max(once.high, SECTOR_BYTES * sectors.high)),
        SHARED_REQUESTS: totals.accesses(counts.shared_requests, every)[0],
        ATOMIC_THREADS: totals.accesses(counts.accesses + counts.shared_accesses, atomics)[0],
        LOCAL_BYTES_REQUESTED: totals.accesses(counts.local_accesses, nbytes)[0],
    }


def _by_space(counts: BlockCounts) -> dict[str, dict[str, PerBlock]]:
    """Return per state space what was counted of its accesses, but for the bytes.

    Contention of a generic atomic counts where most of its requests went.
    """
    in_shared = counts.shared_requests > counts.requests
    return {
        "global": {
            "requests": counts.requests,
            "threads": counts.accesses,
            "sectors": counts.sectors,
            "lines": counts.lines,
            "contention": counts.contention * ~in_shared,
        },
        "shared": {
            "requests": counts.shared_requests,
            "threads": counts.shared_accesses,
            "wavefronts": counts.shared_wavefronts,
            "conflicts": counts.shared_conflicts,
            "contention": counts.contention * in_shared,
        },
        "local": {
            "requests": counts.local_requests,
            "threads": counts.local_accesses,
            "sectors": counts.local_sectors,
            "lines": counts.local_lines,
        },
    }


def _operations(code: Sequence[Instruction], accessing: Sequence[int]) -> PerBlock:
    """Return [instructions, operations] 1 for the operation of each memory instruction."""
    read = frozenset(register.name for ins in code for register in sources_of(ins))
    groups = [-1] * len(code)
    for number in accessing:
        groups[number] = OPERATIONS.index(_OPERATION_NAMES.get(operation_of(code[number], read), "ld"))
    return indicators(groups, len(OPERATIONS))


def _nbytes(code: Sequence[Instruction], accessing: Sequence[int]) -> PerBlock:
    """Return [instructions, 1] the bytes that one thread moves with each memory instruction, else 0."""
    nbytes = np.zeros((len(code), 1), np.int64)
    for number in accessing:
        nbytes[number] = access_bytes(code[number])
    return nbytes


def touched(trace: Trace, access: str, blocks: int) -> Count:
    """Extrapolate the distinct sectors of each buffer by the growth seen so far, up to the whole buffer.

    ``access`` is read, written or either.
    """
    last = trace.footprints[-1]
    earlier = min(trace.footprints, key=lambda f: abs(f.blocks - last.blocks / 2))
    value = low = high = 0.0
    for number, allocation in enumerate(trace.allocations):
        seen, before = int(getattr(last, access)[number]), int(getattr(earlier, access)[number])
        whole = -(-allocation.nbytes // SECTOR_BYTES)
        if not seen:
            continue
        growth = blocks / last.blocks
        exponent = 1.0
        if earlier.blocks < last.blocks and before:
            exponent = min(1.0, math.log(seen / before) / math.log(last.blocks / earlier.blocks))
        value += min(whole, seen * growth**exponent)
        low += seen
        high += min(whole, seen * growth)
    return Count(value, low, high).times(SECTOR_BYTES)
