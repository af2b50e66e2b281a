"""A profiler's file as a table of features: one row per launch, or the mean of each metric."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kerncast.errors import InputError
from kerncast.launch import Extent
from kerncast.read.bounded_text import read_text, starts_with
from kerncast.read.features.launches import MOST_CELLS, Column, Columns, csv_columns, too_large
from kerncast.read.ncu.pages import read_ncu_csv
from kerncast.read.ncu.profile import DURATION
from kerncast.read.ncu.report import SIGNATURE, read_ncu_report
from kerncast.read.ncu.rows import NcuRow
from kerncast.read.nvprof import NvprofLaunch, read_nvprof
from kerncast.read.profile_files import check_rows, kind_of_csv, lines_of
from kerncast.units import GIB, KIB, MIB, NANOSECOND

_BYTES_PER_S = {"B/s": 1, "KB/s": KIB, "MB/s": MIB, "GB/s": GIB}
_AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_NO_EXTENT = (math.nan, math.nan, math.nan)
_UNKNOWN_GPU = "unknown"
Metric = tuple[str, float]


@dataclass(frozen=True, slots=True)
class _Launch:
    kernel: str
    gpu: str
    grid: Extent | None
    block: Extent | None
    seconds: float | None
    metrics: tuple[Metric, ...]


def report_columns(path: Path) -> Columns:
    """Return the columns of a report of Nsight Compute; raises InputError."""
    return _table([_of_ncu(row) for row in read_ncu_report(path)], str(path))


def profiled_columns(text: str, where: str) -> Columns | None:
    """Return the columns of a profiler's CSV, or None where no profiler wrote it; raises InputError."""
    kind = kind_of_csv(text)
    if kind == "ncu":
        check_rows(text, where)
        return _table([_of_ncu(row) for row in read_ncu_csv(lines_of(text), where)], where)
    if kind == "nvprof":
        return _table([_of_nvprof(launch) for launch in read_nvprof(lines_of(text), where)], where)
    return None


def _of_ncu(row: NcuRow) -> _Launch:
    nanoseconds = row.value(DURATION)
    metrics = tuple((metric.name, metric.value) for metric in row.metrics if metric.name != DURATION)
    seconds = None if nanoseconds is None else nanoseconds * NANOSECOND
    return _Launch(row.kernel, row.device or _UNKNOWN_GPU, row.grid, row.block, seconds, metrics)


def _of_nvprof(launch: NvprofLaunch) -> _Launch:
    metrics = tuple((metric.name, metric.value * _BYTES_PER_S.get(metric.unit, 1)) for metric in launch.metrics)
    gpu = launch.device or _UNKNOWN_GPU
    return _Launch(launch.kernel, gpu, launch.grid, launch.block, launch.seconds, metrics)


def _table(launches: Sequence[_Launch], where: str) -> Columns:
    names = dict.fromkeys(name for launch in launches for name, _ in launch.metrics)
    if len(names) * len(launches) > MOST_CELLS:
        raise too_large(where)
    places = {name: place for place, name in enumerate(names)}
    values = np.full((len(names), len(launches)), np.nan)
    for row, launch in enumerate(launches):
        for name, value in launch.metrics:
            values[places[name], row] = value
    cells: list[tuple[str, Column]] = [
        ("kernel", tuple(launch.kernel for launch in launches)),
        ("gpu", tuple(launch.gpu for launch in launches)),
    ]
    if any(launch.grid and launch.block for launch in launches):
        sizes = [(*(launch.grid or _NO_EXTENT), *(launch.block or _NO_EXTENT)) for launch in launches]
        cells += [(name, np.array(sizes, np.float64)[:, axis]) for axis, name in enumerate(_AXES)]
    if any(launch.seconds for launch in launches):
        seconds = [math.nan if launch.seconds is None else launch.seconds for launch in launches]
        cells.append(("seconds", np.array(seconds, np.float64)))
    cells += list(zip(names, values, strict=True))
    return Columns(tuple(n for n, _ in cells), tuple(c for _, c in cells), len(launches), where)


_KERNEL = "kernel"
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ProfiledMeans:
    """Metrics of one kernel in base units, by their profiler's names."""

    names: tuple[str, ...]
    values: tuple[float, ...]

    def of(self, names: tuple[str, ...]) -> tuple[float, ...]:
        """Return the values of these metrics; raises ValueError for one that is not there."""
        return tuple(self.values[self.names.index(name)] for name in names)


def read_profiled_means(path: Path) -> ProfiledMeans:
    """Return the metrics that every launch of a file has; raises InputError where it holds several kernels."""
    table = _columns(path)
    kernels = tuple(dict.fromkeys(table.texts(_KERNEL))) if _KERNEL in table.names else ()
    if len(kernels) > 1:
        shown = ", ".join(name[:40] for name in kernels[:_MOST_SHOWN])
        raise InputError(
            f"it has {len(kernels)} kernels ({shown}…)", where=str(path), cure="Profile one: ncu -k regex:NAME."
        )
    numbers = {name: table.numbers(name) for name in table.names if not table.is_text(name)}
    means = {name: float(cells.mean()) for name, cells in numbers.items() if cells.size and np.isfinite(cells).all()}
    return ProfiledMeans(tuple(means), tuple(means.values()))


def _columns(path: Path) -> Columns:
    if starts_with(path, SIGNATURE):
        return report_columns(path)
    text = read_text(path)
    return profiled_columns(text, str(path)) or csv_columns(text, str(path))
