"""What ``cvt`` computes: every pair of integer and floating-point types, rounding and saturation.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.9.21.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute import floats
from kerncast.execute.arithmetic import Sources, f64_to_half, half_to_f64, handles, refuse, rounding_of
from kerncast.execute.dtypes import DTYPES
from kerncast.ptx.module import TYPE_BITS, Instruction

AnyArray = npt.NDArray[Any]

_TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLOATS = {"f16", "bf16", "f32", "f64"}


@handles("cvt")
def _convert(ins: Instruction, src: Sources) -> AnyArray:
    if len(ins.types) < 2:
        raise refuse(ins)
    target, source = ins.types[0], ins.types[-1]
    if target in {"f16x2", "bf16x2"} and source == "f32":
        return _pack_halves(ins, src, target.removesuffix("x2"))
    if target not in DTYPES or source not in DTYPES or target.endswith("x2") or source.endswith("x2"):
        raise refuse(ins)
    value = src(0, source)
    if source not in _FLOATS:
        return _from_integer(ins, value, target)
    if "ftz" in ins.modifiers and source == "f32":
        value = floats.flush_subnormals(value)
    exact = half_to_f64(value, source) if source in {"f16", "bf16"} else value.astype(np.float64)
    whole = next((function for name, function in _TO_WHOLE.items() if name in ins.modifiers), None)
    if whole is not None:
        exact = whole(exact)
    if target in _FLOATS:
        return _to_float(ins, exact, target)
    return _to_integer(exact if whole is not None else np.trunc(exact), target, source)


def _pack_halves(ins: Instruction, src: Sources, kind: str) -> AnyArray:
    """Two singles to one packed word: the first operand becomes the upper half."""
    if rounding_of(ins) != "rn":
        raise refuse(ins)
    high, low = (f64_to_half(_rectified(ins, src(i, "f32").astype(np.float64)), kind) for i in (0, 1))
    return (high.astype(np.uint32) << np.uint32(16)) | low.astype(np.uint32)


def _rectified(ins: Instruction, values: AnyArray) -> AnyArray:
    return np.where(values > 0, values, 0.0) if "relu" in ins.modifiers else values


def _from_integer(ins: Instruction, value: AnyArray, target: str) -> AnyArray:
    if target in _FLOATS:
        if value.dtype.itemsize < 8:
            return _to_float(ins, value.astype(np.float64), target)
        if rounding_of(ins) != "rn" or target in {"f16", "bf16"}:
            raise refuse(ins)
        return value.astype(DTYPES[target])
    if "sat" not in ins.modifiers:
        return value.astype(DTYPES[target])
    limits = np.iinfo(DTYPES[target])
    low, high = max(limits.min, np.iinfo(value.dtype).min), min(limits.max, np.iinfo(value.dtype).max)
    return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(DTYPES[target])


def _to_float(ins: Instruction, exact: AnyArray, target: str) -> AnyArray:
    if "sat" in ins.modifiers:
        exact = np.where(np.isnan(exact), 0.0, np.clip(exact, 0.0, 1.0))
    exact = _rectified(ins, exact)
    if target == "f64":
        return exact
    mode = rounding_of(ins)
    if target in {"f16", "bf16"}:
        if mode != "rn":
            raise refuse(ins)
        return f64_to_half(exact, target)
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
