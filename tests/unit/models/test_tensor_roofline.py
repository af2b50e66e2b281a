"""Operations of tensor cores: counted by type under Nsight Compute's names, and a ceiling of the roofline."""

import re
from dataclasses import replace

import pytest

from kerncast.errors import MissingEvidenceError, NotExecutedError
from kerncast.execute import Budget, WholeGrid
from kerncast.execute.static import count_by_text
from kerncast.gpu import GPU, load_gpu
from kerncast.metrics.execution import flops
from kerncast.models.base import Case
from kerncast.models.roofline import Roofline
from kerncast.prediction import Timing
from kerncast.profiles import Count, KernelProfile
from tests.helpers.execute_helpers import launch, profile, ptx_kernel
from tests.helpers.places import ROOT

WARPS, ROUNDS = 8 * 108, 50
TEXT = """
.visible .entry k(.param .u64 d) {
.reg .b32 %x<4>; .reg .b32 %a; .reg .b32 %n; .reg .pred %p; mov.b32 %a, 0; mov.b32 %n, 0;
loop: PRODUCTS
add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 50; @%p bra loop; ret; }
"""
SUMS, FOUR, TWO = "{%x0, %x1, %x2, %x3}", "{%a, %a, %a, %a}", "{%a, %a}"
HALVES = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {SUMS}, {FOUR}, {TWO}, {SUMS};"
BYTES = f"mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {SUMS}, {FOUR}, {TWO}, {SUMS};"
SMALL = f"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {SUMS}, {FOUR}, {TWO}, {SUMS};"


def counted(products: str) -> KernelProfile:
    found: KernelProfile = profile(ptx_kernel(TEXT.replace("PRODUCTS", products)), launch(108, 256, d="f32[1] zeros"))
    return found


def times(found: KernelProfile, gpu: GPU) -> dict[str, float]:
    return {term.name: term.seconds for term in Roofline().estimate(Case(found, gpu), Timing.COLD).terms}


def test_each_type_has_its_count_and_its_ceiling() -> None:
    found = counted(HALVES + BYTES)
    halves, whole = WARPS * ROUNDS * 2 * 16 * 8 * 16, WARPS * ROUNDS * 2 * 16 * 8 * 32
    assert found.counts["sm__ops_path_tensor_src_fp16_dst_fp32.sum"].value == halves
    assert found.counts["sm__ops_path_tensor_src_int8.sum"].value == whole
    assert "sm__ops_path_tensor_src_fp64.sum" not in found.counts
    done = flops(found)
    assert done is not None
    assert done.value == halves
    gpu = load_gpu("a100-sxm-80gb")  # NVIDIA's data sheet: 312 TFLOP/s and 624 TOPS
    ideal = (halves / 312e12 + whole / 624e12) * gpu.clock_boost_hz / gpu.clock_hz
    assert times(found, gpu)["tensor"] == pytest.approx(ideal, rel=0.01)


IDLE = """
.reg .pred %q; .reg .b32 %b; mov.u32 %b, %ctaid.x; setp.ge.u32 %q, %b, 8; @%q ret;
"""


@pytest.mark.parametrize("grid", [8, 108, 1000])
def test_eight_blocks_at_work_take_eight_sms(grid: int) -> None:
    """However many blocks beside them end at once: an SM of the A100 gives 312 TFLOP/s / 108."""
    text = TEXT.replace("PRODUCTS", HALVES).replace("{\n", "{" + IDLE, 1)
    found = profile(ptx_kernel(text), launch(grid, 256, d="f32[1] zeros"))
    of_one = 8 * ROUNDS * 2 * 16 * 8 * 16
    assert found.counts["sm__ops_path_tensor_src_fp16_dst_fp32.sum"].value == 8 * of_one
    gpu = load_gpu("a100-sxm-80gb")
    ideal = of_one / (312e12 / 108) * gpu.clock_boost_hz / gpu.clock_hz
    assert times(found, gpu)["tensor"] == pytest.approx(ideal, rel=0.01)


def test_what_blocks_find_by_a_common_counter_is_no_block_s_own() -> None:
    """The first block that runs here takes all turns of the loop; on a GPU others are there."""
    text = """
.visible .entry k(.param .u64 d) { .reg .pred %p; .reg .b64 %d; .reg .b32 %n; ld.param.u64 %d, [d];
loop: atom.global.add.u32 %n, [%d], 1; setp.lt.u32 %p, %n, 9999; @%p bra loop; ret; }
"""
    found = profile(ptx_kernel(text), launch(8, 32, d="u32[1] zeros"))
    assert found.balance.longest_over_mean_block > 6
    assert not found.busiest


def test_few_blocks_draw_on_l2_by_their_own_paths() -> None:
    """64 bytes per clock and SM on the A100, where all of L2 gives more than eight SMs can take."""
    text = """
.visible .entry k(.param .u64 d) { .reg .b64 %d, %o; .reg .b32 %n, %t, %b; .reg .pred %p;
ld.param.u64 %d, [d]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %t, %b, 16384, %t;
mul.wide.u32 %o, %t, 4; add.s64 %d, %d, %o; mov.u32 %n, 0;
loop: ld.global.u32 %t, [%d]; add.s64 %d, %d, 1024; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 64; @%p bra loop; ret; }
"""
    found = profile(ptx_kernel(text), launch(8, 256, d="u32[131072] zeros"))
    gpu = load_gpu("a100-sxm-80gb")
    assert times(found, gpu)["l2"] == pytest.approx(64 * 1024 / 64 / gpu.clock_hz)
    wider = replace(gpu, architecture=replace(gpu.architecture, l2_bytes_per_clock_per_sm=128.0))
    assert gpu.l2_rate is not None
    assert times(found, wider)["l2"] == pytest.approx(
        max(64 * 1024 / 128 / gpu.clock_hz, 2**19 / gpu.l2_rate.bytes_per_s)
    )


def test_a_type_without_a_rate_is_refused() -> None:
    with pytest.raises(MissingEvidenceError, match="rate of s4 with sums of s32 is unknown"):
        times(counted(SMALL), load_gpu("h100-sxm"))


def test_products_in_tensor_memory_are_counted_by_their_descriptors() -> None:
    """A Triton kernel of sm_100 multiplies 256 x 96 by 96 x 64; without execution the same is counted."""
    values = ["f16[256,96] random", "f16[96,64] random", "f16[256,64] zeros", 256, 64, 96, 96, 64, 64, 0, 0]
    path = ROOT / "tests" / "instructions" / "triton" / "matmul_f16_sm100.ptx"
    text = re.sub(r"\bmatmul_kernel\b", "k", path.read_text(encoding="utf-8"))
    names = dict.fromkeys(re.findall(r"\w+_param_\d+", text))
    given = launch(4, 128, 20496, **dict(zip(names, values, strict=True)))
    kernel = ptx_kernel(text)
    name, expected = "sm__ops_path_tensor_src_fp16_dst_fp32.sum", 2 * 256 * 64 * 96
    found = profile(kernel, given, WholeGrid())
    assert found.counts[name] == Count.exact(expected)
    assert count_by_text(kernel, given, NotExecutedError("taken so"), Budget()).counts[name].value == expected
    gpu = load_gpu("b200")
    # Half a cycle for each column of B (SemiAnalysisAI/microbench-blackwell): a block has 6 products of 32 columns.
    assert times(found, gpu)["tensor"] == pytest.approx(6 * 32 / 2 / gpu.clock_hz)


def test_products_by_unknown_descriptors_are_refused() -> None:
    text = """
.visible .entry k(.param .u64 d) { .reg .b64 %rd<3>; .reg .b32 %r; .reg .pred %p; ld.param.u64 %rd0, [d];
ld.global.b32 %r, [%rd0]; setp.ne.u32 %p, %r, 1; mov.b64 %rd1, 0;
tcgen05.mma.cta_group::1.kind::f16 [%r], %rd1, %rd1, %r, 1; ret; }
"""
    found = count_by_text(ptx_kernel(text), launch(1, 32, d="u32[32] zeros"), NotExecutedError("taken so"), Budget())
    with pytest.raises(MissingEvidenceError, match=r"by tcgen05\.mma, whose rate is unknown"):
        times(found, load_gpu("b200"))
