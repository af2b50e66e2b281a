"""Which GPU is faster: against closed forms, SciPy's distribution and draws made otherwise."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kerncast.models.transfer.posterior import Effects, Subject
from kerncast.studies.comparing.comparison import FREEDOM, Z_OF_90, Comparison, Timed, faster, pareto_front, student

OWN = Effects(0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0, 1)
SHARED = Effects(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1)
HALF = Effects(0.5, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 8, 0, 1)
TIMES = st.floats(1e-6, 1.0)
WIDTHS = st.floats(0.01, 1.0)


def timed(gpu: str, seconds: float, width: float, *, kernel: str = "k", clock: float = 0.0) -> Timed:
    return Timed(Subject(kernel, kernel, gpu, 70, "Volta", 4096, (("dram", 1.0),)), seconds, width, clock, clock)


@given(st.floats(-50, 50))
def test_student_is_scipys(x: float) -> None:
    assert student(x) == pytest.approx(float(stats.t.cdf(x, FREEDOM)), abs=1e-12)
    assert pytest.approx(float(stats.t.ppf(0.95, FREEDOM))) == Z_OF_90


@given(TIMES, TIMES, WIDTHS, WIDTHS)
def test_one_of_two_is_faster(a: float, b: float, width_a: float, width_b: float) -> None:
    found = Comparison([[timed("a", a, width_a)], [timed("b", b, width_b)]], HALF)
    assert found.beats(0, 1) + found.beats(1, 0) == pytest.approx(1)
    assert (found.beats(0, 1) > 0.5) == (a < b) or math.isclose(a, b)
    expected = stats.t.cdf(
        math.log(b / a) * Z_OF_90 / math.sqrt(max(1e-9, width_a**2 + width_b**2 - width_a * width_b)), FREEDOM
    )
    assert found.beats(0, 1) == pytest.approx(float(expected), abs=1e-3)


def test_a_common_error_decides_nothing() -> None:
    slower = [[timed("a", 1.0, 0.5)], [timed("b", 1.05, 0.5)]]
    assert Comparison(slower, SHARED).beats(0, 1) > 0.999
    assert Comparison(slower, OWN).beats(0, 1) == pytest.approx(0.564, abs=0.005)


def test_what_the_clock_adds_is_a_gpus_own() -> None:
    known = Comparison([[timed("a", 1.0, 0.2)], [timed("b", 1.1, 0.2)]], SHARED)
    unknown = Comparison([[timed("a", 1.0, 0.2, clock=0.3)], [timed("b", 1.1, 0.2)]], SHARED)
    assert unknown.beats(0, 1) < known.beats(0, 1)
    assert unknown.totals[0].high == pytest.approx(math.exp(math.hypot(0.2, 0.3)))
    assert unknown.totals[1].low == pytest.approx(1.1 / math.exp(0.2))


@given(TIMES, TIMES, WIDTHS, WIDTHS, st.floats(0, 1))
def test_a_version_is_faster_as_student_says(a: float, b: float, width_a: float, width_b: float, clock: float) -> None:
    """Two builds on one GPU: half of their error is the GPU's, and the clock is one; against SciPy's distribution."""
    half = Effects(0.5, 0, 0, 0, 0, 0, 0, 0, 0.5, 0, 8, 0, 1)
    old, new = timed("a", a, width_a, kernel="old", clock=clock), timed("a", b, width_b, kernel="new", clock=clock)
    found = faster([old], [new], half)
    assert found.correlation == pytest.approx(0.5)
    for told, shared in ((found.probability, 0.5), (found.if_independent, 0.0), (found.if_alike, 1.0)):
        spread = math.sqrt(max(width_a**2 + width_b**2 - 2 * shared * width_a * width_b, (0.001 * Z_OF_90) ** 2))
        assert told == pytest.approx(float(stats.t.cdf(math.log(a / b) * Z_OF_90 / spread, FREEDOM)), abs=1e-3)


def test_versions_of_one_build_share_their_error() -> None:
    old, new = [timed("a", 1.05, 0.5)], [timed("a", 1.0, 0.5)]
    assert faster(old, new, SHARED).probability == pytest.approx(1, abs=1e-3)
    own = faster(old, [timed("a", 1.0, 0.5, kernel="other")], SHARED)
    assert (own.correlation, own.probability) == (0.0, own.if_independent)
    assert own.probability == pytest.approx(0.564, abs=0.005)


def test_errors_of_different_kernels_average_out() -> None:
    alike = Comparison([[timed("a", 1.0, 0.3), timed("a", 1.0, 0.3)]], SHARED).totals[0]
    other = Comparison([[timed("a", 1.0, 0.3), timed("a", 1.0, 0.3, kernel="other")]], SHARED).totals[0]
    assert (alike.seconds, other.seconds) == (2.0, 2.0)
    assert alike.high == pytest.approx(2 * math.exp(0.3))
    assert other.high == pytest.approx(2 * math.exp(0.3 / math.sqrt(2)))


def test_the_best_of_all_is_drawn_as_numpy_draws() -> None:
    times, widths = (1.0, 1.1, 1.3), (0.3, 0.1, 0.4)
    found = Comparison(
        [[timed(name, *each)] for name, each in zip("abc", zip(times, widths, strict=True), strict=True)], HALF
    )
    assert sum(found.best()) == pytest.approx(1)
    draw = np.random.default_rng(7)
    correlation = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    scale = np.array(widths) / Z_OF_90
    normal = draw.multivariate_normal(np.zeros(3), correlation * np.outer(scale, scale), 200_000)
    errors = normal / np.sqrt(draw.chisquare(FREEDOM, 200_000) / FREEDOM)[:, None]
    counted = np.bincount(np.argmin(np.log(times) + errors, axis=1), minlength=3) / 200_000
    assert np.allclose(found.best(), counted, atol=0.012)
    assert found.best() == found.best(), "the same draws each time"


def test_two_gpus_are_the_best_as_often_as_they_beat_each_other() -> None:
    found = Comparison([[timed("a", 1.0, 0.3)], [timed("b", 1.2, 0.3)]], HALF)
    assert found.best()[0] == pytest.approx(found.beats(0, 1), abs=0.01)
    assert found.best([3.0, 1.0])[0] == pytest.approx(found.beats(0, 1, 1 / 3), abs=0.01)
    assert found.best([1.0, math.inf]) == (1.0, 0.0)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_the_front_is_what_nothing_undercuts(points: list[tuple[float, float]]) -> None:
    front = pareto_front(points)
    assert front
    for place in front:
        x, y = points[place]
        assert not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points)
    assert all(points[a][0] < points[b][0] and points[a][1] > points[b][1] for a, b in pairwise(front))
    covered = {points[place] for place in front}
    assert all(any(a <= x and b <= y for a, b in covered) for x, y in points)
