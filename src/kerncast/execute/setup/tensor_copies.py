"""Copies that a single thread asks for: bytes in a row, and boxes of tensors (TMA), between global and shared memory.

They are done where they are issued. Both engines call this with the values of one thread's operands; whatever these
are, only bytes inside allocations and inside the cluster's shared memory are touched, and never more than these have.
Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.9.25 to 9.7.9.27; that pieces of 16 bytes are swizzled
by bits of the absolute shared address from the ISA's section on swizzling modes; columns of pixels from its section
5.5.4 (im2col mode).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import IllegalAddress, KernelFault
from kerncast.execute.setup.arena import (
    GLOBAL_BASE,
    PAGE_BITS,
    PAGE_BYTES,
    PARAMETER_WINDOW,
    WINDOW_BYTES,
    Arena,
    Touched,
)
from kerncast.execute.setup.cluster_addresses import OFFSET_MASK, RANK_SHIFT
from kerncast.launch import MAP_BYTES, TensorTiles, tiles_of
from kerncast.profiles import SECTOR_BYTES
from kerncast.ptx import Address, Instruction
from kerncast.ptx.tensor_layouts import PAIR

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]

_PIECE = 16
_TENSOR_ALIGNMENT = 128
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}
_DTYPES = {"u8": "u1", "u16": "u2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8", "f16": "f2", "f32": "f4",
           "f64": "f8", "bf16": "u2", "s32": "i4", "s64": "i8", "b32": "u4", "b64": "u8"}  # fmt: skip
_MOST_OFFSET = 1 << 62
#: No block has as much shared memory; a map in global memory may say anything.
_MOST_BOX_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """What the block of one thread sees of memory."""

    arena: Arena
    parameters: bytes
    shared: Callable[[int], Bytes | None]
    """shared memory of the block of a rank in the cluster; None where there is none"""
    thread: str
    """thread by its block and index, for messages"""
    complete: Callable[[int, int], None]
    """tells an mbarrier, by its shared address, that so many bytes have come"""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a copy touches of global memory: runs of bytes."""

    starts: Numbers
    """offset of each run in the arena"""
    nbytes: int
    """bytes of each"""
    shared_bytes: int
    """bytes that were read or written in shared memory"""


def is_issued_once(ins: Instruction) -> bool:
    """Return whether lanes of a warp that ask for the same copy get one.

    Machine code of a store is one instruction of the warp (``UTMASTG``, ``UBLKCP.G.S``), of what tells an mbarrier or
    adds a loop over its lanes. Source: nvJitLink 12.9 for sm_90a and sm_100a.
    """
    return ins.writes_global and "reduce" not in ins.opcode.name


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy by one thread."""

    ins: Instruction
    memory: BlockMemory

    def fault(self, what: str, cure: str = "Check the addresses, the sizes and the launch geometry.") -> KernelFault:
        return IllegalAddress(f"{self.ins.name} by {self.memory.thread} {what}", where=self.ins.where, cure=cure)

    def in_shared(self, address: int, nbytes: int, alignment: int = _PIECE) -> tuple[Bytes, int]:
        """Return the shared memory that an address lies in, and the offset there; checked."""
        rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
        found = self.memory.shared(rank)
        if found is None or offset + nbytes > len(found):
            room = "no block of the cluster" if found is None else f"{len(found)} bytes of shared memory"
            raise self.fault(f"is out of bounds: {nbytes} bytes at {offset:#x} of {room}")
        if offset % alignment:
            raise self.fault(f"is misaligned: shared address {offset:#x} is no multiple of {alignment}")
        return found, offset

    def check_global(self, starts: Numbers, nbytes: int) -> None:
        bad = self.memory.arena.outside(starts, nbytes) if len(starts) else starts
        if len(bad):
            address = GLOBAL_BASE + int(starts[bad[0]])
            where = self.memory.arena.describe(address)
            raise self.fault(f"is out of bounds: {nbytes} bytes of global memory at {address:#x}, {where}")


def moves(ins: Instruction, values: Sequence[Sequence[int]], memory: BlockMemory) -> Moved:
    """Run a copy and return what it touched; ``values`` has the numbers of each operand, of addresses the first."""
    copy = _Copy(ins, memory)
    targets = _targets(ins, values)
    if "tensor" in ins.opcode.name:
        moved = _store_box(copy, values) if ins.writes_global else _load_box(copy, values, targets)
    elif ins.writes_global:
        moved = _store_row(copy, values)
    else:
        moved = _load_row(copy, values, targets)
    if not ins.writes_global:
        barrier = values[_barrier(ins)][0]
        for rank in targets:
            memory.complete(_elsewhere(barrier, _told(ins, barrier, rank)), moved.shared_bytes)
    return moved


def _told(ins: Instruction, barrier: int, rank: int | None) -> int | None:
    """Return the rank of the block that is told of bytes for the block of a rank.

    Of each pair of blocks it is the one whose rank is even, or odd, as that in the address of the mbarrier.
    """
    return rank if rank is None or PAIR not in ins.modifiers else rank & ~1 | barrier >> RANK_SHIFT & 1


def _barrier(ins: Instruction) -> int:
    """Return the position of the last address: that of the mbarrier which is told."""
    return max(n for n, operand in enumerate(ins.operands) if isinstance(operand, Address))


def _targets(ins: Instruction, values: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the ranks of the blocks that a load writes to; None is the one that the address names."""
    if "multicast::cluster" not in ins.modifiers:
        return [None]
    mask = values[-1][0]
    return [number for number in range(16) if mask >> number & 1]


def _elsewhere(address: int, rank: int | None) -> int:
    return address if rank is None else address & OFFSET_MASK | rank << RANK_SHIFT


def _load_row(copy: _Copy, values: Sequence[Sequence[int]], targets: list[int | None]) -> Moved:
    target, (source, *_), size = values[0][0], values[1], values[2][0]
    _check_size(copy, size)
    starts: Numbers = np.zeros(0, np.int64)
    if "global" in copy.ins.modifiers:
        starts = _row_start(copy, source, size)
        data = copy.memory.arena.data[int(starts[0]) : int(starts[0]) + size] if size else np.zeros(0, np.uint8)
    else:
        found, offset = copy.in_shared(source, size)
        data = found[offset : offset + size].copy()
    for rank in targets:
        found, offset = copy.in_shared(_elsewhere(target, rank), size)
        found[offset : offset + size] = data
    return Moved(starts if size else starts[:0], size, size)


def _store_row(copy: _Copy, values: Sequence[Sequence[int]]) -> Moved:
    (target, *_), (source, *_), size = values[0], values[1], values[2][0]
    _check_size(copy, size)
    starts = _row_start(copy, target, size)
    found, offset = copy.in_shared(source, size)
    if size:
        place = slice(int(starts[0]), int(starts[0]) + size)
        data = found[offset : offset + size]
        if copy.ins.root == "cp" and "reduce" in copy.ins.opcode.name:
            data = _reduced(copy, copy.ins.type, copy.memory.arena.data[place], data)
        copy.memory.arena.data[place] = data
    return Moved(starts if size else starts[:0], size, size)


def _check_size(copy: _Copy, size: int) -> None:
    if size % _PIECE:
        raise copy.fault(f"moves {size} bytes, no multiple of {_PIECE}")


def _row_start(copy: _Copy, address: int, size: int) -> Numbers:
    if address % _PIECE:
        raise copy.fault(f"is misaligned: global address {address:#x} is no multiple of {_PIECE}")
    offset = address - GLOBAL_BASE
    if not 0 <= offset < _MOST_OFFSET:
        raise copy.fault(f"is out of bounds: global address {address:#x}, {copy.memory.arena.describe(address)}")
    starts = np.array([offset], np.int64)
    if size:
        copy.check_global(starts, size)
    return starts


# Boxes of tensors.


@dataclass(frozen=True, slots=True)
class _Box:
    """The part of a box that lies inside its tensor."""

    tiles: TensorTiles
    rows: Numbers
    """rows of the box, as they follow one another in shared memory, that lie inside"""
    starts: Numbers
    """offset in the arena of the first byte of each of them that lies inside"""
    first: int
    """first byte of a row that lies inside"""
    nbytes: int
    """bytes of a row that do"""

    @property
    def row_bytes(self) -> int:
        return self.tiles.box[0] * self.tiles.element_bytes

    @property
    def row_count(self) -> int:
        return self.tiles.box_bytes // self.row_bytes


def _box(copy: _Copy, numbers: Sequence[int], values: Sequence[Sequence[int]]) -> _Box:
    """Return the box that the numbers of an operand name: the address of a map, then coordinates."""
    tiles = _tiles(copy, numbers[0])
    at = [(n + (1 << 31)) % (1 << 32) - (1 << 31) for n in numbers[1:]]
    modes = _OF_IMAGES.intersection(copy.ins.modifiers)
    if bool(modes) != (tiles.pixels is not None):
        kinds = ("of images (im2col)", "of tiles")
        raise copy.fault(f"finds a map {kinds[bool(modes)]}, where it takes one {kinds[not modes]}")
    if copy.ins.names_rows:
        return _four_rows(copy, tiles, at)
    if len(at) != len(tiles.shape):
        raise copy.fault(f"has {len(at)} coordinates for a map of {len(tiles.shape)} dimensions")
    if tiles.pixels is not None:
        has_offsets = "im2col" in copy.ins.modifiers
        return _column(copy, tiles, at, values[_barrier(copy.ins) + 1] if has_offsets else [0] * (len(at) - 2))
    first = max(0, -at[0])
    last = min(tiles.box[0], tiles.shape[0] - at[0])
    rows, places = np.zeros(1, np.int64), np.zeros(1, np.int64)
    step = 1
    for start, extent, box, stride in zip(at[1:], tiles.shape[1:], tiles.box[1:], tiles.strides, strict=True):
        inside = [n for n in range(box) if 0 <= start + n < extent]
        if inside and (start + inside[-1]) * stride >= _MOST_OFFSET:
            raise copy.fault("is out of bounds: a place in its map lies beyond all memory")
        rows = (np.array(inside, np.int64)[:, None] * step + rows).ravel()
        places = (np.array([(start + n) * stride for n in inside], np.int64)[:, None] + places).ravel()
        step *= box
    if last <= first:
        rows, places, last = rows[:0], places[:0], first
    size = tiles.element_bytes
    starts = places + (tiles.address - GLOBAL_BASE + (at[0] + first) * size)
    return _Box(tiles, rows, starts, first * size, (last - first) * size)


_OF_IMAGES = frozenset({"im2col", "im2col_no_offs"})


def _four_rows(copy: _Copy, tiles: TensorTiles, at: Sequence[int]) -> _Box:
    """Return four rows of a matrix as one box; the coordinates are the first column, then the rows."""
    if len(tiles.shape) != 2 or tiles.box[1] != 1:
        raise copy.fault("takes a map of two dimensions, whose box is one row")
    rows = np.array(at[1:], np.int64)
    return _pieces_of(copy, replace(tiles, box=(tiles.box[0], len(rows))), at[0], rows[:, None])


def _column(copy: _Copy, tiles: TensorTiles, at: Sequence[int], offsets: Sequence[int]) -> _Box:
    """Return the pixels under one place of a filter, as its corner moves over images: in W, H, D, then to the next one.

    The coordinates are the first channel, where the corner begins, and the first image.
    """
    pixels = tiles.pixels
    assert pixels is not None
    counts = pixels.counts(tiles.shape[1:-1])
    steps = [divmod(own - low, step) for own, low, step in zip(at[1:-1], pixels.lower, pixels.steps, strict=True)]
    for (number, left), count in zip(steps, counts, strict=True):
        if left or not 0 <= number < count:
            raise copy.fault("begins where its map lets no filter begin", "Begin at a place of the bounding box.")
    first = 0
    for (number, _), count in zip(reversed(steps), reversed(counts), strict=True):
        first = first * count + number
    numbers: Numbers = first + np.arange(tiles.box[1], dtype=np.int64)
    places = []
    for count, low, step, offset in zip(counts, pixels.lower, pixels.steps, offsets, strict=True):
        places.append(low + numbers % count * step + (offset & 0xFFFF))
        numbers = numbers // count
    return _pieces_of(copy, tiles, at[0], np.stack([*places, at[-1] + numbers], axis=1))


def _pieces_of(copy: _Copy, tiles: TensorTiles, column: int, places: Numbers) -> _Box:
    """Return a box of one row for each place; places are [rows, dimensions but the innermost]."""
    first, last = max(0, -column), min(tiles.box[0], tiles.shape[0] - column)
    inside = np.all((places >= 0) & (places < np.array(tiles.shape[1:], np.int64)), axis=1) & (last > first)
    rows = np.flatnonzero(inside)
    ends = places[rows].max(axis=0, initial=0).tolist()
    if sum(end * stride for end, stride in zip(ends, tiles.strides, strict=True)) >= _MOST_OFFSET:
        raise copy.fault("is out of bounds: a place in its map lies beyond all memory")
    size = tiles.element_bytes
    starts = places[rows] @ np.array(tiles.strides, np.int64) + (tiles.address - GLOBAL_BASE + (column + first) * size)
    return _Box(tiles, rows, starts, first * size, max(0, last - first) * size)


def _tiles(copy: _Copy, address: int) -> TensorTiles:
    """Return the map at an address: in a kernel parameter, or in global memory."""
    data = b""
    if 0 <= (place := address - PARAMETER_WINDOW) < WINDOW_BYTES:
        data = copy.memory.parameters[place : place + MAP_BYTES]
    elif address >= GLOBAL_BASE and not len(copy.memory.arena.outside(np.array([address - GLOBAL_BASE]), MAP_BYTES)):
        data = copy.memory.arena.data[address - GLOBAL_BASE :][:MAP_BYTES].tobytes()
    tiles = tiles_of(data) if len(data) == MAP_BYTES else None
    if tiles is None:
        cure = "Give the kernel a tensor map (docs/launch-file.md), as a __grid_constant__ parameter."
        raise copy.fault(f"finds no tensor map at {address:#x}", cure)
    if tiles.box_bytes > _MOST_BOX_BYTES:
        raise copy.fault(f"is out of bounds: a box of {tiles.box_bytes} bytes is more than any shared memory holds")
    return tiles


def _pieces(box: _Box, address: int) -> Numbers:
    """Return [rows, pieces of a row] which pieces of 16 bytes, counted from the start of shared memory, a box fills."""
    across = box.row_bytes // _PIECE
    plain = address // _PIECE + np.arange(box.row_count)[:, None] * across + np.arange(across)
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[box.tiles.swizzle]
    return np.asarray(plain ^ (plain >> 3 & mask), np.int64)


def _in_pieces(copy: _Copy, box: _Box, address: int) -> tuple[AnyArray, Numbers]:
    """Return shared memory as pieces of 16 bytes, and which of them a box fills."""
    found, offset = copy.in_shared(address, box.tiles.box_bytes, _TENSOR_ALIGNMENT)
    chosen = _pieces(box, offset)
    whole = found[: len(found) // _PIECE * _PIECE].reshape(-1, _PIECE)
    if chosen.size and int(chosen.max()) >= len(whole):  # a swizzle may reach beyond a box that ends amid its pattern
        raise copy.fault("is out of bounds: its swizzle leaves shared memory")
    return whole, chosen


def _load_box(copy: _Copy, values: Sequence[Sequence[int]], targets: list[int | None]) -> Moved:
    box = _box(copy, values[1], values)
    places = [_in_pieces(copy, box, _elsewhere(values[0][0], rank)) for rank in targets]
    copy.check_global(box.starts, max(box.nbytes, 1))
    tile = _empty(box)
    if len(box.rows):
        tile[box.rows, box.first : box.first + box.nbytes] = _rows_of(copy, box)
    for whole, chosen in places:
        whole[chosen] = tile.reshape(*chosen.shape, _PIECE)
    return Moved(box.starts, box.nbytes, box.tiles.box_bytes)


def _empty(box: _Box) -> Bytes:
    tile = np.zeros((box.row_count, box.row_bytes), np.uint8)
    if box.tiles.fills_nan and box.tiles.element in _NAN:
        size = box.tiles.element_bytes
        tile.view(f"u{size}")[:] = _NAN[box.tiles.element]
    return tile


def _rows_of(copy: _Copy, box: _Box) -> Bytes:
    return np.asarray(copy.memory.arena.data[box.starts[:, None] + np.arange(box.nbytes)], np.uint8)


def _store_box(copy: _Copy, values: Sequence[Sequence[int]]) -> Moved:
    box = _box(copy, values[0], values)
    whole, chosen = _in_pieces(copy, box, values[1][0])
    copy.check_global(box.starts, max(box.nbytes, 1))
    if len(box.rows):
        tile = np.ascontiguousarray(whole[chosen]).reshape(box.row_count, box.row_bytes)
        data = np.ascontiguousarray(tile[box.rows, box.first : box.first + box.nbytes])
        if "reduce" in copy.ins.opcode.name:
            data = _reduced(copy, box.tiles.element, _rows_of(copy, box), data)
        copy.memory.arena.data[box.starts[:, None] + np.arange(box.nbytes)] = data
    return Moved(box.starts, box.nbytes, box.tiles.box_bytes)


_UFUNCS: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
                           "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip


def _reduced(copy: _Copy, element: str, old: Bytes, new: Bytes) -> Bytes:
    """Return what a reduction leaves."""
    name = next(m for m in copy.ins.modifiers if m in _UFUNCS)
    dtype = np.dtype(_DTYPES[element])
    one, other = (np.ascontiguousarray(each).view(dtype) for each in (old, new))
    if element == "bf16" and name in {"add", "min", "max"}:
        wide = _UFUNCS[name](*((each.astype(np.uint32) << 16).view(np.float32) for each in (one, other)))
        bits = wide.view(np.uint32)
        rounded = bits + 0x7FFF + (bits >> 16 & 1)
        return np.asarray((np.where(np.isnan(wide), 0x7FFF0000, rounded) >> 16).astype(np.uint16)).view(np.uint8)
    if dtype.kind == "f" and name in {"and", "or", "xor"}:
        raise copy.fault(f"combines bits of {element}")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(_UFUNCS[name](one, other).astype(dtype)).view(np.uint8)


def touched_sectors(moved: Moved) -> tuple[Numbers, Numbers]:
    """Return the 32-byte sectors of global memory that a copy touches, and the 128-byte lines, each once."""
    if not moved.nbytes or not len(moved.starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    most = (moved.nbytes + 62) // 32
    first = moved.starts // 32
    every = first[:, None] + np.arange(most)
    sectors = np.unique(every[every <= ((moved.starts + moved.nbytes - 1) // 32)[:, None]])
    return sectors, np.unique(sectors >> 2)


def touch(touched: Touched, sectors: Numbers, *, reads: bool, writes: bool) -> None:
    """Mark sectors of global memory as read or written, where such marks are kept: a running program has none."""
    sectors = sectors[sectors < len(touched.read)]
    pages = sectors // (PAGE_BYTES // SECTOR_BYTES)
    if reads:
        touched.read[sectors] = True
        touched.pages[pages] |= PAGE_BITS["read"]
    if writes:
        touched.written[sectors] = 0xFF
        touched.pages[pages] |= PAGE_BITS["written"]
