"""What a forecast comes to, before anything else is read: which GPU, how long, how sure, what limits, what to do."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from kerncast.forecast import Forecast
from kerncast.models import DEFAULT_MODEL, Case, FeatureCase, TimedCase, is_model_file, model_named
from kerncast.models.energy import LEVEL
from kerncast.models.operators.operator_work import OperatorCase
from kerncast.prediction import Prediction
from kerncast.report.as_json import totals
from kerncast.report.tables import Fact
from kerncast.report.words import (
    OPERATORS,
    advise,
    advise_operator,
    describe_interval,
    describe_interval_kind,
    describe_limiter,
    describe_name,
    describe_percent,
    describe_probability,
    describe_range,
    head_interval,
    some_of,
)
from kerncast.studies.comparing.contenders import fastest_of
from kerncast.units import format_seconds

AnyCase = Case | TimedCase | FeatureCase | OperatorCase
#: A GPU that beats another one with less than this probability cannot be told from it.
_TOLD_APART = 0.9
#: GPUs that one sentence names.
_MOST_NAMED = 3
_DIGITS = 3


@dataclass(frozen=True)  # no slots: the probabilities are drawn once, where they are told
class Contest:
    """The forecasts of one launch that can be compared, as one model made them; the fastest first."""

    predictions: tuple[Prediction, ...]
    cases: tuple[AnyCase, ...]
    """case behind each, in the same order"""

    @cached_property
    def fastest(self) -> tuple[float, ...]:
        """Probability of each to be the fastest of all; empty where the errors are not known to be alike."""
        pairs = zip(self.predictions, self.cases, strict=True)
        known = [[(p, case)] for p, case in pairs if isinstance(case, Case) and is_comparable(p)]
        return fastest_of(known) if 1 < len(known) == len(self.predictions) else ()


def contests(forecast: Forecast) -> list[list[Contest]]:
    """Return a list per launch: first what most GPUs were forecast by, the simulation in case of doubt."""
    pairs = sorted(zip(forecast.predictions, forecast.cases, strict=True), key=lambda pair: pair[0].launch)
    return [_of_launch(list(group)) for _, group in groupby(pairs, key=lambda pair: pair[0].launch)]


def _of_launch(pairs: Sequence[tuple[Prediction, AnyCase]]) -> list[Contest]:
    by_model: dict[str, list[tuple[Prediction, AnyCase]]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: pair[0].seconds):
        by_model[pair[0].model].append(pair)
    ordered = sorted(by_model, key=lambda name: (name != DEFAULT_MODEL, -len(by_model[name])))
    return [Contest(*zip(*by_model[name], strict=True)) for name in ordered]


def is_comparable(p: Prediction) -> bool:
    """Tell whether it is known how far the errors of this forecast are those of others of its model."""
    is_ours = p.model != OPERATORS and not is_model_file(p.model)
    return is_ours and p.level == LEVEL and not model_named(p.model).has_own_errors


def verdicts(forecast: Forecast) -> list[str]:
    """Return a sentence or two per launch, in the order of the launches."""
    return [verdict(found) for found in contests(forecast)]


def verdict(found: Sequence[Contest]) -> str:
    """Return a sentence or two on one launch."""
    main, *others = found
    best, *rest = main.predictions
    head = _alone(best) if not rest else _first_of(main)
    apart = [p.gpu for contest in others for p in contest.predictions]
    models = " and ".join(dict.fromkeys(p.model for contest in others for p in contest.predictions))
    note = (
        f" Not compared, as another model ({models}) made their forecasts: {some_of(apart, _MOST_NAMED)}."
        if apart
        else ""
    )
    return f"{head}{_next_step(best)}{note}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict in the parts that a page shows one below the other."""

    headline: str
    lead: tuple[str, ...]
    tiles: tuple[Fact, ...]


def answer(forecast: Forecast) -> Answer:
    """Return what a forecast comes to; of several launches, what they take together."""
    of_launches = contests(forecast)
    if len(of_launches) > 1 or any(p.count > 1 for p in forecast.predictions):
        head, *rest = verdict_together(forecast, is_partial=bool(forecast.refused))
        time, _, where = head.partition(" (")
        headline = f"{time} on {where.partition(') on ')[2].partition(',')[0].rstrip('.')}"
        return Answer(headline, (head, *rest), ())
    (found,) = of_launches
    best = found[0].predictions[0]
    headline = f"{format_seconds(best.seconds, _DIGITS)} on {best.gpu}"
    return Answer(headline, (verdict(found),), tuple(_tiles(found[0])))


def _tiles(contest: Contest) -> Iterator[Fact]:
    best, *rest = contest.predictions
    yield Fact(head_interval([best]), describe_interval(best), describe_interval_kind(best.model))
    yield Fact("Perhaps limited by" if _is_guess(best) else "Limited by", describe_limiter(best.limiter))
    if contest.fastest:
        sure = describe_probability(contest.fastest[0])
        yield Fact("Fastest with probability", sure, f"of {len(contest.predictions)} GPUs; next: {_named(rest[0])}")
    elif rest:
        yield Fact("Next", format_seconds(rest[0].seconds, _DIGITS), rest[0].gpu)


def _alone(p: Prediction) -> str:
    return f"{_takes(p)}."


def _first_of(contest: Contest) -> str:
    """Return which GPU is the fastest, how sure that is, and who follows."""
    best, second, *_ = contest.predictions
    head = f"{_takes(best)}. That is the fastest of {len(contest.predictions)} GPUs"
    next_one = f"next is {_named(second)}"
    if not contest.fastest:
        return f"{head}; {next_one}."
    head += f" with a probability of {describe_probability(contest.fastest[0])}"
    close = [p for p, own in zip(contest.predictions, contest.fastest, strict=True) if own >= 1 - _TOLD_APART][1:]
    if not close:
        return f"{head}; {next_one}."
    return f"{head}; too close to be told apart: {some_of([_named(p) for p in close], _MOST_NAMED)}."


def _named(p: Prediction) -> str:
    return f"{p.gpu} ({format_seconds(p.seconds, _DIGITS)})"


def _takes(p: Prediction) -> str:
    """Return the time on a GPU with its interval, and what limits it."""
    time = f"{format_seconds(p.seconds, _DIGITS)} on {p.gpu} ({describe_interval(p)} at {describe_percent(p.level)})"
    perhaps = "perhaps " if _is_guess(p) else ""
    return f"{describe_name(p.kernel)} takes {time}, {perhaps}limited by {describe_limiter(p.limiter)}"


def _next_step(p: Prediction) -> str:
    """Return what would help on the best GPU; nothing where the limit is a guess."""
    if _is_guess(p):
        return ""
    advice = advise_operator(p.limiter) if p.model == OPERATORS else advise(p.limiter)
    return f" What would help: {advice}." if advice else ""


def _is_guess(p: Prediction) -> bool:
    return bool(p.evidence and p.evidence.limits)


def verdict_together(forecast: Forecast, *, is_partial: bool = False) -> list[str]:
    """Return which GPU takes the least for all launches that all GPUs have, and what limits how much of its time.

    ``is_partial``: some launches were refused.
    """
    everyone = totals(forecast.predictions)
    most = max(row["launches"] for row in everyone)
    whole = sorted((row for row in everyone if row["launches"] == most), key=lambda row: row["seconds"])
    models = {row["gpu_id"]: _models_of(forecast, row["gpu_id"]) for row in whole}
    apart = [row["gpu"] for row in whole if models[row["gpu_id"]] != models[whole[0]["gpu_id"]]]
    ranked = [row for row in whole if models[row["gpu_id"]] == models[whole[0]["gpu_id"]]]
    best = ranked[0]
    some = " that were forecast" if is_partial else ""
    span = describe_range(best["low"], best["high"])
    head = f"All {most} launches{some} take {format_seconds(best['seconds'], _DIGITS)} ({span}) on {best['gpu']}"
    if len(ranked) > 1:
        last = ranked[-1]
        sure = _chance(forecast, [row["gpu_id"] for row in ranked])
        head += f", the fastest of {len(ranked)} GPUs{sure}; {format_seconds(last['seconds'], 3)} on {last['gpu']}"
    note = [f"Not compared, as other models made their forecasts: {some_of(apart, _MOST_NAMED)}."] if apart else []
    return [f"{head}.", _limits(forecast, best), *note]


def _models_of(forecast: Forecast, gpu_id: str) -> frozenset[str]:
    return frozenset(p.model for p in forecast.predictions if p.gpu_id == gpu_id)


def _chance(forecast: Forecast, gpu_ids: Sequence[str]) -> str:
    """Return how probable it is that the first of some GPUs needs the least for all launches."""
    runs: dict[str, list[tuple[Prediction, Case]]] = {gpu_id: [] for gpu_id in gpu_ids}
    for p, case in zip(forecast.predictions, forecast.cases, strict=True):
        if p.gpu_id in runs and isinstance(case, Case) and is_comparable(p):
            runs[p.gpu_id].append((p, case))
    if len({len(run) for run in runs.values()}) != 1 or not runs[gpu_ids[0]]:
        return ""
    return f" with a probability of {describe_probability(fastest_of([runs[each] for each in gpu_ids])[0])}"


def _limits(forecast: Forecast, best: dict[str, object]) -> str:
    by_limiter: dict[str, float] = defaultdict(float)
    for p in forecast.predictions:
        if p.gpu_id == best["gpu_id"]:
            by_limiter[p.limiter] += p.count * p.seconds
    whole = sum(by_limiter.values())
    ranked = sorted(by_limiter.items(), key=lambda each: -each[1])
    shares = ", ".join(f"{describe_limiter(name)} {describe_percent(s / whole)}" for name, s in ranked)
    return f"What limits them on {best['gpu']}, by time: {shares}."
