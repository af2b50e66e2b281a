"""The pictures of a report: forecasts, and where a run was measured, rooflines and bars."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kerncast.forecast import Forecast
from kerncast.prediction import Prediction
from kerncast.report.page.fragments import drawn
from kerncast.report.pictures.picture_files import drawing, svg_text
from kerncast.report.pictures.projection import draw_projection
from kerncast.report.pictures.roofline import draw_rooflines, rooflines_of_cases
from kerncast.report.words import describe_interval_kind, describe_limiter
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

_MOST_LAUNCHES = 12
_DENSE_TICKS_BELOW = 300  # an axis of fewer than 2.5 decades is labelled at 1, 2 and 5
COLOURS = {
    "dram": "#1f77b4", "l2": "#17becf", "launch": "#7f7f7f", "compute": "#d62728", "fp32": "#d62728",
    "fp64": "#9467bd", "fp16": "#e377c2", "special": "#ff7f0e", "integer": "#8c564b", "issue": "#2ca02c",
    "lsu": "#bcbd22", "fma": "#d62728", "alu": "#8c564b", "imad": "#ad494a", "xu": "#ff7f0e", "tensor": "#ce6dbd",
    "branch": "#8c6d31", "uniform": "#636363", "shared": "#31a354", "l1": "#00a087", "atomics": "#7b4173",
    "latency": "#393b79", "blocks": "#a55194",
}  # fmt: skip


def draw_forecast(predictions: Sequence[Prediction]) -> "Figure":
    """Return one panel per launch, of at most twelve launches."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only reports need it

    groups = [list(group) for _, group in groupby(predictions, key=lambda p: p.launch)][:_MOST_LAUNCHES]
    heights = [0.9 + 0.34 * len(group) for group in groups]
    with drawing():
        figure = Figure(figsize=(9, sum(heights) + 0.3 * len(groups)), layout="constrained")
        panels = figure.subplots(len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for panel, group in zip(panels, groups, strict=True):
            _draw_launch(panel, group)
    return figure


def _draw_launch(panel: "object", group: list[Prediction]) -> None:
    from matplotlib.axes import Axes  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    assert isinstance(panel, Axes)
    seen: set[str] = set()
    ranked = sorted(group, key=lambda p: p.seconds)
    for row, p in enumerate(ranked):
        colour = COLOURS.get(p.limiter, "#000000")
        label = f"limited by {describe_limiter(p.limiter)}" if p.limiter not in seen else None
        seen.add(p.limiter)
        panel.hlines(row, p.low, p.high, color=colour, linewidth=3, alpha=0.35)
        panel.plot([p.seconds], [row], "o", color=colour, label=label)
        panel.annotate(
            format_seconds(p.seconds, 3), (p.seconds, row), xytext=(0, 6), textcoords="offset points", ha="center",
            fontsize=8,
        )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yticks(range(len(group)), [p.gpu for p in ranked])
    panel.set_ylim(len(group) - 0.4, -0.7)
    if max(p.high for p in group) < _DENSE_TICKS_BELOW * min(p.low for p in group):
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 2)))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.grid(axis="x", which="both", alpha=0.25)
    kinds = dict.fromkeys(describe_interval_kind(p.model) for p in group)
    heading = f"{group[0].kernel}: forecast with {group[0].level:.0%} interval, {' or '.join(kinds)}"
    panel.set_title(heading, fontsize=10, loc="left")
    panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.35 / len(group) - 0.03), ncols=3, frameon=False)


def measured_pictures(forecast: Forecast) -> "tuple[tuple[Markup, ...], tuple[Markup, ...]]":
    """Return the rooflines of profiles and measured runs, and their times as bars, as far as there are any."""
    rooflines = rooflines_of_cases(forecast.profiled)
    figures = (draw_rooflines(rooflines) if rooflines else None, draw_projection(forecast.predictions))
    first, second = (() if figure is None else (drawn(svg_text(figure)),) for figure in figures)
    return first, second
