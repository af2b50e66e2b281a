"""The protocols: a law across kernels is found, nothing that is left out is seen, and rules are as published."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.read.measured_cases import read_cases
from kerncast.studies.zero_shot.cases import Cases, set_facts, study_cases
from kerncast.studies.zero_shot.monotone import rises_of
from kerncast.studies.zero_shot.outcomes import Forecast, order_of, score_of
from kerncast.studies.zero_shot.process import PHYSICS, Belief
from kerncast.studies.zero_shot.protocols import (
    Learner,
    forecast_left_out,
    forecast_with_one_time,
    pairs_of,
    simulated,
)
from kerncast.studies.zero_shot.rules import ALONE, CARRIED
from tests.helpers.measured_cases import case, cases


def read(rows: Any, tmp_path: Path) -> Cases:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return study_cases(read_cases([path]))


@pytest.fixture
def found(tmp_path: Path) -> Cases:
    return read(cases(), tmp_path)


def test_a_law_across_kernels_is_learned(tmp_path: Path) -> None:
    found = read(cases(30), tmp_path)
    learner = Learner(found)
    before = score_of(list(simulated(found))).mape
    for what in ("kernel", "gpu"):
        assert score_of(list(forecast_left_out(learner, what))).mape < 0.6 * before
    pairs = pairs_of(found)
    assert len(pairs) == 30 * 4 * 3
    for knows_kernel in (True, False):
        assert score_of(list(forecast_with_one_time(learner, pairs, knows_kernel=knows_kernel))).mape < 0.8 * before


@pytest.mark.parametrize(("what", "left_out"), [("kernel", "mine kernel3"), ("gpu", "k40")])
def test_what_is_left_out_is_never_seen(what: str, left_out: str, found: Cases) -> None:
    own = [row for row, name in enumerate(found.labels(what)) if name == left_out]
    changed = tuple(
        dataclasses.replace(each, case=dataclasses.replace(each.case, seconds=each.case.seconds * 1.2))
        if row in own
        else each
        for row, each in enumerate(found.every)
    )
    other = Cases(changed)
    before, after = (
        {
            each.row: each.log_ratio + math.log(of.every[each.row].case.seconds)
            for each in forecast_left_out(learner, what)
        }
        for of, learner in ((found, Learner(found)), (other, Learner(other)))
    )
    assert [before[row] for row in own] == pytest.approx([after[row] for row in own], abs=1e-9)


def test_one_set_alone_is_physics(found: Cases) -> None:
    assert [each.log_ratio for each in forecast_left_out(Learner(found), "set")] == pytest.approx(
        [each.log_ratio for each in simulated(found)]
    )


def test_no_law_is_no_belief(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    rows = [case(f"k{n}", gpu, 0.5, chance.normal(0, 0.1)) for n in range(8) for gpu in ("titan-v", "k40")]
    learner = Learner(read(rows, tmp_path))
    assert (
        score_of(list(forecast_left_out(learner, "kernel"))).mape < 1.25 * score_of(list(simulated(learner.cases))).mape
    )


def test_sets_that_are_scored_only_teach_nothing(tmp_path: Path) -> None:
    secret = [case(f"s{n}", "titan-v", 0.4, 2.0, set=next(iter(set_facts().score_only))) for n in range(4)]
    found = read([*cases(), *secret], tmp_path)
    assert len(found.trained) == len(found.every) - 4
    assert not any(name.startswith("streams") for name in found.table().kernels)
    alone = {each.row: each.log_ratio for each in forecast_left_out(Learner(read(cases(), tmp_path)), "kernel")}
    with_them = {each.row: each.log_ratio for each in forecast_left_out(Learner(found), "kernel")}
    assert [with_them[row] for row in alone] == pytest.approx(list(alone.values()), abs=1e-9)


def test_sets_without_a_licence_are_no_part_of_the_study(tmp_path: Path) -> None:
    """Their errors would show in the sums and in the row of a GPU that no other set has."""
    secret = [case(f"s{n}", "titan-v", 0.4, 2.0, set="sixteen") for n in range(4)]
    assert read([*cases(), *secret], tmp_path).every == read(cases(), tmp_path).every


def test_rules_are_as_published(found: Cases) -> None:
    source, target = found.every[0], found.every[1]
    factors = {rule.name: rule.factor(source, target) for rule in CARRIED}
    assert factors["SMs x clock"] == pytest.approx(80 * 1455 / (68 * 1545))
    assert factors["DRAM bandwidth"] == pytest.approx(source.gpu.dram_bytes_per_s / target.gpu.dram_bytes_per_s)
    # The roofs are equal; 256 threads of 32 registers are 64 of 64 warps on Volta, 32 of 32 on Turing.
    assert factors["Algorithm 1"] == pytest.approx(1.0)
    # gamma = 1 - 0.5 x 10 / 50; blocks of a wave 8 x 80 and 4 x 68.
    bandwidth, clock = source.gpu.dram_bytes_per_s / target.gpu.dram_bytes_per_s, 1455 / 1545
    wave = 4 * 68 / (8 * 80)
    assert factors["wave scaling"] == pytest.approx((bandwidth * wave) ** 0.9 * clock**0.1 / wave)
    alone = {rule.name: rule.seconds(source) for rule in ALONE}
    assert alone["instruction roofline"] == pytest.approx(0.5 * source.simulated.seconds)
    assert alone["sum of computing and memory"] == pytest.approx(0.6 * source.simulated.seconds)


def test_monotone_without_belief_and_counted_with(found: Cases) -> None:
    assert [each.rising for each in rises_of(found, PHYSICS)] == [0, 0]
    for each in rises_of(found, Belief(0.02, 0.5)):
        assert 0 <= each.rising <= each.cases == len(found.every)
        assert 0 <= each.largest < 0.5


def test_the_order_of_gpus() -> None:
    right, wrong = Forecast(0, 0.0), Forecast(1, -2.0)
    found = order_of([right, wrong, Forecast(2, 0.0)], ["a", "a", "a"], [1.0, 2.0, 2.05])
    assert found is not None
    assert (found.pairs, found.right) == (2, 0.5)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"schema_version": "2.0", "cases": []}, "schema_version is 2.0"),
        ("text", "no list of cases"),
        ([{"set": "a"}], "case 0"),
        ([case("k", "titan-v", 0.5, 0.0, measured_seconds=math.nan)], "a field is missing or wrong"),
        ([case("k", "titan-v", 0.5, 0.0, registers=10**400)], "a field is missing or wrong"),
        ([case("k", "titan-v", 0.5, 0.0, forecasts={})], "no case with a forecast"),
        ([case("k", "titan-v", 0.5, 0.0)], "1 cases are left to learn from"),
    ],
)
def test_faulty_files_are_named(rows: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read(rows, tmp_path)


def test_an_object_with_a_version_is_read(tmp_path: Path) -> None:
    assert len(read({"schema_version": "1.0", "cases": cases(3)}, tmp_path).every) == 12
