"""Half-precision and bfloat16 arithmetic, one value in a register or two.

Values are computed in double precision, which holds each sum and product exactly or rounded to odd, and rounded once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.formats import FORMATS
from kerncast.execute.reference import floats
from kerncast.ptx.module import Instruction

AnyArray = npt.NDArray[Any]

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
        return floats.bf16_to_f64(bits.view(np.uint16))
    return bits.view(np.float16).astype(np.float64)


def from_f64(values: AnyArray, kind: str, mode: str = "rn") -> AnyArray:
    """Round doubles (themselves rounded to odd) to half or bfloat16 bit patterns."""
    kind = kind.removesuffix("x2")
    rounded = floats.round_to(values, kind, mode)
    if kind == "bf16":
        bits = (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        bits = rounded.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), _NAN_BITS, bits)


def flushed(ins: Instruction, values: AnyArray) -> AnyArray:
    """Return values with subnormal ones replaced by zero, if the instruction says so."""
    if "ftz" not in ins.modifiers:
        return values
    return floats.flush_subnormals(values, FORMATS[ins.type.removesuffix("x2")].smallest_normal)


def _compute_lane(ins: Instruction, bits: list[AnyArray]) -> AnyArray:
    if ins.root in {"neg", "abs"}:
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
        result = floats.saturate(result)
    rounded = from_f64(result, ins.type)
    return from_f64(flushed(ins, to_f64(rounded, ins.type)), ins.type) if "ftz" in ins.modifiers else rounded


_FUNCTIONS: dict[str, Callable[..., AnyArray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": floats.fma_to_odd, "ex2": np.exp2, "tanh": np.tanh,
    "min": floats.minimum, "max": floats.maximum,
}  # fmt: skip
