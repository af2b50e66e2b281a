"""A table of texts, and how a terminal shows it."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table as RichTable

from kerncast.printable import markdown_text, printable_lines, write_csv

#: Columns of a terminal on which every table fits.
_UNLIMITED = 10_000


@dataclass(frozen=True, slots=True)
class TextColumn:
    """The heading of a column of texts, which stand to the left."""

    heading: str
    is_whole: bool = False
    """whether cells stay on one line where a terminal is narrow and other columns wrap"""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of texts."""

    columns: tuple[str | TextColumn, ...]
    """headings; a plain text heads a column of numbers, aligned to the right"""
    rows: tuple[tuple[str, ...], ...]

    @property
    def heading(self) -> tuple[str, ...]:
        """The text over each column."""
        return tuple(each if isinstance(each, str) else each.heading for each in self.columns)


def print_table(table: Table, console: Console) -> None:
    """Print one table; the first column to the left, numbers to the right."""
    console.print(_laid_out(table))


def print_fullest(tables: Iterable[Table], console: Console) -> None:
    """Print the first table, of the fullest first, that fits the console without a wrapped cell; else the last."""
    shown = None
    for table in tables:
        shown = _laid_out(table)
        if Measurement.get(console, console.options.update(width=_UNLIMITED), shown).maximum <= console.width:
            break
    if shown is not None:
        console.print(shown)


def _laid_out(table: Table) -> RichTable:
    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, (column, heading) in enumerate(zip(table.columns, table.heading, strict=True)):
        is_text = number == 0 or isinstance(column, TextColumn)
        is_whole = isinstance(column, TextColumn) and column.is_whole
        rich_table.add_column(
            escape(heading), justify="left" if is_text else "right", overflow="fold", no_wrap=is_whole
        )
    for row in table.rows:
        rich_table.add_row(*(escape(cell) for cell in row))
    return rich_table


def print_rows(table: Table, console: Console) -> None:
    """Print a table of thousands of rows, each on one line however wide, which is many times faster."""
    widths = [max(map(len, column)) for column in zip(table.heading, *table.rows, strict=True)]
    is_text = [isinstance(column, TextColumn) for column in table.columns]
    for row in (table.heading, tuple("─" * width for width in widths), *table.rows):
        cells = (
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text, strict=True)
        )
        console.out(" " + "  ".join(cells).rstrip(), highlight=False)
    console.out("")


def markdown(table: Table) -> str:
    r"""Return a table in Markdown.

    >>> print(markdown(Table((TextColumn("GPU"), "n"), (("T4 | L4", "2"),))))
    | GPU | n |
    | --- | --: |
    | T4 \| L4 | 2 |
    """
    rule = ["---" if isinstance(column, TextColumn) else "--:" for column in table.columns]
    rows = [[markdown_text(cell) for cell in row] for row in (table.heading, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


def csv_text(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; None is an empty cell."""
    text = io.StringIO()
    write_csv(text, chain([heading], rows))
    return text.getvalue()


def print_notes(notes: Iterable[str], console: Console) -> None:
    """Print caveats as dim lines; those of several lines, such as a compiler's message, are indented."""
    for note in notes:
        text = printable_lines(note).replace("\n", "\n  ")
        console.print(f"[dim]* {escape(text)}[/dim]", highlight=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a section."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with facts and tables below it."""

    title: str
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
