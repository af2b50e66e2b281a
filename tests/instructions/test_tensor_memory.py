"""Tensor memory and products whose sums lie there, as PTX on both engines against NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.errors import IllegalAddress, KernelFault, UnsupportedError
from tests.instructions.test_group_products import MIDDLE, SIZE, Tile, encoded, joined, launch
from tests.instructions.test_wide_memory import ENGINES

Words = npt.NDArray[np.uint32]
REGISTERS = ".reg .b32 %tm, %tw, %id, %m<4>, %y<128>; .reg .pred %first, %all;"
#: Takes columns; %tm is the first one, and %tw the lanes of a warp there.
TAKE = """
setp.lt.u32 %p, %t, 32; @%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [49148], 256;
bar.sync 0; ld.shared.b32 %tm, [49148]; shr.u32 %w0, %t, 5; shl.b32 %w0, %w0, 21; add.u32 %tw, %tm, %w0;
setp.eq.u32 %first, %t, 0; setp.lt.u32 %all, %t, 32;
"""
GIVE = "bar.sync 0; @%all tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 256;"
#: As CuTe's traits of copies give the bits of a row of so many: those of thread and value, as (how many, stride).
#: A stride of -n means n rows.
MOVES = {
    "16x64b": ([(2, -8), (2, 32), (8, -1)], [], 64),
    "16x128b": ([(4, 32), (8, -1)], [(2, -8)], 128),
    "16x256b": ([(4, 64), (8, -1)], [(2, 32), (2, -8)], 256),
}


def run(body: str, engine: str, folder: Path, image: Any = None) -> Words:
    """Return [threads, 128] what each thread stores."""
    given = np.zeros(SIZE, np.uint8) if image is None else image
    found: Words = launch(f"{REGISTERS} {TAKE} {body} {GIVE}", engine, given, folder).memory["b"].reshape(128, 128)
    return found


def listed(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{n}" for n in range(count)) + "}"


def stored(count: int, name: str = "d") -> str:
    return "\n".join(f"st.global.b32 [%b+{4 * n}], %{name}{n};" for n in range(count))


def filled(columns: int) -> str:
    """Return code that fills columns with 1000 times the lane plus the column."""
    lines = [f"mad.lo.u32 %y{n}, %t, 1000, {n};" for n in range(columns)]
    return "\n".join(lines) + f"tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%tw], {listed('y', columns)};"


@ENGINES
@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("shape", MOVES)
def test_movements_as_published(engine: str, shape: str, repeats: int, tmp_path: Path) -> None:
    threads, values, bits = MOVES[shape]
    count = bits * 16 // 32 // 32 * repeats
    ld = f"tcgen05.ld.sync.aligned.{shape}.x{repeats}.b32 {listed('d', count)}, [%tw+{16 << 16}];"
    found = run(f"{filled(64)} tcgen05.wait::st.sync.aligned; {ld} {stored(count)}", engine, tmp_path)
    for thread in range(128):
        for register in range(count):
            row = bit = 0
            for number, modes in ((thread % 32, threads), (register, [*values, (repeats, bits)])):
                rest = number
                for size, stride in modes:
                    rest, index = divmod(rest, size)
                    row, bit = (row - index * stride, bit) if stride < 0 else (row, bit + index * stride)
            assert found[thread, register] == 1000 * (thread // 32 * 32 + 16 + row) + bit // 32


@ENGINES
def test_halves_of_a_warp_have_columns_of_their_own(engine: str, tmp_path: Path) -> None:
    body = f"""
{filled(64)} tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {{%d0, %d1}}, [%tw], 40;
tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {{%d2, %d3}}, [%tw+4];
mov.b32 %d4, 0x00070003; tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%tw], %d4;
tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%d4, %d5}}, [%tw]; {stored(6)}
"""
    found = run(body, engine, tmp_path)[:, :6]
    for thread in range(128):
        lane, column = thread // 32 * 32 + thread % 16, 40 if thread % 32 >= 16 else 0
        packed = [(1000 * thread + n & 0xFFFF) | (1000 * thread + n + 1) << 16 & 0xFFFF0000 for n in (4, 6)]
        assert found[thread].tolist() == [1000 * lane + column, 1000 * lane + column + 1, *packed, 3, 7]


@ENGINES
def test_an_address_of_the_first_lanes_means_those_of_the_warp(engine: str, tmp_path: Path) -> None:
    ld = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, %d1}, [%tm+3];"
    found = run(f"{filled(8)} tcgen05.wait::st.sync.aligned; {ld} {stored(2)}", engine, tmp_path)
    assert found[:, :2].tolist() == [[1000 * thread + 3, 1000 * thread + 4] for thread in range(128)]


@ENGINES
def test_a_generic_pointer_may_take_the_address_of_columns(engine: str, tmp_path: Path) -> None:
    body = f"""
.reg .b64 %pointer; mov.u64 %pointer, 49140; cvta.shared.u64 %pointer, %pointer;
@%all tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%pointer], 32;
bar.sync 0; ld.shared.b32 %d0, [49140]; {stored(1)}
@%all tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d0, 32;
"""
    assert (run(body, engine, tmp_path)[:, 0] == 256).all()  # behind those that are taken


def instruction_descriptor(rows: int, columns: int, numbers: tuple[int, int, int], flags: int = 0) -> int:
    """Return the 32 bits that tell shape and types (of D, A and B)."""
    total, a, b = numbers
    return total << 4 | a << 7 | b << 10 | columns >> 3 << 17 | rows >> 4 << 24 | flags


def blackwell(descriptor: int) -> int:
    """Return the descriptor of a tile for tcgen05: swizzles have other numbers there."""
    kind = {0: 0, 1: 2, 2: 4, 3: 6}[descriptor >> 62]
    return descriptor & (1 << 46) - 1 | 1 << 46 | kind << 61


# Kind, types of D, A and B with their numbers, depth, rows, columns, tiles, further bits of the instruction descriptor.
PRODUCTS = [
    ("f16", "f32 f16 f16", (1, 0, 0), 16, 128, 64, Tile(128), Tile(128, 32), 0),
    ("f16", "f32 f16 bf16", (1, 0, 1), 16, 128, 24, Tile(), Tile(32), 1 << 13),
    ("f16", "f16 f16 f16", (0, 0, 0), 16, 64, 96, Tile(64), Tile(128, 0, turned=True), 1 << 16),
    ("f16", "f32 bf16 bf16", (1, 1, 1), 16, 64, 128, Tile(128, 0, turned=True), Tile(64), 1 << 15),
    ("f16", "f32 f16 f16", (1, 0, 0), 16, 128, 64, None, Tile(64), 0),
    ("f16", "f32 f16 f16", (1, 0, 0), 16, 64, 64, None, Tile(64), 1 << 14),
    ("tf32", "f32 tf32 tf32", (1, 2, 2), 8, 128, 64, Tile(128), Tile(128), 0),
    ("f8f6f4", "f32 e4m3 e5m2", (1, 0, 1), 32, 128, 64, Tile(128), Tile(64), 0),
    ("f8f6f4", "f16 e5m2 e4m3", (0, 1, 0), 32, 128, 16, None, Tile(64), 0),
    ("f8f6f4", "f32 e4m3 e4m3", (1, 0, 0), 32, 128, 64, Tile(128, 0, True, 1), Tile(64, 0, True, 1), 3 << 15),
    ("i8", "s32 u8 u8", (2, 0, 0), 32, 64, 16, Tile(0, 0, True, 1), Tile(128), 1 << 15),
    ("i8", "s32 u8 s8", (2, 0, 1), 32, 128, 64, Tile(64), Tile(128), 0),
]  # fmt: skip


@ENGINES
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: f"{case[1]} {case[4]} {case[5]}".replace(" ", "."))
def test_products(engine: str, case: Any, tmp_path: Path) -> None:
    kind, types, numbers, depth, rows, columns, left, right, flags = case
    total, a_type, b_type = types.split()
    rng = np.random.default_rng(1)
    lowest = 0 if "u8" in types else -2
    a, b = rng.integers(lowest, 4, (rows, depth)), rng.integers(lowest, 4, (columns, depth))
    b_descriptor, b_image = right.image(encoded(b_type, b))
    a_rows = encoded(a_type, a)
    lines = []
    if left is None:
        # Row r is in lane r, or 16 in each 32 lanes; a thread fills its own lane with 8 words.
        image = np.zeros(SIZE, np.uint8)
        lanes = np.arange(rows) if rows == 128 else np.arange(64) // 16 * 32 + np.arange(64) % 16
        image[:4096].reshape(128, 32)[lanes] = a_rows
        loads = [
            f"ld.shared.v4.b32 {{%y{4 * n}, %y{4 * n + 1}, %y{4 * n + 2}, %y{4 * n + 3}}}, [%s+{16 * n}];"
            for n in (0, 1)
        ]
        lines += ["mul.lo.u32 %s, %t, 32;", *loads]
        lines.append(f"add.u32 %m0, %tw, 192; tcgen05.st.sync.aligned.32x32b.x8.b32 [%m0], {listed('y', 8)};")
        source = "[%tm+192]"
    else:
        a_descriptor, image = left.image(a_rows)
        lines.append(f"mov.b64 %da, {blackwell(a_descriptor)};")
        source = "%da"
    word = instruction_descriptor(rows, columns, numbers, flags)
    lines.append(f"mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))}; mov.b32 %id, {word}; bar.sync 0;")
    mma = f"@%first tcgen05.mma.cta_group::1.kind::{kind} [%tm], {source}, %db, %id,"
    lines.append(f"setp.ne.u32 %adds, 0, 0; {mma} %adds; setp.eq.u32 %adds, 0, 0; {mma} %adds; bar.sync 0;")
    lines.append(f"tcgen05.ld.sync.aligned.32x32b.x{columns if columns in {64, 128} else 16}.b32 ")
    count = columns if columns in {64, 128} else 16
    lines[-1] += f"{listed('d', count)}, [%tw]; tcgen05.wait::ld.sync.aligned; {stored(count)}"
    found = run("\n".join(lines), engine, tmp_path, joined(image, b_image))[:, :count]
    if rows == 64:
        found = found.reshape(4, 32, count)[:, :16].reshape(64, count)
    if total == "f16":
        assert (found >> 16 == 0).all()
        sums: Any = found.astype(np.uint16).view(np.float16)
    else:
        sums = np.ascontiguousarray(found).view(np.float32 if total == "f32" else np.int32)
    sign = -1 if flags in {1 << 13, 1 << 14} else 1
    assert np.array_equal(sums, sign * 2 * (a @ b.T)[:, :count])


# Kind, types of D, A and B with their numbers, depth, rows, columns, tiles.
STATIONARY = [
    ("f16", "f32 f16 f16", (1, 0, 0), 16, 32, 64, Tile(128), Tile(128, 32)),
    ("f16", "f16 f16 f16", (0, 0, 0), 16, 64, 128, Tile(64), Tile(32)),
    ("f8f6f4", "f32 e4m3 e5m2", (1, 0, 1), 32, 32, 256, Tile(128), Tile(64)),
    ("i8", "s32 u8 s8", (2, 0, 1), 32, 128, 64, Tile(64), Tile(128)),
]


@ENGINES
@pytest.mark.parametrize("case", STATIONARY, ids=lambda case: f"{case[1]} {case[4]} {case[5]}".replace(" ", "."))
def test_products_where_b_stays(engine: str, case: Any, tmp_path: Path) -> None:
    """Of m rows, column c lies in lanes from m (c // w) on, where w columns fill all 128 lanes (CuTe, tmem_frg_ws)."""
    kind, types, numbers, depth, rows, columns, left, right = case
    total, a_type, b_type = types.split()
    rng = np.random.default_rng(1)
    a = rng.integers(0 if "u8" in types else -2, 4, (rows, depth))
    b = rng.integers(0 if "u8" in types else -2, 4, (columns, depth))
    a_descriptor, image = left.image(encoded(a_type, a))
    b_descriptor, b_image = right.image(encoded(b_type, b))
    mma = f"@%first tcgen05.mma.ws.cta_group::1.kind::{kind}.collector::b1::fill [%tm], %da, %db, %id,"
    width = columns * rows // 128
    body = f"""
mov.b64 %da, {blackwell(a_descriptor)}; mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))};
mov.b32 %id, {instruction_descriptor(rows, columns, numbers)}; {mma} 0; {mma} 1; bar.sync 0;
tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {listed("d", width)}, [%tw]; {stored(width)}
"""
    found = run(body, engine, tmp_path, joined(image, b_image))[:, :width]
    sums: Any = found.astype(np.uint16).view(np.float16) if total == "f16" else np.ascontiguousarray(found)
    sums = sums if total == "f16" else sums.view(np.float32 if total == "f32" else np.int32)
    parts = sums.reshape(128 // rows, rows, width).swapaxes(0, 1).reshape(rows, columns)
    assert np.array_equal(parts, 2 * (a @ b.T))


@ENGINES
def test_scaled_sums_and_lanes_that_keep_theirs(engine: str, tmp_path: Path) -> None:
    descriptor, image = Tile(128).image(encoded("f16", np.ones((128, 16))))
    word = instruction_descriptor(128, 16, (1, 0, 0))
    kept = "{%m0, %m1, %m2, %m3}"
    body = f"""
mov.b64 %da, {blackwell(descriptor)}; mov.b32 %id, {word}; setp.ne.u32 %adds, 0, 0; mov.b32 %m0, 0; mov.b32 %m1, 5;
mov.b32 %m2, 0x80000000; mov.b32 %m3, -1; @%first tcgen05.mma.cta_group::1.kind::f16 [%tm], %da, %da, %id, %adds;
@%first tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%tm], %da, %da, %id, {kept}, 1, 2; bar.sync 0;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {listed("d", 16)}, [%tw]; {stored(16)}
"""
    found = run(body, engine, tmp_path, joined(image, image))[:, :16].view(np.float32)
    expected = np.full((128, 16), 20.0)
    expected[[32, 34, 95, *range(96, 128)]] = 16
    assert found.tolist() == expected.tolist()


@ENGINES
@pytest.mark.parametrize("to", ["", ".multicast::cluster"])
def test_a_barrier_tells_that_products_are_done(engine: str, to: str, tmp_path: Path) -> None:
    descriptor, image = Tile(128).image(encoded("f16", np.ones((128, 16))))
    body = f"""
@%first mbarrier.init.shared::cta.b64 [49136], 1; bar.sync 0; mov.b64 %da, {blackwell(descriptor)};
mov.b32 %id, {instruction_descriptor(128, 16, (1, 0, 0))};
@%first tcgen05.mma.cta_group::1.kind::f16 [%tm], %da, %da, %id, 0;
@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster{to}.b64 [49136]{", 1" if to else ""};
wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [49136], 0; @!%p bra wait;
tcgen05.fence::after_thread_sync; tcgen05.ld.sync.aligned.32x32b.x1.b32 %d0, [%tw]; {stored(1)}
"""
    assert (run(body, engine, tmp_path, joined(image, image))[:, 0].view(np.float32) == 16).all()


@ENGINES
@pytest.mark.parametrize(("shape", "width", "rows"), [
    ("128x256b", 8, [[n] for n in range(128)]), ("128x128b", 4, [[n] for n in range(128)]),
    ("64x128b.warpx2::02_13", 4, [[n, n + 64] for n in range(64)]),
    ("64x128b.warpx2::01_23", 4, [[n // 32 * 64 + n % 32, n // 32 * 64 + n % 32 + 32] for n in range(64)]),
    ("32x128b.warpx4", 4, [[n, n + 32, n + 64, n + 96] for n in range(32)]),
])  # fmt: skip
def test_copies_from_shared_memory(engine: str, shape: str, width: int, rows: list[list[int]], tmp_path: Path) -> None:
    image = np.zeros(SIZE, np.uint8)
    words = np.arange(len(rows) * width, dtype=np.uint32).reshape(len(rows), width)
    for number, line in enumerate(words):  # pieces of 16 bytes, 8 rows one above the other
        for half in range(width // 4):
            at = number // 8 * 128 + number % 8 * 16 + half * 2048
            image[at : at + 16] = line[4 * half : 4 * half + 4].view(np.uint8)
    descriptor = (2048 >> 4) << 16 | (128 >> 4) << 32 | 1 << 46
    body = f"""
mov.b64 %da, {descriptor}; @%first tcgen05.cp.cta_group::1.{shape} [%tm], %da; bar.sync 0;
tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {listed("d", width)}, [%tw]; {stored(width)}
"""
    found = run(body, engine, tmp_path, image)
    for number, lanes in enumerate(rows):
        for lane in lanes:
            assert found[lane, :width].tolist() == words[number].tolist()


@ENGINES
def test_factors_of_rows_and_columns(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-2, 4, (128, 32)), rng.integers(-2, 4, (64, 32))
    exponents = rng.integers(-3, 4, 128), rng.integers(-3, 4, 64)
    (a_descriptor, a_image), (b_descriptor, b_image) = (
        Tile(64).image(encoded("e4m3", a)),
        Tile(64).image(encoded("e4m3", b)),
    )
    image = joined(a_image, b_image)
    places = np.zeros((2, 32, 4), np.uint32)
    places[0] = (exponents[0] + 127).reshape(4, 32).T << 8  # the second byte of each word
    places[1, :, :2] = (exponents[1] + 127).reshape(2, 32).T << 24
    image[40960:41984] = places.view(np.uint8).ravel()
    word = 1 << 23 | 64 >> 3 << 17 | 1 << 27 | 1 << 29 | 3 << 4
    scales = [f"mov.b64 %da, {(40960 + 512 * n) >> 4 | 8 << 32 | 1 << 46}; add.u32 %m0, %tm, {128 + 4 * n};"
              "@%first tcgen05.cp.cta_group::1.32x128b.warpx4 [%m0], %da;" for n in range(2)]  # fmt: skip
    body = f"""
{" ".join(scales)} mov.b64 %da, {blackwell(a_descriptor)}; mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))};
mov.b32 %id, {word}; setp.ne.u32 %p, 0, 0; @%first tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32
[%tm], %da, %db, %id, [%tm+128], [%tm+132], %p; bar.sync 0;
tcgen05.ld.sync.aligned.32x32b.x64.b32 {listed("d", 64)}, [%tw]; {stored(64)}
"""
    found = run(body, engine, tmp_path, image)[:, :64].view(np.float32)
    factors = [2.0**each for each in exponents]
    assert np.array_equal(found, a @ b.T * factors[0][:, None] * factors[1])


#: Codes of numbers of fewer than 8 bits, and their bits.
NARROW_CODES = {
    "e2m1": (4, {-2: 12, -1: 10, 0: 0, 1: 2, 2: 4, 3: 5}), "e2m3": (6, {-2: 48, -1: 40, 0: 0, 1: 8, 2: 16, 3: 20}),
    "e3m2": (6, {-2: 48, -1: 44, 0: 0, 1: 12, 2: 16, 3: 18}),
}  # fmt: skip


def packed(name: str, values: Any, per_piece: int = 16) -> npt.NDArray[np.uint8]:
    """Return [rows, 32] bytes: so many numbers in each 16 bytes, whose last ones may be left over."""
    if name not in NARROW_CODES:
        return encoded(name, values)
    bits, table = NARROW_CODES[name]
    codes = np.vectorize(table.__getitem__)(values).astype(np.uint8).reshape(-1, per_piece, 1)
    pieces = np.zeros((len(codes), 16), np.uint8)
    used = np.packbits(np.unpackbits(codes, axis=2, bitorder="little")[:, :, :bits].reshape(len(codes), -1), axis=1,
                       bitorder="little")  # fmt: skip
    pieces[:, : used.shape[1]] = used
    return pieces.reshape(len(values), 32)


@ENGINES
@pytest.mark.parametrize(("left", "right", "numbers"), [
    ("e2m1", "e4m3", (1, 5, 0)), ("e3m2", "e2m3", (1, 4, 3)), ("e2m3", "e2m1", (0, 3, 5)),
])  # fmt: skip
def test_products_of_4_and_6_bits(
    engine: str, left: str, right: str, numbers: tuple[int, int, int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(-2, 4, (128, 32)), rng.integers(-2, 4, (16, 32))
    (a_descriptor, a_image), (b_descriptor, b_image) = (
        Tile(128).image(packed(left, a)),
        Tile(64).image(packed(right, b)),
    )
    body = f"""
mov.b64 %da, {blackwell(a_descriptor)}; mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))};
mov.b32 %id, {instruction_descriptor(128, 16, numbers)}; @%first tcgen05.mma.cta_group::1.kind::f8f6f4
[%tm], %da, %db, %id, 0; bar.sync 0; tcgen05.ld.sync.aligned.32x32b.x16.b32 {listed("d", 16)}, [%tw]; {stored(16)}
"""
    found = run(body, engine, tmp_path, joined(a_image, b_image))[:, :16]
    sums: Any = found.view(np.float32) if numbers[0] else found.astype(np.uint16).view(np.float16)
    assert np.array_equal(sums, a @ b.T)


@ENGINES
@pytest.mark.parametrize(("kind", "count", "codes"), [
    ("kind::mxf4.block_scale", 2, [126, 127, 128]), ("kind::mxf4nvf4.block_scale.block16", 4, [0x30, 0x38, 0x3C]),
    ("kind::mxf4nvf4.block_scale.scale_vec::4X", 4, [126, 127, 128]),
])  # fmt: skip
def test_factors_of_parts_of_rows_of_4_bits(
    engine: str, kind: str, count: int, codes: list[int], tmp_path: Path
) -> None:
    """64 numbers of a row have 2 or 4 factors: powers of two, or FP8 (0.5, 1 and 1.5)."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(-2, 4, (128, 64)), rng.integers(-2, 4, (32, 64))
    (a_descriptor, a_image), (b_descriptor, b_image) = (Tile(64).image(packed("e2m1", each, 32)) for each in (a, b))
    image, is_power = joined(a_image, b_image), codes[1] == 127
    values, places, drawn = [0.5, 1, 2 if is_power else 1.5], np.zeros((2, 32, 4, 4), np.uint8), []
    for place, rows in zip(places, (128, 32), strict=True):
        chosen = rng.integers(0, 3, (rows, count))
        drawn.append(np.repeat(np.array(values)[chosen], 64 // count, axis=1))
        place[:, : rows // 32, :count] = np.array(codes)[chosen].reshape(-1, 32, count).swapaxes(0, 1)
    image[40960:41984] = places.ravel()
    word = is_power << 23 | 1 << 7 | 1 << 10 | 32 >> 3 << 17 | 1 << 27
    scales = [f"mov.b64 %da, {(40960 + 512 * n) >> 4 | 8 << 32 | 1 << 46}; add.u32 %m0, %tm, {128 + 4 * n};"
              "@%first tcgen05.cp.cta_group::1.32x128b.warpx4 [%m0], %da;" for n in range(2)]  # fmt: skip
    body = f"""
{" ".join(scales)} mov.b64 %da, {blackwell(a_descriptor)}; mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))};
mov.b32 %id, {word}; @%first tcgen05.mma.cta_group::1.{kind} [%tm], %da, %db, %id, [%tm+128], [%tm+132], 0;
bar.sync 0; tcgen05.ld.sync.aligned.32x32b.x32.b32 {listed("d", 32)}, [%tw]; {stored(32)}
"""
    found = run(body, engine, tmp_path, image)[:, :32].view(np.float32)
    assert np.array_equal(found, (a * drawn[0]) @ (b * drawn[1]).T)


MMA = "@%first tcgen05.mma.cta_group::1.kind::f16 [%tm], %da, %db, %id, 1;"
ALLOC = "@%all tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [0],"
WIDE, NARROW = (instruction_descriptor(128, columns, (1, 0, 0)) for columns in (256, 64))
FAULTS = [
    ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, %d1}, [%tw+255];", IllegalAddress, "columns 255 to 256 of tensor"),
    ("tcgen05.ld.sync.aligned.32x32b.x1.b32 %d0, [%tm+65536];", IllegalAddress, "from lane 1 on"),
    ("tcgen05.ld.sync.aligned.16x64b.x1.b32 %d0, [600];", IllegalAddress, "columns 600 to 601"),
    (f"{ALLOC} 48;", KernelFault, "asks for 48 columns"),
    (f"{ALLOC} 512;", KernelFault, "asks for 512 columns"),
    (f"{ALLOC} 32;", KernelFault, "ends with tensor memory"),
    ("@%all tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 128;", IllegalAddress, "columns 0 to 127"),
    (f"@%all tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {ALLOC} 32;", KernelFault, "asks for 32 col"),
    (f"mov.b32 %id, 4; {MMA}", UnsupportedError, "0x00000004"),
    (
        f"mov.b32 %id, {instruction_descriptor(64, 96, (1, 0, 0))}; {MMA.replace('mma', 'mma.ws')}",
        UnsupportedError,
        "0x",
    ),
    (f"mov.b32 %id, {WIDE}; add.u32 %tm, %tm, 8; {MMA}", IllegalAddress, "columns 8 to 263"),
    (f"mov.b32 %id, {NARROW}; mov.b64 %da, {1 << 61}; mov.b64 %db, 0; {MMA}", UnsupportedError, "swizzle of 32-byte"),
    (f"mov.b32 %id, {NARROW}; mov.b64 %da, {0x3FFF << 32}; mov.b64 %db, 0; {MMA}", IllegalAddress, "of 49152"),
]


@ENGINES
@pytest.mark.parametrize(("body", "error", "message"), FAULTS)
def test_faults(engine: str, body: str, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        run(body, engine, tmp_path)


@pytest.mark.parametrize("instruction", [
    "tcgen05.mma.ws.cta_group::1.kind::f16 [%tm], %da, %db, %id, 1, %da;",
    "tcgen05.mma.ws.cta_group::2.kind::f16 [%tm], %da, %db, %id, 1;",
    "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%tm], %da, %db, [%tm], %id, 1;",
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%tm], %da, %db, [%tm], %id, 1;",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::4X [%tm], %da, %db, %id, [%tm], [%tm], 1;",
    "tcgen05.shift.cta_group::1.down [%tm];",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, %d1, %d2}, [%tw];",
    "tcgen05.cp.cta_group::1.4x256b [%tm], %da;",
])  # fmt: skip
def test_what_is_refused(instruction: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"tcgen05\."):
        run(instruction, "native", tmp_path)
