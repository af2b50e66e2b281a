"""kerncast measure without a GPU: the plan, the errors, and whole runs on a device that is the executor."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncast.bench import cuda
from kerncast.cli import main
from kerncast.errors import DeviceLostError
from kerncast.measurements import read_measurement
from tests.helpers.executor_device import ExecutorDevice
from tests.helpers.places import ROOT

Run = Callable[..., Any]

SEED = {
    "vector_add": 4, "saxpy": 4, "strided_copy_8": 4, "naive_transpose": 4, "shared_transpose": 5, "random_access": 4,
    "matmul_naive": 4, "matmul_tiled": 6, "conv2d_3x3": 4, "conv2d_7x7": 5, "reduce_sum": 6, "dot_product": 4,
    "histogram": 4, "atomic_hotspot": 6, "vector_add_divergent": 4, "shared_bank_conflict": 3,
}  # fmt: skip
LAUNCHES = """
source = "double.cu"
[[launch]]
grid = [4]
block = [64]
args = { x = "f32[256] random", y = "f32[256] zeros" }
[[launch]]
grid = [2]
block = [64]
args = { x = "f32[128] random", y = "f32[128] zeros" }
"""
DOUBLE = """__global__ void twice(const float *x, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2.0f * x[i];
}
"""
QUICK = ["--trials", "2", "--iterations", "4", "--warmups", "3", "--quiet"]


def planned(kerncast: Run, *arguments: str) -> dict[str, Any]:
    done = kerncast("measure", *arguments, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_plan_of_the_suite_has_the_71_configurations_and_more(kerncast: Run) -> None:
    found = planned(kerncast, "suite")
    rows = found["configurations"]
    seed = [row for row in rows if row["group"] == "seed"]
    assert Counter(row["kernel"] for row in seed) == SEED
    assert len(seed) == sum(SEED.values()) == 71
    assert rows[:71] == seed
    assert len(rows) > 250
    assert len({row["key"] for row in rows}) == len(rows)
    first = rows[0]
    assert (first["kernel"], first["grid"], first["block"], first["trials"]) == (
        "vector_add", [1024], [256], 10,
    )  # fmt: skip
    assert first["methods"] == ["series", "single", "cold"]
    assert found["seconds_at_most"] == pytest.approx(sum(row["seconds_at_most"] for row in rows))


def test_the_plan_of_everything_has_ceilings_partitions_and_the_suite(kerncast: Run) -> None:
    rows = planned(kerncast, "all", "--gpu", "rtx-2080-ti")["configurations"]
    kernels = {row["kernel"] for row in rows if row["stage"] == "partition"}
    assert len(kernels) >= 12
    sizes = {row["sm_count"] for row in rows if row["stage"] == "partition"}
    assert min(sizes) == 2
    assert max(sizes) == 68
    assert {row["stage"] for row in rows} == {"ceilings", "suite", "partition", "suite, extended"}


def test_partitions_follow_the_tpcs_asked_for(kerncast: Run) -> None:
    rows = planned(kerncast, "partition", "--tpcs", "1-3,34", "--gpu", "rtx-2080-ti")["configurations"]
    assert {row["sm_count"] for row in rows} == {2, 4, 6, 68}


def test_a_forecast_says_how_long_it_takes(kerncast: Run) -> None:
    example = str(ROOT / "examples" / "saxpy.toml")
    found = planned(kerncast, example, "--tpcs", "1-3", "--gpu", "t4", "--forecast", "--quiet")
    assert len(found["configurations"]) == 3
    assert all(row["seconds"] > 0 for row in found["configurations"])
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in found["configurations"]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "suite, ceilings, partition, all"),
        (["missing.toml"], "no such file"),
        (["suite", "--timing", "warm"], "series, rotated, graph, single, cold"),
        (["suite", "--trials", "0"], "--trials is 0"),
        (["suite", "--seconds", "nan"], "--seconds"),
        (["suite", "--export", "samples.xlsx"], "neither .csv nor .parquet"),
        (["suite", "--gpu", "no such GPU"], "no GPU is called"),
        (["partition", "--tpcs", "99"], "Choose from 1, 2"),
        (["partition", "--tpcs", "1-99999999999999999999"], "not a list of TPCs"),
        (["missing.jsonl"], "already measured"),
        (["suite", "--tpcs", "1-4"], "no effect on suite"),
        (["suite", "--gpu-file", "gpu.toml"], "needs ceilings"),
        (["suite", "--export", "nowhere/samples.csv"], "does not exist"),
        (["suite", "--trials", "200000000"], "at most 100000"),
        (["partition", "--tpcs", "1-9999999999", "--gpu", "t4", "--dry-run", "--json"], ""),
    ],
)
def test_bad_usage(kerncast: Run, arguments: list[str], said: str) -> None:
    done = kerncast("measure", *arguments, "--dry-run")
    assert done.returncode == (2 if said else 0)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_gpu_it_says_what_is_missing(kerncast: Run) -> None:
    done = kerncast("measure", "suite")
    if done.returncode == 0:
        pytest.skip("there is a GPU here")
    assert done.returncode == 2
    assert "--dry-run" in done.stderr
    assert done.stdout == ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder with a launch file, on a machine whose GPU is the executor."""
    (tmp_path / "double.cu").write_text(DOUBLE)
    (tmp_path / "double.toml").write_text(LAUNCHES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run kerncast measure on a device; returns exit status, stdout and stderr."""

    def run(device: ExecutorDevice, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(cuda, "open_device", lambda _index: device)
        monkeypatch.setattr("kerncast.bench.harness._MOST_QUEUED", 3)  # the executor is no quick sleeper
        with pytest.raises(SystemExit) as ended:
            main(["measure", *arguments])
        out, err = capsys.readouterr()
        sys.stdout.flush()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run


def test_a_launch_file_is_measured_and_exported(folder: Path, measure: Run) -> None:
    device = ExecutorDevice()
    status, out, err = measure(device, "double.toml", "--json", "--export", "samples.csv", *QUICK)
    assert status == 0
    found = json.loads(out)
    assert [(row["key"], row["method"]) for row in found["measured"]] == [
        (f"double/double#{index}", method) for index in range(2) for method in ("series", "single", "cold")
    ]
    assert all(row["trials"] == 2 and row["seconds"] > 0 for row in found["measured"])
    assert [check["outcome"] for check in found["checks"]] == ["equal", "equal"]
    assert "kerncast-executor.jsonl" in err
    kept = read_measurement(folder / "kerncast-executor.jsonl")
    with (folder / "samples.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == sum(len(t.seconds) + len(t.warmup_seconds) for t in kept.trials)
    assert device.events[-1] == "close"


def test_the_table_names_every_configuration(folder: Path, measure: Run) -> None:
    del folder
    status, out, _ = measure(ExecutorDevice(), "double.toml", *QUICK)
    assert status == 0
    assert "double/double#1" in out
    assert "equal" in out


def test_an_interrupted_run_goes_on(folder: Path, measure: Run) -> None:
    path = folder / "m.jsonl"
    status, _, err = measure(ExecutorDevice(fails_at=60), "double.toml", "--out", str(path), *QUICK)
    assert status == DeviceLostError.exit_status == 3
    assert "illegal" in err
    before = read_measurement(path).trials
    assert before
    assert measure(ExecutorDevice(), "double.toml", "--out", str(path), "--retry", *QUICK)[0] == 0
    after = read_measurement(path).trials
    assert after[: len(before)] == before
    assert len(after) == 2 * 3 * 2


def test_another_machine_is_refused(folder: Path, measure: Run) -> None:
    from dataclasses import replace

    path = str(folder / "m.jsonl")
    assert measure(ExecutorDevice(), "double.toml", "--out", path, *QUICK)[0] == 0
    other = ExecutorDevice()
    other.machine = replace(other.machine, gpu_uuid="GPU-1", ecc_enabled=True)
    status, _, err = measure(other, "double.toml", "--out", path, *QUICK)
    assert status == 2
    assert "GPU-1" in err
    assert "ecc_enabled" in err
    assert "--out" in err


def test_a_recorded_file_is_shown_again(folder: Path, measure: Run, kerncast: Run) -> None:
    path = folder / "m.jsonl"
    first = measure(ExecutorDevice(), "double.toml", "--out", str(path), "--json", *QUICK)[1]
    again = kerncast("measure", path, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == json.loads(first)


def test_time_that_is_up_says_what_is_left(folder: Path, measure: Run) -> None:
    del folder
    status, _, err = measure(ExecutorDevice(), "double.toml", "--seconds", "1e-9", *QUICK)
    assert status == 3
    assert "2 launches are left" in err


def test_counters_are_added_once(folder: Path, measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ['"0","twice(const float *, float *)","(4, 1, 1)","(64, 1, 1)","100"']
    rows += ['"1","twice(const float *, float *)","(2, 1, 1)","(64, 1, 1)","50"']
    table = "\n".join(
        ['"ID","Kernel Name","Grid Size","Block Size","smsp__inst_executed.sum"', '"","","","","inst"', *rows]
    )
    ncu = folder / "ncu"
    ncu.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n"
        f"Path(sys.argv[sys.argv.index('--log-file') + 1]).write_text('''{table}''')\n"
        "with Path('calls').open('a') as calls:\n    calls.write('x')\n"
    )
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    for _ in range(2):
        assert measure(ExecutorDevice(), "double.toml", "--ncu", *QUICK)[0] == 0
    found = read_measurement(folder / "kerncast-executor.jsonl")
    assert [(each.configuration, each.metrics) for each in found.counters] == [
        ("double/double#0", (("smsp__inst_executed.sum", 100.0, "inst"),)),
        ("double/double#1", (("smsp__inst_executed.sum", 50.0, "inst"),)),
    ]
    assert (folder / "calls").read_text() == "x"


def test_a_missing_ncu_is_said_before_anything_is_measured(
    folder: Path, measure: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("kerncast.bench.counters._INSTALLED", ())
    device = ExecutorDevice()
    status, _, err = measure(device, "double.toml", "--ncu", *QUICK)
    assert status == 2
    assert "ncu was not found" in err
    assert device.launches == 0


def test_what_was_measured_before_ncu_failed_is_shown(
    folder: Path, measure: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu = folder / "ncu"
    ncu.write_text(f"#!{sys.executable}\nprint('==ERROR== ERR_NVGPUCTRPERM')\nraise SystemExit(1)\n")
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    status, out, err = measure(ExecutorDevice(), "double.toml", "--ncu", "--json", *QUICK)
    assert status == 2
    assert "ERR_NVGPUCTRPERM" in err
    assert len(json.loads(out)["measured"]) == 6


def test_a_lost_gpu_leaves_the_table(folder: Path, measure: Run) -> None:
    status, out, err = measure(ExecutorDevice(fails_at=60), "double.toml", "--json", *QUICK)
    assert status == 3
    assert json.loads(out)["failures"]
    assert "written to" in err
    del folder
