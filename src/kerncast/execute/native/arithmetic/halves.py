"""Half precision and bfloat16, one value in a register or two.

Values are computed in double precision, which holds each sum and product exactly or rounded to odd, and rounded once
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008). Conversions work
on bits, so that they need nothing of the CPU.
"""

import math
from dataclasses import dataclass

from kerncast.execute.native.arithmetic import floats
from kerncast.execute.native.block import F32, F64, I16, I32, I64, Operation
from kerncast.execute.native.ir import Emitter, Value, integer, real


@dataclass(frozen=True, slots=True)
class _Format:
    """A binary floating-point format."""

    precision: int
    """bits of the significand, the hidden one included"""
    least_exponent: int
    """of the smallest normal number"""

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
        inner.give(inner.cast("fpext", _to_f32(inner, Value("%h", I16), kind), "double"))
        inner.finish()
    return emit.call(name, F64, half)


def _to_f32(emit: Emitter, half: Value, kind: str) -> Value:
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
