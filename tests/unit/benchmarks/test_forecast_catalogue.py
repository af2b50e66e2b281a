"""The look at forecasts on all GPUs, on forecasts worked by hand."""

from importlib import import_module
from types import ModuleType

import pytest

from kerncast.gpu import load_gpu
from kerncast.prediction import Prediction, Term, Timing
from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("forecast_catalogue")


def forecast(gpu_id: str, seconds: float, launch: float = 0.0) -> Prediction:
    terms = (Term("dram", seconds - launch), Term("launch", launch))
    return Prediction(
        "k", 0, gpu_id, gpu_id, seconds, seconds, seconds, 0.9, Timing.SERIES, "dram", terms, (), "simulation"
    )


def test_traffic_is_time_without_launch_times_sustained_bandwidth(module: ModuleType) -> None:
    """12 x 2^20 bytes at the TITAN V's 609.9 GB/s take 20.63 us."""
    seconds = 12 * 2**20 / 609.9e9
    assert module.traffic(load_gpu("titan-v"), forecast("titan-v", seconds + 1.6e-6, 1.6e-6)) == pytest.approx(1)


def test_share_of_the_peak(module: ModuleType) -> None:
    """2^31 operations in 1 ms are 15.7 % of the TITAN V's 13.6704 TFLOP/s at 1335 MHz."""
    assert module.share(load_gpu("titan-v"), forecast("titan-v", 1e-3)) == pytest.approx(2**31 / 1e-3 / 13.6704e12)


def test_who_stands_out(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """0.7 and 1.3 lie beyond 1 / 1.25 and 1.25; of two GPUs nobody says which is the odd one."""
    gpus = [load_gpu(name) for name in ("titan-v", "gv100", "t4", "l4", "k20", "k40")]
    figures = (1.0, 0.9, 1.3, 1.0, 0.7, 1.2)
    found = [module.Row(gpu, forecast(gpu.id, 1e-3), figure) for gpu, figure in zip(gpus, figures, strict=True)]
    assert module.print_groups(found, lambda _: "all", "of") == 2
    assert "| all | 6 | 0.70 | 1.00 | 1.30 | t4 1.30, k20 0.70 |" in capsys.readouterr().out
    assert module.print_groups(found[2:4], lambda _: "two", "of") == 0
