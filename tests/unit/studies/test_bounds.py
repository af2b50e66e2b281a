"""The methods that bound times on parts of a GPU: closed forms, published settings, oracles."""

import math
from itertools import pairwise

import numpy as np
import pytest

from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.measurements.feature_table import FeatureTable
from kerncast.read.features import ProfiledMeans
from kerncast.report.bounds.bounds_table import bound_object, caveats_of, guarantee_of, judged
from kerncast.studies.bounding import BoundOptions, KernelBounds, bound_times, with_profiled_features
from kerncast.studies.bounds import (
    METHODS,
    OF_LAUNCHES,
    Blocks,
    BoundQuestion,
    Contradiction,
    Kind,
    Regressors,
    bound_method,
)
from kerncast.studies.bounds.base import Curve, between, spread_of
from kerncast.studies.bounds.list_scheduling import ListScheduling, graham
from kerncast.studies.bounds.published.calibration import MARGINS, adaptive_margin, affine_through, left_out_margin
from kerncast.studies.bounds.published.curve_fit import fitted_curve
from kerncast.studies.bounds.published.curve_fit_offset import measurement_choices
from kerncast.studies.bounds.published.linear_regression import linear_regression
from kerncast.studies.bounds.published.quantile_network import _gradients, _Layer, quantile_network
from kerncast.studies.bounds.published.random_forest import random_forest
from kerncast.studies.worst_case import worst_case_of

GPU = load_gpu("TITAN V")
COUNTS = tuple(range(1, 8))


def table(seconds: list[float], counts: tuple[int, ...] = COUNTS) -> PartitionTimes:
    return PartitionTimes(counts, tuple(seconds))


def bounded(seconds: list[float], method: str, **options: object) -> KernelBounds:
    return bound_times(table(seconds), GPU, COUNTS, BoundOptions(method, **options))  # type: ignore[arg-type]


#: Methods that need no launch, and not hundreds of runs.
OF_TABLES = [method.name for method in METHODS if method.kind is not Kind.EXTREME and method.name not in OF_LAUNCHES]
STEPS = [math.ceil(20 / k) * 1e-3 for k in COUNTS]
ENDS = {"anchors": (1, 7)}


def test_the_names_are_a_promise() -> None:
    assert [method.name for method in METHODS] == [
        "simulation", "shapes", "worst-path", "list-scheduling", "equal-blocks", "linear-regression",
        "quantile-network", "curve-fit", "curve-fit-adaptive", "curve-fit-adaptive-oracle", "curve-fit-offset",
        "curve-fit-offset-oracle", "random-forest", "random-forest-oracle", "peaks-over-threshold", "block-maxima",
    ]  # fmt: skip
    with pytest.raises(InputError, match="list-scheduling"):
        bound_method("wishful")


@pytest.mark.parametrize("method", OF_TABLES)
def test_no_method_is_below_what_was_measured_or_what_it_expects(method: str) -> None:
    """The published methods are exact where they were calibrated; all others leave room for how runs differ."""
    found = bounded(STEPS, method, **ENDS)
    for count in found.answer.calibrated_on:
        if found.kind is Kind.MARGIN:
            assert found.answer.bound[count - 1] == STEPS[count - 1]
        else:
            assert found.answer.bound[count - 1] > 1.01 * STEPS[count - 1]
    assert all(bound >= expected for expected, bound in zip(found.answer.expected, found.answer.bound, strict=True))
    assert all(fewer >= more for fewer, more in pairwise(found.answer.bound))


def without_spread(found: KernelBounds) -> list[float]:
    """The bounds of medians, before the allowance for how runs differ."""
    assert found.answer.spread is not None
    return [each / found.answer.spread.factor for each in found.answer.bound]


def test_graham_is_attained_by_a_schedule() -> None:
    """K blocks, the last of which takes as long as the run on K machines: the bound is exact where k divides K - 1."""
    short, long = 0.25, 1.0
    durations = [short] * 6 + [long]
    bounds = graham(Curve((1, 7), (sum(durations), long)), COUNTS)
    assert bounds[1] == pytest.approx(3 * short + long)
    assert bounds[2] == pytest.approx(2 * short + long)
    assert bounds[5] == pytest.approx(short + long)


def test_two_curves_that_share_both_anchors_need_the_same_bound() -> None:
    """1/k and one wave of K blocks: whoever is safe for the second is up to 71 % above the first."""
    ideal, one_wave = [7 / k for k in COUNTS], [float(math.ceil(7 / k)) for k in COUNTS]
    assert (ideal[0], ideal[-1]) == (one_wave[0], one_wave[-1])
    found = without_spread(bounded(ideal, "equal-blocks", **ENDS))
    assert np.all(np.array(found) >= np.array(one_wave) - 1e-9)
    assert found == pytest.approx(one_wave, rel=0.01)
    over = np.mean(np.array(one_wave[1:-1]) / np.array(ideal[1:-1])) - 1
    assert over == pytest.approx(0.343, abs=1e-3)


def test_known_blocks_give_the_staircase() -> None:
    times = [2e-4 + 1e-3 * math.ceil(100 / (16 * k)) for k in COUNTS]
    found = bounded(times, "equal-blocks", blocks=Blocks(100, 16), **ENDS)
    assert without_spread(found) == pytest.approx(times)
    assert found.answer.expected == pytest.approx(times)


def test_what_lies_between_never_goes_beyond_ideal_scaling() -> None:
    assert between(Curve((4,), (1.0,)), (2, 4, 8)).tolist() == [2.0, 1.0, 0.5]
    assert between(Curve((2, 4), (8.0, 1.0)), (1, 8)).tolist() == [16.0, 0.5]


@pytest.mark.parametrize(
    ("seconds", "contradiction"),
    [
        ([1.0, 2.0], Contradiction.SLOWER_WITH_MORE),
        ([9.0, 1.0], Contradiction.LESS_WORK_WITH_MORE),
        ([1.0, 0.9, 0.2], Contradiction.ABOVE_OTHERS),
    ],
)
def test_times_that_contradict_the_assumptions_are_told(seconds: list[float], contradiction: Contradiction) -> None:
    counts = (1, 3, 7)[-len(seconds) :]
    found = bound_times(table(seconds, counts), GPU, COUNTS, BoundOptions("list-scheduling"))
    assert contradiction in found.answer.contradictions
    assert len(caveats_of(found)) >= 2


def test_times_that_no_staircase_has_get_grahams_bound() -> None:
    found = bounded([9.0, 5, 4, 3, 2, 1.5, 1.0], "equal-blocks", **ENDS)
    assert Contradiction.NO_STAIRCASE in found.answer.contradictions
    assert "every greedy schedule" in guarantee_of(found, found.tpcs[-1])
    assert found.answer.bound == bounded([9.0, 5, 4, 3, 2, 1.5, 1.0], "list-scheduling", **ENDS).answer.bound


def test_a_single_run_has_the_spread_of_other_kernels_and_repeats_that_agree_have_less() -> None:
    """Two runs above the median with a sum of 0.009: the Pareto tail passes exp(0.009 (sqrt(100) - 1)) in 0.5 %."""
    assert spread_of(table(STEPS), 0.005).factor == pytest.approx(math.exp(0.009 * 9))
    agreeing = spread_of(PartitionTimes((1,) * 10, (2.0,) * 10), 0.005).factor
    assert 1 < agreeing == pytest.approx(math.exp(0.009 * ((10 / 0.01) ** (1 / 7) - 1)))


def test_the_risk_of_the_spread_is_kept_for_pareto_tails() -> None:
    """Of 4,000 times ten repeats with a Pareto tail, about as many of the next ten hold a longer one as was allowed.

    These runs differ ten times as much as those that the prior is from, which takes a little more than the risk.
    """
    draw = np.random.default_rng(5)
    exceeded = 0
    for _ in range(4000):
        ratios = np.exp(0.05 * draw.laplace(size=20))
        first = PartitionTimes((1,) * 10, tuple(ratios[:10].tolist()))
        factor = spread_of(first, risk=0.1).factor
        exceeded += bool(max(ratios[10:]) > factor * 1.0)
    assert 0.02 < exceeded / 4000 <= 0.125


def test_the_regressions_are_least_squares() -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(size=(60, 5)) * [1, 10, 1e6, 1e-3, 1]
    seconds = 5e-3 + values @ [1e-4, 2e-5, 1e-10, 0.1, -1e-4] + draw.normal(size=60) * 1e-5
    asked = draw.normal(size=(4, 5)) * [1, 10, 1e6, 1e-3, 1]
    regressors = Regressors(tuple("abcde"), values, seconds, (1, 2, 3, 4), asked)
    weights, *_ = np.linalg.lstsq(np.c_[values, np.ones(60)], seconds, rcond=None)
    truth = np.c_[asked, np.ones(4)] @ weights
    assert linear_regression(regressors).seconds == pytest.approx(truth, rel=1e-6)
    assert fitted_curve(regressors).seconds == pytest.approx(truth, rel=1e-4)


def test_published_margins() -> None:
    """A curve that the base model has exactly: what is left is the margin of section 3.6."""
    ideal = [7e-3 / k for k in COUNTS]
    for method, margin in (("linear-regression", 0.05), ("curve-fit", 0.03), ("curve-fit-adaptive", 0.03)):
        found = bounded(ideal, method, form="inverse", **ENDS).answer
        assert found.margin == margin
        assert found.bound[1:-1] == pytest.approx([time * (1 + margin) for time in ideal[1:-1]])
    assert MARGINS == (0.03, 0.05, 0.07, 0.09, 0.11, 0.13)


def test_the_adaptive_margin_is_the_least_that_is_enough() -> None:
    assert adaptive_margin([1.0, 1.0], [1.02, 1.065]) == (0.07, True)
    assert adaptive_margin([], []) == (0.03, True)
    raw = Curve((1, 7), (7.0, 1.0))
    assert left_out_margin(raw, Curve((1, 7), (7.0, 1.06))) == (0.07, True)
    assert left_out_margin(raw, Curve((1,), (7.0,))) == (0.13, False)


def test_the_calibration_with_one_count_or_a_flat_forecast_is_a_scale() -> None:
    assert affine_through(Curve((1, 2), (4.0, 2.0)), Curve((2,), (6.0,))).slope == 3.0
    assert affine_through(Curve((1, 2), (4.0, 4.0)), Curve((1, 2), (6.0, 2.0))).slope == 1.0
    shifted = affine_through(Curve((1,), (-4.0,)), Curve((1,), (6.0,)))
    assert (shifted.slope, shifted.intercept) == (1.0, 10.0)


def test_the_selection_prefers_few_counts_then_no_offset_then_small_errors() -> None:
    raw = Curve((1, 2, 4), (4.0, 2.0, 1.0))
    choices = measurement_choices(raw, Curve((1, 2, 4), (8.0, 4.2, 2.0)))
    assert [each.counts for each in choices[:3]] == [(2,), *sorted([(1,), (4,)], key=str)]
    assert choices[0].offset_seconds == 0.0
    assert choices[1].offset_seconds == pytest.approx(0.2)
    assert {len(each.counts) for each in choices} == {1, 2}
    many = tuple(range(1, 21))
    curve = Curve(many, tuple(1 / k for k in many))
    assert {len(each.counts) for each in measurement_choices(curve, curve)} == {1, 2}


def test_oracles_look_at_what_they_forecast_and_need_it() -> None:
    bumpy = [time * (1.08 if count == 3 else 1) for count, time in zip(COUNTS, [7e-3 / k for k in COUNTS], strict=True)]
    assert bounded(bumpy, "curve-fit-adaptive-oracle", form="inverse", **ENDS).answer.margin == 0.09
    assert bounded(bumpy, "curve-fit-adaptive", form="inverse", **ENDS).answer.margin == 0.03
    assert worst_case_of(judged(bounded(bumpy, "curve-fit-offset-oracle", **ENDS))).misses == 0
    for method in ("curve-fit-adaptive-oracle", "curve-fit-offset-oracle", "random-forest-oracle"):
        with pytest.raises(InputError, match=f"use {method.removesuffix('-oracle')}"):
            bound_times(table([2.0, 1.0], (1, 7)), GPU, COUNTS, BoundOptions(method))


def test_the_pinball_gradients_are_those_of_finite_differences() -> None:
    draw = np.random.default_rng(1)
    layers = [_Layer(draw.normal(size=(3, 4)), draw.normal(size=4)), _Layer(draw.normal(size=(4, 1)), np.zeros(1))]
    values, truth = draw.normal(size=(9, 3)), draw.normal(size=9)

    def loss() -> float:
        hidden = np.maximum(values @ layers[0].weights + layers[0].biases, 0)
        error = truth - (hidden @ layers[1].weights + layers[1].biases)[:, 0]
        return float(np.mean(np.maximum(0.8 * error, -0.2 * error)))

    parts = [part for layer in layers for part in (layer.weights, layer.biases)]
    for part, gradient in zip(parts, _gradients(layers, values, truth), strict=True):
        before = loss()
        part.flat[1 % part.size] += 1e-6
        assert (loss() - before) / 1e-6 == pytest.approx(gradient.flat[1 % part.size], abs=1e-5)
        part.flat[1 % part.size] -= 1e-6


def test_the_network_learns_the_quantile() -> None:
    draw = np.random.default_rng(2)
    values = draw.uniform(0, 1, (250, 1))
    seconds = 1 + values[:, 0] + draw.uniform(0, 1, 250)
    curve = quantile_network(Regressors(("x",), values, seconds, (1, 2), np.array([[0.25], [0.75]])))
    assert curve.seconds == pytest.approx((2.05, 2.55), abs=0.15)


def test_the_forest_stays_within_what_it_learned() -> None:
    values = np.linspace(0, 1, 200)[:, np.newaxis]
    curve = random_forest(Regressors(("x",), values, 1 + values[:, 0], (1, 2), np.array([[0.5], [9.0]])))
    assert curve.seconds[0] == pytest.approx(1.5, abs=0.02)
    assert curve.seconds[1] <= 2.0


def test_forms() -> None:
    steps = bounded(STEPS, "linear-regression", form="staircase", blocks=Blocks(20), **ENDS)
    assert steps.answer.bound[1:-1] == pytest.approx([1.05 * time for time in STEPS[1:-1]])
    lines = bounded([8.0 - k for k in COUNTS], "curve-fit", form="affine", **ENDS)
    assert lines.answer.expected == pytest.approx([8.0 - k for k in COUNTS])
    for form, words in (("staircase", "--blocks"), ("cubic", "inverse")):
        with pytest.raises(InputError, match=words):
            bounded(STEPS, "curve-fit", form=form)


def test_features_of_other_applications() -> None:
    names = ("sm__cycles_elapsed.sum", "lts__t_sectors_op_read.sum")
    draw = np.random.default_rng(4)
    values = draw.uniform(1e3, 1e5, (40, 2))
    training = FeatureTable(
        names, values, values @ [2e-9, 1e-10], ("k",) * 40, ("g",) * 40, tuple(map(str, range(40))), "train.csv", ""
    )
    features = tuple(CountFeatures(k, (7e4 / k, 5e3)) for k in COUNTS)
    truth = [3 * (2e-9 * 7e4 / k) + 1e-5 for k in COUNTS]
    times = PartitionTimes(COUNTS, tuple(truth), names, features)
    found = bound_times(times, GPU, COUNTS, BoundOptions("curve-fit", training=training))
    assert found.answer.expected == pytest.approx(truth, rel=1e-3)
    profiled = [(k, ProfiledMeans(("ipc", *names[::-1]), (1.0, 5e3, 7e4 / k))) for k in COUNTS]
    assert with_profiled_features(table(truth), profiled, training).features == features
    for wrong, words in (
        (table(truth), "no columns of features"),
        (PartitionTimes(COUNTS, tuple(truth), names, features[:3]), "features of 4, 5, 6, 7 TPCs"),
        (PartitionTimes(COUNTS, tuple(truth), ("ipc",), ()), "no feature ipc"),
    ):
        with pytest.raises(InputError, match=words):
            bound_times(wrong, GPU, COUNTS, BoundOptions("curve-fit", training=training))
    with pytest.raises(InputError, match="both given"):
        bound_times(times, GPU, COUNTS, BoundOptions("curve-fit", form="inverse", training=training))


def test_the_object_is_a_promise() -> None:
    found = bound_object(bounded(STEPS, "curve-fit", **ENDS))
    assert list(found) == [
        "schema_version", "gpu", "gpu_id", "method", "kind", "level", "calibrated_on", "margin", "offset_seconds",
        "spread_factor", "measure_next", "bounds", "plan", "extremes", "scores", "caveats",
        "caveat_details",
    ]  # fmt: skip
    assert list(found["bounds"][0]) == [
        "tpcs", "expected_seconds", "bound_seconds", "kind", "guarantee", "measured_seconds",
    ]  # fmt: skip
    assert list(found["scores"]) == [
        "n", "violations", "mae_seconds", "max_ae_seconds", "rmse_seconds", "mse", "r2", "mape", "mean_over_estimate",
        "largest_over_estimate", "tightness", "miss_probability", "miss_probability_upper",
    ]  # fmt: skip
    assert found["scores"]["n"] == 5


def test_every_method_words_its_guarantee() -> None:
    words = {
        "list-scheduling": "holds for every greedy schedule",
        "equal-blocks": "holds if all blocks take equally long",
        "shapes": "with a probability of 99 %",
        "linear-regression": "none: a margin of 5%, as published",
        "quantile-network": "none: the network's 80 % quantile",
        "curve-fit": "none: a margin of 3%",
        "curve-fit-adaptive-oracle": "by the times that it is to forecast",
        "curve-fit-offset": "none: raised by what the anchors",
        "curve-fit-offset-oracle": "by the times that it is to forecast",
        "random-forest-oracle": "by the times that it is to forecast",
    }
    for method, start in words.items():
        found = bounded(STEPS, method, **ENDS)
        assert start in guarantee_of(found, found.tpcs[-1])


def test_anchors_must_have_been_measured() -> None:
    with pytest.raises(InputError, match="anchors without a measured time: 9"):
        bounded(STEPS, "curve-fit", anchors=(1, 9))
    with pytest.raises(InputError, match="needs a form"):
        bound_method("curve-fit").bound(BoundQuestion(table(STEPS), (1, 7), COUNTS, most=7))
    with pytest.raises(InputError):
        Blocks(0)
    assert ListScheduling().bound(BoundQuestion(table(STEPS), (7,), COUNTS, most=7)).measure_next in set(COUNTS)
