"""The fitted tail of many repeats as a bound of a single run.

Each TPC count with enough repeats has a tail of its own. Where there are too few, the heaviest of these tails is taken
relative to the median, around what the launch's simulation or the learned curves bound a typical time by: of these
counts nothing is promised. Refused where the runs of a count with enough of them do not meet what the theory needs
(studies/bounds/extreme_values.py).
"""

from dataclasses import dataclass, replace

import numpy as np

from kerncast.errors import Refusal
from kerncast.measurements import PartitionTimes
from kerncast.studies.bounds.base import (
    BoundAnswer,
    BoundQuestion,
    Curve,
    Floats,
    Kind,
    answer_on,
    at_least_measured,
    typical_of,
)
from kerncast.studies.bounds.extreme_values import LEAST_RUNS, ExtremeFit, Tail, fit_extremes
from kerncast.studies.bounds.shapes import expected_curve, read_shapes, shape_bounds
from kerncast.studies.bounds.simulation import corrected, typical_bounds


@dataclass(frozen=True, slots=True)
class ExtremeBound:
    """Bound by the upper confidence limit of the time that a run passes with the probability 1 - level."""

    tail: Tail = Tail.THRESHOLD
    kind: Kind = Kind.EXTREME
    has_base_model: bool = False

    @property
    def name(self) -> str:
        """Name for ``--method``."""
        return self.tail.value

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the limits; raises Refusal where no count has runs that can be fitted."""
        measured, counts = question.measured, question.counts
        fits = _fits(measured, self.tail)
        limits = {count: fit.upper(question.risk) for count, fit in fits.items()}
        heaviest = max(fits, key=lambda count: limits[count] / measured.typical(count))
        tail = limits[heaviest] / measured.typical(heaviest)
        expected, typical = _typical(question)
        bounds = np.array([limits.get(count, each * tail) for count, each in zip(counts, typical, strict=True)])
        answer = answer_on(question, counts, at_least_measured(bounds, measured, counts), expected)
        return replace(answer, calibrated_on=tuple(sorted(fits)), extremes=fits[heaviest])


def _fits(measured: PartitionTimes, tail: Tail) -> dict[int, ExtremeFit]:
    """Return the fitted tail of each count with enough runs; raises Refusal where one has no fit, or none enough."""
    by_count = measured.by_count()
    enough = {count: seconds for count, seconds in by_count.items() if len(seconds) >= LEAST_RUNS}
    if not enough:  # told with the number of runs of the count that has most
        enough = dict([max(by_count.items(), key=lambda each: len(each[1]))])
    found: dict[int, ExtremeFit] = {}
    for count, seconds in enough.items():
        try:
            found[count] = fit_extremes(seconds, tail)
        except Refusal as refusal:
            raise type(refusal)(refusal.what, where=f"{count} TPCs", cure=refusal.cure) from None
    return found


def _typical(question: BoundQuestion) -> tuple[Curve, Floats]:
    """Return expected times of all counts, and what bounds a typical one: the medians where they were measured."""
    counts, medians = question.counts, typical_of(question.measured).never_rising()
    if question.simulated is not None:
        high = typical_bounds(question.simulated, question.measured, question.level)
        return corrected(question.simulated, question.measured), medians.instead_of(high.at(counts), counts)
    expected = expected_curve(medians, counts, question.most)
    return expected, medians.instead_of(
        shape_bounds(read_shapes(), medians, (counts, question.most), question.level), counts
    )
