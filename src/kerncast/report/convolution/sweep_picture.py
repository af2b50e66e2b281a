"""The picture of a convolution layer's sweeps: times of each forecast, and its errors."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncast.report.pictures.colours import FAINT, MEASURED, SERIES, limit_colour
from kerncast.report.pictures.picture_files import drawing
from kerncast.studies.convolution import COMPARED, ConvolutionStudy, SweptLayers
from kerncast.units import MICROSECOND, PERCENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    "given": MEASURED, "predicted": SERIES[1], "predicted by latencies": SERIES[4], "simulated": SERIES[0],
}  # fmt: skip
_ERRORS = {
    "flops": ("FLOP", "o", SERIES[11]), "int_ops": ("INT operations", "s", limit_colour("integer")),
    "ops": ("total operations", "^", SERIES[2]), "seconds": ("time", "D", SERIES[1]),
    "ops_per_s": ("TOPs", "v", SERIES[6]),
}  # fmt: skip
_LABELS = {
    "block": "threads of a block along x and y", "channels": "input and output channels",
    "kernel": "width and height of a filter", "size": "width and height of the output",
}  # fmt: skip
#: Times that differ by less are drawn on a linear axis.
_LEAST_FOR_LOG = 10.0
#: The least error that a logarithmic axis shows, in percent: smaller ones lie on its edge.
_LEAST_ERROR = 0.01
_INCHES = (11.0, 3.9)

_Series = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a panel; what is not known is left out."""

    label: str
    values: _Series
    style: str
    colour: str


def draw_sweeps(study: ConvolutionStudy) -> "Figure":
    """Return a row of panels for each sweep: times, errors of the prediction, errors of the simulation."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    with drawing():
        figure = Figure(figsize=(_INCHES[0], _INCHES[1] * len(study.sweeps)), layout="constrained")
        panels = figure.subplots(len(study.sweeps), 3, squeeze=False)
        for row, swept in zip(panels, study.sweeps, strict=True):
            row[2].sharey(row[1])
            _draw_times(row[0], swept)
            for panel, way in zip(row[1:], ("predicted", "simulated"), strict=True):
                _draw_errors(panel, swept, way)
            for panel in row:
                _set_axes(panel, swept)
        figure.suptitle(f"A published convolution layer on {study.gpu.name}", fontsize=11)
    return figure


def _draw_times(panel: "Axes", swept: SweptLayers) -> None:
    times: dict[str, _Series] = {
        "given": tuple(each.given.seconds for each in swept.points),
        "predicted": tuple(each.predicted.seconds for each in swept.points),
        "predicted by latencies": tuple(each.times.latency_seconds for each in swept.points),
        "simulated": tuple(each.simulated.seconds for each in swept.points),
    }
    known = [seconds for series in times.values() for seconds in series if seconds is not None]
    for name, series in times.items():
        style = "s-" if name == "given" else "o--"
        shown = tuple(None if each is None else each / MICROSECOND for each in series)
        _plot(panel, swept, _Line(name, shown, style, _COLOURS[name]))
    if known and max(known) >= _LEAST_FOR_LOG * min(known):
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)
    panel.set_title("time of one launch", fontsize=10)
    panel.set_ylabel("time, µs")


def _draw_errors(panel: "Axes", swept: SweptLayers, way: str) -> None:
    by_point = [each.errors(getattr(each, way)) for each in swept.points]
    for name, errors in zip(COMPARED, zip(*by_point, strict=True), strict=True):
        label, marker, colour = _ERRORS[name]
        floored = tuple(None if error is None else max(error / PERCENT, _LEAST_ERROR) for error in errors)
        _plot(panel, swept, _Line(label, floored, f"{marker}-", colour))
    panel.set_yscale("log")
    panel.axhline(10, color=FAINT, lw=0.8, ls=":")
    panel.set_title(f"errors, {way}", fontsize=10)
    panel.set_ylabel("|forecast - given| / given, %")
    if not panel.get_legend_handles_labels()[0]:
        panel.text(0.5, 0.5, "no error known", ha="center", transform=panel.transAxes)


def _plot(panel: "Axes", swept: SweptLayers, line: _Line) -> None:
    known = [(value, each) for value, each in zip(swept.sweep.values, line.values, strict=True) if each is not None]
    if known:
        panel.plot(*zip(*known, strict=True), line.style, color=line.colour, ms=4, lw=1.2, label=line.label)


def _set_axes(panel: "Axes", swept: SweptLayers) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator  # noqa: PLC0415

    panel.set_xscale("log", base=2)
    panel.set_xticks(swept.sweep.values, [str(value) for value in swept.sweep.values])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel(_LABELS[swept.sweep.parameter])
    panel.grid(visible=True, which="major", alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=7)
