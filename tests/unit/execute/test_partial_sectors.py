"""Sectors of which stores fill some words only: NumPy's count, with both engines."""

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.execute import WholeGrid, run_launch
from kerncast.execute.recording import footprint_curve
from kerncast.execute.sampling.run import EngineName
from kerncast.launch import Launch
from tests.helpers.execute_helpers import compiled, launch

SECTOR, WORD = 32, 4
COUNT = 512
#: A prime: steps of it reach no element twice.
STEP = 7919
SOURCE = """
extern "C" __global__ void scatter(TYPE *to, int step, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i * step % count] = TYPE();
}
extern "C" __global__ void run(TYPE *to, int first) {
    to[first + blockIdx.x * blockDim.x + threadIdx.x] = TYPE();
}
extern "C" __global__ void strided(float *to, const float *from, int stride) {
    int i = stride * (blockIdx.x * blockDim.x + threadIdx.x);
    to[i] = from[i];
}
extern "C" __global__ void in_place(float *to, int stride) {
    to[stride * (blockIdx.x * blockDim.x + threadIdx.x)] += 1;
}
extern "C" __global__ void added(float *to, int stride) {
    atomicAdd(to + stride * (blockIdx.x * blockDim.x + threadIdx.x), 1.0f);
}
extern "C" __global__ void columns(float *to) {
    to[threadIdx.x * gridDim.x + blockIdx.x] = 1;
}
"""
TYPES = {"char": 1, "short": 2, "float": 4, "double": 8, "float4": 16}
ENGINES: tuple[EngineName, ...] = ("native", "reference")


def left_in_part(name: str, where: Launch, engine: EngineName = "native", kind: str = "float") -> int:
    """Return the sectors of ``to`` that a whole grid leaves in part."""
    run = run_launch(compiled(SOURCE.replace("TYPE", kind), name), where, WholeGrid(), engine=engine)
    column = [each.name for each in run.trace.allocations].index("to")
    return int(run.trace.footprints[-1].partly[column])


def by_numpy(stored: npt.NDArray[np.intp], size: int) -> int:
    """Return how many sectors have some, but not all words among those that these elements reach."""
    per_sector = SECTOR // WORD
    words = np.unique((stored[:, None] * size + np.arange(size)) // WORD)
    return int((np.unique(words // per_sector, return_counts=True)[1] < per_sector).sum())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("spread", [1, 2, 20])
def test_elements_anywhere(engine: EngineName, kind: str, spread: int) -> None:
    room = COUNT * spread
    where = launch(COUNT // 64, 64, to=f"u8[{room * TYPES[kind]}]", step=STEP, count=room)
    stored = np.arange(COUNT) * STEP % room
    assert left_in_part("scatter", where, engine, kind) == by_numpy(stored, TYPES[kind])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("first", "threads"), [(0, 32), (0, 3), (1, 32), (5, 64), (7, 1), (31, 2), (33, 96)])
def test_a_run_of_elements(engine: EngineName, kind: str, first: int, threads: int) -> None:
    where = launch(1, threads, to=f"u8[{200 * TYPES[kind]}]", first=first)
    assert left_in_part("run", where, engine, kind) == by_numpy(first + np.arange(threads), TYPES[kind])


@pytest.mark.parametrize(("stride", "sectors"), [(1, 0), (2, 128), (8, 512), (100, 512)])
def test_a_strided_copy_leaves_every_sector_in_part(stride: int, sectors: int) -> None:
    size = COUNT * stride
    where = launch(COUNT // 64, 64, to=f"f32[{size}]", **{"from": f"f32[{size}]"}, stride=stride)
    assert left_in_part("strided", where) == sectors


@pytest.mark.parametrize("name", ["in_place", "added"])
def test_what_was_read_needs_no_filling(name: str) -> None:
    assert left_in_part(name, launch(COUNT // 64, 64, to=f"f32[{COUNT * 8}]", stride=8)) == 0


def test_neighbours_fill_what_a_block_leaves() -> None:
    """A block stores a column: eight of them, side by side, fill their sectors."""
    run = run_launch(compiled(SOURCE.replace("TYPE", "float"), "columns"), launch(64, 32, to="f32[2048]"), WholeGrid())
    found = footprint_curve(run, 1e3)
    assert found.is_whole_grid
    left = (found.blocks * [found.left_in_part(each) for each in found.blocks.tolist()]).tolist()
    assert left[0] == 32
    assert left[-1] == 0
    # In each of the 32 rows, at most the sectors at both ends of the columns.
    assert all(each in {0, 32, 64} for each in left)
