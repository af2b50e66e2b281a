"""What the compiler knows of the FP64 units of chips that nobody has measured: how it waits for their results.

Source of the layout of the control bits: Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking, 2018, section 2.1: above bit 105 of an instruction 4 bits of stall, 1 of yield, 3 of a write barrier.
"""

from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kerncast.compile import compile_source
from kerncast.gpu import load_architecture

SOURCE = """
extern "C" __global__ void chain(double *out, double a, double b) {
  double x = a, y = b;
  for (int i = 0; i < 8; ++i) { x = fma(x, a, y); y = fma(y, b, x); }
  out[threadIdx.x] = x + y;
}
"""
BYTES, CONTROL_BIT, DFMA, OPCODE_MASK = 16, 105, 0x02B, 0x1FF
NO_BARRIER = 7
FAST, SLOW = ("sm_90", "sm_100"), ("sm_101", "sm_103", "sm_120", "sm_121")


def waits(cubin: bytes) -> list[tuple[int, bool]]:
    """Return stall cycles, and whether a barrier is written, of each FP64 multiply-add."""
    (code,) = (each.data() for each in ELFFile(BytesIO(cubin)).iter_sections() if each.name == ".text.chain")
    words = (int.from_bytes(code[at : at + BYTES], "little") for at in range(0, len(code), BYTES))
    controls = [word >> CONTROL_BIT for word in words if word & OPCODE_MASK == DFMA]
    return [(bits & 0xF, bits >> 5 & 0x7 != NO_BARRIER) for bits in controls]


@pytest.fixture(scope="module")
def schedules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, bool]]]:
    path: Path = tmp_path_factory.mktemp("chain") / "chain.cu"
    path.write_text(SOURCE, encoding="utf-8")
    compiled = compile_source(path, architectures=[*FAST, *SLOW], kernel="chain")
    return {kernel.architecture: waits(kernel.cubin) for kernel in compiled.kernels}


def test_10_1_and_10_3_wait_for_fp64_as_12_0_does(schedules: dict[str, list[tuple[int, bool]]]) -> None:
    """Of 12.0 the programming guide has two FP64 cores, of 10.0 it has 64; 10.1 is 11.0 since CUDA 13."""
    assert all(len(found) == 16 for found in schedules.values())
    assert all(schedules[name] == schedules["sm_120"] for name in SLOW)
    assert any(has_barrier for _, has_barrier in schedules["sm_120"])
    assert not any(has_barrier for name in FAST for _, has_barrier in schedules[name])


@pytest.mark.parametrize("name", ["sm_103", "sm_110", "sm_120", "sm_121"])
def test_so_that_they_have_as_many_lanes(name: str) -> None:
    assert load_architecture(name).fp64_lanes_per_sm == 2
