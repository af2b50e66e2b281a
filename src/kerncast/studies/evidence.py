"""Estimates the variances of the effects that carry a measured time from one launch to another.

A pair is a measured launch and another one that its time is to tell of. With x, the residual of the first, and y, that
of the second, the posterior has the mean m = k(x, y) / (k(x, x) + d) x and the variance v = k(y, y) - k(x, y)^2 /
(k(x, x) + d). The variances maximise the sum over pairs of the logarithm of Student's density with 4 degrees of
freedom at (y - m)^2 / v, and of the same without evidence: forecasts from one time are to be near and to know how near.
Student's density, because few kernels are off by far more than a normal density allows, and must not rule the others.

Source: Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 102, 2007 (logarithmic
score); Varin, Reid and Firth, "An Overview of Composite Likelihood Methods", Statistica Sinica 21, 2011 (pairs).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.models.transfer.posterior import Effects, Residual, shared_variance

Floats = npt.NDArray[np.float64]

#: The effects whose variances are estimated. The effect of a kernel within an era is given: few kernels are measured on
#: several of its generations.
FITTED = (
    "kernel", "kernel_generation", "kernel_architecture", "kernel_gpu", "launch", "launch_generation", "launch_gpu",
    "gpu",
)  # fmt: skip
#: Degrees of freedom of Student's density.
_FREEDOM = 4.0
#: Part of the score that is that of forecasts without evidence.
_ALONE = 0.3
#: The search begins here, 6 % of the time, and effects that the pairs do not tell stay near.
_TYPICAL, _PULL = math.log(0.004), 1e-3
#: Variances of 0.1 % of the time, and of a factor of e.
_LEAST, _MOST = 2 * math.log(0.001), 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A measured launch, and one that its time is to tell of, by their places among the residuals."""

    known: int
    wanted: int
    weight: float


class Pairs:
    """Pairs of measured launches, with the covariances that each effect alone would give them."""

    def __init__(self, residuals: Sequence[Residual], pairs: Sequence[Pair], like: Effects) -> None:
        """``like`` gives what is not estimated: the noise of a measurement, the effect of a kernel within an era."""
        self._like = like
        none = replace(like, **dict.fromkeys(FITTED, 0.0))
        one_each = [none, *(replace(none, kernel_era=0.0, **{name: 1.0}) for name in FITTED)]
        known, wanted = ([residuals[getattr(each, end)] for each in pairs] for end in ("known", "wanted"))
        self._x, self._y = (np.array([each.log_error for each in end]) for end in (known, wanted))
        self._weights = np.array([each.weight for each in pairs])
        # An unseen microarchitecture has a variance of its own, which is not estimated here.
        subjects = [[replace(each.subject, is_unseen=False) for each in end] for end in (known, wanted)]
        between, own = (
            np.array([[shared_variance(a, b, one) for a, b in zip(*ends, strict=True)] for one in one_each])
            for ends in (subjects, (subjects[0], subjects[0]))
        )
        self._given, self._between, self._own = (between[0], own[0]), between[1:], own[1:]

    def fit(self, used: npt.NDArray[np.bool_] | None = None) -> Effects:
        """Return the effects by some of the pairs, or by all; raises InputError where there are none."""
        from scipy.optimize import minimize  # noqa: PLC0415  a forecast does without

        weights = self._weights if used is None else self._weights * used
        if not weights.any():
            raise InputError("no pair of launches is left to estimate from", cure="Give more measured launches.")
        found = minimize(
            lambda logs: self._loss(logs, weights / weights.sum()),
            np.full(len(FITTED), _TYPICAL),
            jac=True,
            method="L-BFGS-B",
            bounds=[(_LEAST, _MOST)] * len(FITTED),
        )
        values = {name: round(float(value), 6) for name, value in zip(FITTED, np.exp(found.x), strict=True)}
        return replace(self._like, **values)

    def _loss(self, logs: Floats, weights: Floats) -> tuple[float, Floats]:
        """Return the negative score of the variances, and its slopes by their logarithms."""
        variances = np.exp(logs)
        between, own = variances @ self._between + self._given[0], variances @ self._own + self._given[1]
        noisy = own + self._like.measurement
        share = between / noisy
        left = noisy - share * between
        away = self._y - share * self._x
        value, by_left, by_away = _student(away, left)
        alone, by_own, _ = _student(self._y, noisy)
        share_slopes = (self._between - share * self._own) / noisy
        left_slopes = self._own - 2 * share * self._between + share**2 * self._own
        slopes = by_left * left_slopes - by_away * self._x * share_slopes + _ALONE * by_own * self._own
        pull = logs - _TYPICAL
        loss = float(weights @ (value + _ALONE * alone) + _PULL * pull @ pull)
        return loss, (slopes @ weights) * variances + 2 * _PULL * pull


def _student(away: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return -ln of Student's density without its constant, and its slopes by the variance and by the distance."""
    ratio = away**2 / variance
    value = 0.5 * np.log(variance) + (_FREEDOM + 1) / 2 * np.log1p(ratio / _FREEDOM)
    steep = (_FREEDOM + 1) / (_FREEDOM + ratio)
    return value, (1 - steep * ratio) / (2 * variance), steep * away / variance
