"""Texts of others on their way out: what a source, a file or an option calls things is shown, and steers nothing.

Whatever leaves kerncast passes one of these: lines of a terminal (``cli/shared/output.py``), cells of CSV, Markdown,
HTML and JSON. ``tests/unit/test_printable.py`` fails where a text leaves by another way.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from typing import TextIO

_NO_TEXT = re.compile(r"[^\x20-\x7e\n\t]")
#: What Markdown reads as more than the sign itself, in the middle of a line; < and & open tags and entities.
_MARKS = re.compile(r"[\\`*_\[\]|~]")
#: What makes a heading, a quotation or a list of a line that begins with it.
_OPENING = re.compile(r"^(?=[#>=]|[-+] )")
#: What makes a program for tables take a cell for a formula. Source: OWASP, "CSV Injection".
_FORMULA = ("=", "+", "-", "@")


def printable(text: str) -> str:
    r"""Return a text on one line whose control characters are written out, and marks of the direction of writing too.

    >>> printable("in\x1b[2Jst\n"), printable("Größe, 2 µs"), printable("a\u202eb\udc80")
    ('in\\x1b[2Jst\\n', 'Größe, 2 µs', 'a\\u202eb\\udc80')
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    r"""Return a text of several lines, such as a compiler's message: line breaks and tabs stay, no other control does.

    >>> printable_lines("k.cu(1):\r\n\t#error \x1b]0;PWN\x07"), printable_lines("100 %\rdone")
    ('k.cu(1):\n\t#error \\x1b]0;PWN\\x07', '100 %\\rdone')
    """
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


def message(text: str) -> str:
    r"""Return what stderr is told: the lines after the first are indented, so that none looks like another message.

    >>> print(message("no kernel 'a\nkerncast: all is well'"))
    kerncast: no kernel 'a
      kerncast: all is well'
    """
    first, *rest = printable_lines(text).split("\n")
    return "\n".join([f"kerncast: {first}", *(f"  {line}" if line else "" for line in rest)])


def markdown_text(text: str) -> str:
    r"""Return a text that Markdown shows as it is: no picture, link, tag, table or list.

    >>> markdown_text("![x](https://a.b/c)"), markdown_text("a<b> | c_d & #1")
    ('!\\[x\\](https:\\//a.b/c)', 'a&lt;b> \\| c\\_d &amp; #1')
    """
    plain = _MARKS.sub(r"\\\g<0>", printable(text)).replace("&", "&amp;").replace("<", "&lt;")
    return _OPENING.sub(r"\\", plain).replace("://", ":\\//").replace("www.", "www\\.")


def json_escaped(text: str) -> str:
    r"""Return JSON that says the same in characters that a terminal prints; the others are escaped in its texts.

    >>> json_escaped('{"a": "\x9b2J µ \u202e"}')
    '{"a": "\\u009b2J µ \\u202e"}'
    """
    return text if text.isprintable() else _NO_TEXT.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    sign = found.group()
    if sign.isprintable():
        return sign
    code = ord(sign)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def write_csv(stream: TextIO, rows: Iterable[Sequence[object]], *, end: str = "\n", quotes_all: bool = False) -> None:
    """Write rows as CSV; None is an empty cell, and no text becomes a formula in a program for tables."""
    form = csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL)
    form.writerows([_cell(cell) for cell in row] for row in rows)


def _cell(cell: object) -> object:
    r"""Return a cell of CSV: one that begins as a formula does, and is no number, has an apostrophe before it.

    >>> [_cell(each) for each in ("=cmd|' /C calc'!A0", "\t@x", "-1.5e3", "-inf", -2.0, None, "saxpy")]
    ["'=cmd|' /C calc'!A0", "'\\t@x", '-1.5e3', '-inf', -2.0, None, 'saxpy']
    """
    if not isinstance(cell, str):
        return cell
    return f"'{printable(cell)}" if cell.lstrip().startswith(_FORMULA) and not _is_number(cell) else printable(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
