"""What each comparison and selection instruction computes.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.6 and 9.7.7.
"""

from typing import Any

import numpy as np

from kerncast.execute.reference import floats, halves
from kerncast.execute.reference.arithmetic import AnyArray, Sources, handles
from kerncast.ptx.module import TYPE_BITS, Instruction

#: Comparison: NumPy function, and the result where an operand is NaN.
_COMPARISONS = {
    "eq": (np.equal, False), "ne": (np.not_equal, False), "lt": (np.less, False), "le": (np.less_equal, False),
    "gt": (np.greater, False), "ge": (np.greater_equal, False), "lo": (np.less, False), "ls": (np.less_equal, False),
    "hi": (np.greater, False), "hs": (np.greater_equal, False), "equ": (np.equal, True), "neu": (np.not_equal, True),
    "ltu": (np.less, True), "leu": (np.less_equal, True), "gtu": (np.greater, True), "geu": (np.greater_equal, True),
}  # fmt: skip
#: What a comparison may be combined with a predicate by.
COMBINATIONS: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_PACKED_TRUE = {"f16x2": np.uint32(0x3C00), "bf16x2": np.uint32(0x3F80)}


@handles("setp")
def _set_predicate(ins: Instruction, src: Sources) -> AnyArray:
    """Compare; of packed halves bit 0 and bit 1 are the two results. The engine adds what setp combines it with."""
    if not ins.type.endswith("x2"):
        return _compare(ins, src(0), src(1))
    low, high = _compare_packed(ins, src(0), src(1))
    return low.astype(np.uint8) | (high.astype(np.uint8) << np.uint8(1))


@handles("set")
def _set(ins: Instruction, src: Sources) -> AnyArray:
    target = ins.types[0]
    if ins.type.endswith("x2"):
        one = _PACKED_TRUE.get(target, np.uint32(0xFFFF))
        results = (_combined(ins, src, r) for r in _compare_packed(ins, src(0), src(1)))
        return halves.pack(*(np.where(r, one, np.uint32(0)) for r in results))
    result = _combined(ins, src, _compare(ins, src(0), src(1)))
    if target in {"f16", "bf16"}:
        return halves.from_f64(result.astype(np.float64), target)
    ones = np.uint16(0xFFFF) if TYPE_BITS[target] == 16 else np.uint32(0xFFFFFFFF)
    return result.astype(np.float32) if target == "f32" else np.where(result, ones, ones.dtype.type(0))


def _combined(ins: Instruction, src: Sources, result: AnyArray) -> AnyArray:
    """Combine the result of a comparison with a predicate, where the instruction has one."""
    combine = next((m for m in ins.modifiers if m in COMBINATIONS), None)
    return result if combine is None else COMBINATIONS[combine](result, src(2, "pred"))


@handles("selp")
def _select(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    return np.where(src(2, "pred"), src(0), src(1))


@handles("slct")
def _select_by_sign(ins: Instruction, src: Sources) -> AnyArray:
    value, control = ins.types
    c = src(2, control)
    if "ftz" in ins.modifiers:
        c = floats.flush_subnormals(c)
    return np.where(c >= 0, src(0, value), src(1, value))


def _compare_packed(ins: Instruction, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray]:
    (a_low, a_high), (b_low, b_high) = halves.unpack(a), halves.unpack(b)
    return _compare(ins, a_low, b_low), _compare(ins, a_high, b_high)


def _compare(ins: Instruction, a: AnyArray, b: AnyArray) -> AnyArray:
    a, b = _comparable(ins, a), _comparable(ins, b)
    nan = np.isnan(a) | np.isnan(b) if a.dtype.kind == "f" else np.zeros(1, np.bool_)
    if "num" in ins.modifiers or "nan" in ins.modifiers:
        return nan if "nan" in ins.modifiers else ~nan
    function, if_nan = next(_COMPARISONS[m] for m in ins.modifiers if m in _COMPARISONS)
    result: AnyArray = function(a, b)
    return np.where(nan, np.bool_(if_nan), result)


def _comparable(ins: Instruction, values: AnyArray) -> AnyArray:
    if ins.type in {"f16", "bf16", "f16x2", "bf16x2"}:
        return halves.flushed(ins, halves.to_f64(values, ins.type))
    return floats.flush_subnormals(values) if "ftz" in ins.modifiers and values.dtype == np.float32 else values
