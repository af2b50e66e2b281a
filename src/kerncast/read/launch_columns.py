"""Columns of a table of launches as a file gives them: CSV and Parquet, bounded in size, numbers and texts apart."""

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.read.bounded_text import MOST_BYTES
from kerncast.units import GIB

#: Rows by columns: 200,000 launches with 250 counters each; in memory 400 MB.
MOST_CELLS = 50_000_000
#: Parquet packs well: what it unpacks to is bounded too.
_MOST_UNPACKED_BYTES = 2 * GIB
#: ncu has some 3,000 metrics.
MOST_COLUMNS = 8192
_MOST_CHARS = 4096
_ABSENT = frozenset({"", "nan", "na", "n/a", "none", "null", "-", "inf", "-inf", "<na>"})
_TRUTH = {"true": 1.0, "false": 0.0}

Column = npt.NDArray[np.float64] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one table: numbers, missing ones NaN, or texts."""

    names: tuple[str, ...]
    cells: tuple[Column, ...]
    rows: int
    source: str

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of numbers; raises InputError where it holds texts."""
        cells = self.cells[self.names.index(name)]
        if isinstance(cells, tuple):
            shown = next((text for text in cells if text), "")
            raise InputError(f"{name} holds {ascii(shown)[:40]}, no numbers", where=self.source, cure="Give numbers.")
        return cells

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a column as texts: whole numbers without a point."""
        cells = self.cells[self.names.index(name)]
        return cells if isinstance(cells, tuple) else tuple(f"{cell:.15g}" for cell in cells)

    def is_text(self, name: str) -> bool:
        """Whether a column holds texts."""
        return isinstance(self.cells[self.names.index(name)], tuple)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; raises InputError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no such path"
        raise InputError(f"cannot be read ({reason})", where=str(path), cure="Name an existing file.") from None


def csv_columns(text: str, where: str) -> Columns:
    """Return the columns of a CSV with one header; raises InputError that names the line."""
    if text.count(",") > MOST_CELLS:
        raise too_large(where)
    lines = csv.reader(text.splitlines(), strict=True)
    rows = []
    try:
        header = [cell.strip() for cell in next(lines, [])]
        _check_header(header, where)
        for row in lines:
            if row and len(row) != len(header):
                raise InputError(
                    f"{len(row)} values stand under {len(header)} columns",
                    where=f"{where}, line {lines.line_num}",
                    cure="The file is cut off or was changed: write it again.",
                )
            if row:
                rows.append(row)
    except csv.Error as error:
        place = f"{where}, line {lines.line_num}"
        raise InputError(f"this is no CSV ({error})", where=place, cure="Write it again.") from None
    if not rows:
        raise InputError("it holds no launch", where=where, cure="Give a row per launch below the header.")
    cells = (_typed(name, column, where) for name, column in zip(header, zip(*rows, strict=True), strict=True))
    return Columns(tuple(header), tuple(cells), len(rows), where)


def parquet_columns(path: Path) -> Columns:
    """Return the columns of a Parquet file; raises InputError for one that is damaged or too large."""
    import pyarrow as pa  # noqa: PLC0415  only who reads Parquet needs it
    from pyarrow import parquet  # noqa: PLC0415

    where = str(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise too_large(where)
        with parquet.ParquetFile(path) as file:
            unpacked = sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
            if file.metadata.num_rows * file.metadata.num_columns > MOST_CELLS or unpacked > _MOST_UNPACKED_BYTES:
                raise too_large(where)
            table = file.read()
        _check_header(table.column_names, where)
        cells = [_arrow_cells(table.column(index)) for index in range(table.num_columns)]
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, NotImplementedError) as error:
        reason = ascii(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1][:120]
        cure = "The file is cut off or damaged: write or copy it again."
        raise InputError(f"no Parquet table ({reason})", where=where, cure=cure) from None
    return Columns(tuple(table.column_names), tuple(cells), table.num_rows, where)


def too_large(where: str) -> InputError:
    """Return the error for a table that does not fit into memory."""
    cure = "Give fewer launches, or fewer columns."
    return InputError(f"it holds more than {MOST_CELLS:,} values", where=where, cure=cure)


def _check_header(names: Sequence[str], where: str) -> None:
    if not any(names):
        raise InputError("it is empty", where=where, cure="Give a table with a header and a row per launch.")
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"it has {len(names):,} columns, more than {MOST_COLUMNS:,}", where=where, cure="Leave some out."
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"the column {ascii(twice)[:60]} stands twice", where=where, cure="Name each column once.")


def _typed(name: str, cells: Sequence[str], where: str) -> Column:
    """Return a column as numbers where each cell is one or is absent; a few texts among numbers are an error."""
    numbers = [_number(cell) for cell in cells]
    texts = [row for row, number in enumerate(numbers) if number is None]
    if not texts:
        return np.array(numbers, np.float64)
    if len(texts) * 10 < len(cells):  # fewer than a tenth: damage, not a column of names
        raise InputError(
            f"{ascii(name)[:60]} is {ascii(cells[texts[0]])[:40]}, where other rows hold numbers",
            where=f"{where}, row {texts[0] + 1}",
            cure="Mend the number, or leave the cell empty.",
        )
    return tuple(cells)


def _number(text: str) -> float | None:
    plain = text.strip().lower()
    if plain in _ABSENT:
        return math.nan
    if plain in _TRUTH:
        return _TRUTH[plain]
    try:
        value = float(plain) if "_" not in plain else None
    except ValueError:
        return None
    return value if value is None or math.isfinite(value) else math.nan


def _arrow_cells(column: Any) -> Column:
    """Return an Arrow column as numbers, or as texts; of another type, as its type's name in each row."""
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        return np.where(np.isfinite(values), values, np.nan)
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encoded = (column if pa.types.is_dictionary(kind) else column.dictionary_encode()).combine_chunks()
        words = [str(word)[:_MOST_CHARS] for word in encoded.dictionary.to_pylist()]
        return tuple("" if index is None else words[index] for index in encoded.indices.to_pylist())
    return (str(kind)[:_MOST_CHARS],) * len(column)
