"""Which blocks run, and how counts are scaled."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from execute_helpers import compiled, launch, ptx_kernel

from kerncast.errors import BudgetExceededError
from kerncast.execute import Budget, WholeGrid, characterise, execute
from kerncast.execute.sample import Sampler, strata_of

SOURCE = """
extern "C" __global__ void uneven(const int *trips, float *y) {
    float v = threadIdx.x;
    for (int i = 0; i < trips[blockIdx.x]; i++) v = v * 1.5f + 2.0f;
    y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
extern "C" __global__ void even(int n, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" __global__ void stencil(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    float sum = 0;
    if (i > 0 && j > 0 && i < n - 1 && j < n - 1) sum = x[j * n + i - 1] + x[j * n + i + 1] + x[(j - 1) * n + i];
    y[j * n + i] = sum;
}
"""


@pytest.mark.parametrize(
    "grid", [(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 3, 1), (1, 2, 3), (3, 3, 3), (5, 4, 7), (100, 1, 2)]
)
def test_strata_cover_the_grid(grid: tuple[int, int, int]) -> None:
    blocks = [s.block(i, grid) for s in strata_of(grid) for i in range(s.size)]
    assert sorted(blocks) == list(range(math.prod(grid)))


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 3, 1), (1, 2, 3), (3, 3, 3), (5, 4, 7)])
def test_small_grids_run_whole(grid: tuple[int, int, int]) -> None:
    kernel = ptx_kernel(".entry k() { .reg .b32 %r<2>; mov.u32 %r1, %ctaid.z; ret; }")
    trace, _ = execute(kernel, launch(list(grid), 32), Budget())
    assert sorted(trace.block_ids.tolist()) == list(range(math.prod(grid)))
    assert trace.thread_executions.tolist() == [[32, 32]] * math.prod(grid)


@pytest.mark.parametrize("grid", [(4000, 1, 1), (50, 60, 1), (20, 20, 20), (3, 1000, 2)])
@pytest.mark.parametrize("total", [1, 40, 300])
def test_a_sample_has_no_block_twice(grid: tuple[int, int, int], total: int) -> None:
    sampler = Sampler(grid)
    blocks = sampler.pilot() + sampler.rest(total)
    assert len(set(blocks)) == len(blocks) == len(sampler.chosen)
    assert all(0 <= block < math.prod(grid) for block in blocks)
    assert len(blocks) >= min(total, math.prod(grid))
    for number, stratum in enumerate(sampler.strata):
        assert sum(n == number for n, _ in sampler.chosen) >= min(2, stratum.size)


def test_samples_are_spread_and_repeatable() -> None:
    first, second = (Sampler((100_000, 1, 1)) for _ in range(2))
    blocks = sorted(first.pilot() + first.rest(500))
    assert blocks == sorted(second.pilot() + second.rest(500))
    gaps = np.diff(blocks)
    assert gaps.max() < 5 * 100_000 / 500


def test_a_homogeneous_launch_is_scaled_exactly() -> None:
    where = launch(8192, 64, n=8192 * 64, x=f"f32[{8192 * 64}] ones", y=f"f32[{8192 * 64}]")
    kernel = compiled(SOURCE, "even")
    sampled = characterise(kernel, where, Budget(sample_thread_instructions=100_000))
    whole = characterise(kernel, where, WholeGrid())
    assert sampled.sampling is not None
    assert not sampled.sampling.is_whole_grid
    assert sampled.sampling.blocks_executed < 300
    assert sampled.work == whole.work
    assert sampled.mix == whole.mix
    for name in ("global_load_sectors", "global_store_sectors", "global_bytes_requested", "dram_bytes"):
        scaled, exact = getattr(sampled.traffic, name), getattr(whole.traffic, name)
        assert scaled.value == pytest.approx(exact.value, rel=1e-3)
        assert scaled.low <= exact.value <= scaled.high
    assert "counts are scaled from" in sampled.caveats[0]
    assert whole.caveats == ()


def test_edges_of_the_grid_are_strata_of_their_own() -> None:
    n = 64 * 40
    kernel = compiled(SOURCE, "stencil")
    where = launch([40, n], 64, x=f"f32[{n},{n}] ones", y=f"f32[{n},{n}]", n=n)
    sampled = characterise(kernel, where, Budget(sample_thread_instructions=200_000))
    assert sampled.sampling is not None
    assert sampled.sampling.blocks_executed < 400
    assert sampled.traffic.global_bytes_requested is not None
    assert sampled.traffic.global_bytes_requested.value == 4 * (3 * (n - 2) ** 2 + n * n)
    assert sampled.traffic.global_bytes_requested.is_exact


def test_a_very_large_grid_is_sampled_soon() -> None:
    kernel = ptx_kernel(".entry k() { .reg .b32 %r<2>; mov.u32 %r1, %ctaid.x; ret; }")
    start = time.monotonic()
    found = characterise(kernel, launch(2**31 - 1, 1), Budget())
    assert time.monotonic() - start < 60
    assert found.mix is not None
    assert found.mix.thread_instructions.value == 2 * (2**31 - 1)
    wide = characterise(kernel, launch([2**31 - 1, 65535, 65535], 32), Budget(sample_blocks=1000))
    assert wide.mix is not None
    assert wide.mix.warp_instructions.value == pytest.approx(2 * (2**31 - 1) * 65535**2, rel=1e-12)


def test_heavy_blocks_end_with_the_budget() -> None:
    kernel = compiled(SOURCE)
    where = launch(4000, 1024, trips="i32[4000] randint(100000000, 100000001)", y="f32[4096000]")
    with pytest.raises(BudgetExceededError, match="budget of time"):
        characterise(kernel, where, Budget(seconds=0.2))


def truth_and_count(trips: npt.NDArray[Any], total: int) -> tuple[float, Any]:
    sampler = Sampler((len(trips), 1, 1))
    sampler.pilot()
    sampler.rest(total)
    return float(trips.sum()), sampler.scale(trips[[block for _, block in sampler.chosen]].astype(np.float64))


DRAWS: dict[str, Callable[[np.random.Generator], npt.NDArray[np.float64]]] = {
    "uniform": lambda random: random.random(4096),
    "exponential": lambda random: random.exponential(1.0, 4096),
    "lognormal": lambda random: random.lognormal(0, 1.5, 4096),
    "one in twenty": lambda random: np.where(random.random(4096) < 0.05, 1.0, 0.0),
}


@pytest.mark.parametrize(
    ("name", "least"), [("uniform", 0.92), ("exponential", 0.9), ("lognormal", 0.87), ("one in twenty", 0.9)]
)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str, least: float) -> None:
    """About 95 % is claimed; a heavy tail that the sample misses takes some of it."""
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        truth, count = truth_and_count(DRAWS[name](random), 200)
        hits += count.low <= truth <= count.high
        assert count.low <= count.value <= count.high
    assert hits / 300 >= least


def test_intervals_of_a_kernel_with_uneven_blocks() -> None:
    """End to end: trips per block are random, and the whole grid tells the truth."""
    kernel = compiled(SOURCE)
    whole = launch(2000, 32, trips="i32[2000] randint(0, 60)", y="f32[64000]")
    truth = characterise(kernel, whole, WholeGrid()).work.fp32_flops
    sampled = characterise(kernel, whole, Budget(sample_thread_instructions=2_000_000)).work.fp32_flops
    assert truth is not None
    assert sampled is not None
    assert truth.is_exact
    assert not sampled.is_exact
    assert sampled.low <= truth.value <= sampled.high
    assert (sampled.high - sampled.low) / truth.value < 0.5


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    where = launch(3000, 256, n=0, x="f32[1]", y="f32[1]")
    execute(compiled(SOURCE, "even"), where, WholeGrid(), lambda done, total: told.append((done, total)))
    assert told[-1] == (3000, 3000)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
