"""Whatever ends a forecast of several launches, the answers that were there are printed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Run

SOURCE = """
__global__ void quick(float* x) { x[threadIdx.x] *= 2.f; }
__global__ void endless(volatile float* x) { while (x[0] >= 0.f) x[1] += 1.f; }
"""
LAUNCH = '[[launch]]\nkernel = "{}"\ngrid = [1]\nblock = [32]\nargs = {{ x = "f32[32] zeros" }}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def launches(folder: Path, *kernels: str) -> Path:
    file = folder / "k.toml"
    file.write_text('source = "k.cu"\n' + "".join(map(LAUNCH.format, kernels)), encoding="utf-8")
    return file


def test_a_launch_that_does_not_compile_leaves_those_before_it(kerncast: Run, folder: Path) -> None:
    done = kerncast("predict", launches(folder, "quick", "absent", "quick"), "--gpu", "t4", "--json", "-q")
    assert done.returncode == 2
    assert "absent" in done.stderr
    assert [each["kernel"] for each in json.loads(done.stdout)["predictions"]] == ["quick"]
    done = kerncast("predict", launches(folder, "absent", "quick"), "--gpu", "t4", "--json", "-q")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks here")
@pytest.mark.parametrize(("end", "status"), [("interrupted", 130), ("killed", 0)])
def test_the_end_of_the_work_leaves_what_it_had_found(folder: Path, end: str, status: int) -> None:
    file = launches(folder, "quick", "endless")
    command = [sys.executable, "-m", "kerncast", "predict", str(file), "--gpu", "t4", "--json"]
    told = folder / "stderr"
    with (
        told.open("w") as stderr,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  what runs the tests may ignore it
        ) as process,
    ):
        begun = time.monotonic()
        while "executing k.cu launch 1" not in told.read_text(encoding="utf-8"):
            assert process.poll() is None
            assert time.monotonic() < begun + 60
            time.sleep(0.05)
        if end == "interrupted":
            process.send_signal(signal.SIGINT)
        else:
            (work,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
            os.kill(int(work), signal.SIGKILL)
        assert process.stdout
        found = json.loads(process.stdout.read())
        assert process.wait() == status
    assert [each["kernel"] for each in found["predictions"]] == ["quick"]
    if end == "interrupted":
        assert "interrupted, after 1 forecast" in told.read_text(encoding="utf-8")
    else:
        (refused,) = found["refused"]
        assert "k.cu launch 1 (endless): the process that worked on it ended by signal SIGKILL" in refused["reason"]
