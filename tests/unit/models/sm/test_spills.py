"""Spilled registers, against Nsight Compute's counters of tuned convolutions, closed forms, and a compiler."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast.compile import CompileRequest, compile_request
from kerncast.execute import WholeGrid, execute
from kerncast.forecast import Options, forecast_all
from kerncast.gpu import load_gpu
from kerncast.machine.listing import disassembler
from kerncast.machine.own_code import machine_code
from kerncast.models.sm.grid_memory import GridOnGPU, Spills, spilled_words, spills_of, words_once
from kerncast.models.sm.results import SMLoad
from kerncast.occupancy import cache_geometry
from kerncast.prediction import Prediction
from kerncast.profiles import Resources
from kerncast.traces import Execution
from tests.helpers.execute_helpers import launch

TURING = load_gpu("RTX 2080 Ti")


def resources(frame: int, stored: int, loaded: int) -> Resources:
    return Resources("sm_75", 255, 0, frame, stored, loaded, 0, None, None)


def grid(resident: int, sms: float = 68.0) -> GridOnGPU:
    geometry = cache_geometry(TURING, resident, 0)
    return GridOnGPU(TURING, geometry, SMLoad(100, sms, 100), resident, 6800)


def spills(of: Resources, warps_per_block: int, on: GridOnGPU) -> Spills:
    return spills_of(of, warps_per_block, on, words_once(of, warps_per_block))


@pytest.mark.parametrize(
    ("frame", "stored", "blocks", "warps_per_block", "resident", "counted_gb"),
    [
        # KTT's convolution on an RTX 2080 Ti (MIT): frame and spills of the build, grid, and the DRAM bytes counted
        # beyond the 0.131 GB of the images.
        (2320, 2292, 8892, 4, 2, 5.06),
        (1440, 1408, 8892, 4, 2, 2.89),
        (760, 756, 12977, 2, 4, 1.00),
        (616, 616, 19338, 3, 2, 1.54),
    ],
)
def test_spills_reach_dram_as_counted(  # noqa: PLR0913, PLR0917  a row of the table
    frame: int, stored: int, blocks: int, warps_per_block: int, resident: int, counted_gb: float
) -> None:
    found = spills(resources(frame, stored, stored), warps_per_block, grid(resident))
    nbytes = 32 * (found.dram_read + found.dram_written) * blocks
    assert nbytes == pytest.approx(counted_gb * 1e9, rel=0.16)


def test_a_word_of_a_warp_is_four_sectors() -> None:
    """100 bytes stored and 60 loaded by 2 warps: 50 and 30 requests, of 4 sectors each."""
    found = spills(resources(40000, 100, 60), 2, grid(2))
    assert found.requests == 80
    assert (found.l2_written, found.l2_read) == (200, 120)


def test_small_frames_stay_in_l1() -> None:
    """8 bytes of 2 x 64 threads are 1 KiB: L1 keeps what is loaded, and L2 gets what is stored."""
    found = spills(resources(8, 8, 8), 2, grid(2))
    assert (found.l2_read, found.dram_read) == (0.0, 0.0)
    assert found.l2_written == 16
    assert 0 < found.dram_written < 1  # 70 KB of 5.5 MB


def test_nothing_is_spilled() -> None:
    assert spills(resources(400, 0, 0), 8, grid(2)) == Spills()


def test_more_spills_never_ask_for_less() -> None:
    frames = [spills(resources(size, size, size), 4, grid(2)) for size in range(0, 4000, 100)]
    for name in ("requests", "l2_read", "l2_written", "dram_read", "dram_written"):
        values = [getattr(found, name) for found in frames]
        assert values == sorted(values), name


SOURCE = """
extern "C" __global__ void __launch_bounds__(256, BLOCKS) sums(const float *x, float *y, int n) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float held[96];
#pragma unroll
    for (int k = 0; k < 96; ++k) held[k] = x[thread + k * 4096];
#pragma unroll
    for (int k = 0; k < 96; ++k) held[k] = held[k] * held[(k * 7 + 5) % 96] + held[(k * 31 + 11) % 96];
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 96; ++k) sum += held[k] * held[95 - k];
    y[thread] = sum;
}
"""


def forecast(folder: Path, blocks: int) -> Prediction:
    (folder / "k.cu").write_text(f"#define BLOCKS {blocks}{SOURCE}", encoding="utf-8")
    (folder / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\nkernel = "sums"\ngrid = [4096]\nblock = [256]\n'
        'args = { x = "f32[1500000]", y = "f32[1048576]", n = 1048576 }\n',
        encoding="utf-8",
    )
    found = forecast_all(folder / "k.toml", [(replace(TURING), ())], Options())
    return found.predictions[0]


def test_a_build_that_spills_moves_more_bytes(tmp_path: Path) -> None:
    """With four blocks on each SM a thread has 64 registers for 96 values; with one it has all that it needs."""
    roomy, spilling = forecast(tmp_path, 1), forecast(tmp_path, 4)
    more = (spilling.term("l2") or 0) - (roomy.term("l2") or 0)
    assert more > 1e-5
    assert spilling.seconds > roomy.seconds + 0.5 * more


IN_A_LOOP = """
extern "C" __global__ void __launch_bounds__(256, 4) rounds(const float *x, float *y, int n) {
    float held[96];
#pragma unroll
    for (int k = 0; k < 96; ++k) held[k] = x[threadIdx.x + k * 256];
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int k = 0; k < 96; ++k) held[k] = held[k] * held[(k * 7 + 5) % 96] + x[i];
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 96; ++k) sum += held[k];
    y[blockIdx.x * 256 + threadIdx.x] = sum;
}
"""


@pytest.mark.skipif(disassembler() is None, reason="nvidia-cuda-nvdisasm is not installed")
def test_spills_in_a_loop_count_as_often_as_it_turns(tmp_path: Path) -> None:
    """Between one turn and another each register that is kept in memory is loaded and stored again."""
    (tmp_path / "k.cu").write_text(IN_A_LOOP, encoding="utf-8")
    kernel = compile_request(CompileRequest(tmp_path / "k.cu", ("sm_86",), "rounds")).kernels[0]
    assert kernel.resources.spills

    def words(turns: int) -> float:
        trace, _ = execute(kernel, launch(1, 256, x="f32[32768]", y="f32[256]", n=turns), WholeGrid())
        found = Execution(trace, np.ones(1), is_independent=True, machine=machine_code(trace, kernel))
        return sum(spilled_words(kernel.resources, found, 8))

    few, more, most = words(10), words(20), words(40)
    assert most - more == pytest.approx(2 * (more - few))
    assert more - few >= 10 * 8 * 2, "at least a word is loaded and one stored in each turn of each warp"
    assert few > sum(words_once(kernel.resources, 8))
