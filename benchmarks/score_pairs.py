"""Score which of two GPUs is faster: how often the forecasts have it right, and whether stated probabilities hold.

    python benchmarks/score_timing.py --json scores.json
    python benchmarks/score_pairs.py scores.json ... [--picture docs/pictures/compare-reliability.svg]

A pair is one launch on two GPUs of one set. Its order counts where the measured times are over 10 % apart; the
probability that ``kerncast compare`` states counts for every pair. What errors share is estimated from the other sets
(of the three sets of convolutions, from none of them), as benchmarks/score_evidence.py does it.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from score_evidence import MODEL, Timed, Without, read_timed
from timing_runs import load_known
from timing_scores import CLOSE_RATIO, LEAST_RATIO, Row, pairs

from kerncast.models.transfer.posterior import Effects
from kerncast.report.pictures.colours import FAINT, SERIES
from kerncast.report.pictures.picture_files import drawing, save_picture
from kerncast.studies.comparing.comparison import Comparison
from kerncast.studies.comparing.comparison import Timed as OneTimed
from kerncast.units import MEGA

#: A set without a licence: scored by make eval, shown nowhere.
NOT_SHOWN = {"sixteen"}
_MODELS = (MODEL, "roofline", "template")
_BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_INDEPENDENT = Effects(0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0, 1)


@dataclass(frozen=True, slots=True)
class Stated:
    """The probability that the GPU which is forecast to be faster is faster, and whether it was."""

    set: str
    family: str
    probability: float
    alone: float
    """the same as if errors were independent"""
    is_right: bool


def main() -> None:
    """Read, print the tables, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scores", nargs="+", type=Path, help="what score_timing.py --json wrote")
    parser.add_argument("--picture", type=Path, help="write the reliability picture")
    asked = parser.parse_args()
    records = [row for file in asked.scores for row in json.loads(file.read_text(encoding="utf-8"))]
    records = [row for row in records if row["set"] not in NOT_SHOWN]
    launches = Launches([row for row in records if row["forecasts"].get(MODEL)])
    stated = launches.stated()
    print("## Which GPU is faster\n" + order_table(records))
    print("\n## Stated probabilities\n" + reliability_table(stated))
    print("\n## By set\n" + score_table(stated))
    print("\n## The fastest of all, where at least three GPUs ran a launch\n" + best_table(launches))
    if asked.picture:
        draw(stated, asked.picture)


def order_table(records: Sequence[dict[str, Any]]) -> str:
    """Return how often the faster GPU was named, by set, with rules of thumb beside the models."""
    clock = {(row["set"], row["gpu"]): row["clock_mhz"] * MEGA for row in records}
    gpus = {name: load_known(name) for name in {row["gpu"] for row in records}}
    rules: dict[str, Callable[[Row], float]] = {
        "SMs x clock": lambda row: 1 / (gpus[row.gpu].sm_count * clock[row.set, row.gpu]),
        "DRAM bandwidth": lambda row: 1 / gpus[row.gpu].dram_bytes_per_s,
    }
    by_model = {model: list(_rows(records, model)) for model in _MODELS}
    contenders = [(name, rows, lambda row: row.forecast) for name, rows in by_model.items()]
    contenders += [(name, by_model[MODEL], rule) for name, rule in rules.items()]
    lines = ["| set | by | pairs over 10 % apart | right | 1.1x to 2x apart | right |", "|---" * 6 + "|"]
    for of in [*dict.fromkeys(row["set"] for row in records), "all"]:
        for name, rows, time in contenders:
            chosen = [row for row in rows if of in {row.set, "all"}]
            every, close = (pairs(chosen, time, LEAST_RATIO, most) for most in (math.inf, CLOSE_RATIO))
            if every.n:
                lines.append(f"| {of} | {name} | {every.n} | {every.right:.1%} | {close.n} | {close.right:.1%} |")
    return "\n".join(lines)


def _rows(records: Iterable[dict[str, Any]], model: str) -> Iterable[Row]:
    for row in records:
        found = row["forecasts"].get(model)
        if found:
            times = (row["measured_seconds"], found["seconds"], found["low"], found["high"])
            yield Row(row["set"], row["kernel"], row["size"], row["gpu"], *times)


class Launches:
    """The forecasts of each launch on several GPUs, with what errors share by the other sets."""

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        timed = list(read_timed(records))
        self._effects = Without(timed)
        groups: dict[str, list[tuple[dict[str, Any], Timed]]] = defaultdict(list)
        for row, each in zip(records, timed, strict=True):
            groups[each.residual.subject.launch].append((row, each))
        self.groups = list(groups.values())
        self._families = {of: {each.family for each in timed if each.set == of} for of in {each.set for each in timed}}

    def effects(self, of: str) -> Effects:
        """Return the effects without the kernels of a set."""
        return self._effects(self._families[of])

    def stated(self) -> list[Stated]:
        """Return the stated probability of each pair."""
        return [
            _stated(one, other, self.effects(one[1].set))
            for launch in self.groups
            for one, other in combinations(launch, 2)
            if one[0]["gpu"] != other[0]["gpu"] and one[1].seconds != other[1].seconds
        ]

    def best(self) -> list[tuple[str, float, bool]]:
        """Return for each launch on three GPUs or more: its set, how surely the fastest was named, and if it was."""
        found = []
        for launch in self.groups:
            if len({row["gpu"] for row, _ in launch}) > 2:
                effects = self.effects(launch[0][1].set)
                chances = Comparison([[_one_timed(*each)] for each in launch], effects).best()
                named = max(range(len(launch)), key=lambda place: chances[place])
                is_right = launch[named][1].seconds == min(each.seconds for _, each in launch)
                found.append((launch[0][1].set, chances[named], is_right))
        return found


def _stated(one: tuple[dict[str, Any], Timed], other: tuple[dict[str, Any], Timed], effects: Effects) -> Stated:
    contenders = [[_one_timed(*one)], [_one_timed(*other)]]
    first = Comparison(contenders, effects).beats(0, 1)
    alone = Comparison(contenders, _INDEPENDENT).beats(0, 1)
    is_first = one[1].seconds < other[1].seconds
    is_named = first >= 0.5
    probability, independent = (first, alone) if is_named else (1 - first, 1 - alone)
    return Stated(one[1].set, one[1].family, probability, independent, is_first == is_named)


def _one_timed(row: dict[str, Any], timed: Timed) -> OneTimed:
    """Return a forecast with its error, as kerncast compare splits it."""
    found = row["forecasts"][MODEL]
    below, above = math.log(found["seconds"] / found["low"]), math.log(found["high"] / found["seconds"])
    model = min(below, above, timed.log_factor)
    own = [math.sqrt(max(0.0, side**2 - model**2)) for side in (below, above)]
    return OneTimed(timed.residual.subject, found["seconds"], model, own[0], own[1])


def reliability_table(stated: Sequence[Stated]) -> str:
    """Return how often a stated probability came true; by kernel: each kernel has the same weight."""
    lines = ["| stated | pairs | mean stated | came true | kernels | the same by kernel |", "|---" * 6 + "|"]
    for least, most in pairwise(_BINS):
        chosen = _between(stated, least, most)
        if chosen:
            said, right = np.mean([each.probability for each in chosen]), np.mean([each.is_right for each in chosen])
            kernels, by_kernel = _by_kernel(chosen)
            shares = f"{said:.1%} | {right:.1%} | {kernels} | {by_kernel:.1%}"
            lines.append(f"| {least:.0%} to {most:.0%} | {len(chosen)} | {shares} |")
    return "\n".join(lines)


def _between(stated: Sequence[Stated], least: float, most: float) -> list[Stated]:
    return [each for each in stated if least <= each.probability and (each.probability < most or most == 1.0)]


def _by_kernel(chosen: Sequence[Stated]) -> tuple[int, float]:
    kernels = defaultdict(list)
    for each in chosen:
        kernels[each.family].append(each.is_right)
    return len(kernels), float(np.mean([np.mean(found) for found in kernels.values()]))


def score_table(stated: Sequence[Stated]) -> str:
    """Return the mean stated probability, how many came true, and Brier scores beside those of two other rules."""
    lines = ["| set | pairs | mean stated | came true | Brier | errors independent | always sure |", "|---" * 7 + "|"]
    for of in [*dict.fromkeys(each.set for each in stated), "all"]:
        chosen = [each for each in stated if of in {each.set, "all"}]
        right = np.array([each.is_right for each in chosen], np.float64)
        said, alone = (np.array([getattr(each, name) for each in chosen]) for name in ("probability", "alone"))
        brier, independent = (float(np.mean((values - right) ** 2)) for values in (said, alone))
        sure = float(np.mean((1 - right) ** 2))
        shares = f"{said.mean():.1%} | {right.mean():.1%} | {brier:.4f} | {independent:.4f} | {sure:.4f}"
        lines.append(f"| {of} | {len(chosen)} | {shares} |")
    return "\n".join(lines)


def best_table(launches: Launches) -> str:
    """Return how surely the fastest GPU of each launch was named, and how often it was the fastest."""
    lines = ["| set | launches | mean stated | came true |", "|---" * 4 + "|"]
    found = launches.best()
    for of in [*dict.fromkeys(name for name, _, _ in found), "all"]:
        chosen = [(said, right) for name, said, right in found if of in {name, "all"}]
        said, right = np.mean(chosen, axis=0)
        lines.append(f"| {of} | {len(chosen)} | {said:.1%} | {right:.1%} |")
    return "\n".join(lines)


def draw(stated: Sequence[Stated], path: Path) -> None:
    """Draw how often stated probabilities came true, with the number of pairs."""
    from matplotlib.figure import Figure  # noqa: PLC0415  the tables do without
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415

    with drawing():
        figure = Figure(figsize=(5.6, 5.0), layout="constrained")
        panel = figure.subplots()
        panel.plot([0.5, 1], [0.5, 1], color=FAINT, linewidth=1, label="stated = came true")
        for name, colour, marker in (("probability", SERIES[0], "o"), ("alone", SERIES[1], "^")):
            _draw_line(panel, stated, (name, colour, marker))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        panel.set_xlim(0.48, 1.05)
        panel.set_ylim(0.4, 1.03)
        panel.set_xlabel("stated probability that the GPU forecast to be faster is faster")
        panel.set_ylabel("came true")
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8, frameon=False, loc="lower right")
    save_picture(figure, path)


def _draw_line(panel: Any, stated: Sequence[Stated], style: tuple[str, str, str]) -> None:
    name, colour, marker = style
    points = []
    for least, most in pairwise(_BINS):
        values = [(getattr(each, name), each.is_right) for each in stated]
        chosen = [each for each in values if least <= each[0] and (each[0] < most or most == 1.0)]
        if chosen:
            said, right = np.mean(chosen, axis=0)
            error = math.sqrt(max(right * (1 - right), 1 / len(chosen) / 4) / len(chosen))
            points.append((said, right, error, len(chosen)))
    places, heights, errors, numbers = zip(*points, strict=True)
    label = "kerncast compare" if name == "probability" else "as if errors were independent"
    panel.errorbar(
        places, heights, yerr=errors, fmt=f"{marker}-", color=colour, ms=4, lw=1, elinewidth=0.7, label=label
    )
    if name == "probability":
        for x, y, number in zip(places, heights, numbers, strict=True):
            panel.annotate(f"{number}", (x, y), (5, -11), textcoords="offset points", fontsize=7, color=colour)


if __name__ == "__main__":
    main()
