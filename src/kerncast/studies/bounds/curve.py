"""A time for each of some numbers of TPCs, and what lies between."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.partition_times import PartitionTimes
from kerncast.studies.bounds.base import Floats


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds on ascending numbers of TPCs."""

    counts: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, counts: Sequence[int]) -> Floats:
        """Return the seconds of these counts; raises KeyError for one that the curve lacks."""
        known = dict(zip(self.counts, self.seconds, strict=True))
        return np.array([known[count] for count in counts], np.float64)

    def instead_of(self, others: Floats, counts: Sequence[int]) -> Floats:
        """Return times of some counts, those that the curve has replaced by its own."""
        known = dict(zip(self.counts, self.seconds, strict=True))
        return np.array([known.get(count, float(other)) for count, other in zip(counts, others, strict=True)])

    def with_point(self, count: int, seconds: float) -> "Curve":
        """Return the curve with one more count."""
        known = dict(zip(self.counts, self.seconds, strict=True)) | {count: seconds}
        ordered = tuple(sorted(known))
        return Curve(ordered, tuple(known[each] for each in ordered))


def typical_of(times: PartitionTimes) -> Curve:
    """Return the median time of each measured count."""
    return Curve(times.counts, tuple(times.typical(count) for count in times.counts))


def largest_of(times: PartitionTimes) -> Curve:
    """Return the longest time of each measured count."""
    return Curve(times.counts, tuple(times.largest(count) for count in times.counts))


def between(known: Curve, counts: Sequence[int]) -> Floats:
    """Return the times of other counts: straight lines in 1/k through the known ones, never beyond ideal scaling.

    >>> between(Curve((1, 4), (5.0, 2.0)), (1, 2, 4, 8)).tolist()
    [5.0, 3.0, 2.0, 1.5]
    """
    x = 1 / np.array(known.counts, np.float64)
    y = np.array(known.seconds)
    wanted = 1 / np.array(counts, np.float64)
    lines = np.interp(wanted, x[::-1], y[::-1])
    if len(x) > 1:
        fewer, more = wanted > x[0], wanted < x[-1]
        lines = np.where(fewer, y[0] + (y[0] - y[1]) / (x[0] - x[1]) * (wanted - x[0]), lines)
        lines = np.where(more, y[-1] + (y[-2] - y[-1]) / (x[-2] - x[-1]) * (wanted - x[-1]), lines)
    first, last = y[0] * wanted / x[0], y[-1] * wanted / x[-1]
    lines = np.where(wanted > x[0], np.clip(lines, y[0], first) if len(x) > 1 else first, lines)
    lines = np.where(wanted < x[-1], np.clip(lines, last, y[-1]) if len(x) > 1 else last, lines)
    return np.asarray(lines, np.float64)
