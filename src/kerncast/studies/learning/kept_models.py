"""The file of a model that a study has trained: what its header says of data, settings and scores."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from kerncast.models.learned.model_files import MOST_CHECKED, ModelFile, ModelHeader, SelfCheck, Versions
from kerncast.read.features.cleaning import DataFile
from kerncast.studies.average_case import Study, TrainedModel
from kerncast.version import __version__


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a study's table."""

    files: tuple[DataFile, ...]
    options: tuple[str, ...]
    """options of the command line that chose launches, such as --gpu and its name"""


def model_file(study: Study, model: TrainedModel, origin: Origin) -> ModelFile:
    """Return the model with its header."""
    plan, table = study.plan, study.table
    outcome = next(each for each in study.outcomes if each.name == model.recipe.name)
    python = ".".join(map(str, sys.version_info[:3]))
    header = ModelHeader(
        recipe=plan.recipe.name,
        model=model.recipe.name,
        form=type(model.fit.trained.regressor).__name__,
        features=model.features,
        data=origin.files,
        gpus=tuple(sorted(set(table.gpus))),
        kernels=tuple(sorted(set(table.kernels))),
        rows=len(table),
        learned_from=model.fit.rows,
        split=plan.split.value,
        seed=plan.recipe.seed,
        scores=outcome.scores,
        caveats=outcome.caveats,
        command=_command(study, model, origin),
        versions=Versions(__version__, python, version("scikit-learn"), np.__version__),
        check=_check(study, model),
        reach=model.reach,
        tuning=model.tuning,
        base=plan.recipe.base,
    )
    return ModelFile(header, model.fit.trained)


def _command(study: Study, model: TrainedModel, origin: Origin) -> str:
    words: Sequence[str] = (
        *("kerncast", "train", "--recipe", study.plan.recipe.name),
        *(each.name for each in origin.files),
        *("--model", model.recipe.name, "--split", study.plan.split.value),
        *("--features", str(study.plan.features), *origin.options),
        *(("--tune",) if study.plan.tunes else ()),
        *("--out", f"{model.recipe.name}.kcm"),
    )
    return shlex.join(words)


def _check(study: Study, model: TrainedModel) -> SelfCheck:
    """Return the forecasts of launches spread over the table by their time."""
    by_time = np.argsort(study.table.seconds, kind="stable")
    rows = by_time[np.unique(np.linspace(0, len(by_time) - 1, MOST_CHECKED).astype(int))]
    values = study.table.rows(rows).features(model.features).values
    seconds = model.fit.trained.seconds(values)
    return SelfCheck(tuple(tuple(float(cell) for cell in row) for row in values), tuple(float(s) for s in seconds))
