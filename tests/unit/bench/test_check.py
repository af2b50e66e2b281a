"""When a device's results count as equal to the executor's, as close, and as different."""

import numpy as np
import pytest

from kerncast.bench.check import Expectation, compare
from kerncast.measurements import Outcome


@pytest.mark.parametrize(
    ("wanted", "got", "outcome"),
    [
        ([1.0, 2.0], [1.0, 2.0], Outcome.EQUAL),
        ([1.0, 2.0], [1.0, 2.000001], Outcome.CLOSE),
        ([1.0, 2.0], [1.0, 2.1], Outcome.DIFFERENT),
        ([1e30, 1.0, 1.0], [1e30, 1.0, 1.5], Outcome.DIFFERENT),
        ([1e-9, 1.0, 1.0], [0.0, 1.0, 1.0], Outcome.CLOSE),
        ([0.0, 0.0], [0.0, 1e-4], Outcome.DIFFERENT),
        ([float("nan"), 1.0], [float("nan"), 1.0], Outcome.EQUAL),
        ([float("nan"), 1.0], [2.0, 1.0], Outcome.DIFFERENT),
        ([1.0, 1.0], [float("inf"), 1.0], Outcome.DIFFERENT),
        ([float("inf"), 1.0], [float("inf"), 1.0], Outcome.EQUAL),
    ],
)
def test_what_counts_as_equal_close_and_different(wanted: list[float], got: list[float], outcome: Outcome) -> None:
    after, found = ({"y": np.array(values, np.float32)} for values in (wanted, got))
    check = compare("key", Expectation(after, 1, True, ()), found, found)
    assert check.outcome is outcome
    assert check.largest_difference <= 1e30


def test_integers_have_no_tolerance() -> None:
    after, found = {"n": np.arange(10_000)}, {"n": np.arange(10_000)}
    found["n"][17] += 1
    check = compare("key", Expectation(after, 1, True, ()), found, found)
    assert check.outcome is Outcome.DIFFERENT
    assert "0.0% of the elements of n" in check.reason


def test_a_sample_that_changed_nothing_is_no_check() -> None:
    same = {"y": np.ones(4, np.float32)}
    assert compare("key", Expectation(same, 3, False, ()), same, same).outcome is Outcome.UNCHECKED
