"""The process that stays warm: it has loaded compilers, executor and simulator, and forks for each question.

Run as ``python -m kerncast.web.warm FOLDER [INCLUDE…]`` with a Unix socket for stdin, through which the server hands it
one socket per question. The folder is for sources; the server removes it. Sources may include what the other folders
hold. A fork reads its question from its socket, so that nothing of a question stays here. The fork works as a command
does: what it compiles, executes and simulates runs in forks of its own with limits (``kerncast.child_process``). When
the server closes the socket, the fork ends, and all that it has started ends with it.
"""

import gc
import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from kerncast.child_process import keep_loaded
from kerncast.compile import compile_source, worker
from kerncast.errors import KerncastError
from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.launch import Argument, Launch, parse_value
from kerncast.typed_json import from_json, to_json
from kerncast.web.questions import Asked, Problem
from kerncast.web.typed_launch import Place
from kerncast.web.work import BUDGET, answers

#: Larger than any source that is compiled.
MOST_BYTES = 32 * 2**20
_COMPILER = "kerncast.compile.worker"
_READY = b"r"


def main() -> None:
    """Load, say so, and fork for each socket that comes."""
    server = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    warm_up()
    gc.collect()
    gc.freeze()  # else each fork would look through, and so copy, all that is loaded here
    tempfile.tempdir = sys.argv[1]  # what a fork leaves when it is ended goes with the server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is interrupted, and closes its socket
    server.sendall(_READY)
    while True:
        message, sockets, _, _ = socket.recv_fds(server, 1, 1)
        if not message:
            return
        for each in sockets:
            _fork(server, each)


def warm_up() -> None:
    """Forecast a small kernel here, so that everything that this takes is loaded, and the fork need not load it."""
    from kerncast.report.forecast import picture  # noqa: F401, PLC0415  matplotlib
    from kerncast.report.pictures import forecast_roofline  # noqa: F401, PLC0415

    with tempfile.TemporaryDirectory(prefix="kerncast-") as folder, suppress(KerncastError):
        source = Path(folder) / "k.cu"
        source.write_text("__global__ void k(float *x) { x[threadIdx.x] = x[threadIdx.x] * 2.0f; }\n", encoding="utf-8")
        _load_compiler(source)
        value = parse_value("f32[1024] random", "x", Path(folder))
        launch = Launch(source, "k", (8, 1, 1), (128, 1, 1), arguments=(Argument("x", value),))
        forecast_all((launch,), resolve_gpus(["t4", "h100-sxm"]), Options(budget=BUDGET))


def _load_compiler(source: Path) -> None:
    """Load NVRTC and libclang by compiling here, and let forks of this process compile from now on."""
    from kerncast.compile import tasks  # noqa: PLC0415  loads them

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return worker.answer(request, tasks.do)

    from kerncast.compile.nouns import CompileRequest  # noqa: PLC0415
    from kerncast.compile.targets import CompileJob, architecture_for  # noqa: PLC0415

    request = CompileRequest(source, ("sm_75",))
    tasks.compile_targets(CompileJob(request, (architecture_for("sm_75"),)))
    keep_loaded(_COMPILER, answer)
    compile_source(source, architectures=["sm_75"])


def _fork(server: socket.socket, descriptor: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries sleep
        pid = os.fork()
    if pid:
        os.close(descriptor)
        return
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.close()
        _answer(socket.socket(fileno=descriptor))
        status = 0
    finally:
        os._exit(status)


def _answer(connection: socket.socket) -> None:
    """Read one question, and write its answers, a line each."""
    stream = connection.makefile("rwb")
    line = stream.readline(MOST_BYTES)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()

    def send(value: object) -> None:
        stream.write(json.dumps({"kind": type(value).__name__, "data": to_json(value)}).encode() + b"\n")
        stream.flush()

    asked = from_json(Asked, json.loads(line))
    _say_all(send, asked, _folder_of(asked))


def _folder_of(asked: Asked) -> Path:
    """Return a folder for what is asked, the same one for the same source.

    The code of a kernel names its file: in another folder nothing of an earlier answer would be remembered.
    """
    content = json.dumps(to_json((asked.source, asked.hypothetical)))
    folder = Path(sys.argv[1]) / hashlib.sha256(content.encode()).hexdigest()[:32]
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _say_all(send: Callable[[object], None], asked: Asked, folder: Path) -> None:
    try:
        for each in answers(asked, Place(folder, tuple(map(Path, sys.argv[2:])))):
            send(each)
    except (MemoryError, RecursionError) as error:
        send(Problem(f"this takes more memory than there is ({type(error).__name__})", "Use a smaller problem."))
    except Exception as error:  # noqa: BLE001  as of a command: no traceback for a user
        if os.environ.get("KERNCAST_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        send(Problem(f"a defect of kerncast: {type(error).__name__}: {error}", "Please report it, with this source."))


def _end_with(connection: socket.socket) -> NoReturn:
    """End this process when nobody listens any more; what it has started has asked to end with it."""
    while connection.recv(1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
