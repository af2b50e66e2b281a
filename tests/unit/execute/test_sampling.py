"""Which blocks run, and how counts are scaled."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.caveats import CaveatKind
from kerncast.errors import BudgetExceededError, MachineLimitError
from kerncast.execute import Budget, WholeGrid, execute
from kerncast.execute.sampling.run import run_launch
from kerncast.execute.sampling.sample import Sampler, strata_of
from kerncast.launch import load_launches
from kerncast.profiles.counts import (
    CONTROL_OPS,
    DRAM_BYTES_ONCE,
    FP32_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_WRITE_SECTORS,
    INTEGER_OPS,
)
from tests.helpers.caveats import kinds, only
from tests.helpers.execute_helpers import compiled, launch, profile, ptx_kernel

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
extern "C" __global__ void bump(const int *x, int *y, int *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] += x[i];
    z[i] = x[i];
}
// Each warp takes the next of n pieces.
extern "C" __global__ void drain(int n, int *next, float *y) {
    while (true) {
        int i = 0;
        if (threadIdx.x % 32 == 0) i = atomicAdd(next, 1);
        i = __shfl_sync(~0u, i, 0);
        if (i >= n) return;
        float v = i;
        for (int k = 0; k < 100; ++k) v = v * 1.5f + 2.0f;
        y[i * 32 + threadIdx.x % 32] = v;
    }
}
// The same by blocks that take 256 pieces, with pieces in a ring, and behind work of their own.
__device__ float spun(int turns, float v) { for (int k = 0; k < turns; ++k) v = v * 1.5f + 2.0f; return v; }
__device__ int taken(int *next, int step) {
    __shared__ int ticket;
    __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(next, step);
    __syncthreads();
    return ticket;
}
extern "C" __global__ void chunks(int n, int *next, float *y) {
    for (int i = taken(next, 256); i < n; i = taken(next, 256)) y[i + threadIdx.x] = spun(100, i);
}
extern "C" __global__ void ring(int n, int *next, const int *items, float *y) {
    while (true) {
        const int i = items[taken(next, 1) & 1023];
        if (i >= n) return;
        y[i + threadIdx.x] = spun(100, i);
    }
}
extern "C" __global__ void steal(int n, int *next, float *y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = spun(3000, threadIdx.x);
    for (int i = taken(next, 1); i < n; i = taken(next, 1)) y[i * blockDim.x + threadIdx.x] = spun(100, i);
}
// A number of its own for each block, and places for some results, as far as there is room.
extern "C" __global__ void numbered(int n, int *next, float *y) {
    const int i = taken(next, 1);
    if (i < n) y[i * blockDim.x + threadIdx.x] = spun(100, i);
}
extern "C" __global__ void with_room(int n, int *next, float *y) {
    if (blockIdx.x % 10 == 0) {
        const int i = taken(next, 1);
        if (i < n) y[i * blockDim.x + threadIdx.x] = spun(100, i);
    }
}
// Work that is done once: what two blocks do the second time tells nothing.
extern "C" __global__ void once(int n, int *next, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (y[i] == 0) y[i] = 1 + spun(1000, i);
    y[i] += 0 * atomicAdd(next, 1);
}
// Counters that are no queues: places of results, the ticket of the block that ends last, and a lock.
extern "C" __global__ void collect(int n, int *next, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[atomicAdd(next, 1)] = i * 2.0f;
}
extern "C" __global__ void last(int n, int *next, float *y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x * 2.0f;
    if (threadIdx.x == 0 && atomicAdd(next, 1) == gridDim.x - 1) y[0] = n;
}
extern "C" __global__ void lock(int n, int *next, volatile int *served, float *y) {
    if (threadIdx.x == 0) {
        const int ticket = atomicAdd(next, 1);
        while (*served != ticket) {}
        y[blockIdx.x] = n;
        *served = ticket + 1;
    }
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
    blocks = sampler.pilot() + sampler.extend(total)
    assert len(set(blocks)) == len(blocks) == len(sampler.chosen)
    assert all(0 <= block < math.prod(grid) for block in blocks)
    assert len(blocks) >= min(total, math.prod(grid))
    for stratum in sampler.strata:
        inside = {stratum.block(index, grid) for index in range(stratum.size)}
        assert len(inside.intersection(blocks)) >= min(2, stratum.size)


def test_samples_are_spread_and_repeatable() -> None:
    first, second = (Sampler((100_000, 1, 1)) for _ in range(2))
    blocks = sorted(first.pilot() + first.extend(500))
    assert blocks == sorted(second.pilot() + second.extend(500))
    gaps = np.diff(blocks)
    assert gaps.max() < 5 * 100_000 / 500


def test_a_homogeneous_launch_is_scaled_exactly() -> None:
    where = launch(8192, 64, n=8192 * 64, x=f"f32[{8192 * 64}] ones", y=f"f32[{8192 * 64}]")
    kernel = compiled(SOURCE, "even")
    sampled = profile(kernel, where, Budget(sample_seconds=0.001))
    whole = profile(kernel, where, WholeGrid())
    assert sampled.sampling is not None
    assert not sampled.sampling.is_whole_grid
    assert sampled.sampling.blocks_executed < 300
    assert all(sampled.counts[name] == whole.counts[name] for name in (FP32_FLOPS, INTEGER_OPS, CONTROL_OPS))
    assert sampled.mix == whole.mix
    for name in (GLOBAL_LOAD_SECTORS, GLOBAL_WRITE_SECTORS, GLOBAL_BYTES_REQUESTED, DRAM_BYTES_ONCE):
        scaled, exact = sampled.counts[name], whole.counts[name]
        assert scaled.value == pytest.approx(exact.value, rel=1e-3)
        assert scaled.low <= exact.value <= scaled.high
    assert sampled.caveats[0].kind is CaveatKind.SCALED_FROM_SAMPLE
    assert whole.caveats == ()


def test_edges_of_the_grid_are_strata_of_their_own() -> None:
    n = 64 * 40
    kernel = compiled(SOURCE, "stencil")
    where = launch([40, n], 64, x=f"f32[{n},{n}] ones", y=f"f32[{n},{n}]", n=n)
    sampled = profile(kernel, where, Budget(sample_seconds=0.001))
    assert sampled.sampling is not None
    assert sampled.sampling.blocks_executed < 400
    assert sampled.counts[GLOBAL_BYTES_REQUESTED].value == 4 * (3 * (n - 2) ** 2 + n * n)
    assert sampled.counts[GLOBAL_BYTES_REQUESTED].is_exact


def test_a_very_large_grid_is_sampled_soon() -> None:
    kernel = ptx_kernel(".entry k() { .reg .b32 %r<2>; mov.u32 %r1, %ctaid.x; ret; }")
    found = profile(kernel, launch(2**31 - 1, 1), Budget())
    assert found.sampling is not None
    assert found.sampling.blocks_executed <= 2**17
    assert found.mix is not None
    assert found.mix.thread_instructions.value == 2 * (2**31 - 1)
    wide = profile(kernel, launch([2**31 - 1, 65535, 65535], 32), Budget(sample_seconds=0.01))
    assert wide.mix is not None
    assert wide.mix.warp_instructions.value == pytest.approx(2 * (2**31 - 1) * 65535**2, rel=1e-12)


def test_heavy_blocks_end_with_the_budget() -> None:
    kernel = compiled(SOURCE)
    where = launch(4000, 1024, trips="i32[4000] randint(100000000, 100000001)", y="f32[4096000]")
    with pytest.raises(BudgetExceededError, match="wall time"):
        profile(kernel, where, Budget(seconds=0.2))


def truth_and_count(trips: npt.NDArray[Any], total: int) -> tuple[float, Any]:
    sampler = Sampler((len(trips), 1, 1))
    sampler.pilot()
    sampler.extend(total)
    return float(trips.sum()), sampler.scale(trips[sampler.chosen].astype(np.float64))


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
    truth = profile(kernel, whole, WholeGrid()).counts.get(FP32_FLOPS)
    sampled = profile(kernel, whole, Budget(sample_seconds=0.004)).counts.get(FP32_FLOPS)
    assert truth is not None
    assert sampled is not None
    assert truth.is_exact
    assert not sampled.is_exact
    assert sampled.low <= truth.value <= sampled.high
    assert (sampled.high - sampled.low) / truth.value < 0.5


RARE: dict[str, Callable[[np.random.Generator], npt.NDArray[np.float64]]] = {
    "one in 100": lambda random: np.where(random.random(65536) < 1 / 100, 1e4, 1.0),
    "one in 300": lambda random: np.where(random.random(65536) < 1 / 300, 3e4, 1.0),
    "one in 1000": lambda random: np.where(random.random(65536) < 1 / 1000, 1e5, 1.0),
    "every 64th": lambda random: np.where(np.arange(65536) % 64 == random.integers(64), 1e4, 1.0),
    "256 neighbours": lambda random: np.where(np.arange(65536) // 256 == random.integers(256), 1e4, 1.0),
}


@pytest.mark.parametrize("name", RARE)
def test_a_sample_that_may_end_early_has_met_rare_heavy_blocks(name: str) -> None:
    """4096 blocks is the least after which a sample may end because its counts look precise."""
    random = np.random.default_rng(5)
    sampler = Sampler((65536, 1, 1))
    sampler.pilot()
    sampler.extend(4096)
    blocks = np.stack([RARE[name](random) for _ in range(100)], axis=1)
    found = sampler.scale_columns(blocks[sampler.chosen])
    hits = [one.low <= whole <= one.high for one, whole in zip(found, blocks.sum(axis=0), strict=True)]
    assert np.mean(hits) >= 0.93


def test_a_sample_ends_when_its_counts_are_precise() -> None:
    kernel = ptx_kernel(".entry k() { .reg .b32 %r<2>; mov.u32 %r1, %ctaid.x; ret; }")
    trace, sampler = execute(kernel, launch(2**24, 32), Budget(sample_seconds=1.0))
    assert 4096 <= len(trace.block_ids) < 2 * 4096  # 1 s would pay for 300 000
    assert not sampler.is_whole


def test_a_sample_goes_on_while_its_counts_are_not_precise() -> None:
    grid = 30_000
    where = launch(grid, 32, trips=f"i32[{grid}] randint(0, 2000)", y=f"f32[{32 * grid}]")
    executed = [len(execute(compiled(SOURCE), where, Budget(sample_seconds=s))[0].block_ids) for s in (0.2, 0.4)]
    assert executed[1] == pytest.approx(2 * executed[0], rel=0.1)
    assert 1000 < executed[0] < executed[1] < grid


def test_what_the_budget_pays_for_runs_whole() -> None:
    n = 40_000 * 64
    found = profile(compiled(SOURCE, "even"), launch(40_000, 64, n=n, x=f"f32[{n}] ones", y=f"f32[{n}]"), Budget())
    assert found.sampling is not None
    assert found.sampling.is_whole_grid
    assert found.counts[GLOBAL_BYTES_REQUESTED].value == 8 * n


def test_a_slow_machine_runs_the_same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets count work: a clock that runs fast, as on a starved machine, changes no count."""
    where = launch(8192, 64, n=8192 * 64, x=f"f32[{8192 * 64}] ones", y=f"f32[{8192 * 64}]")
    idle = execute(compiled(SOURCE, "even"), where, Budget(sample_seconds=0.02))[0]
    start, real = time.monotonic(), time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: start + 50 * (real() - start))
    starved = execute(compiled(SOURCE, "even"), where, Budget(sample_seconds=0.02))[0]
    assert starved.block_ids.tolist() == idle.block_ids.tolist()
    assert starved.remarks == idle.remarks == ()


def test_the_clock_stops_what_runs_away_and_the_refusal_says_so() -> None:
    where = launch(8192, 64, n=8192 * 64, x=f"f32[{8192 * 64}] ones", y=f"f32[{8192 * 64}]")
    with pytest.raises(MachineLimitError, match="stopped after 0 s of wall time"):
        execute(compiled(SOURCE, "even"), where, Budget(seconds=0.0))


def test_a_longer_sample_does_not_make_a_kernel_count_as_endless() -> None:
    assert Budget.for_sample(2.0).sample_seconds == Budget().sample_seconds
    assert Budget.for_sample(300.0).seconds > 300.0


def test_equal_launches_give_equal_samples() -> None:
    where = launch(9000, 32, trips="i32[9000] randint(0, 500)", y="f32[288000]")
    first, second = (profile(compiled(SOURCE), where, Budget(sample_seconds=0.02)) for _ in range(2))
    assert first == second
    assert first.sampling is not None
    assert not first.sampling.is_whole_grid


def test_stale_memory_is_named_where_blocks_read_what_blocks_write() -> None:
    n = 8192 * 64
    where = launch(8192, 64, x=f"i32[{n}] ones", y=f"i32[{n}]", z=f"i32[{n}]")
    sampled = profile(compiled(SOURCE, "bump"), where, Budget(sample_seconds=0.001))
    assert only(sampled.caveats, CaveatKind.STALE_READS).subject == "y"
    assert CaveatKind.RARE_BLOCKS_MISSED in kinds(sampled.caveats)
    assert profile(compiled(SOURCE, "bump"), where, WholeGrid()).caveats == ()
    apart = launch(8192, 64, n=n, x=f"f32[{n}] ones", y=f"f32[{n}]")
    found = profile(compiled(SOURCE, "even"), apart, Budget(sample_seconds=0.001))
    assert found.caveats
    assert CaveatKind.STALE_READS not in kinds(found.caveats)


@pytest.mark.parametrize(("sample_seconds", "is_whole"), [(0.2, False), (math.inf, True), (3.0, True)])
def test_blocks_of_a_sample_take_no_more_from_a_queue_than_their_turn(sample_seconds: float, is_whole: bool) -> None:
    """Before, the eight blocks that ran first took the work of all 400, and stood for 50 each."""
    where = launch(400, 128, n=48000, next="i32[1]", y="f32[1536000]")
    found = profile(compiled(SOURCE, "drain"), where, Budget(sample_seconds=sample_seconds))
    assert found.sampling is not None
    assert found.sampling.is_whole_grid is is_whole
    assert (CaveatKind.TAKEN_IN_TURN in kinds(found.caveats)) is not is_whole
    assert found.counts[FP32_FLOPS].value == pytest.approx(48000 * 32 * 200, rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("drain", "queue"), ("chunks", "queue"), ("ring", "queue"), ("steal", "queue"), ("numbered", "number"),
        ("last", "nothing"), ("with_room", "unknown"), ("once", "unknown"), ("collect", "unknown"), ("lock", "unknown"),
    ],
)  # fmt: skip
def test_what_a_counter_decides_is_told_by_two_blocks(kernel: str, kind: str) -> None:
    more = {"lock": {"served": "i32[1]"}, "ring": {"items": "i32[1024] iota"}}.get(kernel, {})
    where = launch(100, 64, n=400, next="i32[1]", **more, y="f32[200000]")
    counters = run_launch(compiled(SOURCE, kernel), where).counters
    found = {"queue": counters.queues, "number": counters.numbers, "nothing": counters.decide_nothing}
    assert [name for name, is_so in found.items() if is_so] == ([] if kind == "unknown" else [kind])


def test_a_sample_holds_the_work_of_blocks_that_find_room_for_their_results() -> None:
    """One block in ten asks: the numbers of their turns would leave out what is done for most of them."""
    where = launch(20000, 64, n=2500, next="i32[1]", y="f32[1280000]")
    found = profile(compiled(SOURCE, "with_room"), where, Budget(sample_seconds=0.2)).counts[FP32_FLOPS]
    exact = profile(compiled(SOURCE, "with_room"), where, WholeGrid()).counts[FP32_FLOPS]
    assert found.low <= exact.value <= found.high


@pytest.mark.parametrize("kernel", ["collect", "last", "lock"])
def test_other_counters_than_those_of_queues_move_on(kernel: str) -> None:
    served = {"served": "i32[1]"} if kernel == "lock" else {}
    where = launch(20000, 64, n=1280000, next="i32[1]", **served, y="f32[1280000]")
    trace = execute(compiled(SOURCE, kernel), where, Budget(sample_seconds=0.05))[0]
    assert len(trace.block_ids) < 20000
    assert not trace.in_turn
    assert trace.memory["next"][0] == len(trace.block_ids) * (64 if kernel == "collect" else 1)


def test_launches_of_a_file_share_no_memory(tmp_path: Path) -> None:
    """The second launch adds to its own fill, not to what the first one left."""
    (tmp_path / "k.cu").write_text(SOURCE, encoding="utf-8")
    one = '[[launch]]\nkernel = "bump"\ngrid = [4]\nblock = [32]\nargs = { x = "i32[128] iota", y = "i32[128] iota", '
    one += 'z = "i32[128]" }\n'
    (tmp_path / "k.toml").write_text('source = "k.cu"\n' + 2 * one, encoding="utf-8")
    for where in load_launches(tmp_path / "k.toml"):
        trace, _ = execute(compiled(SOURCE, "bump"), where, WholeGrid())
        assert trace.memory["y"].tolist() == [2 * i for i in range(128)]


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    where = launch(3000, 256, n=0, x="f32[1]", y="f32[1]")
    execute(compiled(SOURCE, "even"), where, WholeGrid(), lambda done, total: told.append((done, total)))
    assert told[-1] == (3000, 3000)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
