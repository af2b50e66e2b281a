"""Holds what a kernel leaves in the device's memory against what the executor on the CPU computes.

The executor runs first: a kernel that reads outside its buffers or does not end never reaches the GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, UnsupportedError
from kerncast.execute import Budget, execute
from kerncast.launch import Buffer, Launch
from kerncast.measurement import Check, Outcome

Array = npt.NDArray[Any]
Contents = Mapping[str, Array]

#: Work of the executor for one check: whole grids of the usual sizes, a sample of the largest.
CHECK_BUDGET = Budget(sample_thread_instructions=1_000_000_000, sample_blocks=1_000_000)
#: Largest difference that rounding explains, over the largest magnitude in the buffer: float atomics in another order.
_TOLERANCE = 1e-3
#: Stands in a file for an infinite difference, which JSON cannot hold.
_MOST_DIFFERENCE = 1e30


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a launch should leave in memory."""

    after: Contents | None
    """the buffers by name, as the executor left them; None where nothing can be compared"""
    blocks: int
    """how many blocks the executor ran"""
    is_whole: bool
    in_place: tuple[str, ...]
    """buffers that are both read and written"""
    reason: str = ""
    """why nothing can be compared"""


def expect(kernel: CompiledKernel, launch: Launch, budget: Budget = CHECK_BUDGET) -> Expectation:
    """Execute a launch on the CPU; raises KernelFault where it misbehaves, BudgetExceededError where it never ends."""
    buffers = tuple(each.name for each in launch.arguments if isinstance(each.value, Buffer))
    try:
        trace, _ = execute(kernel, launch, budget)
    except UnsupportedError as error:
        return Expectation(None, 0, False, buffers, f"the executor does not cover it: {error}")
    except BudgetExceededError as error:
        if "memory" not in error.what:
            raise
        return Expectation(None, 0, False, buffers, f"too large for the executor: {error.what}")
    touched = trace.footprints[-1]
    in_place = tuple(
        place.name
        for place, reads, writes in zip(trace.allocations, touched.read, touched.written, strict=True)
        if reads and writes and place.name in buffers
    )
    is_whole = len(trace.block_ids) == launch.blocks
    if not is_whole and in_place:
        reason = f"only {len(trace.block_ids)} of {launch.blocks} blocks ran, and they may see what others write"
        return Expectation(None, len(trace.block_ids), False, in_place, reason)
    return Expectation(trace.memory, len(trace.block_ids), is_whole, in_place)


def compare(key: str, expected: Expectation, before: Contents, found: Contents) -> Check:
    """Compare the device's buffers with the expected ones; of a sampled grid, the elements that its blocks changed."""
    if expected.after is None:
        return Check(key, Outcome.UNCHECKED, 0, 0.0, expected.reason)
    largest, is_equal, reasons = 0.0, True, []
    for name, wanted in expected.after.items():
        chosen = np.ones(wanted.shape, np.bool_) if expected.is_whole else _changed(before[name], wanted)
        got, want = found[name][chosen], wanted[chosen]
        is_equal = is_equal and got.tobytes() == want.tobytes()
        difference = _difference(got, want)
        largest = max(largest, difference)
        limit = _TOLERANCE if wanted.dtype.kind == "f" else 0.0
        if not difference <= limit:
            reasons.append(f"{name} differs by {difference:.3g} of its largest magnitude")
    outcome = Outcome.DIFFERENT if reasons else Outcome.EQUAL if is_equal else Outcome.CLOSE
    return Check(key, outcome, expected.blocks, min(largest, _MOST_DIFFERENCE), "; ".join(reasons))


def _changed(before: Array, after: Array) -> npt.NDArray[np.bool_]:
    """Mark the elements whose bits changed."""
    unsigned = np.dtype(f"u{before.dtype.itemsize}")
    return np.asarray(before.view(unsigned) != after.view(unsigned))


def _difference(got: Array, want: Array) -> float:
    """Return the largest difference over the largest magnitude; infinite where only one of two values is finite."""
    if not got.size:
        return 0.0
    if got.dtype.kind != "f":
        wrong = np.count_nonzero(got != want)
        return wrong / got.size
    finite = np.isfinite(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if not np.all(same | (finite & np.isfinite(got))):
        return float("inf")
    scale = float(np.abs(want[finite], dtype=np.float64).max(initial=0.0))
    apart = np.abs(np.where(same, 0.0, got.astype(np.float64)) - np.where(same, 0.0, want.astype(np.float64)))
    return float(apart.max()) / scale if scale else float(apart.max())
