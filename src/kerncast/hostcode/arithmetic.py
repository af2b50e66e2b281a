"""Arithmetic of C on the numbers of host code: wrapped, rounded and cut as the types say."""

import math
import struct
from collections.abc import Callable

from clang.cindex import Type, TypeKind

from kerncast.hostcode.nouns import Undecided

Number = int | float

_SIGNED = {
    TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.LONGLONG, TypeKind.ENUM,
}  # fmt: skip
_UNSIGNED = {
    TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.ULONGLONG, TypeKind.BOOL,
}  # fmt: skip
_FLOATS = {TypeKind.FLOAT, TypeKind.DOUBLE}
_LARGEST_SHIFT = 63

#: CXBinaryOperatorKind of clang-c/Index.h, which cindex 18 does not name.
BINARY = {
    3: "*", 4: "/", 5: "%", 6: "+", 7: "-", 8: "<<", 9: ">>", 11: "<", 12: ">", 13: "<=", 14: ">=", 15: "==", 16: "!=",
    17: "&", 18: "^", 19: "|", 20: "&&", 21: "||", 22: "=", 23: "*=", 24: "/=", 25: "%=", 26: "+=", 27: "-=",
    28: "<<=", 29: ">>=", 30: "&=", 31: "^=", 32: "|=", 33: ",",
}  # fmt: skip
#: CXUnaryOperatorKind.
UNARY = {1: "++", 2: "--", 3: "++", 4: "--", 5: "&", 6: "*", 7: "+", 8: "-", 9: "~", 10: "!"}


def is_number(type_: Type) -> bool:
    """Whether a type is a number, of whatever kind."""
    return bool(type_.kind in _SIGNED | _UNSIGNED | _FLOATS)


def is_whole(type_: Type) -> bool:
    """Whether a type is a whole number, a bool among them."""
    return bool(type_.kind in _SIGNED | _UNSIGNED)


def converted(value: Number, type_: Type) -> Number:
    """Return a number as its type holds it; raises Undecided where C leaves that open."""
    kind = type_.kind
    if kind == TypeKind.BOOL:
        return int(bool(value))
    if kind == TypeKind.FLOAT:
        return _single(float(value))
    if kind == TypeKind.DOUBLE:
        return float(value)
    if kind not in _SIGNED | _UNSIGNED:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Undecided("a number that is not finite becomes a whole number")
        value = int(value)
    bits = 8 * int(type_.get_size())
    if kind in _UNSIGNED:
        return value & ((1 << bits) - 1)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Undecided(f"{value} overflows {type_.spelling}")
    return value


def binary(operator: str, left: Number, right: Number) -> Number:
    """Return the result of an operator on two numbers of one type, before it is fitted to its type."""
    if operator in {"/", "%"}:
        return _divided(operator, left, right)
    if operator in _BITWISE:
        if not isinstance(left, int) or not isinstance(right, int):
            raise Undecided(f"{operator} of a number that is not whole")
        if operator in {"<<", ">>"} and not 0 <= right <= _LARGEST_SHIFT:
            raise Undecided(f"a shift by {right}")
        return _BITWISE[operator](left, right)
    if operator in _PLAIN:
        try:
            return _PLAIN[operator](left, right)
        except OverflowError:
            raise Undecided("a number that is too large") from None
    raise Undecided(f"the operator {operator}")


def unary(operator: str, value: Number) -> Number:
    """Return the result of + - ~ !."""
    if operator == "~" and isinstance(value, int):
        return ~value
    if operator == "!":
        return int(not value)
    if operator in {"+", "-"}:
        return -value if operator == "-" else value
    raise Undecided(f"the operator {operator}")


def called(name: str, values: list[Number]) -> Number | None:
    """Return what a function of the C or C++ library gives; None where it is not known."""
    try:
        if len(values) == 1 and name.removesuffix("f") in _OF_ONE:
            return _OF_ONE[name.removesuffix("f")](values[0])
        if len(values) == 2 and name in _OF_TWO:
            return _OF_TWO[name](values[0], values[1])
    except (ValueError, OverflowError, ZeroDivisionError):
        raise Undecided(f"{name} of {', '.join(map(str, values))} is not a number") from None
    return None


def _divided(operator: str, left: Number, right: Number) -> Number:
    if right == 0:
        raise Undecided("a division by zero")
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if operator == "/" else left - quotient * right


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_BITWISE: dict[str, Callable[[int, int], int]] = {
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_PLAIN: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    ",": lambda _a, b: b,
}
_OF_ONE: dict[str, Callable[[Number], Number]] = {
    "ceil": lambda a: float(math.ceil(a)),
    "floor": lambda a: float(math.floor(a)),
    "round": lambda a: float(math.floor(abs(a) + 0.5)) * (1 if a >= 0 else -1),
    "trunc": lambda a: float(math.trunc(a)),
    "sqrt": math.sqrt,
    "cbrt": math.cbrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "fabs": lambda a: abs(float(a)),
    "abs": abs,
    "labs": abs,
}
_OF_TWO: dict[str, Callable[[Number, Number], Number]] = {
    "min": min,
    "max": max,
    "fmin": min,
    "fmax": max,
    "fminf": min,
    "fmaxf": max,
    "pow": lambda a, b: float(a) ** b,
    "powf": lambda a, b: float(a) ** b,
    "fmod": math.fmod,
}


def is_known(name: str, count: int) -> bool:
    """Whether a function of the C or C++ library with so many arguments is known."""
    return (count == 1 and name.removesuffix("f") in _OF_ONE) or (count == 2 and name in _OF_TWO)
