"""Kernels of the RAJA Performance Suite: which launches a repetition is, and whether they do the original's work."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.execute import Budget
from kerncast.forecast import profile_launch
from kerncast.launch import Launch, Reference
from kerncast.prediction import Prediction, Term, Timing
from kerncast.profiles.counts import DRAM_BYTES_ONCE, FP64_FLOPS
from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
TIMES = ROOT.parent / "shared" / "data" / "rajaperf_v100" / "times.parquet"
Load = Callable[[str], ModuleType]

KERNELS = (
    "ADD", "ATAX", "COPY", "DAXPY", "DAXPY_ATOMIC", "ENERGY", "EOS", "FDTD_2D", "FIR", "FLOYD_WARSHALL", "GEMVER",
    "GEN_LIN_RECUR", "HYDRO_1D", "INIT_VIEW1D", "INIT_VIEW1D_OFFSET", "JACOBI_1D", "MAT_MAT_SHARED", "MEMCPY", "MUL",
    "MULADDSUB", "TRIDIAG_ELIM", "ZONAL_ACCUMULATION_3D",
)  # fmt: skip
SIZE, BLOCK = 2**20, 256
#: Where the suite's own counts are not what its kernel does here, as a share of them: it counts the long way through
#: ENERGY's conditions, the addition of an atomic, one matrix less of a product, and no gaps between zones.
FLOPS = {"ENERGY": 0.455, "DAXPY_ATOMIC": 0.5}
BYTES = {"MAT_MAT_SHARED": 1.5, "ZONAL_ACCUMULATION_3D": 1.044}

needs_data = pytest.mark.skipif(
    not TIMES.exists() or find_spec("pandas") is None, reason="the measurements or pandas are not here"
)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Load:
    """Import a script of the folder as its siblings do; lists of zones go to a folder of this test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(import_module("timing_rajaperf"), "LISTS", tmp_path)
    return import_module


def row(kernel: str, us_per_rep: float, launches: int = 1, **changes: object) -> dict[str, object]:
    """Return a row as the data has it."""
    return {
        "kernel": kernel, "size_arg": SIZE, "block": BLOCK, "us_per_rep": us_per_rep, "launches_per_rep": launches,
        "sync_in_rep": False, **changes,
    }  # fmt: skip


def totals(launches: Iterable[Launch]) -> tuple[float, float]:
    """Return the floating-point operations and the bytes of all launches."""
    counts = [profile_launch(launch, budget=Budget.for_sample(0.02)).counts for launch in launches]
    return sum(each[FP64_FLOPS].value for each in counts), sum(each[DRAM_BYTES_ONCE].value for each in counts)


def test_a_repetition_becomes_one_launch_or_the_sum_of_different_ones(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("timing_rajaperf")
    rows = [
        *(row("ADD", us) for us in (9.0, 10.0, 30.0)),
        row("JACOBI_1D", 320.0, 32),
        row("FDTD_2D", 400.0, 160),
        row("REDUCE_SUM", 50.0, sync_in_rep=True),
    ]
    monkeypatch.setattr(module, "read_rows", lambda _: rows)
    cases = {case.kernel: case for case in module.rajaperf(None)}
    assert set(cases) == {"ADD", "JACOBI_1D", "FDTD_2D"}, "the sum's time is mostly the host's"
    assert cases["ADD"].seconds == pytest.approx(10e-6), "the median"
    assert cases["JACOBI_1D"].seconds == pytest.approx(10e-6), "32 launches alike"
    assert cases["FDTD_2D"].seconds == pytest.approx(10e-6), "40 steps of four launches"
    assert [launch.kernel for launch in cases["FDTD_2D"].launches] == [f"fdtd_2d_{part}" for part in (1, 2, 3, 4)]
    assert {(case.gpu, case.timing) for case in cases.values()} == {("v100-sxm2-16gb", Timing.SERIES)}


def test_four_launches_of_a_kernel_have_all_sizes_and_blocks(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("timing_rajaperf")
    sizes, blocks = [2**power for power in (20, 21, 22, 23)], [128, 256, 512, 1024]
    rows = [row("ADD", 1.0, size_arg=size, block=block) for size in sizes for block in blocks]
    monkeypatch.setattr(module, "read_rows", lambda _: rows)
    cases = module.rajaperf(4)
    assert sorted(case.launch.block[0] for case in cases) == blocks
    assert sorted(case.launch.threads_per_block * case.launch.blocks for case in cases) == sizes


def test_launches_have_the_shapes_of_the_suite(load: Load) -> None:
    launches = load("timing_rajaperf").rajaperf_launches
    (product,) = launches("MAT_MAT_SHARED", 2**21, 1024)
    assert (product.grid, product.block) == ((46, 46, 1), (32, 32, 1)), "1448 a side"
    (paths,) = launches("FLOYD_WARSHALL", SIZE, 128)
    assert (paths.grid, paths.block) == ((33, 257, 1), (32, 4, 1)), "1025 a side"
    assert [launch.grid[0] for launch in launches("GEN_LIN_RECUR", SIZE, 1024)] == [1024, 1025]
    assert len(launches("ENERGY", SIZE, BLOCK)) == 6


def test_zones_are_the_inside_of_a_cube(load: Load) -> None:
    (launch,) = load("timing_rajaperf").rajaperf_launches("ZONAL_ACCUMULATION_3D", 64, 128)
    values = {argument.name: argument.value for argument in launch.arguments}
    zones = np.load(values["zones"].fill.path)
    assert (len(zones), zones[0], zones[1], zones[4]) == (
        64,
        2 + 8 * 2 + 64 * 2,
        3 + 8 * 2 + 64 * 2,
        2 + 8 * 3 + 64 * 2,
    )
    assert values["x7"] == Reference("x0", 1 + 8 + 64)
    assert zones[-1] + values["x7"].offset < values["x0"].count


def test_the_forecast_of_several_launches_is_their_sum(load: Load) -> None:
    caveat = Caveat(CaveatKind.MACHINE_CODE_ESTIMATED)
    one = Prediction(
        "k", 0, "GPU", "gpu", 2.0, 1.0, 3.0, 0.9, Timing.SERIES, "dram", (Term("dram", 2.0),), (caveat,), "model"
    )
    other = replace(one, seconds=5.0, low=4.0, high=8.0, limiter="l1", terms=(Term("l1", 5.0), Term("dram", 1.0)))
    found = load("timing_runs").joined([one, other])
    assert (found.seconds, found.low, found.high, found.limiter) == (7.0, 5.0, 11.0, "l1")
    assert (found.term("dram"), found.term("l1")) == (3.0, 5.0)
    assert found.caveats == (caveat,)
    assert load("timing_runs").joined([one]) is one


def test_launches_in_a_row_are_forecast_together(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs, cases = load("timing_runs"), load("timing_cases")
    monkeypatch.setattr(runs, "COMPILED", tmp_path)
    first, second = load("timing_rajaperf").rajaperf_launches("GEN_LIN_RECUR", 2**12, BLOCK)
    case = cases.Case("rajaperf", "k", "", "v100-sxm2-16gb", Timing.SERIES, first, 1e-5, (second,))
    gpus, _ = runs.known_gpus([case])
    (unit,) = runs.units([case], gpus, cases.read_clocks())
    assert unit.launches == (first, second)
    (scored,) = runs.forecast_unit(unit, runs.Plan("roofline", sample_seconds=0.05))
    assert [p.model for p in scored.predictions] == ["roofline", "template"]
    parts = [
        runs.forecast_unit(replace(unit, launches=(launch,)), runs.Plan("roofline", sample_seconds=0.05))[0]
        for launch in unit.launches
    ]
    assert scored.predictions[0].seconds == pytest.approx(sum(part.predictions[0].seconds for part in parts))
    broken = replace(second, kernel="missing")
    (refused,) = runs.forecast_unit(replace(unit, launches=(first, broken)), runs.Plan("roofline"))
    assert refused.refused
    assert not refused.predictions, "a part is no forecast of the sum"


@needs_data
@pytest.mark.parametrize("kernel", KERNELS)
def test_equivalents_do_the_work_that_the_suite_counts(load: Load, kernel: str) -> None:
    module = load("timing_rajaperf")
    given = next(
        each
        for each in load("timing_cases").read_rows(TIMES)
        if (each["kernel"], each["size_arg"], each["block"]) == (kernel, SIZE, BLOCK)
    )
    launches = module.rajaperf_launches(kernel, SIZE, BLOCK)
    alike = given["launches_per_rep"] // len(launches)
    flops, moved = totals(launches)
    assert flops * alike == pytest.approx(FLOPS.get(kernel, 1) * given["flops_per_rep"], rel=2e-3)
    # The suite counts the matrices of FLOYD_WARSHALL once for all its launches.
    moved *= 1 if kernel == "FLOYD_WARSHALL" else alike
    assert moved == pytest.approx(BYTES.get(kernel, 1) * given["bytes_per_rep"], rel=2e-3)


@needs_data
def test_every_kernel_that_is_not_the_hosts_time_is_scored(load: Load) -> None:
    cases = load("timing_rajaperf").rajaperf(None)
    assert {case.kernel for case in cases} == set(KERNELS)
    assert len(cases) == 16 * 21 + 8, "MAT_MAT_SHARED has two block sizes"
    assert len(load("timing_rajaperf").rajaperf(88)) == 88
