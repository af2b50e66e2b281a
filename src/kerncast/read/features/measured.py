"""Measured launches as a table of features: files of ``kerncast measure``, and what tuners have kept.

What these files tell beside the time are geometry, registers, numbers among the arguments or the tuning parameters, and
counters where some were collected. Executed features of the same launches come from their launch file.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kerncast.errors import InputError
from kerncast.launch import Extent
from kerncast.measurements import Configuration, Measurement, Method, read_measurement, summarise
from kerncast.read.features.launches import MOST_CELLS, Column, Columns, too_large
from kerncast.read.profile_files import read_tuned
from kerncast.read.tuners import TunedConfiguration

#: Which of the times of a measured file is learned: that of a forecast unless another timing is asked for.
_METHODS = (Method.SERIES, Method.SINGLE, Method.COLD)
_AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_NUMBER_OF_KEY = re.compile(r"#(\d+)$")
_UNKNOWN_GPU = "unknown"
#: Marks a column as one that tells configurations of a kernel apart, and is a feature.
_PARAMETER = "tune_"


@dataclass(frozen=True, slots=True)
class _Row:
    """One measured configuration."""

    kernel: str
    gpu: str
    seconds: float
    launch: int | None
    grid: Extent | None
    block: Extent | None
    numbers: Mapping[str, float]


def measurement_columns(path: Path) -> Columns:
    """Return the configurations of a measured file that have a time of a whole GPU; raises InputError."""
    found = read_measurement(path)
    method = next((each for each in _METHODS if any(trial.method is each for trial in found.trials)), None)
    whole = [each for each in found.configurations if each.sm_count is None and each.amount is None]
    rows = (
        []
        if method is None
        else [_measured(found, each, method) for each in whole if found.trials_of(each.key, method)]
    )
    if not rows:
        cure = "Measure launches with kerncast measure FILE.toml."
        raise InputError("it holds no time of a launch on a whole GPU", where=str(path), cure=cure)
    return _columns(rows, str(path))


def _measured(found: Measurement, each: Configuration, method: Method) -> _Row:
    number = _NUMBER_OF_KEY.search(each.key)
    counters = {
        name: value for one in found.counters if one.configuration == each.key for name, value, _ in one.metrics
    }
    arguments = {name: _number(text) for name, text in each.arguments}
    numbers = {name: value for name, value in arguments.items() if value is not None} | counters
    numbers |= {"shared_bytes": float(each.shared_bytes), "registers_per_thread": float(each.registers_per_thread)}
    return _Row(
        each.kernel, found.machine.gpu_name, summarise(found.trials_of(each.key, method)).median,
        int(number[1]) if number else None, each.grid, each.block, numbers,
    )  # fmt: skip


def tuned_columns(text: str, where: str) -> Columns:
    """Return the configurations of a tuner's JSON, their parameters as ``tune_NAME``; raises InputError."""
    found = read_tuned(text, where)
    if not found:
        raise InputError("no configuration in it ran with right results", where=where, cure="Tune again; see its log.")
    return _columns([_tuned(each) for each in found], where)


def _tuned(each: TunedConfiguration) -> _Row:
    parameters = {f"{_PARAMETER}{name}": _number(text) for name, text in each.settings}
    numbers = {name: value for name, value in parameters.items() if value is not None}
    numbers |= {metric.name: metric.value for metric in each.counters}
    numbers |= {metric.name: metric.value for metric in each.legacy_counters}
    return _Row(each.kernel, each.device or _UNKNOWN_GPU, each.seconds, None, each.grid, each.block, numbers)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _columns(rows: Sequence[_Row], where: str) -> Columns:
    names = list(dict.fromkeys(name for row in rows for name in row.numbers if name not in _AXES))
    if (len(names) + len(_AXES)) * len(rows) > MOST_CELLS:
        raise too_large(where)
    cells: list[tuple[str, Column]] = [
        ("kernel", tuple(row.kernel for row in rows)),
        ("gpu", tuple(row.gpu for row in rows)),
        ("seconds", _cells(row.seconds for row in rows)),
    ]
    if all(row.launch is not None for row in rows):
        cells.append(("launch", _cells(float(row.launch or 0) for row in rows)))
    sizes = [(*(row.grid or (math.nan,) * 3), *(row.block or (math.nan,) * 3)) for row in rows]
    if any(row.grid or row.block for row in rows):
        cells += [(name, np.array(sizes, np.float64)[:, axis]) for axis, name in enumerate(_AXES)]
    cells += [(name, _cells(row.numbers.get(name, math.nan) for row in rows)) for name in names]
    return Columns(tuple(name for name, _ in cells), tuple(each for _, each in cells), len(rows), where)


def _cells(values: Iterable[float]) -> Column:
    return np.array(list(values), np.float64)
