"""Streams at each occupancy: two blocks fit an SM, and the bytes are those that the bandwidth counts."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from kerncast.execute import WholeGrid, execute
from kerncast.gpu import load_gpu
from kerncast.occupancy import BlockRequest, occupancy
from tests.helpers.places import ROOT
from tests.helpers.programs import compiled

Load = Callable[[str], ModuleType]
FACTS = ROOT.parent / "shared" / "data" / "microbench.csv"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a script of the folder as its siblings do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


@pytest.mark.parametrize("gpu", ["v100-pcie-16gb", "a100-sxm-40gb", "a40", "l40", "h100-pcie", "h200"])
@pytest.mark.parametrize("threads", [96, 768])
def test_two_blocks_fit_an_sm(load: Load, gpu: str, threads: int) -> None:
    launch = load("timing_streams").stream_launch("read", threads, gpu)
    request = BlockRequest(threads, 16, launch.shared_bytes)
    assert occupancy(request, load_gpu(gpu).architecture).blocks_per_sm == 2


@pytest.mark.parametrize(("kind", "arrays"), [("read", 1), ("scale", 2)])
def test_each_element_is_moved_once(load: Load, kind: str, arrays: int) -> None:
    launch = load("timing_streams").stream_launch(kind, 128, "a100-sxm-40gb", 4096)
    trace, _ = execute(compiled(launch).kernels[0], launch, WholeGrid())
    counts = trace.counts
    assert counts.sectors.sum() * 32 == arrays * 4096 * 8
    assert not np.any(trace.memory["out"])


@pytest.mark.skipif(not FACTS.exists(), reason="the measurements are not here")
def test_all_occupancies_of_seven_gpus_are_read(load: Load) -> None:
    cases = load("timing_streams").streams(None)
    assert len({case.gpu for case in cases}) == 7
    assert len(cases) == 56
