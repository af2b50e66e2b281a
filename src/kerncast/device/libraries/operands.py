"""What a call of a library brings: its operands, the memory that they point to, and what came of it.

The bytes are those of ``runtime/operands.h``: they come from a program that may say anything, so each operand is taken
for what it says it is, and each address is looked up among the program's allocations.
"""

import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kerncast.errors import IllegalAddress, MachineLimitError, UnsupportedError
from kerncast.execute.live import LiveMemory
from kerncast.recording import LibraryCall

Array = npt.NDArray[Any]
Number = Any
"""a NumPy scalar of the call's format"""

_OPERAND = struct.Struct("<II16s")
_INTEGER, _POINTER, _SCALAR = 1, 2, 3
_MOST_OPERANDS = 64
#: What one call may take of this machine. Two cores do some 1e11 operations per second.
_MOST_SECONDS = 600.0
_MOST_OPERATIONS = 5e13
_MOST_BYTES = 2**36
#: By a step of zero a few bytes would be read for hours.
_MOST_REPEATED_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call."""

    status: int = 0
    """status of the library's own kind"""
    work: LibraryCall | None = None
    """the work that a GPU would have done; None where there was none"""


class StatusError(Exception):
    """A call that its library answers with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class Format:
    """How numbers lie in memory, and what they are computed as."""

    name: str
    """as operators name it; empty for a format that they do not know"""
    stored: "np.dtype[Any]"
    computed: "np.dtype[Any]"
    is_bfloat: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of one number."""
        return self.stored.itemsize

    @property
    def is_complex(self) -> bool:
        """Whether a number has two parts."""
        return self.stored.kind == "c"

    @property
    def real(self) -> "Format":
        """The format of absolute values."""
        return {"c8": SINGLE, "c16": DOUBLE}.get(self.stored.str[1:], self)

    def read(self, view: Array) -> Array:
        """Return numbers as they are computed with."""
        if self.is_bfloat:
            return (view.astype(np.uint32) << 16).view(np.float32)
        return view if self.stored == self.computed else view.astype(self.computed)

    def write(self, view: Array, values: Array | Number) -> None:
        """Store numbers, rounded to the nearest; whole ones end at their limits."""
        given = np.asarray(values)
        if self.is_bfloat:
            view[...] = _bfloat_bits(given.astype(np.float32))
        elif self.stored.kind in "iu":
            limits = np.iinfo(self.stored)
            view[...] = np.clip(np.rint(given), limits.min, limits.max).astype(self.stored)
        else:
            with np.errstate(over="ignore"):
                view[...] = given.astype(self.stored)


def _bfloat_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return the upper halves of numbers, rounded to even; one that is no number stays one."""
    bits = np.atleast_1d(values).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(np.atleast_1d(values)), quiet, rounded).astype(np.uint16).reshape(values.shape)


def _format(name: str, stored: str, computed: str | None = None, *, is_bfloat: bool = False) -> Format:
    return Format(name, np.dtype(stored), np.dtype(computed or stored), is_bfloat)


SINGLE, DOUBLE = _format("fp32", "<f4"), _format("", "<f8")
COMPLEX, DOUBLE_COMPLEX = _format("", "<c8"), _format("", "<c16")
HALF, BFLOAT = _format("fp16", "<f2", "<f4"), _format("bf16", "<u2", "<f4", is_bfloat=True)
#: Products of whole numbers are exact as doubles, as long as fewer than 2^38 are summed.
INT8, INT32 = _format("int8", "<i1", "<f8"), _format("", "<i4", "<f8")
UINT32, UINT64 = _format("", "<u4"), _format("", "<u8")
#: By the letters of BLAS.
BY_LETTER: Mapping[str, Format] = {"S": SINGLE, "D": DOUBLE, "C": COMPLEX, "Z": DOUBLE_COMPLEX, "H": HALF}


class DeviceMemory:
    """The program's memory as arrays; raises IllegalAddress for what lies in no allocation."""

    def __init__(self, memory: LiveMemory) -> None:
        self._memory = memory

    def array(self, address: int, shape: Sequence[int], steps: Sequence[int], form: Format) -> Array:
        """Return numbers by the steps between them along each axis, in numbers, which may be negative."""
        reach = [(each - 1) * step for each, step in zip(shape, steps, strict=True)]
        if not all(shape):
            return np.zeros(shape, form.stored)
        first, last = sum(min(0, each) for each in reach), sum(max(0, each) for each in reach)
        nbytes = (last - first + 1) * form.nbytes
        if math.prod(shape) * form.nbytes > max(nbytes, _MOST_REPEATED_BYTES):
            what = f"an operand reads {nbytes} bytes {math.prod(shape)} times over"
            raise MachineLimitError(what, cure="Give steps between numbers that are not zero.")
        found = self._bytes(address + first * form.nbytes, nbytes)
        strides = tuple(step * form.nbytes for step in steps)
        return np.ndarray(tuple(shape), form.stored, found.data, -first * form.nbytes, strides)

    def vector(self, address: int, count: int, step: int, form: Format) -> Array:
        """Return a vector as BLAS has it: with a negative step the address is that of its last number."""
        if count > 0 and step < 0:
            address -= (count - 1) * step * form.nbytes
        return self.array(address, (max(0, count),), (step,), form)

    def matrix(self, address: int, shape: tuple[int, int], leading: int, form: Format) -> Array:
        """Return a matrix that lies column by column."""
        return self.array(address, shape, (1, leading), form)

    def addresses(self, address: int, count: int) -> list[int]:
        """Return pointers that lie in memory."""
        return [int(each) for each in self.array(address, (count,), (1,), UINT64)]

    def _bytes(self, address: int, nbytes: int) -> Array:
        found = self._memory.find(address)
        if found is None or nbytes > _MOST_BYTES or address + nbytes > found.address + found.nbytes:
            raise IllegalAddress(f"{nbytes} bytes at {address:#x} are in no allocation")
        return self._memory.bytes_at(address, nbytes)


@dataclass(frozen=True, slots=True)
class Work:
    """What a call does on a GPU, at least."""

    operations: float
    nbytes: float
    operator: str = ""
    double: bool = False


class Arguments:
    """The operands of one call, taken one after the other."""

    def __init__(self, data: bytes, memory: LiveMemory, form: Format = SINGLE) -> None:
        if len(data) % _OPERAND.size or len(data) > _MOST_OPERANDS * _OPERAND.size:
            raise UnsupportedError(f"{len(data)} bytes are no operands")
        self._left = list(_OPERAND.iter_unpack(data))[::-1]
        self.memory = DeviceMemory(memory)
        self.form = form
        self._ends_at = time.monotonic() + _MOST_SECONDS

    def as_form(self, form: Format) -> Self:
        """Take the rest for a call of another format."""
        self.form = form
        return self

    def _take(self, kinds: Sequence[int]) -> tuple[int, int, bytes]:
        if not self._left or self._left[-1][0] not in kinds:
            raise UnsupportedError("the operands are not those of this function")
        kind, nbytes, raw = self._left.pop()
        return int(kind), int(nbytes), bytes(raw)

    def integer(self) -> int:
        """Take a whole number."""
        return int.from_bytes(self._take([_INTEGER])[2][:8], "little", signed=True)

    def integers(self, count: int) -> tuple[int, ...]:
        """Take some whole numbers."""
        return tuple(self.integer() for _ in range(count))

    def pointer(self) -> int:
        """Take an address."""
        return int.from_bytes(self._take([_POINTER])[2][:8], "little")

    def scalar(self, form: Format | None = None) -> Number:
        """Take a number, which has come with the call or lies in memory."""
        return self.scalars(1, form)[0]

    def scalars(self, count: int, form: Format | None = None) -> Array:
        """Take some numbers that lie one after the other, if they have not come with the call."""
        kind, nbytes, raw = self._take([_POINTER, _SCALAR])
        form = form or self.form
        if kind == _POINTER:
            return form.read(self.memory.vector(int.from_bytes(raw[:8], "little"), count, 1, form)).copy()
        if nbytes != form.nbytes * count or nbytes > len(raw):
            raise UnsupportedError(f"a scalar of {nbytes} bytes")
        return form.read(np.frombuffer(raw[:nbytes], form.stored)).copy()

    def result(self, count: int = 1, form: Format | None = None) -> "Result":
        """Take the place of a result."""
        return Result(self.memory, self.pointer(), count, form or self.form)

    def end(self) -> None:
        """Raise UnsupportedError where operands are left over."""
        if self._left:
            raise UnsupportedError(f"{len(self._left)} operands too many")

    def work(self, multiplied: float, elements: float, operator: str = "") -> Work:
        """Return work from its multiplications with an addition, and the numbers that are moved.

        Raises MachineLimitError for more than this machine can do.
        """
        operations = multiplied * (8 if self.form.is_complex else 2)
        made = Work(operations, elements * self.form.nbytes, operator, self.form.real.stored.itemsize == DOUBLE.nbytes)
        check_work(made)
        return made

    def go_on(self) -> None:
        """Raise MachineLimitError where a call has taken too long."""
        if time.monotonic() > self._ends_at:
            raise MachineLimitError(f"the call was stopped after {_MOST_SECONDS:g} s", cure=_CURE)


_CURE = "Use a smaller problem."


def check_work(work: Work) -> None:
    """Raise MachineLimitError for more than this machine can do."""
    if work.operations > _MOST_OPERATIONS:
        raise MachineLimitError(f"the call needs {work.operations:.1e} operations", cure=_CURE)


@dataclass(frozen=True, slots=True)
class Result:
    """A place for a result."""

    memory: DeviceMemory
    address: int
    count: int
    form: Format

    @property
    def view(self) -> Array:
        """The place."""
        return self.memory.vector(self.address, self.count, 1, self.form)

    def put(self, value: Array | Number) -> None:
        """Store the result."""
        self.form.write(self.view, value)


Routine = Callable[[Arguments], Work | None]


def require(*conditions: bool, status: int) -> None:
    """Raise StatusError unless all hold."""
    if not all(conditions):
        raise StatusError(status)
