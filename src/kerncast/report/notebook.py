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
_CELL = (
    "padding:0.15em 0.8em;border:none;background:none;color:inherit;vertical-align:top;"
    "white-space:{space};text-align:{side}"
)
# Only borders and opacity: text and background are the notebook's own, light or dark.
_RULE = "border-bottom:1px solid currentColor"


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
    said = "".join(f'<p style="margin:0.3em 0;max-width:60em">{_text(each)}</p>' for each in shown.sentences)
    tables = "".join(_part(each) for each in shown.parts)
    return f'<div class="kerncast tex2jax_ignore mathjax_ignore">{said}{tables}{_folded(shown.notes)}</div>'


def _part(part: Part) -> str:
    heading = f'<p style="margin:0.6em 0 0.2em"><b>{_text(part.heading)}</b></p>' if part.heading else ""
    rows, left_out = part.table.rows[:_MOST_ROWS], len(part.table.rows) - _MOST_ROWS
    sides = _sides(part.table)
    spaces = ["nowrap" if side == "right" or not number else "normal" for number, side in enumerate(sides)]
    style = [_CELL.format(side=side, space=space) for side, space in zip(sides, spaces, strict=True)]
    head = _row(part.table.heading, [f"{each};font-weight:bold;{_RULE}" for each in style], "th")
    body = "".join(_row(row, style, "td") for row in rows)
    more = f'<p style="opacity:0.75">{left_out} further rows: to_pandas() has them.</p>' if left_out > 0 else ""
    table = f'<table style="border-collapse:collapse"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return f'{heading}<div style="overflow-x:auto">{table}</div>{more}'


def _sides(table: Table) -> list[str]:
    return ["left" if not n or isinstance(each, TextColumn) else "right" for n, each in enumerate(table.columns)]


def _row(cells: Sequence[str], styles: Sequence[str], tag: str) -> str:
    written = (f'<{tag} style="{style}">{_text(cell)}</{tag}>' for cell, style in zip(cells, styles, strict=True))
    return f"<tr>{''.join(written)}</tr>"


def _folded(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    count = "1 caveat" if len(notes) == 1 else f"{len(notes)} caveats"
    items = "".join(f"<li>{_text(each)}</li>" for each in notes)
    style = "opacity:0.85;max-width:60em"
    return f'<details style="{style}"><summary>{count}</summary><ul style="margin:0.2em 0">{items}</ul></details>'


def _text(text: str) -> str:
    return html.escape(printable(text))
