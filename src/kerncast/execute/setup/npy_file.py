"""Reads the numbers of a ``.npy`` file straight into the memory of a buffer.

NumPy's own reader takes its header for a Python literal and believes its sizes. This one has a grammar for headers, and
asks for no memory: what a file says has to agree with the buffer, and with the file's own size.
"""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError

Values = npt.NDArray[Any]

_MAGIC = b"\x93NUMPY"
_ZIP = b"PK\x03\x04"
#: Bytes of the header's length, by the version of the format.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
#: NumPy refuses longer ones, too; those of arrays of numbers have 118 or less.
_LONGEST_HEADER = 10_000
_MOST_DIMENSIONS = 32
_ENTRY = re.compile(
    r"""\s*(?P<quote>['"])(?P<key>descr|fortran_order|shape)(?P=quote)\s*:\s*
    (?: ['"](?P<descr>[<>|=]?[A-Zb-z][\w\[\]]{0,30})['"]
      | (?P<fortran_order>True|False)
      | \((?P<shape>[\dL,\s]{0,1000})\) )
    \s*(?:,|(?=\}))""",
    re.VERBOSE,
)
_SHAPE = re.compile(r"\s*(?:\d{1,20}L?\s*,\s*)*(?:\d{1,20}L?\s*)?")
_CURE = "Write it again: numpy.save(path, array)."


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of its array."""

    kind: np.dtype[Any]
    is_fortran: bool
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join(map(str, self.shape))}]"


def read_npy(stream: BufferedReader, values: Values, shape: Sequence[int]) -> None:
    """Read an array into ``values`` [elements], in C order; raises InputError, without a place, for another array.

    ``shape`` is the one that is asked for; an array of as many elements will do.
    """
    header = read_header(stream)
    if header.kind != values.dtype or math.prod(header.shape) != values.size:
        wanted = Header(values.dtype, is_fortran=False, shape=tuple(shape))
        cure = f"Save an array of that type and size: numpy.save(path, array.astype(numpy.{values.dtype}))."
        raise InputError(f"it holds {header}, not {wanted}", cure=cure)
    held = os.fstat(stream.fileno()).st_size - stream.tell()
    if held != values.nbytes:
        raise InputError(f"its header tells {values.nbytes:,} bytes of numbers, and it holds {held:,}", cure=_CURE)
    if not header.is_fortran or len(header.shape) < 2:
        _read_into(stream, values)
        return
    columns = np.empty_like(values)
    _read_into(stream, columns)
    values.reshape(header.shape)[...] = columns.reshape(header.shape, order="F")


def read_header(stream: BufferedReader) -> Header:
    """Return the header that a stream begins with; raises InputError, without a place."""
    start = stream.read(len(_MAGIC) + 2)
    if start.startswith(_ZIP):
        raise InputError("it is an archive of several arrays (.npz)", cure="Save one array: numpy.save(path, array).")
    length_bytes = _LENGTH_BYTES.get(start[len(_MAGIC)]) if len(start) == len(_MAGIC) + 2 else None
    if not start.startswith(_MAGIC) or length_bytes is None:
        raise InputError("it is no .npy file", cure=_CURE)
    length = int.from_bytes(stream.read(length_bytes), "little")
    text = stream.read(length) if length <= _LONGEST_HEADER else b""
    if len(text) < length or not length:
        raise InputError(f"its header of {length:,} bytes is cut off, or is longer than any", cure=_CURE)
    return _parsed(text.decode("latin-1"))


def _parsed(text: str) -> Header:
    entries: dict[str, str | None] = {}
    place = 1
    while text.startswith("{") and (match := _ENTRY.match(text, place)):
        entries[match["key"]] = match[match["key"]]
        place = match.end()
    kind, flag, shape = (entries.get(key) for key in ("descr", "fortran_order", "shape"))
    is_whole = text.startswith("{") and text[place:].strip() == "}"
    if not is_whole or kind is None or flag is None or shape is None or not _SHAPE.fullmatch(shape):
        raise InputError("its header is none of an array of numbers", cure=_CURE)
    extents = tuple(int(each) for each in re.findall(r"\d+", shape))
    if len(extents) > _MOST_DIMENSIONS:
        raise InputError(f"it has more than {_MOST_DIMENSIONS} dimensions", cure=_CURE)
    try:
        found = np.dtype(kind)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"its numbers are of no known type ({kind})", cure=_CURE) from None
    return Header(found, flag == "True", extents)


def _read_into(stream: BufferedReader, values: Values) -> None:
    rest = values.view(np.uint8).data
    while rest:
        count = stream.readinto(rest)
        if not count:
            raise InputError("it has become shorter while it was read", cure="Read it when nothing writes to it.")
        rest = rest[count:]
