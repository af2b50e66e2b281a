"""Atomic updates of memory: threads that meet at one address take turns in lane order.

Subnormal numbers are kept, also where the hardware flushes them (``atom.add.f32`` on global memory).
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference import halves
from kerncast.execute.reference.threads import Index
from kerncast.ptx.module import Instruction

AnyArray = npt.NDArray[Any]

_ACCUMULATES: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def update(
    ins: Instruction, view: AnyArray, places: Index, arguments: list[AnyArray], *, wants_old: bool
) -> AnyArray | None:
    """Apply the operation at each place and return the values found there, if they are wanted."""
    name = next(m for m in ins.modifiers if m in _ACCUMULATES or m in _SINGLE)
    is_half = ins.type in {"f16", "bf16", "f16x2", "bf16x2"}
    if name in _ACCUMULATES and not wants_old and not is_half:
        _ACCUMULATES[name].at(view, places, arguments[0])
        return None
    if is_half:
        operation = _add_halves(replace(ins, root="add"))
    else:
        operation = _SINGLE.get(name) or (lambda found, given: _ACCUMULATES[name](found, given[0]))
    old = np.zeros(len(places), view.dtype)
    for turn in _turns(places):
        found = view[places[turn]]
        old[turn] = found
        view[places[turn]] = operation(found, [argument[turn] for argument in arguments])
    return old if wants_old else None


def _turns(places: Index) -> list[npt.NDArray[np.intp]]:
    """Group positions so that no place occurs twice in a group and equal places keep their order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.arange(len(order)) - start
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max(initial=-1)) + 2))
    return [order[by_rank[a:b]] for a, b in pairwise(bounds.tolist())]


def _add_halves(ins: Instruction) -> Callable[[AnyArray, list[AnyArray]], AnyArray]:
    def add(found: AnyArray, given: list[AnyArray]) -> AnyArray:
        return halves.compute(ins, [found, given[0]]).view(found.dtype)

    return add


def _increment(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where(found >= given[0], np.uint32(0), found + np.uint32(1))


def _decrement(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where((found == 0) | (found > given[0]), given[0], found - np.uint32(1))


def _exchange(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    del found
    return given[0]


def _compare_and_swap(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where(found == given[0], given[1], found)


_SINGLE: dict[str, Callable[[AnyArray, list[AnyArray]], AnyArray]] = {
    "inc": _increment, "dec": _decrement, "exch": _exchange, "cas": _compare_and_swap,
}  # fmt: skip
