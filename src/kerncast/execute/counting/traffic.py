"""Memory accesses of the executed blocks, scaled to the whole launch."""

import math
from collections.abc import Sequence

import numpy as np

from kerncast.execute.counting.sums import Totals, access_bytes, column, indicators, operation_of
from kerncast.profiles import SECTOR_BYTES, AccessCount, Count, Origin, Traffic
from kerncast.ptx import Instruction, sources_of
from kerncast.traces import BlockCounts, Counts, Operation, Trace

_OPERATIONS = ("ld", "st", "atom", "red")
_OPERATION_NAMES = {Operation.STORE: "st", Operation.ATOMIC: "atom", Operation.REDUCTION: "red"}


def accesses(totals: Totals) -> tuple[AccessCount, ...]:
    """Return what was accessed, by state space and operation."""
    counts = totals.counts
    operations = _operations(totals.code, counts.accessing)
    found = []
    none = (Count.exact(0),) * len(_OPERATIONS)
    of_bytes = operations * _nbytes(totals.code, counts.accessing)
    for space, (requests, threads, *others) in _by_space(counts).items():
        rows = zip(
            _OPERATIONS,
            totals.accesses(requests, operations),
            totals.accesses(threads, operations),
            totals.accesses(threads, of_bytes),
            *(none if each is None else totals.accesses(each, operations) for each in others),
            strict=True,
        )
        found += [AccessCount(space, *row) for row in rows if row[1].value]
    return tuple(found)


def traffic(totals: Totals, trace: Trace, blocks: int) -> Traffic:
    """Return the memory accesses of a launch of so many blocks."""
    code, counts = totals.code, totals.counts
    every, nbytes = np.ones((len(code), 1), np.int64), _nbytes(code, counts.accessing)
    loads, atomics = column([ins.is_load for ins in code]), column([ins.is_update for ins in code])
    stores = atomics + column([ins.is_store for ins in code])
    once = touched(trace, "read", blocks) + touched(trace, "written", blocks)
    (sectors,) = totals.accesses(counts.sectors, every)
    return Traffic(
        origin=Origin.EXECUTED,
        global_load_requests=totals.accesses(counts.requests, loads)[0],
        global_store_requests=totals.accesses(counts.requests, stores)[0],
        global_load_sectors=totals.accesses(counts.sectors, loads)[0],
        global_store_sectors=totals.accesses(counts.sectors, stores)[0],
        global_bytes_requested=totals.accesses(counts.accesses, nbytes)[0],
        global_bytes_touched=touched(trace, "either", blocks),
        dram_bytes=Count(once.value, once.low, max(once.high, SECTOR_BYTES * sectors.high)),
        shared_requests=totals.accesses(counts.shared_requests, every)[0],
        atomic_operations=totals.accesses(counts.accesses + counts.shared_accesses, atomics)[0],
        local_bytes=totals.accesses(counts.local_accesses, nbytes)[0],
    )


def _by_space(counts: BlockCounts) -> dict[str, tuple[Counts, Counts, *tuple[Counts | None, ...]]]:
    """Return per state space: requests, threads, sectors, lines, wavefronts, conflicts and contention.

    Contention of a generic atomic counts where most of its requests went.
    """
    in_shared = counts.shared_requests > counts.requests
    contention, shared_contention = counts.contention * ~in_shared, counts.contention * in_shared
    return {
        "global": (counts.requests, counts.accesses, counts.sectors, counts.lines, None, None, contention),
        "shared": (
            counts.shared_requests, counts.shared_accesses, None, None,
            counts.shared_wavefronts, counts.shared_conflicts, shared_contention,
        ),
        "local": (
            counts.local_requests, counts.local_accesses, counts.local_sectors, counts.local_lines, None, None, None,
        ),
    }  # fmt: skip


def _operations(code: Sequence[Instruction], accessing: Sequence[int]) -> Counts:
    """Return [instructions, operations] 1 for the operation of each memory instruction."""
    read = frozenset(register.name for ins in code for register in sources_of(ins))
    groups = [-1] * len(code)
    for number in accessing:
        groups[number] = _OPERATIONS.index(_OPERATION_NAMES.get(operation_of(code[number], read), "ld"))
    return indicators(groups, len(_OPERATIONS))


def _nbytes(code: Sequence[Instruction], accessing: Sequence[int]) -> Counts:
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
