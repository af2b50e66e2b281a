"""Runs the worker of the compiler in forks of a process that has loaded the compilers: loading takes most of its time.

What runs is the worker's own ``main``, within its limits; only the start of its process is another.
"""

import contextlib
import importlib
import json
import os
import select
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, NoReturn

import pytest

from kerncast.child_process import Ended, environment_of_children
from kerncast.compile import compile_source, compiler, worker
from kerncast.errors import CompileError
from tests.helpers.places import ROOT

#: Forks of a process, and waits for one with a limit of time.
CAN_FORK = hasattr(os, "pidfd_open")


class Compilers:
    """The process that has loaded the compilers; it starts with the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[str] | None = None

    def ask(
        self,
        module: str,
        request: dict[str, Any],
        *,
        reads: Sequence[Path],
        grace_seconds: float,
        reads_stderr: bool = False,
    ) -> Ended:
        """Answer as ``kerncast.child_process.ask`` does."""
        del reads_stderr
        whole = request | {"reads": [str(path) for path in reads]}
        asked = [module, str(Path.cwd()), request["seconds"] + grace_seconds, json.dumps(whole)]
        with self._lock:
            server = self._started()
            assert server.stdin
            assert server.stdout
            server.stdin.write(json.dumps(asked) + "\n")
            server.stdin.flush()
            ended = json.loads(server.stdout.readline())
        if ended is None:
            raise TimeoutError
        status, out, said = ended
        try:
            reply = json.loads(out)
        except (ValueError, RecursionError):
            reply = None
        return Ended(reply, status, said)

    def close(self) -> None:
        """End the process."""
        if self._server is not None:
            self._server.communicate()

    def _started(self) -> subprocess.Popen[str]:
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=ROOT,
                env=environment_of_children(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._server


def serve() -> None:
    """Answer requests, one a line, each in a fork of this process."""
    load()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(*json.loads(line))) + "\n")
        sys.stdout.flush()


def load() -> None:
    """Compile a kernel here, so that all that compiling loads is there."""

    def answered(_: str, request: dict[str, Any], **_more: object) -> Ended:
        return Ended(worker.answer(request, worker._compile), 0, "")

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "ask", answered)
        patch.setenv("KERNCAST_CACHE", "off")
        source = Path(folder) / "k.cu"
        source.write_text("__global__ void k(int *x) { *x = 1; }\n", encoding="utf-8")
        for architecture in ("sm_35", "sm_70"):
            with contextlib.suppress(CompileError):  # the compiler for the older one is an extra
                compile_source(source, architectures=[architecture])


def answer(module: str, folder: str, seconds: float, request: str) -> tuple[int, str, str] | None:
    """Run a worker in a fork; returns its exit status and what it wrote, or None where it took too long."""
    with TemporaryFile("w+", encoding="utf-8") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as said:
        given.write(json.dumps(json.loads(request) | {"parent": os.getpid()}))
        given.seek(0)
        pid = os.fork()
        if pid == 0:
            work(module, folder, (given, out, said))
        handle = os.pidfd_open(pid)
        in_time = bool(select.select([handle], [], [], seconds)[0])
        os.close(handle)
        if not in_time:
            os.kill(pid, 9)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return (status, read(out), read(said)) if in_time else None


def read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def work(module: str, folder: str, files: tuple[IO[str], IO[str], IO[str]]) -> NoReturn:
    """Run a worker on files for its standard streams, and end."""
    status = 1
    try:
        os.chdir(folder)
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (open(n, mode, encoding="utf-8") for n, mode in enumerate("rww"))  # noqa: SIM115, PTH123
        importlib.import_module(module).main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  as of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
