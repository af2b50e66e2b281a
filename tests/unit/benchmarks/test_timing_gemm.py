"""CLBlast's matrix product: each configuration multiplies right, and becomes the launch that was timed."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

from kerncast.execute import Budget, WholeGrid, execute
from kerncast.forecast import profile_launch
from kerncast.profiles.counts import FP32_FLOPS
from tests.helpers.places import ROOT
from tests.helpers.programs import arguments_before, compiled

TIMES = ROOT.parent / "shared" / "data" / "kernel_tuner_hub" / "gemm_kt2023.parquet"
SIDE = 128
PARAMETERS = {
    "MWG": 64, "NWG": 32, "KWG": 32, "MDIMC": 8, "NDIMC": 16, "MDIMA": 16, "NDIMB": 8, "KWI": 2, "VWM": 1, "VWN": 1,
    "STRM": 0, "STRN": 0, "SA": 0, "SB": 0,
}  # fmt: skip
CONFIGURATIONS: tuple[dict[str, int], ...] = (
    {},
    {"MDIMA": 8, "VWM": 8, "SA": 1},
    {"VWM": 2, "VWN": 2, "SB": 1},
    {"VWM": 4, "VWN": 2, "SA": 1, "SB": 1, "STRM": 1},
    {"VWM": 2, "SA": 1, "SB": 1, "STRM": 1, "STRN": 1},
    {"MWG": 32, "NWG": 64, "VWM": 1, "VWN": 4, "STRN": 1},
    {"MWG": 128, "NWG": 128, "MDIMC": 16, "NDIMC": 8, "NDIMB": 16, "VWM": 8, "VWN": 8, "SB": 1},
)
Load = Callable[[str], ModuleType]

needs_data = pytest.mark.skipif(
    not TIMES.exists() or find_spec("pandas") is None, reason="the measurements or pandas are not here"
)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


def row(**changes: object) -> dict[str, object]:
    """Return a row as the data has it."""
    return {"gpu": "NVIDIA TITAN RTX", "config": "1"} | {f"p_{name}": n for name, n in (PARAMETERS | changes).items()}


@pytest.mark.parametrize("changes", CONFIGURATIONS, ids=str)
def test_each_configuration_multiplies_right(load: Load, changes: dict[str, int]) -> None:
    launch = load("timing_gemm").gemm_launch(row(**changes), SIDE)
    kernel = compiled(launch).kernels[0]
    before = arguments_before(kernel, launch)
    trace, _ = execute(kernel, launch, WholeGrid())
    expected = before["B"].T.astype(np.float64) @ before["A"]
    np.testing.assert_allclose(trace.memory["C"].reshape(SIDE, SIDE), expected, rtol=1e-5)


def test_an_addition_and_a_product_per_step_and_three_operations_per_result(load: Load) -> None:
    launch = load("timing_gemm").gemm_launch(row(), SIDE)
    counts = profile_launch(launch, budget=Budget.for_sample(0.05)).counts
    assert counts[FP32_FLOPS].value == pytest.approx(2 * SIDE**3 + 3 * SIDE**2)


def test_a_configuration_becomes_the_measured_launch(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("timing_gemm")
    times = {"time_us_first": 1000.0, "time_us_median": 1200.0}
    monkeypatch.setattr(module, "read_rows", lambda _: [row(VWN=2, SB=1) | times])
    (case,) = module.gemm(None)
    assert (case.gpu, case.seconds) == ("titan-rtx", pytest.approx(1e-3)), "the first repetition"
    assert case.size == "64x32 threads 8x16 copy 16x8 vectors 1x2 SB"
    assert (case.launch.grid, case.launch.block) == ((64, 128, 1), (8, 16, 1))
    assert dict(case.launch.defines)["VWN"] == "2"


@needs_data
def test_launches_have_the_measured_grids(load: Load) -> None:
    module = load("timing_gemm")
    rows = load("timing_cases").read_rows(TIMES)
    for each in rows[:: len(rows) // 200]:
        launch = module.gemm_launch(each)
        assert list(launch.grid) == [each[f"grid_{axis}"] for axis in "xyz"]
        assert list(launch.block) == [each[f"block_{axis}"] for axis in "xyz"]


@needs_data
def test_a_sample_has_all_gpus_and_a_smaller_one_is_part_of_it(load: Load) -> None:
    few, many = (load("timing_gemm").gemm(count) for count in (24, 96))
    assert (len(few), len(many)) == (72, 288)
    assert {(case.size, case.gpu) for case in few} < {(case.size, case.gpu) for case in many}
