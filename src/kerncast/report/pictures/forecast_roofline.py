"""Rooflines of forecasts as a picture: one panel per launch and GPU, whose title says how near the forecast comes.

Conventions of Williams et al. 2009, Yang et al. 2020 and Ding and Williams 2019, as in Nsight Compute: both axes
logarithmic, a diagonal per level of memory, a horizontal per kind of work, a marker per level.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from kerncast.errors import Refusal
from kerncast.forecast import Forecast
from kerncast.models import Case
from kerncast.models.forecast_roofline import BandwidthRoof, ComputeRoof, ForecastRoofline, Unit, forecast_roofline
from kerncast.report.pictures.colours import FAINT, INK, limit_colour
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.report.tables import csv_text
from kerncast.report.words import describe_limiter, describe_percent
from kerncast.units import format_count, format_seconds

if TYPE_CHECKING:  # matplotlib takes time to load, and only pictures need it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = (
    "kernel", "launch", "gpu", "unit", "roof", "work", "bytes", "intensity", "rate_per_s", "low_rate_per_s",
    "high_rate_per_s", "roof_bytes_per_s", "peak_bytes_per_s", "ceiling_bytes_per_s", "roof_per_s", "share_of_roof",
)  # fmt: skip


def rooflines_of(forecast: Forecast) -> tuple[ForecastRoofline, ...]:
    """Return the roofline of each forecast whose work is counted, launch by launch, the fastest GPU first."""
    found = []
    for prediction, case in zip(forecast.predictions, forecast.cases, strict=True):
        if isinstance(case, Case):
            try:
                found.append(forecast_roofline(prediction, case))
            except Refusal:
                continue
    return tuple(sorted(found, key=lambda each: (each.launch, each.seconds)))


def forecast_roofline_csv(rooflines: Sequence[ForecastRoofline]) -> str:
    """Return a row per forecast and roof: all that the picture shows."""
    return csv_text(_COLUMNS, (_row(each, roof) for each in rooflines for roof in each.roofs))


def _row(each: ForecastRoofline, roof: BandwidthRoof | ComputeRoof) -> tuple[object, ...]:
    own = (each.kernel, each.launch, each.gpu, each.unit.value, roof.name)
    rates = (each.rate, *each.rates)
    if isinstance(roof, ComputeRoof):
        return (*own, roof.work, None, None, *rates, None, None, None, roof.per_s, each.share(roof))
    bandwidths = roof.bytes_per_s, roof.peak_bytes_per_s, roof.ceiling_bytes_per_s
    intensity = each.intensity(roof) if roof.nbytes else None
    reached = each.slope(roof) * intensity if intensity else None
    return (*own, each.work, roof.nbytes, intensity, *rates, *bandwidths, reached, each.share(roof))


# What the picture says.


LEVEL_NAMES = {"shared": "shared memory", "l1": "L1", "l2": "L2", "dram": "DRAM"}
_LONGEST_NAME = 44


def describe_roof(roof: BandwidthRoof | ComputeRoof) -> str:
    """Return what a roof is called."""
    if isinstance(roof, BandwidthRoof):
        return f"{LEVEL_NAMES[roof.name].replace(' ', '-')} roof"
    if roof.name == "issue":
        return "instruction-issue roof"
    return f"{roof.name.replace(' tensor', ' tensor-core')} roof"


def describe_nearness(each: ForecastRoofline) -> str:
    """Return how near a forecast comes to the roof that matters most, such as ``81 % of its shared-memory roof``."""
    roof = each.nearest
    text = f"{describe_percent(each.share(roof))} of its {describe_roof(roof)}"
    if not each.is_limited_by_nearest:
        return f"{text}, the nearest; limited by {describe_limiter(each.limiter)}"
    own = each.ceiling_share(roof) if isinstance(roof, BandwidthRoof) else None
    return text if own is None else f"{text} ({describe_percent(own)} of what its accesses can reach)"


def _heading(shown: Sequence[ForecastRoofline]) -> str:
    first = shown[0]
    name = shown_name(first.kernel, _LONGEST_NAME)
    if len({each.launch for each in shown}) > 1:
        return "How near each forecast comes to its roof"
    if len(shown) == 1:
        return f"{name} on {first.gpu}: {describe_nearness(first)}"
    return f"{name} is fastest on {first.gpu}: {describe_nearness(first)}"


# The picture.


_MOST_PANELS, _MOST_COLUMNS = 12, 3
#: Width and height of a panel, and of its axes, about.
_PANEL_INCHES, _DRAWN_INCHES = (5.6, 4.5), (4.55, 3.75)
#: Letters of a heading per inch, and of a panel's title per line.
_LETTERS_PER_INCH, _TITLE_LETTERS = 7.8, 62
#: An axis is this much wider than its points, to the left (names of roofs), to the right, and below.
_LEFT, _RIGHT, _BELOW, _ABOVE = 12.0, 6.0, 4.0, 4.0
#: Least ratio of the ends of an axis.
_LEAST_SPAN = 1000.0
#: Markers and their sizes: levels that the same bytes cross have one place, and show behind one another.
_MARKERS = {"shared": ("^", 14), "l1": ("o", 13), "l2": ("s", 9), "dram": ("D", 6)}
#: Levels of which the roof is drawn though nothing crosses them.
_ALWAYS = {"l2", "dram"}
#: Bandwidths of L1 and shared memory that are this near are one line.
_SAME = 0.02
_AXES = {
    Unit.FLOP: ("arithmetic intensity (FLOP per byte that crosses the level)", "FLOP/s"),
    Unit.OPERATION: ("arithmetic intensity (operations per byte that crosses the level)", "OP/s"),
    Unit.INSTRUCTION: ("warp instructions per transaction of 32 bytes that crosses the level", "inst/s"),
}


@dataclass(frozen=True, slots=True)
class _Extent:
    """The ends of the axes, the same in all panels of one unit."""

    left: float
    right: float
    bottom: float
    top: float


def draw_forecast_rooflines(rooflines: Sequence[ForecastRoofline]) -> "Figure | None":
    """Return a panel per launch and GPU, at most twelve; None where there is none to draw."""
    if not rooflines:
        return None
    with drawing():
        return _draw(rooflines[:_MOST_PANELS], len(rooflines))


def _draw(shown: Sequence[ForecastRoofline], count: int) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = len(shown) if len(shown) < _MOST_COLUMNS else 2 if len(shown) == _MOST_COLUMNS + 1 else _MOST_COLUMNS
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for unused in grid[len(shown) :]:
        unused.set_visible(False)
    extents = {unit: _extent([each for each in shown if each.unit is unit]) for unit in {e.unit for e in shown}}
    has_launches = len({each.launch for each in shown}) > 1
    for panel, each in zip(grid, shown, strict=False):
        _draw_panel(panel, each, extents[each.unit])
        _title(panel, each, has_launches=has_launches, is_alone=len(shown) == 1)
    heading = fill(_heading(shown), int(figure.get_figwidth() * _LETTERS_PER_INCH))
    figure.suptitle(heading, x=0.01, ha="left", fontsize=13, fontweight="bold")
    _draw_legend(figure, shown, count - len(shown))
    return figure


def _title(panel: "Axes", each: ForecastRoofline, *, has_launches: bool, is_alone: bool) -> None:
    """Say what the panel is of, and how near it comes; where the heading says so, only the time and its interval."""
    ends = f"{format_seconds(each.low, 2)} to {format_seconds(each.high, 2)} at {each.confidence:.0%}"
    time = f"{format_seconds(each.seconds, 3)}, {ends.replace('%', ' %')}"
    if is_alone:
        panel.set_title(time, fontsize=10, loc="left")
        return
    name = f"{shown_name(each.kernel, _LONGEST_NAME)} on {each.gpu}" if has_launches else each.gpu
    panel.set_title(fill(f"{name}: {describe_nearness(each)}", _TITLE_LETTERS) + f"\n{time}", fontsize=10, loc="left")


def _extent(group: Sequence[ForecastRoofline]) -> _Extent:
    """Return axes that hold all points, and the ridge of the fastest memory with the fastest work."""
    intensities = [each.intensity(roof) for each in group for roof in each.crossed]
    tops = [roof.grouped_per_s or roof.per_s or 0.0 for each in group for roof in each.computes]
    rates = [rate for each in group for rate in (*each.rates, each.rate) if math.isfinite(rate)]
    top = max([*tops, *rates])
    slopes = [each.slope(roof) for each in group for roof in _drawn(each)]
    ridges = [top / slope for slope in slopes]
    places = [*intensities, *ridges] or [1.0]
    left, right = min(places) / _LEFT, max(places) * _RIGHT
    bottom = min(min(rates) / _BELOW, top / _LEAST_SPAN)
    return _Extent(left, max(right, left * _LEAST_SPAN), bottom, top * _ABOVE)


def _drawn(each: ForecastRoofline) -> list[BandwidthRoof]:
    return [roof for roof in each.bandwidths if roof.nbytes or roof.name in _ALWAYS]


def _draw_panel(panel: "Axes", each: ForecastRoofline, extent: _Extent) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415

    panel.set(xscale="log", yscale="log", xlim=(extent.left, extent.right), ylim=(extent.bottom, extent.top))
    _draw_bandwidths(panel, each, extent)
    _draw_computes(panel, each, extent)
    _draw_points(panel, each, extent)
    _write_notes(panel, each)
    across, up = _AXES[each.unit]
    panel.set_xlabel(across, fontsize=9)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value, up)))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.tick_params(labelsize=9)
    panel.grid(which="major", alpha=0.2)


def _draw_bandwidths(panel: "Axes", each: ForecastRoofline, extent: _Extent) -> None:
    """Draw the diagonals up to the highest roof of the kernel's work, each with its bandwidth along it."""
    top = max([roof.per_s for roof in each.computes if roof.per_s], default=extent.top)
    roofs = _drawn(each)
    for roof in roofs:
        twin = next((r for r in roofs if r is not roof and {r.name, roof.name} == {"l1", "shared"}), None)
        is_one = twin is not None and abs(twin.bytes_per_s / roof.bytes_per_s - 1) < _SAME
        if is_one and roof.name == "l1":
            continue
        name = "L1 and shared memory" if is_one else LEVEL_NAMES[roof.name]
        slope, colour = each.slope(roof), limit_colour(roof.name)
        panel.plot([extent.left, top / slope], [extent.left * slope, top], color=colour, lw=1.8)
        if roof.peak_bytes_per_s:
            peak = roof.peak_bytes_per_s / each.bytes_per_x
            panel.plot([extent.left, top / peak], [extent.left * peak, top], "--", color=colour, lw=0.8)
        if roof is each.nearest and roof.ceiling_bytes_per_s:
            own = roof.ceiling_bytes_per_s / each.bytes_per_x
            panel.plot([extent.left, top / own], [extent.left * own, top], ":", color=colour, lw=1.6)
        _write_along(panel, roof, f"{name} {format_count(roof.bytes_per_s, 'B/s')}", slope)


def _write_along(panel: "Axes", roof: BandwidthRoof, text: str, slope: float) -> None:
    """Write a name along a diagonal where it enters the picture; that of DRAM, the lowest, below it."""
    (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
    angle = math.atan((_DRAWN_INCHES[1] / math.log10(top / bottom)) / (_DRAWN_INCHES[0] / math.log10(right / left)))
    across, is_below = max(left, bottom / slope) * 1.3, roof.name == "dram"
    panel.annotate(
        text, (across, across * slope), (4, -4) if is_below else (-3, 5), textcoords="offset points", fontsize=8.5,
        color=limit_colour(roof.name), va="top" if is_below else "baseline", rotation=math.degrees(angle),
        rotation_mode="anchor",
    )  # fmt: skip


def _draw_computes(panel: "Axes", each: ForecastRoofline, extent: _Extent) -> None:
    """Draw a horizontal per kind of work, from the diagonal that meets it first."""
    steepest = max((each.slope(roof) for roof in _drawn(each)), default=math.inf)
    for roof in each.computes:
        if not roof.per_s:
            continue
        name = "instruction issue" if roof.name == "issue" else roof.name
        text = f"{name} {format_count(roof.per_s, _AXES[each.unit][1])}"
        panel.plot([max(extent.left, roof.per_s / steepest), extent.right], [roof.per_s] * 2, color=INK, lw=1.8)
        _write_at_right(panel, text, roof.per_s)
        if roof.grouped_per_s:
            start = max(extent.left, roof.grouped_per_s / steepest)
            panel.plot([start, extent.right], [roof.grouped_per_s] * 2, "--", color=FAINT, lw=1.2)
            by_groups = f"by wgmma {format_count(roof.grouped_per_s, _AXES[each.unit][1])}"
            _write_at_right(panel, by_groups, roof.grouped_per_s)


def _write_at_right(panel: "Axes", text: str, height: float) -> None:
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": 8.5}
    panel.annotate(text, (panel.get_xlim()[1], height), (-4, 3), **style)


def _draw_points(panel: "Axes", each: ForecastRoofline, extent: _Extent) -> None:
    """Draw a marker per level at the forecast's rate, with its interval, and how far the nearest roof is."""
    low, high = each.rates
    below, above = [[each.rate - low], [min(high, extent.top) - each.rate]]
    places = {roof.name: each.intensity(roof) for roof in each.crossed}
    if not places:
        middle = math.sqrt(extent.left * extent.right)
        panel.axhline(each.rate, color=INK, lw=1, ls="-.")
        panel.errorbar([middle], [each.rate], [below, above], fmt="o", color=INK, capsize=4)
        return
    panel.plot(list(places.values()), [each.rate] * len(places), color=INK, lw=1)
    told = each.nearest.name if each.nearest.name in places else max(places, key=lambda name: places[name])
    for name, across in places.items():
        marker, size = _MARKERS[name]
        ink, width = (INK, 1.4) if name == told else (FAINT, 0.8)
        panel.errorbar(
            [across], [each.rate], [below, above], fmt=marker, color=limit_colour(name), markeredgecolor=INK,
            markersize=size, ecolor=ink, elinewidth=width, capsize=3,
        )  # fmt: skip
    _draw_gap(panel, each, places[told])


def _draw_gap(panel: "Axes", each: ForecastRoofline, across: float) -> None:
    """Draw an arrow from the point to the nearest roof, with the part of it that is reached."""
    roof = each.nearest
    height = roof.per_s or each.rate if isinstance(roof, ComputeRoof) else each.slope(roof) * across
    panel.annotate("", (across, height), (across, each.rate), arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2})
    panel.annotate(
        describe_percent(each.share(roof)), (across, each.rate), (9, -10), textcoords="offset points", fontsize=10,
        fontweight="bold", va="top",
    )  # fmt: skip


def _write_notes(panel: "Axes", each: ForecastRoofline) -> None:
    """Say in the panel what it lacks, and why."""
    is_in_l2 = each.crossed and any(roof.name == "dram" and not roof.nbytes for roof in each.bandwidths)
    notes = ["no DRAM traffic: L2 holds the data"] if is_in_l2 else []
    notes += ["L2: at most, its traffic was not simulated" for roof in each.bandwidths if roof.is_upper_bound]
    notes += [f"rate of {roof.name} unknown: no roof" for roof in each.computes if not roof.per_s]
    if not each.crossed:
        notes.append("no memory traffic: the rate alone")
    panel.text(0.98, 0.03, "\n".join(notes), transform=panel.transAxes, ha="right", va="bottom", fontsize=8.5)


def _draw_legend(figure: "Figure", shown: Sequence[ForecastRoofline], left_out: int) -> None:
    """Tell levels by marker, and kinds of line."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    crossed = {roof.name for each in shown for roof in each.crossed}
    handles = [
        Line2D(
            [], [], lw=0, marker=marker, color=limit_colour(name), markeredgecolor=INK,
            label=f"forecast, at {LEVEL_NAMES[name]}",
        )
        for name, (marker, _) in _MARKERS.items()
        if name in crossed
    ]  # fmt: skip
    handles.append(
        Line2D([], [], color=INK, lw=1, marker="|", label=f"{shown[0].confidence:.0%} interval of the forecast")
    )
    handles.append(Line2D([], [], color=INK, lw=1.8, label="roof that GPUs sustain"))
    if any(roof.peak_bytes_per_s for each in shown for roof in each.bandwidths):
        handles.append(Line2D([], [], color=INK, lw=0.8, ls="--", label="DRAM by the data sheet"))
    if any(isinstance(each.nearest, BandwidthRoof) and each.nearest.ceiling_bytes_per_s for each in shown):
        handles.append(Line2D([], [], color=INK, lw=1.6, ls=":", label="what the kernel's accesses can reach"))
    if left_out:
        handles.append(Line2D([], [], lw=0, label=f"{left_out} more are in the CSV"))
    columns = max(1, int(figure.get_figwidth() / 2.8))
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, fontsize=9, frameon=False)
