"""Estimates the variances of the effects that carry a measured time from one launch to another.

The marginal likelihood of ln(measured / simulated) over all measured launches is maximised over the logarithms of the
variances, each with a wide normal prior, so that an effect that the data cannot tell keeps a small variance.

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 5.8 and 5.9.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.models.transfer.posterior import Effects, Residual, covariance

Floats = npt.NDArray[np.float64]

#: The effects whose variances are estimated.
FITTED = (
    "kernel", "kernel_era", "kernel_generation", "kernel_architecture", "kernel_gpu", "launch", "launch_generation",
    "launch_gpu", "gpu",
)  # fmt: skip
#: Centre and standard deviation of the prior of ln(variance): 6 % of the time, give or take a factor of e.
_TYPICAL = 0.004
_CENTRE, _SPREAD = math.log(_TYPICAL), 2.0
#: Variances of 0.1 % of the time, and of a factor of e.
_LEAST, _MOST = 2 * math.log(0.001), 0.0
_NONE = Effects(**dict.fromkeys(Effects.__slots__, 0.0))
_STEPS = 100


def fit_effects(
    residuals: Sequence[Residual], like: Effects, parts: Floats | None = None, steps: int = _STEPS
) -> Effects:
    """Return the effects that make the residuals most likely; what is no variance of an effect is as in ``like``.

    ``parts`` is the basis of these residuals, where it is known; the search begins at ``like``. Raises InputError for
    fewer than two residuals.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  a forecast does without

    if len(residuals) < 2:
        raise InputError(f"{len(residuals)} residuals tell no variance", cure="Give more measured launches.")
    found = minimize(
        _negative_log_posterior(basis(residuals, like) if parts is None else parts, residuals),
        np.log([getattr(like, name) or _TYPICAL for name in FITTED]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(_LEAST, _MOST)] * len(FITTED),
        options={"maxiter": steps},
    )
    values = {name: round(float(value), 6) for name, value in zip(FITTED, np.exp(found.x), strict=True)}
    return replace(like, **values)


def basis(residuals: Sequence[Residual], like: Effects) -> Floats:
    """Return [effects, residuals, residuals] covariances, each of one effect with variance 1."""
    subjects = [replace(each.subject, is_unseen=False) for each in residuals]
    alone = [replace(_NONE, doublings=like.doublings, **{name: 1.0}) for name in FITTED]
    return np.array([covariance(subjects, subjects, each) for each in alone])


def _negative_log_posterior(parts: Floats, residuals: Sequence[Residual]) -> Callable[[Floats], tuple[float, Floats]]:
    errors = np.array([each.log_error for each in residuals])
    noise = np.diag([each.variance for each in residuals])

    def of(logs: Floats) -> tuple[float, Floats]:
        variances = np.exp(logs)
        whole = np.tensordot(variances, parts, 1) + noise
        root = np.linalg.cholesky(whole)
        inverse = np.linalg.inv(whole)
        weighted = inverse @ errors
        away = (logs - _CENTRE) / _SPREAD
        value = 0.5 * errors @ weighted + np.log(np.diag(root)).sum() + 0.5 * away @ away
        slopes = [0.5 * (np.sum(inverse * part) - weighted @ part @ weighted) for part in parts]
        return float(value), variances * np.array(slopes) + away / _SPREAD

    return of
