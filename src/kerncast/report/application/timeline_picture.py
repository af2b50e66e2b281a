"""The timeline of an application: a row per stream and for copies, a colour per kernel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kerncast.forecast.application import Application
from kerncast.recording import EventKind, Recording
from kerncast.report.application.trace import name_of
from kerncast.report.pictures.colours import FAINT, INK, SERIES
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours that the colour-blind tell apart (Okabe and Ito); the last is for all others.
_COLOURS = (*SERIES[:6], FAINT)
_COPY_COLOUR = INK
_MOST_PANELS, _MOST_ROWS = 6, 10
#: About as many columns has a picture: nothing is narrower than one, and spans that lie closer are drawn as one.
_COLUMNS = 1500
_LONGEST_NAME = 40
#: The axis goes on behind the longest end.
_MARGIN = 1.03


def draw_timeline(recording: Recording, found: Sequence[Application]) -> "Figure":
    """Return a panel per GPU, the fastest first, all on one axis of time."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    shown = sorted(found, key=lambda one: one.timeline.seconds)[:_MOST_PANELS]
    colours = _colours(recording, shown)
    with drawing():
        figure = Figure(figsize=(10, 0.9 + 1.6 * len(shown)), layout="constrained")
        panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for panel, each in zip(panels, shown, strict=True):
            _draw(panel, recording, each, colours)
        panels[-1].set_xlim(0, 1e3 * _MARGIN * max((each.timeline.seconds for each in shown), default=1.0))
        panels[-1].set_xlabel("milliseconds since the program's start", fontsize=8)
        handles = [panels[0].barh([0], [0], color=colour) for colour in colours.values()]
        names = [shown_name(name, _LONGEST_NAME) for name in colours]
        handles.append(panels[0].barh([0], [0], color=_COPY_COLOUR))
        figure.legend(
            handles, [*names, "copies and fills"], loc="outside lower center", ncols=4, frameon=False, fontsize=8
        )
    return figure


def _colours(recording: Recording, shown: Sequence[Application]) -> dict[str, str]:
    sums: dict[str, float] = {}
    for each in shown:
        for kernel in each.kernels:
            sums[kernel.kernel] = sums.get(kernel.kernel, 0.0) + kernel.seconds
    most = sorted(sums, key=lambda name: -sums[name])[: len(_COLOURS) - 1]
    found = dict(zip(most, _COLOURS, strict=False))
    return found | ({"other kernels": _COLOURS[-1]} if len(sums) > len(most) or recording.library_calls else {})


def _draw(panel: "Axes", recording: Recording, found: Application, colours: dict[str, str]) -> None:
    line = found.timeline
    rows: dict[tuple[bool, int, int], list[Any]] = {}
    for span in line.spans:
        is_copy = int(span["kind"]) in {EventKind.COPY, EventKind.FILL}
        rows.setdefault((is_copy, int(span["process"]), int(span["stream"])), []).append(span)
    labels = []
    for place, (key, spans) in enumerate(sorted(rows.items())[:_MOST_ROWS]):
        is_copy, _, stream = key
        labels.append(
            f"{'copies of ' if is_copy else ''}stream {stream}" if stream else "copies" if is_copy else "kernels"
        )
        for colour, bars in _bars(recording, spans, colours, line.seconds).items():
            panel.broken_barh(bars, (place - 0.4, 0.8), facecolors=_COPY_COLOUR if is_copy else colour, linewidth=0)
    panel.set_yticks(range(len(labels)), labels, fontsize=8)
    panel.invert_yaxis()
    panel.set_title(f"{found.gpu}: {format_seconds(line.seconds, 3)}", fontsize=9, loc="left")
    panel.tick_params(axis="x", labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    panel.axvline(1e3 * line.seconds, color=INK, linewidth=0.8, linestyle=":")


def _bars(
    recording: Recording, spans: Sequence[Any], colours: dict[str, str], seconds: float
) -> dict[str, list[tuple[float, float]]]:
    """Return begin and length of bars in milliseconds, by colour; neighbours of one colour become one."""
    found: dict[str, list[tuple[float, float]]] = {}
    step = 1e3 * seconds / _COLUMNS
    for span in spans:
        colour = colours.get(name_of(recording, span), _COLOURS[-1])
        begin, end = 1e3 * float(span["begin"]), 1e3 * float(span["end"])
        bars = found.setdefault(colour, [])
        if bars and begin - sum(bars[-1]) < step:
            bars[-1] = bars[-1][0], max(sum(bars[-1]), end) - bars[-1][0]
        else:
            bars.append((begin, float(np.maximum(end - begin, step))))
    return found
