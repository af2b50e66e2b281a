"""The reach of a trained model: errors by groups, ranges and distances, against numbers worked by hand."""

import math

import numpy as np
import pytest

from kerncast.models.learned.reach import MOST_LOG_ERROR, Reach, SplitErrors, reach_of, split_errors

CHANCE = np.random.default_rng(5)


def test_a_group_counts_once_however_many_launches_it_has() -> None:
    # 1000 launches of one kernel are right, and those of nine others, one each, off by 3: the error of a new one is 3
    measured = np.array([1.0] * 1000 + [3.0] * 9)
    groups = ["often"] * 1000 + [f"k{number}" for number in range(9)]
    found = split_errors("kernels", measured, np.ones(1009), groups)
    assert (found.launches, found.groups) == (1009, 10)
    assert math.exp(found.log_error(0.5)) == pytest.approx(3)
    assert math.exp(split_errors("rows", measured, np.ones(1009), list(map(str, range(1009)))).log_error(0.5)) == 1


def test_quantiles_hold_their_share_of_new_launches() -> None:
    errors = np.exp(0.3 * CHANCE.standard_normal(2000))
    found = split_errors("rows", errors[:400], np.ones(400), list(map(str, range(400))))
    new = np.abs(np.log(errors[400:]))
    for level in (0.5, 0.8, 0.9, 0.95):
        assert np.mean(new <= found.log_error(level)) == pytest.approx(level, abs=0.06)


def test_a_forecast_that_is_no_time_counts_as_off_by_a_million() -> None:
    found = split_errors("rows", np.ones(4), np.array([-1.0, 0.0, np.nan, 1e-30]), list("abcd"))
    assert set(found.quantiles) == {MOST_LOG_ERROR}
    assert math.exp(MOST_LOG_ERROR) == pytest.approx(1_000_000)


def test_few_groups_tell_no_high_level() -> None:
    found = SplitErrors("kernels", (0.5, 0.9), (0.1, 0.2), 400, 4)
    assert (found.tells(0.8), found.tells(0.9)) == (True, False)


def test_what_was_learned_from_is_inside_and_near() -> None:
    values = CHANCE.lognormal(8, 2, (3000, 5))
    reach = reach_of(values, (), 0)
    assert not reach.outside(values).any()
    assert np.mean(reach.distances(values) <= 1) > 0.98
    assert len(reach.sample) == 64
    far = reach.distances(values * 10_000)
    assert far.min() > 1


def test_a_value_below_the_least_counts_by_its_ratio_and_zero_by_a_hundredth() -> None:
    reach = Reach((), (1000.0,), (1500.0,), (2000.0,), (1.0,), ((0.0,),), 1.0)
    logs = reach.outside(np.array([[500.0], [0.0], [4000.0], [1000.0]]))
    assert np.exp(logs).ravel() == pytest.approx([2, 101, 2, 1])


def test_launches_all_alike_are_near_themselves_alone() -> None:
    reach = reach_of(np.full((20, 3), 7.0), (), 0)
    assert reach.distances(np.array([[7.0, 7, 7], [8, 7, 7]])).tolist() == [0, np.inf]
