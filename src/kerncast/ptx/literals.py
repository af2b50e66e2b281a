"""Literals of PTX: integers in four bases, floats as decimals or as bit patterns."""

import re
import struct

from kerncast.ptx.module import Immediate

_BIT_PATTERN = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[0-7]{0,22}|[1-9]\d{0,19})U?", re.ASCII)
_DECIMAL = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)


def parse_literal(text: str) -> Immediate | None:
    """Return the literal that a word means, or None.

    >>> parse_literal("0f3F800000"), parse_literal("0x1F"), parse_literal("017")
    (Immediate(value=1065353216, kind='f32'), Immediate(value=31, kind='int'), Immediate(value=15, kind='int'))
    >>> parse_literal("1.5") == parse_literal("0d3FF8000000000000"), parse_literal("%r1")
    (True, None)
    """
    pattern = _BIT_PATTERN.fullmatch(text)
    if pattern:
        return Immediate(int(pattern[1] or pattern[2], 16), "f32" if pattern[1] else "f64")
    whole = _INTEGER.fullmatch(text)
    if whole:
        digits = whole[1]
        is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return Immediate(int(digits, 8 if is_octal else 0), "int")
    if _DECIMAL.fullmatch(text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    return None


def negative(literal: Immediate) -> Immediate:
    """Return the literal with its sign changed."""
    if literal.kind == "int":
        return Immediate(-literal.value, "int")
    return Immediate(literal.value ^ (1 << (31 if literal.kind == "f32" else 63)), literal.kind)
