"""Products whose A is sparse (mma.sp), as PTX on both engines against NumPy.

Of each group of 4 numbers of a row A holds 2, of TF32 of each 2 one; metadata say which. Source of the fragments and of
the metadata: PTX ISA 8.8, section 9.7.14.6, formula by formula.
"""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kerncast.errors import UnsupportedError
from tests.helpers.matrix_layouts import BITS, drawn, fragments, numbers
from tests.instructions.test_wide_memory import ENGINES, run

CASES = [
    ("m16n8k16", "f32 f16 f16 f32"), ("m16n8k32", "f16 f16 f16 f16"), ("m16n8k32", "f32 bf16 bf16 f32"),
    ("m16n8k8", "f32 tf32 tf32 f32"), ("m16n8k16", "f32 tf32 tf32 f32"), ("m16n8k32", "s32 s8 u8 s32"),
    ("m16n8k64", "s32 u8 s8 s32"), ("m16n8k64", "f32 e4m3 e5m2 f32"), ("m16n8k64", "s32 s4 u4 s32"),
    ("m16n8k128", "s32 u4 s4 s32"), ("m16n8k64", "f32 e3m2 e2m1 f32"), ("m16n8k64", "f16 e2m1 e2m3 f16"),
]  # fmt: skip


def metadata(chosen: Any, bits: int, selector: int) -> Any:
    """Return [32] the words of all lanes; chosen: [16, groups, 2] which numbers of each group A holds."""
    codes = np.where(chosen == 0, 4, 14)[..., 0] if bits == 32 else chosen[..., 0] | chosen[..., 1] << 2
    words = np.full(32, 0xFFFFFFFF, np.uint64)
    for g in range(8):
        for lane in range(4):
            low, high = codes[g], codes[g + 8]
            if bits <= 8:  # a row has 32 bits for 32 numbers
                own = (high if lane % 2 else low)[8 * (lane // 2) :][:8]
                parts, count = own, min(4, codes.shape[1] // 4)
            else:  # 4 groups of the one row below 4 groups of the other
                parts, count = np.concatenate([each[4 * lane :][:4] for each in (low, high)]), codes.shape[1] // 4
            if lane < count:
                words[4 * g + selector * count + lane] = sum(int(code) << 4 * n for n, code in enumerate(parts))
    return words


@ENGINES
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "types"), CASES)
def test_sparse_products(engine: str, shape: str, types: str, last: bool) -> None:
    total, left, right, _ = types.split()
    m, n, k = map(int, re.findall(r"\d+", shape))
    bits = BITS[left]
    per_group, held = (2, 1) if bits == 32 else (4, 2)
    near = 2 if bits == 4 else 1  # neighbours that are chosen together
    # Floats in a byte have an order of their metadata.
    last = last or left in {"e3m2", "e2m1"}
    rng = np.random.default_rng(k * bits)
    in_a, _, in_total = fragments((m, n, k // 2), left, total)
    a, b, c = drawn(rng, left, in_a.shape), drawn(rng, right, (k, n)), drawn(rng, total, in_total.shape)
    chosen = np.sort(np.argsort(rng.random((m, k // near // per_group, per_group)), axis=2)[..., :held], axis=2)
    lanes = 1 if bits > 8 and k * bits <= 256 else 4 if k * bits == 512 and bits <= 8 else 2
    selector = 4 // lanes - 1 if last else 0
    words_of_b = np.zeros((32, k // 4 * bits // 32), np.uint64)
    per = 32 // bits
    for lane in range(32):
        for register in range(words_of_b.shape[1]):
            for e in range(per):
                code = int(b[per * (lane % 4) + 4 * per * register + e, lane // 4])
                words_of_b[lane, register] |= np.uint64(code << bits * e)
    given = [in_a.words(a), words_of_b, in_total.words(c), metadata(chosen, bits, selector)[:, None]]
    widths = [each.shape[1] for each in given]
    table = np.concatenate(given, axis=1).astype(np.uint32)
    names = [f"%x{i}" for i in range(sum(widths))]
    ends = np.cumsum([0, *widths])
    lists = [names[i:j] for i, j in pairwise(ends)]
    results = [f"%y{i}" for i in range(widths[2])]
    operands = ", ".join("{" + ", ".join(each) + "}" for each in (results, *lists[:3]))
    kind = "kind::f8f6f4." if left in {"e3m2", "e2m1"} else ""
    ordered = "::ordered_metadata" if last else ""
    body = f"""
.reg .b32 %x<{len(names)}>, %y<{len(results)}>; .reg .b64 %data; mov.u64 %data, data;
mul.wide.u32 %at, %t, {4 * len(names)}; add.s64 %data, %data, %at;
{" ".join(f"ld.global.b32 {name}, [%data+{4 * i}];" for i, name in enumerate(names))}
mma.sp{ordered}.sync.aligned.{shape}.row.col.{kind}{".".join(types.split())} {operands}, {lists[3][0]}, {selector};
mul.wide.u32 %at, %t, {4 * len(results)}; add.s64 %b, %b, %at;
{" ".join(f"st.global.b32 [%b+{4 * i}], {name};" for i, name in enumerate(results))}
"""
    variable = f".global .align 16 .b32 data[{table.size}] = {{{', '.join(map(str, table.ravel()))}}};"
    trace = run(body, engine, "u32[1] zeros", f"u32[{32 * len(results)}] zeros", variable)
    found = numbers(total, in_total.codes(np.asarray(trace.memory["b"]).reshape(32, -1)))
    whole = np.zeros((m, k // near // per_group, per_group, near))
    np.put_along_axis(whole, chosen[..., None], numbers(left, a).reshape(m, -1, held, near), axis=2)
    y, z = numbers(right, b), numbers(total, c)
    exact = whole.reshape(m, k) @ y + z
    if total == "s32":
        assert np.array_equal(found, exact)
        return
    size = np.abs(whole.reshape(m, k)) @ np.abs(y) + np.abs(z)
    rounding = np.abs(exact) * 2.0**-11 + 2.0**-25 if total == "f16" else 0.0
    assert np.all(np.abs(found - exact) <= size * 2.0**-23 * k + rounding)


@pytest.mark.parametrize("selector", ["1", "%w0"])
def test_selectors_that_are_none(selector: str) -> None:
    body = "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {%w0, %w1, %w2, %w3}, {%w0, %w1, %w2, %w3},"
    line = f"{body} {{%w0, %w1, %w2, %w3}}, {{%w0, %w1, %w2, %w3}}, %w0, {selector};"
    with pytest.raises(UnsupportedError, match=r"mma\.sp"):
        run(line, "native", "u32[1] zeros", "u32[1] zeros")
