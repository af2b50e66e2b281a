"""Products of tensor cores: forecast at the rate of the data sheet where that is known, refused where it is not."""

from pathlib import Path

import pytest

from kerncast import predict
from kerncast.errors import MissingEvidenceError, Refusal
from kerncast.launch import Launch, load_launches
from kerncast.models.sm.lower.operation_costs import check_product
from kerncast.ptx import parse_ptx

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


def test_a_product_of_four_warps_is_refused() -> None:
    head = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %d<4>; .reg .b64 %a;"
    sums = "{%d0, %d1, %d2, %d3}"
    text = f"{head} .shared .align 1024 .b8 t[4096]; mov.b64 %a, t; shr.u64 %a, %a, 4;"
    text += f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {sums}, %a, %a, 1, 1, 1, 0, 0; ret; }}"
    function = parse_ptx(text).functions["k"]
    (product,) = (ins for ins in function.instructions if ins.root == "wgmma")
    with pytest.raises(MissingEvidenceError, match=r"wgmma\..* is a product of tensor cores whose rate is unknown"):
        check_product(product)


def test_a_product_of_unknown_rate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"m16n8k8.* is a product of tensor cores whose rate is unknown"):
        predict(launch(tmp_path, "m16n8k8", "{%4, %5}, {%6}"), "RTX 3090")
