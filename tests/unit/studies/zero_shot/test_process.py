"""The process of residuals: a known law is learned, far from data it is physics, and leaving out is exact."""

import numpy as np
import pytest

from kerncast.measurements.feature_table import Floats
from kerncast.models.transfer.posterior import Posterior, Residual, Subject, covariance, read_effects
from kerncast.studies.zero_shot.process import (
    PHYSICS,
    Belief,
    Known,
    effects_covariance,
    feature_covariance,
    learned_regressor,
    leave_groups_out,
    moved_by,
)

BELIEF = Belief(0.04, 1.0)


def subject(kernel: str, gpu: str, capability: int = 70, threads: int = 4096) -> Subject:
    shares = (("dram", 0.7), ("latency", 0.3)) if kernel != "b" else (("issue", 1.0),)
    return Subject(kernel, f"{kernel} {threads}", gpu, capability, "Volta", threads, shares)


SUBJECTS = [
    subject("a", "v"), subject("a", "t", 75), subject("a", "k", 35), subject("b", "v"), subject("b", "v", threads=64),
    subject("c", "t", 75), subject("c", "h", 90),
]  # fmt: skip
RESIDUALS = np.array([0.1, 0.12, -0.05, 0.3, 0.2, -0.1, -0.2])
INPUTS = np.linspace(0, 3, len(SUBJECTS))[:, None]
ALL = np.arange(len(SUBJECTS))


def whole() -> Floats:
    return effects_covariance(SUBJECTS, read_effects()) + feature_covariance(INPUTS, INPUTS, BELIEF)


def test_effects_are_those_of_the_posterior() -> None:
    assert effects_covariance(SUBJECTS, read_effects()) == pytest.approx(
        covariance(SUBJECTS, SUBJECTS, read_effects()), rel=1e-9
    )


def test_leaving_out_is_as_if_it_had_never_been_known() -> None:
    kernels = [each.kernel for each in SUBJECTS]
    found = leave_groups_out(Known(whole(), RESIDUALS, ALL), kernels)
    for name in set(kernels):
        own = np.flatnonzero(np.array(kernels) == name)
        never = RESIDUALS.copy()
        never[own] = 1e3
        again = Known(whole(), never, np.setdiff1d(ALL, own)).of(own, np.array([], np.intp))
        assert found.mean[own] == pytest.approx(again.mean, rel=1e-8, abs=1e-12)
        assert found.variance[own] == pytest.approx(again.variance, rel=1e-8)


def test_errors_by_blocks_are_the_same() -> None:
    kernels = [each.kernel for each in SUBJECTS]
    known = Known(whole(), RESIDUALS, ALL)
    assert known.errors_left_out(kernels) == pytest.approx(leave_groups_out(known, kernels).mean - RESIDUALS)


def test_what_is_left_out_does_not_matter() -> None:
    changed = RESIDUALS.copy()
    changed[:3] = 99.0
    before, after = (Known(whole(), each, ALL).of(ALL[:3], ALL[:3]) for each in (RESIDUALS, changed))
    assert before.mean == pytest.approx(after.mean, abs=1e-9)


def test_one_time_moves_as_the_posterior_does() -> None:
    effects = effects_covariance(SUBJECTS, read_effects())
    found = moved_by((np.zeros(2), effects[:2, :2]), 0.1, 0)
    like = Posterior([Residual(SUBJECTS[0], 0.1, read_effects().measurement + 1e-4)]).of(SUBJECTS[1])
    assert found.mean[1] == pytest.approx(like.log_error)


def test_one_time_after_the_others_is_all_of_them_together() -> None:
    known = Known(whole(), RESIDUALS, ALL)
    step = moved_by(known.joint(ALL[:2], ALL[:2]), RESIDUALS[0], 0)
    assert step.mean[1] == pytest.approx(known.of(ALL[1:2], ALL[1:2]).mean[0])


def test_a_known_law_is_learned_and_far_away_is_physics() -> None:
    inputs = np.linspace(0, 4, 60)[:, None]
    subjects = [subject(f"kernel {number}", f"gpu {number}") for number in range(60)]
    found = learned_regressor(inputs, subjects, 0.2 * np.sin(inputs[:, 0]), Belief(0.04, 1.0))
    middle = np.array([[0.53], [1.57], [2.9]])
    assert found.predict(middle) == pytest.approx(0.2 * np.sin(middle[:, 0]), abs=0.02)
    assert found.predict(np.array([[30.0]])) == pytest.approx(0, abs=1e-9)


def test_without_belief_it_is_physics() -> None:
    assert learned_regressor(INPUTS, SUBJECTS, RESIDUALS, PHYSICS).predict(INPUTS) == pytest.approx(0)


def test_a_kernel_with_many_launches_does_not_rule() -> None:
    inputs = np.zeros((24, 1))
    subjects = [subject("many", "v", threads=2**12)] * 20 + [subject(f"one {n}", f"g{n}", 75) for n in range(4)]
    residuals = np.array([0.4] * 20 + [0.0] * 4)
    alone = learned_regressor(inputs, subjects, residuals, Belief(0.01, 1.0)).predict(inputs[:1])[0]
    assert 0 < alone < 0.2  # the mean of all rows is 0.33
