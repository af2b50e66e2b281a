"""How many rows of DRAM are opened for so many bytes, and what that costs: closed forms and real kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.execute import WholeGrid, run_launch
from kerncast.execute.recording import footprint_curve
from kerncast.execute.setup.arena import opened_rows
from kerncast.gpu import load_gpu
from kerncast.models.sm.multiprocessor import RowSlowdown, row_slowdown
from kerncast.traces import FootprintCurve
from tests.helpers.execute_helpers import compiled, launch

SECTORS_PER_PIECE, PIECES_PER_REGION, ROWS = 8, 128, 16
SIZE = 1024
SOURCE = """
extern "C" __global__ void copy(float *y, const float *x) {
    int i = (blockIdx.y * 16 + threadIdx.y) * 1024 + blockIdx.x * 16 + threadIdx.x;
    y[i] = x[i];
}
extern "C" __global__ void transpose(float *y, const float *x) {
    __shared__ float tile[16][17];
    int i = (blockIdx.y * 16 + threadIdx.y) * 16384 + blockIdx.x * 16 + threadIdx.x;
    int o = (blockIdx.x * 16 + threadIdx.y) * 16384 + blockIdx.y * 16 + threadIdx.x;
    tile[threadIdx.y][threadIdx.x] = x[i];
    __syncthreads();
    y[o] = tile[threadIdx.x][threadIdx.y];
}
"""


def touched(places: list[int], pieces: int = 4 * PIECES_PER_REGION) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the pieces in which these sectors lie."""
    found = np.zeros(pieces * SECTORS_PER_PIECE, np.bool_)
    found[places] = True
    return np.flatnonzero(found.reshape(-1, SECTORS_PER_PIECE).any(axis=1))


def curve(
    read: list[int], written: list[int], rows: list[tuple[float, float]] | None, blocks: list[int], grid: int = 10
) -> FootprintCurve:
    """Return a curve of one allocation."""
    return FootprintCurve(
        blocks=np.array(blocks),
        read=np.array(read)[:, None],
        written=np.array(written)[:, None],
        either=np.add(read, written)[:, None],
        allocation_sectors=np.array([10**9]),
        grid_blocks=grid,
        rows=None if rows is None else np.array(rows, float),
    )


def test_a_piece_opens_a_row_however_many_of_its_sectors_are_touched() -> None:
    assert opened_rows(touched([])) == 0
    assert opened_rows(touched([5])) == pytest.approx(1)
    assert opened_rows(touched(list(range(8, 16)))) == pytest.approx(1)


def test_pieces_far_apart_open_a_row_each() -> None:
    region = SECTORS_PER_PIECE * PIECES_PER_REGION
    assert opened_rows(touched([0, region, 2 * region + 9, 4 * region - 1])) == pytest.approx(4)


@given(st.integers(1, PIECES_PER_REGION))
def test_neighbouring_pieces_share_the_rows_of_their_region(pieces: int) -> None:
    """Of 16 rows, a piece leaves each other one closed with probability 15/16."""
    found = opened_rows(touched([SECTORS_PER_PIECE * n for n in range(pieces)]))
    assert found == pytest.approx(ROWS * (1 - (15 / 16) ** pieces))
    assert found <= min(pieces, ROWS) + 1e-9


def test_a_slowdown_is_the_bandwidth_over_that_of_opening_rows() -> None:
    """An RTX 3090 has 24 channels of 16 bits: in 3.43 ns they bring 24 rows, of 64 bytes here."""
    gpu = load_gpu("rtx-3090")
    assert gpu.dram_rate is not None
    assert gpu.dram_rows_per_s == pytest.approx(24 / 3.43e-9)
    found = row_slowdown(curve([160], [160], [(80, 20)], [10]), gpu, 10)
    assert found.read == pytest.approx(gpu.dram_rate.bytes_per_s / (24 * 64 / 3.43e-9))
    assert found.written == 1.0


def test_no_slowdown_where_little_is_known() -> None:
    gpu = load_gpu("rtx-3090")
    assert row_slowdown(curve([160], [160], None, [10]), gpu, 10) == RowSlowdown()
    assert row_slowdown(curve([9], [9], [(9, 9)], [2], grid=100), gpu, 100) == RowSlowdown()


def test_a_transpose_writes_short_pieces_and_a_copy_does_not() -> None:
    """Tiles of 16 x 16: blocks that run side by side fill a row of DRAM together, or 64 bytes in each of many."""
    found = {}
    for name, size in (("copy", SIZE), ("transpose", 16 * SIZE)):
        where = launch((8, 2), (16, 16), y=f"f32[{16 * size}, 16]", x=f"f32[{16 * size}, 16]")
        executed = run_launch(compiled(SOURCE, name), where, WholeGrid())
        found[name] = footprint_curve(executed, 1e3)
    assert found["transpose"].sectors_per_row(8, "written") == pytest.approx(2, rel=0.01)
    assert found["transpose"].sectors_per_row(8, "read") > 4
    assert found["copy"].sectors_per_row(16, "written") > 4
