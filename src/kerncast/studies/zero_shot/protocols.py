"""The protocols of the study: what is left out, and what is forecast of it.

Without a time: one GPU, one kernel (a family: all of its sizes and builds) or one set is left out, and its residuals
are forecast by the others. With one time elsewhere: each ordered pair of GPUs of each launch; the target GPU and the
launch are left out, or the kernel as a whole too, and then the one time is given. How far features are believed is
chosen without what is left out: by the errors that each choice has on the other kernels (GPUs), each left out in turn.
Of one time elsewhere, the choice sees the launch's times on third GPUs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kerncast.measurements.feature_table import Floats
from kerncast.models.transfer.posterior import read_effects
from kerncast.studies.zero_shot.cases import Cases
from kerncast.studies.zero_shot.outcomes import Forecast
from kerncast.studies.zero_shot.process import (
    BELIEFS,
    PHYSICS,
    Belief,
    Guess,
    Known,
    Rows,
    effects_covariance,
    feature_covariance,
    input_scaling,
    moved_by,
)

Say = Callable[[str, int, int], None]
#: A time of a few microseconds is mostly the launch: it tells little of another GPU.
LEAST_SOURCE_SECONDS = 5e-6
_HARMLESS = 1.01
#: Parts of the kernels: the choice for a kernel sees none of its part.
_PARTS = 10
_LEAST_GROUPS = 2
LEFT_OUT = ("kernel", "gpu", "set")


class Learner:
    """All cases with their covariances under each belief."""

    def __init__(self, cases: Cases, say: Say | None = None) -> None:
        self.cases, self._say = cases, say
        self.effects = effects_covariance([each.subject for each in cases.every], read_effects())
        self._inputs = input_scaling(cases.features[cases.trained]).forward(cases.features)
        self._known: dict[Belief, Known] = {}
        self._chosen: dict[tuple[str, bytes], Belief] = {}

    def covariance(self, belief: Belief) -> Floats:
        """Return [cases, cases] covariances of the residuals."""
        if not belief.amplitude:
            return self.effects
        return self.effects + feature_covariance(self._inputs, self._inputs, belief)

    def known(self, belief: Belief) -> Known:
        """Return what all cases that models may learn from tell under a belief."""
        if belief not in self._known:
            self._known[belief] = Known(self.covariance(belief), self.cases.residuals, self.cases.trained)
        return self._known[belief]

    def chosen(self, what: str, left_out: Rows) -> Belief:
        """Return the belief that does best while each kernel (GPU) is left out, by cases other than some.

        A belief that harms a set is not taken: its mean error there is above that without features by more than a
        hundredth of it.
        """
        used = np.setdiff1d(self.cases.trained, left_out)
        key = what, used.tobytes()
        if key not in self._chosen:
            if self._say:
                self._say("weighing how far to believe the features", len(self._chosen), 0)
            self._chosen[key] = self._best(what, used) if len(used) else PHYSICS
        return self._chosen[key]

    def _best(self, what: str, used: Rows) -> Belief:
        labels = self.cases.labels(what)
        groups = [labels[row] for row in used]
        if len(set(groups)) < _LEAST_GROUPS:
            return PHYSICS
        errors = np.array([
            np.abs(np.expm1(Known(self.covariance(belief), self.cases.residuals, used).errors_left_out(groups)))
            for belief in BELIEFS
        ])  # fmt: skip
        sets = np.array([self.cases.every[row].case.set for row in used])
        means = np.array([errors[:, sets == of].mean(axis=1) for of in np.unique(sets)])
        is_harmless = (means <= _HARMLESS * means[:, :1]).all(axis=0)
        return BELIEFS[int(np.argmin(np.where(is_harmless, errors.mean(axis=1), np.inf)))]

    def unseen(self, what: str, own: Rows) -> Rows:
        """Return the rows that the choice for a kernel, GPU or set does not see: its own, of kernels a tenth of all."""
        if what != "kernel":
            return own
        labels = np.array(self.cases.labels(what))
        names = sorted(set(labels))
        part = names.index(labels[own[0]]) % _PARTS
        return np.flatnonzero(np.isin(labels, names[part::_PARTS]))


def forecast_left_out(learner: Learner, what: str) -> Iterator[Forecast]:
    """Yield the forecast of each case with its kernel, GPU or set left out, without any time of it."""
    cases = learner.cases
    labels = np.array(cases.labels(what))
    for name in dict.fromkeys(cases.labels(what)):
        own = np.flatnonzero(labels == name)
        belief = learner.chosen("gpu" if what == "gpu" else "kernel", learner.unseen(what, own))
        guess = learner.known(belief).of(own, own)
        prior = np.diag(learner.covariance(belief))[own]
        yield from _forecasts(cases, own, guess, prior)


def _forecasts(cases: Cases, rows: Rows, guess: Guess, prior: Floats, source: int | None = None) -> Iterator[Forecast]:
    """Yield forecasts with the simulation's intervals, as much narrower as the residual is better known."""
    widths = cases.log_factors[rows] * np.sqrt(np.minimum(1.0, guess.variance / prior))
    for row, mean, width in zip(rows.tolist(), guess.mean, widths, strict=True):
        yield Forecast(row, float(mean - cases.residuals[row]), float(width), source)


def simulated(cases: Cases) -> Iterator[Forecast]:
    """Yield the simulation's own forecasts."""
    for row, residual in enumerate(cases.residuals.tolist()):
        yield Forecast(row, -residual, float(cases.log_factors[row]))


@dataclass(frozen=True, slots=True)
class Pair:
    """One launch on two GPUs: the time on the first is given, that on the second forecast."""

    source: int
    target: int


def pairs_of(cases: Cases) -> tuple[Pair, ...]:
    """Return each ordered pair of GPUs of each launch whose time on the first is long enough."""
    launches: dict[str, list[int]] = {}
    for row, each in enumerate(cases.every):
        launches.setdefault(each.launch, []).append(row)
    return tuple(
        Pair(source, target)
        for rows in launches.values()
        for source in rows
        if cases.every[source].case.seconds > LEAST_SOURCE_SECONDS
        for target in rows
        if cases.every[source].gpu.id != cases.every[target].gpu.id
    )


def forecast_with_one_time(learner: Learner, pairs: Sequence[Pair], *, knows_kernel: bool) -> Iterator[Forecast]:
    """Yield the forecast of each pair's target with the source's time, the target GPU and the launch left out.

    Unless ``knows_kernel``, all other launches of the kernel are left out too.
    """
    cases = learner.cases
    gpus, families, launches = (
        np.array(labels)
        for labels in (cases.labels("gpu"), cases.labels("kernel"), [each.launch for each in cases.every])
    )
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(gpus[pair.target], []).append(pair)
    for gpu, of_gpu in groups.items():
        belief = learner.chosen("gpu", np.flatnonzero(gpus == gpu))
        covariance = learner.covariance(belief)
        known = Known(covariance, cases.residuals, np.setdiff1d(cases.trained, np.flatnonzero(gpus == gpu)))
        joints: dict[str, tuple[Rows, tuple[Floats, Floats]]] = {}
        for pair in of_gpu:
            launch = launches[pair.source]
            if launch not in joints:
                own = np.flatnonzero(launches == launch)
                gone = own if knows_kernel else np.flatnonzero(families == families[pair.source])
                joints[launch] = own, known.joint(own, gone)
            own, joint = joints[launch]
            yield _carried(cases, pair, own, joint, covariance)


def forecast_by_posterior(learner: Learner, pairs: Sequence[Pair]) -> Iterator[Forecast]:
    """Yield the same by the posterior alone: nothing is learned, the one time moves the simulation."""
    for pair in pairs:
        own = np.array([pair.source, pair.target])
        joint = np.zeros(2), learner.effects[np.ix_(own, own)]
        yield _carried(learner.cases, pair, own, joint, learner.effects)


def _carried(cases: Cases, pair: Pair, own: Rows, joint: tuple[Floats, Floats], covariance: Floats) -> Forecast:
    source, target = (int(np.flatnonzero(own == row)[0]) for row in (pair.source, pair.target))
    found = moved_by(joint, float(cases.residuals[pair.source]), source)
    guess = Guess(found.mean[[target]], found.variance[[target]])
    prior = covariance[[pair.target], [pair.target]]
    return next(_forecasts(cases, np.array([pair.target]), guess, prior, pair.source))
