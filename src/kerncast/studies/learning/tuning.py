"""Cross-validation of a model's settings over the grid of its recipe, with whole kernels held out.

Source: sections 1.3.3 and 3.5 of G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, name tuning and
cross-validation; the grid, the folds and the score are ours. Launches of a kernel are so alike that a fold by row would
choose the settings that remember best.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.models.learned.reach import MOST_LOG_ERROR
from kerncast.models.learned.tuning import Settings, Tried, Tuning
from kerncast.studies.learning.training import train
from kerncast.studies.recipes import ModelRecipe
from kerncast.studies.splits import Fold, Split, drawn_evenly, group_folds

#: Folds of a cross-validation, and launches in it at most.
FOLDS = 5
MOST_LAUNCHES = 5_000
_GROUPS = (Split.KERNELS, Split.CONFIGURATIONS, Split.ROWS)

Say = Callable[[str], None]


def tuned(recipe: ModelRecipe, table: FeatureTable, seed: int, say: Say) -> tuple[ModelRecipe, Tuning]:
    """Return the recipe with the settings of its grid that do best on kernels held out, and how all did.

    Of one kernel alone, configurations are held out, and of one configuration alone, launches. Settings that do as well
    as the published ones do not take their place.
    """
    table = table.rows(drawn_evenly(table, MOST_LAUNCHES, seed))
    split, folds = _folds(table, seed)
    tried = []
    for number, settings in enumerate(recipe.choices, 1):
        say(f"tuning {recipe.name}: {number} of {len(recipe.choices)} settings")
        other = with_settings(recipe, settings)
        errors = tuple(_log_error(other, table, fold, seed) for fold in folds)
        tried.append(Tried(settings, float(np.mean(errors)), errors))
    names = tuple(fold.held_out for fold in folds)
    found = Tuning(split.value, names, len(table), tuple(tried), min(tried, key=lambda each: each.log_error).settings)
    return with_settings(recipe, found.chosen), found


def with_settings(recipe: ModelRecipe, settings: Settings) -> ModelRecipe:
    """Return a recipe with some settings in the place of its own; whether it scales is one of them."""
    chosen = dict(settings)
    fields = {name: bool(chosen.pop(name)) for name in ("scales_features", "scales_times") if name in chosen}
    return replace(recipe, settings=tuple((dict(recipe.settings) | chosen).items()), **fields)  # type: ignore[arg-type]


def _folds(table: FeatureTable, seed: int) -> tuple[Split, tuple[Fold, ...]]:
    for split in _GROUPS:
        try:
            return split, group_folds(table, split, FOLDS, seed)
        except InputError:
            if split is Split.ROWS:
                raise
    raise AssertionError


def _log_error(recipe: ModelRecipe, table: FeatureTable, fold: Fold, seed: int) -> float:
    test = table.rows(fold.test)
    forecast: Floats = train(recipe, table.rows(fold.train), seed).trained.seconds(test.values)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.abs(np.log(test.seconds / forecast))
    return float(np.where(forecast > 0, np.minimum(logs, MOST_LOG_ERROR), MOST_LOG_ERROR).mean())
