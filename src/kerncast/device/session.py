"""Runs a program: starts the server in a process with limits, the program beside it, and takes what was recorded."""

import ctypes
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kerncast.bounded_file import Bound, read_bytes
from kerncast.child_process import EndedError, Progress, Room, Send, apart
from kerncast.compile.cache import Store, cache_place
from kerncast.device.capture import Capture
from kerncast.device.modules import Origin, files_of
from kerncast.device.running import Clock, Settings, Shared
from kerncast.device.server import serve
from kerncast.errors import InputError, MachineLimitError
from kerncast.execute.live import on_large_stack
from kerncast.recording import Code, ContentsWriter, Recording, SourceFile, write_recording
from kerncast.units import GIB, MIB

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
#: A program that does not end by SIGTERM is ended by SIGKILL.
_PATIENCE_SECONDS = 3.0
#: Address space beside the memory of the GPU: memory of the host that is pinned or managed.
_HOST_BYTES = 64 * GIB
_MOST_HOW_BYTES = 200
#: Processes whose memory can be mapped at a time.
_MOST_AT_ONCE = 8
#: Sources and headers of kernels are kept in a recording as far as they are not huge.
_SOURCE = Bound(16 * MIB)


@dataclass(frozen=True, slots=True)
class Run:
    """A program to run."""

    command: tuple[str, ...]
    settings: Settings
    libraries: Path
    """folder of the runtime's libraries"""
    environment: Mapping[str, str] = field(default_factory=dict)
    """variables beside those of this process"""
    reads: tuple[Path, ...] = ()
    """sources and folders that kernels may be compiled from"""
    seconds: float | None = None
    """wall time after which the program is ended; None: never"""
    kept_bytes: int = 256 * MIB
    """most that is kept of what memory held"""
    stdout: int | None = None
    """descriptor for what the program prints; None: that of this process"""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has run."""

    status: int
    """exit status; negative: the signal that ended it"""
    skipped: int = 0
    """launches that repeated others on unchanged memory"""
    is_timed_out: bool = False

    @property
    def how(self) -> str:
        """Way in which it ended, such as ``with status 0``."""
        status = self.status
        how = f"by signal {_signal_name(-status)}" if status < 0 else f"with status {status}"
        return f"{how}, as its time was over" if self.is_timed_out else how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of those for real time
        return str(number)


MakeClock = Callable[[Shared], Clock]


def run_program(run: Run, out: Path, make_clock: MakeClock | None = None, progress: Progress | None = None) -> Ended:
    """Run a program on the virtual GPU and write its recording; what had run is kept, however the program ends.

    Raises InputError where the program cannot be started, and MachineLimitError where the server was ended.
    """
    if sys.platform != "linux":
        raise InputError("programs run on Linux only", cure="On Windows, run kerncast in WSL.")
    name = f"kerncast-{os.getpid()}-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        over, ends = os.pipe()
        try:
            return _serve_and_run(run, _Meeting(name, listener, over, ends), out, (make_clock, progress))
        finally:
            for each in (over, ends):
                with suppress(OSError):
                    os.close(each)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Where the program and its server meet."""

    name: str
    listener: socket.socket
    over: int
    """can be read when the program has ended"""
    ends: int
    """takes in what way the program ended"""


def _serve_and_run(run: Run, meeting: _Meeting, out: Path, options: tuple[MakeClock | None, Progress | None]) -> Ended:
    make_clock, progress = options

    def work(send: Send, report: Progress) -> None:
        os.close(meeting.ends)
        on_large_stack(lambda: _serve(run, meeting, make_clock, (send, report)))

    answers = apart(work, _room(run), progress)
    try:
        next(answers)  # the server is there
        with _all_children_ended():
            ended = _waited(_started(run, meeting.name), run, meeting)
        answer = next(answers)
        shutil.copyfile(answer["recording"], out)
        return replace(ended, skipped=int(answer["skipped"]))
    except EndedError as error:
        what = f"the server of the virtual GPU ended {error.how}"
        raise MachineLimitError(
            what, cure="Use a smaller problem; kerncast doctor checks what kerncast is made of."
        ) from None
    finally:
        answers.close()  # type: ignore[attr-defined]


def _room(run: Run) -> Room:
    cache: tuple[Path, ...] = ()
    place = cache_place()
    if place.folder is not None:
        with suppress(OSError):
            Store(place.folder, place.most_bytes).prepare()
            cache = (place.folder,)
    return Room((*run.reads, *cache), cache, _MOST_AT_ONCE * run.settings.room_bytes + _HOST_BYTES)


# In the process of the server


def _serve(run: Run, meeting: _Meeting, make_clock: MakeClock | None, tell: tuple[Send, Progress]) -> None:
    send, report = tell
    folder = Path(tempfile.gettempdir())
    contents = ContentsWriter(folder / "contents", run.kept_bytes)
    rules = replace(run.settings.rules, is_over=_can_be_read(meeting.over))
    shared = Shared(replace(run.settings, rules=rules), Capture(contents), lambda what: report(what, 0, 0))
    if make_clock is not None:
        shared.clock = make_clock(shared)
    send({"ready": True})
    serve(meeting.listener, meeting.over, shared)
    how = os.read(meeting.over, _MOST_HOW_BYTES).decode(errors="replace")
    write_shared(shared, contents, Told(run.command, how), folder / "recording.kc")
    send({"recording": str(folder / "recording.kc"), "skipped": shared.skipped})


def _can_be_read(descriptor: int) -> Callable[[], bool]:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: bool(poll.poll(0))


@dataclass(frozen=True, slots=True)
class Told:
    """What a recording tells of its program."""

    command: tuple[str, ...]
    ended: str
    """end of the program, such as ``with status 0``"""


def write_shared(shared: Shared, contents: ContentsWriter, told: Told, place: Path) -> None:
    """Write the recording of a run, with all that was kept; ends the file of contents."""
    codes = tuple(_code_of(each, contents) for each in shared.origins)
    contents.close()
    capture = shared.capture
    found = Recording(
        told.command, shared.settings.gpu.id, told.ended, codes, tuple(shared.kernels), tuple(capture.groups),
        capture.kept(), capture.launches.rows, capture.events.rows, tuple(shared.library_calls), shared.remarks.texts,
        None, shared.processes, shared.host_seconds,
    )  # fmt: skip
    write_recording(place, found, contents.path)


def _code_of(origin: Origin, contents: ContentsWriter) -> Code:
    """Return where kernels are from, with what their files hold, so that they can be compiled elsewhere."""
    if origin.request is None:
        return Code(ptx=contents.keep_code(origin.ptx.encode()))
    request, files = origin.request, []
    for path in files_of(request):
        with suppress(InputError):
            files.append(SourceFile(str(path), contents.keep_code(read_bytes(path, _SOURCE))))
    folders = tuple(map(str, request.include_dirs))
    return Code(str(request.source), request.defines, folders, request.standard, request.fast_math, tuple(files))


# The program


def _started(run: Run, name: str) -> "subprocess.Popen[bytes]":
    paths = [str(run.libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    preload = [str(run.libraries / "libkerncast_device.so"), *filter(None, [os.environ.get("LD_PRELOAD")])]
    environment = {
        **os.environ, **run.environment, "KERNCAST_SERVER": name, "KERNCAST_ROOM": str(run.settings.room_bytes),
        "LD_LIBRARY_PATH": os.pathsep.join(paths), "LD_PRELOAD": os.pathsep.join(preload),
    }  # fmt: skip
    parent = os.getpid()
    library = ctypes.CDLL(None)

    def end_with_parent() -> None:
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(run.command, env=environment, stdout=run.stdout, preexec_fn=end_with_parent)  # noqa: S603, PLW1509  the user's own program
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        cure = "Name a program that can be run, such as ./app."
        raise InputError(f"cannot be run ({reason})", where=run.command[0], cure=cure) from None


def _waited(process: "subprocess.Popen[bytes]", run: Run, meeting: _Meeting) -> Ended:
    """Return how the program has ended, by itself, by the user or by the limit of time."""
    try:
        ended = Ended(process.wait(run.seconds))
    except subprocess.TimeoutExpired:
        ended = Ended(_ended(process), is_timed_out=True)
    except KeyboardInterrupt:  # the program was interrupted, too
        ended = Ended(_ended(process, waits=True))
    except BaseException:
        process.kill()
        raise
    os.write(meeting.ends, ended.how.encode())
    return ended


def _ended(process: "subprocess.Popen[bytes]", *, waits: bool = False) -> int:
    if waits:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_PATIENCE_SECONDS)
    process.terminate()
    try:
        return process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def _all_children_ended() -> Iterator[None]:
    """End what the program has started and left: such processes become children of this one."""
    library, before = ctypes.CDLL(None), _children()
    library.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        while left := _children() - before:
            for each in left:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(each, 0)
        library.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _children() -> set[int]:
    """Return the processes whose parent is this one."""
    found = set()
    for entry in os.scandir("/proc"):
        with suppress(OSError, ValueError):
            # Name in parentheses, which may hold anything; state; parent.
            text = Path(entry.path, "stat").read_text(errors="replace") if entry.name.isdigit() else ""
            if text and int(text.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(entry.name))
    return found
