"""The picture of a comparison: time against cost or energy, and the GPUs that no other one undercuts in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from kerncast.report.pictures.colours import BETTER, FAINT, INK, WORSE
from kerncast.report.pictures.picture_files import drawing
from kerncast.studies.comparing.ranking import Ranked, Ranking
from kerncast.units import MEGA, format_joules, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRONT, _OTHER, _LINE = WORSE, BETTER, FAINT
#: Where a label may stand beside its point, in points, the first that is free wins.
_PLACES = (
    (7, 5), (7, -11), (-7, 5), (-7, -11), (0, 10), (0, -16), (9, 14), (9, -20), (-9, 14), (-9, -20), (26, 0), (-26, 0),
    (18, 26), (18, -32), (-18, 26), (-18, -32), (34, 16), (34, -22), (-34, 16), (-34, -22),
)  # fmt: skip
_FAR = 12
_FONT = 7.5
#: Pixels around a label that stay free.
_MARGIN = 1.5
#: Parts of a piece of the front that labels keep off.
_STEPS = 16


@dataclass(frozen=True, slots=True)
class Point:
    """One GPU in the picture."""

    name: str
    seconds: tuple[float, float, float]
    """forecast, low and high"""
    value: tuple[float, float, float]
    """US dollars per million runs, or joules: estimate, low and high"""
    is_on_front: bool


def points_of(ranking: Ranking, *, has_prices: bool) -> list[Point]:
    """Return the GPUs that have both numbers."""
    found = []
    for row in ranking.rows:
        value = _cost(row) if has_prices else _energy(row)
        if value is not None:
            total = row.contender.total
            times = (total.seconds, total.low, total.high)
            found.append(Point(row.contender.gpu.name, times, value, row.is_on_front))
    return found


def _cost(row: Ranked) -> tuple[float, float, float] | None:
    if row.usd_per_run is None:
        return None
    total, own = row.contender.total, row.usd_per_run * MEGA
    return own, own * total.low / total.seconds, own * total.high / total.seconds


def _energy(row: Ranked) -> tuple[float, float, float] | None:
    energy = row.contender.energy
    return None if energy is None else (energy.joules, energy.low, energy.high)


def draw_pareto(ranking: Ranking, *, has_prices: bool) -> "Figure | None":
    """Return the picture; None where no GPU has both numbers."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    points = points_of(ranking, has_prices=has_prices)
    if not points:
        return None
    with drawing():
        figure = Figure(figsize=(9, 6.2), layout="constrained")
        panel = figure.subplots()
        _draw_points(panel, points)
        _set_axes(panel, has_prices=has_prices)
        _add_legend(figure)
        title = panel.set_title(" ", fontsize=8, loc="right")
        unnamed = _label(figure, panel, points)
        title.set_text(f"{unnamed} names would hide others and are left out" if unnamed else "")
    return figure


def _draw_points(panel: "Axes", points: Sequence[Point]) -> None:
    for point in points:
        colour, marker = (_FRONT, "s") if point.is_on_front else (_OTHER, "o")
        (x, x_low, x_high), (y, y_low, y_high) = point.seconds, point.value
        style: dict[str, Any] = {"color": colour, "linewidth": 0.6, "alpha": 0.35, "zorder": 1}
        panel.plot([x_low, x_high], [y, y], **style)
        panel.plot([x, x], [y_low, y_high], **style)
        panel.plot([x], [y], marker, color=colour, markersize=5.5 if point.is_on_front else 4, zorder=3)
    front = sorted(point.seconds[:1] + point.value[:1] for point in points if point.is_on_front)
    panel.plot([x for x, _ in front], [y for _, y in front], color=_FRONT, linewidth=1.4, zorder=2)


def _set_axes(panel: "Axes", *, has_prices: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    panel.set_xscale("log")
    panel.set_yscale("log")
    value = (lambda y, _: f"${y:.3g}") if has_prices else (lambda y, _: format_joules(y))
    for axis, words in ((panel.xaxis, lambda x, _: format_seconds(x, 3)), (panel.yaxis, value)):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(words))
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(labelsize=8)
    panel.set_xlabel("time of all launches", fontsize=9)
    panel.set_ylabel("cost of a million runs" if has_prices else "energy of all launches (estimate)", fontsize=9)
    panel.grid(alpha=0.2)


def _label(figure: "Figure", panel: "Axes", points: Sequence[Point]) -> int:
    """Write each name where it hides no other name and no point, those on the front first; return how many have none.

    Positions in pixels are those of the final layout, which does not depend on the labels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.transforms import Bbox  # noqa: PLC0415

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    inside = panel.get_window_extent(renderer)
    marks = [panel.transData.transform((point.seconds[0], point.value[0])) for point in points]
    taken, line = (
        [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in places] for places in (marks, _along_front(panel, points))
    )

    def is_free(box: Any, *, by_line: bool) -> bool:
        is_inside = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
        return is_inside and not any(box.overlaps(other) for other in ([*taken, *line] if by_line else taken))

    unnamed = 0
    for point in sorted(points, key=lambda each: not each.is_on_front):
        # A name of the front may cross its line, where there is no other place.
        for by_line, (dx, dy) in product((True, False) if point.is_on_front else (True,), _PLACES):
            text = _write(panel, point, dx, dy)
            box = text.get_window_extent(renderer).padded(_MARGIN)
            if is_free(box, by_line=by_line):
                taken.append(box)
                break
            text.remove()
        else:
            unnamed += 1
    for text in panel.texts:
        text.set_in_layout(False)
    return unnamed


def _along_front(panel: "Axes", points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return places along the line of the front, in pixels, that labels keep off."""
    front = sorted(point.seconds[:1] + point.value[:1] for point in points if point.is_on_front)
    pixels: list[Any] = [panel.transData.transform(each) for each in front]
    places = (begin + step / _STEPS * (end - begin) for begin, end in pairwise(pixels) for step in range(1, _STEPS))
    return [(float(x), float(y)) for x, y in places]


def _write(panel: "Axes", point: Point, dx: int, dy: int) -> Any:
    side = "left" if dx > 0 else "right" if dx < 0 else "center"
    arrow = {"arrowstyle": "-", "linewidth": 0.4, "color": _LINE} if max(abs(dx), abs(dy)) > _FAR else None
    return panel.annotate(
        point.name, (point.seconds[0], point.value[0]), xytext=(dx, dy), textcoords="offset points", ha=side,
        va="bottom" if dy >= 0 else "baseline", fontsize=_FONT, arrowprops=arrow, zorder=4,
        color=_FRONT if point.is_on_front else INK,
    )  # fmt: skip


def _add_legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles: list[Any] = [
        Line2D([], [], color=_FRONT, marker="s", markersize=5.5, label="no other GPU needs less of both"),
        Line2D([], [], color=_OTHER, marker="o", markersize=4, linestyle="", label="undercut by another GPU"),
        Line2D([], [], color=_OTHER, linewidth=0.6, alpha=0.5, label="90 % interval"),
    ]
    figure.legend(handles=handles, fontsize=8, frameon=False, loc="outside lower center", ncols=len(handles))
