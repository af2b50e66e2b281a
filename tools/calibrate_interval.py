"""Say how wide a model's interval must be: writes ``src/kerncast/data/calibration/MODEL.toml`` from scored forecasts.

    python benchmarks/score_timing.py --json scores.json
    python tools/calibrate_interval.py scores.json ... [--model simulation] [--check]

Rows are grouped by kernel family, each of the same weight: many rows of one kernel say little about another. The factor
of a level is a quantile of |ln(forecast / measured)| over this mixture; with K families, a level L is looked up at
L (K + 1) / K (split conformal with the family as the unit: Dunn, Wasserman, Ramdas, JASA 118, 2023).
Prints how much of a family the factors of all other families hold. ``--check`` writes nothing.
Fails when: the families are few; above K / (K + 1) the widest error decides.
"""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import kerncast
from kerncast.models.calibration import VERSION

FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
CHECKED = (0.8, 0.9, 0.95)
#: Sets that time one kernel in different builds.
SAME_KERNEL = {"convolution-2023": "convolution", "convolution-2025": "convolution", "convolution-ktt": "convolution"}
#: Sets whose kernels are named by program and kernel; a program is one family.
BY_PROGRAM = {"hecbench"}
#: Of each set, whose measurements it holds.
PROVENANCE = {
    "vecmat": "gpuperfpredict (Amaris et al., CC BY 4.0)",
    "rodinia": "gpuperfpredict (Amaris et al., CC BY 4.0)",
    "layer": "a published model's convolution layer",
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


def main() -> None:
    """Read the scores, print the coverage, write the factors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scores", nargs="+", type=Path, help="what score_timing.py --json wrote")
    parser.add_argument("--model", default="simulation")
    parser.add_argument("--check", action="store_true", help="print only")
    asked = parser.parse_args()
    rows = [row for file in asked.scores for row in read_scores(file.read_text(encoding="utf-8"), asked.model)]
    families = by_family(rows)
    found = factors(families, LEVELS)
    print("| level | factor |\n|---|---|")
    for level, factor in zip(LEVELS, found, strict=True):
        print(f"| {level:.0%} | {factor:.3f} |")
    print("\n| level | factor | families' rows held, family left out | rows held, family left out |\n|---|---|---|---|")
    for level in CHECKED:
        seen = leave_one_out(families, level)
        print(f"| {level:.0%} | {factors(families, [level])[0]:.3f} | {seen.by_family:.1%} | {seen.by_row:.1%} |")
    print("\n| family | rows | median factor | 90th percentile |\n|---|---|---|---|")
    for name, errors in sorted(families.items(), key=lambda item: -float(np.median(item[1]))):
        print(f"| {name} | {len(errors)} | {_factor(errors, 0.5):.2f} | {_factor(errors, 0.9):.2f} |")
    if not asked.check:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{asked.model}.toml").write_text(document(rows, found), encoding="utf-8")


def read_scores(text: str, model: str) -> list[Scored]:
    """Return the rows that a model has forecast."""
    return [
        Scored(row["set"], row["kernel"], row["gpu"], abs(math.log(row["forecasts"][model]["ratio"])))
        for row in json.loads(text)
        if model in row["forecasts"]
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
    weights = np.concatenate([np.full(len(of), 1.0 / (len(families) * len(of))) for of in families.values()])
    order = np.argsort(errors)
    held = np.cumsum(weights[order])
    corrected = np.minimum(np.array(levels) * (1 + 1 / len(families)), 1.0)
    places = np.searchsorted(held, corrected - 1e-9)
    return [float(each) for each in np.exp(errors[order][np.minimum(places, len(errors) - 1)])]


def leave_one_out(families: dict[str, Floats], level: float) -> Coverage:
    """Return how much of each family the factor of all others holds."""
    held = []
    for name, errors in families.items():
        (factor,) = factors({other: of for other, of in families.items() if other != name}, [level])
        held.append((float((errors <= math.log(factor) + 1e-12).mean()), len(errors)))
    rows = sum(count for _, count in held)
    return Coverage(
        level, sum(share for share, _ in held) / len(held), sum(share * count for share, count in held) / rows
    )


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
        f'measured = "{measured} on {gpus} GPUs"',
    ]
    return "\n".join(lines) + "\n"


def _factor(errors: Floats, level: float) -> float:
    return math.exp(float(np.quantile(errors, level)))


if __name__ == "__main__":
    main()
