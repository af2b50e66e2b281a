"""What the PolyBench-GPU equivalents must compute: stencils and statistics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
Results = dict[str, Any]

#: Of the 2-D stencil: 0.2 above left, 0.1 below right.
_WEIGHTS = np.array([[0.2, -0.3, 0.4], [0.5, 0.6, 0.7], [-0.8, -0.9, 0.1]])


def polybench_2dconv(before: Arguments) -> Results:
    """Every inner point is the weighted sum of the 3 x 3 window around it."""
    windows = np.lib.stride_tricks.sliding_window_view(before["A"].astype(np.float64), (3, 3))
    result = before["B"].astype(np.float64)
    result[1:-1, 1:-1] = np.einsum("ijkl,kl->ij", windows, _WEIGHTS)
    return {"B": result}


def polybench_3dconv(before: Arguments) -> Results:
    """The same in three dimensions for one plane, with a lopsided stencil."""
    weights = np.zeros((3, 3, 3))
    weights[0, :, :] = [[-1, 0, 2], [0, 0, 5], [0, 0, -8]]
    weights[1, :, 1] = [-3, 6, -9]
    weights[2, :, :] = [[21, 0, 4], [0, 0, 7], [0, 0, 10]]
    plane = before["plane"]
    three = before["A"][plane - 1 : plane + 2].astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(three, (3, 3, 3))
    result = before["B"].astype(np.float64)
    result[plane, 1:-1, 1:-1] = np.einsum("pijklm,klm->ij", windows, weights)
    return {"B": result}


def polybench_fdtd2d_ey(before: Arguments) -> Results:
    """The field along y loses half of the difference of hz across rows; its first row is the source."""
    ey, hz = before["ey"].astype(np.float64), before["hz"].astype(np.float64)
    ey[1:-1] -= np.diff(hz, axis=0) / 2
    ey[0] = before["source"][before["step"]]
    return {"ey": ey}


def polybench_fdtd2d_ex(before: Arguments) -> Results:
    """The field along x loses half of the difference of hz across columns."""
    ex, hz = before["ex"].astype(np.float64), before["hz"].astype(np.float64)
    ex[:, 1:-1] -= np.diff(hz, axis=1) / 2
    return {"ex": ex}


def polybench_fdtd2d_hz(before: Arguments) -> Results:
    """The magnetic field loses 0.7 of the curl of the electric one."""
    ex, ey, hz = (before[name].astype(np.float64) for name in ("ex", "ey", "hz"))
    return {"hz": hz - 0.7 * (np.diff(ex, axis=1) + np.diff(ey, axis=0))}


def _table(before: Arguments) -> Any:
    """Return the table without the row and the column 0, which the programs do not use."""
    return before["data"][1:, 1:].astype(np.float64)


def _symmetric(before: Arguments, name: str, product: Any, last: int) -> Results:
    """Return a matrix whose rows and columns 1 to last are set, but for the corner after them."""
    result = before[name].astype(np.float64)
    corner = result[-1, -1]
    result[1:, 1:] = product
    if last < len(product):
        result[-1, -1] = corner
    return {name: result}


def polybench_corr_mean(before: Arguments) -> Results:
    """Means of the columns."""
    return {"mean": np.concatenate([before["mean"][:1], _table(before).mean(axis=0)])}


def polybench_corr_deviation(before: Arguments) -> Results:
    """Root of the mean square distance from the given means; what is nearly nothing counts as 1."""
    squares = (_table(before) ** 2).mean(axis=0)
    mean = before["mean"][1:].astype(np.float64)
    deviation = np.sqrt(squares - 2 * mean * _table(before).mean(axis=0) + mean**2)
    deviation[deviation <= 0.005] = 1.0
    return {"deviation": np.concatenate([before["deviation"][:1], deviation])}


def polybench_corr_standardise(before: Arguments) -> Results:
    """Columns with mean 0 and length 1, if means and deviations are their own."""
    result = before["data"].astype(np.float64)
    mean, deviation = (before[name][1:].astype(np.float64) for name in ("mean", "deviation"))
    result[1:, 1:] = (_table(before) - mean) / (deviation * np.sqrt(before["rows"]))
    return {"data": result}


def polybench_corr_products(before: Arguments) -> Results:
    """Products of all pairs of columns, with ones on the diagonal but for the last, which the host sets."""
    product = _table(before).T @ _table(before)
    np.fill_diagonal(product, 1.0)
    return _symmetric(before, "correlation", product, len(product) - 1)


def polybench_covar_mean(before: Arguments) -> Results:
    """Means of the columns."""
    return polybench_corr_mean(before)


def polybench_covar_centre(before: Arguments) -> Results:
    """Every column loses its mean."""
    result = before["data"].astype(np.float64)
    result[1:, 1:] -= before["mean"][1:]
    return {"data": result}


def polybench_covar_products(before: Arguments) -> Results:
    """Products of all pairs of columns."""
    product = _table(before).T @ _table(before)
    return _symmetric(before, "covariance", product, len(product))
