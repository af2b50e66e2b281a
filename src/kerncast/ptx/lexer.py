"""Text of PTX to tokens."""

import re
from dataclasses import dataclass

from kerncast.errors import PTXSyntaxError

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
