"""The ladder of products: each kernel multiplies right, and the tables say what the forecasts do."""

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from kerncast.execute import WholeGrid, execute
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import Count
from tests.helpers.places import ROOT
from tests.helpers.programs import arguments_before, compiled

SIZE = 256
KERNELS = (
    "product_column", "product_coalesced", "product_shared", "product_line", "product_square", "product_float4",
    "product_warp", "product_double",
)  # fmt: skip


@pytest.fixture
def ladder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("product_ladder")


def test_the_steps_are_the_kernels(ladder: ModuleType) -> None:
    assert tuple(step.kernel for step in ladder.STEPS) == KERNELS


@pytest.mark.parametrize("number", range(len(KERNELS)), ids=KERNELS)
def test_each_step_multiplies_right(ladder: ModuleType, number: int) -> None:
    launch = ladder.ladder_launch(ladder.STEPS[number], SIZE)
    kernel = compiled(launch).kernels[0]
    before = arguments_before(kernel, launch)
    trace, _ = execute(kernel, launch, WholeGrid())
    expected = before["A"].astype(np.float64) @ before["B"]
    assert not np.array_equal(before["A"], before["B"])
    np.testing.assert_allclose(trace.memory["C"].reshape(SIZE, SIZE), expected, rtol=1e-5)


def test_the_tables(ladder: ModuleType) -> None:
    rungs = [rung(ladder, number) for number in range(len(KERNELS))]
    speedups = ladder.speedup_table({"GPU": rungs})
    assert speedups[2] == "| 2 coalesced | 2.00 |"
    assert speedups[-1] == "| all | 128 |"
    times = ladder.time_table(rungs)
    assert times[2] == "| 1 uncoalesced | 128.000 | 1 % | – | l1 | l1 90 %, issue 5 % | barrier |"
    assert times[3].startswith("| 2 coalesced | 64.000 | 2 % | 2.00 |")
    assert ladder.counter_table(rungs)[2] == "| 1 uncoalesced | 2 to 9 | 3 | – | – | – | – | – | – | – |"


def rung(ladder: ModuleType, number: int) -> object:
    """Return a made-up step that takes half as long as the one before."""
    seconds = 0.128 / 2**number
    forecast = Prediction(
        "k", 0, "V100 SXM2 16GB", "v100-sxm2-16gb", seconds, seconds, seconds, 0.9, Timing.SERIES, "l1", (), (),
        "simulation",
    )  # fmt: skip
    counts = {"dram__bytes.sum": Count(4e6, 2e6, 9e6), "lts__t_bytes.sum": Count.exact(3e6)}
    return ladder.Rung(ladder.STEPS[number], 2048, forecast, counts, (("l1", 0.9), ("issue", 0.05)), "barrier")
