"""The pictures of the zero-shot study: forecast against measured time, and the error on each GPU."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kerncast.report.pictures.colours import SERIES
from kerncast.report.pictures.picture_files import drawing
from kerncast.report.training.pictures import FitPanel, draw_fit
from kerncast.report.zero_shot.scored_tables import percent
from kerncast.studies.zero_shot.outcomes import Outcome, score_of
from kerncast.studies.zero_shot.study import POSTERIOR, RESIDUAL, SIMULATION, ZeroShotStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (SERIES[11], SERIES[0], SERIES[2])
_INCHES_OF_A_GPU, _INCHES = 0.33, (7.8, 4.6)


def draw_forecasts(study: ZeroShotStudy) -> "Figure":
    """Return forecast against measured time, by the simulation and by the residual with one kernel left out.

    Of sets that are scored only, no point is drawn.
    """
    protocol = study.protocol("kernel")
    titles = {SIMULATION: "simulation", RESIDUAL: "residual, kernel left out"}
    figure = draw_fit([_panel(study, protocol.of(method), title) for method, title in titles.items()])
    figure.set_size_inches(*_INCHES)  # room for the titles
    return figure


def _panel(study: ZeroShotStudy, outcome: Outcome, title: str) -> FitPanel:
    every = study.cases.every
    chosen = [each for each in outcome.forecasts if every[each.row].is_trained]
    measured = np.array([every[each.row].case.seconds for each in chosen])
    forecast = measured * np.exp([each.log_ratio for each in chosen])
    score = score_of(chosen)
    return FitPanel(
        f"{title}: MAPE {percent(score.mape)}, n = {score.n}", measured, forecast,
        tuple(every[each.row].kind for each in chosen),
    )  # fmt: skip


def draw_errors(study: ZeroShotStudy) -> "Figure":
    """Return the mean error on each GPU: simulation and residual with it left out, and with one time elsewhere."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    names = _names(study)
    panels: list[tuple[str, str, tuple[str, ...]]] = [("without a time", "gpu", (SIMULATION, RESIDUAL))]
    if any(each.name == "one time" for each in study.protocols):
        panels.append(("one time on another GPU", "one time", (SIMULATION, POSTERIOR, RESIDUAL)))
    with drawing():
        size = (4.2 * len(panels) + 1.2, 1.3 + _INCHES_OF_A_GPU * len(names))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (title, protocol, methods) in zip(axes, panels, strict=True):
            places = np.arange(len(names))
            for number, method in enumerate(methods):
                colour = _COLOURS[(SIMULATION, RESIDUAL, POSTERIOR).index(method)]
                height = 0.8 / len(methods)
                errors = _errors(study, study.protocol(protocol).of(method), names)
                axis.barh(
                    places + (number - (len(methods) - 1) / 2) * height, errors, height, color=colour, label=method
                )
            axis.set_title(title, fontsize=10, loc="left")
            axis.set_xlabel("mean error, %")
            axis.grid(axis="x", alpha=0.25)
            axis.set_axisbelow(True)
        axes[0].set_yticks(np.arange(len(names)), names, fontsize=8)
        axes[0].set_ylim(len(names) - 0.4, -0.6)
        handles, labels = axes[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _names(study: ZeroShotStudy) -> list[str]:
    names = [each.gpu.name for each in study.cases.every]
    return sorted(set(names), key=lambda name: (-names.count(name), name))


def _errors(study: ZeroShotStudy, outcome: Outcome, names: Sequence[str]) -> list[float]:
    every = study.cases.every
    found: list[float] = []
    for name in names:
        errors = [each.error for each in outcome.forecasts if every[each.row].gpu.name == name]
        found.append(100 * float(np.mean(errors)) if errors else 0.0)
    return found
