"""Calls through pointers: function pointers and virtual functions, compiled and run, against NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.errors import KernelFault, UnsupportedError
from kerncast.ptx import Prototype, inline, inline_calls, parse_ptx, taken_functions
from tests.helpers.execute_helpers import compiled, launch, ptx_is_the_same, ptx_kernel, run

pytestmark = pytest.mark.usefixtures("engine")

SOURCE = r"""
typedef float (*Operation)(float, float);
__device__ float plus(float a, float b) { return a + b; }
__device__ float times(float a, float b) { return a * b; }
__device__ float minus(float a, float b) { return a - b; }
__device__ float other(float a, int b) { return a; }
__device__ Operation in_global[3] = { plus, times, minus };
__constant__ Operation in_constant[2] = { times, minus };
__device__ float (*never_called)(float, int) = other;

extern "C" __global__ void from_global(const int *which, const float *x, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in_global[which[i]](x[i], 2.0f);
}
extern "C" __global__ void from_constant(const int *which, const float *x, float *out) {
    int i = threadIdx.x;
    out[i] = in_constant[which[i] & 1](x[i], 2.0f);
}
extern "C" __global__ void through_shared(const int *which, const float *x, float *out) {
    __shared__ Operation mine[64];
    int i = threadIdx.x;
    mine[i] = which[i] == 0 ? plus : which[i] == 1 ? times : minus;
    __syncthreads();
    out[i] = mine[i ^ 1](x[i], 3.0f);
}
struct Pair { double d; int i; };
__device__ Pair scaled(Pair p, int k) { p.d *= k; p.i += k; return p; }
__device__ Pair lowered(Pair p, int k) { p.d -= k; p.i ^= k; return p; }
extern "C" __global__ void by_value(const int *which, double *d, int *n) {
    int i = threadIdx.x;
    Pair (*both[2])(Pair, int) = { scaled, lowered };
    Pair p = { d[i], n[i] };
    p = both[which[i] & 1](p, i);
    d[i] = p.d;
    n[i] = p.i;
}
__device__ __noinline__ float twice(Operation f, float x) { return f(f(x, 0.5f), 4.0f); }
extern "C" __global__ void as_argument(const int *which, const float *x, float *out) {
    int i = threadIdx.x;
    if (x[i] > 0.25f) out[i] = twice(which[i] ? times : minus, x[i]);
}
extern "C" __global__ void nowhere(unsigned long long where, float *out) {
    out[threadIdx.x] = ((Operation)where)(1.0f, 2.0f);
}
extern "C" __global__ void compared(const int *which, int *out) {
    Operation f = in_global[which[threadIdx.x]];
    out[threadIdx.x] = f == times ? 7 : f == nullptr ? 8 : 9;
}
extern "C" __global__ void read_code(const int *which, unsigned char *out) {
    out[threadIdx.x] = *(unsigned char *)in_global[which[threadIdx.x]];
}

__device__ int ended[64];
struct Shape {
    float size;
    __device__ Shape(float s) : size(s) {}
    __device__ virtual float area(const Shape *other) const = 0;
    __device__ virtual int kind(int k) const { return k; }
    __device__ virtual ~Shape() { ended[threadIdx.x] += 1; }
};
struct Square : Shape {
    __device__ Square(float s) : Shape(s) {}
    __device__ float area(const Shape *other) const override { return size * size; }
    __device__ int kind(int k) const override { return k + 100; }
    __device__ ~Square() { ended[threadIdx.x] += 10; }
};
struct Disc : Shape {
    __device__ Disc(float s) : Shape(s) {}
    __device__ float area(const Shape *other) const override { return 3.0f * size * size; }
};
struct Twice : Shape {
    __device__ Twice(float s) : Shape(s) {}
    __device__ float area(const Shape *other) const override { return 2.0f * other->area(this); }
};
inline __device__ void *operator new(size_t, char *place) { return place; }
extern "C" __global__ void virtuals(const int *which, const float *x, float *out, int *kinds) {
    int i = threadIdx.x;
    alignas(16) char room[32], second[32];
    Shape *other = new (second) Disc(x[i]), *shape;
    if (which[i] == 0) shape = new (room) Square(x[i]);
    else if (which[i] == 1) shape = new (room) Disc(x[i]);
    else if (which[i] == 2) shape = new (room) Twice(x[i]);
    else shape = other = new (room) Twice(x[i]);
    out[i] = shape->area(other);
    kinds[i] = shape->kind(i);
}
extern "C" __global__ void destroyed(const int *which, int *out) {
    int i = threadIdx.x;
    alignas(16) char room[32];
    Shape *shape;
    if (which[i] == 0) shape = new (room) Square(1.0f);
    else shape = new (room) Disc(2.0f);
    shape->~Shape();
    out[i] = ended[i];
}
"""
#: One for each PTX that the compiler writes.
ARCHITECTURES = ["sm_50", "sm_120"]
WHICH = np.random.default_rng(3).integers(0, 3, 64)


def ran(kernel: str, architecture: str = "sm_70", threads: int = 64, **arguments: Any) -> Any:
    """Run one block; the kernels' parameters go by number, as only the first one has a signature."""
    return run(compiled(SOURCE, kernel, architecture), launch(1, threads, **arguments))


@pytest.fixture(name="which", scope="session")
def which_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pointers") / "which.npy"
    np.save(path, WHICH.astype(np.int32))
    return f"i32[64] file({path})"


def operated(which: npt.NDArray[Any], x: npt.NDArray[Any], other: float) -> npt.NDArray[np.float32]:
    second = np.float32(other)
    result: npt.NDArray[np.float32] = np.select([which == 0, which == 1], [x + second, x * second], x - second)
    return result


@pytest.mark.parametrize(("run_for", "other"), [("sm_50", "sm_70"), ("sm_50", "sm_90")])
def test_other_architectures_have_the_same_ptx(run_for: str, other: str) -> None:
    assert ptx_is_the_same(SOURCE, run_for, other)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tables_of_functions(which: str, architecture: str) -> None:
    found = ran("from_global", architecture, p0=which, p1="f32[64] random", p2="f32[64] zeros").memory
    assert np.array_equal(found["p2"], operated(WHICH, found["p1"], 2))
    found = ran("from_constant", architecture, p0=which, p1="f32[64] random", p2="f32[64] zeros").memory
    assert np.array_equal(found["p2"], operated((WHICH & 1) + 1, found["p1"], 2))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pointer_through_shared_memory(which: str, architecture: str) -> None:
    found = ran("through_shared", architecture, p0=which, p1="f32[64] random", p2="f32[64] zeros").memory
    assert np.array_equal(found["p2"], operated(WHICH[np.arange(64) ^ 1], found["p1"], 3))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_structs_by_value(which: str, architecture: str) -> None:
    found = ran("by_value", architecture, p0=which, p1="f64[64] iota", p2="i32[64] iota").memory
    lane = np.arange(64)
    odd = WHICH & 1 == 1
    assert np.array_equal(found["p1"], np.where(odd, 0.0, lane * lane))
    assert np.array_equal(found["p2"], np.where(odd, 0, lane + lane))


def test_a_pointer_as_an_argument(which: str) -> None:
    found = ran("as_argument", p0=which, p1="f32[64] random", p2="f32[64] zeros").memory
    x, half, four = found["p1"], np.float32(0.5), np.float32(4)
    expected = np.where(WHICH != 0, x * half * four, x - half - four)
    assert np.array_equal(found["p2"], np.where(x > 0.25, expected, 0))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_virtual_functions(which: str, architecture: str) -> None:
    found = ran("virtuals", architecture, p0=which, p1="f32[64] random", p2="f32[64] zeros", p3="i32[64] zeros").memory
    x = found["p1"]
    disc = np.float32(3) * x * x
    expected = np.select([WHICH == 0, WHICH == 1], [x * x, disc], 2 * disc)
    assert found["p2"] == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(found["p3"], np.arange(64) + np.where(WHICH == 0, 100, 0))


def test_virtual_destructors(which: str) -> None:
    """Beside the one that is called stands one that frees memory, which is not supported and must not be in the way."""
    found = ran("destroyed", p0=which, p1="i32[64] zeros").memory
    assert np.array_equal(found["p1"], np.where(np.equal(WHICH, 0), 11, 1))


def test_recursion_through_a_pointer_is_refused_where_it_happens() -> None:
    arguments = {"p1": "f32[32] random", "p2": "f32[32] zeros", "p3": "i32[32] zeros"}
    with pytest.raises(KernelFault, match=r"recursion of _ZNK5Twice4area\w+ is not supported"):
        ran("virtuals", threads=32, p0="i32[32] randint(3, 4)", **arguments)


def test_a_bad_pointer_is_named() -> None:
    for where in (0, 12345, 2**43 + 17, 2**63):
        with pytest.raises(KernelFault, match=r"k\.cu:\d+: a call through a bad function pointer.*thread \(0, 0, 0\)"):
            ran("nowhere", p0=where, p1="f32[64] zeros")


def test_addresses_of_functions_are_values() -> None:
    found = ran("compared", threads=3, p0="i32[3] iota", p1="i32[3] zeros").memory
    assert found["p1"].tolist() == [9, 7, 9]


def test_code_cannot_be_read() -> None:
    with pytest.raises(KernelFault, match="out of bounds"):
        ran("read_code", p0="i32[64] zeros", p1="u8[64] zeros")


def test_only_threads_that_mean_a_function_run_it(which: str) -> None:
    """Each function runs once per warp that calls it, for the lanes that do."""
    trace = ran("from_global", p0=which, p1="f32[64] random", p2="f32[64] zeros")
    names = [ins.name for ins in trace.function.instructions]
    of_threads = trace.thread_executions.sum(axis=0)
    of_warps = np.repeat(trace.counts.block_warps, trace.cfg.lengths, axis=1).sum(axis=0)
    for number, name in enumerate(["add.f32", "mul.f32", "sub.f32"]):
        place = names.index(name)
        assert of_threads[place] == np.count_nonzero(np.equal(WHICH, number))
        assert of_warps[place] == sum((WHICH[start : start + 32] == number).any() for start in (0, 32))
    compared = [n for n, name in enumerate(names) if name == "setp.ne.b64"]
    # Every thread makes the first comparison, those that it does not fit the second, and so on.
    assert [of_threads[n] for n in compared] == [
        np.count_nonzero(np.greater_equal(WHICH, number)) for number in range(3)
    ]
    after = names.index("st.global.f32")
    assert of_warps[after] == 2, "the lanes are together again behind the call"


# By hand

HEAD = ".version 8.8 .target sm_70 .address_size 64\n"
CALLEES = """
.func (.param .b32 r) one(.param .b32 a) {
    .reg .b32 %r<3>; .reg .pred %p;
    ld.param.u32 %r1, [a]; setp.eq.u32 %p, %r1, 0; @%p ret; add.u32 %r1, %r1, 1; st.param.b32 [r], %r1;
}
.func (.param .b32 r) two(.param .b32 a) { st.param.b32 [r], 50; ret; }
.func (.param .b32 r) three(.param .b64 a) { st.param.b32 [r], 60; ret; }
.func four(.param .b32 a) { ret; }
.extern .func (.param .b32 r) gone(.param .b32 a);
.func (.param .b32 r) needs_gone(.param .b32 a) { call (r), gone, (a); ret; }
.global .u64 table[6] = {one, two, three, four, needs_gone, generic(two)+0};
"""


def kernel(call: str, more: str = "") -> str:
    return (
        CALLEES
        + f""".visible .entry k(.param .u64 out, .param .u32 n) {{
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd1, %rd1, %rd2; mul.wide.u32 %rd3, %r1, 8; mov.u64 %rd4, table; add.u64 %rd4, %rd4, %rd3;
    ld.global.u64 %rd5, [%rd4]; setp.lt.u32 %p, %r2, 2; mov.u32 %r3, 9;
    {{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r2; st.param.b32 [q], 4;
    {call}
    ld.param.b32 %r3, [q]; }}
    st.global.u32 [%rd1], %r3; ret; {more}
}}"""
    )


PROTOTYPE = "proto: .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;"


def results(text: str, number: int) -> list[int]:
    found: list[int] = run(ptx_kernel(text), launch(1, 4, out="u32[4] zeros", n=number)).memory["out"].tolist()
    return found


def test_prototypes_are_read() -> None:
    text = """.entry k() {
        a: .callprototype (.param .align 8 .b8 _[16]) _ (.param .b64 _, .param .b8 _[3]);
        { b: .callprototype ()_ (.param .b32 _); } c: .callprototype _ ; }"""
    found = parse_ptx(HEAD + text).functions["k"]
    assert list(found.prototypes.values()) == [Prototype((16,), (8, 3)), Prototype((), (4,)), Prototype((), ())]


@pytest.mark.parametrize("more", [PROTOTYPE, "proto: .calltargets one, two;"])
def test_ways_to_write_a_call(more: str) -> None:
    text = kernel("call (q), %rd5, (p), proto;", more)
    assert results(text, 0) == [4, 2, 3, 4], "a return in the middle comes back to the same place"
    assert results(text, 1) == [50] * 4
    assert results(text, 5) == [50] * 4
    guarded = kernel("@!%p call.uni (q), %rd5, (p), proto;", more)
    assert results(guarded, 1) == [4, 4, 50, 50]


def test_functions_of_another_prototype_are_not_meant() -> None:
    text = kernel("call (q), %rd5, (p), proto;", PROTOTYPE)
    for number in (2, 3):
        with pytest.raises(KernelFault, match=r"^a call through a bad function pointer: the kernel traps in block"):
            results(text, number)


def test_a_function_without_a_body_stops_only_what_reaches_it() -> None:
    text = kernel("call (q), %rd5, (p), proto;", PROTOTYPE)
    assert results(text, 1) == [50] * 4
    with pytest.raises(KernelFault, match="a call of gone, which has no body in this file, is not supported"):
        results(text, 4)


@pytest.mark.parametrize("call", ["call (q), %rd5, (p);", "call (q), %rd5, (p), nothing;", "call (q), 5, (p), proto;"])
def test_calls_that_say_too_little(call: str) -> None:
    with pytest.raises(UnsupportedError, match="a call through a pointer"):
        inline_calls(parse_ptx(HEAD + kernel(call, PROTOTYPE)), "k")


def test_whose_address_is_taken() -> None:
    found = parse_ptx(HEAD + kernel("call (q), one, (p);") + ".entry empty() { .reg .b64 %rd; mov.u64 %rd, four; }")
    assert taken_functions(found, "k") == ("one", "two", "three", "four", "needs_gone")
    assert taken_functions(found, "empty") == ("four",)


def test_functions_that_call_one_another_through_pointers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of them may call any other, but none itself: that many ways are too many."""
    monkeypatch.setattr(inline, "_INSTRUCTION_LIMIT", 20_000)
    count = 12
    bodies = "".join(
        f".func f{i}() {{ .reg .b64 %r; ld.global.u64 %r, [table]; call %r, proto; proto: .callprototype _; ret; }}\n"
        for i in range(count)
    )
    names = ", ".join(f"f{i}" for i in range(count))
    text = f"{HEAD}.global .u64 table[{count}] = {{{names}}};\n{bodies}.entry k() {{ call f0; ret; }}"
    with pytest.raises(UnsupportedError, match="expand to over"):
        inline_calls(parse_ptx(text), "k")
