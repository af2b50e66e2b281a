"""The score of what a sweep calls best, against what counting all cases gives."""

import statistics
from importlib import import_module
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest

from kerncast.launch import Launch
from kerncast.prediction import Timing
from tests.helpers.places import ROOT


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("score_sweeps")


def test_the_first_and_the_first_ten(sweeps: ModuleType) -> None:
    pairs = [(float(place), 10.0 + (place - 12) ** 2) for place in range(20)]
    found = sweeps.score_of("set", "gpu", pairs)
    assert found.count == 20
    assert found.first == pytest.approx((10 + 144) / 10 - 1)
    assert found.first_ten == pytest.approx((10 + 9) / 10 - 1), "place 9 is three from the best"
    assert found.random_one == pytest.approx(statistics.mean(time for _, time in pairs) / 10 - 1)


def test_ten_at_random_by_counting_them(sweeps: ModuleType) -> None:
    times = [1.0, 1.5, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0, 9.5, 10.0, 12.0]
    every = [min(chosen) for chosen in combinations(times, 10)]
    found = sweeps.score_of("set", "gpu", [(time, time) for time in times])
    assert found.random_ten == pytest.approx(statistics.mean(every) - 1)
    assert (found.first, found.spearman) == (0.0, pytest.approx(1.0))


def test_a_larger_sample_holds_a_smaller_one(sweeps: ModuleType) -> None:
    launch = Launch(Path("k.cu"), "k", (1, 1, 1), (32, 1, 1))
    every = [
        sweeps.Case("set", "k", f"size {size}", gpu, Timing.SINGLE, launch, 1.0 + size)
        for size in range(50)
        for gpu in ("t4", "l4")
        if size != 7 or gpu == "t4"
    ]
    small, large = (sweeps.sample("set", every, count) for count in (10, 100))
    assert small == large[:10]
    assert len(large) == 49, "one configuration was measured on one GPU alone"
