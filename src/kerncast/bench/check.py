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
from kerncast.launch import Launch
from kerncast.measurements import Check, Outcome

Array = npt.NDArray[Any]
Contents = Mapping[str, Array]

#: Work of the executor for one check: whole grids of the usual sizes, a sample of the largest.
CHECK_BUDGET = Budget(sample_seconds=8.0)
#: Largest relative difference that rounding explains: float atomics in another order.
_TOLERANCE = 1e-3
#: Stands in a file for an infinite difference, which JSON cannot hold.
_MOST_DIFFERENCE = 1e30


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected contents of memory after a launch."""

    after: Contents | None
    """buffers by name, as the executor left them; None where nothing can be compared"""
    blocks: int
    """number of blocks that the executor ran"""
    is_whole: bool
    in_place: tuple[str, ...]
    """buffers that are both read and written"""
    reason: str = ""
    """reason why nothing can be compared; empty otherwise"""


def expect(kernel: CompiledKernel, launch: Launch, budget: Budget = CHECK_BUDGET) -> Expectation:
    """Execute a launch on the CPU; raises KernelFault where it misbehaves, BudgetExceededError where it never ends."""
    buffers = tuple(name for name, _ in launch.buffers)
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
    largest, compared, is_equal, reasons = 0.0, 0, True, []
    for name, wanted in expected.after.items():
        chosen = np.ones(wanted.shape, np.bool_) if expected.is_whole else _changed(before[name], wanted)
        got, want = found[name][chosen], wanted[chosen]
        compared += want.size
        is_equal = is_equal and got.tobytes() == want.tobytes()
        difference = _difference(got, want)
        largest = max(largest, difference)
        if want.dtype.kind == "f" and not difference <= _TOLERANCE:
            reasons.append(f"{name} differs by a factor of {difference:.3g}")
        elif want.dtype.kind != "f" and difference:
            reasons.append(f"{difference:.1%} of the elements of {name} differ")
    if not compared:
        reason = f"the {expected.blocks} blocks that ran on the CPU changed nothing"
        return Check(key, Outcome.UNCHECKED, 0, 0.0, reason)
    outcome = Outcome.DIFFERENT if reasons else Outcome.EQUAL if is_equal else Outcome.CLOSE
    return Check(key, outcome, expected.blocks, min(largest, _MOST_DIFFERENCE), "; ".join(reasons))


def _changed(before: Array, after: Array) -> npt.NDArray[np.bool_]:
    """Mark the elements whose bits changed."""
    unsigned = np.dtype(f"u{before.dtype.itemsize}")
    return np.asarray(before.view(unsigned) != after.view(unsigned))


def _difference(got: Array, want: Array) -> float:
    """Return the largest difference of an element over its magnitude, or over the usual magnitude if that is larger.

    Of integers, the share of elements that differ. Infinite where only one of two values is finite.
    """
    if not got.size:
        return 0.0
    if got.dtype.kind != "f":
        return float(np.count_nonzero(got != want)) / got.size
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(want) & np.isfinite(got)
    if not np.all(same | finite):
        return float("inf")
    wrong, right = got[finite].astype(np.float64), want[finite].astype(np.float64)
    apart, magnitude = np.abs(wrong - right), np.abs(right)
    # A sum may cancel to nearly nothing; the rounding of its summands does not.
    floor = float(np.median(magnitude[magnitude > 0])) if magnitude.any() else 0.0
    scale = np.maximum(magnitude, floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(apart > 0, apart / scale, 0.0)
    return float(relative.max(initial=0.0))
