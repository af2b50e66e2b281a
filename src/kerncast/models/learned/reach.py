"""The reach of a trained model: its errors on launches held out, and how far it may be from those it learned from.

A forecast is trusted as far as the model did on launches that were as new to it: of other configurations, kernels or
GPUs. A launch that is like none that it learned from counts as one of a new kernel, whatever it is called.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.measurements.feature_table import Floats
from kerncast.models.calibration import Calibration, normal_deviations

#: Levels of the errors that a file keeps; beyond them a lognormal error is assumed.
LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
#: What is off by more, and every forecast of 0 or less, counts as off by a factor of a million.
MOST_LOG_ERROR = math.log(10**6)
#: Factor of a 90 % interval where nothing tells the errors. On kernels held out of Rodinia a forest is off by 1.4, a
#: linear model by more than 1,000 (docs/average-case.md).
ASSUMED_FACTOR = 10.0
_ASSUMED_LEVEL = 0.9
#: Launches of the sample, and numbers in it at most: the header stays some 100 kB.
_MOST_SAMPLED, _MOST_NUMBERS = 64, 20_000
#: Launches among which the sample is looked for.
_MOST_SEARCHED = 20_000
_ROWS_AT_ONCE = 4_096
#: A launch is like those that were learned from within the distance that this share of the sample has to the next.
_ALIKE = 0.9
#: What lies outside by rounding alone is inside.
_ROUNDING = 1e-8
#: The sample is kept in four digits, and of a difference of squares half of the digits are left.
_APART = 1e-4
#: A count of 0 lies below the least that was learned from as a hundredth of it would.
_LEAST_PART = 0.01


@dataclass(frozen=True, slots=True)
class SplitErrors:
    """How far forecasts were off on launches held out, by the quantiles of |ln(measured / forecast)|."""

    split: str
    """what the launches held out did not share with those learned from: rows, configurations, kernels or gpus"""
    levels: tuple[float, ...]
    quantiles: tuple[float, ...]
    launches: int
    """launches held out"""
    groups: int
    """kernels or GPUs, else configurations or launches, that were held out; each counts once"""

    def log_error(self, level: float) -> float:
        """Return the quantile at a level, between and beyond the known ones as for a lognormal error.

        >>> found = SplitErrors("rows", (0.5, 0.9), (0.1, 0.2), 50, 50)
        >>> round(found.log_error(0.9), 3), 0.1 < found.log_error(0.7) < 0.2 < found.log_error(0.99)
        (0.2, True)
        """
        factors = tuple(math.exp(each) for each in self.quantiles)
        known = Calibration(self.levels, factors, self.groups, self.launches, self.split)
        return min(MOST_LOG_ERROR, math.log(known.factor(level)))

    def tells(self, level: float) -> bool:
        """Whether the launches held out tell the error at a level, and not only an assumed form of it."""
        return self.levels[0] <= level <= min(self.levels[-1], self.groups / (self.groups + 1))


def assumed_log_error(level: float) -> float:
    """Return the error at a level where nothing tells it.

    >>> round(math.exp(assumed_log_error(0.9)), 6)
    10.0
    """
    return math.log(ASSUMED_FACTOR) * normal_deviations(level) / normal_deviations(_ASSUMED_LEVEL)


def split_errors(split: str, measured: Floats, forecast: Floats, groups: Sequence[str]) -> SplitErrors:
    """Return the errors of forecasts by the groups that were held out, each of which counts once.

    A new group is taken as one more of its kind: of n groups at most the share n / (n + 1) is known to be better than
    the worst of them. Beyond that share the largest error is carried on as a lognormal one.

    >>> times = np.array([1.0, 2.0, 4.0])
    >>> [round(math.exp(each), 3) for each in split_errors("rows", times, np.ones(3), ["a", "b", "c"]).quantiles[:3]]
    [2.0, 4.0, 4.685]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.abs(np.log(measured / forecast))
    logs = np.where(np.isfinite(logs) & (forecast > 0), np.minimum(logs, MOST_LOG_ERROR), MOST_LOG_ERROR)
    _, group, counts = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    order = np.argsort(logs, kind="stable")
    share = np.cumsum(1 / counts[group][order]) / len(counts)
    told = len(counts) / (len(counts) + 1)
    quantiles = []
    for level in LEVELS:
        place = int(np.searchsorted(share, level / told - _ROUNDING)) if level <= told else len(order) - 1
        beyond = normal_deviations(level) / normal_deviations(told) if level > told else 1.0
        quantiles.append(min(MOST_LOG_ERROR, float(logs[order[min(place, len(order) - 1)]]) * beyond))
    return SplitErrors(split, LEVELS, tuple(quantiles), len(logs), len(counts))


@dataclass(frozen=True, slots=True)
class Reach:
    """Errors of a model on what was held out, and the features that it learned from."""

    errors: tuple[SplitErrors, ...]
    low: tuple[float, ...]
    """[features] least value of the launches that were learned from"""
    median: tuple[float, ...]
    high: tuple[float, ...]
    spread: tuple[float, ...]
    """[features] standard deviation of the signed logarithm of 1 + |value|, 1 for what is constant"""
    sample: tuple[tuple[float, ...], ...]
    """[launches, features] signed logarithms over their spread, of launches that lie far apart"""
    distance: float
    """distance from the sample within which a launch is like those that were learned from"""

    def of(self, split: str) -> SplitErrors | None:
        """Return the errors of a split, None where nothing of its kind could be held out."""
        return next((each for each in self.errors if each.split == split), None)

    def outside(self, values: Floats) -> Floats:
        """Return by what factor each value lies outside its range, as logarithms [rows, features]: 0 inside.

        >>> reach = Reach((), (10.0,), (50.0,), (100.0,), (1.0,), (), 0.0)
        >>> np.exp(reach.outside(np.array([[200.0], [5.0], [60.0]]))).round(2).ravel().tolist()
        [2.0, 2.0, 1.0]
        """
        low, high = np.array(self.low), np.array(self.high)
        width = high - low
        above, below = (_not_zero(np.maximum(np.abs(end), width)) for end in (high, low))
        least = np.maximum(np.abs(values), below * _LEAST_PART)
        found = np.log1p(np.maximum(0, values - high) / above) + np.log1p(np.maximum(0, low - values) / least)
        logs: Floats = np.where(found > _ROUNDING, found, 0.0)
        return logs

    def distances(self, values: Floats) -> Floats:
        """Return how far each row is from the nearest launch of the sample, over the distance of what is alike."""
        sample = np.array(self.sample)
        rows = signed_logs(values) / np.array(self.spread)
        parts = [_nearest(rows[first : first + _ROWS_AT_ONCE], sample) for first in range(0, len(rows), _ROWS_AT_ONCE)]
        nearest = np.concatenate([*parts, np.empty(0)])
        return nearest / self.distance if self.distance else np.where(nearest > _APART, np.inf, 0.0)


def _not_zero(scale: Floats) -> Floats:
    return np.where(scale > 0, scale, 1.0)


def signed_logs(values: Floats) -> Floats:
    """Return ln(1 + x) with the sign of x: counters differ by factors, and some are 0."""
    logs: Floats = np.sign(values) * np.log1p(np.abs(values))
    return logs


def _nearest(rows: Floats, sample: Floats) -> Floats:
    """Return each row's distance from the nearest of a sample."""
    squares = (rows**2).mean(axis=1)[:, None] + (sample**2).mean(axis=1) - 2 * (rows @ sample.T) / rows.shape[1]
    apart: Floats = np.sqrt(np.maximum(squares.min(axis=1), 0))
    return apart


def _distances(row: Floats, others: Floats) -> Floats:
    apart: Floats = np.sqrt(((others - row) ** 2).mean(axis=1))
    return apart


def reach_of(values: Floats, errors: tuple[SplitErrors, ...], seed: int) -> Reach:
    """Return the reach of a model that learned from these launches [launches, features]."""
    logs = signed_logs(values)
    deviation = logs.std(axis=0)
    spread = np.where(deviation > _ROUNDING * (1 + np.abs(logs).max(axis=0)), deviation, 1.0)
    drawn = np.random.default_rng(seed).permutation(len(values))[:_MOST_SEARCHED]
    found = _far_apart((logs / spread)[np.sort(drawn)])
    ends = (values.min(axis=0), np.median(values, axis=0), values.max(axis=0))
    low, median, high = (tuple(end.tolist()) for end in ends)
    sample = tuple(tuple(round(cell, 4) for cell in row.tolist()) for row in found)
    return Reach(errors, low, median, high, tuple(spread.tolist()), sample, _usual_distance(found))


def _far_apart(rows: Floats) -> Floats:
    """Return rows of which each was the farthest from all before it: they cover what the others cover."""
    most = max(2, min(_MOST_SAMPLED, _MOST_NUMBERS // rows.shape[1]))
    chosen = [int(np.argmin(_distances(np.median(rows, axis=0), rows)))]
    apart = _distances(rows[chosen[0]], rows)
    while len(chosen) < most and apart.max() > _ROUNDING:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, _distances(rows[chosen[-1]], rows))
    return rows[chosen]


def _usual_distance(sample: Floats) -> float:
    """Return the distance to the next launch that most of a sample have; all between them are nearer."""
    if len(sample) < 2:
        return 0.0
    apart = np.array([_distances(row, sample) for row in sample])
    np.fill_diagonal(apart, np.inf)
    return float(np.quantile(apart.min(axis=1), _ALIKE))
