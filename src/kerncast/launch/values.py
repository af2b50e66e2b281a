"""NOUN Value: what an argument or a variable is given in a launch file, a number, a buffer or bytes."""

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from kerncast.errors import LaunchError

#: Bytes of one element, by the type names of launch files.
ELEMENT_BYTES = {
    "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "f16": 2, "f32": 4, "f64": 8,
}  # fmt: skip

_BUFFER = re.compile(r"\s*([a-z]+\d+)\s*\[([^\]]*)\]\s*(.*?)\s*", re.DOTALL)
_FILL = re.compile(r"(zeros|ones|random|iota|randint|file)\s*(?:\((.*)\))?", re.DOTALL)
_STRUCT = re.compile(r"\s*bytes\(\s*((?:[0-9a-fA-F]{2}\s*)+)\)\s*")
_REFERENCE = re.compile(r"\s*&\s*([A-Za-z_]\w*)\s*(?:\[\s*(\d{1,18})\s*\]\s*)?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fill:
    """How a buffer is filled: zeros, ones, random in [0, 1), iota, randint in [low, high), or a .npy file."""

    kind: str
    low: int = 0
    high: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.kind == "randint":
            return f"randint({self.low}, {self.high})"
        return f"file({self.path})" if self.kind == "file" else self.kind


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in global memory that a pointer parameter points to."""

    element: str
    """u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64"""
    shape: tuple[int, ...]
    fill: Fill

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.count * ELEMENT_BYTES[self.element]

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}] {self.fill}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A parameter given byte for byte, for a struct passed by value."""

    data: bytes

    def __str__(self) -> str:
        return f"bytes({self.data.hex()})"


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer into the buffer of another argument."""

    name: str
    offset: int = 0
    """in elements of that buffer"""

    def __str__(self) -> str:
        return f"&{self.name}[{self.offset}]"


Value = bool | int | float | Buffer | Struct | Reference


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, in the order of the kernel's parameters."""

    name: str
    value: Value


def parse_value(value: object, where: str, folder: Path) -> Value:
    """Return what an argument means: a number, a buffer ``TYPE[SHAPE] FILL``, ``bytes(hex)`` or ``&x[128]``."""
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        raise LaunchError(f"{value!r} is neither a number nor a text", where=where, cure=_ARGUMENT_CURE)
    struct = _STRUCT.fullmatch(value)
    if struct:
        return Struct(bytes.fromhex(struct[1]))
    reference = _REFERENCE.fullmatch(value)
    if reference:
        return Reference(reference[1], int(reference[2] or 0))
    match = _BUFFER.fullmatch(value)
    if match:
        return Buffer(*_parse_buffer(match, where, folder))
    return _parse_number(value, where)


_ARGUMENT_CURE = (
    'Write a number, a buffer such as "f32[1024] random" (u8 i8 … u64 i64 f16 f32 f64; zeros, ones, random, '
    'iota, randint(lo, hi), file(path.npy)), a struct as "bytes(00ff…)", or "&x[128]" for a place '
    "in the buffer of argument x."
)


def _parse_buffer(match: re.Match[str], where: str, folder: Path) -> tuple[str, tuple[int, ...], Fill]:
    element, dimensions, fill_text = match[1], match[2], match[3]
    if element not in ELEMENT_BYTES:
        raise LaunchError(f"{element!r} is no element type", where=where, cure=_ARGUMENT_CURE)
    try:
        shape = tuple(int(part) for part in dimensions.replace("x", ",").split(","))
    except ValueError:
        raise LaunchError(f"[{dimensions}] is no shape", where=where, cure=_ARGUMENT_CURE) from None
    if any(extent < 1 for extent in shape):
        raise LaunchError(f"[{dimensions}] has an extent below 1", where=where, cure=_ARGUMENT_CURE)
    return element, shape, _parse_fill(fill_text or "zeros", where, folder)


def _parse_fill(text: str, where: str, folder: Path) -> Fill:
    match = _FILL.fullmatch(text)
    if match is None or (match[2] is None) == (match[1] in {"randint", "file"}):
        raise LaunchError(f"{text!r} is no fill", where=where, cure=_ARGUMENT_CURE)
    if match[1] == "file":
        return Fill("file", path=folder / expand_variables(match[2].strip().strip("'\""), where))
    if match[1] == "randint":
        try:
            low, high = (int(part) for part in match[2].split(","))
        except ValueError:
            raise LaunchError(f"{text!r} is no fill", where=where, cure="Write randint(lo, hi).") from None
        if low >= high:
            raise LaunchError(f"{text!r} is empty: hi is excluded", where=where, cure="Make hi larger than lo.")
        return Fill("randint", low=low, high=high)
    return Fill(match[1])


def _parse_number(text: str, where: str) -> int | float:
    for convert in (lambda t: int(t, 0), float):
        try:
            return convert(text.strip())
        except ValueError:
            continue
    raise LaunchError(f"{text!r} is no argument", where=where, cure=_ARGUMENT_CURE)


def expand_variables(text: str, where: str) -> str:
    """Replace each ``${VAR}`` by its value in the environment; an unset one is an error."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise LaunchError(f"${{{match[1]}}} is not set in the environment", where=where, cure=f"Set {match[1]}.")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)
