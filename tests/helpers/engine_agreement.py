"""Runs a launch on both engines and says where they differ."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.errors import KerncastError
from kerncast.execute import Budget, execute
from kerncast.execute.sampling.run import INTERPRETED, EngineName
from kerncast.launch import Launch
from kerncast.traces import BlockCounts, Trace
from tests.helpers.guarded_memory import guarded_launches

#: What the message of a fault says, by its kind.
_FAULTS = (
    "out of bounds", "misaligned", "constant", "no atomics", "traps", "assertion", "branch table", "wait at a barrier",
    "barrier is used",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How an execution ended."""

    kind: str
    """ran, or the error and what sort of fault it is"""
    trace: Trace | None


def outcome(kernel: CompiledKernel, launch: Launch, budget: Budget, engine: EngineName) -> Outcome:
    """Execute on one engine, in memory beside which nothing may be touched: behind it, or before it."""
    try:
        with guarded_launches(at_end=len(kernel.ptx) % 2 == 0):
            return Outcome("ran", execute(kernel, launch, budget, engine=engine)[0])
    except KerncastError as error:
        fault = next((text for text in _FAULTS if text in str(error)), "")
        return Outcome(f"{type(error).__name__} {fault}".rstrip(), None)
    except Exception as error:  # noqa: BLE001  whatever it is, it is a defect of this engine
        return Outcome(f"{engine} broke by {type(error).__name__} ({error})", None)


def disagreement(first: Outcome, second: Outcome, tolerances: Mapping[str, str | float] | None = None) -> str | None:
    """Say where two outcomes differ, or return None.

    ``tolerances`` are by buffer: the type in whose last place its elements may differ by one, or a relative error.
    """
    if first.kind != second.kind:
        return f"outcome: {first.kind} and {second.kind}"
    if first.trace is None or second.trace is None:
        return None
    one, other = first.trace, second.trace
    return (
        _count_difference(one, other)
        or _text_difference(one, other)
        or _memory_difference(one, other, tolerances or {})
    )


def _count_difference(one: Trace, other: Trace) -> str | None:
    if not np.array_equal(one.block_ids, other.block_ids):
        return f"block_ids: {_first_difference(one.block_ids, other.block_ids)}"
    for name in (field.name for field in fields(BlockCounts)):
        ours, theirs = getattr(one.counts, name), getattr(other.counts, name)
        if not np.array_equal(ours, theirs):
            return f"{name}: {_first_difference(ours, theirs)}"
    for a, b in zip(one.footprints, other.footprints, strict=True):
        if not all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(a)):
            return f"footprints: {a} and {b}"
    return None


def _text_difference(one: Trace, other: Trace) -> str | None:
    if set(one.remarks) - {INTERPRETED} != set(other.remarks):
        return f"remarks: {one.remarks} and {other.remarks}"
    if sorted(one.printed) != sorted(other.printed):  # the order of warps is free
        return f"printed: {one.printed[:80]!r} and {other.printed[:80]!r}"
    return None


def _memory_difference(one: Trace, other: Trace, tolerances: Mapping[str, str | float]) -> str | None:
    for name, a in one.memory.items():
        b = other.memory[name]
        if a.tobytes() == b.tobytes():
            continue
        tolerance = tolerances.get(name)
        if tolerance is None:
            bits = [np.ascontiguousarray(x).reshape(-1).view(f"u{x.itemsize}") for x in (a, b)]
            return f"memory {name}: {_first_difference(*bits)}"
        near = _in_last_place(a, b, tolerance) if isinstance(tolerance, str) else _near(a, b, tolerance)
        if not near:
            return f"memory {name}, beyond {tolerance}: {_first_difference(a, b)}"
    return None


def _in_last_place(a: npt.NDArray[Any], b: npt.NDArray[Any], element: str) -> bool:
    """Return whether floats, given as they lie in memory, are equal or neighbours; two NaN have to be the same."""
    size = 2 if element == "bf16" else np.dtype(element).itemsize
    raw = [np.frombuffer(x.tobytes(), f"i{size}").astype(np.int64) for x in (a, b)]
    lowest = -(1 << (8 * size - 1))
    ranks = [np.where(x < 0, lowest - x, x) for x in raw]
    return bool((np.abs(ranks[0] - ranks[1]) <= 1).all())


def _near(a: npt.NDArray[Any], b: npt.NDArray[Any], tolerance: float) -> bool:
    """Return whether all elements are near, measured by the largest."""
    size = np.abs(a[np.isfinite(a)], dtype=np.float64).max(initial=0.0)
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * size, equal_nan=True))


def _first_difference(a: Any, b: Any) -> str:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    place = tuple(int(i) for i in np.argwhere(a != b)[0])
    return f"at {place}: {a[place]} and {b[place]} ({int((a != b).sum())} of {a.size} differ)"
