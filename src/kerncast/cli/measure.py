"""kerncast measure: time launches on the GPU that is here, or say what would be timed."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.errors import InputError

if TYPE_CHECKING:
    from kerncast.bench.device import Device
    from kerncast.bench.harness import Progress
    from kerncast.bench.stages import Choices, Site, Stage
    from kerncast.gpu import GPU
    from kerncast.measurement import Machine, Measurement, Protocol

_REFUSED_STATUS = 3
#: `measure all` ends after ten minutes unless --seconds says otherwise.
_ALL_SECONDS = 600.0
_NCU_SECONDS = 600.0
_SUFFIX = ".jsonl"


def command(  # noqa: PLR0913  each parameter is one option
    what: Annotated[str, typer.Argument(help="suite, ceilings, partition, all, a launch file, or a .jsonl to show.")],
    out: Annotated[Path | None, typer.Option(help="Measurement file; one that exists is continued.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be measured.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timing: Annotated[
        list[str] | None, typer.Option(help="series, rotated, graph, single or cold; repeatable.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Independent runs of each configuration.")] = 10,
    iterations: Annotated[int | None, typer.Option(help="Launches of a trial (50 to 100, by the kernel).")] = None,
    warmups: Annotated[int | None, typer.Option(help="Launches before each trial (10 to 20, by the kernel).")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop beginning trials after so long; all: 600.")] = None,
    tpcs: Annotated[str | None, typer.Option(help="Parts of the GPU in TPCs (2 SMs), such as 1-8,16.")] = None,
    repeats: Annotated[int, typer.Option(help="Launches on each part of the GPU.")] = 30,
    device: Annotated[int, typer.Option(help="Number of the GPU.")] = 0,
    gpu: Annotated[str, typer.Option(help="With --dry-run: plan for this GPU.")] = "h100-sxm",
    forecast: Annotated[
        bool, typer.Option("--forecast", help="With --dry-run: forecast how long it takes; a second per launch.")
    ] = False,
    gpu_file: Annotated[
        Path | None, typer.Option(help="Write the ceilings into this GPU's TOML; made if it is missing.")
    ] = None,
    export: Annotated[list[Path] | None, typer.Option(help="Write every sample to .csv or .parquet.")] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Don't compare results with the CPU's.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Measure again what failed before.")] = False,
    ncu: Annotated[bool, typer.Option("--ncu", help="Then count each launch once under Nsight Compute.")] = False,
    once: Annotated[bool, typer.Option("--once", hidden=True, help="Launch once what --ncu counts.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Time kernels on a GPU that is here; every sample is kept, and an interrupted run goes on."""
    _check_numbers(trials=trials, iterations=iterations, warmups=warmups, repeats=repeats, seconds=seconds)
    _check_exports(export or [])
    if what.endswith(_SUFFIX):
        from kerncast.measurement_files import read_measurement  # noqa: PLC0415

        return _show(read_measurement(Path(what)), export or [], gpu_file, as_json=json_)
    from kerncast.bench.stages import Choices, site_of, stages_for  # noqa: PLC0415  heavy imports wait
    from kerncast.gpu import load_gpu  # noqa: PLC0415

    choices = Choices(_protocol(timing, trials, iterations, warmups), tpcs, repeats)
    limit = _ALL_SECONDS if what == "all" and seconds is None else seconds
    run = _Run(what, device, out, limit, not no_check, retry, quiet)
    if dry_run:
        planned_for = load_gpu(gpu)
        return _plan(
            stages_for(what, site_of(planned_for), choices), planned_for, run, forecasts=forecast, as_json=json_
        )
    if once:
        return _launch_once(choices, run)
    found = _measure(choices, run)
    if ncu:
        found = _count(choices, run, found)
    return _show(found, export or [], gpu_file, as_json=json_)


@dataclass(frozen=True, slots=True)
class _Run:
    """What is measured, where and how."""

    what: str
    device: int
    out: Path | None
    seconds: float | None
    is_checked: bool
    retries: bool
    quiet: bool

    def path(self, machine: "Machine") -> Path:
        """Return the measurement file."""
        return self.out or Path(_file_name(machine.gpu_name))


@contextmanager
def _opened(run: _Run) -> "Iterator[tuple[Device, Site]]":
    from kerncast.bench.cuda import open_device  # noqa: PLC0415  heavy imports wait until the command runs
    from kerncast.bench.stages import Site  # noqa: PLC0415

    device = open_device(run.device)
    try:
        yield device, Site(device.machine, device.partition_sizes())
    finally:
        device.close()


@contextmanager
def _progress(run: _Run) -> "Iterator[Progress | None]":
    from kerncast.cli.output import progress_on_stderr  # noqa: PLC0415

    with progress_on_stderr(quiet=run.quiet) as show:
        yield (lambda text: show(text, 0, 0)) if show else None


def _measure(choices: "Choices", run: _Run) -> "Measurement":
    from kerncast.bench.harness import Conditions, Deadline, Harness  # noqa: PLC0415
    from kerncast.bench.stages import stages_for  # noqa: PLC0415
    from kerncast.measurement_files import Recorder  # noqa: PLC0415

    deadline = Deadline(run.seconds)
    with _opened(run) as (device, site):
        stages = stages_for(run.what, site, choices)
        path = run.path(site.machine)
        with Recorder.open(path, site.machine) as recorder, _progress(run) as progress:
            harness = Harness(device, recorder, Conditions(deadline, run.is_checked, run.retries), progress)
            left = sum(harness.measure(stage.subjects, deadline.share(stage.share)) for stage in stages)
            found = recorder.measurement
    typer.echo(f"kerncast: written to {path}" + (f"; {left} launches are left: run it again" if left else ""), err=True)
    return found


def _count(choices: "Choices", run: _Run, found: "Measurement") -> "Measurement":
    from kerncast.bench.profiling import count, uncounted  # noqa: PLC0415
    from kerncast.bench.stages import Site, stages_for  # noqa: PLC0415
    from kerncast.measurement_files import Recorder  # noqa: PLC0415

    path = run.path(found.machine)
    stages = stages_for(run.what, Site(found.machine, tuple(_sizes_in(found))), choices)
    subjects = uncounted(found, (subject for stage in stages for subject in stage.subjects))
    if not subjects:
        return found
    child = ["measure", run.what, "--once", "--quiet", "--out", str(path), "--device", str(run.device)]
    with _progress(run) as progress:
        if progress:
            progress(f"counting {len(subjects)} launches under Nsight Compute")
        counters = count(found, subjects, child, run.seconds or _NCU_SECONDS)
    with Recorder.open(path, found.machine) as recorder:
        for each in counters:
            recorder.add(each)
        return recorder.measurement


def _launch_once(choices: "Choices", run: _Run) -> int:
    from kerncast.bench.profiling import launch_once, uncounted  # noqa: PLC0415
    from kerncast.bench.stages import stages_for  # noqa: PLC0415
    from kerncast.measurement_files import read_measurement  # noqa: PLC0415

    with _opened(run) as (device, site), _progress(run) as progress:
        stages = stages_for(run.what, site, choices)
        found = read_measurement(run.path(site.machine))
        launch_once(device, uncounted(found, (each for stage in stages for each in stage.subjects)), progress)
    return 0


def _sizes_in(measurement: "Measurement") -> "Iterator[int]":
    return (each.sm_count for each in measurement.configurations if each.sm_count)


def _plan(stages: "Sequence[Stage]", gpu: "GPU", run: _Run, *, forecasts: bool, as_json: bool) -> int:
    from kerncast.bench.stages import expected_seconds  # noqa: PLC0415
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.report.measured import plan_object, plan_sentence, plan_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415

    expected: dict[str, float] = {}
    with _progress(run) as progress:
        for subject in (each for stage in stages for each in stage.subjects if forecasts):
            if progress:
                progress(f"forecasting {subject.key()}")
            expected[subject.key()] = expected_seconds(subject, gpu)
    if as_json:
        emit_json(plan_object(gpu.name, stages, expected))
        return 0
    console = stdout_console()
    print_table(plan_table(stages, expected), console)
    console.print(f"On a {gpu.name}: {plan_sentence(stages, expected)}.", highlight=False)
    return 0


def _show(measurement: "Measurement", exports: Sequence[Path], gpu_file: Path | None, *, as_json: bool) -> int:
    from kerncast.bench.export import export  # noqa: PLC0415
    from kerncast.cli.output import emit_json, stdout_console  # noqa: PLC0415
    from kerncast.report.measured import measurement_object, remarks, summary_table  # noqa: PLC0415
    from kerncast.report.tables import print_table  # noqa: PLC0415

    for path in exports:
        export(measurement, path)
    if gpu_file is not None:
        from kerncast.bench.ceilings.sustained import write_gpu_file  # noqa: PLC0415

        write_gpu_file(measurement, gpu_file)
    if as_json:
        emit_json(measurement_object(measurement))
    else:
        console = stdout_console()
        console.print(f"{measurement.machine.gpu_name}, driver {measurement.machine.driver}", highlight=False)
        print_table(summary_table(measurement), console)
    for sentence in remarks(measurement):
        typer.echo(f"kerncast: {sentence}", err=True)
    return 0 if measurement.trials else _REFUSED_STATUS


def _protocol(timing: Sequence[str] | None, trials: int, iterations: int | None, warmups: int | None) -> "Protocol":
    from kerncast.measurement import Method, Protocol  # noqa: PLC0415

    known = [method.value for method in Method]
    unknown = next((name for name in timing or () if name not in known), None)
    if unknown is not None:
        raise InputError(f"--timing {unknown[:40]!r} is none", cure=f"Known are {', '.join(known)}.")
    methods = tuple(dict.fromkeys(Method(name) for name in timing or ())) or Protocol().methods
    return Protocol(trials=trials, iterations=iterations, warmups=warmups, methods=methods)


def _check_numbers(**numbers: float | None) -> None:
    for name, number in numbers.items():
        if number is not None and not 0 < number < math.inf:
            raise InputError(f"--{name} is {number}, not above zero", cure=f"Give --{name} a number above zero.")


def _check_exports(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.suffix not in {".csv", ".parquet"}:
            raise InputError(f"{path} is neither .csv nor .parquet", cure="Name the export so.")


def _file_name(gpu_name: str) -> str:
    """Return such as kerncast-nvidia-h100-80gb-hbm3.jsonl."""
    words = "".join(letter if letter.isalnum() else " " for letter in gpu_name.lower()).split()
    return f"kerncast-{'-'.join(words)}{_SUFFIX}"
