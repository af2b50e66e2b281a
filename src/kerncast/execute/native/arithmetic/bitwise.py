"""Logic, shifts and bit fields. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1 and 9.7.8."""

from kerncast.execute.native.block import I32, I64, Operation, lowers
from kerncast.execute.native.ir import Emitter, Unit, Value, bits, element, integer
from kerncast.ptx import Immediate


@lowers("and", "or", "xor")
def _logic(o: Operation) -> Value:
    return o.emit.binary(o.ins.root, o.source(0), o.source(1))


@lowers("not")
def _not(o: Operation) -> Value:
    return o.emit.not_(o.source(0))


@lowers("cnot")
def _logical_not(o: Operation) -> Value:
    x = o.source(0)
    return o.emit.cast("zext", o.emit.compare("eq", x, 0), element(x.type))


@lowers("shl", "shr")
def _shift(o: Operation) -> Value:
    emit, x, amount = o.emit, o.source(0), o.source(1, "u32")
    operation = "shl" if o.ins.root == "shl" else "ashr" if o.is_signed else "lshr"
    limit = o.width - 1
    shifted = emit.binary(operation, x, _amount(o, amount, x, limit))
    operand = o.ins.operands[2]
    if operation == "ashr" or (isinstance(operand, Immediate) and 0 <= operand.value <= limit):
        return shifted  # the sign fills, however far
    return emit.select(emit.compare("ule", amount, limit), shifted, 0)


def _amount(o: Operation, amount: Value, x: Value, limit: int) -> Value:
    return o.emit.resize(o.emit.intrinsic("umin", amount, integer(amount.type, limit)), element(x.type))


@lowers("shf")
def _funnel_shift(o: Operation) -> Value:
    emit = o.emit
    low, high, amount = (o.source(i, "u32") for i in range(3))
    n = emit.intrinsic("umin", amount, integer(I32, 32)) if o.has("clamp") else emit.and_(amount, 31)
    wide = emit.resize(n, "i64")
    both = emit.or_(emit.shl(emit.resize(high, "i64"), 32), emit.resize(low, "i64"))
    if o.has("l"):
        return emit.resize(emit.lshr(emit.shl(both, wide), 32), "i32")
    return emit.resize(emit.lshr(both, wide), "i32")


@lowers("lop3")
def _lop3(o: Operation) -> Value:
    emit = o.emit
    a, b, c = (o.source(i) for i in range(3))
    operand = o.ins.operands[4]
    table = operand.value & 255 if isinstance(operand, Immediate) else 0
    result = integer(a.type, 0)
    for row in range(8):
        if table >> row & 1:
            factors = [x if row & bit else emit.not_(x) for x, bit in ((a, 4), (b, 2), (c, 1))]
            result = emit.or_(result, emit.and_(emit.and_(factors[0], factors[1]), factors[2]))
    return result


@lowers("bmsk")
def _bit_mask(o: Operation) -> Value:
    """Write the bits from a place on, without those from the end of the mask on."""
    emit, every = o.emit, integer(I32, -1)
    start, length = o.source(0), o.source(1)
    place = emit.and_(start, 31)
    upward = emit.shl(every, place)
    if o.has("clamp"):
        upward = emit.select(emit.compare("ult", start, 32), upward, integer(I32, 0))
        stop = emit.add(place, emit.intrinsic("umin", length, integer(I32, 32)))
    else:
        stop = emit.add(place, emit.and_(length, 31))
    beyond = emit.select(emit.compare("ult", stop, 32), emit.shl(every, emit.and_(stop, 31)), integer(I32, 0))
    return emit.and_(upward, emit.not_(beyond))


@lowers("popc")
def _population_count(o: Operation) -> Value:
    return o.emit.resize(o.emit.intrinsic("ctpop", o.source(0)), "i32")


@lowers("clz")
def _leading_zeros(o: Operation) -> Value:
    return o.emit.resize(_clz(o, o.source(0)), "i32")


@lowers("bfind")
def _find_highest(o: Operation) -> Value:
    emit, x = o.emit, o.source(0)
    if o.is_signed:
        x = emit.xor(x, emit.ashr(x, o.width - 1))
    zeros = _clz(o, x)
    place = zeros if o.has("shiftamt") else emit.sub(integer(x.type, o.width - 1), zeros)
    return emit.resize(emit.select(emit.compare("eq", x, 0), integer(x.type, -1), place), "i32")


def _clz(o: Operation, x: Value) -> Value:
    name = f"llvm.ctlz.v32i{bits(x.type)}"
    return o.emit.call(name, x.type, x, Value("false", "i1"))


@lowers("fns")
def _find_nth_set(o: Operation) -> Value:
    mask, base, offset = (o.source(i, "u32") for i in range(3))
    if "find_nth_set" not in o.emit.unit:
        _define_find_nth_set(o.emit.unit)
    return o.emit.call("find_nth_set", I32, mask, base, offset)


def _define_find_nth_set(unit: Unit) -> None:
    """Write the search for the n-th bit that is set, upward or downward from a base, whose own bit is the first."""
    mask, base, offset = (Value(f"%{name}", I32) for name in ("mask", "base", "offset"))
    emit = Emitter(unit, "find_nth_set", I32, [mask, base, offset])
    down = emit.cast("sext", emit.compare("slt", offset, 0), "i32")
    forward = emit.cast("zext", emit.compare("sgt", offset, 0), "i32")
    size = emit.sub(emit.xor(offset, down), down)
    place, left, found = (emit.allocate(I32) for _ in range(3))
    emit.store(base, place, 64)
    wanted = emit.intrinsic("umax", size, integer(I32, 1))
    emit.store(emit.select(emit.compare("ugt", base, 31), integer(I32, 64), wanted), left, 64)
    emit.store(integer(I32, -1), found, 64)
    with emit.count_up(integer("i32", 32)):
        here = emit.load(place, I32, 64)
        inside = emit.compare("ult", here, 32)
        bit = emit.and_(emit.lshr(mask, emit.and_(here, 31)), emit.cast("zext", inside, "i32"))
        rest = emit.sub(emit.load(left, I32, 64), bit)
        hit = emit.and_(emit.compare("eq", rest, 0), emit.compare("ne", bit, 0))
        emit.store(emit.select(hit, here, emit.load(found, I32, 64)), found, 64)
        emit.store(rest, left, 64)
        emit.store(emit.add(here, emit.or_(down, forward)), place, 64)
    emit.give(emit.load(found, I32, 64))
    emit.finish()


@lowers("brev")
def _reverse(o: Operation) -> Value:
    return o.emit.intrinsic("bitreverse", o.source(0))


@lowers("bfe")
def _extract_field(o: Operation) -> Value:
    emit, x = o.emit, o.source(0)
    position, length = (emit.resize(emit.and_(o.source(i, "u32"), 255), "i64") for i in (1, 2))
    wide = emit.resize(x, "i64", signed=o.is_signed)
    shift = emit.ashr if o.is_signed else emit.lshr
    field = shift(wide, emit.intrinsic("umin", position, integer(I64, 63)))
    if not o.is_signed:
        field = emit.select(emit.compare("ult", position, o.width), field, 0)
    mask = _ones_below(o, length)
    result = emit.and_(field, mask)
    if o.is_signed:
        last = emit.intrinsic("smin", emit.sub(emit.add(position, length), integer(I64, 1)), integer(I64, o.width - 1))
        place = emit.intrinsic("smax", last, integer(I64, 0))
        sign = emit.and_(emit.lshr(wide, place), 1)
        fill = emit.and_(emit.sub(integer(I64, 0), sign), emit.not_(mask))
        result = emit.select(emit.compare("eq", length, 0), integer(I64, 0), emit.or_(result, fill))
    return emit.resize(result, element(x.type))


@lowers("bfi")
def _insert_field(o: Operation) -> Value:
    emit, base = o.emit, o.source(1)
    position, length = (emit.resize(emit.and_(o.source(i, "u32"), 255), "i64") for i in (2, 3))
    stop = emit.intrinsic("umin", emit.add(position, length), integer(I64, o.width))
    shift = emit.intrinsic("umin", position, integer(I64, 63))
    mask = emit.and_(_ones_below(o, stop), emit.not_(_ones_below(o, shift)))
    mask = emit.select(emit.compare("ult", position, o.width), mask, 0)
    moved = emit.and_(emit.shl(emit.resize(o.source(0), "i64"), shift), mask)
    merged = emit.or_(moved, emit.and_(emit.resize(base, "i64"), emit.not_(mask)))
    return emit.resize(merged, element(base.type))


def _ones_below(o: Operation, count: Value) -> Value:
    """Return words whose lowest bits are set, so many of them."""
    emit = o.emit
    few = emit.sub(emit.shl(integer(I64, 1), emit.and_(count, 63)), integer(I64, 1))
    return emit.select(emit.compare("uge", count, 64), integer(I64, -1), few)


@lowers("prmt")
def _permute_bytes(o: Operation) -> Value:
    emit = o.emit
    a, b = (emit.resize(o.source(i, "u32"), "i64") for i in (0, 1))
    both = emit.or_(emit.shl(b, 32), a)
    selector = o.source(2, "u32")
    operand = o.ins.operands[3]
    result = integer(I32, 0)
    for byte in range(4):
        control = emit.and_(emit.lshr(selector, 4 * byte), 15)
        place = emit.resize(emit.shl(emit.and_(control, 7), 3), "i64")
        value = emit.and_(emit.resize(emit.lshr(both, place), "i32"), 255)
        if not isinstance(operand, Immediate) or operand.value >> (4 * byte) & 8:
            sign = emit.and_(emit.sub(integer(I32, 0), emit.lshr(value, 7)), 255)
            value = emit.select(emit.compare("ne", emit.and_(control, 8), 0), sign, value)
        result = emit.or_(result, emit.shl(value, 8 * byte))
    return result
