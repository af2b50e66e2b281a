"""Forecasts from times alone: a table of times, a tuner's file without grids, a profile with too few counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from kerncast import load_gpu, predict
from kerncast.errors import Refusal
from kerncast.measurements import Observation, TimedKernel
from kerncast.prediction import Timing
from tests.helpers.places import TESTS

T4_RESULTS = TESTS / "golden" / "tuners" / "blur_t4.json"
CACHE = TESTS / "golden" / "tuners" / "blur_cache.json"
TIMES = "gpu,seconds,kernel,clock_mhz\nRTX 2080 Ti,4.2e-3,xgemm,1350\nT4,7e-3,xgemm,\nT4,1e-3,blur,\n"


@pytest.fixture
def times(tmp_path: Path) -> Path:
    file = tmp_path / "times.csv"
    file.write_text(TIMES, encoding="utf-8")
    return file


def test_a_table_of_times_is_forecast(kerncast: Any, times: Path) -> None:
    done = kerncast("predict", times, "--gpu", "RTX 3090", "--gpu", "T4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["predictions"]
    assert [(p["kernel"], p["launch"], p["gpu_id"]) for p in found] == [
        ("xgemm", 0, "rtx-3090"), ("xgemm", 0, "t4"), ("blur", 1, "rtx-3090"), ("blur", 1, "t4"),
    ]  # fmt: skip
    assert {p["model"] for p in found} == {"times"}
    assert [p["seconds"] for p in found if p["gpu_id"] == "t4"] == [7e-3, 1e-3]
    evidence = found[0]["evidence"]
    assert [time["gpu_id"] for time in evidence["measured"]] == ["rtx-2080-ti", "t4"]
    assert (evidence["seconds_without"], evidence["measured"][0]["simulated_seconds"]) == (None, None)
    assert sum(limit["probability"] for limit in evidence["limits"]) == pytest.approx(1)
    assert evidence["limits"][0]["resource"] == found[0]["limiter"]
    assert found[0]["low"] < found[0]["seconds"] < 4.2e-3 < 2 * found[0]["high"]
    kinds = [each["kind"] for each in found[2]["caveat_details"]]
    assert kinds == ["only-times-known", "interval-of-times", "clock-taken-as-default"]


def test_a_further_time_is_one_more_row(kerncast: Any, times: Path) -> None:
    usual = ("predict", times, "-k", "blur", "--gpu", "RTX 3090", "--json")
    (before,) = json.loads(kerncast(*usual).stdout)["predictions"]
    (after,) = json.loads(kerncast(*usual, "--measured", "A40=0.4ms").stdout)["predictions"]
    assert [time["gpu_id"] for time in after["evidence"]["measured"]] == ["t4", "a40"]
    assert after["high"] / after["low"] < before["high"] / before["low"]


def test_the_terminal_says_what_is_a_guess(kerncast: Any, times: Path) -> None:
    done = kerncast("predict", times, "--gpu", "RTX 3090")
    text = " ".join(done.stdout.split())
    assert "Only times are known: 4.2 ms on RTX 2080 Ti, 7 ms on T4." in text
    assert "perhaps limited by" in text
    assert "What may limit it, and the forecast if that does" in text
    assert "would narrow the interval" in text


def test_a_report_of_times_is_written(kerncast: Any, times: Path, tmp_path: Path) -> None:
    for name in ("report.md", "report.html"):
        done = kerncast("predict", times, "--gpu", "RTX 3090", "--report", tmp_path / name)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Evidence: xgemm (launch 0)" in text
        assert "What may limit it" in text


def test_other_models_need_more(kerncast: Any, times: Path) -> None:
    done = kerncast("predict", times, "--gpu", "RTX 3090", "--model", "algorithm1")
    assert done.returncode == 3
    assert "algorithm1 needs its source or its counts" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("text", "fault"), [("gpu,seconds\n", "no time"), ("gpu,seconds\nt4,x\n", "line 2")])
def test_a_faulty_table_is_bad_input(kerncast: Any, tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "times.csv"
    file.write_text(text, encoding="utf-8")
    done = kerncast("predict", file, "--gpu", "T4")
    assert done.returncode == 2
    assert fault in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_results_of_a_tuner_without_grids_are_forecast(kerncast: Any) -> None:
    done = kerncast("predict", T4_RESULTS, "--source-gpu", "RTX A4000", "--gpu", "RTX A6000", "--json")
    (p,) = json.loads(done.stdout)["predictions"]
    assert (p["model"], p["timing"]) == ("times", "single")
    assert p["low"] < 0.512e-3 * 48 * 1560 / (84 * 1800) < p["high"] < 0.512e-3
    done = kerncast("predict", T4_RESULTS, "--gpu", "RTX A6000")
    assert done.returncode == 2
    assert "--source-gpu" in done.stderr


def test_a_profile_with_too_few_counts_is_forecast(kerncast: Any) -> None:
    done = kerncast("predict", CACHE, "--gpu", "RTX 3090", "--measured", "T4#0=1.5ms", "--json")
    first, second = json.loads(done.stdout)["predictions"]
    assert (first["model"], second["model"]) == ("times", "times")
    assert [time["gpu_id"] for time in first["evidence"]["measured"]] == ["t4", "rtx-a4000"]
    assert [time["gpu_id"] for time in second["evidence"]["measured"]] == ["rtx-a4000"]
    kinds = {each["kind"] for each in first["caveat_details"]}
    assert "other-model-used" in kinds
    assert "time-elsewhere-unused" not in kinds


def test_python_takes_the_same_evidence(times: Path) -> None:
    first, second = predict(times, "RTX 3090")
    assert (first.model, second.kernel) == ("times", "blur")
    kernel = TimedKernel("blur", 1, (Observation(load_gpu("T4"), 1e-3),))
    (again,) = predict(kernel, "RTX 3090")
    assert (again.seconds, again.low, again.timing) == (second.seconds, second.low, Timing.SERIES)
    with pytest.raises(Refusal, match="roofline needs its source"):
        predict(kernel, "RTX 3090", "roofline")
