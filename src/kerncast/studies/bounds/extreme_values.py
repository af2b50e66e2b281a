"""A bound for rare runs: the tail of a kernel's repeated runs, by extreme value theory, where its needs are met."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from kerncast.errors import InputError, Refusal
from kerncast.studies.bounds.base import Floats

#: Each test refuses at most so large a share of the samples that meet what it asks for.
SIGNIFICANCE = 0.01
#: Fewer leave less than 30 runs above the lowest threshold, and less than 20 blocks of 10 runs.
LEAST_RUNS = 200
#: With fewer, the limits of three parameters say nothing.
LEAST_EXTREMES = 20
#: With more, a tail is no longer the tail, and the time is not bounded.
MOST_EXTREMES = 1000
#: Fewer levels of a coarse timer are no continuous tail.
LEAST_DISTINCT = 10
_LAGS = 10
#: A fit that is good enough to be chosen has more than this p-value; refused is one below the significance.
_GOOD_FIT = 0.1
_RESAMPLES = 499
_SEED = 20120711
_DIRECTIONS = 400
#: Below -1, the likelihood grows without limit as the end of the tail moves to the longest run.
_LIGHTEST = -1.0
_HEAVIEST = 5.0
#: A shape nearer to 0 is 0.
_NO_SHAPE = 1e-8
#: Light tails look lighter over a low threshold than they are far out: a limit takes none to be below exponential.
_LIGHTEST_LIMIT = 0.0
#: The threshold is chosen from the same runs, and the test is exact for many runs only: without this factor on its
#: normal quantile, limits of power laws at 95 % fail in up to 10 % of samples.
_WIDER = 1.15
_MORE_RUNS = "Measure more runs; if several modes show in them, pin the clock, or bound each mode by itself."


class Tail(StrEnum):
    """What the limit law is fitted to."""

    THRESHOLD = "peaks-over-threshold"
    """the longest 5 to 15 % of the runs: generalised Pareto"""
    BLOCKS = "block-maxima"
    """the longest run of each block of 10 to 50: generalised extreme value"""


_SHARES = {Tail.THRESHOLD: (0.15, 0.125, 0.1, 0.075, 0.05), Tail.BLOCKS: (0.1, 1 / 15, 0.05, 1 / 30, 0.02)}


@dataclass(frozen=True, slots=True)
class Check:
    """One test of what extreme value theory needs."""

    name: str
    statistic: float
    p_value: float
    passes: bool


@dataclass(frozen=True, slots=True)
class ExtremeFit:
    """A fitted tail: ``Q(p) = threshold + scale (y**shape - 1) / shape`` is passed by a run with the probability p.

    Over a threshold, ``y = share / p``; for maxima of m runs, ``y = -1 / (m log(1 - p))``.
    Source: S. Coles, "An Introduction to Statistical Modeling of Extreme Values", Springer 2001, 3.1.3 and 4.3.3.
    """

    tail: Tail
    runs: int
    threshold_seconds: float
    """the location for block maxima"""
    exceedances: int
    """runs above the threshold; blocks for block maxima"""
    share: float
    """probability that a run passes the threshold: the largest one that the fit answers for"""
    shape: float
    """xi: below 0 the tail ends, 0 is exponential, above 0 it is a power law; never below -1"""
    scale_seconds: float
    checks: tuple[Check, ...]
    confidence: float
    plausible: tuple[tuple[float, float, float], ...] = field(repr=False)
    """location, scale and shape on the edge of what the likelihood allows at this confidence"""

    def quantile(self, exceedance: float) -> float:
        """Return the seconds that a run passes with this probability; raises InputError for one above the share."""
        best = np.array([[self.threshold_seconds, self.scale_seconds, self.shape]])
        return self._longest(best, exceedance)

    def upper(self, exceedance: float) -> float:
        """Return the upper confidence limit of the quantile; infinite where it is beyond all floats.

        It is the largest quantile of the tails that a likelihood ratio test keeps, one-sided at the confidence, of
        those that are not lighter than exponential: a light tail is bounded by an exponential one.
        At 95 %, for 0.01 and 0.001 and 500 and 2000 runs, fresh runs passed it more often than that in 3 to 5 % of
        the samples of lognormal and Pareto laws, and in 0 to 3 % of exponential, gamma, normal and uniform ones.
        """
        return max(self.quantile(exceedance), self._longest(np.array(self.plausible), exceedance))

    def _longest(self, tails: Floats, exceedance: float) -> float:
        if not 0 < exceedance <= self.share:
            raise InputError(
                f"the tail does not answer for an exceedance probability of {exceedance:.6g}",
                cure=f"Give one above 0 and up to {self.share:.6g}; the runs themselves tell the others.",
            )
        if self.tail is Tail.THRESHOLD:
            growth = math.log(self.share) - math.log(exceedance)
        else:
            growth = math.log(math.log1p(-self.share) / math.log1p(-exceedance))
        location, scale, shape = tails.T
        with np.errstate(over="ignore"):
            return float((location + scale * _grown(growth, shape)).max())


@dataclass(frozen=True, slots=True)
class _Extremes:
    """The extremes of a sample, in units in which they are about 1."""

    tail: Tail
    values: Floats
    """ascending"""
    origin: float
    """seconds at 0"""
    unit: float
    """seconds of 1"""
    share: float
    runs: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fit to one number of extremes."""

    extremes: _Extremes
    best: Floats
    """location, logarithm of the scale, shape"""
    shape_error: float
    """standard error of the shape"""
    check: Check


def fit_extremes(seconds: Sequence[float], tail: Tail = Tail.THRESHOLD, confidence: float = 0.95) -> ExtremeFit:
    """Return the tail of repeated runs, given in the order in which they were measured; raises Refusal.

    Runs above a high threshold follow ``P(X > u + x) = share (1 + shape x / scale)**(-1 / shape)``, and the maxima of
    long blocks ``P(M <= x) = exp(-(1 + shape (x - location) / scale)**(-1 / shape))``, whatever the runs' law is.
    Sources: J. Pickands, "Statistical inference using extreme order statistics", Ann. Statist. 3, 1975, for the
    first; L. Cucu-Grosjean et al., "Measurement-based probabilistic timing analysis for multi-path programs",
    ECRTS 2012, for times of programs. The parameters are those of the largest likelihood.
    Of the thresholds with 15, 12.5, 10, 7.5 and 5 % of the runs above them (blocks of 10, 15, 20, 30 and 50 runs),
    the lowest is taken whose fit is good and whose shape stays; for many runs, 1000 extremes are the most.
    Independent runs of one law are refused in at most 6 % of samples, 4 % measured. Of 500 runs, all samples with
    autocorrelation 0.5, a drift or a step of one standard deviation were refused; of 200, 94 % of those with the drift.
    Fails where a slow mode was never seen, where a further run is in another state (clock, neighbours, input), and
    far beyond the runs: of 500, the quantile of 0.001 is passed twice as often on average, that of 0.00001 70 times.

    >>> fit = fit_extremes(1 + np.random.default_rng(7).exponential(1, 1000))
    >>> f"{fit.shape:.2f} {fit.quantile(0.001):.1f} {fit.upper(0.001):.1f}"
    '0.14 8.3 11.9'
    """
    runs = _checked_runs(seconds, confidence)
    checks = checks_of(runs)
    _demand_all(checks)
    candidates = [_candidate(each) for each in _extremes_of(runs, tail)]
    chosen = _chosen(candidates)
    extremes = chosen.extremes
    location, log_scale, shape = (float(each) for each in chosen.best)
    if shape >= 1:
        raise Refusal(f"the tail has no mean: its shape is {shape:.2f}, and 1 or more has none", cure=_MORE_RUNS)
    if not chosen.check.passes:
        raise Refusal(
            f"no tail of the runs is one of extreme value theory: {_told(chosen.check)} at the best of "
            f"{len(candidates)} thresholds",
            cure=_MORE_RUNS,
        )
    edge = _edge(chosen, confidence) * (extremes.unit, 1, 1) + (extremes.origin, 0, 0)
    edge[:, 1] = np.exp(edge[:, 1]) * extremes.unit
    return ExtremeFit(
        tail=tail,
        runs=len(runs),
        threshold_seconds=extremes.origin + location * extremes.unit,
        exceedances=len(extremes.values),
        share=extremes.share,
        shape=shape,
        scale_seconds=math.exp(log_scale) * extremes.unit,
        checks=(*checks, chosen.check),
        confidence=confidence,
        plausible=tuple((a, b, c) for a, b, c in edge.tolist()),
    )


def _checked_runs(seconds: Sequence[float], confidence: float) -> Floats:
    """Return the runs; raises InputError for what is no time, and Refusal where no tail can be seen."""
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence is {confidence}", cure="Give 0.5 or more, and less than 1, such as 0.95.")
    runs = np.array(seconds, np.float64)
    if runs.ndim != 1:
        raise InputError("the runs are no list of seconds", cure="Give one number a run.")
    wrong = np.flatnonzero(~(np.isfinite(runs) & (runs > 0)))
    if len(wrong):
        raise InputError(f"run {wrong[0] + 1} takes {runs[wrong[0]]:g} s", cure="Give finite seconds above 0.")
    if len(runs) < LEAST_RUNS:
        raise Refusal(
            f"{len(runs)} runs show no tail, and {LEAST_RUNS} are the least",
            cure="Measure more: 1000 runs or more give bounds that are worth having.",
        )
    longest = np.sort(runs)[-_counts(len(runs), Tail.THRESHOLD)[0] :]
    if (distinct := len(np.unique(longest))) < LEAST_DISTINCT:
        raise Refusal(
            f"the {len(longest)} longest runs have {distinct} different times, and {LEAST_DISTINCT} are the least "
            "for a continuous tail",
            cure="Use a finer timer, time several launches in a row as one run, or measure more runs.",
        )
    return runs


def _counts(runs: int, tail: Tail) -> list[int]:
    """Return the numbers of extremes to try, descending."""
    shares = _SHARES[tail]
    most = min(float(runs), MOST_EXTREMES / shares[0])
    return sorted({max(LEAST_EXTREMES, round(share * most)) for share in shares}, reverse=True)


# Tests of what the theory needs


def checks_of(runs: Floats) -> tuple[Check, ...]:
    """Return the tests of whether runs, in their order, are independent, alike, and without clusters of long ones.

    The chance that one of the five refuses independent runs of one law is at most 5 % (Bonferroni).
    Ranks are tested, not times: a heavy tail changes nothing, and ties cost power alone.
    Sources: G. M. Ljung, G. E. P. Box, Biometrika 65, 1978; A. Wald, J. Wolfowitz, Ann. Math. Statist. 11, 1940;
    H. B. Mann, Econometrica 13, 1945. Fails to see what takes turns over more than 10 runs but has one median.
    """
    from scipy import stats  # noqa: PLC0415  a forecast does without

    half = len(runs) // 2
    same = stats.ks_2samp(runs[:half], runs[half:], method="asymp")
    trend = stats.kendalltau(np.arange(len(runs)), runs, method="asymptotic")
    return (
        _ljung_box(runs),
        _runs_about_median(runs),
        _check("Kolmogorov-Smirnov of both halves", same.statistic, same.pvalue),
        _check("Mann-Kendall trend", trend.statistic, trend.pvalue),
        _clusters(runs),
    )


def _check(name: str, statistic: float, p_value: float) -> Check:
    return Check(name, float(statistic), float(p_value), bool(p_value > SIGNIFICANCE))


def _ljung_box(runs: Floats) -> Check:
    """Return the test of the ranks' autocorrelations."""
    from scipy.stats import chi2, rankdata  # noqa: PLC0415

    ranks = rankdata(runs)
    ranks -= ranks.mean()
    number = len(ranks)
    squares = [(ranks[lag:] @ ranks[:-lag] / (ranks @ ranks)) ** 2 / (number - lag) for lag in range(1, _LAGS + 1)]
    statistic = number * (number + 2) * sum(squares)
    return _check(f"Ljung-Box of ranks, {_LAGS} lags", statistic, chi2.sf(statistic, _LAGS))


def _runs_about_median(runs: Floats) -> Check:
    """Return the test of how often the times change from one side of their median to the other."""
    from scipy.special import ndtr  # noqa: PLC0415

    sides = runs > np.median(runs)
    above, number = int(sides.sum()), len(sides)
    expected = 1 + 2 * above * (number - above) / number
    variance = (expected - 1) * (expected - 2) / (number - 1)
    changes = 1 + int((sides[1:] != sides[:-1]).sum())
    z = (changes - expected) / math.sqrt(variance)
    return _check("runs about the median", z, 2 * ndtr(-abs(z)))


def _clusters(runs: Floats) -> Check:
    """Return the test of the extremal index: clusters of long runs over long runs, 1 without clustering."""
    level = np.sort(runs)[-_counts(len(runs), Tail.THRESHOLD)[0] - 1]
    is_long = runs > level
    number = int(is_long.sum())
    clusters = int(is_long[0]) + int((is_long[1:] & ~is_long[:-1]).sum())
    return _check("extremal index", clusters / number, _chance_of_clusters(clusters, number, len(runs)))


def _chance_of_clusters(clusters: int, number: int, runs: int) -> float:
    """Return the chance of so few clusters or fewer, exactly.

    Of all ``C(n, k)`` orders of n runs, k of them long, ``C(k-1, c-1) C(n-k+1, c)`` have c clusters.

    >>> _chance_of_clusters(1, number=2, runs=4)
    0.5
    """
    from scipy.stats import hypergeom  # noqa: PLC0415

    return float(hypergeom.cdf(clusters, runs, runs - number + 1, number))


_ALONE = "Flush the caches and wait between runs, and keep other work off the GPU."
_REASONS = (
    ("the runs depend on one another", _ALONE),
    ("the runs depend on one another", _ALONE),
    ("the runs do not have one law", "Pin the clock, warm up before the first run, and randomise the order of runs."),
    ("the runs drift", "Pin the clock, warm up before the first run, and randomise the order of runs."),
    ("long runs come in clusters", _ALONE),
)


def _demand_all(checks: tuple[Check, ...]) -> None:
    """Raise Refusal where a test fails; it names every test that does, and the cure of the first."""
    failed = [(check, *reason) for check, reason in zip(checks, _REASONS, strict=True) if not check.passes]
    if failed:
        reasons = dict.fromkeys(what for _, what, _ in failed)
        told = "; ".join(_told(check) for check, _, _ in failed)
        raise Refusal(f"{', and '.join(reasons)}: {told}", cure=f"{failed[0][2]} Then measure again.")


def _told(check: Check) -> str:
    return f"{check.name} is {check.statistic:.3g} with p = {check.p_value:.2g} (above {SIGNIFICANCE:g} is asked for)"


# Extremes of the runs


def _extremes_of(runs: Floats, tail: Tail) -> list[_Extremes]:
    """Return the extremes for each number of them to try, the most first."""
    every = _extremes_above if tail is Tail.THRESHOLD else _maxima_of_blocks
    found = [every(runs, count) for count in _counts(len(runs), tail)]
    usable = [each for each in found if each is not None]
    if not usable:
        raise Refusal(
            f"the longest runs have fewer than {LEAST_DISTINCT} different times",
            cure="Use a finer timer, or measure more runs.",
        )
    return usable


def _extremes_above(runs: Floats, count: int) -> _Extremes | None:
    ordered = np.sort(runs)
    if len(np.unique(ordered[-count:])) < LEAST_DISTINCT:
        return None
    spread = _spread_ties(ordered)
    threshold = float(spread[-count - 1])
    excesses = spread[-count:] - threshold
    unit = float(excesses.mean())
    return _Extremes(Tail.THRESHOLD, excesses / unit, threshold, unit, count / len(runs), len(runs))


def _maxima_of_blocks(runs: Floats, count: int) -> _Extremes | None:
    size = len(runs) // count
    blocks = len(runs) // size
    # Runs that fill no block are left out where a warm-up would be.
    maxima = np.sort(runs[len(runs) - blocks * size :].reshape(blocks, size).max(axis=1))
    if len(np.unique(maxima)) < LEAST_DISTINCT:
        return None
    maxima = _spread_ties(maxima)
    origin, unit = float(np.median(maxima)), float(maxima.std())
    return _Extremes(Tail.BLOCKS, (maxima - origin) / unit, origin, unit, -math.expm1(-1 / size), len(runs))


def _spread_ties(ordered: Floats) -> Floats:
    """Return ascending times, equal ones spread evenly over what the timer rounds to them.

    >>> _spread_ties(np.array([1.0, 2.0, 2.0, 3.0])).tolist()
    [1.0, 1.75, 2.25, 3.0]
    """
    levels, counts = np.unique(ordered, return_counts=True)
    between = np.diff(levels) / 2
    below, above = np.append(between[:1], between), np.append(between, between[-1:])
    # The cell of a level is as wide to either side as the nearer neighbour is away.
    half = np.minimum(below, above)
    places = np.arange(len(ordered)) - np.repeat(np.cumsum(counts) - counts, counts)
    shifts = (2 * places + 1) / np.repeat(counts, counts) - 1
    return np.asarray(ordered + shifts * np.repeat(half, counts), np.float64)


# Fits


def _candidate(extremes: _Extremes) -> _Candidate:
    """Return the most likely tail, and the Anderson-Darling test of whether these extremes have such a tail.

    The p-value is that of samples drawn from the fit. Both are fitted by L-moments for the test, which takes no search.
    Sources: V. Choulakian, M. A. Stephens, Technometrics 43, 2001; J. R. M. Hosking, J. R. Statist. Soc. B 52, 1990.
    """
    rough = _by_moments(extremes.tail, extremes.values[np.newaxis])
    statistic = _anderson_darling(extremes.tail, extremes.values[np.newaxis], rough)[0]
    number = len(extremes.values)
    uniform = np.sort(np.random.default_rng(_SEED).random((_RESAMPLES, number)), axis=1)
    growth = -np.log1p(-uniform) if extremes.tail is Tail.THRESHOLD else -np.log(-np.log(uniform))
    location, log_scale, shape = rough[0]
    drawn = location + np.exp(log_scale) * _grown(growth, np.full((1, 1), shape))
    fits = _by_moments(extremes.tail, drawn)
    above = int((_anderson_darling(extremes.tail, drawn, fits) >= statistic).sum())
    check = _check("Anderson-Darling of the fit", statistic, (1 + above) / (1 + _RESAMPLES))
    return _Candidate(extremes, _most_likely(extremes, rough[0], _LIGHTEST), float(fits[:, 2].std()), check)


def _chosen(candidates: list[_Candidate]) -> _Candidate:
    """Return the fit to the most extremes that fits well and has the shape of those to fewer, else the best fit.

    A shape is the same when it differs from that of each fit to fewer extremes by less than two standard errors.
    """
    for place, each in enumerate(candidates):
        is_stable = all(abs(other.best[2] - each.best[2]) < 2 * other.shape_error for other in candidates[place + 1 :])
        if is_stable and each.check.p_value > _GOOD_FIT:
            return each
    return max(candidates, key=lambda each: each.check.p_value)


def _grown(growth: float | Floats, shape: Floats) -> Floats:
    """Return ``(exp(shape growth) - 1) / shape``, its limit for a shape of 0.

    >>> _grown(2.0, np.array([-1.0, 0.0, 1.0])).round(3).tolist()
    [0.865, 2.0, 6.389]
    """
    is_zero = np.abs(shape) < _NO_SHAPE
    divisor = np.where(is_zero, 1.0, shape)
    return np.asarray(np.where(is_zero, growth, np.expm1(shape * growth) / divisor), np.float64)


def _reduced(values: Floats, tails: Floats) -> Floats:
    """Return ``log(1 + shape (x - location) / scale) / shape`` of each tail, infinite where it has no such x.

    The values are those of all tails, or one row for each.
    """
    location, log_scale, shape = (each[:, np.newaxis] for each in tails.T)
    distance = (values - location) * np.exp(-log_scale)
    is_zero = np.abs(shape) < _NO_SHAPE
    inner = np.maximum(shape * distance, -1.0)
    with np.errstate(divide="ignore"):
        reduced = np.where(is_zero, distance, np.log1p(inner) / np.where(is_zero, 1.0, shape))
    return np.asarray(reduced, np.float64)


def _log_likelihood(extremes: _Extremes, tails: Floats) -> Floats:
    """Return the logarithm of the likelihood of each location, log scale and shape; -inf for what cannot be.

    Over a threshold u, the number of runs above it counts too: ``share exp(-z(u))`` is the chance of one.
    """
    number = len(extremes.values)
    z = _reduced(extremes.values, tails)
    is_possible = np.isfinite(z).all(axis=1) & (tails[:, 2] >= _LIGHTEST)
    z = np.where(is_possible[:, np.newaxis], z, 0.0)
    found = -number * tails[:, 1] - (1 + tails[:, 2]) * z.sum(axis=1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if extremes.tail is Tail.BLOCKS:
            found -= np.exp(-z).sum(axis=1)
        else:
            chance = extremes.share * np.exp(-_reduced(np.zeros(1), tails)[:, 0])
            is_possible &= chance < 1
            found += (extremes.runs - number) * np.log1p(-np.where(is_possible, chance, 0.0))
    return np.where(is_possible & np.isfinite(found), found, -np.inf)


def _most_likely(extremes: _Extremes, start: Floats, lightest: float) -> Floats:
    """Return location, log scale and shape of the largest likelihood; the location of a threshold is the threshold."""
    from scipy.optimize import minimize  # noqa: PLC0415

    fixed = 1 if extremes.tail is Tail.THRESHOLD else 0
    location, log_scale, shape = (float(each) for each in start)
    shape = min(max(shape, lightest + 0.1), 0.9)
    # The first tail must reach every value.
    reach = 1.01 * float((-shape * (extremes.values - location)).max())
    first = np.array([location, max(log_scale, math.log(reach)) if reach > 0 else log_scale, shape])

    def lacks(free: Floats) -> float:
        return -float(_log_likelihood(extremes, np.append(first[:fixed], free)[np.newaxis])[0])

    bounds = [(None, None), (None, None), (lightest, _HEAVIEST)][fixed:]
    corners = first[fixed:] + np.append(np.zeros((1, 3 - fixed)), 0.1 * np.eye(3 - fixed), axis=0)
    options = {"xatol": 1e-7, "fatol": 1e-7, "maxfev": 2000, "initial_simplex": corners}
    found = minimize(lacks, first[fixed:], method="Nelder-Mead", bounds=bounds, options=options)
    return np.append(first[:fixed], found.x)


def _by_moments(tail: Tail, rows: Floats) -> Floats:
    """Return location, log scale and shape of each row of ascending values, by their first L-moments.

    The shape is no lighter than that of the likeliest tail may be: else the test accepts what is not reported.
    """
    from scipy.special import gamma  # noqa: PLC0415

    number = rows.shape[1]
    rank = np.arange(number)
    mean = rows.mean(axis=1)
    first = rows @ (rank / (number - 1)) / number
    spread = 2 * first - mean
    if tail is Tail.THRESHOLD:
        shape = np.maximum(2 - mean / spread, _LIGHTEST)
        return np.stack([np.zeros(len(rows)), np.log((1 - shape) * mean), shape], axis=1)
    second = rows @ (rank * (rank - 1) / ((number - 1) * (number - 2))) / number
    skew = (6 * second - 6 * first + mean) / spread
    c = 2 / (3 + skew) - math.log(2) / math.log(3)
    k = 7.8590 * c + 2.9554 * c**2  # the approximation of Hosking, Wallis and Wood, Technometrics 27, 1985
    k = np.where(np.abs(k) < _NO_SHAPE, _NO_SHAPE, np.clip(k, -0.99, -_LIGHTEST))
    scale = spread * k / ((1 - 2**-k) * gamma(1 + k))
    return np.stack([mean - scale * (1 - gamma(1 + k)) / k, np.log(scale), -k], axis=1)


def _anderson_darling(tail: Tail, rows: Floats, tails: Floats) -> Floats:
    """Return the distance of each row of ascending values from its fit."""
    number = rows.shape[1]
    z = _reduced(rows, tails)
    with np.errstate(over="ignore"):
        below = -np.expm1(-z) if tail is Tail.THRESHOLD else np.exp(-np.exp(-z))
    below = np.clip(below, 1e-12, 1 - 1e-12)
    weights = (2 * np.arange(number) + 1) / number
    return np.asarray(-number - (np.log(below) + np.log1p(-below[:, ::-1])) @ weights, np.float64)


# Confidence


def _edge(chosen: _Candidate, confidence: float) -> Floats:
    """Return tails that a likelihood ratio test just keeps, none lighter than exponential, in directions all around."""
    from scipy.special import ndtri  # noqa: PLC0415

    extremes = chosen.extremes
    best = _most_likely(extremes, chosen.best, _LIGHTEST_LIMIT)
    least = _log_likelihood(extremes, best[np.newaxis])[0] - (_WIDER * ndtri(confidence)) ** 2 / 2
    # Points on a spiral from pole to pole (Fibonacci's sphere).
    place = np.arange(_DIRECTIONS) + 0.5
    height, turn = 1 - 2 * place / _DIRECTIONS, math.pi * (1 + math.sqrt(5)) * place
    flat = np.sqrt(1 - height**2)
    sphere = np.stack([flat * np.cos(turn), flat * np.sin(turn), height], axis=1)
    directions = sphere * np.array([math.exp(best[1]), 1.0, 1.0]) / math.sqrt(len(extremes.values))
    near, far = np.zeros(_DIRECTIONS), np.full(_DIRECTIONS, 64.0)
    for _ in range(30):
        middle = (near + far) / 2
        tails = best + middle[:, np.newaxis] * directions
        is_inside = (_log_likelihood(extremes, tails) >= least) & (tails[:, 2] >= _LIGHTEST_LIMIT)
        near, far = np.where(is_inside, middle, near), np.where(is_inside, far, middle)
    return np.asarray(best + near[:, np.newaxis] * directions, np.float64)
