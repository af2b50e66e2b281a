"""kerncast study: data sets and tables of published studies, from programs of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Quiet, one_gpu
from kerncast.cli.shared.output import emit_json, progress_on_stderr, stdout_console, tell
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.gpu import GPU
    from kerncast.read.partition_files import MeasurementFile
    from kerncast.studies.partitions import Parts

_STUDIES = ("partitions", "zero-shot", "convolution")
_SUITE = "suite"
_MOST_RUNS = 1000
_TABLES = (".csv", ".parquet")
#: The GPU that the published convolution layer was measured on.
_OF_LAYER = "TITAN V"


def command(  # noqa: PLR0913  each parameter is one option
    name: Annotated[str, typer.Argument(help="The study: partitions, zero-shot, or convolution.")],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="partitions: a launch file, a folder of them, or suite; zero-shot: measured cases (.json, or .jsonl of"
            " measure); convolution: nothing."
        ),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(help="partitions: one GPU (name, id or TOML file); convolution: the same, TITAN V without it."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            help="convolution: block, channels, kernel or size, or NAME=VALUES such as size=28,56; repeatable.",
            metavar="NAME[=VALUES]",
        ),
    ] = None,
    given: Annotated[
        Path | None, typer.Option(help="convolution: measured values of one's own (.csv; docs/convolution.md).")
    ] = None,
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
        typer.Option(
            help="partitions: data set (.csv, .parquet); zero-shot: page (.md), or folder for it; convolution: table"
            " (.csv), page (.md) or picture (.png, .svg, .pdf)."
        ),
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="zero-shot: launches with features (.csv, .parquet), as train reads them.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Run a study: bounds on parts of a GPU, forecasts for what was left out, or sweeps of a convolution layer."""
    if name not in _STUDIES:
        raise InputError(f"no study is called {name[:40]!r}", cure=f"Known: {', '.join(_STUDIES)}.")
    outputs = _Outputs(out, rows, json_, quiet)
    if name == "convolution":
        _check_unused({"WHAT": what, "--times": times, "--hold-out": hold_out, "--rows": rows}, name)
        return _convolution(_Sweeps(sweep or (), gpu or [_OF_LAYER], given), outputs)
    _check_unused({"--sweep": sweep, "--given": given}, name)
    if not what:
        raise InputError(f"the study {name} is of nothing", cure=f"kerncast study {name} --help says what to name.")
    if name == "zero-shot":
        _check_unused({"--gpu": gpu, "--times": times, "--hold-out": hold_out}, name)
        return _zero_shot([Path(each) for each in what], outputs)
    _check_unused({"--rows": rows}, name)
    if len(what) > 1:
        raise InputError(f"{len(what)} names are given", where=what[1], cure="Name one launch file, or one folder.")
    if not 1 <= runs <= _MOST_RUNS:
        raise InputError(f"--runs is {runs}", cure=f"Give 1 to {_MOST_RUNS}.")
    asked = _Partitions(what[0], _parts_of(gpu, tpcs), times, runs, tuple(hold_out or ()))
    return _partitions(asked, outputs)


def _parts_of(gpu: list[str] | None, tpcs: str | None) -> "tuple[GPU, tuple[int, ...]]":
    from kerncast.api.bounding import counts_of_tpcs  # noqa: PLC0415

    chosen, _ = one_gpu(gpu, "Name one.")
    return chosen, counts_of_tpcs(tpcs, chosen)


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


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """What the study of the convolution layer is asked."""

    sweeps: Sequence[str]
    gpus: Sequence[str]
    given: Path | None


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
                tell(f"left out: {reason}")
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
        tell(f"written to {path}")
    return 0


def _convolution(asked: _Sweeps, outputs: _Outputs) -> int:
    from kerncast.report.convolution.sweep_tables import print_sweeps, sweeps_object, write_study  # noqa: PLC0415
    from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415
    from kerncast.studies.convolution import published_sweeps, study_convolution, sweep_of  # noqa: PLC0415  LLVM

    if len(asked.gpus) > 1:
        raise InputError(f"{len(asked.gpus)} GPUs are named", where="--gpu", cure="Name one.")
    endings = (".csv", ".md", *FORMATS)
    if outputs.out is not None and (outputs.out.suffix.lower() not in endings or not outputs.out.parent.is_dir()):
        raise InputError(
            f"{outputs.out} is no place for a study",
            where="--out",
            cure=f"End it in {', '.join(endings)}, in a folder that is there.",
        )
    sweeps = [sweep_of(each) for each in asked.sweeps] or published_sweeps()
    with progress_on_stderr(quiet=outputs.quiet) as progress:
        study = study_convolution(sweeps, asked.gpus[0], asked.given, progress)
    if outputs.out is not None:
        chosen = "".join(f" --sweep {each}" for each in asked.sweeps)
        for path in write_study(study, outputs.out, f"kerncast study convolution{chosen} --out {outputs.out.name}"):
            tell(f"written to {path}")
    if outputs.json:
        emit_json(sweeps_object(study), None)
    else:
        print_sweeps(study, stdout_console())
    if any(point.predicted.flops or point.simulated.flops for each in study.sweeps for point in each.points):
        return 0
    tell(f"nothing was forecast: {' '.join(study.refused)}")
    return 3


def _folder(what: str) -> Path:
    from kerncast.bench.plan import SUITE  # noqa: PLC0415

    return SUITE if what == _SUITE else Path(what)


def _measured(path: Path | None) -> "MeasurementFile | None":
    from kerncast.measurements import read_measurement  # noqa: PLC0415

    return None if path is None else (read_measurement(path), path)
