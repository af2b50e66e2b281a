"""Puts tables of launches together: one below the other, or features beside times."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.gpu_names import normalise
from kerncast.read.feature_columns import Roles, roles_of
from kerncast.read.launch_columns import MOST_CELLS, Column, Columns, too_large

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
