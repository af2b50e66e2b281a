"""Calibration of a base model's forecasts by measured times, as in the report on execution times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.studies.bounds.base import (
    ROUNDING,
    BoundAnswer,
    BoundQuestion,
    Curve,
    Regressors,
    judged_times,
    largest_of,
    regressors_of,
)

#: How a base model is fitted to what it learns from.
BaseFit = Callable[[Regressors], Curve]

#: Section 3.6: 3 % in steps of 2 % up to 13 %.
MARGINS = (0.03, 0.05, 0.07, 0.09, 0.11, 0.13)


@dataclass(frozen=True, slots=True)
class Affine:
    """``slope forecast + intercept``, in seconds."""

    slope: float
    intercept: float

    def applied_to(self, raw: Curve) -> Curve:
        """Return the calibrated curve; no time is below 0."""
        return Curve(raw.counts, tuple(max(0.0, self.slope * each + self.intercept) for each in raw.seconds))


def affine_through(raw: Curve, measured: Curve) -> Affine:
    """BaseFit the affine calibration of section 3.8 by least squares over the measured counts.

    One count, or forecasts that do not differ, leave only the scale; forecasts at or below 0 only the shift.

    >>> affine_through(Curve((1, 7), (10.0, 4.0)), Curve((1, 7), (21.0, 9.0)))
    Affine(slope=2.0, intercept=1.0)
    """
    forecast, truth = raw.at(measured.counts), np.array(measured.seconds)
    deviations = forecast - forecast.mean()
    if np.abs(deviations).max() > ROUNDING * np.abs(forecast).max():
        slope = float((deviations * truth).sum() / (deviations**2).sum())
        return Affine(_rounded(slope), _rounded(float(truth.mean() - slope * forecast.mean())))
    if forecast.mean() > 0:
        return Affine(float(truth.mean() / forecast.mean()), 0.0)
    return Affine(1.0, float(truth.mean() - forecast.mean()))


def _rounded(value: float) -> float:
    """Return the value without what the last bits of a sum leave."""
    return float(f"{value:.14g}")


def with_margin(calibrated: Curve, question: BoundQuestion, margin: float, *, is_enough: bool = True) -> BoundAnswer:
    """Return a calibrated curve with a share added, but for the counts that it was calibrated on: there it is exact."""
    exact = largest_of(question.measured)
    times = calibrated.at(question.tpcs)
    return BoundAnswer(
        expected=tuple(exact.instead_of(times, question.tpcs).tolist()),
        bound=tuple(exact.instead_of(times * (1 + margin), question.tpcs).tolist()),
        calibrated_on=exact.counts,
        margin=margin,
        is_enough=is_enough,
    )


def adaptive_margin(forecast: Sequence[float], truth: Sequence[float]) -> tuple[float, bool]:
    """Return the least margin of section 3.6 that lifts every forecast to its actual time, and whether one does.

    >>> adaptive_margin([1.0, 2.0], [1.04, 1.9]), adaptive_margin([1.0], [1.2])
    ((0.05, True), (0.13, False))
    """
    for margin in MARGINS:
        if all(each * (1 + margin) >= actual for each, actual in zip(forecast, truth, strict=True)):
            return margin, True
    return MARGINS[-1], False


def left_out_margin(raw: Curve, measured: Curve) -> tuple[float, bool]:
    """Return the margin that lifts each measured time when the calibration does not know it; needs two counts."""
    if len(measured.counts) < 2:
        return MARGINS[-1], False
    forecast = []
    for left_out in measured.counts:
        kept = tuple(count for count in measured.counts if count != left_out)
        calibrated = affine_through(raw, Curve(kept, tuple(measured.at(kept).tolist()))).applied_to(raw)
        forecast.append(float(calibrated.at((left_out,))[0]))
    return adaptive_margin(forecast, measured.seconds)


def with_least_margin(question: BoundQuestion, fit: BaseFit, oracle: str | None = None) -> BoundAnswer:
    """Return the calibrated fit with the least margin that lifts every time it is judged by.

    An ``oracle``, given by its name, is judged by the times that it is to forecast; any other method by its anchors,
    each of which is left out in turn.
    """
    raw = fit(regressors_of(question))
    anchors = largest_of(question.measured)
    calibrated = affine_through(raw, anchors).applied_to(raw)
    if oracle is None:
        margin, is_enough = left_out_margin(raw, anchors)
    else:
        judged = judged_times(question, oracle)
        others = [count for count in judged.counts if count not in question.anchors]
        margin, is_enough = adaptive_margin(calibrated.at(others).tolist(), judged.at(others).tolist())
    return with_margin(calibrated, question, margin, is_enough=is_enough)
