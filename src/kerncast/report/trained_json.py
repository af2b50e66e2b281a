"""JSON of training and evaluation: times in seconds, shares of 1."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncast.read.feature_cleaning import Cleaning
from kerncast.studies.average_case import Outcome, Study
from kerncast.studies.evaluation import Evaluation
from kerncast.studies.model_header import ModelHeader, header_object
from kerncast.studies.scores import Scores

SCHEMA_VERSION = "1.0"


def study_object(study: Study, cleaning: Cleaning, notes: Sequence[str], written: Sequence[Path]) -> dict[str, Any]:
    """Return what ``kerncast train --json`` prints."""
    plan, table = study.plan, study.table
    return {
        "schema_version": SCHEMA_VERSION,
        "recipe": plan.recipe.name,
        "split": plan.split.value,
        "features_rule": str(plan.features),
        "features": [list(names) for names in dict.fromkeys(study.features)],
        "launches": len(table),
        "kernels": sorted(set(table.kernels)),
        "gpus": sorted(set(table.gpus)),
        "cleaning": cleaning_object(cleaning),
        "scores": [_outcome(each) for each in study.outcomes],
        "files": [str(path) for path in written],
        "caveats": list(notes),
    }


def evaluation_object(found: Evaluation, header: ModelHeader, notes: Sequence[str]) -> dict[str, Any]:
    """Return what ``kerncast evaluate --json`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {key: value for key, value in header_object(header).items() if key != "check"},
        "launches": len(found.table),
        "cleaning": cleaning_object(found.cleaning),
        "scores": [{"part": part.name, **scores_object(part.scores)} for part in found.parts],
        "caveats": list(notes),
    }


def scores_object(scores: Scores) -> dict[str, Any]:
    """Return scores; r2 is null where it is not a number."""
    return {
        "n": scores.n,
        "mae_seconds": scores.mae,
        "max_ae_seconds": scores.max_ae,
        "mse_seconds_squared": scores.mse,
        "rmse_seconds": scores.rmse,
        "r2": None if math.isnan(scores.r2) else scores.r2,
        "mape": scores.mape,
    }


def cleaning_object(cleaning: Cleaning) -> dict[str, Any]:
    """Return what was cleaned away."""
    return {
        "rows_read": cleaning.rows_read,
        "rows_kept": cleaning.rows_kept,
        "of_other_gpus": cleaning.of_other_gpus,
        "without_time": cleaning.without_time,
        "missing": cleaning.missing,
        "duplicates": cleaning.duplicates,
        "outliers": cleaning.outliers,
        "removed_columns": [{"name": each.name, "reason": each.why.value} for each in cleaning.removed],
        "time_derived_features": list(cleaning.time_derived),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    folds = [
        {"held_out": fold.held_out, "learned_from": fold.trained_on, **scores_object(fold.scores)}
        for fold in outcome.folds
    ]
    return {
        "model": outcome.name,
        "is_baseline": outcome.is_baseline,
        **scores_object(outcome.scores),
        "folds": folds,
        "caveats": list(outcome.caveats),
    }
