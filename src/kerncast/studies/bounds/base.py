"""The question to every method of bounding a time on parts of a GPU, and the answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.measurements import PartitionTimes

if TYPE_CHECKING:
    from kerncast.studies.bounds.extreme_values import ExtremeFit
    from kerncast.studies.bounds.simulation import SimulatedCurve

Floats = npt.NDArray[np.float64]


#: Times that differ by a smaller share are the same but for rounding.
ROUNDING = 2.0**-30


class Kind(StrEnum):
    """The kinds of bounds, by what they rest on."""

    MARGIN = "margin"
    """a forecast and a margin, as published; nothing is promised"""
    CONFORMAL = "conformal"
    """a stated probability, calibrated on other kernels and on repeats"""
    ANALYTICAL = "analytical"
    """a proof from stated assumptions"""
    EXTREME = "extreme"
    """the fitted tail of many repeats"""


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds on ascending numbers of TPCs."""

    counts: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, counts: Sequence[int]) -> Floats:
        """Return the seconds of these counts; raises KeyError for one that the curve lacks."""
        known = dict(zip(self.counts, self.seconds, strict=True))
        return np.array([known[count] for count in counts], np.float64)

    def instead_of(self, others: Floats, counts: Sequence[int]) -> Floats:
        """Return times of some counts, those that the curve has replaced by its own."""
        known = dict(zip(self.counts, self.seconds, strict=True))
        return np.array([known.get(count, float(other)) for count, other in zip(counts, others, strict=True)])

    def never_rising(self) -> "Curve":
        """Return the lowest curve above this one that never rises with more TPCs.

        >>> Curve((1, 2, 3), (3.0, 1.0, 2.0)).never_rising().seconds
        (3.0, 2.0, 2.0)
        """
        return Curve(self.counts, never_rising(self.seconds))

    def with_point(self, count: int, seconds: float) -> "Curve":
        """Return the curve with one more count."""
        known = dict(zip(self.counts, self.seconds, strict=True)) | {count: seconds}
        ordered = tuple(sorted(known))
        return Curve(ordered, tuple(known[each] for each in ordered))


def never_rising(seconds: Sequence[float] | Floats) -> tuple[float, ...]:
    """Return the lowest times above some, on ascending numbers of TPCs, that never rise with more TPCs."""
    return tuple(np.maximum.accumulate(np.array(seconds, np.float64)[::-1])[::-1].tolist())


def typical_of(times: PartitionTimes) -> Curve:
    """Return the median time of each measured count."""
    return Curve(times.counts, tuple(map(median, times.by_count().values())))


def largest_of(times: PartitionTimes) -> Curve:
    """Return the longest time of each measured count."""
    return Curve(times.counts, tuple(map(max, times.by_count().values())))


def at_least_measured(bounds: Floats, runs: PartitionTimes, counts: Sequence[int]) -> Floats:
    """Return bounds in seconds of ascending counts, none below a run on as many TPCs or more.

    >>> at_least_measured(np.array([3.0, 1.0, 1.0]), PartitionTimes((2, 2), (1.5, 2.0)), (1, 2, 3)).tolist()
    [3.0, 2.0, 1.0]
    """
    measured = largest_of(runs).instead_of(np.zeros(len(counts)), counts)
    return np.array(never_rising(np.maximum(bounds, measured)), np.float64)


def answer_on(question: "BoundQuestion", counts: Sequence[int], bounds: Floats, expected: Curve) -> "BoundAnswer":
    """Return the answer to what was asked by bounds in seconds of ascending counts; no bound is below the expected."""
    bound = Curve(tuple(counts), tuple(bounds.tolist())).at(question.tpcs)
    return BoundAnswer(
        expected=tuple(np.minimum(expected.at(question.tpcs), bound).tolist()),
        bound=tuple(bound.tolist()),
        calibrated_on=question.runs.counts if question.runs else (),
    )


def between(known: Curve, counts: Sequence[int]) -> Floats:
    """Return the times of other counts: straight lines in 1/k through the known ones, never beyond ideal scaling.

    >>> between(Curve((1, 4), (5.0, 2.0)), (1, 2, 4, 8)).tolist()
    [5.0, 3.0, 2.0, 1.5]
    """
    x = 1 / np.array(known.counts, np.float64)
    y = np.array(known.seconds)
    wanted = 1 / np.array(counts, np.float64)
    lines = np.interp(wanted, x[::-1], y[::-1])
    if len(x) > 1:
        fewer, more = wanted > x[0], wanted < x[-1]
        lines = np.where(fewer, y[0] + (y[0] - y[1]) / (x[0] - x[1]) * (wanted - x[0]), lines)
        lines = np.where(more, y[-1] + (y[-2] - y[-1]) / (x[-2] - x[-1]) * (wanted - x[-1]), lines)
    first, last = y[0] * wanted / x[0], y[-1] * wanted / x[-1]
    lines = np.where(wanted > x[0], np.clip(lines, y[0], first) if len(x) > 1 else first, lines)
    lines = np.where(wanted < x[-1], np.clip(lines, last, y[-1]) if len(x) > 1 else last, lines)
    return np.asarray(lines, np.float64)


_MOST_FACTOR = 100.0
#: What is known of runs before any is repeated: as if so many lay above the median, with this sum of ln(run / median).
#: From ten runs each of 17,074 launches of six kernels on a Tesla K40 (gpuperfpredict, Amaris et al., CC BY 4.0): the
#: longest is more than 9.2, 18.6 and 24.7 % above the median in 5, 1 and 0.5 %; by these numbers 8.4, 21.3 and 31.8 %.
_PRIOR_RUNS, _PRIOR_SUM = 2, 0.009


@dataclass(frozen=True, slots=True)
class Spread:
    """The distance of runs from the median, as the repeats tell it."""

    factor: float
    """multiple of the median that the longest of ``runs`` runs exceeds with probability ``risk``"""
    runs: int
    """most repeats of any TPC count"""
    risk: float


def spread_of(times: PartitionTimes, risk: float) -> Spread:
    """Return the spread of all repeats, taken to be the same factor on any number of TPCs.

    Above the median, the logarithm of a run's ratio to it is taken to be exponential: a Pareto tail, heavier than the
    normal one. If j ratios above it have the sum s, a further one passes ``exp(x)`` with the probability
    ``(1 + x/s)**-j``, what is not known of their mean included, and half of all runs are above the median. The longest
    of n runs passes it with at most n/2 times that, which is the risk for ``x = s ((n / (2 risk))**(1/j) - 1)``.
    Measured repeats of other kernels count as two runs more, so that a single run has an allowance, too.
    Rare slow runs hide in a mean. The longest of j such logarithms is about ``s/j log j``, which gives s again: the
    larger factor is taken. No factor is above 100: where more were needed, the risk is the one that is left. Fails
    where runs depend on one another, or where a slow mode was never seen.

    >>> round(spread_of(PartitionTimes((1, 2), (2.0, 1.0)), risk=0.005).factor, 4)  # exp(0.009 (sqrt(100) - 1))
    1.0844
    """
    above: list[float] = []
    largest, runs = 1.0, 1
    for repeats in times.by_count().values():
        middle = median(repeats)
        runs = max(runs, len(repeats))
        largest = max(largest, max(repeats) / middle)
        above += _logs_above(repeats)
    number, total = _PRIOR_RUNS + len(above), _PRIOR_SUM + sum(above)
    exponent = total * ((runs / (2 * risk)) ** (1 / number) - 1)
    if len(above) > 1:
        exponent = max(exponent, math.log(runs / (2 * risk)) / math.log(len(above)) * max(above))
    if exponent > math.log(_MOST_FACTOR):
        exponent = math.log(_MOST_FACTOR)
        risk = max(risk, _risk_beyond(exponent, above, runs))
    return Spread(max(largest, math.exp(exponent)), runs, risk)


@dataclass(frozen=True, slots=True)
class RunTails:
    """How a further run of each count may differ from the median: it passes exp(x) times it with (1 + x/s)**-j / 2."""

    runs: Floats
    """[counts] j"""
    totals: Floats
    """[counts] s"""


def run_tails(times: PartitionTimes | None, counts: Sequence[int]) -> RunTails:
    """Return the tails of counts that were measured, by their own runs, and of others, by what runs of kernels do.

    The repeats of one count say little of those of another: of the measured launches that the prior is from, launches
    whose ten runs lay within 0.4 % have neighbours whose runs spread as widely as all others. So repeats can make the
    tail of another count heavier, and never lighter, than that of other kernels.
    """
    runs, totals = np.full(len(counts), float(_PRIOR_RUNS)), np.full(len(counts), _PRIOR_SUM)
    if times is None:
        return RunTails(runs, totals)
    above = {count: _logs_above(repeats) for count, repeats in times.by_count().items()}
    every = [each for logs in above.values() for each in logs]
    if every and sum(every) / len(every) > _PRIOR_SUM / _PRIOR_RUNS:
        runs[:], totals[:] = _PRIOR_RUNS + len(every), _PRIOR_SUM + sum(every)
    for place, count in enumerate(counts):
        if count in above:
            runs[place], totals[place] = _PRIOR_RUNS + len(above[count]), _PRIOR_SUM + sum(above[count])
    return RunTails(runs, totals)


def passed_with(risk: float, nodes: Floats, weights: Floats, tails: RunTails) -> Floats:
    """Return [counts] ln(seconds) that a run passes with the probability ``risk``.

    ``nodes`` are [n, counts] ln(seconds) that the median may have, ``weights`` their probabilities.

    >>> known = RunTails(np.array([2.0]), np.array([0.009]))
    >>> float(passed_with(0.005, np.zeros((1, 1)), np.ones(1), known).round(4)[0])  # 0.009 (sqrt(100) - 1)
    0.081
    """
    low = nodes.min(axis=0)
    high = nodes.max(axis=0) + tails.totals * ((0.5 / min(risk, 0.5)) ** (1 / tails.runs) - 1) + ROUNDING
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = np.maximum(middle - nodes, 0.0)
        passed = np.where(nodes > middle, 1.0, 0.5 * (1 + beyond / tails.totals) ** -tails.runs)
        is_low = weights @ passed > risk
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.asarray(high, np.float64)


#: Of the interval in which a quantile is sought: what is left is less than the rounding of a time.
_HALVINGS = 48


def _logs_above(repeats: Sequence[float]) -> list[float]:
    """Return ln(run / median) of the runs above the median: of n runs n // 2, those that equal it among them."""
    middle = median(repeats)
    return sorted(math.log(each / middle) for each in repeats)[(len(repeats) + 1) // 2 :]


def _risk_beyond(exponent: float, above: list[float], runs: int) -> float:
    """Return the probability that the longest of so many runs passes a factor, by the larger of both tails."""
    tails = [(1 + exponent / (_PRIOR_SUM + sum(above))) ** -(_PRIOR_RUNS + len(above))]
    if len(above) > 1 and max(above) > 0:
        tails.append(len(above) ** (-exponent / max(above)))
    return min(1.0, runs / 2 * max(tails))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The grid of a kernel whose blocks all take equally long."""

    count: int
    per_tpc: int = 1
    """blocks resident on one TPC at a time"""

    def __post_init__(self) -> None:
        if not (1 <= self.count < 2**63 and 1 <= self.per_tpc <= 2**16):
            raise InputError(
                f"{self.count} blocks, {self.per_tpc} per TPC", cure="Give the blocks of the grid, and how many fit."
            )

    def waves(self, tpcs: Sequence[int]) -> Floats:
        """Return how many times each number of TPCs is filled with blocks.

        >>> Blocks(100, per_tpc=16).waves((1, 2, 7)).tolist()
        [7.0, 4.0, 1.0]
        """
        return np.array([-(-self.count // (self.per_tpc * each)) for each in tpcs], np.float64)


def standard_scale(values: Floats) -> Floats:
    """Return the standard deviation of each column, 1 where a column is constant but for rounding.

    >>> standard_scale(np.array([[0.1, 3.0]] * 999 + [[0.1, 1.0]])).round(3).tolist()
    [1.0, 0.063]
    """
    spread = np.asarray(values.std(axis=0))
    return np.where(spread > ROUNDING * np.abs(values).max(axis=0), spread, 1.0)


@dataclass(frozen=True, slots=True)
class Regressors:
    """The numbers that a base model learns from, and those of each number of TPCs."""

    names: tuple[str, ...]
    training_values: Floats
    """[launches, regressors]"""
    training_seconds: Floats
    counts: tuple[int, ...]
    values: Floats
    """[counts, regressors]"""


@dataclass(frozen=True, slots=True)
class BoundQuestion:
    """What is known of a kernel, and the numbers of TPCs to bound; raises InputError for a contradiction."""

    times: PartitionTimes | None
    """measured times; None where nothing was measured"""
    anchors: tuple[int, ...]
    """TPC counts whose times a method may use; empty without times"""
    tpcs: tuple[int, ...]
    """TPC counts to bound, ascending"""
    most: int
    """TPCs of the GPU"""
    level: float = 0.99
    """probability with which a run is to stay below the bound, for methods that state one"""
    regressors: Regressors | None = None
    """regressors of the counts asked for and of the measured ones; None for methods without a base model"""
    blocks: Blocks | None = None
    simulated: "SimulatedCurve | None" = None
    """simulated times of the counts asked for and of the measured ones; None where there is no launch"""
    worst: Curve | None = None
    """times of the worst path of the same counts; None where there is no launch"""

    def __post_init__(self) -> None:
        if self.times is not None:
            measured_anchors(self.times, self.anchors)

    @property
    def runs(self) -> PartitionTimes | None:
        """The runs that a method may use; None where nothing was measured."""
        return None if self.times is None else self.times.only(self.anchors)

    @property
    def all_runs(self) -> PartitionTimes:
        """All measured runs, also those that only an oracle may see; raises InputError where nothing was measured."""
        if self.times is None:
            raise InputError("this method needs measured times", cure="Add --times times.csv.")
        return self.times

    @property
    def measured(self) -> PartitionTimes:
        """The runs that a method may use; raises InputError where nothing was measured."""
        return self.all_runs.only(self.anchors)

    @property
    def risk(self) -> float:
        """Probability that is left for a run above the bound."""
        return 1 - self.level

    @property
    def curve(self) -> "SimulatedCurve":
        """The simulated launch; raises InputError where there is none."""
        if self.simulated is None:
            raise InputError("this method needs a launch", cure="Give a launch file, and the times as --times.")
        return self.simulated

    @property
    def counts(self) -> tuple[int, ...]:
        """TPC counts asked for and those that were measured, ascending."""
        return tuple(sorted({*self.tpcs, *self.anchors}))


def measured_anchors(times: PartitionTimes, anchors: tuple[int, ...]) -> tuple[int, ...]:
    """Return the anchors; raises InputError where there are none, or one was not measured."""
    unknown = sorted(set(anchors) - set(times.counts))
    if unknown or not anchors:
        named = ", ".join(map(str, unknown))[:200] or "none"
        raise InputError(
            f"anchors without a measured time: {named}",
            where=times.source,
            cure=f"Measured are {', '.join(map(str, times.counts))[:200]} TPCs.",
        )
    return anchors


class Contradiction(StrEnum):
    """The ways in which measured times contradict the assumptions of a bound."""

    SLOWER_WITH_MORE = "slower-with-more-tpcs"
    """the kernel took longer on more TPCs"""
    LESS_WORK_WITH_MORE = "less-work-with-more-tpcs"
    """the kernel sped up by more than the TPCs grew"""
    ABOVE_OTHERS = "above-the-bound-of-others"
    """a measured time is above the bound that the other times give"""
    NO_STAIRCASE = "no-staircase"
    """no number of equal blocks gives these times"""
    FAR_FROM_SIMULATION = "far-from-the-simulation"
    """a measured time is outside the interval of its simulation"""
    SIMULATION_ABOVE_WORST_PATH = "simulation-above-the-worst-path"
    """the simulated time is above what the worst path allows"""
    ABOVE_WORST_PATH = "above-the-worst-path"
    """a measured time is above what the worst path allows"""


@dataclass(frozen=True, slots=True)
class BoundAnswer:
    """Expected times and bounds in seconds, one per number of TPCs asked, and how they came about."""

    expected: tuple[float, ...]
    bound: tuple[float, ...]
    calibrated_on: tuple[int, ...]
    """TPC counts whose measured times were used; no bound is below them"""
    known_beside: tuple[int, ...] = ()
    """further TPC counts whose measured times the choice of the bounds used"""
    margin: float | None = None
    """share added to the expected times; None where none was"""
    offset_seconds: float | None = None
    """seconds added to the expected times; None where none were"""
    spread: Spread | None = None
    """spread of the repeats"""
    is_enough: bool = True
    """whether the largest margin lifted all times that judge it"""
    contradictions: tuple[Contradiction, ...] = ()
    extremes: "ExtremeFit | None" = None
    """tail that was fitted to the repeats"""
    measure_next: int | None = None
    """TPC count whose time would tighten the bounds most; None where the method does not tell"""


class BoundMethod(Protocol):
    """One way to bound the time of a kernel on parts of a GPU."""

    @property
    def name(self) -> str:
        """Name for ``--method``; ``-oracle`` looks at the times that it is judged by."""

    @property
    def kind(self) -> Kind:
        """What its bounds rest on."""

    @property
    def has_base_model(self) -> bool:
        """Whether it needs regressors."""

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the bounds; raises InputError where the question lacks something."""


def regressors_of(question: BoundQuestion) -> Regressors:
    """Return the regressors of a question; raises InputError where there are none."""
    if question.regressors is None:
        raise InputError("this method needs a form of k or features to learn from", cure="Name --form, or --train.")
    return question.regressors


def judged_times(question: BoundQuestion, method: str) -> Curve:
    """Return the longest times of all counts that were measured and have regressors.

    Raises InputError where none is beyond the anchors: then there is nothing that an oracle could see.
    """
    known = set(regressors_of(question).counts)
    counts = tuple(count for count in question.all_runs.counts if count in known)
    if not set(counts) - set(question.anchors):
        raise InputError(
            f"{method} sets itself by times that it should forecast, and none is measured beside the anchors",
            cure=f"Name fewer --anchors, measure more counts, or use {method.removesuffix('-oracle')}.",
        )
    return largest_of(question.all_runs.only(counts))
