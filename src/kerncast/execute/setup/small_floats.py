"""Conversions to and from floats of 8, 6 and 4 bits and TF32: tables of all codes, and the code nearest to a number.

Sources: NVIDIA, PTX ISA 8.8, section 9.7.9.21; Open Compute Project, "8-bit Floating Point Specification" 1.0, tables 1
and 2, and "Microscaling Formats" 1.0, section 5.3.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.ptx import TYPE_BITS

AnyArray = npt.NDArray[Any]

#: Formats whose last codes are no numbers, and how many these are.
_SPECIAL = {"e4m3": 1, "e5m2": 4}
_BITS = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "ue8m0": 8}
#: Elements of launch files, and the formats of their numbers.
KINDS = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "f8e8m0": "ue8m0", "f6e2m3": "e2m3", "f6e3m2": "e3m2", "f4e2m1x2": "e2m1"}
PAIRS = frozenset(f"{name}x2" for name in _BITS)
_LARGEST_TF32 = 2.0**128 - 2.0**117
_NAN_E8M0 = 0xFF
_NAN_CODE = 0x7F


@cache
def values_of(name: str) -> AnyArray:
    """Return [codes] the value of every code of a format."""
    if name == "ue8m0":
        return np.append(np.ldexp(1.0, np.arange(_NAN_E8M0) - 127), np.nan)
    fraction_bits = int(name[3])
    bias = max((1 << int(name[1]) - 1) - 1, 1)
    sizes = np.arange(1 << _BITS[name] - 1)
    exponent, fraction = sizes >> fraction_bits, sizes & (1 << fraction_bits) - 1
    whole = fraction + np.where(exponent > 0, 1 << fraction_bits, 0)
    values = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - bias - fraction_bits)
    if special := _SPECIAL.get(name):
        values[-special:] = np.nan
    if name == "e5m2":
        values[-4] = np.inf
    return np.concatenate((values, -values))


def unpacked(pairs: AnyArray, name: str) -> tuple[AnyArray, AnyArray]:
    """Return the lower and the upper values of pairs, as doubles."""
    table, width = values_of(name.removesuffix("x2")), TYPE_BITS[name] // 2
    codes = pairs.astype(np.int64)
    return table[codes % len(table)], table[(codes >> width) % len(table)]


def packed(low: AnyArray, high: AnyArray, name: str, mode: str, *, is_finite: bool) -> AnyArray:
    """Round doubles to pairs of small floats."""
    kind = name.removesuffix("x2")
    codes = [_power(v, mode, is_finite=is_finite) if kind == "ue8m0" else _nearest(v, kind) for v in (low, high)]
    width = TYPE_BITS[name] // 2
    pairs: AnyArray = (codes[0] | codes[1] << width).astype(f"u{TYPE_BITS[name] // 8}")
    return pairs


def _nearest(values: AnyArray, kind: str) -> AnyArray:
    table = values_of(kind)
    numbers = table[: len(table) // 2]
    numbers = numbers[np.isfinite(numbers)]
    middles = (numbers[1:] + numbers[:-1]) / 2
    size = np.abs(values)
    code = np.searchsorted(middles, size)
    is_middle = middles[np.minimum(code, len(middles) - 1)] == size
    code = code + (is_middle & (code % 2 == 1))
    code = code + np.where(np.signbit(values), len(table) // 2, 0)
    return np.where(np.isnan(values), _NAN_CODE if kind in _SPECIAL else len(numbers) - 1, code)


def _power(values: AnyArray, mode: str, *, is_finite: bool) -> AnyArray:
    """Return the codes of powers of two: of the largest that is not larger (rz), or the smallest not smaller (rp)."""
    powers = values_of("ue8m0")[:-1]
    size = np.abs(values)
    code = np.searchsorted(powers, size) if mode == "rp" else np.searchsorted(powers, size, side="right") - 1
    code = np.where(np.isinf(values), _NAN_E8M0, np.maximum(code, 0))
    code = np.minimum(code, _NAN_E8M0 - 1) if is_finite else code
    return np.where(np.isnan(values), _NAN_E8M0, code)


def to_tf32(values: AnyArray, mode: str, *, is_finite: bool) -> AnyArray:
    """Round singles to TF32: rna to nearest, away from zero between two; rn, rz."""
    exact = values.astype(np.float64)
    unit = np.maximum(np.frexp(exact)[1] - 11, -136)
    steps = np.abs(np.ldexp(exact, -unit))
    whole = {"rna": np.floor(steps + 0.5), "rn": np.rint(steps), "rz": np.trunc(steps)}[mode]
    size = np.ldexp(whole, unit)
    beyond = _LARGEST_TF32 if is_finite else np.inf
    size = np.where(np.isinf(exact) | (size > _LARGEST_TF32), beyond, size)
    bits = np.copysign(size, exact).astype(np.float32).view(np.uint32)
    return np.where(np.isnan(values), np.uint32(0x7FFFFFFF), bits)


def codes_of(numbers: AnyArray, element: str) -> AnyArray:
    """Return numbers as bytes of an element of launch files: the nearest code, of powers of two that below."""
    kind = KINDS[element]
    codes = _power(numbers, "rz", is_finite=True) if kind == "ue8m0" else _nearest(numbers, kind)
    if element.endswith("x2"):
        codes = codes[0::2] | codes[1::2] << _BITS[kind]
    return codes.astype(np.uint8)


#: Largest number below 1 of each element.
LARGEST_BELOW_ONE = {
    element: float(max(value for value in values_of(kind) if value < 1)) for element, kind in KINDS.items()
}
