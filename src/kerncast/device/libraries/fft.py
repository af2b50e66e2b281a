"""cuFFT: transforms in one to three dimensions, many at a time, of any layout.

Forward transforms have the exponent's sign -1, and neither direction is scaled. Source: cuFFT API Reference 12, "Data
Layout" and "Advanced Data Layout".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kerncast.device.libraries.operands import (
    COMPLEX,
    DOUBLE,
    DOUBLE_COMPLEX,
    SINGLE,
    Arguments,
    Array,
    Format,
    Routine,
    Work,
    check_work,
    require,
)

_INVALID_VALUE = 4
_MOST_AXES = 3
_FORWARD = -1
#: Formats of input and output by the numbers of cufftType.
_TYPES: Mapping[int, tuple[Format, Format]] = {
    0x29: (COMPLEX, COMPLEX), 0x2A: (SINGLE, COMPLEX), 0x2C: (COMPLEX, SINGLE), 0x69: (DOUBLE_COMPLEX, DOUBLE_COMPLEX),
    0x6A: (DOUBLE, DOUBLE_COMPLEX), 0x6C: (DOUBLE_COMPLEX, DOUBLE),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the numbers of one side lie."""

    sizes: tuple[int, ...]
    """room along each axis; that of the first one is not needed"""
    stride: int
    distance: int
    """from one transform to the next"""

    def array(self, call: Arguments, address: int, shape: tuple[int, ...], form: Format) -> Array:
        steps = [self.stride]
        for size in reversed(self.sizes[1:]):
            steps.insert(0, steps[0] * size)
        return call.memory.array(address, shape, (self.distance, *steps), form)


def _packed(shape: tuple[int, ...], last: int) -> _Layout:
    """Return the layout of data that lie one after the other, with so much room along the last axis."""
    sizes = (*shape[:-1], last)
    return _Layout(sizes, 1, math.prod(sizes))


@dataclass(frozen=True, slots=True)
class _Transform:
    direction: int
    sizes: tuple[int, ...]
    batch: int
    formats: tuple[Format, Format]

    def shape(self, side: int) -> tuple[int, ...]:
        """Return the numbers of the input or the output: of complex ones that belong to real ones, half."""
        is_half = self.formats[side].is_complex and not self.formats[1 - side].is_complex
        last = self.sizes[-1] // 2 + 1 if is_half else self.sizes[-1]
        return (self.batch, *self.sizes[:-1], last)

    def packed(self, side: int, *, in_place: bool) -> _Layout:
        """Return the layout where none is given: in place, rows of real numbers have room for the complex ones."""
        shape = self.shape(side)[1:]
        is_real = not self.formats[side].is_complex
        return _packed(shape, 2 * (self.sizes[-1] // 2 + 1) if is_real and in_place else shape[-1])

    def computed(self, given: Array) -> Array:
        axes = tuple(range(1, len(self.sizes) + 1))
        if not self.formats[0].is_complex:
            return np.fft.rfftn(given, axes=axes)
        if not self.formats[1].is_complex:
            return np.fft.irfftn(given, self.sizes, axes, norm="forward")
        if self.direction == _FORWARD:
            return np.fft.fftn(given, axes=axes)
        return np.fft.ifftn(given, axes=axes, norm="forward")

    def work(self) -> Work:
        """Return what it does: 5 N log2 N operations for complex numbers, half of it for real ones."""
        count = math.prod(self.sizes)
        factor = 5.0 if self.formats[0] is self.formats[1] else 2.5
        operations = factor * count * math.log2(max(2, count)) * self.batch
        moved = sum(math.prod(self.shape(side)) * form.nbytes for side, form in enumerate(self.formats))
        return Work(operations, float(moved), "", self.formats[0].real is DOUBLE)


def execute(call: Arguments) -> Work | None:
    """Transform."""
    kind, direction, batch, has_layouts, rank = call.integers(5)
    require(kind in _TYPES, 1 <= rank <= _MOST_AXES, batch >= 1, direction in {-1, 1}, status=_INVALID_VALUE)
    sizes = call.integers(rank)
    require(*(each >= 1 for each in sizes), status=_INVALID_VALUE)
    given = [_Layout(call.integers(rank), call.integer(), call.integer()) for _ in range(2)]
    places = call.pointer(), call.pointer()
    asked = _Transform(direction, sizes, batch, _TYPES[kind])
    if not has_layouts:
        given = [asked.packed(side, in_place=places[0] == places[1]) for side in range(2)]
    work = asked.work()
    check_work(work)
    views = [
        layout.array(call, place, asked.shape(side), form)
        for side, (layout, place, form) in enumerate(zip(given, places, asked.formats, strict=True))
    ]
    views[1][...] = asked.computed(views[0])
    return work


_NAMES = ("C2C", "R2C", "C2R", "Z2Z", "D2Z", "Z2D")
#: Format and routine of each function, by its name.
FUNCTIONS: Mapping[str, tuple[Format, Routine]] = {f"cufftExec{name}": (SINGLE, execute) for name in _NAMES}
