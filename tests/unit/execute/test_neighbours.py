"""How many sectors neighbouring blocks touch: closed forms, and the curve through what was counted."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.execute import Executed, WholeGrid, run_launch
from kerncast.execute.recording import footprint_curve
from kerncast.launch import Launch
from kerncast.traces import FootprintCurve, Kind, Touches
from tests.helpers.execute_helpers import compiled, launch

SOURCE = """
extern "C" __global__ void copy(float *y, const float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
extern "C" __global__ void product(float *c, const float *a, const float *b, int n) {
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
extern "C" __global__ void broadcast(const float *x, float *y) {
    if (x[threadIdx.x] == 123) y[0] = 1;
}
extern "C" __global__ void blur(float *y, const float *x) {
    int i = 2 + blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i - 2] + x[i + 14];
}
extern "C" __global__ void counts(int *bins, const int *x) {
    atomicAdd(bins + x[blockIdx.x * blockDim.x + threadIdx.x], 1);
}
extern "C" __global__ void middle(float *y, int n) {
    float v = 0;
    if (blockIdx.x > 1900 && blockIdx.x < 2100) for (int k = 0; k < 100 * n; k++) v = v * v + n;
    y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
extern "C" __global__ void sums(const float *x, float *total, int *next) {
    __shared__ int mine;
    if (threadIdx.x == 0) mine = atomicAdd(next, 1);
    __syncthreads();
    total[mine * 8] = x[mine * 32 + threadIdx.x];
}
"""
KINDS: tuple[Kind, ...] = ("read", "written", "either")
WHOLE, PART = 1e3, 1e-3
"""nominal seconds: more than all blocks take, and enough for some"""


def curve(name: str, where: Launch, seconds: float = WHOLE) -> FootprintCurve:
    """Return the curve of a kernel of SOURCE."""
    return footprint_curve(executed(name, where), seconds)


def executed(name: str, where: Launch) -> Executed:
    return run_launch(compiled(SOURCE, name), where, WholeGrid())


def copying(blocks: int) -> Launch:
    return launch(blocks, 64, y=f"f32[{64 * blocks}]", x=f"f32[{64 * blocks}]")


def multiplying(n: int) -> Launch:
    return launch([n // 8, n // 8], [8, 8], c=f"f32[{n},{n}]", a=f"f32[{n},{n}]", b=f"f32[{n},{n}]", n=n)


@pytest.mark.parametrize("seconds", [WHOLE, PART])
def test_blocks_that_share_nothing(seconds: float) -> None:
    """Each block copies 64 floats: eight sectors in, eight out."""
    found = curve("copy", copying(500), seconds)
    assert found.is_whole_grid == (seconds == WHOLE)
    assert found.blocks[:8].tolist() == [1, 2, 3, 4, 6, 9, 14, 21]
    for blocks in (0, 0.5, 1, 1.7, 5, 33.3, 250, 500):
        assert [found.sectors(blocks, kind) for kind in KINDS] == pytest.approx([8 * blocks, 8 * blocks, 16 * blocks])
    for blocks in (1, 7.7, 100, 499, 500):
        assert [found.rate(blocks, kind) for kind in KINDS] == pytest.approx([8, 8, 16])


def test_blocks_that_share_rows_and_columns() -> None:
    """A block of a product reads 8 rows of a, which its row of blocks shares, and 8 columns (a sector) of b."""
    n = 128
    found = curve("product", multiplying(n))
    row = n // 8
    for position, blocks in enumerate(found.blocks.tolist()):
        rows, columns = -(-blocks // row), min(blocks, row)
        expected = {"a": rows * 8 * n // 8, "b": columns * n}
        assert found.read[position].sum() == sum(expected.values())
        assert found.written[position].sum() == 8 * blocks
    assert found.is_whole_grid
    assert found.rate(row / 2, "read") == pytest.approx(n, rel=0.02)
    assert found.rate(row * row / 2, "read") == pytest.approx(n / row, rel=0.3)


def test_a_part_of_a_row_meets_the_total_of_the_grid() -> None:
    """Within a row of blocks nothing tells that others read further rows of a; what the launch touches does."""
    n = 128
    found = curve("product", multiplying(n), 2e-3)
    assert 2 <= found.blocks[-1] < n // 8
    assert found.sectors((n // 8) ** 2, "read") == 2 * n * n // 8
    whole = curve("product", multiplying(n))
    for blocks in (20, 50, 100, 200):
        assert found.sectors(blocks, "read") == pytest.approx(whole.sectors(blocks, "read"), rel=0.35)


def test_what_all_blocks_read() -> None:
    found = curve("broadcast", launch(300, 64, x="f32[64]", y="f32[1]"))
    for blocks in (1, 2.5, 77, 300):
        assert [found.sectors(blocks, kind) for kind in KINDS] == [8, 0, 8]
    for blocks in (3, 100, 300):
        assert [found.rate(blocks, kind) for kind in KINDS] == [0, 0, 0]


def test_neighbours_share_their_edges() -> None:
    """A block of 64 reads the sectors of its floats, and two more behind them that its neighbour reads too."""
    found = curve("blur", launch(256, 64, y="f32[16400]", x="f32[16400]"))
    assert found.read.sum(axis=1).tolist() == [8 * blocks + 2 for blocks in found.blocks.tolist()]


def test_atomics_read_and_write() -> None:
    found = curve("counts", launch(64, 64, bins="i32[32]", x="i32[4096] randint(0, 32)"))
    assert found.sectors(64, "written") == 4
    assert found.sectors(64, "read") == found.sectors(64, "either") == 4 + 512


@pytest.mark.parametrize(("name", "where"), [("copy", copying(100)), ("product", multiplying(64))])
def test_the_whole_grid_touches_what_the_launch_touches(name: str, where: Launch) -> None:
    run = executed(name, where)
    found, last = footprint_curve(run, WHOLE), run.trace.footprints[-1]
    assert found.is_whole_grid
    assert found.blocks[-1] == where.blocks
    assert found.read[-1].tolist() == last.read.tolist()
    assert found.written[-1].tolist() == last.written.tolist()
    assert found.either[-1].tolist() == last.either.tolist()


def test_blocks_that_depend_on_others_run_once() -> None:
    """Each block takes a ticket and its own place; another run of a block would take one beyond the buffer."""
    run = executed("sums", launch(40, 32, x="f32[1280]", total="f32[320]", next="i32[1]"))
    assert not run.is_independent
    found = footprint_curve(run, WHOLE)
    assert found.blocks[-1] == 40
    column = [a.name for a in run.trace.allocations].index("total")
    assert found.written[:, column].tolist() == found.blocks.tolist()


def test_at_least_one_block_runs_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    found = footprint_curve(executed("copy", copying(100)), 0.0, lambda done, total: told.append((done, total)))
    assert (found.blocks.tolist(), told) == ([1], [(1, 1)])
    assert found.sectors(100, "read") == 800


@st.composite
def curves(draw: st.DrawFn) -> FootprintCurve:
    """Draw what some allocations could show."""
    steps = draw(st.lists(st.integers(1, 50), min_size=0, max_size=8))
    blocks = np.cumsum([1, *steps])
    width = draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 40), min_size=width, max_size=width)
    growth = draw(st.lists(row, min_size=len(blocks), max_size=len(blocks)))
    read = np.cumsum(growth, axis=0)
    grid = int(blocks[-1]) + draw(st.integers(0, 1000))
    room = read[-1] + draw(st.integers(0, 1000))
    total = draw(st.none() | st.builds(Touches, *[st.floats(0, 5000)] * 3))
    return FootprintCurve(blocks, read, read, read, room, grid, total)


@given(curves(), st.floats(0, 1200), st.floats(0, 1200))
def test_more_blocks_never_touch_less(found: FootprintCurve, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= found.sectors(low, "read") <= found.sectors(high, "read") * (1 + 1e-12)
    assert found.sectors(high, "read") <= found.allocation_sectors.sum() * (1 + 1e-12) or found.total
    assert math.isfinite(found.rate(max(high, 1), "read"))
    assert found.rate(max(high, 1), "read") >= -1e-9


@given(curves())
def test_the_curve_goes_through_what_was_counted(found: FootprintCurve) -> None:
    for blocks, counted in zip(found.blocks.tolist(), found.read.sum(axis=1).tolist(), strict=True):
        assert found.sectors(blocks, "read") == pytest.approx(counted)
    if found.total and not found.is_whole_grid:
        expected = max(found.total.read, found.read[-1].sum())
        assert found.sectors(found.grid_blocks, "read") == pytest.approx(expected)


def test_the_clock_of_the_machine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which each look at the clock is a second later counts the same."""
    where = copying(500)
    usual = curve("copy", where, PART)
    seconds = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    slow = curve("copy", where, PART)
    assert slow.blocks.tolist() == usual.blocks.tolist()
    assert 1 < slow.blocks[-1] < 500


def test_blocks_that_cost_more_than_the_mean_end_it_sooner() -> None:
    """All the work lies in the middle, where the counting begins."""
    where = launch(4000, 32, y="f32[128000]", n=40)
    found = curve("middle", where, 0.01)
    assert found.blocks[-1] < 0.5 * 0.01 / executed("middle", where).nominal_seconds * 4000
