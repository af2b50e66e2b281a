"""What every model has in common: a name, one verb, and an interval that says how far it can be trusted."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from statistics import NormalDist
from typing import ClassVar

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.launch import Launch
from kerncast.models.calibration import Calibration, calibration_of
from kerncast.prediction import Prediction, Term, Timing, Transfer
from kerncast.profiles import Count, KernelProfile
from kerncast.traces import Execution

#: Between generations of instruction sets forecasts are off by up to a factor of 2 in 90 % of cases (projection study
#: of this project, empirical factors): ln(2) / 1.645. The same where a microarchitecture was not measured: of five left
#: out in turn, the others' factor alone holds too few (docs/timing-validation.md).
FOREIGN_CODE_LOG_SIGMA = 0.42
#: A working set below this part of L2 stays there between launches, above the second one nothing does (timing study).
_L2_KEPT, _L2_LOST = 0.9, 1.1


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a model, beside the kernel and the GPU."""

    timing: Timing = Timing.SERIES
    level: float = 0.9
    """share of truths that the interval is to contain"""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a launch, with the GPU that it is to be timed on."""

    profile: KernelProfile
    """as compiled for this GPU, or as profiled on another one"""
    gpu: GPU
    execution: Execution | None = None
    """what running its blocks has told, as far as the model needs it; None where only counts are known"""
    source: KernelProfile | None = None
    """as compiled for the GPU of a measured run, which is its ``run``; None without a measured time"""
    launch: Launch | None = None
    """with its macros and arguments; None where only a profile or counts are given"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model's equations give, before the interval is put around it."""

    seconds: float
    limiter: str
    terms: tuple[Term, ...]
    low: float
    """by the bounds of the counts alone"""
    high: float
    caveats: tuple[Caveat, ...] = ()
    transfer: Transfer | None = None


class Needs(IntEnum):
    """What a model asks of the executor; all of it is gathered before the model runs."""

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
    """whether it carries a measured time over from another GPU"""
    uses_caches: ClassVar[bool] = False
    """whether it asks what the caches of each GPU let through"""
    has_published_interval: ClassVar[bool] = False
    """whether its interval is the one of its paper, which no level changes"""

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
        usual = _calibrated(calibration, own, level) if calibration else _uncalibrated(own, level)
        wider = math.exp(math.hypot(math.log(own), math.log(interval_factor(FOREIGN_CODE_LOG_SIGMA, level))))
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
        return Prediction(
            kernel=profile.kernel,
            launch=profile.index,
            gpu=gpu.name,
            gpu_id=gpu.id,
            seconds=estimate.seconds,
            low=estimate.low / factor,
            high=estimate.high * factor,
            level=question.level,
            timing=question.timing,
            limiter=estimate.limiter,
            terms=estimate.terms,
            caveats=(*profile.caveats, *estimate.caveats, *notes),
            model=self.name,
            transfer=estimate.transfer,
        )


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


def _uncalibrated(factor: float, level: float) -> tuple[Caveat, ...]:
    return (Caveat.of(CaveatKind.INTERVAL_UNCALIBRATED, level=level, factor=factor),)


def is_foreign_code(architecture: str, gpu: GPU) -> bool:
    """Return whether code is for another generation of instruction set than the GPU's."""
    return int(architecture.removeprefix("sm_")) // 10 != gpu.architecture.number // 10


def interval_factor(log_sigma: float, level: float) -> float:
    """Return by how much to multiply and divide so that a lognormal error stays inside with this probability.

    >>> round(interval_factor(0.6, 0.9), 2)
    2.68
    """
    return math.exp(log_sigma * NormalDist().inv_cdf(0.5 + level / 2))


def needed(count: Count | None, what: str, profile: KernelProfile) -> Count:
    """Return a count that a model cannot do without; raises MissingEvidenceError when it is unknown."""
    if count is None:
        raise MissingEvidenceError(
            f"{what} is unknown for {profile.kernel}", cure="Give the source, or declare the count."
        )
    return count
