"""A loop of products of tensor cores takes what the data sheet's rate of its types says, and never less."""

import math
from pathlib import Path

import pytest

from kerncast import predict, profile
from kerncast.gpu import load_gpu
from kerncast.prediction import Timing
from tests.helpers.thorough import sampled

WARPS = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void loop(SUM *y, int rounds) {
  wmma::fragment<wmma::matrix_a, SHAPE, FACTOR, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, SHAPE, FACTOR, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, SHAPE, SUM> c[4];
  for (int n = 0; n < 4; ++n)  // no two sums are equal: the compiler would make one of them
    for (int i = 0; i < c[n].num_elements; ++i) c[n].x[i] = SUM(8 * n + i);
  wmma::fill_fragment(a, ELEMENT(1));
  wmma::fill_fragment(b, ELEMENT(1));
  for (int k = 0; k < rounds; ++k)
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (auto &each : c) wmma::mma_sync(each, a, b, each);
  for (int n = 1; n < 4; ++n)
    for (int i = 0; i < c[0].num_elements; ++i) c[0].x[i] = c[0].x[i] + c[n].x[i];
  wmma::store_matrix_sync(y + (blockIdx.x * 8 + threadIdx.x / 32) * M * N, c[0], N, wmma::mem_row_major);
}
"""
TYPES = {
    "f16": ("half", "half", "float", (16, 16, 16)), "f16 f16": ("half", "half", "half", (16, 16, 16)),
    "tf32": ("wmma::precision::tf32", "float", "float", (16, 16, 8)),
    "s8": ("signed char", "(signed char)", "int", (16, 16, 16)), "f64": ("double", "double", "double", (8, 8, 4)),
}  # fmt: skip
#: What the profiler's time has besides: blocks start, and the last ones end.
LAUNCH_S = 2e-6
#: Dense rates of data sheets in TFLOP/s; of the H100 what warp-level instructions reach of them (arXiv 2402.13499).
PEAKS = [
    ("v100-sxm2-16gb", "f16", 125), ("t4", "f16", 65), ("t4", "s8", 130), ("a100-sxm-40gb", "f16", 312),
    ("a100-sxm-40gb", "tf32", 156), ("a100-sxm-40gb", "s8", 624), ("a100-sxm-40gb", "f64", 19.5),
    ("rtx-3090", "f16", 71), ("rtx-3090", "f16 f16", 142), ("rtx-3090", "s8", 284), ("a40", "f16", 149.7),
    ("jetson-agx-orin-64gb", "f16", 42.5), ("rtx-4090", "f16", 165.2), ("rtx-4090", "f16 f16", 330.3),
    ("l40s", "f16", 362.1), ("h100-sxm", "f16", 989.4 * 0.625), ("h100-sxm", "f64", 66.9),
    ("rtx-5090", "f16", 209.5), ("rtx-5090", "s8", 838),
]  # fmt: skip
USUAL = [case for case in PEAKS if case[2] in {125, 65, 156, 19.5, 71, 989.4 * 0.625, 209.5}]


@pytest.mark.parametrize(("name", "kind", "peak"), sampled(PEAKS, USUAL))
def test_a_loop_of_products_runs_at_the_rate_of_the_data_sheet(
    name: str, kind: str, peak: float, tmp_path: Path
) -> None:
    gpu = load_gpu(name)
    blocks, rounds = 2 * gpu.sm_count, 64
    (found,) = predict(_loop(tmp_path, kind, blocks, rounds), gpu, timing=Timing.PROFILER.value)
    assert found.model == "simulation"
    operations = blocks * 8 * rounds * 16 * 2 * math.prod(TYPES[kind][3])
    shortest = operations / (peak * 1e12) * gpu.clock_boost_hz / gpu.clock_hz
    assert 0.99 * shortest <= found.seconds <= 1.05 * shortest + LAUNCH_S


def test_a_profile_takes_the_forecasts_time_where_tensor_cores_lower_the_clock(tmp_path: Path) -> None:
    file, gpu = _loop(tmp_path, "f16", 264, 64), load_gpu("h100-sxm")
    (found,) = predict(file, gpu, timing=Timing.PROFILER.value)
    states = profile(file, gpu=gpu).profile.warp_states
    assert states is not None
    assert states.seconds == found.seconds
    at_boost = states.cycles / gpu.clock_hz
    assert states.seconds - LAUNCH_S > 1.05 * at_boost  # 1980 / 1830 MHz


def test_a_time_that_was_measured_at_the_boost_clock_is_the_forecast(tmp_path: Path) -> None:
    """It ran at 1980 MHz under this load, so nothing lowers the clock; the default clock is the one without --clock."""
    file, gpu = _loop(tmp_path, "f16", 264, 512), load_gpu("h100-sxm")
    (tmp_path / "m.csv").write_text("kernel,gpu,seconds,clock_mhz\nloop,H100 SXM,120e-6,1980\n", encoding="utf-8")
    (found,) = predict(file, gpu, measured=tmp_path / "m.csv")
    assert found.seconds == pytest.approx(120e-6, rel=1e-3)
    assert found.low < 120e-6 < found.high
    usual, default, boost = (predict(file, gpu, clock=clock)[0].seconds for clock in (None, "default", "boost"))
    assert usual == default > 1.05 * boost


def _loop(folder: Path, kind: str, blocks: int, rounds: int) -> Path:
    """Write the kernel with these types, 8 warps to a block, and a launch of it."""
    factor, element, total, (m, n, k) = TYPES[kind]
    names = {"SHAPE": f"{m}, {n}, {k}", "FACTOR": factor, "ELEMENT": element, "SUM": total, "M": m, "N": n}
    macros = "".join(f"#define {each} {text}\n" for each, text in names.items())
    (folder / "k.cu").write_text(macros + WARPS, encoding="utf-8")
    of_sums = {"float": "f32", "half": "f16", "int": "i32", "double": "f64"}[total]
    (folder / "k.toml").write_text(
        f'source = "k.cu"\n[[launch]]\nkernel = "loop"\ngrid = [{blocks}]\nblock = [256]\n'
        f'args = {{ y = "{of_sums}[{blocks * 8 * m * n}]", rounds = {rounds} }}\n',
        encoding="utf-8",
    )
    return folder / "k.toml"
