"""By what factor a model's forecasts were off on measured kernels: the width of its interval.

Each file of ``data/calibration`` holds one model's factors: a share ``level`` of measurements lay between the forecast
divided and multiplied by the factor, with kernel families as the unit. The files are written by
``tools/calibrate_interval.py``. Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive
inference for regression", JASA 113, 2018 (split conformal); Dunn, Wasserman, Ramdas, "Distribution-free prediction sets
for two-layer hierarchical models", JASA 118, 2023 (groups, each with the same weight).
Fails when: a kernel is unlike all that were measured.
"""

import csv
import math
import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

import kerncast
from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.units import PERCENT

#: Of the form of these files.
VERSION = 1
_FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factors of one model."""

    levels: tuple[float, ...]
    """ascending"""
    factors: tuple[float, ...]
    families: int
    """kernels that were measured, with all their sizes and GPUs"""
    cases: int
    measured: str
    """what was measured, for messages"""
    microarchitectures: tuple[str, ...] = ()
    """of the GPUs that it was measured on, such as Volta; empty: not said"""

    def has_seen(self, gpu: GPU) -> bool:
        """Whether a GPU of the same microarchitecture was among those that were measured, as far as it is said."""
        return not self.microarchitectures or gpu.architecture.microarchitecture in self.microarchitectures

    def tells(self, level: float) -> bool:
        """Whether measurements tell the factor of a level, and not only an assumed form of the errors."""
        return self.levels[0] <= level <= self.levels[-1]

    def factor(self, level: float) -> float:
        """Return by how much to multiply and divide, between and beyond the known levels as for a lognormal error.

        >>> found = Calibration((0.5, 0.9), (1.2, 2.0), 5, 50, "")
        >>> round(found.factor(0.9), 3), 1.2 < found.factor(0.7) < 2.0 < found.factor(0.99)
        (2.0, True)
        """
        known = [_z(each) for each in self.levels]
        logs = [math.log(each) for each in self.factors]
        z = _z(level)
        if z > known[-1]:
            return math.exp(logs[-1] * z / known[-1])
        if z < known[0]:
            return math.exp(logs[0] * z / known[0])
        return math.exp(float(np.interp(z, known, logs)))


@cache
def calibration_of(model: str) -> Calibration | None:
    """Return the calibration of a model, or None where it has none; raises InputError for a faulty file."""
    path = _FOLDER / f"{model}.toml"
    return read_calibration(path) if path.exists() else None


def read_calibration(path: Path) -> Calibration:
    """Read a file of factors; raises InputError that names its first fault."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _faulty(path, f"no readable TOML file ({str(error)[:200]})") from None
    fault = _fault(found)
    if fault:
        raise _faulty(path, fault)
    return Calibration(
        tuple(found["levels"]),
        tuple(found["factors"]),
        found["families"],
        found["cases"],
        found["measured"],
        tuple(found.get("microarchitectures", ())),
    )


def _faulty(path: Path, what: str) -> InputError:
    return InputError(
        f"this calibration is faulty: {what}",
        where=str(path),
        cure="Write it by tools/calibrate_interval.py, or install kerncast again.",
    )


def _fault(found: dict[str, Any]) -> str:
    """Return what is wrong with the content of a file; empty where nothing is."""
    if found.get("version") != VERSION:
        return f"version is {found.get('version')!r:.40}, not {VERSION}"
    missing = [key for key in ("levels", "factors", "families", "cases", "measured") if key not in found]
    if missing:
        return f"{missing[0]} is missing"
    if not all(type(found[key]) is int and found[key] > 0 for key in ("families", "cases")):
        return "families and cases are not both whole numbers above 0"
    if not isinstance(found["measured"], str):
        return "measured is no text"
    names = found.get("microarchitectures", [])
    if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
        return "microarchitectures is no list of names"
    return _fault_of_factors(found["levels"], found["factors"])


def _fault_of_factors(levels: Any, factors: Any) -> str:
    if not _ascends(levels) or not 0 < levels[0] <= levels[-1] < 1:
        return "levels are not ascending numbers between 0 and 1"
    if not _ascends(factors, may_repeat=True) or factors[0] <= 1:
        return "factors are not ascending numbers above 1"
    return "" if len(levels) == len(factors) else f"there are {len(levels)} levels and {len(factors)} factors"


def _ascends(values: object, *, may_repeat: bool = False) -> bool:
    """Tell whether these are finite numbers, at least one, in ascending order."""
    if not isinstance(values, list) or not values:
        return False
    if not all(type(each) in {int, float} and math.isfinite(each) for each in values):
        return False
    return all(a < b or (may_repeat and a == b) for a, b in pairwise(values))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often an interval that no measurement made held what was measured."""

    set: str
    cases: int
    held: float
    """share of the cases"""


@cache
def coverage_of(model: str) -> tuple[Coverage, ...]:
    """Return the measured coverage of a model, a set each.

    >>> [(found.set, found.cases) for found in coverage_of("ceilings")][0]
    ('rodinia', 1916)
    """
    with (_FOLDER / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    return tuple(Coverage(row["set"], int(row["cases"]), float(row["held"])) for row in rows)


def coverage_text(model: str) -> str:
    """Return the measured coverage of a model for a caveat, such as ``9 % (rodinia)``.

    >>> coverage_text("ceilings")
    '9 % (rodinia), 12 % (vecmat), 33 % (convolution of KTT)'
    """
    return ", ".join(f"{found.held / PERCENT:.0f} % ({found.set})" for found in coverage_of(model))


def _z(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)
