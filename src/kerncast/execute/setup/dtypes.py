"""PTX types as NumPy types."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.ptx import TYPE_BITS

AnyArray = npt.NDArray[Any]

#: bf16 and packed types are kept as bit patterns, 128 bits as two words.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "pred": "?", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2",
        "bf16": "u2", "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "f16x2": "u4", "bf16x2": "u4", "b64": "u8",
        "u64": "u8", "s64": "i8", "f64": "f8", "u16x2": "u4", "s16x2": "u4", "f32x2": "u8", "b128": "u8, u8",
    }.items()
}  # fmt: skip

_RAW: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8"),
                                  16: DTYPES["b128"]}  # fmt: skip


def raw_dtype(type_name: str) -> np.dtype[Any]:
    """Return the dtype that a register of this type is stored in: its bits, unsigned."""
    return DTYPES["pred"] if type_name == "pred" else _RAW[TYPE_BITS[type_name] // 8]


def as_type(bits: AnyArray, type_name: str) -> AnyArray:
    """Read register bits as a type; a narrower type takes the low bits, a wider one is filled with zeros."""
    dtype = DTYPES[type_name]
    if bits.dtype == dtype:
        return bits
    if bits.dtype.itemsize != dtype.itemsize:
        bits = bits.astype(_RAW[dtype.itemsize])
    result: AnyArray = bits.view(dtype)
    return result


def to_register(values: AnyArray, type_name: str) -> AnyArray:
    """Return values as the bits of a register; a signed value fills a wider register with its sign."""
    target = raw_dtype(type_name)
    if target == values.dtype:
        return values
    size = values.dtype.itemsize
    if size == target.itemsize:
        return np.ascontiguousarray(values).view(target)
    if values.dtype.kind == "f":
        values = np.ascontiguousarray(values).view(_RAW[size])
    return values.astype(target)


def immediate(value: int, kind: str, type_name: str) -> AnyArray:
    """Return a literal as a one-element array of a type; a float literal takes the width of the type."""
    dtype = DTYPES[type_name]
    if type_name == "pred":
        return np.array([value != 0])
    if dtype.kind == "f" and kind != "int":
        literal = np.array([value], np.uint32 if kind == "f32" else np.uint64)
        return literal.view(np.float32 if kind == "f32" else np.float64).astype(dtype)
    bits = value & ((1 << 8 * dtype.itemsize) - 1)
    return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)
