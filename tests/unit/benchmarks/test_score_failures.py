"""Which measured pairs show a failure, and how they are scored."""

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from kerncast.gpu import load_gpu
from tests.helpers.places import ROOT


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


@pytest.fixture
def cases(scripts: Any) -> Any:
    return scripts("failure_cases")


@pytest.fixture
def facts(cases: Any) -> Any:
    """Make a pair that shows no failure: full warps, a large grid, one build."""

    def make(source: str, target: str) -> Any:
        sides = (cases.Side(load_gpu(name), 32, 0) for name in (source, target))
        return cases.Facts(100_000, 1e9, 32.0, 0.1, 0.1, *sides)

    return make


def shown(cases: Any, facts: Any) -> set[str]:
    return {failure.name for failure in cases.FAILURES if failure.shows(facts)}


def test_a_plain_pair_shows_no_failure(cases: Any, facts: Any) -> None:
    assert shown(cases, facts("gtx-680", "gtx-980")) == set()


@pytest.mark.parametrize(
    ("kib", "way"), [(511, set()), (513, {"fits_larger_l2"}), (2048, {"fits_larger_l2"}), (2049, set())]
)
def test_capacity_decides_between_the_two_l2(cases: Any, facts: Any, kib: int, way: set[str]) -> None:
    """L2 of the GTX 680 has 512 KiB, of the GTX 980 2048."""
    there = replace(facts("gtx-680", "gtx-980"), working_set_bytes=kib * 1024)
    back = replace(there, source=there.target, target=there.source)
    names = ("fits_larger_l2", "fits_smaller_l2")
    assert {name for name in names if getattr(cases, name)(there)} == way
    assert [cases.fits_smaller_l2(back), cases.fits_larger_l2(back)] == ["fits_larger_l2" in way, False]
    assert ("cache capacity" in shown(cases, there)) is bool(way)


@pytest.mark.parametrize(("warps", "is_under_used"), [(1, True), (8 * 16 - 1, True), (8 * 16, False)])
def test_the_gpu_with_more_sms_decides_what_is_under_used(
    cases: Any, facts: Any, warps: int, *, is_under_used: bool
) -> None:
    """The GTX 680 has 8 SMs, the GTX 980 16."""
    for names in (("gtx-680", "gtx-980"), ("gtx-980", "gtx-680")):
        assert cases.under_uses(replace(facts(*names), warps=warps)) is is_under_used


def test_active_threads_as_few_as_in_the_paper(cases: Any, facts: Any) -> None:
    pair = facts("gtx-680", "gtx-980")
    assert [cases.has_few_active(replace(pair, active_threads=active)) for active in (16, 26, 26.1)] == [
        True, True, False,
    ]  # fmt: skip


def test_a_stream_moves_its_data_at_least_half_as_fast_as_dram(cases: Any, facts: Any) -> None:
    pair = facts("gtx-680", "gtx-980")
    assert [cases.streams(replace(pair, dram_use=use)) for use in (0.49, 0.5, 2.0)] == [False, True, True]


def test_streams_for_comparison_fit_neither_l2(cases: Any, facts: Any) -> None:
    """L2 of the GTX 980, the larger one, has 2048 KiB."""
    pair = facts("gtx-680", "gtx-980")
    back = replace(pair, source=pair.target, target=pair.source)
    given = [replace(pair, working_set_bytes=kib * 1024) for kib in (4096, 4097)]
    assert [cases.exceeds_the_larger_l2(each) for each in (*given, back)] == [False, True, False]


def test_another_build_has_other_registers_or_spills(cases: Any, facts: Any) -> None:
    pair = facts("rtx-2080-ti", "rtx-3090")
    registers = replace(pair, target=replace(pair.target, registers=40))
    spills = replace(pair, target=replace(pair.target, spill_bytes=8))
    assert [cases.is_rebuilt(each) for each in (pair, registers, spills)] == [False, True, True]
    assert [cases.spills_differ(each) for each in (pair, registers, spills)] == [False, False, True]


def test_lanes_matter_where_they_are_busy_and_differ(cases: Any, facts: Any) -> None:
    """An SM of the RTX 2080 Ti and of the V100 has 64 FP32 lanes, of the RTX 3090 128."""
    found = {
        (name, use): cases.feels_lanes(replace(facts("rtx-2080-ti", name), lane_use=use))
        for name in ("rtx-3090", "v100-pcie-32gb")
        for use in (0.1, 0.5)
    }
    assert [key for key, feels in found.items() if feels] == [("rtx-3090", 0.5)]


def test_small_launches_fit_some_l2_only(cases: Any, scripts: Any) -> None:
    every = cases.small(scripts("projection_cases").vecmat(None))
    if not every:
        pytest.skip("the measurements of gpuperfpredict are not in ../shared/data")
    sizes = [cases.buffer_bytes(each) for each in every]
    assert min(sizes) > 512 * 1024
    assert max(sizes) <= 2048 * 1024
    assert 3 * 256 * 256 * 4 in sizes  # three matrices of 256 x 256 in FP32


def test_convolutions_are_chosen_without_their_time_on_the_target(cases: Any, scripts: Any) -> None:
    projections = scripts("projection_cases")
    every = projections.convolution(300)
    if not every:
        pytest.skip("the measurements of the Kernel Tuning Toolkit are not in ../shared/data")
    blind = [
        replace(each, runs=(each.runs[0], *(replace(run, seconds=1.0) for run in each.runs[1:]))) for each in every
    ]
    assert [each.size for each in cases.telling(every)] == [each.size for each in cases.telling(blind)]
    assert 0 < len(cases.telling(every)) <= 16


def test_bytes_that_differ_are_the_ratio_of_two_counts(scripts: Any) -> None:
    ratio = scripts("score_failures").dram_ratio
    name = "device_memory_read_transactions"
    assert ratio({name: 10.0}, {name: 25.0}) == 2.5
    assert ratio({name: 10.0}, None) is None
    assert ratio({name: 10.0}, {}) is None
    assert ratio({name: 0.0}, {name: 25.0}) is None
    assert ratio({name: math.nan}, {name: 25.0}) is None


def test_every_part_of_a_failure_is_printed(scripts: Any, facts: Any) -> None:
    failures, scores = scripts("score_failures"), scripts("projection_scores")
    pair = scores.Pair("vecmat", "k", "1", "gtx-680", "gtx-980", 1e-3, 2e-3)
    forecasts = tuple(scores.Projected(pair, name, 1e-3, 0.5e-3, 3e-3) for name in failures.MODELS)
    idle = failures.Scored(replace(facts("gtx-680", "gtx-980"), warps=1), None, forecasts)
    busy = failures.Scored(facts("gtx-680", "gtx-980"), None, forecasts)
    text = failures.report([idle, busy, busy])
    assert "## under-used GPU: 1 of 3 pairs" in text
    cell = "50.0/50.0; 0.50; 100%"
    rows = [line for line in text.split("## under-used GPU")[1].split("\n") if line.endswith("% |")][:4]
    expected = [("all of them", 1), ("to as many SMs or more", 1), ("the other pairs", 2)]
    assert rows[:3] == [f"| {name} | {number} | {' | '.join([cell] * 4)} |" for name, number in expected]
