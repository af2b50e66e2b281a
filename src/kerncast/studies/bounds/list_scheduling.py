"""No greedy schedule of the kernel's blocks takes longer (Graham's bound)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncast.measurements import PartitionTimes
from kerncast.studies.bounds.base import (
    ROUNDING,
    BoundAnswer,
    BoundQuestion,
    Contradiction,
    Curve,
    Floats,
    Kind,
    answer_on,
    between,
    spread_of,
    typical_of,
)
from kerncast.studies.bounds.sequence import bounds_in_order


@dataclass(frozen=True, slots=True)
class ListScheduling:
    """Bound any list schedule, any curve that is convex in 1/k, and any sum or maximum of such curves.

    ``t(k) <= (i/k) t(i) + (1 - 1/k) min_j t(j)`` for every measured count i, and ``t(k) <= t(i)`` for i <= k.
    Source: R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969: a list schedule
    of work W with the longest job p on k machines takes at most ``W/k + (1 - 1/k) p``. Here a TPC is a machine and a
    block (or what one TPC runs at a time) a job: ``W <= i t(i)``, and no block outlasts a run: ``p <= t(j)``.
    The proof for the other curves stands in docs/bound.md. Fails where blocks take longer on fewer TPCs, where blocks
    wait for one another, and where time falls by less than 1/k without being convex in it, such as k**-0.7.
    """

    name: str = "list-scheduling"
    kind: Kind = Kind.ANALYTICAL
    has_base_model: bool = False

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return Graham's bound of the median times, times the spread of their repeats."""
        per_tpc = question.blocks.per_tpc if question.blocks else 1

        def limits(medians: Curve, counts: Sequence[int], _: float) -> Floats:
            return graham(medians, counts, per_tpc)

        answer = bound_of_medians(question, limits, per_tpc)
        medians = typical_of(question.measured).never_rising()
        return replace(answer, measure_next=measure_next(medians, question.tpcs, per_tpc))


#: Bounds in seconds of medians, without the spread of the repeats: of some counts, with the factor of the spread.
Limits = Callable[[Curve, Sequence[int], float], Floats]


def bound_of_medians(question: BoundQuestion, limits: Limits, per_tpc: int = 1) -> BoundAnswer:
    """Return a bound of median times, times the spread of their repeats; no run below it raises it."""
    measured, counts = question.measured, question.counts

    def estimate(runs: PartitionTimes) -> Floats:
        factor = spread_of(runs, question.risk).factor
        medians, _ = consistent(typical_of(runs), factor, per_tpc)
        return limits(medians, counts, factor) * factor

    spread = spread_of(measured, question.risk)
    medians, contradictions = consistent(typical_of(measured), spread.factor, per_tpc)
    # Times that contradict one another can put the line between two of them above the bound: it is cut there.
    lines = Curve(counts, tuple(typical_of(measured).instead_of(between(medians, counts), counts).tolist()))
    answer = answer_on(question, counts, bounds_in_order(measured, counts, estimate), lines)
    return replace(answer, spread=spread, contradictions=contradictions)


def graham(measured: Curve, tpcs: Sequence[int], per_tpc: int = 1) -> Floats:
    """Return Graham's bound in seconds for some numbers of TPCs, from a curve that never rises; never below it.

    ``per_tpc`` is how many blocks a TPC runs at a time, each as fast as if it were alone: then k TPCs are
    ``k per_tpc`` machines.

    >>> graham(Curve((1, 40), (40.0, 1.0)), (2, 20, 39)).round(3).tolist()
    [20.5, 2.95, 2.0]
    """
    counts, seconds = np.array(measured.counts, np.float64), np.array(measured.seconds)
    wanted = np.array(tpcs, np.float64)
    work = np.broadcast_to(counts * seconds, (len(wanted), len(counts)))
    has_fewer = counts <= wanted[:, np.newaxis]
    if _grows_with_fewer(counts * seconds):
        # Counts above are no evidence of the work; below the fewest, those are all that there is.
        usable = has_fewer | ~has_fewer.any(axis=1, keepdims=True) & (counts == counts[0])
        work = np.where(usable, work, np.inf)
    longest_block = (1 - 1 / (wanted * per_tpc)) * seconds.min()
    fewer = np.where(has_fewer, seconds, np.inf).min(axis=1)
    bounds = np.minimum(work.min(axis=1) / wanted + longest_block, fewer)
    more = np.append(seconds, 0.0)[np.searchsorted(counts, wanted)]
    return np.asarray(np.maximum(bounds, more), np.float64)


def _grows_with_fewer(work: Floats) -> bool:
    return bool((np.diff(work) < -ROUNDING * work[:-1]).any())


def consistent(measured: Curve, factor: float, per_tpc: int = 1) -> tuple[Curve, tuple[Contradiction, ...]]:
    """Return the lowest curve above the measured one that never rises, and what contradicts the assumptions.

    Differences within the factor of the spread contradict nothing. On i TPCs, blocks of the length p that end last
    leave all but ``(i - 1) p`` of ``i t(i)`` as work, which j TPCs cannot do in less than that over j: a staircase may
    speed up by more than its TPCs grew, up to this.
    """
    counts, seconds = np.array(measured.counts, np.float64), np.array(measured.seconds)
    tolerance = factor * (1 + ROUNDING)
    falling = np.maximum.accumulate(seconds[::-1])[::-1]
    least_work = counts * seconds - (counts - 1 / per_tpc) * seconds.min()
    found = []
    if (falling > seconds * tolerance).any():
        found.append(Contradiction.SLOWER_WITH_MORE)
    if (np.maximum.accumulate(least_work) > counts * seconds * tolerance).any():
        found.append(Contradiction.LESS_WORK_WITH_MORE)
    curve = Curve(measured.counts, tuple(falling.tolist()))
    if any(time > _bound_of_others(curve, place, per_tpc) * tolerance for place, time in enumerate(curve.seconds)):
        found.append(Contradiction.ABOVE_OTHERS)
    return curve, tuple(found)


def _bound_of_others(curve: Curve, place: int, per_tpc: int) -> float:
    """Return what the other counts bound one between them by; its own time for the fewest and the most."""
    if place in {0, len(curve.counts) - 1}:
        return curve.seconds[place]
    others = Curve(curve.counts[:place] + curve.counts[place + 1 :], curve.seconds[:place] + curve.seconds[place + 1 :])
    return float(graham(others, (curve.counts[place],), per_tpc)[0])


def measure_next(measured: Curve, tpcs: Sequence[int], per_tpc: int = 1) -> int | None:
    """Return the count whose time would lower the bounds most on average, if it were the expected one.

    >>> measure_next(Curve((1, 40), (40.0, 1.0)), tuple(range(1, 41)))
    26
    """
    expected = between(measured, tpcs)

    def looseness(count: int, seconds: float) -> float:
        return float((graham(measured.with_point(count, seconds), tpcs, per_tpc) / expected).mean())

    unmeasured = {
        count: looseness(count, float(time))
        for count, time in zip(tpcs, expected, strict=True)
        if count not in measured.counts
    }
    return min(unmeasured, key=lambda count: unmeasured[count]) if unmeasured else None
