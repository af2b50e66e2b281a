"""Estimates by how much a model's forecasts are off where each class of resources limits them.

The deviations s of the classes maximise the sum over cases, weighted, of the logarithm of Cauchy's density of e =
ln(measured / forecast) with the scale v, v^2 = sum over classes of w s^2 (``models/calibration.py``). Each ln(s) is
drawn to that of all cases together as by one case of weight 1: a class that few kernels tell of stays near.

Cauchy's density, because few kernels are off by several times what others of their class are, and must not rule: with
tails nearer to the normal density's the intervals of classes with many kernels hold too little. Source: Lange, Little
and Taylor, "Robust Statistical Modeling Using the t Distribution", JASA 84, 1989. Fails when: no kernel's time is
mostly the class's; its deviation is then that of all.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError

Floats = npt.NDArray[np.float64]

#: Classes by the terms of the simulation and of the roofline: streams, caches, atomics, pipes, waiting.
CLASSES: dict[str, tuple[str, ...]] = {
    "dram": ("dram",),
    "l2": ("l2",),
    "l1": ("l1", "shared", "lsu"),
    "atomics": ("atomics",),
    "pipes": (
        "fma",
        "alu",
        "imad",
        "xu",
        "fp64",
        "fp16",
        "tensor",
        "tensor_memory",
        "branch",
        "uniform",
        "issue",
        "fp32",
        "special",
        "integer",
    ),
    "latency": ("latency",),
    "launch": ("blocks", "launch"),
}
#: Deviations of 0.5 % of the time, and of a factor of e.
_LEAST, _MOST = math.log(0.005), 0.0
#: Cases by which a class is drawn to all others.
_PULL = 1.0
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Deviations:
    """Scales of ln(measured / forecast)."""

    by_class: tuple[float, ...]
    """in the order of ``CLASSES``"""
    pooled: float
    """of all cases together; for those whose shares are not known"""

    def of(self, shares: Floats) -> Floats:
        """Return the deviation of each case; ``shares`` is [cases, classes], a row of zeros where nothing is known.

        >>> found = Deviations((0.1, 0.3), 0.2)
        >>> found.of(np.array([[1.0, 0.0], [0.6, 0.4], [0.0, 0.0]])).round(4).tolist()  # 0.6 x 0.01 + 0.4 x 0.09
        [0.1, 0.2049, 0.2]
        """
        variances = shares @ np.square(self.by_class)
        return np.sqrt(np.where(shares.any(axis=1), variances, self.pooled**2))


def shares_of_classes(shares: Mapping[str, float]) -> list[float]:
    """Return how much of the blame for a time each class has; raises InputError for a resource of no class.

    >>> shares_of_classes({"dram": 0.5, "shared": 0.3, "l1": 0.2})
    [0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """
    known = {name for names in CLASSES.values() for name in names}
    if unknown := sorted(shares.keys() - known):
        raise InputError(f"no class holds {', '.join(unknown)}", cure="Add it to CLASSES.")
    total = math.fsum(shares.values()) or 1.0
    return [math.fsum(shares.get(name, 0.0) for name in names) / total for names in CLASSES.values()]


def estimate(errors: Floats, shares: Floats, weights: Floats) -> Deviations:
    """Return the deviations by [cases] errors and weights and [cases, classes] shares; weights say how many cases."""
    from scipy.optimize import minimize  # noqa: PLC0415  a forecast does without

    grid = np.linspace(_LEAST, _MOST, _STEPS)
    pooled = float(grid[np.argmin([weights @ _loss(errors, math.exp(2 * each)) for each in grid])])
    known = shares.any(axis=1)
    errors, shares, weights = errors[known], shares[known], weights[known]

    def score(logs: Floats) -> tuple[float, Floats]:
        squares = np.exp(2 * logs)
        variance = shares @ squares
        slope = 0.5 / variance - errors**2 / (variance * (variance + errors**2))
        away = logs - pooled
        value = float(weights @ _loss(errors, variance)) + 0.5 * _PULL * float(away @ away)
        return value, 2 * squares * ((weights * slope) @ shares) + _PULL * away

    count = shares.shape[1]
    found = minimize(score, np.full(count, pooled), jac=True, method="L-BFGS-B", bounds=[(_LEAST, _MOST)] * count)
    return Deviations(tuple(float(each) for each in np.exp(found.x)), math.exp(pooled))


def weights_of(suites: Sequence[str], families: Sequence[str]) -> Floats:
    """Return the weight of each case, 1 in all: suites have the same, the families of one, and the cases of a family.

    >>> weights_of(["a", "a", "a", "b"], ["x", "x", "y", "z"]).tolist()
    [0.125, 0.125, 0.25, 0.5]
    """
    of_suite: dict[str, set[str]] = {}
    for suite, family in zip(suites, families, strict=True):
        of_suite.setdefault(suite, set()).add(family)
    counts = {family: families.count(family) for family in families}
    return np.array(
        [
            1 / (len(of_suite) * len(of_suite[suite]) * counts[family])
            for suite, family in zip(suites, families, strict=True)
        ]
    )


def _loss(errors: Floats, variance: Floats | float) -> Floats:
    """Return -ln of Cauchy's density without its constant, of the scale's square."""
    found: Floats = 0.5 * np.log(variance) + np.log1p(errors**2 / variance)
    return found
