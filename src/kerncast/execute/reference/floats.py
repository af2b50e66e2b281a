"""IEEE arithmetic that NumPy lacks: fused multiply-add, directed rounding, flushing, half precision, bfloat16.

Results are exact, not approximate, and none is made the way the native engine makes it, so that an error of either one
shows. Singles: the native engine has the CPU's own fused multiply-add and rounding modes; here an inexact result in
double precision gets an odd last bit, so that a second rounding to a shorter format cannot go wrong (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers
57, 2008). Doubles: error terms, or fractions. Half precision and bfloat16: the native engine rounds to odd; here are
exact integers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.ptx import Instruction

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]

_CANONICAL_NAN_F32 = np.uint32(0x7FFFFFFF).view(np.float32)
_SMALLEST_NORMAL_F32 = np.float32(2.0**-126)
#: Outside these the error terms of a double-precision product could overflow, or lose bits.
_SAFE_FACTOR, _SAFE_LOW, _SAFE_HIGH = 2.0**990, 2.0**-900, 2.0**1010


#: Format of single precision.
_PRECISION_F32, _LEAST_EXPONENT_F32, _LARGEST_F32 = 24, -126, 2.0**128 - 2.0**104

_ROUND: dict[str, Callable[[Float64], Float64]] = {"rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def fma32(a: Float32, b: Float32, c: Float32, mode: str = "rn") -> Float32:
    """Return a*b + c rounded once; mode is rn, rz, rm or rp."""
    product = a.astype(np.float64) * b.astype(np.float64)  # 48 bits: exact
    return _rounded_sum(product, c.astype(np.float64), mode)


def add32(a: Float32, b: Float32, mode: str) -> Float32:
    """Return a + b rounded once."""
    return _rounded_sum(a.astype(np.float64), b.astype(np.float64), mode)


def fma64(a: Float64, b: Float64, c: Float64, mode: str = "rn") -> Float64:
    """Return a*b + c rounded once; whatever is too large or too small for error terms is computed with fractions."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if mode != "rn":
        return _each(lambda x, y, z: _exact_fma(x, y, z, mode), a, b, c)
    product, low = _two_product(a, b)
    upper, upper_error = _two_sum(c, low)
    total, total_error = _two_sum(product, upper)
    rest, rest_error = _two_sum(total_error, upper_error)
    has_finite_factors = np.isfinite(a) & np.isfinite(b)
    plain = np.where(has_finite_factors & ~np.isfinite(c), c, product + c)
    is_plain = (product == 0) & ((a == 0) | (b == 0)) | ~(has_finite_factors & np.isfinite(c))
    result = np.where(is_plain, plain, total + _to_odd(rest, rest_error))
    size = np.abs(product)
    is_safe = (np.maximum(np.abs(a), np.abs(b)) < _SAFE_FACTOR) & (size > _SAFE_LOW) & (size < _SAFE_HIGH)
    rare = np.flatnonzero(~is_plain & ~(is_safe & (np.abs(c) < _SAFE_HIGH)))
    if len(rare):
        result[rare] = _each(lambda x, y, z: _exact_fma(x, y, z, "rn"), a[rare], b[rare], c[rare])
    return result


def divide64(a: Float64, b: Float64, mode: str) -> Float64:
    """Return a / b rounded once, in a direction."""
    return _each(lambda x, y, _: _exact_quotient(x, y, mode), a, b, np.ones(1))


def square_root64(a: Float64, mode: str) -> Float64:
    """Return the square root rounded once, in a direction."""
    return _each(lambda x, _, __: _exact_root(x, mode), a, np.ones(1), np.ones(1))


def round_to_f32(exact: Float64, mode: str = "rn") -> Float32:
    """Round doubles (themselves rounded to odd) to single precision: rn, rz, rm or rp."""
    if mode == "rn":
        return exact.astype(np.float32)
    _, exponent = np.frexp(exact)
    unit = np.maximum(exponent - _PRECISION_F32, _LEAST_EXPONENT_F32 - _PRECISION_F32 + 1)
    rounded = np.ldexp(_ROUND[mode](np.ldexp(exact, -unit)), unit)
    to_infinity: Any = {"rz": False, "rm": exact < 0, "rp": exact > 0}[mode]
    beyond = np.copysign(np.where(to_infinity, np.inf, _LARGEST_F32), exact)
    rounded = np.where(np.abs(rounded) > _LARGEST_F32, beyond, rounded)
    return np.where(np.isfinite(exact), rounded, exact).astype(np.float32)


def integer_to_odd(values: AnyArray) -> Float64:
    """Return integers as doubles, rounded to odd."""
    high, low = _halves(values)
    return _add_to_odd(high, low)


def integer_to_f64(values: AnyArray, mode: str) -> Float64:
    """Return integers as doubles, rounded as asked."""
    high, low = _halves(values)
    return high + low if mode == "rn" else fma64(high, np.ones(1), low, mode)


def flush_subnormals(values: AnyArray, smallest_normal: float | np.float32 = _SMALLEST_NORMAL_F32) -> AnyArray:
    """Return values with subnormal ones replaced by zero of the same sign (.ftz)."""
    return np.where(np.abs(values) < smallest_normal, np.copysign(np.zeros(1, values.dtype), values), values)


def saturate(values: AnyArray) -> AnyArray:
    """Return values clamped to [0, 1]; NaN becomes 0 (.sat)."""
    zero, one = np.zeros(1, values.dtype), np.ones(1, values.dtype)
    return np.where(values > 0, np.minimum(values, one), zero)


def minimum(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return the smaller of two floats: a number wins over NaN, and -0 is smaller than +0."""
    return _pick(a, b, _rank(a) < _rank(b))


def maximum(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return the larger of two floats: a number wins over NaN, and +0 is larger than -0."""
    return _pick(a, b, _rank(a) > _rank(b))


def _rank(values: AnyArray) -> AnyArray:
    """Return integers in the order of floats: their bits, all but the sign turned where they are negative."""
    bits = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _pick(a: AnyArray, b: AnyArray, prefers_a: npt.NDArray[np.bool_]) -> AnyArray:
    # np.fmin would do but for signalling NaN, for which it gives NaN.
    return np.where(np.isnan(b) | (prefers_a & ~np.isnan(a)), a, b)


def canonical_nan(values: AnyArray) -> AnyArray:
    """Return single-precision values with every NaN replaced by the one that the hardware returns."""
    if values.dtype != np.float32:
        return values
    bad = np.isnan(values)
    return np.where(bad, _CANONICAL_NAN_F32, values) if bad.any() else values


def _rounded_sum(a: Float64, b: Float64, mode: str) -> Float32:
    total = _add_to_odd(a, b)
    if mode == "rm":  # what cancels is a negative zero under this mode
        total = np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)
    return round_to_f32(total, mode)


def _halves(values: AnyArray) -> tuple[Float64, Float64]:
    """Split integers into a multiple of 2**32 and a rest, both exact in double precision."""
    wide = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64)
    shift, mask = wide.dtype.type(32), wide.dtype.type(0xFFFFFFFF)
    return (wide >> shift).astype(np.float64) * 2.0**32, (wide & mask).astype(np.float64)


def _each(function: Callable[[float, float, float], float], a: Float64, b: Float64, c: Float64) -> Float64:
    triples = zip(*(x.tolist() for x in np.broadcast_arrays(a, b, c)), strict=True)
    return np.array([function(*triple) for triple in triples], np.float64)


def _exact_fma(a: float, b: float, c: float, mode: str) -> float:
    """Return a*b + c rounded once, by exact rational arithmetic."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c if math.isfinite(c) else (c if math.isfinite(a) and math.isfinite(b) else a * b + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        product_is_negative = math.copysign(1, a) * math.copysign(1, b) < 0
        signs = {product_is_negative, math.copysign(1, c) < 0}
        return -0.0 if signs == {True} or (mode == "rm" and True in signs) else 0.0
    return _rounded(exact, mode)


def _exact_quotient(a: float, b: float, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and a and b):
        return float(np.float64(a) / np.float64(b))
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    return math.copysign(_rounded(Fraction(a) / Fraction(b), mode), sign)


def _exact_root(a: float, mode: str) -> float:
    nearest = float(np.sqrt(a))
    if not math.isfinite(nearest) or not nearest:
        return nearest
    error = Fraction(nearest) ** 2 - Fraction(a)
    if mode == "rp":
        return math.nextafter(nearest, math.inf) if error < 0 else nearest
    return math.nextafter(nearest, 0.0) if error > 0 else nearest


def _rounded(exact: Fraction, mode: str) -> float:
    """Round a number that is not zero."""
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
    if mode == "rn" or (math.isfinite(nearest) and Fraction(nearest) == exact):
        return nearest
    toward = {"rz": 0.0, "rm": -math.inf, "rp": math.inf}[mode]
    too_far = abs(Fraction(nearest)) > abs(exact) if math.isfinite(nearest) else True
    wrong_side = {"rz": too_far, "rm": too_far == (exact > 0), "rp": too_far == (exact < 0)}[mode]
    return math.nextafter(nearest, toward) if wrong_side else nearest


def _add_to_odd(a: Float64, b: Float64) -> Float64:
    return _to_odd(*_two_sum(a, b))


def _to_odd(total: Float64, error: Float64) -> Float64:
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = (error != 0) & ((bits & 1) == 0) & np.isfinite(total) & np.isfinite(error)
    if not inexact.any():
        return total
    step = np.where((error > 0) == (total > 0), 1, -1)  # away from zero when the error has the same sign
    return np.where(inexact, bits + step, bits).view(np.float64)


def _two_sum(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Float64) -> tuple[Float64, Float64]:
    scaled = a * 134217729.0  # 2**27 + 1 (Dekker 1971)
    high = scaled - (scaled - a)
    return high, a - high


# Half-precision and bfloat16 arithmetic, one value in a register or two.
#
# A finite value is a whole number of units, the smallest subnormal number of its format. Sums and products are whole
# numbers of Python, which are exact however large they are, and one function rounds such a number to a bit pattern.
# What is asked of single values (signs, order, infinity, NaN) is asked of their patterns. So nothing is computed in
# floating point but the approximate functions.

Bits = npt.NDArray[np.uint16]
_BIT_LENGTH = np.frompyfunc(int.bit_length, 1, 1)
_SIGN, _SIZE, _CANONICAL_NAN = np.uint16(0x8000), np.uint16(0x7FFF), np.uint16(0x7FFF)


@dataclass(frozen=True, slots=True)
class _Format:
    """A format of 16 bits: the sign, the exponent, and the fraction."""

    fraction_bits: int
    unit: int
    """exponent of the smallest subnormal number"""
    one: int
    """pattern of 1.0"""
    infinity: int
    """pattern of infinity"""


_FORMATS = {"f16": _Format(10, -24, 0x3C00, 0x7C00), "bf16": _Format(7, -133, 0x3F80, 0x7F80)}


def compute(ins: Instruction, sources: list[AnyArray]) -> AnyArray:
    """Run an arithmetic instruction on bit patterns; those of packed types hold two values."""
    if not ins.type.endswith("x2"):
        return _compute_lane(ins, [bits.view(np.uint16) for bits in sources])
    return pack(*(_compute_lane(ins, [unpack(bits)[lane] for bits in sources]) for lane in (0, 1)))


def unpack(bits: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the lower and the upper half of words."""
    return bits.astype(np.uint16), (bits >> np.uint32(16)).astype(np.uint16)


def pack(low: AnyArray, high: AnyArray) -> AnyArray:
    """Return words made of two halves."""
    word: AnyArray = low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
    return word


def to_f64(bits: AnyArray, kind: str) -> AnyArray:
    """Return half or bfloat16 bit patterns as doubles, of which they are a part."""
    if kind.startswith("bf16"):  # the upper half of a single, by definition
        return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.view(np.float16).astype(np.float64)


def from_f64(values: Float64, kind: str, mode: str = "rn") -> AnyArray:
    """Round doubles to half or bfloat16 bit patterns."""
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.ldexp(fraction, 53).astype(np.int64)
    rounded = _rounded_to(kind, mode, whole, exponent.astype(np.int64) - 53)
    infinity = np.uint16(_FORMATS[kind].infinity)
    bits = np.where(np.isinf(values), infinity, rounded & _SIZE) | np.where(np.signbit(values), _SIGN, np.uint16(0))
    return np.where(np.isnan(values), _CANONICAL_NAN, bits)


def made_finite(bits: AnyArray, kind: str) -> AnyArray:
    """Return patterns with infinity replaced by the largest number of its sign."""
    infinity = np.uint16(_FORMATS[kind].infinity)
    return np.where(bits & _SIZE == infinity, bits - np.uint16(1), bits)


def from_integers(values: AnyArray, kind: str, mode: str) -> AnyArray:
    """Round integers to half or bfloat16 bit patterns."""
    return _rounded_to(kind, mode, values, 0)


def flushed(ins: Instruction, bits: AnyArray) -> AnyArray:
    """Return patterns with subnormal numbers replaced by zero of their sign, if the instruction says so."""
    if "ftz" not in ins.modifiers:
        return bits
    smallest_normal = 1 << _FORMATS[ins.type.removesuffix("x2")].fraction_bits
    return np.where(bits & _SIZE < smallest_normal, bits & _SIGN, bits)


def _rounded_to(kind: str, mode: str, exact: AnyArray, unit: AnyArray | int) -> Bits:
    """Round whole numbers of units, powers of two with these exponents, once to bit patterns; zero has no sign."""
    form, numbers = _FORMATS[kind], exact.astype(object)
    size, is_negative = np.abs(numbers), (numbers < 0).astype(np.bool_)
    dropped = np.maximum(_BIT_LENGTH(size).astype(np.int64) - form.fraction_bits - 1, form.unit - unit)
    size = size << np.maximum(-dropped, 0).astype(object)
    places = np.maximum(dropped, 0).astype(object)
    whole = size >> places
    twice_rest, one = (size - (whole << places)) * 2, np.full(places.shape, 1, object) << places
    kept = whole.astype(np.int64)
    beyond: AnyArray | int = form.infinity
    if mode == "rn":
        kept += (twice_rest > one) | ((twice_rest == one) & (kept & 1 == 1))
    elif mode == "rz":
        beyond = form.infinity - 1
    else:
        outward = is_negative if mode == "rm" else ~is_negative
        kept += (twice_rest > 0) & outward
        beyond = np.where(outward, form.infinity, form.infinity - 1)
    # The hidden bit, and what is carried out of the fraction, add one to the exponent by themselves.
    pattern = kept + ((dropped + unit - form.unit) << form.fraction_bits)
    pattern = np.where(pattern >= form.infinity, beyond, pattern)
    pattern = np.where(kept == 0, 0, pattern)
    return (pattern | np.where(is_negative, int(_SIGN), 0)).astype(np.uint16)


@cache
def _units_of(kind: str) -> AnyArray:
    """Return the units of every pattern, as whole numbers of Python; 0 for infinity and NaN."""
    form = _FORMATS[kind]
    found = np.zeros(1 << 16, object)
    for pattern in range(form.infinity):
        exponent, fraction = pattern >> form.fraction_bits, pattern & ((1 << form.fraction_bits) - 1)
        size = (fraction | 1 << form.fraction_bits) << exponent - 1 if exponent else fraction
        found[pattern], found[pattern | int(_SIGN)] = size, -size
    return found


def _multiply_add(a: Bits, b: Bits, c: Bits, kind: str) -> Bits:
    """Return a*b + c rounded once, to nearest."""
    form, units = _FORMATS[kind], _units_of(kind)
    exact = units[a] * units[b] + units[c] * (1 << -form.unit)
    product_sign = (a ^ b) & _SIGN
    # What cancels is positive; a sum of zeros is negative if both are.
    result = np.where(exact == 0, product_sign & c & _SIGN, _rounded_to(kind, "rn", exact, 2 * form.unit))
    (a_size, b_size, c_size), infinity = (each & _SIZE for each in (a, b, c)), np.uint16(form.infinity)
    is_infinite = (a_size == infinity) | (b_size == infinity)
    result = np.where(c_size == infinity, c, result)
    result = np.where(is_infinite, product_sign | infinity, result)
    no_product = is_infinite & ((a_size == 0) | (b_size == 0))
    no_sum = is_infinite & (c_size == infinity) & (product_sign != c & _SIGN)
    has_nan = (a_size > infinity) | (b_size > infinity) | (c_size > infinity)
    return np.where(no_product | no_sum | has_nan, _CANONICAL_NAN, result)


def _extreme(ins: Instruction, a: Bits, b: Bits, kind: str) -> Bits:
    """Return the smaller or the larger of two values, where -0 is smaller than +0."""
    infinity = _FORMATS[kind].infinity
    a_is_nan, b_is_nan = a & _SIZE > infinity, b & _SIZE > infinity
    # Patterns with their sign turned are in the order of their values, those of negative ones turned altogether.
    a_rank, b_rank = (np.where(each & _SIGN, ~each, each | _SIGN) for each in (a, b))
    prefers_a = a_rank < b_rank if ins.root == "min" else a_rank > b_rank
    result = np.where(b_is_nan | (prefers_a & ~a_is_nan), a, b)
    is_nan = a_is_nan | b_is_nan if "NaN" in ins.modifiers else a_is_nan & b_is_nan
    return np.where(is_nan, _CANONICAL_NAN, result)


def _compute_lane(ins: Instruction, sources: list[Bits]) -> Bits:
    kind = ins.type.removesuffix("x2")
    bits = [flushed(ins, each) for each in sources]
    one, infinity = np.full(1, _FORMATS[kind].one, np.uint16), _FORMATS[kind].infinity
    match ins.root:
        case "neg":
            return bits[0] ^ _SIGN
        case "abs":
            return bits[0] & _SIZE
        case "add":
            result = _multiply_add(bits[0], one, bits[1], kind)
        case "sub":
            result = _multiply_add(bits[0], one, bits[1] ^ _SIGN, kind)
        case "mul":  # to which a zero of its own sign adds nothing
            result = _multiply_add(bits[0], bits[1], (bits[0] ^ bits[1]) & _SIGN, kind)
        case "fma":
            result = _multiply_add(bits[0], bits[1], bits[2], kind)
        case "min" | "max":
            result = _extreme(ins, bits[0], bits[1], kind)
        case root:
            result = from_f64(_APPROXIMATE[root](to_f64(bits[0], kind)), kind)
    if "relu" in ins.modifiers:
        result = np.where(result & _SIGN != 0, np.uint16(0), result)
    if "sat" in ins.modifiers:
        result = np.where(result > infinity, np.uint16(0), np.minimum(result, one))
    return flushed(ins, result)


_APPROXIMATE: dict[str, Callable[[Float64], Float64]] = {"ex2": np.exp2, "tanh": np.tanh}
