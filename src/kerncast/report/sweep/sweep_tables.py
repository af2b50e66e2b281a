"""A sweep as tables for a terminal, as JSON, and as one table of all points for CSV and Parquet."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncast.gpu import GPU
from kerncast.replaced_file import replacing
from kerncast.report.as_json import SCHEMA_VERSION, fields_of
from kerncast.report.notebook import Part, Shown
from kerncast.report.tables import Table, TextColumn, csv_text
from kerncast.report.words import describe_limiter, describe_percent, describe_range
from kerncast.studies.sweeps.point_results import Infeasible, Outcome
from kerncast.studies.sweeps.sweep import Ranked, Sweep
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

_LONGEST_REASON = 160
#: With more GPUs than this, the tables stand alone.
_MOST_NOTED = 8
_NUMBERS = ("seconds", "low", "high")
_COLUMNS = ("gpu", "gpu_id", *_NUMBERS, "limiter", "model", "infeasible", "reason")
_WORDS = {
    Infeasible.LAUNCH: "no launch",
    Infeasible.COMPILE: "does not compile",
    Infeasible.FIT: "does not fit",
    Infeasible.FAULT: "traps",
    Infeasible.BUDGET: "does not end",
    Infeasible.UNSUPPORTED: "not covered",
    Infeasible.LOST: "lost",
}


def best_table(sweep: Sweep, gpu: GPU, top: int, level: float) -> Table:
    """Return the best points on one GPU, the shortest first, by the parameters that vary."""
    names = [axis.name for axis in sweep.space.axes if len(axis.values) > 1]
    ranked = sweep.ranked(gpu)
    rows = tuple(
        (
            str(place), *_values(each, names), format_seconds(each.seconds), _range(each.outcome),
            _over(each, ranked[0]), describe_limiter(each.outcome.limiter),
        )
        for place, each in enumerate(ranked[:top], 1)
    )  # fmt: skip
    numbers = ("time", f"{level:.0%} interval", "over best")
    return Table((gpu.name, *names, *numbers, TextColumn("limited by")), rows)


def _values(each: Ranked, names: list[str]) -> Iterator[str]:
    return (str(value) for name, value in each.point.settings if name in names)


def _range(outcome: Outcome) -> str:
    return describe_range(outcome.low or 0.0, outcome.high or 0.0)


def _over(each: Ranked, best: Ranked) -> str:
    return "" if each is best else f"+{describe_percent(each.seconds / best.seconds - 1)}"


def infeasible_table(sweep: Sweep) -> Table:
    """Return how many points have no time, by GPU and kind of reason, with the first reason of each kind."""
    rows = tuple(
        (gpu.name, _WORDS[kind], str(count), _shortened(first.reason))
        for gpu in sweep.gpus
        for kind, count, first in sweep.infeasible(gpu)
    )
    return Table(("GPU", TextColumn("infeasible"), "points", TextColumn("first reason")), rows)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"


def sweep_notes(sweep: Sweep) -> list[str]:
    """Return what the tables do not say of how many points there are."""
    count = len(sweep.results)
    notes = [f"{count} {'point' if count == 1 else 'points'} on {len(sweep.gpus)} GPU{'s'[: len(sweep.gpus) - 1]}."]
    if sweep.excluded:
        notes.append(f"Conditions exclude {sweep.excluded} of {sweep.space.size} combinations.")
    if sweep.reused:
        notes.append(f"{sweep.reused} points are of an earlier run.")
    for gpu in sweep.gpus if len(sweep.gpus) <= _MOST_NOTED else ():
        ranked = sweep.ranked(gpu)
        near = sum((each.outcome.low or 0.0) <= ranked[0].seconds for each in ranked[1:])
        if near:
            others = "another point" if near == 1 else f"{near} other points"
            notes.append(f"On {gpu.name} the time of the best is within the interval of {others}.")
    return notes


def shown_sweep(sweep: Sweep, top: int, level: float) -> Shown:
    """Return the best point on each GPU in a sentence, and the next ones in tables."""
    parts = [Part(best_table(sweep, gpu, top, level)) for gpu in sweep.gpus if sweep.ranked(gpu)]
    missing = infeasible_table(sweep)
    if missing.rows:
        parts.append(Part(missing, "Points without a time"))
    said = [_best_said(sweep, gpu) for gpu in sweep.gpus[:_MOST_NOTED]]
    return Shown(tuple(said), tuple(parts), tuple(sweep_notes(sweep)))


def _best_said(sweep: Sweep, gpu: GPU) -> str:
    ranked = sweep.ranked(gpu)
    if not ranked:
        return f"No point has a time on {gpu.name}."
    best, settings = ranked[0], ", ".join(f"{name} = {value}" for name, value in ranked[0].point.settings)
    return (
        f"{sweep.label} is fastest on {gpu.name} with {settings}: {format_seconds(best.seconds, 3)}"
        f" ({_range(best.outcome)}), limited by {describe_limiter(best.outcome.limiter)}."
    )


def sweep_object(sweep: Sweep, top: int, level: float) -> dict[str, Any]:
    """Return the object that ``kerncast sweep --json`` prints; times in seconds."""
    return {
        "schema_version": SCHEMA_VERSION,
        "level": level,
        "parameters": [{"name": axis.name, "values": list(axis.values)} for axis in sweep.space.axes],
        "points": len(sweep.results),
        "excluded": sweep.excluded,
        "reused": sweep.reused,
        "best": [row for gpu in sweep.gpus for row in _best(sweep, gpu, top)],
        "infeasible": [
            {**_gpu(gpu), "kind": kind.value, "points": count, "first_reason": first.reason}
            for gpu in sweep.gpus
            for kind, count, first in sweep.infeasible(gpu)
        ],
        "results": list(_rows(sweep)),
    }


def _best(sweep: Sweep, gpu: GPU, top: int) -> Iterator[dict[str, Any]]:
    for place, each in enumerate(sweep.ranked(gpu)[:top], 1):
        numbers = fields_of(each.outcome, *_NUMBERS, "limiter", "model")
        yield {**_gpu(gpu), "rank": place, "point": each.point.number, "settings": dict(each.point.settings), **numbers}


def _rows(sweep: Sweep) -> Iterator[dict[str, Any]]:
    for result in sweep.results:
        for gpu, outcome in zip(sweep.gpus, result.outcomes, strict=True):
            kind = outcome.infeasible
            yield {
                "point": result.point.number,
                "settings": dict(result.point.settings),
                **_gpu(gpu),
                **fields_of(outcome, *_NUMBERS, "limiter", "model"),
                "infeasible": None if kind is None else kind.value,
                "reason": outcome.reason or None,
            }


def _gpu(gpu: GPU) -> dict[str, str]:
    return {"gpu": gpu.name, "gpu_id": gpu.id}


def sweep_csv(sweep: Sweep) -> str:
    """Return one row per point and GPU as CSV: the settings, then the forecast or why there is none."""
    names = [axis.name for axis in sweep.space.axes]
    rows = ([*row["settings"].values(), *(row[column] for column in _COLUMNS)] for row in _rows(sweep))
    return csv_text([*names, *_COLUMNS], rows)


def sweep_frame(sweep: Sweep) -> "DataFrame":
    """Return the same as a table of pandas; a parameter with numbers and texts is a column of texts."""
    import pandas as pd  # noqa: PLC0415  heavy, and only Parquet needs it

    rows = [{**row["settings"], **{column: row[column] for column in _COLUMNS}} for row in _rows(sweep)]
    frame = pd.DataFrame(rows)
    for axis in sweep.space.axes:
        if len({isinstance(value, str) for value in axis.values}) > 1:  # noqa: PD011  no array
            frame[axis.name] = frame[axis.name].astype(str)
    return frame


def write_parquet(sweep: Sweep, path: Path) -> None:
    """Write that table as Parquet; raises InputError where that is not possible."""
    with replacing(path) as place:
        sweep_frame(sweep).to_parquet(place, index=False)
