"""A place in a list of tokens, with the few moves that a recursive-descent parser needs."""

import struct

from kerncast.errors import PTXSyntaxError
from kerncast.ptx.lexer import Token
from kerncast.ptx.module import Immediate


class Cursor:
    """Reads tokens in order; every error names the line."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def at_end(self) -> bool:
        """Whether every token was read."""
        return self._position >= len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """Return a token without reading it; empty past the end."""
        position = self._position + ahead
        return self._tokens[position].text if position < len(self._tokens) else ""

    def next(self) -> str:
        """Read one token."""
        if self.at_end:
            raise self.error("the text ends too early")
        self._position += 1
        return self._tokens[self._position - 1].text

    def accept(self, text: str) -> bool:
        """Read the next token if it is this one."""
        if self.peek() == text:
            self._position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Read the next token, which must be this one."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek()!r}")

    def skip_past(self, text: str) -> None:
        """Read tokens up to and including this one."""
        while self.next() != text:
            pass

    def integer(self) -> int:
        """Read an integer, which may have a sign."""
        literal = self.literal()
        if literal is None or literal.kind != "int":
            raise self.error(f"expected an integer, found {self.peek()!r}")
        return literal.value

    def literal(self) -> Immediate | None:
        """Read a literal if one comes next."""
        sign = 1
        ahead = 0
        if self.peek() in {"-", "+"}:
            sign = -1 if self.peek() == "-" else 1
            ahead = 1
        parsed = parse_literal(self.peek(ahead))
        if parsed is None:
            return None
        self._position += ahead + 1
        if sign == -1 and parsed.kind != "int":
            bits = 32 if parsed.kind == "f32" else 64
            return Immediate(parsed.value ^ (1 << (bits - 1)), parsed.kind)
        return Immediate(sign * parsed.value, parsed.kind)

    def error(self, what: str) -> PTXSyntaxError:
        """Return an error at the current line."""
        if not self._tokens:
            return PTXSyntaxError(what, where="PTX")
        line = self._tokens[min(self._position, len(self._tokens) - 1)].line
        return PTXSyntaxError(what, where=f"PTX line {line}")


def parse_literal(text: str) -> Immediate | None:
    """Return the literal that a word means, or None.

    >>> parse_literal("0f3F800000"), parse_literal("0x1F"), parse_literal("1.5")
    (Immediate(value=1065353216, kind='f32'), Immediate(value=31, kind='int'), Immediate(value=4609434218613702656, kind='f64'))
    """  # noqa: E501  one line of output
    if not text[:1].isdigit():
        return None
    try:
        if text[:2] in {"0f", "0F"} and len(text) == 10:
            return Immediate(int(text[2:], 16), "f32")
        if text[:2] in {"0d", "0D"} and len(text) == 18:
            return Immediate(int(text[2:], 16), "f64")
        digits = text.rstrip("U")
        if digits[:2] in {"0x", "0X", "0b", "0B"}:
            return Immediate(int(digits, 0), "int")
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            return Immediate(int(digits, 8), "int")
        if digits.isdigit():
            return Immediate(int(digits), "int")
        return Immediate(int.from_bytes(struct.pack("<d", float(digits)), "little"), "f64")
    except ValueError:
        return None
