"""Products of matrices by four warps: ``wgmma``. Each warp computes its own 16 rows at once, without the others.

Sums are those of ``mma``: fused multiply-adds in the order of k. A product is one vector of 16 rows for each column.
Fails when: the last places of the hardware's sums are asked for, or a kernel reads sums before it has waited for them.
"""

from dataclasses import dataclass, replace

from kerncast.execute.native.arithmetic.matrix_products import from_byte
from kerncast.execute.native.block import Operation
from kerncast.execute.native.ir import FAULTS, LANES, WARP, WORKER, Emitter, Unit, Value, field, get, integer, vector
from kerncast.execute.native.memory.access import POINTERS, SITE, Fault, note_fault
from kerncast.execute.native.memory.descriptors import ROW_BYTES, Tile, copy_tile
from kerncast.ptx import Immediate, Operand, Vector
from kerncast.ptx.fragments import Product, group_product_of

_ROWS = 16
_COLUMNS = 8
"""columns of the sums that are computed together"""
_REGISTER_BYTES = 4 * LANES
_MOST_COLUMNS = 256
_A_AT = 2 * 64 * _REGISTER_BYTES
"""place of A behind the sums, where it is in registers"""
_METADATA_AT = _A_AT + 4 * _REGISTER_BYTES
"""place of the metadata of a sparse A behind it"""
_MASK, _A, _B = Value("%mask", "i32"), Value("%a", "i64"), Value("%b", "i64")
_GROUPS, _FLAGS = Value("%groups", "i32"), Value("%flags", "i32")
_WHOLE = integer("i1", 0)
_ADDS, _NEGATES, _TURNS_A, _TURNS_B, _IN_REGISTERS = (1 << n for n in range(5))
_SELECTOR_SHIFT = 8
"""of the first lane of four that has metadata, among the flags"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a product is computed, whatever the number of its columns."""

    a: str
    b: str
    total: str
    steps: int
    """multiply-adds of one sum"""
    saturates: bool
    is_sparse: bool = False

    @property
    def length(self) -> int:
        """Numbers of a row of A."""
        return self.steps // 2 if self.is_sparse else self.steps

    @property
    def element(self) -> str:
        """Type of a sum."""
        return "i32" if self.total == "s32" else "float"

    @property
    def column(self) -> str:
        """Type of one column of the sums."""
        return f"<{_ROWS} x {self.element}>"

    @property
    def name(self) -> str:
        """Name of the function."""
        return f"wgmma_{self.a}_{self.b}_{self.total}" + "_sat" * self.saturates + "_sp" * self.is_sparse


def multiply(o: Operation, number: int) -> None:
    """Write wgmma.mma_async, which is done at once; ``number`` is that of the instruction."""
    emit, block = o.emit, o.block
    product = group_product_of(o.ins.modifiers, o.ins.types)
    assert product is not None, o.ins.name
    kind = _kind(product, saturates=o.has("satfinite"))
    emit.unit.borrow(kind.name, lambda unit: _define(unit, kind))
    totals, a, b, *others = o.ins.operands
    metadata, (adds, *constants) = (others[:2], others[2:]) if product.is_sparse else ([], others)
    tile = field(emit, block.pointers.worker, WORKER, "tile")
    for place, each in enumerate(_listed(totals)):
        emit.store(block.source(each, "b32"), emit.at(tile, _REGISTER_BYTES * place), 64)
    selected = 0
    if metadata:
        words, selector = metadata
        assert isinstance(selector, Immediate)
        emit.store(block.source(words, "b32"), emit.at(tile, _METADATA_AT), 64)
        selected = product.lanes_of_metadata * selector.value << _SELECTOR_SHIFT
    lane = emit.first_lane(emit.or_(block.executing, 0x80000000))
    is_described = not isinstance(a, Vector)
    for place, each in enumerate(() if is_described else _listed(a)):
        emit.store(block.source(each, "b32"), emit.at(tile, _A_AT + _REGISTER_BYTES * place), 64)
    descriptors = [
        emit.op(f"extractelement {block.source(each, 'b64').typed}, {lane.typed}", "i64")
        for each in (a, b)[not is_described :]
    ]
    accumulates = emit.compare("ne", emit.and_(emit.mask_bits(block.source(adds, "pred")), block.executing), 0)
    told = selected | _flags(constants, is_described=is_described)
    flags = emit.or_(emit.cast("zext", accumulates, "i32"), told)
    if not is_described:
        descriptors.insert(0, integer("i64", 0))
    groups = integer("i32", product.n // _COLUMNS)
    pointers = (block.pointers.worker, block.pointers.warp)
    emit.call_void(kind.name, *pointers, integer("i32", number), block.executing, *descriptors, groups, flags)
    for place, each in enumerate(_listed(totals)):
        block.write(each, emit.load(emit.at(tile, _REGISTER_BYTES * place), vector("i32"), 64))


def _kind(product: Product, *, saturates: bool) -> _Kind:
    steps = product.k // 32 if product.a == "b1" else product.k
    return _Kind(product.a, product.b, product.total, steps, saturates, product.is_sparse)


def _listed(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _flags(constants: list[Operand], *, is_described: bool) -> int:
    """Return what the immediate operands say: the signs of A and B, and which of them are turned."""
    values = [each.value for each in constants if isinstance(each, Immediate)]
    signs, turns = values[:2], values[2:]
    flags = _NEGATES * (sum(value != 1 for value in signs) % 2)
    if not is_described:
        turns = [0, *turns]
        flags |= _IN_REGISTERS
    return flags + sum(flag for flag, value in zip((_TURNS_A, _TURNS_B), turns, strict=False) if value)


def _define(unit: Unit, kind: _Kind) -> None:
    """Write the function for a product: it takes the sums, and A in registers, from the worker, and leaves the sums."""
    emit = Emitter(unit, kind.name, "void", [*POINTERS, SITE, _MASK, _A, _B, _GROUPS, _FLAGS])
    with emit.when(emit.compare("eq", _MASK, 0)):
        emit.give()
        emit.label(emit.fresh("unreached"))
    raw_a, raw_b = emit.allocate(f"[{_ROWS * ROW_BYTES} x i8]"), emit.allocate(f"[{_MOST_COLUMNS * ROW_BYTES} x i8]")
    further = emit.allocate(f"[{_MOST_COLUMNS * ROW_BYTES} x i8]") if kind.is_sparse else None
    _fetch(emit, raw_a, raw_b, further)
    size = 4 * kind.steps
    rows, right = emit.allocate(f"[{_ROWS * size} x i8]"), emit.allocate(f"[{_MOST_COLUMNS * size} x i8]")
    left = emit.allocate(f"[{_ROWS * size} x i8]")
    _decode(emit, (kind.a, kind), raw_a, rows, integer("i32", 2))
    _decode(emit, (kind.b, kind), raw_b, right, _GROUPS)
    if further is not None:
        second = emit.at(right, _MOST_COLUMNS * 4 * kind.length)
        _decode(emit, (kind.b, kind), further, second, _GROUPS)
    sign = emit.select(_has(emit, _NEGATES), integer("i32", -(1 << 31)), integer("i32", 0))
    held = _spread_out(emit, kind, (rows, left), sign) if kind.is_sparse else None
    if held is None:
        with emit.count_up(integer("i64", _ROWS)) as row, emit.count_up(integer("i64", kind.steps)) as step:
            one = emit.load(emit.index(rows, "i32", emit.add(emit.mul(row, kind.steps), step)), "i32")
            emit.store(emit.xor(one, sign), emit.index(left, "i32", emit.add(emit.mul(step, _ROWS), row)))
    _sum_up(emit, kind, (left, held), right)
    emit.give()
    emit.finish(public=True)


def _spread_out(emit: Emitter, kind: _Kind, matrices: tuple[Value, Value], sign: Value) -> Value:
    """Write the loops that put each number of a sparse A where its metadata say; return the rows that have one."""
    rows, left = matrices
    product = Product(_ROWS, _COLUMNS, kind.steps, kind.a, kind.b, kind.total, is_sparse=True)
    places = [product.place_of_metadata(row, number) for row in range(_ROWS) for number in range(kind.length)]
    table = emit.unit.table(f"{kind.name}_metadata", [lane << 8 | bit for lane, bit in places])
    held = emit.allocate(f"[{kind.steps} x i16]")
    with emit.count_up(integer("i64", kind.steps)) as step:
        emit.store(integer("i16", 0), emit.index(held, "i16", step))
        emit.store(Value("zeroinitializer", kind.column), emit.at(left, emit.mul(step, 4 * _ROWS)), 64)
    words = emit.at(field(emit, POINTERS[0], WORKER, "tile"), _METADATA_AT)
    with emit.count_up(integer("i64", _ROWS)) as row, emit.count_up(integer("i64", kind.length)) as number:
        at = emit.add(emit.mul(row, kind.length), number)
        place = emit.load(emit.index(table, "i32", at), "i32")
        lane = emit.add(emit.lshr(place, 8), emit.lshr(_FLAGS, _SELECTOR_SHIFT))
        word = emit.load(emit.index(words, "i32", emit.cast("zext", lane, "i64")), "i32")
        code = emit.cast("zext", emit.lshr(word, emit.and_(place, 0xFF)), "i64")
        if kind.a == "tf32":  # the halves of a number: 0b0100 is the first one, 0b1110 the second one
            step = emit.add(emit.shl(number, 1), emit.and_(emit.lshr(code, 1), 1))
        else:
            step = emit.add(emit.shl(emit.lshr(number, 1), 2), emit.and_(code, 3))
        one = emit.xor(emit.load(emit.index(rows, "i32", at), "i32"), sign)
        one = one if kind.element == "i32" else emit.cast("bitcast", one, "float")
        # Metadata may name one place twice: what that means is undefined.
        to = emit.index(left, kind.element, emit.add(emit.mul(step, _ROWS), row))
        emit.store(emit.binary("add" if kind.element == "i32" else "fadd", emit.load(to, kind.element), one), to)
        own = emit.index(held, "i16", step)
        bit = emit.shl(integer("i16", 1), emit.cast("trunc", row, "i16"))
        emit.store(emit.or_(emit.load(own, "i16"), bit), own)
    return held


def _has(emit: Emitter, flag: int) -> Value:
    return emit.compare("ne", emit.and_(_FLAGS, flag), 0)


def _fetch(emit: Emitter, raw_a: Value, raw_b: Value, further: Value | None) -> None:
    """Write the copies of A and B, row after row; further: of the second half of each row of B, where it is longer."""
    worker, warp = POINTERS
    lane = emit.first_lane(_MASK)
    described, given, after = emit.fresh("described"), emit.fresh("given"), emit.fresh("after")
    emit.branch(_has(emit, _IN_REGISTERS), given, described)
    emit.label(given)
    for register in range(4):
        for row in range(8):  # four lanes hold 16 bytes of a row
            at = _A_AT + _REGISTER_BYTES * register + 16 * row
            part = emit.load(emit.at(field(emit, worker, WORKER, "tile"), at), "<4 x i32>", 16)
            emit.store(part, emit.at(raw_a, ROW_BYTES * (row + 8 * (register % 2)) + 16 * (register // 2)), 16)
    emit.go(after)
    emit.label(described)
    own = emit.shl(emit.and_(get(emit, warp, WARP, "number"), 3), 1)
    tile = Tile(_A, own, integer("i32", 2), _has(emit, _TURNS_A), _WHOLE)
    _or_give_up(emit, copy_tile(emit, tile, raw_a, lane))
    emit.go(after)
    emit.label(after)
    tile = Tile(_B, integer("i32", 0), _GROUPS, _has(emit, _TURNS_B), _WHOLE)
    _or_give_up(emit, copy_tile(emit, tile, raw_b, lane))
    if further is not None:
        tile = replace(tile, descriptor=_behind(emit, lane))
        _or_give_up(emit, copy_tile(emit, tile, further, lane))


def _behind(emit: Emitter, lane: Value) -> Value:
    """Return the descriptor of B for what lies 32 bytes further in each row, or 16 numbers where rows lie turned."""
    is_turned, kind = _has(emit, _TURNS_B), emit.lshr(_B, 62)
    is_plain, is_narrow = emit.compare("eq", kind, 0), emit.compare("eq", kind, 3)
    with emit.when(emit.and_(is_narrow, emit.not_(is_turned))):
        note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["swizzle"]), SITE, lane, _B))
        emit.give()
        emit.label(emit.fresh("unreached"))
    leading, stride = (emit.shl(emit.and_(emit.lshr(_B, shift), 0x3FFF), 1) for shift in (16, 32))
    step = emit.select(is_plain, leading, emit.select(is_turned, stride, integer("i64", ROW_BYTES // 16)))
    start = emit.add(emit.and_(_B, 0x3FFF), step)
    with emit.when(emit.compare("ugt", start, 0x3FFF)):
        note_fault(emit, POINTERS, Fault(integer("i32", FAULTS["tile"]), SITE, lane, emit.shl(start, 4)))
        emit.give()
        emit.label(emit.fresh("unreached"))
    return emit.or_(emit.and_(_B, ~0x3FFF), start)


def _or_give_up(emit: Emitter, is_whole: Value) -> None:
    fails, on = emit.fresh("fails"), emit.fresh("on")
    emit.branch(is_whole, on, fails)
    emit.label(fails)
    emit.give()
    emit.label(on)


def _decode(emit: Emitter, of: tuple[str, _Kind], raw: Value, to: Value, groups: Value) -> None:
    """Write the loop that makes numbers of 32 bits of rows, 32 at a time."""
    name, kind = of
    source_bytes, per_group = ROW_BYTES * LANES // kind.length, 8 * kind.length // LANES
    with emit.count_up(emit.mul(emit.cast("zext", groups, "i64"), per_group)) as number:
        place = emit.at(raw, emit.mul(number, source_bytes))
        emit.store(numbers_of(emit, name, place), emit.at(to, emit.mul(number, 4 * LANES)), 64)


def numbers_of(emit: Emitter, name: str, place: Value) -> Value:
    """Return 32 numbers that lie one after the other."""
    match name:
        case "f16":
            return emit.cast("fpext", emit.load(place, vector("half"), 2), "float")
        case "bf16":
            bits = emit.shl(emit.cast("zext", emit.load(place, vector("i16"), 2), "i32"), 16)
        case "tf32":
            bits = emit.and_(emit.load(place, vector("i32"), 4), -(1 << 13))
        case "b1":
            return emit.load(place, vector("i32"), 4)
        case "e4m3" | "e5m2":
            return from_byte(emit, name, emit.cast("zext", emit.load(place, vector("i8"), 1), "i32"))
        case _:
            return emit.cast("sext" if name == "s8" else "zext", emit.load(place, vector("i8"), 1), "i32")
    return emit.cast("bitcast", bits, vector("float"))


def _sum_up(emit: Emitter, kind: _Kind, factor: tuple[Value, Value | None], right: Value) -> None:
    """Write the loop over groups of 8 columns; the factor is A by steps, and which rows have a number in each."""
    left, held = factor
    tile = field(emit, POINTERS[0], WORKER, "tile")
    adds = _has(emit, _ADDS)
    zeros = Value("zeroinitializer", kind.column)
    group_bytes = _REGISTER_BYTES * (2 if kind.total == "f16" else 4)
    with emit.count_up(emit.cast("zext", _GROUPS, "i64")) as group:
        place = emit.at(tile, emit.mul(group, group_bytes))
        before = [emit.select(adds, column, zeros) for column in _columns(emit, kind, place)]
        start = emit.at(right, emit.mul(group, 4 * _COLUMNS * kind.length))
        sums = list(before) if not kind.saturates else [zeros] * _COLUMNS
        for step in range(kind.steps):
            a = emit.load(emit.at(left, 4 * _ROWS * step), kind.column, 64)
            half, own = divmod(step, kind.length)
            for column in range(_COLUMNS):
                at = 4 * (half * _MOST_COLUMNS * kind.length + column * kind.length + own)
                one = emit.load(emit.at(start, at), kind.element)
                found = _accumulated(emit, kind, a, _spread(emit, kind, one), sums[column])
                sums[column] = found if held is None else _where_held(emit, (held, step), found, sums[column])
        if kind.saturates:
            pairs = zip(before, sums, strict=True)
            sums = [emit.call("llvm.sadd.sat.v16i32", kind.column, old, new) for old, new in pairs]
        _store_columns(emit, kind, sums, place)


def _where_held(emit: Emitter, place: tuple[Value, int], found: Value, before: Value) -> Value:
    """Return sums that go on in the rows that have a number: what A does not hold is not multiplied."""
    held, step = place
    rows = emit.load(emit.at(held, 2 * step), "i16")
    mask = emit.op(f"bitcast {rows.typed} to <{_ROWS} x i1>", f"<{_ROWS} x i1>")
    return emit.select(mask, found, before)


def _spread(emit: Emitter, kind: _Kind, one: Value) -> Value:
    first = emit.op(f"insertelement {kind.column} poison, {one.typed}, i64 0", kind.column)
    return emit.op(f"shufflevector {first.typed}, {kind.column} poison, <{_ROWS} x i32> zeroinitializer", kind.column)


def _accumulated(emit: Emitter, kind: _Kind, a: Value, b: Value, total: Value) -> Value:
    if kind.element == "float":
        return emit.call("llvm.fma.v16f32", kind.column, a, b, total)
    if kind.a == "b1":
        return emit.add(total, emit.call("llvm.ctpop.v16i32", kind.column, emit.and_(a, b)))
    return emit.add(total, emit.mul(a, b))


def _columns(emit: Emitter, kind: _Kind, place: Value) -> list[Value]:
    """Return 8 columns of the sums: pair t lies in lanes 4 g + t, the lower 8 rows in their own registers."""
    if kind.total == "f16":
        halves = [emit.load(emit.at(place, _REGISTER_BYTES * n), "<64 x half>", 64) for n in range(2)]
        upper, lower = (emit.op(f"fpext {half.typed} to <64 x float>", "<64 x float>") for half in halves)
        pairs, step = [(upper, lower)] * 2, 2
    else:
        wide = vector(kind.element)
        registers = [emit.load(emit.at(place, _REGISTER_BYTES * n), wide, 64) for n in range(4)]
        pairs, step = [(registers[0], registers[2]), (registers[1], registers[3])], 1
    found = []
    for column in range(_COLUMNS):
        t, odd = column // 2, column % 2
        first = [step * (4 * g + t) + odd * (step - 1) for g in range(8)]
        order = [*first, *(n + step * LANES for n in first)]
        upper, lower = pairs[odd]
        indices = ", ".join(f"i32 {n}" for n in order)
        found.append(emit.op(f"shufflevector {upper.typed}, {lower.typed}, <16 x i32> <{indices}>", kind.column))
    return found


def _store_columns(emit: Emitter, kind: _Kind, columns: list[Value], place: Value) -> None:
    """Write 8 columns of the sums back as registers."""
    whole = _joined(emit, kind, columns)
    numbers = [[16 * (2 * (lane % 4) + odd) + lane // 4 for lane in range(LANES)] for odd in range(2)]
    for half in range(2):
        rows = [[n + 8 * half for n in each] for each in numbers]
        if kind.total == "f16":
            order = [rows[n % 2][n // 2] for n in range(2 * LANES)]
            values = _shuffled(emit, whole, order)
            rounded = emit.op(f"fptrunc {values.typed} to <64 x half>", "<64 x half>")
            emit.store(rounded, emit.at(place, _REGISTER_BYTES * half), 64)
            continue
        for odd in range(2):
            emit.store(_shuffled(emit, whole, rows[odd]), emit.at(place, _REGISTER_BYTES * (2 * half + odd)), 64)


def _joined(emit: Emitter, kind: _Kind, parts: list[Value]) -> Value:
    """Return vectors one behind the other, as one."""
    length = _ROWS
    while len(parts) > 1:
        length *= 2
        indices = ", ".join(f"i32 {n}" for n in range(length))
        wide = f"<{length} x {kind.element}>"
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [emit.op(f"shufflevector {a.typed}, {b.typed}, <{length} x i32> <{indices}>", wide) for a, b in pairs]
    return parts[0]


def _shuffled(emit: Emitter, value: Value, order: list[int]) -> Value:
    indices = ", ".join(f"i32 {n}" for n in order)
    kind = value.type.split(" x ")[1].rstrip(">")
    wide = f"<{len(order)} x {kind}>"
    return emit.op(f"shufflevector {value.typed}, {value.type} poison, <{len(order)} x i32> <{indices}>", wide)
