"""Products that two blocks of a cluster share (cta_group::2), as PTX on both engines against NumPy."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import CompiledKernel
from kerncast.errors import IllegalAddress, LaunchError, UnsupportedError
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Extent, Launch, parse_value
from tests.instructions.test_group_products import MIDDLE, SIZE, Tile, encoded, joined
from tests.instructions.test_tensor_memory import REGISTERS, blackwell, instruction_descriptor, listed, stored
from tests.instructions.test_wide_memory import ENGINES

Words = npt.NDArray[np.uint32]
#: Each block copies its own part of the input to its shared memory, from %s on, and takes 256 columns.
HEAD = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {{
.reg .b64 %a, %b, %at, %da, %db; .reg .b32 %t, %s, %to, %end, %rank, %bar, %w<4>, %d<128>; .reg .pred %p, %adds, %even;
.shared .align 1024 .b8 here[{SIZE}]; {REGISTERS}
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %even, %rank, 0; mov.u32 %s, here; mul.wide.u32 %at, %rank, {SIZE}; add.s64 %a, %a, %at;
mul.wide.u32 %at, %t, 16; add.s64 %at, %a, %at; mul.lo.u32 %to, %t, 16; add.u32 %to, %to, %s; add.u32 %end, %s, {SIZE};
copy: ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%at]; st.shared.v4.b32 [%to], {{%w0, %w1, %w2, %w3}};
add.s64 %at, %at, 2048; add.u32 %to, %to, 2048; setp.lt.u32 %p, %to, %end; @%p bra copy; bar.sync 0;
setp.lt.u32 %all, %t, 32; @%all tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%s+49144], 256;
@%all tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
setp.eq.u32 %first, %t, 0; and.pred %first, %first, %even; add.u32 %bar, %s, 49136;
setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%bar], 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.shared.b32 %tm, [%s+49144]; shr.u32 %w0, %t, 5; shl.b32 %w0, %w0, 21; add.u32 %tw, %tm, %w0;
mul.wide.u32 %at, %rank, 65536; add.s64 %b, %b, %at; mul.wide.u32 %at, %t, 512; add.s64 %b, %b, %at;
"""
#: The even block tells both that its products are done, and all wait for that.
DONE = """
mov.b16 %h0, 3; @%first tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
[%bar], %h0; wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra wait;
tcgen05.fence::after_thread_sync;
"""
END = """
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@%all tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tm, 256; ret; }
"""
TARGETS = ["%da", "[%tm+128]"]


def run(body: str, engine: Any, images: list[Any], folder: Path, cluster: Extent | None = (2, 1, 1)) -> Words:
    """Return [blocks, threads, 128] what each thread stores; each block has an image of its own in shared memory."""
    np.save(folder / "a.npy", np.concatenate([np.pad(image, (0, SIZE - len(image))) for image in images]))
    text = HEAD.replace(".reg .pred", ".reg .b16 %h<2>; .reg .pred", 1) + body + END
    kernel = CompiledKernel("k", "k", "sm_100a", text, cast("Any", None), None)
    values = {"a": f"u8[{2 * SIZE}] file(a.npy)", "b": "u32[32768] zeros"}
    arguments = tuple(Argument(name, parse_value(value, name, folder)) for name, value in values.items())
    given = Launch(folder / "k.ptx", "k", (2, 1, 1), (128, 1, 1), 0, arguments)
    trace = execute(kernel, replace(given, cluster=cluster), WholeGrid(), engine=engine)[0]
    found: Words = trace.memory["b"].reshape(2, 128, 128)
    return found


# Kind, types of D, A and B with their numbers, depth, rows, columns, tiles, further bits of the instruction descriptor.
PRODUCTS = [
    ("f16", "f32 f16 f16", (1, 0, 0), 16, 256, 64, Tile(128), Tile(128, 32), 0),
    ("f16", "f32 bf16 bf16", (1, 1, 1), 16, 128, 64, Tile(128), Tile(64), 1 << 13),
    ("f16", "f16 f16 f16", (0, 0, 0), 16, 128, 32, Tile(128, 0, turned=True), Tile(128, 0, turned=True), 3 << 15),
    ("f16", "f32 f16 f16", (1, 0, 0), 16, 256, 64, None, Tile(128), 0),
    ("tf32", "f32 tf32 tf32", (1, 2, 2), 8, 256, 32, Tile(128), Tile(128), 0),
    ("f8f6f4", "f32 e4m3 e5m2", (1, 0, 1), 32, 256, 128, Tile(128), Tile(64), 0),
    ("i8", "s32 u8 s8", (2, 0, 1), 32, 128, 64, Tile(64), Tile(64), 0),
]  # fmt: skip


@ENGINES
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: f"{case[1]} {case[4]} {case[5]}".replace(" ", "."))
def test_products_of_pairs(engine: str, case: Any, tmp_path: Path) -> None:
    kind, types, numbers, depth, rows, columns, left, right, flags = case
    total, a_type, b_type = types.split()
    rng = np.random.default_rng(3)
    lowest = 0 if "u8" in types else -2
    a, b = rng.integers(lowest, 4, (rows, depth)), rng.integers(lowest, 4, (columns, depth))
    images, lines = [], []
    for own_a, own_b in zip(np.split(a, 2), np.split(b, 2), strict=True):
        b_descriptor, b_image = right.image(encoded(b_type, own_b))
        a_descriptor, a_image = (left or Tile()).image(encoded(a_type, own_a))
        if left is None:
            a_image[:4096] = encoded(a_type, own_a).ravel()
        images.append(joined(a_image, b_image))
    if left is None:
        parts = ["{" + ", ".join(f"%y{4 * n + i}" for i in range(4)) + "}" for n in (0, 1)]
        loads = [f"ld.shared.v4.b32 {parts[n]}, [%to+{16 * n}];" for n in (0, 1)]
        lines += ["mul.lo.u32 %to, %t, 32; add.u32 %to, %to, %s;", *loads, "add.u32 %m0, %tw, 128;"]
        lines.append(f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%m0], {listed('y', 8)};")
        lines.append("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    word = instruction_descriptor(rows, columns, numbers, flags)
    lines.append(f"mov.b64 %da, {blackwell(a_descriptor)}; mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))};")
    mma = f"@%first tcgen05.mma.cta_group::2.kind::{kind} [%tm], {TARGETS[left is None]}, %db, %id,"
    lines.append(f"mov.b32 %id, {word}; setp.ne.u32 %adds, 0, 0; {mma} %adds; setp.eq.u32 %adds, 0, 0; {mma} %adds;")
    count = columns // 2 if rows == 128 else columns
    load = f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {listed('d', count)}, [%tw];"
    found = run("\n".join([*lines, DONE, load, stored(count)]), engine, images, tmp_path)[:, :, :count]
    if rows == 128:  # lanes 64 to 127 have the second half of the columns
        found = np.concatenate([found[:, :64], found[:, 64:]], axis=2)
    found = np.ascontiguousarray(found.reshape(rows, columns))
    kinds = {"f16": np.float16, "f32": np.float32, "s32": np.int32}
    sums: Any = found.astype(np.uint16).view(np.float16) if total == "f16" else found.view(kinds[total])
    assert np.array_equal(sums, (-2 if flags == 1 << 13 else 2) * (a @ b.T))


@ENGINES
def test_each_block_of_a_pair_keeps_its_own_lanes_and_copies_its_own_factors(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(-2, 4, (256, 32)), rng.integers(-2, 4, (64, 32))
    exponents = rng.integers(-3, 4, 256), rng.integers(-3, 4, 64)
    images = []
    for number in range(2):
        a_descriptor, a_image = Tile(64).image(encoded("e4m3", a[128 * number :][:128]))
        b_descriptor, b_image = Tile(64).image(encoded("e4m3", b[32 * number :][:32]))
        image = joined(a_image, b_image)
        places = np.zeros((2, 32, 4), np.uint32)
        places[0] = (exponents[0][128 * number :][:128] + 127).reshape(4, 32).T
        places[1, :, :2] = (exponents[1] + 127).reshape(2, 32).T
        image[40960:41984] = places.view(np.uint8).ravel()
        images.append(image)
    word = 1 << 23 | 64 >> 3 << 17 | 2 << 27
    scales = [f"mov.b64 %da, {(40960 + 512 * n) >> 4 | 8 << 32 | 1 << 46}; add.u32 %m0, %tm, {128 + 4 * n};"
              "@%first tcgen05.cp.cta_group::2.32x128b.warpx4 [%m0], %da;" for n in range(2)]  # fmt: skip
    body = f"""
{" ".join(scales)} mov.b64 %da, {blackwell(a_descriptor)}; mov.b64 %db, {blackwell(b_descriptor + (MIDDLE >> 4))};
mov.b32 %id, {word}; @%first tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale [%tm], %da, %db, %id,
[%tm+128], [%tm+132], 0; mov.b32 %m0, 0; mov.b32 %m1, -1; mov.b32 %id, {instruction_descriptor(256, 64, (1, 0, 0))};
@%first tcgen05.mma.cta_group::2.kind::f8f6f4 [%tm], %da, %db, %id, {{%m0, %m1, %m1, %m1, %m1, %m1, %m1, %m0}}, 0;
{DONE}
tcgen05.ld.sync.aligned.32x32b.x64.b32 {listed("d", 64)}, [%tw+{128 << 16}]; {stored(64)}
"""
    found = run(body, engine, images, tmp_path)[:, :, :64].reshape(256, 64).view(np.float32)
    expected = a @ b.T * 2.0 ** exponents[0][:, None] * 2.0 ** exponents[1]
    for replaced in (slice(0, 32), slice(224, 256)):
        expected[replaced] = (a @ b.T)[replaced]
    assert np.array_equal(found, expected)


MMA = "mov.b64 %db, %da; @%first tcgen05.mma.cta_group::2.kind::f16 [%tm], %da, %db, %id, 0;"
SHAPES = ((64, 64), (256, 24), (256, 64))
BAD, ODD, GOOD = (f"mov.b32 %id, {instruction_descriptor(*shape, (1, 0, 0))};" for shape in SHAPES)
LEAVES = f"""
@!%even bra out; {GOOD} mov.b64 %da, 0; mov.b32 %w0, 0;
spin: add.u32 %w0, %w0, 1; setp.lt.u32 %p, %w0, 100000; @%p bra spin; {MMA} out: @%even bra on;
@%all tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tm, 256; ret; on:
"""
FAULTS = [
    (f"{BAD} mov.b64 %da, 0; {MMA}", UnsupportedError, "0x04100010"),
    (f"{ODD} mov.b64 %da, 0; {MMA}", UnsupportedError, "is not supported"),
    (f"{GOOD} mov.b64 %da, {0x3FFF << 32}; {MMA}", IllegalAddress, "thread .0, 0, 0. reads a tile out of bounds"),
    (f"{GOOD} mov.b64 %da, 0; add.u32 %tm, %tm, 224; {MMA}", IllegalAddress, "columns 224 to 287"),
    (LEAVES, IllegalAddress, "rank 1 in its cluster"),
    (
        "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];",
        UnsupportedError,
        "both alone",
    ),
]


@ENGINES
@pytest.mark.parametrize(("body", "error", "message"), FAULTS)
def test_faults_of_pairs(engine: str, body: str, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        run(body, engine, [np.zeros(SIZE, np.uint8)] * 2, tmp_path)


def test_pairs_need_clusters_of_an_even_number_of_blocks(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="in pairs of blocks"):
        run("", "native", [np.zeros(SIZE, np.uint8)] * 2, tmp_path, None)
