"""kerncast run: a whole CUDA program, unmodified, on a machine without a GPU; and how long it would take."""

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncast.cli.application import SEPARATOR
from kerncast.cli.shared import options as option
from kerncast.cli.shared.output import (
    check_place,
    emit_json,
    progress_on_stderr,
    stderr_console,
    tell,
    write_text,
)
from kerncast.cli.shared.reports import ReportPlaces, beyond_of
from kerncast.cli.shared.scripts import recording_of_script, script_of
from kerncast.errors import InputError
from kerncast.units import parse_seconds

if TYPE_CHECKING:
    from kerncast.device.programs import Built, Wishes
    from kerncast.device.session import Ended
    from kerncast.forecast import Progress
    from kerncast.forecast.application import Applications
    from kerncast.forecast.asked import GPUsNoted
    from kerncast.gpu import GPU
    from kerncast.recording import Recording

#: How a program ends that has nothing to complain of.
_WELL = "with status 0"
_ENDINGS = {"out": (option.RECORDING,), "trace": (".json",), "export": (".toml",)}


def command(  # noqa: PLR0913  each parameter is one option of the contract
    program: Annotated[
        list[str],
        typer.Argument(help="Sources, a program and its arguments, or a recording.", metavar="PROGRAM… [-- ARGS]"),
    ],
    gpu: Annotated[list[str] | None, typer.Option(help="GPU to forecast: name, id, TOML file, or all.")] = None,
    build: Annotated[str | None, typer.Option(help='Builds the program with our nvcc, such as "make".')] = None,
    clock: Annotated[str | None, typer.Option(help="GPU whose times the program's own timers show.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the recording (.kc).")] = None,
    report: Annotated[Path | None, typer.Option(help="Page with timeline: .html or .md.")] = None,
    pictures: option.PictureFolder = None,
    trace: Annotated[Path | None, typer.Option(help="Timeline for Perfetto: .json.")] = None,
    export: Annotated[Path | None, typer.Option(help="Launch file for the launches: .toml.")] = None,
    include: option.IncludeFolders = None,
    define: option.Defines = None,
    compiler_options: Annotated[str, typer.Option(help='For the compiler, such as "-O3 -lm".')] = "",
    on_fault: Annotated[str, typer.Option(help="stop, or warn: go on as a GPU does.")] = "stop",
    launch_seconds: Annotated[float, typer.Option(help="Longest wall time of one launch.")] = 600.0,
    timeout: Annotated[str | None, typer.Option(help="End the program after this, such as 60s.")] = None,
    memory: Annotated[str | None, typer.Option(help="Most of this machine's memory for the GPU's.")] = None,
    keep: Annotated[str, typer.Option(help="Most that is kept of what memory held.")] = "256MiB",
    level: Annotated[float, typer.Option(help="Share of times that intervals hold.")] = 0.9,
    json_: option.AsJson = False,
    quiet: option.Quiet = False,
) -> int:
    """Run any CUDA program here, without a GPU, and forecast it on GPUs."""
    from kerncast.api.running import built_of, copy_to, default_gpu, has_work, program_asked  # noqa: PLC0415
    from kerncast.device.programs import Wishes  # noqa: PLC0415
    from kerncast.execute.live import Rules  # noqa: PLC0415
    from kerncast.forecast import Options, resolve_gpus  # noqa: PLC0415

    outputs = _Outputs(out, ReportPlaces(report, pictures), trace, export, as_json=json_)
    outputs.check()
    options = Options(level=level, apart=True)
    gpus = resolve_gpus(gpu) if gpu else []
    clock_gpu = resolve_gpus(clock)[0][0] if clock else None
    rules = Rules(_positive(launch_seconds, "--launch-seconds"), goes_on=_goes_on(on_fault))
    wishes = Wishes(
        rules, _seconds_of(timeout), option.memory_of(memory) if memory else None,
        option.memory_of(keep, "--keep"), clock_gpu is not None, 2 if json_ else None,
    )  # fmt: skip
    place = program.index(SEPARATOR) if SEPARATOR in program else len(program)
    behind = program[place + 1 :] if place < len(program) else None
    asked = program_asked(program[:place], behind, build, _compiler_options(compiler_options, include, define))
    with tempfile.TemporaryDirectory(prefix="kerncast-run-") as folder, progress_on_stderr(quiet=quiet) as show:
        shown = clock_gpu or (gpus[0][0] if gpus else default_gpu())
        if asked.recording is not None:
            ended, recording = _read(asked.recording, needless={"--build": build, "--clock": clock, "--out": out})
        elif asked.script is not None:
            _check_needless({"--build": build, "--clock": clock, "--memory": memory}, asked.script)
            script = script_of(asked.command, wishes.seconds, launch_seconds, wishes.kept_bytes)
            ended, recording = recording_of_script(script, [(shown, ()), *gpus], Path(folder), show)
        else:
            built = built_of(asked, shown, Path(folder), show)
            ended, recording = _run(built, wishes, (shown, clock_gpu), Path(folder), show)
        copy_to(recording, out)  # forecasts may take long, or be interrupted
        applications = _forecast(recording, gpus, options, show) if gpus and has_work(recording) else None
        _write(recording, applications, outputs, show)
        if export is not None:
            _export(recording, shown, export)
        _tell(recording, applications, ended, outputs)
    return _status(ended, applications, gpus)


@dataclass(frozen=True, slots=True)
class _Outputs:
    out: Path | None
    report: ReportPlaces
    trace: Path | None
    export: Path | None
    as_json: bool

    def check(self) -> None:
        """Raise InputError for a name of no such output: before the program runs, not after."""
        for name, endings in _ENDINGS.items():
            path = getattr(self, name)
            if path is not None:
                check_place(path, endings)
        self.report.check()


def _positive(number: float, name: str) -> float:
    if not number > 0:
        raise InputError(f"{name} is {number:g}", cure="Give a number above 0.")
    return number


def _seconds_of(timeout: str | None) -> float | None:
    try:
        return None if timeout is None else parse_seconds(timeout)
    except ValueError as error:
        raise InputError(f"--timeout {error}", cure="Give a time with its unit, such as 60s.") from None


def _goes_on(text: str) -> bool:
    if text not in {"stop", "warn"}:
        raise InputError(f"--on-fault is {text[:20]!r}", cure="Give stop or warn.")
    return text == "warn"


def _compiler_options(text: str, include: list[Path] | None, define: list[str] | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"--compiler-options has an open quote ({error})", cure="Close it.") from None
    return (*words, *(f"-I{folder}" for folder in include or ()), *(f"-D{name}" for name in define or ()))


def _run(
    built: "Built", wishes: "Wishes", gpus: "tuple[GPU, GPU | None]", folder: Path, show: "Progress | None"
) -> "tuple[Ended, Recording]":
    """Run the program; returns how it ended, and its recording."""
    from kerncast.api.running import run_built  # noqa: PLC0415

    for remark in built.remarks:
        tell(remark)
    tell(f"{Path(built.command[0]).name} runs natively, as you: only its kernels are confined")
    return run_built(built, wishes, gpus, folder, show)


def _read(path: Path, needless: "Mapping[str, object]") -> "tuple[Ended | None, Recording]":
    """Return a recording; nothing is run."""
    from kerncast.recording import read_recording  # noqa: PLC0415

    _check_needless(needless, path)
    return None, read_recording(path)


def _check_needless(needless: "Mapping[str, object]", path: Path) -> None:
    """Raise InputError for an option that a recording or a script makes no use of."""
    for name, given in needless.items():
        if given is not None:
            raise InputError(f"{name} is of no use for {path.suffix} files", where=str(path), cure="Leave it out.")


def _export(recording: "Recording", gpu: "GPU", target: Path) -> None:
    from kerncast.read.launches import launches_of  # noqa: PLC0415
    from kerncast.report.files.recorded_launches import export_launches  # noqa: PLC0415

    found = export_launches(launches_of(recording), gpu, target)
    for each in found.left_out:
        tell(f"not exported: {each}")
    names = ", ".join(map(str, found.files)) or "nothing"
    tell(f"{found.launches} of {found.launches + len(found.left_out)} kept launches exported: {names}")


def _forecast(recording: "Recording", gpus: "GPUsNoted", options: object, show: "Progress | None") -> "Applications":
    from kerncast.forecast import Options  # noqa: PLC0415
    from kerncast.forecast.application import forecast_application  # noqa: PLC0415

    assert isinstance(options, Options)
    return forecast_application(recording, gpus, options, show)


def _write(
    recording: "Recording", applications: "Applications | None", outputs: _Outputs, show: "Progress | None"
) -> None:
    if applications is None or not applications.found:
        return
    best = min(applications.found, key=lambda each: each.timeline.seconds)
    if outputs.trace is not None:
        from kerncast.report.application.trace import trace_object  # noqa: PLC0415
        from kerncast.report.as_json import json_text  # noqa: PLC0415

        write_text(outputs.trace, json_text(trace_object(recording, best)))
    if outputs.report.is_asked:
        from kerncast.forecast import Means  # noqa: PLC0415
        from kerncast.report.application.application_page import application_document  # noqa: PLC0415

        beyond = beyond_of(applications.forecast, Means(progress=show, apart=True))
        outputs.report.write(application_document(recording, applications, beyond))


def _tell(
    recording: "Recording", applications: "Applications | None", ended: "Ended | None", outputs: _Outputs
) -> None:
    from kerncast.report.application.application_tables import (  # noqa: PLC0415
        counted,
        print_applications,
        print_remarks,
        run_object,
    )

    if outputs.as_json:
        emit_json(run_object(recording, applications, ended.status if ended else None))
        return
    console = stderr_console()
    skipped = ended.skipped if ended else 0
    repeated = f"; {skipped:,} of them repeated others, and were not run again" if skipped else ""
    tell(f"{counted(recording)}{repeated}")
    if recording.ended not in {"", _WELL}:
        tell(f"the program ended {recording.ended}")
    if applications is None:
        print_remarks(recording, console)
    else:
        print_applications(recording, applications, console)
    if outputs.out is not None:
        tell(f"recorded: {outputs.out} (predict, profile, occupancy, sensitivity and bound read it)")


def _status(ended: "Ended | None", applications: "Applications | None", gpus: "GPUsNoted") -> int:
    """Return the program's own status; that of a refusal where it ended well and nothing could be forecast."""
    if ended is not None and ended.status:
        return ended.status if ended.status > 0 else 128 - ended.status
    refused = 3
    return refused if gpus and not (applications and applications.found) else 0
