"""Grids whose blocks do very different amounts of work, against list scheduling of their durations."""

from dataclasses import replace
from functools import cache
from heapq import heapreplace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.execute.sampling.sample import Sampler
from kerncast.forecast import Options, forecast_all
from kerncast.gpu import load_gpu
from kerncast.models.sm.whole_grid import Slots
from kerncast.prediction import Timing

#: A chain of dependent multiply-adds, so that a block takes as long as it is long, whoever else is there. The array in
#: shared memory leaves room for four blocks of one warp: each scheduler of an SM of a TITAN V has one.
KERNEL = """
__device__ int steps(int kind, int b, int blocks) {
    switch (kind) {
    case 0: return 400;
    case 7: return 4000;
    case 1: return 40 + 720 * b / blocks;
    case 2: return 760 - 720 * b / blocks;
    case 3: return b % 100 == 37 ? 20000 : 200;
    case 4: return b == blocks / 2 ? 100000 : 400;
    case 5: return b & 1 ? 780 : 20;
    default: return b == blocks - 1 ? 100000 : 400;
    }
}
extern "C" __global__ void uneven(int kind, float *y) {
    __shared__ float room[5500];
    const int n = steps(kind, blockIdx.x, gridDim.x);
    float v = threadIdx.x;
    room[threadIdx.x] = v;
    for (int i = 0; i < n; ++i) v = v * 1.0001f + 0.5f;
    y[blockIdx.x * blockDim.x + threadIdx.x] = v + room[threadIdx.x];
}
"""
SMS, RESIDENT = 80, 4


def steps(kind: int, block: int, blocks: int) -> int:
    """Return what the kernel does, once more."""
    return [
        400, 40 + 720 * block // blocks, 760 - 720 * block // blocks, 20000 if block % 100 == 37 else 200,
        100000 if block == blocks // 2 else 400, 780 if block & 1 else 20, 100000 if block == blocks - 1 else 400, 4000,
    ][kind]  # fmt: skip


def scheduled_seconds(folder: Path, kind: int, blocks: int) -> float:
    """Return when the last block ends, each of which starts where one has ended.

    How long a block lasts comes from grids of even ones: so much by itself, and so much per step.
    """
    waves = -(-blocks // (SMS * RESIDENT))
    short, long = (seconds(folder, even, blocks) / waves for even in (0, 7))
    per_step = (long - short) / 3600
    start = short - 400 * per_step
    ends = [0.0] * (SMS * RESIDENT)
    for block in range(blocks):
        heapreplace(ends, ends[0] + start + steps(kind, block, blocks) * per_step)
    return max(ends)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uneven")


@cache
def seconds(folder: Path, kind: int, blocks: int, threads: int = 32) -> float:
    (folder / "k.cu").write_text(KERNEL, encoding="utf-8")
    (folder / "k.toml").write_text(
        f'source = "k.cu"\n[[launch]]\nkernel = "uneven"\ngrid = [{blocks}]\nblock = [{threads}]\n'
        f'args = {{ kind = {kind}, y = "f32[{blocks * threads}] zeros" }}\n',
        encoding="utf-8",
    )
    options = Options(timing=Timing.PROFILER, model="simulation")
    (found,) = forecast_all(folder / "k.toml", [(load_gpu("TITAN V"), ())], options).predictions
    return found.seconds - (found.term("launch") or 0.0)


@pytest.mark.parametrize("blocks", [300, 960])
@pytest.mark.parametrize("kind", range(1, 7))
def test_chains_of_different_length_are_list_scheduled(folder: Path, kind: int, blocks: int) -> None:
    assert seconds(folder, kind, blocks) == pytest.approx(scheduled_seconds(folder, kind, blocks), rel=0.1)


@pytest.mark.parametrize("kind", [1, 2, 5])
def test_where_pipes_are_full_the_sum_of_work_decides(folder: Path, kind: int) -> None:
    """32 warps per block, two blocks per SM: the FMA pipes are busy until the last blocks run."""
    even, found = (seconds(folder, each, 4000, threads=1024) for each in (0, kind))
    assert found == pytest.approx(even, rel=0.08)


def test_a_small_grid_lasts_as_long_as_the_sm_that_gets_the_long_blocks(folder: Path) -> None:
    """Blocks are given out in turn: with 80 SMs and every other block long, half of the SMs have long ones only."""
    even, found = (seconds(folder, each, 320, threads=256) for each in (0, 5))
    assert found == pytest.approx(even * 780 / 400, rel=0.08)


READS = """
extern "C" __global__ void reads(const float *x, float *y, int p) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.x == p ? 20000 : 10;
    float s = 0;
    for (int k = 0; k < n; ++k) s += x[(k * 32 + threadIdx.x) & 1023];
    y[i] = s;
}
"""


def test_it_does_not_matter_whether_the_long_block_is_among_those_simulated(tmp_path: Path) -> None:
    """One of 1000 blocks does two thousand times what others do: the grid lasts as long as it, wherever it is."""
    (tmp_path / "k.cu").write_text(READS, encoding="utf-8")
    launch = 'kernel = "reads"\ngrid = [1000]\nblock = [128]\n'
    args = 'x = "f32[1024] random", y = "f32[128000] zeros"'
    text = "".join(f"[[launch]]\n{launch}args = {{ {args}, p = {p} }}\n" for p in (0, 1, 13, 500, 999))
    (tmp_path / "k.toml").write_text(f'source = "k.cu"\n{text}', encoding="utf-8")
    for gpu in ("k20", "p4"):
        options = Options(timing=Timing.PROFILER, model="simulation")
        found = [p.seconds for p in forecast_all(tmp_path / "k.toml", [(load_gpu(gpu), ())], options).predictions]
        assert max(found) < 1.2 * min(found)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 4), st.floats(0.1, 1))
def test_a_schedule_is_between_its_bounds(lasting: list[float], sms: int, resident: int, alone: float) -> None:
    slots = Slots(sms, resident, alone)
    found, full = slots.scheduled(np.array(lasting)), replace(slots, alone=1.0).scheduled(np.array(lasting))
    assert max(sum(lasting) / (sms * resident), max(lasting) * alone) <= found * (1 + 1e-12)
    assert found <= full * (1 + 1e-12)
    assert full <= sum(lasting) / (sms * resident) + max(lasting) * (1 + 1e-12), "Graham's bound"


@given(st.integers(1, 200), st.integers(1, 6), st.integers(1, 4), st.floats(0.1, 1))
def test_even_blocks_are_scheduled_in_waves(blocks: int, sms: int, resident: int, alone: float) -> None:
    slots = Slots(sms, resident, alone)
    assert slots.even(blocks) == pytest.approx(slots.scheduled(np.ones(blocks)))


def test_what_a_sampled_block_stands_for() -> None:
    """The first and the last block of a row stand for themselves, of 98 others each of the chosen for as many."""
    sampler = Sampler((100, 1, 1))
    sampler.pilot()
    weights = dict(zip(sampler.chosen, sampler.weights().tolist(), strict=True))
    assert weights.pop(0) == weights.pop(99) == 1
    assert set(weights.values()) == {98 / len(weights)}
