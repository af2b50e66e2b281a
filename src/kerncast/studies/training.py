"""Trains one model of a recipe with scikit-learn, and keeps what it learned as arrays."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from kerncast.errors import InputError
from kerncast.feature_table import FeatureTable, Floats
from kerncast.studies.recipes import ModelRecipe
from kerncast.studies.regressors import Forest, Linear, Perceptron, RadialBasis, Regressor, Trained, scaling_of
from kerncast.units import NANOSECOND

_MODULES = {
    "LinearRegression": "linear_model",
    "MLPRegressor": "neural_network",
    "RandomForestRegressor": "ensemble",
    "LinearSVR": "svm",
    "SVR": "svm",
}
_SEEDED = frozenset({"MLPRegressor", "RandomForestRegressor", "LinearSVR"})


@dataclass(frozen=True, slots=True)
class Fit:
    """What was learned, and what is to be known of it."""

    trained: Trained
    rows: int
    """that it learned from"""
    caveats: tuple[str, ...]


def train(recipe: ModelRecipe, table: FeatureTable, seed: int) -> Fit:
    """Train on all launches of a table; the same table and seed give the same model.

    Raises InputError where the numbers are beyond what the model can hold.
    """
    values, times, caveats = table.values, table.seconds / NANOSECOND, []
    if recipe.most_rows is not None and len(values) > recipe.most_rows:
        drawn = np.sort(np.random.default_rng(seed).permutation(len(values))[: recipe.most_rows])
        caveats.append(f"{recipe.name} learned from {recipe.most_rows} of {len(values)} launches, drawn at random")
        values, times = values[drawn], times[drawn]
    features = scaling_of(values) if recipe.scales_features else None
    target = scaling_of(times) if recipe.scales_times else None
    scaled = features.forward(values) if features else values
    estimator = _estimator(recipe, scaled, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(scaled, target.forward(times) if target else times)
    caveats += _said(recipe, caught)
    trained = Trained(_regressor(estimator, scaled), features, target)
    if not np.isfinite(trained.seconds(values[:100])).all():
        cure = "Take another model, or fewer features."
        raise InputError(f"{recipe.name} learned nothing finite", where=table.source, cure=cure)
    return Fit(trained, len(values), tuple(caveats))


def _estimator(recipe: ModelRecipe, values: Floats, seed: int) -> Any:
    module = import_module(f"sklearn.{_MODULES[recipe.estimator]}")
    settings: dict[str, Any] = dict(recipe.settings)
    if recipe.estimator in _SEEDED:
        settings["random_state"] = seed
    if recipe.estimator == "SVR":
        settings["gamma"] = _gamma(values)
    return getattr(module, recipe.estimator)(**settings)


def _gamma(values: Floats) -> float:
    """Return what scikit-learn calls gamma="scale", its default: 1 / (features x variance of all values)."""
    variance = float(values.var())
    return 1 / (values.shape[1] * variance) if variance else 1.0


def _said(recipe: ModelRecipe, caught: Sequence[warnings.WarningMessage]) -> list[str]:
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    if any(issubclass(each.category, ConvergenceWarning) for each in caught):
        return [f"{recipe.name} had not converged when its iterations were used up"]
    return []


def _regressor(estimator: Any, values: Floats) -> Regressor:
    """Return what an estimator has learned as arrays."""
    kind = type(estimator).__name__
    if kind in {"LinearRegression", "LinearSVR"}:
        return Linear(np.ravel(estimator.coef_).astype(np.float64), float(np.ravel(estimator.intercept_)[0]))
    if kind == "MLPRegressor":
        return Perceptron(tuple(estimator.coefs_), tuple(estimator.intercepts_))
    if kind == "SVR":
        duals, intercept = estimator.dual_coef_[0], float(estimator.intercept_[0])
        return RadialBasis(estimator.support_vectors_, duals, intercept, float(estimator.gamma))
    return _forest([tree.tree_ for tree in estimator.estimators_], values.shape[1])


def _forest(trees: Sequence[Any], features: int) -> Forest:
    """Return trees in one list of nodes; scikit-learn numbers a left child next to its parent."""
    sizes = [tree.node_count for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    feature, threshold, right = [], [], []
    for tree, root in zip(trees, roots, strict=True):
        is_leaf = tree.children_left < 0
        assert (tree.children_left[~is_leaf] == np.flatnonzero(~is_leaf) + 1).all()
        feature.append(np.where(is_leaf, -1, tree.feature))
        threshold.append(np.where(is_leaf, tree.value[:, 0, 0], tree.threshold))
        right.append(np.where(is_leaf, 0, tree.children_right + root))
    return Forest(
        roots=roots,
        feature=np.concatenate(feature).astype(np.int16),
        threshold=np.concatenate(threshold),
        right=np.concatenate(right).astype(np.int32),
        features=features,
    )
