"""Conversions to and from floats of 8, 6 and 4 bits and TF32, and of integers that are packed.

Sources: NVIDIA, PTX ISA 8.8, sections 9.7.9.21 and 9.7.9.22; Open Compute Project, "8-bit Floating Point Specification"
1.0 and "Microscaling Formats" 1.0. Numbers of these formats are parts of FP16, and powers of two of BF16.
"""

from dataclasses import dataclass

from kerncast.execute.native.block import F32, F64, I32, I64, Operation
from kerncast.execute.native.ir import Emitter, Value, integer, real
from kerncast.ptx import TYPE_BITS

_BIAS_F32, _FRACTION_F32, _BIAS_F64, _FRACTION_F64 = 127, 23, 1023, 52
_NAN_F32, _INFINITY_F32 = 0x7FFFFFFF, 0x7F800000
_NAN_E8M0, _LARGEST_E8M0 = 0xFF, 0xFE
_TF32_DROPPED = _FRACTION_F32 - 10
_LARGEST_TF32 = 0x7F7FE000


@dataclass(frozen=True, slots=True)
class _Format:
    """A format of at most 8 bits: a sign, an exponent, a fraction."""

    bits: int
    fraction: int
    bias: int
    largest: float
    not_finite: int
    """least code that is infinity or NaN; that of 2**bits where all are finite"""
    nan: int
    """what NaN becomes: the largest number, where the format has no NaN"""


_FORMATS = {
    "e4m3": _Format(8, 3, 7, 448.0, 0x7F, 0x7F),
    "e5m2": _Format(8, 2, 15, 57344.0, 0x7C, 0x7F),
    "e2m3": _Format(6, 3, 1, 7.5, 0x40, 0x1F),
    "e3m2": _Format(6, 2, 3, 28.0, 0x40, 0x1F),
    "e2m1": _Format(4, 1, 1, 6.0, 0x10, 0x07),
}
#: Types that hold two small floats; the fields are 8 bits wide, of e2m1 4.
PAIRS = frozenset({*(f"{name}x2" for name in _FORMATS), "ue8m0x2"})


def field_bits(pair: str) -> int:
    """Return the bits from one value of a pair to the next."""
    return TYPE_BITS[pair] // 2


def unpacked(emit: Emitter, pair: Value, name: str) -> tuple[Value, Value]:
    """Return the lower and the upper value of a pair, as doubles."""
    width = field_bits(name)
    wide = emit.resize(pair, "i32")
    return _value(emit, wide, name), _value(emit, emit.lshr(wide, width), name)


def packed(emit: Emitter, values: tuple[Value, Value], name: str, mode: str, *, is_finite: bool) -> Value:
    """Round doubles, the lower value first, to a pair; ``is_finite`` keeps powers of two from becoming NaN."""
    codes = [_code(emit, each, name, mode, is_finite=is_finite) for each in values]
    both = emit.or_(codes[0], emit.shl(codes[1], field_bits(name)))
    return emit.resize(both, "i8" if TYPE_BITS[name] == 8 else "i16")


def _value(emit: Emitter, word: Value, pair: str) -> Value:
    name = f"{pair}_to_f64"
    if name not in emit.unit:
        inner = Emitter(emit.unit, name, F64, [Value("%w", I32)])
        write = _power if pair == "ue8m0x2" else _number
        inner.give(inner.cast("fpext", inner.cast("bitcast", write(inner, Value("%w", I32), pair), F32), "double"))
        inner.finish()
    return emit.call(name, F64, word)


def _number(emit: Emitter, word: Value, pair: str) -> Value:
    """Return the pattern of a single."""
    form = _FORMATS[pair.removesuffix("x2")]
    top = 1 << form.bits - 1
    size = emit.and_(word, top - 1)
    sign = emit.shl(emit.and_(word, top), 32 - form.bits)
    # Moved into place the exponent is too small by the difference of the biases; the product mends that.
    moved = emit.shl(size, _FRACTION_F32 - form.fraction)
    scale = real(F32, 2.0 ** (_BIAS_F32 - form.bias))
    value = emit.cast("bitcast", emit.binary("fmul", emit.cast("bitcast", moved, F32), scale), I32)
    special = emit.or_(moved, _INFINITY_F32)
    return emit.or_(emit.select(emit.compare("uge", size, form.not_finite), special, value), sign)


def _power(emit: Emitter, word: Value, pair: str) -> Value:
    del pair
    code = emit.and_(word, _NAN_E8M0)
    half_of_least = integer(I32, 1 << _FRACTION_F32 - 1)  # 2**-127 is subnormal
    value = emit.select(emit.compare("eq", code, 0), half_of_least, emit.shl(code, _FRACTION_F32))
    return emit.select(emit.compare("eq", code, _NAN_E8M0), integer(I32, _NAN_F32), value)


def _code(emit: Emitter, value: Value, pair: str, mode: str, *, is_finite: bool) -> Value:
    name = f"f64_to_{pair}_{mode}_{int(is_finite)}"
    if name not in emit.unit:
        inner, x = Emitter(emit.unit, name, I32, [Value("%x", F64)]), Value("%x", F64)
        if pair == "ue8m0x2":
            inner.give(_exponent(inner, x, mode, _LARGEST_E8M0 if is_finite else _NAN_E8M0))
        else:
            inner.give(_rounded(inner, x, _FORMATS[pair.removesuffix("x2")]))
        inner.finish()
    return emit.call(name, I32, value)


def _rounded(emit: Emitter, value: Value, form: _Format) -> Value:
    """Round doubles to the nearest code, an even one between two; what is beyond the largest number becomes it."""
    size = emit.intrinsic("minnum", emit.intrinsic("fabs", value), real(F64, form.largest))
    exponent = emit.lshr(emit.cast("bitcast", size, I64), _FRACTION_F64)
    least = emit.intrinsic("umax", exponent, integer(I64, 1 - form.bias + _BIAS_F64))
    scale = emit.cast("bitcast", emit.shl(emit.sub(least, form.fraction), _FRACTION_F64), F64)
    whole = emit.binary("fmul", emit.intrinsic("rint", emit.binary("fdiv", size, scale)), scale)
    # The product moves the exponent to its place in the code; what is subnormal there becomes so by itself.
    scaled = emit.binary("fmul", emit.cast("fptrunc", whole, "float"), real(F32, 2.0 ** (form.bias - _BIAS_F32)))
    code = emit.lshr(emit.cast("bitcast", scaled, I32), _FRACTION_F32 - form.fraction)
    sign = emit.resize(emit.lshr(emit.cast("bitcast", value, I64), 63), "i32")
    code = emit.or_(code, emit.shl(sign, form.bits - 1))
    return emit.select(emit.compare("uno", value, value), integer(I32, form.nan), code)


def _exponent(emit: Emitter, value: Value, mode: str, most: int) -> Value:
    """Return the codes of powers of two, the sign ignored: the next smaller, or the next larger one."""
    raw = emit.cast("bitcast", emit.intrinsic("fabs", value), I64)
    if mode == "rp":
        raw = emit.add(raw, (1 << _FRACTION_F64) - 1)
    exponent = emit.resize(emit.lshr(raw, _FRACTION_F64), "i32")
    code = emit.sub(exponent, _BIAS_F64 - _BIAS_F32)
    code = emit.intrinsic("smin", emit.intrinsic("smax", code, integer(I32, 0)), integer(I32, most))
    return emit.select(emit.compare("uno", value, value), integer(I32, _NAN_E8M0), code)


def to_tf32(o: Operation, value: Value) -> Value:
    """Round singles to TF32, which lies in the upper 19 bits of a register: rna, rn or rz."""
    emit = o.emit
    raw = emit.cast("bitcast", value, I32)
    size = emit.and_(raw, _NAN_F32)
    half = 1 << _TF32_DROPPED - 1
    if o.has("rna"):
        rounded = emit.add(size, half)
    elif o.has("rn"):
        last = emit.and_(emit.lshr(size, _TF32_DROPPED), 1)
        rounded = emit.add(emit.add(size, half - 1), last)
    else:
        rounded = size
    rounded = emit.and_(rounded, -1 << _TF32_DROPPED)
    if o.has("satfinite"):
        rounded = emit.intrinsic("umin", rounded, integer(I32, _LARGEST_TF32))
    rounded = emit.or_(rounded, emit.and_(raw, 1 << 31))
    return emit.select(emit.compare("uno", value, value), integer(I32, _NAN_F32), rounded)


def pack_integers(o: Operation) -> Value:
    """Write cvt.pack: two integers, saturated, the second in the lowest bits, above them the low bits of a third."""
    emit, target = o.emit, o.ins.types[0]
    width, signed = TYPE_BITS[target], target.startswith("s")
    least, most = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    parts = []
    for position in (0, 1):
        value = emit.intrinsic("smin", emit.intrinsic("smax", o.source(position, "s32"), integer(I32, least)),
                               integer(I32, most))  # fmt: skip
        parts.append(emit.and_(value, (1 << width) - 1))
    word = emit.or_(emit.shl(parts[0], width), parts[1])
    if len(o.ins.types) == 3:
        word = emit.or_(word, emit.shl(o.source(2, "b32"), 2 * width))
    return word
