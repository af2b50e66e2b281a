"""Pictures of a page that can be files as well: the HTML of ``fragments``, and the same rows drawn by matplotlib.

HTML grows and shrinks with the page, follows its colours, and can be read out; slides and papers want PNG, SVG or PDF.
Both are laid out by the same axes.
"""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kerncast.report.page.fragments import (
    Axis,
    Bar,
    Lane,
    Stack,
    axis_of,
    drawn,
    ink_on,
    interval_bars,
    span_of,
    stacks,
    timeline,
)
from kerncast.report.pictures.colours import FAINT, SERIES
from kerncast.report.pictures.picture_files import FORMATS, drawing, save_picture, svg_text
from kerncast.report.words import describe_name, describe_percent
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kerncast.report.page.pages import Document, Section

_WIDTH_INCHES, _ROW_INCHES = 9.0, 0.34
_CAPTION_LETTERS = 110
_LABEL_LETTERS = 48
#: Letters that a legend has room for in a row, and those that a colour's box takes.
_LEGEND_LETTERS, _BOX_LETTERS = 132, 8
#: Least percent of a stack that has its number in it.
_NAMED_PERCENT = 6.0
_TONES = {"main": SERIES[0], "other": FAINT}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as HTML, which templates show as it is, and as a figure."""

    html: "Markup"
    draw: "Callable[[], Figure]"
    """makes the figure; only pictures that are written need it"""

    def __html__(self) -> str:
        return self.html


def bars_picture(bars: Sequence[Bar], caption: str) -> Picture:
    """Return a row per time with its interval."""
    return Picture(interval_bars(bars, caption), partial(_bars_figure, tuple(bars), caption))


def stacks_picture(found: Sequence[Stack], caption: str) -> Picture:
    """Return a stack per time, all of the same width."""
    return Picture(stacks(found, caption), partial(_stacks_figure, tuple(found), caption))


def timeline_picture(lanes: Sequence[Lane], seconds: float, legend: Sequence[tuple[str, str]], caption: str) -> Picture:
    """Return a row per lane on one axis of time."""
    html = timeline(lanes, seconds, legend, caption)
    return Picture(html, partial(_timeline_figure, tuple(lanes), seconds, tuple(legend), caption))


def figure_picture(figure: "Figure") -> Picture:
    """Return a picture that is drawn by matplotlib on pages, too."""
    return Picture(drawn(svg_text(figure)), lambda: figure)


def pictures_of(document: "Document") -> "Iterator[tuple[str, Picture]]":
    """Yield the pictures of a report by names that files can have: the places of their sections, numbered."""
    counts: dict[str, int] = {}
    for section in document.sections:
        yield from _pictures_in(section, section.key or "picture", counts)


def _pictures_in(section: "Section", key: str, counts: dict[str, int]) -> "Iterator[tuple[str, Picture]]":
    for picture in section.pictures:
        if isinstance(picture, Picture):
            counts[key] = counts.get(key, 0) + 1
            yield (key if counts[key] == 1 else f"{key}-{counts[key]}"), picture
    for each in section.inside:
        yield from _pictures_in(each, each.key or key, counts)


def save_pictures(document: "Document", folder: Path) -> tuple[Path, ...]:
    """Write each picture of a report into a folder in every format; raises InputError where that is not possible."""
    written = []
    for name, picture in pictures_of(document):
        figure = picture.draw()
        for ending in FORMATS:
            written.append(folder / f"{name}{ending}")
            save_picture(figure, written[-1])
    return tuple(written)


def _panel(rows: int, caption: str, labels: Sequence[str]) -> "tuple[Figure, Axes]":
    """Return a figure with a row per label, the first on top, and its caption above."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    title = textwrap.fill(caption, _CAPTION_LETTERS)
    height = _ROW_INCHES * (rows + 2) + 0.2 * (title.count("\n") + 1)
    figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    panel = figure.subplots()
    panel.set_title(title, fontsize=9, loc="left")
    panel.set_yticks(range(rows), [describe_name(each, _LABEL_LETTERS) for each in labels])
    panel.set_ylim(rows - 0.4, -0.6)
    panel.set_xlim(0, 100)
    panel.tick_params(labelsize=8, left=False)
    return figure, panel


def _label(row: Bar | Stack) -> str:
    return f"{row.label} {row.note}".strip()


def _put_times(panel: "Axes", axis: Axis) -> None:
    panel.set_xticks([place for place, _ in axis.ticks], [text for _, text in axis.ticks])
    panel.grid(axis="x", alpha=0.25)
    if axis.is_log:
        panel.set_xlabel("logarithmic", fontsize=8)


def _put_values(panel: "Axes", values: Sequence[str]) -> None:
    for row, text in enumerate(values):
        panel.annotate(
            text, (1, row), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points", va="center",
            fontsize=8, annotation_clip=False,
        )  # fmt: skip


def _put_legend(figure: "Figure", pairs: Sequence[tuple[str, str]]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415

    names = [describe_name(name, _LEGEND_LETTERS // 2) for name, _ in pairs]
    handles = [Patch(color=colour, label=name) for name, (_, colour) in zip(names, pairs, strict=True)]
    if handles:
        columns = max(1, _LEGEND_LETTERS // (max(map(len, names)) + _BOX_LETTERS))
        figure.legend(handles=handles, loc="outside lower left", ncols=columns, fontsize=8, frameon=False)


def _bars_figure(bars: Sequence[Bar], caption: str) -> "Figure":
    axis = axis_of(bars)
    with drawing():
        figure, panel = _panel(len(bars), caption, [_label(bar) for bar in bars])
        for row, bar in enumerate(bars):
            low, colour = axis.place(bar.low), _TONES.get(bar.tone, FAINT)
            panel.barh(row, axis.place(bar.high) - low, 0.5, left=low, color=colour, alpha=0.35)
            panel.plot([axis.place(bar.seconds)], [row], "o", color=colour, markersize=5)
        _put_times(panel, axis)
        _put_values(panel, [f"{format_seconds(bar.seconds, 3)}  ({span_of(bar)})" for bar in bars])
    return figure


def _stacks_figure(found: Sequence[Stack], caption: str) -> "Figure":
    with drawing():
        figure, panel = _panel(len(found), caption, [_label(stack) for stack in found])
        for row, stack in enumerate(found):
            whole, left = sum(part.seconds for part in stack.parts) or 1.0, 0.0
            for part in stack.parts:
                width = 100 * part.seconds / whole
                panel.barh(row, width, 0.7, left=left, color=part.colour)
                if width >= _NAMED_PERCENT:
                    text = describe_percent(part.seconds / whole)
                    place, ink = left + width / 2, ink_on(part.colour)
                    panel.text(place, row, text, ha="center", va="center", fontsize=7, color=ink)
                left += width
        panel.set_xticks([])
        panel.spines["bottom"].set_visible(False)
        _put_values(panel, [format_seconds(stack.seconds, 3) for stack in found])
        _put_legend(figure, list({p.name: p.colour for each in found for p in each.parts if p.seconds}.items()))
    return figure


def _timeline_figure(
    lanes: Sequence[Lane], seconds: float, legend: Sequence[tuple[str, str]], caption: str
) -> "Figure":
    axis = Axis(0.0, seconds, is_log=False)
    with drawing():
        figure, panel = _panel(len(lanes), caption, [lane.label for lane in lanes])
        for row, lane in enumerate(lanes):
            for colour, marks in lane.marks:
                places = [(axis.place(begin), axis.place(end)) for begin, end in marks]
                panel.broken_barh([(a, b - a) for a, b in places], (row - 0.35, 0.7), facecolors=colour, linewidth=0)
        _put_times(panel, axis)
        _put_legend(figure, legend)
    return figure
