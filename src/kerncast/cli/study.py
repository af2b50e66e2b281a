"""kerncast study: data sets and tables of published studies, from programs of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Quiet, counts_of_tpcs, one_gpu
from kerncast.cli.shared.output import emit_json, progress_on_stderr, stdout_console
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.read.partition_files import MeasurementFile
    from kerncast.studies.partitions import Parts

_STUDIES = ("partitions", "zero-shot")
_SUITE = "suite"
_MOST_RUNS = 1000
_TABLES = (".csv", ".parquet")


def command(  # noqa: PLR0913  each parameter is one option
    name: Annotated[str, typer.Argument(help="The study: partitions, or zero-shot.")],
    what: Annotated[
        list[str],
        typer.Argument(
            help="partitions: a launch file, a folder of them, or suite; zero-shot: measured cases (.json, or .jsonl of"
            " measure)."
        ),
    ],
    gpu: Annotated[list[str] | None, typer.Option(help="partitions: one GPU (name, id or TOML file).")] = None,
    tpcs: Annotated[str, typer.Option(help="partitions: TPC counts, such as 1-7.")] = "1-7",
    times: Annotated[
        Path | None, typer.Option(help="partitions: measured times (.jsonl of measure partition).")
    ] = None,
    runs: Annotated[int, typer.Option(help="partitions: simulated runs of each count, without --times.")] = 10,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(help="partitions: program to bound by what the others taught; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="partitions: data set (.csv, .parquet); zero-shot: page (.md), or folder for it."),
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="zero-shot: launches with features (.csv, .parquet), as train reads them.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Run a study: bounds on parts of a GPU (partitions), or forecasts for what was left out (zero-shot)."""
    if name not in _STUDIES:
        raise InputError(f"no study is called {name[:40]!r}", cure=f"Known: {', '.join(_STUDIES)}.")
    if name == "zero-shot":
        _check_unused({"--gpu": gpu, "--times": times, "--hold-out": hold_out}, name)
        return _zero_shot([Path(each) for each in what], _Outputs(out, rows, json_, quiet))
    _check_unused({"--rows": rows}, name)
    if len(what) > 1:
        raise InputError(f"{len(what)} names are given", where=what[1], cure="Name one launch file, or one folder.")
    if not 1 <= runs <= _MOST_RUNS:
        raise InputError(f"--runs is {runs}", cure=f"Give 1 to {_MOST_RUNS}.")
    chosen, _ = one_gpu(gpu, "Name one.")
    asked = _Partitions(what[0], (chosen, counts_of_tpcs(tpcs, chosen)), times, runs, tuple(hold_out or ()))
    return _partitions(asked, _Outputs(out, None, json_, quiet))


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Where a study's results go."""

    out: Path | None
    rows: Path | None
    json: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class _Partitions:
    """What the study of partitions is asked."""

    what: str
    parts: "Parts"
    times: Path | None
    runs: int
    hold_out: tuple[str, ...]


def _check_unused(options: Mapping[str, object], name: str) -> None:
    for option, value in options.items():
        if value:
            raise InputError(f"the study {name} makes no use of {option}", cure="Leave it out.")


def _check_table(path: Path | None) -> None:
    if path is not None and (path.suffix not in _TABLES or not path.parent.is_dir()):
        raise InputError(
            f"{path} is no place for a table", cure=f"End it in {' or '.join(_TABLES)}, in a folder that is there."
        )


def _partitions(asked: _Partitions, outputs: _Outputs) -> int:
    from kerncast.report.bounds.study_tables import print_study, study_object, write_data  # noqa: PLC0415
    from kerncast.studies.partition_study import (  # noqa: PLC0415  LLVM loads late
        TimesFrom,
        check_held_out,
        launches_of,
        study_partitions,
        worst_case_scores,
    )

    launches, left_out = launches_of(_folder(asked.what))
    check_held_out(asked.hold_out, launches, asked.parts[1])
    _check_table(outputs.out)
    with progress_on_stderr(quiet=outputs.quiet) as progress:
        study = study_partitions(launches, asked.parts, TimesFrom(_measured(asked.times), asked.runs), progress)
    study = replace(study, refused=(*left_out, *study.refused))
    if outputs.out is not None:
        write_data(study, outputs.out)
    scores = worst_case_scores(study, asked.hold_out)
    if outputs.json:
        emit_json(study_object(study, scores), None)
    else:
        print_study(study, scores, stdout_console())
    return 0


def _zero_shot(paths: Sequence[Path], outputs: _Outputs) -> int:
    from kerncast.read.measured_cases import read_cases  # noqa: PLC0415
    from kerncast.report.zero_shot.study_page import print_study, study_object, write_page, write_rows  # noqa: PLC0415
    from kerncast.studies.zero_shot.cases import study_cases  # noqa: PLC0415
    from kerncast.studies.zero_shot.study import study_zero_shot  # noqa: PLC0415

    _check_table(outputs.rows)
    if outputs.out is not None and outputs.out.suffix not in {"", ".md"}:
        raise InputError(
            f"{outputs.out} is no place for a page", where="--out", cure="Name a folder, or end it in .md."
        )
    measured = [path for path in paths if path.suffix.lower() == ".jsonl"]
    tables = [path for path in paths if path not in measured]
    known = read_cases(tables) if tables else ()
    with progress_on_stderr(quiet=outputs.quiet) as progress:
        if measured:
            from kerncast.studies.zero_shot.measured_launches import simulate_measured  # noqa: PLC0415  LLVM loads late

            found = simulate_measured(measured, progress)
            known = (*known, *found.cases)
            for reason in found.refused:
                typer.echo(f"kerncast: left out: {reason}", err=True)
        study = study_zero_shot(study_cases(known), progress)
    written: tuple[Path, ...] = ()
    if outputs.out is not None:
        names = " ".join(path.name for path in paths)
        written = write_page(study, outputs.out, f"kerncast study zero-shot {names} --out {outputs.out.name}")
    if outputs.rows is not None:
        write_rows(study, outputs.rows)
        written += (outputs.rows,)
    if outputs.json:
        emit_json(study_object(study), None)
    else:
        print_study(study, stdout_console())
    for path in written:
        typer.echo(f"kerncast: written to {path}", err=True)
    return 0


def _folder(what: str) -> Path:
    from kerncast.bench.plan import SUITE  # noqa: PLC0415

    return SUITE if what == _SUITE else Path(what)


def _measured(path: Path | None) -> "MeasurementFile | None":
    from kerncast.measurements import read_measurement  # noqa: PLC0415

    return None if path is None else (read_measurement(path), path)
