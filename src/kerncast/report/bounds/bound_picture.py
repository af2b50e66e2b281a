"""Bound, expected and measured times over the number of TPCs."""

from typing import TYPE_CHECKING, Any

from kerncast.report.bounds.bounds_table import judged
from kerncast.report.pictures.colours import BETTER, FAINT, MEASURED, WORSE
from kerncast.report.pictures.picture_files import drawing
from kerncast.studies.bounding import KernelBounds
from kerncast.studies.worst_case import worst_case_of
from kerncast.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BOUND, _EXPECTED, _USED, _OTHER = WORSE, BETTER, MEASURED, FAINT
#: Times further apart get a logarithmic axis.
_MOST_TO_SCALE = 10.0
_HEADROOM = 1.08


def draw_bounds(bounds: KernelBounds) -> "Figure":
    """Return the curves of one kernel; counts that the bounds were calibrated on are filled squares."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    with drawing():
        if not bounds.plan:
            figure = Figure(figsize=(7.5, 4.2), layout="constrained")
            draw_bounds_on(figure.subplots(), bounds)
            return figure
        figure = Figure(figsize=(10.5, 4.2), layout="constrained")
        curves, steps = figure.subplots(1, 2, width_ratios=(2, 1))
        draw_bounds_on(curves, bounds)
        _draw_plan(steps, bounds)
    return figure


def _draw_plan(panel: Any, bounds: KernelBounds) -> None:
    """Draw what each further measurement would give, named by its count."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter  # noqa: PLC0415

    above = [step.mean_above for step in bounds.plan]
    panel.plot(range(len(above)), above, "-", marker="o", ms=4, color=_BOUND)
    for place, step in enumerate(bounds.plan):
        if step.tpcs is not None:
            panel.annotate(
                f"{step.tpcs} TPCs", (place, above[place]), textcoords="offset points", xytext=(4, 5), fontsize=8
            )
    panel.set_ylim(0, max(above) * _HEADROOM or None)
    panel.set_xlim(-0.2, len(above) - 0.2)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panel.set_xlabel("further counts measured")
    panel.set_title("bound above the expected time, mean", fontsize=10, loc="left")
    panel.grid(alpha=0.25)


def draw_bounds_on(panel: Any, bounds: KernelBounds) -> None:
    """Draw the curves into a panel."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: PLC0415

    answer, counts = bounds.answer, bounds.tpcs
    panel.fill_between(counts, answer.expected, answer.bound, color=_BOUND, alpha=0.12, linewidth=0)
    panel.plot(counts, answer.bound, "-", marker=".", color=_BOUND, label="bound")
    panel.plot(counts, answer.expected, "--", color=_EXPECTED, label="expected")
    _draw_measured(panel, bounds)
    above_zero = [each for each in answer.bound if each > 0]
    if above_zero and max(above_zero) > _MOST_TO_SCALE * min(above_zero):
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_formatter(NullFormatter())
    else:
        top = max(panel.dataLim.y1, *answer.bound)
        panel.set_ylim(0, top * _HEADROOM if top > 0 else None)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value, 3)))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("TPCs")
    panel.set_ylabel("time per launch")
    panel.grid(alpha=0.25)
    panel.set_title(_heading(bounds), fontsize=10, loc="left")
    panel.legend(fontsize=8, frameon=False)


def _draw_measured(panel: Any, bounds: KernelBounds) -> None:
    """Draw every run: those of counts that were calibrated on as squares, the others as rings."""
    times, known = bounds.times, bounds.answer.calibrated_on
    if times is None:
        return
    runs = [pair for pair in zip(times.tpcs, times.seconds, strict=True) if pair[0] in bounds.tpcs]
    for marker, label, chosen in (
        ("s", "measured, used", [run for run in runs if run[0] in known]),
        ("o", "measured, not used", [run for run in runs if run[0] not in known]),
    ):
        if chosen:
            style = {"color": _USED} if marker == "s" else {"color": _OTHER, "mfc": "none", "mew": 0.7}
            panel.plot(*zip(*chosen, strict=True), marker, ms=4, label=label, **style)


def _heading(bounds: KernelBounds) -> str:
    pairs = judged(bounds)
    text = f"{bounds.gpu.name}, {bounds.method}"
    return f"{text}: {worst_case_of(pairs).misses} of {len(pairs)} times above the bound" if pairs else text
