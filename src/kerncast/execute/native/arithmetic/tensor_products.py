"""Products of matrices whose sums lie in tensor memory: ``tcgen05.mma``, which one thread issues for the block.

A is in shared or tensor memory, B in shared memory. Sums are those of ``wgmma``: a vector of 16 lanes for each column.
What the instruction descriptor may say is known when the kernel runs only, and is checked there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.execute.native.arithmetic.group_products import numbers_of
from kerncast.execute.native.block import Operation
from kerncast.execute.native.ir import LANES, WORKER, Emitter, Unit, Value, field, integer
from kerncast.execute.native.memory.access import POINTERS, SITE
from kerncast.execute.native.memory.banks import record_change
from kerncast.execute.native.memory.descriptors import ROW_BYTES, Tile, copy_tile, from_tensor_descriptor
from kerncast.execute.native.memory.tensor_memory import (
    COLUMN_BYTES,
    LANE,
    check_columns,
    leave_if,
    place_of,
    pointers_of,
)
from kerncast.execute.native.memory.transfer import address_of
from kerncast.ptx import Address, Immediate, Operand, Vector
from kerncast.ptx.tensor_layouts import KINDS, Kind
from kerncast.traces import EventChange

_ROWS = 16
"""rows of A that are multiplied together"""
_COLUMNS = 8
"""columns of the sums that are computed together"""
_MOST_ROWS, _MOST_COLUMNS = 128, 256
_MASK, _ADDS, _FLAGS = Value("%mask", "i32"), Value("%adds", "i32"), Value("%flags", "i32")
_IN_TENSOR_MEMORY, _KEEPS_LANES, _SCALE_SHIFT = 1, 2, 8
#: Where the operands of all lanes lie in the worker's ``tile``.
_D_AT, _DESCRIPTOR_AT, _A_AT, _B_AT, _SCALES_AT, _KEPT_AT = 0, 128, 256, 512, (768, 896), 1024
_COLUMN = f"<{_ROWS} x float>"


@dataclass(frozen=True, slots=True)
class _Issue:
    """One product in the making: the operands of one lane."""

    emit: Emitter
    kind: Kind
    name: str
    d: Value
    a: Value
    b: Value
    scales: tuple[Value, Value]
    descriptor: Value
    adds: Value
    """whether the sums go on"""
    flags: Value

    @property
    def element(self) -> str:
        """Type of a sum while it is computed."""
        return "i32" if 2 in self.kind.totals else "float"

    @property
    def column(self) -> str:
        """Type of 16 sums of one column."""
        return f"<{_ROWS} x {self.element}>"

    def bits(self, shift: int, mask: int) -> Value:
        """Return a part of the instruction descriptor."""
        return self.emit.and_(self.emit.lshr(self.descriptor, shift), mask)

    def has(self, flag: int) -> Value:
        """Return whether a flag is set."""
        return self.emit.compare("ne", self.emit.and_(self.flags, flag), 0)

    @property
    def rows(self) -> Value:
        """Rows of A and of the sums: 64 or 128."""
        return integer("i32", _MOST_ROWS) if self.kind.is_scaled else self.emit.shl(self.bits(24, 31), 4)

    @property
    def columns(self) -> Value:
        """Columns of the sums."""
        return self.emit.shl(self.bits(17, 63), 3)


def multiply(o: Operation, number: int) -> None:
    """Write tcgen05.mma; ``number`` is that of the instruction."""
    emit, block = o.emit, o.block
    name = next(m for m in o.ins.modifiers if m in KINDS)
    function = "tensor_product_" + name.removeprefix("kind::")
    emit.unit.borrow(function, lambda unit: _define(unit, function, KINDS[name]))
    d, a, b, descriptor, *others = o.ins.operands
    for operand, at, wide in ((d, _D_AT, 32), (a, _A_AT, 64), (b, _B_AT, 64), (descriptor, _DESCRIPTOR_AT, 32)):
        _keep(o, operand, at, wide)
    for place, scale in zip(_SCALES_AT, (each for each in others if isinstance(each, Address)), strict=False):
        _keep(o, scale, place, 32)
    flags = _IN_TENSOR_MEMORY * isinstance(a, Address)
    for lanes in (each for each in others if isinstance(each, Vector)):
        flags |= _KEEPS_LANES
        for place, each in enumerate(lanes.elements):
            _keep(o, each, _KEPT_AT + 4 * LANES * place, 32)
    adds, *rest = (each for each in others if not isinstance(each, Address | Vector))
    flags |= sum(each.value for each in rest if isinstance(each, Immediate)) << _SCALE_SHIFT
    enabled = emit.mask_bits(block.source(adds, "pred"))
    arguments = (*pointers_of(o), integer("i32", number), block.executing, enabled, integer("i32", flags))
    emit.call_void(function, *arguments)
    _record(o, number, KINDS[name])


def _record(o: Operation, number: int, kind: Kind) -> None:
    """Write the event of each product: its shape is known when the kernel runs only."""
    emit = o.emit
    tile = emit.at(field(emit, o.block.pointers.worker, WORKER, "tile"), _DESCRIPTOR_AT)
    with emit.each_bit(o.block.executing) as lane:
        descriptor = emit.cast("zext", emit.load(emit.index(tile, "i32", lane), "i32"), "i64")
        columns = emit.shl(emit.and_(emit.lshr(descriptor, 17), 63), 3)
        rows = emit.shl(emit.and_(emit.lshr(descriptor, 24), 31), 4)
        shape = (integer("i64", _MOST_ROWS) if kind.is_scaled else rows, columns)
        record_change(emit, EventChange.PRODUCT, shape, integer("i32", number))


def _keep(o: Operation, operand: Operand, at: int, wide: int) -> None:
    """Write an operand of all lanes, or the addresses that it holds, to the worker's ``tile``."""
    value = address_of(o, operand) if isinstance(operand, Address) else o.block.source(operand, f"b{wide}")
    tile = field(o.emit, o.block.pointers.worker, WORKER, "tile")
    o.emit.store(o.emit.resize(value, f"i{wide}"), o.emit.at(tile, at), 64)


def _define(unit: Unit, name: str, kind: Kind) -> None:
    """Write the function for the products of a kind: of each lane that issues one, the lowest first."""
    one = f"{name}_one"
    _define_one(unit, one, kind)
    emit = Emitter(unit, name, "void", [*POINTERS, SITE, _MASK, _ADDS, _FLAGS])
    tile = field(emit, POINTERS[0], WORKER, "tile")
    with emit.each_bit(_MASK) as lane:
        narrow = (
            emit.load(emit.index(emit.at(tile, at), "i32", lane), "i32") for at in (_D_AT, _DESCRIPTOR_AT, *_SCALES_AT)
        )
        wide = (emit.load(emit.index(emit.at(tile, at), "i64", lane), "i64") for at in (_A_AT, _B_AT))
        adds = emit.cast("trunc", emit.lshr(_ADDS, lane), "i1")
        done = emit.call(one, "i1", *POINTERS, SITE, lane, *narrow, *wide, adds, _FLAGS)
        stop = emit.fresh("stop")
        on = emit.fresh("on")
        emit.branch(done, on, stop)
        emit.label(stop)
        emit.give()
        emit.label(on)
    emit.give()
    emit.finish(public=True)


def _define_one(unit: Unit, name: str, kind: Kind) -> None:
    names = ("d", "descriptor", "scale_a", "scale_b")
    narrow = [Value(f"%{each}", "i32") for each in names]
    wide = [Value("%a", "i64"), Value("%b", "i64")]
    adds = Value("%adds", "i1")
    emit = Emitter(unit, name, "i1", [*POINTERS, SITE, LANE, *narrow, *wide, adds, _FLAGS])
    d, descriptor, *scales = narrow
    issue = _Issue(emit, kind, name, d, wide[0], wide[1], (scales[0], scales[1]), descriptor, adds, _FLAGS)
    _check(issue)
    base = emit.lshr(d, 16)
    lowest = emit.select(emit.compare("eq", issue.rows, _MOST_ROWS), base, emit.and_(base, ~16))
    leave_if(emit, emit.compare("ne", lowest, 0), ("lanes", base), "i1")
    check_columns(emit, d, issue.columns)
    for place, count in zip(issue.scales if kind.is_scaled else (), (issue.rows, issue.columns), strict=False):
        check_columns(emit, emit.and_(place, 0xFFFF), emit.lshr(emit.add(count, 31), 5))
    raw_a, raw_b = (
        emit.allocate(f"[{_MOST_ROWS * ROW_BYTES} x i8]"),
        emit.allocate(f"[{_MOST_COLUMNS * ROW_BYTES} x i8]"),
    )
    _fetch(issue, raw_a, raw_b, base)
    size = 4 * kind.k
    rows, left = (emit.allocate(f"[{_MOST_ROWS * size} x i8]") for _ in range(2))
    right = emit.allocate(f"[{_MOST_COLUMNS * size} x i8]")
    _decode(issue, issue.bits(7, 7), (raw_a, rows), issue.rows)
    _decode(issue, issue.bits(10, 7), (raw_b, right), issue.columns)
    _turn(issue, rows, left)
    _sum_up(issue, left, right, base)
    emit.give(integer("i1", 1))
    emit.finish()


def _check(issue: _Issue) -> None:
    """Write the return where the instruction descriptor says something that is not executed."""
    emit, kind = issue.emit, issue.kind
    good = emit.compare("eq", issue.bits(2, 1), 0)
    for shift in (7, 10):
        good = emit.and_(good, _is_one_of(emit, issue.bits(shift, 7), kind.formats))
    if kind.is_scaled:
        good = emit.and_(good, emit.compare("eq", issue.bits(27, 3), 1))
        good = emit.and_(good, emit.compare("eq", issue.bits(23, 1), 1))
    else:
        good = emit.and_(good, _is_one_of(emit, issue.bits(24, 31), (4, 8)))
        good = emit.and_(good, _is_one_of(emit, issue.bits(4, 3), kind.totals))
    n = issue.columns
    good = emit.and_(good, emit.compare("ule", emit.sub(n, _COLUMNS), _MOST_COLUMNS - _COLUMNS))
    if kind.k < _ROWS:  # TF32 needs a swizzle of its own
        good = emit.and_(good, emit.compare("eq", issue.bits(15, 3), 0))
    leave_if(emit, emit.not_(good), ("format", issue.descriptor), "i1")


def _is_one_of(emit: Emitter, value: Value, numbers: Iterable[int]) -> Value:
    found = integer("i1", 0)
    for number in numbers:
        found = emit.or_(found, emit.compare("eq", value, number))
    return found


def _fetch(issue: _Issue, raw_a: Value, raw_b: Value, base: Value) -> None:
    """Write the copies of A and B, row after row."""
    emit = issue.emit
    near, far, after = emit.fresh("near"), emit.fresh("far"), emit.fresh("after")
    emit.branch(issue.has(_IN_TENSOR_MEMORY), near, far)
    emit.label(near)
    address = emit.cast("trunc", issue.a, "i32")
    leave_if(emit, emit.compare("ne", emit.lshr(address, 16), base), ("lanes", emit.lshr(address, 16)), "i1")
    check_columns(emit, address, integer("i32", ROW_BYTES // 4))
    start = place_of(emit, address, integer("i32", 0))
    with emit.count_up(issue.rows) as row:
        lane = emit.cast("zext", _lane_of(issue, row, base), "i64")
        to = emit.at(raw_a, emit.mul(emit.cast("zext", row, "i64"), ROW_BYTES))
        for column in range(ROW_BYTES // 4):
            word = emit.at(start, emit.add(emit.mul(lane, 4), COLUMN_BYTES * column))
            emit.store(emit.load(word, "i32"), emit.at(to, 4 * column))
    emit.go(after)
    emit.label(far)
    _copy(issue, issue.a, (issue.rows, issue.bits(15, 1)), raw_a)
    emit.go(after)
    emit.label(after)
    _copy(issue, issue.b, (issue.columns, issue.bits(16, 1)), raw_b)


def _copy(issue: _Issue, descriptor: Value, shape: tuple[Value, Value], to: Value) -> None:
    emit = issue.emit
    rows, turned = shape
    plain = from_tensor_descriptor(emit, descriptor, LANE, "i1")
    none = integer("i1", 0)
    tile = Tile(plain, integer("i32", 0), emit.lshr(rows, 3), emit.compare("ne", turned, 0), none)
    is_whole = copy_tile(emit, tile, to, LANE, of_bytes=issue.kind.k == ROW_BYTES)
    leave_if(emit, emit.not_(is_whole), None, "i1")


def _lane_of(issue: _Issue, row: Value, base: Value) -> Value:
    """Return the lane of a row: 64 rows lie in 16 lanes of each 32."""
    emit = issue.emit
    spread = emit.add(emit.add(emit.and_(row, 15), emit.shl(emit.lshr(row, 4), 5)), base)
    return emit.select(emit.compare("eq", issue.rows, _MOST_ROWS), row, spread)


def _decode(issue: _Issue, form: Value, places: tuple[Value, Value], rows: Value) -> None:
    """Write the loops that make numbers of 32 bits of rows, one loop for each format."""
    emit, kind = issue.emit, issue.kind
    raw, to = places
    turns = emit.lshr(emit.mul(emit.cast("zext", rows, "i64"), kind.k), 5)
    source_bytes = ROW_BYTES * LANES // kind.k
    for number, name in kind.formats.items():
        with emit.when(emit.compare("eq", form, number)), emit.count_up(turns) as turn:
            found = numbers_of(emit, name, emit.at(raw, emit.mul(turn, source_bytes)))
            emit.store(found, emit.at(to, emit.mul(turn, 4 * LANES)), 64)


def _turn(issue: _Issue, rows: Value, left: Value) -> None:
    """Write the loops that lay 16 rows of A side by side, and negate them if need be."""
    emit, kind = issue.emit, issue.kind
    negates = emit.compare("ne", emit.and_(emit.xor(issue.bits(13, 1), issue.bits(14, 1)), 1), 0)
    sign = emit.select(negates, integer("i32", -(1 << 31)), integer("i32", 0))
    if issue.element == "i32":
        sign = integer("i32", 0)
    with emit.count_up(emit.cast("zext", issue.rows, "i64")) as row, emit.count_up(integer("i64", kind.k)) as step:
        one = emit.load(emit.index(rows, "i32", emit.add(emit.mul(row, kind.k), step)), "i32")
        block = emit.mul(emit.lshr(row, 4), _ROWS * kind.k)
        at = emit.add(emit.add(block, emit.mul(step, _ROWS)), emit.and_(row, _ROWS - 1))
        emit.store(emit.xor(one, sign), emit.index(left, "i32", at))


def _sum_up(issue: _Issue, left: Value, right: Value, base: Value) -> None:
    """Write the loops over 16 rows and over 8 columns."""
    emit, kind = issue.emit, issue.kind
    with emit.count_up(emit.lshr(issue.rows, 4)) as part:
        lane = _lane_of(issue, emit.shl(part, 4), base)
        start = place_of(emit, issue.d, lane)
        own = emit.at(left, emit.mul(emit.cast("zext", part, "i64"), 4 * _ROWS * kind.k))
        kept = _kept_lanes(issue, lane)
        scale = _scale_of_rows(issue, lane) if kind.is_scaled else None
        with emit.count_up(emit.lshr(emit.cast("zext", issue.columns, "i64"), 3)) as group:
            places = [emit.at(start, emit.mul(emit.add(emit.shl(group, 3), n), COLUMN_BYTES)) for n in range(_COLUMNS)]
            factors = emit.at(right, emit.mul(group, 4 * _COLUMNS * kind.k))
            before = [_before(issue, place) for place in places]
            begins_anew = kind.is_scaled or issue.element == "i32"
            sums = [Value("zeroinitializer", issue.column)] * _COLUMNS if begins_anew else list(before)
            for step in range(kind.k):
                a = emit.load(emit.at(own, 4 * _ROWS * step), issue.column, 64)
                for column in range(_COLUMNS):
                    one = emit.load(emit.at(factors, 4 * (column * kind.k + step)), issue.element)
                    sums[column] = _accumulated(issue, a, _spread(issue, one), sums[column])
            for column, place in enumerate(places):
                total = sums[column]
                if issue.element == "i32":
                    total = _whole(issue, before[column], total)
                elif scale is not None:
                    number = emit.add(emit.shl(emit.cast("trunc", group, "i32"), 3), column)
                    total = _scaled(issue, before[column], total, (scale, _scale_of_column(issue, number)))
                _store(issue, total, place, kept)


def _spread(issue: _Issue, one: Value) -> Value:
    emit, wide = issue.emit, f"<{_ROWS} x {one.type}>"
    first = emit.op(f"insertelement {wide} poison, {one.typed}, i64 0", wide)
    return emit.op(f"shufflevector {first.typed}, {wide} poison, <{_ROWS} x i32> zeroinitializer", wide)


def _accumulated(issue: _Issue, a: Value, b: Value, total: Value) -> Value:
    emit = issue.emit
    if issue.element == "float":
        return emit.call(f"llvm.fma.v{_ROWS}f32", issue.column, a, b, total)
    return emit.add(total, emit.mul(a, b))


def _before(issue: _Issue, place: Value) -> Value:
    """Return the sums so far, scaled if need be, or zeros."""
    emit = issue.emit
    words = emit.load(place, f"<{_ROWS} x i32>", 64)
    if issue.element == "i32":
        return emit.select(issue.adds, words, Value("zeroinitializer", words.type))
    found = emit.op(f"bitcast {words.typed} to {_COLUMN}", _COLUMN)
    if "f16" in issue.kind.totals.values():
        halves = emit.op(f"trunc {words.typed} to <{_ROWS} x i16>", f"<{_ROWS} x i16>")
        halves = emit.op(f"bitcast {halves.typed} to <{_ROWS} x half>", f"<{_ROWS} x half>")
        wide = emit.op(f"fpext {halves.typed} to {_COLUMN}", _COLUMN)
        found = emit.select(_is_half(issue), wide, found)
    exponent = emit.sub(integer("i32", 127), emit.and_(emit.lshr(issue.flags, _SCALE_SHIFT), 15))
    factor = emit.cast("bitcast", emit.shl(exponent, 23), "float")
    scaled = emit.binary("fmul", found, _spread(issue, factor))
    return emit.select(issue.adds, scaled, Value("zeroinitializer", _COLUMN))


def _is_half(issue: _Issue) -> Value:
    return issue.emit.compare("eq", issue.bits(4, 3), 0)


def _whole(issue: _Issue, before: Value, total: Value) -> Value:
    emit = issue.emit
    saturated = emit.call(f"llvm.sadd.sat.v{_ROWS}i32", issue.column, before, total)
    return emit.select(emit.compare("ne", issue.bits(3, 1), 0), saturated, emit.add(before, total))


def _store(issue: _Issue, total: Value, place: Value, kept: Value) -> None:
    emit = issue.emit
    words = (
        total if issue.element == "i32" else emit.op(f"bitcast {total.typed} to <{_ROWS} x i32>", f"<{_ROWS} x i32>")
    )
    if "f16" in issue.kind.totals.values():
        halves = emit.op(f"fptrunc {total.typed} to <{_ROWS} x half>", f"<{_ROWS} x half>")
        bits = emit.op(f"bitcast {halves.typed} to <{_ROWS} x i16>", f"<{_ROWS} x i16>")
        narrow = emit.op(f"zext {bits.typed} to <{_ROWS} x i32>", f"<{_ROWS} x i32>")
        words = emit.select(_is_half(issue), narrow, words)
    old = emit.load(place, f"<{_ROWS} x i32>", 64)
    emit.store(emit.select(kept, old, words), place, 64)


def _kept_lanes(issue: _Issue, lane: Value) -> Value:
    """Return which of 16 lanes of tensor memory keep what they have."""
    emit = issue.emit
    tile = emit.at(field(emit, POINTERS[0], WORKER, "tile"), _KEPT_AT)
    number = emit.add(emit.mul(emit.lshr(lane, 5), LANES), LANE)
    word = emit.lshr(emit.load(emit.index(tile, "i32", number), "i32"), emit.and_(lane, 16))
    word = emit.select(issue.has(_KEEPS_LANES), word, integer("i32", 0))
    return emit.op(f"bitcast i16 {emit.cast('trunc', word, 'i16').text} to <{_ROWS} x i1>", f"<{_ROWS} x i1>")


# Factors of 8 bits, each a power of two: that of a row r is in lane r modulo 32 of column r / 32.


def _scale_of_rows(issue: _Issue, lane: Value) -> Value:
    emit = issue.emit
    place = place_of(emit, emit.add(issue.scales[0], emit.lshr(lane, 5)), emit.and_(lane, 31))
    words = emit.load(place, f"<{_ROWS} x i32>", 64)
    shift = emit.shl(issue.bits(29, 3), 3)
    return _power(emit, emit.and_(emit.lshr(words, _spread(issue, shift)), 0xFF), _COLUMN)


def _scale_of_column(issue: _Issue, number: Value) -> Value:
    emit = issue.emit
    place = place_of(emit, emit.add(issue.scales[1], emit.lshr(number, 5)), emit.and_(number, 31))
    byte = emit.and_(emit.lshr(emit.load(place, "i32"), emit.shl(issue.bits(4, 3), 3)), 0xFF)
    return _spread(issue, _power(emit, byte, "float"))


def _power(emit: Emitter, exponent: Value, kind: str) -> Value:
    """Return 2 ** (exponent - 127): the least is subnormal, and 255 is not a number."""
    bits = emit.shl(exponent, 23)
    bits = emit.select(emit.compare("eq", exponent, 0), integer(bits.type, 0x00400000), bits)
    bits = emit.select(emit.compare("eq", exponent, 255), integer(bits.type, 0x7FC00000), bits)
    return emit.op(f"bitcast {bits.typed} to {kind}", kind)


def _scaled(issue: _Issue, before: Value, total: Value, scales: tuple[Value, Value]) -> Value:
    emit = issue.emit
    whole = emit.binary("fmul", emit.binary("fmul", total, scales[0]), scales[1])
    return emit.binary("fadd", before, whole)
