"""What bounds say of themselves: who is judged by which times, what contradicts, what is no bound."""

import heapq
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.measurements import PartitionTimes
from kerncast.report.bounds.bound_picture import draw_bounds
from kerncast.report.bounds.bounds_table import caveats_of, guarantee_of, judged, print_bounds
from kerncast.report.pictures.picture_files import save_picture
from kerncast.studies.bounding import BoundOptions, KernelBounds, bound_times
from kerncast.studies.bounds import Blocks, BoundAnswer, BoundQuestion, Kind, Regressors
from kerncast.studies.bounds.list_scheduling import ListScheduling
from kerncast.studies.bounds.published.curve_fit import fitted_curve
from kerncast.studies.bounds.published.quantile_network import quantile_network

GPU = load_gpu("TITAN V")
COUNTS = tuple(range(1, 8))
STEPS = tuple(math.ceil(20 / k) * 1e-3 for k in COUNTS)


def bounded(method: str, seconds: tuple[float, ...] = STEPS, **options: object) -> KernelBounds:
    return bound_times(PartitionTimes(COUNTS, seconds), GPU, COUNTS, BoundOptions(method, **options))  # type: ignore[arg-type]


def test_an_anchor_that_an_offset_was_chosen_by_is_not_judged() -> None:
    """The affine calibration takes one of the two anchors; the other one decides about the offset."""
    found = bounded("curve-fit-offset", anchors=(1, 7))
    assert len(found.answer.calibrated_on) == 1
    assert {*found.answer.calibrated_on, *found.answer.known_beside} == {1, 7}
    assert len(judged(found)) == 5


@pytest.mark.parametrize(
    ("method", "words", "number"),
    [
        ("curve-fit", "5 measured times that it does not know", 5),
        ("curve-fit-adaptive-oracle", "5 measured times that it was set by", 5),
        ("curve-fit-offset-oracle", "6 measured times that it was set by", 6),
    ],
)
def test_an_oracle_says_that_it_saw_the_times(method: str, words: str, number: int) -> None:
    found = bounded(method, anchors=(1, 7))
    console = Console(record=True, width=200)
    print_bounds(found, console)
    assert words in console.export_text()
    assert len(judged(found)) == number


def test_a_staircase_contradicts_nothing() -> None:
    """20 equal blocks take 4 waves on 6 TPCs and 3 on 7: 4/3, by 7/6 as many TPCs."""
    assert bounded("list-scheduling").answer.contradictions == ()


def test_no_schedule_of_blocks_that_share_a_tpc_contradicts() -> None:
    per_tpc, draw = 4, np.random.default_rng(0)
    for _ in range(300):
        durations = draw.choice([1.0, 5.0, 9.0], int(draw.integers(2, 60)))
        times = []
        for count in COUNTS:
            free = [0.0] * (count * per_tpc)
            for duration in durations:
                heapq.heapreplace(free, free[0] + float(duration))
            times.append(max(free))
        measured = PartitionTimes(COUNTS, tuple(times)).only((1, 2, 4, 7))
        question = BoundQuestion(measured, (1, 2, 4, 7), COUNTS, most=7, blocks=Blocks(len(durations), per_tpc))
        answer = ListScheduling().bound(question)
        assert answer.contradictions == ()
        assert (np.array(answer.bound) * (1 + 1e-9) >= times).all()


def test_no_time_above_zero_is_told_and_drawn(tmp_path: Path) -> None:
    """A line through 8 ms on 1 TPC and 1 ms on 7 reaches 0 below 8."""
    times = PartitionTimes((1, 7), (8e-3, 1e-3))
    found = bound_times(times, GPU, (30, 40), BoundOptions("linear-regression", form="affine"))
    assert found.answer.bound == (0.0, 0.0)
    assert caveats_of(found)[-1] == Caveat(CaveatKind.NO_TIME_ABOVE_ZERO, "30, 40")
    save_picture(draw_bounds(found), tmp_path / "zero.png")
    assert (tmp_path / "zero.png").stat().st_size > 0


def test_a_level_is_not_rounded() -> None:
    found = KernelBounds(GPU, "simulation", Kind.CONFORMAL, (1,), BoundAnswer((1.0,), (2.0,), ()), level=0.9999)
    assert "with a probability of 99.99 %" in guarantee_of(found, found.tpcs[-1])


def test_where_the_largest_factor_is_not_enough_the_risk_is_the_one_that_is_left() -> None:
    """Two runs of 1 and 5 ms: one logarithm above the median, log(5/3), and two of other kernels, 0.009 in sum."""
    times = PartitionTimes((1, 1, 40), (1e-3, 5e-3, 1e-4))
    found = bound_times(times, GPU, (1, 2), BoundOptions("list-scheduling", level=0.9999))
    spread = found.answer.spread
    assert spread is not None
    assert spread.factor == pytest.approx(100)
    assert spread.risk == pytest.approx((1 + math.log(100) / (0.009 + math.log(5 / 3))) ** -3)
    assert "with a risk of at most 0.1" in guarantee_of(found, found.tpcs[-1])


def test_anchors_that_were_not_measured_are_named_shortly() -> None:
    for method, anchors in (("curve-fit", (9,)), ("random-forest", (8, 9)), ("list-scheduling", tuple(range(1, 4096)))):
        with pytest.raises(InputError, match=r"anchors without a measured time: [89]") as error:
            bounded(method, anchors=anchors)
        assert len(str(error.value)) < 500


def test_a_feature_that_is_constant_but_for_rounding_teaches_nothing() -> None:
    draw = np.random.default_rng(0)
    values = np.c_[draw.uniform(1, 2, 100), np.full(100, 0.1)]
    regressors = Regressors(("a", "b"), values, values[:, 0] * 1e-3, (1, 2), np.array([[1.5, 0.1], [1.5, 0.1000001]]))
    assert fitted_curve(regressors).seconds == pytest.approx((1.5e-3, 1.5e-3), rel=1e-4)
    assert quantile_network(regressors).seconds == pytest.approx((1.5e-3, 1.5e-3), rel=0.01)


@pytest.mark.parametrize("shape", [(8e-3, 2e-3), (7e-3, 1.06e-3), (7e-3, 1e-3)])
def test_the_honest_margin_does_not_know_the_anchor_that_it_judges(shape: tuple[float, float]) -> None:
    """From one of two anchors 1/k forecasts the other: 8/7 for 2 needs more than 13 %, 1 for 1.06 needs 7 %."""
    margin, is_enough = {2e-3: (0.13, False), 1.06e-3: (0.07, True), 1e-3: (0.03, True)}[shape[1]]
    times = PartitionTimes((1, 7), shape)
    answer = bound_times(times, GPU, COUNTS, BoundOptions("curve-fit-adaptive", form="inverse")).answer
    assert (answer.margin, answer.is_enough) == (margin, is_enough)


def test_three_anchors_are_judged_by_lines_through_two() -> None:
    """Without the one in the middle, the line in 1/k from 7 on 1 TPC to 1 on 7 is at 7/3 on 3: 5.9 % below 2.47."""
    times = PartitionTimes((1, 3, 7), (7.0, 2.47, 1.0))
    margin = bound_times(
        times, GPU, COUNTS, BoundOptions("curve-fit-adaptive", form="inverse", anchors=(1, 3, 7))
    ).answer.margin
    one_left_out = {
        1: 1.0 + (2.47 - 1.0) / (1 / 3 - 1 / 7) * (1 - 1 / 7),
        3: 1.0 + (7.0 - 1.0) / (1 - 1 / 7) * (1 / 3 - 1 / 7),
        7: 7.0 - (7.0 - 2.47) / (1 - 1 / 3) * (1 - 1 / 7),
    }
    actual = dict(zip(times.tpcs, times.seconds, strict=True))
    needed = max(actual[count] / forecast - 1 for count, forecast in one_left_out.items())
    assert margin == next(step for step in (0.03, 0.05, 0.07, 0.09, 0.11, 0.13) if step >= needed)
