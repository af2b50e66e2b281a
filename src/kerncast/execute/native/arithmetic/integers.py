"""Integer arithmetic. Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1 and 9.7.2."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kerncast.execute.native.arithmetic import conversion, floats
from kerncast.execute.native.block import F32, FLOATS, HALVES, I32, Operation, lowers
from kerncast.execute.native.ir import Emitter, Value, bits, element, integer, vector
from kerncast.ptx import CARRY, TYPE_BITS, Trait

# Instructions on words that hold several values: two singles, two short integers or four bytes.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1, 9.7.3 and 9.7.16.


_CONDITIONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
TYPES = frozenset({"f32x2", "u16x2", "s16x2"})


@dataclass(frozen=True, slots=True)
class _Single(Operation):
    """One of the two operations on singles that an instruction of type f32x2 consists of."""

    shift: int = 0
    """first bit of the operands in their registers"""

    def source(self, position: int, type_name: str | None = None) -> Value:
        """Return a source of this operation."""
        del type_name
        word = self.block.source(self.ins.operands[self.first + position], "b64")
        return self.emit.cast("bitcast", self.emit.resize(self.emit.lshr(word, self.shift), "i32"), F32)


def arithmetic(o: Operation, lowering: Callable[[Operation], Value]) -> Value:
    """Write an instruction on two values; ``lowering`` writes that on one single."""
    if o.type != "f32x2":
        return _shorts(o)
    one = replace(o.ins, modifiers=tuple("f32" if m == "f32x2" else m for m in o.ins.modifiers))
    low, high = (o.emit.cast("bitcast", lowering(_Single(one, o.block, o.first, shift)), I32) for shift in (0, 32))
    return o.emit.or_(o.emit.resize(low, "i64"), o.emit.shl(o.emit.resize(high, "i64"), 32))


def _shorts(o: Operation) -> Value:
    """Write add, min or max on two short integers."""
    emit = o.emit
    (a_low, a_high), (b_low, b_high) = (conversion.unpack(emit, o.source(i)) for i in (0, 1))
    return conversion.pack(emit, _short(o, a_low, b_low), _short(o, a_high, b_high))


def _short(o: Operation, a: Value, b: Value) -> Value:
    if o.ins.root == "add":
        return o.emit.add(a, b)
    result = o.emit.intrinsic(f"{'s' if o.is_signed else 'u'}{o.ins.root}", a, b)
    return o.emit.intrinsic("smax", result, integer(result.type, 0)) if o.has("relu") else result


@lowers(*(f"v{name}{count}" for name in ("add", "sub", "avrg", "min", "max", "absdiff", "set") for count in (2, 4)))
def _video(o: Operation) -> Value:
    """Write an operation on four bytes or two short integers, whose results stand side by side or are added up."""
    emit, width = o.emit, 8 if o.ins.root.endswith("4") else 16
    words = [(o.source(i, "u32"), kind == "s32") for i, kind in enumerate(o.ins.types[-2:])]
    total = o.source(2, "u32") if o.has("add") else integer(I32, 0)
    for place in range(0, 32, width):
        a, b = (
            (emit.ashr if signed else emit.lshr)(emit.shl(word, 32 - width - place), 32 - width)
            for word, signed in words
        )
        result = _saturated(o, _part(o, a, b), width) if o.has("sat") else _part(o, a, b)
        if o.has("add"):
            total = emit.add(total, result)
        else:
            total = emit.or_(total, emit.shl(emit.and_(result, (1 << width) - 1), place))
    return total


def _part(o: Operation, a: Value, b: Value) -> Value:
    emit, name = o.emit, o.ins.root[1:-1]
    match name:
        case "min" | "max":  # both are extended, so that they compare as signed numbers
            return emit.intrinsic(f"s{name}", a, b)
        case "set":
            condition = next(m for m in o.ins.modifiers if m in _CONDITIONS)
            return emit.cast("zext", emit.compare(_CONDITIONS[condition], a, b), "i32")
        case "add":
            return emit.add(a, b)
        case "avrg":  # what lies between two numbers goes away from zero
            total = emit.add(a, b)
            return emit.ashr(emit.add(total, emit.cast("zext", emit.compare("sge", total, 0), "i32")), 1)
        case "sub":
            return emit.sub(a, b)
    return emit.call(f"llvm.abs.v32{element(I32)}", I32, emit.sub(a, b), Value("false", "i1"))


def _saturated(o: Operation, value: Value, width: int) -> Value:
    is_signed = o.ins.types[0] == "s32"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    return o.emit.intrinsic("smax", o.emit.intrinsic("smin", value, integer(I32, high)), integer(I32, low))


_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


@lowers("add", "sub", "mul")
def _add_sub_mul(o: Operation) -> Value:
    if o.type in HALVES:
        return conversion.arithmetic(o)
    if o.type in FLOATS:
        return floats.add_sub_mul(o)
    if o.type in TYPES:
        return arithmetic(o, floats.add_sub_mul)
    a, b = o.source(0), o.source(1)
    if o.ins.root == "mul":
        return product(o, a, b)
    if o.has("sat"):
        return o.emit.intrinsic(f"s{o.ins.root}.sat", a, b)
    return o.emit.binary(o.ins.root, a, b)


@lowers("fma", "mad")
def _multiply_add(o: Operation) -> Value:
    if o.type in HALVES:
        return conversion.arithmetic(o)
    if o.type in FLOATS:
        return floats.fused_multiply_add(o)
    if o.type in TYPES:
        return arithmetic(o, floats.fused_multiply_add)
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
        return conversion.arithmetic(o)
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
        return conversion.arithmetic(o)
    if o.type in FLOATS:
        return floats.extreme(o)
    if o.type in TYPES:
        return arithmetic(o, floats.extreme)
    result = o.emit.intrinsic(f"{'s' if o.is_signed else 'u'}{o.ins.root}", o.source(0), o.source(1))
    return o.emit.intrinsic("smax", result, integer(result.type, 0)) if o.has("relu") else result


@lowers("sqrt", "rsqrt", "rcp", "sin", "cos", "ex2", "lg2", "tanh")
def _special_function(o: Operation) -> Value:
    return conversion.arithmetic(o) if o.type in HALVES else floats.special_function(o)


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
    return o.ins.opcode.has(Trait.CARRY) or o.has("cc")


def with_carry(o: Operation) -> None:
    """Write add, sub or mad with .cc, or addc, subc or madc."""
    emit, word = o.emit, f"u{TYPE_BITS[o.type]}"
    count = len(o.ins.operands) - 1
    first = product(o, o.source(0), o.source(1)) if count == 3 else o.source(0, word)
    second = o.source(count - 1, word)
    taken = integer(first.type, 0)
    if o.ins.opcode.has(Trait.CARRY):
        taken = emit.cast("zext", o.block.read(CARRY), element(first.type))
    if o.ins.root.startswith("sub"):
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
