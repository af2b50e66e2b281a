"""A place in a list of tokens, with the few moves that a recursive-descent parser needs."""

from kerncast.errors import PTXSyntaxError
from kerncast.ptx.lexer import Token
from kerncast.ptx.literals import negative, parse_literal
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
