"""Writes a measurement as one table for other programs: a row per sample, as CSV or Parquet.

A name that ends in ``.counters.csv`` or ``.counters.parquet`` gets a row per counter and per reading instead.
Both formats hold the same cells; what is unknown is empty in CSV and null in Parquet.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from kerncast.errors import InputError
from kerncast.measurements import Configuration, Machine, Measurement, Trial, outliers
from kerncast.measurements.table_files import Cell, write_table

Row = tuple[Cell, ...]


def _columns(kind: type[str | int | float | bool], names: str) -> dict[str, type[str | int | float | bool]]:
    return dict.fromkeys(names.split(), kind)


_LAUNCH = {
    **_columns(str, "gpu_name gpu_uuid driver key kernel"),
    **_columns(int, "grid_x grid_y grid_z block_x block_y block_z shared_bytes sm_count"),
}
#: Columns of a table of samples.
SAMPLE_COLUMNS = {
    **_LAUNCH,
    **_columns(str, "method"),
    **_columns(int, "trial sample"),
    **_columns(bool, "is_warmup"),
    **_columns(float, "seconds"),
    **_columns(int, "launches_per_sample"),
    **_columns(bool, "is_outlier"),
    **_columns(float, "sm_hz_before memory_hz_before temperature_c_before power_w_before"),
    **_columns(float, "sm_hz_after memory_hz_after temperature_c_after power_w_after"),
    **_columns(str, "throttle_reasons began"),
}
#: Columns of a table of counters and readings.
VALUE_COLUMNS = {
    **_LAUNCH,
    **_columns(str, "origin name"),
    **_columns(int, "sample"),
    **_columns(float, "value"),
    **_columns(str, "unit"),
}


def export(measurement: Measurement, path: str | os.PathLike[str]) -> None:
    """Write a table, in the format that the name's suffix says; the file is there whole, or as it was before."""
    file = Path(path)
    if file.suffix not in {".csv", ".parquet"}:
        raise InputError(f"{file.name!r} is not a table's name", where=str(file), cure="End it in .csv or .parquet.")
    if file.stem.endswith(".counters"):
        write_table(file, VALUE_COLUMNS, _value_rows(measurement))
    else:
        write_table(file, SAMPLE_COLUMNS, _sample_rows(measurement))


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
