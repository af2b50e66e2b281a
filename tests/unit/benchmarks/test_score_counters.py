"""The comparison with counters that others measured, on made-up rows."""

import math
import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import pytest

from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


def vecmat_row(**changes: object) -> dict[str, object]:
    """Return a row as gpuperfpredict has it: 1024 x 1024 points, each summed by one thread."""
    row: dict[str, object] = {
        "gpu": "GTX-680", "app": "matrix_sum_coalesced", "kernel": "matSum(float*, float*, float*, int)",
        "input_size": 1024, "grid_x": 64, "grid_y": 64, "grid_z": 1, "block_x": 16, "block_y": 16, "block_z": 1,
        "gld_request": 4096.0, "inst_executed": 1000.0, "global_load": float("nan"),
    }  # fmt: skip
    return row | changes


def test_a_row_becomes_the_measured_launch(load: Load) -> None:
    (case,) = load("counter_cases").vecmat_cases([vecmat_row()])
    assert (case.source, case.gpu, case.launch.grid, case.launch.block) == (
        "Kepler",
        "gtx-680",
        (64, 64, 1),
        (16, 16, 1),
    )
    assert case.launch.defines == (("TILE", "16"),)
    assert [str(argument.value) for argument in case.launch.arguments] == 3 * ["f32[1024, 1024] zeros"] + ["1024"]
    assert case.counter("gld_request") == 4096
    assert case.counter("global_load") is None, "not a number: not measured"


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "Tesla-K40"},
        {"input_size": 257},
        {"app": "another"},
        {"app": "matMul_gpu", "kernel": "matMul(float*, float*, float*, int, int)"},
    ],
)
def test_other_rows_are_left_out(load: Load, changes: dict[str, object]) -> None:
    assert load("counter_cases").vecmat_cases([vecmat_row(**changes)]) == []


def test_repeated_rows_count_once(load: Load) -> None:
    assert len(load("counter_cases").vecmat_cases([vecmat_row(), vecmat_row(gld_request=1.0)])) == 1


def test_a_counter_adds_weighs_and_multiplies(load: Load) -> None:
    counter = load("counters").Counter("FLOPs", ("m",), ("add", "2 fma", "ratio * requests"))
    assert counter.value({"add": 1.0, "fma": 10.0, "ratio": 4.0, "requests": 25.0}) == 121
    assert counter.value({"add": 1.0, "fma": 10.0}) is None, "a missing metric is not zero"


def test_ratios_and_their_table(load: Load) -> None:
    score, cases = load("score_counters"), load("counter_cases")
    metrics = {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 4096.0,
        "smsp__inst_executed.sum": 1300.0,
    }
    (case,) = cases.vecmat_cases([vecmat_row()])
    ratios = list(score.compare(case, metrics))
    assert {ratio.counter: ratio.value for ratio in ratios} == {"global load requests": 1.0, "warp instructions": 1.3}
    assert "| Kepler | warp instructions | 1 | 1.300 | 30.0% | 30.0% | 0% |" in score.summary(ratios)
    assert "| Kepler | global load requests | 1 | 1.000 | 0.0% | 0.0% | 100% |" in score.summary(ratios)


def test_what_did_not_happen_has_no_ratio(load: Load) -> None:
    score, cases = load("score_counters"), load("counter_cases")
    (case,) = cases.vecmat_cases([vecmat_row(inst_executed=0.0)])
    assert list(score.compare(case, {"smsp__inst_executed.sum": 0.0})) == []
    (invented,) = score.compare(case, {"smsp__inst_executed.sum": 500.0})
    assert invented.value == math.inf


def test_deviations_are_grouped_by_the_first_reason_that_fits(load: Load) -> None:
    score = load("score_counters")
    found = (
        ("branches", "a", 20.0),
        ("branches", "a", 10.0),
        ("thread instructions", "a", 5.0),
        ("branches", "b", 5.0),
    )
    ratios = [score.Ratio("Kepler", counter, kernel, "gtx-680", "", ours, 10.0) for counter, kernel, ours in found]
    reasons = [score.Reason("Maxwell", "", "", "wrong"), score.Reason("Kepler", "", "a", "unrolled")]
    assert score.deviations(ratios, reasons).splitlines()[2:] == [
        "| Kepler | branches, thread instructions | a | 2 | 0.50 to 2.00 | unrolled |",
        f"| Kepler | branches | b | 1 | 0.50 to 0.50 | {score.UNEXPLAINED} |",
    ]


def test_every_reason_names_what_is_compared(load: Load) -> None:
    score, counters = load("score_counters"), load("counters").COUNTERS
    for reason in score.read_reasons():
        assert reason.source in {"", *counters}
        assert reason.counter in {"", *(each.name for members in counters.values() for each in members)}
        assert reason.text


@pytest.mark.parametrize("module", ["hecbench_launches", "hecbench_memory_launches"])
def test_every_equivalent_gets_the_arguments_of_its_kernel(load: Load, module: str) -> None:
    launches = load(module)
    source = launches.SOURCE.read_text(encoding="utf-8")
    parameters = {
        name: len(listed.split(",")) for name, listed in re.findall(r"__global__ void (\w+)\(([^)]*)\)", source)
    }
    found = launches.memory_launches() if module == "hecbench_memory_launches" else launches.LAUNCHES
    assert {launch.kernel: len(launch.arguments) for launch in found.values()} == parameters
