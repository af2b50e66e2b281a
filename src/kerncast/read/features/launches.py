"""Tables of launches: which column is what, and how tables are put together."""

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.gpu import normalise
from kerncast.read.features.columns import Roles, roles_of

#: Rows by columns: 200,000 launches with 250 counters each; in memory 400 MB.
MOST_CELLS = 50_000_000
#: ncu has some 3,000 metrics.
MOST_COLUMNS = 8192
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
            raise InputError(f"{name} holds {ascii(shown)[:40]}, not numbers", where=self.source, cure="Give numbers.")
        return cells

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a column as texts: whole numbers without a point."""
        cells = self.cells[self.names.index(name)]
        return cells if isinstance(cells, tuple) else tuple(f"{cell:.15g}" for cell in cells)

    def is_text(self, name: str) -> bool:
        """Whether a column holds texts."""
        return isinstance(self.cells[self.names.index(name)], tuple)


def csv_columns(text: str, where: str) -> Columns:
    """Return the columns of a CSV with one header; raises InputError that names the line."""
    if text.count(",") > MOST_CELLS:
        raise too_large(where)
    lines = csv.reader(text.splitlines(), strict=True)
    rows = []
    try:
        header = [cell.strip() for cell in next(lines, [])]
        check_header(header, where)
        for row in lines:
            if row and len(row) != len(header):
                raise InputError(
                    f"{len(row)} values for {len(header)} columns",
                    where=f"{where}, line {lines.line_num}",
                    cure="The file is cut off or was changed: write it again.",
                )
            if row:
                rows.append(row)
    except csv.Error as error:
        place = f"{where}, line {lines.line_num}"
        raise InputError(f"this is not CSV ({error})", where=place, cure="Write it again.") from None
    if not rows:
        raise InputError("it holds no launch", where=where, cure="Give a row per launch below the header.")
    cells = (_typed(name, column, where) for name, column in zip(header, zip(*rows, strict=True), strict=True))
    return Columns(tuple(header), tuple(cells), len(rows), where)


def too_large(where: str) -> InputError:
    """Return the error for a table that does not fit into memory."""
    cure = "Give fewer launches, or fewer columns."
    return InputError(f"it holds more than {MOST_CELLS:,} values", where=where, cure=cure)


def check_header(names: Sequence[str], where: str) -> None:
    """Raise InputError for no name, too many, or one that stands twice."""
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


Key = tuple[str, ...]
_KERNEL, _GPU = "kernel", "gpu"


def stacked(tables: Sequence[Columns]) -> tuple[Columns, tuple[str, ...]]:
    """Return the rows of all tables under the columns that all have, and the names of the other columns."""
    if len(tables) == 1:
        return tables[0], ()
    common = [name for name in tables[0].names if all(name in table.names for table in tables)]
    if not common:
        cure = "Give tables with the same columns, or one after the other."
        raise InputError(f"it shares no column with {tables[0].source}", where=tables[1].source, cure=cure)
    rows = sum(table.rows for table in tables)
    if rows * len(common) > MOST_CELLS:
        raise too_large(tables[0].source)
    others = dict.fromkeys(name for table in tables for name in table.names if name not in common)
    cells = tuple(_below(tables, name) for name in common)
    return Columns(tuple(common), cells, rows, ", ".join(table.source for table in tables)), tuple(others)


def joined(features: Columns, times: Columns) -> Columns:
    """Return the features with the times of the same launches; a launch that was timed n times becomes n rows.

    What only the times name comes with them: GPU, kernel, configuration. A launch without a time gets NaN; raises
    InputError where the tables do not tell which launch is which.
    """
    own, their = roles_of(features.names), roles_of(times.names)
    pairs = _key_columns(own, their)
    where = f"{features.source} and {times.source}"
    if not pairs:
        cure = "Name kernel, gpu, launch or grid_x in both."
        raise InputError("no column names the launches in both", where=where, cure=cure)
    keys, time_keys = _keys(features, [a for a, _ in pairs]), _keys(times, [b for _, b in pairs])
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise InputError(
            f"two launches of {features.source} are called {', '.join(twice)[:160]}",
            where=where,
            cure="Add a column to both that tells them apart, such as launch or grid_x.",
        )
    rows, timed = _matches(keys, time_keys)
    if not (timed >= 0).any():
        shown = ", ".join(keys[0])[:80] if keys else "none"
        cure = f"The first launch of {features.source} is called {shown}: name kernels and GPUs alike."
        raise InputError("no launch has a time in the other file", where=where, cure=cure)
    assert their.time is not None
    seconds = np.where(timed >= 0, times.numbers(their.time.name)[timed], np.nan)
    taken = tuple(_picked(cells, rows) for cells in features.cells)
    named = _named_by_times(own, their)
    told = tuple(_picked(times.cells[times.names.index(name)], timed) for name in named)
    return Columns((*features.names, *named, their.time.name), (*taken, *told, seconds), len(rows), where)


def _below(tables: Sequence[Columns], name: str) -> Column:
    if any(table.is_text(name) for table in tables):
        return tuple(text for table in tables for text in table.texts(name))
    return np.concatenate([table.numbers(name) for table in tables])


def _key_columns(own: Roles, their: Roles) -> list[tuple[str, str]]:
    """Return the columns that name a launch in both tables, paired."""
    pairs = [(own.kernel, their.kernel), (own.gpu, their.gpu)]
    shared = [name for name in own.configuration if name in their.configuration]
    return [(a, b) for a, b in pairs if a and b] + [(name, name) for name in shared]


def _named_by_times(own: Roles, their: Roles) -> list[str]:
    """Return the columns of the times that name kernel, GPU and configuration where the features do not.

    Times of two GPUs beside features of none must stay apart.
    """
    names = [name for name, known in ((their.kernel, own.kernel), (their.gpu, own.gpu)) if name and not known]
    return [*names, *(n for n in their.configuration if n not in own.configuration and n not in their.labels)]


def _keys(table: Columns, names: Sequence[str]) -> list[Key]:
    gpu = roles_of(table.names).gpu
    columns = [
        tuple(normalise(text) for text in table.texts(name)) if name == gpu else table.texts(name) for name in names
    ]
    return list(zip(*columns, strict=True))


def _matches(keys: Sequence[Key], time_keys: Sequence[Key]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return pairs of rows: of the features, and of the times or -1."""
    found: dict[Key, list[int]] = {}
    for row, key in enumerate(time_keys):
        found.setdefault(key, []).append(row)
    pairs = [(row, timed) for row, key in enumerate(keys) for timed in found.get(key, [-1])]
    return np.array([a for a, _ in pairs], np.intp), np.array([b for _, b in pairs], np.intp)


def _picked(cells: Column, rows: npt.NDArray[np.intp]) -> Column:
    return tuple(cells[row] for row in rows) if isinstance(cells, tuple) else cells[rows]
