"""Runs a script in a process with limits, as other work on what is not trusted, and takes what was recorded."""

import hashlib
import io
import os
import runpy
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.bounded_file import Bound, read_text
from kerncast.child_process import EndedError, Progress, Room, Send, apart, is_possible
from kerncast.compile.cache import cache_place
from kerncast.confinement import source_places
from kerncast.device.capture import Capture
from kerncast.device.running import Settings, Shared
from kerncast.device.session import Told, write_shared
from kerncast.device.wire import Environment
from kerncast.errors import InputError, KerncastError, MachineLimitError
from kerncast.execute.live import STACK_BYTES, Rules
from kerncast.gpu import GPU
from kerncast.printable import printable_lines
from kerncast.recording import ContentsWriter
from kerncast.scripts.benchmarks import Benchmarks, Tuning
from kerncast.scripts.recorder import Recorder
from kerncast.typed_json import from_json, to_json
from kerncast.units import GIB, MIB

SUFFIX = ".py"
_SCRIPT = Bound(16 * MIB)
#: Address space: of the GPU's memory, and of torch, its libraries and the script's own arrays.
_ROOM_BYTES, _HOST_BYTES = 256 * GIB, 64 * GIB
_KEPT_BYTES = 256 * MIB
_NO_TIMES = Environment(False, 0, 0.0, 0.0, 0.0, 0.0)
_LONGEST_MESSAGE = 600
_MOST_NAMED = 4
_LAUNCHED = "Mend the script; what it had launched before is recorded."


@dataclass(frozen=True, slots=True)
class Script:
    """A script in Python, and how it is run."""

    path: Path
    arguments: tuple[str, ...] = ()
    seconds: float = 600.0
    """wall time after which it is ended"""
    launch_seconds: float = 60.0
    """wall time of one launch's execution, beyond which its results stay out"""
    kept_bytes: int = _KEPT_BYTES


@dataclass(frozen=True, slots=True)
class Recorded:
    """A script that has run, and where its recording lies."""

    recording: Path
    tunings: tuple[Tuning, ...]
    launches: int
    asks_for_gpu: bool = False
    """whether it may launch other kernels, or other grids, on another GPU of the same architecture"""
    failed: KerncastError | None = None
    """why it ended early"""


@dataclass(frozen=True, slots=True)
class _Answer:
    recording: str
    tunings: tuple[Tuning, ...]
    launches: int
    asks_for_gpu: bool
    what: str | None
    where: str | None
    cure: str | None


def record_script(script: Script, gpu: GPU, out: Path, progress: Progress | None = None) -> Recorded:
    """Run a script as on a GPU and write what it launched; what it prints goes to stderr.

    Raises InputError where it cannot be run or launches nothing, MachineLimitError where its process was ended.
    """
    if not is_possible():
        raise InputError("scripts are recorded on Linux only", cure="On Windows, run kerncast in WSL.")
    text = read_text(script.path, _SCRIPT)  # before anything is loaded: it may not be there
    said = os.dup(2)

    def work(send: Send, report: Progress) -> None:
        send(to_json(_run(_Run(script, gpu, text, said), report)))

    answers = apart(work, _room(script), progress)
    try:
        answer = from_json(_Answer, next(answers))
        shutil.copyfile(answer.recording, out)
    except EndedError as error:
        cure = "Use a smaller problem; KERNCAST_DEBUG=1 shows what it said."
        raise MachineLimitError(f"the script's process ended {error.how}", where=str(script.path), cure=cure) from None
    finally:
        answers.close()  # type: ignore[attr-defined]
        os.close(said)
    failed = None if answer.what is None else InputError(answer.what, where=answer.where, cure=answer.cure)
    if not answer.launches:
        cure = "Give a script that launches kernels of Triton, Numba or CuPy."
        raise failed or InputError("it launches no kernel", where=str(script.path), cure=cure)
    return Recorded(out, answer.tunings, answer.launches, answer.asks_for_gpu, failed)


def _room(script: Script) -> Room:
    """Return what the script may read and write: of the cache, which other commands rely on, it writes nothing."""
    cached, own = cache_place().folder, tuple[Path, ...]()
    if cached is not None:
        with suppress(OSError):
            folder = _own_cache(cached, script)
            folder.mkdir(parents=True, exist_ok=True)
            own = (folder,)
    place = script.path.resolve()
    shared = () if cached is None else (cached,)
    return Room((*source_places(place), place, place.parent, *shared, *own), own, _ROOM_BYTES + _HOST_BYTES)


def _own_cache(folder: Path, script: Script) -> Path:
    """Return the folder that only this script's compiler writes: another script is not served from it."""
    name = hashlib.sha256(str(script.path.resolve()).encode()).hexdigest()[:32]
    return folder.resolve().parent / "scripts" / name


# In the process of the script


@dataclass(frozen=True, slots=True)
class _Run:
    script: Script
    gpu: GPU
    text: str
    said: int
    """descriptor for what the script prints"""


def _run(run: _Run, report: Progress) -> _Answer:
    folder, script = Path(tempfile.gettempdir()), run.script
    cached = cache_place().folder
    cache = folder / "triton" if cached is None else _own_cache(cached, script)
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    contents = ContentsWriter(folder / "contents", script.kept_bytes)
    settings = Settings(run.gpu, _NO_TIMES, _ROOM_BYTES, Rules(script.launch_seconds))
    shared = Shared(settings, Capture(contents), lambda what: report(what, 0, 0))
    report(f"running {script.path.name}", 0, 0)
    recorder = Recorder(shared)
    benchmarks = Benchmarks(recorder)
    failed = _ended(run, lambda: _execute(run, recorder, benchmarks))
    if failed is not None and recorder.unexecuted:
        names = ", ".join(list(recorder.unexecuted)[:_MOST_NAMED])
        what = f"{failed.what} (results of {names} are not there, as the notes say)"
        failed = InputError(what, where=failed.where, cure=failed.cure)
    recorder.finish()
    how = "with status 0" if failed is None else f"early: {failed.what}"
    write_shared(shared, contents, Told((str(script.path), *script.arguments), how), folder / "recording.kc")
    said = (failed.what, failed.where, failed.cure) if failed else (None, None, None)
    asks = recorder.asks_for_gpu or benchmarks.has_answered
    place = str(folder / "recording.kc")
    return _Answer(place, benchmarks.tunings, shared.capture.launches.count, asks, *said)


def _ended(run: _Run, work: Callable[[], None]) -> KerncastError | None:
    """Do the work on a thread with a large stack, and return why it ended early, by itself or by its time."""
    raised: list[BaseException] = []

    def whole() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  told where it is waited for
            raised.append(error)

    before = threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=whole, daemon=True)
    thread.start()
    threading.stack_size(before)
    thread.join(run.script.seconds)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  there is no other way to see it
        line = _line_of([each for each, _ in traceback.walk_stack(frame)][::-1], run.script.path) if frame else None
        what = f"the script was stopped after {run.script.seconds:g} s"
        return InputError(what, where=_where(run.script.path, line), cure="Use a smaller problem.")
    return _failure(raised[0], run.script.path) if raised else None


def _failure(error: BaseException, script: Path) -> KerncastError | None:
    """Return an error of the script's with its line; None for a script that ends itself well."""
    if isinstance(error, SystemExit):
        if error.code in {None, 0}:
            return None
        return InputError(f"the script ended with status {str(error.code)[:80]}", where=str(script), cure=_LAUNCHED)
    line = _line_of([each for each, _ in traceback.walk_tb(error.__traceback__)], script)
    if isinstance(error, SyntaxError) and error.filename == str(script):
        line = error.lineno
    if isinstance(error, KerncastError):
        where = f" ({error.where})" if error.where else ""
        return InputError(f"{error.what}{where}", where=_where(script, line), cure=error.cure or _LAUNCHED)
    said = " ".join(str(error).split())[:_LONGEST_MESSAGE]
    return InputError(f"{type(error).__name__}: {said}", where=_where(script, line), cure=_LAUNCHED)


def _line_of(frames: list[Any], script: Path) -> int | None:
    """Return the line of the script that was being run: the innermost of its own."""
    own = [each.f_lineno for each in frames if each.f_code.co_filename == str(script)]
    return own[-1] if own else None


def _where(script: Path, line: int | None) -> str:
    return str(script) if line is None else f"{script}:{line}"


class _Said:
    """Takes what the script prints, and passes it on without what would steer a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.encoding = "utf-8"

    def write(self, text: str) -> int:
        with suppress(OSError):
            os.write(self._descriptor, printable_lines(text).encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _execute(run: _Run, recorder: Recorder, benchmarks: Benchmarks) -> None:
    """Run the script; raises what it raises."""
    from kerncast.scripts.front_ends import install  # noqa: PLC0415

    script = run.script
    said: Any = _Said(run.said)
    sys.stdout = sys.stderr = said
    sys.stdin = io.StringIO()
    install(run.text, recorder, benchmarks)
    sys.argv = [str(script.path), *script.arguments]
    sys.path.insert(0, str(script.path.resolve().parent))
    runpy.run_path(str(script.path), run_name="__main__")
