"""A normal process of residuals: what features tell of ln(measured / simulated), and what launches share besides.

    residual = f(features) + effects of the kernel, the launch and the GPU + noise,

f a Gaussian process with the covariance a exp(-|x - y|^2 / 2), where features are scaled so that each group of them
counts alike and the length is 1, and effects as ``models/transfer/posterior.py`` has them. A kernel with many launches
does not rule f, since its own effect explains it first. Far from all that was measured, f and all effects are 0: the
forecast is the simulation's. Leaving out and conditioning are exact, in closed form.

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 2.22 to 2.24 and 5.10 to
5.12, the latter for blocks; O'Hagan and Kennedy's discrepancy term, "Bayesian Calibration of Computer Models", JRSS B
63, 2001.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.models.clock import blame_of
from kerncast.models.learned.regressors import Linear, RadialBasis, Regressor, Scaling, scaling_of
from kerncast.models.learned.residual import GROUPS, NAMES, UNEXPLAINED
from kerncast.models.transfer.posterior import ALIKE_POWER, Effects, Subject, era_of, read_effects
from kerncast.prediction import Term

Rows = npt.NDArray[np.intp]
#: Of a residual beside the spread of its measurement; keeps the matrices well conditioned.
_JITTER = 1e-4


@dataclass(frozen=True, slots=True)
class Belief:
    """How far residuals are believed to follow features."""

    amplitude: float
    """variance of what features tell; 0: nothing"""
    length: float
    """distance of alike launches, in standard deviations of a group of features"""


PHYSICS = Belief(0.0, 1.0)
#: The choices of a study, the most doubting first. Longer lengths did worse on the sets of docs/zero-shot.md.
BELIEFS = (
    PHYSICS,
    *(Belief(amplitude, length) for length in (0.4, 0.5) for amplitude in (0.003, 0.01, 0.02, 0.04)),
)


@dataclass(frozen=True, slots=True)
class Guess:
    """What is known of the residuals of some launches."""

    mean: Floats
    variance: Floats
    """of the residual; the measurement's own noise is not part of it"""


def input_scaling(values: Floats, names: Sequence[str] = NAMES) -> Scaling:
    """Return the scaling after which each group of features counts alike, however many features it has."""
    plain = scaling_of(values)
    varies = np.ptp(values, axis=0) > 0
    weight = np.ones(len(names))
    for group in GROUPS:
        places = [place for place, name in enumerate(names) if name in group.features]
        weight[places] = np.sqrt(max(1, int(varies[places].sum())))
    return Scaling(plain.mean, plain.deviation * weight)


def feature_covariance(inputs: Floats, others: Floats, belief: Belief) -> Floats:
    """Return [rows, columns] covariances of what scaled features tell."""
    squares = (inputs**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * inputs @ others.T
    found: Floats = belief.amplitude * np.exp(-np.maximum(squares, 0) / (2 * belief.length**2))
    return found


def effects_covariance(subjects: Sequence[Subject], effects: Effects) -> Floats:
    """Return [subjects, subjects] covariances of what launches share, as ``posterior.covariance`` does, but at once."""
    same_gpu = _same([each.gpu_id for each in subjects])
    capability = np.array([each.capability for each in subjects])
    era = np.array([era_of(each.capability) for each in subjects])
    same_architecture = same_gpu | _equal(capability)
    same_generation = same_architecture | _equal(capability // 10)
    names = sorted({name for each in subjects for name, _ in each.shares})
    shares = np.sqrt([[dict(each.shares).get(name, 0.0) for name in names] for each in subjects])
    alike = np.minimum(1.0, shares @ shares.T) ** ALIKE_POWER
    doublings = np.log2([float(each.threads) for each in subjects])
    of_kernel = effects.kernel + effects.kernel_era * _equal(era) + effects.kernel_generation * same_generation
    of_kernel = of_kernel + effects.kernel_architecture * same_architecture + effects.kernel_gpu * same_gpu
    of_kernel = of_kernel * np.exp(-np.abs(doublings[:, None] - doublings) / effects.doublings)
    of_launch = effects.launch + effects.launch_generation * same_generation + effects.launch_gpu * same_gpu
    of_kernel = of_kernel + of_launch * _same([each.launch for each in subjects])
    found: Floats = effects.gpu * alike * same_gpu + of_kernel * _same([each.kernel for each in subjects])
    return found


def _same(labels: Sequence[str]) -> npt.NDArray[np.bool_]:
    return _equal(np.unique(np.array(labels), return_inverse=True)[1])


def _equal(values: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values[:, None] == values
    return found


class Known:
    """A process with the residuals of some of its launches, and any of these taken away again."""

    def __init__(self, covariance: Floats, residuals: Floats, rows: Rows) -> None:
        """``covariance`` is that of all launches, ``rows`` those whose residuals are known."""
        self._covariance, self._rows = covariance, rows
        self._residuals = residuals[rows]
        noise = (read_effects().measurement + _JITTER) * np.eye(len(rows))
        self._inverse = np.linalg.inv(covariance[np.ix_(rows, rows)] + noise)

    def joint(self, targets: Rows, without: Rows) -> tuple[Floats, Floats]:
        """Return the mean of the targets' residuals and their covariance, by all that is known but some rows.

        With A = [[P, Q], [Q^T, R]] and R of the rows left out, the inverse of P is that of A less what R explains.
        """
        gone = np.flatnonzero(np.isin(self._rows, without))
        kept = np.setdiff1d(np.arange(len(self._rows)), gone)
        cross = self._covariance[np.ix_(targets, self._rows[kept])]
        right = np.column_stack([self._residuals[kept], cross.T])
        solved = self._inverse[np.ix_(kept, kept)] @ right
        if len(gone):
            back = self._inverse[np.ix_(kept, gone)]
            solved -= back @ np.linalg.solve(self._inverse[np.ix_(gone, gone)], back.T @ right)
        mean = cross @ solved[:, 0]
        return mean, self._covariance[np.ix_(targets, targets)] - cross @ solved[:, 1:]

    def of(self, targets: Rows, without: Rows) -> Guess:
        """Return what is known of each target, by all that is known but some rows."""
        mean, covariance = self.joint(targets, without)
        return Guess(mean, np.maximum(np.diag(covariance), 0.0))

    def errors_left_out(self, groups: Sequence[str]) -> Floats:
        """Return mean - residual of each known launch by all that is known but its own group; one group per launch.

        The same as ``joint`` gives, by the blocks of the inverse alone.
        """
        labels, found = np.array(groups), np.zeros(len(self._rows))
        weights = self._inverse @ self._residuals
        for name in dict.fromkeys(groups):
            own = np.flatnonzero(labels == name)
            found[own] = -np.linalg.solve(self._inverse[np.ix_(own, own)], weights[own])
        return found


def leave_groups_out(known: Known, groups: Sequence[str]) -> Guess:
    """Return what is known of each launch without those of its own group."""
    labels = np.array(groups)
    mean, variance = np.zeros(len(labels)), np.zeros(len(labels))
    for name in dict.fromkeys(groups):
        own = np.flatnonzero(labels == name)
        found = known.of(own, own)
        mean[own], variance[own] = found.mean, found.variance
    return Guess(mean, variance)


def moved_by(guess: tuple[Floats, Floats], residual: float, source: int) -> Guess:
    """Return a joint guess after the residual of one of its launches was measured."""
    mean, covariance = guess
    noisy = covariance[source, source] + read_effects().measurement + _JITTER
    share = covariance[:, source] / noisy
    return Guess(
        mean + share * (residual - mean[source]), np.maximum(np.diag(covariance) - share * covariance[:, source], 0.0)
    )


def learned_regressor(inputs: Floats, subjects: Sequence[Subject], residuals: Floats, belief: Belief) -> Regressor:
    """Return what features alone tell of a launch of another kernel on another GPU: the mean of f.

    >>> launch = Subject("k", "k 1", "a", 70, "Volta", 4096, (("dram", 1.0),))
    >>> found = learned_regressor(np.zeros((1, 1)), [launch], np.array([0.1]), Belief(1e6, 1.0))
    >>> found.predict(np.array([[0.0], [9.0]])).round(4).tolist()  # at the launch, and far from it
    [0.1, 0.0]
    """
    if not belief.amplitude:
        return Linear(np.zeros(inputs.shape[1]), 0.0)
    covariance = feature_covariance(inputs, inputs, belief) + effects_covariance(subjects, read_effects())
    noise = (read_effects().measurement + _JITTER) * np.eye(len(inputs))
    solved = np.linalg.solve(covariance + noise, residuals)
    return RadialBasis(inputs, np.asarray(belief.amplitude * solved, np.float64), 0.0, 1 / (2 * belief.length**2))


def subjects_of(table: FeatureTable) -> list[Subject]:
    """Return the launches of a table of residuals as the posterior asks for them, as far as their features tell it."""
    columns = {name: table.values[:, place].tolist() for place, name in enumerate(table.names)}
    nothing = [0.0] * len(table)
    threads = [
        max(1, round(math.exp(a + b)))
        for a, b in zip(columns.get("log_threads", nothing), columns.get("log_waves", nothing), strict=True)
    ]
    shares = [name for name in table.names if name.startswith("share_") and name != UNEXPLAINED]
    return [
        Subject(
            kernel,
            f"{kernel} {table.configurations[row]}",
            table.gpus[row],
            round(10 * columns["capability"][row]) if "capability" in columns else 0,
            "",
            threads[row],
            tuple(blame_of(1.0, [Term(name, columns[name][row]) for name in shares]).items()),
        )
        for row, kernel in enumerate(table.kernels)
    ]
