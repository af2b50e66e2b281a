"""The base of all models: a name, one verb, and an interval that says how far it can be trusted."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError, UnsupportedError
from kerncast.gpu import GPU, launch_overhead_s, load_architecture
from kerncast.launch import Launch
from kerncast.models.calibration import Calibration, calibration_of, normal_deviations
from kerncast.models.clock import UnknownClock, blame_of, unknown_clock
from kerncast.occupancy import block_request_of, occupancy
from kerncast.prediction import Prediction, SimulatedWork, Term, Timing, Transfer
from kerncast.profiles import Count, KernelProfile
from kerncast.traces import Execution

if TYPE_CHECKING:
    from kerncast.observation import Observation, TimedKernel

#: Between generations of instruction sets forecasts are off by up to a factor of 2 in 90 % of cases (projection study
#: of this project, empirical factors): ln(2) / 1.645. The same where a microarchitecture was not measured: of five left
#: out in turn, the others' factor alone holds too few (docs/timing-validation.md).
FOREIGN_CODE_LOG_SIGMA = 0.42
#: A working set below this part of L2 stays there between launches, above the second one nothing does (timing study).
_L2_KEPT, _L2_LOST = 0.9, 1.1
#: An interval that is wider than the median launch's by no more is not told, both in ln(time).
_TOLD_WIDTH = 1.1


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
class FeatureCase:
    """One row of a table of features, paired with the GPU to forecast it on."""

    kernel: str
    index: int
    """number of the row, from 0"""
    gpu: GPU
    source: str
    """file of the table"""


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
    log_sigma: float = 0.0
    """standard deviation of ln(measured / forecast) that this case adds to the model's"""
    work: SimulatedWork | None = None
    """work of the launch on this GPU; None where the model simulates nothing"""


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

    simulates_clusters: ClassVar[bool] = False
    """whether its equations have what the barriers of clusters cost"""

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

    def error_factor(self, case: Case, estimate: Estimate, level: float) -> tuple[float, tuple[Caveat, ...]]:
        """Return what the equations' bounds are multiplied and divided by at this level, and why."""
        calibration = calibration_of(self.name)
        if calibration is None:
            own = interval_factor(self.log_sigma, level)
            usual: tuple[Caveat, ...] = (Caveat.of(CaveatKind.INTERVAL_UNCALIBRATED, level=level, factor=own),)
        else:
            own, usual = _calibrated(calibration, estimate, level)
        own = widened(own, estimate.log_sigma, level)
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
        check_together(profile, gpu)
        factor, notes = self.error_factor(case, estimate, question.level)
        unknown = UnknownClock() if self.knows_clock(case) else unknown_clock(gpu, estimate.seconds, estimate.terms)
        below, above = (widened(factor, each, question.level) for each in (unknown.faster, unknown.slower))
        low = estimate.low / below
        waits = (*_grid_waits(profile), *_cluster_waits(profile, gpu, low if self.simulates_clusters else None))
        longest = max((wait.term for wait in waits), key=lambda term: term.seconds, default=None)
        return Prediction(
            kernel=profile.kernel,
            launch=profile.index,
            gpu=gpu.name,
            gpu_id=gpu.id,
            seconds=estimate.seconds + sum(wait.term.seconds for wait in waits),
            low=low + sum(wait.low for wait in waits),
            high=estimate.high * above + sum(wait.high for wait in waits),
            level=question.level,
            timing=question.timing,
            limiter=longest.name if longest and longest.seconds > estimate.seconds else estimate.limiter,
            terms=(*estimate.terms, *(wait.term for wait in waits if wait.term.seconds)),
            caveats=(
                *profile.caveats, *estimate.caveats, *(wait.told for wait in waits), *notes,
                *unknown.caveats(gpu, below / factor, above / factor),
            ),
            model=self.name,
            transfer=estimate.transfer,
            work=estimate.work,
        )  # fmt: skip

    def knows_clock(self, case: Case) -> bool:
        """Whether no clock has to be assumed: a time measured on this GPU already holds what its clock does."""
        measured = [time.gpu for time in case.times]
        if case.source is not None and case.source.run is not None:
            measured.append(case.source.run.gpu)
        is_measured = any(gpu.id == case.gpu.id and gpu.clock_hz == case.gpu.clock_hz for gpu in measured)
        return is_measured or not self.follows_clock


def check_together(profile: KernelProfile, gpu: GPU) -> None:
    """Raise UnsupportedError for a cooperative launch of more blocks than the GPU holds at once."""
    request = block_request_of(profile) if profile.grid_barriers is not None else None
    if request is None:
        return
    most = gpu.sm_count * occupancy(request, gpu.architecture).blocks_per_sm
    blocks = math.prod(profile.grid)
    if blocks > most:
        raise UnsupportedError(
            f"{blocks} blocks of a cooperative launch do not fit on the GPU at once",
            where=gpu.name,
            cure=f"It holds {most} of them: launch at most so many.",
        )


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The time for which blocks wait for one another, which an estimate lacks."""

    term: Term
    low: float
    high: float
    told: Caveat


def _grid_waits(profile: KernelProfile) -> tuple[_Waiting, ...]:
    """Return what the barriers of a cooperative launch add."""
    barriers, each = profile.grid_barriers or 0, launch_overhead_s("grid_barrier")
    low, high = (barriers * launch_overhead_s(name) for name in ("grid_barrier_low", "grid_barrier_high"))
    told = Caveat.of(CaveatKind.GRID_BARRIERS, str(barriers), seconds=each)
    return (_Waiting(Term("grid_barriers", barriers * each), low, high, told),) if barriers else ()


#: What clusters cost is known of Hopper alone; barriers of others are taken to cost as much, in as wide an interval.
_MEASURED_CLUSTERS = "sm_90"


def _cluster_waits(profile: KernelProfile, gpu: GPU, simulated: float | None) -> tuple[_Waiting, ...]:
    """Return what the barriers of clusters add, or how far they lie from the middle where a simulation has that.

    ``simulated`` is the low end of a simulation, which each barrier's latency may make less.
    """
    use, a = profile.clusters, gpu.architecture
    if use is None or use.blocks == 1 or not use.barriers:
        return ()
    known = a.cycles if a.cycles.cluster_barrier else load_architecture(_MEASURED_CLUSTERS).cycles
    least, middle, most = known.cluster_barrier_least, known.cluster_barrier, known.cluster_barrier_most
    assert least is not None
    assert middle is not None
    assert most is not None
    request = block_request_of(profile)
    resident = max(1, occupancy(request, a).blocks_per_sm) if request else 1
    turns = max(1.0, math.prod(profile.grid) / (gpu.sm_count * resident))
    per_cycle = use.barriers * turns / gpu.clock_hz
    told = Caveat.of(CaveatKind.CLUSTERS, str(use.blocks), middle=middle, least=least, most=most)
    if simulated is None:
        return (_Waiting(Term("cluster_barriers", per_cycle * middle), per_cycle * least, per_cycle * most, told),)
    less = min(per_cycle * (middle - least), simulated * (1 - least / middle))
    return (_Waiting(Term("cluster_barriers", 0.0), -less, per_cycle * (most - middle), told),)


def launch_s(gpu: GPU, timing: Timing, body_s: float) -> float:
    """Return what the launch adds to a body of so many seconds: in a series, at least the GPU's shortest interval."""
    overhead = launch_overhead_s(timing)
    if timing is Timing.SERIES and gpu.launch_interval_s is not None:
        return max(overhead, gpu.launch_interval_s - body_s)
    return overhead


def lost_from_l2(fill: float) -> float:
    """Return the part of a working set that a launch no longer finds in L2, by how often the set fills L2."""
    return min(1.0, max(0.0, (fill - _L2_KEPT) / (_L2_LOST - _L2_KEPT)))


def _calibrated(calibration: Calibration, estimate: Estimate, level: float) -> tuple[float, tuple[Caveat, ...]]:
    """Return the factor of an estimate by measured errors, and what to say of it."""
    shares = blame_of(estimate.seconds, estimate.terms)
    width, usual = calibration.width(shares), calibration.factor(level)
    kind, name = CaveatKind.INTERVAL_CALIBRATED, "factor"
    if calibration.classes:
        kind, name = CaveatKind.INTERVAL_BY_CLASS, "usual"
    numbers = {"level": level, name: usual, "cases": calibration.cases, "families": calibration.families}
    notes = [Caveat.of(kind, calibration.measured, **numbers)]
    if width > _TOLD_WIDTH:
        variances = calibration.variances(shares)
        notes.append(Caveat.of(CaveatKind.INTERVAL_WIDE, max(variances, key=lambda name: variances[name])))
    if not calibration.tells(level):
        lowest, highest = calibration.levels[0], calibration.levels[-1]
        notes.append(Caveat.of(CaveatKind.INTERVAL_EXTRAPOLATED, level=level, lowest=lowest, highest=highest))
    return calibration.factor(level, width), tuple(notes)


def is_foreign_code(architecture: str, gpu: GPU) -> bool:
    """Return whether code is for another generation of instruction set than the GPU's."""
    return int(architecture.removeprefix("sm_").rstrip("af")) // 10 != gpu.architecture.number // 10


def interval_factor(log_sigma: float, level: float) -> float:
    """Return by how much to multiply and divide so that a lognormal error stays inside with this probability.

    >>> round(interval_factor(0.6, 0.9), 2)
    2.68
    """
    return math.exp(log_sigma * normal_deviations(level))


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
