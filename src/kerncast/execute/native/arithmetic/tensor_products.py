"""Products of matrices whose sums lie in tensor memory: ``tcgen05.mma``, which one thread issues for the block.

A is in shared or tensor memory, B in shared memory. Sums are those of ``wgmma``: a vector of 16 lanes for each column.
What the instruction descriptor may say is known when the kernel runs only, and is checked there. Two blocks of a pair
share a product: each has its rows of A and of the sums, and one half of the columns of B, which both read.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kerncast.execute.native.arithmetic.group_products import numbers_of
from kerncast.execute.native.block import I32, Operation
from kerncast.execute.native.ir import (
    BLOCK,
    LANES,
    WARP,
    WORKER,
    Emitter,
    Unit,
    Value,
    each_lane,
    field,
    get,
    integer,
    real,
    vector,
)
from kerncast.execute.native.memory.access import POINTERS, SITE
from kerncast.execute.native.memory.banks import record_change
from kerncast.execute.native.memory.descriptors import ROW_BYTES, Tile, copy_tile, from_tensor_descriptor
from kerncast.execute.native.memory.tensor_memory import (
    COLUMN_BYTES,
    LANE,
    blame_own,
    check_columns,
    check_partner,
    leave_if,
    pair_of,
    place_of,
    pointers_of,
)
from kerncast.execute.native.memory.transfer import address_of
from kerncast.ptx import Address, Immediate, Operand, Vector
from kerncast.ptx.tensor_layouts import (
    KINDS,
    MOST_SCALES,
    PADDED,
    PAIR,
    STATIONARY,
    STATIONARY_COLUMNS,
    STATIONARY_ROWS,
    Kind,
    kind_of,
)
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
_PIECE_BYTES = 16
#: Of FP32 bits of the fraction and the bias of the exponent; of E4M3 the same.
_FRACTION_BITS, _BIAS, _SMALL_FRACTION_BITS, _SMALL_BIAS = 23, 127, 3, 7


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
    is_paired: bool = False
    """whether two blocks share the product"""
    is_stationary: bool = False
    """whether B stays, which takes 32 rows of A as well"""

    @property
    def may_fold(self) -> bool:
        """Whether sums of fewer than 128 rows lie in parts, one below the other."""
        return self.is_paired or self.is_stationary

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
        """Rows of A and of the sums in one block: 64 or 128."""
        if self.kind.is_scaled:
            return integer("i32", _MOST_ROWS)
        return self.emit.shl(self.bits(24, 31), 3 if self.is_paired else 4)

    @property
    def columns(self) -> Value:
        """Columns of the sums."""
        return self.emit.shl(self.bits(17, 63), 3)

    @property
    def held(self) -> Value:
        """Columns of tensor memory that the sums take: parts of so many lie one below the other in all lanes."""
        if not self.may_fold:
            return self.columns
        return self.emit.lshr(self.emit.mul(self.columns, self.rows), 7)


def multiply(o: Operation, number: int) -> None:
    """Write tcgen05.mma; ``number`` is that of the instruction."""
    emit, block = o.emit, o.block
    kind, ways = kind_of(o.ins.modifiers), (o.has(PAIR), o.has(STATIONARY))
    assert kind is not None, o.ins.name
    name = next(m for m in o.ins.modifiers if m in KINDS)
    function = f"tensor_product_{name.removeprefix('kind::')}_{kind.scales}{'_pair' * ways[0]}{'_ws' * ways[1]}"
    emit.unit.borrow(function, lambda unit: _define(unit, function, kind, ways))
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
    _record(o, number, kind)


def _record(o: Operation, number: int, kind: Kind) -> None:
    """Write the event of each product: its shape is known when the kernel runs only.

    Of a pair, what one of its SMs reads of shared memory: its rows of A, and half of the columns.
    """
    emit = o.emit
    tile = emit.at(field(emit, o.block.pointers.worker, WORKER, "tile"), _DESCRIPTOR_AT)
    with emit.each_bit(o.block.executing) as lane:
        descriptor = emit.cast("zext", emit.load(emit.index(tile, "i32", lane), "i32"), "i64")
        columns = emit.shl(emit.and_(emit.lshr(descriptor, 17), 63), 3)
        rows = emit.shl(emit.and_(emit.lshr(descriptor, 24), 31), 4)
        rows = integer("i64", _MOST_ROWS) if kind.is_scaled else rows
        if o.has(PAIR):
            own, half = rows if kind.is_scaled else emit.lshr(rows, 1), emit.lshr(columns, 1)
            rows = emit.sub(emit.intrinsic("umax", own, half), half)
        shape = (rows, columns)
        record_change(emit, EventChange.PRODUCT, shape, integer("i32", number))


def _keep(o: Operation, operand: Operand, at: int, wide: int) -> None:
    """Write an operand of all lanes, or the addresses that it holds, to the worker's ``tile``."""
    value = address_of(o, operand) if isinstance(operand, Address) else o.block.source(operand, f"b{wide}")
    tile = field(o.emit, o.block.pointers.worker, WORKER, "tile")
    o.emit.store(o.emit.resize(value, f"i{wide}"), o.emit.at(tile, at), 64)


def _define(unit: Unit, name: str, kind: Kind, ways: tuple[bool, bool]) -> None:
    """Write the function for the products of a kind: of each lane that issues one, the lowest first.

    ``ways`` are whether two blocks share them, and whether B stays.
    """
    one, is_paired = f"{name}_one", ways[0]
    _define_one(unit, one, kind, ways)
    emit = Emitter(unit, name, "void", [*POINTERS, SITE, _MASK, _ADDS, _FLAGS])
    worker, warp = POINTERS
    tile = field(emit, worker, WORKER, "tile")
    with emit.each_bit(_MASK) as lane:
        narrow = [
            emit.load(emit.index(emit.at(tile, at), "i32", lane), "i32") for at in (_D_AT, _DESCRIPTOR_AT, *_SCALES_AT)
        ]
        wide = [emit.load(emit.index(emit.at(tile, at), "i64", lane), "i64") for at in (_A_AT, _B_AT)]
        adds = emit.cast("trunc", emit.lshr(_ADDS, lane), "i1")
        if is_paired:
            check_partner(emit, lane)
        for holder in pair_of(emit, warp) if is_paired else (warp,):
            done = emit.call(one, "i1", worker, holder, SITE, lane, *narrow, *wide, adds, _FLAGS)
            with emit.when(emit.not_(done)):
                if is_paired:
                    blame_own(emit)
                emit.give()
                emit.label(emit.fresh("unreached"))
    emit.give()
    emit.finish(public=True)


def _define_one(unit: Unit, name: str, kind: Kind, ways: tuple[bool, bool]) -> None:
    """Write the function for one product, or for what one block of a pair does of it: that of the warp."""
    names = ("d", "descriptor", "scale_a", "scale_b")
    narrow = [Value(f"%{each}", "i32") for each in names]
    wide = [Value("%a", "i64"), Value("%b", "i64")]
    adds = Value("%adds", "i1")
    emit = Emitter(unit, name, "i1", [*POINTERS, SITE, LANE, *narrow, *wide, adds, _FLAGS])
    d, descriptor, *scales = narrow
    places = (scales[0], scales[1])
    issue = _Issue(emit, kind, name, d, wide[0], wide[1], places, descriptor, adds, _FLAGS, *ways)
    _check(issue)
    base = emit.lshr(d, 16)
    lowest = base
    if not issue.may_fold:
        lowest = emit.select(emit.compare("eq", issue.rows, _MOST_ROWS), base, emit.and_(base, ~16))
    leave_if(emit, emit.compare("ne", lowest, 0), ("lanes", base), "i1")
    check_columns(emit, d, issue.held)
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
    blocks = 2 if issue.is_paired else 1
    if kind.is_scaled:
        good = emit.and_(good, emit.compare("eq", issue.bits(27, 3), blocks))
        if kind.scales < MOST_SCALES:  # powers of two
            good = emit.and_(good, emit.compare("eq", issue.bits(23, 1), 1))
        for shift in (4, 29):
            good = emit.and_(good, emit.compare("eq", issue.bits(shift, kind.scales - 1), 0))
    else:
        rows = [each // _ROWS for each in STATIONARY_ROWS] if issue.is_stationary else [4 * blocks, 8 * blocks]
        good = emit.and_(good, _is_one_of(emit, issue.bits(24, 31), rows))
        good = emit.and_(good, _is_one_of(emit, issue.bits(4, 3), kind.totals))
    n = issue.columns
    good = emit.and_(good, emit.compare("ule", emit.sub(n, _COLUMNS), _MOST_COLUMNS - _COLUMNS))
    good = emit.and_(good, emit.compare("eq", emit.and_(n, _COLUMNS * blocks - 1), 0))
    if issue.is_stationary:
        good = emit.and_(good, _is_one_of(emit, n, STATIONARY_COLUMNS))
    for kept in _forbidden(issue):
        good = emit.and_(good, emit.not_(kept))
    leave_if(emit, emit.not_(good), ("format", issue.descriptor), "i1")


def _forbidden(issue: _Issue) -> Iterable[Value]:
    """Give what may not be: tiles of some types that lie turned, or A in tensor memory where that is not known."""
    emit, kind = issue.emit, issue.kind
    in_memory = issue.has(_IN_TENSOR_MEMORY)
    for shift, turned in ((7, 15), (10, 16)):
        form, is_turned = issue.bits(shift, 7), emit.compare("ne", issue.bits(turned, 1), 0)
        narrow = _is_one_of(emit, form, (number for number, name in kind.formats.items() if name in PADDED))
        yield is_turned if kind.k not in {_ROWS, ROW_BYTES} else emit.and_(is_turned, narrow)
        if shift == 7:  # A
            yield emit.and_(in_memory, narrow)
    if issue.may_fold:
        yield emit.and_(in_memory, emit.compare("ne", issue.rows, _MOST_ROWS))


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
    if not issue.is_paired:
        _copy(issue, issue.b, (issue.columns, issue.bits(16, 1)), raw_b)
        return
    half = emit.lshr(issue.columns, 1)
    first, second = pair_of(emit, POINTERS[1])
    _copy(issue, issue.b, (half, issue.bits(16, 1)), raw_b, first)
    further = emit.at(raw_b, emit.mul(emit.cast("zext", half, "i64"), ROW_BYTES))
    _copy(issue, issue.b, (half, issue.bits(16, 1)), further, second)


def _copy(issue: _Issue, descriptor: Value, shape: tuple[Value, Value], to: Value, warp: Value = POINTERS[1]) -> None:
    """Write the copy of a tile from the shared memory of a warp's block."""
    emit = issue.emit
    rows, turned = shape
    plain = from_tensor_descriptor(emit, descriptor, LANE, "i1")
    none, of_bytes = integer("i1", 0), issue.kind.k == ROW_BYTES
    tile = Tile(plain, integer("i32", 0), emit.lshr(rows, 3), emit.compare("ne", turned, 0), none, of_bytes, warp)
    is_whole = copy_tile(emit, tile, to, LANE)
    leave_if(emit, emit.not_(is_whole), None, "i1")


def _lane_of(issue: _Issue, row: Value, base: Value) -> Value:
    """Return the lane of a row: 64 rows lie in 16 lanes of each 32, but in a pair of blocks or where B stays."""
    emit = issue.emit
    if issue.may_fold:
        return row
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
            found = _numbers(emit, kind, name, emit.at(raw, emit.mul(turn, source_bytes)))
            emit.store(found, emit.at(to, emit.mul(turn, 4 * LANES)), 64)


def _numbers(emit: Emitter, kind: Kind, name: str, place: Value) -> Value:
    """Return 32 numbers of a row: those of fewer than 8 bits are 16 in 16 bytes, or all bytes are full of them.

    Their exponent and fraction are those of an FP32 that is too small by a power of two, subnormal numbers as well.
    """
    if name not in PADDED:
        return numbers_of(emit, name, place)
    width, fraction = (4 if name == "e2m1" else 6), int(name[3])
    per_piece = _PIECE_BYTES if kind.k == ROW_BYTES else LANES
    starts = [divmod(width * (n % per_piece), 8) for n in range(LANES)]
    first = [byte + _PIECE_BYTES * (n // per_piece) for n, (byte, _) in enumerate(starts)]
    size = max(first) + (2 if width % 4 else 1)  # numbers of 4 bits never reach into the next byte
    raw = emit.load(place, f"<{size} x i8>", 1)
    low, high = (
        emit.op(f"shufflevector {raw.typed}, {raw.type} poison, {I32} {each_lane(I32, numbers).text}", vector("i8"))
        for numbers in (first, [min(number + 1, size - 1) for number in first])
    )
    both = emit.or_(emit.cast("zext", low, "i32"), emit.shl(emit.cast("zext", high, "i32"), 8))
    codes = emit.lshr(both, each_lane(I32, [shift for _, shift in starts]))
    sign = emit.shl(emit.and_(codes, 1 << width - 1), 32 - width)
    size_bits = emit.shl(emit.and_(codes, (1 << width - 1) - 1), _FRACTION_BITS - fraction)
    found = emit.cast("bitcast", emit.or_(sign, size_bits), vector("float"))
    bias = (1 << int(name[1]) - 1) - 1
    return emit.binary("fmul", found, real(vector("float"), 2.0 ** (_BIAS - bias)))


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
        own = emit.at(left, emit.mul(emit.cast("zext", part, "i64"), 4 * _ROWS * kind.k))
        scales = [_scale_of_rows(issue, lane, number) for number in range(kind.scales)]
        with emit.count_up(emit.lshr(issue.columns, 3)) as group:
            first, below = _fold(issue, emit.shl(group, 3))
            start = place_of(emit, emit.add(issue.d, first), emit.add(lane, below))
            kept = _kept_lanes(issue, emit.add(lane, below))
            places = [emit.at(start, COLUMN_BYTES * n) for n in range(_COLUMNS)]
            factors = emit.at(right, emit.mul(emit.cast("zext", group, "i64"), 4 * _COLUMNS * kind.k))
            before = [_before(issue, place) for place in places]
            begins_anew = kind.is_scaled or issue.element == "i32"
            zeros = [Value("zeroinitializer", issue.column)] * _COLUMNS
            sums = zeros if begins_anew else before
            if not scales:
                sums = _summed(issue, (own, factors), (0, kind.k), sums)
            for number, scale in enumerate(scales):
                length = kind.k // kind.scales
                found = _summed(issue, (own, factors), (length * number, length), zeros)
                others = [_scale_of_column(issue, emit.add(emit.shl(group, 3), n), number) for n in range(_COLUMNS)]
                pairs = zip(sums, found, others, strict=True)
                sums = [_scaled(issue, old, new, (scale, other)) for old, new, other in pairs]
            for total, old, place in zip(sums, before, places, strict=True):
                _store(issue, _joined(issue, old, total), place, kept)


def _summed(issue: _Issue, matrices: tuple[Value, Value], part: tuple[int, int], sums: list[Value]) -> list[Value]:
    """Return 8 columns of sums with the products of a part of k, which is its start and its length."""
    emit, kind = issue.emit, issue.kind
    own, factors = matrices
    found = list(sums)
    for step in range(part[0], part[0] + part[1]):
        a = emit.load(emit.at(own, 4 * _ROWS * step), issue.column, 64)
        for column in range(_COLUMNS):
            one = emit.load(emit.at(factors, 4 * (column * kind.k + step)), issue.element)
            found[column] = _accumulated(issue, a, _spread(issue, one), found[column])
    return found


def _fold(issue: _Issue, column: Value) -> tuple[Value, Value]:
    """Return where a column of the sums lies: its number in tensor memory, and how many lanes below the others."""
    emit = issue.emit
    if not issue.may_fold:
        return column, integer("i32", 0)
    part = emit.binary("udiv", column, issue.held)
    return emit.sub(column, emit.mul(part, issue.held)), emit.mul(part, issue.rows)


def _joined(issue: _Issue, before: Value, total: Value) -> Value:
    """Return what is stored: sums that were begun anew are added to those before."""
    if issue.element == "i32":
        return _whole(issue, before, total)
    return issue.emit.binary("fadd", before, total) if issue.kind.is_scaled else total


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
    part = emit.lshr(lane, 5)
    if issue.is_paired:  # the second block of a pair has four masks of its own
        rank = get(emit, get(emit, POINTERS[1], WARP, "block"), BLOCK, "rank")
        part = emit.add(part, emit.shl(emit.and_(rank, 1), 2))
    number = emit.add(emit.mul(part, LANES), LANE)
    word = emit.lshr(emit.load(emit.index(tile, "i32", number), "i32"), emit.and_(lane, 16))
    word = emit.select(issue.has(_KEEPS_LANES), word, integer("i32", 0))
    return emit.op(f"bitcast i16 {emit.cast('trunc', word, 'i16').text} to <{_ROWS} x i1>", f"<{_ROWS} x i1>")


# Factors of 8 bits, some of which lie in a word: those of a row r in lane r modulo 32 of column r / 32.


def _scale_of_rows(issue: _Issue, lane: Value, further: int) -> Value:
    emit = issue.emit
    place = place_of(emit, emit.add(issue.scales[0], emit.lshr(lane, 5)), emit.and_(lane, 31))
    words = emit.load(place, f"<{_ROWS} x i32>", 64)
    shift = emit.shl(emit.add(issue.bits(29, 3), further), 3)
    return _factor(issue, emit.and_(emit.lshr(words, _spread(issue, shift)), 0xFF), _COLUMN)


def _scale_of_column(issue: _Issue, number: Value, further: int) -> Value:
    emit = issue.emit
    place = place_of(emit, emit.add(issue.scales[1], emit.lshr(number, 5)), emit.and_(number, 31))
    shift = emit.shl(emit.add(issue.bits(4, 3), further), 3)
    byte = emit.and_(emit.lshr(emit.load(place, "i32"), shift), 0xFF)
    return _spread(issue, _factor(issue, byte, "float"))


def _factor(issue: _Issue, code: Value, kind: str) -> Value:
    """Return the factor of a code: a power of two, or FP8 without a sign where the descriptor says so."""
    emit = issue.emit
    power = _power(emit, code, kind)
    if issue.kind.scales < MOST_SCALES:
        return power
    low = emit.and_(code, 0x7F)
    small = emit.op(f"bitcast {emit.shl(low, _FRACTION_BITS - _SMALL_FRACTION_BITS).typed} to {kind}", kind)
    wide = real("float", 2.0 ** (_BIAS - _SMALL_BIAS))
    scaled = emit.binary("fmul", small, wide if kind == "float" else _spread(issue, wide))
    nan = emit.op(f"bitcast {integer(code.type, 0x7FC00000).typed} to {kind}", kind)
    number = emit.select(emit.compare("eq", low, 0x7F), nan, scaled)
    return emit.select(emit.compare("ne", issue.bits(23, 1), 0), power, number)


def _power(emit: Emitter, exponent: Value, kind: str) -> Value:
    """Return 2 ** (exponent - 127): the least is subnormal, and 255 is not a number."""
    bits = emit.shl(exponent, 23)
    bits = emit.select(emit.compare("eq", exponent, 0), integer(bits.type, 0x00400000), bits)
    bits = emit.select(emit.compare("eq", exponent, 255), integer(bits.type, 0x7FC00000), bits)
    return emit.op(f"bitcast {bits.typed} to {kind}", kind)


def _scaled(issue: _Issue, total: Value, sums: Value, scales: tuple[Value, Value]) -> Value:
    emit = issue.emit
    return emit.binary("fadd", total, emit.binary("fmul", emit.binary("fmul", sums, scales[0]), scales[1]))
