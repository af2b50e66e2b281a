"""The scores of a model from a file on launches that it may or may not have learned from."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kerncast.errors import InputError
from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.measurements.scores import Scores, scores_of
from kerncast.models.learned.model_files import ModelFile
from kerncast.read.bounded_text import MOST
from kerncast.read.features.cleaning import (
    Cleaning,
    CleaningRules,
    CleanTable,
    LaunchRows,
    check_magnitudes,
    clean,
    columns_of,
    of_gpu,
)
from kerncast.read.features.table_files import read_launches
from kerncast.studies.recipes import known_recipes, load_recipe
from kerncast.studies.splits import Fold, Split, folds_of

#: Scores of the same launches differ by less.
_SAME = 1e-5


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the launches and how the model did on them."""

    name: str
    """name of the part: all, held out, or learned from"""
    scores: Scores


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A table, the forecast of each launch, and the scores."""

    table: FeatureTable
    cleaning: Cleaning
    seconds: Floats
    """forecast time of each launch"""
    parts: tuple[Part, ...]
    is_own_data: bool
    """whether the table is from the files that the model learned from"""


@dataclass(frozen=True, slots=True)
class Unscored:
    """The forecasts of launches whose times are not known."""

    kernels: tuple[str, ...]
    gpus: tuple[str, ...]
    configurations: tuple[str, ...]
    seconds: Floats
    """forecast time of each launch"""
    incomplete: int
    """rows left out because they lack a feature"""
    of_other_gpus: int


@dataclass(frozen=True, slots=True)
class Selected:
    """The user's choice of launches of the files."""

    gpu: str | None = None
    drops_outliers: bool = True
    time: str | None = None
    """column of the times; None where there is only one"""


def evaluate(model: ModelFile, paths: Sequence[Path], selected: Selected | None = None) -> Evaluation | Unscored:
    """Forecast the launches of some files, and score them where they have times.

    Raises InputError where a feature is missing.
    """
    selected = selected or Selected()
    rules = CleaningRules(model.header.features, drops_outliers=selected.drops_outliers, gpu=selected.gpu)
    rows = read_launches(paths, time=selected.time)
    if np.isnan(rows.seconds).all():
        return _unscored(model, rows, selected)
    found = clean(rows, rules)
    seconds = _forecast(model, found.table.values, found.table.source)
    is_own = {each.sha256 for each in found.files} == {each.sha256 for each in model.header.data}
    parts = (Part("all", _scores(found.table, seconds)), *(_own_parts(model, found, seconds) if is_own else ()))
    return Evaluation(found.table, found.cleaning, seconds, parts, is_own)


def _forecast(model: ModelFile, values: Floats, where: str) -> Floats:
    """Return the times of rows of features; raises InputError for what is no number of seconds."""
    seconds = model.seconds(values)
    is_time = np.abs(seconds) <= MOST  # squares of larger ones would be none, and NaN is not either
    if not is_time.all():
        row = int(np.flatnonzero(~is_time)[0])
        cure = "Its features are far from those that the model learned from."
        raise InputError(f"the forecast of row {row + 1} is not a time", where=where, cure=cure)
    return seconds


def _unscored(model: ModelFile, rows: LaunchRows, selected: Selected) -> Unscored:
    check_magnitudes(rows)
    columns = columns_of(rows, model.header.features)
    own = of_gpu(rows, selected.gpu)
    whole = own & ~np.isnan(rows.values[:, columns]).any(axis=1)
    if not whole.any():
        raise InputError("no launch has all features", where=rows.source, cure="Give launches without missing values.")
    index = np.flatnonzero(whole)
    kernels, gpus, configurations = (
        tuple(names[row] for row in index) for names in (rows.kernels, rows.gpus, rows.configurations)
    )
    seconds = _forecast(model, rows.values[index][:, columns], rows.source)
    return Unscored(kernels, gpus, configurations, seconds, int((own & ~whole).sum()), int((~own).sum()))


def _own_parts(model: ModelFile, found: CleanTable, seconds: Floats) -> Iterator[Part]:
    """Yield the scores of what was held out and of what was learned from, where the file's scores can be told again."""
    fold = _own_fold(model, found.table)
    if fold is None:
        return
    held_out = _scores(found.table.rows(fold.test), seconds[fold.test])
    if math.isclose(held_out.mape, model.header.scores.mape, rel_tol=_SAME):
        yield Part("held out", held_out)
        yield Part("learned from", _scores(found.table.rows(fold.train), seconds[fold.train]))


def _own_fold(model: ModelFile, table: FeatureTable) -> Fold | None:
    header = model.header
    one_fold = {Split.ROWS.value, Split.CONFIGURATIONS.value}
    if header.split not in one_fold or header.recipe not in known_recipes() or len(table) != header.rows:
        return None
    return folds_of(table, Split(header.split), load_recipe(header.recipe).test_share, header.seed)[0]


def _scores(table: FeatureTable, seconds: Floats) -> Scores:
    return scores_of(table.seconds.tolist(), seconds.tolist())
