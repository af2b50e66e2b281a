"""The arrays of a script, as memory: tensors of torch, arrays of NumPy, and whatever tells its address and size."""

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError

Bytes = npt.NDArray[np.uint8]
_CURE = "Give tensors of torch, arrays of NumPy, or objects with data_ptr() and nbytes."


@dataclass(frozen=True, slots=True)
class HostArray:
    """Memory of the script's, whole: several arrays may lie in it."""

    address: int
    nbytes: int
    name: str
    owner: Any
    """object that keeps the memory"""


def array_of(value: Any, name: str) -> tuple[HostArray, int]:
    """Return the memory that an array lies in, and its offset there; raises InputError for what is none."""
    if isinstance(value, np.ndarray):
        return _array_of_numpy(value, name)
    pointer = value.data_ptr() if hasattr(value, "data_ptr") else None
    if not isinstance(pointer, int):
        raise InputError(f"{name} is no array ({type(value).__name__})", cure=_CURE)
    storage = getattr(value, "untyped_storage", None)
    if storage is not None:
        own = storage()
        return HostArray(own.data_ptr(), own.nbytes(), name, value), pointer - own.data_ptr()
    inner = getattr(value, "base", None)
    if inner is not None and hasattr(inner, "data_ptr"):  # a tensor seen as another type
        return array_of(inner, name)
    return HostArray(pointer, _bytes_told(value, name), name, value), 0


def _array_of_numpy(value: npt.NDArray[Any], name: str) -> tuple[HostArray, int]:
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not owner.flags.c_contiguous and not owner.flags.f_contiguous:
        raise InputError(f"{name} lies in memory with gaps", cure="Copy it: numpy.ascontiguousarray.")
    start = owner.ctypes.data
    return HostArray(start, owner.nbytes, name, value), value.ctypes.data - start


def _bytes_told(value: Any, name: str) -> int:
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
    shape, itemsize = getattr(value, "shape", None), getattr(value, "itemsize", None)
    if isinstance(shape, tuple) and isinstance(itemsize, int):
        return math.prod(shape) * itemsize
    raise InputError(f"{name} does not tell its size ({type(value).__name__})", cure=_CURE)


def bytes_of(array: HostArray) -> Bytes:
    """Return the memory of an array, as a view."""
    kind = ctypes.c_uint8 * array.nbytes
    return np.ctypeslib.as_array(kind.from_address(array.address)) if array.nbytes else np.zeros(0, np.uint8)


@contextmanager
def restored(values: Sequence[object]) -> Iterator[None]:
    """Let the memory of the arrays among some values hold in the end what it holds now."""
    arrays: dict[int, HostArray] = {}
    for number, value in enumerate(values):
        with suppress(InputError):  # numbers are no arrays
            array, _ = array_of(value, f"argument {number}")
            arrays[array.address] = array
    before = [(each, bytes_of(each).copy()) for each in arrays.values()]
    try:
        yield
    finally:
        for each, held in before:
            bytes_of(each)[:] = held
