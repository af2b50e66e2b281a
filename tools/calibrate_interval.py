"""Say how wide a model's interval must be: writes ``src/kerncast/data/calibration/MODEL.toml`` from scored forecasts.

    python benchmarks/score_timing.py --json scores.json
    python tools/calibrate_interval.py scores.json ... [--model simulation] [--check] [--picture FILE]
    python benchmarks/score_projection.py --only rodinia --only vecmat --json pairs.json
    python benchmarks/score_static_counts.py --json counted.json
    python tools/calibrate_interval.py counted.json --model static-roofline
    python tools/calibrate_interval.py pairs.json --model algorithm1
    python tools/calibrate_interval.py pairs.json --model pipes

Of forecasts that carry a run from one GPU to another, those within a generation count, of the model ``pipes`` those
within a family of instruction sets: beyond, the models widen the interval by a factor of its own
(``FOREIGN_CODE_LOG_SIGMA``).
Rows are grouped by kernel family, and families by the suite that they come from. Suites have the same weight, and so
have the families of a suite: many rows of one kernel say little about another, and many programs of one suite, on one
GPU, little about the next suite. The factor of a level is a quantile of |ln(forecast / measured)| over this mixture;
with K families, a level L is looked up at L (K + 1) / K (split conformal with the family as the unit: Dunn, Wasserman,
Ramdas, JASA 118, 2023). Of the simulation, each error is over the deviation of what limits the row
(``studies/error_classes.py``), and the quantile is of these scores.
Prints how much of a family, of a suite and of a microarchitecture the intervals by all others hold, by class,
microarchitecture, GPU and level, and draws the last (``docs/pictures/reliability.svg``). ``--check`` writes no factors.
Fails when: the families are few; above K / (K + 1) the widest error decides.
"""

import argparse
import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import kerncast
from kerncast.gpu import load_gpu
from kerncast.models.base import FOREIGN_CODE_LOG_SIGMA, widened
from kerncast.models.calibration import BY_CLASS, POOLED
from kerncast.models.clock import blame_of
from kerncast.models.transfer.posterior import era_of
from kerncast.prediction import Term
from kerncast.report.pictures.colours import FAINT, INK, SERIES, limit_colour
from kerncast.report.pictures.picture_files import drawing, save_picture
from kerncast.studies.error_classes import CLASSES, Deviations, estimate, shares_of_classes, weights_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"
ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "benchmarks" / "hecbench_programs.csv"
PICTURE = ROOT / "docs" / "pictures" / "reliability.svg"
SIMULATION = "simulation"
#: Models whose errors differ by what limits a launch.
OF_CLASSES = {SIMULATION, "static-roofline"}
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
LEVEL = 0.9
#: Scored, never fitted: the licence of one allows no table or model made from its rows to be part of the project, and
#: the bandwidths of the other are among the facts of its GPUs.
NOT_FITTED = {"sixteen", "streams"}
#: Sets that time one kernel in different builds.
SAME_KERNEL = {"convolution-2023": "convolution", "convolution-2025": "convolution", "convolution-ktt": "convolution"}
#: Sets whose kernels are named by program and kernel; a program is one family.
BY_PROGRAM = {"hecbench"}
#: Suites by the first word of a family, where it is not the suite's name.
SUITES = {"convolution": "tuners", "coulomb": "tuners", "gemm": "tuners"}
#: Of each set, whose measurements it holds.
PROVENANCE = {
    "vecmat": "gpuperfpredict (Amaris et al., CC BY 4.0)",
    "rodinia": "gpuperfpredict (Amaris et al., CC BY 4.0)",
    "layer": "a published model's convolution layer",
    "rajaperf": "RAJA Performance Suite, LLNL/thicket (MIT)",
    "hecbench": "gpuFLOPBench (MIT)",
    "convolution-2023": "Kernel Tuner, benchmark_hub (MIT)",
    "convolution-2025": "Kernel Tuner, benchmark_hub (MIT)",
    "convolution-ktt": "Kernel Tuning Toolkit, benchmark_hub (MIT)",
    "coulomb": "Kernel Tuning Toolkit, benchmark_hub (MIT)",
    "gemm": "Kernel Tuner, benchmark_hub (MIT)",
    "fast.cu": "products of fast.cu on an H100 (pranjalssh, MIT)",
    "mma-matmul": "products of mma-matmul on an RTX 4090 (spatters, MIT)",
}

Floats = npt.NDArray[np.float64]
_NO_SHARES = (0.0,) * len(CLASSES)
UNKNOWN = "not known"
#: Of rounding, in ln(time).
_SLACK = 1e-12
#: A class of fewer kernels is not drawn.
_LEAST_DRAWN = 5


@dataclass(frozen=True, slots=True)
class Scored:
    """One forecast beside its measurement."""

    set: str
    kernel: str
    gpu: str
    error: float
    """|ln(forecast / measured)|"""
    shares: tuple[float, ...] = _NO_SHARES
    """of each class in the blame for the forecast; zeros where they are not known"""

    @property
    def family(self) -> str:
        """The kernel, whatever the build; of some sets the program."""
        if self.set in BY_PROGRAM:
            return f"{self.set} {self.kernel.partition(' ')[0]}"
        return SAME_KERNEL.get(self.set, f"{self.set} {self.kernel}")

    @property
    def limited_by(self) -> str:
        """The class with the largest share."""
        if not any(self.shares):
            return UNKNOWN
        return max(zip(self.shares, CLASSES, strict=True), key=lambda pair: pair[0])[1]


@dataclass(frozen=True, slots=True)
class Fitted:
    """How wide the intervals are by some rows."""

    scores: dict[str, Floats]
    """errors over deviations, by family"""
    deviations: Deviations | None
    """None where all rows have the same factor"""

    def log_factors(self, rows: Sequence[Scored], level: float) -> Floats:
        """Return the logarithms of the factors of other rows, as if their microarchitectures had been measured."""
        (factor,) = factors(self.scores, [level])
        return math.log(factor) * deviations_of(rows, self.deviations)

    def widened(self, rows: Sequence[Scored], level: float) -> Floats:
        """Return the logarithms of the factors of other rows on a microarchitecture that was not measured."""
        logs = self.log_factors(rows, level)
        return np.array([math.log(widened(math.exp(each), FOREIGN_CODE_LOG_SIGMA, level)) for each in logs])


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what they have not seen the factors of the other families hold."""

    level: float
    by_family: float
    """mean over families of the share of their rows"""
    by_row: float
    by_suite: float
    """mean over suites, each with the factor of the others"""


def main() -> None:
    """Read the scores, print the coverage, write the factors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scores", nargs="+", type=Path, help="what score_timing.py or score_projection.py --json wrote")
    parser.add_argument("--model", default=SIMULATION)
    parser.add_argument(
        "--programs", type=Path, default=PROGRAMS, help="forecasts of programs that score_timing does not run"
    )
    parser.add_argument("--picture", type=Path, help="where the simulation's reliability is drawn")
    parser.add_argument("--check", action="store_true", help="write no factors; draw only where --picture says")
    asked = parser.parse_args()
    every = [row for file in asked.scores for row in read_scores(file.read_text(encoding="utf-8"), asked.model)]
    rows = [row for row in every if row.set not in NOT_FITTED]
    by_class = asked.model in OF_CLASSES
    if asked.model == SIMULATION:
        rows += read_programs(asked.programs.read_text(encoding="utf-8"))
    found = fitted(rows, by_class=by_class)
    fits = left_out(rows, lambda row: row.family, by_class=by_class)
    report = [width_tables(found, rows), *coverage_tables(rows, fits, by_class=by_class)]
    report.append(unseen_table(rows, by_class=by_class))
    if others := [row for row in every if row.set in NOT_FITTED]:
        report += grouped_tables(others, [found] * len(others), "not fitted, ")
    report.append(family_table(rows))
    print("\n\n".join("\n".join(lines) for lines in report))
    if not asked.check:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{asked.model}.toml").write_text(document(rows, found), encoding="utf-8")
    picture = asked.picture or (None if asked.check else PICTURE)
    if picture and asked.model == SIMULATION:
        save_picture(draw_reliability(rows, fits), picture)


def width_tables(found: Fitted, rows: Sequence[Scored]) -> list[str]:
    """Return the factors by level, and those of each class at 90 %."""
    usual = usual_deviation(found, rows)
    lines = ["| level | factor of the median launch |", "|---|---|"]
    lines += [
        f"| {level:.0%} | {factor**usual:.3f} |"
        for level, factor in zip(LEVELS, factors(found.scores, LEVELS), strict=True)
    ]
    if found.deviations is None:
        return lines
    (factor,) = factors(found.scores, [LEVEL])
    lines += ["", f"| class | deviation | factor at {LEVEL:.0%} | kernels by share |", "|---|---|---|---|"]
    weights = kernels_by_class(rows)
    for name, deviation, kernels in zip(CLASSES, found.deviations.by_class, weights, strict=True):
        lines.append(f"| {name} | {deviation:.4f} | {factor**deviation:.2f} | {kernels:.1f} |")
    pooled = found.deviations.pooled
    lines.append(f"| {UNKNOWN} | {pooled:.4f} | {factor**pooled:.2f} | |")
    return lines


def kernels_by_class(rows: Sequence[Scored]) -> Floats:
    """Return of how many kernels the classes have the blame, in parts of kernels."""
    families: dict[str, list[tuple[float, ...]]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row.shares)
    found: Floats = np.sum([np.mean(shares, axis=0) for shares in families.values()], axis=0)
    return found


def coverage_tables(rows: Sequence[Scored], fits: Sequence[Fitted], *, by_class: bool) -> list[list[str]]:
    """Return what intervals hold of families that are left out: by level, class, microarchitecture and GPU."""
    suites = left_out(rows, lambda row: suite_of(row.family), by_class=by_class)
    lines = [
        "| level | families' rows, family left out | rows, family left out | suites' rows, suite left out |",
        "|---|---|---|---|",
    ]
    for level in LEVELS:
        seen = coverage(rows, fits, suites, level)
        lines.append(f"| {level:.0%} | {seen.by_family:.1%} | {seen.by_row:.1%} | {seen.by_suite:.1%} |")
    return [lines, *grouped_tables(rows, fits, "family left out, ")]


def grouped_tables(rows: Sequence[Scored], fits: Sequence[Fitted], head: str) -> list[list[str]]:
    """Return how much of the rows their intervals hold at 90 %, and how wide these are, by group."""
    groups: dict[str, Callable[[Scored], str]] = {
        "all": lambda _: "all",
        "class": lambda row: row.limited_by,
        "microarchitecture": lambda row: microarchitecture(row.gpu),
        "GPU": lambda row: row.gpu,
    }
    logs, held = half_widths(rows, fits, LEVEL), is_held(rows, fits, LEVEL)
    tables = []
    for name, key in groups.items():
        lines = [
            f"| {head}{name} | rows | families | rows held | families' rows held | median high / low |",
            "|---" * 6 + "|",
        ]
        for group in sorted({key(row) for row in rows}):
            chosen = np.array([key(row) == group for row in rows])
            families = [row.family for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
            lines.append(
                f"| {group} | {len(families)} | {len(set(families))} | {held[chosen].mean():.1%}"
                f" | {mean_over(families, held[chosen]):.1%} | {math.exp(2 * float(np.median(logs[chosen]))):.2f} |"
            )
        tables.append(lines)
    return tables


def unseen_table(rows: Sequence[Scored], level: float = LEVEL, *, by_class: bool = False) -> list[str]:
    """Return how much of each microarchitecture the intervals by the others hold, as they are and widened."""
    table = ["| left out | rows | families | high / low by the others | families' rows | widened | families' rows |"]
    table.append("|---|---|---|---|---|---|---|")
    for name in sorted({microarchitecture(row.gpu) for row in rows}):
        held = [row for row in rows if microarchitecture(row.gpu) == name]
        others = [row for row in rows if microarchitecture(row.gpu) != name]
        if not others:
            continue
        found = fitted(others, by_class=by_class)
        families = [row.family for row in held]
        cells: list[object] = [name, len(held), len(set(families))]
        for each in (found.log_factors(held, level), found.widened(held, level)):
            inside = errors_of(held) <= each + _SLACK
            cells += [f"{math.exp(2 * float(np.median(each))):.2f}", f"{mean_over(families, inside):.1%}"]
        table.append("| " + " | ".join(map(str, cells)) + " |")
    return table


def family_table(rows: Sequence[Scored]) -> list[str]:
    """Return the errors of each family."""
    lines = ["| family | rows | median factor | 90th percentile |", "|---|---|---|---|"]
    for name, errors in sorted(by_family(rows).items(), key=lambda item: -float(np.median(item[1]))):
        lines.append(f"| {name} | {len(errors)} | {_factor(errors, 0.5):.2f} | {_factor(errors, 0.9):.2f} |")
    return lines


def read_scores(text: str, model: str) -> list[Scored]:
    """Return the rows that a model has forecast; of pairs of GPUs, those within a generation or family."""
    alike = era if model == "pipes" else generation
    rows = json.loads(text)
    timed = [
        Scored(row["set"], row["kernel"], row["gpu"], abs(math.log(found["ratio"])), shares_of(found))
        for row in rows
        if (found := row.get("forecasts", {}).get(model))
    ]
    carried = [
        Scored(row["set"], row["kernel"], row["target"], abs(math.log(row["ratio"])))
        for row in rows
        if row.get("model") == model and alike(row["source"]) == alike(row["target"])
    ]
    return timed + carried


def shares_of(forecast: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the share of each class in the blame for a scored forecast; zeros where its terms are not known."""
    if not forecast.get("terms"):
        return _NO_SHARES
    terms = [Term(name, seconds) for name, seconds in forecast["terms"].items()]
    known = {name for names in CLASSES.values() for name in names}
    blame = blame_of(forecast["seconds"], terms)
    return tuple(shares_of_classes(blame)) if blame.keys() <= known else _NO_SHARES


@cache
def generation(gpu: str) -> int:
    """Return the major compute capability of a GPU.

    >>> generation("gtx-980")
    5
    """
    return load_gpu(gpu).architecture.number // 10


@cache
def era(gpu: str) -> int:
    """Return the family of instruction sets of a GPU.

    >>> era("rtx-2080-ti") == era("rtx-3090")
    True
    """
    return era_of(load_gpu(gpu).architecture.number)


def microarchitecture(gpu: str) -> str:
    """Return the microarchitecture of a GPU.

    >>> microarchitecture("gtx-980")
    'Maxwell'
    """
    return load_gpu(gpu).architecture.microarchitecture


def read_programs(text: str) -> list[Scored]:
    """Return the rows of HeCBench programs whose sources are not part of this repository: their results are."""
    return [
        Scored(
            "hecbench",
            f"{row['program']} {row['kernel']}",
            "rtx-3080",
            abs(math.log(float(row["forecast_us"]) / float(row["measured_us"]))),
            _shares_in(row.get("limits") or ""),
        )
        for row in csv.DictReader(text.splitlines())
    ]


def _shares_in(text: str) -> tuple[float, ...]:
    """Return the shares of the classes by those of resources, such as ``dram 0.78 latency 0.22``."""
    words = text.split()
    return tuple(shares_of_classes(dict(zip(words[::2], map(float, words[1::2]), strict=True))))


def by_family(rows: Iterable[Scored]) -> dict[str, Floats]:
    """Return the errors of each family."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.family, []).append(row.error)
    return {name: np.array(errors) for name, errors in found.items()}


def fitted(rows: Sequence[Scored], *, by_class: bool) -> Fitted:
    """Return how wide the intervals are by these rows."""
    families = [row.family for row in rows]
    if not by_class:
        return Fitted(by_family(rows), None)
    weights = weights_of([suite_of(family) for family in families], families) * len(set(families))
    deviations = estimate(errors_of(rows), np.array([row.shares for row in rows]), weights)
    scores = errors_of(rows) / deviations_of(rows, deviations)
    return Fitted({name: scores[[each == name for each in families]] for name in dict.fromkeys(families)}, deviations)


def left_out(rows: Sequence[Scored], part: Callable[[Scored], str], *, by_class: bool) -> list[Fitted]:
    """Return for each row what the rows of all other parts say."""
    parts = sorted({part(row) for row in rows})
    found = {name: fitted([row for row in rows if part(row) != name], by_class=by_class) for name in parts}
    return [found[part(row)] for row in rows]


def deviations_of(rows: Sequence[Scored], deviations: Deviations | None) -> Floats:
    """Return the deviation of each row; 1 where all have the same factor."""
    return np.ones(len(rows)) if deviations is None else deviations.of(np.array([row.shares for row in rows]))


def usual_deviation(found: Fitted, rows: Sequence[Scored]) -> float:
    """Return the deviation of the median row whose shares are known."""
    known = [row for row in rows if any(row.shares)]
    return float(np.median(deviations_of(known, found.deviations))) if known else 1.0


def errors_of(rows: Sequence[Scored]) -> Floats:
    """Return the error of each row."""
    return np.array([row.error for row in rows])


def half_widths(rows: Sequence[Scored], fits: Sequence[Fitted], level: float) -> Floats:
    """Return the logarithm of each row's factor."""
    found = np.zeros(len(rows))
    for fit in {id(fit): fit for fit in fits}.values():
        places = [place for place, each in enumerate(fits) if each is fit]
        found[places] = fit.log_factors([rows[place] for place in places], level)
    return found


def is_held(rows: Sequence[Scored], fits: Sequence[Fitted], level: float) -> npt.NDArray[np.bool_]:
    """Return of each row whether its interval holds the measured time."""
    return np.asarray(errors_of(rows) <= half_widths(rows, fits, level) + _SLACK)


def mean_over(groups: Sequence[str], values: npt.NDArray[Any]) -> float:
    """Return the mean over groups of the means of their values.

    >>> mean_over(["a", "a", "b"], np.array([0, 1, 1]))
    0.75
    """
    names = np.array(groups)
    return float(np.mean([values[names == name].mean() for name in dict.fromkeys(groups)]))


def coverage(rows: Sequence[Scored], fits: Sequence[Fitted], suites: Sequence[Fitted], level: float) -> Coverage:
    """Return how much of each family, and of each suite, the intervals by all others hold."""
    families = [row.family for row in rows]
    held = is_held(rows, fits, level)
    of_suites = mean_over([suite_of(each) for each in families], is_held(rows, suites, level))
    return Coverage(level, mean_over(families, held), float(held.mean()), of_suites)


def factors(families: Mapping[str, Floats], levels: Sequence[float]) -> list[float]:
    """Return for each level the factor that holds this share of a further family's rows.

    >>> families = {name: np.array([error]) for name, error in zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True)}
    >>> [round(math.log(each), 3) for each in factors(families, [0.5, 0.8])]
    [0.3, 0.4]
    """
    errors = np.concatenate(list(families.values()))
    names = [name for name, of in families.items() for _ in of]
    weights = weights_of([suite_of(name) for name in names], names)
    order = np.argsort(errors)
    held = np.cumsum(weights[order])
    corrected = np.minimum(np.array(levels) * (1 + 1 / len(families)), 1.0)
    places = np.searchsorted(held, corrected - 1e-9)
    return [float(each) for each in np.exp(errors[order][np.minimum(places, len(errors) - 1)])]


def suite_of(family: str) -> str:
    """Return the suite of a family.

    >>> suite_of("rodinia lud_diagonal"), suite_of("convolution")
    ('rodinia', 'tuners')
    """
    first = family.partition(" ")[0]
    return SUITES.get(first, first)


def draw_reliability(rows: Sequence[Scored], fits: Sequence[Fitted]) -> "Figure":
    """Return how much intervals hold of families that are left out, over their level, with the widths at 90 %."""
    from matplotlib.figure import Figure  # noqa: PLC0415  heavy, and only pictures need it

    with drawing():
        figure = Figure(figsize=(9.0, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_coverage(left, rows, fits)
        _draw_widths(right, rows, fits)
    return figure


def _draw_coverage(panel: Any, rows: Sequence[Scored], fits: Sequence[Fitted]) -> None:
    """Draw the held share of families over the level, of all and of each class with several."""
    held = {level: is_held(rows, fits, level) for level in LEVELS}
    families = [row.family for row in rows]
    panel.plot((0.4, 1), (0.4, 1), "--", color=FAINT, lw=0.8, label="as said")
    panel.plot(LEVELS, [mean_over(families, held[level]) for level in LEVELS], "-o", color=INK, ms=4, label="all")
    for name in CLASSES:
        chosen = np.array([row.limited_by == name for row in rows])
        of = [row.family for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
        if len(set(of)) >= _LEAST_DRAWN:
            shares = [mean_over(of, held[level][chosen]) for level in LEVELS]
            panel.plot(
                LEVELS,
                shares,
                "-",
                marker=".",
                lw=1.2,
                color=limit_colour("fma" if name == "pipes" else name),
                label=f"{name} ({len(set(of))})",
            )
    panel.set_xlabel("level of the interval")
    panel.set_ylabel("share of times held, kernel left out")
    panel.grid(alpha=0.25)
    panel.legend(fontsize=8, frameon=False, labelspacing=0.3)


def _draw_widths(panel: Any, rows: Sequence[Scored], fits: Sequence[Fitted]) -> None:
    """Draw the distribution of high / low at 90 %."""
    ratios = np.sort(np.exp(2 * half_widths(rows, fits, LEVEL)))
    panel.plot(ratios, (np.arange(len(ratios)) + 1) / len(ratios), color=SERIES[0], drawstyle="steps-post")
    panel.set_xlabel(f"high / low of the {LEVEL:.0%} interval")
    panel.set_ylabel("share of cases with a narrower interval")
    panel.set_ylim(0, 1)
    panel.grid(alpha=0.25)


def document(rows: Sequence[Scored], found: Fitted) -> str:
    """Return the file that ``models/calibration.py`` reads."""
    sources = dict.fromkeys(PROVENANCE.get(row.set, row.set) for row in rows)
    gpus = len({row.gpu for row in rows})
    measured = ", ".join(dict.fromkeys(name.partition(" (")[0].partition(",")[0] for name in sources))
    lines = [
        "# By what factor forecasts were off; models/calibration.py says how it is used, tools/calibrate_interval.py",
        "# writes it. Computed from measured times of:",
        *(f"# - {name}" for name in sources),
        f"version = {POOLED if found.deviations is None else BY_CLASS}",
        f"levels = [{', '.join(f'{level:g}' for level in LEVELS)}]",
        *_widths(found, rows),
        f"families = {len(by_family(rows))}",
        f"cases = {len(rows)}",
        f"microarchitectures = {json.dumps(sorted({microarchitecture(row.gpu) for row in rows}))}",
        f'measured = "{measured} on {gpus} GPUs"',
    ]
    if found.deviations is not None:
        for (name, resources), deviation in zip(CLASSES.items(), found.deviations.by_class, strict=True):
            lines += ["", "[[class]]", f'name = "{name}"', f"resources = {json.dumps(resources)}"]
            lines.append(f"deviation = {deviation:.4f}")
    return "\n".join(lines) + "\n"


def _widths(found: Fitted, rows: Sequence[Scored]) -> list[str]:
    """Return the lines with what the levels stand for."""
    values = factors(found.scores, LEVELS)
    if found.deviations is None:
        return [f"factors = [{', '.join(f'{factor:.3f}' for factor in values)}]"]
    return [
        f"quantiles = [{', '.join(f'{math.log(factor):.3f}' for factor in values)}]",
        f"median_deviation = {usual_deviation(found, rows):.4f}",
    ]


def _factor(errors: Floats, level: float) -> float:
    return math.exp(float(np.quantile(errors, level)))


if __name__ == "__main__":
    main()
