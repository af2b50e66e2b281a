"""Cooperative launches: blocks that wait for one another, on both engines and in forecasts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast import predict
from kerncast.caveats import CaveatKind
from kerncast.errors import LaunchError, UnsupportedError
from kerncast.execute import WholeGrid, execute, profile_of
from kerncast.execute.sampling.run import EngineName
from kerncast.execute.setup.dataflow import waiting_blocks
from kerncast.gpu import launch_overhead_s
from kerncast.launch import Launch, parse_launches
from tests.helpers.execute_helpers import compiled, launch

SOURCE = """#include <cooperative_groups.h>
extern "C" __global__ void jacobi(int n, int steps, float *a, float *b) {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (int s = 0; s < steps; s++) {
    for (int i = 1 + blockIdx.x * blockDim.x + threadIdx.x; i < n - 1; i += gridDim.x * blockDim.x)
      b[i] = 0.5f * (a[i - 1] + a[i + 1]);
    grid.sync();
    float *t = a; a = b; b = t;
  }
}
"""
COUNT, STEPS = 3000, 7
ARGUMENTS = {"n": COUNT, "steps": STEPS, "a": f"f32[{COUNT}] random", "b": f"f32[{COUNT}] random"}


def cooperative(blocks: int) -> Launch:
    return replace(launch(blocks, 64, **ARGUMENTS), cooperative=True)


def expected() -> np.ndarray:
    """Return what the first buffer holds after an odd number of steps."""
    a, b = (np.random.default_rng([0, place]).random(COUNT, dtype=np.float32) for place in (2, 3))
    for _ in range(STEPS):
        b[1:-1] = np.float32(0.5) * (a[:-2] + a[2:])
        a, b = b, a
    return b


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_jacobi_iteration(engine: EngineName) -> None:
    where = cooperative(40)
    trace, sampler = execute(compiled(SOURCE, None, "sm_80"), where, engine=engine)
    assert np.array_equal(trace.memory["a"], expected())
    assert len(trace.block_ids) == where.blocks
    assert profile_of(trace, sampler, compiled(SOURCE, None, "sm_80"), where).grid_barriers == STEPS
    (waiting,) = waiting_blocks(trace.function, trace.cfg)
    assert trace.counts.block_warps[:, waiting].max() < 10 * STEPS  # who waits lets others go on after each look


def test_blocks_that_need_not_run_together_cannot_wait() -> None:
    with pytest.raises(UnsupportedError, match=r"%envreg2 is not supported") as error:
        execute(compiled(SOURCE, None, "sm_80"), launch(40, 64, **ARGUMENTS), WholeGrid())
    assert "cooperative = true" in str(error.value.cure)


def test_a_forecast_counts_each_barrier(tmp_path: Path) -> None:
    (tmp_path / "jacobi.cu").write_text(SOURCE, encoding="utf-8")
    rows = [{"grid": [blocks], "block": [64], "cooperative": True, "args": ARGUMENTS} for blocks in (40, 4000)]
    few, many = parse_launches({"source": "jacobi.cu", "launch": rows}, tmp_path / "x.toml")
    (found,) = predict([few], "a100-sxm-80gb")
    assert found.model == "simulation"
    assert found.term("grid_barriers") == pytest.approx(STEPS * 1.2e-6)
    rest = found.seconds - STEPS * launch_overhead_s("grid_barrier")
    assert 2e-6 < rest < 10e-6
    assert found.low > STEPS * launch_overhead_s("grid_barrier_low")
    assert any(caveat.kind is CaveatKind.GRID_BARRIERS and caveat.subject == "7" for caveat in found.caveats)
    with pytest.raises(UnsupportedError, match="4000 blocks of a cooperative launch do not fit") as error:
        predict([many], "a100-sxm-80gb")
    assert "It holds 3456 of them" in str(error.value.cure)  # 32 blocks on each of 108 SMs


def test_cooperative_is_true_or_false(tmp_path: Path) -> None:
    rows = [{"grid": [1], "block": [64], "cooperative": 1}]
    with pytest.raises(LaunchError, match="cooperative is 1, neither true nor false"):
        parse_launches({"source": "jacobi.cu", "launch": rows}, tmp_path / "x.toml")
