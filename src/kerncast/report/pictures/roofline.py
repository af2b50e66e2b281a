"""Rooflines as a picture: one panel per GPU, one diagonal per level of memory, one chain of markers per kernel.

Conventions of Williams et al. 2009, of Yang et al. 2020 (several levels) and of Nsight Compute: both axes logarithmic,
roofs that were measured solid, those of the data sheet dashed, the kernel's own ceilings dotted.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kerncast.errors import Refusal
from kerncast.models import Case
from kerncast.profiles import KernelRoofline, LevelCeiling
from kerncast.report.pictures.colours import INK, PAPER, limit_colour, series_colours
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.report.tables import csv_text
from kerncast.units import format_count

if TYPE_CHECKING:  # matplotlib takes time to load, and only pictures need it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def rooflines_of_cases(cases: Sequence[Case]) -> tuple[KernelRoofline, ...]:
    """Return a roofline per kernel and GPU, grouped by GPU; what lacks evidence is left out."""
    from kerncast.models.transfer.ceilings import kernel_rooflines  # noqa: PLC0415  other reports do without

    by_gpu: dict[tuple[bool, str], dict[tuple[str, float], KernelRoofline]] = {}
    for case in cases:
        try:
            pair = kernel_rooflines(case)
        except Refusal:
            continue
        for roofline in pair:
            group = by_gpu.setdefault((roofline.is_projected, roofline.gpu), {})
            group.setdefault((f"{case.profile.index} {roofline.kernel}", roofline.flops), roofline)
    ordered = sorted(by_gpu, key=lambda key: key[0])
    return tuple(roofline for key in ordered for roofline in by_gpu[key].values())


_COLUMNS = (
    "kernel", "gpu", "is_projected", "level", "intensity_flop_per_byte", "low_flops_per_s", "high_flops_per_s",
    "roof_flops_per_s", "max_bytes_per_s", "peak_bytes_per_s", "ceiling_bytes_per_s", "crossing_bytes",
    "max_flops_per_s", "peak_flops_per_s", "mix_flops_per_s", "ceiling_flops_per_s", "precision",
)  # fmt: skip
#: An axis is this much wider than its points, on either side.
_MARGIN = 4.0
#: Least ratio of the highest to the lowest performance of the picture.
_LEAST_SPAN = 2000.0


def roofline_csv(rooflines: Sequence[KernelRoofline]) -> str:
    """Return a row per kernel, GPU and level: all that the picture shows."""
    return csv_text(_COLUMNS, (_row(roofline, level) for roofline in rooflines for level in roofline.levels))


def _row(roofline: KernelRoofline, level: LevelCeiling) -> tuple[object, ...]:
    return (
        roofline.kernel, roofline.gpu, str(roofline.is_projected).lower(), level.level, level.intensity,
        roofline.low_flops_per_s, roofline.high_flops_per_s, roofline.roof(level), level.max_bytes_per_s,
        level.peak_bytes_per_s, level.ceiling_bytes_per_s, level.crossing_bytes, roofline.max_flops_per_s,
        roofline.peak_flops_per_s, roofline.mix_flops_per_s, roofline.ceiling_flops_per_s,
        roofline.precision,
    )  # fmt: skip


def drawable(rooflines: Sequence[KernelRoofline]) -> tuple[KernelRoofline, ...]:
    """Return those that have a place on logarithmic axes: kernels with operations, and levels that bytes cross."""
    return tuple(each for each in rooflines if each.low_flops_per_s > 0 and any(crossed_levels(each)))


def crossed_levels(roofline: KernelRoofline) -> Iterator[LevelCeiling]:
    """Yield the levels that the kernel's bytes cross."""
    return (level for level in roofline.levels if 0 < level.intensity < math.inf)


def extents(rooflines: Sequence[KernelRoofline]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of both axes, the same for all panels: intensity and operations per second."""
    intensities = [level.intensity for each in rooflines for level in crossed_levels(each)]
    ridges = [each.max_flops_per_s / level.max_bytes_per_s for each in rooflines for level in each.levels]
    speeds = [each.low_flops_per_s for each in rooflines]
    tops = [each.peak_flops_per_s or each.max_flops_per_s for each in rooflines]
    across = (min([*intensities, *ridges]) / _MARGIN, max([*intensities, *ridges]) * _MARGIN)
    top = max([*tops, *(each.max_flops_per_s for each in rooflines)]) * 2
    return across, (min(min(speeds) / _MARGIN, top / _LEAST_SPAN), top)


#: More kernels than this have no names beside their markers, and more than this no ceilings of their own.
_MOST_NAMED, _MOST_WITH_CEILINGS = 12, 2
_MOST_PANELS, _MOST_COLUMNS = 12, 3
#: Most kernels of a panel: those that take longest; others would only hide them.
_MOST_KERNELS = 100
_LEVEL_COLOURS = {level: limit_colour(level) for level in ("l1", "l2", "dram")}
_LEVEL_MARKERS = {"l1": "o", "l2": "s", "dram": "D"}
LEVEL_NAMES = {"l1": "L1", "l2": "L2", "dram": "DRAM"}
#: Width and height of a panel, and of its axes.
_PANEL_INCHES, _DRAWN_INCHES = (6.4, 5.6), (5.5, 4.4)
_BAND_OVERHANG = 1.25
#: Of the height of a panel, what the label of a compute roof takes.
_LABEL_SHARE = 0.06
#: Where labels of near roofs stand: at which end, how many points from it, and which corner of the text is there.
_LABEL_PLACES = ((1, (-4, 3), "right", "bottom"), (0, (4, 3), "left", "bottom"), (0, (4, -3), "left", "top"))
_LONGEST_NAME = 40
#: Of the legend: a wide letter, and what a line and the gap beside it take.
_LETTER_INCHES, _HANDLE_INCHES, _MOST_LEGEND_COLUMNS = 0.075, 0.65, 5


def draw_rooflines(rooflines: Sequence[KernelRoofline], run: str = "measured") -> "Figure | None":
    """Return a panel per GPU, in the order given; None where no kernel has a place on the axes.

    ``run`` says how the time on the source was found.
    """
    shown = drawable(rooflines)
    if not shown:
        return None
    with drawing():
        return _draw(shown, run)


def _draw(shown: Sequence[KernelRoofline], run: str) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415

    panels = [(gpu, _longest(list(group))) for (gpu, _), group in groupby(shown, key=_panel)][:_MOST_PANELS]
    columns = min(len(panels), _MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    axes = grid.flatten()[: len(panels)]
    for unused in grid.flatten()[len(panels) :]:
        unused.set_visible(False)
    across, up = extents(shown)
    colours = series_colours([each.kernel for each in shown])
    for panel, (gpu, group) in zip(axes, panels, strict=True):
        panel.set(xscale="log", yscale="log", xlim=across, ylim=up)
        _draw_machine(panel, group, across)
        for each in group:
            if len(group) <= _MOST_WITH_CEILINGS:
                _draw_ceilings(panel, each, colours[each.kernel])
            _draw_kernel(panel, each, colours[each.kernel])
        kind = "projected" if group[0].is_projected else run
        panel.set_title(f"{gpu} ({kind})", fontsize=11)
        panel.set_xlabel("operational intensity (FLOP per byte that crosses the level)")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value, "FLOP/s")))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.grid(which="major", alpha=0.2)
    for panel in grid[:, 0]:
        panel.set_ylabel("performance")
    _draw_legend(figure, shown, colours)
    return figure


def _panel(roofline: KernelRoofline) -> tuple[str, bool]:
    """Return what has a panel of its own: a GPU with what was measured on it, and with what was projected onto it."""
    return roofline.gpu, roofline.is_projected


def _longest(group: list[KernelRoofline]) -> list[KernelRoofline]:
    """Return the kernels of a panel that take longest, in their order."""
    by_time = sorted(range(len(group)), key=lambda place: -group[place].flops / group[place].low_flops_per_s)
    return [group[place] for place in sorted(by_time[:_MOST_KERNELS])]


def _draw_machine(panel: "Axes", group: Sequence[KernelRoofline], across: tuple[float, float]) -> None:
    """Draw the roofs of a GPU: a bandwidth for each level, and a compute roof for each precision of the kernels."""
    top = max(roofline.max_flops_per_s for roofline in group)
    levels = {(level.level, level.max_bytes_per_s): level for roofline in group for level in roofline.levels}
    for level in levels.values():
        colour = _LEVEL_COLOURS[level.level]
        _draw_diagonal(
            panel, level.max_bytes_per_s, top, {"ls": "-" if level.is_measured else "--", "color": colour, "lw": 1.6}
        )
        if level.peak_bytes_per_s and level.is_measured:
            _draw_diagonal(panel, level.peak_bytes_per_s, top, {"ls": "--", "color": colour, "lw": 0.7})
        _write_along(panel, level)
    # Kernels of several precisions have maxima between: those that read the same are one roof.
    roofs = {f"{format_count(each.max_flops_per_s, 'FLOP/s')} {each.precision}".rstrip(): each for each in group}
    columns: list[list[float]] = [[] for _ in _LABEL_PLACES]
    for text, roofline in sorted(roofs.items(), key=lambda item: -item[1].max_flops_per_s):
        height = _draw_compute_roof(panel, roofline)
        column = _free_column(columns, height, panel)
        columns[column].append(height)
        end, points, side, edge = _LABEL_PLACES[column]
        style = {"boxstyle": "square,pad=0.05", "fc": PAPER, "ec": "none", "alpha": 0.7}
        place = (across[end], height)
        panel.annotate(text, place, points, textcoords="offset points", ha=side, va=edge, fontsize=8, bbox=style)


def _free_column(columns: Sequence[Sequence[float]], height: float, panel: "Axes") -> int:
    """Return where a label hides no other: at the right where none is near, else at the left, where no marker is."""
    bottom, top = panel.get_ylim()
    least = _LABEL_SHARE * math.log(top / bottom)
    is_near = [any(math.log(other / height) <= least for other in heights) for heights in columns]
    if not any(is_near):
        return 0
    return next((place for place in range(1, len(columns)) if not is_near[place]), len(columns) - 1)


def _draw_compute_roof(panel: "Axes", roofline: KernelRoofline) -> float:
    """Draw one compute roof; return the height that its label stands on."""
    top, peak = roofline.max_flops_per_s, roofline.peak_flops_per_s
    panel.axhline(top, color=INK, lw=1.6, ls="-" if roofline.is_compute_measured else "--")
    if peak and roofline.is_compute_measured:
        panel.axhline(peak, color=INK, lw=0.7, ls="--")
    return max(top, peak or top)


def _draw_diagonal(panel: "Axes", bytes_per_s: float, top: float, style: "dict[str, Any]") -> None:
    """Draw a bandwidth up to where it meets the compute roof."""
    left = panel.get_xlim()[0]
    panel.plot([left, top / bytes_per_s], [left * bytes_per_s, top], **style)


def _draw_ceilings(panel: "Axes", roofline: KernelRoofline, colour: str) -> None:
    """Draw the ceilings of one kernel below the roofs."""
    panel.axhline(roofline.ceiling_flops_per_s, color=colour, lw=1.1, ls=":")
    for level in crossed_levels(roofline):
        style = {"ls": ":", "color": _LEVEL_COLOURS[level.level], "lw": 1.3}
        _draw_diagonal(panel, level.ceiling_bytes_per_s, roofline.ceiling_flops_per_s, style)


def _draw_kernel(panel: "Axes", roofline: KernelRoofline, colour: str) -> None:
    """Draw a marker per level, linked, and the band of what is projected."""
    levels = sorted(crossed_levels(roofline), key=lambda level: level.intensity)
    across = [level.intensity for level in levels]
    middle = (roofline.low_flops_per_s + roofline.high_flops_per_s) / 2
    panel.plot(across, [middle] * len(across), "-", color=colour, lw=1.0, alpha=0.7)
    if roofline.is_projected:
        ends = [across[0] / _BAND_OVERHANG, across[-1] * _BAND_OVERHANG]
        panel.fill_between(
            ends, roofline.low_flops_per_s, roofline.high_flops_per_s, color=colour, alpha=0.25, linewidth=0
        )
    fill = PAPER if roofline.is_projected else colour
    for level in levels:
        marker = _LEVEL_MARKERS[level.level]
        panel.plot([level.intensity], [middle], marker, color=colour, markersize=5.5, markerfacecolor=fill)


def _write_along(panel: "Axes", level: LevelCeiling) -> None:
    """Write a bandwidth along its diagonal, at the left or lower edge of the picture.

    That of DRAM, the lowest, stands below its diagonal: above it are ceilings.
    """
    (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
    across = max(left, bottom / level.max_bytes_per_s) * 1.3
    slope = (_DRAWN_INCHES[1] / math.log10(top / bottom)) / (_DRAWN_INCHES[0] / math.log10(right / left))
    panel.annotate(
        f"{LEVEL_NAMES[level.level]} {format_count(level.max_bytes_per_s, 'B/s')}",
        (across, across * level.max_bytes_per_s),
        xytext=(7, -2) if level.level == "dram" else (-2, 6),
        textcoords="offset points",
        va="top" if level.level == "dram" else "baseline",
        rotation=math.degrees(math.atan(slope)),
        rotation_mode="anchor",
        color=_LEVEL_COLOURS[level.level],
        fontsize=8,
    )


def _draw_legend(figure: "Figure", shown: Sequence[KernelRoofline], colours: dict[str, str]) -> None:
    """Tell kernels by colour, levels by marker, and what is measured by line."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    names = list(colours)[:_MOST_NAMED]
    kernels = [Line2D([], [], color=colours[name], lw=3, label=shown_name(name, _LONGEST_NAME)) for name in names]
    if len(colours) > _MOST_NAMED:
        kernels.append(Line2D([], [], lw=0, label=f"and {len(colours) - _MOST_NAMED} more"))
    levels = [
        Line2D([], [], color=INK, lw=0, marker=marker, label=f"at {LEVEL_NAMES[level]}")
        for level, marker in _LEVEL_MARKERS.items()
    ]
    lines = [
        Line2D([], [], color=INK, lw=1.6, label="roof, measured"),
        Line2D([], [], color=INK, lw=1.0, ls="--", label="roof, data sheet or estimated"),
    ]
    if len(colours) <= _MOST_WITH_CEILINGS:
        lines.append(Line2D([], [], color=INK, lw=1.2, ls=":", label="ceiling of the kernel"))
    if any(each.is_projected for each in shown):
        lines.append(Line2D([], [], color=INK, lw=6, alpha=0.25, label="projected range"))
    handles = [*kernels, *levels, *lines]
    longest = max(len(str(handle.get_label())) for handle in handles)
    fitting = int(figure.get_figwidth() / (_LETTER_INCHES * longest + _HANDLE_INCHES))
    columns = max(1, min(_MOST_LEGEND_COLUMNS, fitting))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
