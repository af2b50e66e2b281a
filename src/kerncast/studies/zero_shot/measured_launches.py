"""Cases from files of ``kerncast measure``: each launch of the suite is simulated on the GPU that it was timed on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncast.errors import CompileError, Refusal
from kerncast.forecast import Progress
from kerncast.forecast.learned import simulated
from kerncast.launch import Launch
from kerncast.models import DEFAULT_MODEL, Question, model_named
from kerncast.observation import Observation
from kerncast.prediction import Prediction, Timing
from kerncast.read.measured_cases import MeasuredCase, ModelTime
from kerncast.read.observations import read_observations
from kerncast.studies.zero_shot.cases import ROOFLINE, TEMPLATE

_SET = "measured"


@dataclass(frozen=True, slots=True)
class SimulatedCases:
    """Measured launches that could be simulated, and why others could not."""

    cases: tuple[MeasuredCase, ...]
    refused: tuple[str, ...]


def simulate_measured(paths: Sequence[Path], progress: Progress | None = None) -> SimulatedCases:
    """Return the cases of measurement files (.jsonl); raises InputError for a faulty one."""
    found, refused = [], []
    observations = read_observations(list(paths))
    for number, each in enumerate(observations):
        launch = each.other
        if launch is None or not launch.source.name:
            refused.append(f"{each.where}: its source is not known")
            continue
        if progress:
            progress(f"simulating {launch.label} on {each.gpu.name}", number, len(observations))
        try:
            found.append(_case(each, launch))
        except (Refusal, CompileError) as refusal:
            refused.append(f"{each.where}: {refusal}")
    return SimulatedCases(tuple(found), tuple(refused))


def _case(observation: Observation, launch: Launch) -> MeasuredCase:
    question = Question(observation.timing or Timing.SERIES)
    case, estimate = simulated(launch, observation.gpu, question.timing)
    resources = case.profile.resources
    forecasts = [model_named(DEFAULT_MODEL).forecast(case, estimate, question)]
    for name in (ROOFLINE, TEMPLATE):
        try:
            forecasts.append(model_named(name).predict(case, question))
        except Refusal:  # the case does without
            continue
    return MeasuredCase(
        set=_SET,
        kernel=case.profile.kernel,
        size=f"{launch.source.stem}#{launch.index}",
        gpu=observation.gpu.id,
        clock_hz=observation.gpu.clock_hz,
        blocks=math.prod(launch.grid),
        threads_per_block=math.prod(launch.block),
        registers=resources.registers_per_thread if resources else None,
        spills=bool(resources and resources.spills),
        build=str(sorted(dict(launch.defines).items())),
        seconds=observation.seconds,
        forecasts=tuple(map(_model_time, forecasts)),
    )


def _model_time(found: Prediction) -> ModelTime:
    terms = tuple((term.name, term.seconds) for term in found.terms)
    return ModelTime(found.model, found.seconds, found.low, found.high, found.limiter, terms)
