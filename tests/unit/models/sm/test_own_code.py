"""Micro-ops by the kernel's own machine code: as many as the disassembler prints, and what happens without one."""

import math
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerncast.bench import KERNELS
from kerncast.caveats import CaveatKind
from kerncast.compile import CompiledKernel, compile_request
from kerncast.compile import CompileRequest as Request
from kerncast.execute import WholeGrid, execute
from kerncast.forecast import Options, forecast_all
from kerncast.gpu import load_architecture, load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.machine import listing
from kerncast.machine.listing import disassembler
from kerncast.machine.own_code import machine_code
from kerncast.models.base import Case, Estimate, interval_factor
from kerncast.models.sm.lower import lower, not_in_table
from kerncast.models.sm.micro_ops import FULL_WEIGHT, Memory, Pipe, Program
from kerncast.models.sm.simulation import Simulation
from kerncast.prediction import Prediction
from kerncast.profiles import Counts, KernelProfile, Origin
from kerncast.traces import Trace
from tests.helpers.execute_helpers import launch
from tests.helpers.thorough import sampled

needs_disassembler = pytest.mark.skipif(disassembler() is None, reason="nvidia-cuda-nvdisasm is not installed")
#: One straight line of code, without a branch that not all threads take.
STRAIGHT = """
extern "C" __global__ void straight(float* out, const float* in, double* sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i], b = in[i + 4096];
    a = a * b + 1.0f; b = b * a + 2.0f; a = a * a + b; b = fmaxf(a, b) - a;
    out[i] = rsqrtf(a) + b;
    sums[i] = sums[i] * 3.0 + (double)b;
}
"""
#: The compiler unrolls this loop by four.
COUNTED = """
extern "C" __global__ void counted(unsigned* out, unsigned n) {
    unsigned a = threadIdx.x, b = 7;
    for (unsigned i = 0; i < n; i++) { a = a * b + i; b ^= a >> 3; }
    out[threadIdx.x] = a;
}
"""


def compiled(source: str, name: str, folder: Path, architecture: str) -> CompiledKernel:
    (folder / "k.cu").write_text(source, encoding="utf-8")
    return compile_request(Request(folder / "k.cu", (architecture,), name)).kernels[0]


def own_program(kernel: CompiledKernel, trace: Trace, architecture: str) -> Program:
    code = machine_code(trace, kernel)
    assert code.operations
    assert not code.problem
    return lower(trace.function, trace.cfg, load_architecture(architecture), code)


def executed(program: Program, trace: Trace) -> dict[Pipe, float]:
    """Return the micro-ops of each pipe that warps issue, accesses left out."""
    warps = trace.counts.block_warps.sum(axis=0)
    found: Counter[Pipe] = Counter()
    for block, count in enumerate(warps.tolist()):
        for op in range(program.starts[block], program.starts[block + 1]):
            if program.memory[op] == Memory.NONE:
                found[Pipe(program.pipe[op])] += count * int(program.weight[op]) / FULL_WEIGHT
    return dict(found)


def printed(kernel: CompiledKernel, folder: Path) -> Counter[str]:
    """Return how often the disassembler prints each opcode before the last EXIT, which ends a straight line."""
    (folder / "k.cubin").write_bytes(kernel.cubin)
    program = disassembler()
    assert program is not None
    text = subprocess.run([program, "-c", folder / "k.cubin"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)", text)
    return Counter(found[: len(found) - found[::-1].index("EXIT")])


@needs_disassembler
@pytest.mark.parametrize(
    "architecture", sampled(["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"], ["sm_75", "sm_80", "sm_120"])
)
def test_a_straight_line_becomes_what_the_disassembler_prints(architecture: str, tmp_path: Path) -> None:
    kernel = compiled(STRAIGHT, "straight", tmp_path, architecture)
    arguments = {"out": "f32[8192] zeros", "in": "f32[8192] random", "sums": "f64[8192] random"}
    trace, _ = execute(kernel, launch(8, 128, **arguments), WholeGrid())
    warps, opcodes = 8 * 4, printed(kernel, tmp_path)
    found = executed(own_program(kernel, trace, architecture), trace)
    exact = {"FFMA": Pipe.FMA, "FADD": Pipe.FMA, "FMUL": Pipe.FMA}
    assert found[Pipe.FMA] == warps * sum(opcodes[each] for each in exact)
    assert found[Pipe.FP64] == pytest.approx(warps * (opcodes["DFMA"] + opcodes["F2F"] * _double_by_fp64(architecture)))
    assert found[Pipe.XU] == pytest.approx(
        warps * (opcodes["MUFU"] + opcodes["F2F"] * (1 - _double_by_fp64(architecture)))
    )


def _double_by_fp64(architecture: str) -> int:
    """Whether conversions to FP64 take the FP64 pipe (throughput table of the programming guide)."""
    return int(architecture in {"sm_75", "sm_86", "sm_89", "sm_120"})


@needs_disassembler
@pytest.mark.parametrize("turns", [7, 64, 1001])
def test_a_loop_counts_its_turns_however_it_is_unrolled(turns: int, tmp_path: Path) -> None:
    """A turn multiplies once, adding; the shift and the exclusive or are one LOP3 with a SHF, or more."""
    kernel = compiled(COUNTED, "counted", tmp_path, "sm_86")
    trace, _ = execute(kernel, launch(1, 32, out="u32[32] zeros", n=turns), WholeGrid())
    found = executed(own_program(kernel, trace, "sm_86"), trace)
    assert turns <= found[Pipe.IMAD] <= 2 * turns + 30
    assert 2 * turns <= found[Pipe.ALU] <= 4 * turns + 30


@needs_disassembler
@pytest.mark.parametrize("name", ["hotspot", "lud", "nbody", "radix_sort", "spmv_csr"])
def test_the_suite_becomes_as_many_as_its_machine_code_has(name: str) -> None:
    """Arithmetic alone: accesses are recorded, and what each warp waits for is the simulation's."""
    one = load_launches(KERNELS / "suite" / f"{name}.toml")[0]
    kernel = compile_request(Request(one.source, ("sm_86",), one.kernel, one.defines)).kernels[0]
    trace, _ = execute(kernel, one)
    code = machine_code(trace, kernel)
    program = lower(trace.function, trace.cfg, load_architecture("sm_86"), code)
    floats = {"FFMA", "FADD", "FMUL"}
    expected = sum(each.warps for each in code.operations if each.opcode in floats)
    assert executed(program, trace).get(Pipe.FMA, 0.0) == pytest.approx(expected, rel=0.01)


def one_forecast(where: Launch, gpu: str) -> Prediction:
    return forecast_all(where, [(load_gpu(gpu), ())], Options("simulation")).predictions[0]


def test_without_the_disassembler_a_caveat_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(listing, "disassembler", lambda: None)
    listing.disassemble.cache_clear()
    where = load_launches(KERNELS / "suite" / "vector_add.toml")[0]
    found = one_forecast(where, "RTX 4070")
    listing.disassemble.cache_clear()
    (caveat,) = (each for each in found.caveats if each.kind is CaveatKind.MACHINE_CODE_ESTIMATED)
    assert "nvidia-cuda-nvdisasm" in dict(caveat.texts)["reason"]
    old = one_forecast(where, "TITAN V")
    assert not [each for each in old.caveats if each.kind is CaveatKind.MACHINE_CODE_ESTIMATED]


RARE = """
extern "C" __global__ void rare(int* out, int a, int n) {
    int s = threadIdx.x;
    for (int i = 0; i < n; ++i) s = __vabsdiffu4(__dp2a_lo(s, a, s), a) + i;
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
"""


def test_forms_that_the_table_lacks_are_named_and_widen_the_interval(tmp_path: Path) -> None:
    """A loop of byte arithmetic, which no program has that the table was made from; on Turing its code is read."""
    (tmp_path / "k.cu").write_text(RARE, encoding="utf-8")
    arguments = {"out": "i32[65536] zeros", "a": 3, "n": 100}
    where = replace(launch(256, 256, **arguments), source=tmp_path / "k.cu", kernel="rare")
    old, new = (one_forecast(where, name) for name in ("TITAN V", "RTX 2080 Ti"))
    (caveat,) = (each for each in old.caveats if each.kind is CaveatKind.MACHINE_CODE_OF_SIMILAR_FORMS)
    assert {name.split(".")[0] for name in caveat.subject.split(", ")} == {"dp2a", "vabsdiff4"}
    percent = dict(caveat.numbers)["percent"]
    assert 20 < percent < 80
    if disassembler() is not None:
        assert CaveatKind.MACHINE_CODE_OF_SIMILAR_FORMS not in {each.kind for each in new.caveats}
    kernel = compile_request(Request(where.source, ("sm_70",), "rare")).kernels[0]
    trace, _ = execute(kernel, where, WholeGrid())
    lacking = list(not_in_table(trace.function, trace.cfg, 70))
    executed_warps = np.repeat(trace.counts.block_warps.sum(axis=0), trace.cfg.lengths)
    assert percent == pytest.approx(100 * executed_warps[lacking].sum() / executed_warps.sum(), rel=0.01)


def test_a_further_error_widens_the_interval_by_its_part() -> None:
    """Independent lognormal errors: the squares of their widths add up."""
    nothing = Counts.of(Origin.EXECUTED, {})
    profile = KernelProfile("k", 0, (1, 1, 1), (32, 1, 1), 0, None, Origin.EXECUTED, nothing, None, None)
    case = Case(profile, load_gpu("TITAN V"))
    plain = Estimate(1e-3, "latency", (), 1e-3, 1e-3)
    model = Simulation()
    usual, wider = (math.log(model.error_factor(case, each, 0.9)[0]) for each in (plain, replace(plain, log_sigma=0.3)))
    assert wider == pytest.approx(math.hypot(usual, math.log(interval_factor(0.3, 0.9))))
