"""An answer in a notebook: sentences, tables and caveats as HTML that takes its colours from the page."""

import html
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerncast.printable import printable
from kerncast.report.tables import Table, TextColumn

#: Columns of a sentence in a terminal.
_WIDTH = 100
#: Rows that a notebook shows; to_pandas() and to_json() have all.
_MOST_ROWS = 60
# Only borders and opacity: text and background are the notebook's own, light or dark.
_STYLE = (
    ".kerncast p{margin:0.3em 0;max-width:60em}"
    ".kerncast div{overflow-x:auto}"
    ".kerncast table{border-collapse:collapse}"
    ".kerncast tr,.kerncast th,.kerncast td{border:none;background:none;color:inherit}"
    ".kerncast th,.kerncast td{padding:0.15em 0.8em;text-align:left;vertical-align:top}"
    ".kerncast th{border-bottom:1px solid currentColor}"
    ".kerncast .n{text-align:right;white-space:nowrap}"
    ".kerncast .k{white-space:nowrap}"
    ".kerncast details{opacity:0.85;max-width:60em}"
    ".kerncast ul{margin:0.2em 0}"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A table, and what is said above it."""

    table: Table
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a notebook shows of an answer."""

    sentences: tuple[str, ...]
    """the conclusion, read first"""
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    """caveats, which are folded"""


def in_lines(sentences: Iterable[str]) -> str:
    """Return sentences as lines of a terminal."""
    return "\n".join("\n".join(textwrap.wrap(printable(each), _WIDTH, break_long_words=False)) for each in sentences)


def fragment(shown: Shown) -> str:
    """Return an element of HTML that is well-formed XML, too; a kernel's name is text, and no mathematics either."""
    said = "".join(f"<p>{_text(each)}</p>" for each in shown.sentences)
    tables = "".join(_part(each) for each in shown.parts)
    inner = f"<style>{_STYLE}</style>{said}{tables}{_folded(shown.notes)}"
    return f'<div class="kerncast tex2jax_ignore mathjax_ignore">{inner}</div>'


def _part(part: Part) -> str:
    heading = f"<p><b>{_text(part.heading)}</b></p>" if part.heading else ""
    rows, left_out = part.table.rows[:_MOST_ROWS], len(part.table.rows) - _MOST_ROWS
    classes = [_class(number, column) for number, column in enumerate(part.table.columns)]
    head = _row(part.table.heading, classes, "th") if any(part.table.heading) else ""
    body = "".join(_row(row, classes, "td") for row in rows)
    more = f"<p>{left_out} further rows: to_pandas() has them.</p>" if left_out > 0 else ""
    return f"{heading}<div><table><thead>{head}</thead><tbody>{body}</tbody></table></div>{more}"


def _class(number: int, column: str | TextColumn) -> str:
    """Return how the cells of a column stand: names to the left on one line, numbers to the right, texts in lines."""
    if number == 0:
        return ' class="k"'
    return "" if isinstance(column, TextColumn) else ' class="n"'


def _row(cells: Sequence[str], classes: Sequence[str], tag: str) -> str:
    written = (f"<{tag}{own}>{_text(cell)}</{tag}>" for cell, own in zip(cells, classes, strict=True))
    return f"<tr>{''.join(written)}</tr>"


def _folded(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    count = "1 caveat" if len(notes) == 1 else f"{len(notes)} caveats"
    items = "".join(f"<li>{_text(each)}</li>" for each in notes)
    return f"<details><summary>{count}</summary><ul>{items}</ul></details>"


def _text(text: str) -> str:
    return html.escape(printable(text))
