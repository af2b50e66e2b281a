"""Products of matrices by tensor cores: ``mma`` and ``movmatrix``.

Sums are taken in the order of k, by fused multiply-adds of FP32 or FP64; of FP16 they are rounded once, at the end.
Fails when: the last places of the hardware's sums are asked for, whose order and truncation are not documented.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kerncast.execute.native.block import I32, Operation
from kerncast.execute.native.ir import LANES, WORKER, Emitter, Unit, Value, element, field, integer, real, vector
from kerncast.ptx import Immediate, Operand, Vector
from kerncast.ptx.fragments import Product, product_of

_GROUP = 8
_STEPS = 4
_TF32_MASK = -(1 << 13)
_NAN_BYTE = 0x7F
_FP64_BIAS, _UE8M0_BIAS = 1023, 127
#: Parameters for factors: of A and of B the registers, the byte, and how far behind the first lane.
_SCALES = tuple(
    Value(f"%{name}_{matrix}", I32 if name == "scale" else "i32")
    for matrix in "ab"
    for name in ("scale", "byte", "lane")
)
#: Parameters of a sparse A: the words that tell which numbers it holds, and the first lane that has some.
_METADATA = (Value("%metadata", I32), Value("%first", "i32"))


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a product is computed."""

    product: Product
    mode: str
    """sat, and, xor, or nothing"""

    @property
    def element(self) -> str:
        """Type of a sum."""
        if self.product.total == "s32":
            return "i32"
        return "double" if self.product.total == "f64" else "float"

    @property
    def size(self) -> int:
        """Bytes of a sum."""
        return 8 if self.element == "double" else 4

    @property
    def parts(self) -> int:
        """Numbers that a register holds; 32 bits are one."""
        return 1 if self.product.a == "b1" else self.product.per_register

    @property
    def steps(self) -> int:
        """Multiply-adds of one sum."""
        return self.product.k // 32 if self.product.a == "b1" else self.product.k

    @property
    def name(self) -> str:
        """Name of the function."""
        p = self.product
        ends = "_sp" * p.is_sparse + "".join(f"_{each}" for each in p.layouts if p.count > 1)
        return f"mma_{p.m}_{p.k}_{p.a}_{p.b}_{p.total}_{self.mode or p.scale}{p.scales or ''}{ends}"


def multiply(o: Operation) -> None:
    """Write mma.sync."""
    emit, block = o.emit, o.block
    product = product_of(o.ins.modifiers, o.ins.types)
    assert product is not None, o.ins.name
    mode = next((m for m in ("satfinite", "and", "xor") if o.has(m)), "")
    kind = _Kind(product, mode)
    write = _define if product.count == 1 else _define_by_quads
    emit.unit.borrow(kind.name, lambda unit: write(unit, kind))
    wide = "b64" if product.total == "f64" else "b32"
    lists = [_listed(operand) for operand in o.ins.operands]
    sources = [block.source(each, wide) for elements in lists[1:4] for each in elements]
    sources += _metadata(o, product) if product.is_sparse else _selected(o, lists[4:])
    merged = field(emit, block.pointers.worker, WORKER, "merged")
    emit.call_void(kind.name, merged, *sources)
    for number, each in enumerate(lists[0]):
        size = LANES * kind.size
        block.write(each, emit.load(emit.at(merged, size * number), vector(f"i{8 * kind.size}"), 64))


def _metadata(o: Operation, product: Product) -> list[Value]:
    """Return the words that tell which numbers a sparse A holds, and the first lane that has some."""
    words, selector = o.ins.operands[4:]
    assert isinstance(selector, Immediate)
    first = product.lanes_of_metadata * selector.value
    return [o.block.source(_listed(words)[0], "b32"), integer("i32", first)]


def _selected(o: Operation, lists: list[tuple[Operand, ...]]) -> list[Value]:
    """Return the registers of the factors of A and of B, each with the byte and the lane that say where they are."""
    found = []
    for elements in lists:
        for each in elements:
            value = o.block.source(each, "b16" if len(elements) > 1 else "b32")
            if len(elements) > 1:  # the same in all lanes
                first = o.emit.op(f"extractelement {value.typed}, i64 0", element(value.type))
                value = o.emit.cast("zext", first, "i32")
            found.append(value)
    return found


def _listed(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _define(unit: Unit, kind: _Kind) -> None:
    """Write the function for a product: it takes the registers of A, B and C, and stores those of D."""
    out, wide = Value("%out", "ptr"), vector(f"i{8 * kind.size}")
    in_a, in_b, in_c = kind.product.registers
    registers = [Value(f"%r{n}", wide) for n in range(in_a + in_b + in_c)]
    others = _METADATA if kind.product.is_sparse else _SCALES if kind.product.scales else ()
    emit = Emitter(unit, kind.name, "void", [out, *registers, *others])
    halves = kind.product.m // _GROUP
    block = LANES * kind.size
    left = emit.allocate(f"[{block * kind.product.registers[0] * kind.parts} x i8]")
    right = emit.allocate(f"[{block * kind.steps // _STEPS} x i8]")
    for number, register in enumerate(registers[:in_a]):
        for part, value in enumerate(_parts(emit, kind.product.a, register)):
            step = number // halves * kind.parts + part
            emit.store(value, emit.at(left, block * (step * halves + number % halves)), 64)
    for number, register in enumerate(registers[in_a : in_a + in_b]):
        for part, value in enumerate(_parts(emit, kind.product.b, register)):
            turned = _shuffled(emit, value, [_STEPS * (n % _GROUP) + n // _GROUP for n in range(LANES)])
            emit.store(turned, emit.at(right, block * (number * kind.parts + part)), 64)
    before = _totals(emit, kind, registers[in_a + in_b :])
    rows = [emit.allocate(f"<{_GROUP} x {kind.element}>") for _ in range(kind.product.m)]
    _start(emit, kind, rows, before)
    if kind.product.scales:
        _sum_up_scaled(emit, kind, rows, (left, right))
    elif kind.product.is_sparse:
        _sum_up_sparse(emit, kind, rows, (left, right))
    else:
        _sum_up(emit, kind, rows, (left, right), (0, kind.steps))
    _finish(emit, kind, rows, before)
    emit.give()
    emit.finish(public=True)


def _define_by_quads(unit: Unit, kind: _Kind) -> None:
    """Write the function for four products, each by 8 lanes, from the registers of A, B and C to those of D.

    All lanes sum at once, each of its own elements of D: in turn each element of A and of B comes from the lane that
    has it.
    """
    product, floats = kind.product, vector("float")
    in_a, in_b, in_c = product.registers
    registers = [Value(f"%r{n}", I32) for n in range(in_a + in_b + in_c)]
    emit = Emitter(unit, kind.name, "void", [Value("%out", "ptr"), *registers])
    left = _whole(emit, [part for each in registers[:in_a] for part in _parts(emit, product.a, each)])
    right = _whole(emit, [part for each in registers[in_a : in_a + in_b] for part in _parts(emit, product.b, each)])
    name = "f16" if product.total == "f16" else "f32"
    totals = [part for each in registers[in_a + in_b :] for part in _parts(emit, name, each)]
    places = {
        name: {place(lane, *divmod(n, 2)): LANES * n + lane for n in range(product.k) for lane in range(LANES)}
        for name, place in (("a", product.place_in_a), ("b", product.place_in_b))
    }
    sums = []
    for number, before in enumerate(totals):
        own = [product.place_in_total(lane, *divmod(number, product.per_total)) for lane in range(LANES)]
        total = before
        for k in range(product.k):
            a = _shuffled(emit, left, [places["a"][row, k] for row, _ in own])
            b = _shuffled(emit, right, [places["b"][product.k * (row // product.m) + k, column] for row, column in own])
            total = emit.call(f"llvm.fma.v{LANES}f32", floats, a, b, total)
        sums.append(total)
    for number, each in enumerate(_packed_halves(emit, sums) if name == "f16" else sums):
        emit.store(each, emit.at(Value("%out", "ptr"), number * LANES * kind.size), 64)
    emit.give()
    emit.finish(public=True)


def _whole(emit: Emitter, parts: list[Value]) -> Value:
    """Return numbers of all lanes, part behind part, as one vector."""
    while len(parts) > 1:
        count = int(parts[0].type[1:].split()[0])
        kind = f"<{2 * count} x {element(parts[0].type)}>"
        order = _indices(list(range(2 * count)))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [emit.op(f"shufflevector {low.typed}, {high.typed}, {order}", kind) for low, high in pairs]
    return parts[0]


def _packed_halves(emit: Emitter, totals: list[Value]) -> list[Value]:
    """Return sums rounded to FP16, two in each register."""
    found = []
    for number in range(0, len(totals), 2):
        halves = [emit.cast("fptrunc", each, vector("half")) for each in totals[number : number + 2]]
        low, high = (emit.cast("zext", emit.cast("bitcast", h, vector("i16")), I32) for h in halves)
        found.append(emit.or_(low, emit.shl(high, 16)))
    return found


def _start(emit: Emitter, kind: _Kind, rows: list[Value], before: Value) -> None:
    """Begin with C; integers with 0, because C is added at the end, where it may saturate."""
    row = f"<{_GROUP} x {kind.element}>"
    for number, place in enumerate(rows):
        if kind.element == "i32":
            emit.store(Value("zeroinitializer", row), place, 64)
        else:
            emit.store(emit.load(emit.at(before, number * _GROUP * kind.size), row, 4), place, 64)


def _sum_up_scaled(emit: Emitter, kind: _Kind, rows: list[Value], matrices: tuple[Value, Value]) -> None:
    """Write the sums of parts of k, each times the factors of its row and its column; added up as FP64, rounded once.

    The factors of row g of A are in the lanes 4 g and 4 g + 1 (of row g + 8), those of column g of B in lane 4 g, or in
    those behind it that the selector says.
    """
    wide, row = f"<{_GROUP} x double>", f"<{_GROUP} x {kind.element}>"
    length = kind.steps // kind.product.scales
    totals = [emit.allocate(wide) for _ in rows]
    for place, total in zip(rows, totals, strict=True):
        emit.store(emit.cast("fpext", emit.load(place, row, 64), wide), total, 64)
    tables = [emit.allocate(f"[{8 * LANES} x i8]") for _ in range(2)]
    for number in range(kind.product.scales):
        for table, (word, byte, _) in zip(tables, (_SCALES[:3], _SCALES[3:]), strict=True):
            emit.store(_factors(emit, kind.product.scale, word, emit.add(byte, number)), table, 64)
        columns = [_factor(emit, tables[1], _STEPS * n, _SCALES[5]) for n in range(_GROUP)]
        factors = Value("poison", wide)
        for n, each in enumerate(columns):
            factors = emit.op(f"insertelement {factors.typed}, {each.typed}, i64 {n}", wide)
        for place in rows:
            emit.store(Value("zeroinitializer", row), place, 64)
        _sum_up(emit, kind, rows, matrices, (length * number, length))
        lane = emit.shl(_SCALES[2], 1)
        for n, (place, total) in enumerate(zip(rows, totals, strict=True)):
            one = _factor(emit, tables[0], _STEPS * (n % _GROUP) + n // _GROUP, lane)
            first = emit.op(f"insertelement {wide} poison, {one.typed}, i64 0", wide)
            own = emit.op(f"shufflevector {first.typed}, {wide} poison, <{_GROUP} x i32> zeroinitializer", wide)
            sums = emit.cast("fpext", emit.load(place, row, 64), wide)
            part = emit.binary("fmul", emit.binary("fmul", sums, own), factors)
            emit.store(emit.binary("fadd", emit.load(total, wide, 64), part), total, 64)
    for place, total in zip(rows, totals, strict=True):
        emit.store(emit.cast("fptrunc", emit.load(total, wide, 64), row), place, 64)


def _sum_up_sparse(emit: Emitter, kind: _Kind, rows: list[Value], matrices: tuple[Value, Value]) -> None:
    """Write the sums over what a sparse A holds: each number times the row of B that its metadata name."""
    left, right = matrices
    product, row = kind.product, f"<{_GROUP} x {kind.element}>"
    halves, block = len(rows) // _GROUP, LANES * kind.size
    table = emit.allocate(f"[{4 * LANES} x i8]")
    words, first = _METADATA
    emit.store(words, table, 64)
    per = kind.parts.bit_length() - 1
    for number in range(product.length):
        step, lane = (number >> per + 2 << per) + number % kind.parts, (number >> per) % _STEPS
        for place_of_row, place in enumerate(rows):
            half, own = divmod(place_of_row, _GROUP)
            at = block * (step * halves + half) + kind.size * (lane + _STEPS * own)
            one = emit.load(emit.at(left, at), kind.element)
            k = _row_of_b(emit, product, (place_of_row, number), first, table)
            turn = emit.add(emit.shl(emit.lshr(k, per + 2), per), emit.and_(k, kind.parts - 1))
            other = emit.and_(emit.lshr(k, per), _STEPS - 1)
            start = emit.add(emit.mul(turn, block), emit.mul(other, _GROUP * kind.size))
            b = emit.load(emit.at(right, start), row, 4)
            spread = emit.op(f"insertelement {row} poison, {one.typed}, i64 0", row)
            a = emit.op(f"shufflevector {spread.typed}, {row} poison, <{_GROUP} x i32> zeroinitializer", row)
            emit.store(_accumulated(emit, kind, a, b, emit.load(place, row, 64)), place, 64)


def _row_of_b(emit: Emitter, product: Product, which: tuple[int, int], first: Value, table: Value) -> Value:
    """Return which row of B a number of a row of A is multiplied with."""
    row, number = which
    lane, bit = product.place_of_metadata(row, number)
    word = emit.load(emit.index(table, "i32", emit.add(first, lane)), "i32")
    if product.a == "tf32":  # the halves of a number: 0b0100 is the first one, 0b1110 the second one
        inside = emit.and_(emit.lshr(word, bit + 1), 1)
        return emit.cast("zext", emit.add(inside, 2 * number), "i64")
    code, per = emit.and_(emit.lshr(word, bit), 3), product.per_code
    start = 4 * per * (number // per // 2) + number % per
    return emit.cast("zext", emit.add(emit.mul(code, per), start), "i64")


def _factor(emit: Emitter, table: Value, lane: int, further: Value) -> Value:
    place = emit.index(table, "double", emit.cast("zext", emit.add(further, lane), "i64"))
    return emit.load(place, "double")


def _factors(emit: Emitter, name: str, word: Value, byte: Value) -> Value:
    """Return the factors in a byte of each lane's word as FP64: UE8M0 is an exponent, UE4M3 a byte without sign."""
    codes = emit.and_(emit.lshr(word, emit.splat(emit.shl(byte, 3))), 0xFF)
    wide = vector("double")
    if name == "ue4m3":
        return emit.cast("fpext", from_byte(emit, "e4m3", emit.and_(codes, 0x7F)), wide)
    exponents = emit.add(emit.resize(codes, "i64"), _FP64_BIAS - _UE8M0_BIAS)
    powers = emit.cast("bitcast", emit.shl(exponents, 52), wide)
    nan = emit.cast("bitcast", integer(vector("i64"), 0x7FF8 << 48), wide)
    return emit.select(emit.compare("eq", codes, 0xFF), nan, powers)


def _sum_up(
    emit: Emitter, kind: _Kind, rows: list[Value], matrices: tuple[Value, Value], part: tuple[int, int]
) -> None:
    """Write the loop over some of k, from the first on so many: a row of B times each element of a column of A."""
    left, right = matrices
    halves, row = len(rows) // _GROUP, f"<{_GROUP} x {kind.element}>"
    block = LANES * kind.size
    with emit.count_up(integer("i64", part[1])) as turn:
        k = emit.add(turn, part[0])
        per = kind.parts.bit_length() - 1
        step = emit.add(emit.shl(emit.lshr(k, per + 2), per), emit.and_(k, kind.parts - 1))
        lane = emit.and_(emit.lshr(k, per), _STEPS - 1)
        at = emit.add(emit.mul(step, block), emit.mul(lane, _GROUP * kind.size))
        b = emit.load(emit.at(right, at), row, 4)
        start = emit.at(left, emit.add(emit.mul(step, block * halves), emit.mul(lane, kind.size)))
        for number, place in enumerate(rows):
            offset = block * (number // _GROUP) + _STEPS * kind.size * (number % _GROUP)
            one = emit.load(emit.at(start, offset), kind.element)
            first = emit.op(f"insertelement {row} poison, {one.typed}, i64 0", row)
            a = emit.op(f"shufflevector {first.typed}, {row} poison, <{_GROUP} x i32> zeroinitializer", row)
            emit.store(_accumulated(emit, kind, a, b, emit.load(place, row, 64)), place, 64)


def _accumulated(emit: Emitter, kind: _Kind, a: Value, b: Value, total: Value) -> Value:
    if kind.element != "i32":
        letter = "f64" if kind.element == "double" else "f32"
        return emit.call(f"llvm.fma.v{_GROUP}{letter}", a.type, a, b, total)
    if kind.product.a == "b1":
        both = emit.binary(kind.mode, a, b)
        return emit.add(total, emit.call(f"llvm.ctpop.v{_GROUP}i32", a.type, both))
    return emit.binary("add", total, emit.binary("mul", a, b))


def _totals(emit: Emitter, kind: _Kind, registers: list[Value]) -> Value:
    """Return where C lies, row after row."""
    before = emit.allocate(f"[{kind.product.m * _GROUP * kind.size} x i8]")
    wide = f"<{2 * LANES} x {kind.element}>"
    if kind.product.total == "f16":
        for half, register in enumerate(registers):
            halves = emit.op(f"bitcast {register.typed} to <64 x half>", "<64 x half>")
            values = emit.op(f"fpext {halves.typed} to {wide}", wide)
            emit.store(values, emit.at(before, half * 2 * LANES * kind.size), 64)
        return before
    order = [n // 2 + LANES * (n % 2) for n in range(2 * LANES)]
    for half in range(len(registers) // 2):
        even, odd = (emit.cast("bitcast", r, vector(kind.element)) for r in registers[2 * half : 2 * half + 2])
        values = emit.op(f"shufflevector {even.typed}, {odd.typed}, {_indices(order)}", wide)
        emit.store(values, emit.at(before, half * 2 * LANES * kind.size), 64)
    return before


def _finish(emit: Emitter, kind: _Kind, rows: list[Value], before: Value) -> None:
    """Write the registers of D."""
    row, wide = f"<{_GROUP} x {kind.element}>", f"<{2 * LANES} x {kind.element}>"
    out = Value("%out", "ptr")
    for number, place in enumerate(rows):
        total = emit.load(place, row, 64)
        at = emit.at(before, number * _GROUP * kind.size)
        if kind.element == "i32":
            old = emit.load(at, row, 4)
            is_kept = kind.mode == "satfinite"
            total = emit.call(f"llvm.sadd.sat.v{_GROUP}i32", row, old, total) if is_kept else emit.add(old, total)
        emit.store(total, at, 4)
    for half in range(len(rows) // _GROUP):
        values = emit.load(emit.at(before, half * 2 * LANES * kind.size), wide, 64)
        if kind.product.total == "f16":
            rounded = emit.op(f"fptrunc {values.typed} to <64 x half>", "<64 x half>")
            emit.store(rounded, emit.at(out, half * LANES * kind.size), 64)
            continue
        for odd in range(2):
            part = _shuffled(emit, values, list(range(odd, 2 * LANES, 2)))
            emit.store(part, emit.at(out, (2 * half + odd) * LANES * kind.size), 64)


def _parts(emit: Emitter, name: str, register: Value) -> Iterator[Value]:
    """Give the numbers of a register, each for all lanes, as they are multiplied."""
    if name in {"f64", "f32"}:
        yield emit.cast("bitcast", register, vector("double" if name == "f64" else "float"))
    elif name == "b1":
        yield register
    elif name == "tf32":
        yield emit.cast("bitcast", emit.and_(register, _TF32_MASK), vector("float"))
    elif name == "bf16":
        for bits in (emit.shl(register, 16), emit.and_(register, -(1 << 16))):
            yield emit.cast("bitcast", bits, vector("float"))
    elif name == "f16":
        for shift in (0, 16):
            yield _from_half(emit, emit.lshr(register, shift))
    elif name == "e2m1":
        yield from (_from_half_byte(emit, emit.lshr(register, shift)) for shift in range(0, 32, 4))
    elif name.startswith("e"):
        yield from (from_byte(emit, name, emit.and_(emit.lshr(register, shift), 0xFF)) for shift in range(0, 32, 8))
    else:
        width = int(name[1:])
        right = emit.ashr if name.startswith("s") else emit.lshr
        for part in range(32 // width):
            yield right(emit.shl(register, 32 - width * (part + 1)), 32 - width)


def _from_half_byte(emit: Emitter, bits: Value) -> Value:
    """Return numbers of E2M1 in the lowest bits as FP32, by way of FP16, whose exponent is biased by 14 more."""
    moved = emit.or_(emit.shl(emit.and_(bits, 8), 12), emit.shl(emit.and_(bits, 7), 9))
    return emit.binary("fmul", _from_half(emit, moved), Value("splat (float 1.638400e+04)", vector("float")))


def _from_half(emit: Emitter, bits: Value) -> Value:
    half = emit.cast("bitcast", emit.cast("trunc", bits, "i16"), vector("half"))
    return emit.cast("fpext", half, "float")


def from_byte(emit: Emitter, name: str, bits: Value) -> Value:
    """Return floats in a byte as FP32, by way of FP16, of which E5M2 is the upper half.

    Those of 6 bits lie in its lowest ones, those of 4 bits in its middle.
    """
    if name == "e5m2":
        return _from_half(emit, emit.shl(bits, 8))
    if name == "e2m1_8":
        return _from_half_byte(emit, emit.lshr(bits, 2))
    if name in {"e2m3", "e3m2"}:
        # The exponent of FP16 is biased by 14 or 12 more.
        moved = emit.or_(emit.shl(emit.and_(bits, 0x20), 10), emit.shl(emit.and_(bits, 0x1F), 10 - int(name[3])))
        return emit.binary(
            "fmul", _from_half(emit, moved), real(vector("float"), 2.0 ** (14 if name == "e2m3" else 12))
        )
    low = emit.and_(bits, _NAN_BYTE)
    moved = emit.or_(emit.shl(emit.and_(bits, 0x80), 8), emit.shl(low, 7))
    # The exponent of FP16 is biased by 8 more.
    scaled = emit.binary("fmul", _from_half(emit, moved), Value("splat (float 2.560000e+02)", vector("float")))
    nan = emit.cast("bitcast", integer(I32, 0x7FFFFFFF), vector("float"))
    return emit.select(emit.compare("eq", low, _NAN_BYTE), nan, scaled)


def transpose(o: Operation) -> None:
    """Write movmatrix: a matrix of 8 x 8 elements of 16 bits is transposed."""
    emit = o.emit
    halves = emit.op(f"bitcast {o.source(0, 'b32').typed} to <64 x i16>", "<64 x i16>")
    turned = _shuffled(emit, halves, TRANSPOSED)
    o.block.write(o.ins.operands[0], emit.op(f"bitcast {turned.typed} to {I32}", I32))


#: Place in an 8 x 8 matrix of each element of its transpose, row after row.
TRANSPOSED = [_GROUP * (n % _GROUP) + n // _GROUP for n in range(_GROUP * _GROUP)]


def _shuffled(emit: Emitter, value: Value, order: list[int]) -> Value:
    kind = f"<{len(order)} x {element(value.type)}>"
    return emit.op(f"shufflevector {value.typed}, {value.type} poison, {_indices(order)}", kind)


def _indices(numbers: list[int]) -> str:
    return f"<{len(numbers)} x i32> <" + ", ".join(f"i32 {n}" for n in numbers) + ">"
