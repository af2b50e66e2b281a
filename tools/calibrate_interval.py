"""Say how wide a model's interval must be: writes ``src/kerncast/data/calibration/MODEL.toml`` from scored forecasts.

    python benchmarks/score_timing.py --json scores.json
    python tools/calibrate_interval.py scores.json ... [--model simulation] [--check]
    python benchmarks/score_projection.py --only rodinia --only vecmat --json pairs.json
    python tools/calibrate_interval.py pairs.json --model algorithm1
    python tools/calibrate_interval.py pairs.json --model pipes

Of forecasts that carry a run from one GPU to another, those within a generation count, of the model ``pipes`` those
within a family of instruction sets: beyond, the models widen the interval by a factor of its own
(``FOREIGN_CODE_LOG_SIGMA``).
Rows are grouped by kernel family, and families by the suite that they come from. Suites have the same weight, and so
have the families of a suite: many rows of one kernel say little about another, and many programs of one suite, on one
GPU, little about the next suite. The factor of a level is a quantile of |ln(forecast / measured)| over this mixture;
with K families, a level L is looked up at L (K + 1) / K (split conformal with the family as the unit: Dunn, Wasserman,
Ramdas, JASA 118, 2023). Prints how much of a family, and of a suite, the factors of all others hold. ``--check`` writes
nothing.
Fails when: the families are few; above K / (K + 1) the widest error decides.
"""

import argparse
import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import kerncast
from kerncast.gpu import load_gpu
from kerncast.models.base import FOREIGN_CODE_LOG_SIGMA, VERSION, widened
from kerncast.models.transfer.posterior import era_of

FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"
PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "hecbench_programs.csv"
SIMULATION = "simulation"
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
CHECKED = (0.8, 0.9, 0.95)
#: Sets that time one kernel in different builds.
SAME_KERNEL = {"convolution-2023": "convolution", "convolution-2025": "convolution", "convolution-ktt": "convolution"}
#: Sets whose kernels are named by program and kernel; a program is one family.
BY_PROGRAM = {"hecbench"}
#: Suites by the first word of a family, where it is not the suite's name.
SUITES = {"convolution": "tuners", "coulomb": "tuners"}
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
}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """One forecast beside its measurement."""

    set: str
    kernel: str
    gpu: str
    error: float
    """|ln(forecast / measured)|"""

    @property
    def family(self) -> str:
        """The kernel, whatever the build; of some sets the program."""
        if self.set in BY_PROGRAM:
            return f"{self.set} {self.kernel.partition(' ')[0]}"
        return SAME_KERNEL.get(self.set, f"{self.set} {self.kernel}")


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
    parser.add_argument("--check", action="store_true", help="print only")
    asked = parser.parse_args()
    rows = [row for file in asked.scores for row in read_scores(file.read_text(encoding="utf-8"), asked.model)]
    if asked.model == SIMULATION:
        rows += read_programs(asked.programs.read_text(encoding="utf-8"))
    families = by_family(rows)
    found = factors(families, LEVELS)
    print("| level | factor |\n|---|---|")
    for level, factor in zip(LEVELS, found, strict=True):
        print(f"| {level:.0%} | {factor:.3f} |")
    print(
        "\n| level | factor | families' rows, family left out | rows, family left out | suites' rows, suite left out |"
    )
    print("|---|---|---|---|---|")
    for level in CHECKED:
        seen = leave_one_out(families, level)
        (factor,) = factors(families, [level])
        print(f"| {level:.0%} | {factor:.3f} | {seen.by_family:.1%} | {seen.by_row:.1%} | {seen.by_suite:.1%} |")
    print("\n".join(("", *unseen_table(rows))))
    print("\n| family | rows | median factor | 90th percentile |\n|---|---|---|---|")
    for name, errors in sorted(families.items(), key=lambda item: -float(np.median(item[1]))):
        print(f"| {name} | {len(errors)} | {_factor(errors, 0.5):.2f} | {_factor(errors, 0.9):.2f} |")
    if not asked.check:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{asked.model}.toml").write_text(document(rows, found), encoding="utf-8")


def unseen_table(rows: Sequence[Scored], level: float = 0.9) -> list[str]:
    """Return how much of each microarchitecture the factor of the others holds, and how much when it is widened."""
    table = ["| left out | rows | families | factor of the others | families' rows | widened | families' rows |"]
    table.append("|---|---|---|---|---|---|---|")
    for name in sorted({microarchitecture(row.gpu) for row in rows}):
        held = by_family([row for row in rows if microarchitecture(row.gpu) == name])
        others = by_family([row for row in rows if microarchitecture(row.gpu) != name])
        if not others:
            continue
        (factor,) = factors(others, [level])
        wider = widened(factor, FOREIGN_CODE_LOG_SIGMA, level)
        shares = [np.mean([np.mean(errors <= math.log(x)) for errors in held.values()]) for x in (factor, wider)]
        count = sum(len(errors) for errors in held.values())
        cells = [name, count, len(held), f"{factor:.2f}", f"{shares[0]:.1%}", f"{wider:.2f}", f"{shares[1]:.1%}"]
        table.append("| " + " | ".join(map(str, cells)) + " |")
    return table


def read_scores(text: str, model: str) -> list[Scored]:
    """Return the rows that a model has forecast; of pairs of GPUs, those within a generation or family."""
    alike = era if model == "pipes" else generation
    rows = json.loads(text)
    timed = [
        Scored(row["set"], row["kernel"], row["gpu"], abs(math.log(row["forecasts"][model]["ratio"])))
        for row in rows
        if model in row.get("forecasts", ())
    ]
    carried = [
        Scored(row["set"], row["kernel"], row["target"], abs(math.log(row["ratio"])))
        for row in rows
        if row.get("model") == model and alike(row["source"]) == alike(row["target"])
    ]
    return timed + carried


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
        Scored("hecbench", f"{row['program']} {row['kernel']}", "rtx-3080", abs(math.log(ratio)))
        for row in csv.DictReader(text.splitlines())
        if (ratio := float(row["forecast_us"]) / float(row["measured_us"]))
    ]


def by_family(rows: Iterable[Scored]) -> dict[str, Floats]:
    """Return the errors of each family."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.family, []).append(row.error)
    return {name: np.array(errors) for name, errors in found.items()}


def factors(families: dict[str, Floats], levels: Sequence[float]) -> list[float]:
    """Return for each level the factor that holds this share of a further family's rows.

    >>> families = {name: np.array([error]) for name, error in zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True)}
    >>> [round(math.log(each), 3) for each in factors(families, [0.5, 0.8])]
    [0.3, 0.4]
    """
    errors = np.concatenate(list(families.values()))
    suites = [suite_of(name) for name in families]
    shares = [1.0 / (len(set(suites)) * suites.count(suite)) for suite in suites]
    weights = np.concatenate(
        [np.full(len(of), share / len(of)) for share, of in zip(shares, families.values(), strict=True)]
    )
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


def leave_one_out(families: dict[str, Floats], level: float) -> Coverage:
    """Return how much of each family the factor of all others holds."""
    held = []
    for name, errors in families.items():
        (factor,) = factors({other: of for other, of in families.items() if other != name}, [level])
        held.append((_share(errors, factor), len(errors)))
    of_suites = []
    for suite in {suite_of(name) for name in families}:
        others = {name: of for name, of in families.items() if suite_of(name) != suite}
        (factor,) = factors(others, [level])
        own = np.concatenate([of for name, of in families.items() if suite_of(name) == suite])
        of_suites.append(_share(own, factor))
    rows = sum(count for _, count in held)
    return Coverage(
        level,
        by_family=sum(share for share, _ in held) / len(held),
        by_row=sum(share * count for share, count in held) / rows,
        by_suite=sum(of_suites) / len(of_suites),
    )


def _share(errors: Floats, factor: float) -> float:
    """Return the part of the errors that a factor holds."""
    return float((errors <= math.log(factor) + 1e-12).mean())


def document(rows: Sequence[Scored], found: Sequence[float]) -> str:
    """Return the file that ``models/calibration.py`` reads."""
    sources = dict.fromkeys(PROVENANCE.get(row.set, row.set) for row in rows)
    gpus = len({row.gpu for row in rows})
    measured = ", ".join(dict.fromkeys(name.partition(" (")[0].partition(",")[0] for name in sources))
    lines = [
        "# By what factor forecasts were off; models/calibration.py says how it is used, tools/calibrate_interval.py",
        "# writes it. Computed from measured times of:",
        *(f"# - {name}" for name in sources),
        f"version = {VERSION}",
        f"levels = [{', '.join(f'{level:g}' for level in LEVELS)}]",
        f"factors = [{', '.join(f'{factor:.3f}' for factor in found)}]",
        f"families = {len(by_family(rows))}",
        f"cases = {len(rows)}",
        f"microarchitectures = {json.dumps(sorted({microarchitecture(row.gpu) for row in rows}))}",
        f'measured = "{measured} on {gpus} GPUs"',
    ]
    return "\n".join(lines) + "\n"


def _factor(errors: Floats, level: float) -> float:
    return math.exp(float(np.quantile(errors, level)))


if __name__ == "__main__":
    main()
