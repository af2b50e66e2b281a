"""Text of PTX to tokens."""

import re
from dataclasses import dataclass

from kerncast.errors import PTXSyntaxError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|((?:[\w$%.]|::)+)|([{}()\[\]<>,;:=|!@+\-*]))')


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted text or one punctuation mark, with its line."""

    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a PTX text; raises PTXSyntaxError at a character that PTX does not have."""
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text).rstrip("\0 \t\r\n")
    tokens = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip()
            raise PTXSyntaxError(f"unexpected {rest[:1]!r}", where=f"PTX line {text.count(chr(10), 0, -len(rest)) + 1}")
        line += match[0].count("\n")
        tokens.append(Token(match[0].strip(), line))
        position = match.end()
    return tokens
