"""The longest time of any kernel of equal blocks that has the measured times: staircases of waves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from kerncast.studies.bounds.base import (
    ROUNDING,
    BoundAnswer,
    BoundQuestion,
    Contradiction,
    Curve,
    Floats,
    Kind,
    spread_of,
    typical_of,
)
from kerncast.studies.bounds.list_scheduling import bound_of_medians, graham

#: Grids of up to so many waves on all TPCs are tried one by one; those beyond are bounded together.
_MOST_WAVES = 64


@dataclass(frozen=True, slots=True)
class EqualBlocks:
    """Bound by the upper envelope of ``t(k) = o + d ceil(N/k)`` over all overheads o, durations d and grids of N.

    1/k and affine curves are its limit of many blocks, and convex saturating curves lie below those. Per pair of
    measured counts it is the least bound that holds for all of them: no method can be tighter without being wrong for
    one (docs/bound.md). With the number of blocks and of those that a TPC runs at a time, N is known, and two counts
    of different waves determine the curve. Fails where blocks differ in duration, where list-scheduling still holds.
    """

    name: str = "equal-blocks"
    kind: Kind = Kind.ANALYTICAL
    has_base_model: bool = False

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the envelope of the median times, times the spread of their repeats."""
        grid = None if question.blocks is None else int(question.blocks.waves((1,))[0])

        def limits(medians: Curve, counts: Sequence[int], factor: float) -> Floats:
            return np.minimum(envelope(medians, counts, grid, factor - 1), graham(medians, counts))

        answer = bound_of_medians(question, limits)
        factor = spread_of(question.measured, question.risk).factor
        medians = typical_of(question.measured).never_rising()
        found = envelope(medians, question.tpcs, grid, factor - 1)
        if grid is not None:  # what the steps give is what is expected
            steps = np.minimum(found, np.array(answer.bound))
            answer = replace(answer, expected=tuple(medians.instead_of(steps, question.tpcs).tolist()))
        if np.isfinite(found).all():
            return answer
        return replace(answer, contradictions=(*answer.contradictions, Contradiction.NO_STAIRCASE))


def envelope(measured: Curve, tpcs: Sequence[int], grid: int | None = None, tolerance: float = 0.0) -> Floats:
    """Return the longest time in seconds of any staircase through two measured counts, the least over all pairs.

    ``grid`` is the number of blocks divided by those that a TPC runs at a time, if it is known; ``tolerance`` how far
    below 0, as a share of the shorter time, noise may put the overhead. Infinite where no staircase has the times.

    >>> envelope(Curve((1, 40), (40.0, 1.0)), (2, 20, 39)).round(2).tolist(), envelope(
    ...     Curve((1, 40), (85.0, 4.0)), (2, 20, 39), grid=82).round(2).tolist()
    ([20.02, 2.02, 2.0], [42.96, 6.05, 4.0])
    """
    wanted = np.array(tpcs, np.float64)
    least = np.full(len(wanted), np.inf)
    pairs = list(combinations(zip(measured.counts, measured.seconds, strict=True), 2))
    for fewer, more in pairs:
        grids = np.arange(1.0, _MOST_WAVES * more[0] + 1) if grid is None else np.array([float(grid)])
        found = _longest_staircase(fewer, more, grids, (wanted, tolerance + ROUNDING))
        if grid is None:
            found = np.maximum(found, _beyond(fewer, more, wanted, tolerance + ROUNDING))
        is_between = (wanted >= fewer[0]) & (wanted <= more[0])
        least = np.where(is_between & (found > 0), np.minimum(least, found), least)
    return least


def _longest_staircase(
    fewer: tuple[int, float], more: tuple[int, float], grids: Floats, wanted: tuple[Floats, float]
) -> Floats:
    """Return the longest time of the grids that have both times, 0 where there is none."""
    (first, slow), (last, fast), (counts, tolerance) = fewer, more, wanted
    many, few = np.ceil(grids / first), np.ceil(grids / last)
    steps = many - few
    with np.errstate(divide="ignore", invalid="ignore"):
        duration = np.where(steps > 0, (slow - fast) / steps, 0.0)
    overhead = fast - duration * few
    fits = (overhead >= -tolerance * fast) & ((steps > 0) | (slow - fast <= tolerance * fast))
    times = fast + duration * (np.ceil(grids / counts[:, np.newaxis]) - few)
    return np.asarray(np.where(fits, times, 0.0).max(axis=1), np.float64)


def _beyond(fewer: tuple[int, float], more: tuple[int, float], wanted: Floats, tolerance: float) -> Floats:
    """Return a bound of all staircases of more blocks: a step is at most one wave above the straight line in 1/k."""
    (first, slow), (last, fast) = fewer, more
    blocks = _MOST_WAVES * last
    if slow / fast > last / first * (1 + first / blocks) * (1 + tolerance):
        return np.zeros(len(wanted))
    rise = (blocks * (1 / wanted - 1 / last) + 1) / (blocks * (1 / first - 1 / last) - 1)
    return fast + (slow - fast) * rise
