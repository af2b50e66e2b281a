"""Kernels that misbehave: each ends with an error of the right sort that says what, where, which block and thread."""

import re
import time

import pytest

from kerncast.caveats import CaveatKind
from kerncast.errors import BudgetExceededError, KerncastError, KernelFault, UnsupportedError
from kerncast.execute import Budget, WholeGrid
from kerncast.launch import Launch
from tests.helpers.caveats import kinds
from tests.helpers.execute_helpers import compiled, launch, ptx_kernel, run

pytestmark = pytest.mark.usefixtures("engine")

SOURCE = """#include <cassert>
#include <cstdio>
#include <mma.h>
#include <cuda_pipeline.h>
#define KERNEL extern "C" __global__ void
extern "C" __global__ void read_at(const float *x, float *y, long long i) { y[threadIdx.x] = x[i]; }
KERNEL write_at(const float *x, float *y, long long i) { if (threadIdx.x == 2) y[i] = 1; }
KERNEL off_by_one(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i + 1] = x[i];
}
KERNEL misaligned(const char *x, float *y) { y[0] = *(const float *)(x + threadIdx.x); }
KERNEL bytes_at(unsigned char *x, unsigned long long at) { *(volatile unsigned char *)at = x[0]; }
KERNEL shared_past(float *y, int i) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 1;
    tile[i] = 2;
    y[0] = tile[5];
}
KERNEL dynamic_past(float *y, int i) {
    extern __shared__ float more[];
    more[threadIdx.x + i] = 3;
    y[0] = more[0];
}
KERNEL local_past(int *y, int i) {
    int own[4] = {1, 2, 3, 4};
    own[y[0] & 3] = 7;
    y[1] = own[i];
}
KERNEL generic_past(float *y, int i) {
    __shared__ float tile[32];
    tile[threadIdx.x] = y[0];
    volatile float *p = y[1] > 0 ? tile : y;
    p[i] = 4;
}
KERNEL endless() { while (1) __threadfence(); }
KERNEL waits_for_flag(volatile int *flag) {
    while (*flag == 0)
        ;
    flag[1] = 1;
}
KERNEL lock_in_a_warp(int *lock, int *sum) {
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    *sum += 1;
    atomicExch(lock, 0);
}
KERNEL traps(int *x) { if (x[threadIdx.x] == 5) __trap(); }
KERNEL asserts(int *x) { assert(x[threadIdx.x] < 20); }
KERNEL missing_barrier(int *x) {
    if (threadIdx.x < 32) __syncthreads();
    else while (*(volatile int *)x == 0) ;
}
KERNEL half_barrier(int *x) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
}
KERNEL two_barriers(int *x) {
    if (threadIdx.x < 32) asm volatile("bar.sync 0;");
    else asm volatile("bar.sync 1;");
}
KERNEL arrives_once(int *x) {
    if (threadIdx.x < 32) asm volatile("bar.arrive 1, 64;");
    else {
        asm volatile("bar.sync 1, 64;");
        asm volatile("bar.sync 1, 64; // again");
    }
}
KERNEL bad_barrier(int *x) { asm volatile("bar.sync %0, 32;" :: "r"(x[0])); }
KERNEL syncwarp_alone(int *x) {
    if (threadIdx.x >= 32) asm volatile("bar.sync 2, 128;");
    if (threadIdx.x == 0) __syncwarp();
    else asm volatile("bar.sync 1, 96;");
}
__device__ __noinline__ int tree(int n) { return n < 2 ? 1 : tree(n - 1) * 3 + tree(n - 2) / 2; }
KERNEL recursive(int *x) { x[0] = tree(x[1]); }
KERNEL cube(cudaTextureObject_t t, float *y) { y[threadIdx.x] = texCubemap<float>(t, 0.0f, 0.0f, 1.0f); }
KERNEL copies(const float4 *x, float *y) {
    __shared__ float4 tile[32];
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[threadIdx.x] = tile[threadIdx.x].x;
}
KERNEL divides(int *x) { x[0] = x[1] / x[2]; x[3] = x[1] % x[2]; ((unsigned *)x)[4] = (unsigned)x[1] / (unsigned)x[2]; }
KERNEL prints(int *x) { if (threadIdx.x == 0) printf("%d\\n", x[0]); x[1] = 9; }
KERNEL allocates(int **x) { x[0] = new int[4]; }
KERNEL is_slow(float *x) {
    float v = x[threadIdx.x];
    for (int i = 0; i < 100000000; i++) v = v * 1.0001f + 1.0f;
    x[threadIdx.x] = v;
}
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.split("\n"), 1) if text in line)


def fails(kernel: str, where: Launch, budget: Budget | None = None, architecture: str = "sm_80") -> KerncastError:
    with pytest.raises(KerncastError) as caught:
        run(compiled(SOURCE, kernel, architecture), where, budget)
    return caught.value


def at_line(error: KerncastError) -> int:
    found = re.fullmatch(r".*k\.cu:(\d+)", error.where or "")
    assert found, error.where
    return int(found[1])


TWO = {"x": "f32[64] ones", "y": "f32[64] zeros"}


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (64, "0 bytes past the end of x (256 bytes)"),
        (-1, "4 bytes before the start of x (256 bytes)"),
        (1000, "bytes past the end of y"),
        (2**40, "no buffer is near"),
        (-(2**42), "a null pointer"),
        (2**61 - 2**42, "no buffer is near"),
        (-(2**61), "no buffer is near"),
    ],
)
def test_read_out_of_bounds(index: int, expected: str) -> None:
    error = fails("read_at", launch(1, 32, **TWO, i=index))
    assert isinstance(error, KernelFault)
    assert at_line(error) == line_of("KERNEL read_at".replace("KERNEL", "__global__ void"))
    assert "a global load by block (0, 0, 0), thread (0, 0, 0) is out of bounds: 4 bytes at 0x" in str(error)
    assert expected in str(error)


@pytest.mark.parametrize("index", [64, -1])
def test_write_out_of_bounds(index: int) -> None:
    error = fails("write_at", launch(1, 32, **TWO, i=index))
    assert isinstance(error, KernelFault)
    assert "a global store by block (0, 0, 0), thread (2, 0, 0)" in str(error)
    assert at_line(error) == line_of("KERNEL write_at")


def test_the_last_thread_of_the_last_block() -> None:
    error = fails("off_by_one", launch(2, 32, **TWO))
    assert "block (1, 0, 0), thread (31, 0, 0)" in str(error)
    assert at_line(error) == line_of("y[i + 1] = x[i];")


def test_block_and_thread_have_three_coordinates() -> None:
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<9>; .reg .pred %p<4>;
        mov.u32 %r1, %tid.z; mov.u32 %r2, %ctaid.y; setp.eq.u32 %p1, %r1, 2; setp.eq.and.u32 %p2, %r2, 1, %p1;
        ld.param.u64 %rd1, [p]; @%p2 st.u32 [%rd1+4096], %r1; ret; }"""
    )
    with pytest.raises(KernelFault, match=re.escape("block (0, 1, 0), thread (0, 0, 2)")):
        run(kernel, launch([2, 2, 2], [5, 3, 3], p="u32[4]"))


def test_null_pointer() -> None:
    error = fails("read_at", launch(1, 32, x=0, y="f32[64]", i=3))
    assert isinstance(error, KernelFault)
    assert "a null pointer" in str(error)


@pytest.mark.parametrize(
    "address", [1, 2**40, 2**41 + 5, 2**42, 2**43, 2**44, 2**63 - 1, 2**63, 2**63 + 2**44 - 1, 2**64 - 1]
)
def test_wild_pointers(address: int) -> None:
    """Also those that point into a window of shared or local memory, which this kernel does not have."""
    error = fails("bytes_at", launch(1, 32, x="u8[16]", at=address))
    assert isinstance(error, KernelFault)
    assert "thread (0, 0, 0)" in str(error)


def test_misaligned() -> None:
    error = fails("misaligned", launch(1, 32, x="i8[64]", y="f32[1]"))
    assert isinstance(error, KernelFault)
    assert "thread (1, 0, 0) is misaligned: 4 bytes at address 0x" in str(error)
    assert at_line(error) == line_of("KERNEL misaligned")


@pytest.mark.parametrize("index", [32, -1, 2**20])
def test_shared_out_of_bounds(index: int) -> None:
    error = fails("shared_past", launch(1, 32, y="f32[1]", i=index))
    assert isinstance(error, KernelFault)
    assert "a shared store by block (0, 0, 0), thread (0, 0, 0) is out of bounds" in str(error)
    assert "of 128 bytes of shared memory (static and dynamic)" in str(error)
    assert at_line(error) == line_of("tile[i] = 2;")


def test_dynamic_shared_out_of_bounds() -> None:
    run(compiled(SOURCE, "dynamic_past", "sm_80"), launch(2, 32, 128, y="f32[1]", i=0))
    error = fails("dynamic_past", launch(2, 32, 128, y="f32[1]", i=1))
    assert "thread (31, 0, 0) is out of bounds: 4 bytes at 0x80 of 128 bytes of shared memory" in str(error)
    assert "shared memory" in str(fails("dynamic_past", launch(2, 32, y="f32[1]", i=0)))


@pytest.mark.parametrize("index", [4, -1, 10**6])
def test_local_out_of_bounds(index: int) -> None:
    error = fails("local_past", launch(1, 32, y="i32[4]", i=index))
    assert isinstance(error, KernelFault)
    assert "local load" in str(error)
    assert at_line(error) == line_of("y[1] = own[i];")


@pytest.mark.parametrize("index", [32, 2**27, -1])
def test_generic_pointer_out_of_bounds(index: int) -> None:
    error = fails("generic_past", launch(1, 32, y="f32[32] ones", i=index))
    assert isinstance(error, KernelFault)
    assert "a generic store" in str(error)
    assert at_line(error) == line_of("p[i] = 4;")


def test_a_kernel_parameter_cannot_be_written() -> None:
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .b64 %rd<4>; mov.b64 %rd1, p; cvta.param.u64 %rd2, %rd1;
        ld.u64 %rd3, [%rd2]; st.u64 [%rd2], %rd3; ret; }"""
    )
    with pytest.raises(KernelFault, match="writes to a kernel parameter"):
        run(kernel, launch(1, 32, p="u32[4]"))


@pytest.mark.parametrize(
    ("kernel", "where", "text"),
    [
        ("endless", launch(1, 32), "KERNEL endless"),
        ("waits_for_flag", launch(1, 32, flag="i32[2]"), "while (*flag == 0)"),
        ("lock_in_a_warp", launch(1, 32, lock="i32[1]", sum="i32[1]"), "while (atomicCAS(lock, 0, 1) != 0)"),
    ],
)
def test_endless_loops_end(kernel: str, where: Launch, text: str) -> None:
    error = fails(kernel, where, Budget(block_steps=2000))
    assert isinstance(error, BudgetExceededError)
    assert "did not end within 2000 steps" in str(error)
    assert line_of(text) <= at_line(error) <= line_of(text) + 1


def test_wall_time_is_honoured_within_a_batch() -> None:
    start = time.process_time()
    for seconds in (0.3, 1, 4, 16):  # a busy machine needs the first ones to compile
        error = fails("is_slow", launch(64, 256, x="f32[256]"), Budget(seconds=seconds))
        if ":" in (error.where or ""):
            break
    assert time.process_time() - start < 30
    assert isinstance(error, BudgetExceededError)
    assert "wall time" in str(error)
    assert line_of("for (int i = 0; i < 100000000") <= at_line(error) <= line_of("for (int i = 0; i < 100000000") + 1


def test_wall_time_is_honoured_within_straight_code(engine: str) -> None:
    if engine == "native":
        return  # too fast to be late
    code = "fma.rn.f64 %fd1, %fd1, %fd1, %fd2;\n" * 5_000
    kernel = ptx_kernel(f".entry k() {{ .reg .f64 %fd<3>; mov.f64 %fd2, 0d3FF0000000000000; {code} ret; }}")
    start = time.process_time()
    with pytest.raises(BudgetExceededError, match="wall time"):
        run(kernel, launch(64, 256), Budget(seconds=0.2))
    assert time.process_time() - start < 30


def test_a_warp_that_waits_for_another_gets_there() -> None:
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p<4>;
        .shared .align 4 .u32 flag; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
        @!%p1 bra SETTER;
        WAIT: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
        st.global.u32 [%rd1], %r2; ret;
        SETTER: st.volatile.shared.u32 [flag], 7; ret; }"""
    )
    assert run(kernel, launch(1, 64, p="u32[1]"), Budget(block_steps=5000)).memory["p"][0] == 7


def test_trap_and_assert() -> None:
    error = fails("traps", launch(1, 32, x="i32[32] iota"))
    assert isinstance(error, KernelFault)
    assert "the kernel traps in block (0, 0, 0), thread (5, 0, 0)" in str(error)
    assert at_line(error) == line_of("KERNEL traps")
    error = fails("asserts", launch(1, 32, x="i32[32] iota"))
    assert "an assertion failed in block (0, 0, 0), thread (20, 0, 0)" in str(error)
    assert at_line(error) == line_of("KERNEL asserts")
    run(compiled(SOURCE, "asserts", "sm_80"), launch(1, 32, x="i32[32]"))


def test_barriers_that_never_open() -> None:
    error = fails("half_barrier", launch(1, 64, x="i32[1]"))
    assert isinstance(error, KernelFault)
    assert "threads wait at a barrier that the others never reach, such as block (0, 0, 0), thread (0, 0, 0)" in str(
        error
    )
    assert at_line(error) == line_of('asm volatile("bar.sync 1, 64;")')
    error = fails("two_barriers", launch(2, 64, x="i32[1]"))
    assert isinstance(error, KernelFault)
    assert at_line(error) == line_of('asm volatile("bar.sync 0;")')
    error = fails("arrives_once", launch(1, 64, x="i32[1]"))
    assert isinstance(error, KernelFault)
    assert at_line(error) == line_of("// again")
    error = fails("missing_barrier", launch(1, 64, x="i32[1]"), Budget(block_steps=2000))
    assert isinstance(error, BudgetExceededError), "the second warp spins: the first waits in vain"
    error = fails("bad_barrier", launch(1, 32, x="i32[1] randint(16, 17)"))
    assert isinstance(error, KernelFault)
    assert "barrier is used with number 16" in str(error)


def test_a_barrier_is_open_to_those_that_have_left() -> None:
    kernel = ptx_kernel(
        """.entry k() { .reg .b32 %r<2>; .reg .pred %p<2>; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 40;
        @%p1 ret; bar.sync 0; ret; }"""
    )
    run(kernel, launch(1, 96))


def test_syncwarp_that_never_opens() -> None:
    error = fails("syncwarp_alone", launch(1, 64, x="i32[1]"))
    assert isinstance(error, KernelFault)
    assert "threads wait at a barrier" in str(error)


@pytest.mark.parametrize(
    ("kernel", "expected", "arguments"),
    [
        ("recursive", "recursion of _Z4treei is not supported", {"x": "i32[4]"}),
        ("cube", "tex.cube", {"t": 0, "y": "f32[32]"}),
        ("allocates", "malloc", {"x": "i64[1]"}),
    ],
)
def test_what_is_not_covered_is_refused_by_name(kernel: str, expected: str, arguments: dict[str, str]) -> None:
    error = fails(kernel, launch(1, 32, **arguments))
    assert isinstance(error, UnsupportedError)
    assert expected in str(error)
    assert "not supported" in str(error)


def test_the_place_of_a_refused_instruction() -> None:
    error = fails("cube", launch(1, 32, t=0, y="f32[32]"))
    assert "Of textures" in str(error)
    assert re.search(r":\d+$", error.where or "")


REFUSED = """
add.cc.f32 %f1, %f2, %f3
sub.u16x2 %r1, %r2, %r3
fma.rn.f32.f16 %f1, %f2, %f3, %f1
mul.hi.sat.s32 %r1, %r2, %r3
min.xorsign.abs.f32 %f1, %f2, %f3
ld.global.v8.f64 {%f1,%f1,%f1,%f1,%f1,%f1,%f1,%f1}, [%rd1]
barrier.cluster.sync
atom.global.add.noftz.v2.f32 {%f1,%f2}, [%rd1], {%f1,%f2}
mov.u32 %r1, %clusterid
mov.u32 %r1, %envreg3
elect %r1|%p1, -1
setp.lt.f32 %p1, %f1
add.f32 %f1, %f2
shfl.sync.b32 %r1, %r2, 0, 31, -1
mov.b32 %r1, {%r2, %r3, %r1}
st.global.f32 %f1, [%rd1]
lop3.and.b32 %r1|%p1, %r2, %r3, %r1, 5, %p1
vset.u32.u32.eq %r1, %r2, %r3
prmt.b32.f4e %r1, %r2, %r3, %r1
tcgen05.shift.cta_group::1.down [%r1]
"""


@pytest.mark.parametrize("instruction", REFUSED.strip().split("\n"))
def test_forms_of_instructions_that_are_not_covered(instruction: str) -> None:
    kernel = ptx_kernel(
        f".entry k() {{ .reg .pred %p<2>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<4>; {instruction}; ret; }}"
    )
    with pytest.raises(UnsupportedError, match="not supported"):
        run(kernel, launch(1, 32))


def test_what_another_kernel_holds_does_not_matter() -> None:
    run(compiled(SOURCE, "traps", "sm_80"), launch(1, 32, x="i32[32]"))


@pytest.mark.parametrize(
    ("variable", "shared", "buffer", "expected"),
    [
        (".local .align 4 .b8 big[8589934592];", 0, "u32[1]", "local memory needs"),
        (".shared .align 4 .b8 big[8589934592];", 0, "u32[1]", "shared memory needs"),
        ("", 2**32 - 1, "u32[4] ones", "shared memory needs"),
        ("", 0, "f64[1000000000] iota", "the values of the buffers need 8 GB"),
    ],
)
def test_too_much_memory(variable: str, shared: int, buffer: str, expected: str) -> None:
    symbol = "mov.u64 %rd1, big;" if variable else ""
    kernel = ptx_kernel(f".entry k(.param .u64 p) {{ .reg .b64 %rd<2>; {variable} {symbol} ret; }}")
    with pytest.raises(BudgetExceededError, match=expected) as caught:
        run(kernel, launch(4, 32, shared, p=buffer))
    assert "memory budget" in str(caught.value)
    assert "--memory" in str(caught.value)


def test_more_than_can_be_addressed() -> None:
    kernel = ptx_kernel(".entry k(.param .u64 p) { ret; }")
    with pytest.raises(BudgetExceededError, match="the buffers need 8 TB, over the 275 GB"):
        run(kernel, launch(4, 32, 0, p="f64[1000000000000]"))


def test_a_large_variable_that_the_kernel_does_not_reach_costs_nothing() -> None:
    kernel = ptx_kernel(
        ".global .b8 big[1000000000000]; .extern .global .u32 elsewhere; .shared .b8 other[1000000];"
        ".global .u64 table[1] = {generic(elsewhere)}; .entry k() { ret; }"
    )
    run(kernel, launch(1, 32))


def test_division_by_zero_is_what_the_hardware_gives() -> None:
    trace = run(compiled(SOURCE, "divides", "sm_80"), launch(1, 1, x="i32[5] iota"))
    assert trace.memory["x"].tolist()[1] == 1
    kernel = compiled(SOURCE, "divides", "sm_80")
    assert run(kernel, launch(1, 1, x="i32[5] zeros")).memory["x"].tolist() == [-1, 0, 0, 0, -1]


def test_the_cost_of_printf_is_left_out_and_said() -> None:
    trace = run(compiled(SOURCE, "prints", "sm_80"), launch(1, 32, x="i32[2]"))
    assert trace.memory["x"].tolist() == [0, 9]
    assert kinds(trace.remarks) == [CaveatKind.PRINTF_LEFT_OUT]


def test_a_shuffle_with_absent_lanes_is_remarked() -> None:
    kernel = ptx_kernel(
        """.entry k() { .reg .b32 %r<3>; .reg .pred %p<2>; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 16;
        @%p1 bra LATER; shfl.sync.down.b32 %r2, %r1, 8, 31, -1; LATER: membar.cta; ret; }"""
    )
    (remark,) = run(kernel, launch(1, 32)).remarks
    assert remark.kind is CaveatKind.LANES_ABSENT
    assert run(kernel, launch(1, 16)).remarks == ()


def test_counts_that_do_not_fit_memory() -> None:
    kernel = ptx_kernel(".entry k() { ret; }")
    with pytest.raises(BudgetExceededError, match="the counts of 2147483647 blocks need"):
        run(kernel, launch(2**31 - 1, 1), WholeGrid())
