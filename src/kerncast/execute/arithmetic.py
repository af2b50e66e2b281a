"""What each arithmetic PTX instruction computes, one function per opcode, over arrays of threads.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1 to 9.7.9. Approximate functions (``.approx``) are
computed in double precision and rounded once: within the error that the ISA allows, not bit-equal to the hardware.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute import floats
from kerncast.execute.dtypes import DTYPES
from kerncast.ptx.module import Instruction

AnyArray = npt.NDArray[Any]


class Sources(Protocol):
    """Gives the value of a source operand, read as a type."""

    def __call__(self, position: int, type_name: str | None = None) -> AnyArray: ...


Handler = Callable[[Instruction, Sources], AnyArray]
ARITHMETIC: dict[str, Handler] = {}

_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
_FLOATS = {"f16", "bf16", "f32", "f64", "f16x2", "bf16x2"}
_HALVES = {"f16", "bf16", "f16x2", "bf16x2"}
_ROUNDINGS = {"rn", "rz", "rm", "rp"}


def handles(*roots: str) -> Callable[[Handler], Handler]:
    """Register the function that computes these opcodes."""

    def register(function: Handler) -> Handler:
        for root in roots:
            ARITHMETIC[root] = function
        return function

    return register


def rounding_of(instruction: Instruction) -> str:
    """Return the rounding modifier of a floating-point instruction; rn is the default."""
    return next((m for m in instruction.modifiers if m in _ROUNDINGS), "rn")


def refuse(instruction: Instruction) -> UnsupportedError:
    """Return the error for an instruction, or a form of it, that is not covered."""
    where = str(instruction.location) if instruction.location else None
    return UnsupportedError(f"PTX instruction {instruction.name} is not supported", where=where)


@handles("add", "sub", "mul")
def _add_sub_mul(ins: Instruction, src: Sources) -> AnyArray:
    kind = ins.type
    if kind in _HALVES:
        return _half(ins, src)
    if kind in _FLOATS:
        return _float_result(ins, _float_add_sub_mul(ins, src))
    a, b = src(0), src(1)
    if ins.root == "add":
        return _saturated(a, b, np.add) if "sat" in ins.modifiers else a + b
    if ins.root == "sub":
        return _saturated(a, b, np.subtract) if "sat" in ins.modifiers else a - b
    return _integer_product(ins, a, b)


def _float_add_sub_mul(ins: Instruction, src: Sources) -> AnyArray:
    a, b = _float_source(ins, src, 0), _float_source(ins, src, 1)
    mode = rounding_of(ins)
    if mode == "rn":
        operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[ins.root]
        result: AnyArray = operation(a, b)
        return result
    if ins.type != "f32":
        raise refuse(ins)
    if ins.root == "mul":
        return floats.round_to_f32(a.astype(np.float64) * b.astype(np.float64), mode)
    return floats.add32(a, -b if ins.root == "sub" else b, mode)


@handles("fma", "mad")
def _fma(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    if ins.type in _FLOATS:
        a, b, c = (_float_source(ins, src, position) for position in range(3))
        mode = rounding_of(ins)
        if ins.type == "f32":
            return _float_result(ins, floats.fma32(a, b, c, mode))
        if mode != "rn":
            raise refuse(ins)
        return floats.fma64(a, b, c)
    product = _integer_product(ins, src(0), src(1))
    wide = "wide" in ins.modifiers
    return product + src(2, _WIDER[ins.type] if wide else ins.type)


def _integer_product(ins: Instruction, a: AnyArray, b: AnyArray) -> AnyArray:
    if "wide" in ins.modifiers:
        wide = DTYPES[_WIDER[ins.type]]
        return a.astype(wide) * b.astype(wide)
    if "hi" not in ins.modifiers:
        return a * b
    if a.dtype.itemsize < 8:
        wide = np.dtype("i8") if a.dtype.kind == "i" else np.dtype("u8")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(8 * a.dtype.itemsize)).astype(a.dtype)
    return _high_product_64(a, b)


def _high_product_64(a: AnyArray, b: AnyArray) -> AnyArray:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    a_low, a_high, b_low, b_high = ua & mask, ua >> half, ub & mask, ub >> half
    cross = a_high * b_low + ((a_low * b_low) >> half)
    other = (cross & mask) + a_low * b_high
    high = a_high * b_high + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":  # signed: take the other factor away once for each negative sign
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
        return high.view(np.int64)
    return high


def _saturated(a: AnyArray, b: AnyArray, operation: Callable[..., AnyArray]) -> AnyArray:
    limits = np.iinfo(np.int32)
    return np.clip(operation(a.astype(np.int64), b.astype(np.int64)), limits.min, limits.max).astype(np.int32)


def _float_source(ins: Instruction, src: Sources, position: int) -> AnyArray:
    value = src(position)
    return floats.flush_subnormals(value) if "ftz" in ins.modifiers and value.dtype == np.float32 else value


def _float_result(ins: Instruction, value: AnyArray) -> AnyArray:
    if "sat" in ins.modifiers:
        value = np.where(np.isnan(value), value.dtype.type(0), np.clip(value, 0, 1)).astype(value.dtype)
    value = floats.canonical_nan(value)
    return floats.flush_subnormals(value) if "ftz" in ins.modifiers and value.dtype == np.float32 else value


def half_to_f64(bits: AnyArray, kind: str) -> AnyArray:
    """Return half or bfloat16 values (bit patterns or float16) in double precision."""
    if kind.startswith("bf16"):
        return floats.bf16_to_f64(bits)
    return bits.view(np.float16).astype(np.float64)


def f64_to_half(values: AnyArray, kind: str) -> AnyArray:
    """Round double values to half or bfloat16 bit patterns."""
    if kind.startswith("bf16"):
        return floats.f64_to_bf16(values)
    bits: AnyArray = floats.f64_to_f16(values).view(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), bits)


def _half(ins: Instruction, src: Sources) -> AnyArray:
    """Half and bfloat16 arithmetic, one lane or two packed."""
    kind = ins.type
    count = 3 if ins.root in {"fma", "mad"} else 1 if ins.root in {"neg", "abs", "ex2", "tanh"} else 2
    if not kind.endswith("x2"):
        return _half_lane(ins, [src(i).view(np.uint16) for i in range(count)])
    packed = [src(i) for i in range(count)]
    low = _half_lane(ins, [p.astype(np.uint16) for p in packed])
    high = _half_lane(ins, [(p >> np.uint32(16)).astype(np.uint16) for p in packed])
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


def _half_lane(ins: Instruction, bits: list[AnyArray]) -> AnyArray:
    if ins.root == "neg":
        return bits[0] ^ np.uint16(0x8000)
    if ins.root == "abs":
        return bits[0] & np.uint16(0x7FFF)
    kind = ins.type.removesuffix("x2")
    values = [half_to_f64(b, kind) for b in bits]
    match ins.root:
        case "add":
            result = values[0] + values[1]
        case "sub":
            result = values[0] - values[1]
        case "mul":
            result = values[0] * values[1]
        case "fma" | "mad":
            result = floats.fma_to_odd(values[0], values[1], values[2])
        case "ex2":
            result = np.exp2(values[0])
        case "tanh":
            result = np.tanh(values[0])
        case _:
            result = _float_extreme(ins, values[0], values[1])
    if "relu" in ins.modifiers:
        result = np.maximum(result, 0)
    if "sat" in ins.modifiers:
        result = np.clip(result, 0, 1)
    return f64_to_half(result, kind)


@handles("div", "rem")
def _divide(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _FLOATS:
        a, b = _float_source(ins, src, 0), _float_source(ins, src, 1)
        mode = rounding_of(ins)
        if mode == "rn":
            return _float_result(ins, a / b)
        if ins.type != "f32":
            raise refuse(ins)
        return _float_result(ins, floats.round_to_f32(a.astype(np.float64) / b.astype(np.float64), mode))
    a, b = src(0), src(1)
    # Division by zero gives all ones, and its remainder the dividend, as the hardware's sequence does.
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        quotient = a // safe
    else:  # NumPy rounds down, PTX toward zero
        quotient = a // safe
        quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0))).astype(a.dtype)
    if ins.root == "div":
        return np.where(b == 0, a.dtype.type(-1) if a.dtype.kind == "i" else ~a.dtype.type(0), quotient)
    return np.where(b == 0, a, a - quotient * safe)


@handles("neg")
def _negate(ins: Instruction, src: Sources) -> AnyArray:
    return _half(ins, src) if ins.type in _HALVES else -src(0)


@handles("abs")
def _absolute(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    return np.abs(_float_source(ins, src, 0) if ins.type in _FLOATS else src(0))


@handles("min", "max")
def _extreme(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    if ins.type in _FLOATS:
        return _float_extreme(ins, _float_source(ins, src, 0), _float_source(ins, src, 1))
    result: AnyArray = (np.minimum if ins.root == "min" else np.maximum)(src(0), src(1))
    return result


def _float_extreme(ins: Instruction, a: AnyArray, b: AnyArray) -> AnyArray:
    a, b = np.broadcast_arrays(a, b)
    if ins.root == "min":
        result = np.fmin(a, b)
        result = np.where((a == b) & np.signbit(a), a, result)  # -0 counts as smaller than +0
    else:
        result = np.fmax(a, b)
        result = np.where((a == b) & ~np.signbit(a), a, result)
    if "NaN" in ins.modifiers:
        result = np.where(np.isnan(a) | np.isnan(b), result.dtype.type(np.nan), result)
    return floats.canonical_nan(result)


@handles("sqrt", "rsqrt", "rcp", "sin", "cos", "ex2", "lg2", "tanh")
def _special_function(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    x = _float_source(ins, src, 0)
    mode = rounding_of(ins)
    if ins.root == "sqrt" and mode == "rn":
        return _float_result(ins, np.sqrt(x))
    functions: dict[str, Callable[[AnyArray], AnyArray]] = {
        "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "rcp": lambda v: 1 / v, "sin": np.sin, "cos": np.cos,
        "ex2": np.exp2, "lg2": np.log2, "tanh": np.tanh,
    }  # fmt: skip
    exact = functions[ins.root](x.astype(np.float64))
    if ins.type == "f64":
        if mode != "rn":
            raise refuse(ins)
        if "approx" in ins.modifiers:  # rcp and rsqrt keep the upper 32 bits of the word only
            return (exact.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
        return exact
    return _float_result(ins, floats.round_to_f32(exact, mode))


@handles("copysign")
def _copysign(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    return np.copysign(src(1), src(0))


@handles("testp")
def _test_property(ins: Instruction, src: Sources) -> AnyArray:
    x = src(0)
    smallest = np.finfo(x.dtype).smallest_normal
    tests: dict[str, Callable[[], AnyArray]] = {
        "finite": lambda: np.isfinite(x), "infinite": lambda: np.isinf(x), "number": lambda: ~np.isnan(x),
        "notanumber": lambda: np.isnan(x), "normal": lambda: np.isfinite(x) & (np.abs(x) >= smallest),
        "subnormal": lambda: (x != 0) & (np.abs(x) < smallest),
    }  # fmt: skip
    return next(test() for name, test in tests.items() if name in ins.modifiers)
