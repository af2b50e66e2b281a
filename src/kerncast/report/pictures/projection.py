"""The time of a kernel on the GPU at hand, and the projected range for others: a group of bars per kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kerncast.prediction import Prediction
from kerncast.report.pictures.colours import INK, MEASURED, PAPER, SERIES
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.report.tables import csv_text
from kerncast.report.words import is_published
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = ("kernel", "launch", "gpu", "model", "measured_seconds", "seconds", "low", "high", "level")
_MOST_KERNELS = 24
#: Hatches, for more targets than there are colours.
_HATCHES = ("", "///", "...", "xxx", "\\\\\\")
_BAR_WIDTH = 0.8
_LEAST_GROUP_INCHES, _BAR_INCHES, _MOST_INCHES = 0.7, 0.2, 48.0
_LEAST_HEIGHT_INCHES, _LEGEND_LINE_INCHES = 4.8, 0.19
_LONGEST_NAME = 28
#: Times further apart get a logarithmic axis, which is labelled at 1, 2 and 5 below the second ratio.
_MOST_TO_SCALE, _DENSE_TICKS_BELOW = 20.0, 2000.0


@dataclass(frozen=True, slots=True)
class Beside:
    """The origin of the run, and times to compare the forecasts with."""

    run: str = "measured"
    """origin of the time on the source"""
    times: str = ""
    """origin of the times to compare with"""
    seconds: tuple[float, ...] = ()
    """time to compare with each forecast, in the same order; empty where there are none"""


@dataclass(frozen=True, slots=True)
class _Bar:
    """One forecast, with the time beside it."""

    p: Prediction
    beside: float | None

    @property
    def measured(self) -> float:
        return self.p.measured[1] if self.p.measured else 0.0


def projection_csv(predictions: Sequence[Prediction]) -> str:
    """Return a row per kernel and GPU, with the measured run where there is one."""
    measured = [p.measured[1] if p.measured else None for p in predictions]
    rows = (
        (p.kernel, p.launch, p.gpu, p.model, seconds, p.seconds, p.low, p.high, p.level)
        for p, seconds in zip(predictions, measured, strict=True)
    )
    return csv_text(_COLUMNS, rows)


def draw_projection(predictions: Sequence[Prediction], beside: Beside | None = None) -> "Figure | None":
    """Return a bar of the measured time and a range per target for each kernel; None where nothing was measured.

    Of more than 24 kernels, those that take longest are drawn.
    """
    beside = beside or Beside()
    times = beside.seconds or (None,) * len(predictions)
    groups = _longest([_Bar(p, time) for p, time in zip(predictions, times, strict=True) if p.measured])
    if not groups:
        return None
    with drawing():
        return _draw(groups, beside)


def _draw(groups: list[list[_Bar]], beside: Beside) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415

    targets = list(dict.fromkeys(bar.p.gpu for group in groups for bar in group))
    inches = len(groups) * max(_LEAST_GROUP_INCHES, _BAR_INCHES * (len(targets) + 1))
    height = max(_LEAST_HEIGHT_INCHES, (len(targets) + 5) * _LEGEND_LINE_INCHES)
    figure = Figure(figsize=(3.6 + min(_MOST_INCHES, inches), height), layout="constrained")
    panel = figure.subplots()
    _scale(panel, [time for group in groups for bar in group for time in _times(bar)])
    for place, group in enumerate(groups):
        _draw_group(panel, place, group, targets)
    panel.set_xlim(-_BAR_WIDTH, len(groups) - 1 + _BAR_WIDTH)
    panel.grid(axis="y", which="major", alpha=0.25)
    panel.set_axisbelow(True)
    names = _names_of(groups)
    panel.set_xticks(range(len(groups)), names, rotation=30, ha="right", rotation_mode="anchor", fontsize=8)
    panel.set_ylabel("time per launch")
    _draw_legend(figure, groups, targets, beside)
    return figure


def _longest(bars: Sequence[_Bar]) -> list[list[_Bar]]:
    """Return the bars of each launch, the launches in their order."""
    groups = [list(group) for _, group in groupby(bars, key=lambda bar: (bar.p.launch, bar.p.kernel))]
    by_time = sorted(range(len(groups)), key=lambda place: -groups[place][0].measured)[:_MOST_KERNELS]
    return [groups[place] for place in sorted(by_time)]


def _times(bar: _Bar) -> list[float]:
    """Return what the axis has to hold, above 0."""
    times = (bar.measured, bar.p.low, bar.p.seconds, bar.p.high, bar.beside)
    return [time for time in times if time]


def _scale(panel: "Axes", seconds: list[float]) -> None:
    """Draw times that are alike to scale, others on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: PLC0415

    shortest, longest = min(seconds), max(seconds)
    if longest > _MOST_TO_SCALE * shortest:
        panel.set_yscale("log")
        panel.set_ylim(shortest / 2, longest * 1.5)
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if longest < _DENSE_TICKS_BELOW * shortest else (1,)))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_minor_formatter(NullFormatter())
    else:
        panel.set_ylim(0, longest * 1.05)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 3)))


def _draw_group(panel: "Axes", place: int, group: list[_Bar], targets: list[str]) -> None:
    width = _BAR_WIDTH / (len(targets) + 1)
    left = place - _BAR_WIDTH / 2 + width / 2
    panel.bar([left], [group[0].measured], width * 0.9, color=MEASURED)
    for bar in group:
        number, p = targets.index(bar.p.gpu), bar.p
        across = left + (number + 1) * width
        panel.bar(
            [across], [p.seconds], width * 0.9, color=_colour(number), hatch=_hatch(number), edgecolor=PAPER, lw=0
        )
        # The span of a published projection is no interval: nobody counted how many times it holds.
        line = ":" if is_published(p.model) else "-"
        panel.vlines(across, p.low, p.high, color=INK, linewidth=1.4, linestyle=line)
        if bar.beside:
            style: dict[str, Any] = {
                "markerfacecolor": PAPER,
                "markeredgecolor": INK,
                "markeredgewidth": 1.0,
            }
            panel.plot([across], [bar.beside], "D", markersize=4.5, **style)


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _hatch(number: int) -> str:
    return _HATCHES[number // len(SERIES) % len(_HATCHES)]


def _draw_legend(figure: "Figure", groups: list[list[_Bar]], targets: list[str], beside: Beside) -> None:
    """Tell the GPUs by bar, and the interval, its middle and the times beside by mark."""
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    sources = dict.fromkeys(group[0].p.measured[0] for group in groups if group[0].p.measured)
    models = {bar.p.model for group in groups for bar in group}
    spans = [name for name in sorted(models) if is_published(name)]
    handles: list[Patch | Line2D] = [Patch(color=MEASURED, label=f"{', '.join(sources)}, {beside.run}")]
    handles += [
        Patch(facecolor=_colour(number), hatch=_hatch(number), edgecolor=PAPER, lw=0, label=f"{gpu}, forecast")
        for number, gpu in enumerate(targets)
    ]
    if len(spans) < len(models):
        level = groups[0][0].p.level
        handles.append(Line2D([], [], color=INK, lw=1.4, label=f"{level:.0%} interval of the forecast"))
    handles += [
        Line2D([], [], color=INK, lw=1.4, ls=":", label=f"published span of {name}, no interval") for name in spans
    ]
    if beside.seconds:
        mark = Line2D([], [], color=INK, lw=0, marker="D", markersize=4.5, label=beside.times)
        mark.set(markerfacecolor=PAPER, markeredgecolor=INK, markeredgewidth=1.0)
        handles.append(mark)
    figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)


def _names_of(groups: list[list[_Bar]]) -> list[str]:
    """Return the kernels' names, with the place of the launch where several share one."""
    names = [shown_name(group[0].p.kernel, _LONGEST_NAME) for group in groups]
    return [
        f"{name} #{group[0].p.launch}" if names.count(name) > 1 else name
        for name, group in zip(names, groups, strict=True)
    ]
