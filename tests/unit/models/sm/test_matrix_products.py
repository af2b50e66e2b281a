"""Products of tensor cores: forecast at the rate of the data sheet where that is known, refused where it is not."""

from pathlib import Path

import pytest

from kerncast import predict
from kerncast.errors import MissingEvidenceError, Refusal
from kerncast.gpu import load_architecture, load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.models.sm.lower.operation_costs import Cost, cost_of, cost_of_group_product
from kerncast.models.sm.lower.tensor_costs import cycles_of_machine_product, cycles_of_product
from kerncast.models.sm.micro_ops import Pipe
from kerncast.prediction import Timing
from kerncast.ptx import Instruction, parse_ptx
from tests.helpers.machines import without_tensor_rate

SOURCE = """
__global__ void k(float *d) {
  float c[4] = {0, 0, 0, 0};
  for (int i = 0; i < 1000; i++)
    asm volatile("mma.sync.aligned.SHAPE.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, REGISTERS, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(threadIdx.x), "r"(1), "r"(2));
  d[blockIdx.x * blockDim.x + threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}
"""


def launch(folder: Path, shape: str, registers: str) -> Launch:
    text = SOURCE.replace("SHAPE", shape).replace("REGISTERS", registers)
    (folder / "k.cu").write_text(text, encoding="utf-8")
    (folder / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\nkernel = "k"\ngrid = [820]\nblock = [256]\nargs = { d = "f32[209920] zeros" }\n',
        encoding="utf-8",
    )
    (found,) = load_launches(folder / "k.toml")
    return found


def test_the_rate_is_that_of_the_data_sheet(tmp_path: Path) -> None:
    one = launch(tmp_path, "m16n8k16", "{%4, %5, %6, %5}, {%5, %6}")
    (found,) = predict(one, "RTX 3090")
    # NVIDIA's whitepaper on GA102: 71 TFLOP/s of FP16 with FP32 sums at 1695 MHz.
    assert found.limiter == "tensor"
    assert found.seconds == pytest.approx(820 * 8 * 1000 * 4096 / 71e12, rel=0.1)


LOOP = """
__global__ void k(float *out) {
  float d[64] = {};
  for (int i = 0; i < 100; i++) {
    for (int j = 0; j < 4; j++) asm volatile("PRODUCT" : SUMS : "l"(1ull << 62));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 1; i < 64; i++) d[0] += d[i];
  out[blockIdx.x * 128 + threadIdx.x] = d[0];
}
"""
HOPPER = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .b64 %a;\n"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n{n}{kind} {{{sums}}}, {a}, %a, 1, 1, 1{turns};"


def parsed(text: str, root: str) -> Instruction:
    (found,) = (i for i in parse_ptx(f"{HOPPER}{text} ret; }}").functions["k"].instructions if i.root == root)
    return found


def group_product(n: int, kind: str, count: int, a: str = "%a", turns: str = "") -> Instruction:
    sums = ", ".join(f"%d{i}" for i in range(count))
    text = f".reg .b32 %d<{count}>; " + PRODUCT.format(n=n, kind=kind, sums=sums, a=a, turns=turns)
    return parsed(text, "wgmma")


BY_QUADS = parsed(
    ".reg .b32 %x<2>; .reg .f32 %y<8>; mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32"
    " {%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7}, {%x0, %x1}, {%x0, %x1}, {%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7};",
    "mma",
)


@pytest.mark.parametrize(("architecture", "cycles"), [("sm_70", 8), ("sm_75", 8)])
def test_four_products_by_quads_take_as_long_as_one_of_as_many(architecture: str, cycles: float) -> None:
    """Volta: 512 multiply-adds per clock and SM, 128 for each scheduler (V100 white paper); Turing as fast (T4)."""
    assert cycles_of_product(BY_QUADS, load_architecture(architecture))[0] == cycles


def test_four_products_by_quads_are_no_product_of_tensor_cores_of_ampere() -> None:
    """Ptxas 12.9 makes a subroutine of SHFL and FFMA of them for sm_80 and newer."""
    with pytest.raises(MissingEvidenceError, match=r"m8n8k4.* whose rate is unknown on sm_80"):
        cycles_of_product(BY_QUADS, load_architecture("sm_80"))


@pytest.mark.parametrize(("n", "cycles"), [(8, 18), (16, 20), (32, 24), (64, 32), (128, 64), (256, 128)])
@pytest.mark.parametrize(
    ("kind", "turns"), [("k16.f32.f16.f16", ", 0, 0"), ("k8.f32.tf32.tf32", ""), ("k32.f32.e4m3.e4m3", "")]
)
def test_a_product_of_four_warps_takes_as_long_as_was_measured(n: int, cycles: float, kind: str, turns: str) -> None:
    """m64n64, n128 and n256: arXiv 2402.13499; narrower ones wait for shared memory, which reads A and B."""
    cost = cost_of_group_product(group_product(n, kind, n // 2, turns=turns), load_architecture("sm_90"))
    assert cost == Cost(Pipe.TENSOR, cycles)


def test_a_product_of_registers_waits_for_b_only() -> None:
    ins = group_product(16, "k16.f32.f16.f16", 8, "{%d0, %d1, %d2, %d3}", ", 0")
    assert cost_of_group_product(ins, load_architecture("sm_90")).cycles == 8


def test_a_sparse_product_takes_the_time_of_a_dense_one_of_half_its_depth() -> None:
    four = "{%x0, %x1, %x2, %x3}"
    kind, held = "row.col.s32.s4.s4.s32", ".reg .b32 %x<4>;"
    dense = parsed(f"{held} mma.sync.aligned.m16n8k64.{kind} {four}, {four}, {{%x0, %x1}}, {four};", "mma")
    sparse = parsed(f"{held} mma.sp.sync.aligned.m16n8k128.{kind} {four}, {four}, {four}, {four}, %x0, 0;", "mma")
    ampere = load_architecture("sm_80")
    assert cycles_of_product(sparse, ampere) == cycles_of_product(dense, ampere)


@pytest.mark.parametrize("types", ["E2M3.E2M3", "E3M2.E2M1", "E2M1.E5M2", "E5M2.E4M3"])
def test_machine_code_of_floats_in_bytes_takes_the_time_of_fp8(types: str) -> None:
    kind = f"kind::f8f6f4.m16n8k32.row.col.f32.{types.lower()}.f32"
    sums, words = "{%f0, %f1, %f2, %f3}", "{%x0, %x1, %x2, %x3}"
    text = f".reg .f32 %f<4>; .reg .b32 %x<4>; mma.sync.aligned.{kind} {sums}, {words}, {{%x0, %x1}}, {sums};"
    ins, architecture = parsed(text, "mma"), load_architecture("sm_120")
    machine = cycles_of_machine_product("QMMA", ("16832", "F32", *types.split(".")), ins, architecture)
    assert machine == cycles_of_product(ins, architecture)


def test_products_of_4_bit_floats_have_no_count_and_no_rate(tmp_path: Path) -> None:
    """NVIDIA counts them under no name that is known here."""
    ins = (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {%f0, %f1, %f2, %f3},"
        " {%r0, %r1, %r0, %r1}, {%r0, %r1}, {%f0, %f1, %f2, %f3}, %r0, {0, 0}, %r1, {0, 0};"
    )
    (tmp_path / "k.ptx").write_text(
        ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 a) {\n.reg .b32 %r<2>;"
        " .reg .f32 %f<4>; .reg .b64 %d; ld.param.u64 %d, [a]; mov.u32 %r0, %tid.x; mov.u32 %r1, %r0;"
        f" mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; {ins}"
        " st.global.f32 [%d], %f0; ret; }",
        encoding="utf-8",
    )
    (tmp_path / "k.toml").write_text(
        'source = "k.ptx"\n[[launch]]\nkernel = "k"\ngrid = [80]\nblock = [256]\nargs = { a = "f32[1] zeros" }\n',
        encoding="utf-8",
    )
    (one,) = load_launches(tmp_path / "k.toml")
    with pytest.raises(Refusal, match=r"mxf4.* whose rate is unknown on sm_120"):
        predict(one, "RTX 5090")


@pytest.mark.parametrize(
    ("total", "gpu", "peak"),
    [("f32", "TITAN V", 110e12), ("f32", "RTX 2080 Ti", 53.8e12), ("f16", "RTX 2080 Ti", 107.6e12)],
)
def test_four_products_by_quads_reach_the_rate_of_the_data_sheet(
    tmp_path: Path, total: str, gpu: str, peak: float
) -> None:
    """TITAN V: 110 TFLOP/s at 1455 MHz; RTX 2080 Ti: 53.8 and 107.6 at 1545 MHz (white papers). From Ampere on none."""
    count, letter = (8, "f") if total == "f32" else (4, "r")
    blocks = 16 * load_gpu(gpu).sm_count
    sums = "{" + ", ".join(f"%{i}" for i in range(count)) + "}"
    held = ", ".join(f'"+{letter}"(c[{i}])' for i in range(count))
    kind, pair = ("float" if total == "f32" else "unsigned"), f"{{%{count}, %{count}}}"
    mma = f"mma.sync.aligned.m8n8k4.row.col.{total}.f16.f16.{total} {sums}, {pair}, {pair}, {sums};"
    (tmp_path / "k.cu").write_text(
        f"__global__ void k({kind} *d) {{ {kind} c[{count}] = {{}};\n"
        f'for (int i = 0; i < 1000; i++) asm volatile("{mma}" : {held} : "r"(threadIdx.x));\n'
        f"d[threadIdx.x] = {'+'.join(f'c[{i}]' for i in range(count))}; }}",
        encoding="utf-8",
    )
    (tmp_path / "k.toml").write_text(
        f'source = "k.cu"\n[[launch]]\nkernel = "k"\ngrid = [{blocks}]\nblock = [256]\n'
        f'args = {{ d = "{"u" if letter == "r" else "f"}32[256] zeros" }}\n',
        encoding="utf-8",
    )
    (one,) = load_launches(tmp_path / "k.toml")
    (found,) = predict(one, gpu)
    assert found.limiter == "tensor"
    assert found.seconds == pytest.approx(blocks * 8 * 1000 * 4 * 2 * 256 / peak, rel=0.1)
    with pytest.raises(Refusal, match="tensor cores"):
        predict(one, "A100")


@pytest.mark.parametrize(("a", "turns", "cycles"), [("%a", ", 0, 0", 144), ("{%d0, %d1, %d2, %d3}", ", 0", 128)])
def test_a_sparse_product_of_four_warps_takes_as_long_as_was_measured(a: str, turns: str, cycles: float) -> None:
    """Sparse m64n256k32 of A in shared memory or in registers: arXiv 2402.13499."""
    sums = ", ".join(f"%d{i}" for i in range(128))
    text = f"wgmma.mma_async.sp.sync.aligned.m64n256k32.f32.f16.f16 {{{sums}}}, {a}, %a, %d0, 0, 1, 1, 1{turns};"
    ins = parsed(f".reg .b32 %d<128>; {text}", "wgmma")
    assert cost_of_group_product(ins, load_architecture("sm_90")) == Cost(Pipe.TENSOR, cycles)


def test_products_of_four_warps_without_a_rate_are_refused() -> None:
    with pytest.raises(MissingEvidenceError, match=r"wgmma\..* is a product of tensor cores whose rate is unknown"):
        cost_of_group_product(group_product(64, "k16.f32.f16.f16", 32, turns=", 0, 0"), load_architecture("sm_80"))


def test_products_of_four_warps_reach_the_rate_of_the_data_sheet(tmp_path: Path) -> None:
    """Four in a group, of which one is waited for while the next is on its way: 989 TFLOP/s at 1830 MHz."""
    sums = ", ".join(f"%{i}" for i in range(64))
    product = PRODUCT.format(n=128, kind="k16.f32.f16.f16", sums=sums, a="%64", turns=", 0, 0").replace("%a", "%64")
    held = ", ".join(f'"+f"(d[{i}])' for i in range(64))
    (tmp_path / "k.cu").write_text(LOOP.replace("PRODUCT", product).replace("SUMS", held), encoding="utf-8")
    (tmp_path / "k.toml").write_text(
        'source = "k.cu"\n[[launch]]\nkernel = "k"\ngrid = [264]\nblock = [128]\nshared_bytes = 32768\n'
        'args = { out = "f32[33792] zeros" }\n',
        encoding="utf-8",
    )
    (one,) = load_launches(tmp_path / "k.toml")
    (found,) = predict(one, "H100 SXM", timing=Timing.PROFILER)
    assert found.limiter == "tensor"
    peak = 264 * 400 * 2 * 64 * 128 * 16 / 989.4e12
    assert peak < found.seconds < 1.06 * peak


def test_a_product_of_unknown_rate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"m16n8k16.* is a product of tensor cores whose rate is unknown on sm_100"):
        predict(launch(tmp_path, "m16n8k16", "{%4, %5, %6, %5}, {%5, %6}"), without_tensor_rate(load_gpu("B200")))


def test_machine_code_around_tensor_memory_is_no_product_of_unknown_rate() -> None:
    head = ".version 8.7\n.target sm_100a\n.address_size 64\n"
    text = f"{head}.visible .entry k() {{ tcgen05.fence::after_thread_sync; ret; }}"
    ins = parse_ptx(text).functions["k"].instructions[0]
    found = cost_of("UTCATOMSWS", ins, load_architecture("sm_100"))
    assert found is not None
    assert found.pipe is Pipe.BRANCH
