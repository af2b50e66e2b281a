"""Writes a measurement as one table for other programs: a row per sample, as CSV or Parquet.

A name that ends in ``.counters.csv`` or ``.counters.parquet`` gets a row per counter and per reading instead.
Both formats hold the same cells; what is unknown is empty in CSV and null in Parquet.
"""

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kerncast.errors import InputError
from kerncast.measurements import Configuration, Machine, Measurement, Trial, outliers
from kerncast.requirements import how_to_install

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]

_ROWS_PER_GROUP = 65536


@dataclass(frozen=True, slots=True)
class Column:
    """Name and type of a column; the name carries the unit."""

    name: str
    type: type[str | int | float | bool]


@dataclass(frozen=True, slots=True)
class _Table:
    columns: tuple[Column, ...]
    rows: Callable[[Measurement], Iterator[Row]]


def _columns(kind: type[str | int | float | bool], names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name in names.split())


_LAUNCH = (
    *_columns(str, "gpu_name gpu_uuid driver key kernel"),
    *_columns(int, "grid_x grid_y grid_z block_x block_y block_z shared_bytes sm_count"),
)
#: Columns of a table of samples.
SAMPLE_COLUMNS = (
    *_LAUNCH,
    *_columns(str, "method"),
    *_columns(int, "trial sample"),
    *_columns(bool, "is_warmup"),
    *_columns(float, "seconds"),
    *_columns(int, "launches_per_sample"),
    *_columns(bool, "is_outlier"),
    *_columns(float, "sm_hz_before memory_hz_before temperature_c_before power_w_before"),
    *_columns(float, "sm_hz_after memory_hz_after temperature_c_after power_w_after"),
    *_columns(str, "throttle_reasons began"),
)
#: Columns of a table of counters and readings.
VALUE_COLUMNS = (
    *_LAUNCH,
    *_columns(str, "origin name"),
    *_columns(int, "sample"),
    *_columns(float, "value"),
    *_columns(str, "unit"),
)


def export(measurement: Measurement, path: str | os.PathLike[str]) -> None:
    """Write a table, in the format that the name's suffix says; the file is there whole, or as it was before."""
    file = Path(path)
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    if file.suffix not in writers:
        raise InputError(f"{file.name!r} is not a table's name", where=str(file), cure="End it in .csv or .parquet.")
    table = _VALUES if file.stem.endswith(".counters") else _SAMPLES
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        writers[file.suffix](table, measurement, partial)
        partial.replace(file)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        cure = "Name a file in a folder that you may write to."
        raise InputError(f"cannot be written ({reason})", where=str(file), cure=cure) from None
    finally:
        _remove(partial)


def _remove(partial: Path) -> None:
    try:
        partial.unlink(missing_ok=True)
    except (OSError, ValueError):
        # What kept it from being written has been reported.
        return


def _write_csv(table: _Table, measurement: Measurement, file: Path) -> None:
    """Write as RFC 4180 says: lines end in CR LF, and a cell with a comma, a quote or a line break is quoted."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([column.name for column in table.columns])
        writer.writerows([_text(cell) for cell in row] for row in table.rows(measurement))


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _write_parquet(table: _Table, measurement: Measurement, file: Path) -> None:
    try:
        import pyarrow as pa  # noqa: PLC0415  only who asks for Parquet needs it
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        cure = f"Install it: {how_to_install('pyarrow')}. Or name a .csv file."
        raise InputError("Parquet needs pyarrow, which is not installed", cure=cure) from None
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(column.name, types[column.type]) for column in table.columns])
    rows = table.rows(measurement)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, _ROWS_PER_GROUP)):
            columns = zip(*group, strict=True)
            arrays = [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _launch(machine: Machine, configuration: Configuration) -> Row:
    return (
        *(machine.gpu_name, machine.gpu_uuid, machine.driver, configuration.key, configuration.kernel),
        *(*configuration.grid, *configuration.block, configuration.shared_bytes, configuration.sm_count),
    )


def _sample_rows(measurement: Measurement) -> Iterator[Row]:
    launches = {c.key: _launch(measurement.machine, c) for c in measurement.configurations}
    for (key, _), trials in measurement.trials_by_method().items():
        # An outlier is one among all samples of its configuration and method, as in ``Summary``.
        flags = iter(outliers(s for trial in trials for s in trial.seconds))
        for trial in trials:
            head = (*launches[key], str(trial.method), trial.number)
            tail = _conditions(trial)
            for number, seconds in enumerate(trial.warmup_seconds):
                yield (*head, number, True, seconds, trial.launches_per_sample, None, *tail)
            for number, seconds in enumerate(trial.seconds):
                yield (*head, number, False, seconds, trial.launches_per_sample, next(flags), *tail)


def _conditions(trial: Trial) -> Row:
    reasons = dict.fromkeys((*trial.before.throttle_reasons, *trial.after.throttle_reasons))
    states = ((s.sm_hz, s.memory_hz, s.temperature_c, s.power_w) for s in (trial.before, trial.after))
    return (*(cell for state in states for cell in state), ";".join(reasons) or None, trial.began)


def _value_rows(measurement: Measurement) -> Iterator[Row]:
    launches = {c.key: _launch(measurement.machine, c) for c in measurement.configurations}
    for counters in measurement.counters:
        for name, value, unit in counters.metrics:
            yield (*launches[counters.configuration], "counter", name, 0, value, unit)
    for reading in measurement.readings:
        for number, value in enumerate(reading.values):
            yield (*launches[reading.configuration], "reading", reading.name, number, value, reading.unit)


_SAMPLES = _Table(SAMPLE_COLUMNS, _sample_rows)
_VALUES = _Table(VALUE_COLUMNS, _value_rows)
