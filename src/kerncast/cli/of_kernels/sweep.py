"""kerncast sweep: vary macros, arguments and the launch together, and tell which combination is best where."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Memory, Out, Quiet, budget_of, clock_of
from kerncast.cli.shared.output import (
    check_place,
    console_of,
    emit_json,
    emit_text,
    progress_on_stderr,
    tell,
    write_text,
)
from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.studies.sweeps.space import Space
    from kerncast.studies.sweeps.sweep import Sweep

_REFUSED_STATUS = 3
_PARQUET, _CSV = ".parquet", ".csv"


@dataclass(frozen=True, slots=True)
class Files:
    """Files that are written in the end."""

    line: Path | None
    heat: Path | None
    along: tuple[str, ...]
    t4: Path | None
    tuner_cache: Path | None
    out: Path | None

    def check(self, space: "Space", gpus: int) -> None:
        """Raise InputError for what could not be written in the end."""
        from kerncast.report.pictures.picture_files import FORMATS  # noqa: PLC0415

        for path in (self.line, self.heat):
            if path is not None:
                check_place(path, FORMATS)
        for path in (self.line, self.heat, self.t4, self.tuner_cache, self.out):
            if path is not None and not path.parent.is_dir():
                raise InputError(f"{path.parent} is no folder", where=str(path), cure="Make it, or choose another.")
        known = [axis.name for axis in space.axes]
        for name in self.along:
            if name not in known:
                raise InputError(f"--along {name} does not vary", cure=f"Known: {', '.join(known)}.")
        if self.heat is not None and len(known) < 2:
            raise InputError("--heat needs two parameters that vary", cure="Give another --set, or draw --line.")
        if gpus > 1 and (self.t4 or self.tuner_cache):
            raise InputError(f"a tuner's file is of one GPU, and --gpu names {gpus}", cure="Name one GPU.")

    def write(self, found: "Sweep", level: float) -> None:
        """Write them."""
        if self.line or self.heat:
            from kerncast.report.pictures.picture_files import save_picture  # noqa: PLC0415
            from kerncast.report.sweep.sweep_pictures import draw_line, draw_map  # noqa: PLC0415

            if self.line:
                save_picture(draw_line(found, self.along[:1], level), self.line)
            if self.heat:
                save_picture(draw_map(found, self.along[:2]), self.heat)
        if self.t4 or self.tuner_cache:
            from kerncast.studies.sweeps.kernel_tuner import cache_text, t4_text  # noqa: PLC0415

            if self.t4:
                write_text(self.t4, t4_text(found))
            if self.tuner_cache:
                write_text(self.tuner_cache, cache_text(found))


def command(  # noqa: PLR0913  each parameter is one option
    launch_file: Annotated[Path, typer.Argument(metavar="LAUNCH", help="Launch file, or a tuning problem (T1 .json).")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUES: 4,8,16, 2..512*2, 1..10+3, or an expression of others; repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help='Condition that points must fulfil, such as "BX*BY<=1024"; repeatable.')
    ] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="GPU name, id, TOML file, or all; repeatable.")] = None,
    launch: Annotated[int | None, typer.Option(help="Number of the launch, where the file has several.")] = None,
    model: Annotated[str | None, typer.Option(help="Model, as of predict.")] = None,
    timing: Annotated[str, typer.Option(help="Kind of time: series, single, cold or profiler.")] = "series",
    level: Annotated[float, typer.Option(help="Share of measured times that the interval should hold.")] = 0.9,
    clock: Annotated[str | None, typer.Option(help="Clock: base, boost, default or a number of MHz.")] = None,
    memory: Memory = None,
    jobs: Annotated[
        int | None, typer.Option(help="Child processes; as many as cores by default, 0 for none.", min=0, max=256)
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Dask scheduler, such as tcp://host:8786.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Keep each result in this file as it arrives, and go on from what it holds.")
    ] = None,
    top: Annotated[int, typer.Option(help="Best points to print per GPU.", min=1)] = 10,
    json_: AsJson = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print all points as CSV.")] = False,
    out: Out = None,
    line: Annotated[Path | None, typer.Option(help="Draw times along a parameter: .png, .svg or .pdf.")] = None,
    heat: Annotated[Path | None, typer.Option(help="Draw times over two parameters: .png, .svg or .pdf.")] = None,
    along: Annotated[list[str] | None, typer.Option(help="Parameter of a picture; repeatable.")] = None,
    t4: Annotated[Path | None, typer.Option(help="Write the results in the T4 format of tuners (.json).")] = None,
    tuner_cache: Annotated[
        Path | None, typer.Option(help="Write a cache file that Kernel Tuner's simulation mode searches (.json).")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Forecast all combinations of settings on each GPU, and list the best."""
    from kerncast.api.sweeping import executor_of, space_of_file, swept  # noqa: PLC0415
    from kerncast.forecast import Options, resolve_gpus, timing_named  # noqa: PLC0415
    from kerncast.studies.sweeps.point_results import Job  # noqa: PLC0415

    options = Options(model, timing_named(timing), level, clock_of(clock), budget=budget_of(memory))
    job = Job(tuple(resolve_gpus(gpu or ())), options)
    space = space_of_file(launch_file, set_ or [], where or [], launch)
    files = Files(line, heat, tuple(along or ()), t4, tuner_cache, out)
    files.check(space, len(job.gpus))
    executor = executor_of(job, jobs, cluster)
    with progress_on_stderr(quiet=quiet) as progress:
        found = swept(space, job, executor, resume, progress)
    files.write(found, level)
    _emit(found, _form(json_=json_, csv=csv, out=out), Printed(out, top, level))
    if found.is_empty:
        kinds = {outcome.reason for result in found.results[:1] for outcome in result.outcomes}
        for reason in kinds:
            tell(f"no point has a time: {reason}")
        return _REFUSED_STATUS
    return 0


@dataclass(frozen=True, slots=True)
class Printed:
    """Where to print, and how much."""

    out: Path | None
    top: int
    level: float


def _form(*, json_: bool, csv: bool, out: Path | None) -> str:
    """Return the form of the output: by an option, or by the ending of the file."""
    if json_ and csv:
        raise InputError("--json and --csv are both given", cure="Give one of them.")
    ending = out.suffix.lower() if out else ""
    return "json" if json_ else "csv" if csv or ending == _CSV else "parquet" if ending == _PARQUET else "text"


def _emit(found: "Sweep", form: str, printed: Printed) -> None:
    from kerncast.report.sweep import sweep_tables as tables  # noqa: PLC0415
    from kerncast.report.tables import print_notes, print_table  # noqa: PLC0415

    if form == "json":
        emit_json(tables.sweep_object(found, printed.top, printed.level), printed.out)
    elif form == "csv":
        emit_text(tables.sweep_csv(found), printed.out)
    elif form == "parquet" and printed.out is not None:
        tables.write_parquet(found, printed.out)
    else:
        with console_of(printed.out) as console:
            for gpu in found.gpus:
                if found.ranked(gpu):
                    print_table(tables.best_table(found, gpu, printed.top, printed.level), console)
            missing = tables.infeasible_table(found)
            if missing.rows:
                print_table(missing, console)
            print_notes(tables.sweep_notes(found), console)
