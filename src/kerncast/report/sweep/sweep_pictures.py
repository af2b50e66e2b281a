"""The pictures of a sweep: times along one parameter, and a map over two."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.report.pictures.colours import EMPTY, INK, PAPER, SEQUENTIAL, SERIES, WORSE
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.studies.sweeps.expressions import Scalar
from kerncast.studies.sweeps.point_results import Outcome
from kerncast.studies.sweeps.space import Axis
from kerncast.studies.sweeps.sweep import Sweep
from kerncast.units import format_seconds

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

#: After them all colours repeat with another line.
_COLOURS = SERIES
_STYLES = ("-", "--", ":", "-.")
_MOST_LINES = len(_COLOURS) * len(_STYLES)
_MOST_MAPS = 6
_MOST_NUMBERED = 144
_MOST_TICKS = 24
#: Over this share of the values the text of a cell is dark.
_DARK_BELOW = 0.55
_EVEN, _LOG_FROM = 1.05, 8.0
_MOST_SHOWN = 40

Cell = tuple[Scalar, ...]


def named_axes(sweep: Sweep, names: Sequence[str], count: int) -> tuple[Axis, ...]:
    """Return the axes of a picture by name, else those with the most values, in their order; raises InputError."""
    axes = {axis.name: axis for axis in sweep.space.axes}
    unknown = [name for name in names if name not in axes]
    if unknown:
        raise InputError(f"--along {unknown[0]} does not vary", cure=f"Known: {', '.join(axes)}.")
    if len(axes) < count:
        raise InputError(f"a map needs {count} parameters that vary, and {len(axes)} does", cure="Draw --line instead.")
    if names:
        chosen = list(dict.fromkeys([*names, *axes]))[:count]
        return tuple(axes[name] for name in chosen)
    most = sorted(axes, key=lambda name: -len(axes[name].values))[:count]
    return tuple(axis for name, axis in axes.items() if name in most)


def _best_of_cells(sweep: Sweep, gpu: GPU, axes: Sequence[Axis]) -> dict[Cell, Outcome]:
    """Return the shortest forecast for each combination of some axes: the others are at their best."""
    found: dict[Cell, Outcome] = {}
    for each in sweep.ranked(gpu):
        settings = dict(each.point.settings)
        found.setdefault(tuple(settings[axis.name] for axis in axes), each.outcome)
    return found


def draw_line(sweep: Sweep, along: Sequence[str] = (), level: float = 0.9) -> "Figure":
    """Return the time with its interval along one parameter, a line per GPU; other parameters are at their best."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    (axis,) = named_axes(sweep, along, 1)
    places, is_number = _places(axis)
    with drawing():
        figure = Figure(figsize=(8, 4.8), layout="constrained")
        panel = figure.subplots()
        shown = [gpu for gpu in sweep.gpus if sweep.ranked(gpu)][:_MOST_LINES]
        for number, gpu in enumerate(shown):
            best = _best_of_cells(sweep, gpu, (axis,))
            pairs = [(place, best.get((value,))) for place, value in zip(places, axis.values, strict=True)]
            _draw_gpu(panel, gpu.name, sorted(pairs, key=lambda pair: pair[0]), number)
        _scale_times(panel, sweep)
        _scale_values(panel, axis, places, is_number=is_number)
        panel.set_xlabel(shown_name(axis.name, _MOST_SHOWN))
        panel.set_title(_heading(sweep, (axis,), f"time with {level:.0%} interval"), fontsize=10, loc="left")
        panel.grid(alpha=0.25)
        if shown:
            panel.legend(fontsize=8, frameon=False, ncols=1 + len(shown) // 8)
    return figure


def _draw_gpu(panel: "Axes", name: str, pairs: Sequence[tuple[float, Outcome | None]], number: int) -> None:
    """Draw one line, which has a gap where nothing is feasible."""
    nothing = float("nan")
    x = [place for place, _ in pairs]
    low, middle, high = (
        [nothing if each is None else float(getattr(each, field)) for _, each in pairs]
        for field in ("low", "seconds", "high")
    )
    colour, style = _COLOURS[number % len(_COLOURS)], _STYLES[number // len(_COLOURS)]
    panel.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    panel.plot(x, middle, style, marker="o", markersize=3.5, linewidth=1.4, color=colour, label=name)


def _places(axis: Axis) -> tuple[list[float], bool]:
    """Return where the values of an axis stand: numbers where they are, texts one after the other."""
    if any(isinstance(value, str | bool) for value in axis.values):
        return [float(place) for place in range(len(axis.values))], False
    return [float(value) for value in axis.values], True


def _scale_times(panel: "Axes", sweep: Sweep) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    lows = [each.low for result in sweep.results for each in result.outcomes if each.low]
    highs = [each.high for result in sweep.results for each in result.outcomes if each.high]
    if lows and max(highs) > _LOG_FROM * min(lows):
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(highs) < 300 * min(lows) else (1,)))
        panel.yaxis.set_minor_formatter(NullFormatter())
    else:
        panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 2)))


def _scale_values(panel: "Axes", axis: Axis, places: Sequence[float], *, is_number: bool) -> None:
    """Label the values themselves where they are few; on a logarithmic scale where they grow by factors."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    if is_number and min(places) > 0 and max(places) > _LOG_FROM * min(places) and _grows_by_factors(places):
        panel.set_xscale("log")
    if not is_number or len(places) <= _MOST_TICKS:
        step = 1 + (len(places) - 1) // _MOST_TICKS
        texts = [shown_name(str(value), 12) for value in axis.values]
        turned = sum(map(len, texts)) > 80
        panel.set_xticks(places[::step], texts[::step], fontsize=8, rotation=40 if turned else 0)
        panel.xaxis.set_minor_locator(NullLocator())


def _grows_by_factors(places: Sequence[float]) -> bool:
    ordered = sorted(places)
    steps = [after - before for before, after in pairwise(ordered)]
    return max(steps) > _EVEN * min(steps)


def draw_map(sweep: Sweep, along: Sequence[str] = ()) -> "Figure":
    """Return the time over two parameters as colours, a panel per GPU; other parameters are at their best."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    axes = named_axes(sweep, along, 2)
    shown = [gpu for gpu in sweep.gpus if sweep.ranked(gpu)][:_MOST_MAPS]
    columns = min(2, max(1, len(shown)))
    rows = -(-len(shown) // columns) or 1
    across, down = (min(24, len(axis.values)) for axis in axes)
    with drawing():
        figure = Figure(figsize=(columns * max(4.6, 1.6 + 0.55 * across), rows * max(2.9, 1.3 + 0.32 * down)),
                        layout="constrained")  # fmt: skip
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, gpu in zip(panels, shown, strict=False):
            _draw_gpu_map(panel, sweep, gpu, axes)
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        figure.suptitle(_heading(sweep, axes, "time"), fontsize=10, x=0.01, ha="left")
    return figure


def _draw_gpu_map(panel: "Axes", sweep: Sweep, gpu: GPU, axes: Sequence[Axis]) -> None:
    import numpy as np  # noqa: PLC0415
    from matplotlib.colors import LogNorm  # noqa: PLC0415
    from matplotlib.patches import Rectangle  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter, LogLocator  # noqa: PLC0415

    best = _best_of_cells(sweep, gpu, axes)
    grid = np.full((len(axes[1].values), len(axes[0].values)), np.nan)
    for row, column in np.ndindex(grid.shape):
        found = best.get((axes[0].values[column], axes[1].values[row]))
        if found is not None and found.seconds is not None:
            grid[row, column] = found.seconds
    panel.set_facecolor(EMPTY)  # shows where nothing is feasible
    shortest, longest = float(np.nanmin(grid)), float(np.nanmax(grid))
    scale = LogNorm(shortest, longest) if longest > _LOG_FROM * shortest else None
    image = panel.imshow(grid, origin="lower", aspect="auto", cmap=SEQUENTIAL, norm=scale)
    formatter = FuncFormatter(lambda value, _: format_seconds(value, 2))
    assert panel.figure is not None
    ticks = LogLocator(subs=(1, 2, 5)) if scale else None
    bar = panel.figure.colorbar(image, ax=panel, format=formatter, ticks=ticks)
    bar.ax.tick_params(labelsize=8)
    bar.ax.yaxis.set_minor_formatter(lambda *_: "")
    _number_cells(panel, grid, image)
    row, column = np.unravel_index(int(np.nanargmin(grid)), grid.shape)
    panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=WORSE, linewidth=2.2))
    panel.set_title(f"{gpu.name}: best {format_seconds(shortest, 3)}", fontsize=9, loc="left")
    for axis, labels, name in (
        (panel.xaxis, axes[0].values, axes[0].name),
        (panel.yaxis, axes[1].values, axes[1].name),
    ):
        step = 1 + (len(labels) - 1) // _MOST_TICKS
        axis.set_ticks(range(0, len(labels), step), [shown_name(str(each), 12) for each in labels[::step]], fontsize=8)
        axis.set_label_text(shown_name(name, _MOST_SHOWN), fontsize=9)


def _number_cells(panel: "Axes", values: "NDArray[np.float64]", image: "AxesImage") -> None:
    """Write the time into each cell where there are few; a cell without one says that nothing is feasible."""
    import numpy as np  # noqa: PLC0415

    shades = np.asarray(image.norm(values))
    if values.size > _MOST_NUMBERED:
        return
    for row, column in np.ndindex(values.shape):
        seconds = float(values[row, column])
        if np.isnan(seconds):
            panel.text(column, row, "×", ha="center", va="center", fontsize=8, color=INK)
            continue
        is_light = shades[row, column] < _DARK_BELOW
        text = format_seconds(seconds, 2)
        panel.text(column, row, text, ha="center", va="center", fontsize=7, color=INK if is_light else PAPER)


def _heading(sweep: Sweep, axes: Sequence[Axis], what: str) -> str:
    others = [axis.name for axis in sweep.space.axes if axis not in axes]
    rest = f"; {shown_name(', '.join(others), 60)} at {'their' if len(others) > 1 else 'its'} best" if others else ""
    return f"{sweep.label}: {what}{rest}"
