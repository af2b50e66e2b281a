"""A loop of one operation takes what the pipe of its type takes, on every GPU that has one, and never less."""

from pathlib import Path

import pytest

from kerncast import predict
from kerncast.gpu import GPU, load_gpu
from kerncast.prediction import Timing
from tests.helpers.thorough import THOROUGH

SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void loop(T *y, T a, T b, int rounds) {
    T s0 = a, s1 = b, s2 = a, s3 = b, s4 = a, s5 = b, s6 = a, s7 = b;
    for (int k = 0; k < rounds; ++k) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            s0 = FMA(s0, a, b); s1 = FMA(s1, a, b); s2 = FMA(s2, a, b); s3 = FMA(s3, a, b);
            s4 = FMA(s4, a, b); s5 = FMA(s5, a, b); s6 = FMA(s6, a, b); s7 = FMA(s7, a, b);
        }
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = SUM;
}
"""
SUM = "s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7"
PACKED, SINGLE, DOUBLE = ("__half2", "__hfma2", SUM), ("float", "fmaf", SUM), ("double", "fma", SUM)
ROUNDS, BLOCKS_PER_SM = 16, 8
GPUS = ("p100-pcie-16gb", "v100-sxm2-16gb", "t4", "a100-sxm-40gb", "rtx-3090", "rtx-4090", "h100-sxm", "rtx-5090")


def seconds(folder: Path, kind: tuple[str, str, str], argument: str, gpu: GPU) -> float:
    names = dict(zip(("T", "FMA", "SUM"), kind, strict=True))
    macros = "".join(f"#define {name} {text}\n" for name, text in names.items())
    (folder / "k.cu").write_text(macros + SOURCE, encoding="utf-8")
    blocks = BLOCKS_PER_SM * gpu.sm_count
    (folder / "k.toml").write_text(
        f'source = "k.cu"\n[[launch]]\nkernel = "loop"\ngrid = [{blocks}]\nblock = [256]\n'
        f'args = {{ y = "f32[{2 * 256 * blocks}]", a = {argument}, b = {argument}, rounds = {ROUNDS} }}\n',
        encoding="utf-8",
    )
    (found,) = predict(folder / "k.toml", gpu, timing=Timing.PROFILER.value)
    assert found.model == "simulation"
    return found.seconds


def expected(gpu: GPU, results_per_sm: float, results_per_warp: int) -> float:
    """Return the time of the multiply-adds alone, by the lanes of the data sheet."""
    warp_instructions = BLOCKS_PER_SM * 8 * ROUNDS * 64
    return warp_instructions * results_per_warp / results_per_sm / gpu.clock_hz


@pytest.mark.parametrize("name", GPUS)
def test_a_loop_of_multiply_adds_runs_at_the_rate_of_its_pipe(name: str, tmp_path: Path) -> None:
    gpu = load_gpu(name)
    a = gpu.architecture
    assert a.fp16_lanes_per_sm is not None
    every = (
        (PACKED, '"bytes(003c003c)"', a.fp16_lanes_per_sm, 64), (SINGLE, "1.0", a.fp32_lanes_per_sm, 32),
        (DOUBLE, "1.0", a.fp64_lanes_per_sm, 32),
    )  # fmt: skip
    place = (GPUS.index(name) + 1) % len(every)
    for kind, argument, lanes, results in every if THOROUGH else every[place : place + 1]:
        found = seconds(tmp_path, kind, argument, gpu)
        least = expected(gpu, lanes, results)
        assert least * 0.99 <= found <= least * 1.1 + 5e-6, (kind[0], found / least)


#: One operation of 32 bits a statement, which no optimisation can make less: results of 32 lanes each.
OTHERS = {
    "integer multiply-add": ("unsigned", "{x} * a + b"),
    "shift": ("unsigned", "__funnelshift_l({x}, {y}, a)"),
    "special function": ("float", "rsqrt({x})"),
    "float add": ("float", "{x} + a"),
    "population count": ("unsigned", "__popc({x}) + b"),
    "upper half of a product": ("unsigned", "__umulhi({x}, a)"),
}
RSQRT = """
__device__ float rsqrt(float x) { float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
"""
#: Results per clock and SM (CUDA C++ Programming Guide 12.9, throughput of native arithmetic instructions). Logic is
#: left out: the compiler makes two rounds of any two operands one, of three.
THROUGHPUT = {
    "integer multiply-add": {"7.0": 64, "7.5": 64, "8.0": 64, "8.6": 64, "8.9": 64, "9.0": 64},
    "shift": {"7.0": 64, "7.5": 64, "8.0": 64, "8.6": 64, "8.9": 64, "9.0": 64},
    "special function": {"6.0": 16, "7.0": 16, "7.5": 16, "8.0": 16, "8.6": 16, "8.9": 16, "9.0": 16},
    "float add": {"6.0": 64, "7.0": 64, "7.5": 64, "8.0": 64, "8.6": 128, "8.9": 128, "9.0": 128},
    "population count": {"7.0": 16, "7.5": 16, "8.0": 16, "8.6": 16, "8.9": 16, "9.0": 16},
    # The guide has none: ptxas 12.9 keeps IMAD.HI and IMAD.WIDE four cycles apart, and IMAD two.
    "upper half of a product": {"7.5": 32, "8.0": 32, "8.6": 32, "8.9": 32, "9.0": 32},
}
OF_CAPABILITY = {
    "6.0": "p100-pcie-16gb", "7.0": "v100-sxm2-16gb", "7.5": "t4", "8.0": "a100-sxm-40gb", "8.6": "rtx-3090",
    "8.9": "rtx-4090", "9.0": "h100-sxm",
}  # fmt: skip


def loop_of(kind: str) -> str:
    """Return the source of a loop of 64 statements a round."""
    of_type, statement = OTHERS[kind]
    body = "".join(f"s{n} = {statement.format(x=f's{n}', y=f's{(n + 1) % 8}')}; " for n in range(8))
    names = [f"s{n}" for n in range(8)]
    first = ", ".join(f"{name} = threadIdx.x + {n}" for n, name in enumerate(names))
    return f"""{RSQRT}
extern "C" __global__ void loop({of_type} *y, {of_type} a, {of_type} b, int rounds) {{
    {of_type} {first};
    for (int k = 0; k < rounds; ++k) {{
#pragma unroll
        for (int n = 0; n < 8; ++n) {{ {body} }}
    }}
    y[blockIdx.x * blockDim.x + threadIdx.x] = {" + ".join(names)};
}}
"""


@pytest.mark.parametrize("kind", OTHERS)
def test_other_operations_run_at_the_rates_of_the_programming_guide(kind: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(loop_of(kind), encoding="utf-8")
    rates = list(THROUGHPUT[kind].items())
    # By default two capabilities a kind, others for the next kind, so that each has its turn.
    place = list(OTHERS).index(kind) % 3
    for capability, rate in rates if THOROUGH else rates[place::3]:
        gpu = load_gpu(OF_CAPABILITY[capability])
        blocks, of_type = BLOCKS_PER_SM * gpu.sm_count, OTHERS[kind][0][0]
        (tmp_path / "k.toml").write_text(
            f'source = "k.cu"\n[[launch]]\nkernel = "loop"\ngrid = [{blocks}]\nblock = [256]\n'
            f'args = {{ y = "{of_type}32[{256 * blocks}]", a = 5, b = 7, rounds = {ROUNDS} }}\n',
            encoding="utf-8",
        )
        (found,) = predict(tmp_path / "k.toml", gpu, timing=Timing.PROFILER.value)
        least = expected(gpu, rate, 32)
        assert least * 0.99 <= found.seconds <= least * 1.1 + 5e-6, (capability, found.seconds / least)
