"""kerncast measure: time launches on the GPU that is here, or say what would be timed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.shared.options import AsJson, Quiet
from kerncast.cli.shared.output import emit_json, progress_on_stderr, stdout_console, tell
from kerncast.errors import DeviceLostError, InputError, KerncastError

if TYPE_CHECKING:
    from kerncast.bench.device import Device
    from kerncast.bench.harness import Progress
    from kerncast.bench.plan import Subject
    from kerncast.bench.stages import Choices, Stage
    from kerncast.gpu import GPU
    from kerncast.measurements import Machine, Measurement, Method

_REFUSED_STATUS = 3
#: `measure all` ends after ten minutes unless --seconds says otherwise.
_ALL_SECONDS = 600.0
#: More of anything is a slip of the keyboard.
_MOST = 100_000
_SUFFIX = ".jsonl"


def command(  # noqa: PLR0913  each parameter is one option
    what: Annotated[
        str, typer.Argument(help="suite, ceilings, partition, all, a launch file, or a .jsonl file to show.")
    ] = "all",
    out: Annotated[Path | None, typer.Option(help="Measurement file; one that exists is continued.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be measured.")] = False,
    json_: AsJson = False,
    timing: Annotated[
        list[str] | None, typer.Option(help="Kind of time: series, rotated, graph, single or cold; repeatable.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Independent runs of each configuration (10; 3 of those beyond the 71).")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(help="Launches of a trial (50 to 100, by the kernel; 30 on parts of the GPU).")
    ] = None,
    warmups: Annotated[int | None, typer.Option(help="Launches before each trial (10 to 20, by the kernel).")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop beginning trials after so long; all: 600.")] = None,
    tpcs: Annotated[str | None, typer.Option(help="Parts of the GPU in TPCs (2 SMs), such as 1-8,16.")] = None,
    device: Annotated[int, typer.Option(help="Number of the GPU.")] = 0,
    gpu: Annotated[str, typer.Option(help="With --dry-run: plan for this GPU.")] = "h100-sxm",
    forecast: Annotated[
        bool, typer.Option("--forecast", help="With --dry-run: forecast the duration; takes a second per launch.")
    ] = False,
    gpu_file: Annotated[
        Path | None, typer.Option(help="Write the ceilings into this GPU's TOML; made if it is missing.")
    ] = None,
    export: Annotated[list[Path] | None, typer.Option(help="Write every sample to .csv or .parquet.")] = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Don't compare results with the CPU's.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Measure again what failed before.")] = False,
    ncu: Annotated[bool, typer.Option("--ncu", help="Then count each launch once under Nsight Compute.")] = False,
    once: Annotated[int | None, typer.Option(hidden=True, help="Launches to run once, counted by --ncu.")] = None,
    quiet: Quiet = False,
) -> int:
    """Time kernels on a GPU that is here; every sample is kept, and an interrupted run goes on."""
    _check_numbers(trials=trials, iterations=iterations, warmups=warmups, seconds=seconds, once=once)
    after = _Afterwards(tuple(export or ()), gpu_file, json_)
    _check_usage(what, after, acts=dry_run or ncu)
    if what.endswith(_SUFFIX):
        return after.show(_recorded(Path(what)))
    from kerncast.bench.stages import Choices, site_of, stages_for  # noqa: PLC0415  heavy imports wait
    from kerncast.gpu import load_gpu  # noqa: PLC0415

    choices = Choices(trials, iterations, warmups, _methods(timing), tpcs)
    limit = _ALL_SECONDS if what == "all" and seconds is None else seconds
    run = _Run(what, device, out, limit, not no_check, retry, quiet)
    if dry_run:
        planned_for = load_gpu(gpu)
        stages = stages_for(what, site_of(planned_for), choices)
        return _plan(stages, planned_for, run, forecasts=forecast, as_json=json_)
    if once is not None:
        return _launch_once(choices, run, once)
    if ncu:
        from kerncast.bench.counters import find_ncu  # noqa: PLC0415

        find_ncu()  # before anything is measured
    found, error = _measure(choices, run)
    if ncu and error is None:
        found, error = _count(choices, run, found)
    status = after.show(found)
    if error is not None:
        raise error
    return status


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: its subjects, its machine and its file."""

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
def _opened(run: _Run) -> "Iterator[Device]":
    from kerncast.bench.cuda import open_device  # noqa: PLC0415  heavy imports wait until the command runs

    device = open_device(run.device)
    try:
        yield device
    finally:
        device.close()


@contextmanager
def _progress(run: _Run) -> "Iterator[Progress | None]":

    with progress_on_stderr(quiet=run.quiet) as show:
        yield (lambda text: show(text, 0, 0)) if show else None


def _measure(choices: "Choices", run: _Run) -> "tuple[Measurement, KerncastError | None]":
    """Measure; an error that ended it comes beside what was found until then."""
    from kerncast.bench.harness import Conditions, Deadline, Harness  # noqa: PLC0415
    from kerncast.bench.stages import Site, stages_for  # noqa: PLC0415
    from kerncast.measurements import Recorder  # noqa: PLC0415

    deadline, left, error = Deadline(run.seconds), 0, None
    with _opened(run) as device:
        # Asking makes contexts, which only who needs them should do.
        has_parts = choices.tpcs is not None or run.what in {"partition", "all"}
        sizes = device.partition_sizes() if has_parts else ()
        stages = stages_for(run.what, Site(device.machine, sizes), choices)
        path = run.path(device.machine)
        with Recorder.open(path, device.machine) as recorder, _progress(run) as progress:
            harness = Harness(device, recorder, Conditions(deadline, run.is_checked, run.retries), progress)
            try:
                for stage in stages:
                    left += harness.measure(stage.subjects, deadline.share(stage.share))
            except DeviceLostError as lost:
                error = lost
            found = recorder.measurement
    rest = f"; {left} launches are left: run it again" if left else "; run it again for the rest" if error else ""
    tell(f"written to {path}{rest}")
    return found, error


def _count(choices: "Choices", run: _Run, found: "Measurement") -> "tuple[Measurement, KerncastError | None]":
    """Count what was measured under Nsight Compute, some launches at a time, each kept as soon as it is counted."""
    from kerncast.bench.profiling import BATCH, count, uncounted  # noqa: PLC0415
    from kerncast.measurements import Recorder  # noqa: PLC0415

    path = run.path(found.machine)
    child = ["measure", run.what, "--quiet", "--out", str(path), "--device", str(run.device), "--once", str(BATCH)]
    with _progress(run) as progress:
        while subjects := uncounted(found, _counted_subjects(choices, run, found))[:BATCH]:
            if progress:
                progress(f"counting {subjects[0].key()} and so on under Nsight Compute")
            try:
                counters = count(found, subjects, child)
            except KerncastError as error:
                return found, error
            with Recorder.open(path, found.machine) as recorder:
                for each in counters:
                    recorder.add(each)
                found = recorder.measurement
    return found, None


def _launch_once(choices: "Choices", run: _Run, most: int) -> int:
    from kerncast.bench.profiling import launch_once, uncounted  # noqa: PLC0415
    from kerncast.measurements import read_measurement  # noqa: PLC0415

    with _opened(run) as device, _progress(run) as progress:
        found = read_measurement(run.path(device.machine))
        launch_once(device, uncounted(found, _counted_subjects(choices, run, found))[:most], progress)
    return 0


def _counted_subjects(choices: "Choices", run: _Run, found: "Measurement") -> "tuple[Subject, ...]":
    """Return what the command measures on the whole GPU."""
    from kerncast.bench.stages import Site, stages_for  # noqa: PLC0415

    if run.what == "partition":
        return ()
    stages = stages_for(run.what, Site(found.machine, ()), replace(choices, tpcs=None))
    return tuple(subject for stage in stages for subject in stage.subjects)


def _plan(stages: "Sequence[Stage]", gpu: "GPU", run: _Run, *, forecasts: bool, as_json: bool) -> int:
    from kerncast.bench.stages import expected_seconds  # noqa: PLC0415
    from kerncast.report.files.measured import plan_object, plan_sentence, plan_table  # noqa: PLC0415
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


@dataclass(frozen=True, slots=True)
class _Afterwards:
    """The user's choices for the time after the measurement."""

    exports: tuple[Path, ...]
    gpu_file: Path | None
    as_json: bool

    def show(self, measurement: "Measurement") -> int:
        """Export, write the GPU's file and print; returns the exit status."""
        from kerncast.bench.export import export  # noqa: PLC0415
        from kerncast.report.files.measured import measurement_object, remarks, summary_table  # noqa: PLC0415
        from kerncast.report.tables import print_table  # noqa: PLC0415

        for path in self.exports:
            export(measurement, path)
        if self.as_json:
            emit_json(measurement_object(measurement))
        else:
            console = stdout_console()
            console.print(f"{measurement.machine.gpu_name}, driver {measurement.machine.driver}", highlight=False)
            print_table(summary_table(measurement), console)
        for sentence in remarks(measurement):
            tell(sentence)
        if self.gpu_file is not None:
            from kerncast.bench.ceilings.sustained import write_gpu_file  # noqa: PLC0415

            write_gpu_file(measurement, self.gpu_file)
        return 0 if measurement.trials else _REFUSED_STATUS


def _recorded(path: Path) -> "Measurement":
    from kerncast.measurements import read_with_remarks  # noqa: PLC0415

    found, said = read_with_remarks(path)
    for sentence in said:
        tell(sentence)
    return found


def _methods(names: Sequence[str] | None) -> "tuple[Method, ...] | None":
    from kerncast.measurements import Method  # noqa: PLC0415

    known = [method.value for method in Method]
    unknown = next((name for name in names or () if name not in known), None)
    if unknown is not None:
        raise InputError(f"--timing {unknown[:40]!r} is not known", cure=f"Known are {', '.join(known)}.")
    return tuple(dict.fromkeys(Method(name) for name in names)) if names else None


def _check_numbers(**numbers: float | None) -> None:
    for name, number in numbers.items():
        if number is not None and not 0 < number <= _MOST:
            raise InputError(f"--{name} is {number}", cure=f"Give --{name} a number above 0, at most {_MOST}.")


def _check_usage(what: str, after: _Afterwards, *, acts: bool) -> None:
    """Refuse before anything is measured what could not be done afterwards."""
    for path in after.exports:
        if path.suffix not in {".csv", ".parquet"}:
            raise InputError(f"{path} is neither .csv nor .parquet", cure="End its name in .csv or .parquet.")
    for path in (*after.exports, *([after.gpu_file] if after.gpu_file else [])):
        if not path.parent.is_dir():
            raise InputError(f"the folder {path.parent} does not exist", where=str(path), cure="Make it first.")
    is_recorded = what.endswith(_SUFFIX)
    if is_recorded and acts:
        raise InputError(f"{what} is already measured", cure="Leave out --dry-run and --ncu to show it.")
    if after.gpu_file is not None and not (is_recorded or what in {"ceilings", "all"}):
        raise InputError("--gpu-file needs ceilings", cure="Measure ceilings or all, or name a file that holds them.")


def _file_name(gpu_name: str) -> str:
    """Return such as kerncast-nvidia-h100-80gb-hbm3.jsonl."""
    words = "".join(letter if letter.isalnum() else " " for letter in gpu_name.lower()).split()
    return f"kerncast-{'-'.join(words)}{_SUFFIX}"
