"""The base of all models: a name, one verb, and an interval that says how far it can be trusted."""

import csv
import math
import tomllib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import kerncast
from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.launch import Launch
from kerncast.models.clock import UnknownClock, unknown_clock
from kerncast.prediction import Prediction, Term, Timing, Transfer
from kerncast.profiles import Count, KernelProfile
from kerncast.traces import Execution
from kerncast.units import PERCENT

if TYPE_CHECKING:
    from kerncast.observation import Observation, TimedKernel

# By what factor a model's forecasts were off on measured kernels: the width of its interval.
#
# Each file of ``data/calibration`` holds one model's factors: a share ``level`` of measurements lay between the
# forecast divided and multiplied by the factor, with kernel families as the unit. The files are written by
# ``tools/calibrate_interval.py``. Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive
# inference for regression", JASA 113, 2018 (split conformal); Dunn, Wasserman, Ramdas, "Distribution-free prediction
# sets for two-layer hierarchical models", JASA 118, 2023 (groups, each with the same weight). Fails when: a kernel is
# unlike all that were measured.


#: Version of the form of these files.
VERSION = 1
_FOLDER = Path(kerncast.__path__[0]) / "data" / "calibration"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factors of one model."""

    levels: tuple[float, ...]
    """levels of the intervals, ascending"""
    factors: tuple[float, ...]
    families: int
    """number of measured kernels; all sizes and GPUs of one count once"""
    cases: int
    measured: str
    """measured data sets, for messages"""
    microarchitectures: tuple[str, ...] = ()
    """microarchitectures of the measured GPUs, such as Volta; empty where unknown"""

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
        return "measured is not text"
    names = found.get("microarchitectures", [])
    if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
        return "microarchitectures is not a list of names"
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
    with (_FOLDER / "coverage.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    return tuple(Coverage(row["set"], int(row["cases"]), float(row["held"])) for row in rows)


def coverage_text(model: str) -> str:
    """Return the measured coverage of a model for a caveat, such as ``9 % (rodinia)``.

    >>> coverage_text("ceilings")
    '9 % (rodinia), 12 % (vecmat), 32 % (convolution of KTT)'
    """
    return ", ".join(f"{found.held / PERCENT:.0f} % ({found.set})" for found in coverage_of(model))


def _z(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)


#: Between generations of instruction sets forecasts are off by up to a factor of 2 in 90 % of cases (projection study
#: of this project, empirical factors): ln(2) / 1.645. The same where a microarchitecture was not measured: of five left
#: out in turn, the others' factor alone holds too few (docs/timing-validation.md).
FOREIGN_CODE_LOG_SIGMA = 0.42
#: A working set below this part of L2 stays there between launches, above the second one nothing does (timing study).
_L2_KEPT, _L2_LOST = 0.9, 1.1


@dataclass(frozen=True, slots=True)
class Question:
    """The question to a model, beside the kernel and the GPU."""

    timing: Timing = Timing.SERIES
    level: float = 0.9
    """share of measured times that the interval is to contain"""


@dataclass(frozen=True, slots=True)
class Case:
    """One launch paired with the GPU to forecast it on."""

    profile: KernelProfile
    """profile as compiled for this GPU, or as measured on another one"""
    gpu: GPU
    execution: Execution | None = None
    """record of the executed blocks, as far as the model needs it; None where only counts are known"""
    source: KernelProfile | None = None
    """profile as compiled for the GPU of a measured run (its ``run``); None without a measured time"""
    launch: Launch | None = None
    """launch with macros and arguments; None where only a profile or counts are given"""
    times: "tuple[Observation, ...]" = ()
    """all measured times of the launch, the run of its profile among them"""


@dataclass(frozen=True, slots=True)
class TimedCase:
    """One kernel of which only times are known, paired with the GPU to forecast it on."""

    timed: "TimedKernel"
    gpu: GPU


@dataclass(frozen=True, slots=True)
class Estimate:
    """The result of a model's equations, before the interval is put around it."""

    seconds: float
    limiter: str
    terms: tuple[Term, ...]
    low: float
    """lower end by the bounds of the counts alone"""
    high: float
    caveats: tuple[Caveat, ...] = ()
    transfer: Transfer | None = None


class Needs(IntEnum):
    """The records that a model needs of the executor; all are gathered before the model runs."""

    COUNTS = 0
    """the profile's counts"""
    SAMPLE = 1
    """the sample of blocks, where the source is known"""
    SM = 2
    """the sample, and the blocks of one SM in detail"""


class Model(ABC):
    """A method that forecasts one launch on one GPU."""

    name: ClassVar[str]
    needs: ClassVar[Needs] = Needs.COUNTS
    log_sigma: ClassVar[float]
    """assumed standard deviation of ln(measured / forecast): not calibrated"""
    uses_measured_run: ClassVar[bool] = False
    """whether the model carries a measured time over from another GPU"""
    uses_caches: ClassVar[bool] = False
    """whether the model needs the caches of each GPU simulated"""
    has_own_errors: ClassVar[bool] = False
    """whether the interval is from the model's own measured variances, and not from a file of factors"""
    has_published_interval: ClassVar[bool] = False
    """whether the interval is the one of the model's paper, which no level changes"""

    follows_clock: ClassVar[bool] = True
    """whether an unknown clock makes the interval wider; not one that is published, or has published constants"""

    @abstractmethod
    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the time by the model's equations; raises MissingEvidenceError."""

    def other_generation(self, case: Case, factor: float) -> Caveat | None:
        """Return what is of another generation of instruction set than the GPU, which widens the interval; or None."""
        resources = case.profile.resources
        if resources is None or not is_foreign_code(resources.architecture, case.gpu):
            return None
        return Caveat.of(CaveatKind.CODE_OF_OTHER_GENERATION, resources.architecture, factor=factor)

    def error_factor(self, case: Case, level: float) -> tuple[float, tuple[Caveat, ...]]:
        """Return what the equations' bounds are multiplied and divided by at this level, and why."""
        calibration = calibration_of(self.name)
        own = calibration.factor(level) if calibration else interval_factor(self.log_sigma, level)
        uncalibrated = Caveat.of(CaveatKind.INTERVAL_UNCALIBRATED, level=level, factor=own)
        usual = _calibrated(calibration, own, level) if calibration else (uncalibrated,)
        wider = widened(own, FOREIGN_CODE_LOG_SIGMA, level)
        reasons = []
        if other_generation := self.other_generation(case, wider):
            reasons.append(other_generation)
        if calibration and not calibration.has_seen(case.gpu):
            name = case.gpu.architecture.microarchitecture
            reasons.append(Caveat.of(CaveatKind.MICROARCHITECTURE_NOT_MEASURED, name, factor=wider))
        return wider if reasons else own, (*reasons, *usual)

    def predict(self, case: Case, question: Question) -> Prediction:
        """Return the forecast of a case that holds all that the model needs."""
        return self.forecast(case, self.estimate(case, question.timing), question)

    def forecast(self, case: Case, estimate: Estimate, question: Question) -> Prediction:
        """Return an estimate with its interval: the equations' bounds, widened by the model's error."""
        profile, gpu = case.profile, case.gpu
        factor, notes = self.error_factor(case, question.level)
        unknown = UnknownClock() if self.knows_clock(case) else unknown_clock(gpu, estimate.seconds, estimate.terms)
        below, above = (widened(factor, each, question.level) for each in (unknown.faster, unknown.slower))
        return Prediction(
            kernel=profile.kernel,
            launch=profile.index,
            gpu=gpu.name,
            gpu_id=gpu.id,
            seconds=estimate.seconds,
            low=estimate.low / below,
            high=estimate.high * above,
            level=question.level,
            timing=question.timing,
            limiter=estimate.limiter,
            terms=estimate.terms,
            caveats=(
                *profile.caveats, *estimate.caveats, *notes, *unknown.caveats(gpu, below / factor, above / factor),
            ),
            model=self.name,
            transfer=estimate.transfer,
        )  # fmt: skip

    def knows_clock(self, case: Case) -> bool:
        """Whether no clock has to be assumed: a time measured on this GPU already holds what its clock does."""
        measured = [time.gpu for time in case.times]
        if case.source is not None and case.source.run is not None:
            measured.append(case.source.run.gpu)
        is_measured = any(gpu.id == case.gpu.id and gpu.clock_hz == case.gpu.clock_hz for gpu in measured)
        return is_measured or not self.follows_clock


def launch_s(gpu: GPU, timing: Timing, body_s: float) -> float:
    """Return what the launch adds to a body of so many seconds: in a series, at least the GPU's shortest interval."""
    overhead = launch_overhead_s(timing)
    if timing is Timing.SERIES and gpu.launch_interval_s is not None:
        return max(overhead, gpu.launch_interval_s - body_s)
    return overhead


def lost_from_l2(fill: float) -> float:
    """Return the part of a working set that a launch no longer finds in L2, by how often the set fills L2."""
    return min(1.0, max(0.0, (fill - _L2_KEPT) / (_L2_LOST - _L2_KEPT)))


def _calibrated(calibration: Calibration, factor: float, level: float) -> tuple[Caveat, ...]:
    found = Caveat.of(
        CaveatKind.INTERVAL_CALIBRATED,
        calibration.measured,
        level=level,
        factor=factor,
        cases=calibration.cases,
        families=calibration.families,
    )
    if calibration.tells(level):
        return (found,)
    lowest, highest = calibration.levels[0], calibration.levels[-1]
    return found, Caveat.of(CaveatKind.INTERVAL_EXTRAPOLATED, level=level, lowest=lowest, highest=highest)


def is_foreign_code(architecture: str, gpu: GPU) -> bool:
    """Return whether code is for another generation of instruction set than the GPU's."""
    return int(architecture.removeprefix("sm_")) // 10 != gpu.architecture.number // 10


def interval_factor(log_sigma: float, level: float) -> float:
    """Return by how much to multiply and divide so that a lognormal error stays inside with this probability.

    >>> round(interval_factor(0.6, 0.9), 2)
    2.68
    """
    return math.exp(log_sigma * NormalDist().inv_cdf(0.5 + level / 2))


def widened(factor: float, log_sigma: float, level: float) -> float:
    """Return the factor of an interval that a further, independent lognormal error makes wider.

    >>> round(widened(2.0, 0.0, 0.9), 3), round(widened(1.0, 0.6, 0.9), 2)
    (2.0, 2.68)
    """
    if not log_sigma:
        return factor
    return math.exp(math.hypot(math.log(factor), math.log(interval_factor(log_sigma, level))))


def needed(count: Count | None, what: str, profile: KernelProfile) -> Count:
    """Return a count that a model cannot do without; raises MissingEvidenceError when it is unknown."""
    if count is None:
        raise MissingEvidenceError(
            f"{what} is unknown for {profile.kernel}", cure="Give the source, or declare the count."
        )
    return count


def known_fact(value: float | None, key: str, gpu: GPU) -> float:
    """Return a fact of a GPU or its architecture; raises MissingEvidenceError where it is unknown."""
    if value is None:
        raise MissingEvidenceError(
            f"{key} is unknown for {gpu.architecture.name}",
            where=gpu.name,
            cure="Give it in the architecture's file, or use --model roofline.",
        )
    return value
