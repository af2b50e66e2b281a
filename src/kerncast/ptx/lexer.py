"""PTX text to tokens, and a place in a list of them."""

import re
import struct
from dataclasses import dataclass

from kerncast.errors import PTXSyntaxError
from kerncast.ptx.module import Immediate

# Literals of PTX: integers in four bases, floats as decimals or as bit patterns.


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


# Text of PTX to tokens.


_TOKEN = re.compile(
    r"""(?P<skipped>  \s+ | //[^\n]* | /\*.*?(?:\*/|\Z) )
      | (?P<text>     "(?:[^"\\\n]|\\.)*" )
      | (?P<word>     \.[A-Za-z_]\w*                          # a directive: .reg.b16 is two
                    | (?:\d+(?:\.\d*)?|\.\d+)[eE][+-]\d+
                    | (?:[\w$%.]|::)+ )
      | (?P<mark>     [{}()\[\]<>,;:=|!@+\-*] )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted text or one punctuation mark, with its line."""

    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a PTX text; raises PTXSyntaxError at a character that PTX does not have."""
    text = text.rstrip("\0")  # NVRTC ends its text like a C string
    tokens = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise PTXSyntaxError(f"unexpected {text[position]!r}", where=f"PTX line {line}")
        if match.lastgroup != "skipped":
            tokens.append(Token(match[0], line))
        line += match[0].count("\n")
        position = match.end()
    return tokens


# A place in a list of tokens, with the few moves that a recursive-descent parser needs.


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

    def skip_past(self, text: str) -> list[str]:
        """Read tokens up to and including this one, and return those before it."""
        skipped = []
        while (word := self.next()) != text:
            skipped.append(word)
        return skipped

    def integer(self) -> int:
        """Read an integer, which may have a sign."""
        literal = self.literal()
        if literal is None or literal.kind != "int":
            raise self.error(f"expected an integer, found {self.peek()!r}")
        return literal.value

    def literal(self) -> Immediate | None:
        """Read a literal, which may have a sign, if one comes next."""
        signed = self.peek() in {"-", "+"}
        literal = parse_literal(self.peek(int(signed)))
        if literal is None:
            return None
        is_negative = self.peek() == "-"
        self._position += 1 + int(signed)
        return negative(literal) if is_negative else literal

    def offset(self) -> int:
        """Read ``+ 8`` or ``- 8`` if it comes next; zero otherwise."""
        if self.peek() not in {"+", "-"}:
            return 0
        sign = -1 if self.next() == "-" else 1
        return sign * self.integer()

    def error(self, what: str) -> PTXSyntaxError:
        """Return an error at the current line."""
        if not self._tokens:
            return PTXSyntaxError(what, where="PTX")
        line = self._tokens[min(self._position, len(self._tokens) - 1)].line
        return PTXSyntaxError(what, where=f"PTX line {line}")
