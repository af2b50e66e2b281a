"""Forks that answer for a module, as it is loaded here, have the limits of a process started afresh."""

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from kerncast import child_process
from kerncast.child_process import ask, is_possible, keep_loaded

pytestmark = pytest.mark.skipif(not is_possible(), reason="no fork is possible")
_MODULE = "kerncast.no_such_module"
_REQUEST = {"memory_bytes": 2**28, "seconds": 5.0}


@pytest.fixture(autouse=True)
def _none_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_loaded", {})


def answered(work: Any, **request: float) -> child_process.Ended:
    keep_loaded(_MODULE, work)
    return ask(_MODULE, {**_REQUEST, **request}, reads=(), grace_seconds=60.0)


def test_a_fork_answers() -> None:
    ended = answered(lambda request: {"seconds": request["seconds"], "pid": os.getpid()})
    assert ended.reply["seconds"] == 5.0
    assert ended.reply["pid"] != os.getpid()
    assert (ended.status, ended.said) == (0, "")


def test_a_fork_opens_no_socket_and_reads_no_file_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    monkeypatch.setenv("SECRET_TOKEN", "x")

    def work(request: dict[str, Any]) -> dict[str, Any]:
        del request
        found: dict[str, Any] = {"environment": "SECRET_TOKEN" in os.environ}
        for name, attempt in (("socket", socket.socket), ("file", secret.read_text)):
            try:
                attempt()
                found[name] = "done"
            except OSError as error:
                found[name] = type(error).__name__
        return found

    reply = answered(work).reply
    assert reply == {"environment": False, "socket": "PermissionError", "file": "PermissionError"}


def test_a_fork_ends_with_its_processor_time() -> None:
    def work(request: dict[str, Any]) -> dict[str, Any]:
        while True:
            request["turns"] = 1

    ended = answered(work, seconds=0.5)
    assert (ended.reply, ended.status) == (None, -signal.SIGXCPU)


def test_a_fork_that_waits_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_WALL_PER_CPU_SECOND", 0.0)

    def work(request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(600)
        return request

    keep_loaded(_MODULE, work)
    with pytest.raises(TimeoutError):
        ask(_MODULE, _REQUEST, reads=(), grace_seconds=0.2)


def test_a_fork_has_its_memory_and_no_more() -> None:
    def work(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"bytes": len(bytearray(2 * request["memory_bytes"]))}
        except MemoryError:
            return {"bytes": None}

    assert answered(work).reply == {"bytes": None}
