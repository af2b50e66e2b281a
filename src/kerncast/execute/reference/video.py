"""Operations on four bytes or two short integers in a word, as Kepler has them for most SIMD intrinsics.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.16.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.arithmetic import ARITHMETIC, Sources, handles
from kerncast.execute.reference.bits import byte_of, short_of
from kerncast.ptx.module import Instruction

AnyArray = npt.NDArray[Any]

__all__ = ["ARITHMETIC"]

_OPERATIONS: dict[str, Callable[..., AnyArray]] = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "absdiff": lambda a, b: np.abs(a - b),
    "avrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
}  # fmt: skip
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal
}  # fmt: skip


@handles(*(f"v{name}{count}" for name in (*_OPERATIONS, "set") for count in (2, 4)))
def _video(ins: Instruction, src: Sources) -> AnyArray:
    part, width = (byte_of, 8) if ins.root.endswith("4") else (short_of, 16)
    a_type, b_type = ins.types[-2:]
    a, b, total = src(0, "u32"), src(1, "u32"), src(2, "u32")
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, total.shape), np.int64)
    for place in range(32 // width):
        value = _compute(ins, part(a, place, a_type), part(b, place, b_type), width)
        if "add" in ins.modifiers:
            result += value
        else:
            result |= (value & ((1 << width) - 1)) << (width * place)
    return (result + total if "add" in ins.modifiers else result).astype(np.uint64).astype(np.uint32)


def _compute(ins: Instruction, a: AnyArray, b: AnyArray, width: int) -> AnyArray:
    name = ins.root[1:-1]
    if name == "set":
        return next(_COMPARISONS[m] for m in ins.modifiers if m in _COMPARISONS)(a, b).astype(np.int64)
    value = _OPERATIONS[name](a, b)
    if "sat" not in ins.modifiers:
        return value
    is_signed = ins.types[0] == "s32"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    clamped: AnyArray = np.clip(value, low, high)
    return clamped
