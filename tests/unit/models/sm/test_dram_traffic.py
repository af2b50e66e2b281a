"""Which part of what L2 is asked for DRAM sees, against closed forms."""

from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.forecast import Options, forecast_all
from kerncast.gpu import load_gpu
from kerncast.models.sm.grid_memory import local_share
from kerncast.occupancy import cache_geometry
from kerncast.prediction import Prediction, Timing
from kerncast.traces import Operation
from tests.helpers.sm_programs import WHOLE_LINE, Step, trace_of

KERNEL = """
extern "C" __global__ void scramble(const int *order, float *y) {
    float held[WORDS];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < WORDS; ++k) held[(order[k] + k) % WORDS] = thread + k;
    float sum = 0;
    for (int k = 0; k < WORDS; ++k) sum += held[(order[k] + WORDS - 1 - k) % WORDS];
    y[thread] = sum;
}
"""


@pytest.mark.parametrize(("warps", "share"), [(1000, 0.0), (2000, 0.0), (2500, 0.2), (4000, 0.5), (20000, 0.9)])
def test_frames_of_all_resident_warps_fill_l2(warps: int, share: float) -> None:
    """Each warp writes and reads eight lines of its own; L2 holds 2000 times as much."""
    steps = [
        Step(0, {0: [(operation, line, WHOLE_LINE) for line in range(8)]})
        for operation in (Operation.LOCAL_STORE, Operation.LOCAL_LOAD)
    ]
    trace = trace_of([[steps, steps]] * 3, local_lines=8)
    geometry = replace(cache_geometry(load_gpu("TITAN V"), 1, 0), l2_bytes=2000 * 8 * 128)
    assert local_share(trace, geometry, warps) == pytest.approx(share)


def test_only_sectors_that_are_touched_count() -> None:
    steps = [Step(0, {0: [(Operation.LOCAL_STORE, line, 0b0011) for line in range(8)]})]
    trace = trace_of([[steps, [Step(0)]]], local_lines=8)
    geometry = replace(cache_geometry(load_gpu("TITAN V"), 1, 0), l2_bytes=2000 * 8 * 32)
    assert local_share(trace, geometry, 2000) == pytest.approx(0.0)
    assert local_share(trace, geometry, 4000) == pytest.approx(0.5)
    assert local_share(trace_of([[[Step(0)]]]), geometry, 1e6) == 0.0


def cold_forecast(folder: Path, source: str, launch: str, gpu: str) -> Prediction:
    """Return the forecast of a launch of some source, with cold caches."""
    (folder / "k.cu").write_text(source, encoding="utf-8")
    (folder / "k.toml").write_text(f'source = "k.cu"\n[[launch]]\n{launch}\n', encoding="utf-8")
    options = Options(timing=Timing.COLD, model="simulation")
    return forecast_all(folder / "k.toml", [(load_gpu(gpu), ())], options).predictions[0]


def forecast(folder: Path, words: int) -> Prediction:
    arguments = f'order = "i32[{words}] zeros", y = "f32[{3200 * 128}] zeros"'
    launch = f'kernel = "scramble"\ngrid = [3200]\nblock = [128]\nargs = {{ {arguments} }}'
    return cold_forecast(folder, f"#define WORDS {words}{KERNEL}", launch, "titan-v")


def test_an_indexed_array_of_many_threads_reaches_dram(tmp_path: Path) -> None:
    """Of 256 words, 163,840 resident threads have 168 MB, of 4 words 2.6 MB: L2 holds 4.5 MB."""
    few, many = forecast(tmp_path, 4).term("dram"), forecast(tmp_path, 256).term("dram")
    assert few is not None
    assert many is not None
    assert few < 10e-6
    assert many > 64 * few


COPIES = """
extern "C" __global__ void copy(float *to, const float *from) {
    const int i = STRIDE * (blockIdx.x * blockDim.x + threadIdx.x);
    to[i] = from[i];
}
extern "C" __global__ void update(float *to, const float *from) {
    const int i = STRIDE * (blockIdx.x * blockDim.x + threadIdx.x);
    to[i] += from[i];
}
"""


def dram_seconds(folder: Path, kernel: str, stride: int, gpu: str) -> float:
    """Return the time of DRAM alone for 2^22 sectors that are read and as many that are stored in."""
    count = 2**22 * 8
    arguments = f'to = "f32[{count}] zeros", from = "f32[{count}] zeros"'
    launch = f'kernel = "{kernel}"\ngrid = [{count // stride // 256}]\nblock = [256]\nargs = {{ {arguments} }}'
    found = cold_forecast(folder, f"#define STRIDE {stride}{COPIES}", launch, gpu).term("dram")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kernel", "gpu", "times"),
    [("copy", "rtx-2080-ti", 1.5), ("copy", "titan-v", 1.0), ("update", "rtx-2080-ti", 1.0)],
)
def test_a_sector_that_is_stored_in_part_is_read_first_where_dram_takes_whole_ones(
    kernel: str, gpu: str, times: float, tmp_path: Path
) -> None:
    """A word of each sector: three sectors move instead of two; what the kernel reads itself is read once."""
    strided, dense = (dram_seconds(tmp_path, kernel, stride, gpu) for stride in (8, 1))
    assert strided == pytest.approx(times * dense, rel=0.02)


def test_sectors_that_later_blocks_fill_while_l2_holds_them_are_not_read(tmp_path: Path) -> None:
    """Each of eight rows of blocks stores another word of every sector of 3.2 MB; L2 has 5.5 MB."""
    source = """extern "C" __global__ void k(float *to) {
        to[(blockIdx.x * blockDim.x + threadIdx.x) * 8 + blockIdx.y] = 1;
    }"""
    launch = 'kernel = "k"\ngrid = [400, 8]\nblock = [256]\nargs = { to = "f32[819200] zeros" }'
    turing, volta = (cold_forecast(tmp_path, source, launch, gpu).term("dram") for gpu in ("rtx-2080-ti", "titan-v"))
    assert turing is not None
    assert volta is not None
    # 616 and 653 GB/s: the same bytes move.
    assert turing == pytest.approx(volta, rel=0.2)


def test_lines_that_one_sm_asks_for_are_a_term_of_l2(tmp_path: Path) -> None:
    """64 loads of each of 32 warps, of 32 lines each: two cycles for a line, whatever L2 could give."""
    source = """extern "C" __global__ void k(float *to, const float *from) {
        float sum = 0;
        for (int n = 0; n < 64; n++) sum += from[(n * 1024 + threadIdx.x) * 32];
        to[threadIdx.x] = sum;
    }"""
    launch = 'kernel = "k"\ngrid = [1]\nblock = [1024]\nargs = { to = "f32[1024] zeros", from = "f32[2097152] zeros" }'
    found = cold_forecast(tmp_path, source, launch, "titan-v")
    asked = 64 * 1024 * 2 / load_gpu("titan-v").clock_hz
    assert found.term("l2") == pytest.approx(asked, rel=0.01)
    assert found.seconds > asked
