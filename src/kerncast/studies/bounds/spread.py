"""How far a run that nobody has measured may be above the usual one, by the repeats of those that were."""

import math
from dataclasses import dataclass
from statistics import median

from kerncast.partition_times import PartitionTimes

#: That the longest of as many runs as were measured passes the factor.
RISK = 0.05
_MOST_FACTOR = 100.0


@dataclass(frozen=True, slots=True)
class Spread:
    """What the repeats say of a run's distance from the median."""

    factor: float
    """of the median that the longest of so many runs stays below but for the risk; 1 where nothing was repeated"""
    runs: int
    """repeats of the count that has most"""
    risk: float


def spread_of(times: PartitionTimes, risk: float = RISK) -> Spread:
    """Return the spread of all repeats, taken to be the same factor on any number of TPCs.

    Above the median, the logarithm of a run's ratio to it is taken to be exponential: a Pareto tail, heavier than the
    normal one. If j ratios above it have the mean m, a further one passes ``c m`` with the probability
    ``(1 + c/j)**-j``, what is not known of m included, and half of all runs are above the median. The longest of n
    runs passes it with at most n/2 times that, which is the risk for ``c = j ((n / (2 risk))**(1/j) - 1)``.
    Rare slow runs hide in a mean. The longest of j such logarithms is about ``m log j``, which gives m again: the
    larger factor is taken. No factor is above 100: where more were needed, the risk is the one that is left. Fails
    where runs depend on one another, or where a slow mode was never seen.

    >>> spread_of(PartitionTimes((1, 2), (2.0, 1.0))).factor
    1.0
    """
    above: list[float] = []
    largest, runs = 1.0, 1
    for count in times.counts:
        repeats = times.repeats(count)
        middle = median(repeats)
        runs = max(runs, len(repeats))
        largest = max(largest, max(repeats) / middle)
        # Of n runs, n // 2 are above the median, those that equal it among them.
        above += sorted(math.log(each / middle) for each in repeats)[(len(repeats) + 1) // 2 :]
    if not above:
        return Spread(largest, runs, risk)
    number = len(above)
    multiple = number * ((runs / (2 * risk)) ** (1 / number) - 1)
    exponent = multiple * sum(above) / number
    if number > 1:
        exponent = max(exponent, math.log(runs / (2 * risk)) / math.log(number) * max(above))
    if exponent > math.log(_MOST_FACTOR):
        exponent = math.log(_MOST_FACTOR)
        risk = max(risk, _risk_beyond(exponent, above, runs))
    return Spread(max(largest, math.exp(exponent)), runs, risk)


def _risk_beyond(exponent: float, above: list[float], runs: int) -> float:
    """Return the probability that the longest of so many runs passes a factor, by the larger of both tails."""
    number, most = len(above), max(above)
    tails = [(1 + exponent / sum(above)) ** -number]
    if number > 1:
        tails.append(number ** (-exponent / most))
    return min(1.0, runs / 2 * max(tails))
