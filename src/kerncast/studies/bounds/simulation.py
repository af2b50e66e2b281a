"""The launch simulated on each number of TPCs, as measured times correct it: the default for launches.

Without times, the bound is the upper end of the simulation's interval (models/calibration.py: split conformal over
kernel families of 15 GPUs). Times on other counts of the same board tell most of that error. e(k), ln of measured over
simulated on k TPCs, is taken as a sum of normal effects: one that all counts share, one of each class of resources, as
large as the resource's share of the time there, and one that drifts with ln(k). The equations are those of
models/transfer/posterior.py. Fails where a kernel is unlike all that were measured, or the machine is not left to it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from kerncast.measurements import PartitionTimes
from kerncast.models import DEFAULT_MODEL
from kerncast.models.calibration import calibration_of
from kerncast.models.clock import blame_of
from kerncast.models.transfer.posterior import read_effects
from kerncast.observation import LEAST_VARIANCE
from kerncast.prediction import Prediction
from kerncast.studies.bounds.base import (
    BoundAnswer,
    BoundQuestion,
    Contradiction,
    Curve,
    Floats,
    Kind,
    answer_on,
    never_rising,
    passed_with,
    run_tails,
)
from kerncast.studies.bounds.sequence import bounds_in_order

#: Standard deviation of the effect of a class of resources, over the deviation that its file gives, which half of the
#: errors exceed. Pairs of boards of one architecture, 736 of 16 kernels: with it, and 0.083 for the boards, the
#: standardised errors of a time that is carried over have the quantiles 0.61, 1.65, 1.89 and 2.81 at 50, 90, 95 and
#: 99 %, a normal one has 0.67, 1.64, 1.96 and 2.58 (benchmarks/score_partition_errors.py).
_PER_DEVIATION = 1.5
#: Variance by which the error drifts while the TPCs double: 258 pairs of launches of 10 kernels, whose grids differ by
#: a factor of two at most, on one board and limited by the same resources, err apart by 2.9 %.
_DRIFT_PER_DOUBLING = 0.029**2
#: Values that stand for a normal distribution, and the furthest in standard deviations.
_NODES, _FURTHEST = 241, 6.0


@dataclass(frozen=True, slots=True)
class SimulatedCurve:
    """The simulation of one launch on ascending numbers of TPCs."""

    seconds: Curve
    high: Curve
    """upper ends of the intervals of ``level``"""
    level: float
    effects: Floats
    """[counts, effects] weights of independent effects of variance 1 in ln(measured / simulated)"""

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of TPCs."""
        return self.seconds.counts


def simulated_curve(counts: Sequence[int], predictions: Sequence[Prediction], level: float) -> SimulatedCurve:
    """Return the curve of the forecasts of one launch on parts of a GPU."""
    shares = [blame_of(each.seconds, each.terms) for each in predictions]
    return SimulatedCurve(
        Curve(tuple(counts), tuple(each.seconds for each in predictions)).never_rising(),
        Curve(tuple(counts), tuple(each.high for each in predictions)).never_rising(),
        level,
        _effects(counts, shares),
    )


def _effects(counts: Sequence[int], shares: Sequence[Mapping[str, float]]) -> Floats:
    """Return [counts, effects] their weights: the shared one, one per class of resources, one per step in counts."""
    calibration = calibration_of(DEFAULT_MODEL)
    of_classes = [calibration.shares_of_classes(row) for row in shares] if calibration else []
    columns = [
        np.full(len(counts), math.sqrt(read_effects().prior)),
        *(
            _PER_DEVIATION * each.deviation * np.array([row[each.name] for row in of_classes])
            for each in (calibration.classes if calibration else ())
        ),
    ]
    steps = np.diff(np.log2(np.array(counts, np.float64)), prepend=0.0)
    drift = np.tril(np.ones((len(counts), len(counts)))) * np.sqrt(_DRIFT_PER_DOUBLING * steps)
    return np.column_stack([*columns, drift])


@dataclass(frozen=True, slots=True)
class SimulationBound:
    """Bound by what a run passes with the probability 1 - level, by the error of the curve and how runs differ.

    Its median is S(k) exp(e(k)), e normal; without times ln of it is spread as the interval of the simulation is.
    """

    name: str = "simulation"
    kind: Kind = Kind.CONFORMAL
    has_base_model: bool = False

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the corrected curve and its bounds, which hold every measured time."""
        curve, runs, risk = question.curve, question.runs, question.risk

        def estimate(some: PartitionTimes) -> Floats:
            return bounds_of(curve, some, risk)

        found = bounds_of(curve, None, risk) if runs is None else bounds_in_order(runs, curve.counts, estimate)
        return replace(
            answer_on(question, curve.counts, found, corrected(curve, runs)),
            contradictions=contradictions(curve, runs),
            measure_next=measure_next(question),
        )


def bounds_of(curve: SimulatedCurve, runs: PartitionTimes | None, risk: float) -> Floats:
    """Return [counts] seconds that a run passes with the probability ``risk``; they never rise with more TPCs."""
    logs, tails = np.log(curve.seconds.seconds), run_tails(runs, curve.counts)
    normal = np.linspace(-_FURTHEST, _FURTHEST, _NODES)
    weights = np.exp(-(normal**2) / 2)
    if runs is None:  # the interval's high end is passed with (1 - level) / 2
        deviation = (np.log(curve.high.seconds) - logs) / NormalDist().inv_cdf((1 + curve.level) / 2)
        nodes = logs + normal[:, np.newaxis] * deviation
    else:
        mean, deviation = _errors(curve, runs)
        nodes = logs + mean + normal[:, np.newaxis] * deviation
    return np.array(never_rising(np.exp(passed_with(risk, nodes, weights / weights.sum(), tails))))


def contradictions(curve: SimulatedCurve, runs: PartitionTimes | None) -> tuple[Contradiction, ...]:
    """Return whether a measured median lies outside the interval of its simulation."""
    if runs is None:
        return ()
    seconds, high = (dict(zip(curve.counts, each.seconds, strict=True)) for each in (curve.seconds, curve.high))
    is_far = (
        abs(math.log(runs.typical(count) / seconds[count])) > math.log(high[count] / seconds[count])
        for count in runs.counts
    )
    return (Contradiction.FAR_FROM_SIMULATION,) if any(is_far) else ()


def corrected(curve: SimulatedCurve, runs: PartitionTimes | None) -> Curve:
    """Return the times that are expected, as measured runs move the simulated ones."""
    if runs is None:
        return curve.seconds
    return Curve(curve.counts, never_rising(np.array(curve.seconds.seconds) * np.exp(_errors(curve, runs)[0])))


def typical_bounds(curve: SimulatedCurve, runs: PartitionTimes, level: float) -> Curve:
    """Return the times that a median exceeds with the probability 1 - level."""
    mean, deviation = _errors(curve, runs)
    high = np.array(curve.seconds.seconds) * np.exp(mean + NormalDist().inv_cdf(level) * deviation)
    return Curve(curve.counts, never_rising(high))


def _errors(curve: SimulatedCurve, runs: PartitionTimes) -> tuple[Floats, Floats]:
    """Return [counts] mean and standard deviation of ln(measured / simulated), given the measured medians.

    A median of n runs is as uncertain as their spread allows.
    """
    place = {count: number for number, count in enumerate(curve.counts)}
    by_count = {place[count]: np.log(times) for count, times in runs.by_count().items()}
    known = list(by_count)
    logs = np.log(curve.seconds.seconds)
    found = np.array([float(np.median(times)) - logs[number] for number, times in by_count.items()])
    noise = np.array([
        max(LEAST_VARIANCE, float(times.var(ddof=1)) / len(times) if len(times) > 1 else read_effects().measurement)
        for times in by_count.values()
    ])  # fmt: skip
    among = curve.effects @ curve.effects.T
    weights = np.linalg.solve(among[np.ix_(known, known)] + np.diag(noise), among[known])
    left = np.diag(among) - (among[known] * weights).sum(axis=0)
    return weights.T @ found, np.sqrt(np.maximum(left, 0.0))


def measure_next(question: BoundQuestion) -> int | None:
    """Return the count whose time would lower the bounds of those asked for most, if it came out as expected."""
    curve, runs = question.curve, question.runs
    expected = corrected(curve, runs)
    asked = [curve.counts.index(count) for count in question.tpcs]

    def looseness(count: int) -> float:
        times = (*(runs.seconds if runs else ()), float(expected.at((count,))[0]))
        more = PartitionTimes((*(runs.tpcs if runs else ()), count), times)
        return float(_errors(curve, more)[1][asked].mean())

    left = [count for count in question.tpcs if runs is None or count not in runs.counts]
    return min(left, key=looseness) if left else None
