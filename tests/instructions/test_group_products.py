"""Products of matrices by four warps, as PTX on both engines against NumPy."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel, compile_source
from kerncast.errors import IllegalAddress, KerncastError, UnsupportedError
from kerncast.execute import WholeGrid, execute
from kerncast.execute.setup.layout import link
from kerncast.launch import Argument, Launch, parse_value
from kerncast.ptx import parse_ptx
from kerncast.ptx.fragments import group_product_of
from kerncast.traces import Trace
from tests.instructions.test_sparse_products import metadata
from tests.instructions.test_wide_memory import ENGINES

Bytes = npt.NDArray[np.uint8]
#: Bytes of shared memory, and where the tile of B begins in it.
SIZE, MIDDLE = 48 * 1024, 16 * 1024
HEAD = f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {{
.reg .b64 %a, %b, %at, %end, %da, %db; .reg .b32 %t, %s, %w<4>, %x<4>, %d<128>; .reg .pred %p, %adds;
.shared .align 1024 .b8 here[{SIZE}];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x;
mul.lo.u32 %s, %t, 16; mul.wide.u32 %at, %t, 16; add.s64 %at, %a, %at;
copy: ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%at]; st.shared.v4.b32 [%s], {{%w0, %w1, %w2, %w3}};
add.s64 %at, %at, 2048; add.u32 %s, %s, 2048; setp.lt.u32 %p, %s, {SIZE}; @%p bra copy;
bar.sync 0; setp.eq.u32 %adds, 0, 0; mul.wide.u32 %at, %t, 512; add.s64 %b, %b, %at;
"""
FORMATS = {"f16": "f2", "tf32": "f4", "s8": "i1", "u8": "u1", "f32": "f4", "s32": "i4", "u16": "u2"}
#: Codes of small whole numbers in formats of 8 bits.
CODES = {
    "e4m3": {-2: 0xC0, -1: 0xB8, 0: 0, 1: 0x38, 2: 0x40, 3: 0x44},
    "e5m2": {-2: 0xC0, -1: 0xBC, 0: 0, 1: 0x3C, 2: 0x40, 3: 0x42},
}


def encoded(name: str, numbers: Any) -> Bytes:
    """Return [rows, 32] the bytes of the rows of a tile."""
    if name in CODES:
        codes: Bytes = np.vectorize(CODES[name].__getitem__)(numbers).astype(np.uint8)
        return codes
    if name == "bf16":
        numbers, name = numbers.astype("f4").view("u4") >> 16, "u16"
    if name == "b1":
        return np.packbits(numbers.astype(bool), axis=1, bitorder="little")
    rows: Bytes = np.ascontiguousarray(numbers.astype(FORMATS[name])).view("u1")
    return rows


@dataclass(frozen=True)
class Tile:
    """How a tile lies: swizzle in bytes, where it starts, and whether rows are beside one another."""

    swizzle: int = 0
    start: int = 0
    turned: bool = False
    size: int = 2
    """bytes of a number of a turned tile"""

    def image(self, rows: Bytes) -> tuple[int, Bytes]:
        """Return the descriptor of a tile at its start, and the bytes from 0 on in which it lies."""
        memory = np.zeros(SIZE, np.uint8)
        count, width = len(rows), self.swizzle or 16
        # Atoms of 8 rows, or 8 columns, of the width of the swizzle; one row of atoms after the other.
        atom = 8 * width
        if not self.turned:
            leading, stride = 16 * count + 16 * 8, 128 if not self.swizzle else atom
        elif self.swizzle:
            leading, stride = (rows.shape[1] // self.size // 8 + 1) * atom, atom
        else:
            leading, stride = atom * (count * self.size // 16), atom
        for r in range(count):
            for byte in range(rows.shape[1]):
                if not self.turned:
                    at = r // 8 * stride + r % 8 * width + (byte if self.swizzle else byte // 16 * leading + byte % 16)
                else:
                    across, down = (leading, stride) if self.swizzle else (stride, leading)
                    k, along = byte // self.size, self.size * r
                    at = along // width * across + along % width + k // 8 * down + k % 8 * width + byte % self.size
                at += self.start
                if self.swizzle:
                    piece = (at // 16 ^ (at // 128) % 8 % (self.swizzle // 16)) * 16
                    at = piece + at % 16
                memory[at] = rows[r, byte]
        kind = {0: 0, 128: 1, 64: 2, 32: 3}[self.swizzle]
        return self.start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | kind << 62, memory


def launch(body: str, engine: Any, a: npt.NDArray[Any], folder: Path) -> Trace:
    """Run 128 threads with a buffer of input, and 512 bytes of output each."""
    np.save(folder / "a.npy", a)
    kernel = CompiledKernel("k", "k", "sm_90a", f"{HEAD}{body} ret; }}", cast("Any", None), None)
    values = {"a": f"u8[{len(a)}] file(a.npy)", "b": "u32[16384] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, folder)) for name, text in values.items())
    given = Launch(folder / "k.ptx", "k", (1, 1, 1), (128, 1, 1), 0, arguments)
    return execute(kernel, given, WholeGrid(), engine=engine)[0]


def joined(a: Bytes, b: Bytes) -> Bytes:
    """Return shared memory with both tiles."""
    return np.concatenate([a[:MIDDLE], b[: SIZE - MIDDLE]])


CASES = [
    ("m64n8k16", "f32.f16.f16", Tile(), Tile(), "1, 1, 0, 0"),
    ("m64n256k16", "f32.f16.f16", Tile(128, 64), Tile(128, 32), "1, 1, 0, 0"),
    ("m64n96k16", "f16.f16.f16", Tile(64, 1024), Tile(32), "1, -1, 0, 0"),
    ("m64n64k16", "f32.bf16.bf16", Tile(128, 0, turned=True), Tile(128, 0, turned=True), "-1, 1, 1, 1"),
    ("m64n128k16", "f32.f16.f16", Tile(64, 0, turned=True), Tile(32, 0, turned=True), "-1, -1, 1, 1"),
    ("m64n40k16", "f32.bf16.bf16", Tile(0, 0, turned=True), Tile(0, 0, turned=True), "1, 1, 1, 1"),
    ("m64n48k16", "f32.f16.f16", None, Tile(128, 2048, turned=True), "1, 1, 1"),
    ("m64n16k8", "f32.tf32.tf32", Tile(32), Tile(64), "1, 1"),
    ("m64n24k8", "f32.tf32.tf32", None, Tile(128, 96), "-1, 1"),
    ("m64n64k32", "f32.e4m3.e5m2", Tile(128), Tile(128), "1, 1"),
    ("m64n72k32", "f16.e5m2.e4m3", None, Tile(), "1, 1"),
    ("m64n96k32", "s32.s8.u8", Tile(128), Tile(64), ""),
    ("m64n16k32", "satfinite.s32.u8.s8", None, Tile(32), ""),
    ("m64n32k256", "s32.b1.b1.and.popc", Tile(), Tile(128), ""),
]  # fmt: skip


def first_factor(left: "Tile | None", a_rows: Any) -> tuple[list[str], str, Any]:
    """Return lines that prepare A, its operand, and what lies in shared memory: a tile, or all lanes' registers."""
    if left is not None:
        descriptor, image = left.image(a_rows)
        return [f"mov.b64 %da, {descriptor};"], "%da", image
    image = np.zeros(SIZE, np.uint8)
    image[:2048] = a_rows.reshape(4, 2, 8, 2, 4, 4).transpose(0, 2, 4, 3, 1, 5).ravel()  # warp g t half row byte
    words = "{%x0, %x1, %x2, %x3}"
    return [f"mul.lo.u32 %s, %t, 16; ld.shared.v4.b32 {words}, [%s];"], words, image


@ENGINES
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}.{case[1]}")
def test_products(engine: str, case: tuple[str, str, Tile | None, Tile, str], tmp_path: Path) -> None:
    shape, types, left, right, constants = case
    total, a_type, b_type = (t for t in types.split(".") if t not in {"satfinite", "and", "popc"})
    product = group_product_of((shape,), (total, a_type, b_type))
    assert product is not None
    rng = np.random.default_rng(1)
    lowest = 0 if {"u8", "b1"} & {a_type, b_type} else -2
    highest = 2 if a_type == "b1" else 4
    a, b = rng.integers(lowest, highest, (64, product.k)), rng.integers(lowest, highest, (product.n, product.k))
    b_descriptor, b_image = right.image(encoded(b_type, b))
    a_rows = encoded(a_type, a)
    lines, source, image = first_factor(left, a_rows)
    count = product.registers[2]
    words = "{" + ", ".join(f"%d{n}" for n in range(count)) + "}"
    lines += [f"mov.b32 %d{n}, 0;" for n in range(count)]
    lines.append(f"mov.b64 %db, {b_descriptor + (MIDDLE >> 4)}; wgmma.fence.sync.aligned;")
    ending = f", {constants};" if constants else ";"
    name, suffix = types.split(".b1.b1") if a_type == "b1" else (types, "")
    name += ".b1.b1" * (a_type == "b1") + suffix
    lines.append(f"wgmma.mma_async.sync.aligned.{shape}.{name} {words}, {source}, %db, %adds{ending}" * 2)
    lines.append("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")
    lines += [f"st.global.b32 [%b+{4 * n}], %d{n};" for n in range(count)]
    if "satfinite" in types:
        lines = [line.replace("mov.b32 %d1, 0;", "mov.b32 %d1, 2147483600;") for line in lines]
    trace = launch("\n".join(lines), engine, joined(image, b_image), tmp_path)
    raw = trace.memory["b"].reshape(128, 128)[:, :count]
    found = np.ascontiguousarray(raw).view(FORMATS[total]).reshape(4, 8, 4, product.n // 8, 2, 2)
    # Warp, lane / 4, lane % 4, eight columns, upper or lower rows, odd.
    sums = found.transpose(0, 4, 1, 3, 2, 5).reshape(64, product.n)
    expected = 2 * (a @ b.T)
    signs = [int(text) for text in constants.split(",")[:2]] if constants else [1, 1]
    expected = expected * signs[0] * signs[1]
    if "satfinite" in types:
        offset = np.zeros_like(expected)
        offset[np.arange(64) % 16 < 8, 1::8] = 0
        for t in range(4):
            offset[np.arange(64) % 16 < 8, 2 * t + 1] = 2147483600
        half = expected // 2
        expected = np.clip(np.clip(offset + half, -(2**31), 2**31 - 1) + half, -(2**31), 2**31 - 1)
    assert np.array_equal(sums, expected)


SPARSE = [
    ("m64n8k32", "f32.f16.f16", Tile(), Tile(), "1, 1, 0, 0", 0),
    ("m64n40k32", "f16.f16.f16", Tile(128, 64), Tile(64, 1024), "-1, 1, 0, 0", 1),
    ("m64n64k32", "f32.bf16.bf16", None, Tile(128, 0, turned=True), "1, 1, 1", 1),
    ("m64n32k32", "f32.f16.f16", Tile(64), Tile(32, 0, turned=True), "1, -1, 0, 1", 0),
    ("m64n24k32", "f32.bf16.bf16", Tile(32), Tile(0, 0, turned=True), "1, 1, 0, 1", 0),
    ("m64n16k16", "f32.tf32.tf32", Tile(32), Tile(128), "1, 1", 1),
    ("m64n48k64", "f32.e4m3.e5m2", None, Tile(64), "1, 1", 0),
    ("m64n32k64", "satfinite.s32.s8.u8", Tile(128), Tile(), "", 0),
]


@ENGINES
@pytest.mark.parametrize("case", SPARSE, ids=lambda case: f"{case[0]}.{case[1]}")
def test_sparse_products(engine: str, case: Any, tmp_path: Path) -> None:
    """Of A two numbers of four are there, of TF32 one of two; infinity times what is not there is nothing."""
    shape, types, left, right, constants, selector = case
    total, a_type, b_type = (t for t in types.split(".") if t != "satfinite")
    n, k = (int(each) for each in re.findall(r"\d+", shape)[1:])
    bits = 512 // k
    per_group, held = (2, 1) if bits == 32 else (4, 2)
    rng = np.random.default_rng(k + n)
    a, b = rng.integers(-2, 4, (64, k // 2)), rng.integers(0, 4, (n, k)).astype(float)
    chosen = np.sort(np.argsort(rng.random((64, k // per_group, per_group)), axis=2)[..., :held], axis=2)
    chosen[:, 0] = [0] if held == 1 else [0, 2]
    words = np.concatenate([metadata(chosen[16 * warp :][:16], bits, selector) for warp in range(4)])
    codes = b.astype(int)
    b_rows = encoded(b_type, codes)
    if b_type in {"f16", "tf32"}:  # in a row of B that no row of A asks for
        b_rows = encoded(b_type, np.where(np.arange(k) == 1, np.inf, b))
    b_descriptor, b_image = right.image(b_rows)
    a_rows = encoded(a_type, a)
    lines, source, image = first_factor(left, a_rows)
    both = joined(image, b_image)
    both[-512:] = words.astype(np.uint32).view(np.uint8)
    count = n // 4 if total == "f16" else n // 2
    sums = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    lines += [f"mov.b32 %d{i}, 0;" for i in range(count)]
    lines.append(
        f"mov.b64 %db, {b_descriptor + (MIDDLE >> 4)}; mul.lo.u32 %s, %t, 4; ld.shared.b32 %w0, [%s+{SIZE - 512}];"
    )
    ending = f", {constants};" if constants else ";"
    name = f"wgmma.mma_async.sp.sync.aligned.{shape}.{types}"
    lines.append(f"{name} {sums}, {source}, %db, %w0, {selector}, %adds{ending}" * 2)
    lines += [f"st.global.b32 [%b+{4 * i}], %d{i};" for i in range(count)]
    raw = launch("\n".join(lines), engine, both, tmp_path).memory["b"].reshape(128, 128)[:, :count]
    found = np.ascontiguousarray(raw).view(FORMATS[total]).reshape(4, 8, 4, n // 8, 2, 2)
    whole = np.zeros((64, k // per_group, per_group))
    np.put_along_axis(whole, chosen, a.reshape(64, -1, held).astype(float), axis=2)
    signs = [int(text) for text in constants.split(",")[:2]] if constants else [1, 1]
    expected = 2 * signs[0] * signs[1] * (whole.reshape(64, k) @ b.T)
    assert np.array_equal(found.transpose(0, 4, 1, 3, 2, 5).reshape(64, n), expected)


@ENGINES
def test_rows_of_b_that_do_not_fit_a_swizzle_are_refused(engine: str, tmp_path: Path) -> None:
    """Of a swizzle of 32 bytes the PTX ISA does not say where the second half of a row of 64 bytes lies."""
    body = f"""
mov.b64 %da, 0; mov.b64 %db, {3 << 62}; mov.b32 %w0, 0;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, %da, %db, %w0, 0, %adds, 1, 1, 0, 0;
"""
    with pytest.raises(UnsupportedError, match="swizzle"):
        launch(body, engine, np.zeros(SIZE, np.uint8), tmp_path)


def test_a_kernel_of_cuda() -> None:
    source = Path(__file__).parent / "group_products.cu"
    kernel = compile_source(source, architectures=["sm_90"], kernel="product").kernels[0]
    values = {"a": "f16[64,64] random", "b": "f16[32,64] random", "c": "f32[64,32] zeros"}
    arguments = tuple(Argument(name, parse_value(text, name, Path())) for name, text in values.items())
    given = Launch(source, "product", (1, 1, 1), (128, 1, 1), 0, arguments)
    memory = execute(kernel, given, WholeGrid())[0].memory
    expected = memory["a"].astype("f8") @ memory["b"].astype("f8").T
    assert np.allclose(memory["c"], expected, rtol=1e-5)


@ENGINES
def test_sums_begin_anew(engine: str, tmp_path: Path) -> None:
    descriptor, image = Tile(128).image(encoded("f16", np.ones((64, 16))))
    words = "{%d0, %d1, %d2, %d3}"
    one = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {words}, %da, %da, %p, 1, 1, 0, 0;"
    body = f"""
mov.b64 %da, {descriptor}; mov.b32 %d0, 0f42000000; mov.b32 %d1, %d0; mov.b32 %d2, %d0; mov.b32 %d3, %d0;
setp.ne.u32 %p, 0, 0; {one} setp.eq.u32 %p, 0, 0; {one} setp.gt.u32 %adds, %t, 1000; @%adds {one}
st.global.v4.b32 [%b], {words};
"""
    found = launch(body, engine, joined(image, image), tmp_path).memory["b"].view("f4").reshape(128, 128)
    assert found[:, :4].tolist() == [[32.0] * 4] * 128


@ENGINES
def test_a_wait_is_for_the_products_of_all_four_warps(engine: str, tmp_path: Path) -> None:
    """The first warp clears A as soon as it has waited: tiles are those of the group, whoever comes first."""
    descriptor, image = Tile(128).image(encoded("f16", np.ones((64, 16))))
    words = "{%d0, %d1, %d2, %d3}"
    body = f"""
mov.b64 %da, {descriptor}; setp.ne.u32 %p, 0, 0; setp.lt.u32 %adds, %t, 32;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {words}, %da, %da, %p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mov.u32 %s, 0; mov.u32 %w0, 0;
clear: @%adds st.shared.b32 [%s], %w0; add.u32 %s, %s, 4; setp.lt.u32 %p, %s, 8192; @%p bra clear;
st.global.v4.b32 [%b], {words};
"""
    found = launch(body, engine, joined(image, image), tmp_path).memory["b"].view("f4").reshape(128, 128)
    assert found[:, :4].tolist() == [[16.0] * 4] * 128


@ENGINES
@pytest.mark.parametrize(
    ("descriptor", "error", "message"),
    [
        (0x3FFF, IllegalAddress, "0x40060 of 49152 bytes of shared memory"),
        (1 << 62 | 0x3FFF << 32, IllegalAddress, "of 49152 bytes"),
        (0x3FFF << 16, IllegalAddress, "of 49152 bytes"),
        (1 << 49, UnsupportedError, "base offset"),
    ],
)
def test_descriptors_that_lead_elsewhere(
    engine: str, descriptor: int, error: Any, message: str, tmp_path: Path
) -> None:
    body = f"""
mov.b64 %da, 0; mov.b64 %db, {descriptor};
wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {{%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}}, %da, %db, %adds, 1, 1, 0, 0;
"""
    with pytest.raises(error, match=message):
        launch(body, engine, np.zeros(SIZE, np.uint8), tmp_path)


def test_dynamic_shared_memory_begins_where_its_alignment_says() -> None:
    head = ".version 8.8\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 tiles[];\n"
    text = f"{head}.visible .entry k() {{ .shared .b64 flag; .reg .b32 %a; mov.u32 %a, flag; mov.u32 %a, tiles; ret; }}"
    program = link(parse_ptx(text), "k")
    assert program.addresses["tiles"] == program.static_shared_bytes == 1024


def outcome(engine: str, body: str, image: Bytes, folder: Path) -> object:
    try:
        return launch(body, engine, image, folder).memory["b"].tolist()
    except KerncastError as error:
        return str(error)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_engines_agree_on_any_descriptors(seed: int, is_sparse: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 64, SIZE).astype(np.uint8)
    start, leading, stride = rng.integers(0, [2048, 512, 512], (2, 3)).T >> rng.integers(0, 8)
    swizzle = rng.integers(0, 4, 2)
    a, b = (int(start[n]) | int(leading[n]) << 16 | int(stride[n]) << 32 | int(swizzle[n]) << 62 for n in range(2))
    body = f"""
mov.b64 %da, {a}; mov.b64 %db, {b}; mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0; mov.b32 %w0, 0x4E94;
wgmma.mma_async.{"sp." * is_sparse}sync.aligned.m64n8k{32 if is_sparse else 16}.f32.f16.f16
{{%d0, %d1, %d2, %d3}}, %da, %db, {"%w0, 1, " * is_sparse}%adds, 1, 1, {seed % 2}, {seed // 2 % 2};
st.global.v4.b32 [%b], {{%d0, %d1, %d2, %d3}};
"""
    assert outcome("native", body, image, tmp_path) == outcome("reference", body, image, tmp_path)


@pytest.mark.parametrize(
    "instruction",
    [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1}, %da, %db, %adds, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %da, %db, %adds, 1, 2, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %d4, %db, %adds, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%d0,%d1,%d2,%d3}, %da, %db, %adds, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {%d0,%d1,%d2,%d3}, %da, %db, %adds, 1, 1, 0, 0;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%d0,%d1,%d2,%d3}, %da, %db, %d4, 2, %adds, 1, 1, 0, 0;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.f16.f16 {%d0,%d1,%d2,%d3}, %da, %db, %d4, 0, %adds, 1, 1, 0, 0;",
        "setmaxnreg.inc.sync.aligned.u32 20;",
    ],
)
def test_what_is_refused(instruction: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=instruction.split(maxsplit=1)[0]):
        launch(instruction, "native", np.zeros(16, np.uint8), tmp_path)
