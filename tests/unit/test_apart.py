"""Work in a process of its own: what it finds and raises arrives, and whatever ends it is an error here."""

import ctypes
import faulthandler
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast import child_process as apart_module
from kerncast.child_process import DefectError, EndedError, Progress, Room, Send, alone, apart
from kerncast.errors import CompileError, MachineLimitError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks here")

Work = Callable[[Send, Progress], None]

#: From the headers of Linux; Python's mmap names it since 3.13 only.
MAP_NORESERVE = 0x4000


def test_answers_arrive_in_order_with_news_of_the_work() -> None:
    news: list[tuple[str, int, int]] = []

    def work(send: Send, progress: Progress) -> None:
        for number in range(3):
            progress(f"step {number}", number, 3)
            send({"number": number, "pid": os.getpid()})

    found = list(apart(work, Room(), lambda *each: news.append(each)))
    assert [each["number"] for each in found] == [0, 1, 2]
    assert os.getpid() not in {each["pid"] for each in found}
    assert news == [("step 0", 0, 3), ("step 1", 1, 3), ("step 2", 2, 3)]


def test_an_answer_comes_before_the_work_is_done() -> None:
    def work(send: Send, _: Progress) -> None:
        send("first")
        time.sleep(600)

    assert next(apart(work, Room())) == "first"


def test_a_long_answer_is_whole() -> None:
    assert list(apart(lambda send, _: send("ab" * 3_000_000), Room())) == ["ab" * 3_000_000]


def test_a_process_that_is_large_already_has_as_much_room() -> None:
    """Libraries of users reserve tens of gigabytes of addresses, and map large files."""
    with mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | MAP_NORESERVE):
        assert alone(int, lambda _: len(bytearray(1 << 30)), Room()) == 1 << 30


def test_the_pipe_may_have_any_number() -> None:
    """``select`` takes descriptors below 1,024 only."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]))
    held: list[int] = []
    try:
        while not held or held[-1] < 1_024:
            held.append(os.open("/dev/null", os.O_RDONLY))
        assert heard(lambda send, _: send("told")) == ["told"]
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def raising(error: BaseException) -> Work:
    def work(send: Send, _: Progress) -> None:
        send(1)
        raise error

    return work


def heard(work: Work, **room: Any) -> list[Any]:
    return list(apart(work, Room(**room)))


def test_errors_that_users_mend_arrive_as_they_were() -> None:
    with pytest.raises(CompileError) as caught:
        heard(raising(CompileError("no kernel", where="k.cu", cure="Write one.")))
    assert (caught.value.what, caught.value.where, caught.value.cure) == ("no kernel", "k.cu", "Write one.")
    with pytest.raises(MachineLimitError, match="too slow"):
        heard(raising(MachineLimitError("too slow")))
    with pytest.raises(MemoryError):
        heard(raising(MemoryError()))
    with pytest.raises(ModuleNotFoundError) as missing:
        heard(raising(ModuleNotFoundError("No module named 'x'", name="x")))
    assert missing.value.name == "x"


def test_what_nobody_has_foreseen_is_told_with_its_type() -> None:
    with pytest.raises(DefectError, match=r"^KeyError: 'x'$"):
        heard(raising(KeyError("x")))


ENDS: dict[str, tuple[Callable[[], object], str]] = {
    "segmentation fault": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "by signal SIGSEGV"),
    "killed for memory": (lambda: os.kill(os.getpid(), signal.SIGKILL), "by signal SIGKILL"),
    "exit": (lambda: os._exit(7), "with status 7"),
}


@pytest.mark.parametrize(("end", "how"), ENDS.values(), ids=ENDS)
def test_whatever_ends_the_process_is_an_error_after_its_answers(end: Callable[[], object], how: str) -> None:
    def work(send: Send, _: Progress) -> None:
        faulthandler.disable()
        send("answer")
        end()

    answers = apart(work, Room())
    assert next(answers) == "answer"
    with pytest.raises(EndedError, match=f"^{how}$"):
        next(answers)


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "SILENT_SECONDS", 0.2)
    with pytest.raises(EndedError, match=r"after 0\.2 s in which nothing went on"):
        heard(lambda *_: time.sleep(600))


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "_MOST_BYTES", 2**21)
    with pytest.raises(EndedError, match="more than 2 MiB"):
        heard(lambda send, _: send("x" * 2**22))


def test_an_answer_of_another_kind_is_an_error() -> None:
    with pytest.raises(EndedError, match="makes no sense"):
        alone(int, lambda _: "a text", Room())  # type: ignore[arg-type, return-value]


def test_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "_OWN_BYTES", 2**33)
    with pytest.raises(MemoryError):
        heard(lambda send, _: send(np.empty(2**34, np.uint8).size))
    assert heard(lambda send, _: send(np.empty(2**34, np.uint8).size), buffer_bytes=2**35) == [2**34]


def test_files_and_variables_elsewhere_are_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_landlock():
        pytest.skip("this kernel has no Landlock")
    for name in ("read", "written"):
        (tmp_path / name).mkdir()
    (tmp_path / "read" / "k.cu").write_text("kernel", encoding="utf-8")
    (tmp_path / "secret").write_text("hunter2", encoding="utf-8")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")

    def tried(action: Callable[[], object]) -> str:
        try:
            return str(action())
        except OSError as error:
            return type(error).__name__

    def work(send: Send, _: Progress) -> None:
        send(tried((tmp_path / "read" / "k.cu").read_text))
        send(tried((tmp_path / "secret").read_text))
        send(tried(Path("/etc/passwd").read_text))
        send(tried(lambda: (tmp_path / "written" / "out").write_text("x")))
        send(tried(lambda: (tmp_path / "read" / "out").write_text("x")))
        send(tried(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()))
        send(os.environ.get("AWS_SECRET_ACCESS_KEY"))

    found = heard(work, reads=(tmp_path / "read",), writes=(tmp_path / "written",))
    denied = "PermissionError"
    assert found == ["kernel", denied, denied, "1", denied, denied, None]


def has_landlock() -> bool:
    return bool(ctypes.CDLL(None).syscall(444, None, 0, 1) > 0)


def test_temporary_files_end_with_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def work(send: Send, _: Progress) -> None:
        handle, name = tempfile.mkstemp()
        os.write(handle, b"x")
        send(name)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(EndedError):
        heard(work)
    assert list(tmp_path.iterdir()) == []


ORPHAN = """
import os, sys, time
from kerncast.child_process import Room, apart
def work(send, progress):
    send(os.getpid())
    time.sleep(600)
for pid in apart(work, Room()):
    print(pid, flush=True)
"""


def test_it_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and state_of(pid) != "Z":
        assert time.monotonic() < end, "it lives on"
        time.sleep(0.02)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_elsewhere_it_works_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "is_possible", lambda: False)
    assert list(apart(lambda send, _: send(os.getpid()), Room())) == [os.getpid()]
    assert alone(tuple[int, ...], lambda _: (1, 2), Room()) == (1, 2)
    answers = apart(raising(CompileError("no kernel")), Room())
    assert next(answers) == 1
    with pytest.raises(CompileError, match="no kernel"):
        next(answers)


def test_it_says_nothing_and_hears_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def work(send: Send, _: Progress) -> None:
        os.write(1, b"\x1b]0;PWN\x07")
        os.write(2, b"\x1b[2J")
        send(os.read(0, 10).decode())

    assert next(apart(work, Room())) == ""
    assert capfd.readouterr() == ("", "")


def test_what_it_has_started_ends_with_it() -> None:
    def work(send: Send, _: Progress) -> None:
        child = os.fork()
        if child == 0:
            time.sleep(600)
        send(child)

    (child,) = apart(work, Room())
    begun = time.monotonic()
    while Path(f"/proc/{child}/stat").exists() and Path(f"/proc/{child}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < begun + 30
        time.sleep(0.02)
