"""The study of average-case execution times: each model of a recipe trained, and scored on launches it has not seen.

Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.1 to 3.5, 3.7 and 4.1.
Fails where launches are unlike those that were learned from: the report splits by row, which hides it.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from kerncast.errors import GPUError, InputError
from kerncast.gpu import find_id, load_gpu
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.studies.correlation import FeatureChoice, chosen_features
from kerncast.studies.recipes import ModelRecipe, Recipe
from kerncast.studies.regressors import Forest, Linear, Perceptron, RadialBasis, Regressor, Trained, scaling_of
from kerncast.studies.splits import Fold, Rows, Scores, Split, folds_of, scores_of
from kerncast.units import NANOSECOND

CONSTANT, CYCLES, CYCLES_PER_GPU, SM_CLOCK = "constant", "cycles", "cycles per GPU", "SMs x clock"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Forecasts of a rule of thumb for the test part of a fold; NaN where it cannot tell."""

    name: str
    seconds: Floats


def baselines(table: FeatureTable, fold: Fold, recipe: Recipe) -> tuple[Baseline, ...]:
    """Return the rules of thumb that a fold allows.

    ``constant`` is the median time of the training part; ``cycles`` multiplies elapsed cycles by the median of time per
    cycle, ``cycles per GPU`` by that of the same GPU; ``SMs x clock`` takes the time of the same kernel in the same
    configuration on another GPU times the ratio of SMs times clock, the median where several were measured.
    """
    train, test = table.rows(fold.train), table.rows(fold.test)
    found = [Baseline(CONSTANT, np.full(len(test), np.median(train.seconds)))]
    cycles = next((n for n in (recipe.published[0].name, *recipe.published[0].also) if n in table.names), None)
    if cycles is not None:
        column = table.names.index(cycles)
        factors, counts = _per_cycle(train, column), test.values[:, column]
        pooled = factors.get("")
        if pooled is not None:
            found.append(Baseline(CYCLES, counts * pooled))
            own = np.array([factors.get(f"on {gpu}", np.nan) for gpu in test.gpus])
            if len(set(train.gpus)) > 1:
                found.append(Baseline(CYCLES_PER_GPU, counts * own))
    found.append(Baseline(SM_CLOCK, _scaled(train, test)))
    return tuple(each for each in found if np.isfinite(each.seconds).any())


def _per_cycle(train: FeatureTable, column: int) -> Mapping[str, float]:
    """Return the median of seconds per cycle: of all launches under an empty name, and of each GPU."""
    cycles = train.values[:, column]
    is_counted = cycles > 0
    if not is_counted.any():
        return {}
    ratio = train.seconds[is_counted] / cycles[is_counted]
    gpus = np.array(train.gpus)[is_counted]
    return {"": float(np.median(ratio))} | {f"on {gpu}": float(np.median(ratio[gpus == gpu])) for gpu in set(gpus)}


def _scaled(train: FeatureTable, test: FeatureTable) -> Floats:
    rates = {name: _sm_hz(name) for name in {*train.gpus, *test.gpus}}
    work: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for kernel, configuration, gpu, seconds in _rows(train):
        if rates[gpu]:
            work.setdefault((kernel, configuration), []).append((gpu, seconds * rates[gpu]))
    forecast = np.full(len(test), np.nan)
    for row, (kernel, configuration, gpu, _) in enumerate(_rows(test)):
        others = [cycles for other, cycles in work.get((kernel, configuration), ()) if other != gpu]
        if others and rates[gpu]:
            forecast[row] = float(np.median(others)) / rates[gpu]
    return forecast


def _rows(table: FeatureTable) -> Sequence[tuple[str, str, str, float]]:
    return list(zip(table.kernels, table.configurations, table.gpus, table.seconds.tolist(), strict=True))


def _sm_hz(name: str) -> float:
    """Return SMs times boost clock of a GPU, 0 where it is not known."""
    try:
        gpu = load_gpu(find_id(name)[0])
    except GPUError:
        return 0.0
    return gpu.sm_count * gpu.clock_boost_hz


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
    """A trained model, the number of launches behind it, and its caveats."""

    trained: Trained
    rows: int
    """launches that the model learned from"""
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


Progress = Callable[[str], None]
#: Least launches to learn from.
LEAST_LAUNCHES = 10


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The models to train, their features, and the split that scores them."""

    recipe: Recipe
    models: tuple[ModelRecipe, ...]
    split: Split
    features: FeatureChoice


@dataclass(frozen=True, slots=True)
class FoldScores:
    """The scores of a model on one test part."""

    held_out: str
    trained_on: int
    """launches of the training part"""
    scores: Scores


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scores of one model or rule of thumb on all test parts together; errors in seconds."""

    name: str
    title: str
    is_baseline: bool
    scores: Scores
    folds: tuple[FoldScores, ...]
    rows: Rows
    """rows of the table that were forecast while they were held out"""
    seconds: Floats
    """forecast time of each of these rows"""
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model to be kept: it learned from the training part, or from all launches where there are several folds."""

    recipe: ModelRecipe
    features: tuple[str, ...]
    fit: Fit
    learned_from: str
    """launches that the model learned from: training part, or all launches"""


@dataclass(frozen=True, slots=True)
class Study:
    """A table, and how the models of a plan did on it."""

    plan: StudyPlan
    table: FeatureTable
    folds: tuple[Fold, ...]
    features: tuple[tuple[str, ...], ...]
    """features of each fold, chosen by its training part"""
    outcomes: tuple[Outcome, ...]
    models: tuple[TrainedModel, ...]
    """models of the plan, in its order; empty where none was to be kept"""


def study_of(
    table: FeatureTable, plan: StudyPlan, *, keeps_models: bool = True, progress: Progress | None = None
) -> Study:
    """Train and score what is planned; raises InputError where the table does not allow it."""
    say = progress or _silent
    _check(table)
    folds = folds_of(table, plan.split, plan.recipe.test_share, plan.recipe.seed)
    names = [chosen_features(table.rows(fold.train), plan.features, plan.recipe) for fold in folds]
    outcomes, models = [], []
    for recipe in plan.models:
        fits = []
        for fold, features in zip(folds, names, strict=True):
            say(f"training {recipe.name} without {fold.held_out}")
            fits.append(train(recipe, table.rows(fold.train).features(features), plan.recipe.seed))
        outcomes.append(_outcome(recipe, table, folds, names, fits))
        if keeps_models:
            say(f"training {recipe.name} for its file")
            models.append(_kept(recipe, table, plan, names, fits))
    outcomes += _baselines(table, folds, plan.recipe)
    return Study(plan, table, folds, tuple(names), tuple(outcomes), tuple(models))


def forecast(trained: Trained, table: FeatureTable, features: tuple[str, ...]) -> Floats:
    """Return the forecasts of a table in seconds; raises InputError where it lacks a feature."""
    return trained.seconds(table.features(features).values)


def _silent(_: str) -> None: ...


def _outcome(
    recipe: ModelRecipe,
    table: FeatureTable,
    folds: Sequence[Fold],
    names: Sequence[tuple[str, ...]],
    fits: Sequence[Fit],
) -> Outcome:
    found = [
        forecast(fit.trained, table.rows(fold.test), features)
        for fit, fold, features in zip(fits, folds, names, strict=True)
    ]
    caveats = dict.fromkeys(caveat for fit in fits for caveat in fit.caveats)
    negative = int(sum((seconds <= 0).sum() for seconds in found))
    if negative:
        caveats[f"{recipe.name} forecasts a time of 0 or less for {negative} launches"] = None
    parts = [
        _FoldForecast(fold, fold.test, seconds, fit.rows) for fold, seconds, fit in zip(folds, found, fits, strict=True)
    ]
    return _scored(recipe.name, recipe.title, table, parts, tuple(caveats))


@dataclass(frozen=True, slots=True)
class _FoldForecast:
    fold: Fold
    rows: Rows
    seconds: Floats
    trained_on: int
    """launches of the training part"""


def _scored(
    name: str,
    title: str,
    table: FeatureTable,
    parts: Sequence[_FoldForecast],
    caveats: tuple[str, ...],
) -> Outcome:
    rows = np.concatenate([part.rows for part in parts])
    seconds = np.concatenate([part.seconds for part in parts])
    folds = (
        FoldScores(part.fold.held_out, part.trained_on, scores_of(_times(table, part.rows), part.seconds.tolist()))
        for part in parts
    )
    scores = scores_of(_times(table, rows), seconds.tolist())
    return Outcome(name, title, not title, scores, tuple(folds), rows, seconds, caveats)


def _times(table: FeatureTable, rows: Rows) -> list[float]:
    times: list[float] = table.seconds[rows].tolist()
    return times


def _kept(
    recipe: ModelRecipe,
    table: FeatureTable,
    plan: StudyPlan,
    names: Sequence[tuple[str, ...]],
    fits: Sequence[Fit],
) -> TrainedModel:
    if len(fits) == 1:
        return TrainedModel(recipe, names[0], fits[0], "training part")
    features = chosen_features(table, plan.features, plan.recipe)
    return TrainedModel(recipe, features, train(recipe, table.features(features), plan.recipe.seed), "all launches")


def _baselines(table: FeatureTable, folds: Sequence[Fold], recipe: Recipe) -> list[Outcome]:
    by_name: dict[str, list[_FoldForecast]] = {}
    for fold in folds:
        for each in baselines(table, fold, recipe):
            known = np.isfinite(each.seconds)
            part = _FoldForecast(fold, fold.test[known], each.seconds[known], len(fold.train))
            by_name.setdefault(each.name, []).append(part)
    return [_scored(name, "", table, parts, ()) for name, parts in by_name.items()]


def _check(table: FeatureTable) -> None:
    if len(table) < LEAST_LAUNCHES:
        raise InputError(
            f"{len(table)} launches are left to learn from",
            where=table.source,
            cure=f"Give {LEAST_LAUNCHES} at least; a model needs many more than it has features.",
        )
