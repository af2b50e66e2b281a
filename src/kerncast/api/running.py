"""A whole program as it is asked for: sources to build, a program that is there, a script, or a recording."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.errors import InputError
from kerncast.gpu import GPU, resolve_gpu
from kerncast.recording.recording_files import SUFFIX

if TYPE_CHECKING:
    from kerncast.child_process import Progress
    from kerncast.device.programs import Built, Wishes
    from kerncast.device.session import Ended
    from kerncast.forecast.application import Applications
    from kerncast.forecast.asked import GPUsNoted
    from kerncast.recording import Recording

SCRIPT = ".py"
_SOURCES = {".cu", ".cpp", ".cc", ".cxx", ".c", ".o", ".a"}
#: The GPU that a program is told of where nobody names one.
_DEFAULT_GPU = "RTX 4090"


@dataclass(frozen=True, slots=True)
class AskedProgram:
    """The program that the words of the command line mean."""

    sources: tuple[str, ...]
    """sources to build, with options; none where the program is there, or a command builds it"""
    command: tuple[str, ...]
    """program and arguments; of sources, the arguments alone"""
    build: str | None
    is_parted: bool = False
    """whether the program stands behind --"""

    @property
    def recording(self) -> Path | None:
        """The recording that is named instead of a program."""
        is_recording = not self.sources and len(self.command) == 1 and self.command[0].endswith(SUFFIX)
        return Path(self.command[0]) if is_recording else None

    @property
    def script(self) -> Path | None:
        """The script in Python that is named instead of a program; with ``--``, Python runs it natively."""
        is_named = not self.sources and self.command and Path(self.command[0]).suffix == SCRIPT
        return Path(self.command[0]) if is_named and not self.is_parted else None


def program_asked(
    front: Sequence[str], behind: Sequence[str] | None, build: str | None, options: tuple[str, ...]
) -> AskedProgram:
    """Return what is to be run: the words before ``--`` and behind it, where it stands; raises InputError."""
    is_parted = behind is not None
    front, behind = tuple(front), tuple(behind or ())
    if build is not None:
        return AskedProgram((), (*front, *behind), build)
    sources = tuple(word for word in front if Path(word).suffix.lower() in _SOURCES)
    if sources and (is_parted or len(sources) == len(front)):
        others = [word for word in front if word not in sources]
        if others:
            raise InputError(f"{others[0][:80]!r} stands among sources", cure="Write arguments behind --.")
        return AskedProgram((*options, *sources), behind, None)
    if sources and sources[0] == front[0]:
        return AskedProgram((*options, front[0]), front[1:], None)
    if options:
        raise InputError("options for the compiler are given, and no source", cure="Name sources (.cu, .cpp, .c).")
    return AskedProgram((), (*front, *behind), None, is_parted=is_parted and not front)


def built_of(asked: AskedProgram, gpu: GPU, folder: Path, show: "Progress | None") -> "Built":
    """Return the program built, or found; raises InputError where none is named."""
    from kerncast.device.programs import Place, built_by_command, built_of_sources, found  # noqa: PLC0415

    if asked.sources:
        return built_of_sources(asked.sources, asked.command, gpu, Place(folder, show))
    if not asked.command:
        raise InputError("no program is named", cure='Write: kerncast run --build "make" -- ./app ARGS')
    if asked.build is not None:
        return built_by_command(asked.build, asked.command, gpu, show)
    return found(asked.command, show)


def default_gpu() -> GPU:
    """Return the GPU that a program is told of where nobody names one."""
    return resolve_gpu(_DEFAULT_GPU)[0]


def run_built(
    built: "Built", wishes: "Wishes", gpus: tuple[GPU, GPU | None], folder: Path, show: "Progress | None"
) -> "tuple[Ended, Recording]":
    """Run the program; returns how it ended, and its recording."""
    from kerncast.device.programs import run_of  # noqa: PLC0415
    from kerncast.device.session import run_program  # noqa: PLC0415
    from kerncast.recording import read_recording  # noqa: PLC0415

    shown, clock = gpus
    make_clock = None
    if clock is not None:
        from kerncast.device.clock import ForecastClock  # noqa: PLC0415

        make_clock = lambda shared: ForecastClock(clock, shared)  # noqa: E731
    place = folder / f"run{SUFFIX}"
    ended = run_program(run_of(built, shown, wishes), place, make_clock, show)
    return ended, read_recording(place)


def has_work(recording: "Recording") -> bool:
    """Whether anything of a program can be forecast."""
    return bool(recording.kept or recording.library_calls)


def copy_to(recording: "Recording", out: Path | None) -> None:
    """Copy a recording to a file of this name."""
    from kerncast.replaced_file import replacing  # noqa: PLC0415

    if out is not None and recording.file is not None:
        with replacing(out) as place:
            shutil.copyfile(recording.file, place)


# The verb of the library: all of it in one step.


@dataclass(frozen=True, slots=True)
class Compiling:
    """How a program is built."""

    build: str | None
    options: tuple[str, ...]

    def asked(self, words: Sequence[str], arguments: Sequence[str]) -> AskedProgram:
        """Return the program that is meant; raises InputError."""
        is_source = all(Path(each).suffix.lower() in _SOURCES for each in words)
        front, behind = (words, arguments) if is_source else ([*words, *arguments], None)
        return program_asked(front, behind, self.build, self.options)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a program may run, and how much memory it may have."""

    launch_seconds: float
    seconds: float | None
    memory_bytes: int | None
    kept_bytes: int
    on_fault: str


def ran(
    asked: AskedProgram, on: "tuple[GPUsNoted, GPU | None, float]", limits: Limits, out: Path | None,
    progress: "Progress | None",
) -> "tuple[Recording, Applications | None, int | None]":  # fmt: skip
    """Return the recording of a program, its forecasts, and the status with which it ended.

    ``on``: the GPUs of the forecasts, the one whose times the program's timers show, and the level of the intervals.
    """
    from kerncast.forecast import Options  # noqa: PLC0415
    from kerncast.forecast.application import forecast_application  # noqa: PLC0415
    from kerncast.recording import read_recording  # noqa: PLC0415

    gpus, clock, level = on
    if asked.script is not None:
        cure = "Give the script to predict, or run it by kerncast run."
        raise InputError("a script in Python is no program of the library's run", where=str(asked.script), cure=cure)
    with tempfile.TemporaryDirectory(prefix="kerncast-run-") as folder:
        if asked.recording is not None:
            status, recording = None, read_recording(asked.recording)
        else:
            shown = clock or (gpus[0][0] if gpus else default_gpu())
            built = built_of(asked, shown, Path(folder), progress)
            wishes = _wishes(limits, has_clock=clock is not None)
            ended, recording = run_built(built, wishes, (shown, clock), Path(folder), progress)
            status = ended.status
        copy_to(recording, out)
        if not gpus or not has_work(recording):
            return recording, None, status
        return recording, forecast_application(recording, gpus, Options(level=level), progress), status


def _wishes(limits: Limits, *, has_clock: bool) -> "Wishes":
    from kerncast.device.programs import Wishes  # noqa: PLC0415
    from kerncast.execute.live import Rules  # noqa: PLC0415

    if limits.on_fault not in {"stop", "warn"}:
        raise InputError(f"on_fault is {limits.on_fault[:20]!r}", cure="Give stop or warn.")
    if not limits.launch_seconds > 0:
        raise InputError(f"launch_seconds is {limits.launch_seconds:g}", cure="Give a number above 0.")
    rules = Rules(limits.launch_seconds, goes_on=limits.on_fault == "warn")
    return Wishes(rules, limits.seconds, limits.memory_bytes, limits.kept_bytes, has_clock, 2)
