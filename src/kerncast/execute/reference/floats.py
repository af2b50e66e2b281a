"""IEEE arithmetic that NumPy lacks: fused multiply-add, directed rounding, flushing, bfloat16.

Results are exact, not approximate. The method is rounding to odd: an inexact result in double precision gets an odd
last bit, so that a second rounding to a shorter format cannot go wrong (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57, 2008).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.setup.dtypes import FORMATS
from kerncast.ptx import Instruction

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]

_CANONICAL_NAN_F32 = np.uint32(0x7FFFFFFF).view(np.float32)
_SMALLEST_NORMAL_F32 = np.float32(2.0**-126)
#: Outside these the error terms of a double-precision product could overflow, or lose bits.
_SAFE_FACTOR, _SAFE_LOW, _SAFE_HIGH = 2.0**990, 2.0**-900, 2.0**1010


_ROUND: dict[str, Callable[[Float64], Float64]] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


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


def round_to(exact: Float64, kind: str, mode: str) -> Float64:
    """Round doubles (themselves rounded to odd) to the values of a shorter format: f16, bf16 or f32."""
    shape = FORMATS[kind]
    _, exponent = np.frexp(exact)
    unit = np.maximum(exponent - shape.precision, shape.least_exponent - shape.precision + 1)
    rounded = np.ldexp(_ROUND[mode](np.ldexp(exact, -unit)), unit)
    to_infinity: Any = {"rn": True, "rz": False, "rm": exact < 0, "rp": exact > 0}[mode]
    beyond = np.copysign(np.where(to_infinity, np.inf, shape.largest), exact)
    rounded = np.where(np.abs(rounded) > shape.largest, beyond, rounded)
    return np.where(np.isfinite(exact), rounded, exact)


def round_to_f32(exact: Float64, mode: str = "rn") -> Float32:
    """Round doubles (themselves rounded to odd) to single precision: rn, rz, rm or rp."""
    return (exact if mode == "rn" else round_to(exact, "f32", mode)).astype(np.float32)


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
    return _pick(a, b, np.less(a, b) | ((a == b) & np.signbit(a)))


def maximum(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return the larger of two floats: a number wins over NaN, and +0 is larger than -0."""
    return _pick(a, b, np.greater(a, b) | ((a == b) & ~np.signbit(a)))


def _pick(a: AnyArray, b: AnyArray, prefers_a: npt.NDArray[np.bool_]) -> AnyArray:
    # np.fmin would do but for signalling NaN, for which it gives NaN.
    return np.where(np.isnan(b) | prefers_a, a, b)


def canonical_nan(values: AnyArray) -> AnyArray:
    """Return single-precision values with every NaN replaced by the one that the hardware returns."""
    if values.dtype != np.float32:
        return values
    bad = np.isnan(values)
    return np.where(bad, _CANONICAL_NAN_F32, values) if bad.any() else values


def bf16_to_f64(bits: npt.NDArray[np.uint16]) -> Float64:
    """Return the values of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def fma_to_odd(a: Float64, b: Float64, c: Float64) -> Float64:
    """Return a*b + c rounded to odd, for factors of at most 26 bits each (half and bfloat16)."""
    return _add_to_odd(a * b, c)


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
# Values are computed in double precision, which holds each sum and product exactly or rounded to odd, and rounded
# once.


_NAN_BITS = np.uint16(0x7FFF)


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
    """Return half or bfloat16 bit patterns as doubles."""
    if kind.startswith("bf16"):
        return bf16_to_f64(bits.view(np.uint16))
    return bits.view(np.float16).astype(np.float64)


def from_f64(values: AnyArray, kind: str, mode: str = "rn") -> AnyArray:
    """Round doubles (themselves rounded to odd) to half or bfloat16 bit patterns."""
    kind = kind.removesuffix("x2")
    rounded = round_to(values, kind, mode)
    if kind == "bf16":
        bits = (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        bits = rounded.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), _NAN_BITS, bits)


def flushed(ins: Instruction, values: AnyArray) -> AnyArray:
    """Return values with subnormal ones replaced by zero, if the instruction says so."""
    if "ftz" not in ins.modifiers:
        return values
    return flush_subnormals(values, FORMATS[ins.type.removesuffix("x2")].smallest_normal)


def _compute_lane(ins: Instruction, bits: list[AnyArray]) -> AnyArray:
    if ins.root not in _FUNCTIONS:  # neg and abs, which touch the sign alone
        small = flushed(ins, to_f64(bits[0], ins.type)) == 0
        kept = np.where(small, bits[0] & np.uint16(0x8000), bits[0])
        return kept ^ np.uint16(0x8000) if ins.root == "neg" else kept & np.uint16(0x7FFF)
    values = [flushed(ins, to_f64(b, ins.type)) for b in bits]
    result = _FUNCTIONS[ins.root](*values)
    if ins.root in {"min", "max"} and "NaN" in ins.modifiers:
        result = np.where(np.isnan(values[0]) | np.isnan(values[1]), np.nan, result)
    if "relu" in ins.modifiers:
        result = np.where(result <= 0, 0.0, result)
    if "sat" in ins.modifiers:
        result = saturate(result)
    rounded = from_f64(result, ins.type)
    return from_f64(flushed(ins, to_f64(rounded, ins.type)), ins.type) if "ftz" in ins.modifiers else rounded


_FUNCTIONS: dict[str, Callable[..., AnyArray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": fma_to_odd, "ex2": np.exp2, "tanh": np.tanh,
    "min": minimum, "max": maximum,
}  # fmt: skip
