"""Comparisons and conversions between types. Source: NVIDIA, PTX ISA 8.8, sections 9.7.6 and 9.7.9.21."""

import math
from dataclasses import dataclass

from kerncast.execute.native.arithmetic import floats, small_floats
from kerncast.execute.native.block import F32, F64, HALVES, I16, I32, I64, Operation, lowers
from kerncast.execute.native.ir import Emitter, Value, integer, real, vector
from kerncast.ptx import COMBINATIONS, TYPE_BITS

# Half precision and bfloat16, one value in a register or two.
#
# Values are computed in double precision, which holds each sum and product exactly or rounded to odd, and rounded
# once (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008).
# Conversions work on bits, so that they need nothing of the CPU.


@dataclass(frozen=True, slots=True)
class _Format:
    """A binary floating-point format."""

    precision: int
    """bits of the significand, the hidden one included"""
    least_exponent: int
    """exponent of the smallest normal number"""

    @property
    def largest(self) -> float:
        """Largest finite number."""
        return math.ldexp(2.0 - 2.0 ** (1 - self.precision), 1 - self.least_exponent)

    @property
    def smallest_normal(self) -> float:
        """Smallest number that is not subnormal."""
        return math.ldexp(1.0, self.least_exponent)


# The reference engine has its own description of both, so that a wrong one shows.
_FORMATS = {"f16": _Format(11, -14), "bf16": _Format(8, -126)}
_NAN = 0x7FFF
_ROUND = {"rn": "rint", "rz": "trunc", "rm": "floor", "rp": "ceil"}


def arithmetic(o: Operation) -> Value:
    """Write an arithmetic instruction on bit patterns; those of packed types hold two values."""
    count = len(o.ins.operands) - 1
    sources = [o.source(i) for i in range(count)]
    if not o.type.endswith("x2"):
        return _one(o, sources)
    low, high = zip(*(unpack(o.emit, word) for word in sources), strict=True)
    return pack(o.emit, _one(o, list(low)), _one(o, list(high)))


def unpack(emit: Emitter, word: Value) -> tuple[Value, Value]:
    """Return the lower and the upper half of words."""
    return emit.resize(word, "i16"), emit.resize(emit.lshr(word, 16), "i16")


def pack(emit: Emitter, low: Value, high: Value) -> Value:
    """Return words made of two halves."""
    return emit.or_(emit.resize(low, "i32"), emit.shl(emit.resize(high, "i32"), 16))


def kind_of(type_name: str) -> str:
    """Return f16 or bf16."""
    return type_name.removesuffix("x2")


def to_f64(emit: Emitter, half: Value, kind: str) -> Value:
    """Return half or bfloat16 bit patterns as doubles."""
    name = f"{kind}_to_f64"
    if name not in emit.unit:
        inner = Emitter(emit.unit, name, F64, [Value("%h", I16)])
        inner.give(inner.cast("fpext", to_f32(inner, Value("%h", I16), kind), "double"))
        inner.finish()
    return emit.call(name, F64, half)


def to_f32(emit: Emitter, half: Value, kind: str) -> Value:
    """Return half or bfloat16 bit patterns as singles."""
    wide = emit.resize(half, "i32")
    if kind == "bf16":
        return emit.cast("bitcast", emit.shl(wide, 16), F32)
    sign, rest = emit.shl(emit.and_(wide, 0x8000), 16), emit.and_(wide, 0x7FFF)
    # Moved into place the exponent is 112 too small; the product mends that, for subnormal numbers too.
    small = emit.cast("bitcast", emit.shl(rest, 13), F32)
    scaled = emit.cast("bitcast", emit.binary("fmul", small, real(F32, 2.0**112)), I32)
    special = emit.or_(emit.shl(rest, 13), 0x7F800000)
    value = emit.select(emit.compare("uge", rest, 0x7C00), special, scaled)
    return emit.cast("bitcast", emit.or_(value, sign), F32)


def from_f64(emit: Emitter, exact: Value, kind: str, mode: str = "rn") -> Value:
    """Round doubles (themselves rounded to odd) to half or bfloat16 bit patterns."""
    name = f"f64_to_{kind}_{mode}"
    if name not in emit.unit:
        inner = Emitter(emit.unit, name, I16, [Value("%x", F64)])
        inner.give(_pattern(inner, _round(inner, Value("%x", F64), kind, mode), kind))
        inner.finish()
    return emit.call(name, I16, exact)


def _round(emit: Emitter, exact: Value, kind: str, mode: str) -> Value:
    """Round doubles to the values of a shorter format."""
    shape = _FORMATS[kind]
    raw = emit.cast("bitcast", exact, I64)
    exponent = emit.and_(emit.lshr(raw, 52), 0x7FF)  # with the bias of 1023
    least = emit.intrinsic("umax", exponent, integer(I64, shape.least_exponent + 1023))
    unit = emit.sub(least, integer(I64, shape.precision - 1))
    scale = emit.cast("bitcast", emit.shl(unit, 52), F64)
    # At infinity the unit has no meaning; what it gives is put right below.
    steps = emit.intrinsic(_ROUND[mode], emit.binary("fdiv", exact, scale))
    rounded = emit.binary("fmul", steps, scale)
    largest = real(F64, shape.largest)
    size = emit.intrinsic("fabs", rounded)
    infinity, zero = real(F64, float("inf")), real(F64, 0.0)
    beyond = {
        "rn": infinity,
        "rz": largest,
        "rm": emit.select(emit.compare("olt", exact, zero), infinity, largest),
        "rp": emit.select(emit.compare("ogt", exact, zero), infinity, largest),
    }[mode]
    beyond = emit.intrinsic("copysign", beyond, exact)
    rounded = emit.select(emit.compare("ogt", size, largest), beyond, rounded)
    rounded = emit.intrinsic("copysign", rounded, exact)
    is_finite = emit.compare("olt", emit.intrinsic("fabs", exact), infinity)
    return emit.select(is_finite, rounded, exact)


def _pattern(emit: Emitter, value: Value, kind: str) -> Value:
    """Return the bits of doubles that the format holds exactly."""
    single = emit.cast("fptrunc", value, "float")
    raw = emit.cast("bitcast", single, I32)
    if kind == "bf16":
        bits = emit.resize(emit.lshr(raw, 16), "i16")
    else:
        sign = emit.and_(emit.lshr(raw, 16), 0x8000)
        # The product moves the exponent to its place in a half; what is subnormal there becomes so by itself.
        size = emit.cast("bitcast", emit.and_(raw, 0x7FFFFFFF), F32)
        moved = emit.cast("bitcast", emit.binary("fmul", size, real(F32, 2.0**-112)), I32)
        finite = emit.lshr(moved, 13)
        is_infinite = emit.compare("ugt", emit.and_(raw, 0x7FFFFFFF), 0x477FFFFF)
        bits = emit.resize(emit.or_(emit.select(is_infinite, integer(I32, 0x7C00), finite), sign), "i16")
    return emit.select(emit.compare("uno", value, value), integer(I16, _NAN), bits)


def flushed(o: Operation, value: Value, type_name: str | None = None) -> Value:
    """Return doubles with numbers that are subnormal in the format replaced by zero, if the instruction says so."""
    if not o.has("ftz"):
        return value
    emit = o.emit
    least = real(F64, _FORMATS[kind_of(type_name or o.type)].smallest_normal)
    is_small = emit.compare("olt", emit.intrinsic("fabs", value), least)
    return emit.select(is_small, emit.intrinsic("copysign", real(F64, 0.0), value), value)


def _one(o: Operation, halves: list[Value]) -> Value:
    emit, kind, root = o.emit, kind_of(o.type), o.ins.root
    if root == "neg":
        return emit.xor(_kept(o, halves[0]), 0x8000)
    if root == "abs":
        return emit.and_(_kept(o, halves[0]), 0x7FFF)
    values = [flushed(o, to_f64(emit, half, kind)) for half in halves]
    value = _compute(o, values)
    if o.has("NaN"):  # min and max, which else prefer a number
        nan = emit.cast("bitcast", integer(I64, 0x7FF8 << 48), F64)
        value = emit.select(emit.compare("uno", values[0], values[1]), nan, value)
    if o.has("relu"):
        value = emit.select(emit.compare("ole", value, real(F64, 0.0)), real(F64, 0.0), value)
    if o.has("sat"):
        value = floats.saturate(emit, value)
    half = from_f64(emit, value, kind)
    return from_f64(emit, flushed(o, to_f64(emit, half, kind)), kind) if o.has("ftz") else half


def _kept(o: Operation, half: Value) -> Value:
    """Return a half with its sign and what .ftz leaves of the rest."""
    emit, kind = o.emit, kind_of(o.type)
    is_zero = emit.compare("oeq", flushed(o, to_f64(emit, half, kind)), real(F64, 0.0))
    return emit.select(is_zero, emit.and_(half, 0x8000), half)


def _compute(o: Operation, values: list[Value]) -> Value:
    emit, root = o.emit, o.ins.root
    match root:
        case "add" | "sub" | "mul":
            return emit.binary(f"f{root}", *values)
        case "min" | "max":
            return floats.smaller_or_larger(emit, root, *values)
        case "fma":
            return sum_to_odd(emit, emit.binary("fmul", values[0], values[1]), values[2])
    return floats.function_f64(o, root, values[0])


def sum_to_odd(emit: Emitter, a: Value, b: Value) -> Value:
    """Return a + b; where that is inexact, with an odd last bit, so that a second rounding cannot go wrong."""
    name = "sum_to_odd"
    if name not in emit.unit:
        _define_sum_to_odd(emit, name)
    return emit.call(name, F64, a, b)


def _define_sum_to_odd(outer: Emitter, name: str) -> None:
    a, b = Value("%a", F64), Value("%b", F64)
    emit = Emitter(outer.unit, name, F64, [a, b])
    total = emit.binary("fadd", a, b)
    part = emit.binary("fsub", total, a)
    error = emit.binary("fadd", emit.binary("fsub", a, emit.binary("fsub", total, part)), emit.binary("fsub", b, part))
    raw, zero, infinity = emit.cast("bitcast", total, I64), real(F64, 0.0), real(F64, float("inf"))
    is_even = emit.compare("eq", emit.and_(raw, 1), 0)
    is_inexact = emit.compare("one", error, zero)
    is_finite = emit.compare("olt", emit.intrinsic("fabs", total), infinity)
    changes = emit.and_(emit.and_(is_inexact, is_even), is_finite)
    outward = emit.xor(emit.compare("ogt", error, zero), emit.compare("ole", total, zero))
    step = emit.select(outward, integer(I64, 1), integer(I64, -1))
    odd = emit.cast("bitcast", emit.add(raw, step), F64)
    emit.give(emit.select(changes, odd, total))
    emit.finish()


_INTEGER = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "ult", "ls": "ule", "hi": "ugt",
    "hs": "uge", "equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge",
}  # fmt: skip
_FLOAT = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno", "lo": "olt", "ls": "ole",
    "hi": "ogt", "hs": "oge",
}  # fmt: skip
_ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def set_predicate(o: Operation) -> None:
    """Write setp: one or two results, which may be combined with a third predicate."""
    results = o.ins.operands[: o.first]
    if o.type.endswith("x2"):  # of packed halves each gives one result
        both = _compare_packed(o)
    else:
        one = _compare(o, o.source(0), o.source(1))
        both = (one, o.emit.not_(one)) if len(results) > 1 else (one, one)
    both = (_combined(o, both[0]), _combined(o, both[1]))
    for target, value in zip(results, both, strict=False):
        o.block.write(target, value)


@lowers("set")
def _set(o: Operation) -> Value:
    emit, target = o.emit, o.ins.types[0]
    if o.type.endswith("x2"):
        one = _ONE[kind_of(target)] if target.endswith("x2") else -1
        results = [_combined(o, truth) for truth in _compare_packed(o)]
        return pack(emit, *(emit.select(truth, integer(I16, one), 0) for truth in results))
    truth = _combined(o, _compare(o, o.source(0), o.source(1)))
    if target in _ONE:
        return emit.resize(emit.select(truth, integer(I32, _ONE[target]), 0), "i16")
    if target == "f32":
        return emit.select(truth, real(F32, 1.0), real(F32, 0.0))
    return emit.cast("sext", truth, f"i{TYPE_BITS[target]}")


def _combined(o: Operation, truth: Value) -> Value:
    """Combine the result of a comparison with a predicate, where the instruction has one."""
    combine = next((m for m in o.ins.modifiers if m in COMBINATIONS), None)
    return truth if combine is None else o.emit.binary(combine, truth, o.source(2, "pred"))


@lowers("selp")
def _select(o: Operation) -> Value:
    return o.emit.select(o.source(2, "pred"), o.source(0), o.source(1))


@lowers("slct")
def _select_by_sign(o: Operation) -> Value:
    value, control = o.ins.types
    c = o.source(2, control)
    if o.has("ftz"):
        c = floats.flush(o.emit, c)
    positive = o.emit.compare("oge", c, real(F32, 0.0)) if control == "f32" else o.emit.compare("sge", c, 0)
    return o.emit.select(positive, o.source(0, value), o.source(1, value))


def _compare_packed(o: Operation) -> tuple[Value, Value]:
    (a_low, a_high), (b_low, b_high) = (unpack(o.emit, o.source(i)) for i in (0, 1))
    return _compare(o, a_low, b_low), _compare(o, a_high, b_high)


def _compare(o: Operation, a: Value, b: Value) -> Value:
    emit = o.emit
    if o.type in HALVES:
        kind = kind_of(o.type)
        a, b = (flushed(o, to_f64(emit, x, kind)) for x in (a, b))
    elif o.has("ftz") and a.type == F32:
        a, b = floats.flush(emit, a), floats.flush(emit, b)
    if a.type in {F32, F64}:
        return emit.compare(next(_FLOAT[m] for m in o.ins.modifiers if m in _FLOAT), a, b)
    condition = next(_INTEGER[m] for m in o.ins.modifiers if m in _INTEGER)
    if condition in {"lt", "le", "gt", "ge"}:
        condition = ("s" if o.is_signed else "u") + condition
    return emit.compare(condition, a, b)


_TO_WHOLE = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_HALVES = {"f16", "bf16"}
_FLOATS = {"f16", "bf16", "f32", "f64"}


@lowers("cvt")
def _convert(o: Operation) -> Value:
    target, source = o.ins.types
    emit = o.emit
    if target.endswith("x2"):
        return _convert_pair(o)
    value = o.source(0, source)
    if target == "tf32":
        return small_floats.to_tf32(o, _relu(o, value) if o.has("relu") else value)
    if source not in _FLOATS:
        return _from_integer(o, value, target)
    if o.has("ftz") and source == "f32":
        value = floats.flush(emit, value)
    if (source, target) == ("f32", "f32") or (source, target) == ("f64", "f64"):
        return _same(o, value)
    exact = to_f64(emit, value, source) if source in _HALVES else value
    exact = emit.cast("fpext", exact, "double") if exact.type == F32 else exact
    exact = _to_whole(o, exact)
    if target in _FLOATS:
        return _to_float(o, exact, target)
    return _to_integer(o, emit.intrinsic("trunc", exact), target, source)


def _convert_pair(o: Operation) -> Value:
    """Convert two values: two singles, of which the first becomes the upper part, or those of one register."""
    target, source = o.ins.types
    emit = o.emit
    if source == "f32":
        high, low = (emit.cast("fpext", o.source(i, "f32"), "double") for i in (0, 1))
    elif source in small_floats.PAIRS:
        low, high = small_floats.unpacked(emit, o.source(0), source)
    else:
        low, high = (to_f64(emit, half, kind_of(source)) for half in unpack(emit, o.source(0)))
    if target in small_floats.PAIRS:
        if o.has("relu"):
            low, high = _relu(o, low), _relu(o, high)
        mode = floats.rounding_of(o)
        return small_floats.packed(emit, (low, high), target, mode, is_finite=o.has("satfinite"))
    kind = kind_of(target)
    return pack(emit, _to_float(o, low, kind), _to_float(o, high, kind))


@lowers("createpolicy")
def _create_policy(o: Operation) -> Value:
    """Write a cache policy: nothing reads its bits."""
    del o
    return integer(I64, 0)


@lowers("cvt.pack")
def _pack_integers(o: Operation) -> Value:
    return small_floats.pack_integers(o)


def _same(o: Operation, value: Value) -> Value:
    value = _to_whole(o, value)
    if o.has("sat"):
        value = floats.saturate(o.emit, value)
    if o.has("relu"):
        value = _relu(o, value)
    return value if value.type == F64 else _flushed(o, floats.canonical(o.emit, value))


def _to_whole(o: Operation, value: Value) -> Value:
    for name, function in _TO_WHOLE.items():
        if o.has(name):
            value = o.emit.intrinsic(function, value)
    return value


def _relu(o: Operation, value: Value) -> Value:
    zero = real(value.type, 0.0)
    return o.emit.select(o.emit.compare("ole", value, zero), zero, value)


def _flushed(o: Operation, value: Value) -> Value:
    return floats.flush(o.emit, value) if o.has("ftz") else value


def _from_integer(o: Operation, value: Value, target: str) -> Value:
    emit = o.emit
    signed = o.ins.types[1].startswith("s")
    if target in {"f32", "f64"}:
        return _integer_to_float(o, value, target, signed=signed)
    if target in _HALVES:
        return _to_float(o, _integer_to_odd(o, value, signed=signed), target)
    if o.has("sat"):
        value = _clamp(o, value, target, signed=signed)
    return emit.resize(value, f"i{TYPE_BITS[target]}", signed=signed)


def _integer_to_float(o: Operation, value: Value, target: str, *, signed: bool) -> Value:
    operation, mode = ("sitofp" if signed else "uitofp"), floats.rounding_of(o)
    kind = "float" if target == "f32" else "double"
    if mode == "rn":
        number = o.emit.cast(operation, value, kind)
    else:
        wide = o.emit.resize(value, "i64", signed=signed)
        number = floats.rounded(o.emit, operation, mode, kind, wide)
    return floats.saturate(o.emit, number) if o.has("sat") else number


def _integer_to_odd(o: Operation, value: Value, *, signed: bool) -> Value:
    """Return integers as doubles, rounded to odd: a multiple of 2**32 and a rest, both exact."""
    emit = o.emit
    wide = emit.resize(value, "i64", signed=signed)
    upper = emit.ashr(wide, 32) if signed else emit.lshr(wide, 32)
    high = emit.binary("fmul", emit.cast("sitofp", upper, "double"), real(F64, 2.0**32))
    low = emit.cast("uitofp", emit.and_(wide, 0xFFFFFFFF), "double")
    return sum_to_odd(emit, high, low)


def _clamp(o: Operation, value: Value, target: str, *, signed: bool) -> Value:
    """Clamp an integer to what the target holds."""
    width, own = TYPE_BITS[target], TYPE_BITS[o.ins.types[1]]
    to_signed = target.startswith("s")
    highest = (1 << (width - to_signed)) - 1
    lowest = -(1 << (width - 1)) if to_signed else 0
    own_highest, own_lowest = (1 << (own - signed)) - 1, (-(1 << (own - 1)) if signed else 0)
    letter = "s" if signed else "u"
    value = o.emit.intrinsic(f"{letter}max", value, integer(value.type, max(lowest, own_lowest)))
    return o.emit.intrinsic(f"{letter}min", value, integer(value.type, min(highest, own_highest)))


def _to_float(o: Operation, exact: Value, target: str) -> Value:
    emit = o.emit
    if o.has("sat"):
        exact = floats.saturate(emit, exact)
    if o.has("relu"):
        exact = _relu(o, exact)
    if target == "f64":
        return exact
    mode = floats.rounding_of(o)
    if target in _HALVES:
        if o.has("satfinite"):
            exact = _within(emit, exact, _FORMATS[target].largest)
        return from_f64(emit, exact, target, mode)
    if mode == "rn":
        single = emit.cast("fptrunc", exact, "float")
    else:
        single = floats.rounded(emit, "fptrunc", mode, "float", exact)
    return _flushed(o, floats.canonical(emit, single))


def _within(emit: Emitter, value: Value, largest: float) -> Value:
    """Return doubles with those beyond the largest number of a format replaced by it; NaN stays."""
    limit = emit.intrinsic("copysign", real(F64, largest), value)
    return emit.select(emit.compare("ogt", emit.intrinsic("fabs", value), real(F64, largest)), limit, value)


def _to_integer(o: Operation, whole: Value, target: str, source: str) -> Value:
    """Clamp to the target's range; NaN gives 0, or the highest bit where a 64-bit type takes part."""
    emit, width, to_signed = o.emit, TYPE_BITS[target], target.startswith("s")
    kind = f"i{max(width, 32)}"
    result = emit.call(f"llvm.fpto{'s' if to_signed else 'u'}i.sat.v32{kind}.v32f64", vector(kind), whole)
    if width < 32:
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to_signed else (0, (1 << width) - 1)
        letter = "s" if to_signed else "u"
        result = emit.intrinsic(f"{letter}max", result, integer(result.type, low)) if to_signed else result
        result = emit.resize(emit.intrinsic(f"{letter}min", result, integer(result.type, high)), f"i{width}")
    if source == "f64" or width == 64:
        highest_bit = integer(result.type, 1 << (width - 1))
        result = emit.select(emit.compare("uno", whole, whole), highest_bit, result)
    return result
