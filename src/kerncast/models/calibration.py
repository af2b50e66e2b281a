"""By what factor a model's forecasts were off on measured kernels: the width of its interval.

Each file of ``data/calibration`` holds one model's factors: a share ``level`` of measurements lay between the forecast
divided and multiplied by the factor, with kernel families as the unit. ``tools/calibrate_interval.py`` writes them.

In version 2 the factor depends on what limits the launch. Where a class of resources has the share w in the blame for
the time (``blame_of``), and alone would be off by about s, in ln(time),

    deviation^2 = sum over classes of w s^2    (variance of a mixture of causes without bias),

and a share ``level`` of measurements have |ln(measured / forecast)| <= quantile x deviation.

Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive inference for regression", JASA 113,
2018 (split conformal, section 5.2: errors scaled by how wide they should be); Dunn, Wasserman, Ramdas,
"Distribution-free prediction sets for two-layer hierarchical models", JASA 118, 2023 (groups, each with the same
weight). Fails when: a kernel is unlike all that were measured, or what limits it is not what the model takes it for.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

import kerncast
from kerncast.bounded_file import our_rows, our_table
from kerncast.errors import InputError
from kerncast.gpu import GPU
from kerncast.units import PERCENT

#: Versions of the form of these files: one factor for all launches; a deviation for each class of resources.
POOLED, BY_CLASS = 1, 2
_FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"
#: The largest deviation, and the largest logarithm of a factor, that a file may hold: no interval overflows.
_MOST_DEVIATION, _MOST_LOG_FACTOR = 10, 50
#: And the smallest logarithm of a factor: no interval is without width.
_LEAST_LOG_FACTOR = 1e-5


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """Resources whose times a model forecasts about equally well."""

    name: str
    resources: tuple[str, ...]
    """names of terms"""
    deviation: float
    """scale of ln(measured / forecast) where nothing else limits: about half of the errors are smaller"""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factors of one model."""

    levels: tuple[float, ...]
    """levels of the intervals, ascending"""
    factors: tuple[float, ...]
    """of the median launch, where there are classes"""
    families: int
    """number of measured kernels; all sizes and GPUs of one count once"""
    cases: int
    measured: str
    """measured data sets, for messages"""
    microarchitectures: tuple[str, ...] = ()
    """microarchitectures of the measured GPUs, such as Volta; empty where unknown"""
    classes: tuple[ErrorClass, ...] = ()
    """what the width depends on; empty where all launches have the same factor"""
    usual: float = 1.0
    """deviation of the median launch"""

    def has_seen(self, gpu: GPU) -> bool:
        """Whether a GPU of the same microarchitecture was among those that were measured, as far as it is said."""
        return not self.microarchitectures or gpu.architecture.microarchitecture in self.microarchitectures

    def tells(self, level: float) -> bool:
        """Whether measurements tell the factor of a level, and not only an assumed form of the errors."""
        return self.levels[0] <= level <= self.levels[-1]

    def factor(self, level: float, width: float = 1.0) -> float:
        """Return by how much to multiply and divide, between and beyond the known levels as for a lognormal error.

        ``width`` is that of the launch: the factor is raised to it.

        >>> found = Calibration((0.5, 0.9), (1.2, 2.0), 5, 50, "")
        >>> round(found.factor(0.9), 3), 1.2 < found.factor(0.7) < 2.0 < found.factor(0.99)
        (2.0, True)
        """
        known = [normal_deviations(each) for each in self.levels]
        logs = [width * math.log(each) for each in self.factors]
        z = normal_deviations(level)
        if z > known[-1]:
            return math.exp(logs[-1] * z / known[-1])
        if z < known[0]:
            return math.exp(logs[0] * z / known[0])
        return math.exp(float(np.interp(z, known, logs)))

    def width(self, shares: Mapping[str, float]) -> float:
        """Return how wide the interval of a launch is over that of the median launch, both in ln(time).

        ``shares`` are those of the resources in the blame for the time.

        >>> streams, atomics = ErrorClass("streams", ("dram",), 0.1), ErrorClass("atomics", ("atomics",), 0.3)
        >>> found = Calibration((0.9,), (1.5,), 5, 50, "", classes=(streams, atomics), usual=0.1)
        >>> found.width({"dram": 1.0}), round(found.width({"dram": 0.6, "atomics": 0.4}), 4)  # 0.6 x 1 + 0.4 x 9
        (1.0, 2.0494)
        """
        variances = self.variances(shares)
        return math.sqrt(math.fsum(variances.values())) / self.usual if variances else 1.0

    def variances(self, shares: Mapping[str, float]) -> dict[str, float]:
        """Return what each class adds to the squared deviation of a launch; empty without classes."""
        if not self.classes or not shares:
            return {}
        of_classes = self.shares_of_classes(shares)
        return {each.name: of_classes[each.name] * each.deviation**2 for each in self.classes}

    def shares_of_classes(self, shares: Mapping[str, float]) -> dict[str, float]:
        """Return the share of each class in the blame for the time.

        A resource of no class was not measured: it counts to the class with the widest errors.

        >>> streams, others = ErrorClass("streams", ("dram",), 0.1), ErrorClass("others", (), 0.3)
        >>> found = Calibration((0.9,), (1.5,), 5, 50, "", classes=(streams, others))
        >>> found.shares_of_classes({"dram": 0.75, "atomics": 0.25})
        {'streams': 0.75, 'others': 0.25}
        """
        class_of = {name: each.name for each in self.classes for name in each.resources}
        found = {each.name: 0.0 for each in self.classes}
        for name, share in shares.items():
            found[class_of.get(name) or max(self.classes, key=lambda each: each.deviation).name] += share
        return found


@cache
def calibration_of(model: str) -> Calibration | None:
    """Return the calibration of a model, or None where it has none; raises InputError for a faulty file."""
    path = _FOLDER / f"{model}.toml"
    return read_calibration(path) if path.exists() else None


def read_calibration(path: Path) -> Calibration:
    """Read a file of factors; raises InputError that names its first fault."""
    try:
        found = our_table(path)
    except (OSError, ValueError, RecursionError) as error:
        raise _faulty(path, f"no readable TOML file ({str(error)[:200]})") from None
    fault = _fault(found)
    if fault:
        raise _faulty(path, fault)
    by_class = found["version"] == BY_CLASS
    usual = float(found["median_deviation"]) if by_class else 1.0
    tables = found["class"] if by_class else ()
    classes = tuple(ErrorClass(each["name"], tuple(each["resources"]), each["deviation"]) for each in tables)
    return Calibration(
        tuple(found["levels"]),
        tuple(math.exp(usual * each) for each in found["quantiles"]) if by_class else tuple(found["factors"]),
        found["families"],
        found["cases"],
        found["measured"],
        tuple(found.get("microarchitectures", ())),
        classes,
        usual,
    )


def _faulty(path: Path, what: str) -> InputError:
    return InputError(
        f"this calibration is faulty: {what}",
        where=str(path),
        cure="Write it by tools/calibrate_interval.py, or install kerncast again.",
    )


def _fault(found: dict[str, Any]) -> str:
    """Return what is wrong with the content of a file; empty where nothing is."""
    version = found.get("version")
    if type(version) is not int or version not in {POOLED, BY_CLASS}:
        return f"version is {version!r:.40}, not {POOLED} or {BY_CLASS}"
    own = ("quantiles", "median_deviation", "class") if version == BY_CLASS else ("factors",)
    missing = [key for key in ("levels", *own, "families", "cases", "measured") if key not in found]
    if missing:
        return f"{missing[0]} is missing"
    return _fault_of_origin(found) or (_fault_by_class(found) if version == BY_CLASS else _fault_of_pooled(found))


def _fault_of_origin(found: dict[str, Any]) -> str:
    if not all(type(found[key]) is int and found[key] > 0 for key in ("families", "cases")):
        return "families and cases are not both whole numbers above 0"
    if not isinstance(found["measured"], str):
        return "measured is not text"
    return "" if _are_names(found.get("microarchitectures", [])) else "microarchitectures is not a list of names"


def _fault_of_pooled(found: dict[str, Any]) -> str:
    fault = _fault_of_factors(found["levels"], found["factors"], "factors", above=1)
    return fault or ("its widest interval is too wide" if math.log(found["factors"][-1]) > _MOST_LOG_FACTOR else "")


def _fault_by_class(found: dict[str, Any]) -> str:
    classes, median, quantiles = found["class"], found["median_deviation"], found["quantiles"]
    fault = _fault_of_factors(found["levels"], quantiles, "quantiles", above=0) or _fault_of_classes(classes)
    if fault:
        return fault
    if not _is_deviation(median):
        return f"median_deviation is not a number above 0 and up to {_MOST_DEVIATION}"
    deviations = [median, *(each["deviation"] for each in classes)]
    if quantiles[0] * min(deviations) < _LEAST_LOG_FACTOR:
        return "its narrowest interval has no width"
    widest = max(deviations)
    return "its widest interval is too wide" if quantiles[-1] * widest > _MOST_LOG_FACTOR else ""


def _fault_of_factors(levels: Any, factors: Any, name: str, above: float) -> str:
    if not _ascends(levels) or not 0 < levels[0] <= levels[-1] < 1:
        return "levels are not ascending numbers between 0 and 1"
    if not _ascends(factors, may_repeat=True) or factors[0] <= above:
        return f"{name} are not ascending numbers above {above:g}"
    return "" if len(levels) == len(factors) else f"there are {len(levels)} levels and {len(factors)} {name}"


def _fault_of_classes(classes: Any) -> str:
    if not isinstance(classes, list) or not classes or not all(isinstance(each, dict) for each in classes):
        return "class is not a list of tables"
    if not _are_names([each.get("name") for each in classes]):
        return "a class has no name"
    for each in classes:
        if not each.get("resources") or not _are_names(each["resources"]):
            return f"resources of class {each['name']!r:.40} is not a list of names"
        if not _is_deviation(each.get("deviation")):
            return f"deviation of class {each['name']!r:.40} is not a number above 0 and up to {_MOST_DEVIATION}"
    lists = [each["name"] for each in classes], [name for each in classes for name in each["resources"]]
    repeated = [name for names in lists for name in names if names.count(name) > 1]
    return f"{repeated[0]!r:.40} is given twice" if repeated else ""


def _are_names(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) and each for each in values)


def _is_deviation(value: object) -> bool:
    """Tell whether this is a deviation of ln(time); one above 10 would be a factor of 22,000."""
    return type(value) in {int, float} and 0 < value <= _MOST_DEVIATION  # type: ignore[operator]


def _ascends(values: object, *, may_repeat: bool = False) -> bool:
    """Tell whether these are finite numbers, at least one, in ascending order."""
    if not isinstance(values, list) or not values:
        return False
    # Whole numbers that no float holds are as wrong as infinity.
    if not all(type(each) in {int, float} and abs(each) <= sys.float_info.max for each in values):
        return False
    return all(a < b or (may_repeat and a == b) for a, b in pairwise(values))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of measured times that an interval held which was not made from measurements."""

    set: str
    cases: int
    held: float
    """share of the cases whose measured time the interval held"""


@cache
def coverage_of(model: str) -> tuple[Coverage, ...]:
    """Return the measured coverage of a model, a set each.

    >>> [(found.set, found.cases) for found in coverage_of("ceilings")][0]
    ('rodinia', 1916)
    """
    rows = [row for row in our_rows(_FOLDER / "coverage.csv") if row["model"] == model]
    return tuple(Coverage(row["set"], int(row["cases"]), float(row["held"])) for row in rows)


def coverage_text(model: str) -> str:
    """Return the measured coverage of a model for a caveat, such as ``9 % (rodinia)``.

    >>> coverage_text("ceilings")
    '9 % (rodinia), 12 % (vecmat), 32 % (convolution of KTT)'
    """
    return ", ".join(f"{found.held / PERCENT:.0f} % ({found.set})" for found in coverage_of(model))


def normal_deviations(level: float) -> float:
    """Return within how many standard deviations of its mean a normal error lies with this probability.

    >>> round(normal_deviations(0.9), 3)
    1.645
    """
    return NormalDist().inv_cdf(0.5 + level / 2)
