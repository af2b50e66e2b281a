"""NOUN Scores: how far forecasts are from measured times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.errors import InputError


@dataclass(frozen=True, slots=True)
class Scores:
    """Errors of some forecasts; those with a unit are in the unit of the times, seconds unless said otherwise."""

    n: int
    mae: float
    """mean absolute error"""
    max_ae: float
    """largest absolute error"""
    mse: float
    """mean squared error, in the unit squared"""
    r2: float
    """coefficient of determination; not a number where all measured times are equal"""
    mape: float
    """mean absolute percentage error, as a share"""

    @property
    def known_r2(self) -> float | None:
        """Coefficient of determination; None where all measured times are equal."""
        return None if math.isnan(self.r2) else self.r2

    @property
    def rmse(self) -> float:
        """Root of the mean squared error."""
        return math.sqrt(self.mse)


def scores_of(measured: Sequence[float], forecast: Sequence[float]) -> Scores:
    """Return the scores of forecasts beside measured times; raises InputError where they are not as many, or none.

    Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, section 3.7.

    >>> scores = scores_of([1.0, 2.0, 4.0], [1.5, 2.0, 3.0])
    >>> scores.mae, scores.max_ae, round(scores.rmse, 4), round(scores.r2, 4), scores.mape
    (0.5, 1.0, 0.6455, 0.7321, 0.25)
    """
    truth, guess = np.asarray(measured, np.float64), np.asarray(forecast, np.float64)
    if truth.shape != guess.shape or truth.ndim != 1 or not truth.size:
        raise InputError(
            f"{guess.size} forecasts for {truth.size} measured times", cure="Give one forecast for each time."
        )
    errors = np.abs(truth - guess)
    squares = float(np.mean(errors**2))
    spread = float(np.var(truth)) if np.ptp(truth) > 0 else 0.0  # rounding leaves a variance of equal times
    return Scores(
        n=int(truth.size),
        mae=float(errors.mean()),
        max_ae=float(errors.max()),
        mse=squares,
        r2=1 - squares / spread if spread else math.nan,
        mape=float(np.mean(errors / truth)),
    )
