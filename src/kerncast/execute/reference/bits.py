"""The logic, shift, bit-field, carry and video instructions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.arithmetic import ARITHMETIC, Sources, handles, integer_product
from kerncast.execute.reference.threads import Index, Threads
from kerncast.ptx import TYPE_BITS, Instruction, Register, Trait

# Integer arithmetic of many words: additions that set the carry flag, or take it in.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.2.


# What each logic, shift, bit-field, comparison and selection instruction computes.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, sections 9.7.1, 9.7.6 and 9.7.8.


AnyArray = npt.NDArray[Any]

_FLAG = Register("%cc", "pred")


def uses_carry(ins: Instruction) -> bool:
    """Return whether an instruction sets or reads the carry flag."""
    return ins.opcode.has(Trait.CARRY) or "cc" in ins.modifiers


def compute(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run add, sub or mad with .cc, or addc, subc or madc."""
    word = f"u{ins.type[1:]}"
    *factors, last = ins.operands[1:]
    first = threads.value(factors[0], word, active)
    if len(factors) == 2:
        a, b = (threads.value(factor, ins.type, active) for factor in factors)
        first = np.ascontiguousarray(integer_product(ins, a, b)).view(first.dtype)
    second = threads.value(last, word, active)
    carry = threads.value(_FLAG, "pred", active).astype(first.dtype)
    if not ins.opcode.has(Trait.CARRY):
        carry = np.zeros(1, first.dtype)
    if ins.root.startswith("sub"):
        part = first - second
        result, out = part - carry, (first < second) | (part < carry)
    else:
        part = first + second
        result, out = part + carry, (part < first) | (part + carry < part)
    threads.write(ins.operands[0], result, active)
    if "cc" in ins.modifiers:
        threads.write(_FLAG, out, active)


# Operations on four bytes or two short integers in a word, as Kepler has them for most SIMD intrinsics.
#
# Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.16.


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


__all__ = ["ARITHMETIC"]


@handles("and", "or", "xor")
def _logic(ins: Instruction, src: Sources) -> AnyArray:
    operation = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[ins.root]
    result: AnyArray = operation(src(0), src(1))
    return result


@handles("not")
def _not(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    return ~src(0)


@handles("cnot")
def _logical_not(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    x = src(0)
    result: AnyArray = (x == 0).astype(x.dtype)
    return result


@handles("shl", "shr")
def _shift(ins: Instruction, src: Sources) -> AnyArray:
    x, amount = np.broadcast_arrays(src(0), src(1, "u32"))
    width = TYPE_BITS[ins.type]
    operation = np.left_shift if ins.root == "shl" else np.right_shift
    shifted: AnyArray = operation(x, np.minimum(amount, width - 1).astype(x.dtype))
    if ins.root == "shr" and x.dtype.kind == "i":  # fills with the sign, however far
        return shifted
    return np.where(amount < width, shifted, np.zeros(1, x.dtype))


@handles("shf")
def _funnel_shift(ins: Instruction, src: Sources) -> AnyArray:
    low, high, amount = src(0, "u32").astype(np.uint64), src(1, "u32").astype(np.uint64), src(2, "u32")
    n = (np.minimum(amount, 32) if "clamp" in ins.modifiers else amount & np.uint32(31)).astype(np.uint64)
    both = (high << np.uint64(32)) | low
    if "l" in ins.modifiers:
        return ((both << n) >> np.uint64(32)).astype(np.uint32)
    return (both >> n).astype(np.uint32)


@handles("lop3")
def _lop3(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    a, b, c = np.broadcast_arrays(src(0), src(1), src(2))
    table = int(src(3, "u32")[0])
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


@handles("popc")
def _population_count(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    return np.bitwise_count(src(0)).astype(np.uint32)


@handles("clz")
def _leading_zeros(ins: Instruction, src: Sources) -> AnyArray:
    return (TYPE_BITS[ins.type] - 1 - _highest_bit(src(0))).astype(np.uint32)


@handles("bfind")
def _find_highest(ins: Instruction, src: Sources) -> AnyArray:
    x = src(0)
    if x.dtype.kind == "i":
        x = np.where(x < 0, ~x, x)
    highest = _highest_bit(x)
    if "shiftamt" in ins.modifiers:
        highest = np.where(highest < 0, -1, TYPE_BITS[ins.type] - 1 - highest)
    return highest.astype(np.int64).astype(np.uint32)


def _highest_bit(x: AnyArray) -> AnyArray:
    """Return the index of the highest set bit, -1 for zero."""
    x = x.astype(np.uint64)
    result = np.full(x.shape, -1, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        large = x >> np.uint64(step) != 0
        result += np.where(large, step, 0)
        x = np.where(large, x >> np.uint64(step), x)
    highest: AnyArray = result + (x != 0)
    return highest


@handles("brev")
def _reverse(ins: Instruction, src: Sources) -> AnyArray:
    x = src(0)
    result = np.zeros_like(x)
    width = TYPE_BITS[ins.type]
    one = x.dtype.type(1)
    for bit in range(width):
        result |= ((x >> x.dtype.type(bit)) & one) << x.dtype.type(width - 1 - bit)
    return result


@handles("bfe")
def _extract_field(ins: Instruction, src: Sources) -> AnyArray:
    x, position, length = np.broadcast_arrays(src(0), src(1, "u32") & np.uint32(255), src(2, "u32") & np.uint32(255))
    width = TYPE_BITS[ins.type]
    wide = x.astype(np.int64) if x.dtype.kind == "i" else x.astype(np.uint64)
    shift = np.minimum(position, 63).astype(wide.dtype)
    field = np.where(position >= width, (wide >> wide.dtype.type(63)) if x.dtype.kind == "i" else 0, wide >> shift)
    field = field.view(np.uint64) if field.dtype != np.uint64 else field
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    mask = np.where(length >= 64, ones, (np.uint64(1) << np.minimum(length, 63).astype(np.uint64)) - np.uint64(1))
    result = field & mask
    if x.dtype.kind == "i":
        last = np.minimum(position.astype(np.int64) + length - 1, width - 1)
        sign = (wide >> np.maximum(last, 0)) & 1
        result = np.where((sign != 0) & (length > 0), result | ~mask, result)
        return np.where(length == 0, np.uint64(0), result).view(np.int64).astype(x.dtype)
    return result.astype(x.dtype)


@handles("bfi")
def _insert_field(ins: Instruction, src: Sources) -> AnyArray:
    field, base = src(0), src(1)
    position, length = (src(i, "u32") & np.uint32(255) for i in (2, 3))
    field, base, position, length = np.broadcast_arrays(field, base, position, length)
    width = TYPE_BITS[ins.type]
    ones = np.uint64((1 << width) - 1)
    stop = np.minimum(position.astype(np.uint64) + length, width)
    upto = np.where(stop >= 64, np.uint64(0xFFFFFFFFFFFFFFFF), (np.uint64(1) << (stop & 63)) - np.uint64(1))
    shift = np.minimum(position, 63).astype(np.uint64)
    below = (np.uint64(1) << shift) - np.uint64(1)
    mask = np.where(position < width, upto & ~below & ones, np.uint64(0))
    moved = field.astype(np.uint64) << shift
    merged: AnyArray = (moved & mask) | (base.astype(np.uint64) & ~mask)
    return merged.astype(base.dtype)


@handles("bmsk")
def _bit_mask(ins: Instruction, src: Sources) -> AnyArray:
    is_clamped = "clamp" in ins.modifiers
    start, length = (np.minimum(src(i, "u32"), 32) if is_clamped else src(i, "u32") & 31 for i in range(2))
    start, length = start.astype(np.uint64), length.astype(np.uint64)
    return (((np.uint64(1) << length) - np.uint64(1)) << start).astype(np.uint32)


@handles("prmt")
def _permute_bytes(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    a, b, selector = (src(i, "u32").astype(np.uint64) for i in range(3))
    both = (b << np.uint64(32)) | a
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint64)
    for byte in range(4):
        control = (selector >> np.uint64(4 * byte)) & np.uint64(15)
        value = (both >> ((control & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        value = np.where(control & np.uint64(8) != 0, np.where(value & 128 != 0, 255, 0).astype(np.uint64), value)
        result |= value << np.uint64(8 * byte)
    return result.astype(np.uint32)


@handles("sad")
def _sum_of_differences(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    a, b = src(0), src(1)
    return np.where(a > b, a - b, b - a) + src(2)


@handles("mul24", "mad24")
def _product_24(ins: Instruction, src: Sources) -> AnyArray:
    shift = np.int64(40) if ins.type == "s32" else np.uint64(40)
    wide = np.int64 if ins.type == "s32" else np.uint64
    a, b = (((src(i).astype(wide) << shift) >> shift) for i in (0, 1))
    product = (a * b).astype(np.int32 if ins.type == "s32" else np.uint32)
    return product + src(2) if ins.root == "mad24" else product


@handles("dp4a")
def _dot_product(ins: Instruction, src: Sources) -> AnyArray:
    a_type, b_type = ins.types
    total = src(2, "s32" if "s32" in ins.types else "u32").astype(np.int64)
    a, b = src(0, "u32"), src(1, "u32")
    for byte in range(4):
        total = total + byte_of(a, byte, a_type) * byte_of(b, byte, b_type)
    return total.astype(np.uint64).astype(np.uint32)


@handles("dp2a")
def _dot_product_of_two(ins: Instruction, src: Sources) -> AnyArray:
    a_type, b_type = ins.types
    total = src(2, "u32").astype(np.int64)
    a, b = src(0, "u32"), src(1, "u32")
    first_byte = 2 if "hi" in ins.modifiers else 0
    for place in range(2):
        total = total + short_of(a, place, a_type) * byte_of(b, first_byte + place, b_type)
    return total.astype(np.uint64).astype(np.uint32)


@handles("fns")
def _find_nth_set(ins: Instruction, src: Sources) -> AnyArray:
    del ins
    mask, base, offset = np.broadcast_arrays(src(0), src(1), src(2, "s32"))
    rest = np.where(base > 31, 64, np.maximum(np.abs(offset.astype(np.int64)), 1))
    place, found = base.astype(np.int64), np.full(mask.shape, 0xFFFFFFFF, np.uint32)
    for _ in range(32):
        inside = (place >= 0) & (place < 32)
        bit = inside & ((mask >> np.where(inside, place, 0).astype(np.uint32)) & np.uint32(1) != 0)
        found = np.where(bit & (rest == 1), place, found).astype(np.uint32)
        rest, place = rest - bit, place + np.sign(offset)
    return found


def short_of(word: AnyArray, position: int, type_name: str) -> AnyArray:
    value = (word >> np.uint32(16 * position)).astype(np.uint16)
    return (value.view(np.int16) if type_name == "s32" else value).astype(np.int64)


def byte_of(word: AnyArray, position: int, type_name: str) -> AnyArray:
    value = ((word >> np.uint32(8 * position)) & np.uint32(255)).astype(np.uint8)
    return (value.view(np.int8) if type_name == "s32" else value).astype(np.int64)
