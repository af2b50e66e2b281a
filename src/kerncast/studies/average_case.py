"""The study of average-case execution times: each model of a recipe trained, and scored on launches it has not seen.

Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.1 to 3.5, 3.7 and 4.1.
Fails where launches are unlike those that were learned from: the report splits by row, which hides it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kerncast.errors import GPUError, InputError
from kerncast.gpu import find_id, load_gpu
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.measurements.scores import Scores, scores_of
from kerncast.models.learned.reach import Reach, SplitErrors, reach_of, split_errors
from kerncast.models.learned.regressors import Trained
from kerncast.models.learned.tuning import Tuning
from kerncast.studies.correlation import FeatureChoice, chosen_features
from kerncast.studies.learning.held_out import errors_of_others
from kerncast.studies.learning.training import Fit, train
from kerncast.studies.learning.tuning import tuned
from kerncast.studies.recipes import ModelRecipe, Recipe
from kerncast.studies.splits import Fold, Rows, Split, folds_of, names_of_groups
from kerncast.units import MICROSECOND

CONSTANT, CYCLES, CYCLES_PER_GPU, SM_CLOCK = "constant", "cycles", "cycles per GPU", "SMs x clock"
SIMULATION = "simulation"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Forecasts of a rule of thumb for the test part of a fold; NaN where it cannot tell."""

    name: str
    seconds: Floats


def baselines(table: FeatureTable, fold: Fold, recipe: Recipe) -> tuple[Baseline, ...]:
    """Return the rules of thumb that a fold allows.

    ``simulation`` is the simulated time, in a table of residuals. ``constant`` is the median time of the training part;
    ``cycles`` multiplies elapsed cycles by the median of time per cycle, ``cycles per GPU`` by that of the same GPU;
    ``SMs x clock`` takes the time of the same kernel in the same configuration on another GPU times the ratio of SMs
    times clock, the median where several were measured.
    """
    train, test = table.rows(fold.train), table.rows(fold.test)
    found = [Baseline(CONSTANT, np.full(len(test), np.median(train.seconds)))]
    if recipe.base is not None:
        found.append(Baseline(SIMULATION, np.exp(test.values[:, table.names.index(recipe.base)]) * MICROSECOND))
    names = (name for first in recipe.published[:1] for name in (first.name, *first.also))
    cycles = next((name for name in names if name in table.names), None)
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
    tunes: bool = False
    """whether the settings of each model are chosen by cross-validation, on each training part anew"""


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
    tunings: tuple[Tuning, ...] = ()
    """choice of the settings on the training part of each fold; empty with the published ones"""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model to be kept: it learned from the training part, or from all launches where there are several folds."""

    recipe: ModelRecipe
    features: tuple[str, ...]
    fit: Fit
    learned_from: str
    """launches that the model learned from: training part, or all launches"""
    reach: Reach
    tuning: Tuning | None
    """choice of its settings; None where they are the published ones"""


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
        learned = [
            _learned(recipe, table.rows(fold.train).features(features), plan, f"without {fold.held_out}", say)
            for fold, features in zip(folds, names, strict=True)
        ]
        outcomes.append(_outcome(recipe, table, folds, names, learned))
        if keeps_models:
            models.append(_kept(_Scored(recipe, outcomes[-1], names, learned), table, plan, folds, say))
    outcomes += _baselines(table, folds, plan.recipe)
    return Study(plan, table, folds, tuple(names), tuple(outcomes), tuple(models))


@dataclass(frozen=True, slots=True)
class _Learned:
    """A model on one training part, with the settings that were chosen for it."""

    recipe: ModelRecipe
    fit: Fit
    tuning: Tuning | None


def _learned(recipe: ModelRecipe, table: FeatureTable, plan: StudyPlan, where: str, say: Progress) -> _Learned:
    tuning = None
    if plan.tunes:
        recipe, tuning = tuned(recipe, table, plan.recipe.seed, lambda text: say(f"{text} {where}".strip()))
    say(f"training {recipe.name} {where}".strip())
    return _Learned(recipe, train(recipe, table, plan.recipe.seed), tuning)


def forecast(trained: Trained, table: FeatureTable, features: tuple[str, ...]) -> Floats:
    """Return the forecasts of a table in seconds; raises InputError where it lacks a feature."""
    return trained.seconds(table.features(features).values)


def _silent(_: str) -> None: ...


def _outcome(
    recipe: ModelRecipe,
    table: FeatureTable,
    folds: Sequence[Fold],
    names: Sequence[tuple[str, ...]],
    learned: Sequence[_Learned],
) -> Outcome:
    fits = [each.fit for each in learned]
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
    outcome = _scored(recipe.name, recipe.title, table, parts, tuple(caveats))
    return replace(outcome, tunings=tuple(each.tuning for each in learned if each.tuning))


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


@dataclass(frozen=True, slots=True)
class _Scored:
    """A model of a recipe that was scored, fold by fold."""

    recipe: ModelRecipe
    outcome: Outcome
    names: Sequence[tuple[str, ...]]
    """features of each fold"""
    learned: Sequence[_Learned]


def _kept(found: _Scored, table: FeatureTable, plan: StudyPlan, folds: Sequence[Fold], say: Progress) -> TrainedModel:
    """Return the model for a file, with what its errors and its training data tell of its reach."""
    whole, seed = "training part", plan.recipe.seed
    features, learned, rows = found.names[0], found.learned[0], folds[0].train
    if len(found.learned) > 1:
        whole, rows = "all launches", np.arange(len(table))
        features = chosen_features(table, plan.features, plan.recipe)
        learned = _learned(found.recipe, table.features(features), plan, "on all launches", say)
    own = _errors(found.outcome, table, plan.split)
    others = errors_of_others(learned.recipe, table.features(features), plan.split, plan.recipe, say)
    reach = reach_of(table.rows(rows).features(features).values, (own, *others), seed)
    return TrainedModel(learned.recipe, features, learned.fit, whole, reach, learned.tuning)


def _errors(outcome: Outcome, table: FeatureTable, split: Split) -> SplitErrors:
    tested = table.rows(outcome.rows)
    return split_errors(split.value, tested.seconds, outcome.seconds, names_of_groups(tested, split))


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
