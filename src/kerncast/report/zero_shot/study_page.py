"""The zero-shot study as a page, as JSON, and on the terminal."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console

from kerncast.measurements.table_files import Columns, write_table
from kerncast.replaced_file import replacing
from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.pictures.picture_files import save_picture
from kerncast.report.tables import markdown, print_table
from kerncast.report.zero_shot.scored_tables import TitledTable, tables_of
from kerncast.report.zero_shot.study_pictures import draw_errors, draw_forecasts
from kerncast.studies.zero_shot.outcomes import Outcome, score_of
from kerncast.studies.zero_shot.protocols import LEAST_SOURCE_SECONDS
from kerncast.studies.zero_shot.study import ZeroShotStudy
from kerncast.units import MICROSECOND, format_seconds

PAGE, _FOLDER = "zero-shot.md", "pictures"
_PICTURES = ("zero-shot-forecasts.svg", "zero-shot-gpus.svg")


def print_study(study: ZeroShotStudy, console: Console) -> None:
    """Print all tables."""
    console.print(_summary(study), highlight=False, markup=False)
    for each in tables_of(study):
        console.print(f"{each.title}. {each.note}", highlight=False, markup=False)
        print_table(each.table, console)


def write_page(study: ZeroShotStudy, out: Path, command: str) -> tuple[Path, ...]:
    """Write the page and its pictures into a folder, or as a page with a folder of pictures beside it; return them."""
    page = out if out.suffix == ".md" else out / PAGE
    with replacing(page) as place:
        (page.parent / _FOLDER).mkdir(parents=True, exist_ok=True)
        place.write_text(page_text(study, command), encoding="utf-8")
    pictures = [page.parent / _FOLDER / name for name in _PICTURES]
    save_picture(draw_forecasts(study), pictures[0])
    save_picture(draw_errors(study), pictures[1])
    return (page, *pictures)


def page_text(study: ZeroShotStudy, command: str) -> str:
    """Return the page in Markdown; every number on it is the study's."""
    parts = [
        "# Forecasts for what was left out",
        f"Written by `{command}`; kerncast's `docs/residual.md` says how it works.",
        fill(_summary(study), _WIDTH),
        fill(_WORDS, _WIDTH),
        *(_section(each) for each in tables_of(study)),
        "## Pictures",
        f"![Forecast against measured time]({_FOLDER}/{_PICTURES[0]})",
        f"![Mean error on each GPU]({_FOLDER}/{_PICTURES[1]})",
    ]
    return "\n\n".join(parts) + "\n"


_WIDTH = 120
_WORDS = (
    "*residual*: the simulation times exp(what features and measured times tell of its error). *simulation*: nothing is"
    " learned. *posterior*: the one time moves the simulation, by the variances that kerncast comes with. MAPE: mean of"
    " |forecast - measured| / measured. *faster GPU named*: of pairs of GPUs whose measured times of a launch differ by"
    " a tenth or more, how often the faster one has the shorter forecast. Rules without an interval have –."
)


def _summary(study: ZeroShotStudy) -> str:
    cases = study.cases
    trained = [cases.every[row] for row in cases.trained]
    names = sorted({each.case.set for each in cases.every if not each.is_trained})
    left = f" Scored only, and no row of them shown: {', '.join(names)}." if names else ""
    belief = study.belief
    return (
        f"{len(cases.every)} launches of {len({each.family for each in cases.every})} kernels in"
        f" {len({each.case.set for each in cases.every})} sets on {len({each.gpu.id for each in cases.every})} GPUs;"
        f" models learn from {len(trained)} of {len({each.family for each in trained})} kernels on"
        f" {len({each.gpu.id for each in trained})} GPUs.{left} Belief in features by all of these: amplitude"
        f" {belief.amplitude:g}, length {belief.length:g}; each forecast has one chosen without what it left out."
        f" Times carried over are longer than {format_seconds(LEAST_SOURCE_SECONDS)}."
    )


def _section(each: TitledTable) -> str:
    return f"## {each.title}\n\n{fill(each.note, _WIDTH)}\n\n{markdown(each.table)}"


def study_object(study: ZeroShotStudy) -> dict[str, Any]:
    """Return what ``kerncast study zero-shot --json`` prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": "zero-shot",
        "cases": len(study.cases.every),
        "belief": {"amplitude": study.belief.amplitude, "length": study.belief.length},
        "protocols": [
            {"protocol": each.name, "methods": [_method(study, outcome) for outcome in each.outcomes]}
            for each in study.protocols
        ],
        "features": [
            {"group": each.group, "mape_without": each.without.mape, "mape_alone": each.alone.mape}
            for each in study.ablation
        ],
        "rises": [
            {"what": each.what, "cases": each.cases, "rising": each.rising, "largest": each.largest}
            for each in study.rises
        ],
    }


def _method(study: ZeroShotStudy, outcome: Outcome) -> dict[str, Any]:
    sets: dict[str, list[int]] = {}
    for number, each in enumerate(outcome.forecasts):
        sets.setdefault(study.cases.every[each.row].case.set, []).append(number)
    groups: Sequence[tuple[str, Outcome]] = [
        (name, Outcome(outcome.method, "", tuple(outcome.forecasts[number] for number in numbers)))
        for name, numbers in sets.items()
    ]
    return {
        "method": outcome.method, "source": outcome.source, **_scores(outcome),
        "sets": [{"set": name, **_scores(of)} for name, of in groups],
    }  # fmt: skip


def _scores(outcome: Outcome) -> dict[str, Any]:
    found = score_of(outcome.forecasts)
    return {
        "n": found.n, "mape": found.mape, "median_ape": found.median, "within_10": found.within[0],
        "within_20": found.within[1], "within_50": found.within[2], "coverage": found.coverage,
        "high_over_low": found.width,
    }  # fmt: skip


def write_rows(study: ZeroShotStudy, path: Path) -> None:
    """Write the launches that models may learn from, with features, as ``train --recipe residual`` reads them."""
    table = study.cases.table()
    labels: Columns = {"kernel": str, "gpu": str, "configuration": str, "time_us": float}
    rows = (
        (kernel, gpu, configuration, seconds, *values)
        for kernel, gpu, configuration, seconds, values in zip(
            table.kernels, table.gpus, table.configurations, (table.seconds / MICROSECOND).tolist(),
            table.values.tolist(), strict=True,
        )
    )  # fmt: skip
    write_table(path, {**labels, **dict.fromkeys(table.names, float)}, rows)
