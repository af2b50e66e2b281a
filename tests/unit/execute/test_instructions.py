"""Instructions that need more than their own operands: carries, half atomics, addresses, barriers that reduce."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.helpers.execute_helpers import compiled, launch, ptx_kernel, run

pytestmark = pytest.mark.usefixtures("engine")
HEAD = """.entry k(.param .u64 p, .param .u64 q) {
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r1, %tid.x; """


def words(values: list[int], count: int) -> list[list[int]]:
    return [[value >> 32 * i & 0xFFFFFFFF for i in range(count)] for value in values]


def run_words(body: str, data: list[list[int]], results: int, tmp_path: Any) -> npt.NDArray[Any]:
    """Run one thread per row of 32-bit words: the row lies at %rd3, its result goes to %rd4."""
    array = np.array(data, np.uint32)
    np.save(tmp_path / "in.npy", array)
    text = HEAD + f"mad.wide.u32 %rd3, %r1, {4 * array.shape[1]}, %rd1; mad.wide.u32 %rd4, %r1, {4 * results}, %rd2; "
    where = launch(1, len(data), p=f"u32[{array.size}] file({tmp_path / 'in.npy'})", q=f"u32[{len(data)}, {results}]")
    return run(ptx_kernel(text + body + " ret; }"), where).memory["q"]


def test_carry_of_long_sums_and_differences(tmp_path: Any) -> None:
    random = np.random.default_rng(2)
    a = [int.from_bytes(random.bytes(12), "little") for _ in range(30)] + [2**96 - 1, 0]
    b = [int.from_bytes(random.bytes(12), "little") for _ in range(30)] + [1, 1]
    body = "".join(f"ld.global.u32 %r{2 + i}, [%rd3+{4 * i}]; " for i in range(6))
    for root in ("add", "sub"):
        body += f"{root}.cc.u32 %r10, %r2, %r5; {root}c.cc.u32 %r11, %r3, %r6; {root}c.cc.s32 %r12, %r4, %r7; "
        body += f"{root}c.u32 %r13, 0, 0; " + "".join(
            f"st.global.u32 [%rd4+{4 * i + (16 if root == 'sub' else 0)}], %r{10 + i}; " for i in range(4)
        )
    rows = [x + y for x, y in zip(words(a, 3), words(b, 3), strict=True)]
    found = run_words(body, rows, 8, tmp_path)
    for lane, (x, y) in enumerate(zip(a, b, strict=True)):
        values = [sum(int(w) << 32 * i for i, w in enumerate(part)) for part in (found[lane, :4], found[lane, 4:])]
        assert values[0] == x + y
        assert values[1] == (x - y) % 2**128


def test_carry_of_long_products(tmp_path: Any) -> None:
    """64 x 64 to 128 bits from 32-bit pieces, as the compiler writes it."""
    random = np.random.default_rng(4)
    a = [int.from_bytes(random.bytes(8), "little") for _ in range(30)] + [2**64 - 1, 2**64 - 1]
    b = [int.from_bytes(random.bytes(8), "little") for _ in range(30)] + [2**64 - 1, 1]
    body = """ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];
    mul.lo.u32 %r10, %r2, %r4; mul.hi.u32 %r11, %r2, %r4;
    mad.lo.cc.u32 %r11, %r2, %r5, %r11; madc.hi.u32 %r12, %r2, %r5, 0;
    mad.lo.cc.u32 %r11, %r3, %r4, %r11; madc.hi.cc.u32 %r12, %r3, %r4, %r12; madc.hi.u32 %r13, %r3, %r5, 0;
    mad.lo.cc.u32 %r12, %r3, %r5, %r12; addc.u32 %r13, %r13, 0;
    st.global.v4.u32 [%rd4], {%r10, %r11, %r12, %r13};"""
    found = run_words(body, [x + y for x, y in zip(words(a, 2), words(b, 2), strict=True)], 4, tmp_path)
    for lane, (x, y) in enumerate(zip(a, b, strict=True)):
        assert sum(int(w) << 32 * i for i, w in enumerate(found[lane])) == x * y


def test_double_precision_sine_of_large_arguments() -> None:
    """The compiler reduces them with long integers."""
    source = """extern "C" __global__ void sine(const double *x, double *y) {
        y[threadIdx.x] = sin(x[threadIdx.x] * 1e12) + cos(x[threadIdx.x] * 1e300); }"""
    memory = run(compiled(source), launch(1, 64, x="f64[64] random", y="f64[64]")).memory
    assert np.allclose(memory["y"], np.sin(memory["x"] * 1e12) + np.cos(memory["x"] * 1e300), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(("kind", "one"), [("f16", 0x3C00), ("bf16", 0x3F80)])
def test_half_atomics(kind: str, one: int) -> None:
    kernel = ptx_kernel(
        HEAD
        + f"""mov.b16 %rs1, {one}; mov.b32 %r2, {{%rs1, %rs1}}; red.global.add.noftz.{kind}x2 [%rd1], %r2;
        atom.global.add.noftz.{kind} %rs2, [%rd1+4], %rs1; mad.wide.u32 %rd3, %r1, 2, %rd2; st.global.u16 [%rd3], %rs2;
        ret; }}"""
    )
    memory = run(kernel, launch(1, 64, p="u16[4]", q="u16[64]")).memory

    def value(bits: npt.NDArray[np.uint16]) -> list[float]:
        if kind == "f16":
            return [float(x) for x in bits.view(np.float16)]
        return [float(x) for x in (bits.astype(np.uint32) << 16).view(np.float32)]

    assert value(memory["p"]) == [64, 64, 64, 0]
    assert sorted(value(memory["q"])) == list(range(64))


def test_atomics_on_shared_memory_through_a_generic_pointer() -> None:
    source = """extern "C" __global__ void adds(int *x) {
        __shared__ int own; int *p = threadIdx.x & 1 ? &own : x; if (!threadIdx.x) own = 5; __syncthreads();
        atomicAdd(p, 2); __syncthreads(); x[1] = own; }"""
    assert run(compiled(source), launch(1, 64, x="i32[2]")).memory["x"].tolist() == [64, 69]


def test_a_struct_parameter_indexed_at_run_time() -> None:
    source = """struct S { int v[9]; };
    extern "C" __global__ void copies(S s, const __grid_constant__ S t, int *y) {
        const S *p = &t; y[threadIdx.x] = s.v[threadIdx.x % 9] * 100 + p->v[(threadIdx.x * 2) % 9]; }"""
    data = np.arange(9, dtype=np.int32).tobytes().hex()
    memory = run(compiled(source), launch(1, 32, s=f"bytes({data})", t=f"bytes({data})", y="i32[32]")).memory
    assert memory["y"].tolist() == [i % 9 * 100 + i * 2 % 9 for i in range(32)]


def test_barriers_that_reduce_and_barriers_that_do_not_wait() -> None:
    source = """extern "C" __global__ void bars(int *y) {
        y[threadIdx.x] = __syncthreads_count(threadIdx.x < 40) + 100 * __syncthreads_or(threadIdx.x == 3)
            + 200 * __syncthreads_and(threadIdx.x < 96);
        if (threadIdx.x < 32) asm volatile("bar.sync 3, 96;"); else asm volatile("bar.arrive 3, 96;"); }"""
    assert run(compiled(source), launch(2, 96, y="i32[96]")).memory["y"].tolist() == [340] * 96


def test_syncwarp_between_lanes_that_go_different_ways() -> None:
    """Legal since Volta: each side writes, waits for the other, and reads what that wrote."""
    source = """extern "C" __global__ void swaps(int *y) {
        __shared__ volatile int box[32]; int lane = threadIdx.x;
        if (lane < 16) { box[lane] = lane; __syncwarp(); y[lane] = box[lane + 16]; }
        else { box[lane] = 100 + lane; __syncwarp(); y[lane] = box[lane - 16]; } }"""
    found = run(compiled(source), launch(1, 32, y="i32[32]")).memory["y"].tolist()
    assert found == [116 + i for i in range(16)] + list(range(16))


def test_a_shared_address_of_32_bits_wraps_around() -> None:
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .b64 %rd<4>; .reg .b32 %r<9>; .shared .align 4 .b8 s[256];
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.lo.s32 %r2, %r1, 4; sub.s32 %r3, %r2, 64;
        st.shared.u32 [%r3+64], %r1; bar.sync 0; ld.shared.u32 %r4, [%r3+64]; add.s32 %r5, %r2, 128;
        atom.shared.add.u32 %r6, [%r5+-128], 1; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
        st.global.u32 [%rd3], %r4; ret; }"""
    )
    assert run(kernel, launch(1, 32, p="u32[32]")).memory["p"].tolist() == list(range(32))


def test_a_vector_of_one_element_is_that_element() -> None:
    kernel = ptx_kernel(
        """.entry k(.param .u64 p) { .reg .b64 %rd<4>; .reg .b32 %r<9>; ld.param.u64 %rd1, [p];
        mov.u32 %r1, 0; ld.global.b32 { %r1 }, [%rd1+4]; st.global.b32 [%rd1], { %r1 }; ret; }"""
    )
    assert run(kernel, launch(1, 1, p="u32[2] iota")).memory["p"].tolist() == [1, 1]


def test_addresses_of_all_state_spaces_differ() -> None:
    kernel = ptx_kernel(
        HEAD
        + """.shared .align 8 .b8 s[8]; .local .align 8 .b8 l[8];
        mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; mov.u64 %rd5, l; cvta.local.u64 %rd6, %rd5; mov.b64 %rd7, p;
        cvta.param.u64 %rd8, %rd7; mov.u32 %r2, 0;
        isspacep.shared %p1, %rd4; @%p1 or.b32 %r2, %r2, 1; isspacep.global %p1, %rd4; @%p1 or.b32 %r2, %r2, 256;
        isspacep.local %p1, %rd6; @%p1 or.b32 %r2, %r2, 2; isspacep.shared %p1, %rd6; @%p1 or.b32 %r2, %r2, 256;
        isspacep.global %p1, %rd1; @%p1 or.b32 %r2, %r2, 4; isspacep.local %p1, %rd1; @%p1 or.b32 %r2, %r2, 256;
        isspacep.param %p1, %rd8; @%p1 or.b32 %r2, %r2, 8; ld.u64 %rd9, [%rd8]; setp.eq.u64 %p1, %rd9, %rd1;
        @%p1 or.b32 %r2, %r2, 16; cvta.to.shared.u64 %rd10, %rd4; setp.eq.u64 %p1, %rd10, %rd3;
        @%p1 or.b32 %r2, %r2, 32;
        st.global.u32 [%rd2], %r2; ret; }"""
    )
    assert run(kernel, launch(1, 1, p="u32[1]", q="u32[1]")).memory["q"][0] == 63


def test_an_address_of_a_parameter_may_go_through_32_bits() -> None:
    """As Triton asks for that of a tensor map."""
    kernel = ptx_kernel(
        HEAD
        + """mov.b32 %r1, q; cvt.u64.u32 %rd3, %r1; cvta.param.u64 %rd4, %rd3; ld.u64 %rd5, [%rd4];
        mov.u32 %r2, 7; st.global.u32 [%rd5], %r2; ret; }"""
    )
    assert run(kernel, launch(1, 1, p="u32[1]", q="u32[1]")).memory["q"][0] == 7


def test_addresses_of_variables_in_initial_values() -> None:
    kernel = ptx_kernel(
        """.global .align 4 .u32 cells[3] = {7, 8, 9}; .global .u64 at[2] = {generic(cells)+4, cells+8};
        .global .align 8 .b8 packed[8] = {0xFF(cells), 0xFF00(cells), 0xFF0000(cells), 0xFF000000(cells),
        0xFF00000000(cells), 0xFF0000000000(cells), 0xFF000000000000(cells), 0xFF00000000000000(cells)};"""
        + HEAD
        + """ld.global.u64 %rd3, [at]; ld.global.u32 %r2, [%rd3]; ld.global.u64 %rd4, [at+8]; ld.global.u32 %r3, [%rd4];
        mov.u64 %rd5, packed; ld.global.u64 %rd6, [%rd5]; ld.global.u32 %r4, [%rd6]; mov.u64 %rd7, cells+8;
        ld.global.u32 %r5, [%rd7]; st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5}; ret; }"""
    )
    assert run(kernel, launch(1, 1, p="u32[1]", q="u32[4]")).memory["q"].tolist() == [8, 9, 7, 9]


@pytest.mark.parametrize(("guard", "called"), [("@%p1 ", [0, 1, 2]), ("@!%p1 ", [3, 4, 5]), ("", [0, 1, 2, 3, 4, 5])])
def test_a_guarded_call_is_made_by_those_that_the_guard_names(guard: str, called: list[int]) -> None:
    kernel = ptx_kernel(
        """.func (.param .b32 o) f(.param .b32 a) { .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.u32 %r1, [a];
        setp.eq.u32 %p1, %r1, 4; @%p1 bra EARLY; add.s32 %r1, %r1, 100; st.param.b32 [o], %r1; ret;
        EARLY: st.param.b32 [o], 7; ret; }"""
        + HEAD
        + f"""setp.lt.u32 %p1, %r1, 3; mov.u32 %r2, 1; {{ .param .b32 a; .param .b32 o; st.param.b32 [a], %r1;
        st.param.b32 [o], 0; {guard}call (o), f, (a); ld.param.b32 %r2, [o]; }}
        mad.wide.u32 %rd3, %r1, 4, %rd2; st.global.u32 [%rd3], %r2; ret; }}"""
    )
    found = run(kernel, launch(1, 6, p="u32[1]", q="u32[6]")).memory["q"].tolist()
    assert found == [(7 if i == 4 else 100 + i) if i in called else 0 for i in range(6)]


def test_votes_of_warps_that_agree_and_that_do_not() -> None:
    """First warp: all say yes; second: none; third: some; fourth: half of it named, which all say yes."""
    source = """extern "C" __global__ void votes(int *y) {
        int w = threadIdx.x / 32, lane = threadIdx.x % 32;
        unsigned named = w == 3 ? 0xffffu : 0xffffffffu;
        int yes = w == 0 || (w == 2 && lane == 7) || (w == 3 && lane < 16), r = 0;
        if (w < 3 || lane < 16)
            r = __all_sync(named, yes) + 2 * __any_sync(named, yes) + 4 * __uni_sync(named, yes)
                + 8 * __popc(__ballot_sync(named, yes));
        y[threadIdx.x] = r; }"""
    trace = run(compiled(source), launch(1, 128, y="i32[128]"))
    assert trace.memory["y"].reshape(4, 32)[:, 0].tolist() == [1 + 2 + 4 + 256, 4, 2 + 8, 1 + 2 + 4 + 128]
    assert trace.memory["y"].reshape(4, 32)[3, 16:].tolist() == [0] * 16
    assert trace.remarks == (), "lanes that are not named are not missed"


def test_clocks_go_on() -> None:
    source = """extern "C" __global__ void waits(long long *y) {
        long long start = clock64(); while (clock64() - start < 500) ; y[threadIdx.x] = clock64() - start; }"""
    assert (run(compiled(source), launch(1, 32, y="i64[32]")).memory["y"] >= 500).all()


def test_special_registers() -> None:
    kernel = ptx_kernel(
        HEAD
        + """mov.u32 %r2, %laneid; mov.u32 %r3, %warpid; mov.u32 %r4, %nwarpid; mov.u32 %r5, %lanemask_lt;
        mov.u32 %r6, %lanemask_ge; mov.u32 %r7, %lanemask_eq; mov.u32 %r8, %dynamic_smem_size;
        mov.u32 %r9, %lanemask_gt;
        mad.wide.u32 %rd3, %r1, 32, %rd2; st.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5};
        st.global.v4.u32 [%rd3+16], {%r6, %r7, %r8, %r9}; ret; }"""
    )
    found = run(kernel, launch(1, 70, 48, p="u32[1]", q="u32[70, 8]")).memory["q"]
    for thread in range(70):
        lane, full = thread % 32, 0xFFFFFFFF
        masks = [(1 << lane) - 1, full - (1 << lane) + 1, 1 << lane]
        expected = [lane, thread // 32, 3, *masks, 48, full & ~((2 << lane) - 1)]
        assert found[thread].tolist() == expected


def test_integers_of_128_bits(tmp_path: Path) -> None:
    source = """extern "C" __global__ void wide(const __int128 *x, long long *y) {
        const __int128 a = x[threadIdx.x];
        y[threadIdx.x] = (long long)((a * a + 7) >> 64);
    }"""
    halves = np.random.default_rng(1).integers(-(2**62), 2**62, (32, 2))
    np.save(tmp_path / "x.npy", halves)
    arguments = {"x": f"i64[32, 2] file({tmp_path}/x.npy)", "y": "i64[32]"}

    def signed(value: int, bits: int) -> int:
        half = 1 << (bits - 1)
        return (value + half) % (2 * half) - half

    values = [int(low) % 2**64 + (int(high) << 64) for low, high in halves]
    expected = [signed(signed(value**2 + 7, 128) >> 64, 64) for value in values]
    assert run(compiled(source), launch(1, 32, **arguments)).memory["y"].tolist() == expected
