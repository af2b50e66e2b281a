"""Work on what is not trusted, in a child process with limits that answers in JSON: nothing that it sends runs here.

A library is started afresh: one request on stdin, one reply on stdout. Our own work goes on in a fork, which has what
this process has read, and loads nothing twice; its answers come as they are found. What crashes or hangs ends the
child, and is an error in the parent.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import kerncast
from kerncast.confinement import Confinement, confine
from kerncast.errors import KerncastError
from kerncast.requirements import innermost_module
from kerncast.typed_json import from_json, to_json
from kerncast.units import GIB, MIB

#: The child's limit counts processor time; a starved machine gives it less of that per second. By the clock it is only
#: stopped where it waits for something for ever.
_WALL_PER_CPU_SECOND = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child process, and its reply."""

    reply: Any
    """reply of the child; None where it is not JSON"""
    status: int
    said: str
    """output on stderr; empty where nobody reads it"""

    @property
    def how(self) -> str:
        """Way in which the child ended, such as ``by signal SIGSEGV``."""
        status = self.status
        return f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"


def ask(
    module: str,
    request: dict[str, Any],
    *,
    reads: Sequence[Path],
    grace_seconds: float,
    reads_stderr: bool = False,
) -> Ended:
    """Run a module on a request with ``memory_bytes`` and ``seconds`` of processor time; raises TimeoutError.

    The child reads nothing but ``reads``, files and folders, and what Python needs; it opens no socket, starts no
    process and ends with this one. ``grace_seconds`` of wall time are beyond its limit, for it to
    start and to report. Where this process has loaded the module (``keep_loaded``), a fork of it answers.
    """
    if module in _loaded:
        return _ask_fork(module, request, reads, grace_seconds)
    process = subprocess.Popen(  # noqa: S603  a module of ours
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if reads_stderr else subprocess.DEVNULL,
        env=environment_of_children(),
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with process:
        try:
            patience = _WALL_PER_CPU_SECOND * request["seconds"] + grace_seconds
            whole = request | {"parent": os.getpid(), "reads": [str(path) for path in reads]}
            out, said = process.communicate(json.dumps(whole), timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            raise TimeoutError from None
        except BaseException:
            process.kill()
            raise
    try:
        reply = json.loads(out)
    except (ValueError, RecursionError):
        reply = None
    return Ended(reply, process.returncode, said or "")


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], parent: str) -> None:
    """Answer the request on stdin, within its limits; ``parent`` is the module that asks."""
    # Libraries may print; only the reply goes to the real stdout.
    reply_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        request = json.load(sys.stdin)
    except ValueError:
        sys.exit(f"no request on stdin: this module is run by {parent}")
    reads = tuple(map(Path, request["reads"]))
    confine(Confinement(request["memory_bytes"], request["seconds"], reads), parent=request["parent"])
    with reply_to:
        json.dump(answer(request), reply_to)


#: What answers in forks of this process, by its module.
_loaded: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def keep_loaded(module: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Have forks of this process answer for a module from now on, as it has loaded what that takes most time for.

    For processes that ask again and again. The fork has the limits that a process started afresh would have.
    """
    if is_possible():
        _loaded[module] = answer


def _ask_fork(module: str, request: dict[str, Any], reads: Sequence[Path], grace_seconds: float) -> Ended:
    """Answer a request as ``ask`` does, in a fork; what the fork says on stderr is lost."""
    pipe, its = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads wait for answers
        pid = os.fork()
    if pid == 0:
        os.close(pipe)
        _answer_in_fork(_loaded[module], request, tuple(reads), its, parent)
    os.close(its)
    try:
        out = _read_within(pipe, _WALL_PER_CPU_SECOND * request["seconds"] + grace_seconds)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        reply = json.loads(out)
    except (ValueError, RecursionError):
        reply = None
    return Ended(reply, status, "")


def _answer_in_fork(
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    request: dict[str, Any],
    reads: tuple[Path, ...],
    out: int,
    parent: int,
) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _be_silent()
        _forget_environment()
        memory_bytes = request["memory_bytes"] + _address_space_bytes()
        confine(Confinement(memory_bytes, request["seconds"], reads), parent=parent)
        with os.fdopen(out, "wb") as reply:
            reply.write(json.dumps(answer(request)).encode())
        status = 0
    finally:
        os._exit(status)


def _read_within(pipe: int, seconds: float) -> bytes:
    """Return all that comes until the other side ends; raises TimeoutError."""
    parts: list[bytes] = []
    end = time.monotonic() + seconds
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    while waiting.poll(max(0.0, 1000 * (end - time.monotonic()))):
        found = os.read(pipe, _CHUNK_BYTES)
        if not found:
            return b"".join(parts)
        parts.append(found)
    raise TimeoutError


#: What Python, its packages and the compilers ask for. All else of the environment stays out: secrets, and variables by
#: which a toolkit or a C compiler elsewhere on the machine could change what is compiled. PWD would give NVRTC names of
#: links in the path, where the cache knows the folder by its own name.
_KEPT = frozenset(
    {"APPDATA", "HOME", "LANG", "LD_LIBRARY_PATH", "LOCALAPPDATA", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR",
     "USERPROFILE", "XDG_CACHE_HOME"}
)  # fmt: skip
_KEPT_KINDS = ("LC_", "PYTHON", "KERNCAST_", "NUMBA_", "OMP_", "OPENBLAS_")


def is_passed_on(name: str) -> bool:
    """Whether a variable of the environment reaches processes that work on what is not trusted."""
    return name in _KEPT or name.startswith(_KEPT_KINDS)


def environment_of_children() -> dict[str, str]:
    """Return the environment of the child, with this package in its path."""
    kept = {name: value for name, value in os.environ.items() if is_passed_on(name)}
    root = str(Path(kerncast.__path__[0]).parent)
    kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
    return kept


# In a fork: where there is none that is safe (all but Linux), the work is done here.


T = TypeVar("T")
Send = Callable[[Any], None]
"""takes what JSON can hold"""
Progress = Callable[[str, int, int], None]

#: Our own tables, LLVM's and numba's, and four blocks' worth of what a compiler takes; the buffers come on top, and the
#: addresses that this process has given away when the work begins: a user's own arrays and libraries may be large.
_OWN_BYTES = 12 * GIB
#: Results, listings and values that repeat are written as files; nothing of them is larger.
_FILE_BYTES = 1 * GIB
#: Whoever works tells more often how far it is; the budgets of a launch end it long before.
SILENT_SECONDS = 1800.0
#: Further news of the same step are of no use to people.
_NEWS_SECONDS = 0.05
_SENSELESS = "with an answer that makes no sense"
_CHUNK_BYTES = 1 * MIB
#: One answer is a forecast with its profile: a few MiB for a kernel of 100,000 lines.
_MOST_BYTES = 512 * MIB
#: A day: many launches follow one another in one process, and each has its budget.
_CPU_SECONDS = 86_400.0


class EndedError(Exception):
    """The process has ended before its work had."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class DefectError(Exception):
    """What nobody has foreseen, in the process that did the work: its text says of what type it was."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the work may read and write, beside the packages, and how much memory it may take."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    buffer_bytes: int = 0
    """address space of the largest launch's buffers, and of what is written to them"""
    folder: Path | None = None
    """folder for temporary files"""


def is_possible() -> bool:
    """Whether this system can fork a process that has loaded what we load."""
    return sys.platform == "linux"


def apart(work: Callable[[Send, Progress], None], room: Room, progress: Progress | None = None) -> Iterator[Any]:
    """Yield what the work sends, as JSON holds it, while it goes on in a fork of this process.

    Raises the KerncastError, MemoryError or ImportError that the work raises, DefectError for all else that it raises,
    and EndedError where the process is ended by a signal, ends without a word or says nothing for SILENT_SECONDS. Where
    no fork is possible it works in this process, and yields at its end.
    """
    if not is_possible():
        found: list[Any] = []
        try:
            work(lambda data: found.append(json.loads(json.dumps(data))), progress or _ignored)
        finally:
            yield from found
        return
    with tempfile.TemporaryDirectory(prefix="kerncast-", ignore_cleanup_errors=True) as folder:
        process = _Process(work, replace(room, folder=Path(folder)))
        try:
            yield from _heard(process, progress or _ignored)
        finally:
            process.end()


def alone(kind: type[T], work: Callable[[Progress], T], room: Room, progress: Progress | None = None) -> T:
    """Return what the work returns, a value of this kind that ``typed_json`` knows; raises as ``apart`` does."""
    (data,) = apart(lambda send, report: send(to_json(work(report))), room, progress)
    try:
        return from_json(kind, data)
    except (ValueError, TypeError, RecursionError):
        raise EndedError(_SENSELESS) from None


def _ignored(what: str, done: int, total: int) -> None:
    del what, done, total


def _heard(process: "_Process", progress: Progress) -> Iterator[Any]:
    """Yield what was sent, and pass on how far the work is."""
    for line in process.lines():
        kind, data = _message(line)
        if kind == "answer":
            yield data
        elif kind == "progress":
            progress(*from_json(tuple[str, int, int], data))
        elif kind == "raised":
            raise _raised(data)
        elif kind == "no memory":
            raise MemoryError
        elif kind == "not there":
            raise ModuleNotFoundError(data[0], name=data[1])
        elif kind == "not loaded":
            raise ImportError(data[0], name=data[1])
        elif kind == "defect":
            raise DefectError(str(data))
        else:
            return
    raise EndedError(process.how())


@dataclass(frozen=True, slots=True)
class _Raised:
    """A KerncastError, on its way between processes."""

    kind: type[KerncastError]
    what: str
    where: str | None
    cure: str | None


def _message(line: bytes) -> tuple[str, Any]:
    try:
        ((kind, data),) = json.loads(line).items()
    except (ValueError, AttributeError, RecursionError):
        raise EndedError(_SENSELESS) from None
    return str(kind), data


def _raised(data: Any) -> KerncastError:
    raised = from_json(_Raised, data)
    return raised.kind(raised.what, where=raised.where, cure=raised.cure)


class _Process:
    """A fork of this process that does some work, and the pipe through which it tells what it finds."""

    def __init__(self, work: Callable[[Send, Progress], None], room: Room) -> None:
        self._pipe, its = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # another thread shows progress, and waits
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._pipe)
            _do(work, room, its, parent)
        os.close(its)
        self._status: int | None = None

    def lines(self) -> Iterator[bytes]:
        """Yield what the process writes, line by line, until it ends or has been silent for too long."""
        parts: list[bytes] = []
        waiting = select.poll()  # takes descriptors of any number
        waiting.register(self._pipe, select.POLLIN)
        while True:
            if not waiting.poll(1000 * SILENT_SECONDS):
                os.kill(self._pid, signal.SIGKILL)
                self._wait()
                raise EndedError(f"after {SILENT_SECONDS:g} s in which nothing went on")
            found = os.read(self._pipe, _CHUNK_BYTES)
            if not found:
                return
            first, *more = found.split(b"\n")
            parts.append(first)
            if sum(map(len, parts)) > _MOST_BYTES:
                raise EndedError(f"with an answer of more than {_MOST_BYTES // MIB} MiB")
            for each in more:
                yield b"".join(parts)
                parts = [each]

    def how(self) -> str:
        """Return how it ended, such as ``by signal SIGSEGV``."""
        status = self._wait()
        return f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"

    def end(self) -> None:
        """End it, where it has not ended."""
        os.close(self._pipe)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)  # with all that it has started
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._wait()

    def _wait(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status


def _do(work: Callable[[Send, Progress], None], room: Room, out: int, parent: int) -> NoReturn:
    """Do the work in the fork, tell what comes of it, and end; the parent closes what is open."""
    status = 1
    try:
        settle(room, parent)
        status = _told(work, _Sender(out))
    finally:
        os._exit(status)


def _told(work: Callable[[Send, Progress], None], send: "_Sender") -> int:
    try:
        work(send.answer, send.progress)
    except KerncastError as error:
        send("raised", to_json(_Raised(type(error), error.what, error.where, error.cure)))
    except MemoryError:
        send("no memory", None)
    except ModuleNotFoundError as error:
        send("not there", [str(error), error.name])
    except ImportError as error:
        send("not loaded", [str(error), error.name or innermost_module(error)])
    except BaseException as error:  # noqa: BLE001  as of a process
        if os.environ.get("KERNCAST_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        send("defect", f"{type(error).__name__}: {error}")
        return 1
    else:
        send("done", None)
    return 0


def settle(room: Room, parent: int) -> None:
    """Put the limits upon this process, which a process of this number has started and whose end ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)  # whatever it starts ends with it
    _be_silent()
    _forget_environment()
    writes = room.writes
    if room.folder is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(room.folder)
        writes = (*writes, room.folder)
    memory_bytes = room.buffer_bytes + _OWN_BYTES + _address_space_bytes()
    rules = Confinement(memory_bytes, _CPU_SECONDS, room.reads, writes, _FILE_BYTES, starts_processes=True)
    confine(rules, parent=parent)


def _forget_environment() -> None:
    for name in [name for name in os.environ if not is_passed_on(name)]:
        del os.environ[name]


def _be_silent() -> None:
    """Leave the terminal to the parent: nothing is read from it, and nothing written to it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1) if os.environ.get("KERNCAST_DEBUG") else (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _address_space_bytes() -> int:
    """Return the address space that this process takes now; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class _Sender:
    """Writes to the pipe, a line for each message."""

    def __init__(self, out: int) -> None:
        self._out = os.fdopen(out, "wb")
        self._last: tuple[str, float] = ("", 0.0)

    def __call__(self, kind: str, data: Any) -> None:
        self._out.write(json.dumps({kind: data}).encode() + b"\n")
        self._out.flush()

    def answer(self, data: Any) -> None:
        self("answer", data)

    def progress(self, what: str, done: int, total: int) -> None:
        name, told = self._last
        now = time.monotonic()
        if what != name or now - told >= _NEWS_SECONDS:
            self._last = what, now
            self("progress", [what, int(done), int(total)])
