"""The correlation matrix of features and time, as a picture and as CSV."""

import csv
import io
from typing import TYPE_CHECKING

from kerncast.feature_table import Floats
from kerncast.report.picture_files import drawing
from kerncast.studies.correlation import Correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_CELL_INCHES, _LABEL_INCHES, _LEAST_PANEL_INCHES = 0.16, 3.0, 3.0
#: Fewer names leave room for the numbers in their cells.
_MOST_WRITTEN = 14
_WIDE_CELL_INCHES = 0.5
_LONGEST_NAME = 40
#: Beyond it a matrix is no picture any more.
MOST_NAMES = 120


def correlation_csv(found: Correlation) -> str:
    """Return a row per pair of names, both correlations beside them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "with", "pearson", "spearman"))
    for row, name in enumerate(found.names):
        for column in range(row):
            numbers = (f"{found.pearson[row, column]:.6f}", f"{found.spearman[row, column]:.6f}")
            writer.writerow((name, found.names[column], *numbers))
    return text.getvalue()


def draw_correlation(found: Correlation, names: tuple[str, ...] | None = None) -> "Figure":
    """Return both matrices side by side; of more than 120 names those that go most with the time."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    found = _shown(found, names)
    count = len(found.names)
    cell = _WIDE_CELL_INCHES if count <= _MOST_WRITTEN else _CELL_INCHES
    side = max(_LEAST_PANEL_INCHES, count * cell)
    with drawing():
        figure = Figure(figsize=(2 * side + _LABEL_INCHES + 1.2, side + _LABEL_INCHES + 0.4), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_matrix(left, "Pearson", found.names, found.pearson)
        image = _draw_matrix(right, "Spearman", found.names, found.spearman)
        figure.colorbar(image, ax=[left, right], shrink=0.8, aspect=40, label="correlation")
    return figure


def _shown(found: Correlation, names: tuple[str, ...] | None) -> Correlation:
    time = len(found.names) - 1
    if names is None:
        names = tuple(found.names[i] for i in sorted(found.strength[:time, time].argsort()[::-1][: MOST_NAMES - 1]))
    index = [*(found.names.index(name) for name in names), time]
    pearson, spearman = (matrix[index][:, index] for matrix in (found.pearson, found.spearman))
    return Correlation((*names, found.names[time]), pearson, spearman)


def _draw_matrix(panel: "Axes", title: str, names: tuple[str, ...], matrix: Floats) -> "AxesImage":
    image = panel.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    labels = [_shortened(name) for name in names]
    panel.set_xticks(range(len(names)), labels, rotation=90, fontsize=7)
    panel.set_yticks(range(len(names)), labels, fontsize=7)
    panel.tick_params(length=0)
    panel.set_title(title, fontsize=10, loc="left")
    if len(names) <= _MOST_WRITTEN:
        for row, values in enumerate(matrix):
            for column, value in enumerate(values):
                colour = "white" if abs(value) > 0.6 else "black"
                panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return image


def _shortened(name: str) -> str:
    """Return a name without its middle where it is long: counters differ in their last words."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"
