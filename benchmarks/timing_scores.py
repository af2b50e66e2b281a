"""Statistics of forecasts beside measured times: errors, order, intervals, and which GPU is faster."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Pairs of GPUs whose times differ by less say nothing about which is faster.
LEAST_RATIO, CLOSE_RATIO = 1.1, 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """One forecast beside its measurement."""

    set: str
    kernel: str
    size: str
    gpu: str
    measured: float
    """seconds"""
    forecast: float
    low: float
    high: float

    @property
    def log_ratio(self) -> float:
        """ln(forecast / measured)."""
        return math.log(self.forecast / self.measured)

    @property
    def error(self) -> float:
        """|forecast - measured| / measured."""
        return abs(self.forecast / self.measured - 1)


@dataclass(frozen=True, slots=True)
class Score:
    """How well forecasts fit."""

    n: int
    mape: float
    """mean absolute percentage error, as a share"""
    median: float
    p90: float
    bias: float
    """geometric mean of forecast / measured"""
    spearman: float
    """rank correlation of forecast and measured; not a number where all are equal"""
    coverage: float
    """share of measurements inside the interval"""


def score(rows: Sequence[Row]) -> Score:
    """Return the score of some forecasts, at least one."""
    errors = np.array([row.error for row in rows])
    return Score(
        len(rows),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
        math.exp(sum(row.log_ratio for row in rows) / len(rows)),
        spearman([row.forecast for row in rows], [row.measured for row in rows]),
        sum(row.low <= row.measured <= row.high for row in rows) / len(rows),
    )


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the rank correlation; equal values share their mean rank."""
    a, b = ranks(one), ranks(other)
    a, b = a - a.mean(), b - b.mean()
    norm = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / norm if norm else math.nan


def ranks(values: Sequence[float]) -> Floats:
    """Return ranks from 0 on; equal values share their mean rank.

    >>> ranks([7.0, 3.0, 7.0]).tolist()
    [1.5, 0.0, 1.5]
    """
    _, which, counts = np.unique(np.array(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    return np.asarray((last - (counts - 1) / 2)[which], np.float64)


@dataclass(frozen=True, slots=True)
class Pairs:
    """How often the faster of two GPUs was named."""

    n: int
    right: float
    """a draw counts half"""


def pairs(
    rows: Iterable[Row], time: Callable[[Row], float], least: float = LEAST_RATIO, most: float = math.inf
) -> Pairs:
    """Say how often the GPU with the less ``time`` was the faster one, where measured times differ by a factor."""
    points = [_points(time(a), time(b), a.measured, b.measured) for a, b in _compared(rows, least, most)]
    return Pairs(len(points), sum(points) / len(points) if points else math.nan)


def _compared(rows: Iterable[Row], least: float, most: float) -> Iterator[tuple[Row, Row]]:
    launches: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        launches.setdefault((row.set, row.kernel, row.size), []).append(row)
    for launch in launches.values():
        for a, b in combinations(launch, 2):
            ratio = max(a.measured, b.measured) / min(a.measured, b.measured)
            if a.gpu != b.gpu and least < ratio <= most:
                yield a, b


def _points(one: float, other: float, measured_one: float, measured_other: float) -> float:
    return 0.5 if one == other else float((one < other) == (measured_one < measured_other))


def by(rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]) -> dict[tuple[str, ...], list[Row]]:
    """Return rows grouped, in the order of the first of each group."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
