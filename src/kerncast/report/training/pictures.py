"""Pictures of what models learned: correlations of features, and forecast against measured time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kerncast.measurements.feature_table import FeatureTable, Floats
from kerncast.report.pictures.colours import DIVERGING, INK, PAPER, SERIES
from kerncast.report.pictures.picture_files import drawing
from kerncast.report.tables import csv_text
from kerncast.report.training.scores_table import percent
from kerncast.report.words import describe_name
from kerncast.studies.average_case import Study
from kerncast.studies.correlation import Correlation
from kerncast.studies.evaluation import Evaluation
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_CELL_INCHES, _LABEL_INCHES, _LEAST_PANEL_INCHES = 0.16, 3.0, 3.0
#: Fewer names leave room for the numbers in their cells.
_MOST_WRITTEN = 14
_WIDE_CELL_INCHES = 0.5
_LONGEST_NAME = 40
#: Most names in a matrix; with more it is not a picture any more.
MOST_NAMES = 120


def correlation_csv(found: Correlation) -> str:
    """Return a row per pair of names, both correlations beside them."""
    rows = (
        (name, found.names[column], f"{found.pearson[row, column]:.6f}", f"{found.spearman[row, column]:.6f}")
        for row, name in enumerate(found.names)
        for column in range(row)
    )
    return csv_text(("name", "with", "pearson", "spearman"), rows)


def draw_correlation(found: Correlation, names: tuple[str, ...] | None = None) -> "Figure":
    """Return both matrices; of more than 120 names those that go most with the time."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    found = _shown(found, names)
    count = len(found.names)
    cell = _WIDE_CELL_INCHES if count <= _MOST_WRITTEN else _CELL_INCHES
    side = max(_LEAST_PANEL_INCHES, count * cell)
    with drawing():
        # Side by side, many names would be too small to read on a page.
        if count <= _MOST_WRITTEN:
            figure = Figure(figsize=(2 * side + _LABEL_INCHES + 1.2, side + _LABEL_INCHES + 0.4), layout="constrained")
            first, second = figure.subplots(1, 2, sharey=True)
        else:
            figure = Figure(figsize=(side + _LABEL_INCHES + 1.2, 2 * side + _LABEL_INCHES + 0.8), layout="constrained")
            first, second = figure.subplots(2, 1, sharex=True)
        _draw_matrix(first, "Pearson", found.names, found.pearson)
        image = _draw_matrix(second, "Spearman", found.names, found.spearman)
        figure.colorbar(image, ax=[first, second], shrink=0.8, aspect=40, label="correlation")
    return figure


def _shown(found: Correlation, names: tuple[str, ...] | None) -> Correlation:
    time = len(found.names) - 1
    if names is None:
        names = tuple(found.names[i] for i in sorted(found.strength[:time, time].argsort()[::-1][: MOST_NAMES - 1]))
    index = [*(found.names.index(name) for name in names), time]
    pearson, spearman = (matrix[index][:, index] for matrix in (found.pearson, found.spearman))
    return Correlation((*names, found.names[time]), pearson, spearman)


def _draw_matrix(panel: "Axes", title: str, names: tuple[str, ...], matrix: Floats) -> "AxesImage":
    image = panel.imshow(matrix, cmap=DIVERGING, vmin=-1, vmax=1)
    labels = [describe_name(name, _LONGEST_NAME) for name in names]
    panel.set_xticks(range(len(names)), labels, rotation=90, fontsize=7)
    panel.set_yticks(range(len(names)), labels, fontsize=7)
    panel.tick_params(length=0)
    panel.set_title(title, fontsize=10, loc="left")
    if len(names) <= _MOST_WRITTEN:
        for row, values in enumerate(matrix):
            for column, value in enumerate(values):
                colour = PAPER if abs(value) > 0.6 else INK
                panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return image


_COLOURS = SERIES[:8]
_OTHERS = "others"
_PANEL_INCHES = 3.4
_MOST_COLUMNS = 3
#: More points than these hide one another and make files of megabytes.
_MOST_POINTS = 4000
_DENSE_TICKS_BELOW = 100.0


@dataclass(frozen=True, slots=True)
class FitPanel:
    """One model's forecasts of some launches."""

    title: str
    measured: Floats
    forecast: Floats
    groups: tuple[str, ...]
    """group of each launch, by which colours differ: its GPU or its kernel"""


def panels_of(study: Study) -> tuple[FitPanel, ...]:
    """Return a panel per model of a study, without the rules of thumb."""
    return tuple(
        FitPanel(
            f"{each.title}: MAPE {percent(each.scores.mape)}, n = {each.scores.n}",
            study.table.seconds[each.rows],
            each.seconds,
            groups_of(study.table.rows(each.rows)),
        )
        for each in study.outcomes
        if not each.is_baseline
    )


def panel_of_evaluation(found: Evaluation) -> FitPanel:
    """Return the panel of a model from a file."""
    scores = found.parts[0].scores
    title = f"MAPE {percent(scores.mape)}, n = {scores.n}"
    return FitPanel(title, found.table.seconds, found.seconds, groups_of(found.table))


def groups_of(table: FeatureTable) -> tuple[str, ...]:
    """Return the GPUs where there are several, else the kernels."""
    return table.gpus if len(set(table.gpus)) > 1 else table.kernels


def draw_fit(panels: Sequence[FitPanel]) -> "Figure":
    """Return the panels on common logarithmic axes; a forecast of 0 or less is drawn as a cross at the lower edge."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = min(_MOST_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    known = sorted({group for panel in panels for group in panel.groups})
    shown = known if len(known) <= len(_COLOURS) else [*known[: len(_COLOURS) - 1], _OTHERS]
    low, high = _range(panels)
    with drawing():
        figure = Figure(figsize=(_PANEL_INCHES * columns + 0.4, _PANEL_INCHES * rows + 0.5), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for place, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            _draw(axis, panel, shown, (low, high))
            axis.set_xlabel("measured" if place + columns >= len(panels) else "")
            axis.set_ylabel("forecast" if place % columns == 0 else "")
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False, markerscale=3)
    return figure


def _range(panels: Sequence[FitPanel]) -> tuple[float, float]:
    """Return the ends of both axes: of the measured times, widened by what is forecast, within a factor of 10."""
    measured = np.concatenate([panel.measured for panel in panels])
    forecast = np.concatenate([panel.forecast for panel in panels])
    low, high = float(measured.min()), float(measured.max())
    inside = forecast[(forecast > low / 10) & (forecast < high * 10)]
    return min(low, float(inside.min(initial=low))) / 1.2, max(high, float(inside.max(initial=high))) * 1.2


def _draw(axis: "Axes", panel: FitPanel, shown: Sequence[str], ends: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    step = -(-len(panel.measured) // _MOST_POINTS)
    some = np.sort(np.random.default_rng(0).permutation(len(panel.measured))[::step])
    names = np.array([name if name in shown else _OTHERS for name in panel.groups])[some]
    measured, forecast = panel.measured[some], panel.forecast[some]
    edge = ends[0] * 1.04
    for colour, name in zip(_COLOURS, shown, strict=False):
        own = names == name
        inside = own & (forecast > ends[0])
        axis.plot(measured[inside], forecast[inside], ".", color=colour, ms=2, alpha=0.5, label=name, rasterized=True)
        below = own & (forecast <= ends[0])
        axis.plot(measured[below], np.full(below.sum(), edge), "x", color=colour, ms=4)
    axis.plot(ends, ends, color=INK, lw=0.8)
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(LogLocator(subs=(1, 2, 5) if ends[1] < _DENSE_TICKS_BELOW * ends[0] else (1,)))
        side.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 2)))
        side.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=8)
    axis.tick_params(axis="x", rotation=45)
    axis.grid(which="major", alpha=0.25)
    axis.set_title(panel.title, fontsize=9, loc="left")
