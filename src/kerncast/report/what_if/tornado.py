"""The tornado of a sensitivity study: how half and twice of each parameter change the time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerncast.report.pictures.colours import BETTER, INK, WORSE
from kerncast.report.pictures.picture_files import drawing, shown_name
from kerncast.report.what_if.sensitivity import PARAMETERS, signed
from kerncast.studies.sensitivity.elasticities import Elasticity, Sensitivity
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LESS, _MORE = WORSE, BETTER
_MOST_BARS, _MOST_PANELS = 12, 8
_LEAST_CHANGE = 2.0
_LONGEST_NAME = 60


def draw_tornado(found: Sequence[Sensitivity]) -> "Figure":
    """Return a panel per launch: a bar per parameter from the time at half to that at double, widest on top."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    shown = list(found)[-_MOST_PANELS:]
    bars = [_widest(each) for each in shown]
    heights = [1.1 + 0.3 * max(1, len(each)) for each in bars]
    with drawing():
        figure = Figure(figsize=(9, 0.5 + sum(heights)), layout="constrained")
        panels = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        for panel, each, rows in zip(panels, shown, bars, strict=True):
            _draw(panel, each, rows)
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _widest(found: Sensitivity) -> list[Elasticity]:
    """Return the parameters to draw, the widest bar last, which is on top."""
    widths = {each.parameter.name: max(abs(end) for end in _ends(each, found)) for each in found.elasticities}
    wide = [each for each in found.elasticities if widths[each.parameter.name] >= _LEAST_CHANGE]
    return sorted(wide, key=lambda each: widths[each.parameter.name])[-_MOST_BARS:]


def _ends(each: Elasticity, found: Sensitivity) -> tuple[float, float]:
    """Return the changes of time with half and with twice the parameter, in percent."""
    half, double = (100 * (each.seconds_at(factor) / found.seconds - 1) for factor in (0.5, 2.0))
    return half, double


def _draw(panel: "Axes", found: Sensitivity, rows: Sequence[Elasticity]) -> None:
    number = f" (launch {found.launches[0]})" if len(found.launches) == 1 else ""
    name = f"{shown_name(found.name, _LONGEST_NAME)}{number}"
    heading = f"{name} on {found.gpu.name}: {format_seconds(found.seconds)}, elasticity beside each bar"
    panel.set_title(heading, fontsize=9, loc="left")
    ends = [_ends(each, found) for each in rows]
    places = range(len(rows))
    panel.barh(places, [half for half, _ in ends], color=_LESS, height=0.62, label="half of it")
    panel.barh(places, [double for _, double in ends], color=_MORE, height=0.62, label="twice as much")
    panel.set_yticks(list(places), [PARAMETERS[each.parameter.name] for each in rows], fontsize=8)
    panel.axvline(0, color=INK, linewidth=0.8)
    panel.set_xlabel("change of the time in percent", fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    panel.grid(axis="x", alpha=0.25)
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.margins(x=0.14)
    for place, each, both in zip(places, rows, ends, strict=True):
        panel.annotate(
            signed(each.elasticity), (max(0.0, *both), place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=7.5, color=INK,
        )  # fmt: skip
    if not rows:
        panel.text(
            0.5, 0.5, "no parameter changes the time by 2 percent or more", transform=panel.transAxes, ha="center"
        )
