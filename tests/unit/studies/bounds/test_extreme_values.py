"""Tails of repeated runs: against closed forms, scipy's densities and fresh runs; and what is refused."""

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kerncast.errors import InputError, Refusal
from kerncast.studies.bounds import extreme_values
from kerncast.studies.bounds.extreme_values import ExtremeFit, Tail, checks_of, fit_extremes
from tests.helpers.thorough import THOROUGH, examples, sampled

Runs = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Runs]

LAWS: dict[str, Draw] = {
    "lognormal": lambda rng, runs: rng.lognormal(0, 1, runs),
    "exponential": lambda rng, runs: rng.exponential(1, runs),
    "Pareto": lambda rng, runs: 1 + rng.pareto(4, runs),
    "normal": lambda rng, runs: rng.normal(10, 1, runs),
    "gamma": lambda rng, runs: rng.gamma(2, 1, runs),
    "uniform": lambda rng, runs: rng.uniform(1, 2, runs),
}


def fits_of(law: str, runs: int, seeds: int, tail: Tail = Tail.THRESHOLD) -> list[ExtremeFit]:
    """Return the fits of so many samples that are not refused."""
    found = []
    for seed in range(seeds):
        try:
            found.append(fit_extremes(LAWS[law](np.random.default_rng(seed), runs).tolist(), tail))
        except Refusal:
            continue
    return found


def shuffled(quantiles: Runs) -> Runs:
    """Return values in an order that is random and stays the same."""
    return np.random.default_rng(3).permutation(quantiles)


def extremes(tail: Tail, values: Runs, runs: int = 1000) -> extreme_values._Extremes:
    share = len(values) / runs if tail is Tail.THRESHOLD else 0.1
    return extreme_values._Extremes(tail, np.sort(values), 0.0, 1.0, share, runs)


# Against what is known otherwise


@pytest.mark.parametrize("tail", Tail)
def test_an_exponential_law_has_its_own_quantiles(tail: Tail) -> None:
    even = -np.log1p(-(np.arange(5000) + 0.5) / 5000)
    fit = fit_extremes((3.0 + shuffled(even)).tolist(), tail)
    assert fit.shape == pytest.approx(0, abs=0.12)
    for exceedance in (0.01, 0.001):
        assert fit.quantile(exceedance) == pytest.approx(3 - math.log(exceedance), rel=0.05)


def test_a_threshold_fit_answers_as_scipys_pareto() -> None:
    fit = fits_of("gamma", 1000, 1)[0]
    above = stats.genpareto(fit.shape, fit.threshold_seconds, fit.scale_seconds)
    for exceedance in (fit.share, 0.01, 1e-6):
        assert fit.quantile(exceedance) == pytest.approx(above.isf(exceedance / fit.share))


def test_a_fit_of_maxima_answers_as_scipys_extreme_value_law() -> None:
    fit = fits_of("gamma", 1000, 1, Tail.BLOCKS)[0]
    size = round(-1 / math.log1p(-fit.share))
    assert fit.exceedances == 1000 // size
    longest = stats.genextreme(-fit.shape, fit.threshold_seconds, fit.scale_seconds)
    for exceedance in (fit.share, 0.01, 1e-6):
        assert fit.quantile(exceedance) == pytest.approx(longest.isf(-math.expm1(size * math.log1p(-exceedance))))


@pytest.mark.parametrize("shape", [-0.4, -1e-12, 0.0, 0.3])
def test_the_likelihood_is_that_of_scipy(shape: float) -> None:
    excesses = stats.genpareto(0.1).rvs(50, random_state=1) * 0.5
    location, scale = 0.05, 0.9
    # Seen from the threshold at 0, the scale and the chance of an exceedance are others.
    over = scale - shape * location
    grown = math.exp(location / scale) if abs(shape) < 1e-9 else (1 - shape * location / scale) ** (-1 / shape)
    chance = 0.05 * grown
    tails = np.array([[location, math.log(scale), shape]])
    if chance is None:
        chance = 0.05 * (
            math.exp(location / scale) if abs(shape) < 1e-9 else (1 - shape * 0.05 / scale) ** (-1 / shape)
        )
    expected = stats.genpareto(shape, 0, over).logpdf(excesses).sum() + 50 * math.log(chance / 0.05)
    expected += 950 * math.log1p(-chance)
    assert extreme_values._log_likelihood(extremes(Tail.THRESHOLD, excesses), tails)[0] == pytest.approx(expected)

    expected = stats.genextreme(-shape, location, scale).logpdf(excesses).sum()
    assert extreme_values._log_likelihood(extremes(Tail.BLOCKS, excesses), tails)[0] == pytest.approx(expected)


def test_what_cannot_be_has_no_likelihood() -> None:
    values = extremes(Tail.THRESHOLD, np.array([0.5, 1.0, 2.0]))
    ends_too_early, too_light, always_above = [0, 0, -0.6], [0, math.log(9), -1.1], [9, 0, 0.0]
    found = extreme_values._log_likelihood(values, np.array([ends_too_early, too_light, always_above]))
    assert found.tolist() == [-math.inf] * 3


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.4])
@pytest.mark.parametrize("tail", Tail)
def test_the_likeliest_tail_is_not_less_likely_than_scipys(tail: Tail, shape: float) -> None:
    law = stats.genpareto(shape) if tail is Tail.THRESHOLD else stats.genextreme(-shape)
    values = extremes(tail, law.rvs(200, random_state=2))
    rough = extreme_values._by_moments(tail, values.values[np.newaxis])[0]
    assert rough[2] == pytest.approx(shape, abs=0.2)
    found = extreme_values._most_likely(values, rough, -1.0)
    if tail is Tail.THRESHOLD:
        fitted, location, scale = stats.genpareto.fit(values.values, floc=0)
    else:
        fitted, location, scale = stats.genextreme.fit(values.values, loc=0)
        fitted = -fitted
    theirs = np.array([location, math.log(scale), fitted])
    ours, other = extreme_values._log_likelihood(values, np.stack([found, theirs]))
    assert ours >= other - 1e-6
    assert found == pytest.approx(theirs, abs=0.01)


@pytest.mark.parametrize("tail", Tail)
def test_the_upper_limit_is_the_largest_quantile_that_is_likely_enough(tail: Tail) -> None:
    """A search on a grid, finds the same but for the steps of both."""
    fit = fits_of("lognormal", 600, 1, tail)[0]
    runs = LAWS["lognormal"](np.random.default_rng(0), 600)
    every = extreme_values._extremes_of(runs, tail)
    sample = next(each for each in every if len(each.values) == fit.exceedances)
    growth = math.log(fit.share / 0.001)
    if tail is Tail.BLOCKS:
        growth = math.log(math.log1p(-fit.share) / math.log1p(-0.001))

    best = extreme_values._most_likely(sample, np.array([0.0, 0.0, 0.2]), 0.0)
    least = extreme_values._log_likelihood(sample, best[np.newaxis])[0] - (1.15 * stats.norm.ppf(0.95)) ** 2 / 2
    reach = 4.5 / math.sqrt(len(sample.values))
    steps = [np.linspace(-1, 1, 15) * reach * math.exp(best[1]), np.linspace(-1, 1, 41) * reach, np.arange(0, 1, 0.02)]
    location, log_scale, shape = (each.ravel() for each in np.meshgrid(*steps, indexing="ij"))
    grid = np.stack([best[0] + location, best[1] + log_scale, shape], axis=1)
    kept = grid[extreme_values._log_likelihood(sample, grid) >= least]
    longest = kept[:, 0] + np.exp(kept[:, 1]) * np.expm1(kept[:, 2] * growth) / np.maximum(kept[:, 2], 1e-12)
    assert fit.upper(0.001) == pytest.approx(sample.origin + sample.unit * longest.max(), rel=0.03)


def test_the_chance_of_clusters_is_that_of_all_orders() -> None:
    clusters = [
        sum(place - 1 not in chosen for place in chosen) for chosen in map(set, itertools.combinations(range(9), 4))
    ]
    for most in range(1, 5):
        share = sum(each <= most for each in clusters) / len(clusters)
        assert extreme_values._chance_of_clusters(most, 4, 9) == pytest.approx(share)


# Fresh runs of the same law


@cache
def judged(law: str, runs: int, seeds: int) -> tuple[int, dict[float, tuple[float, int]]]:
    """Return how many samples were fitted, and for two probabilities the mean share of fresh runs, and the misses."""
    fresh = np.sort(LAWS[law](np.random.default_rng(99), 200_000))

    def share_above(seconds: float) -> float:
        return float(1 - np.searchsorted(fresh, seconds) / len(fresh))

    fits = fits_of(law, runs, seeds)
    return len(fits), {
        exceedance: (
            float(np.mean([share_above(fit.quantile(exceedance)) for fit in fits])),
            sum(share_above(fit.upper(exceedance)) > exceedance for fit in fits),
        )
        for exceedance in (0.01, 0.001)
    }


SIZES = [(500, 6), (2000, 3)]
SAMPLED_LAWS = [(law, *size) for law in LAWS for size in SIZES]
USUAL = [(law, *size) for law, size in zip(LAWS, SIZES * 3, strict=True)]


@pytest.mark.parametrize(("law", "runs", "seeds"), sampled(SAMPLED_LAWS, USUAL))
def test_fresh_runs_pass_a_quantile_as_often_as_it_says(law: str, runs: int, seeds: int) -> None:
    fitted, found = judged(law, runs, seeds)
    assert fitted >= seeds - 2
    for exceedance, (share, _) in found.items():
        least, most = stats.binom.interval(0.999, runs * fitted, exceedance)
        assert least <= share * runs * fitted <= most


def test_fresh_runs_pass_the_upper_limit_more_often_in_few_samples() -> None:
    every = [judged(*sample) for sample in (SAMPLED_LAWS if THOROUGH else USUAL)]
    for exceedance in (0.01, 0.001):
        assert sum(found[exceedance][1] for _, found in every) <= stats.binom.ppf(
            0.99, sum(each for each, _ in every), 0.05
        )


def test_a_bound_by_maxima_holds_for_fresh_runs() -> None:
    for law, most in (("exponential", 1.3), ("normal", 0.6)):
        fits = fits_of(law, 1000, 5, Tail.BLOCKS)
        fresh = LAWS[law](np.random.default_rng(99), 200_000)
        assert all((fresh > fit.upper(0.001)).mean() <= 0.001 * most for fit in fits)


# What is refused


def refused(runs: npt.NDArray[np.floating], *words: str) -> None:
    with pytest.raises(Refusal) as told:
        fit_extremes(runs.tolist())
    assert told.value.cure
    for word in words:
        assert word in str(told.value)


def autoregressive(seed: int, phi: float = 0.5, runs: int = 500) -> Runs:
    values = 20 + np.random.default_rng(seed).normal(size=runs)
    for place in range(1, runs):
        values[place] += phi * (values[place - 1] - 20)
    return values


@pytest.mark.parametrize("seed", range(10))
def test_runs_that_remember_the_one_before_are_refused(seed: int) -> None:
    refused(autoregressive(seed), "depend on one another", "Ljung-Box of ranks, 10 lags is", "p = ", "Flush")


@pytest.mark.parametrize("seed", range(10))
def test_a_drift_of_one_standard_deviation_is_refused(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=500)
    refused(20 + noise + np.linspace(0, 1, 500), "Mann-Kendall trend is", "Then measure again")


@pytest.mark.parametrize("seed", range(10))
def test_a_step_of_one_standard_deviation_is_refused(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=500)
    refused(20 + noise + (np.arange(500) >= 250), "do not have one law", "Kolmogorov-Smirnov of both halves is")


def test_long_runs_one_after_the_other_are_refused() -> None:
    rng = np.random.default_rng(5)
    runs = rng.normal(20, 1, 1000)
    for start in rng.integers(0, 990, 20):
        runs[start : start + 5] += rng.exponential(4, 5) + 2
    refused(runs, "long runs come in clusters", "extremal index is")


def test_alternating_runs_are_refused() -> None:
    runs = np.random.default_rng(1).normal(20, 1, 300) + np.tile([0.0, 3.0], 150)
    refused(runs, "runs about the median is")


def test_a_mean_that_does_not_exist_is_refused() -> None:
    refused(1 + np.random.default_rng(4).pareto(0.5, 2000), "the tail has no mean")


@pytest.mark.parametrize("share", [0.02, 0.04])
def test_a_slow_mode_within_the_tail_is_refused(share: float) -> None:
    rng = np.random.default_rng(0)
    is_slow = rng.random(3000) < share
    runs = np.where(is_slow, rng.normal(14, 0.1, 3000), rng.normal(10, 1, 3000))
    refused(runs, "no tail of the runs", "Anderson-Darling of the fit is", "pin the clock")


def test_few_runs_are_refused() -> None:
    refused(np.random.default_rng(1).normal(20, 1, 199), "199 runs", "200 are the least")


@pytest.mark.parametrize("levels", [1, 2, 9])
def test_a_timer_too_coarse_for_the_runs_is_refused(levels: int) -> None:
    refused(1.0 + np.random.default_rng(1).integers(0, levels, 500), "different times", "finer timer")


@pytest.mark.parametrize("tail", Tail)
def test_a_timer_of_32_ns_changes_little(tail: Tail) -> None:
    exact = 1e-5 + 3e-7 * np.random.default_rng(8).exponential(1, 2000)
    ticks = np.round(exact / 32e-9) * 32e-9
    fine, coarse = fit_extremes(exact.tolist(), tail), fit_extremes(ticks.tolist(), tail)
    for exceedance in (0.01, 0.001):
        assert coarse.quantile(exceedance) == pytest.approx(fine.quantile(exceedance), abs=32e-9 * 4)


def test_independent_runs_are_seldom_refused() -> None:
    """Five tests at 1 % refuse at most 5 % of samples: 10 of 200 are expected at most."""
    rng = np.random.default_rng(6)
    samples = [LAWS[law](rng, 300) for law in LAWS for _ in range(33)]
    failed = sum(not all(check.passes for check in checks_of(runs)) for runs in samples)
    assert failed <= stats.binom.ppf(0.999, len(samples), 0.05)


def test_the_tests_are_told() -> None:
    fit = fits_of("normal", 500, 1)[0]
    assert [check.name for check in fit.checks] == [
        "Ljung-Box of ranks, 10 lags",
        "runs about the median",
        "Kolmogorov-Smirnov of both halves",
        "Mann-Kendall trend",
        "extremal index",
        "Anderson-Darling of the fit",
    ]
    assert all(check.passes and check.p_value > 0.01 for check in fit.checks)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_what_is_no_time_is_an_error_that_names_the_run(wrong: float) -> None:
    runs = [*LAWS["normal"](np.random.default_rng(1), 300)[:7].tolist(), wrong]
    with pytest.raises(InputError, match="run 8 takes"):
        fit_extremes(runs)


def test_a_table_is_no_list_of_runs() -> None:
    with pytest.raises(InputError, match="no list"):
        fit_extremes(np.ones((300, 2)))  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0.49, 1.0, math.nan])
def test_a_confidence_that_is_none_is_an_error(confidence: float) -> None:
    with pytest.raises(InputError, match="confidence"):
        fit_extremes([1.0] * 300, confidence=confidence)


@pytest.mark.parametrize("exceedance", [0.0, -0.1, 0.2, 1.0, math.nan])
def test_probabilities_beyond_the_tail_are_an_error(exceedance: float) -> None:
    fit = fits_of("normal", 500, 1)[0]
    with pytest.raises(InputError, match="exceedance probability"):
        fit.upper(exceedance)


# Properties

SAMPLES = st.tuples(st.sampled_from(sorted(LAWS)), st.integers(200, 400), st.integers(0, 5), st.sampled_from(Tail))


@cache
def fitted(law: str, runs: int, seed: int, tail: Tail) -> ExtremeFit | None:
    try:
        return fit_extremes(LAWS[law](np.random.default_rng(seed), runs).tolist(), tail)
    except Refusal:
        return None


@settings(max_examples=examples(10))
@given(SAMPLES, st.floats(1e-9, 1e6))
def test_all_runs_in_another_unit_give_the_same_tail(sample: tuple[str, int, int, Tail], factor: float) -> None:
    law, runs, seed, tail = sample
    fit = fitted(*sample)
    scaled = LAWS[law](np.random.default_rng(seed), runs) * factor
    if fit is None:
        with pytest.raises(Refusal):
            fit_extremes(scaled.tolist(), tail)
        return
    other = fit_extremes(scaled.tolist(), tail)
    for exceedance in (fit.share, 0.01, 1e-4):
        assert other.quantile(exceedance) == pytest.approx(factor * fit.quantile(exceedance), rel=1e-4)
        assert other.upper(exceedance) == pytest.approx(factor * fit.upper(exceedance), rel=1e-4)


@settings(max_examples=examples(25))
@given(SAMPLES, st.lists(st.floats(1e-300, 1.0), min_size=2, max_size=5))
def test_rarer_is_never_shorter_and_a_limit_never_below(
    sample: tuple[str, int, int, Tail], shares: list[float]
) -> None:
    fit = fitted(*sample)
    if fit is None:
        return
    rarer = [fit.share * each for each in sorted(shares, reverse=True)]
    quantiles = [fit.quantile(each) for each in rarer]
    uppers = [fit.upper(each) for each in rarer]
    assert quantiles == sorted(quantiles)
    assert uppers == sorted(uppers)
    assert quantiles[0] >= fit.threshold_seconds
    assert all(upper >= quantile for upper, quantile in zip(uppers, quantiles, strict=True))


def test_more_confidence_is_never_a_lower_limit() -> None:
    runs = LAWS["gamma"](np.random.default_rng(1), 400).tolist()
    uppers = [fit_extremes(runs, confidence=each).upper(1e-4) for each in (0.5, 0.8, 0.95, 0.999)]
    assert uppers == sorted(uppers)


def test_the_same_runs_give_the_same_fit() -> None:
    assert fits_of("gamma", 300, 1) == fits_of("gamma", 300, 1)


def test_200000_runs_are_fitted_by_their_longest() -> None:
    fit = fits_of("exponential", 200_000, 1)[0]
    assert fit.exceedances <= extreme_values.MOST_EXTREMES
    assert fit.quantile(1e-6) == pytest.approx(-math.log(1e-6), rel=0.1)
