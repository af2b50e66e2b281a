"""The study of average-case execution times: each model of a recipe trained, and scored on launches it has not seen.

Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.1 to 3.5, 3.7 and 4.1.
Fails where launches are unlike those that were learned from: the report splits by row, which hides it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.errors import InputError
from kerncast.feature_table import FeatureTable, Floats
from kerncast.studies.baselines import baselines
from kerncast.studies.feature_choice import FeatureChoice, chosen_features
from kerncast.studies.recipes import ModelRecipe, Recipe
from kerncast.studies.regressors import Trained
from kerncast.studies.scores import Scores, scores_of
from kerncast.studies.splits import Fold, Rows, Split, folds_of
from kerncast.studies.training import Fit, train

Progress = Callable[[str], None]
#: With fewer nothing is learned.
LEAST_LAUNCHES = 10


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """What is trained, on which features, and how it is scored."""

    recipe: Recipe
    models: tuple[ModelRecipe, ...]
    split: Split
    features: FeatureChoice


@dataclass(frozen=True, slots=True)
class FoldScores:
    """How a model did on one test part."""

    held_out: str
    trained_on: int
    """launches"""
    scores: Scores


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one model or rule of thumb did on all test parts together; errors in seconds."""

    name: str
    title: str
    is_baseline: bool
    scores: Scores
    folds: tuple[FoldScores, ...]
    rows: Rows
    """of the table, that were forecast while they were held out"""
    seconds: Floats
    """their forecasts"""
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model to be kept: it learned from the training part, or from all launches where there are several folds."""

    recipe: ModelRecipe
    features: tuple[str, ...]
    fit: Fit
    learned_from: str
    """training part, or all launches"""


@dataclass(frozen=True, slots=True)
class Study:
    """A table, and how the models of a plan did on it."""

    plan: StudyPlan
    table: FeatureTable
    folds: tuple[Fold, ...]
    features: tuple[tuple[str, ...], ...]
    """of each fold, chosen by its training part"""
    outcomes: tuple[Outcome, ...]
    models: tuple[TrainedModel, ...]
    """as in the plan; empty where none was to be kept"""


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
    parts = [_FoldForecast(fold, fold.test, seconds) for fold, seconds in zip(folds, found, strict=True)]
    trained_on = [fit.rows for fit in fits]
    return _scored(recipe.name, recipe.title, table, parts, trained_on, tuple(caveats))


@dataclass(frozen=True, slots=True)
class _FoldForecast:
    fold: Fold
    rows: Rows
    seconds: Floats


def _scored(  # noqa: PLR0913, PLR0917  the fields of an outcome
    name: str,
    title: str,
    table: FeatureTable,
    parts: Sequence[_FoldForecast],
    trained_on: Sequence[int],
    caveats: tuple[str, ...],
) -> Outcome:
    rows = np.concatenate([part.rows for part in parts])
    seconds = np.concatenate([part.seconds for part in parts])
    folds = (
        FoldScores(part.fold.held_out, count, scores_of(_times(table, part.rows), part.seconds.tolist()))
        for part, count in zip(parts, trained_on, strict=True)
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
            part = _FoldForecast(fold, fold.test[known], each.seconds[known])
            by_name.setdefault(each.name, []).append(part)
    return [
        _scored(name, "", table, parts, [len(part.fold.train) for part in parts], ()) for name, parts in by_name.items()
    ]


def _check(table: FeatureTable) -> None:
    if len(table) < LEAST_LAUNCHES:
        raise InputError(
            f"{len(table)} launches are left to learn from",
            where=table.source,
            cure=f"Give {LEAST_LAUNCHES} at least; a model needs many more than it has features.",
        )
