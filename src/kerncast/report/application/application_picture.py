"""The picture of whole programs: what each GPU does in a program's time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerncast.forecast.application import Application
from kerncast.report.application.application_page import moments
from kerncast.report.pictures.picture_files import drawing
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_applications(found: Sequence[Application]) -> "Figure":
    """Return a bar per GPU, the fastest above: the parts of its time, and the interval as a line."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    ranked = sorted(found, key=lambda each: each.timeline.seconds)
    with drawing():
        figure = Figure(figsize=(9, 1.4 + 0.45 * len(ranked)), layout="constrained")
        panel = figure.subplots()
        for row, each in enumerate(ranked):
            begin = 0.0
            for part in moments(each):
                label = part.name if not row else None
                panel.barh(row, part.seconds, left=begin, height=0.55, color=part.colour, label=label)
                begin += part.seconds
            panel.hlines(row, each.low, each.high, color="black", linewidth=1)
            panel.annotate(
                format_seconds(each.timeline.seconds, 3), (max(begin, each.high), row), xytext=(5, 0),
                textcoords="offset points", va="center", fontsize=8,
            )  # fmt: skip
        panel.set_yticks(range(len(ranked)), [each.gpu for each in ranked])
        panel.set_ylim(len(ranked) - 0.5, -0.5)
        panel.margins(x=0.12)
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 2)))
        panel.set_title(f"The program's time, and its {ranked[0].level:.0%} interval", fontsize=10, loc="left")
        figure.legend(fontsize=8, loc="outside lower left", ncols=3, frameon=False)
    return figure
