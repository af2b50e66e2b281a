"""Measures of bounds: how often a time is above its bound, and by how much the others are below.

The measures of average cases (measurements/scores.py) punish a bound for being one, and do not see a miss.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.studies.bounds.base import ROUNDING

#: Confidence of the upper limit of the probability of a miss.
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class WorstCaseScores:
    """What bounds were worth on times that they did not know."""

    times: int
    misses: int
    """times above their bound"""
    mean_over: float
    """mean of bound / time - 1; misses count as what they are, below 0"""
    largest_over: float
    worst_miss: float
    """largest time / bound - 1; 0 without misses"""
    tightness: float | None
    """mean of time / bound: 1 for bounds that are met; None where a bound is zero"""
    miss_probability_upper: float
    """upper confidence limit of the probability of a miss, at 95 %"""


def worst_case_of(pairs: Sequence[tuple[float, float]]) -> WorstCaseScores:
    """Return the measures of pairs of a time and its bound; raises ValueError without any.

    The limit is Clopper's and Pearson's (Biometrika 26, 1934), for times that are independent of one another.

    >>> found = worst_case_of([(1.0, 1.1), (2.0, 2.0), (3.0, 2.4), (4.0, 5.0)])
    >>> found.misses, round(found.mean_over, 4), round(found.worst_miss, 4), round(found.miss_probability_upper, 4)
    (1, 0.0375, 0.25, 0.7514)
    """
    times, bounds = np.array(pairs, np.float64).T
    over = bounds / times - 1
    is_zero = bool((bounds == 0).any())  # a regression that is cut off at zero
    ratios = times / np.where(bounds > 0, bounds, np.finfo(np.float64).tiny)
    misses = int((times > bounds * (1 + ROUNDING)).sum())
    return WorstCaseScores(
        times=len(times),
        misses=misses,
        mean_over=float(over.mean()),
        largest_over=float(over.max()),
        worst_miss=max(0.0, float(ratios.max() - 1)) if misses else 0.0,
        tightness=None if is_zero else float(ratios.mean()),
        miss_probability_upper=_upper(misses, len(times)),
    )


def _upper(misses: int, times: int) -> float:
    if misses == times:
        return 1.0
    if not misses:  # the closed form, which needs no SciPy
        return 1 - float((1 - _CONFIDENCE) ** (1 / times))
    from scipy.stats import beta  # noqa: PLC0415  heavy, and rarely needed

    return float(beta.ppf(_CONFIDENCE, misses + 1, times - misses))
