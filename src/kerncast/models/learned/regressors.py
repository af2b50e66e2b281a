"""Trained models as arrays and an equation each: no library that trained them is needed to forecast."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kerncast.errors import InputError
from kerncast.measurements.feature_table import Floats
from kerncast.models.learned.trees import CURE
from kerncast.units import MICROSECOND, NANOSECOND

#: Support vectors times rows at once: 2 MB of distances stay in a cache.
_MOST_DISTANCES = 250_000
#: Rows that are forecast at once: a million rows take no more memory than these beside their own.
_ROWS_AT_ONCE = 65_536
#: A layer's numbers stay in a cache.
_ROWS_OF_A_LAYER = 4_096


class Regressor(Protocol):
    """Something learned: one number per row of features."""

    @property
    def features(self) -> int:
        """Number of columns that it takes."""

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Mean and standard deviation, 1 where that is 0 but for rounding: what is fitted is (x - mean) / deviation."""

    mean: Floats
    deviation: Floats

    def forward(self, values: Floats) -> Floats:
        """Return standardised values."""
        return (values - self.mean) / self.deviation

    def backward(self, values: Floats) -> Floats:
        """Return values in their own unit."""
        return values * self.deviation + self.mean


def scaling_of(values: Floats) -> Scaling:
    """Return the scaling of columns [rows, columns], or of a vector.

    >>> scaling = scaling_of(np.array([2.0, 4.0, 6.0]))
    >>> float(scaling.mean), round(float(scaling.deviation), 4)
    (4.0, 1.633)
    """
    mean, deviation = np.asarray(values.mean(axis=0)), np.asarray(values.std(axis=0))
    rounding = len(values) * np.finfo(np.float64).eps
    # As StandardScaler has it: what varies by rounding alone is constant, or another value would be scaled beyond all.
    is_constant = deviation**2 <= rounding * deviation**2 + (rounding * mean) ** 2
    return Scaling(mean, np.where(is_constant, 1.0, deviation))


@dataclass(frozen=True, slots=True)
class Linear:
    """y = intercept + x · coefficients: linear regression and the linear support vector machine."""

    coefficients: Floats
    intercept: float

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return len(self.coefficients)

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        numbers: Floats = values @ self.coefficients + self.intercept
        return numbers


@dataclass(frozen=True, slots=True)
class Perceptron:
    """Layers of max(0, x W + b), the last without the maximum."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def __post_init__(self) -> None:
        widths = [len(self.weights[0])] if self.weights else []
        for weights, biases in zip(self.weights, self.biases, strict=True):
            if weights.shape != (widths[-1], len(biases)) or biases.ndim != 1:
                raise InputError("the layers of the network do not fit one another", cure=CURE)
            widths.append(len(biases))
        if not widths or widths[-1] != 1:
            raise InputError("the network does not end in one number", cure=CURE)

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return len(self.weights[0])

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        firsts = range(0, len(values), _ROWS_OF_A_LAYER)
        return np.concatenate(
            [*(self._some(values[first : first + _ROWS_OF_A_LAYER]) for first in firsts), np.empty(0)]
        )

    def _some(self, values: Floats) -> Floats:
        for weights, biases in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = values @ weights
            values += biases
            np.maximum(values, 0, out=values)
        last: Floats = (values @ self.weights[-1] + self.biases[-1])[:, 0]
        return last


@dataclass(frozen=True, slots=True)
class RadialBasis:
    """y = intercept + sum over support vectors of dual · exp(-gamma |x - vector|²)."""

    vectors: Floats
    """[support vectors, features]"""
    duals: Floats
    intercept: float
    gamma: float

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or self.duals.shape != (len(self.vectors),) or not self.gamma > 0:
            raise InputError("the support vectors do not fit their factors", cure=CURE)

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return int(self.vectors.shape[1])

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        at_once = max(1, _MOST_DISTANCES // max(1, len(self.vectors)))
        squares = (self.vectors**2).sum(axis=1)
        parts = [self._some(values[first : first + at_once], squares) for first in range(0, len(values), at_once)]
        return np.concatenate([*parts, np.empty(0)])

    def _some(self, values: Floats, squares: Floats) -> Floats:
        distances = values @ self.vectors.T
        distances *= -2
        distances += (values**2).sum(axis=1)[:, None]
        distances += squares
        np.maximum(distances, 0, out=distances)
        distances *= -self.gamma
        np.exp(distances, out=distances)
        numbers: Floats = distances @ self.duals + self.intercept
        return numbers


@dataclass(frozen=True, slots=True)
class Trained:
    """A regressor with the scaling of what goes in and what comes out; times in nanoseconds.

    Of a residual it tells ln(time / simulated time), and one of the features is ln(simulated time / 1 µs).
    """

    regressor: Regressor
    feature_scaling: Scaling | None
    time_scaling: Scaling | None
    base: int | None = None
    """place of the simulated time among the features; None where the model tells the time itself"""

    def seconds(self, values: Floats) -> Floats:
        """Return the forecast of each row [rows, features]; it may be negative, where the model is wrong."""
        parts = [self._some(values[first : first + _ROWS_AT_ONCE]) for first in range(0, len(values), _ROWS_AT_ONCE)]
        return np.concatenate([*parts, np.empty(0)])

    def _some(self, values: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):  # who uses them looks for what is not finite
            scaled = self.feature_scaling.forward(values) if self.feature_scaling else values
            found = self.regressor.predict(scaled)
            whole = self.time_scaling.backward(found) if self.time_scaling else found
            return whole * NANOSECOND if self.base is None else self.simulated(values) * np.exp(whole)

    def simulated(self, values: Floats) -> Floats:
        """Return the simulated time of each row; only of a residual."""
        assert self.base is not None
        seconds: Floats = np.exp(values[:, self.base]) * MICROSECOND
        return seconds
