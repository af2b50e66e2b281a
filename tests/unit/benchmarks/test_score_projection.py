"""The scores of projections, on made-up pairs and on numbers worked by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

from kerncast.gpu import load_gpu
from kerncast.models import Case
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile, SourceRun
from kerncast.profiles.counts import DRAM_BYTES, FP64_FLOPS, L1_BYTES, L2_BYTES, SHARED_BYTES
from kerncast.read.declared import declared_profile
from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
DATA = BENCHMARKS.parent.parent / "shared" / "data"
Load = Callable[[str], ModuleType]
Make = Callable[..., object]
needs_data = pytest.mark.skipif(
    not DATA.exists() or find_spec("pandas") is None, reason="the measurements or pandas are not here"
)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


@pytest.fixture
def projected(load: Load) -> Make:
    """Make a projection of a launch of 1 s onto a GPU where it took some time."""

    def make(measured: float, forecast: float, width: float = 1.0, model: str = "a", size: str = "1") -> object:
        scores = load("projection_scores")
        pair = scores.Pair("set", "kernel", size, "k20", "k40", 1.0, measured)
        found: object = scores.Projected(pair, model, forecast, forecast / width, forecast * width)
        return found

    return make


def measured_profile(gpu: str, seconds: float, flops: float, dram_bytes: float) -> KernelProfile:
    """Return a kernel of so much work, measured on a GPU."""
    profile = declared_profile("k", (1024, 1, 1), (256, 1, 1), fp32_flops=flops, dram_bytes=dram_bytes)
    return replace(profile, run=SourceRun(load_gpu(gpu), seconds, Timing.PROFILER))


def test_scores_worked_by_hand(load: Load, projected: Make) -> None:
    found = load("projection_scores").score([projected(1.0, 2.0, 1.5), projected(4.0, 2.0, 2.0)])
    assert found.n == 2
    assert found.mape == pytest.approx(0.75)
    assert found.bias == pytest.approx(1.0), "twice and half of the truth"
    assert found.coverage == 0.5, "4 s are at the end of 1 to 4, 1 s is outside of 1.33 to 3"
    assert found.width == pytest.approx((1.5**2 + 2.0**2) / 2)


def test_a_rule_of_thumb_has_no_interval(load: Load, projected: Make) -> None:
    found = load("projection_scores").score([projected(1.0, 2.0)])
    assert found.coverage is None
    assert found.width is None


@pytest.mark.parametrize(("source", "target"), [([1.0, 2.0, 4.0, 7.0], [3.0, 1.0, 9.0, 5.0]), ([5.0], [2.0])])
def test_no_other_constant_is_better(load: Load, source: list[float], target: list[float]) -> None:
    def error(factor: float) -> float:
        return sum(abs(factor * one / other - 1) for one, other in zip(source, target, strict=True))

    best = load("projection_scores").best_factor(source, target)
    assert error(best) <= min(error(step / 1000) for step in range(1, 5000)) + 1e-9


def test_the_constant_is_fitted_per_pair_of_gpus(load: Load, projected: Make) -> None:
    scores = load("projection_scores")
    rows = [projected(2.0, 9.0, size="1"), projected(2.0, 9.0, size="2")]
    found = [each for each in scores.with_constants(rows) if each.model == scores.CONSTANT]
    assert [each.seconds for each in found] == [2.0, 2.0]


def test_only_pairs_that_all_have_are_compared(load: Load, projected: Make) -> None:
    every = [projected(1.0, 1.0, model=model, size=size) for size in "12" for model in "ab"]
    refused_once = every[:-1]
    assert load("projection_scores").in_common(refused_once) == every[:2]


def test_rules_of_thumb_against_data_sheets(load: Load) -> None:
    """GTX 680 to K40: 192.3 and 288.4 GB/s; 8 SMs at 1058 and 15 at 875 MHz, both with 192 lanes."""
    scores = load("projection_scores")
    profile = measured_profile("gtx-680", 1e-3, flops=1e9, dram_bytes=1e9)
    pair = scores.Pair("set", "k", "1", "gtx-680", "k40", 1e-3, 1e-3)
    case = Case(profile, load_gpu("k40").at_clock("boost"), None, profile)
    found = {each.model: each.seconds for each in scores.rules_of_thumb(pair, case)}
    assert found["DRAM bandwidth"] == pytest.approx(1e-3 * 192.3 / 288.4)
    assert found["SMs x clock"] == pytest.approx(1e-3 * 8 * 1058 / (15 * 875))
    assert found["SMs x lanes x clock"] == pytest.approx(found["SMs x clock"])
    assert found["naive roofline"] == pytest.approx(found["DRAM bandwidth"]), "1 GFLOP takes less than 1 GB"


def test_a_kernel_without_work_has_no_roofline(load: Load) -> None:
    scores = load("projection_scores")
    profile = measured_profile("gtx-680", 1e-3, flops=0.0, dram_bytes=0.0)
    pair = scores.Pair("set", "k", "1", "gtx-680", "k40", 1e-3, 1e-3)
    names = {each.model for each in scores.rules_of_thumb(pair, Case(profile, load_gpu("k40"), None, profile))}
    assert "naive roofline" not in names


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("k20", "gtx-titan", "GK110, other boards"),
        ("gtx-680", "k40", "GK104 and GK110"),
        ("k40", "gtx-680", "GK104 and GK110"),
        ("gtx-980", "k40", "from Maxwell to Kepler"),
        ("gtx-980", "gtx-750", "GM107 and GM204"),
        ("rtx-2080-ti", "rtx-3090", "from Turing to Ampere"),
    ],
)
def test_classes_of_pairs(load: Load, source: str, target: str, expected: str) -> None:
    assert load("projection_scores").pair_class(load_gpu(source), load_gpu(target)) == expected


def test_every_class_has_a_name(load: Load) -> None:
    """Chips and generations of all GPUs that the sets can name are known."""
    scores = load("projection_scores")
    gpus = [load_gpu(name) for name in ("k20", "k40", "gtx-titan", "gtx-titan-black", "gtx-680", "gtx-750", "gtx-980")]
    for source in gpus:
        assert all("sm_" not in scores.pair_class(source, target) for target in gpus)


@pytest.mark.parametrize("rate", [1.0, 1000.0, math.nan])
def test_writes_to_dram_come_from_rates_of_one_replay(load: Load, rate: float) -> None:
    row = {
        "device_memory_read_transactions": 1000.0, "device_memory_read_throughput": 10.0,
        "device_memory_write_throughput": 2.0 * rate, "l2_write_transactions": 210.0,
    }  # fmt: skip
    found = load("projection_cases").with_writes(row)
    if rate == 1.0:
        assert found["device_memory_write_transactions"] == pytest.approx(200.0)
    else:
        assert found == row, "a unit mistaken by 1000, and a rate that was not measured, tell nothing"


@needs_data
def test_a_smaller_sample_is_part_of_a_larger_one(load: Load) -> None:
    cases = load("projection_cases")
    few, more = (cases.read_cases(["convolution-ktt"], count, full=False) for count in (7, 21))
    assert len(few) == 7
    assert {each.launch for each in few} < {each.launch for each in more}
    assert all(each.runs[0].counters for each in few)


@needs_data
def test_a_run_is_read_as_nvprof_counted_it(load: Load) -> None:
    """Transactions of nvprof in bytes: 32 each in L2 and DRAM; FP64 operations of backprop with the FMAs twice."""
    cases, profiles = load("projection_cases"), load("projection_profiles")
    launched = cases.rodinia(4)[0]
    run = next(run for run in launched.runs if run.gpu == "k40")
    row = run.counters
    found = profiles.nvprof_profile(launched, row, run.seconds, load_gpu("k40"))
    transactions = row["device_memory_read_transactions"] + row["device_memory_write_transactions"]
    assert launched.kernel == "backprop_adjust_weights"
    assert found.counts[DRAM_BYTES].value == pytest.approx(32 * transactions)
    assert found.counts[L2_BYTES].value == 32 * (row["l2_read_transactions"] + row["l2_write_transactions"])
    assert found.counts[FP64_FLOPS].value == row["floating_point_operations_double_precision"]
    assert found.run.seconds == pytest.approx(row["time_us_median"] * 1e-6)
    assert found.run.achieved_occupancy == pytest.approx(row["achieved_occupancy"])


@needs_data
def test_a_run_is_read_as_nsight_compute_counted_it(load: Load) -> None:
    cases, profiles = load("projection_cases"), load("projection_profiles")
    launched = cases.convolution(1)[0]
    source, target = launched.runs
    row = source.counters
    found = profiles.ncu_profile(launched, row, source.seconds, load_gpu("rtx-2080-ti"))
    assert target.counters is None, "the target only has times"
    assert found.counts[DRAM_BYTES].value == 32 * (row["dram__sectors_read.sum"] + row["dram__sectors_write.sum"])
    assert found.counts.get(SHARED_BYTES) is None, "not counted: the executor has to"
    assert found.counts.get(L1_BYTES) is None
    assert found.resources.registers_per_thread == row["regs_per_thread"]


def test_refusals_are_counted_by_model_and_reason(load: Load) -> None:
    runs, main = load("projection_runs"), load("score_projection")
    refused = tuple(runs.Refused("set", "k", "k40", "ceilings", "no bytes") for _ in range(2))
    lines = main.refused([runs.Outcome((), refused, 4)]).splitlines()
    assert lines[0] == "4 ordered pairs were asked of each model."
    assert "- ceilings: 2 refused (50.0%)" in lines
    assert "- algorithm1: 0 refused (0.0%)" in lines
    assert lines[-1] == "- 2 x set, k, ceilings: no bytes"


def test_tables_hold_every_group(load: Load, projected: Make) -> None:
    rows = [projected(1.0, 1.5, 2.0, "ceilings"), projected(1.0, 0.5, 1.0, "SMs x clock")]
    lines = load("score_projection").table(rows, "set", lambda each: (each.pair.set,)).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|")
    assert lines[2] == "| set | ceilings | 1 | 50.0% | 50.0% | 50.0% | 1.50 | 100% | 4.00 |"
    assert lines[3].startswith("| set | SMs x clock | 1 | 50.0% | 50.0% | 50.0% | 0.50 | |")


def test_a_comparison_has_a_line_per_group_and_a_column_per_model(load: Load, projected: Make) -> None:
    rows = [projected(1.0, 1.5, 2.0, "ceilings"), projected(1.0, 0.5, 1.0, "SMs x clock")]
    lines = load("score_projection").comparison(rows, "set", lambda each: (each.pair.set,)).splitlines()
    assert lines[0] == "| set | n | pipes | algorithm1 | ceilings | SMs x clock |"
    assert lines[2] == "| set | 1 |  |  | 50.0/50.0; 100% | 50.0/50.0 |"
