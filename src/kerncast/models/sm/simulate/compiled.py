"""How the functions of the simulation are compiled; importing this module imports numba."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from kerncast.models.sm.simulate.state import Real, Whole

F = TypeVar("F", bound=Callable[..., Any])

#: No array is made or kept: counting references to them would take most of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_OPTIONS = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
ONE = np.uint64(1)
ZERO = np.uint64(0)
FULL_WHEEL = np.uint64(63)


def inlined(function: F) -> F:
    """Return a function that becomes part of those that call it: arrays are not handed over one by one."""
    return cast("F", njit(forceinline=True, **_OPTIONS)(function))


def called(function: F) -> F:
    """Return a function that is seldom needed, compiled once for all that call it."""
    return cast("F", njit(**_OPTIONS)(function))


@inlined
def bit(number: Whole) -> np.uint64:
    """Return a mask of one bit."""
    return ONE << np.uint64(number)


@inlined
def lowest(mask: np.uint64) -> Whole:
    """Return the number of the lowest bit that is set."""
    return np.int64(trailing_zeros(mask))  # type: ignore[call-arg]


@inlined
def upward(time: Real) -> Whole:
    """Return the first whole cycle at or after a time."""
    return np.int64(np.ceil(time))
