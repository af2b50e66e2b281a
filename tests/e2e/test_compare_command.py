"""kerncast compare as a user runs it."""

import csv
import json
import re
from pathlib import Path

import pytest

from kerncast.cli.application import run
from kerncast.errors import InputError
from tests.conftest import Run
from tests.helpers.places import ROOT

SAXPY = ROOT / "examples" / "saxpy.toml"
GPUS = ("--gpu", "TITAN V", "--gpu", "t4", "--gpu", "a100-sxm-80gb")
PRICES = "gpu,usd_per_hour,usd_price\nt4,0.35,\na100-sxm-80gb,1.79,15000\n"


def test_fields_of_the_json(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES, encoding="utf-8")
    done = kerncast("compare", SAXPY, *GPUS, "--price", "prices.csv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == [
        "schema_version", "level", "launches", "sort", "groups", "set_apart", "caveats", "caveat_details",
    ]  # fmt: skip
    assert (found["level"], found["sort"], found["set_apart"]) == (0.9, "time", [])
    assert found["launches"] == [{"launch": 0, "kernel": "saxpy"}]
    (group,) = found["groups"]
    assert list(group) == ["models", "verdict", "against", "probability_first_over_second", "gpus"]
    assert group["models"] == ["simulation"]
    assert [row["gpu_id"] for row in group["gpus"]] == ["a100-sxm-80gb", "titan-v", "t4"]
    assert group["against"] == "TITAN V", "the second"
    first, second, third = group["gpus"]
    assert list(first) == [
        "gpu", "gpu_id", "seconds", "low", "high", "clock_hz", "clock_without_power_limit_hz", "probability_fastest",
        "probability_cheapest", "probability_over_against", "probability_faster_than", "energy", "usd_per_run",
        "runs_per_s_per_usd", "on_front", "launches",
    ]  # fmt: skip
    assert list(first["energy"]) == ["joules", "low", "high", "watts", "limit_watts"]
    assert list(first["launches"][0]) == ["launch", "kernel", "seconds", "low", "high"]
    assert first["seconds"] < second["seconds"] < third["seconds"]
    assert sum(row["probability_fastest"] for row in group["gpus"]) == pytest.approx(1)
    assert first["probability_over_against"] == group["probability_first_over_second"] > 0.9
    assert first["probability_faster_than"] == {"titan-v": pytest.approx(1, abs=0.1), "t4": pytest.approx(1, abs=0.1)}
    assert second["probability_over_against"] is None
    assert first["usd_per_run"] == pytest.approx(1.79 / 3600 * first["seconds"])
    assert first["runs_per_s_per_usd"] == pytest.approx(1 / (15000 * first["seconds"]))
    assert (second["usd_per_run"], second["probability_cheapest"], third["runs_per_s_per_usd"]) == (None, None, None)
    for row in group["gpus"]:
        energy = row["energy"]
        assert energy["low"] < energy["joules"] < energy["high"]
        assert energy["watts"] <= energy["limit_watts"]


def test_predict_and_compare_agree_where_no_power_limit_acts(kerncast: Run) -> None:
    predicted, compared = (
        json.loads(kerncast(command, SAXPY, "--gpu", "TITAN V", "--json").stdout) for command in ("predict", "compare")
    )
    (one,), (other,) = predicted["predictions"], compared["groups"][0]["gpus"]
    for name in ("seconds", "low", "high", "clock_hz"):
        assert other[name] == pytest.approx(one[name])
    assert compared["groups"][0]["against"] is None


def test_a_total_is_the_sum_and_its_interval_is_not_wider(kerncast: Run) -> None:
    done = kerncast("compare", SAXPY, ROOT / "examples" / "matmul_tiled.toml", "--gpu", "TITAN V", "--json")
    found = json.loads(done.stdout)
    assert found["launches"] == [{"launch": 0, "kernel": "saxpy"}, {"launch": 1, "kernel": "matmul_tiled<16>"}]
    (row,) = found["groups"][0]["gpus"]
    parts = row["launches"]
    assert row["seconds"] == pytest.approx(sum(part["seconds"] for part in parts))
    assert sum(part["low"] for part in parts) * 0.99 < row["low"] < row["seconds"]
    assert row["seconds"] < row["high"] < sum(part["high"] for part in parts) * 1.01


def test_sorted_by_energy_and_cost(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES, encoding="utf-8")
    by_cost = kerncast("compare", SAXPY, *GPUS, "--price", "prices.csv", "--sort", "cost", "--against", "T4", "--json")
    (group,) = json.loads(by_cost.stdout)["groups"]
    assert [row["gpu_id"] for row in group["gpus"]] == ["a100-sxm-80gb", "t4", "titan-v"], "no price comes last"
    assert re.match(r"A100 SXM 80GB is the cheapest of 3 GPUs with probability", group["verdict"])
    assert group["against"] == "T4"
    by_energy = kerncast("compare", SAXPY, *GPUS, "--sort", "energy")
    assert by_energy.stdout.startswith("A100 SXM 80GB is the one that needs the least energy of 3 GPUs, by an estimate")


def test_a_gpu_that_cannot_run_a_launch_is_set_apart(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        'extern "C" __global__ void k(float *x) { extern __shared__ float s[]; s[threadIdx.x] = x[threadIdx.x];'
        " __syncthreads(); x[threadIdx.x] = s[threadIdx.x ^ 1]; }\n",
        encoding="utf-8",
    )
    launch = (
        '[[launch]]\nkernel = "k"\ngrid = [64]\nblock = [64]\nshared_bytes = 120000\nargs = { x = "f32[64] zeros" }\n'
    )
    (tmp_path / "k.toml").write_text(f'source = "k.cu"\n{launch}', encoding="utf-8")
    done = kerncast("compare", "k.toml", "--gpu", "t4", "--gpu", "a100-sxm-80gb", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["gpu_id"] for row in found["groups"][0]["gpus"]] == ["a100-sxm-80gb"]
    (apart,) = found["set_apart"]
    assert (apart["gpu_id"], list(apart)) == ("t4", ["gpu", "gpu_id", "reason"])
    assert "shared memory" in apart["reason"]
    alone = kerncast("compare", "k.toml", "--gpu", "t4")
    assert alone.returncode == 3
    assert "T4 is set apart" in alone.stderr


def test_what_is_not_simulated_is_a_group_of_its_own(kerncast: Run) -> None:
    done = kerncast("compare", SAXPY, "--gpu", "TITAN V", "--gpu", "jetson-agx-xavier", "--gpu", "b100", "--json")
    found = json.loads(done.stdout)
    groups = {tuple(group["models"]): [row["gpu_id"] for row in group["gpus"]] for group in found["groups"]}
    assert groups == {("simulation",): ["titan-v"], ("roofline",): ["b100", "jetson-agx-xavier"]}
    energies = {row["gpu_id"]: row["energy"] for group in found["groups"] for row in group["gpus"]}
    assert energies["jetson-agx-xavier"] is None, "nobody has published the energy of its memory"
    assert energies["b100"] is not None
    assert {"energy-unknown", "not-simulated"} <= {each["kind"] for each in found["caveat_details"]}


def test_declared_counts_are_compared_by_the_roofline(kerncast: Run) -> None:
    done = kerncast("compare", ROOT / "tests" / "golden" / "none.toml", "--gpu", "t4")
    assert done.returncode == 2, "a file that is missing"
    counts = ROOT / "src" / "kerncast" / "kernels" / "suite" / "gpusd_declared.toml"
    found = json.loads(kerncast("compare", counts, "--gpu", "t4", "--gpu", "TITAN V", "--json").stdout)
    assert {model for group in found["groups"] for model in group["models"]} == {"roofline"}
    assert "compared among themselves only" in kerncast("compare", counts, "--gpu", "t4", "--gpu", "TITAN V").stdout


def test_files(kerncast: Run, tmp_path: Path) -> None:
    done = kerncast("compare", SAXPY, *GPUS, "--csv", "c.csv", "--pareto", "p.svg", "--out", "t.txt")
    assert (done.returncode, done.stdout) == (0, "")
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["gpu_id"] for row in rows] == ["a100-sxm-80gb", "titan-v", "t4"]
    assert (rows[0]["models"], rows[0]["usd_per_run"], rows[0]["on_front"]) == ("simulation", "", "1")
    picture = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "TITAN V" in picture
    assert "no other GPU needs less of both" in picture
    assert "is the fastest of 3 GPUs" in (tmp_path / "t.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--sort", "speed"), "--sort 'speed' is unknown"),
        (("--sort", "cost"), "--sort cost needs prices"),
        (("--pareto", "p.jpg"), "p.jpg is no place for this output"),
        (("--against", "L4"), "--against L4 is not among the GPUs"),
        (("--price", "none.csv"), "cannot be read"),
        (("--price", "other.csv"), "none of the GPUs has a price"),
        (("--clock", "fast"), "--clock"),
        (("--timing", "slow"), "no timing is called 'slow'"),
    ],
)
def test_bad_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], fault: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.csv").write_text("gpu,usd_per_hour\nl4,1\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        run(["compare", str(SAXPY), "--gpu", "t4", *options])
    assert fault in str(caught.value)


def test_only_launch_files_are_compared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.csv is no launch file"):
        run(["compare", str(tmp_path / "t.csv"), "--gpu", "t4"])
