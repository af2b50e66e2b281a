"""Forecasts with measured times: they move the simulation, say so, and are never thrown away in silence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerncast import load_gpu, load_launches, predict
from kerncast.measurements import Observation
from tests.helpers.places import ROOT

SAXPY = ROOT / "examples" / "saxpy.toml"
SUITE = ROOT / "src" / "kerncast" / "kernels" / "suite"
SAXPY_LARGE = load_launches(SUITE / "saxpy.toml")[3]


@pytest.fixture
def forecasts(kerncast: Any) -> Any:
    """Return the forecasts of a command, by GPU id."""

    def run(*words: object) -> dict[str, dict[str, Any]]:
        done = kerncast("predict", *map(str, words), "--json", "--quiet")
        assert done.returncode == 0, done.stderr
        return {p["gpu_id"]: p for p in json.loads(done.stdout)["predictions"]}

    return run


def test_a_time_moves_the_simulation_and_narrows_its_interval(forecasts: Any) -> None:
    gpus = ("--gpu", "TITAN V", "--gpu", "T4", "--gpu", "RTX 4070")
    before = forecasts(SAXPY, *gpus)
    after = forecasts(SAXPY, *gpus, "--measured", "RTX 2080 Ti=32us")
    for gpu, p in after.items():
        old = before[gpu]
        assert p["model"] == "simulation"
        assert p["evidence"]["seconds_without"] == old["seconds"]
        (time,) = p["evidence"]["measured"]
        assert (time["gpu_id"], time["launch"], time["seconds"]) == ("rtx-2080-ti", 0, pytest.approx(32e-6))
        assert p["seconds"] == pytest.approx(old["seconds"] * time["factor"])
        assert p["seconds"] > old["seconds"]
        assert p["high"] / p["low"] < old["high"] / old["low"]
    factors = {gpu: p["evidence"]["measured"][0]["factor"] for gpu, p in after.items()}
    assert factors["t4"] > factors["titan-v"] > factors["rtx-4070"]  # the same capability, generation, era


def test_the_measured_gpu_gets_its_time_within_the_spread(forecasts: Any, tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("gpu,seconds,spread\nT4,47e-6,1e-6\n")
    (p,) = forecasts(SAXPY, "--gpu", "T4", "--measured", file).values()
    assert p["seconds"] == pytest.approx(47e-6, rel=0.02)
    assert 44.5e-6 < p["low"] < 47e-6 < p["high"] < 49.5e-6


@pytest.mark.parametrize("time", ["30us", "60us"])
def test_faster_memory_is_never_slower_with_a_time(time: str) -> None:
    gpu = load_gpu("TITAN V")
    found = []
    for factor in (0.5, 0.8, 1.0, 1.3, 2.0, 4.0):
        rate = gpu.sustained_dram_bytes_per_s
        faster = replace(
            gpu,
            dram_bytes_per_s=gpu.dram_bytes_per_s * factor,
            sustained_dram_bytes_per_s=rate and rate * factor,
        )
        found.append(predict(SAXPY, faster, measured=[f"T4={time}"])[0].seconds)
    assert found == sorted(found, reverse=True)


def test_times_of_other_launches_tell_of_a_slow_memory() -> None:
    """The GPU's memory is a fifth slower than its file says: times of other kernels that it limits tell so."""
    gpu = load_gpu("TITAN V")
    rate = gpu.sustained_dram_bytes_per_s
    assert rate
    true = replace(gpu, sustained_dram_bytes_per_s=rate * 0.8)
    launches = [
        load_launches(SUITE / f"{name}.toml")[2] for name in ("vector_add", "strided_copy_8", "shared_transpose")
    ]
    times = [Observation(gpu, predict(each, true)[0].seconds, other=each) for each in launches]
    truth, without = (predict(SAXPY_LARGE, one)[0].seconds for one in (true, gpu))
    assert without < 0.9 * truth
    found = predict(SAXPY_LARGE, gpu, measured=times)[0].seconds
    # Not by much: a GPU of its own carries a fifth of a residual over to another kernel.
    assert abs(truth - found) < 0.9 * abs(truth - without)


def test_what_cannot_be_simulated_is_named(kerncast: Any) -> None:
    done = kerncast(
        "predict", str(SAXPY), "--gpu", "T4", "--measured", "B100=5us", "--measured", "A2=80us", "--json", "--quiet"
    )
    (p,) = json.loads(done.stdout)["predictions"]
    assert [time["gpu_id"] for time in p["evidence"]["measured"]] == ["a2"]
    assert any("B100" in caveat and "moves nothing" in caveat for caveat in p["caveats"])


def test_a_time_that_moves_nothing_leaves_the_simulation(kerncast: Any) -> None:
    done = kerncast("predict", SAXPY, "--gpu", "T4", "--measured", "B100=5us", "--json", "--quiet")
    (p,) = json.loads(done.stdout)["predictions"]
    assert (p["model"], p["evidence"]) == ("simulation", None)
    assert sum("measured" in caveat or "B100" in caveat for caveat in p["caveats"] if "error seen" not in caveat) == 1


def test_a_time_of_code_that_does_not_compile_for_its_gpu_is_named(kerncast: Any, tmp_path: Path) -> None:
    source = "#if __CUDA_ARCH__ < 700\n#error only for Volta and later\n#endif\n"
    (tmp_path / "k.cu").write_text(source + "__global__ void k(float *x) { x[threadIdx.x] = 1; }\n", encoding="utf-8")
    asked = ("--kernel", "k", "--grid", "64", "--block", "64", "--arg", "x=f32[64]", "--gpu", "T4")
    done = kerncast("predict", tmp_path / "k.cu", *asked, "--measured", "GTX 980=5us", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    (p,) = json.loads(done.stdout)["predictions"]
    assert any("GTX 980" in caveat and "moves nothing" in caveat for caveat in p["caveats"])


def test_a_time_far_from_the_others_is_named(kerncast: Any) -> None:
    times = ("T4=46us", "RTX 2080 Ti=25.5us", "TITAN RTX=2.3ms")
    done = kerncast(
        "predict", str(SAXPY), "--gpu", "TITAN V", *(w for t in times for w in ("--measured", t)), "--quiet"
    )
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "The time on TITAN RTX (--measured) is 1" in text
    assert "outside the 99 % range" in text
    assert "Measured times, and how they move the forecast" in text


def test_a_named_model_keeps_to_itself(forecasts: Any) -> None:
    asked = (SAXPY, "--gpu", "TITAN V", "--measured", "RTX 2080 Ti=25.9us", "--model")
    for name in ("algorithm1", "ceilings", "roofline"):
        (p,) = forecasts(*asked, name).values()
        assert (p["model"], p["evidence"]) == (name, None)
    (p,) = forecasts(*asked, "simulation").values()
    assert p["evidence"]["measured"]


def test_reports_and_bars_show_the_times(kerncast: Any, tmp_path: Path) -> None:
    report, bars = tmp_path / "r.md", tmp_path / "bars.csv"
    asked = ("--gpu", "TITAN V", "--measured", "RTX 2080 Ti=25.9us", "--report", str(report), "--bars", str(bars))
    assert kerncast("predict", str(SAXPY), *asked, "--quiet").returncode == 0
    assert "| saxpy on RTX 2080 Ti | 25.9 µs |" in report.read_text(encoding="utf-8")
    assert "TITAN V,simulation,2.58999" in bars.read_text(encoding="utf-8")
