"""Measured times as evidence: each is put beside what the model says of it, to see how far the model is off.

The model is the simulation. Of a profile without source, it is the projection of its own run by its counters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import CompileError, KerncastError, Refusal, UnsupportedError
from kerncast.forecast.cases import PROFILE
from kerncast.forecast.compiled_launch import Means, Source, compile_and_count
from kerncast.forecast.evidence import measured_of
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL, Case, Estimate, Model, Question, calibration_of, model_named
from kerncast.models.transfer.posterior import Correction, Posterior, Residual, Subject, read_effects, shares_of
from kerncast.models.transfer.recount import Recount, recount_of
from kerncast.observation import LEAST_VARIANCE, Observation
from kerncast.prediction import MeasuredEvidence, MeasuredTime, Prediction, Timing
from kerncast.profiles import KernelProfile

#: Caveats of models that carry over the time on one GPU only.
_OF_ONE_TIME = {CaveatKind.TIME_ELSEWHERE_UNUSED, CaveatKind.COUNTS_AND_TIME_APART}
#: Caveats that say by which factor the interval is wide.
_OF_FACTORS = {
    CaveatKind.INTERVAL_CALIBRATED, CaveatKind.INTERVAL_BY_CLASS, CaveatKind.CODE_OF_OTHER_GENERATION,
    CaveatKind.MICROARCHITECTURE_NOT_MEASURED, CaveatKind.TIME_OF_OTHER_GENERATION, CaveatKind.BUILD_MAY_DIFFER,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Simulated:
    """One measured time beside its simulation."""

    observation: Observation
    kernel: str
    subject: Subject
    estimate: Estimate
    seconds: float
    """simulated, with the counters of the launch's run where it was profiled"""

    @property
    def residual(self) -> Residual:
        """How far the simulation is off what was measured."""
        time = self.observation
        variance = max(LEAST_VARIANCE, time.log_variance(read_effects().measurement))
        return Residual(self.subject, math.log(time.seconds / self.seconds), variance)


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of the launches that are forecast, by their numbers."""

    launches: Mapping[int, Launch]
    """those with a source"""
    counted: Mapping[int, KernelProfile]
    """profiles of these"""
    profiles: Mapping[int, KernelProfile]
    """profiles without a source, of launches that were timed elsewhere, too"""


class Observed:
    """The measured times of one forecast, and what they say of each launch on each GPU."""

    def __init__(self, observations: Sequence[Observation], sources: Sources, means: Means, timing: Timing) -> None:
        """Simulate what was measured of launches with a source; of profiles without one, keep the times."""
        known: list[_Simulated] = []
        self._profiles = sources.profiles
        self._projected: dict[int, tuple[list[_Simulated], list[Caveat]]] = {}
        self._beside = {index: measured_of(observations, index) for index in sources.profiles}
        observations = [each for each in observations if each.launch not in sources.profiles]
        self.caveats: list[Caveat] = []
        """measured times that are not used, and why"""
        for number, each in enumerate(observations):
            if means.progress:
                means.progress("simulating what was measured", number, len(observations))
            try:
                known.append(_simulated(each, sources.launches, means, timing))
            except (Refusal, CompileError) as refusal:
                self.caveats.append(_not_simulated(each, refusal))
        self._recounts = {
            index: recount_of(profile, each.observation.gpu, each.estimate)
            for index, profile in sources.counted.items()
            for each in known
            if each.observation.launch == index and each.observation.where == PROFILE
        }
        self._known = [
            replace(each, seconds=self._recounted(each.observation.launch, each.estimate).seconds) for each in known
        ]

    def __bool__(self) -> bool:
        """Whether any time can be used."""
        return bool(self._known)

    @cached_property
    def _posterior(self) -> Posterior:
        return Posterior([each.residual for each in self._known])

    def moved(self, prediction: Prediction, case: Case, estimate: Estimate) -> Prediction:
        """Return a simulation's forecast as the measured times move it, with a narrower interval."""
        assert case.launch is not None
        if not self._known:
            return replace(prediction, caveats=(*self.caveats, *prediction.caveats))
        found = self._posterior.of(_subject(case.launch, case, estimate))
        index = case.profile.index
        recounted = self._recounted(index, estimate)
        moved = _moved(prediction, self._known, found, recounted.seconds / estimate.seconds)
        notes = _differing(self._recounts[index]) if self._recounts.get(index) else ()
        return replace(
            moved,
            terms=recounted.terms,
            limiter=recounted.limiter,
            caveats=(*self.caveats, *notes, *moved.caveats),
        )

    def _recounted(self, index: int | None, estimate: Estimate) -> Estimate:
        """Return a launch's simulated time with the counters of its run, where it was profiled."""
        recount = None if index is None else self._recounts.get(index)
        return recount.of(estimate) if recount else estimate

    def projected(self, model: Model, case: Case, question: Question) -> Prediction:
        """Return the projection of a profile's run as the times beside it move it, with a narrower interval.

        Without a time beside its own, it is the projection alone. The posterior knows the run in any case: its own
        interval is the one of the model, and the other times make it narrower than the run alone would.
        """
        profile = self._profiles.get(case.profile.index)
        if profile is None or profile.run is None:
            return model.predict(case, question)
        others = tuple(each for each in case.profile.caveats if each.kind not in _OF_ONE_TIME)
        case = replace(case, source=profile, profile=replace(case.profile, caveats=others))
        estimate = model.estimate(case, question.timing)
        prediction = model.forecast(case, estimate, question)
        if case.gpu.id == profile.run.gpu.id:  # the run is the better evidence there
            names = ", ".join(each.gpu.name for each in self._beside[profile.index])
            ignored = Caveat.of(CaveatKind.TIME_ELSEWHERE_UNUSED, names, nearest=profile.run.gpu.name)
            return replace(prediction, caveats=(ignored, *prediction.caveats))
        known, unused = self._projections(model, profile, question.timing)
        subject = _subject_of_profile(profile, case.gpu, estimate)
        run = Residual(_subject_of_profile(profile, profile.run.gpu, estimate), 0.0, read_effects().measurement)
        alone = Posterior([run]).of(subject).width
        found = Posterior([run, *(each.residual for each in known)]).of(subject)
        narrower = min(1.0, found.width / alone) if alone else 1.0
        moved = _moved(prediction, known, replace(found, width=narrower, moved=found.moved[1:]))
        return replace(moved, caveats=(*unused, *moved.caveats))

    def _projections(
        self, model: Model, profile: KernelProfile, asked: Timing
    ) -> tuple[list[_Simulated], list[Caveat]]:
        """Return each time of a profile's launch beside the projection of the run, and what cannot be projected."""
        if profile.index not in self._projected:
            known, unused = [], []
            for each in self._beside[profile.index]:
                try:
                    known.append(_projected(each, model, profile, asked))
                except Refusal as refusal:
                    unused.append(_not_simulated(each, refusal))
            self._projected[profile.index] = known, unused
        return self._projected[profile.index]


def _not_simulated(observation: Observation, refusal: KerncastError) -> Caveat:
    name, place = observation.gpu.name, observation.where
    return Caveat.of(CaveatKind.EVIDENCE_NOT_SIMULATED, name, reason=refusal.what, place=place)


def _differing(recount: Recount) -> tuple[Caveat, ...]:
    """Return what the counters of a run replace."""
    ratios = {"instructions": recount.work, "DRAM bytes": recount.dram}
    return tuple(Caveat.of(CaveatKind.COUNTS_REPLACED, name, ratio=each) for name, each in ratios.items() if each != 1)


def _moved(
    prediction: Prediction, known: Sequence[_Simulated], found: Correction, recounted: float = 1.0
) -> Prediction:
    """Return a forecast as measured times move it, with what they do to it; counters made it ``recounted`` as long."""
    seconds = prediction.seconds * recounted * found.factor
    low, high = (seconds * (end / prediction.seconds) ** found.width for end in (prediction.low, prediction.high))
    times = tuple(
        MeasuredTime(
            each.observation.gpu.name, each.observation.gpu.id, each.kernel, each.observation.launch,
            each.observation.seconds, each.seconds, moved.factor, moved.contradicts,
        )
        for each, moved in zip(known, found.moved, strict=True)
    )  # fmt: skip
    return replace(
        prediction,
        seconds=seconds,
        low=low,
        high=high,
        evidence=MeasuredEvidence(prediction.seconds, times),
        caveats=(*_caveats(known, found), *narrowed(prediction, found.width, len(times))),
    )


def _caveats(known: Sequence[_Simulated], found: Correction) -> tuple[Caveat, ...]:
    """Return what was assumed of the GPUs that were named, and which times contradict all others."""
    names = dict.fromkeys(caveat for each in known for caveat in each.observation.caveats)
    contradictions = [
        Caveat.of(
            CaveatKind.EVIDENCE_CONTRADICTS,
            each.observation.gpu.name,
            place=each.observation.where,
            ratio=each.observation.seconds / each.seconds,
        )
        for each, moved in zip(known, found.moved, strict=True)
        if moved.contradicts
    ]
    return (*names, *contradictions)


def narrowed(prediction: Prediction, width: float, times: int) -> tuple[Caveat, ...]:
    """Return the caveats of a forecast as they are after measured times have made its interval narrower."""
    factor = math.sqrt(prediction.high / prediction.low)
    return tuple(_narrowed(each, width, times, factor) for each in prediction.caveats)


def _narrowed(caveat: Caveat, width: float, times: int, whole: float) -> Caveat:
    """Return one of them; ``whole`` is the factor of the whole interval before."""
    if caveat.kind not in _OF_FACTORS:
        return caveat
    known = caveat.details
    factor = float(known.get("factor", whole)) ** width
    if caveat.kind not in {CaveatKind.INTERVAL_CALIBRATED, CaveatKind.INTERVAL_BY_CLASS}:
        numbers = dict(caveat.numbers) | {"factor": factor}
        return replace(caveat, numbers=tuple(numbers.items()))
    return Caveat.of(
        CaveatKind.INTERVAL_NARROWED,
        caveat.subject,
        level=known["level"],
        factor=factor,
        cases=known["cases"],
        families=known["families"],
        times=times,
    )


def _simulated(observation: Observation, launches: Mapping[int, Launch], means: Means, timing: Timing) -> _Simulated:
    """Simulate what was measured; raises Refusal where that cannot be done."""
    launch = observation.other if observation.launch is None else launches.get(observation.launch)
    if launch is None or not launch.source.name:
        raise UnsupportedError("the source of the measured launch is not known")
    gpu, name = observation.gpu, observation.gpu.architecture.code_name
    compiled = compile_and_count(launch, [name], means)
    known = compiled.on(name)
    if known is None:
        raise compiled.failures[0].refusal
    case = Case(known.profile, gpu, launch=launch)
    estimate = Source(known).estimate(model_named(DEFAULT_MODEL), case, observation.timing or timing)
    return _Simulated(
        observation, known.profile.kernel, _subject(launch, case, estimate), estimate, estimate.seconds
    )  # fmt: skip


def _projected(observation: Observation, model: Model, profile: KernelProfile, asked: Timing) -> _Simulated:
    """Project a profile's run onto the GPU of another time of the same launch; raises Refusal.

    What the launch adds to a time of another kind than the run's is exchanged.
    """
    assert profile.run is not None
    case = Case(profile, observation.gpu, source=profile)
    estimate = model.estimate(case, profile.run.timing)
    added = launch_overhead_s(observation.timing or asked) - launch_overhead_s(profile.run.timing)
    observation = replace(observation, seconds=observation.seconds_without(added), timing=profile.run.timing)
    subject = _subject_of_profile(profile, observation.gpu, estimate)
    return _Simulated(observation, profile.kernel, subject, estimate, estimate.seconds)


def _subject_of_profile(profile: KernelProfile, gpu: GPU, estimate: Estimate | Prediction) -> Subject:
    """Return a profiled launch on a GPU as the posterior asks for it."""
    return Subject(
        kernel=profile.kernel,
        launch=f"{profile.kernel} {profile.grid} {profile.block}",
        gpu_id=gpu.id,
        capability=gpu.architecture.number,
        microarchitecture=gpu.architecture.microarchitecture,
        threads=math.prod(profile.grid) * math.prod(profile.block),
        shares=shares_of(estimate),
    )


def subject_of(case: Case, found: Estimate | Prediction) -> Subject:
    """Return a launch on a GPU as the posterior asks for it, by what was found of its time."""
    if case.launch is None:
        return _subject_of_profile(case.profile, case.gpu, found)
    return _subject(case.launch, case, found)


def _subject(launch: Launch, case: Case, estimate: Estimate | Prediction) -> Subject:
    """Return a launch on a GPU as the posterior asks for it; another build is another kernel.

    A build that spills registers is one of its architecture alone: another one spills more, less or nothing.
    """
    gpu, resources = case.gpu, case.profile.resources
    calibration = calibration_of(DEFAULT_MODEL)
    kernel = f"{launch.source} {launch.kernel} {launch.defines}"
    if resources is not None and resources.spills:
        kernel += f" with what spills on {gpu.architecture.id}"
    return Subject(
        kernel=kernel,
        launch=f"{kernel} {launch.work}",
        gpu_id=gpu.id,
        capability=gpu.architecture.number,
        microarchitecture=gpu.architecture.microarchitecture,
        threads=launch.blocks * launch.threads_per_block,
        shares=shares_of(estimate),
        is_unseen=calibration is not None and not calibration.has_seen(gpu),
    )
