"""Copies of many bytes by one thread: rows and boxes of tensors, as PTX on both engines against NumPy."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from kerncast import predict
from kerncast.compile import CompiledKernel
from kerncast.errors import KernelFault, LaunchError, NotExecutedError
from kerncast.execute import WholeGrid, execute
from kerncast.launch import Argument, Launch, TensorTiles, parse_value
from kerncast.prediction import Prediction
from kerncast.traces import Trace
from tests.helpers.execute_helpers import compiled, launch
from tests.instructions.test_mbarriers import waits
from tests.instructions.test_wide_memory import ENGINES

HEAD = """.version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 a, .param .u64 b) {
.reg .b64 %a, %b, %at, %m, %s<8>; .reg .b32 %t, %w<20>; .reg .pred %p<8>;
.shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar[2];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x; mov.b64 %m, map; cvta.param.u64 %m, %m;
mov.u32 %w0, tile; mov.u32 %w1, bar; setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
"""
#: All threads store what shared memory holds.
SHOW = """
mad.lo.u32 %w2, %t, 4, %w0; mul.wide.u32 %at, %t, 4; add.s64 %at, %b, %at; mov.u32 %w3, 0;
show: ld.shared.u32 %w4, [%w2]; st.global.u32 [%at], %w4; add.u32 %w2, %w2, 128; add.s64 %at, %at, 128;
add.u32 %w3, %w3, 1; setp.lt.u32 %p1, %w3, 64; @%p1 bra show;
"""


def run(body: str, engine: Any, a: str = "u32[2048] iota", tensor: str = "", b: str = "u32[2048] zeros") -> Trace:
    kernel = CompiledKernel("k", "k", "sm_100", f"{HEAD}{body}\nret; }}", cast("Any", None), None)
    texts = {"map": tensor or f"bytes({'00' * 128})", "a": a, "b": b}
    arguments = tuple(Argument(name, parse_value(text, name, Path())) for name, text in texts.items())
    where = Launch(Path("k.ptx"), "k", (1, 1, 1), (32, 1, 1), 0, arguments)
    return execute(kernel, where, WholeGrid(), engine=engine)[0]


@ENGINES
def test_rows_there_and_back(engine: str) -> None:
    """Words 4 to 515 come to shared memory, and 128 of them go on from there."""
    body = f"""
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 2048; add.s64 %s0, %a, 16;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%w0], [%s0], 2048, [%w1];
{waits("turn", "bar", "0")}
add.u32 %w5, %w0, 512;
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%b], [%w5], 512;
@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%b], [%w0], 256;
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
"""
    trace = run(body, engine)
    expected = np.zeros(2048, np.uint32)
    expected[:128] = np.arange(132, 260)
    expected[:64] += np.arange(4, 68, dtype=np.uint32)
    assert trace.memory["b"].tolist() == expected.tolist()
    # 2048 bytes from the middle of a sector on; the two copies back begin at a sector.
    assert trace.counts.sectors.sum(axis=0).tolist()[-3:] == [65, 16, 8]


@ENGINES
def test_lanes_that_store_the_same_store_it_once(engine: str) -> None:
    """As ptxas makes one instruction of a warp of it; sums are a loop over lanes, and so are stores to other places."""
    body = """
add.u32 %w5, %t, 1; @%p0 st.shared.u32 [%w0], 7;
cp.async.bulk.global.shared::cta.bulk_group [%b], [%w0], 128;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%b], [%w0], 16;
mul.wide.u32 %s0, %t, 32; add.s64 %s0, %b, %s0; cp.async.bulk.global.shared::cta.bulk_group [%s0], [%w0], 32;
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
"""
    counts = run(body, engine).counts
    assert counts.accesses.sum(axis=0).tolist()[-3:] == [1, 32, 32]
    assert counts.sectors.sum(axis=0).tolist()[-3:] == [4, 32, 32]


def box_of(matrix: Any, at: tuple[int, int], box: tuple[int, int], swizzle: int) -> list[int]:
    """Return the words of shared memory that a box fills, as the ISA draws its swizzling modes."""
    rows, columns = box
    tile = np.zeros(box, np.uint32)
    for row in range(rows):
        for column in range(columns):
            y, x = at[1] + row, at[0] + column
            if 0 <= y < matrix.shape[0] and 0 <= x < matrix.shape[1]:
                tile[row, column] = matrix[y, x]
    found = np.zeros(rows * columns, np.uint32)
    for number, word in enumerate(tile.ravel().tolist()):
        address = 4 * number
        if swizzle:
            address ^= (address >> 7 & (swizzle // 16 - 1)) << 4
        found[address // 4] = word
    return found.tolist()


@ENGINES
@pytest.mark.parametrize(("swizzle", "columns"), [(0, 64), (32, 8), (64, 16), (128, 32)])
@pytest.mark.parametrize("at", [(4, 2), (-4, -2), (40, 30)])
def test_boxes_of_a_matrix(engine: str, swizzle: int, columns: int, at: tuple[int, int]) -> None:
    """A box of 16 rows, also where part of it lies outside, comes to shared memory and goes back elsewhere."""
    body = f"""
mov.u32 %w5, {at[0] % 2**32}; mov.u32 %w6, {at[1] % 2**32};
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {64 * columns};
@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%w0], [%m, {{%w5, %w6}}], [%w1];
{waits("turn", "bar", "0")}
{SHOW}
"""
    kind = f"swizzle = {swizzle}B" if swizzle else "swizzle = none"
    trace = run(body, engine, tensor=f"tensormap(u32[40, 60] iota, box = [16, {columns}], {kind})")
    matrix = np.arange(2400).reshape(40, 60)
    expected = box_of(matrix, at, (16, columns), swizzle)
    assert trace.memory["b"][: 16 * columns].tolist() == expected
    assert not trace.memory["b"][16 * columns :].any()


@ENGINES
def test_a_box_goes_back_and_is_added(engine: str) -> None:
    """What is stored outside the tensor is dropped; a box of three dimensions, whose elements are halves."""
    body = """
mad.lo.u32 %w2, %t, 4, %w0; mov.u32 %w3, 0; mov.u32 %w5, -2; mov.u32 %w6, 1;
fill: mov.u32 %w4, 0x40003c00; st.shared.u32 [%w2], %w4; add.u32 %w2, %w2, 128; add.u32 %w3, %w3, 1;
setp.lt.u32 %p1, %w3, 4; @%p1 bra fill; fence.proxy.async; bar.sync 0;
@%p0 cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%m, {%w5, %w6, 0}], [%w0];
@%p0 cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%m, {%w5, %w6, 0}], [%w0];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
"""
    trace = run(body, engine, tensor="tensormap(f16[2, 4, 16] ones, box = [2, 4, 8])")
    expected = np.ones((2, 4, 16), np.float16)
    expected[:, 1:, :6] = np.tile(np.array([2, 4], np.float16), 3)
    assert trace.memory["map"].tolist() == expected.tolist()


def columns_of(images: Any, at: list[int], offsets: list[int], corners: Any, box: tuple[int, int]) -> Any:
    """Return [pixels, channels] what im2col copies, pixel by pixel; images are [n, (d, (h,)) w, c], the rest from w on.

    PTX ISA 9.1, section 5.5.4: the corner of the filter goes from the lower to the upper corner of the bounding box by
    steps, a row at a time, then to the next image; what the offsets are added to is read, and 0 outside of the image.
    """
    lower, upper, steps = corners
    count, channels = box
    extents = images.shape[-2:0:-1]
    corner, image, found = list(at[1:-1]), at[-1], np.zeros((count, channels), images.dtype)
    for pixel in range(count):
        place = [image, *reversed([a + b for a, b in zip(corner, offsets, strict=True)])]
        for channel in range(channels):
            where = (*place, at[0] + channel)
            if all(0 <= a < b for a, b in zip(where, images.shape, strict=True)):
                found[pixel, channel] = images[where]
        axis = 0
        while axis < len(corner):
            corner[axis] += steps[axis]
            if corner[axis] <= extents[axis] - 1 + upper[axis]:
                break
            corner[axis] = lower[axis]
            axis += 1
        image += axis == len(corner)
    return found


#: Shape; pixels and channels; corners and steps, from w on; coordinates from c on; offsets from w on; swizzle.
_IMAGES = [
    ((3, 9, 16), (20, 8), ([-1], [-1], [1]), [4, 3, 0], [2], ""),
    ((2, 6, 7, 16), (32, 8), ([-1, -1], [-1, -1], [1, 1]), [8, 5, 4, 0], [0, 2], "swizzle = 32B"),
    ((2, 8, 9, 8), (16, 8), ([0, 0], [-2, -2], [2, 2]), [0, 4, 2, 1], [1, 2], "outside = zero"),
    ((2, 4, 5, 6, 8), (64, 4), ([-1, 0, -2], [0, -1, 1], [1, 2, 1]), [2, 3, 2, 1, 0], [1, 0, 3], "swizzle = none"),
]


def map_of_images(case: Any, fill: str) -> str:
    shape, (pixels, channels), corners, _, _, kind = case
    places = ", ".join(f"{name} = {each[::-1]}" for name, each in zip(("lower", "upper", "step"), corners, strict=True))
    return f"tensormap(u32{list(shape)} {fill}, box = [{pixels}, {channels}], {places}{', ' * bool(kind)}{kind})"


@ENGINES
@pytest.mark.parametrize("case", _IMAGES, ids=["3d", "4d", "strided", "5d"])
def test_columns_of_images(engine: str, case: Any) -> None:
    shape, (pixels, channels), corners, at, offsets, kind = case
    rank = len(shape)
    names = [f"%w{5 + n}" for n in range(rank)]
    body = f"""
.reg .b16 %h<3>; {" ".join(f"mov.u32 {r}, {n};" for r, n in zip(names, at, strict=True))}
{" ".join(f"mov.u16 %h{n}, {each};" for n, each in enumerate(offsets))}
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {4 * pixels * channels};
@%p0 cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
 [%w0], [%m, {{{", ".join(names)}}}], [%w1], {{{", ".join(f"%h{n}" for n in range(rank - 2))}}};
{waits("turn", "bar", "0")}
{SHOW}
"""
    trace = run(body, engine, tensor=map_of_images(case, "iota"))
    images = np.arange(np.prod(shape), dtype=np.uint32).reshape(shape)
    expected = columns_of(images, at, offsets, corners, (pixels, channels))
    flat = expected.ravel()
    if kind == "swizzle = 32B":
        flat = np.array(box_of(expected, (0, 0), expected.shape, 32), np.uint32)
    assert trace.memory["b"][: flat.size].tolist() == flat.tolist()
    assert not trace.memory["b"][flat.size :].any()


@ENGINES
def test_columns_go_back_and_are_added(engine: str) -> None:
    """A store has no offsets; what lies outside of the images is dropped (here a row above, a column on the left)."""
    case = ((2, 3, 4, 4), (24, 4), ([-1, -1], [0, 0], [1, 1]), [0, -1, -1, 0], [0, 0], "")
    body = """
mad.lo.u32 %w2, %t, 4, %w0; mov.u32 %w3, 0; mov.u32 %w4, %t; mov.u32 %w5, -1;
fill: st.shared.u32 [%w2], %w4; add.u32 %w2, %w2, 128; add.u32 %w4, %w4, 32; add.u32 %w3, %w3, 1;
setp.lt.u32 %p1, %w3, 4; @%p1 bra fill; fence.proxy.async; bar.sync 0;
@%p0 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%m, {0, %w5, %w5, 0}], [%w0];
@%p0 cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group [%m, {0, %w5, %w5, 0}], [%w0];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
"""
    trace = run(body, engine, tensor=map_of_images(case, "ones"))
    expected = np.ones((2, 3, 4, 4), np.uint32)
    # 20 places of the first image, of which 12 lie inside, then 4 of the second one: the row above it.
    places = np.arange(96, dtype=np.uint32).reshape(24, 4)[:20].reshape(4, 5, 4)
    expected[0] = 2 * places[1:, 1:]
    assert trace.memory["map"].tolist() == expected.tolist()


@ENGINES
def test_four_rows_of_a_matrix(engine: str) -> None:
    """Rows 7, 2, one that there is not, and 7 again come one below the other and go elsewhere."""
    body = f"""
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128; mov.u32 %w5, 4; mov.u32 %w6, 99; mov.u32 %w7, -3;
@%p0 cp.async.bulk.tensor.2d.tile::gather4.shared::cta.global.mbarrier::complete_tx::bytes
 [%w0], [%m, {{%w5, 7, 2, %w6, 7}}], [%w1];
{waits("turn", "bar", "0")}
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%m, {{%w5, 0, 9, %w7, 8}}], [%w0];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
{SHOW}
"""
    trace = run(body, engine, tensor="tensormap(u32[10, 16] iota, box = [1, 8])")
    matrix = np.arange(160, dtype=np.uint32).reshape(10, 16)
    four = np.stack([matrix[7, 4:12], matrix[2, 4:12], np.zeros(8, np.uint32), matrix[7, 4:12]])
    assert trace.memory["b"][:32].reshape(4, 8).tolist() == four.tolist()
    matrix[[0, 9, 8], 4:12] = four[[0, 1, 3]]
    assert trace.memory["map"].tolist() == matrix.tolist()


@ENGINES
@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("3d.shared::cta.global.im2col", "u32[3, 9, 16] zeros, box = [1, 1, 8]", "finds a map of tiles"),
        (
            "3d.shared::cta.global",
            "u32[3, 9, 16] zeros, box = [4, 8], lower = [0], upper = [0]",
            "finds a map of images",
        ),
        (
            "3d.shared::cta.global.im2col",
            "u32[3, 9, 16] zeros, box = [4, 8], lower = [0], upper = [-8]",
            "no filter begin",
        ),
    ],
)
def test_maps_that_do_not_fit_are_told(engine: str, name: str, tensor: str, words: str) -> None:
    offsets = ", {%h0}" if "im2col" in name else ""
    body = f"""
.reg .b16 %h<1>; mov.u16 %h0, 0; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 16; mov.u32 %w5, 3;
@%p0 cp.async.bulk.tensor.{name}.mbarrier::complete_tx::bytes [%w0], [%m, {{0, %w5, 0}}], [%w1]{offsets};
"""
    with pytest.raises(KernelFault, match=words):
        run(body, engine, tensor=f"tensormap({tensor})")


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("3d.im2col.shared::cluster.global", "{0, 0, 0}], [%w1], {%h0}, %h0"),
        ("3d.im2col.shared::cluster.global.multicast::cluster", "{0, 0, 0}], [%w1], {%h0}"),
        ("2d.shared::cluster.global", "{0, 0}], [%w1], %h0"),
        ("2d.shared::cluster.global.multicast::cluster", "{0, 0}], [%w1]"),
    ],
)
def test_a_mask_belongs_to_a_multicast(name: str, operands: str) -> None:
    """Else the last other operand would be taken for one, or be left out."""
    body = f".reg .b16 %h<1>; @%p0 cp.async.bulk.tensor.{name}.mbarrier::complete_tx::bytes [%w0], [%m, {operands};"
    with pytest.raises(NotExecutedError, match="with these operands"):
        run(body, "native")


LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
BOX = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
MAP = "tensormap(u32[40, 60] iota, box = [16, 64])"


@ENGINES
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"{LOAD} [%w0], [%a], 8208, [%w1];", "out of bounds: 8208 bytes of global memory .* past the end of a"),
        (f"{LOAD} [%w0], [%a], 20, [%w1];", "moves 20 bytes, no multiple of 16"),
        (f"{LOAD} [%w0], [%b+8], 16, [%w1];", "global address .* is no multiple of 16"),
        (f"{LOAD} [%w0+8], [%b], 16, [%w1];", "shared address 0x8 is no multiple of 16"),
        (f"{LOAD} [%w0+8192], [%b], 512, [%w1];", "out of bounds: 512 bytes at 0x2000"),
        (f"{LOAD} [%w0], [%a], 16, [%w1+8];", "nobody has initialised"),
        (f"{STORE} [%m], [%w0], 16;", "out of bounds: global address"),
        (f"{BOX} [%w0], [%m, {{0, 0}}], [%w1];", "finds no tensor map"),
        (f"{BOX} [%w0], [%b, {{0, 0}}], [%w1];", "finds no tensor map"),
        (f"mov.u64 %s0, -1; {BOX} [%w0], [%s0, {{0, 0}}], [%w1];", "finds no tensor map"),
    ],
)
def test_faults_are_named(engine: str, body: str, words: str) -> None:
    with pytest.raises(KernelFault, match=words):
        run(f"mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 16; {body}", engine)


@ENGINES
def test_a_hostile_map_reads_nothing_else(engine: str) -> None:
    """Bytes that say of themselves to be a map of memory that is none."""
    wide = TensorTiles("u32", (64, 1 << 20), (1 << 30,), (16, 4), 0, address=(1 << 44) + 512)
    where = wide.coded().hex()
    with pytest.raises(KernelFault, match="out of bounds"):
        run(f"{BOX} [%w0], [%m, {{0, 9}}], [%w1];", engine, tensor=f"bytes({where})")
    huge = TensorTiles("u64", (256,) * 5, (16,) * 4, (4, *(256,) * 4), 0, address=1 << 44).coded().hex()
    with pytest.raises(KernelFault, match="more than any shared memory holds"):
        run(f"{BOX} [%w0], [%m, {{0, 9}}], [%w1];", engine, tensor=f"bytes({huge})")
    one = TensorTiles("u32", (64,), (), (16,), 0, address=(1 << 44) + 512).coded().hex()
    with pytest.raises(KernelFault, match="2 coordinates for a map of 1 dim"):
        run(f"{BOX} [%w0], [%m, {{0, 9}}], [%w1];", engine, tensor=f"bytes({one})")


@ENGINES
def test_a_product_of_triton_by_tensor_maps(engine: str) -> None:
    """Triton 3.9 made the text for sm_90 from a product of our own: boxes, wgmma and mbarriers of three stages."""
    text = (Path(__file__).parent / "matmul_tma_sm90.ptx").read_text(encoding="utf-8")
    kernel = CompiledKernel("k", "matmul_tma_kernel", "sm_90a", text, cast("Any", None), None)
    shape = [256, 256, 0, 0]
    maps = [
        f"tensormap(f16[256, 256] {fill}, box = [128, 64], swizzle = 128B)" for fill in ("random", "random", "zeros")
    ]
    values = [value for each in maps for value in (each, *shape)] + [256, 256, 256, 0, 0]
    arguments = tuple(Argument(f"p{n}", parse_value(value, "p", Path())) for n, value in enumerate(values))
    where = Launch(Path("k.ptx"), "k", (4, 1, 1), (128, 1, 1), 98328, arguments)
    memory = execute(kernel, where, WholeGrid(), engine=cast("Any", engine))[0].memory
    a, b, c = (memory[name].astype(np.float64) for name in ("p0", "p5", "p10"))
    assert np.abs(c - a @ b.T).max() < 1e-3 * np.abs(c).max()


TRANSPOSE = r"""
struct alignas(64) Map { unsigned long long words[16]; };
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const __grid_constant__ Map from, const __grid_constant__ Map to, int rows) {
    __shared__ alignas(128) float tile[32][32], turned[32][32];
    __shared__ alignas(8) unsigned long long bar;
    int x = 32 * blockIdx.x, y = 32 * blockIdx.y;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.proxy.async;" :: "r"(at(&bar)) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" :: "r"(at(&bar)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(at(tile)), "l"(&from), "r"(x), "r"(y), "r"(at(&bar)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; wait: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra wait; }"
                 :: "r"(at(&bar)) : "memory");
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) turned[i % 32][i / 32] = tile[i / 32][i % 32];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&to), "r"(y), "r"(x), "r"(at(turned)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


def test_a_transposition_in_cuda() -> None:
    """The last boxes lie in part outside the matrix."""
    kernel = compiled(TRANSPOSE, None, "sm_90")
    maps = {
        "from": "tensormap(f32[72, 100] iota, box = [32, 32])", "to": "tensormap(f32[100, 72] zeros, box = [32, 32])",
    }  # fmt: skip
    where = launch([4, 3], 128, **maps, rows=72)
    expected = np.arange(7200, dtype=np.float32).reshape(72, 100).T
    for engine in ("native", "reference"):
        memory = execute(kernel, where, WholeGrid(), engine=cast("Any", engine))[0].memory
        assert (memory["to"] == expected).all()


SHARED_OUT = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a) .reqntid 32,1,1 .explicitcluster .reqnctapercluster 2,1,1 {
.reg .b64 %a, %o; .reg .b32 %t, %w<8>, %r; .reg .pred %p<8>; .reg .b16 %m;
.shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar[1];
ld.param.u64 %a, [a]; mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; mov.u32 %w0, tile; mov.u32 %w1, bar;
mov.b16 %m, 3; mad.lo.u32 %w0, %r, 4096, %w0; mul.wide.u32 %o, %r, 4096; add.s64 %a, %a, %o;
setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive; barrier.cluster.wait;
"""


def forecast_of(folder: Path) -> Prediction:
    """Return the time of four clusters of two blocks of the kernel in a folder."""
    (folder / "k.toml").write_text(
        'source = "k.ptx"\n[[launch]]\nkernel = "k"\ngrid = [8]\nblock = [32]\ncluster = [2]\n'
        'args = { a = "u8[8192] zeros" }\n',
        encoding="utf-8",
    )
    (found,) = predict(folder / "k.toml", "h100-sxm")
    return found


def test_no_byte_is_lost_of_what_others_copy(tmp_path: Path) -> None:
    """Of 64 bytes the block copies 48, of which 16 are for both: a third more than 32 and 16 are no whole numbers."""
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    (tmp_path / "k.ptx").write_text(
        f"""{SHARED_OUT}
        mov.u32 %w2, 0; add.u32 %w4, %w0, 64;
        loop: and.b32 %w3, %w2, 1; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        @%p0 {name} [%w4], [%a], 32, [%w1]; @%p0 {name}.multicast::cluster [%w0], [%a], 16, [%w1], %m;
        {waits("turn", "bar", "%w3")}
        barrier.cluster.arrive; barrier.cluster.wait; add.u32 %w2, %w2, 1; setp.lt.u32 %p2, %w2, 3; @%p2 bra loop;
        ret; }}""",
        encoding="utf-8",
    )
    found = forecast_of(tmp_path)
    assert found.model == "simulation", found.caveats


def copies_for_all(who: str, turns: int, folder: Path) -> Prediction:
    """Return the time of copies for both blocks of each cluster, by those that ``who`` says."""
    nbytes = 8192 if "or" in who else 4096
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    (folder / "k.ptx").write_text(
        f"""{SHARED_OUT}
        setp.eq.u32 %p1, %r, {who}.pred %p1, %p1, %p0; and.pred %p1, %p1, %p0; mov.u32 %w2, 0;
        loop: and.b32 %w3, %w2, 1; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {nbytes};
        @%p1 {copy} [%w0], [%a], 4096, [%w1], %m; {waits("turn", "bar", "%w3")}
        barrier.cluster.arrive; barrier.cluster.wait; add.u32 %w2, %w2, 1; setp.lt.u32 %p2, %w2, {turns}; @%p2 bra loop;
        ret; }}""",
        encoding="utf-8",
    )
    return forecast_of(folder)


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_a_copy_for_all_blocks_of_a_cluster_has_a_time(turns: int, tmp_path: Path) -> None:
    """Where each block copies a half for both, or one of them for all: the same time whichever that is."""
    found = {who: copies_for_all(who, turns, tmp_path) for who in ("0; or", "0; and", "1; and")}
    assert {each.model for each in found.values()} == {"simulation"}
    first, second = (found[who].seconds for who in ("0; and", "1; and"))
    assert second == pytest.approx(first, rel=0.02)
    # A block that copies twice as many bytes for both takes longer, by less than one more latency.
    assert first < found["0; or"].seconds * 1.02


@pytest.mark.parametrize("option", ["box = [{}, 16]", "box = [8, 16], lower = [-{}], upper = [0]"])
def test_numbers_of_thousands_of_digits_are_no_tensor_map(option: str) -> None:
    """Python refuses to read them, which is no defect of kerncast."""
    with pytest.raises(LaunchError, match="is no tensor map"):
        parse_value(f"tensormap(u32[8, 8, 16] zeros, {option.format('9' * 5000)})", "m", Path())
