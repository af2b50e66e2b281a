"""Launches larger than this machine's memory, and the option --memory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncast.gpu import load_gpu
from tests.helpers.caches import new_cache
from tests.helpers.places import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
__global__ void axpy(float *y, const float *x, long n) {
    long i = blockIdx.x * 256L + threadIdx.x;
    if (i < n) y[i] += x[i];
}
__global__ void scatter(float *y, unsigned mask) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[(i * 2654435761u) & mask] = 1.0f;
}
"""
#: Reports the most memory that a forecast of a launch file has taken, in bytes.
CHILD = """
import json, sys
from pathlib import Path
from kerncast import Budget, predict
found = predict(sys.argv[1], "h200", budget=Budget.for_sample(0.5))
status = Path("/proc/self/status").read_text().split()
most = 1024 * int(status[status.index("VmHWM:") + 1])  # ru_maxrss would be that of the process that started this one
print(json.dumps({"seconds": [each.seconds for each in found], "models": [each.model for each in found], "most": most}))
"""
SCATTER = [
    "--kernel", "scatter", "--grid", 2**16, "--block", 256, "--arg", f"y=f32[{2**32}] zeros", "--arg",
    f"mask={2**32 - 1}", "--gpu", "h200", "--json", "-q",
]  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "k.cu"


@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is reserved only, and counts it as Linux does")
def test_sixty_four_gigabytes_take_as_long_as_their_bytes_say(source: Path, tmp_path: Path) -> None:
    """Two buffers of 2^33 floats: 12 bytes each through DRAM, at its sustained rate, in less than 700 MB of memory."""
    cache = str(new_cache(tmp_path / "cache"))  # to compile the simulator takes more memory than to use it
    rows = [
        f'[[launch]]\nkernel = "axpy"\ngrid = [{n // 256}]\nblock = [256]\n'
        f'args = {{ y = "f32[{n}] zeros", x = "f32[{n}] zeros", n = {n} }}\n'
        for n in (2**25, 2**33)
    ]
    (source.parent / "launch.toml").write_text('source = "k.cu"\n' + "".join(rows), encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, "launch.toml"], cwd=source.parent, text=True, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "KERNCAST_CACHE": cache},
    )  # fmt: skip
    found = json.loads(child.stdout)
    small, large = found["seconds"]
    assert found["models"] == ["simulation"] * 2
    rate = load_gpu("h200").dram_rate
    assert rate is not None
    assert large == pytest.approx(12 * 2**33 / rate.bytes_per_s, rel=0.1)
    assert large / small == pytest.approx(2**8, rel=0.05)
    assert found["most"] < 700e6


def test_what_is_over_the_budget_is_forecast_by_the_roofline(kerncast: Run, source: Path) -> None:
    """A block writes 256 pages of its own: the sample has room in 60 MB, the blocks of one SM have none."""
    answer = kerncast("predict", source, *SCATTER, "--memory", "60MB")
    assert answer.returncode == 0, answer.stderr
    (found,) = json.loads(answer.stdout)["predictions"]
    assert found["model"] == "roofline"
    reason = "the parts of the buffers that the blocks touch need"
    assert any("not simulated" in each and reason in each and "60 MB" in each for each in found["caveats"])


def test_more_memory_is_the_cure(kerncast: Run, source: Path) -> None:
    answer = kerncast("predict", source, *SCATTER, "--memory", "300 MB")
    (found,) = json.loads(answer.stdout)["predictions"]
    assert found["model"] == "simulation"


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "--gpu", "t4"],
        ["profile"],
        ["compare", "--gpu", "t4"],
        ["sensitivity", "--gpu", "t4", "--no-advice", "--parameter", "dram_bandwidth"],
        ["bound", "--gpu", "t4", "--tpcs", "1"],
    ],
)
def test_each_command_that_executes_takes_the_option(kerncast: Run, command: list[str]) -> None:
    name, *options = command
    answer = kerncast(name, ROOT / "examples" / "saxpy.toml", *options, "--memory", "1MB", "-q")
    assert answer.returncode == 3
    text = " ".join((answer.stdout + answer.stderr).split())
    assert "the values of the buffers need 8.39 MB" in text
    assert "over the memory budget of 1 MB. Fill it with zeros" in text


def test_a_sweep_takes_the_option(kerncast: Run) -> None:
    launch = ROOT / "examples" / "saxpy.toml"
    answer = kerncast("sweep", launch, "--set", "a=1,2", "--gpu", "t4", "--jobs", 0, "--memory", "1MB", "-q")
    assert answer.returncode == 3
    assert "memory budget of 1 MB" in answer.stderr


@pytest.mark.parametrize("text", ["much", "0", "-1GiB", "8 GiB of it", "1e30GB"])
def test_what_is_no_size_is_bad_input(kerncast: Run, text: str) -> None:
    answer = kerncast("predict", ROOT / "examples" / "saxpy.toml", "--gpu", "t4", f"--memory={text}")
    assert answer.returncode == 2
    assert "is not a size of memory. Give a number of bytes with its unit, such as 8GiB or 500MB." in answer.stderr


def test_shared_memory_that_cuda_does_not_take_is_bad_input(kerncast: Run, source: Path) -> None:
    answer = kerncast("predict", source, *SCATTER, "--shared", 2**63)
    assert answer.returncode == 2
    assert "shared_bytes is 9223372036854775808, and CUDA takes a number of 32 bits" in answer.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a process with limits")
def test_large_buffers_are_simulated_in_the_process_with_limits(kerncast_process: Run, source: Path) -> None:
    elements = 2**33
    launch = ("--kernel", "axpy", "--grid", elements // 256, "--block", "256", "--arg", f"y=f32[{elements}] zeros",
              "--arg", f"x=f32[{elements}] zeros", "--arg", f"n={elements}")  # fmt: skip
    found = kerncast_process("predict", source, *launch, "--gpu", "h200", "--json", "-q")
    (forecast,) = json.loads(found.stdout)["predictions"]
    assert forecast["model"] == "simulation"
    rate = load_gpu("h200").dram_rate
    assert rate is not None
    assert forecast["seconds"] == pytest.approx(12 * elements / rate.bytes_per_s, rel=0.1)
