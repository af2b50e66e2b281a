"""Matrix products by nvcuda::wmma, compiled by NVRTC and run on both engines, against NumPy."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.errors import UnsupportedError
from kerncast.execute import WholeGrid, execute
from tests.helpers.execute_helpers import compiled, launch
from tests.helpers.matrix_layouts import BITS, Matrix, drawn, numbers
from tests.helpers.thorough import sampled
from tests.instructions import test_wide_memory
from tests.instructions.test_wide_memory import ENGINES, run

SOURCE = (Path(__file__).parent / "tensor_cores.cu").read_text(encoding="utf-8")
_KERNEL = re.compile(
    r"^KERNEL\((\w+), (\d+), (\d+), (\d+), [\w ]+, [\w ]+, (\w+), (\w+), (\w+), \w+, [\w ]+\)", re.MULTILINE
)
PRODUCTS = [
    (name, (int(m), int(n), int(k)), tuple(each == "true" for each in by_row))
    for name, m, n, k, *by_row in _KERNEL.findall(SOURCE)
]
_NAMES = "f16_square f16_shared f16_wide bf16_square tf32 f64 s8_tall u8_wide"
_USUAL = [case for case in PRODUCTS if case[0] in _NAMES.split()]
_TOTALS = {"f64": "f64", "s8": "s32", "u8": "s32", "f16_tall": "f16", "f16_wide": "f16"}
_STEPS = 3


def executed(engine: Any, kernel: str, folder: Path, arrays: dict[str, Matrix], **others: Any) -> Matrix:
    """Return d of a kernel whose inputs are arrays of unsigned integers."""
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    files = {name: f"u{8 * each.itemsize}[{each.size}] file({folder / name}.npy)" for name, each in arrays.items()}
    trace = execute(compiled(SOURCE, kernel, "sm_80"), launch(1, 32, **files, **others), WholeGrid(), engine=engine)[0]
    return np.asarray(trace.memory["d"])


@ENGINES
@pytest.mark.parametrize(("kernel", "shape", "by_row"), sampled(PRODUCTS, _USUAL))
def test_products(
    engine: str, kernel: str, shape: tuple[int, int, int], by_row: tuple[bool, ...], tmp_path: Path
) -> None:
    kind = kernel.partition("_")[0]
    total = _TOTALS.get(kernel) or _TOTALS.get(kind, "f32")
    m, n, step = shape
    k = _STEPS * step
    rng = np.random.default_rng(m * n + step)
    a, b, c = drawn(rng, kind, (m, k)), drawn(rng, kind, (k, n)), drawn(rng, total, (m, n))
    lying = {
        name: (each if is_by_row else each.T).ravel().astype(f"u{BITS[of] // 8}")
        for name, each, of, is_by_row in zip("abc", (a, b, c), (kind, kind, total), by_row, strict=True)
    }
    found = executed(engine, kernel, tmp_path, lying, d=f"u{BITS[total]}[{m * n}] zeros", k=k)
    d = numbers(total, found.reshape(m, n) if by_row[2] else found.reshape(n, m).T)
    x, y, z = numbers(kind, a), numbers(kind, b), numbers(total, c)
    exact = 2 * (x @ y) + z
    if total == "s32":
        assert d.tolist() == ((exact + 2**31) % 2**32 - 2**31).tolist()
        return
    precision = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-11}[total]
    size = 2 * np.abs(x) @ np.abs(y) + np.abs(z)
    assert np.all(np.abs(d - exact) <= size * precision * (k if total != "f16" else _STEPS + 2))


@ENGINES
@pytest.mark.parametrize("kernel", ["s4", "u4", "b1_xor", "b1_and"])
def test_numbers_of_less_than_a_byte(engine: str, kernel: str, tmp_path: Path) -> None:
    kind = kernel.partition("_")[0]
    bits = BITS[kind]
    k, rng = _STEPS * 128 // bits, np.random.default_rng(7)
    a, b = drawn(rng, kind, (8, k)), drawn(rng, kind, (8, k))
    lying = {name: packed(each, bits) for name, each in {"a": a, "b": b}.items()}
    found = executed(engine, kernel, tmp_path, lying, d="i32[64] zeros", k=k).reshape(8, 8)
    x, y = numbers(kind, a), numbers(kind, b)
    exact = x @ y.T if kernel != "b1_xor" else (x[:, None] ^ y[None]).sum(axis=2)
    assert found.tolist() == (exact + 7).tolist()


def packed(codes: Matrix, bits: int) -> Matrix:
    """Return codes as words of 32 bits, the first code lowest."""
    parts = codes.reshape(-1, 32 // bits).astype(np.uint64) << np.arange(0, 32, bits, dtype=np.uint64)
    return np.asarray(np.bitwise_or.reduce(parts, axis=1), np.uint32)


@pytest.mark.parametrize(
    "name",
    [
        "load.a.sync.aligned.row.m16n16k8.global.f16",
        "load.b.sync.aligned.row.m8n8k32.global.s4",
        "load.a.sync.aligned.row.m8n8k4.local.f64",
    ],
)
def test_what_ptx_has_not_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"wmma\.{name}"):
        run(f"wmma.{name} {{%w0}}, [%a], 32;", "native", "u32[512] zeros", "u32[1] zeros")


@ENGINES
def test_results_that_are_sources_too(engine: str) -> None:
    # D has the registers of A, of B and of C in another order: all must be read before any is written.
    body = """
.reg .f64 %x<4>; cvt.rn.f64.u32 %x0, %t; mov.f64 %x1, 0d3FF0000000000000; mov.f64 %x2, 0d4000000000000000;
wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%x1, %x0}, {%x0}, {%x1}, {%x2, %x1};
mul.wide.u32 %at, %t, 16; add.s64 %b, %b, %at; st.global.v2.f64 [%b], {%x1, %x0};
"""
    found = run(body, engine, "u32[1] zeros", "f64[64] zeros").memory["b"].reshape(8, 4, 2)
    sums = np.arange(32.0).reshape(8, 4).sum(axis=1)
    assert found.tolist() == [[[s + 2, s + 1]] * 4 for s in sums.tolist()]


@ENGINES
def test_products_of_turing_are_smaller(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_wide_memory, "TARGET", ".version 8.8\n.target sm_75\n.address_size 64\n")
    test_sums_of_another_type_than_their_start(engine)
    sums = ", ".join(f"%x{n}" for n in range(8))
    body = f"""
.reg .b32 %x<8>; wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {{%w0, %w1}}, [%a], 16;
wmma.load.b.sync.aligned.row.m16n16k16.global.s8 {{%w2, %w3}}, [%a+256], 16;
wmma.load.c.sync.aligned.col.m16n16k16.global.s32 {{{sums}}}, [%a+512], 16;
wmma.mma.sync.aligned.row.row.m16n16k16.s32.s8.s8.s32 {{{sums}}}, {{%w0, %w1}}, {{%w2, %w3}}, {{{sums}}};
wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%b], {{{sums}}}, 16;
"""
    found = run(body, engine, "u32[512] iota", "i32[256] zeros").memory["b"].reshape(16, 16)
    words = np.arange(512, dtype=np.uint32)
    a, b = words[:128].view(np.int8).reshape(2, 16, 16).astype(int)
    assert found.tolist() == (a @ b + words[128:384].reshape(16, 16).T.astype(int)).tolist()


@ENGINES
def test_sums_of_another_type_than_their_start(engine: str) -> None:
    ones = ", ".join(["%one"] * 8)
    floats, halves = ", ".join(f"%x{n}" for n in range(8)), ", ".join(f"%w{n}" for n in range(4, 8))
    body = f"""
.reg .f32 %x<8>; .reg .b32 %one; mov.b32 %one, 0x3C003C00; cvt.rn.f32.u32 %f0, %t; mov.f32 %f1, 0f40000000;
cvt.rn.f16x2.f32 %w0, %f1, %f0; mul.wide.u32 %at, %t, 16; add.s64 %b, %b, %at;
wmma.mma.sync.aligned.row.row.m16n16k16.f32.f16 {{{floats}}}, {{{ones}}}, {{{ones}}}, {{%w0, %w0, %w0, %w0}};
st.global.v4.f32 [%b], {{%x0, %x1, %x6, %x7}};
wmma.mma.sync.aligned.col.row.m16n16k16.f16.f32 {{{halves}}}, {{{ones}}}, {{{ones}}}, {{{floats}}};
st.global.v4.b32 [%b+512], {{{halves}}};
"""
    found = run(body, engine, "u32[1] zeros", "f32[256] zeros").memory["b"]
    lanes = np.arange(32.0)[:, None]
    assert found[:128].reshape(32, 4).tolist() == np.tile(np.hstack([lanes + 16, lanes * 0 + 18]), 2).tolist()
    rounded = found[128:].view(np.float16).reshape(32, 8)
    assert rounded.tolist() == np.tile(np.hstack([lanes + 32, lanes * 0 + 34]), 4).tolist()
