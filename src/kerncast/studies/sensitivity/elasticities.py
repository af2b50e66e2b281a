"""How the time of launches changes with each parameter of a GPU, by simulating the same blocks again.

Elasticity: E = d ln(time) / d ln(parameter), by least squares over what the model's error spans: a forecast that is off
by a factor f because of one resource is as if that resource were f times as fast. -1: twice the parameter, half the
time; 0: it does not matter. The interval goes from the slope one way to the slope the other way. What works in steps,
such as registers, which make room for a whole block or for none, has the slope from half to twice as much. Fails when:
the model is off in two resources at once; below 0.05, where schedules that differ by chance are as strong.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from kerncast.caveats import Caveat
from kerncast.errors import GPUError, InputError, Refusal
from kerncast.forecast import Means, Progress
from kerncast.forecast.what_if import WhatIf
from kerncast.gpu import DATA, GPU, varied
from kerncast.gpu.files import read_toml, rules_of_changes
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL, Question
from kerncast.prediction import Prediction, Refused

_FILE = DATA / "sensitivity.toml"
#: Nearest points beside the GPU's own, and the farthest.
_STEP, _HALF, _FAR = 1.1, 2.0, 8.0
#: Least and most of the model's error that slopes are taken over.
_LEAST_ERROR, _MOST_ERROR = 1.2, 1.9
#: A gain or loss below this part of the time does not matter.
_NOTHING = 0.03
_SAME = 1e-4
#: Whole numbers miss a factor by up to this.
_ROUNDED = 1.02


class Kind(StrEnum):
    """Which way a parameter is better."""

    CAPACITY = "capacity"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of the hardware, and the keys of a GPU's file that it stands for."""

    name: str
    kind: Kind
    keys: tuple[str, ...]
    inverse: tuple[str, ...] = ()
    """keys that shrink as the parameter grows: cycles of a pipe"""
    in_steps: bool = False
    """whether its effect goes in steps, such as one block more: its slope is that from half to twice as much"""


@dataclass(frozen=True, slots=True)
class Point:
    """The time with one value of a parameter."""

    factor: float
    """value over that of the GPU, as far as whole numbers allow"""
    seconds: float


@dataclass(frozen=True, slots=True)
class Elasticity:
    """What one parameter does to the time."""

    parameter: Parameter
    elasticity: float
    low: float
    high: float
    points: tuple[Point, ...]
    """by growing factor, the GPU itself among them"""

    def seconds_at(self, factor: float) -> float:
        """Return the time at a factor between two points, a power of it; beyond the last one as there."""
        before, after = self.points[0], self.points[-1]
        for one, other in pairwise(self.points):
            if one.factor <= factor <= other.factor:
                before, after = one, other
        if factor <= self.points[0].factor:
            return self.points[0].seconds
        if factor >= self.points[-1].factor:
            return self.points[-1].seconds
        part = math.log(factor / before.factor) / math.log(after.factor / before.factor)
        return before.seconds * math.pow(after.seconds / before.seconds, part)

    @property
    def enough(self) -> float:
        """Least factor, or most for latencies, beyond which no better value gains more than 3 %."""
        better = self.points if self.parameter.kind is Kind.CAPACITY else tuple(reversed(self.points))
        best = min(point.seconds for point in better)
        limit = best * (1 + _NOTHING)
        last = better[-1]
        for worse, point in reversed(list(pairwise(better))):
            if worse.seconds > limit:
                return _crossing(worse, point, limit)
            last = worse
        return last.factor


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """All elasticities of one launch, or of several together, on one GPU."""

    name: str
    launches: tuple[int, ...]
    gpu: GPU
    seconds: float
    low: float
    high: float
    predictions: tuple[Prediction, ...]
    elasticities: tuple[Elasticity, ...]
    """strongest first"""
    unknown: tuple[Parameter, ...]
    """parameters of which the GPU or the model knows nothing, or whose change cannot be"""
    assumed: tuple[Caveat, ...] = ()
    """what had to be assumed about the GPU's name"""

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the forecasts."""
        return tuple(dict.fromkeys(p.model for p in self.predictions))

    @property
    def launch_share(self) -> float:
        """Part of the time that launching takes, which no parameter here changes."""
        return sum(p.term("launch") or 0.0 for p in self.predictions) / self.seconds


def _crossing(one: Point, other: Point, seconds: float) -> float:
    """Return the factor between two points at which the time is this."""
    if one.seconds == other.seconds:
        return other.factor
    part = math.log(seconds / one.seconds) / math.log(other.seconds / one.seconds)
    return one.factor * math.pow(other.factor / one.factor, min(1.0, max(0.0, part)))


@cache
def parameters() -> tuple[Parameter, ...]:
    """Return the parameters of ``data/sensitivity.toml``."""
    table: dict[str, Any] = read_toml(_FILE)
    return tuple(
        Parameter(name, Kind(row["kind"]), tuple(row["keys"]), tuple(row.get("inverse", ())), "in_steps" in row)
        for name, row in table.items()
    )


def parameters_named(names: Iterable[str]) -> tuple[Parameter, ...]:
    """Return the parameters of these names, all without a name; raises InputError."""
    wanted = tuple(names)
    known = {each.name: each for each in parameters()}
    for name in wanted:
        if name not in known:
            raise InputError(f"no parameter is called {name[:40]!r}", cure=f"Known: {', '.join(known)}.")
    return tuple(known[name] for name in dict.fromkeys(wanted)) or parameters()


def changed(gpu: GPU, parameter: Parameter, factor: float) -> tuple[GPU, float] | None:
    """Return a GPU with a parameter so many times as large, and the factor that whole numbers allow.

    None where the GPU knows no value of it; raises GPUError for values that cannot be.

    >>> from kerncast.gpu import load_gpu
    >>> gpu, factor = changed(load_gpu("TITAN V"), parameters_named(["sm_count"])[0], 1.1)
    >>> gpu.sm_count, factor
    (88, 1.1)
    """
    known = {fact.key: fact.value for fact in gpu.all_facts}
    powers = dict.fromkeys(parameter.keys, 1) | dict.fromkeys(parameter.inverse, -1)
    values, real = dict[str, float](), factor
    for key, power in powers.items():
        value = known.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            values[key] = value * math.pow(factor, power)
            if rules_of_changes()[key].kind == "whole":
                values[key] = max(1, round(values[key]))
                real = values[key] / value
    return (varied(gpu, values), real) if values else None


@dataclass(frozen=True, slots=True)
class Study:
    """The sensitivity of each launch, of all together where there are several, and the launches that were refused."""

    found: tuple[Sensitivity, ...]
    refused: tuple[Refused, ...]


def sensitivity_of(
    launches: Sequence[Launch],
    gpu: GPU,
    question: Question,
    wanted: Sequence[Parameter] = (),
    means: Means | None = None,
) -> Study:
    """Return the sensitivity of each launch that can be forecast on a GPU, and of all together."""
    means, chosen = means or Means(), tuple(wanted) or parameters()
    asked: list[tuple[WhatIf, Prediction]] = []
    refused = []
    for launch in launches:
        try:
            what_if = WhatIf.of(launch, gpu, question, means)
            asked.append((what_if, what_if.forecast()))
        except Refusal as refusal:
            name = launch.kernel or launch.source.stem
            refused.append(Refused(name, launch.index, gpu.name, str(refusal), type(refusal)))
    found = []
    for number, (what_if, prediction) in enumerate(asked):
        done = number * len(chosen), len(asked) * len(chosen)
        found.append(_of_one(what_if, prediction, chosen, _reporter(means.progress, what_if.kernel, done)))
    return Study(tuple(found) if len(found) <= 1 else (*found, _together(found)), tuple(refused))


def _reporter(progress: Progress | None, kernel: str, done: tuple[int, int]) -> Callable[[int], None]:
    """Return what is told the number of each parameter; ``done`` are those of earlier launches, and all."""

    def report(number: int) -> None:
        if progress:
            progress(f"changing parameters of the GPU under {kernel}", done[0] + number, done[1])

    return report


def _of_one(
    what_if: WhatIf, prediction: Prediction, chosen: Sequence[Parameter], report: Callable[[int], None]
) -> Sensitivity:
    error = min(_MOST_ERROR, max(_LEAST_ERROR, math.sqrt(prediction.high / prediction.low)))
    found, unknown = [], []
    for number, parameter in enumerate(chosen):
        report(number)
        curve = _Curve(what_if, parameter, prediction)
        elasticity = curve.elasticity(error)
        # What changes nothing under the roofline is not in it.
        is_modelled = prediction.model == DEFAULT_MODEL or (elasticity and elasticity.low < elasticity.high)
        if elasticity is None or not is_modelled:
            unknown.append(parameter)
        else:
            found.append(elasticity)
    return Sensitivity(
        name=what_if.kernel,
        launches=(what_if.launch.index,),
        gpu=what_if.gpu,
        seconds=prediction.seconds,
        low=prediction.low,
        high=prediction.high,
        predictions=(prediction,),
        elasticities=_strongest_first(found),
        unknown=tuple(unknown),
    )


class _Curve:
    """The time of one launch against one parameter, at the points that are asked for."""

    def __init__(self, what_if: WhatIf, parameter: Parameter, prediction: Prediction) -> None:
        self._what_if, self._parameter, self._model = what_if, parameter, prediction.model
        self._points: dict[float, Point] = {1.0: Point(1.0, prediction.seconds)}

    def elasticity(self, error: float) -> Elasticity | None:
        """Return the elasticity with its interval, None where the parameter is unknown, or nothing can be changed."""
        ends = self._at(1 / _HALF), self._at(_FAR)
        if ends == (None, None):
            return None
        own = self._points[1.0].seconds
        if all(point is not None and abs(point.seconds / own - 1) < _SAME for point in ends):
            return Elasticity(self._parameter, 0.0, 0.0, 0.0, self._sorted())
        for factor in (1 / error, 1 / _STEP, _STEP, error, _HALF):
            self._at(factor)
        near = self._between(_HALF if self._parameter.in_steps else error)
        middle = self._points[1.0]
        both_ways = [_slope(each, middle) for each in (near[0], near[-1]) if each is not middle]
        slope = _slope(near[0], near[-1]) if self._parameter.in_steps else _fitted(near)
        return Elasticity(self._parameter, slope, min(slope, *both_ways), max(slope, *both_ways), self._sorted())

    def _between(self, factor: float) -> list[Point]:
        """Return the points up to a factor from the GPU's own value, both ways; all where there are no others."""
        found = [point for point in self._sorted() if 1 / factor / _ROUNDED <= point.factor <= factor * _ROUNDED]
        return found if len(found) > 1 else list(self._sorted())

    def _sorted(self) -> tuple[Point, ...]:
        return tuple(sorted(self._points.values(), key=lambda point: point.factor))

    def _at(self, factor: float) -> Point | None:
        """Return the point at a factor; None where the parameter is unknown, or such a GPU cannot be."""
        try:
            found = changed(self._what_if.gpu, self._parameter, factor)
            if found is None:
                return None
            gpu, real = found
            if real not in self._points:
                self._points[real] = Point(real, self._what_if.seconds_on(gpu, self._model))
        except (GPUError, Refusal):  # a block no longer fits an SM, or a value lies beyond all GPUs
            return None
        return self._points[real]


def _slope(one: Point, other: Point) -> float:
    return math.log(other.seconds / one.seconds) / math.log(other.factor / one.factor)


def _fitted(points: Sequence[Point]) -> float:
    """Return the slope of ln(time) over ln(factor) by least squares, which averages what the simulation rounds."""
    x, y = np.log([[p.factor for p in points], [p.seconds for p in points]])
    x -= x.mean()
    return float(x @ y / (x @ x))


def _strongest_first(found: Iterable[Elasticity]) -> tuple[Elasticity, ...]:
    return tuple(sorted(found, key=lambda each: -abs(each.elasticity)))


def _together(found: Sequence[Sensitivity]) -> Sensitivity:
    """Return the sensitivity of all launches one after the other: each counts by its part of the time."""
    total = sum(each.seconds for each in found)
    by_name: dict[str, list[tuple[float, Elasticity]]] = {}
    for each in found:
        for elasticity in each.elasticities:
            by_name.setdefault(elasticity.parameter.name, []).append((each.seconds, elasticity))
    whole = [_sum(rows, total, len(found)) for rows in by_name.values()]
    known = {each.parameter.name for each in whole if each is not None}
    every = {p.name: p for each in found for p in (*each.unknown, *(e.parameter for e in each.elasticities))}
    return Sensitivity(
        name="all launches",
        launches=tuple(number for each in found for number in each.launches),
        gpu=found[0].gpu,
        seconds=total,
        low=sum(each.low for each in found),
        high=sum(each.high for each in found),
        predictions=tuple(p for each in found for p in each.predictions),
        elasticities=_strongest_first(each for each in whole if each is not None),
        unknown=tuple(p for name, p in every.items() if name not in known),
    )


def _sum(rows: Sequence[tuple[float, Elasticity]], total: float, launches: int) -> Elasticity | None:
    """Return the elasticity of a sum; None where it is known of some launches only."""
    if len(rows) < launches:
        return None
    weighted = [
        sum(seconds * getattr(each, name) for seconds, each in rows) / total for name in ("elasticity", "low", "high")
    ]
    factors = sorted({point.factor for _, each in rows for point in each.points})
    points = tuple(Point(factor, sum(each.seconds_at(factor) for _, each in rows)) for factor in factors)
    return Elasticity(rows[0][1].parameter, weighted[0], weighted[1], weighted[2], points)
