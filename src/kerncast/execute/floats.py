"""IEEE arithmetic that NumPy lacks: fused multiply-add, directed rounding, flushing, bfloat16.

Results are exact, not approximate. The method is rounding to odd: an inexact result in double precision gets an odd
last bit, so that a second rounding to a shorter format cannot go wrong (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57, 2008).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]

_SMALLEST_NORMAL_F32 = np.float32(2.0**-126)
_CANONICAL_NAN_F32 = np.uint32(0x7FFFFFFF).view(np.float32)


def fma32(a: Float32, b: Float32, c: Float32, mode: str = "rn") -> Float32:
    """Return a*b + c rounded once; mode is rn, rz, rm or rp."""
    product = a.astype(np.float64) * b.astype(np.float64)  # 48 bits: exact
    return round_to_f32(_add_to_odd(product, c.astype(np.float64)), mode)


def add32(a: Float32, b: Float32, mode: str) -> Float32:
    """Return a + b under a directed rounding mode."""
    return round_to_f32(_add_to_odd(a.astype(np.float64), b.astype(np.float64)), mode)


def fma64(a: Float64, b: Float64, c: Float64) -> Float64:
    """Return a*b + c rounded once to nearest even.

    Fails when: the product's low half falls under the smallest subnormal number, or a factor is above 2**996; there
    the result may differ in the last bit.
    """
    product, low = _two_product(a, b)
    upper, upper_error = _two_sum(c, low)
    total, total_error = _two_sum(product, upper)
    result: Float64 = total + _to_odd(total_error + upper_error, _two_sum(total_error, upper_error)[1])
    plain = a * b + c
    # Infinities and NaN break the error terms: there the plain result is already right.
    return np.where(np.isfinite(plain) & np.isfinite(low), result, plain)


def round_to_f32(exact: Float64, mode: str = "rn") -> Float32:
    """Round a double (itself rounded to odd) to single precision: rn, rz, rm or rp."""
    nearest = exact.astype(np.float32)
    if mode == "rn":
        return nearest
    back = nearest.astype(np.float64)
    too_high, too_low = back > exact, back < exact
    if mode == "rz":
        too_high, too_low = too_high & (exact > 0), too_low & (exact < 0)
        return np.where(too_high | too_low, np.nextafter(nearest, np.float32(0)), nearest)
    if mode == "rm":
        return np.where(too_high, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return np.where(too_low, np.nextafter(nearest, np.float32(np.inf)), nearest)


def flush_subnormals(values: Float32) -> Float32:
    """Return single-precision values with subnormal ones replaced by zero of the same sign (.ftz)."""
    return np.where(np.abs(values) < _SMALLEST_NORMAL_F32, np.copysign(np.float32(0), values), values)


def canonical_nan(values: AnyArray) -> AnyArray:
    """Return single-precision values with every NaN replaced by the one that the hardware returns."""
    if values.dtype != np.float32:
        return values
    bad = np.isnan(values)
    return np.where(bad, _CANONICAL_NAN_F32, values) if bad.any() else values


def f64_to_f16(exact: Float64) -> npt.NDArray[np.float16]:
    """Round a double (itself rounded to odd) to half precision."""
    return exact.astype(np.float16)


def bf16_to_f64(bits: npt.NDArray[np.uint16]) -> Float64:
    """Return the values of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def f64_to_bf16(exact: Float64) -> npt.NDArray[np.uint16]:
    """Round a double to bfloat16, to nearest even, and return the bit patterns."""
    single = round_to_f32(exact, "rz")
    bits = single.view(np.uint32).copy()
    bits[single.astype(np.float64) != exact] |= 1  # to odd, so that the second rounding is right
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(exact), np.uint16(0x7FFF), rounded.astype(np.uint16))


def fma_to_odd(a: Float64, b: Float64, c: Float64) -> Float64:
    """Return a*b + c rounded to odd, for factors of at most 26 bits each (half and bfloat16)."""
    return _add_to_odd(a * b, c)


def _add_to_odd(a: Float64, b: Float64) -> Float64:
    total, error = _two_sum(a, b)
    return _to_odd(total, error)


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
