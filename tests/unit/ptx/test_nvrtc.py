"""What the compiler writes for many features of CUDA C++ is read, and means what C++ says, on old and new GPUs."""

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.ptx import Prototype, build_cfg, inline_calls, parse_ptx
from tests.helpers.execute_helpers import compiled, launch, ptx_is_the_same, run

#: One for each PTX that the compiler writes.
ARCHITECTURES = ["sm_50", "sm_120"]

SOURCE = r"""
struct Inner { short s; double d; char c[5]; };
struct Big { Inner in[2]; int x; float4 v; };
union Mix { float f; unsigned u; struct { unsigned short lo, hi; } h; };
struct Node { const Node *next; int v; };
__constant__ struct { int a; short b[3]; double c; char name[8]; } fixed = {1, {2, 3, 4}, 5.5, "hello"};
static __device__ int counter = 7;
__device__ int *const pointer_to = &counter;
__device__ const char *const words[3] = {"one", "two;{", "\"three\" // no comment"};
__device__ Node last = {nullptr, 30};
__device__ Node middle = {&last, 10}, nodes[2] = {{nullptr, 1}, {&middle, 20}};
extern __shared__ short dynamic[];
namespace { __device__ double matrix[2][3] = {{1.5, -2.5, 1e300}, {0.25}}; }

__device__ __noinline__ Big changed(Big b, int k) { b.x += k; b.in[1].d *= k; b.in[k & 1].c[4] = k; return b; }
__device__ __noinline__ float4 mixed(float4 a, double2 b, short4 c, char4 d) {
    return make_float4(a.x + b.y, a.y + c.z, a.z + d.w, a.w);
}
template <int N, typename T> __device__ T power(T x) {
    T r = 1;
    for (int i = 0; i < N; i++) r *= x;
    return r;
}
template <typename F> __device__ int sum_of(F f, int n) {
    int s = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) s += f(i);
    return s;
}
#define CASE(n) case n: return x * (n + 3) ^ n;
__device__ __noinline__ int chosen(int k, int x) {
    switch (k) {
        CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        case 20: return x / 3;
        case 300: return counter;
        default: return -x;
    }
}
__device__ int assembly(int a) {
    int r, q;
    asm volatile("{\n\t.reg .u32 t1, t2; .reg .pred p;\n\t add.u32 t1, %1, 2; setp.gt.u32 p, t1, 10; @p bra DONE%=;\n"
                 " add.u32 t1, t1, 5;\n DONE%=: mov.u32 %0, t1;\n}" : "=r"(r) : "r"(a));
    asm volatile("{ .reg.b32 t<4>; { .reg .b64 t1; cvt.u64.u32 t1, %1; cvt.u32.u64 %0, t1; } mov.b32 t1, %1; }"
                 : "=r"(q) : "r"(r));
    asm volatile("{ .reg .pred p; LOOP: add.s32 %0, %0, 1; setp.lt.s32 p, %0, 10; @p bra LOOP; }" : "+r"(q));
    asm volatile("{ .reg .pred p; LOOP: add.s32 %0, %0, 4; setp.lt.s32 p, %0, 20; @p bra.uni LOOP; }" : "+r"(q));
    asm volatile("xor.b32 %0, %0, 0xFFU; // comment\n /* other } */" : "+r"(q));
    return q;
}
extern "C" __launch_bounds__(64, 2) __global__ void features(
    const Big b, Mix m, double *d, int *out, float4 *v, unsigned *u) {
    __shared__ __align__(16) Big kept[64];
    __shared__ union { int i[64]; float f[64]; } both;
    int i = threadIdx.x;
    Big c = changed(b, i);
    kept[i] = c;
    both.i[i] = i;
    dynamic[i] = -i;
    __syncthreads();
    int other = i ^ 1;
    d[i] = kept[other].in[1].d + both.f[other] * 0x1p149 + fixed.c + matrix[i & 1][i % 3 & 1] + power<5>((double)i);
    m.h.lo ^= i;
    u[i] = m.u;
    out[i] = kept[other].x + c.in[i & 1].c[4] + dynamic[other] + fixed.a + fixed.b[i % 3] + fixed.name[i % 5]
        + *pointer_to + words[i % 3][i % 4] + nodes[1].next->next->v + power<3>(i);
    out[i] += chosen(i, 100) + assembly(i) + sum_of([=](int j) { return j * i + b.x; }, i) + sum_of([&](int j) {
        return i ^ j; }, 3);
    v[i] = mixed(v[i], make_double2(i, 2 * i), make_short4(0, 0, -i, 0), make_char4(0, 0, 0, i));
}
"""
LANE = np.arange(64)


def big() -> str:
    """Return a Big as C++ lays it out: 24 bytes per Inner, then x at 48, v at 64."""
    raw = np.zeros(80, np.uint8)
    raw[24 + 8 : 24 + 16] = np.frombuffer(np.float64(0.5).tobytes(), np.uint8)
    raw[48:52] = np.frombuffer(np.int32(1000).tobytes(), np.uint8)
    return f"bytes({raw.tobytes().hex()})"


def asm_of(lane: int) -> int:
    total = lane + 2 if lane + 2 > 10 else lane + 7
    total = max(total + 1, 10)
    total += 4
    while total < 20:
        total += 4
    return total ^ 0xFF


def chosen(lane: int) -> int:
    if lane <= 12:
        return 100 * (lane + 3) ^ lane
    return 33 if lane == 20 else -100


def expected_integers() -> npt.NDArray[np.int64]:
    words = [b"one\0", b"two;{", b'"three" // no comment']
    out = []
    for i in range(64):
        other = i ^ 1
        total = 1000 + other + i - other + 1 + [2, 3, 4][i % 3] + b"hello"[i % 5] + 7 + words[i % 3][i % 4] + 30
        total += i**3 + chosen(i) + asm_of(i) + sum(j * i + 1000 for j in range(i)) + sum(i ^ j for j in range(3))
        out.append(total)
    return np.array(out)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_features_mean_what_they_say(architecture: str) -> None:
    arguments = {"d": "f64[64] zeros", "out": "i32[64] zeros", "v": "f32[64, 4] iota", "u": "u32[64] zeros"}
    where = launch(1, 64, 128, b=big(), m="bytes(78563412)", **arguments)
    found = run(compiled(SOURCE, "features", architecture), where).memory
    other = LANE ^ 1
    matrix = np.array([[1.5, -2.5], [0.25, 0]])[LANE & 1, LANE % 3 & 1]
    assert np.allclose(found["d"], 0.5 * other + other + 5.5 + matrix + LANE.astype(float) ** 5, rtol=1e-12)
    assert np.array_equal(found["u"], 0x12345678 ^ LANE)
    assert np.array_equal(found["out"], expected_integers())
    start = np.arange(256.0).reshape(64, 4)
    assert np.array_equal(found["v"], start + np.stack([2 * LANE, -LANE, LANE, 0 * LANE], axis=1))


@pytest.mark.parametrize(("run_for", "other"), [("sm_50", "sm_70"), ("sm_50", "sm_90"), ("sm_120", "sm_100")])
def test_other_architectures_have_the_same_ptx(run_for: str, other: str) -> None:
    assert ptx_is_the_same(SOURCE, run_for, other)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loops_of_compiled_code(architecture: str) -> None:
    text = compiled(SOURCE, "features", architecture).ptx
    graph = build_cfg(inline_calls(parse_ptx(text), "features"))
    assert graph.loops.is_reducible
    assert len(graph.loops.loops) >= 3, "two of the assembly and one of the lambda at least"
    assert all(graph.post_dominators.dominates(graph.exit, block) for block in range(graph.exit))


def test_a_prototype_of_a_call_through_a_pointer() -> None:
    source = r"""extern "C" __global__ void k(void *f, double *x) {
        x[0] = ((double (*)(float4, char, double *))f)(make_float4(1, 2, 3, 4), 5, x); }"""
    for architecture in ARCHITECTURES:
        found = parse_ptx(compiled(source, "k", architecture).ptx).functions["k"]
        # A char is passed in four bytes.
        assert list(found.prototypes.values()) == [Prototype((8,), (16, 4, 8))]
