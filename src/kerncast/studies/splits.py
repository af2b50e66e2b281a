"""The split of launches for training and testing, and the scores of forecasts on the tested."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable

Rows = npt.NDArray[np.intp]
#: More groups than these are held out several at a time.
MOST_FOLDS = 10
_LEAST_ROWS = 2


class Split(Enum):
    """The property that the launches of the test part do not share with those of the training part."""

    ROWS = "rows"
    """nothing is kept apart: both parts have launches of the same kernel, configuration and GPU"""
    CONFIGURATIONS = "configurations"
    """each pair of kernel and configuration is in one part, on all GPUs"""
    KERNELS = "kernels"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True)
class Fold:
    """One training part and one test part, by row number."""

    held_out: str
    """launches of the test part in words, such as the name of a kernel"""
    train: Rows
    test: Rows


def folds_of(table: FeatureTable, split: Split, test_share: float = 0.2, seed: int = 0) -> tuple[Fold, ...]:
    """Return the folds: one for rows and configurations, one per kernel or GPU (ten at most) for the others.

    The same table and seed give the same folds; raises InputError where there is nothing to hold out.
    """
    chance = np.random.default_rng(seed)
    if split is Split.ROWS:
        return (_drawn(table, np.arange(len(table)), test_share, chance),)
    groups = _groups(table, split)
    if groups.max(initial=0) == 0:
        raise InputError(
            f"all launches share one of the {split.value}: none can be held out",
            where=table.source,
            cure=f"Give launches of several {split.value}, or take --split rows.",
        )
    if split is Split.CONFIGURATIONS:
        return (_drawn(table, groups, test_share, chance),)
    names = table.kernels if split is Split.KERNELS else table.gpus
    parts = _parts(groups, chance)
    return tuple(_fold(table, np.isin(groups, part), _named(names, groups, part)) for part in parts)


def _groups(table: FeatureTable, split: Split) -> Rows:
    """Return the number of each launch's group, in the order in which the groups appear."""
    pairs = zip(table.kernels, table.configurations, strict=True)
    keys: Sequence[object] = {
        Split.CONFIGURATIONS: list(pairs),
        Split.KERNELS: table.kernels,
        Split.GPUS: table.gpus,
    }[split]  # fmt: skip
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.intp)


def _drawn(table: FeatureTable, groups: Rows, share: float, chance: np.random.Generator) -> Fold:
    """Hold out a share of the groups, drawn at random."""
    count = int(groups.max()) + 1
    held = chance.permutation(count)[: max(1, math.ceil(share * count))]
    return _fold(table, np.isin(groups, held), f"{share:.0%} at random")


def _parts(groups: Rows, chance: np.random.Generator) -> list[Rows]:
    count = int(groups.max()) + 1
    if count <= MOST_FOLDS:
        return [np.array([number]) for number in range(count)]
    return [np.sort(part) for part in np.array_split(chance.permutation(count), MOST_FOLDS)]


def _fold(table: FeatureTable, is_test: npt.NDArray[np.bool_], name: str) -> Fold:
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if len(train) < _LEAST_ROWS or len(test) < 1:
        raise InputError(
            f"{len(train)} launches are left to learn from with {name} held out", where=table.source,
            cure="Give more launches.",
        )  # fmt: skip
    return Fold(name, train, test)


def _named(names: Sequence[str], groups: Rows, part: Rows) -> str:
    firsts = [int(np.flatnonzero(groups == group)[0]) for group in part]
    return ", ".join(names[row] for row in firsts)


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
