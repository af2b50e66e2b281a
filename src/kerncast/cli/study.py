"""kerncast study: data sets and tables of published studies, from programs of one's own."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Quiet, counts_of_tpcs, one_gpu
from kerncast.cli.shared.output import emit_json, progress_on_stderr, stdout_console
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.read.partition_files import MeasurementFile

_STUDIES = ("partitions",)
_SUITE = "suite"
_MOST_RUNS = 1000
_TABLES = (".csv", ".parquet")


def command(  # noqa: PLR0913  each parameter is one option
    name: Annotated[str, typer.Argument(help="The study: partitions.")],
    what: Annotated[str, typer.Argument(help="A launch file, a folder of them, or suite.")],
    gpu: Annotated[list[str] | None, typer.Option(help="One GPU: name, id or TOML file.")] = None,
    tpcs: Annotated[str, typer.Option(help="TPC counts, such as 1-7.")] = "1-7",
    times: Annotated[Path | None, typer.Option(help="Measured times (.jsonl of measure partition).")] = None,
    runs: Annotated[int, typer.Option(help="Simulated runs of each count, without --times.")] = 10,
    hold_out: Annotated[
        list[str] | None, typer.Option(help="Program to bound by what the others taught; repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Data set to write: .csv or .parquet.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Collect the features and times of kernels on parts of a GPU, and score the published bounds on them."""
    from kerncast.report.bounds.study_tables import print_study, study_object, write_data  # noqa: PLC0415
    from kerncast.studies.partition_study import (  # noqa: PLC0415  LLVM loads late
        TimesFrom,
        check_held_out,
        launches_of,
        study_partitions,
        worst_case_scores,
    )

    if name not in _STUDIES:
        raise InputError(f"no study is called {name[:40]!r}", cure=f"Known: {', '.join(_STUDIES)}.")
    if not 1 <= runs <= _MOST_RUNS:
        raise InputError(f"--runs is {runs}", cure=f"Give 1 to {_MOST_RUNS}.")
    chosen, _ = one_gpu(gpu, "Name one.")
    counts = counts_of_tpcs(tpcs, chosen)
    launches, left_out = launches_of(_folder(what))
    check_held_out(hold_out or (), launches, counts)
    if out is not None and (out.suffix not in _TABLES or not out.parent.is_dir()):
        raise InputError(
            f"{out} is no place for a table", cure=f"End it in {' or '.join(_TABLES)}, in a folder that is there."
        )
    with progress_on_stderr(quiet=quiet) as progress:
        study = study_partitions(launches, (chosen, counts), TimesFrom(_measured(times), runs), progress)
    study = replace(study, refused=(*left_out, *study.refused))
    if out is not None:
        write_data(study, out)
    scores = worst_case_scores(study, hold_out or ())
    if json_:
        emit_json(study_object(study, scores), None)
    else:
        print_study(study, scores, stdout_console())
    return 0


def _folder(what: str) -> Path:
    from kerncast.bench.plan import SUITE  # noqa: PLC0415

    return SUITE if what == _SUITE else Path(what)


def _measured(path: Path | None) -> "MeasurementFile | None":
    from kerncast.measurements import read_measurement  # noqa: PLC0415

    return None if path is None else (read_measurement(path), path)
