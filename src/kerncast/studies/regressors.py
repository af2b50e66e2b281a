"""Trained models as arrays and an equation each: no library that trained them is needed to forecast."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import Floats
from kerncast.units import NANOSECOND

Integers = npt.NDArray[np.signedinteger[Any]]
#: Levels of all trees together; 150 trees on 34,000 launches have some 6,000.
MOST_LEVELS = 200_000
#: Support vectors times rows at once: 160 MB of distances.
_MOST_DISTANCES = 20_000_000
_CURE = "The file was changed or damaged: train the model again."


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
                raise InputError("the layers of the network do not fit one another", cure=_CURE)
            widths.append(len(biases))
        if not widths or widths[-1] != 1:
            raise InputError("the network does not end in one number", cure=_CURE)

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return len(self.weights[0])

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        for weights, biases in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = np.maximum(values @ weights + biases, 0)
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
            raise InputError("the support vectors do not fit their factors", cure=_CURE)

    @property
    def features(self) -> int:
        """Number of columns that it takes."""
        return int(self.vectors.shape[1])

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]."""
        at_once = max(1, _MOST_DISTANCES // max(1, len(self.vectors)))
        parts = [self._some(values[first : first + at_once]) for first in range(0, len(values), at_once)]
        return np.concatenate([*parts, np.empty(0)])

    def _some(self, values: Floats) -> Floats:
        squares = (values**2).sum(axis=1)[:, None] + (self.vectors**2).sum(axis=1)[None, :]
        distances = np.maximum(squares - 2 * values @ self.vectors.T, 0)
        numbers: Floats = np.exp(-self.gamma * distances) @ self.duals + self.intercept
        return numbers


@dataclass(frozen=True)
class Forest:
    """The mean of regression trees, their nodes in one list: a node's left child is the next node."""

    roots: Integers
    feature: Integers
    """[nodes] feature that splits the node, -1 in leaves"""
    threshold: Floats
    """[nodes] largest value, in single precision, of rows that go left; in leaves the value of the leaf"""
    right: Integers
    """[nodes] number of the right child, 0 in leaves"""
    features: int

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        if not (len(self.threshold) == len(self.right) == nodes) or not len(self.roots):
            raise InputError("the trees' nodes are not whole", cure=_CURE)
        inner = np.flatnonzero(self.feature >= 0)
        # Children come after their node, so that every way down ends.
        is_sound = (
            (self.feature < self.features).all()
            and (self.right[inner] > inner + 1).all()
            and (self.right < nodes).all()
            and (inner + 1 < nodes).all()
            and ((self.roots >= 0) & (self.roots < nodes)).all()
        )
        if not is_sound:
            raise InputError("the trees' nodes do not form trees", cure=_CURE)

    def predict(self, values: Floats) -> Floats:
        """Return a number per row [rows, features]; raises InputError for trees that are too deep for any training."""
        single = values.astype(np.float32)
        total, left = np.zeros(len(values)), MOST_LEVELS
        for root in self.roots:
            leaves, left = self._leaves(int(root), single, left)
            total += self.threshold[leaves]
        return total / len(self.roots)

    def _leaves(self, root: int, values: npt.NDArray[np.float32], most_levels: int) -> tuple[Integers, int]:
        """Return the leaf of each row, and the levels that are left of the most."""
        nodes = np.full(len(values), root, np.int64)
        rows = np.arange(len(values))
        for level in range(most_levels):
            at = nodes[rows]
            feature = self.feature[at]
            is_inner = feature >= 0
            rows, at, feature = rows[is_inner], at[is_inner], feature[is_inner]
            if not len(rows):
                return nodes, most_levels - level
            goes_left = values[rows, feature] <= self.threshold[at]
            nodes[rows] = np.where(goes_left, at + 1, self.right[at])
        raise InputError(f"its trees have more than {MOST_LEVELS} levels", cure=_CURE)


@dataclass(frozen=True, slots=True)
class Trained:
    """A regressor with the scaling of what goes in and what comes out; times in nanoseconds."""

    regressor: Regressor
    feature_scaling: Scaling | None
    time_scaling: Scaling | None

    def seconds(self, values: Floats) -> Floats:
        """Return the forecast of each row [rows, features]; it may be negative, where the model is wrong."""
        with np.errstate(over="ignore", invalid="ignore"):  # who uses them looks for what is not finite
            scaled = self.feature_scaling.forward(values) if self.feature_scaling else values
            found = self.regressor.predict(scaled)
            return (self.time_scaling.backward(found) if self.time_scaling else found) * NANOSECOND
