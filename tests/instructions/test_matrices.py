"""Products of tensor cores and the moves of their fragments, as PTX on both engines against NumPy."""

import re
from itertools import pairwise
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest

from kerncast.errors import UnsupportedError
from tests.helpers.matrix_layouts import BITS, Matrix, drawn, fragments, numbers
from tests.helpers.thorough import sampled
from tests.instructions.test_wide_memory import ENGINES, run

_TABLE = {
    "f64": ("m8n8k4 m16n8k4 m16n8k8 m16n8k16", ["f64 f64 f64 f64"]),
    "f16": ("m16n8k8 m16n8k16", ["f32 f16 f16 f32", "f16 f16 f16 f16"]),
    "bf16": ("m16n8k8 m16n8k16", ["f32 bf16 bf16 f32"]),
    "tf32": ("m16n8k4 m16n8k8", ["f32 tf32 tf32 f32"]),
    "f8": ("m16n8k16 m16n8k32", [f"{d} {a} {b} {d}" for d, a, b in pairs(("f32", "f16"), *[("e4m3", "e5m2")] * 2)]),
    "small": ("m16n8k32", ["f32 e3m2 e2m1 f32", "f16 e2m1 e2m3 f16", "f32 e2m3 e4m3 f32", "f32 e5m2 e3m2 f32"]),
    "i8": ("m8n8k16 m16n8k16 m16n8k32", [f"s32 {a} {b} s32" for a, b in pairs(*[("s8", "u8")] * 2)]),
    "i4": ("m8n8k32 m16n8k32 m16n8k64", [f"s32 {a} {b} s32" for a, b in pairs(*[("s4", "u4")] * 2)]),
}
_SHORT = {"e3m2", "e2m3", "e2m1"}
_MIXED = {
    "f32 e3m2 e2m1 f32",
    "f16 e2m1 e2m3 f16",
    "f32 e4m3 e5m2 f32",
    "f16 e5m2 e4m3 f16",
    "s32 s8 u8 s32",
    "s32 u4 s4 s32",
}
_ALL = [(shape, types, "") for shapes, kinds in _TABLE.values() for shape in shapes.split() for types in kinds]
_USUAL = [case for case in _ALL if case[1] in _MIXED or case[1].split()[1] in {"f64", "f16", "bf16", "tf32"}]
_MODES = [("m16n8k32", "s32 u8 s8 s32", ".satfinite"), ("m16n8k32", "s32 u4 u4 s32", ".satfinite")]
_MODES += [
    (shape, "s32 b1 b1 s32", mode)
    for shape, mode in pairs(("m8n8k128", "m16n8k128", "m16n8k256"), (".xor.popc", ".and.popc"))
]


def executed(engine: str, name: str, factors: tuple[Matrix, ...], kind: str, results: int) -> Matrix:
    """Return [lanes, registers] what an instruction makes of registers; each matrix is [lanes, registers]."""
    words = np.concatenate([np.asarray(each, np.uint64) for each in factors], axis=1)
    count, size = words.shape[1], 8 if kind == "b64" else 4
    names = [f"%x{n}" for n in range(count + results)]
    ends = np.cumsum([0, *(each.shape[1] for each in factors)])
    lists = [names[count:], *(names[a:b] for a, b in pairwise(ends))]
    values = ", ".join(str(int(word)) for word in words.ravel())
    lines = [
        f".reg .{kind} %x<{len(names)}>; .reg .b64 %data; mov.u64 %data, data; mul.wide.u32 %at, %t, {size * count};",
        "add.s64 %data, %data, %at;",
        *(f"ld.global.{kind} {each}, [%data+{size * n}];" for n, each in enumerate(names[:count])),
        f"{name} "
        + ", ".join((f"{{{', '.join(each)}}}" if name.startswith("mma") else each[0]) for each in lists)
        + ";",
        f"mul.wide.u32 %at, %t, {size * results}; add.s64 %b, %b, %at;",
        *(f"st.global.{kind} [%b+{size * n}], {each};" for n, each in enumerate(lists[0])),
    ]
    variable = f".global .align 16 .{kind} data[{words.size}] = {{{values}}};"
    trace = run("\n".join(lines), engine, "u32[1] zeros", f"u{8 * size}[{32 * results}] zeros", variable)
    return np.asarray(trace.memory["b"]).reshape(32, results)


@ENGINES
@pytest.mark.parametrize(("shape", "types", "mode"), [*sampled(_ALL, _USUAL), *_MODES])
def test_products(engine: str, shape: str, types: str, mode: str) -> None:
    total, left, right, _ = types.split()
    m, n, k = map(int, re.findall(r"\d+", shape))
    in_a, in_b, in_total = fragments((m, n, k), left, total)
    rng = np.random.default_rng(m * n * k)
    a, b, c = drawn(rng, left, in_a.shape), drawn(rng, right, in_b.shape), drawn(rng, total, in_total.shape)
    end, early = ("", mode) if mode == ".satfinite" else (mode, "")
    early = early if _SHORT.isdisjoint((left, right)) else ".kind::f8f6f4"
    name = f"mma.sync.aligned.{shape}.row.col{early}.{'.'.join(types.split())}{end}"
    kind = "b64" if total == "f64" else "b32"
    registers = in_total.elements * BITS[total] // in_total.word
    found = executed(engine, name, (in_a.words(a), in_b.words(b), in_total.words(c)), kind, registers)
    result = numbers(total, in_total.codes(found))
    x, y, z = numbers(left, a), numbers(right, b), numbers(total, c)
    if total != "s32":
        precision = 2.0**-52 if total == "f64" else 2.0**-23
        size = np.abs(x) @ np.abs(y) + np.abs(z)
        rounding = np.abs(x @ y + z) * 2.0**-11 + 2.0**-25 if total == "f16" else 0.0
        assert np.all(np.abs(result - (x @ y + z)) <= size * precision * k + rounding)
        return
    both: Any = (x[:, :, None] ^ y[None]).sum(axis=1) if ".xor" in mode else x @ y
    exact = both + z
    wrapped = np.clip(exact, -(2**31), 2**31 - 1) if mode == ".satfinite" else (exact + 2**31) % 2**32 - 2**31
    assert result.tolist() == wrapped.tolist()


@ENGINES
@pytest.mark.parametrize("total", ["f16", "f32"])
@pytest.mark.parametrize(("left", "right"), list(pairs(("row", "col"), ("row", "col"))))
def test_four_products_by_quads(engine: str, left: str, right: str, total: str) -> None:
    """Lanes 4 q to 4 q + 3 and those 16 further on multiply 8 x 4 by 4 x 8 (PTX ISA 9.1, section 9.7.14.5.1)."""
    rng = np.random.default_rng(884)
    a, b = rng.normal(size=(4, 8, 4)).astype(np.float16), rng.normal(size=(4, 4, 8)).astype(np.float16)
    c = rng.normal(size=(4, 8, 8)).astype(f"f{int(total[1:]) // 8}")
    held: dict[str, Matrix] = {
        "a": np.empty((32, 4), "f2"),
        "b": np.empty((32, 4), "f2"),
        "c": np.empty((32, 8), c.dtype),
    }
    places = []
    for lane in range(32):
        quad, high, own = lane // 4 % 4, 4 * (lane >= 16), lane % 4
        for i in range(4):
            held["a"][lane, i] = a[quad, own + high, i] if left == "row" else a[quad, i + high, own]
            held["b"][lane, i] = b[quad, i, own + high] if right == "col" else b[quad, own, i + high]
        for i in range(8):
            row, column = (own, i) if total == "f16" else ((lane & 1) + (i & 2), (i & 4) + (lane & 2) + (i & 1))
            places.append((quad, row + high, column))
            held["c"][lane, i] = c[places[-1]]
    given = tuple(np.ascontiguousarray(each).view(np.uint32) for each in held.values())
    name = f"mma.sync.aligned.m8n8k4.{left}.{right}.{total}.f16.f16.{total}"
    found = executed(engine, name, given, "b32", given[2].shape[1]).astype(np.uint32)
    exact = a.astype(float) @ b.astype(float) + c
    expected = np.array([exact[place] for place in places]).reshape(32, 8)
    precision = 2.0**-10 if total == "f16" else 2.0**-21
    assert np.allclose(found.view(c.dtype), expected, rtol=precision, atol=precision)


#: Values of E2M1 by their codes. Source: OCP Microscaling Formats 1.0, table 5.
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
_SCALED = [
    ("m16n8k32", "mxf8f6f4.block_scale", "e4m3 e5m2", "ue8m0", 1, (2, 1, 3, 3)),
    ("m16n8k32", "mxf8f6f4.block_scale.scale_vec::1X", "e2m3 e3m2", "ue8m0", 1, (1, 0, 2, 1)),
    ("m16n8k64", "mxf4.block_scale", "e2m1 e2m1", "ue8m0", 2, (2, 0, 0, 1)),
    ("m16n8k64", "mxf4nvf4.block_scale.scale_vec::4X", "e2m1 e2m1", "ue4m3", 4, (0, 1, 0, 2)),
]


@ENGINES
@pytest.mark.parametrize("case", _SCALED, ids=[each[1] for each in _SCALED])
def test_products_with_factors_of_rows_and_columns(engine: str, case: Any) -> None:
    """Factors of row g of A lie in lane 4 g + 2 t, of row g + 8 behind it, of column g of B in lane 4 g + t."""
    shape, kind, types, scale, count, (byte_a, lane_a, byte_b, lane_b) = case
    m, n, k = map(int, re.findall(r"\d+", shape))
    left, right = types.split()
    in_a, in_b, in_c = fragments((m, n, k), "s4" if left == "e2m1" else left, "f32")
    rng = np.random.default_rng(k + count)
    most = 16 if left == "e2m1" else 0x60
    a, b = rng.integers(0, most, in_a.shape), rng.integers(0, most, in_b.shape)
    c, words = drawn(rng, "f32", in_c.shape), rng.integers(0, 256, (2, 32, 4))
    words = words % 16 + (120 if scale == "ue8m0" else 48)
    packed = [np.ascontiguousarray(each.astype(np.uint8)).view(np.uint32) for each in words]
    where = (byte_a, lane_a), (byte_b, lane_b)
    found = _block_scaled(
        engine,
        f"{shape}.row.col.kind::{kind}.f32.{left}.{right}.f32.{scale}",
        (
            in_a.words(a),
            packed[0],
            in_b.words(b),
            packed[1],
            in_c.words(c),
        ),
        where,
    )
    values = [_E2M1[each] if left == "e2m1" else numbers(name, each) for name, each in ((left, a), (right, b))]
    rows, columns = np.arange(m), np.arange(n)
    of_a = words[0][4 * (rows % 8) + 2 * lane_a + rows // 8][:, byte_a : byte_a + count]
    of_b = words[1][4 * columns + lane_b][:, byte_b : byte_b + count]
    of_a, of_b = (2.0 ** (each - 127) if scale == "ue8m0" else numbers("e4m3", each) for each in (of_a, of_b))
    expected = (values[0] * np.repeat(of_a, k // count, 1)) @ (values[1] * np.repeat(of_b, k // count, 1).T)
    expected = expected + numbers("f32", c)
    result = numbers("f32", in_c.codes(found))
    assert np.allclose(result, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def _block_scaled(engine: str, name: str, given: tuple[Matrix, ...], where: Any) -> Matrix:
    """Return [lanes, 4] the sums of a mma with factors; the selectors are the byte and the lane of A and of B."""
    words = np.concatenate([np.asarray(each, np.uint64) for each in given], axis=1)
    count = words.shape[1]
    names = [f"%x{n}" for n in range(count)]
    ends = np.cumsum([0, *(each.shape[1] for each in given)])
    a, sa, b, sb, c = (", ".join(names[i:j]) for i, j in pairwise(ends))
    picks = [f"{{{byte}, %h{n}}}" for n, (byte, _) in enumerate(where)]
    factors = f"{{{a}}}, {{{b}}}, {{{c}}}, {{{sa}}}, {picks[0]}, {{{sb}}}, {picks[1]}"
    lines = [
        f".reg .b32 %x<{count}>, %d<4>; .reg .b16 %h<2>; .reg .b64 %data; mov.u64 %data, data;",
        f"mul.wide.u32 %at, %t, {4 * count}; add.s64 %data, %data, %at;",
        *(f"mov.b16 %h{n}, {lane};" for n, (_, lane) in enumerate(where)),
        *(f"ld.global.b32 {each}, [%data+{4 * n}];" for n, each in enumerate(names)),
        f"mma.sync.aligned.{name} {{%d0, %d1, %d2, %d3}}, {factors};",
        "mul.wide.u32 %at, %t, 16; add.s64 %b, %b, %at; st.global.v4.b32 [%b], {%d0, %d1, %d2, %d3};",
    ]
    variable = f".global .align 16 .b32 data[{words.size}] = {{{', '.join(map(str, words.ravel().tolist()))}}};"
    trace = run("\n".join(lines), engine, "u32[1] zeros", "u32[128] zeros", variable)
    return np.asarray(trace.memory["b"]).reshape(32, 4)


@ENGINES
def test_sums_that_saturate(engine: str) -> None:
    in_a, in_b, in_total = fragments((8, 8, 16), "s8", "s32")
    most = np.full((8, 8), 2**31 - 5)
    factors = in_a.words(np.ones((8, 16), int)), in_b.words(np.ones((16, 8), int)), in_total.words(most)
    name = "mma.sync.aligned.m8n8k16.row.col{}.s32.s8.s8.s32"
    kept = executed(engine, name.format(".satfinite"), factors, "b32", 2)
    wrapped = executed(engine, name.format(""), factors, "b32", 2)
    assert set(kept.ravel().tolist()) == {2**31 - 1}
    assert set(wrapped.ravel().tolist()) == {2**31 - 5 + 16}


@ENGINES
def test_lanes_that_are_missing_are_told(engine: str) -> None:
    # The PTX ISA: all threads of the warp must execute mma.sync, else the result is undefined.
    body = """
setp.lt.u32 %p0, %t, 16; mov.b32 %w0, 0; mov.f32 %f0, 0f00000000;
@%p0 bra there;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3},{%w0,%w0},{%w0},{%f0,%f0,%f0,%f0};
there: st.global.f32 [%b], %f0;
"""
    remarks = [remark.kind for remark in run(body, engine, "u32[1] zeros", "f32[1] zeros").remarks]
    assert [str(kind.value) for kind in remarks] == ["lanes-absent"]


@ENGINES
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_from_shared_memory(engine: str, count: int, turned: bool) -> None:
    trans = ".trans" if turned else ""
    listed = ", ".join(["%w4", "%w5", "%w6", "%w7"][:count])
    # Lane 5 l + 3 modulo 32 has row l; lanes without a matrix have addresses outside, which are ignored.
    body = f"""
.reg .b32 %s; mov.u32 %s, here; mad.lo.u32 %s, %t, 16, %s; mul.wide.u32 %at, %t, 16; add.s64 %a, %a, %at;
add.s64 %b, %b, %at; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a]; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
bar.sync 0; mov.u32 %s, here; mad.lo.u32 %w8, %t, 5, 3; and.b32 %w8, %w8, 31; mad.lo.u32 %s, %w8, 16, %s;
setp.ge.u32 %p0, %t, {8 * count}; @%p0 mov.u32 %s, 0xFFFF0000; mov.b32 %w5, 0; mov.b32 %w6, 0; mov.b32 %w7, 0;
ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{listed}}}, [%s];
st.global.v4.b32 [%b], {{%w4, %w5, %w6, %w7}};
"""
    trace = run(body, engine, "u16[256] iota", "u16[256] zeros")
    rows = np.arange(256).reshape(32, 8)[(5 * np.arange(32) + 3) % 32].reshape(4, 8, 8)
    expected = (rows.swapaxes(1, 2) if turned else rows).copy()
    expected[count:] = 0
    # The lane 4 g + t of a register has the elements (g, 2 t) and (g, 2 t + 1) of its matrix.
    assert trace.memory["b"].reshape(32, 4, 2).tolist() == expected.reshape(4, 32, 2).swapaxes(0, 1).tolist()
    loads = trace.counts.shared_wavefronts.sum(axis=0)
    assert loads.tolist()[-2] == count  # as a load of 16 bytes per lane without conflicts


@ENGINES
@pytest.mark.parametrize("space", [".shared", ""])
@pytest.mark.parametrize(("count", "turned"), [(1, True), (2, False), (4, True), (4, False)])
def test_matrices_to_shared_memory(engine: str, count: int, turned: bool, space: str) -> None:
    trans = ".trans" if turned else ""
    listed = ", ".join(["%w0", "%w1", "%w2", "%w3"][:count])
    generic = "" if space else "cvta.shared.u64 %d0, %d0;"
    body = f"""
mul.wide.u32 %at, %t, 16; add.s64 %a, %a, %at; add.s64 %b, %b, %at; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a];
mov.u64 %d1, here; add.s64 %d1, %d1, %at; mov.b32 %w4, 0xFFFFFFFF; st.shared.v4.b32 [%d1], {{%w4, %w4, %w4, %w4}};
mad.lo.u32 %w8, %t, 5, 3; and.b32 %w8, %w8, 31; mul.wide.u32 %at, %w8, 16; mov.u64 %d0, here; add.s64 %d0, %d0, %at;
{generic} setp.ge.u32 %p0, %t, {8 * count}; @%p0 mov.u64 %d0, 0xFFFF0000; bar.sync 0;
stmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 [%d0], {{{listed}}};
bar.sync 0; ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%d1]; st.global.v4.b32 [%b], {{%w0, %w1, %w2, %w3}};
"""
    trace = run(body, engine, "u16[256] iota", "u16[256] zeros")
    # The registers of lane 4 g + t hold the elements (g, 2 t) and (g, 2 t + 1) of their matrices.
    matrices = np.arange(256).reshape(32, 4, 2).swapaxes(0, 1).reshape(4, 8, 8)
    rows = (matrices.swapaxes(1, 2) if turned else matrices).reshape(32, 8)
    expected = np.full((32, 8), 0xFFFF)
    lanes = np.arange(8 * count)
    expected[(5 * lanes + 3) % 32] = rows[lanes]
    assert trace.memory["b"].reshape(32, 8).tolist() == expected.tolist()
    assert trace.counts.shared_wavefronts.sum(axis=0).tolist()[-3] == count


@ENGINES
@pytest.mark.parametrize(("form", "width"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_short_numbers_become_bytes(engine: str, count: int, form: str, width: int) -> None:
    """Each 16 bytes begin with 16 numbers; lane 4 g + t has those of columns 4 t to 4 t + 3 of row g, as low bits."""
    listed = ", ".join(["%w4", "%w5", "%w6", "%w7"][:count])
    body = f"""
.reg .b32 %s; mov.u32 %s, here; mad.lo.u32 %s, %t, 16, %s; mul.wide.u32 %at, %t, 16; add.s64 %a, %a, %at;
add.s64 %b, %b, %at; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a]; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
bar.sync 0; mov.b32 %w4, 0; mov.b32 %w5, 0; mov.b32 %w6, 0; mov.b32 %w7, 0;
ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{form} {{{listed}}}, [%s];
st.global.v4.b32 [%b], {{%w4, %w5, %w6, %w7}};
"""
    trace = run(body, engine, "u32[128] randint(0, 4294967295)", "u8[512] zeros")
    rows = np.asarray(trace.memory["a"]).view(np.uint8).reshape(4, 8, 16)
    expected = np.zeros((32, 4, 4), np.uint8)
    for matrix, g, column in pairs(range(count), range(8), range(16)):
        whole = int.from_bytes(rows[matrix, g].tobytes(), "little")
        expected[4 * g + column // 4, matrix, column % 4] = whole >> width * column & (1 << width) - 1
    assert trace.memory["b"].reshape(32, 4, 4).tolist() == expected.tolist()
    assert trace.counts.shared_wavefronts.sum(axis=0).tolist()[-2] == count


@ENGINES
@pytest.mark.parametrize("space", [".shared", ""])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_bytes_to_shared_memory(engine: str, count: int, space: str) -> None:
    """Of 16 x 8 bytes lane 4 g + t has rows g (two bytes) and g + 8 of columns 2 t and 2 t + 1, which become rows."""
    listed = ", ".join(["%w0", "%w1", "%w2", "%w3"][:count])
    generic = "" if space else "cvta.shared.u64 %d0, %d0;"
    body = f"""
mul.wide.u32 %at, %t, 16; add.s64 %a, %a, %at; add.s64 %b, %b, %at; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a];
mov.u64 %d1, here; add.s64 %d1, %d1, %at; mov.b32 %w4, 0; st.shared.v4.b32 [%d1], {{%w4, %w4, %w4, %w4}};
mov.u64 %d0, here; add.s64 %d0, %d0, %at; {generic} bar.sync 0;
stmatrix.sync.aligned.m16n8.x{count}.trans{space}.b8 [%d0], {{{listed}}};
bar.sync 0; ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%d1]; st.global.v4.b32 [%b], {{%w0, %w1, %w2, %w3}};
"""
    trace = run(body, engine, "u32[128] randint(0, 4294967295)", "u8[512] zeros")
    held = np.asarray(trace.memory["a"]).view(np.uint8).reshape(32, 4, 4)
    expected = np.zeros((4, 8, 16), np.uint8)
    for matrix, lane, e in pairs(range(count), range(32), range(4)):
        g, t = divmod(lane, 4)
        expected[matrix, 2 * t + e % 2, g + 8 * (e // 2)] = held[lane, matrix, e]
    assert trace.memory["b"].reshape(4, 8, 16).tolist() == expected.tolist()
    assert trace.counts.shared_wavefronts.sum(axis=0).tolist()[-3] == count


@ENGINES
def test_a_transposed_matrix_in_registers(engine: str) -> None:
    words = np.arange(64).reshape(8, 8).astype(np.uint16).view(np.uint32).reshape(32, 1)
    found = executed(engine, "movmatrix.sync.aligned.m8n8.trans.b16", (words,), "b32", 1)
    assert found.astype(np.uint32).view(np.uint16).reshape(8, 8).tolist() == np.arange(64).reshape(8, 8).T.tolist()


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        (
            "mma.sync.aligned.m8n8k4.row.f32.f16.f16.f32",
            "{%f0,%f1,%f2,%f3,%f0,%f1,%f2,%f3},{%w0,%w0},{%w1,%w1},{%f0,%f1,%f2,%f3,%f0,%f1,%f2,%f3}",
        ),
        ("mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32", "{%f0,%f1,%f2,%f3},{%w0},{%w1},{%f0,%f1,%f2,%f3}"),
        ("mma.sp.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32", "{%w0,%w1},{%w2,%w3},{%w4,%w5},{%w6,%w7},%w8,0"),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e3m2.e3m2.f32",
            "{%f0,%f1,%f2,%f3},{%w0,%w1,%w2,%w3},{%w4,%w5},{%f0,%f1,%f2,%f3}",
        ),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", "{%w0,%w1},[%at]"),
        ("stmatrix.sync.aligned.m16n8.x1.shared.b8", "[%at],{%w0}"),
        ("ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64", "{%w0},[%at]"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "%w0,[%at]"),
    ],
)
def test_others_are_refused_by_name(name: str, operands: str) -> None:
    with pytest.raises(UnsupportedError, match=name.replace(".", r"\.")):
        run(f"{name} {operands};", "native", "u32[1] zeros", "u32[1] zeros")
