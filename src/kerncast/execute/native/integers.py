"""Integer arithmetic. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1 and 9.7.2."""

from kerncast.execute.native import floats, halves, packed
from kerncast.execute.native.ir import Emitter, Value, bits, element, integer, vector
from kerncast.execute.native.lowering import FLOATS, HALVES, Operation, lowers
from kerncast.ptx.dependence import CARRY
from kerncast.ptx.module import TYPE_BITS

_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
_TAKES_CARRY = {"addc", "subc", "madc"}


@lowers("add", "sub", "mul")
def _add_sub_mul(o: Operation) -> Value:
    if o.type in HALVES:
        return halves.arithmetic(o)
    if o.type in FLOATS:
        return floats.add_sub_mul(o)
    if o.type in packed.TYPES:
        return packed.arithmetic(o, floats.add_sub_mul)
    a, b = o.source(0), o.source(1)
    if o.ins.root == "mul":
        return product(o, a, b)
    if o.has("sat"):
        return o.emit.intrinsic(f"s{o.ins.root}.sat", a, b)
    return o.emit.binary(o.ins.root, a, b)


@lowers("fma", "mad")
def _multiply_add(o: Operation) -> Value:
    if o.type in HALVES:
        return halves.arithmetic(o)
    if o.type in FLOATS:
        return floats.fused_multiply_add(o)
    if o.type in packed.TYPES:
        return packed.arithmetic(o, floats.fused_multiply_add)
    addend = o.source(2, _WIDER[o.type] if o.has("wide") else o.type)
    return o.emit.add(product(o, o.source(0), o.source(1)), addend)


def product(o: Operation, a: Value, b: Value) -> Value:
    """Return the lower half of a product, the upper one (.hi) or both (.wide)."""
    emit, width = o.emit, bits(a.type)
    if not (o.has("wide") or o.has("hi")):
        return emit.mul(a, b)
    if width == 64:
        return _upper_half(emit, a, b, signed=o.is_signed)
    wide = f"i{2 * width}"
    a, b = (emit.resize(x, wide, signed=o.is_signed) for x in (a, b))
    both = emit.mul(a, b)
    return both if o.has("wide") else emit.resize(emit.lshr(both, width), f"i{width}")


def _upper_half(emit: Emitter, a: Value, b: Value, *, signed: bool) -> Value:
    """Multiply numbers of 64 bits in a function of its own: with 128 bits each is thousands of instructions."""
    name = f"upper_half_{'s' if signed else 'u'}"
    if name not in emit.unit:
        inner = Emitter(emit.unit, name, a.type, [Value("%a", a.type), Value("%b", b.type)])
        wide = (inner.resize(Value(x, a.type), "i128", signed=signed) for x in ("%a", "%b"))
        inner.give(inner.resize(inner.lshr(inner.mul(*wide), 64), "i64"))
        inner.finish()
    return emit.call(name, a.type, a, b)


@lowers("div", "rem")
def _divide(o: Operation) -> Value:
    if o.type in FLOATS:
        return floats.divide(o)
    a, b = o.source(0), o.source(1)
    name = f"{'s' if o.is_signed else 'u'}{o.ins.root}_{o.width}"
    if name not in o.emit.unit:
        _define_division(o, name, a.type)
    return o.emit.call(name, a.type, a, b, o.block.lanes)


def _define_division(o: Operation, name: str, kind: str) -> None:
    """Write a function that divides: by zero gives all ones, and the dividend as remainder, as the hardware does."""
    a, b, lanes = Value("%a", kind), Value("%b", kind), Value("%lanes", vector("i1"))
    emit = Emitter(o.emit.unit, name, kind, [a, b, lanes])
    is_zero = emit.compare("eq", b, 0)
    safe = emit.select(emit.not_(lanes), integer(kind, 1), emit.select(is_zero, integer(kind, 1), b))
    quotient = _quotient(emit, a, safe, signed=o.is_signed)
    if o.ins.root == "div":
        emit.give(emit.select(is_zero, integer(kind, -1), quotient))
    else:
        emit.give(emit.select(is_zero, a, emit.sub(a, emit.mul(quotient, safe))))
    emit.finish()


def _quotient(emit: Emitter, a: Value, b: Value, *, signed: bool) -> Value:
    """Return a / b, rounded toward zero; b is not zero."""
    letter, width = "s" if signed else "u", bits(a.type)
    if width <= 32:  # a quotient of doubles is exact enough: it cannot reach the next integer by rounding
        x, y = (emit.cast(f"{letter}itofp", value, "double") for value in (a, b))
        whole = emit.cast(f"fpto{letter}i", emit.binary("fdiv", x, y), "i64")
        return emit.resize(whole, element(a.type))
    if not signed:
        return _divide_lanes(emit, a, b)
    negative = [emit.ashr(x, width - 1) for x in (a, b)]
    sizes = [emit.sub(emit.xor(x, sign), sign) for x, sign in zip((a, b), negative, strict=True)]
    sign = emit.xor(*negative)
    return emit.sub(emit.xor(_divide_lanes(emit, *sizes), sign), sign)


def _divide_lanes(emit: Emitter, a: Value, b: Value) -> Value:
    """Divide unsigned numbers of 64 bits lane by lane; where both are short the CPU's division is fast by itself."""
    places = [emit.allocate(a.type) for _ in range(2)]
    for value, place in zip((a, b), places, strict=True):
        emit.store(value, place, 64)
    with emit.count_up(integer("i64", 32)) as lane:
        first, second = (emit.index(place, "i64", lane) for place in places)
        emit.store(emit.binary("udiv", emit.load(first, "i64"), emit.load(second, "i64")), first)
    return emit.load(places[0], a.type, 64)


@lowers("neg", "abs")
def _sign(o: Operation) -> Value:
    if o.type in HALVES:
        return halves.arithmetic(o)
    if o.type in FLOATS:
        return floats.sign(o)
    a = o.source(0)
    negative = o.emit.sub(integer(a.type, 0), a)
    if o.ins.root == "neg":
        return negative
    return o.emit.select(o.emit.compare("slt", a, 0), negative, a)


@lowers("min", "max")
def _extreme(o: Operation) -> Value:
    if o.type in HALVES:
        return halves.arithmetic(o)
    if o.type in FLOATS:
        return floats.extreme(o)
    if o.type in packed.TYPES:
        return packed.arithmetic(o, floats.extreme)
    result = o.emit.intrinsic(f"{'s' if o.is_signed else 'u'}{o.ins.root}", o.source(0), o.source(1))
    return o.emit.intrinsic("smax", result, integer(result.type, 0)) if o.has("relu") else result


@lowers("sad")
def _sum_of_differences(o: Operation) -> Value:
    a, b, emit = o.source(0), o.source(1), o.emit
    larger = emit.compare("sgt" if o.is_signed else "ugt", a, b)
    return emit.add(emit.select(larger, emit.sub(a, b), emit.sub(b, a)), o.source(2))


@lowers("mul24", "mad24")
def _product_24(o: Operation) -> Value:
    emit = o.emit
    shift = emit.ashr if o.is_signed else emit.lshr
    a, b = (shift(emit.shl(o.source(i), 8), 8) for i in (0, 1))
    result = emit.mul(a, b)
    return emit.add(result, o.source(2)) if o.ins.root == "mad24" else result


@lowers("dp4a")
def _dot_product(o: Operation) -> Value:
    emit = o.emit
    total = o.source(2, "u32")
    factors = [(o.source(i, "u32"), kind == "s32") for i, kind in enumerate(o.ins.types)]
    for byte in range(4):
        (a, b) = ((emit.ashr if signed else emit.lshr)(emit.shl(word, 24 - 8 * byte), 24) for word, signed in factors)
        total = emit.add(total, emit.mul(a, b))
    return total


@lowers("dp2a")
def _dot_product_of_two(o: Operation) -> Value:
    """Write the dot product of two short integers with two bytes: the lower or the upper two of the word."""
    emit = o.emit
    total = o.source(2, "u32")
    first_byte = 2 if o.has("hi") else 0
    shifts = [emit.ashr if kind == "s32" else emit.lshr for kind in o.ins.types]
    for place in range(2):
        a = shifts[0](emit.shl(o.source(0, "u32"), 16 - 16 * place), 16)
        b = shifts[1](emit.shl(o.source(1, "u32"), 24 - 8 * (first_byte + place)), 24)
        total = emit.add(total, emit.mul(a, b))
    return total


def uses_carry(o: Operation) -> bool:
    """Return whether an instruction sets or reads the carry flag."""
    return o.ins.root in _TAKES_CARRY or o.has("cc")


def with_carry(o: Operation) -> None:
    """Write add, sub or mad with .cc, or addc, subc or madc."""
    emit, word = o.emit, f"u{TYPE_BITS[o.type]}"
    count = len(o.ins.operands) - 1
    first = product(o, o.source(0), o.source(1)) if count == 3 else o.source(0, word)
    second = o.source(count - 1, word)
    taken = integer(first.type, 0)
    if o.ins.root in _TAKES_CARRY:
        taken = emit.cast("zext", o.block.read(CARRY), element(first.type))
    if o.ins.root in {"sub", "subc"}:
        part = emit.sub(first, second)
        result = emit.sub(part, taken)
        out = emit.or_(emit.compare("ult", first, second), emit.compare("ult", part, taken))
    else:
        part = emit.add(first, second)
        result = emit.add(part, taken)
        out = emit.or_(emit.compare("ult", part, first), emit.compare("ult", result, part))
    o.block.write(o.ins.operands[0], result)
    if o.has("cc"):
        o.block.write(CARRY, out)
