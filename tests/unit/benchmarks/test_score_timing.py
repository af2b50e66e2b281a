"""The scores of forecast times, on made-up rows and on numbers worked by hand."""

import csv
import math
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
Load = Callable[[str], ModuleType]
Make = Callable[..., object]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def row(load: Load) -> Make:
    """Make a forecast beside its measurement; its interval is a factor of 1.5 each way."""

    def make(measured: float, forecast: float, gpu: str = "a", launch: str = "1") -> object:
        row: object = load("timing_scores").Row(
            "set", "kernel", launch, gpu, measured, forecast, forecast / 1.5, forecast * 1.5
        )
        return row

    return make


def test_scores_worked_by_hand(load: Load, row: Make) -> None:
    found = load("timing_scores").score([row(1.0, 2.0), row(4.0, 2.0), row(10.0, 9.0)])
    assert found.n == 3
    assert found.mape == pytest.approx((1 + 0.5 + 0.1) / 3)
    assert found.median == pytest.approx(0.5)
    assert found.bias == pytest.approx((2 * 0.5 * 0.9) ** (1 / 3))
    assert found.coverage == pytest.approx(1 / 3), "2 and 0.5 lie outside of a factor of 1.5"


def test_a_bound_of_the_interval_counts_as_inside(load: Load, row: Make) -> None:
    assert load("timing_scores").score([row(3.0, 2.0)]).coverage == 1


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        # Without ties it is 1 - 6 sum(d^2) / (n (n^2 - 1)); here d = (1, -1, 0, 0).
        ([1, 2, 3, 4], [2, 1, 3, 4], 1 - 6 * 2 / (4 * 15)),
    ],
)
def test_spearman(load: Load, one: list[float], other: list[float], expected: float) -> None:
    assert load("timing_scores").spearman(one, other) == pytest.approx(expected)


def test_spearman_with_ties_is_the_correlation_of_mean_ranks(load: Load) -> None:
    one, other = [5.0, 5.0, 7.0, 1.0], [2.0, 3.0, 9.0, 2.0]
    expected = np.corrcoef([1.5, 1.5, 3, 0], [0.5, 2, 3, 0.5])[0, 1]
    assert load("timing_scores").spearman(one, other) == pytest.approx(expected)
    assert math.isnan(load("timing_scores").spearman([1.0, 1.0], [1.0, 2.0]))


def test_pairs_of_one_launch(load: Load, row: Make) -> None:
    rows = [row(1.0, 1.0, "a"), row(1.05, 0.9, "b"), row(3.0, 2.0, "c"), row(9.0, 0.1, "d", "another launch")]
    pairs = load("timing_scores").pairs
    every = pairs(rows, lambda r: r.forecast)
    assert (every.n, every.right) == (2, 1.0), "a and b are too close; d ran another launch"
    assert pairs(rows, lambda r: r.forecast, 1.1, 2.0).n == 0
    assert pairs(rows, lambda r: -r.forecast).right == 0
    assert pairs(rows, lambda _: 1.0).right == 0.5, "a draw counts half"
    assert math.isnan(pairs([], lambda r: r.forecast).right)


def test_a_sample_is_spread_and_part_of_a_larger_one(load: Load) -> None:
    spread = load("timing_cases").spread
    items = [(item * 37) % 100 for item in range(100)]
    few, many = spread(items, lambda item: (item,), 16), spread(items, lambda item: (item,), 50)
    assert len(few) == 16
    assert len(many) == 50
    assert set(few) < set(many)
    assert max(b - a for a, b in pairwise(few)) <= 8, "no gap is over two steps of 100 / 16"
    assert spread(items, lambda item: (item,), None) == list(range(100))
    assert spread(items, lambda item: (item,), 1000) == list(range(100))
    assert spread([], lambda item: (item,), 3) == []


def configurations(count: int) -> list[list[dict[str, object]]]:
    """Return made-up rows as Kernel Tuner has them, one GPU each."""
    return [
        [
            {
                "config": str(number), "time_us_median": 100.0 + (number * 61) % count,
                "p_block_size_x": 16 * (1 + number % 4), "p_block_size_y": 1 + number % 2,
                "p_tile_size_x": 1 + number % 3, "p_tile_size_y": 1 + number % 5,
                "p_read_only": 0, "p_use_padding": 0,
            }
        ]
        for number in range(count)
    ]  # fmt: skip


def test_stratified_configurations_are_always_the_same_and_cover_all_times(load: Load) -> None:
    stratified = load("timing_convolutions").stratified
    configs = configurations(200)
    chosen = [rows[0] for rows in stratified(configs, 40)]
    assert chosen == [rows[0] for rows in stratified(configs[::-1], 40)], "the order of the file does not matter"
    assert len({row["config"] for row in chosen}) == 40
    tenths = np.array([(row["time_us_median"] - 100) * 10 // 200 for row in chosen])
    assert np.bincount(tenths.astype(int), minlength=10).min() >= 2, "of each tenth of the times some"


def test_a_configuration_becomes_the_measured_launch(load: Load) -> None:
    module = load("timing_convolutions")
    rows = {
        "p_block_size_x": 48, "p_block_size_y": 4, "p_tile_size_x": 3, "p_tile_size_y": 2, "p_read_only": 1,
        "p_use_padding": 1, "p_use_shmem": 0,
    }  # fmt: skip
    launch = module.convolution_launch(rows)
    assert launch.grid == (29, 512, 1), "4096 / 144 and 4096 / 8 rounded up"
    assert launch.block == (48, 4, 1)
    assert dict(launch.defines)["use_shmem"] == "0"
    assert module.convolution_size(rows) == "48x4x3x2 read_only use_padding"
    del rows["p_use_shmem"]
    assert dict(module.convolution_launch(rows).defines)["use_shmem"] == "1"


def test_the_layer_has_the_thirteen_published_times(load: Load) -> None:
    cases = load("timing_convolutions").layer(None)
    assert len(cases) == 13
    assert {case.gpu for case in cases} == {"titan-v"}
    by_size = {case.size: case for case in cases}
    assert by_size["2 channels, blocks of 32 x 32"].launch.grid == (1, 1, 2)
    assert by_size["32 channels, blocks of 4 x 4"].launch.grid == (8, 8, 32)
    assert by_size["512 channels, blocks of 32 x 32"].seconds == pytest.approx(9.9316e-3)


def test_lud_grids_say_how_far_the_decomposition_is(load: Load) -> None:
    _, launch = load("timing_cases").rodinia_launch("lud_perimeter", 256, 7)
    assert launch == load("timing_cases").rodinia_launch("lud_perimeter", 256, 7)[1]
    offset = next(argument.value for argument in launch.arguments if argument.name == "offset")
    assert offset == 128, "7 blocks of 16 to the right of the diagonal block at 128 .. 143"
    assert launch.block == (32, 1, 1)
    assert load("timing_cases").rodinia_launch("lud_internal", 256, 7)[1].grid == (7, 7, 1)


def test_every_clock_has_its_evidence_and_every_set_its_clocks(load: Load) -> None:
    with (BENCHMARKS / "timing_clocks.csv").open(encoding="utf-8", newline="") as text:
        assert all(line["evidence"] for line in csv.DictReader(text))
    clocks = load("timing_cases").read_clocks()
    assert clocks["layer", "titan-v"] == 1.2e9
    assert all(clock in {"base", "boost", "default"} or 0.5e9 < clock < 3e9 for clock in clocks.values())
    assert {name for name, _ in clocks} == set(load("timing_convolutions").SETS)


def test_all_of_one_launch_are_forecast_together(load: Load) -> None:
    cases = load("timing_convolutions").layer(None)
    runs = load("timing_runs")
    gpus, missing = runs.known_gpus(cases)
    work = runs.units(cases, gpus, load("timing_cases").read_clocks())
    assert not missing
    assert len(work) == 12, "32 channels in blocks of 32 x 32 were measured twice"
    assert {gpu.clock_hz for unit in work for gpu in unit.gpus} == {1.2e9}


def test_a_unit_is_forecast_and_its_code_kept(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = load("timing_runs")
    monkeypatch.setattr(runs, "COMPILED", tmp_path)
    cases = load("timing_convolutions").layer(None)[4:5]
    gpus, _ = runs.known_gpus(cases)
    (unit,) = runs.units(cases, gpus, load("timing_cases").read_clocks())
    plan = runs.Plan("roofline", sample_seconds=0.05)
    (first,) = runs.forecast_unit(unit, plan)
    assert [p.model for p in first.predictions] == ["roofline", "template"]
    assert first.clock_hz == 1.2e9
    assert not first.refused
    monkeypatch.setattr(runs, "_compile", lambda *_: pytest.fail("compiled again"))
    (again,) = runs.forecast_unit(unit, plan)
    assert again.predictions == first.predictions
    table = load("score_timing").report([first], "roofline", gpus)
    assert "| layer | convolution_layer | roofline | 1 |" in table
    assert "0 of 1 cases (0.0%)" in table


def test_kernels_are_told_by_their_signature(load: Load) -> None:
    kernel_of = load("timing_hecbench").kernel_of
    assert kernel_of("softMax2(int, int, const float *, float *)") == "softMax2"
    assert kernel_of("void minkowski<512, 1024, 2048>(const float *, float)") == "minkowski"
    assert kernel_of("void cross_kernel<float, int>(int, T1 *, T2)") == "cross_kernel"


def test_a_kernel_of_hecbench_takes_the_median_of_rows_of_its_shape(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("timing_hecbench")
    rows = [
        {"targetName": "softmax-cuda", "kernelName": "softMax", "Kernel Name": f"{name}(int, int)",
         "Grid Size": f"({blocks}, 1, 1)", "Block Size": "(256, 1, 1)", "time_ns": time, "exeArgs": math.nan}
        for name, blocks, time in (
            ("softMax2", 12500, 3e6), ("softMax2", 12500, 1e6), ("softMax2", 12500, 2e6), ("softMax2", 391, 9e6),
            ("softMax", 12500, 8e6),
        )
    ]  # fmt: skip
    monkeypatch.setattr(module, "read_rows", lambda _: rows)
    (case,) = module.hecbench(None)
    assert (case.kernel, case.gpu) == ("softmax softMax2", "rtx-3080")
    assert case.seconds == pytest.approx(2e-3)
    assert case.launch.block == (256, 1, 1)


def test_every_gpu_of_hecbench_and_every_set_has_a_clock(load: Load) -> None:
    assert load("timing_cases").read_clocks()["hecbench", "rtx-3080"] == "base"
    assert load("timing_runs").load_known("rtx-3080").sm_count == 68, "kerncast itself has no file of it"
