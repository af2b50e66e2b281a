"""Sums and ratios of counts, with intervals that enclose them."""

import math
from collections.abc import Iterable

from kerncast.kernel_profile import Count
from kerncast.units import PERCENT

ZERO = Count.exact(0)


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of counts."""
    return sum(counts, start=ZERO)


def ratio(above: Count, below: Count, most: float = math.inf) -> Count | None:
    """Return a ratio that is at most ``most``; None where the denominator is zero or may be.

    Both counts come from one sample, so that their errors mostly cancel: the interval, which takes them as if they
    did not, is wider than the truth needs.
    """
    if not below.value or (below.low <= 0 and math.isinf(most)):
        return None
    high = min(most, above.high / below.low) if below.low > 0 else most
    value = min(most, above.value / below.value)
    return Count(value, min(value, above.low / below.high), max(value, high))


def percentage(part: Count, whole: Count) -> Count | None:
    """Return a part in percent of the whole; None where there is nothing.

    >>> percentage(Count.exact(3), Count.exact(4))
    Count(value=75.0, low=75.0, high=75.0)
    """
    share = ratio(part, whole, 1.0)
    return None if share is None else share.times(1 / PERCENT)
