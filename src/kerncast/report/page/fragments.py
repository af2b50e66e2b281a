"""Pictures of a page as HTML and CSS, which grow and shrink with it: intervals, stacks, source lines, timelines.

Each function returns HTML that a page of ours, a notebook or ``kerncast serve`` can hold, with ``style_sheet()``. All
texts are escaped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncast.report.page.pages import fragment
from kerncast.report.tables import Fact, Table
from kerncast.report.words import describe_percent
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from markupsafe import Markup

#: Times that differ by more are drawn on a logarithmic axis.
_MOST_LINEAR = 12.0
_MOST_TICKS = 5
#: Rows that are shown before the others are folded.
_MOST_ROWS = 24
#: Least share of a stack that has its name or number in it.
_NAMED_SHARE = 0.08
#: An interval whose ends are nearer to one another is told with three digits.
_NARROW = 1.2


@dataclass(frozen=True, slots=True)
class Bar:
    """A time with its interval."""

    label: str
    low: float
    seconds: float
    high: float
    note: str = ""
    tone: str = "main"
    """main, or other: what it is compared with"""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a time."""

    name: str
    seconds: float
    colour: str
    """of the set of ``report.pictures.colours``"""


@dataclass(frozen=True, slots=True)
class Stack:
    """A time, and the parts that add up to it."""

    label: str
    seconds: float
    parts: tuple[Part, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source line with its cost and its code."""

    number: int
    text: str
    share: float | None
    """part of the time of all lines; None where the line did nothing"""
    cells: tuple[str, ...]
    """what else is told of it"""
    ptx: tuple[str, ...] = ()
    sass: tuple[str, ...] = ()
    left_out: int = 0
    is_after_gap: bool = False
    """whether lines before it are left out"""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline: marks by their colour, each from its begin to its end in seconds."""

    label: str
    marks: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of times, from left to right."""

    low: float
    high: float
    is_log: bool

    def place(self, seconds: float) -> float:
        """Return where a time stands, in percent of the width."""
        if self.is_log:
            return 100 * math.log(max(seconds, self.low) / self.low) / math.log(self.high / self.low)
        return 100 * (seconds - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Place and text of some round times."""
        found = _powers(self.low, self.high) if self.is_log else _steps(self.high)
        return tuple((self.place(each), format_seconds(each, 2)) for each in found)


def _steps(high: float) -> list[float]:
    """Return round numbers from 0 to a time.

    >>> _steps(9.0)
    [0.0, 2.5, 5.0, 7.5]
    """
    rough = high / (_MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.9)
    return [number * step for number in range(int(high / step) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Return numbers that begin with 1, 2 or 5 between two times, few enough to be read."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
    inside = [each for each in every if low <= each <= high]
    tens = [each for each in inside if math.isclose(each, 10 ** round(math.log10(each)))]
    found = inside if len(inside) <= _MOST_TICKS else tens
    return found[:: max(1, -(-len(found) // _MOST_TICKS))]


def axis_of(bars: Sequence[Bar]) -> Axis:
    """Return the axis that holds all intervals; it is logarithmic where the times are far apart."""
    high = max(bar.high for bar in bars) or 1.0
    low = min((bar.low for bar in bars if bar.low > 0), default=high)
    if high > _MOST_LINEAR * min((bar.seconds for bar in bars if bar.seconds > 0), default=high):
        return Axis(low / 1.1, high * 1.1, is_log=True)
    return Axis(0.0, high * 1.02, is_log=False)


def interval_bars(bars: Sequence[Bar], caption: str) -> "Markup":
    """Return a row per time: its name, its interval on a common axis, and the number."""
    axis = axis_of(bars)
    rows = [
        {
            "label": bar.label, "note": bar.note, "tone": bar.tone, "value": format_seconds(bar.seconds, 3),
            "low": axis.place(bar.low), "width": axis.place(bar.high) - axis.place(bar.low),
            "place": axis.place(bar.seconds),
            "says": span_of(bar),
        }
        for bar in bars
    ]  # fmt: skip
    most = len(rows) if len(rows) <= _MOST_ROWS + 4 else _MOST_ROWS
    values = {"rows": rows[:most], "folded": rows[most:], "ticks": axis.ticks, "is_log": axis.is_log}
    return fragment("interval_bars", {**values, "caption": caption})


def span_of(bar: Bar) -> str:
    """Return an interval with as many digits as tell its ends from the middle."""
    digits = 2 if bar.high > _NARROW * bar.low else 3
    return f"{format_seconds(bar.low, digits)} to {format_seconds(bar.high, digits)}"


def stacks(found: Sequence[Stack], caption: str) -> "Markup":
    """Return a stack per time, all of the same width: the parts in percent, the time beside it."""
    rows = [
        {"label": each.label, "value": format_seconds(each.seconds, 3), "note": each.note, "parts": _shares(each)}
        for each in found[:_MOST_ROWS]
    ]
    legend = {part.name: part.colour for stack in found[:_MOST_ROWS] for part in stack.parts if part.seconds > 0}
    left_out = len(found) - len(rows)
    return fragment("stacks", {"rows": rows, "legend": legend, "caption": caption, "left_out": left_out})


def ink_on(colour: str) -> str:
    """Return black or white, whichever is read better on a colour.

    Source: WCAG 2.2, relative luminance; both have the same contrast at 0.179.

    >>> from kerncast.report.pictures.colours import LIMITS
    >>> ink_on(LIMITS["fma"]), ink_on(LIMITS["latency"])
    ('black', 'white')
    """
    linear = [(int(colour[place : place + 2], 16) / 255) ** 2.2 for place in (1, 3, 5)]
    return "black" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 else "white"


def _shares(stack: Stack) -> list[dict[str, object]]:
    whole = sum(part.seconds for part in stack.parts) or 1.0
    return [
        {
            "name": part.name,
            "colour": part.colour,
            "ink": ink_on(part.colour),
            "width": 100 * part.seconds / whole,
            "says": describe_percent(part.seconds / whole),
            "is_wide": part.seconds >= _NAMED_SHARE * whole,
            "time": format_seconds(part.seconds, 3),
        }
        for part in stack.parts
        if part.seconds > 0
    ]


def source_lines(rows: Sequence[SourceRow], headings: Sequence[str], caption: str) -> "Markup":
    """Return source lines with their cost; a line with code opens to its PTX and its machine instructions."""
    most = max((row.share or 0.0 for row in rows), default=0.0) or 1.0
    return fragment("source_lines", {"rows": rows, "headings": headings, "caption": caption, "most": most})


def timeline(lanes: Sequence[Lane], seconds: float, legend: Sequence[tuple[str, str]], caption: str) -> "Markup":
    """Return a row per lane on one axis of time from 0 to ``seconds``; ``legend`` has pairs of name and colour."""
    axis = Axis(0.0, seconds, is_log=False)
    rows = [
        {"label": lane.label, "marks": [(colour, _path(marks, seconds)) for colour, marks in lane.marks]}
        for lane in lanes
    ]
    return fragment("timeline", {"rows": rows, "ticks": axis.ticks, "legend": legend, "caption": caption})


def _path(marks: Sequence[tuple[float, float]], seconds: float) -> str:
    """Return bars as one path in a box of 1000 by 10."""
    scale = 1000 / seconds
    return "".join(f"M{begin * scale:.1f} 0h{max(end - begin, 0.0) * scale:.1f}v10H{begin * scale:.1f}z"
                   for begin, end in marks)  # fmt: skip


def drawn(svg: str) -> "Markup":
    """Return a picture of matplotlib's, which is scrolled where it does not fit; its names are escaped already."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(f'<figure class="drawn" tabindex="0">{svg}</figure>')  # noqa: S704


def table_html(table: Table) -> "Markup":
    """Return a table that the page's script lets readers sort and, where it is long, filter."""
    return fragment("data_table", {"table": table})


def verdict_html(headline: str, lead: Sequence[str], tiles: Sequence[Fact] = ()) -> "Markup":
    """Return the answer: a headline, sentences, and the numbers that are looked for first."""
    return fragment("verdict", {"headline": headline, "lead": lead, "tiles": tiles})
