"""Pairs of GPUs: counted, binned and drawn as they should be."""

from importlib import import_module
from typing import Any

import pytest

from tests.helpers.places import ROOT


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the script that scores pairs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("score_pairs")


def record(gpu: str, measured: float, forecast: float) -> dict[str, Any]:
    found = {"seconds": forecast, "low": forecast / 1.2, "high": forecast * 1.2, "limiter": "dram", "terms": {}}
    return {
        "set": "vecmat", "kernel": "k", "size": "1", "gpu": gpu, "clock_mhz": 745.0, "grid": [64, 1, 1],
        "block": [64, 1, 1], "defines": {}, "spills": False, "measured_seconds": measured,
        "forecasts": {"simulation": found},
    }  # fmt: skip


def test_the_order_of_pairs_over_a_tenth_apart(pairs: Any) -> None:
    records = [record("k20", 1.0, 1.0), record("k40", 0.8, 0.7), record("gtx-titan", 0.78, 0.9)]
    lines = pairs.order_table(records).splitlines()
    assert "| vecmat | simulation | 2 | 100.0% | 2 | 100.0% |" in lines, "k40 and GTX TITAN are too close"
    assert "| vecmat | DRAM bandwidth | 2 | 100.0% | 2 | 100.0% |" in lines


def test_probabilities_in_bins(pairs: Any) -> None:
    stated = [
        pairs.Stated("a", "x", 0.75, 0.7, is_right=True), pairs.Stated("a", "x", 0.75, 0.7, is_right=False),
        pairs.Stated("a", "y", 0.75, 0.7, is_right=True), pairs.Stated("a", "y", 1.0, 0.9, is_right=True),
    ]  # fmt: skip
    assert pairs.reliability_table(stated).splitlines()[2:] == [
        "| 70% to 80% | 3 | 75.0% | 66.7% | 2 | 75.0% |", "| 99% to 100% | 1 | 100.0% | 100.0% | 1 | 100.0% |",
    ]  # fmt: skip
    assert "| a | 4 | 81.2% | 75.0% | 0.1719 | 0.1700 | 0.2500 |" in pairs.score_table(stated)
