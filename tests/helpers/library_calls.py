"""Calls of CUDA's libraries as their server sees them, on memory of its own."""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.device.libraries import Called, call_library
from kerncast.execute.live import LiveMemory
from kerncast.execute.setup.arena import GLOBAL_BASE

Array = npt.NDArray[Any]


class At(int):
    """An address."""


class Device:
    """Memory of a GPU, and calls that find their operands there."""

    def __init__(self, nbytes: int = 2**24) -> None:
        self.memory = LiveMemory(np.zeros(nbytes, np.uint8))
        self._next = 512

    def allocate(self, nbytes: int) -> At:
        """Return the address of new memory, with room of nobody's behind it."""
        address = GLOBAL_BASE + self._next
        self._next += nbytes + 256 - nbytes % 256 + 256
        self.memory.add(address, nbytes, "buffer")
        return At(address)

    def put(self, values: Array) -> At:
        """Return the address of a copy of some numbers, columns first."""
        address = self.allocate(values.nbytes)
        raw = np.frombuffer(values.tobytes(order="F"), np.uint8)
        self.memory.bytes_at(address, len(raw))[:] = raw
        return address

    def put_matrix(self, values: Array, leading: int) -> At:
        """Return the address of a matrix whose columns have some room behind them, filled with 77."""
        wide = np.full((leading, values.shape[1]), 77, values.dtype)
        wide[: len(values)] = values
        return self.put(wide)

    def put_vector(self, values: Array, step: int) -> At:
        """Return the address of a vector with a step as BLAS has it."""
        room = np.full(1 + (len(values) - 1) * abs(step), 77, values.dtype)
        room[:: abs(step)] = values if step > 0 else values[::-1]
        return self.put(room)

    def get(self, address: int, shape: tuple[int, ...], dtype: "npt.DTypeLike") -> Array:
        """Return what lies at an address, columns first."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        return self.memory.bytes_at(address, count * kind.itemsize).view(kind).reshape(shape, order="F").copy()

    def get_matrix(self, address: int, shape: tuple[int, int], leading: int, dtype: "npt.DTypeLike") -> Array:
        """Return a matrix; nothing may lie between its columns but what was there."""
        wide = self.get(address, (leading, shape[1]), dtype)
        assert (wide[shape[0] :] == 77).all()
        return wide[: shape[0]]

    def get_vector(self, address: int, count: int, step: int, dtype: "npt.DTypeLike") -> Array:
        """Return a vector; nothing may lie between its numbers but what was there."""
        room = self.get(address, (1 + (count - 1) * abs(step),), dtype)
        others = np.delete(room, np.arange(0, len(room), abs(step)))
        assert (others == 77).all()
        found = room[:: abs(step)]
        return found if step > 0 else found[::-1]

    def call(self, name: str, *operands: object) -> Called:
        """Call a function: whole numbers, addresses, and numbers of NumPy's types."""
        return call_library(name, b"".join(map(packed, operands)), self.memory)


def packed(operand: object) -> bytes:
    """Return an operand as it is sent."""
    if isinstance(operand, At):
        return struct.pack("<IIQQ", 2, 8, operand, 0)
    if isinstance(operand, int):
        return struct.pack("<IIqq", 1, 8, operand, 0)
    raw = np.asarray(operand).tobytes()
    return struct.pack("<II16s", 3, len(raw), raw)
