"""Tiles of shared memory that a descriptor in a register describes, copied row after row.

All rows of a tile are 32 bytes long. In memory they lie in pieces of 16 bytes: 8 pieces of neighbouring rows, or of
neighbouring columns, are one above the other, and a swizzle exchanges pieces by bits of their addresses.
Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.15.5.1 (Shared Memory Matrix Layout).
"""

from dataclasses import dataclass, replace

from kerncast.execute.native.arithmetic.matrix_products import TRANSPOSED
from kerncast.execute.native.ir import FAULTS, WARP, WORKER, Emitter, Unit, Value, each_lane, get, integer
from kerncast.execute.native.memory.access import POINTERS, SITE, Fault, note_fault

ROW_BYTES = 32
_PIECE_BYTES = 16
_PIECES = 16
"""pieces of 8 rows"""
_GROUP_BYTES = _PIECES * _PIECE_BYTES
_ADDRESSES = f"<{_PIECES} x i32>"
_NAME = "copy_tile"
_LANE, _TO, _DESCRIPTOR = Value("%lane", "i32"), Value("%to", "ptr"), Value("%descriptor", "i64")
_FIRST, _COUNT = Value("%first", "i32"), Value("%count", "i32")
_TURNED, _NARROW = Value("%turned", "i1"), Value("%narrow", "i1")


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a tile, in groups of 8 rows."""

    descriptor: Value
    first: Value
    count: Value
    is_turned: Value
    """whether neighbouring rows lie beside one another instead of neighbouring columns"""
    is_narrow: Value
    """whether rows have 16 bytes: what follows them is copied twice"""
    of_bytes: bool = False
    """whether the numbers of a turned tile have 8 bits, not 16"""
    warp: Value = POINTERS[1]
    """a warp of the block in whose shared memory it lies"""


def copy_tile(emit: Emitter, tile: Tile, to: Value, lane: Value) -> Value:
    """Write a copy, row after row; gives whether all of it lies in shared memory. A fault is that of a lane."""
    name = f"{_NAME}_of_bytes" if tile.of_bytes else _NAME
    if name not in emit.unit:
        _define(emit.unit, name, of_bytes=tile.of_bytes)
    parts = (tile.descriptor, tile.first, tile.count, tile.is_turned, tile.is_narrow)
    return emit.call(name, "i1", POINTERS[0], tile.warp, SITE, lane, to, *parts)


def from_tensor_descriptor(emit: Emitter, descriptor: Value, lane: Value, result: str) -> Value:
    """Write the decoding of a descriptor for tensor memory as one of wgmma; other swizzles are a fault of a lane.

    The function that is being written returns then: 0, or nothing where it has no ``result``.
    """
    kind = emit.lshr(descriptor, 61)
    other = emit.or_(emit.and_(kind, 1), emit.and_(emit.lshr(descriptor, 52), 1))
    with emit.when(emit.compare("ne", other, 0)):
        note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["swizzle"]), SITE, lane, descriptor))
        emit.give(integer(result, 0) if result else None)
        emit.label(emit.fresh("unreached"))
    return emit.or_(emit.and_(descriptor, (1 << 46) - 1 | 7 << 49), emit.shl(emit.lshr(kind, 1), 62))


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a descriptor says, as far as it is the same for all groups of 8 rows."""

    offsets: Value
    """of each piece from the start of its group"""
    further: Value
    """of the pieces of columns 16 to 31, where the numbers of a turned tile are bytes"""
    start: Value
    outer: Value
    """bytes from one group to the next, or to the next that does not lie in the same stretch"""
    shift: Value
    """logarithm of the groups in a stretch"""
    swizzle: Value


def _define(unit: Unit, name: str, *, of_bytes: bool) -> None:
    parameters = [*POINTERS, SITE, _LANE, _TO, _DESCRIPTOR, _FIRST, _COUNT, _TURNED, _NARROW]
    emit = Emitter(unit, name, "i1", parameters)
    turning = emit.allocate("<64 x i16>")
    layout = _layout(emit)
    memory = get(emit, POINTERS[1], WARP, "shared")
    size = get(emit, POINTERS[0], WORKER, "shared_bytes")
    with emit.count_up(_COUNT) as number:
        group = emit.add(number, _FIRST)
        # A piece of bytes has the numbers of 16 rows, which are two groups.
        place = emit.select(_TURNED, emit.lshr(group, 1), group) if of_bytes else group
        pieces = _pieces(emit, _addresses(emit, layout, place), (memory, size))
        to = emit.at(_TO, emit.mul(emit.cast("zext", number, "i64"), _GROUP_BYTES))
        with emit.when(_TURNED):
            if of_bytes:
                others = replace(layout, offsets=layout.further)
                pieces += _pieces(emit, _addresses(emit, others, place), (memory, size))
                _store_bytes(emit, pieces, to, emit.shl(emit.cast("zext", emit.and_(group, 1), "i64"), 3))
            else:
                _store_turned(emit, pieces, to, turning)
        with emit.when(emit.not_(_TURNED)):
            for number_of_piece, piece in enumerate(pieces[:_PIECES]):
                emit.store(emit.load(piece, "<16 x i8>", 1), emit.at(to, _PIECE_BYTES * number_of_piece), 1)
    emit.give(integer("i1", 1))
    emit.finish()


def _layout(emit: Emitter) -> _Layout:
    """Write the decoding of the descriptor."""
    low = emit.cast("trunc", _DESCRIPTOR, "i32")
    high = emit.cast("trunc", emit.lshr(_DESCRIPTOR, 32), "i32")
    start, leading = (emit.shl(emit.and_(part, 0x3FFF), 4) for part in (low, emit.lshr(low, 16)))
    stride = emit.shl(emit.and_(high, 0x3FFF), 4)
    with emit.when(emit.compare("ne", emit.and_(high, 7 << 17), 0)):
        _reject(emit, "descriptor", _DESCRIPTOR)
    kind = emit.lshr(high, 30)
    is_plain = emit.compare("eq", kind, 0)
    swizzle = emit.select(is_plain, integer("i32", 0), emit.sub(emit.lshr(integer("i32", 16), kind), 1))
    shift = emit.select(is_plain, integer("i32", 0), emit.sub(integer("i32", 4), kind))
    width = emit.shl(integer("i32", _PIECE_BYTES), shift)
    # Without a swizzle the two distances of a turned tile mean each other's.
    across = emit.select(is_plain, leading, stride)
    step = emit.select(_TURNED, across, emit.select(is_plain, leading, integer("i32", _PIECE_BYTES)))
    step = emit.select(_NARROW, integer("i32", 0), step)
    outer = emit.select(emit.and_(_TURNED, emit.not_(is_plain)), leading, stride)
    near, far = (
        emit.op(f"select {_TURNED.typed}, {_ADDRESSES} {a.text}, {_ADDRESSES} {b.text}", _ADDRESSES)
        for a, b in (
            (each_lane(_ADDRESSES, [n % 8 for n in range(_PIECES)]), each_lane(_ADDRESSES, _ROWS)),
            (each_lane(_ADDRESSES, [n // 8 for n in range(_PIECES)]), each_lane(_ADDRESSES, _HALVES)),
        )
    )
    offsets = emit.add(emit.mul(near, _spread(emit, width)), emit.mul(far, _spread(emit, step)))
    further = emit.add(offsets, _spread(emit, emit.shl(step, 1)))
    return _Layout(offsets, further, start, outer, emit.select(_TURNED, shift, integer("i32", 0)), swizzle)


_ROWS = [n // 2 for n in range(_PIECES)]
_HALVES = [n % 2 for n in range(_PIECES)]


def _addresses(emit: Emitter, layout: _Layout, group: Value) -> Value:
    """Return the addresses of the pieces of a group in shared memory: below 2 ** 24, whatever the descriptor says."""
    stretch = emit.lshr(group, layout.shift)
    within = emit.sub(group, emit.shl(stretch, layout.shift))
    base = emit.add(emit.add(layout.start, emit.mul(stretch, layout.outer)), emit.shl(within, 4))
    plain = emit.add(_spread(emit, base), layout.offsets)
    moved = emit.and_(emit.lshr(plain, 7), _spread(emit, layout.swizzle))
    return emit.xor(plain, emit.shl(moved, 4))


def _pieces(emit: Emitter, addresses: Value, memory: tuple[Value, Value]) -> list[Value]:
    """Return where pieces lie in the memory of this process, which is (start, bytes), once they are checked."""
    start, size = memory
    _check(emit, addresses, size)
    places = [emit.op(f"extractelement {addresses.typed}, i64 {n}", "i32") for n in range(_PIECES)]
    return [emit.at(start, emit.cast("zext", place, "i64")) for place in places]


def _store_bytes(emit: Emitter, pieces: list[Value], to: Value, half: Value) -> None:
    """Write one half of pieces of one column each as rows."""
    for column, piece in enumerate(pieces):
        eight = emit.load(emit.at(piece, half), "<8 x i8>", 1)
        for row in range(8):
            one = emit.op(f"extractelement {eight.typed}, i64 {row}", "i8")
            emit.store(one, emit.at(to, ROW_BYTES * row + column), 1)


def _check(emit: Emitter, addresses: Value, size: Value) -> None:
    """Write the return from the function where a piece lies outside of shared memory."""
    last = emit.call("llvm.vector.reduce.umax.v16i32", "i32", addresses)
    with emit.when(emit.compare("ugt", emit.add(last, _PIECE_BYTES), size)):
        _reject(emit, "tile", emit.cast("zext", last, "i64"))


def _reject(emit: Emitter, name: str, address: Value) -> None:
    note_fault(emit, POINTERS, Fault(integer("i32", FAULTS[name]), SITE, _LANE, address))
    emit.give(integer("i1", 0))
    emit.label(emit.fresh("unreached"))


def _store_turned(emit: Emitter, pieces: list[Value], to: Value, turning: Value) -> None:
    """Write pieces of one column each as rows: 8 x 8 numbers of 16 bits at a time."""
    for half in range(2):
        for place, piece in enumerate(pieces[8 * half : 8 * half + 8]):
            emit.store(emit.load(piece, "<16 x i8>", 1), emit.at(turning, _PIECE_BYTES * place), 16)
        whole = emit.load(turning, "<64 x i16>", 64)
        order = ", ".join(f"i32 {n}" for n in TRANSPOSED)
        turned = emit.op(f"shufflevector {whole.typed}, <64 x i16> poison, <64 x i32> <{order}>", whole.type)
        for row in range(8):
            part = ", ".join(f"i32 {n}" for n in range(8 * row, 8 * row + 8))
            eight = emit.op(f"shufflevector {turned.typed}, <64 x i16> poison, <8 x i32> <{part}>", "<8 x i16>")
            emit.store(eight, emit.at(to, ROW_BYTES * row + _PIECE_BYTES * half), 1)


def _spread(emit: Emitter, value: Value) -> Value:
    first = emit.op(f"insertelement {_ADDRESSES} poison, {value.typed}, i64 0", _ADDRESSES)
    return emit.op(f"shufflevector {first.typed}, {_ADDRESSES} poison, {_ADDRESSES} zeroinitializer", _ADDRESSES)
