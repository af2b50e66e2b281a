"""Graham's bound holds for every greedy schedule and every convex curve; the envelope for every staircase."""

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kerncast.measurements import PartitionTimes
from kerncast.studies.bounds import Blocks, BoundQuestion
from kerncast.studies.bounds.base import Curve, between
from kerncast.studies.bounds.equal_blocks import EqualBlocks, envelope
from kerncast.studies.bounds.list_scheduling import ListScheduling, graham

ABOVE = 1 + 1e-9
MOST = 24


def list_schedule(durations: Sequence[float], machines: int) -> float:
    """Return when the last block ends, if each goes to the machine that is free first."""
    free = [0.0] * machines
    for duration in durations:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


DURATIONS = st.lists(st.floats(1e-3, 1e3) | st.sampled_from([1.0, 2.0, 40.0]), min_size=1, max_size=60)
COUNTS = st.sets(st.integers(1, MOST), min_size=1, max_size=5).map(sorted)


def curve_of(durations: Sequence[float], counts: Sequence[int], overhead: float = 0.0) -> Curve:
    return Curve(tuple(counts), tuple(overhead + list_schedule(durations, count) for count in counts))


@given(DURATIONS, st.integers(1, 8))
def test_a_list_schedule_never_takes_longer_on_more_machines(durations: list[float], machines: int) -> None:
    assert list_schedule(durations, machines + 1) <= list_schedule(durations, machines) * ABOVE


@given(DURATIONS, COUNTS, st.floats(0, 1e3))
def test_no_list_schedule_passes_the_bound(durations: list[float], anchors: list[int], overhead: float) -> None:
    asked = range(1, MOST + 1)
    bounds = graham(curve_of(durations, anchors, overhead), asked)
    assert (bounds * ABOVE >= curve_of(durations, asked, overhead).seconds).all()


@given(DURATIONS, COUNTS, st.integers(1, 4))
def test_blocks_that_share_a_tpc_are_machines_of_their_own(
    durations: list[float], anchors: list[int], per_tpc: int
) -> None:
    asked = range(1, MOST + 1)
    times = [list_schedule(durations, per_tpc * count) for count in asked]
    bounds = graham(Curve(tuple(anchors), tuple(times[count - 1] for count in anchors)), asked, per_tpc)
    assert (bounds * ABOVE >= times).all()


@given(DURATIONS, DURATIONS, st.integers(2, MOST), st.floats(0, 10))
def test_sums_and_maxima_of_schedules_are_covered(
    first: list[float], second: list[float], most: int, weight: float
) -> None:
    asked = range(1, most + 1)
    one, other = np.array(curve_of(first, asked).seconds), weight * np.array(curve_of(second, asked).seconds)
    for times in (one + other, np.maximum(one, other)):
        ends = Curve((1, most), (float(times[0]), float(times[-1])))
        assert (graham(ends, asked) * ABOVE >= times).all()


@given(st.floats(0, 100), st.floats(1e-6, 100), st.floats(0, 100), st.floats(1, 8), st.integers(1, 6))
def test_convex_curves_are_covered(serial: float, work: float, roof: float, power: float, fewest: int) -> None:
    asked = range(fewest, MOST + 1)
    k = np.array(asked, float)
    times = serial + ((work / k) ** power + (roof / MOST) ** power) ** (1 / power)
    ends = Curve((fewest, MOST), (float(times[0]), float(times[-1])))
    assert (graham(ends, asked) * ABOVE >= times).all()


@given(DURATIONS, COUNTS, st.integers(1, MOST))
def test_a_further_anchor_never_loosens_the_bound_unless_it_shows_more_work_on_fewer(
    durations: list[float], anchors: list[int], further: int
) -> None:
    asked = range(1, MOST + 1)
    measured = curve_of(durations, sorted({*anchors, further}))
    loose, tight = graham(curve_of(durations, anchors), asked), graham(measured, asked)
    if all(more >= fewer for fewer, more in pairwise(np.multiply(measured.counts, measured.seconds))):
        assert (tight <= loose * ABOVE).all()
    times = np.array(curve_of(durations, asked).seconds)
    assert (tight * ABOVE >= times).all()


def test_work_that_grows_with_fewer_tpcs_is_not_bounded_by_what_more_of_them_did() -> None:
    # Four blocks of 1 s take 2 s on three TPCs: 6 TPC-seconds, where four TPCs need 4 (docs/bound.md).
    assert graham(Curve((4,), (1.0,)), (1,)).tolist() == [4.0]
    assert graham(Curve((3, 4), (2.0, 1.0)), (1,)).tolist() == [6.0]


TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=6)


@given(TIMES, st.data())
def test_any_times_give_a_bound_that_never_rises_and_is_never_below_the_expected(
    seconds: list[float], data: st.DataObject
) -> None:
    counts = sorted(data.draw(st.sets(st.integers(1, MOST), min_size=len(seconds), max_size=len(seconds))))
    times = PartitionTimes(tuple(counts), tuple(seconds))
    for method in (ListScheduling(), EqualBlocks()):
        question = BoundQuestion(times, tuple(counts), tuple(range(1, MOST + 1)), MOST)
        answer = method.bound(question)
        expected, bound = np.array(answer.expected), np.array(answer.bound)
        assert np.isfinite(bound).all()
        assert (bound > 0).all()
        assert (bound * ABOVE >= expected).all()
        falls = sorted(seconds, reverse=True) == seconds
        if falls and method.name == "list-scheduling":
            assert (np.diff(bound) <= 1e-9 * bound[:-1]).all()


@given(st.integers(1, 400), st.floats(0, 10), st.integers(1, 4), st.integers(2, MOST))
def test_no_staircase_passes_the_envelope(blocks: int, overhead: float, fewest: int, most: int) -> None:
    fewest = min(fewest, most - 1)
    asked = range(fewest, most + 1)
    times = overhead + np.ceil(blocks / np.array(asked, float))
    ends = Curve((fewest, most), (float(times[0]), float(times[-1])))
    bounds = envelope(ends, asked)
    assert (bounds * ABOVE >= times).all()
    known = envelope(ends, asked, blocks)
    if times[0] > times[-1]:
        np.testing.assert_allclose(known, times, rtol=1e-9)


@given(st.integers(1, 400), st.integers(1, 16), st.integers(1, MOST))
def test_waves_of_blocks_that_share_a_tpc_are_those_of_fewer_blocks(blocks: int, per_tpc: int, tpcs: int) -> None:
    shared = Blocks(blocks, per_tpc)
    alone = Blocks(int(shared.waves((1,))[0]))
    assert shared.waves((tpcs,)).tolist() == alone.waves((tpcs,)).tolist()


@given(st.floats(1, 100), st.floats(0, 1), st.integers(1, MOST - 1))
def test_what_lies_between_is_exact_for_curves_affine_in_1_over_k(scale: float, serial: float, fewest: int) -> None:
    k = np.arange(1, MOST + 1)
    times = scale * (serial + (1 - serial) / k)
    found = between(Curve((fewest, MOST), (float(times[fewest - 1]), float(times[-1]))), tuple(k.tolist()))
    np.testing.assert_allclose(found, times, rtol=1e-7)
