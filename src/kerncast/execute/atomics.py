"""Atomic updates of memory: threads that meet at one address take turns in lane order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.arithmetic import refuse
from kerncast.ptx.module import Instruction

AnyArray = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

_ACCUMULATES: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def update(
    ins: Instruction, view: AnyArray, places: Index, arguments: list[AnyArray], *, wants_old: bool
) -> AnyArray | None:
    """Apply the operation at each place and return the values found there, if they are wanted."""
    if ins.type in {"f16", "bf16", "f16x2", "bf16x2"}:
        raise refuse(ins)
    operation = next(m for m in ins.modifiers if m in _ACCUMULATES or m in _SINGLE)
    if operation in _ACCUMULATES and not wants_old:
        _ACCUMULATES[operation].at(view, places, arguments[0])
        return None
    old = np.zeros(len(places), view.dtype)
    for turn in _turns(places):
        found = view[places[turn]]
        old[turn] = found
        given = [argument[turn] for argument in arguments]
        if operation in _ACCUMULATES:
            view[places[turn]] = _ACCUMULATES[operation](found, given[0])
        else:
            view[places[turn]] = _SINGLE[operation](found, given)
    return old


def _turns(places: Index) -> list[npt.NDArray[np.intp]]:
    """Group positions so that no place occurs twice in a group and equal places keep their order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.arange(len(order)) - start
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max(initial=-1)) + 2))
    return [order[by_rank[a:b]] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _increment(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where(found >= given[0], found.dtype.type(0), found + found.dtype.type(1))


def _decrement(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where((found == 0) | (found > given[0]), given[0], found - found.dtype.type(1))


def _exchange(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    del found
    return given[0]


def _compare_and_swap(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where(found == given[0], given[1], found)


_SINGLE: dict[str, Callable[[AnyArray, list[AnyArray]], AnyArray]] = {
    "inc": _increment, "dec": _decrement, "exch": _exchange, "cas": _compare_and_swap,
}  # fmt: skip
