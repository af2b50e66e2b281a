"""Hostile programs inside a confined process: none gets through."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kerncast.confinement import Confinement, include_places, source_places

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux confines processes")

BEGIN = """
import ctypes, os, socket, subprocess, sys, threading, time
from pathlib import Path
from kerncast.confinement import Confinement, confine
reads, writes = (Path({readable!r}),), (Path({writable!r}),)
confine(Confinement(2**30, {seconds}, reads, writes, file_bytes=2**20), os.getppid())
"""


def run_inside(folder: Path, program: str, seconds: float = 5) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process that reads and writes one folder each."""
    for name in ("readable", "writable"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "readable" / "k.cu").write_text("kernel", encoding="utf-8")
    (folder / "secret").write_text("hunter2", encoding="utf-8")
    paths = {name: str(folder / name) for name in ("readable", "writable")}
    code = BEGIN.format(seconds=seconds, **paths) + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_what_a_compiler_does_can_be_done(tmp_path: Path) -> None:
    found = run_inside(
        tmp_path,
        """
        assert Path("readable/k.cu").read_text() == "kernel"
        Path("writable/out").write_text("cubin")
        import numpy, llvmlite.binding
        thread = threading.Thread(target=print, args=("threads run",))
        thread.start(); thread.join()
        """,
    )
    assert (found.returncode, found.stdout) == (0, "threads run\n"), found.stderr


HOSTILE = {
    "read a file": "print(Path('secret').read_text())",
    "read a file of the system": "print(Path('/etc/passwd').read_text())",
    "list a folder": "print(os.listdir('.'))",
    "follow a link": "os.symlink('../secret', 'writable/link'); print(Path('writable/link').read_text())",
    "link a file into reach": "os.link('secret', 'writable/link'); print(Path('writable/link').read_text())",
    "read another process": "print(Path(f'/proc/{os.getppid()}/environ').read_bytes())",
    "write a file": "Path('secret').write_text('x'); print('wrote')",
    "write beside what it reads": "Path('readable/new.cu').write_text('x'); print('wrote')",
    "open a socket": "socket.socket(); print('open')",
    "open a pair of sockets": "socket.socketpair(); print('open')",
    "fork": "print('forked', os.fork())",
    "run a program": "print(subprocess.run(['/bin/true']))",
    "become another program": "os.execv('/bin/echo', ['echo', 'here'])",
    "fill the memory": "bytearray(2**31); print('filled')",
    "change its limits": "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40)); print('changed')",
    "trace another process": "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == -1; raise PermissionError",
    "leave the group of its process": "os.setsid(); print('left')",
    "open its memory to others": "os.chmod('secret', 0o777); print('opened')",
    "become a user of its own": "os.setuid(65534); os.setuid(0); print('root')",
}


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_program_does_not_get_through(tmp_path: Path, program: str) -> None:
    found = run_inside(tmp_path, program)
    assert found.returncode != 0
    assert not found.stdout
    last = found.stderr.splitlines()[-1]
    assert any(name in last for name in ("PermissionError", "MemoryError", "link", "not allowed")), last
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "hunter2"


def test_a_file_has_a_largest_size(tmp_path: Path) -> None:
    found = run_inside(tmp_path, "Path('writable/big').write_bytes(bytes(2**22)); print('wrote')")
    assert found.stdout == ""
    assert (tmp_path / "writable" / "big").stat().st_size <= 2**20


def test_an_endless_loop_ends(tmp_path: Path) -> None:
    found = run_inside(tmp_path, "while True: pass", seconds=0.1)
    assert found.returncode == -signal.SIGXCPU


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "writable").mkdir()
    own = BEGIN.format(seconds=60, readable=str(tmp_path), writable=str(tmp_path / "writable"))
    lives = f"{own}\nfor turn in range(600):\n    Path('writable/alive').write_text(str(turn))\n    time.sleep(0.05)\n"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {lives!r}]); input()"
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=tmp_path, stdin=subprocess.PIPE)
    alive = tmp_path / "writable" / "alive"
    begun = time.monotonic()
    while not alive.exists():
        assert time.monotonic() < begun + 30
        time.sleep(0.05)
    process.kill()
    process.communicate()
    time.sleep(0.2)
    before = alive.read_text()
    time.sleep(0.3)
    assert alive.read_text() == before


def test_headers_of_a_project_may_be_read_but_no_shared_folder(tmp_path: Path) -> None:
    for name in ("cuda/bfs/bfs.cu", "common/own.h", ".git/HEAD", ".env", "cuda/.hidden/k.cu"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    source = tmp_path / "cuda" / "bfs" / "bfs.cu"
    (tmp_path / "secrets").symlink_to("/etc")
    assert source_places(source)[0] == source
    assert set(source_places(source)[1:]) == {tmp_path / "cuda", tmp_path / "common"}
    hidden = tmp_path / "cuda" / ".hidden" / "k.cu"
    assert hidden.parent in source_places(hidden)
    (tmp_path / ".aws").mkdir()
    for name in ("credentials", "own.h"):
        (tmp_path / ".aws" / name).touch()
    (tmp_path / ".aws" / "link.h").symlink_to(tmp_path / ".aws" / "credentials")
    assert include_places(tmp_path / ".aws") == (tmp_path / ".aws" / "own.h",)
    assert source_places(Path("/etc/passwd")) == (Path("/etc/passwd"),)
    assert include_places(tmp_path) == (tmp_path,)
    assert all(each.is_file() for each in include_places(Path("/etc")))
    assert Confinement(1, 1).reads == ()
