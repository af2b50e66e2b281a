"""kerncast profile from the command line: counts in closed form, what is printed where, exit status, bad usage."""

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncast.cli.application import run
from kerncast.cli.of_kernels.profile import _budget
from kerncast.errors import GPUError, InputError
from kerncast.metrics import vocabulary, word
from kerncast.read.ncu import read_raw_page
from tests.helpers.places import ROOT

SAXPY = ROOT / "examples" / "saxpy.toml"
N = 2**20
#: Loads with a stride given at the launch, stores without one, and a column of a tile that one bank holds.
STRIDES = """
__global__ void stride(int step, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * step];
}
__global__ void column(float *y) {
    __shared__ float tile[32][32];
    tile[threadIdx.x][threadIdx.y] = threadIdx.x;
    __syncthreads();
    y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.y][threadIdx.x];
}
__global__ void outside(float *y) { y[threadIdx.x + 1000] = 1; }
"""
LAUNCHES = """
source = "k.cu"
[[launch]]
kernel = "stride"
grid = [64]
block = [128]
args = { step = 1, x = "f32[131072] random", y = "f32[8192]" }
[[launch]]
kernel = "outside"
grid = [1]
block = [32]
args = { y = "f32[32]" }
[[launch]]
kernel = "stride"
grid = [64]
block = [128]
args = { step = 2, x = "f32[131072] random", y = "f32[8192]" }
[[launch]]
kernel = "stride"
grid = [64]
block = [128]
args = { step = 8, x = "f32[131072] random", y = "f32[8192]" }
[[launch]]
kernel = "column"
grid = [1]
block = [32, 32]
args = { y = "f32[1024]" }
"""

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]


@pytest.fixture
def profile(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run ``kerncast profile`` in this process; returns what it printed on stdout, and expects success."""

    def profile_it(*arguments: object) -> str:
        assert run(["profile", *map(str, arguments), "--quiet"]) == 0
        return capsys.readouterr().out

    return profile_it


@pytest.fixture
def source(write: Write) -> Path:
    return write("k.cu", STRIDES)


def values(kernel: dict[str, Any]) -> dict[str, float]:
    return {name: metric["value"] for name, metric in kernel["metrics"].items()}


def test_json_is_alone_on_stdout(kerncast: Run) -> None:
    done = kerncast("profile", SAXPY, "--json", "--lines", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["refused"] == []
    (kernel,) = found["kernels"]
    assert (kernel["kernel"], kernel["launch"], kernel["gpu"]) == ("saxpy", 0, None)
    expected = {
        "kerncast__fp32_flops.sum": 2 * N,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2 * N / 32,
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 4,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": N / 8,
        "kerncast__global_bytes_requested.sum": 12 * N,
        "kerncast__global_bytes_touched.sum": 8 * N,
        "smsp__warps_launched.sum": N / 32,
        "kerncast__divergent_branches.sum": 0,
    }
    assert {name: values(kernel)[name] for name in expected} == expected
    assert {name for name in values(kernel) if word(name).needs_gpu} == set()
    assert sum(line["flops"]["value"] for line in kernel["lines"]) == 2 * N


def test_a_source_with_options_on_a_gpu(profile: Callable[..., str]) -> None:
    options = ["--kernel", "saxpy", "--grid", "4096", "--block", "256", "--arg", "n=1048576", "--arg", "a=2.0"]
    buffers = ["--arg", "x=f32[1048576] random", "--arg", "y=f32[1048576] random"]
    source = ROOT / "examples" / "kernels" / "saxpy.cu"
    (kernel,) = json.loads(profile(source, *options, *buffers, "--gpu", "V100", "--json"))["kernels"]
    found = values(kernel)
    assert found["kerncast__fp32_flops.sum"] == 2 * N
    assert kernel["gpu"].startswith("v100")
    assert any("V100" in caveat for caveat in kernel["caveats"])
    assert found["sm__maximum_warps_per_active_cycle_pct"] == 100
    assert found["launch__occupancy_limit_warps"] == 8
    assert set(found) <= {each.name for each in vocabulary()}


@pytest.mark.usefixtures("source")
def test_several_launches_one_of_them_refused(profile: Callable[..., str], write: Write, tmp_path: Path) -> None:
    found = json.loads(profile(write("launches.toml", LAUNCHES), "--json", "--features", tmp_path / "f.csv"))
    (refused,) = found["refused"]
    assert (refused["kernel"], refused["launch"]) == ("outside", 1)
    assert "out of bounds" in refused["reason"]
    assert [kernel["launch"] for kernel in found["kernels"]] == [0, 2, 3, 4]
    sectors = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
    assert [values(kernel)[sectors] for kernel in found["kernels"][:3]] == [4, 8, 32]
    column = values(found["kernels"][3])
    assert column["kerncast__wavefronts_per_request_shared_st.ratio"] == 32
    assert column["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"] == 31 * 32
    assert column["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0
    assert column["kerncast__barriers_per_warp.ratio"] == 1
    rows = list(csv.DictReader((tmp_path / "f.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["load_access_class"] for row in rows] == ["coalesced", "strided", "strided", "none"]
    assert [row["load_stride_elements"] for row in rows] == ["1.0", "2.0", "8.0", ""]
    assert [row["has_bank_conflicts"] for row in rows] == ["false", "false", "false", "true"]


def test_all_refused(capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path) -> None:
    options = ["--kernel", "outside", "--grid", "1", "--block", "32", "--arg", "y=f32[32]", "--json", "--quiet"]
    assert run(["profile", str(source), *options, "--features", str(tmp_path / "f.csv")]) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out)["kernels"] == []
    assert printed.err.startswith("kerncast: outside (launch 0) refused: ")
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "f.csv").exists()


def test_the_raw_page_is_read_as_ncus(profile: Callable[..., str], source: Path, tmp_path: Path) -> None:
    launch = ["--kernel", "column", "--grid", "1", "--block", "32,32", "--arg", "y=f32[1024]", "--gpu", "t4"]
    assert profile(source, *launch, "--csv", "--out", tmp_path / "p.csv") == ""
    (row,) = read_raw_page((tmp_path / "p.csv").read_text(encoding="utf-8").splitlines())
    assert (row.kernel, row.grid, row.block, row.compute_capability) == ("column", (1, 1, 1), (32, 32, 1), "7.5")
    assert row.value("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum") == 32 * 32


def test_the_source_is_annotated(profile: Callable[..., str]) -> None:
    text = profile(SAXPY, "--lines")
    (row,) = [line for line in text.splitlines() if "y[i] = a * x[i] + y[i]" in line]
    assert "2.1 M" in row
    assert "\x1b" not in text


def test_a_sample_and_the_whole_grid(profile: Callable[..., str], source: Path) -> None:
    big = ["--kernel", "stride", "--grid", "8192", "--block", "128", "--arg", "step=1"]
    buffers = ["--arg", "x=f32[1048576]", "--arg", "y=f32[1048576]"]
    (part,) = json.loads(profile(source, *big, *buffers, "--json", "--budget", "1ms"))["kernels"]
    (whole,) = json.loads(profile(source, *big, *buffers, "--json", "--exact"))["kernels"]
    assert 0 < part["sampling"]["blocks_executed"] < 8192
    assert whole["sampling"]["is_whole_grid"] is True
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    assert values(part)[requests] == values(whole)[requests] == 8192 * 4


@pytest.mark.parametrize(("text", "seconds"), [("2s", 2.0), ("2", 2.0), ("500ms", 0.5), (".25", 0.25), ("100s", 100.0)])
def test_a_budget_of_time(text: str, seconds: float) -> None:
    budget = _budget(text, exact=False)
    assert budget.sample_seconds == seconds
    assert budget.seconds >= max(60, seconds)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--json", "--csv"), "--json and --csv"),
        (("--csv", "--lines"), "--lines"),
        (("--exact", "--budget", "2s"), "--exact"),
        (("--budget", "soon"), "'soon' is not a time"),
        (("--budget", "0"), "is not a time"),
        (("--budget", "1e30s"), "is not a time"),
        (("--gpu", "all"), "Name one"),
        (("--gpu", "t4", "--gpu", "TITAN V"), "names 2 GPUs"),
        (("--csv", "--out", "f.csv", "--features", "f.csv"), "both name f.csv"),
        (("--features", "f.txt"), "f.txt"),
        (("--features", "nowhere/f.csv"), "does not exist"),
        (("--grid", "1"), "need a source"),
        (("--model", "roofline"), "--model"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(["profile", str(SAXPY), *arguments])


def test_an_unknown_gpu_and_other_evidence(write: Write) -> None:
    with pytest.raises(GPUError, match="no GPU is called"):
        run(["profile", str(SAXPY), "--gpu", "GTX 9999"])
    with pytest.raises(InputError, match="no such file"):
        run(["profile", "missing.toml"])
    with pytest.raises(InputError, match="declared by hand"):
        run(["profile", str(ROOT / "examples" / "kernels" / "gpusd_declared.toml")])
    with pytest.raises(InputError, match=r"bad\.cu"):
        run(["profile", str(write("bad.cu", "__global__ void k( {}")), "--grid", "1", "--block", "1"])


def test_bad_usage_exits_with_2(kerncast: Run) -> None:
    done = kerncast("profile", SAXPY, "--json", "--csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kerncast: --json and --csv are both given. Give one of them.\n"
