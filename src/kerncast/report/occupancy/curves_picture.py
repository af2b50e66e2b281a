"""The picture of what-if curves: resident warps against block size, registers and shared memory, as in calculators."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kerncast.occupancy import Limiter, occupancy, sm_limits
from kerncast.occupancy.advice import Curve, OccupancyCase, Parameter
from kerncast.report.occupancy.tables import LIMITER_WORDS, PARAMETER_WORDS, describe_occupancy, describe_shared, label
from kerncast.report.pictures.colours import FAINT, INK, OCCUPANCY, PAPER
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.units import KIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Rows of panels that a picture can show.
MOST_ROWS = 16
_MOST_NAMES = 4
_LONGEST_NAME = 60
_COLOURS = {limiter: OCCUPANCY[limiter.value] for limiter in Limiter}
#: Distances of the labels of an axis, which are multiples of what the numbers are rounded up to.
_TICKS = {Parameter.THREADS: 128, Parameter.REGISTERS: 32}
_SHORT_AXIS, _SHORT_TICKS = 128, 8
#: Room on the right of the last value.
_MARGIN = 1.01
_OWN_MARK: dict[str, Any] = {
    "marker": "o", "markersize": 7, "markerfacecolor": PAPER, "markeredgewidth": 1.8, "color": INK,
}  # fmt: skip


def picture_rows(cases: Sequence[OccupancyCase]) -> list[list[OccupancyCase]]:
    """Return the rows of the picture: GPUs whose SMs have the same limits share one where they hold the same block."""
    rows: dict[object, list[OccupancyCase]] = {}
    for case in cases:
        key = (case.kernel, case.launch, case.request, case.preferred_bytes, sm_limits(case.architecture))
        rows.setdefault(key, []).append(case)
    return list(rows.values())


def draw_occupancy(cases: Sequence[OccupancyCase]) -> "Figure":
    """Return three panels per kernel and architecture, of at most ``MOST_ROWS``; colours say what limits."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    rows = picture_rows(cases)[:MOST_ROWS]
    with drawing():
        figure = Figure(figsize=(12, 0.9 + 2.7 * len(rows)), layout="constrained")
        parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
        seen: set[Limiter] = set()
        for part, row in zip(parts, rows, strict=True):
            part.suptitle(_heading(row), fontsize=10, x=0.01, ha="left")
            panels = part.subplots(1, 3, sharey=True)
            for panel, curve in zip(panels, row[0].curves, strict=True):
                _draw_curve(panel, row[0], curve)
                seen |= {step.found.limiter for step in curve.steps}
            most = row[0].architecture.max_warps_per_sm
            panels[0].set_ylabel(f"warps per SM, of {most}", fontsize=8)
        _add_legend(figure, seen)
    return figure


def _draw_curve(panel: "Axes", case: OccupancyCase, curve: Curve) -> None:
    most = case.architecture.max_warps_per_sm
    unit = KIB if curve.parameter is Parameter.SHARED else 1
    before: float | None = None
    for step in curve.steps:
        left, right, height = max(0, step.first - 1) / unit, step.last / unit, step.found.warps_per_sm
        if before is not None:
            panel.plot([left, left], [before, height], color=FAINT, linewidth=0.8, zorder=1)
        panel.plot(
            [left, right], [height, height], color=_COLOURS[step.found.limiter], linewidth=2.6, solid_capstyle="butt"
        )
        before = height
    panel.axhline(most, color=FAINT, linewidth=0.8, linestyle=":", zorder=0)
    _mark_own(panel, case, curve, unit)
    panel.set_xlim(0, curve.steps[-1].last / unit * _MARGIN)
    panel.set_ylim(-0.02 * most, 1.14 * most)
    panel.set_yticks(range(0, most + 1, most // 4))
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.2)
    in_kib = " in KiB" if curve.parameter is Parameter.SHARED else ""
    panel.set_xlabel(PARAMETER_WORDS[curve.parameter] + in_kib, fontsize=8)
    last = curve.steps[-1].last
    if curve.parameter is not Parameter.SHARED:
        panel.set_xticks(range(0, last + 1, _TICKS[curve.parameter] if last > _SHORT_AXIS else _SHORT_TICKS))


def _mark_own(panel: "Axes", case: OccupancyCase, curve: Curve, unit: int) -> None:
    found = occupancy(case.request, case.architecture, case.preferred_bytes)
    last = curve.steps[-1].last
    if curve.own <= last:
        panel.plot([curve.own / unit], [found.warps_per_sm], zorder=5, clip_on=False, **_OWN_MARK)
        return
    edge = last / unit * _MARGIN
    panel.plot([edge], [0], zorder=5, clip_on=False, **{**_OWN_MARK, "marker": ">"})
    number = f"{curve.own / unit:.4g}" if unit == KIB else str(curve.own)
    panel.annotate(
        f"{number}: over {last // unit}", (edge, 0), xytext=(-8, 6), textcoords="offset points", ha="right", fontsize=8
    )


def _add_legend(figure: "Figure", seen: set[Limiter]) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles: list[Any] = [
        Line2D([], [], color=colour, linewidth=2.6, label=_limited(limiter))
        for limiter, colour in _COLOURS.items()
        if limiter in seen
    ]
    own = Line2D([], [], linestyle="", label="this block", **_OWN_MARK)
    figure.legend(
        handles=[own, *handles], loc="outside lower center", ncols=len(handles) + 1, fontsize=8, frameon=False
    )


def _limited(limiter: Limiter) -> str:
    return "not one block fits" if limiter is Limiter.NONE_FITS else f"limited by {LIMITER_WORDS[limiter]}"


def _heading(row: Sequence[OccupancyCase]) -> str:
    case = row[0]
    names = ", ".join(each.name for each in row[:_MOST_NAMES])
    if len(row) > _MOST_NAMES:
        names += f" and {len(row) - _MOST_NAMES} more"
    r, found = case.request, case.found
    kernel = f"{shown_name(label(case), _LONGEST_NAME)}: " if case.kernel else ""
    wish = "" if case.preferred_bytes is None else f", carve-out {describe_shared(case.preferred_bytes)}"
    return (
        f"{names} – {kernel}{r.threads} threads, {r.registers_per_thread} registers, {r.shared_bytes} B shared{wish}:"
        f" {found.blocks_per_sm} x {r.warps} warps, {describe_occupancy(found.fraction)}"
    )
