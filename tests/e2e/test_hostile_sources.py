"""What a stranger's source or launch file cannot do: show the machine's files or secrets, or outlive kerncast."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux confines processes")
INLINE = ("--model", "roofline", "--kernel", "k", "--grid", "1", "--block", "32", "--gpu", "t4")
SECRET = "hunter2-of-another-project"  # noqa: S105  it opens nothing


def kerncast(*arguments: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kerncast", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
        env=os.environ | {"KERNCAST_CACHE": "off", **environment},
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder under version control, beside which lies another one's secret."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.h").write_text(SECRET, encoding="utf-8")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "common").mkdir()
    (tmp_path / "project" / "common" / "own.h").write_text("#define TWO 2\n", encoding="utf-8")
    return tmp_path / "project"


@LINUX
def test_no_file_outside_the_project_is_shown(project: Path) -> None:
    source = project / "k.cu"
    source.write_text('#include "../other/secret.h"\n__global__ void k() {}\n', encoding="utf-8")
    found = kerncast("predict", source, *INLINE)
    assert found.returncode == 2
    assert SECRET not in found.stdout + found.stderr
    source.write_text('#include "/etc/passwd"\n__global__ void k() {}\n', encoding="utf-8")
    assert "root:" not in kerncast("predict", source, *INLINE).stderr


def test_headers_of_the_project_are_read(project: Path) -> None:
    (project / "cuda").mkdir()
    source = project / "cuda" / "k.cu"
    kernel = '#include "../common/own.h"\n__global__ void k(float *x) { x[threadIdx.x] = TWO; }\n'
    source.write_text(kernel, encoding="utf-8")
    assert kerncast("predict", source, *INLINE, "--arg", "x=f32[32] zeros").returncode == 0


@LINUX
def test_no_token_of_the_version_control_is_shown(project: Path) -> None:
    (project / ".git" / "config").write_text(f"extraheader = {SECRET}\n", encoding="utf-8")
    source = project / "k.cu"
    source.write_text('#include ".git/config"\n__global__ void k() {}\n', encoding="utf-8")
    found = kerncast("predict", source, *INLINE)
    assert found.returncode == 2
    assert SECRET not in found.stdout + found.stderr


@LINUX
@pytest.mark.parametrize(
    "head",
    [
        'source = "k.cu"\ninclude = ["{hidden}"]', 'source = "{hidden}/credentials"', 'source = "link.cu"',
        'source = ".git/config"',
    ],
)  # fmt: skip
def test_a_launch_file_shows_no_settings_or_keys(project: Path, tmp_path: Path, head: str) -> None:
    hidden = tmp_path / ".aws"
    hidden.mkdir()
    for file in (hidden / "credentials", project / ".git" / "config"):
        file.write_text(f"key = {SECRET}\n", encoding="utf-8")
    (project / "link.cu").symlink_to(hidden / "credentials")
    text = '__global__ void k(float *x) {\n#include "credentials"\n#line 1 "%s/credentials"\nx[0] = 1; }\n'
    (project / "k.cu").write_text(text % hidden, encoding="utf-8")
    launch = project / "k.toml"
    launch.write_text(
        f'{head.format(hidden=hidden)}\n[[launch]]\nkernel = "k"\ngrid = [1]\nblock = [32]\n'
        'args = { x = "f32[32] zeros" }\n',
        encoding="utf-8",
    )
    for command in (("predict", launch, "--gpu", "t4"), ("profile", launch, "--lines")):
        found = kerncast(*command)
        assert found.returncode == 2
        assert SECRET not in found.stdout + found.stderr


def test_no_variable_of_the_environment_is_shown(project: Path) -> None:
    launch = project / "k.toml"
    for text in ('source = "${SECRET}.cu"\n', 'source = "k.cu"\ninclude = ["${SECRET}"]\n'):
        launch.write_text(f'{text}[[launch]]\nkernel = "k"\ngrid = [1]\nblock = [32]\n', encoding="utf-8")
        found = kerncast("predict", launch, "--gpu", "t4", SECRET=SECRET)
        assert found.returncode == 2
        assert "${SECRET}" in found.stderr
        assert SECRET not in found.stderr


@LINUX
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_compiler_ends_with_kerncast(project: Path, end: signal.Signals) -> None:
    source = project / "endless.cu"
    slow = "#define A(x) x x x x x x x x\n__global__ void k(int *p) { A(A(A(A(A(A(A(*p += 1;))))))) }\n"
    source.write_text(slow, encoding="utf-8")
    command = [sys.executable, "-m", "kerncast", "predict", str(source), *INLINE, "--arg", "p=i32[1]"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | {"KERNCAST_CACHE": "off"})
    begun = time.monotonic()
    while not (compiler := [own for each in _children(process.pid) for own in _children(each)]):
        assert time.monotonic() < begun + 60
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(end)
    process.wait()
    time.sleep(0.5)
    assert not [each for each in compiler if _runs(each)]


def _children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:  # it has ended
        return []


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
