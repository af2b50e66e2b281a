"""A study of times on parts of a GPU: its data set, and the tables of the report that it follows."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.measurements.table_files import Columns, write_table
from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.tables import Table, print_table
from kerncast.studies.partition_study import MethodScores, PartitionStudy, rows_of
from kerncast.units import format_seconds

_LABELS: Columns = {"application": str, "kernel": str, "gpu": str, "launch": str, "tpcs": int, "time_us": float}


def write_data(study: PartitionStudy, path: Path) -> None:
    """Write a row per run, as ``kerncast train`` and ``bound --train`` read it; raises InputError."""
    write_table(path, {**_LABELS, **dict.fromkeys(study.names, float)}, rows_of(study))


def study_object(study: PartitionStudy, scores: tuple[MethodScores, ...]) -> dict[str, Any]:
    """Return what ``kerncast study partitions --json`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": "partitions",
        "gpu": study.gpu.name,
        "gpu_id": study.gpu.id,
        "tpcs": list(study.tpcs),
        "times": _times_from(study),
        "features": list(study.names),
        "launches": [
            {
                "application": each.application,
                "kernel": each.kernel,
                "launch": each.launch,
                "median_seconds": [each.times.typical(count) for count in study.tpcs],
            }
            for each in study.launches
        ],
        "scores": [
            {
                "application": each.application, "method": each.method, "anchors": each.anchors,
                "n": each.scores.n, "violations": each.worst.misses,
                "mean_over_estimate": each.worst.mean_over, "largest_over_estimate": each.worst.largest_over,
                "mae_seconds": each.scores.mae, "max_ae_seconds": each.scores.max_ae, "mse": each.scores.mse,
                "rmse_seconds": each.scores.rmse, "r2": each.scores.known_r2, "mape": each.scores.mape,
            }
            for each in scores
        ],
        "refused": [{"reason": reason} for reason in study.refused],
    }  # fmt: skip


def _times_from(study: PartitionStudy) -> str:
    return "measured" if study.is_measured else "simulated, with the spread of measured runs of other kernels"


def print_study(study: PartitionStudy, scores: tuple[MethodScores, ...], console: Console) -> None:
    """Print the median times of each launch, and the published methods on applications that were held out."""
    console.print(f"[bold]{escape(study.gpu.name)}[/bold]  median times, {_times_from(study)}", highlight=False)
    heads = ("application", "kernel", "launch", *(f"{count} TPCs" for count in study.tpcs))
    rows = tuple(
        (
            each.application, each.kernel, str(each.launch),
            *(format_seconds(each.times.typical(count)) for count in study.tpcs),
        )
        for each in study.launches
    )  # fmt: skip
    print_table(Table(heads, rows), console)
    for application in dict.fromkeys(each.application for each in scores):
        console.print(f"{escape(application)}, bounded by what the other programs taught:", highlight=False)
        chosen = [each for each in scores if each.application == application]
        print_table(Table(_HEADS, tuple(map(_row, chosen))), console)
    for reason in study.refused:
        console.print(f"Left out: {escape(reason)}", highlight=False)


_HEADS = ("method", "measured", "times", "above", "mean over", "MAE", "max AE", "RMSE", "R²", "MAPE")


def _row(each: MethodScores) -> tuple[str, ...]:
    scores = each.scores
    return (
        each.method, each.anchors, str(scores.n), str(each.worst.misses), f"{each.worst.mean_over:.1%}",
        format_seconds(scores.mae), format_seconds(scores.max_ae), format_seconds(scores.rmse),
        "–" if scores.known_r2 is None else f"{scores.r2:.4f}",
        f"{scores.mape:.1%}",
    )  # fmt: skip
