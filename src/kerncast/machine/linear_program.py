"""A linear program, solved by an interior-point method.

Small and dense: a few hundred unknowns. No solver is among the libraries that kerncast needs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MOST_STEPS = 80
_TOLERANCE = 2e-9
#: Rounding keeps programs with many best points, or with numbers of very different sizes, from coming closer.
_ACCEPTED = 1e-4
#: Steps without a better point after which no better one is to come.
_PATIENCE = 4
#: Share of the way to the boundary that a step takes.
_DAMPING = 0.995
_REGULARISATION = 1e-13
#: How often a direction is corrected by what it misses of the rows: not at all, and where that does not lead to the end
#: as often as it takes. Weights of very different sizes leave few digits of the normal equations right.
_REFINEMENTS = (0, 3)


class NotSolvedError(Exception):
    """The program has no solution, or the method does not find it."""


@dataclass(frozen=True, slots=True)
class _Residuals:
    primal: Floats
    dual: Floats
    gap: float


def solve_linear_program(costs: Floats, matrix: Floats, right: Floats) -> Floats:
    """Return the x >= 0 with matrix x = right at which costs . x is least; raises NotSolvedError.

    Source: Mehrotra's predictor-corrector method as in Nocedal, Wright, "Numerical Optimization", 2nd ed., algorithm
    14.3. Where several x are best, it returns one inside their set. Fails when: rows contradict one another.

    >>> solve_linear_program(np.array([1.0, 2.0]), np.array([[1.0, 1.0]]), np.array([3.0])).round(6).tolist()
    [3.0, 0.0]
    """
    for refinements in _REFINEMENTS:
        best, error = _path(costs, matrix, right, refinements)
        if error <= _ACCEPTED:
            return best
    raise NotSolvedError


def _path(costs: Floats, matrix: Floats, right: Floats, refinements: int) -> tuple[Floats, float]:
    """Follow the central path; returns the best point on the way, and its error."""
    best, least, since = costs, np.inf, 0
    with np.errstate(all="ignore"):  # a step that overflows is caught as one without a finite result
        try:
            point = _start(costs, matrix, right)
            for _ in range(_MOST_STEPS):
                x, y, s = point
                left = _Residuals(right - matrix @ x, costs - matrix.T @ y - s, float(x @ s) / len(x))
                error = _error(left, costs, right, float(costs @ x))
                best, least, since = (x, error, 0) if error < least else (best, least, since + 1)
                if least <= _TOLERANCE or (since > _PATIENCE and least <= _ACCEPTED):
                    break
                point = _step(matrix, point, left, refinements)
        except np.linalg.LinAlgError:
            pass
    return best, least


def _error(left: _Residuals, costs: Floats, right: Floats, value: float) -> float:
    return max(
        float(np.abs(left.primal).max()) / (1 + float(np.abs(right).max())),
        float(np.abs(left.dual).max()) / (1 + float(np.abs(costs).max())),
        left.gap / (1 + abs(value)),
    )


def _start(costs: Floats, matrix: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the start that Nocedal and Wright give in equations 14.40 to 14.45."""
    normal = matrix @ matrix.T
    normal[np.diag_indices_from(normal)] += _REGULARISATION * max(1.0, float(normal.max()))
    x = matrix.T @ _solved(normal, right)
    y = _solved(normal, matrix @ costs)
    s = costs - matrix.T @ y
    x += max(-1.5 * float(x.min()), 0.0)
    s += max(-1.5 * float(s.min()), 0.0)
    product = float(x @ s)
    x += 0.5 * product / max(float(s.sum()), _TOLERANCE) + _TOLERANCE
    s += 0.5 * product / max(float(x.sum()), _TOLERANCE) + _TOLERANCE
    return x, y, s


def _step(
    matrix: Floats, point: tuple[Floats, Floats, Floats], left: _Residuals, refinements: int
) -> tuple[Floats, Floats, Floats]:
    x, y, s = point
    weights = x / s
    normal = _normal(matrix, weights)
    normal[np.diag_indices_from(normal)] += _REGULARISATION * float(normal.diagonal().max())

    def direction(complementary: Floats) -> tuple[Floats, Floats, Floats]:
        dy = _solved(normal, left.primal + matrix @ (weights * left.dual - complementary / s))
        for refined in range(refinements + 1):
            ds = left.dual - matrix.T @ dy
            dx = (complementary - x * ds) / s
            if refined < refinements:
                dy += _solved(normal, left.primal - matrix @ dx)
        return dx, dy, ds

    dx, _, ds = direction(-x * s)
    affine = float((x + _length(x, dx) * dx) @ (s + _length(s, ds) * ds)) / len(x)
    centred = left.gap * (affine / left.gap) ** 3
    dx, dy, ds = direction(centred - x * s - dx * ds)
    if not np.isfinite(dx).all():
        raise np.linalg.LinAlgError
    primal, dual = min(1.0, _DAMPING * _length(x, dx)), min(1.0, _DAMPING * _length(s, ds))
    return x + primal * dx, y + dual * dy, s + dual * ds


def _solved(matrix: Floats, right: Floats) -> Floats:
    return np.asarray(np.linalg.solve(matrix, right), np.float64)


def _normal(matrix: Floats, weights: Floats) -> Floats:
    """Return matrix . diag(weights) . matrix^T; most columns take up deviations of one row, which is quick."""
    single = np.count_nonzero(matrix, axis=0) == 1
    dense = matrix[:, ~single]
    normal: Floats = (dense * weights[~single]) @ dense.T
    normal[np.diag_indices_from(normal)] += matrix[:, single] ** 2 @ weights[single]
    return normal


def _length(values: Floats, direction: Floats) -> float:
    """Return how far the values stay positive in a direction, at most 1 / the share of a step."""
    falling = direction < 0
    return (
        min(1.0 / _DAMPING, float((-values[falling] / direction[falling]).min())) if falling.any() else 1.0 / _DAMPING
    )
