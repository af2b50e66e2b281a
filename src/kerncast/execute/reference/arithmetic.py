"""The arithmetic PTX instructions, one function per opcode, over arrays of threads.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1 to 9.7.9. Approximate functions (``.approx``) are
computed in double precision and rounded once: within the error that the ISA allows, not bit-equal to the hardware.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute.reference import floats
from kerncast.execute.setup import small_floats
from kerncast.execute.setup.layout import DTYPES
from kerncast.ptx import TYPE_BITS, Instruction

AnyArray = npt.NDArray[Any]


class Sources(Protocol):
    """Gives the value of a source operand, read as a type."""

    def __call__(self, position: int, type_name: str | None = None) -> AnyArray:
        """Return source operand ``position``; its type is the instruction's unless another is named."""


Handler = Callable[[Instruction, Sources], AnyArray]
ARITHMETIC: dict[str, Handler] = {}

_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
_FLOATS = {"f32", "f64"}
_HALVES = {"f16", "bf16", "f16x2", "bf16x2"}
_SHORTS = {"u16x2": np.uint16, "s16x2": np.int16}
_PACKED = {"f32x2", *_SHORTS}
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
    """Return the error for a form of an instruction that is not covered."""
    return UnsupportedError(f"PTX instruction {instruction.name} is not supported", where=instruction.where)


@handles("add", "sub", "mul")
def _add_sub_mul(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    if ins.type in _PACKED:
        return _packed(ins, src, _add_sub_mul)
    if ins.type in _FLOATS:
        return _float_result(ins, _float_add_sub_mul(ins, src))
    a, b = src(0), src(1)
    if ins.root == "mul":
        return integer_product(ins, a, b)
    operation = np.add if ins.root == "add" else np.subtract
    if "sat" in ins.modifiers:
        limits = np.iinfo(np.int32)
        return np.clip(operation(a.astype(np.int64), b.astype(np.int64)), limits.min, limits.max).astype(np.int32)
    result: AnyArray = operation(a, b)
    return result


def _float_add_sub_mul(ins: Instruction, src: Sources) -> AnyArray:
    a, b = _float_source(ins, src, 0), _float_source(ins, src, 1)
    mode = rounding_of(ins)
    if mode == "rn":
        operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[ins.root]
        result: AnyArray = operation(a, b)
        return result
    if ins.root == "mul":
        if ins.type == "f64":
            return floats.fma64(a, b, np.copysign(0.0, np.copysign(1, a) * np.copysign(1, b)), mode)
        return floats.round_to_f32(a.astype(np.float64) * b.astype(np.float64), mode)
    b = -b if ins.root == "sub" else b
    return floats.fma64(a, np.ones(1), b, mode) if ins.type == "f64" else floats.add32(a, b, mode)


@handles("fma", "mad")
def _fma(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    if ins.type in _PACKED:
        return _packed(ins, src, _fma)
    if ins.type in _FLOATS:
        a, b, c = (_float_source(ins, src, position) for position in range(3))
        function = floats.fma32 if ins.type == "f32" else floats.fma64
        return _float_result(ins, function(a, b, c, rounding_of(ins)))
    product = integer_product(ins, src(0), src(1))
    result: AnyArray = product + src(2, _WIDER[ins.type] if "wide" in ins.modifiers else ins.type)
    return result


def integer_product(ins: Instruction, a: AnyArray, b: AnyArray) -> AnyArray:
    """Return the lower half of a product, the upper one (.hi) or both (.wide)."""
    result: AnyArray
    if "wide" in ins.modifiers:
        wide = DTYPES[_WIDER[ins.type]]
        result = a.astype(wide) * b.astype(wide)
    elif "hi" not in ins.modifiers:
        result = a * b
    elif a.dtype.itemsize < 8:
        wide = np.dtype("i8") if a.dtype.kind == "i" else np.dtype("u8")
        result = ((a.astype(wide) * b.astype(wide)) >> wide.type(8 * a.dtype.itemsize)).astype(a.dtype)
    else:
        result = _high_product_64(a, b)
    return result


def _high_product_64(a: AnyArray, b: AnyArray) -> AnyArray:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    a_low, a_high, b_low, b_high = ua & mask, ua >> half, ub & mask, ub >> half
    cross = a_high * b_low + ((a_low * b_low) >> half)
    other = (cross & mask) + a_low * b_high
    high: AnyArray = a_high * b_high + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":  # signed: take the other factor away once for each negative sign
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
        return high.view(np.int64)
    return high


def _float_source(ins: Instruction, src: Sources, position: int) -> AnyArray:
    value = src(position)
    return floats.flush_subnormals(value) if "ftz" in ins.modifiers and value.dtype == np.float32 else value


def _float_result(ins: Instruction, value: AnyArray) -> AnyArray:
    if "sat" in ins.modifiers:
        value = floats.saturate(value)
    value = floats.canonical_nan(value)
    return floats.flush_subnormals(value) if "ftz" in ins.modifiers and value.dtype == np.float32 else value


@handles("div", "rem")
def _divide(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _FLOATS:
        a, b = _float_source(ins, src, 0), _float_source(ins, src, 1)
        mode = rounding_of(ins)
        if mode == "rn":
            return _float_result(ins, a / b)
        if ins.type == "f64":
            return floats.divide64(a, b, mode)
        return _float_result(ins, floats.round_to_f32(a.astype(np.float64) / b.astype(np.float64), mode))
    a, b = src(0), src(1)
    # Division by zero gives all ones, and its remainder the dividend, as the hardware's sequence does.
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // safe
    if a.dtype.kind == "i":  # NumPy rounds down, PTX toward zero
        quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0))).astype(a.dtype)
    if ins.root == "rem":
        return np.where(b == 0, a, a - quotient * safe)
    return np.where(b == 0, ~a.dtype.type(0), quotient)


@handles("neg", "abs")
def _sign(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    result: AnyArray = (np.negative if ins.root == "neg" else np.abs)(_float_source(ins, src, 0))
    return result


@handles("min", "max")
def _extreme(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    if ins.type in _FLOATS:
        value = _float_source(ins, src, 0)
        for position in range(1, len(ins.operands) - 1):  # two, or three
            value = _float_extreme(ins, value, _float_source(ins, src, position))
        return value
    if ins.type in _PACKED:
        return _packed(ins, src, _extreme)
    result: AnyArray = (np.minimum if ins.root == "min" else np.maximum)(src(0), src(1))
    return np.maximum(result, result.dtype.type(0)) if "relu" in ins.modifiers else result


def _float_extreme(ins: Instruction, a: AnyArray, b: AnyArray) -> AnyArray:
    result = (floats.minimum if ins.root == "min" else floats.maximum)(a, b)
    if "NaN" in ins.modifiers:
        result = np.where(np.isnan(a) | np.isnan(b), result.dtype.type(np.nan), result)
    return floats.canonical_nan(result)


def _half(ins: Instruction, src: Sources) -> AnyArray:
    return floats.compute(ins, [src(i) for i in range(len(ins.operands) - 1)])


def _packed(ins: Instruction, src: Sources, handler: Handler) -> AnyArray:
    """Run an instruction on two values; ``handler`` runs that on one single."""
    if ins.type in _SHORTS:
        return _shorts(ins, src)
    one = replace(ins, modifiers=tuple("f32" if m == "f32x2" else m for m in ins.modifiers))
    results = []
    for shift in (0, 32):

        def single(position: int, type_name: str | None = None, shift: int = shift) -> AnyArray:
            del type_name
            return (src(position, "u64") >> np.uint64(shift)).astype(np.uint32).view(np.float32)

        results.append(handler(one, single).view(np.uint32).astype(np.uint64))
    word: AnyArray = results[0] | (results[1] << np.uint64(32))
    return word


def _shorts(ins: Instruction, src: Sources) -> AnyArray:
    """Run add, min or max on two short integers."""
    operation = {"add": np.add, "min": np.minimum, "max": np.maximum}[ins.root]
    parts = []
    for a, b in zip(*(floats.unpack(src(i)) for i in (0, 1)), strict=True):
        result = operation(a.view(_SHORTS[ins.type]), b.view(_SHORTS[ins.type]))
        result = np.maximum(result, 0) if "relu" in ins.modifiers else result
        parts.append(result.view(np.uint16))
    return floats.pack(*parts)


@handles("sqrt", "rsqrt", "rcp", "sin", "cos", "ex2", "lg2", "tanh")
def _special_function(ins: Instruction, src: Sources) -> AnyArray:
    if ins.type in _HALVES:
        return _half(ins, src)
    x = _float_source(ins, src, 0)
    mode = rounding_of(ins)
    if ins.root == "sqrt" and mode == "rn":
        return _float_result(ins, np.sqrt(x))
    if ins.type == "f64" and mode != "rn":
        return floats.square_root64(x, mode) if ins.root == "sqrt" else floats.divide64(np.ones(1), x, mode)
    functions: dict[str, Callable[[AnyArray], AnyArray]] = {
        "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "rcp": lambda v: 1 / v, "sin": np.sin, "cos": np.cos,
        "ex2": np.exp2, "lg2": np.log2, "tanh": np.tanh,
    }  # fmt: skip
    exact = functions[ins.root](x.astype(np.float64))
    if ins.type == "f32":
        return _float_result(ins, floats.round_to_f32(exact, mode))
    if "ftz" in ins.modifiers:  # this approximation keeps the upper word only; .approx alone is exact to a unit or two
        return (exact.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return exact


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
        "notanumber": lambda: np.isnan(x), "subnormal": lambda: (x != 0) & (np.abs(x) < smallest),
        "normal": lambda: np.isfinite(x) & ((np.abs(x) >= smallest) | (x == 0)),  # zero counts as normal
    }  # fmt: skip
    return next(test() for name, test in tests.items() if name in ins.modifiers)


# What ``cvt`` computes: every pair of integer and floating-point types, rounding and saturation.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.9.21.


__all__ = ["ARITHMETIC"]

_TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_HALF_TYPES = {"f16", "bf16"}
_FLOAT_TYPES = {"f16", "bf16", "f32", "f64"}


@handles("cvt")
def _convert(ins: Instruction, src: Sources) -> AnyArray:
    target, source = ins.types
    if target.endswith("x2"):
        return _convert_pair(ins, src)
    value = src(0, source)
    if target == "tf32":
        value = np.where(value <= 0, np.float32(0), value) if "relu" in ins.modifiers else value
        mode = "rna" if "rna" in ins.modifiers else rounding_of(ins)
        return small_floats.to_tf32(value, mode, is_finite="satfinite" in ins.modifiers)
    if source not in _FLOAT_TYPES:
        return _from_integer(ins, value, target)
    if "ftz" in ins.modifiers and source == "f32":
        value = floats.flush_subnormals(value)
    exact = floats.to_f64(value, source) if source in _HALF_TYPES else value.astype(np.float64)
    for name, function in _TO_WHOLE.items():
        if name in ins.modifiers:
            exact = function(exact)
    return _to_float(ins, exact, target) if target in _FLOAT_TYPES else _to_integer(np.trunc(exact), target, source)


def _convert_pair(ins: Instruction, src: Sources) -> AnyArray:
    """Convert two values: two singles, of which the first becomes the upper part, or those of one register."""
    target, source = ins.types
    if source == "f32":
        high, low = (src(i, "f32").astype(np.float64) for i in (0, 1))
    elif source in small_floats.PAIRS:
        low, high = small_floats.unpacked(src(0), source)
    else:
        low, high = (floats.to_f64(half, source) for half in floats.unpack(src(0)))
    if target not in small_floats.PAIRS:
        return floats.pack(*(_to_float(ins, value, target.removesuffix("x2")) for value in (low, high)))
    if "relu" in ins.modifiers:
        low, high = (np.where(value <= 0, 0.0, value) for value in (low, high))
    return small_floats.packed(low, high, target, rounding_of(ins), is_finite="satfinite" in ins.modifiers)


@handles("createpolicy")
def _create_policy(ins: Instruction, src: Sources) -> AnyArray:
    """Return a cache policy: nothing reads its bits."""
    del ins, src
    return np.zeros(1, np.uint64)


@handles("cvt.pack")
def _pack_integers(ins: Instruction, src: Sources) -> AnyArray:
    """Saturate two integers; the second becomes the lowest bits, a third the highest."""
    width, is_signed = TYPE_BITS[ins.types[0]], ins.types[0].startswith("s")
    least, most = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    high, low = (np.clip(src(i, "s32"), least, most).astype(np.int64) % (1 << width) for i in (0, 1))
    above = src(2, "b32").astype(np.int64) if len(ins.types) == 3 else np.int64(0)
    return (low + (high << width) + (above << 2 * width)).astype(np.uint32)


def _from_integer(ins: Instruction, value: AnyArray, target: str) -> AnyArray:
    if target == "f64":
        return _to_float(ins, floats.integer_to_f64(value, rounding_of(ins)), target)
    if target == "f32":
        return _to_float(ins, floats.integer_to_odd(value), target)
    if target in _HALF_TYPES:
        value = np.maximum(value, 0) if "relu" in ins.modifiers else value
        value = np.clip(value, 0, 1) if "sat" in ins.modifiers else value
        return floats.from_integers(value, target, rounding_of(ins))
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
        bits = floats.from_f64(exact, target, mode)
        return floats.made_finite(bits, target) if "satfinite" in ins.modifiers else bits
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
