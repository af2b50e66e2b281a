"""SciPy's curve_fit of a linear model, exact at the anchors, with a margin of 3 % or the least that lifts all."""

import warnings
from dataclasses import dataclass

import numpy as np

from kerncast.studies.bounds.base import (
    BoundAnswer,
    BoundQuestion,
    Curve,
    Floats,
    Kind,
    Regressors,
    largest_of,
    regressors_of,
    standard_scale,
)
from kerncast.studies.bounds.published.calibration import MARGINS, affine_through, with_least_margin, with_margin


@dataclass(frozen=True, slots=True)
class CurveFit:
    """A weight per standardised feature and an intercept: six for the five features of section 3.2; x 1.03.

    Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.4.2 and 3.6. A linear model
    that curve_fit fits is the least-squares one: up to the margin this is linear-regression. Fails as that does.
    """

    name: str = "curve-fit"
    kind: Kind = Kind.MARGIN
    has_base_model: bool = True

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the calibrated fit with its margin."""
        raw = fitted_curve(regressors_of(question))
        calibrated = affine_through(raw, largest_of(question.measured)).applied_to(raw)
        return with_margin(calibrated, question, MARGINS[0])


def fitted_curve(regressors: Regressors) -> Curve:
    """Return the forecast times in seconds of all counts, by curve_fit over the launches learned from."""
    from scipy.optimize import OptimizeWarning, curve_fit  # noqa: PLC0415

    middle, scale = regressors.training_values.mean(axis=0), standard_scale(regressors.training_values)
    unit = float(regressors.training_seconds.mean())

    def linear(values: Floats, *coefficients: float) -> Floats:
        return np.asarray(values @ np.array(coefficients[:-1]) + coefficients[-1])

    start = np.append(np.zeros(len(middle)), 1.0)
    with warnings.catch_warnings():  # as many launches as coefficients: the fit is right, its covariance unknown
        warnings.simplefilter("ignore", OptimizeWarning)
        found, _ = curve_fit(
            linear, (regressors.training_values - middle) / scale, regressors.training_seconds / unit, p0=start,
            method="trf",
        )  # fmt: skip
    forecast = linear((regressors.values - middle) / scale, *found) * unit
    return Curve(regressors.counts, tuple(forecast.tolist()))


@dataclass(frozen=True, slots=True)
class CurveFitAdaptive:
    """3 %, raised by 2 % up to 13 % until every forecast exceeds its actual time.

    Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, section 3.6. As published it compares
    with the times that it is to forecast: that is the oracle. Without it, each anchor in turn is left out of the
    calibration and must be exceeded. Fails where 13 % is not enough: the answer then says so, where it can know.
    """

    is_oracle: bool = False
    kind: Kind = Kind.MARGIN
    has_base_model: bool = True

    @property
    def name(self) -> str:
        """Name for ``--method``."""
        return "curve-fit-adaptive-oracle" if self.is_oracle else "curve-fit-adaptive"

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the calibrated fit with the margin found."""
        return with_least_margin(question, fitted_curve, self.name if self.is_oracle else None)
