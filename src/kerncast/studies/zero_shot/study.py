"""The whole study: each protocol with all methods, the groups of features one by one, and where the worst errors are.

It fills the sections that the first seed of this project left open: results per pair of GPUs and per class of kernels,
leave-one-out by GPU, kernel and set, calibration, and the learning plan ("architecture-aware normalisation").
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.models.learned.residual import GROUPS, NAMES
from kerncast.studies.zero_shot.cases import Cases
from kerncast.studies.zero_shot.monotone import Rises, rises_of
from kerncast.studies.zero_shot.outcomes import Forecast, Outcome, TransferScore, score_of
from kerncast.studies.zero_shot.process import Belief, Known, feature_covariance, input_scaling, leave_groups_out
from kerncast.studies.zero_shot.protocols import (
    Learner,
    Pair,
    Say,
    forecast_by_posterior,
    forecast_left_out,
    forecast_with_one_time,
    pairs_of,
    simulated,
)
from kerncast.studies.zero_shot.rules import ALONE, CARRIED

RESIDUAL, SIMULATION, POSTERIOR = "residual", "simulation", "posterior"


@dataclass(frozen=True, slots=True)
class Protocol:
    """What was left out, and what came of each method."""

    name: str
    title: str
    outcomes: tuple[Outcome, ...]
    """the residual first"""

    def of(self, method: str) -> Outcome:
        """Return the outcome of one method."""
        return next(each for each in self.outcomes if each.method == method)


@dataclass(frozen=True, slots=True)
class Ablation:
    """The residual without one group of features, or with no other."""

    group: str
    without: TransferScore
    alone: TransferScore


@dataclass(frozen=True)
class ZeroShotStudy:
    """All that the study found."""

    cases: Cases
    protocols: tuple[Protocol, ...]
    ablation: tuple[Ablation, ...]
    """by kernels left out, with one belief"""
    whole: TransferScore
    """the same with all features"""
    belief: Belief
    """how far features are believed by all cases together"""
    rises: tuple[Rises, ...]

    def protocol(self, name: str) -> Protocol:
        """Return one protocol by its name."""
        return next(each for each in self.protocols if each.name == name)


def study_zero_shot(cases: Cases, say: Say | None = None) -> ZeroShotStudy:
    """Run the study; the same cases give the same numbers."""
    learner = Learner(cases, say)
    belief = learner.chosen("kernel", np.array([], np.intp))
    protocols = tuple(_protocols(learner, say))
    if say:
        say("leaving out groups of features", 0, 0)
    whole = score_of(_with_features(learner, belief, NAMES))
    return ZeroShotStudy(
        cases, protocols, tuple(_ablation(learner, belief)), whole, belief, rises_of(cases, belief)
    )  # fmt: skip


def _protocols(learner: Learner, say: Say | None) -> Iterator[Protocol]:
    cases = learner.cases
    alone = (Outcome(SIMULATION, "this project", tuple(simulated(cases))), *_alone(cases))
    for what, title in (("gpu", "one GPU left out"), ("kernel", "one kernel left out"), ("set", "one set left out")):
        if say:
            say(title, 0, 0)
        found = Outcome(RESIDUAL, "this project", tuple(forecast_left_out(learner, what)))
        yield Protocol(what, title, (found, *alone))
    pairs = pairs_of(cases)
    if not pairs:
        return
    carried = (
        Outcome(POSTERIOR, "this project", tuple(forecast_by_posterior(learner, pairs))),
        Outcome(SIMULATION, "this project", tuple(_of_targets(alone[0], pairs))),
        *_carried(cases, pairs),
    )
    for name, title, knows_kernel in (
        ("one time", "one GPU left out, one time elsewhere", True),
        ("one time, new kernel", "one GPU and the kernel left out, one time elsewhere", False),
    ):
        if say:
            say(title, 0, 0)
        moved = tuple(forecast_with_one_time(learner, pairs, knows_kernel=knows_kernel))
        yield Protocol(name, title, (Outcome(RESIDUAL, "this project", moved), *carried))


def _alone(cases: Cases) -> Iterator[Outcome]:
    for rule in ALONE:
        times = [(row, rule.seconds(each)) for row, each in enumerate(cases.every)]
        found = tuple(Forecast(row, _log(cases, row, seconds)) for row, seconds in times if seconds)
        if found:
            yield Outcome(rule.name, rule.source, found)


def _carried(cases: Cases, pairs: Sequence[Pair]) -> Iterator[Outcome]:
    for rule in CARRIED:
        found = []
        for pair in pairs:
            source = cases.every[pair.source]
            factor = rule.factor(source, cases.every[pair.target])
            if factor:
                log = _log(cases, pair.target, source.case.seconds * factor)
                found.append(Forecast(pair.target, log, None, pair.source))
        if found:
            yield Outcome(rule.name, rule.source, tuple(found))


def _log(cases: Cases, row: int, seconds: float) -> float:
    return math.log(seconds / cases.every[row].case.seconds)


def _of_targets(alone: Outcome, pairs: Sequence[Pair]) -> Iterator[Forecast]:
    """Yield the simulation's forecast of each pair's target."""
    for pair in pairs:
        found = alone.forecasts[pair.target]
        yield Forecast(found.row, found.log_ratio, found.log_half_width, pair.source)


def _ablation(learner: Learner, belief: Belief) -> Iterator[Ablation]:
    values = learner.cases.features[learner.cases.trained]
    for group in GROUPS:
        places = [NAMES.index(name) for name in group.features]
        if (np.ptp(values[:, places], axis=0) > 0).any():
            others = [name for name in NAMES if name not in group.features]
            without, alone = (_with_features(learner, belief, names) for names in (others, group.features))
            yield Ablation(group.title, score_of(without), score_of(alone))


def _with_features(learner: Learner, belief: Belief, names: Sequence[str]) -> list[Forecast]:
    """Return the forecasts of each case with its kernel left out, by some of the features."""
    cases = learner.cases
    values = cases.features[:, [NAMES.index(name) for name in names]]
    inputs = input_scaling(values[cases.trained], names).forward(values)
    covariance = learner.effects + feature_covariance(inputs, inputs, belief)
    guess = leave_groups_out(Known(covariance, cases.residuals, cases.trained), cases.labels("kernel"))
    return [Forecast(row, float(mean - cases.residuals[row])) for row, mean in enumerate(guess.mean)]
