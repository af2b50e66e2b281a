"""What came of forecasts for launches that were left out: errors, coverage, and the order of GPUs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

#: Pairs of GPUs whose times differ by less say nothing about which is faster.
_LEAST_RATIO = 1.1
WITHIN = (0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One forecast of one case, by its row."""

    row: int
    log_ratio: float
    """ln(forecast / measured)"""
    log_half_width: float | None = None
    """logarithm of the factor of the 90 % interval; None where the method gives none"""
    source: int | None = None
    """row of the case whose time was carried over; None without one"""

    @property
    def error(self) -> float:
        """|forecast - measured| / measured."""
        return abs(math.expm1(self.log_ratio))

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds the measured time."""
        return self.log_half_width is not None and abs(self.log_ratio) <= self.log_half_width


@dataclass(frozen=True, slots=True)
class Outcome:
    """All forecasts of one method under one protocol."""

    method: str
    source: str
    """publication, or what it is"""
    forecasts: tuple[Forecast, ...]

    def only(self, wanted: Callable[[Forecast], bool]) -> "Outcome":
        """Return some of the forecasts."""
        return Outcome(self.method, self.source, tuple(each for each in self.forecasts if wanted(each)))


@dataclass(frozen=True, slots=True)
class TransferScore:
    """How well forecasts of launches that were left out fit."""

    n: int
    mape: float
    """mean absolute percentage error, as a share"""
    median: float
    within: tuple[float, ...]
    """shares of forecasts within 10, 20 and 50 % of the measured time"""
    coverage: float | None
    """share of measured times in the 90 % interval; None without intervals"""
    width: float | None
    """median of high / low of the intervals"""


def score_of(forecasts: Sequence[Forecast]) -> TransferScore:
    """Return the score of some forecasts, at least one.

    >>> found = score_of([Forecast(0, math.log(1.1), 0.2), Forecast(1, math.log(0.7), 0.2)])
    >>> found.n, round(found.mape, 6), [float(each) for each in found.within], found.coverage
    (2, 0.2, [0.5, 0.5, 1.0], 0.5)
    """
    errors = np.array([each.error for each in forecasts])
    widths = [each.log_half_width for each in forecasts if each.log_half_width is not None]
    has_all = len(widths) == len(forecasts)
    return TransferScore(
        len(forecasts),
        float(errors.mean()),
        float(np.median(errors)),
        tuple(float((errors <= share + 1e-12).mean()) for share in WITHIN),
        float(np.mean([each.is_inside for each in forecasts])) if has_all else None,
        math.exp(2 * float(np.median(widths))) if has_all else None,
    )


@dataclass(frozen=True, slots=True)
class Order:
    """How often the faster of two GPUs was named, where measured times differ by a tenth and more."""

    pairs: int
    right: float
    """share; a draw counts half"""


def order_of(forecasts: Sequence[Forecast], launches: Sequence[str], seconds: Sequence[float]) -> Order | None:
    """Return how often the faster of two GPUs was named, None without a pair; forecasts without a source only."""
    groups: dict[str, list[Forecast]] = {}
    for each in forecasts:
        groups.setdefault(launches[each.row], []).append(each)
    points = [point for group in groups.values() for point in _points(group, seconds)]
    return Order(len(points), sum(points) / len(points)) if points else None


def _points(group: Sequence[Forecast], seconds: Sequence[float]) -> Iterator[float]:
    for one, other in combinations(group, 2):
        measured = math.log(seconds[one.row] / seconds[other.row])
        if abs(measured) > math.log(_LEAST_RATIO):
            found = measured + one.log_ratio - other.log_ratio
            yield 0.5 if found == 0 else float((found > 0) == (measured > 0))
