"""What ``cvt`` computes: every pair of integer and floating-point types, rounding and saturation.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.9.21.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.dtypes import DTYPES
from kerncast.execute.reference import floats, halves
from kerncast.execute.reference.arithmetic import ARITHMETIC, Sources, handles, rounding_of
from kerncast.ptx.module import TYPE_BITS, Instruction

AnyArray = npt.NDArray[Any]

__all__ = ["ARITHMETIC"]

_TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_HALF_TYPES = {"f16", "bf16"}
_FLOAT_TYPES = {"f16", "bf16", "f32", "f64"}


@handles("cvt")
def _convert(ins: Instruction, src: Sources) -> AnyArray:
    target, source = ins.types
    if target in {"f16x2", "bf16x2"}:  # two singles: the first becomes the upper half
        high, low = (_to_float(ins, src(i, "f32").astype(np.float64), target.removesuffix("x2")) for i in (0, 1))
        return halves.pack(low, high)
    value = src(0, source)
    if source not in _FLOAT_TYPES:
        return _from_integer(ins, value, target)
    if "ftz" in ins.modifiers and source == "f32":
        value = floats.flush_subnormals(value)
    exact = halves.to_f64(value, source) if source in _HALF_TYPES else value.astype(np.float64)
    for name, function in _TO_WHOLE.items():
        if name in ins.modifiers:
            exact = function(exact)
    return _to_float(ins, exact, target) if target in _FLOAT_TYPES else _to_integer(np.trunc(exact), target, source)


def _from_integer(ins: Instruction, value: AnyArray, target: str) -> AnyArray:
    if target == "f64":
        return _to_float(ins, floats.integer_to_f64(value, rounding_of(ins)), target)
    if target in _FLOAT_TYPES:
        return _to_float(ins, floats.integer_to_odd(value), target)
    if "sat" not in ins.modifiers:
        return value.astype(DTYPES[target])
    limits, own = np.iinfo(DTYPES[target]), np.iinfo(value.dtype)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(DTYPES[target])


def _to_float(ins: Instruction, exact: AnyArray, target: str) -> AnyArray:
    if "sat" in ins.modifiers:
        exact = floats.saturate(exact)
    if "relu" in ins.modifiers:
        exact = np.where(exact <= 0, 0.0, exact)
    if target == "f64":
        return exact
    mode = rounding_of(ins)
    if target in _HALF_TYPES:
        return halves.from_f64(exact, target, mode)
    single = floats.canonical_nan(floats.round_to_f32(exact, mode))
    return floats.flush_subnormals(single) if "ftz" in ins.modifiers else single


def _to_integer(whole: AnyArray, target: str, source: str) -> AnyArray:
    """Clamp to the target's range; NaN gives 0, or the highest bit where a 64-bit type takes part."""
    dtype = DTYPES[target]
    limits = np.iinfo(dtype)
    top = 2.0 ** (TYPE_BITS[target] - (dtype.kind == "i"))
    inside = (whole >= float(limits.min)) & (whole < top)
    result = np.where(inside, whole, 0.0).astype(dtype)
    result = np.where(whole >= top, dtype.type(limits.max), result)
    result = np.where(whole < float(limits.min), dtype.type(limits.min), result)
    if source == "f64" or TYPE_BITS[target] == 64:
        highest_bit = np.array([1 << (TYPE_BITS[target] - 1)], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
        return np.where(np.isnan(whole), highest_bit, result)
    return result
