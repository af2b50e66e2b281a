"""Trained models as tables and as JSON: cleaning, scores beside rules of thumb, a model's header."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from kerncast.measurements.scores import Scores
from kerncast.models.learned.model_files import ModelHeader, header_object, tuning_object
from kerncast.models.learned.tuning import Settings, Tried, Tuning
from kerncast.read.bounded_text import listed
from kerncast.read.features.cleaning import Cleaning, Why
from kerncast.report.tables import Table, TextColumn, csv_text
from kerncast.studies.average_case import Outcome, Study
from kerncast.studies.evaluation import Evaluation, Unscored
from kerncast.studies.splits import Split
from kerncast.units import NANOSECOND, PERCENT, format_seconds

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
        "r2": scores.known_r2,
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
        **({"tuning": [tuning_object(each) for each in outcome.tunings]} if outcome.tunings else {}),
        "caveats": list(outcome.caveats),
    }


_HEADING = ("model", "n", "MAE", "Max AE", "MSE", "RMSE", "R2", "MAPE")
_BASELINES = {
    "simulation": "the simulation alone",
    "constant": "rule: median time of the training part",
    "cycles": "rule: elapsed cycles x one factor",
    "cycles per GPU": "rule: elapsed cycles x one factor per GPU",
    "SMs x clock": "rule: another GPU's time, by SMs x clock",
}
_WHY = {
    Why.TIME: "they are other times of the same launches",
    Why.RATE: "they were computed from the time",
    Why.CONSTANT: "they are constant",
    Why.MISSING: "they are missing in more than a tenth of the launches",
    Why.TEXT: "they hold texts",
    Why.LABEL: "they only tell launches apart or count runs",
    Why.NOT_EVERYWHERE: "not every file has them",
}
_SPLIT = {
    Split.ROWS: "a fifth of the launches held out, at random",
    Split.CONFIGURATIONS: "a fifth of the configurations held out, each on all GPUs",
    Split.KERNELS: "each kernel held out once",
    Split.GPUS: "each GPU held out once",
}
#: Launches without times that a terminal shows.
_MOST_ROWS = 40
#: What rounding leaves is no error.
_LEAST_SECONDS = 1e-15
_LARGE = 1000


def study_table(study: Study) -> Table:
    """Return a row per model and rule of thumb."""
    return Table(_HEADING, tuple((title_of(each), *_cells(each.scores)) for each in study.outcomes))


def folds_table(study: Study) -> Table | None:
    """Return the MAPE of each fold, or None where there is one fold only."""
    if len(study.folds) < 2:
        return None
    rows = (
        (title_of(each), fold.held_out, str(fold.trained_on), str(fold.scores.n), percent(fold.scores.mape))
        for each in study.outcomes
        for fold in each.folds
    )
    return Table(("model", "held out", "learned from", "n", "MAPE"), tuple(rows))


_MOST_SETTINGS = 60


def tuning_table(study: Study) -> Table | None:
    """Return how the settings of each model's grid did, on the training part of each fold; None without tuning."""
    rows = [
        (title_of(outcome), fold.held_out, _settings(tried.settings), *_tried(tuning, tried))
        for outcome in study.outcomes
        for fold, tuning in zip(study.folds, outcome.tunings, strict=False)
        for tried in (tuning.tried if len(study.folds) == 1 else (tuning.tried[0], tuning.best))
    ]
    if not rows:
        return None
    return Table(("model", "tuned without", "settings", "error in cross-validation", ""), tuple(dict.fromkeys(rows)))


def _tried(tuning: Tuning, tried: Tried) -> tuple[str, str]:
    marks = ("published", tried == tuning.tried[0]), ("chosen", tried.settings == tuning.chosen)
    return f"x {math.exp(tried.log_error):.3g}", ", ".join(name for name, is_so in marks if is_so)


def _settings(settings: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in settings)[:_MOST_SETTINGS]


def _tuning_notes(study: Study) -> Iterator[str]:
    tunings = [each for outcome in study.outcomes for each in outcome.tunings]
    if not tunings:
        return
    yield (
        f"--tune chose by cross-validation with {tunings[0].grouped_by} held out, {len(tunings[0].held_out)} folds of"
        f" {tunings[0].launches} launches; an error is the exponential of the mean of |ln(measured / forecast)|"
    )
    if tunings[0].grouped_by != Split.KERNELS.value:
        yield f"the launches are of one kernel only, so that --tune held out {tunings[0].grouped_by} instead of kernels"


def study_sentence(study: Study) -> str:
    """Return what was done, in one sentence."""
    table = study.table
    features = sorted({len(names) for names in study.features})
    count = " to ".join(str(each) for each in dict.fromkeys((features[0], features[-1])))
    return (
        f"{study.plan.recipe.title}: {len(table)} launches of {_counted(table.kernels, 'kernel')} on"
        f" {_counted(table.gpus, 'GPU')}, {count} feature{'' if count == '1' else 's'} ({study.plan.features});"
        f" {_SPLIT[study.plan.split]}."
    )


def study_notes(study: Study, cleaning: Cleaning) -> tuple[str, ...]:
    """Return what was cleaned away, what follows from the time, and what the models say of themselves."""
    used = {name for names in study.features for name in names}
    leaking = [name for name in cleaning.time_derived if name in used]
    notes = [_row_note(cleaning), *_column_notes(cleaning)]
    if leaking:
        notes.append(f"{listed(leaking)} follow from the time that is forecast; --features timeless leaves them out")
    notes += _tuning_notes(study)
    return (*notes, *dict.fromkeys(caveat for each in study.outcomes for caveat in each.caveats))


def _row_note(cleaning: Cleaning) -> str:
    """Return how many rows went, and why."""
    rows = {
        "of other GPUs": cleaning.of_other_gpus,
        "without a time above 0": cleaning.without_time,
        "with a missing feature": cleaning.missing,
        "that repeat another": cleaning.duplicates,
        "that are outliers among repeats": cleaning.outliers,
    }
    gone = [f"{count} {what}" for what, count in rows.items() if count]
    return f"{cleaning.rows_kept} of {cleaning.rows_read} rows are kept" + (f"; not {', '.join(gone)}" if gone else "")


def _column_notes(cleaning: Cleaning) -> Iterator[str]:
    by_reason = sorted(cleaning.removed, key=lambda each: list(Why).index(each.why))
    for why, group in groupby(by_reason, key=lambda each: each.why):
        yield f"left out, as {_WHY[why]}: {listed([each.name for each in group])}"


def evaluation_table(found: Evaluation) -> Table:
    """Return a row per part of the data."""
    return Table(("part", *_HEADING[1:]), tuple((part.name, *_cells(part.scores)) for part in found.parts))


def header_sentences(header: ModelHeader) -> tuple[str, ...]:
    """Return what a model's file says of it."""
    data = ", ".join(each.name for each in header.data)
    size = f"{len(header.features)} features, learned from {header.learned_from} launches of {data}"
    scored = f"split by {header.split}, MAPE {percent(header.scores.mape)} on {header.scores.n} held out"
    return (f"{header.model} of {header.recipe}: {size}; {scored}.", f"Made again by: {header.command}")


def percent(share: float) -> str:
    """Return a share in %; of errors beyond all use two digits say all.

    >>> percent(0.00347), percent(4348.1)
    ('0.35 %', '4.3e+05 %')
    """
    number = share / PERCENT
    return f"{number:.2f} %" if number < _LARGE else f"{number:.2g} %"


def title_of(outcome: Outcome) -> str:
    """Return how a table calls a model or a rule of thumb."""
    return _BASELINES[outcome.name] if outcome.is_baseline else outcome.title


def evaluation_notes(found: Evaluation, header: ModelHeader) -> tuple[str, ...]:
    """Return what is to be known of the scores."""
    return (
        _row_note(found.cleaning),
        *_own_notes(found, header),
        *_unseen(header, found.table.kernels, found.table.gpus),
        *header.caveats,
    )


def evaluation_csv(found: Evaluation) -> str:
    """Return a row per launch with its measured and forecast time."""
    table = found.table
    rows = zip(table.kernels, table.gpus, table.configurations, table.seconds, found.seconds, strict=True)
    heading = ("kernel", "gpu", "configuration", "measured_seconds", "seconds")
    return csv_text(heading, ((*names, f"{took:.9g}", f"{forecast:.9g}") for *names, took, forecast in rows))


def unscored_table(found: Unscored) -> Table:
    """Return a row per launch with its forecast time; of many, the first."""
    shown = ((*names, format_seconds(seconds, 4) if seconds else "-") for *names, seconds in _told(found, _MOST_ROWS))
    return Table((*map(TextColumn, ("kernel", "GPU", "configuration")), "time"), tuple(shown))


def unscored_csv(found: Unscored) -> str:
    """Return a row per launch with its forecast time; the time is empty where the model tells none above 0."""
    heading = ("kernel", "gpu", "configuration", "seconds")
    return csv_text(heading, ((*names, f"{seconds:.9g}" if seconds else "") for *names, seconds in _told(found)))


def unscored_object(found: Unscored, header: ModelHeader, notes: Sequence[str]) -> dict[str, Any]:
    """Return what ``kerncast evaluate --json`` prints of launches without times; null is a time of 0 or less."""
    names = ("kernel", "gpu", "configuration", "seconds")
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {key: value for key, value in header_object(header).items() if key != "check"},
        "launches": len(found.seconds),
        "forecasts": [dict(zip(names, row, strict=True)) for row in _told(found)],
        "scores": [],
        "caveats": list(notes),
    }


def _told(found: Unscored, most: int | None = None) -> Iterator[tuple[str, str, str, float | None]]:
    """Yield kernel, GPU, configuration and time of the first launches; no time where the model forecasts 0 or less."""
    times = (seconds if seconds > 0 else None for seconds in found.seconds.tolist())
    return islice(zip(found.kernels, found.gpus, found.configurations, times, strict=True), most)


def unscored_notes(found: Unscored, header: ModelHeader) -> tuple[str, ...]:
    """Return what is to be known of forecasts without measured times beside them."""
    notes = ["no column is a time: the launches are forecast and not scored; kerncast predict --model adds intervals"]
    if found.incomplete:
        notes.append(f"{found.incomplete} rows lack a feature and are left out")
    if found.of_other_gpus:
        notes.append(f"{found.of_other_gpus} rows are of other GPUs and left out")
    late = int((found.seconds <= 0).sum())
    if late:
        notes.append(f"the model forecasts a time of 0 or less for {late} launches: none is told for them")
    if len(found.seconds) > _MOST_ROWS:
        notes.append(f"the first {_MOST_ROWS} of {len(found.seconds)} launches are shown; --csv and --json have all")
    return (*notes, *_unseen(header, found.kernels, found.gpus), *header.caveats)


def _own_notes(found: Evaluation, header: ModelHeader) -> Iterator[str]:
    is_own = found.is_own_data and not set(found.table.gpus).isdisjoint(header.gpus)
    if is_own and len(found.parts) == 1:
        yield "the model learned from these files: launches that it learned from may be among these"
    elif is_own:
        yield "the model learned from these files: only the part that was held out tells of other launches"
    late = int((found.seconds <= 0).sum())
    if late:
        yield f"the model forecasts a time of 0 or less for {late} launches"


def _unseen(header: ModelHeader, kernels: Sequence[str], gpus: Sequence[str]) -> Iterator[str]:
    """Yield which kernels and GPUs a model never saw."""
    for what, known, asked in (("GPUs", header.gpus, gpus), ("kernels", header.kernels, kernels)):
        unseen = sorted(set(asked) - set(known))
        if unseen:
            yield f"the model learned from no launch of these {what}: {listed(unseen)}"


def _counted(names: Sequence[str], what: str) -> str:
    count = len(set(names))
    return f"{count} {what}" + ("s" if count > 1 else "")


def _cells(scores: Scores) -> tuple[str, ...]:
    errors = (scores.mae, scores.max_ae, scores.rmse)
    mae, max_ae, rmse = (format_seconds(each if each > _LEAST_SECONDS else 0, 4) for each in errors)
    mse = f"{scores.mse / NANOSECOND**2 if scores.rmse > _LEAST_SECONDS else 0:.3g} ns²"
    r2 = "-" if math.isnan(scores.r2) else f"{scores.r2:.4f}" if scores.r2 > -_LARGE else f"{scores.r2:.2g}"
    return (str(scores.n), mae, max_ae, mse, rmse, r2, percent(scores.mape))
