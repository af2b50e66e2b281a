"""Products of tensor cores and the moves of their fragments, as PTX on both engines against NumPy."""

from typing import Any

import numpy as np
import pytest

from kerncast.errors import UnsupportedError
from kerncast.ptx.fragments import product_of
from tests.instructions.test_wide_memory import ENGINES, run

PRODUCTS = [
    ("m8n8k4", "f64 f64 f64 f64", ""), ("m16n8k4", "f64 f64 f64 f64", ""), ("m16n8k16", "f64 f64 f64 f64", ""),
    ("m16n8k8", "f32 f16 f16 f32", ""), ("m16n8k16", "f32 f16 f16 f32", ""), ("m16n8k16", "f16 f16 f16 f16", ""),
    ("m16n8k16", "f32 bf16 bf16 f32", ""), ("m16n8k4", "f32 tf32 tf32 f32", ""), ("m16n8k8", "f32 tf32 tf32 f32", ""),
    ("m16n8k32", "f32 e4m3 e5m2 f32", ""), ("m16n8k16", "f16 e5m2 e4m3 f16", ""), ("m8n8k16", "s32 s8 s8 s32", ""),
    ("m16n8k16", "s32 u8 s8 s32", ".satfinite"), ("m16n8k32", "s32 s8 u8 s32", ""), ("m8n8k32", "s32 s4 u4 s32", ""),
    ("m16n8k64", "s32 u4 s4 s32", ""), ("m8n8k128", "s32 b1 b1 s32", ".xor.popc"),
    ("m16n8k256", "s32 b1 b1 s32", ".and.popc"),
]  # fmt: skip
#: Bits of 0, 1, 2 … in each type of floats.
SMALL = {
    "f64": np.arange(4.0).view("u8"), "tf32": np.arange(4, dtype="f4").view("u4"),
    "bf16": np.arange(4, dtype="f4").view("u4") >> 16, "f16": np.arange(4, dtype="f2").view("u2"),
    "e4m3": np.array([0, 0x38, 0x40, 0x44]), "e5m2": np.array([0, 0x3C, 0x40, 0x42]),
}  # fmt: skip


@ENGINES
@pytest.mark.parametrize(("shape", "types", "mode"), PRODUCTS)
def test_products(engine: str, shape: str, types: str, mode: str) -> None:
    product = product_of((shape,), tuple(types.split()))
    assert product is not None
    wide = 64 if product.a == "f64" else 32
    registers = product.registers
    count = sum(registers)
    rng = np.random.default_rng(1)
    bits = wide // product.per_register
    a, b = rng.integers(0, 2, (product.m, product.k)), rng.integers(0, 2, (product.k, product.n))
    names = [f"%x{n}" for n in range(count + registers[2])]
    kind = f"b{wide}"
    lines = [f".reg .{kind} %x<{len(names)}>; .reg .{kind} %one;"]
    places = [(product.place_in_a, a, product.a), (product.place_in_b, b, product.b)]
    number = 0
    for (place, matrix, name), of in zip(places, registers, strict=False):
        one = int(SMALL[name][1]) if name in SMALL else 1
        for register in range(of):
            words = []
            for lane in range(32):
                word = 0
                for element in range(wide // bits):
                    word |= (one * int(matrix[place(lane, register, element)])) << bits * element
                words.append(word)
            lines.append(f"mov.{kind} %x{number}, 0;")
            lines += [
                f"setp.eq.u32 %p0, %t, {lane}; @%p0 mov.{kind} %x{number}, {word};" for lane, word in enumerate(words)
            ]
            number += 1
    lines += [f"mov.{kind} %x{n}, 0;" for n in range(number, count)]
    lists = [names[count:], names[: registers[0]], names[registers[0] : number], names[number:count]]
    operands = ", ".join("{" + ", ".join(each) + "}" for each in lists)
    ending = ".".join(types.split())
    end, popc = (mode, "") if mode != ".satfinite" else ("", mode)
    full = f"mma.sync.aligned.{shape}.row.col{popc}.{ending}{end} {operands};"
    size = wide // 8
    lines.append(f"{full} mul.wide.u32 %at, %t, {size * registers[2]}; add.s64 %b, %b, %at;")
    lines += [f"st.global.{kind} [%b+{size * n}], {each};" for n, each in enumerate(lists[0])]
    found = run("\n".join(lines), engine, "u32[1] zeros", f"u{wide}[{32 * registers[2]}] zeros").memory["b"]
    values = found.view({"f64": "f8", "f32": "f4", "f16": "f2", "s32": "i4"}[product.total])
    values = values.reshape(32, registers[2], product.per_total)
    expected: Any = a @ b if ".xor" not in mode else (a[:, :, None] ^ b[None]).sum(axis=1)
    for lane in range(32):
        for register in range(registers[2]):
            for element in range(product.per_total):
                row, column = product.place_in_total(lane, register, element)
                assert values[lane, register, element] == expected[row, column]


def test_layouts_as_published() -> None:
    half = product_of(("m16n8k16",), ("f32", "f16", "f16", "f32"))
    byte = product_of(("m16n8k32",), ("s32", "s8", "s8", "s32"))
    tf32 = product_of(("m16n8k8",), ("f32", "tf32", "tf32", "f32"))
    assert half is not None
    assert byte is not None
    assert tf32 is not None
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(8):  # the numbering of the elements of A in the document
            row, column = g + (8 if i in {2, 3, 6, 7} else 0), 2 * t + i % 2 + (8 if i >= 4 else 0)
            assert half.place_in_a(lane, i // 2, i % 2) == (row, column)
        for i in range(16):
            row, column = g + (8 if 4 <= i < 8 or i >= 12 else 0), 4 * t + i % 4 + (16 if i >= 8 else 0)
            assert byte.place_in_a(lane, i // 4, i % 4) == (row, column)
        assert [half.place_in_b(lane, i // 2, i % 2) for i in range(4)] == [
            (2 * t + i % 2 + 8 * (i // 2), g) for i in range(4)
        ]
        assert [tf32.place_in_a(lane, i, 0) for i in range(4)] == [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]
        assert [half.place_in_total(lane, i, 0) for i in range(4)] == [
            (g + 8 * (i // 2), 2 * t + i % 2) for i in range(4)
        ]


@ENGINES
@pytest.mark.parametrize("turned", [False, True])
def test_matrices_from_shared_memory(engine: str, turned: bool) -> None:
    trans = ".trans" if turned else ""
    body = f"""
.reg .b32 %s; mov.u32 %s, here; mad.lo.u32 %s, %t, 16, %s; mul.wide.u32 %at, %t, 16; add.s64 %a, %a, %at;
add.s64 %b, %b, %at; ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%a]; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
bar.sync 0; ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%w4, %w5, %w6, %w7}}, [%s];
movmatrix.sync.aligned.m8n8.trans.b16 %w7, %w7; st.global.v4.b32 [%b], {{%w4, %w5, %w6, %w7}};
"""
    trace = run(body, engine, "u16[256] iota", "u16[256] zeros")
    expected = np.arange(256).reshape(4, 8, 8)
    expected = expected.swapaxes(1, 2).copy() if turned else expected.copy()
    expected[3] = expected[3].T.copy()
    wanted = expected.reshape(4, 32, 2).swapaxes(0, 1)
    assert trace.memory["b"].reshape(32, 4, 2).tolist() == wanted.tolist()
    loads = trace.counts.shared_wavefronts.sum(axis=0)
    assert loads.tolist()[-2] == 4  # as a load of 16 bytes per lane without conflicts


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="mma"):
        run(
            "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3},{%w0},{%w1},{%f0,%f1,%f2,%f3};",
            "native", "u32[1] zeros", "u32[1] zeros",
        )  # fmt: skip
