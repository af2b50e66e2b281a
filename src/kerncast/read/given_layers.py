"""Reads what was measured of convolution layers: a CSV with a row for each launch."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from kerncast.errors import InputError
from kerncast.read.bounded_text import LEAST_SECONDS, MOST_SECONDS, listed, read_text, shown
from kerncast.units import MIB, MILLISECOND

_MOST_BYTES, _MOST_ROWS = MIB, 10_000
#: No layer has a size beyond this, and no launch does more operations.
MOST_SIZE, _MOST_OPS, _MOST_DIGITS = 4096, 10**18, 20


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """What the sweeps of a layer change: square blocks, filters and outputs, and as many channels in as out."""

    block: int = 32
    """threads of a block along x, and along y"""
    channels: int = 32
    """channels of the input, and of the output"""
    kernel: int = 3
    """width of a filter, and its height"""
    size: int = 32
    """width of the output, and its height"""


SIZES = tuple(each.name for each in fields(LayerSizes))
_MEASURED = ("flops", "int_ops", "milliseconds")
#: Columns that may be there for people.
_PASSED_OVER = ("ops", "tops", "source")


@dataclass(frozen=True, slots=True)
class GivenLayer:
    """What a profiler counted and timed of one launch; None is not known."""

    sweep: str
    """the sweep that it belongs to; empty: any"""
    sizes: LayerSizes
    flops: int | None
    int_ops: int | None
    seconds: float | None


def read_given(path: Path) -> tuple[GivenLayer, ...]:
    """Return the rows of a CSV; raises InputError that names the line of what is wrong.

    Columns are sweep, block, channels, kernel, size, flops, int_ops and milliseconds, in any order. A size without a
    column is that of the default layer, an empty cell of the others is not known.
    """
    lines = csv.reader(io.StringIO(read_text(path, _MOST_BYTES), newline=""), strict=True)
    try:
        header = _header(next(lines, []), str(path))
        found = tuple(_rows(lines, header, str(path)))
    except csv.Error as error:
        raise InputError(
            f"not CSV: {error}", where=f"{path}, line {lines.line_num}", cure="Write it again: it is damaged."
        ) from error
    if not found:
        raise InputError("it holds no launch", where=str(path), cure="Add rows below the header.")
    return found


def _header(cells: Sequence[str], where: str) -> tuple[str, ...]:
    names = tuple(cell.strip().lower() for cell in cells)
    known = ("sweep", *SIZES, *_MEASURED, *_PASSED_OVER)
    strange = [name for name in names if name not in known]
    if strange or len(set(names)) < len(names):
        what = (
            f"no column is called {listed([ascii(each[:30]) for each in strange])}" if strange else "a column is double"
        )
        raise InputError(what, where=f"{where}, line 1", cure=f"Known: {', '.join(known)}.")
    if not set(names) & set(SIZES) or not set(names) & set(_MEASURED):
        raise InputError(
            "a size of the layer, or what was measured, has no column",
            where=f"{where}, line 1",
            cure=f"Give at least one of {', '.join(SIZES)}, and one of {', '.join(_MEASURED)}.",
        )
    return names


def _rows(lines: Iterator[list[str]], header: tuple[str, ...], where: str) -> Iterator[GivenLayer]:
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if number > _MOST_ROWS:
            raise InputError(f"it has more than {_MOST_ROWS} rows", where=where, cure="Keep those of the sweeps.")
        place = f"{where}, line {number}"
        if len(cells) != len(header):
            raise InputError(
                f"{len(cells)} columns, not {len(header)}", where=place, cure="The row is cut off or changed: mend it."
            )
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        sizes = {name: _whole(row[name], name, MOST_SIZE, place) for name in SIZES if row.get(name)}
        yield GivenLayer(
            _sweep(row.get("sweep", ""), place),
            LayerSizes(**sizes),
            _whole(row["flops"], "flops", _MOST_OPS, place) if row.get("flops") else None,
            _whole(row["int_ops"], "int_ops", _MOST_OPS, place) if row.get("int_ops") else None,
            _seconds(row["milliseconds"], place) if row.get("milliseconds") else None,
        )


def _sweep(text: str, place: str) -> str:
    if text and text not in SIZES:
        raise InputError(f"no sweep is called {shown(text)}", where=place, cure=f"Known: {', '.join(SIZES)}.")
    return text


def _whole(text: str, name: str, most: int, place: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS) or not 1 <= int(text) <= most:
        raise InputError(f"{name} is {shown(text)}", where=place, cure=f"Give a whole number from 1 to {most}.")
    return int(text)


def _seconds(text: str, place: str) -> float:
    try:
        seconds = float(text) * MILLISECOND
    except ValueError:
        seconds = 0.0
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise InputError(
            f"milliseconds is {shown(text)}", where=place, cure="Give the time of one launch in ms, such as 0.050335."
        )
    return seconds
