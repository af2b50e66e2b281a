"""Counts against closed forms and against numbers worked by hand."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kerncast.metrics import occurring_accesses
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    CONTROL_OPS,
    DRAM_BYTES_ONCE,
    FLOPS,
    FP32_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_LOAD_REQUESTS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS,
    INTEGER_OPS,
    LOCAL_BYTES_REQUESTED,
    SHARED_REQUESTS,
    SPECIAL_OPS,
)
from kerncast.traces import Trace
from tests.helpers.execute_helpers import compiled, launch, profile, ptx_kernel, run

pytestmark = pytest.mark.usefixtures("engine")

SOURCE = """
#define KERNEL extern "C" __global__ void
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
KERNEL matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
KERNEL conv(const float *in, const float *f, float *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++)
            if (x + j >= 0 && x + j < w && y + i >= 0 && y + i < h)
                sum += f[(i + 1) * 3 + j + 1] * in[(y + i) * w + x + j];
    out[y * w + x] = sum;
}
KERNEL strided(const float *x, float *y, int stride) { y[threadIdx.x] = x[threadIdx.x * stride]; }
KERNEL strided_double(const double *x, double *y, int stride) { y[threadIdx.x] = x[threadIdx.x * stride]; }
KERNEL vectors(const float4 *x, float4 *y) { y[threadIdx.x] = x[threadIdx.x]; }
KERNEL gathers(const float *x, float *y, const int *at) { y[threadIdx.x] = x[at[threadIdx.x]]; }
KERNEL histogram(const unsigned char *data, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
KERNEL spills(const int *in, int *out) {
    int own[8];
    for (int i = 0; i < 8; i++) own[i] = in[i];
    out[threadIdx.x] = own[threadIdx.x & 7];
}
KERNEL generic(const float *x, float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const volatile float *p = threadIdx.x < 32 ? tile : x;
    y[threadIdx.x] = p[threadIdx.x];
}
"""


def value(count: Any) -> int:
    assert count.is_exact
    assert count.value == int(count.value)
    return int(count.value)


@pytest.mark.parametrize("n", [4096, 4099, 1])
def test_saxpy(n: int) -> None:
    where = launch(-(-n // 256), 256, n=n, a=2.0, x=f"f32[{n}] random", y=f"f32[{n}] random")
    found = profile(compiled(SOURCE), where)
    assert value(found.counts.get(FP32_FLOPS)) == 2 * n
    assert value(found.counts.get(GLOBAL_BYTES_REQUESTED)) == 12 * n
    sector_bytes = 32 * math.ceil(4 * n / 32)
    assert found.counts[DRAM_BYTES_ONCE].value == found.counts[DRAM_BYTES_ONCE].low == 3 * sector_bytes
    assert found.counts[GLOBAL_BYTES_TOUCHED].value == 2 * sector_bytes
    assert value(found.counts.get(GLOBAL_LOAD_REQUESTS)) == 2 * math.ceil(n / 32)
    assert value(found.counts.get(GLOBAL_WRITE_REQUESTS)) == math.ceil(n / 32)
    assert value(found.counts.get(GLOBAL_LOAD_SECTORS)) == 2 * math.ceil(4 * n / 32)
    assert value(found.mix.divergent_branches) == (n % 32 != 0)
    assert found.sampling.is_whole_grid


def test_saxpy_computes() -> None:
    where = launch(4, 256, n=1000, a=-1.5, x="f32[1024] random", y="f32[1024] iota")
    before = run(compiled(SOURCE), launch(4, 256, n=0, a=0.0, x="f32[1024] random", y="f32[1024] iota")).memory
    after = run(compiled(SOURCE), where).memory
    expected = np.float32(-1.5) * before["x"].astype(np.float64) + before["y"]
    assert np.array_equal(after["y"][:1000], expected[:1000].astype(np.float32))
    assert np.array_equal(after["y"][1000:], before["y"][1000:])


def test_tiled_matmul() -> None:
    n = 64
    where = launch([4, 4], [16, 16], a=f"f32[{n},{n}] random", b=f"f32[{n},{n}] random", c=f"f32[{n},{n}]", n=n)
    kernel = compiled(SOURCE, "matmul")
    found = profile(kernel, where)
    assert value(found.counts.get(FP32_FLOPS)) == 2 * n**3
    blocks, warps, tiles = 16, 8, n // 16
    assert value(found.counts.get(GLOBAL_LOAD_REQUESTS)) == blocks * warps * tiles * 2
    assert found.counts[GLOBAL_LOAD_SECTORS].value / found.counts[GLOBAL_LOAD_REQUESTS].value == 4
    assert value(found.mix.barriers) == blocks * warps * tiles * 2
    assert value(found.counts.get(GLOBAL_BYTES_TOUCHED)) == 3 * 4 * n * n
    memory = run(kernel, where).memory
    exact = memory["a"].astype(np.float64) @ memory["b"].astype(np.float64)
    assert np.allclose(memory["c"], exact, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("w", "h"), [(32, 16), (37, 21), (3, 3)])
def test_convolution(w: int, h: int) -> None:
    kernel = compiled(SOURCE, "conv")
    where = launch(
        [-(-w // 16), -(-h // 8)], [16, 8], i=f"f32[{h},{w}] random", f="f32[3,3] random", out=f"f32[{h},{w}]", w=w, h=h
    )
    assert value(profile(kernel, where).counts.get(FP32_FLOPS)) == 2 * (9 * w * h - 6 * (w + h) + 4)
    memory = run(kernel, where).memory
    padded = np.pad(memory["i"].astype(np.float64), 1)
    exact = sum(memory["f"][i, j] * padded[i : i + h, j : j + w] for i in range(3) for j in range(3))
    assert np.allclose(memory["out"], exact, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("stride", "sectors"), [(0, 1), (1, 4), (2, 8), (3, 12), (4, 16), (8, 32), (16, 32), (100, 32)]
)
def test_sectors_per_request(stride: int, sectors: int) -> None:
    found = profile(compiled(SOURCE, "strided"), launch(1, 32, x="f32[4096]", y="f32[32]", stride=stride))
    assert value(found.counts.get(GLOBAL_LOAD_REQUESTS)) == 1
    assert value(found.counts.get(GLOBAL_LOAD_SECTORS)) == sectors
    assert value(found.counts.get(GLOBAL_WRITE_SECTORS)) == 4


def test_sectors_of_wide_types() -> None:
    found = profile(compiled(SOURCE, "strided_double"), launch(1, 32, x="f64[4096]", y="f64[32]", stride=1))
    assert value(found.counts.get(GLOBAL_LOAD_SECTORS)) == 8
    found = profile(compiled(SOURCE, "vectors"), launch(1, 32, x="f32[128]", y="f32[128]"))
    assert value(found.counts.get(GLOBAL_LOAD_REQUESTS)) == 1
    assert value(found.counts.get(GLOBAL_LOAD_SECTORS)) == 16
    assert value(found.counts.get(GLOBAL_BYTES_REQUESTED)) == 2 * 512


def test_sectors_of_a_gather_are_those_that_differ() -> None:
    where = launch(1, 128, x="f32[1000] random", y="f32[128]", at="i32[128] randint(0, 1000)")
    found = profile(compiled(SOURCE, "gathers"), where)
    at = run(compiled(SOURCE, "gathers"), where).memory["at"]
    expected = sum(len({int(i) * 4 // 32 for i in at[w : w + 32]}) for w in range(0, 128, 32))
    assert value(found.counts.get(GLOBAL_LOAD_SECTORS)) == expected + 4 * 4


def test_histogram() -> None:
    where = launch(2, 256, data="u8[5000] randint(0, 256)", bins="u32[256]", n=5000)
    found = profile(compiled(SOURCE, "histogram"), where)
    memory = run(compiled(SOURCE, "histogram"), where).memory
    assert np.array_equal(memory["bins"], np.bincount(memory["data"], minlength=256))
    assert value(found.counts.get(ATOMIC_THREADS)) == 5000 + 2 * 256
    assert value(found.counts.get(GLOBAL_WRITE_REQUESTS)) == 2 * 8, "a global atomic is a store request"
    assert value(found.counts.get(GLOBAL_WRITE_SECTORS)) == 2 * 8 * 4
    assert value(found.mix.barriers) == 2 * 2 * 8
    # Shared: cleared, one request per warp and round, read back.
    rounds = sum(math.ceil((5000 - start) / 512) for start in range(0, 512, 32))
    assert value(found.counts.get(SHARED_REQUESTS)) == 16 + rounds + 16


def test_an_atomic_reads_and_writes() -> None:
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .b64 %rd<4>; .reg .b32 %r<3>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;
        mad.wide.u32 %rd2, %r1, 4, %rd1; red.global.add.u32 [%rd2], %r1; ret; }"""
    )
    found = profile(kernel, launch(1, 64, p="u32[64]"))
    assert found.counts[DRAM_BYTES_ONCE].value == 2 * 64 * 4
    assert value(found.counts.get(GLOBAL_BYTES_TOUCHED)) == 64 * 4
    assert value(found.counts.get(ATOMIC_THREADS)) == 64


def test_local_memory() -> None:
    found = profile(compiled(SOURCE, "spills"), launch(1, 32, **{"in": "i32[8] iota"}, out="i32[32]"))
    assert value(found.counts.get(LOCAL_BYTES_REQUESTED)) == 32 * 4 * 9
    assert value(found.counts.get(GLOBAL_LOAD_REQUESTS)) == 8


@pytest.mark.parametrize(("store", "is_kept"), [("own[in[i] & 15]", True), ("own[i]", False)])
def test_arrays_that_the_compiler_holds_in_registers_make_no_traffic(store: str, is_kept: bool) -> None:
    """The PTX has a local array in both cases; in the second the machine code selects among registers."""
    text = 'extern "C" __global__ void k(const int *in, int *out) { int own[16]; for (int i = 0; i < 16; i++) '
    kernel = compiled(f"{text} {store} = i * 3; out[threadIdx.x] = own[in[threadIdx.x] & 15]; }}")
    found = profile(kernel, launch(1, 32, **{"in": "i32[128] iota"}, out="i32[32]"))
    assert ".local" in kernel.ptx
    assert kernel.resources.has_frame == is_kept
    assert value(found.counts.get(LOCAL_BYTES_REQUESTED)) == (32 * 4 * 17 if is_kept else 0)
    assert ("local" in {space for space, *_ in occurring_accesses(found)}) == is_kept


def test_generic_accesses_count_where_they_lead() -> None:
    trace = run(compiled(SOURCE, "generic"), launch(1, 64, x="f32[64] iota", y="f32[64]"))
    assert trace.memory["y"].tolist() == list(range(64))
    found = profile(compiled(SOURCE, "generic"), launch(1, 64, x="f32[64] iota", y="f32[64]"))
    assert value(found.counts.get(GLOBAL_LOAD_REQUESTS)) == 2 + 1
    assert value(found.counts.get(GLOBAL_LOAD_SECTORS)) == 8 + 4
    assert value(found.counts.get(SHARED_REQUESTS)) == 2 + 1
    assert value(found.counts.get(GLOBAL_BYTES_REQUESTED)) == 4 * (64 + 32 + 64)


def test_classes_of_work() -> None:
    """One thread; what each instruction counts as, by hand."""
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .pred %p<3>; .reg .b16 %rs<3>; .reg .b32 %r<9>; .reg .f32 %f<9>;
        .reg .f64 %fd<9>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [p];
        add.f32 %f1, %f2, %f3; mul.f32 %f1, %f2, %f3; fma.rn.f32 %f1, %f2, %f3, %f1;
        add.f64 %fd1, %fd2, %fd3; fma.rn.f64 %fd1, %fd2, %fd3, %fd1; fma.rn.f64 %fd1, %fd2, %fd3, %fd1;
        add.rn.f16 %rs1, %rs2, %rs1; fma.rn.f16x2 %r1, %r2, %r3, %r1;
        div.rn.f32 %f1, %f2, %f3; sqrt.rn.f64 %fd1, %fd2; ex2.approx.f32 %f1, %f2; rcp.rn.f32 %f1, %f2;
        add.s32 %r1, %r2, %r3; mad.lo.s32 %r1, %r2, %r3, %r1; shl.b32 %r1, %r2, 3; setp.lt.s32 %p1, %r1, 5;
        dp4a.u32.u32 %r1, %r2, %r3, %r1; popc.b32 %r1, %r2; div.u32 %r1, %r2, 3;
        setp.lt.f32 %p2, %f1, %f2; min.f32 %f1, %f2, %f3; neg.f32 %f1, %f2; cvt.rn.f32.s32 %f1, %r1; mov.u32 %r1, %r2;
        selp.b32 %r1, %r2, %r3, %p1; and.pred %p1, %p1, %p2;
        bar.sync 0; @%p1 bra END; END: ret; }"""
    )
    found = profile(kernel, launch(1, 1, p="u32[1]"))
    assert [value(found.counts.get(FLOPS[bits])) for bits in (32, 64, 16)] == [4, 5, 5]
    assert value(found.counts.get(SPECIAL_OPS)) == 4
    assert value(found.counts.get(INTEGER_OPS)) == 7, (
        "one each, also a multiply-add: an integer lane takes one per clock"
    )
    assert value(found.counts.get(CONTROL_OPS)) == 3
    assert value(found.mix.thread_instructions) == value(found.mix.warp_instructions) == 30
    assert found.mix.active_lanes == 1


# Warp-level counts, by hand


def counts(trace: Trace) -> tuple[Counter[str], Counter[str]]:
    """Return warps and threads per opcode."""
    warps: Counter[str] = Counter()
    threads: Counter[str] = Counter()
    issued = np.repeat(trace.counts.block_warps, trace.cfg.lengths, axis=1)
    for number, instruction in enumerate(trace.function.instructions):
        warps[instruction.name] += int(issued[:, number].sum())
        threads[instruction.name] += int(trace.thread_executions[:, number].sum())
    return warps, threads


def warp_run(body: str, threads: int = 32) -> tuple[Counter[str], Counter[str], int]:
    head = ".entry k() { .reg .pred %p<9>; .reg .b32 %r<20>; mov.u32 %r1, %tid.x; "
    trace = run(ptx_kernel(head + body + "}"), launch(1, threads))
    return *counts(trace), int(trace.counts.divergent_branches.sum())


def test_nested_divergence() -> None:
    warps, threads, divergent = warp_run(
        """setp.lt.s32 %p1, %r1, 16; @!%p1 bra ELSE;
        setp.lt.s32 %p2, %r1, 4; @%p2 bra INNER;
        add.s32 %r2, %r1, 1; bra JOIN;
        INNER: sub.s32 %r2, %r1, 1;
        JOIN: mul.lo.s32 %r2, %r2, 3; bra END;
        ELSE: xor.b32 %r2, %r1, 1;
        END: or.b32 %r2, %r2, 1; ret;"""
    )
    assert [threads[o] for o in ("add.s32", "sub.s32", "mul.lo.s32", "xor.b32", "or.b32")] == [12, 4, 16, 16, 32]
    assert [warps[o] for o in ("add.s32", "sub.s32", "mul.lo.s32", "xor.b32", "or.b32")] == [1, 1, 1, 1, 1]
    assert divergent == 2


def test_a_branch_that_no_thread_takes_differently_splits_nothing() -> None:
    warps, threads, divergent = warp_run(
        "setp.lt.s32 %p1, %r1, 32; @%p1 bra A; add.s32 %r2, %r1, 1; A: sub.s32 %r2, %r1, 1; @%p1 bra B; B: ret;", 64
    )
    assert (divergent, threads["add.s32"], warps["sub.s32"]) == (0, 32, 2)


def test_a_loop_with_trips_that_differ() -> None:
    warps, threads, divergent = warp_run(
        """and.b32 %r2, %r1, 3;
        LOOP: add.s32 %r3, %r3, 1; setp.le.s32 %p1, %r3, %r2; @%p1 bra LOOP;
        or.b32 %r4, %r3, 1; ret;"""
    )
    assert (warps["add.s32"], threads["add.s32"]) == (4, 8 * (1 + 2 + 3 + 4))
    assert (warps["or.b32"], threads["or.b32"]) == (1, 32), "threads meet behind the loop"
    assert divergent == 3


def test_a_loop_with_break_continue_and_return() -> None:
    """In each of 4 rounds: odd threads continue; of the even ones 2k leaves the kernel, 30 - 2k the loop."""
    warps, threads, _ = warp_run(
        """mov.u32 %r5, 30;
        LOOP: and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 1; @%p1 bra NEXT;
        setp.eq.s32 %p2, %r1, %r4; @%p2 ret;
        setp.eq.s32 %p3, %r1, %r5; @%p3 bra AFTER;
        add.s32 %r6, %r6, 1;
        NEXT: mul.lo.s32 %r7, %r7, 3; add.u32 %r4, %r4, 2; sub.u32 %r5, %r5, 2; setp.lt.s32 %p4, %r4, 8; @%p4 bra LOOP;
        xor.b32 %r8, %r8, 1;
        AFTER: or.b32 %r8, %r8, 2; ret;"""
    )
    assert (warps["add.s32"], threads["add.s32"]) == (4, 14 + 12 + 10 + 8)
    assert (warps["mul.lo.s32"], threads["mul.lo.s32"]) == (4, 30 + 28 + 26 + 24), "a return keeps nobody apart"
    assert (warps["xor.b32"], threads["xor.b32"]) == (1, 24)
    assert (warps["or.b32"], threads["or.b32"]) == (1, 28)


def test_every_lane_goes_its_own_way() -> None:
    cases = "".join(f"L{i}: add.s32 %r2, %r1, {i}; bra END;\n" for i in range(32))
    table = ", ".join(f"L{i}" for i in range(32))
    body = f"brx.idx %r1, table; {cases} END: or.b32 %r2, %r2, 1; ret; table: .branchtargets {table};"
    warps, threads, divergent = warp_run(body)
    assert (warps["add.s32"], threads["add.s32"]) == (32, 32)
    assert (warps["brx.idx"], warps["or.b32"], threads["or.b32"]) == (1, 1, 32)
    assert divergent == 1


def test_guards() -> None:
    warps, threads, _ = warp_run(
        "setp.lt.s32 %p1, %r1, 5; @%p1 add.s32 %r2, %r1, 1; @!%p1 sub.s32 %r2, %r1, 1; ret;", 40
    )
    assert (warps["add.s32"], threads["add.s32"]) == (2, 5)
    assert (warps["sub.s32"], threads["sub.s32"]) == (2, 35)


def test_rare_code_behind_the_exit() -> None:
    """Compilers put rare paths behind the end of the function; they meet the others all the same."""
    warps, threads, _ = warp_run(
        """setp.eq.s32 %p1, %r1, 9; @%p1 bra RARE;
        BACK: or.b32 %r2, %r1, 1; ret;
        RARE: add.s32 %r2, %r1, 1; bra BACK;"""
    )
    assert (warps["or.b32"], threads["or.b32"], threads["add.s32"]) == (1, 32, 1)


def test_a_call_of_a_device_function_is_counted_as_its_body() -> None:
    kernel = ptx_kernel(
        """.func (.param .b32 o) f(.param .b32 a) { .reg .b32 %r<3>; ld.param.u32 %r1, [a]; add.s32 %r2, %r1, 1;
        st.param.b32 [o], %r2; ret; }
        .entry k() { .reg .b32 %r<4>; mov.u32 %r1, 3; { .param .b32 a; .param .b32 o; st.param.b32 [a], %r1;
        call.uni (o), f, (a); ld.param.b32 %r2, [o]; } ret; }"""
    )
    trace = run(kernel, launch(1, 32))
    _, threads = counts(trace)
    assert threads == {
        "mov.u32": 32, "st.param.b32": 64, "ld.param.u32": 32, "add.s32": 32, "bra.uni": 32, "ld.param.b32": 32,
        "ret": 32,
    }  # fmt: skip
    assert not trace.counts.local_accesses.any(), "call parameters are registers in truth"


def test_blocks_are_counted_apart() -> None:
    where = launch(3, 64, n=70, a=1.0, x="f32[192]", y="f32[192]")
    trace = run(compiled(SOURCE), where)
    fma = next(i for i, ins in enumerate(trace.function.instructions) if ins.root == "fma")
    assert dict(zip(trace.block_ids.tolist(), trace.thread_executions[:, fma].tolist(), strict=True)) == {
        0: 64,
        1: 6,
        2: 0,
    }
    assert trace.counts.requests.sum(axis=1).shape == (3,)
