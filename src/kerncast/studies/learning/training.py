"""Training of one model of a recipe: scikit-learn fits, and what it has learned is kept as arrays."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.models.learned.regressors import Linear, Perceptron, RadialBasis, Regressor, Trained, scaling_of
from kerncast.models.learned.trees import BoostedTrees, Forest, Trees
from kerncast.studies.recipes import ModelRecipe
from kerncast.studies.zero_shot.process import Belief, input_scaling, learned_regressor, subjects_of
from kerncast.units import MICROSECOND, NANOSECOND

_MODULES = {
    "LinearRegression": "linear_model",
    "MLPRegressor": "neural_network",
    "RandomForestRegressor": "ensemble",
    "HistGradientBoostingRegressor": "ensemble",
    "LinearSVR": "svm",
    "SVR": "svm",
}
#: The one estimator that is not scikit-learn's.
PROCESS = "ResidualProcess"
_SEEDED = frozenset({"MLPRegressor", "RandomForestRegressor", "HistGradientBoostingRegressor", "LinearSVR"})


@dataclass(frozen=True, slots=True)
class Fit:
    """A trained model, the number of launches behind it, and its caveats."""

    trained: Trained
    rows: int
    """launches that the model learned from"""
    caveats: tuple[str, ...]


def train(recipe: ModelRecipe, table: FeatureTable, seed: int) -> Fit:
    """Train on all launches of a table; the same table and seed give the same model.

    Raises InputError where the numbers are beyond what the model can hold.
    """
    if recipe.estimator == PROCESS:
        return _process(recipe, table)
    base = None if recipe.base is None else table.names.index(recipe.base)
    values, times, caveats = table.values, table.seconds / NANOSECOND, []
    if base is not None:
        times = residuals_of(table, base)
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
    trained = Trained(regressor_of(estimator, scaled), features, target, base)
    if not np.isfinite(trained.seconds(values[:100])).all():
        cure = "Take another model, or fewer features."
        raise InputError(f"{recipe.name} learned nothing finite", where=table.source, cure=cure)
    return Fit(trained, len(values), tuple(caveats))


def residuals_of(table: FeatureTable, base: int) -> Floats:
    """Return ln(measured / simulated) of each row; the feature ``base`` is ln(simulated time / 1 µs)."""
    found: Floats = np.log(table.seconds / MICROSECOND) - table.values[:, base]
    return found


def _process(recipe: ModelRecipe, table: FeatureTable) -> Fit:
    """Return the mean of a normal process of residuals, as a sum over launches."""
    assert recipe.base is not None
    settings: dict[str, Any] = dict(recipe.settings)
    base = table.names.index(recipe.base)
    scaling = input_scaling(table.values, table.names)
    belief = Belief(float(settings["amplitude"]), float(settings["length"]))
    residuals = residuals_of(table, base)
    found = learned_regressor(scaling.forward(table.values), subjects_of(table), residuals, belief)
    return Fit(Trained(found, scaling, None, base), len(table), ())


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


def regressor_of(estimator: Any, values: Floats) -> Regressor:
    """Return what an estimator has learned as arrays."""
    kind = type(estimator).__name__
    if kind in {"LinearRegression", "LinearSVR"}:
        return Linear(np.ravel(estimator.coef_).astype(np.float64), float(np.ravel(estimator.intercept_)[0]))
    if kind == "MLPRegressor":
        return Perceptron(tuple(estimator.coefs_), tuple(estimator.intercepts_))
    if kind == "SVR":
        duals, intercept = estimator.dual_coef_[0], float(estimator.intercept_[0])
        return RadialBasis(estimator.support_vectors_, duals, intercept, float(estimator.gamma))
    if kind == "HistGradientBoostingRegressor":
        # scikit-learn shows neither its nodes nor its intercept anywhere else.
        nodes = [each.nodes for (each,) in estimator._predictors]  # noqa: SLF001
        intercept = float(np.ravel(estimator._baseline_prediction)[0])  # noqa: SLF001
        return BoostedTrees(_trees([_boosted(each) for each in nodes], values.shape[1]), intercept)
    return Forest(_trees([_grown(each.tree_) for each in estimator.estimators_], values.shape[1]))


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of one tree as scikit-learn has them."""

    is_leaf: npt.NDArray[np.bool_]
    feature: npt.NDArray[np.integer[Any]]
    threshold: Floats
    value: Floats
    left: npt.NDArray[np.integer[Any]]
    right: npt.NDArray[np.integer[Any]]


def _grown(tree: Any) -> _Nodes:
    is_leaf = tree.children_left < 0
    return _Nodes(is_leaf, tree.feature, tree.threshold, tree.value[:, 0, 0], tree.children_left, tree.children_right)


def _boosted(nodes: Any) -> _Nodes:
    """Return a tree of scikit-learn's histogram boosting; its leaves hold the rate of learning already."""
    left, right = (nodes[side].astype(np.int64) for side in ("left", "right"))
    return _Nodes(
        nodes["is_leaf"].astype(bool), nodes["feature_idx"], nodes["num_threshold"], nodes["value"], left, right
    )


def _trees(trees: Sequence[_Nodes], features: int) -> Trees:
    """Return trees in one list of nodes; scikit-learn numbers a left child next to its parent."""
    roots = np.concatenate([[0], np.cumsum([len(tree.feature) for tree in trees])[:-1]]).astype(np.int32)
    feature, threshold, right = [], [], []
    for tree, root in zip(trees, roots, strict=True):
        assert (tree.left[~tree.is_leaf] == np.flatnonzero(~tree.is_leaf) + 1).all()
        feature.append(np.where(tree.is_leaf, -1, tree.feature))
        threshold.append(np.where(tree.is_leaf, tree.value, tree.threshold))
        right.append(np.where(tree.is_leaf, 0, tree.right + root))
    return Trees(
        roots=roots,
        feature=np.concatenate(feature).astype(np.int16),
        threshold=np.concatenate(threshold),
        right=np.concatenate(right).astype(np.int32),
        features=features,
    )
