"""Which lines of a PTX text an executed function's instructions stand on.

The parser keeps the place in the user's source, not that in the PTX. A copy of the text in which every statement
gets a ``.loc`` with the number of its own line is therefore parsed a second time, with its calls inlined as before.
"""

import re
from collections import defaultdict
from functools import lru_cache

from kerncast.ptx import inline_calls, parse_ptx

_LOC = re.compile(r"\s*\.loc\b.*")
#: What an instruction or its guard begins with; directives, labels, braces and the rest of a long statement do not.
_STATEMENT = re.compile(r"\s*(?:@|[a-z])")
_ENDS = (";", "{", "}", ":")
_FILE = "1"


@lru_cache(maxsize=32)
def ptx_lines(ptx: str, mangled: str) -> tuple[int, ...]:
    """Return the line of the PTX text, from 1, of each instruction of a kernel with its calls inlined."""
    function = inline_calls(parse_ptx(_with_own_lines(ptx)), mangled)
    return tuple(ins.location.line if ins.location else 0 for ins in function.instructions)


def instructions_on(lines: tuple[int, ...]) -> dict[int, list[int]]:
    """Return the numbers of the instructions on each line; a call that is inlined twice repeats its lines."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        found[line].append(number)
    return dict(found)


def _with_own_lines(ptx: str) -> str:
    """Return the text with a ``.loc`` before each statement, which names the statement's line."""
    rows = []
    depth, before = 0, ";"
    for number, row in enumerate(ptx.split("\n"), start=1):
        text = row.split("//")[0].strip()
        if _LOC.match(row):
            continue
        if depth and before.endswith(_ENDS) and _STATEMENT.match(row):
            rows.append(f".loc {_FILE} {number} 0")
        rows.append(row)
        depth += text.count("{") - text.count("}")
        before = text or before
    return "\n".join(rows)
