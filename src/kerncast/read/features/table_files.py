"""Reads launches with features and measured times: tables, and files of profilers, tuners and ``kerncast measure``.

Several files are put together. Those without times (``kerncast profile --features``) are joined with those that have
times, on the columns that name a launch in both: kernel, GPU, launch, grid and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kerncast.bounded_file import Bound, sha256_of
from kerncast.errors import InputError
from kerncast.measurements.feature_table import Floats
from kerncast.printable import printable
from kerncast.read.bounded_text import read_text, starts_with
from kerncast.read.features.cleaning import (
    UNNAMED,
    CleaningRules,
    CleanTable,
    DataFile,
    LaunchRows,
    RemovedColumn,
    Why,
    clean,
)
from kerncast.read.features.columns import Roles, roles_of
from kerncast.read.features.launches import Columns, csv_columns, joined, stacked
from kerncast.read.features.measured import measurement_columns, tuned_columns
from kerncast.read.features.parquet_files import parquet_columns
from kerncast.read.features.profiled import profiled_columns, report_columns
from kerncast.read.ncu.report import SIGNATURE
from kerncast.units import GIB

_PARQUET = b"PAR1"
#: As large as a report of Nsight Compute may be; a digest reads it piece by piece.
_ANY_TABLE = Bound(1 * GIB, cure="Name a table of launches.")
#: What kerncast measure writes.
MEASURED = ".jsonl"
_TIME_CURE = "Name the time with its unit: time_us, time_us_median, seconds; or give its file beside this one."


@dataclass(frozen=True, slots=True)
class ExecutedFeatures:
    """Features of executed launches, and the launch files that they are of."""

    table: Columns
    paths: tuple[Path, ...]


def gpus_of(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of the GPUs in some tables of launches, each once; raises InputError."""
    tables = [(table, roles_of(table.names).gpu) for table in _tables(paths)]
    return tuple(dict.fromkeys(name for table, column in tables if column for name in table.texts(column)))


def read_feature_table(
    paths: Sequence[Path],
    rules: CleaningRules | None = None,
    *,
    time: str | None = None,
    executed: ExecutedFeatures | None = None,
) -> CleanTable:
    """Read and clean launches; raises InputError with place and cure.

    ``time`` names the column of the times where there are several; otherwise medians come before means and minima.
    ``executed`` are features of the same launches.
    """
    tables = _tables(paths)
    if executed is None:
        return clean(_with_times(tables, paths, time), rules or CleaningRules())
    with_features = [*tables, _printable(executed.table)]
    return clean(_with_times(with_features, [*paths, *executed.paths], time), rules or CleaningRules())


def read_launches(paths: Sequence[Path], *, time: str | None = None) -> LaunchRows:
    """Read launches with their features as they stand, with NaN for every time where there are none.

    Raises InputError with place and cure. A table whose column of times ``time`` names must have it.
    """
    tables = _tables(paths)
    if time is not None or any(roles_of(table.names).time for table in tables):
        return _with_times(tables, paths, time)
    table, partial = stacked(tables)
    removed = tuple(RemovedColumn(name, Why.NOT_EVERYWHERE) for name in partial)
    return _launches(table, roles_of(table.names), removed, _files(paths))


def _with_times(tables: Sequence[Columns], paths: Sequence[Path], time: str | None) -> LaunchRows:
    """Return the launches of tables of which one has times at least; tables of features are joined with theirs."""
    roles = [roles_of(table.names, time) for table in tables]
    with_times = [table for table, role in zip(tables, roles, strict=True) if role.time]
    without = [table for table, role in zip(tables, roles, strict=True) if not role.time]
    if not with_times:
        what = f"it has no column {time[:60]!r} with a unit" if time else "no column is a time with its unit"
        raise InputError(what, where=tables[0].source, cure=_TIME_CURE)
    table, partial = stacked(with_times)
    if roles_of(table.names, time).time is None:
        raise _of_other_names(with_times, [role.time.name for role in roles if role.time])
    if without:
        features, more = stacked(without)
        table, partial = joined(features, table), (*partial, *more)
    removed = tuple(RemovedColumn(name, Why.NOT_EVERYWHERE) for name in partial)
    return _launches(table, roles_of(table.names, time), removed, _files(paths))


def _tables(paths: Sequence[Path]) -> list[Columns]:
    if not paths:
        raise InputError("no file is given", cure="Name a table of launches.")
    return [_printable(_columns(path)) for path in paths]


def _files(paths: Sequence[Path]) -> tuple[DataFile, ...]:
    return tuple(DataFile(path.name, sha256_of(path, _ANY_TABLE)) for path in paths)


def _of_other_names(tables: Sequence[Columns], times: Sequence[str]) -> InputError:
    """Return the error for files whose times share no column, so that they are no parts of one table."""
    other = next(place for place, table in enumerate(tables) if times[0] not in table.names)
    return InputError(
        f"its times are called {times[other]}, those of {tables[0].source} {times[0]}",
        where=tables[other].source,
        cure=f"Call them alike; or give --time {times[other]} to join them with the features of the other file.",
    )


def _columns(path: Path) -> Columns:
    if starts_with(path, _PARQUET):
        return parquet_columns(path)
    if starts_with(path, SIGNATURE):
        return report_columns(path)
    if path.suffix.lower() == MEASURED:
        return measurement_columns(path)
    text = read_text(path)
    if text.lstrip()[:1] in {"{", "["}:
        return tuned_columns(text, str(path))
    return profiled_columns(text, str(path)) or csv_columns(text, str(path))


def _printable(table: Columns) -> Columns:
    """Return the same table with names that may be shown."""
    cells = tuple(tuple(map(printable, each)) if isinstance(each, tuple) else each for each in table.cells)
    return replace(table, names=tuple(map(printable, table.names)), cells=cells)


def _launches(
    table: Columns, roles: Roles, removed: tuple[RemovedColumn, ...], files: tuple[DataFile, ...]
) -> LaunchRows:
    """Return what the columns say of each launch."""
    texts = [name for name in roles.features if table.is_text(name)]
    names = tuple(name for name in roles.features if name not in texts)
    values = np.column_stack([table.numbers(name) for name in names]) if names else np.empty((table.rows, 0))
    gone = [(roles.times, Why.TIME), (roles.labels, Why.LABEL), (texts, Why.TEXT)]
    return LaunchRows(
        names=names,
        values=values,
        seconds=_seconds(table, roles),
        kernels=_names(table, roles.kernel),
        gpus=_names(table, roles.gpu),
        configurations=_configurations(table, roles),
        removed=(*removed, *(RemovedColumn(name, why) for found, why in gone for name in found)),
        source=table.source,
        files=files,
    )


def _seconds(table: Columns, roles: Roles) -> Floats:
    if roles.time is None:
        return np.full(table.rows, np.nan)
    return table.numbers(roles.time.name) * roles.time.seconds_per_unit


def _names(table: Columns, column: str | None) -> tuple[str, ...]:
    texts = table.texts(column) if column else ("",) * table.rows
    return tuple(text.strip() or UNNAMED for text in texts)


def _configurations(table: Columns, roles: Roles) -> tuple[str, ...]:
    """Return what tells launches of a kernel apart, such as ``grid_x=4096 block_x=256``; else the rows' numbers."""
    if not roles.configuration:
        return tuple(f"row={row}" for row in range(table.rows))
    columns = [table.texts(name) for name in roles.configuration]
    return tuple(
        " ".join(f"{name}={text}" for name, text in zip(roles.configuration, cells, strict=True))
        for cells in zip(*columns, strict=True)
    )
