"""Bounds that no run below them raises: measured runs are taken one after the other, in their order.

The first run gives a bound of every count. A run that stays below its bound confirms it: from then on each count has
the lower of its bound so far and the one that all runs up to now give. A run above its bound refutes it, and the bounds
are found anew. So what is promised is taken back by a run that broke it, and by nothing else.
"""

from collections.abc import Callable

import numpy as np

from kerncast.measurements import PartitionTimes
from kerncast.studies.bounds.base import ROUNDING, Floats, at_least_measured

#: Bounds in seconds of ascending counts, from some runs.
Estimate = Callable[[PartitionTimes], Floats]

#: Each of the first few runs of a count finds the bounds again, then those whose number has grown by this factor.
_FEW, _GROWTH = 5, 1.5
#: Beyond so many runs of all counts, only the first run of a count does, and those whose number among all has grown.
_MANY = 1000


def bounds_in_order(times: PartitionTimes, counts: tuple[int, ...], estimate: Estimate) -> Floats:
    """Return bounds in seconds of ascending counts, which hold all measured ones; none is below a run on as many TPCs.

    >>> twice = lambda runs: np.array([2 * runs.seconds[0], 2 * runs.seconds[0]])
    >>> bounds_in_order(PartitionTimes((1, 1), (3.0, 5.9)), (1, 2), twice).tolist()
    [6.0, 6.0]
    """
    place = {count: number for number, count in enumerate(counts)}
    seen: dict[int, int] = {}
    found: Floats | None = None
    for number, (count, seconds) in enumerate(zip(times.tpcs, times.seconds, strict=True), start=1):
        seen[count] = seen.get(count, 0) + 1
        is_broken = found is not None and seconds > found[place[count]] * (1 + ROUNDING)
        is_due = seen[count] == 1 or _is_due(seen[count] if number <= _MANY else number)
        if found is not None and not is_broken and not is_due:
            continue
        runs = times.first(number)
        now = at_least_measured(estimate(runs), runs, counts)
        found = now if found is None or is_broken else np.minimum(found, now)
    assert found is not None
    return at_least_measured(found, times, counts)


def _is_due(number: int) -> bool:
    """Whether a run of this number finds the bounds again; that others do not saves time only."""
    due = _FEW
    while due < number:
        due = int(due * _GROWTH)
    return number <= _FEW or due == number
