"""What a kernel takes on the GPU at hand, and the range that is projected for others: a group of bars per kernel."""

import csv
import io
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kerncast.prediction import Prediction
from kerncast.report.picture_files import drawing
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = ("kernel", "launch", "gpu", "model", "measured_seconds", "seconds", "low", "high", "level")
_MOST_KERNELS = 24
_MEASURED_COLOUR, _MIDDLE_COLOUR = "#3182bd", "#d62728"
_BAR_COLOURS = ("#bdbdbd", "#969696", "#d9d9d9", "#737373", "#c7c7c7", "#525252")
_BAR_WIDTH = 0.8
_LONGEST_NAME = 24
_MOST_TO_SCALE = 20.0


def projection_csv(predictions: Sequence[Prediction]) -> str:
    """Return a row per kernel and GPU, with the measured run where there is one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for p in predictions:
        measured = p.transfer.measured_seconds if p.transfer else ""
        writer.writerow((p.kernel, p.launch, p.gpu, p.model, measured, p.seconds, p.low, p.high, p.level))
    return text.getvalue()


def draw_projection(predictions: Sequence[Prediction]) -> "Figure | None":
    """Return a bar of the measured time and a range per target for each kernel; None where nothing was measured.

    Of more than 24 kernels, those that take longest are drawn.
    """
    groups = _longest(predictions)
    if not groups:
        return None
    with drawing():
        return _draw(groups)


def _draw(groups: list[list[Prediction]]) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415

    targets = list(dict.fromkeys(p.gpu for group in groups for p in group))
    figure = Figure(figsize=(2.2 + len(groups) * max(0.7, 0.3 * (len(targets) + 1)), 4.8), layout="constrained")
    panel = figure.subplots()
    for place, group in enumerate(groups):
        _draw_group(panel, place, group, targets)
    _scale(panel, [each for group in groups for each in (_measured(group[0]), *(p.seconds for p in group))])
    panel.grid(axis="y", which="major", alpha=0.25)
    panel.set_axisbelow(True)
    names = [_name_of(group[0], groups) for group in groups]
    panel.set_xticks(range(len(groups)), names, rotation=30, ha="right", fontsize=8)
    panel.set_ylabel("time per launch")
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    return figure


def _longest(predictions: Sequence[Prediction]) -> list[list[Prediction]]:
    """Return the predictions of each launch that have a measured run, the launches in their order."""
    groups = [
        list(group) for _, group in groupby((p for p in predictions if p.transfer), key=lambda p: (p.launch, p.kernel))
    ]
    by_time = sorted(groups, key=lambda group: -_measured(group[0]))[:_MOST_KERNELS]
    return [group for group in groups if group in by_time]


def _scale(panel: "Axes", seconds: list[float]) -> None:
    """Draw times that are alike to scale, others on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    if max(seconds) > _MOST_TO_SCALE * min(seconds):
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 3)))


def _draw_group(panel: "Axes", place: int, group: list[Prediction], targets: list[str]) -> None:
    width = _BAR_WIDTH / (len(targets) + 1)
    left = place - _BAR_WIDTH / 2 + width / 2
    is_first = place == 0
    source = group[0].transfer.gpu if group[0].transfer else ""
    label = f"{source}, measured" if is_first else None
    panel.bar([left], [_measured(group[0])], width * 0.9, color=_MEASURED_COLOUR, label=label)
    for p in group:
        number = targets.index(p.gpu)
        across = left + (number + 1) * width
        colour = _BAR_COLOURS[number % len(_BAR_COLOURS)]
        label = f"{p.gpu}, forecast" if is_first else None
        panel.bar([across], [p.seconds], width * 0.9, color=colour, label=label)
        panel.vlines(across, p.low, p.high, color="black", linewidth=1.4)
        panel.plot([across], [p.seconds], "_", color=_MIDDLE_COLOUR, markersize=7, markeredgewidth=1.6)


def _measured(p: Prediction) -> float:
    return p.transfer.measured_seconds if p.transfer else 0.0


def _name_of(p: Prediction, groups: list[list[Prediction]]) -> str:
    """Return the kernel's name, with its place where several launches share it."""
    name = p.kernel if len(p.kernel) <= _LONGEST_NAME else f"{p.kernel[: _LONGEST_NAME - 1]}…"
    is_shared = sum(group[0].kernel == p.kernel for group in groups) > 1
    return f"{name} #{p.launch}" if is_shared else name
