"""kerncast predict --model FILE.kcm: launches, tables and profiles forecast by a trained model, and every mistake."""

import csv
import json
import math
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kerncast.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]
SOURCE = """
__global__ void scale(int n, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2.0f * x[i];
}
__global__ void shift(int n, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] + 1.0f;
}
"""
GRIDS = (8, 16, 24, 32, 48, 64, 96, 128)


def launch_file(kernels: tuple[str, ...], grids: tuple[int, ...]) -> str:
    text = 'source = "k.cu"\n'
    for kernel in kernels:
        for grid in grids:
            args = f'args = {{ n = {256 * grid}, x = "f32[{256 * grid}] iota" }}'
            text += f'[[launch]]\nkernel = "{kernel}"\ngrid = [{grid}]\nblock = [256]\n{args}\n'
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with launches, their features, times of 1 µs + 10 ns per block, and a model of them."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "k.cu").write_text(SOURCE)
    (folder / "k.toml").write_text(launch_file(("scale", "shift"), GRIDS))
    (folder / "one.toml").write_text(launch_file(("scale",), (40,)))
    (folder / "big.toml").write_text(launch_file(("scale",), (128_000,)))
    run(folder, "profile", "k.toml", "--gpu", "TITAN V", "--features", "features.csv", "--quiet")
    with (folder / "features.csv").open() as file:
        rows = list(csv.DictReader(file))
    chance = np.random.default_rng(0)
    times = ["kernel,launch,gpu,time_us"]
    for row in rows:
        time_us = (1 + 0.01 * float(row["blocks"])) * math.exp(0.02 * chance.standard_normal())
        times.append(f"{row['kernel']},{row['launch']},{row['gpu']},{time_us}")
    (folder / "times.csv").write_text("\n".join(times) + "\n")
    data = ("features.csv", "times.csv", "--features", "blocks,fp32_flops", "--model", "linear")
    done = run(folder, "train", *data, "--out", "m.kcm", "--quiet")
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kerncast", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(folder)

    def run_here(*words: str) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--quiet"])
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(words, ended.value.code, *capsys.readouterr())

    return run_here


def test_a_launch_is_executed_and_forecast_with_an_interval(here: Run) -> None:
    done = here("predict", "one.toml", "--gpu", "TITAN V", "--model", "m.kcm", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["predictions"]
    assert found["seconds"] == pytest.approx(1.4e-6, rel=0.05)  # 1 µs and 40 blocks of 10 ns
    assert found["low"] < found["seconds"] < found["high"] < 2 * found["seconds"]
    assert (found["model"], found["limiter"], found["gpu_id"]) == ("m.kcm", "learned", "titan-v")
    kinds = {each["kind"] for each in found["caveat_details"]}
    assert {"learned-from", "learned-interval"} <= kinds
    assert not kinds & {"learned-outside", "learned-kernel-new", "learned-gpu-new", "learned-far"}


def test_another_gpu_and_a_far_launch_have_wider_intervals_and_say_why(here: Run) -> None:
    done = here("predict", "one.toml", "--gpu", "TITAN V", "--gpu", "T4", "--model", "m.kcm", "--json")
    assert done.returncode == 0, done.stderr
    known, other = json.loads(done.stdout)["predictions"]
    assert other["high"] / other["seconds"] == pytest.approx(10)  # assumed: the data hold one GPU
    assert other["high"] / other["seconds"] > known["high"] / known["seconds"]
    assert {"learned-gpu-new", "learned-interval-assumed"} <= {each["kind"] for each in other["caveat_details"]}
    (big,) = json.loads(here("predict", "big.toml", "--gpu", "TITAN V", "--model", "m.kcm", "--json").stdout)[
        "predictions"
    ]
    outside = next(each for each in big["caveat_details"] if each["kind"] == "learned-outside")
    assert outside["subject"] == "blocks, fp32_flops"
    assert outside["numbers"]["factor"] == pytest.approx(1000, rel=0.01)  # 128,000 blocks of 128 at most
    assert big["high"] / big["seconds"] > 1000


def test_the_very_table_of_features_is_forecast_row_by_row(here: Run) -> None:
    done = here("predict", "features.csv", "--model", "m.kcm", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["predictions"]
    assert [each["launch"] for each in found] == list(range(16))
    for each, grid in zip(found, GRIDS * 2, strict=True):
        assert each["seconds"] == pytest.approx((1 + 0.01 * grid) * 1e-6, rel=0.1)
    some = here("predict", "features.csv", "--model", "m.kcm", "--json", "-k", "shift", "--launch-count", "2")
    assert [each["launch"] for each in json.loads(some.stdout)["predictions"]] == [8, 9]
    assert here("predict", "features.csv", "--model", "m.kcm", "--gpu", "T4").returncode == 2


def test_reports_and_limits_work(here: Run, folder: Path) -> None:
    words = ("predict", "one.toml", "features.csv")
    for evidence in words[1:]:
        done = here("predict", evidence, "--gpu", "TITAN V", "--model", "m.kcm", "--report", "o.md", "--max", "1ns")
        assert done.returncode == 4, done.stderr
        assert "learned from" in (folder / "o.md").read_text()
        assert here("predict", evidence, "--gpu", "TITAN V", "--model", "m.kcm", "--report", "o.html").returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.toml", "--gpu", "TITAN V", "--measured", "T4=1ms"], "makes no use of --measured"),
        (["one.toml", "--gpu", "TITAN V", "--clock", "base"], "makes no use of --clock"),
        (["one.toml"], "no GPU is named"),
        (["one.toml", "--gpu", "TITAN V", "--feature", "n=x"], "--feature is not NAME=NUMBER"),
        (["times.csv"], "lacks features that m.kcm learned from: blocks, fp32_flops"),
        (["absent.csv"], "cannot be read"),
    ],
)
def test_every_mistake_is_told(here: Run, words: list[str], message: str) -> None:
    done = here("predict", *words, "--model", "m.kcm")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_row_without_a_value_is_refused_by_name_and_the_others_are_forecast(here: Run, folder: Path) -> None:
    (folder / "gap.csv").write_text("kernel,gpu,blocks,fp32_flops\nscale,TITAN V,8,2048\nscale,TITAN V,16,\n")
    found = json.loads(here("predict", "gap.csv", "--model", "m.kcm", "--json").stdout)
    assert len(found["predictions"]) == 1
    assert "row 2 has no value of fp32_flops" in found["refused"][0]["reason"]
    given = here("predict", "gap.csv", "--model", "m.kcm", "--json", "--feature", "fp32_flops=2048")
    assert len(json.loads(given.stdout)["predictions"]) == 2


def test_a_forecast_that_is_no_time_is_refused(here: Run, folder: Path) -> None:
    (folder / "below.csv").write_text("kernel,gpu,blocks,fp32_flops\nscale,TITAN V,-1e9,-1e9\n")
    done = here("predict", "below.csv", "--model", "m.kcm")
    assert done.returncode == 3
    assert "which is not a time; outside the range that it learned from are" in done.stderr


def test_a_file_of_the_older_format_has_a_stated_wide_interval(here: Run, folder: Path) -> None:
    with zipfile.ZipFile(folder / "m.kcm") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(entries["header.json"])
    del header["reach"], header["tuning"]
    entries["header.json"] = json.dumps(header | {"format_version": "1.0"}).encode()
    with zipfile.ZipFile(folder / "old.kcm", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    (found,) = json.loads(here("predict", "one.toml", "--gpu", "TITAN V", "--model", "old.kcm", "--json").stdout)[
        "predictions"
    ]
    assert found["high"] / found["seconds"] == pytest.approx(10)
    assert "learned-errors-unknown" in {each["kind"] for each in found["caveat_details"]}


def test_a_launch_file_needs_no_library_that_trains(folder: Path) -> None:
    code = (
        "import sys, kerncast; found = kerncast.predict('one.toml', 'TITAN V', model='m.kcm');"
        "assert found[0].seconds > 0;"
        "sys.exit(bool({'sklearn', 'pandas', 'matplotlib', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0


def test_launches_without_times_are_forecast_by_evaluate(here: Run, folder: Path) -> None:
    done = here("evaluate", "m.kcm", "features.csv", "--json", "--csv", "forecasts.csv")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert (printed["launches"], printed["scores"], len(printed["forecasts"])) == (16, [], 16)
    with (folder / "forecasts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["seconds"]) for row in rows] == pytest.approx([each["seconds"] for each in printed["forecasts"]])
    assert "forecast and not scored" in here("evaluate", "m.kcm", "features.csv").stdout
    assert here("evaluate", "m.kcm", "features.csv", "--picture", "p.png").returncode == 2


def test_evaluate_tells_no_time_that_is_none(here: Run, folder: Path) -> None:
    (folder / "below.csv").write_text("kernel,gpu,blocks,fp32_flops\nscale,TITAN V,-1e9,-1e9\n")
    done = here("evaluate", "m.kcm", "below.csv", "--json", "--csv", "below_forecast.csv")
    assert done.returncode == 0, done.stderr
    (forecast,) = json.loads(done.stdout)["forecasts"]
    assert forecast["seconds"] is None
    assert "0 or less for 1 launches" in " ".join(json.loads(done.stdout)["caveats"])
    assert (folder / "below_forecast.csv").read_text().splitlines()[1].endswith(",")


@pytest.fixture(scope="module")
def counted_by_nvprof(folder: Path) -> Path:
    """Return a model that learned the report's features by nvprof's names, 1 ns for each load."""
    chance = np.random.default_rng(2)
    rows = ["gpu,kernel,grid_x,time_ns,gld_request,l2_read_transactions,branch"]
    for row in range(60):
        loads, sectors, branches = (int(each) for each in chance.integers(100, 5_000, 3))
        rows.append(f"TITAN V,k{row % 3},{row},{1000 + loads},{loads},{sectors},{branches}")
    (folder / "nvprof.csv").write_text("\n".join(rows) + "\n")
    words = ("--features", "gld_request,l2_read_transactions,branch", "--model", "linear", "--out", "nvprof.kcm")
    done = run(folder, "train", "nvprof.csv", *words, "--quiet")
    assert done.returncode == 0, done.stderr
    return folder / "nvprof.kcm"


def test_names_of_another_profiler_are_understood(here: Run, folder: Path, counted_by_nvprof: Path) -> None:
    names = "smsp__inst_executed_op_global_ld.sum,lts__t_sectors_op_read.sum,smsp__inst_executed_op_branch.sum"
    (folder / "ncu.csv").write_text(f"kernel,gpu,{names}\nk0,TITAN V,2000,300,400\n")
    done = here("predict", "ncu.csv", "--model", counted_by_nvprof.name, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predictions"][0]["seconds"] == pytest.approx(3e-6)
    # scale loads once in each of 40 x 8 warps
    (found,) = json.loads(
        here("predict", "one.toml", "--gpu", "TITAN V", "--model", counted_by_nvprof.name, "--json").stdout
    )["predictions"]
    assert found["seconds"] == pytest.approx(1e-6 + 320e-9, rel=1e-6)


def test_launches_and_their_times_are_trained_in_one_step(here: Run) -> None:
    data = ("k.toml", "times.csv", "--features", "blocks,fp32_flops", "--model", "linear")
    done = here("train", *data, "--json", "--out", "step.kcm")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["launches"] == 16
    two = json.loads(here("predict", "one.toml", "--gpu", "TITAN V", "--model", "m.kcm", "--json").stdout)
    one = json.loads(here("predict", "one.toml", "--gpu", "TITAN V", "--model", "step.kcm", "--json").stdout)
    assert one["predictions"][0]["seconds"] == pytest.approx(two["predictions"][0]["seconds"], rel=1e-9)


def test_errors_of_simulated_and_of_near_counters_are_in_the_interval(here: Run, folder: Path) -> None:
    chance = np.random.default_rng(4)
    rows = ["gpu,kernel,grid_x,time_ns,elapsed_cycles_sm,gld_inst_32bit"]
    for row in range(60):
        cycles, loads = int(chance.integers(50_000, 900_000)), int(chance.integers(1_000, 90_000))
        rows.append(f"TITAN V,{('scale', 'shift')[row % 2]},{row},{cycles / 100 + loads / 10},{cycles},{loads}")
    (folder / "cycles.csv").write_text("\n".join(rows) + "\n")
    for name in ("elapsed_cycles_sm", "gld_inst_32bit"):
        others = "gld_inst_32bit,elapsed_cycles_sm"
        assert here("train", "cycles.csv", "--features", others, "--model", "linear", "--out", "c.kcm").returncode == 0
        words = ("predict", "one.toml", "--gpu", "TITAN V", "--model", "c.kcm", "--json", "--feature", f"{name}=80000")
        (found,) = json.loads(here(*words).stdout)["predictions"]
        factor = found["high"] / found["seconds"]
        details = {each["kind"]: each["numbers"] for each in found["caveat_details"]}
        if name == "elapsed_cycles_sm":  # 10,240 loads of 0.1 ns are near, and half as many more are 512 of 1,824 ns
            assert factor == pytest.approx(1 + 0.5 * 1024 / 1824, rel=0.01)
            assert "learned-time-simulated" not in details
        else:  # the cycles are simulated
            assert factor >= details["learned-time-simulated"]["factor"] > 1.1
