"""The pictures of a forecast: its times, its rooflines, and where a run was measured, bars."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kerncast.forecast import Forecast
from kerncast.prediction import Prediction
from kerncast.profiles import KernelRoofline
from kerncast.report.page.figures import Picture, figure_picture
from kerncast.report.pictures.colours import limit_colour
from kerncast.report.pictures.forecast_roofline import (
    describe_nearness,
    draw_forecast_rooflines,
    forecast_roofline_csv,
    rooflines_of,
)
from kerncast.report.pictures.picture_files import drawing
from kerncast.report.pictures.projection import draw_projection, projection_csv
from kerncast.report.pictures.roofline import draw_rooflines, drawable, roofline_csv, rooflines_of_cases
from kerncast.report.words import describe_interval_kind, describe_limiter, is_published
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LAUNCHES = 12
_DENSE_TICKS_BELOW = 300  # an axis of fewer than 2.5 decades is labelled at 1, 2 and 5


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
        colour = limit_colour(p.limiter)
        label = f"limited by {describe_limiter(p.limiter)}" if p.limiter not in seen else None
        seen.add(p.limiter)
        # The span of a published projection is no interval: nobody counted how many times it holds.
        line = {"linestyle": ":", "linewidth": 1.5} if is_published(p.model) else {"linewidth": 3, "alpha": 0.35}
        panel.hlines(row, p.low, p.high, color=colour, **line)
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


def draw_bars(forecast: Forecast) -> "Figure":
    """Return the times of a forecast with their intervals, beside the measured ones where a run was carried over."""
    return draw_projection(forecast.predictions) or draw_forecast(forecast.predictions)


def bars_text(forecast: Forecast) -> str:
    """Return the numbers of the bars as CSV."""
    return projection_csv(forecast.predictions)


def draw_roofline(forecast: Forecast) -> "Figure | None":
    """Return the rooflines of a forecast, a panel per launch and GPU.

    Where a measured run is carried over by its counters, they show the run and what it becomes; else the executed
    kernel at its forecast time. None where no work is counted: of operators, trained models and times alone.
    """
    carried = _carried(forecast)
    return draw_rooflines(carried) if carried else draw_forecast_rooflines(rooflines_of(forecast))


def roofline_text(forecast: Forecast) -> str | None:
    """Return the numbers of the rooflines as CSV; None where there are none."""
    carried = _carried(forecast)
    if carried:
        return roofline_csv(carried)
    rooflines = rooflines_of(forecast)
    return forecast_roofline_csv(rooflines) if rooflines else None


def _carried(forecast: Forecast) -> tuple[KernelRoofline, ...]:
    """Return the rooflines of measured runs; none where no kernel has a place on axes of floating-point work."""
    found = rooflines_of_cases(forecast.profiled)
    return found if drawable(found) else ()


#: GPUs of which a page draws the roofline.
_MOST_ROOFLINES = 4


def page_rooflines(forecast: Forecast) -> tuple[tuple[str, Picture], ...]:
    """Return the rooflines of a page with their titles, the one of the fastest GPU first; one panel each."""
    carried = _carried(forecast)
    if carried:
        return tuple((title, figure_picture(figure)) for title, figure in _each_carried(carried))
    fastest_first = sorted(rooflines_of(forecast), key=lambda each: each.seconds)
    by_launch = {each.launch: each for each in reversed(fastest_first)}
    is_one = len(by_launch) == 1
    shown = fastest_first if is_one else sorted(by_launch.values(), key=lambda each: -each.seconds)
    found = []
    for each in shown[:_MOST_ROOFLINES]:
        figure = draw_forecast_rooflines([each])
        name = each.gpu if is_one else f"{each.kernel} (launch {each.launch}) on {each.gpu}"
        if figure is not None:
            found.append((f"{name}: {describe_nearness(each)}", figure_picture(figure)))
    return tuple(found)


def _each_carried(carried: Sequence[KernelRoofline]) -> "Iterator[tuple[str, Figure]]":
    for gpu, group in groupby(carried, key=lambda each: each.gpu):
        figure = draw_rooflines(list(group))
        if figure is not None:
            yield gpu, figure


def page_bars(forecast: Forecast) -> tuple[Picture, ...]:
    """Return the bars of measured and forecast times, where a run was carried over."""
    figure = draw_projection(forecast.predictions)
    return () if figure is None else (figure_picture(figure),)
