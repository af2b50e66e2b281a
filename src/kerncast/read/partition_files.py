"""Reads times on parts of a GPU: a CSV, or a measurement file that ``kerncast measure --tpcs`` wrote."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.measurements import (
    MOST_TPCS,
    Configuration,
    CountFeatures,
    Measurement,
    Method,
    PartitionTimes,
    read_measurement,
)
from kerncast.read.bounded_text import LEAST_SECONDS, MOST, MOST_SECONDS, read_text
from kerncast.units import MIB

_COUNT, _TIME = "tpcs", "seconds"
#: A thousand repeats on each part of the largest GPU are 2 MB.
_MOST_BYTES = 16 * MIB
_MOST_ROWS = 200_000
_MOST_FEATURES = 1000
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class _Row:
    """One row: a run, or features alone where its time is empty."""

    tpcs: int
    seconds: float | None
    features: tuple[float, ...] | None


def read_partition_times(path: Path) -> PartitionTimes:
    """Return the runs of a CSV; raises InputError that names the line of what is wrong.

    The header is ``tpcs,seconds`` and the names of features, if any; further rows of one count are further runs. A
    row with features and an empty time tells the features of a count that was not measured.
    """
    lines = csv.reader(io.StringIO(read_text(path, _MOST_BYTES), newline=""), strict=True)
    try:
        names = _feature_names(next(lines, []), str(path))
        rows = list(_rows(lines, len(names), str(path)))
    except csv.Error as error:
        raise InputError(
            f"not CSV: {error}", where=f"{path}, line {lines.line_num}", cure="Write it again: it is damaged."
        ) from error
    runs = [row for row in rows if row.seconds is not None]
    if not runs:
        raise InputError("it holds no time", where=str(path), cure="Add rows such as 1,0.004 below the header.")
    return PartitionTimes(
        tuple(row.tpcs for row in runs),
        tuple(row.seconds for row in runs if row.seconds is not None),
        names,
        _features(rows) if names else (),
        str(path),
    )


def _feature_names(header: list[str], where: str) -> tuple[str, ...]:
    names = [name.strip() for name in header]
    if [name.lower() for name in names[:2]] != [_COUNT, _TIME]:
        found = ",".join(names)[:_SHOWN] or "nothing"
        raise InputError(
            f"its first line is {found!r}", where=where, cure="Begin with the header tpcs,seconds; features may follow."
        )
    features = names[2:]
    if len(features) > _MOST_FEATURES or len(set(features)) < len(features) or not all(features):
        raise InputError(
            f"{len(features)} columns of features, with names that are empty, double or too many",
            where=f"{where}, line 1",
            cure=f"Give each of at most {_MOST_FEATURES} columns a name of its own.",
        )
    return tuple(features)


def _rows(lines: Iterator[list[str]], features: int, where: str) -> Iterator[_Row]:
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if number > _MOST_ROWS:
            raise InputError(f"it has more than {_MOST_ROWS} rows", where=where, cure="Keep some of the repeats.")
        place = f"{where}, line {number}"
        if len(cells) != features + 2:
            raise InputError(
                f"{len(cells)} columns, not {features + 2}", where=place, cure="The row is cut off or changed: mend it."
            )
        yield _row(cells, place)


def _row(cells: list[str], place: str) -> _Row:
    count = cells[0].strip()
    if not (count.isascii() and count.isdecimal()) or not 1 <= int(count[:9]) <= MOST_TPCS:
        raise InputError(f"tpcs is {count[:_SHOWN]!r}", where=place, cure=f"Give a whole number from 1 to {MOST_TPCS}.")
    written = [cell.strip() for cell in cells[2:]]
    features = tuple(_number(cell, place) for cell in written) if any(written) else None
    if not cells[1].strip() and features:
        return _Row(int(count), None, features)
    seconds = _number(cells[1], place)
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise InputError(
            f"seconds is {cells[1].strip()[:_SHOWN]!r}",
            where=place,
            cure=f"Give a time from {LEAST_SECONDS:g} to {MOST_SECONDS:g} s.",
        )
    return _Row(int(count), seconds, features)


def _number(cell: str, place: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise InputError(f"{cell.strip()[:_SHOWN]!r} is not a number", where=place, cure="Mend the row.") from None
    if not abs(value) <= MOST:
        raise InputError(f"{cell.strip()[:_SHOWN]!r} is not a finite number", where=place, cure="Leave out the row.")
    return value


def _features(rows: list[_Row]) -> tuple[CountFeatures, ...]:
    """Return the mean over the rows of each count."""
    by_count: dict[int, list[tuple[float, ...]]] = {}
    for row in rows:
        if row.features is not None:
            by_count.setdefault(row.tpcs, []).append(row.features)
    return tuple(
        CountFeatures(count, tuple(map(fmean, zip(*by_count[count], strict=True)))) for count in sorted(by_count)
    )


_MOST_NAMED = 6


#: A measurement, and the file that it was read from.
MeasurementFile = tuple[Measurement, Path]


def read_measured_partitions(path: Path, gpu: GPU, kernel: str | None = None) -> PartitionTimes:
    """Return every single launch of one kernel on parts of the GPU that a file holds; raises InputError."""
    return partitions_of((read_measurement(path), path), gpu, kernel)


def partitions_of(measured: MeasurementFile, gpu: GPU, kernel: str | None = None) -> PartitionTimes:
    """Return every single launch of one kernel on parts of the GPU that was measured; raises InputError.

    ``kernel`` is the key of its configurations without ``@N``, such as ``partition/saxpy#0``, or the kernel's name; it
    may be left out where the file has one kernel on parts. Series are not taken: a mean hides the longest run.
    """
    measurement, path = measured
    machine, sms_per_tpc = measurement.machine, gpu.sm_count // (gpu.tpc_count or gpu.sm_count)
    if machine.sm_count != gpu.sm_count:
        raise InputError(
            f"{machine.gpu_name} was measured, with {machine.sm_count} SMs; {gpu.name} has {gpu.sm_count}",
            where=str(path),
            cure="Name the GPU that was measured.",
        )
    parts = _parts(measurement, path)
    key = _chosen(parts, kernel, path)
    runs: list[tuple[int, float]] = []
    for configuration in measurement.configurations:
        if _key(configuration) != key:
            continue
        sms = configuration.sm_count or machine.sm_count
        if sms % sms_per_tpc:
            raise InputError(
                f"{configuration.key} ran on {sms} SMs, not a multiple of the {sms_per_tpc} of a TPC",
                where=str(path),
                cure="Measure with --tpcs.",
            )
        singles = measurement.trials_of(configuration.key, Method.SINGLE)
        runs += [(sms // sms_per_tpc, seconds) for trial in singles for seconds in trial.seconds]
    if not runs:
        raise InputError(
            f"{key} has no single launches",
            where=str(path),
            cure="Measure with --timing single: a mean hides the longest.",
        )
    counts, seconds = zip(*runs, strict=True)
    return PartitionTimes(counts, seconds, source=str(path))


def _key(configuration: Configuration) -> str:
    return configuration.key.rpartition("@")[0] if configuration.sm_count is not None else configuration.key


def _parts(measurement: Measurement, path: Path) -> dict[str, str]:
    """Return the kernels that were measured on parts of the GPU, by key."""
    parts = {_key(each): each.kernel for each in measurement.configurations if each.sm_count is not None}
    if not parts:
        raise InputError("nothing in it ran on parts of the GPU", where=str(path), cure="Measure with --tpcs 1-8,16.")
    return parts


def _chosen(parts: dict[str, str], kernel: str | None, path: Path) -> str:
    found = [key for key, name in parts.items() if kernel is None or kernel in {key, name}]
    if len(found) == 1:
        return found[0]
    named = sorted(found or parts)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    cure = f"Give --kernel one of {', '.join(named[:_MOST_NAMED])}{more}."
    asked = (kernel or "")[:60]
    what = "it has several kernels on parts of the GPU" if found else f"none of its kernels on parts is {asked!r}"
    raise InputError(what, where=str(path), cure=cure)
