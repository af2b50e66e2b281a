"""Measured times as evidence: each measured launch is simulated on its GPU, to see how far the simulation is off."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import CompileError, Refusal, UnsupportedError
from kerncast.forecast.compiled_launch import Means, Source, compile_and_count
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.measurements import Observation
from kerncast.models import DEFAULT_MODEL, Case, Estimate, calibration_of, model_named
from kerncast.models.transfer.posterior import Correction, Posterior, Residual, Subject, read_effects, shares_of
from kerncast.prediction import MeasuredEvidence, MeasuredTime, Prediction, Timing

#: No measurement is more exact: variance of ln(time).
_LEAST_VARIANCE = 0.001**2
#: Caveats that say by which factor the interval is wide.
_OF_FACTORS = {
    CaveatKind.INTERVAL_CALIBRATED, CaveatKind.CODE_OF_OTHER_GENERATION, CaveatKind.MICROARCHITECTURE_NOT_MEASURED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Simulated:
    """One measured time beside its simulation."""

    observation: Observation
    kernel: str
    seconds: float
    """simulated"""
    residual: Residual


class Observed:
    """The measured times of one forecast, and what they say of each launch on each GPU."""

    def __init__(
        self, observations: Sequence[Observation], launches: Mapping[int, Launch], means: Means, timing: Timing
    ) -> None:
        """``launches`` are those that are forecast and have a source, by their numbers."""
        self._known: list[_Simulated] = []
        self.caveats: list[Caveat] = []
        """measured times that are not used, and why"""
        for number, each in enumerate(observations):
            if means.progress:
                means.progress("simulating what was measured", number, len(observations))
            try:
                self._known.append(_simulated(each, launches, means, timing))
            except (Refusal, CompileError) as refusal:
                self.caveats.append(
                    Caveat.of(CaveatKind.EVIDENCE_NOT_SIMULATED, each.gpu.name, reason=refusal.what, place=each.where)
                )

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
        found = self._posterior.of(_subject(case.launch, case.gpu, estimate))
        seconds = prediction.seconds * found.factor
        low, high = (seconds * (end / prediction.seconds) ** found.width for end in (prediction.low, prediction.high))
        times = tuple(
            MeasuredTime(
                each.observation.gpu.name, each.observation.gpu.id, each.kernel, each.observation.launch,
                each.observation.seconds, each.seconds, moved.factor, moved.contradicts,
            )
            for each, moved in zip(self._known, found.moved, strict=True)
        )  # fmt: skip
        return replace(
            prediction,
            seconds=seconds,
            low=low,
            high=high,
            evidence=MeasuredEvidence(prediction.seconds, times),
            caveats=(*self._caveats(found), *narrowed(prediction.caveats, found.width, len(times))),
        )

    def _caveats(self, found: Correction) -> tuple[Caveat, ...]:
        names = dict.fromkeys(caveat for each in self._known for caveat in each.observation.caveats)
        contradictions = [
            Caveat.of(
                CaveatKind.EVIDENCE_CONTRADICTS,
                each.observation.gpu.name,
                place=each.observation.where,
                ratio=each.observation.seconds / each.seconds,
            )
            for each, moved in zip(self._known, found.moved, strict=True)
            if moved.contradicts
        ]
        return (*names, *contradictions, *self.caveats)


def narrowed(caveats: Sequence[Caveat], width: float, times: int) -> tuple[Caveat, ...]:
    """Return the caveats of a forecast as they are after measured times have made its interval narrower."""
    return tuple(_narrowed(each, width, times) for each in caveats)


def _narrowed(caveat: Caveat, width: float, times: int) -> Caveat:
    if caveat.kind not in _OF_FACTORS:
        return caveat
    known = caveat.details
    factor = float(known["factor"]) ** width
    if caveat.kind is not CaveatKind.INTERVAL_CALIBRATED:
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
    variance = read_effects().measurement
    if observation.spread_seconds is not None:
        variance = (observation.spread_seconds / observation.seconds) ** 2
    error = math.log(observation.seconds / estimate.seconds)
    residual = Residual(_subject(launch, gpu, estimate), error, max(_LEAST_VARIANCE, variance))
    return _Simulated(observation, known.profile.kernel, estimate.seconds, residual)


def _subject(launch: Launch, gpu: GPU, estimate: Estimate) -> Subject:
    """Return a launch on a GPU as the posterior asks for it; another build is another kernel."""
    calibration = calibration_of(DEFAULT_MODEL)
    same = launch.grid, launch.block, launch.shared_bytes, launch.arguments, launch.globals, launch.seed
    kernel = f"{launch.source} {launch.kernel} {launch.defines}"
    return Subject(
        kernel=kernel,
        launch=f"{kernel} {same}",
        gpu_id=gpu.id,
        capability=gpu.architecture.number,
        microarchitecture=gpu.architecture.microarchitecture,
        threads=launch.blocks * launch.threads_per_block,
        shares=shares_of(estimate),
        is_unseen=calibration is not None and not calibration.has_seen(gpu),
    )
