"""Vectors of 256 bits, 128-bit values, atomics on vectors and elected lanes, as PTX on both engines against NumPy."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest

from kerncast.compile import CompiledKernel
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Launch, parse_value
from kerncast.traces import Trace
from tests.helpers.scalar_oracle import reduce_singles

TARGET = ".version 8.8\n.target sm_100\n.address_size 64\n"
HEAD = """
.visible .entry k(.param .u64 a, .param .u64 b) {
.reg .b64 %a, %b, %at, %d<8>; .reg .b32 %t, %w<10>; .reg .b16 %h<10>; .reg .f32 %f<10>; .reg .b128 %q<4>;
.reg .pred %p<3>; .shared .align 16 .b8 here[512];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x;
"""
ENGINES = pytest.mark.parametrize("engine", ["native", "reference"])
LANE = np.arange(32)


def run(body: str, engine: Any, a: str, b: str, variables: str = "") -> Trace:
    kernel = CompiledKernel("k", "k", "sm_100", f"{TARGET}{variables}{HEAD}{body} ret; }}", cast("Any", None), None)
    arguments = tuple(Argument(name, parse_value(text, name, Path())) for name, text in {"a": a, "b": b}.items())
    return execute(kernel, Launch(Path("k.ptx"), "k", (1, 1, 1), (32, 1, 1), 0, arguments), WholeGrid(), engine=engine)[
        0
    ]


@ENGINES
def test_vectors_of_256_bits(engine: str) -> None:
    words = ", ".join(f"%w{i}" for i in range(8))
    doubles = ", ".join(f"%d{i}" for i in range(4))
    body = f"""
mul.wide.u32 %at, %t, 32; add.s64 %a, %a, %at; add.s64 %b, %b, %at;
ld.global.v8.b32 {{{words}}}, [%a]; add.u32 %w3, %w3, 1000; st.global.v8.b32 [%b], {{{words}}};
ld.global.v4.b64 {{{doubles}}}, [%a+1024]; st.global.v4.b64 [%b+1024], {{{doubles}}};
"""
    trace = run(body, engine, "u32[512] iota", "u32[512] zeros")
    expected = np.arange(512)
    expected[3:256:8] += 1000
    assert trace.memory["b"].tolist() == expected.tolist()
    # Each lane has a sector of its own.
    assert trace.counts.sectors.sum(axis=0).tolist()[-4:] == [32] * 4
    assert trace.counts.accesses.sum(axis=0).tolist()[-4:] == [32] * 4


@ENGINES
@pytest.mark.parametrize("stop", [1, 9, 32])
def test_some_lanes_only(engine: str, stop: int) -> None:
    words = ", ".join(f"%w{i}" for i in range(8))
    body = f"""
mul.wide.u32 %at, %t, 32; add.s64 %a, %a, %at; add.s64 %b, %b, %at; setp.ge.u32 %p0, %t, {32 - stop};
@%p0 ld.global.v8.b32 {{{words}}}, [%a]; @%p0 st.global.v8.b32 [%b], {{{words}}};
"""
    trace = run(body, engine, "u32[256] iota", "u32[256] zeros")
    assert trace.memory["b"].tolist() == [0] * (256 - 8 * stop) + list(range(256 - 8 * stop, 256))


@ENGINES
def test_128_bits(engine: str) -> None:
    body = """
mul.wide.u32 %at, %t, 16; add.s64 %a, %a, %at; add.s64 %b, %b, %at;
ld.global.b128 %q0, [%a]; mov.b128 {%d0, %d1}, %q0; add.s64 %d1, %d1, 7; mov.b128 %q1, {%d1, %d0}; mov.b128 %q2, %q1;
mov.u64 %d2, here; add.s64 %d2, %d2, %at; st.shared.b128 [%d2], %q2; bar.sync 0; xor.b64 %d2, %d2, 16;
ld.shared.b128 %q3, [%d2]; st.global.b128 [%b], %q3;
"""
    trace = run(body, engine, "u64[64] iota", "u64[64] zeros")
    pairs = np.arange(64).reshape(32, 2)
    assert trace.memory["b"].reshape(32, 2).tolist() == np.stack([pairs[:, 1] + 7, pairs[:, 0]], 1)[LANE ^ 1].tolist()


@ENGINES
@pytest.mark.parametrize(
    ("count", "kind"), [(2, "f16"), (4, "f16"), (8, "f16"), (4, "bf16"), (2, "f16x2"), (4, "bf16x2")]
)
def test_atomics_on_vectors_of_halves(engine: str, count: int, kind: str) -> None:
    letter, each = ("w", 2) if kind.endswith("x2") else ("h", 1)
    half = {"f16": 0x3C00, "bf16": 0x3F80}[kind.removesuffix("x2")]  # 1.0
    names = [f"%{letter}{i}" for i in range(count)]
    moves = "".join(f"mov.b{16 * each} {name}, {half if each == 1 else half * 0x10001};" for name in names)
    body = f"""{moves}
red.global.add.noftz.v{count}.{kind} [%a], {{{", ".join(names)}}};
atom.global.add.noftz.v{count}.{kind} {{{", ".join(names)}}}, [%a], {{{", ".join(names)}}};
cvt.u32.u{16 * each} %w8, {names[-1]}; mul.wide.u32 %at, %t, 4; add.s64 %b, %b, %at; st.global.u32 [%b], %w8;
"""
    trace = run(body, engine, "u16[32] zeros", "u32[32] zeros")
    full = {"f16": np.float16(64).view(np.uint16), "bf16": 0x4280}[kind.removesuffix("x2")]  # 32 times two updates
    assert trace.memory["a"].tolist() == [full] * (count * each) + [0] * (32 - count * each)
    found = trace.memory["b"] & 0xFFFF
    values = found.astype(np.uint16).view(np.float16) if kind.startswith("f16") else (found << 16).view(np.float32)
    assert values.tolist() == (32 + LANE).tolist()  # the reduction came first, then the lanes in their order


@ENGINES
def test_atomics_on_vectors_of_singles(engine: str) -> None:
    body = """
cvt.rn.f32.u32 %f0, %t; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0fBF800000;
red.global.add.v4.f32 [%a], {%f0, %f1, %f2, %f3};
atom.global.add.v2.f32 {%f4, %f5}, [%a+16], {%f1, %f2};
mul.wide.u32 %at, %t, 4; add.s64 %b, %b, %at; st.global.f32 [%b], %f5;
"""
    trace = run(body, engine, "f32[8] zeros", "f32[32] zeros")
    assert trace.memory["a"].tolist() == [LANE.sum(), 32, 64, -32, 32, 64, 0, 0]
    assert trace.memory["b"].tolist() == (2 * LANE).tolist()


@ENGINES
def test_groups_of_one_instruction(engine: str) -> None:
    """Each quarter of the warp names itself: what they vote, reduce, match and elect is their own."""
    body = """
and.b32 %w0, %t, 24; shl.b32 %w1, 255, %w0; and.b32 %w2, %t, 3;
elect.sync %w3|%p0, %w1; selp.u32 %w4, 100, 0, %p0; add.u32 %w3, %w3, %w4;
redux.sync.add.u32 %w5, %t, %w1; redux.sync.min.s32 %w6, %t, %w1;
setp.gt.u32 %p1, %t, 12; vote.sync.ballot.b32 %w7, %p1, %w1; vote.sync.all.pred %p2, %p1, %w1; selp.u32 %w8, 1, 0, %p2;
match.any.sync.b32 %w9, %w2, %w1;
mul.wide.u32 %at, %t, 4; add.s64 %b, %b, %at; st.global.u32 [%b], %w3; st.global.u32 [%b+128], %w5;
st.global.u32 [%b+256], %w6; st.global.u32 [%b+384], %w7; st.global.u32 [%b+512], %w8; st.global.u32 [%b+640], %w9;
"""
    rows = run(body, engine, "u32[1] zeros", "u32[6, 32] zeros").memory["b"]
    first = LANE // 8 * 8
    assert rows[0].tolist() == (first + 100 * (first == LANE)).tolist()
    assert rows[1].tolist() == (8 * first + 28).tolist()
    assert rows[2].tolist() == first.tolist()
    members = [[lane for lane in range(32) if lane // 8 == own // 8] for own in range(32)]
    assert rows[3].tolist() == [sum(1 << lane for lane in group if lane > 12) for group in members]
    assert rows[4].tolist() == [int(min(group) > 12) for group in members]
    assert rows[5].tolist() == [sum(1 << x for x in group if x % 4 == own % 4) for own, group in enumerate(members)]


@ENGINES
def test_reductions_of_singles(engine: str) -> None:
    """Of each quarter of the warp: numbers of both signs, zeros of both signs, one NaN, and nothing but NaN."""
    rows = np.array(
        [[3, -4, 0.5, 2, -1, 1, -3.5, 0], [0.0, -0.0] * 4, [2, np.nan, -5, 1, 1, 1, 1, 1], [np.nan] * 8], np.float32
    )
    kinds = ["min", "max", "min.abs", "max.abs", "min.NaN", "max.abs.NaN"]
    code = "".join(
        f"redux.sync.{kind}.f32 %w1, %w0, %w2; st.global.u32 [%b+{128 * n}], %w1;\n" for n, kind in enumerate(kinds)
    )
    body = f"""
and.b32 %w2, %t, 24; shl.b32 %w2, 255, %w2; mul.wide.u32 %at, %t, 4; add.s64 %a, %a, %at; add.s64 %b, %b, %at;
ld.global.u32 %w0, [%a]; {code}
"""
    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "a.npy", rows.ravel().view(np.uint32))
        found = run(body, engine, f"u32[32] file({folder}/a.npy)", f"u32[{len(kinds)}, 32] zeros").memory["b"]
    for kind, results in zip(kinds, found, strict=True):
        for group in range(4):
            expected = reduce_singles(kind.split("."), rows[group].view(np.uint32).tolist())
            assert results[8 * group : 8 * group + 8].tolist() == [expected] * 8, (kind, group)
    assert found[0].view(np.float32)[[0, 8, 16]].tolist() == [-4, 0, -5]
    assert found[1].view(np.float32)[[0, 16]].tolist() == [3, 2]


@ENGINES
def test_cache_policies_change_nothing(engine: str) -> None:
    body = """
createpolicy.fractional.L2::evict_last.b64 %d0, 0f3F800000; createpolicy.range.L2::evict_last.b64 %d1, [%a], 64, 128;
createpolicy.cvt.L2.b64 %d2, %d1; mul.wide.u32 %at, %t, 8; add.s64 %a, %a, %at; add.s64 %b, %b, %at;
ld.global.L1::no_allocate.L2::cache_hint.v2.b32 {%w0, %w1}, [%a], %d0; add.u32 %w1, %w1, %w0;
st.global.L2::cache_hint.v2.b32 [%b], {%w0, %w1}, %d1; atom.global.add.L2::cache_hint.u32 %w3, [%b], 5, %d2;
"""
    found = run(body, engine, "u32[64] iota", "u32[64] zeros").memory["b"]
    assert found[0::2].tolist() == (2 * LANE + 5).tolist()
    assert found[1::2].tolist() == (4 * LANE + 1).tolist()
