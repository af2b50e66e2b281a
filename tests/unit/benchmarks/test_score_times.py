"""The script that scores forecasts from times alone: what its estimates recover, and what its file holds."""

import math
import random
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from kerncast.gpu import load_gpu
from kerncast.measurements import Observation
from kerncast.models.transfer.times import log_rates, read_priors
from kerncast.prediction import Timing
from tests.helpers.places import ROOT

BOARDS = [load_gpu(name) for name in ("k20", "k40", "gtx-titan", "gtx-980", "rtx-2080-ti", "rtx-3090", "a40", "t4")]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


def made_up(scripts: Any, families: dict[str, int], deviation: float) -> list[Any]:
    """Return launches of kernels that each have one limit, with normal effects of each GPU."""
    order = random.Random(3)  # noqa: S311  a sample, no secret
    found = []
    for family, limit in families.items():
        for _ in range(30):
            level = order.uniform(-1, 1) + math.log(0.1) + log_rates(BOARDS[0])[limit]
            times = tuple(
                Observation(
                    gpu, math.exp(level - log_rates(gpu)[limit] + order.gauss(0, deviation)), timing=Timing.SINGLE
                )
                for gpu in BOARDS
            )
            found.append(scripts("times_cases").Launched("made up", family, times))
    return found


def test_the_estimate_recovers_what_was_made_up(scripts: Any) -> None:
    launched = made_up(scripts, {"a": 0, "b": 0, "c": 0, "d": 2}, deviation=0.05)
    found = scripts("times_priors").fit(launched)
    # Three kernels that DRAM limits and one of issue, each hypothesis with one more: 4 of 9 and, with its twins, 1.
    assert found.dram == pytest.approx(0.99 * 4 / 9, rel=0.05)
    assert found.issue + found.mixed + found.fp32 == pytest.approx(0.99 * 4 / 9, rel=0.05)
    assert found.l2 == pytest.approx(0.99 / 9, rel=0.1)
    assert math.sqrt(found.gpu) == pytest.approx(0.05, rel=0.15)
    assert found.generation + found.era < 0.1 * found.gpu
    assert (found.kernels, found.launches) == (4, 120)


def test_a_kernel_that_is_left_out_tells_nothing(scripts: Any) -> None:
    fit = scripts("times_priors").fit
    one = made_up(scripts, {"a": 0, "b": 2}, deviation=0.05)
    assert fit(one, ["b"]) == fit([each for each in one if each.family == "a"])


def test_scores_by_hand(scripts: Any) -> None:
    script = scripts("score_times")
    source, target = BOARDS[4], BOARDS[5]
    scored = [
        script.Scored("k", (Observation(source, 2e-3),), Observation(target, 1e-3), forecast, 0.9e-3, 1.8e-3)
        for forecast in (1.1e-3, 0.8e-3)
    ]
    cells = [cell.strip() for cell in script.cells(scored).split("|")]
    assert cells[:6] == ["2", "15.0%", "15.0%", "19.0%", "100%", "2.00"]
    ratio = 68 * 1545 / (82 * 1695)
    assert cells[6:] == ["–", f"{2 * ratio - 1:.1%}", f"{1 - 2 * ratio / 2:.1%}", f"{2 * 616 / 936.2 - 1:.1%}", "0.0%"]


def test_the_best_constant_has_the_least_mean_error(scripts: Any) -> None:
    script = scripts("score_times")
    order = np.random.default_rng(5)
    times = order.lognormal(0, 0.5, 41)
    scored = [
        script.Scored("k", (Observation(BOARDS[0], 1e-3 * time),), Observation(BOARDS[1], 1e-3), 1e-3, 1e-3, 1e-3)
        for time in times
    ]
    best = min(float(np.mean(np.abs(factor * times - 1))) for factor in np.linspace(0.2, 3, 2000))
    assert script._best_constant(scored) == pytest.approx(best, rel=1e-3)


def test_the_matrix_product_is_never_fitted(scripts: Any) -> None:
    cases = scripts("times_cases")
    assert cases.GEMM not in cases.FITTED


def test_the_file_holds_what_the_script_writes(scripts: Any) -> None:
    text = (ROOT / "src/kerncast/data/calibration/times.toml").read_text(encoding="utf-8")
    document = scripts("times_priors").document(read_priors(), scripts("times_cases").FITTED)
    assert document == text
