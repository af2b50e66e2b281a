"""A forecast as tables and sentences, which terminals and reports share."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import Refusal
from kerncast.forecast import Forecast
from kerncast.models import Case, FeatureCase, TimedCase
from kerncast.models.operators.operator_work import OperatorCase
from kerncast.models.roofline import Roofline
from kerncast.prediction import Figure, Prediction
from kerncast.report.as_json import totals_of
from kerncast.report.tables import Table, TextColumn
from kerncast.report.words import (
    MOST_GPUS,
    all_of,
    describe_caveat,
    describe_interval,
    describe_limiter,
    describe_name,
    describe_part,
    describe_percent,
    describe_range,
    head_interval,
    with_gpus,
)
from kerncast.units import MEGA, format_count, format_seconds

EXPLANATION = (
    "Share of the forecast that each resource alone would need: the closer to 100 %, the more it decides."
    " The roofline is the slowest resource by the counters alone, with perfect overlap and no latency, which large"
    " launches approach. It counts PTX instructions, of which the compiler joins some: a forecast may be below it."
)


def roof_tables(forecast: Forecast) -> tuple[Table, ...]:
    """Return a table per launch with counts: a row per GPU, a column per resource."""
    every = zip(forecast.predictions, forecast.cases, strict=True)
    pairs = [(p, case) for p, case in every if isinstance(case, Case)]
    return tuple(_roof_table(list(group)) for _, group in groupby(pairs, key=lambda pair: pair[0].launch))


def _roof_table(pairs: Sequence[tuple[Prediction, Case]]) -> Table:
    largest: dict[str, float] = {}
    for p, _ in pairs:
        for term in p.terms:
            largest[term.name] = max(largest.get(term.name, 0.0), term.seconds / p.seconds)
    names = sorted(largest, key=lambda name: -largest[name])
    rows = []
    for p, case in pairs:
        terms = (p.term(name) for name in names)
        shares = ("–" if seconds is None else describe_percent(seconds / p.seconds) for seconds in terms)
        rows.append((p.gpu, *shares, *_beside(p, case)))
    return Table(("GPU", *names, "roofline", "forecast / roofline"), tuple(rows))


def _beside(p: Prediction, case: Case) -> tuple[str, str]:
    """Return the roofline of counters, and how many times it the forecast is."""
    try:
        roofline = Roofline().estimate(case, p.timing).seconds
    except Refusal:
        return "–", "–"
    return format_seconds(roofline, 3), f"{p.seconds / roofline:.2f}" if roofline else "–"


TRANSFER_HEADING = "Carried over from a measured run"
EVIDENCE_HEADING = "Measured times, and how they move the forecast"
_RATES = ("FLOP/s", "B/s", "FLOP", "B")


def transfer_tables(predictions: Sequence[Prediction]) -> Iterator[Table]:
    """Yield a table per launch and measured GPU: a row per number, a column per GPU."""
    carried = [p for p in predictions if p.transfer]
    for _, group in groupby(sorted(carried, key=_origin), key=_origin):
        yield _table(list(group))


#: Times of which a table tells the effect; JSON has all.
_MOST_TIMES = 12


def evidence_tables(predictions: Sequence[Prediction]) -> Iterator[Table]:
    """Yield a table per launch: a row per measured time, a column per GPU with the factor on its forecast."""
    moved = [p for p in predictions if p.evidence and not p.evidence.limits]
    for _, group in groupby(moved, key=lambda p: p.launch):
        yield _evidence_table(list(group))


LIMITS_HEADING = "What may limit it, and the forecast if that does"


def limit_tables(predictions: Sequence[Prediction]) -> Iterator[Table]:
    """Yield a table per launch of which only times are known: a row per resource, a column per GPU."""
    guessed = [p for p in predictions if p.evidence and p.evidence.limits]
    for _, group in groupby(guessed, key=lambda p: p.launch):
        yield _limit_table(list(group))


def _limit_table(group: Sequence[Prediction]) -> Table:
    found = [{limit.resource: limit for limit in p.evidence.limits} for p in group if p.evidence]
    rows = []
    for name in dict.fromkeys(name for limits in found for name in limits):
        shares = [limits[name].probability for limits in found if name in limits]
        ends = dict.fromkeys(describe_percent(share) for share in (min(shares), max(shares)))
        times = (format_seconds(limits[name].seconds, 3) if name in limits else "–" for limits in found)
        rows.append((describe_limiter(name), " to ".join(ends), *times))
    return Table((TextColumn("limited by"), "probability", *(p.gpu for p in group)), tuple(rows))


def _evidence_table(group: Sequence[Prediction]) -> Table:
    found = [p.evidence for p in group if p.evidence]
    effects = [[each.times[number].factor or 1.0 for each in found] for number in range(len(found[0].times))]
    most = sorted(range(len(effects)), key=lambda number: -max(abs(math.log(factor)) for factor in effects[number]))
    rows = []
    for number in sorted(most[:_MOST_TIMES]):
        time = found[0].times[number]
        simulated = _time_or_none(time.simulated_seconds)
        factors = (f"x {factor:.3f}" for factor in effects[number])
        rows.append((f"{time.kernel} on {time.gpu}", format_seconds(time.seconds, 3), simulated, *factors))
    rows.append(("without them", "", "", *(_time_or_none(each.seconds_without) for each in found)))
    return Table((TextColumn("measured"), "time", "simulated", *(p.gpu for p in group)), tuple(rows))


def _time_or_none(seconds: float | None) -> str:
    return "–" if seconds is None else format_seconds(seconds, 3)


def _origin(p: Prediction) -> tuple[int, str]:
    return p.launch, p.transfer.gpu if p.transfer else ""


def _table(group: list[Prediction]) -> Table:
    transfers = [p.transfer for p in group if p.transfer]
    targets, times = (p.gpu for p in group), (format_seconds(p.seconds, 3) for p in group)
    rows = [("time", format_seconds(transfers[0].measured_seconds, 3), *times)]
    for name in dict.fromkeys(figure.name for transfer in transfers for figure in transfer.figures):
        figures = [transfer.figure(name) for transfer in transfers]
        cells = (_cell(figure.target, figure.unit) if figure else "–" for figure in figures)
        rows.append((name, _source_cell([figure for figure in figures if figure]), *cells))
    return Table((group[0].kernel, f"{transfers[0].gpu}, measured", *targets), tuple(rows))


def _source_cell(figures: Sequence[Figure]) -> str:
    """Return the number of the measured GPU: a range where it depends on what is known of each target."""
    known = [figure.source for figure in figures if figure.source is not None]
    ends = [_cell(end, figures[0].unit) for end in (min(known), max(known))] if known else ["–"]
    return " to ".join(dict.fromkeys(ends))


def _cell(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit in _RATES:
        return format_count(value, unit)
    if unit == "Hz":
        return f"{value / MEGA:.0f} MHz"
    if unit == "s":
        return format_seconds(value, 3)
    return f"{value:.3g}" if unit == "1" else f"{value:.3g} {unit}"


_LIMITED = (TextColumn("limited by"), TextColumn("largest terms"))
_GUESSED = (TextColumn("perhaps limited by"), TextColumn("probabilities"))


def is_sum_of_operators(forecast: Forecast) -> bool:
    """Return whether operators are forecast, and more than one call of one: those that were refused count, too."""
    if not isinstance(forecast.cases[0], OperatorCase):
        return False
    asked = {p.launch for p in forecast.predictions} | {r.launch for r in forecast.refused}
    return len(asked) > 1 or any(p.count > 1 for p in forecast.predictions)


def total_table(forecast: Forecast) -> Table:
    """Return one row per GPU: how many launches, what they take together, and how many the sum lacks."""
    is_partial = lacks_launches(forecast)
    rows = tuple(
        (
            row["gpu"], str(row["launches"]), *((str(row["launches_refused"]),) if is_partial else ()),
            format_seconds(row["seconds"]), describe_range(row["low"], row["high"]),
        )
        for row in totals_of(forecast)
    )  # fmt: skip
    return Table(("GPU", "launches", *(("refused",) if is_partial else ()), "time", "interval"), rows)


def lacks_launches(forecast: Forecast) -> bool:
    """Return whether the sum on some GPU lacks launches that were refused there."""
    return any(row["launches_refused"] for row in totals_of(forecast))


def estimate_table(predictions: Sequence[Prediction]) -> Table:
    """Return one row per GPU, the fastest first: time, interval, limiter and the largest terms with their shares."""
    return _estimates(predictions, _Width())


def narrower_tables(predictions: Sequence[Prediction]) -> Iterator[Table]:
    """Yield the same table again and again, each time with less: what decides least goes first."""
    return (_estimates(predictions, width) for width in _WIDTHS)


@dataclass(frozen=True, slots=True)
class _Width:
    """The parts of a row that there is room for."""

    terms: int = 3
    """number of the largest terms"""
    has_times: bool = True
    """whether terms have their times beside their shares"""
    is_short: bool = False
    """whether limiters have their terms' names, and GPUs of long names miss the middle of them"""


_WIDTHS = (
    *(_Width(terms=most) for most in (3, 2)),
    *(_Width(terms=most, has_times=False) for most in (3, 2, 1, 0)),
    _Width(terms=0, has_times=False, is_short=True),
)
_GPU_LETTERS = 24


def _estimates(predictions: Sequence[Prediction], width: _Width) -> Table:
    rows = tuple(
        (
            describe_name(p.gpu, _GPU_LETTERS) if width.is_short else p.gpu, format_seconds(p.seconds),
            describe_interval(p), p.limiter if width.is_short else describe_limiter(p.limiter),
            *((_largest_terms(p, width),) if width.terms else ()),
        )
        for p in sorted(predictions, key=lambda p: p.seconds)
    )  # fmt: skip
    limited, terms = _GUESSED if all(p.evidence and p.evidence.limits for p in predictions) else _LIMITED
    return Table(("GPU", "time", head_interval(predictions), limited, *((terms,) if width.terms else ())), rows)


def _largest_terms(p: Prediction, width: _Width) -> str:
    if p.evidence and p.evidence.limits:
        likely = p.evidence.limits[: width.terms]
        return ", ".join(f"{limit.resource} {describe_percent(limit.probability)}" for limit in likely)
    ranked = sorted(p.terms, key=lambda term: -term.seconds)[: width.terms]
    if not width.has_times:
        return ", ".join(f"{term.name} {describe_percent(term.seconds / p.seconds)}" for term in ranked)
    return ", ".join(f"{term.name} {describe_part(term.seconds, p.seconds)}" for term in ranked)


def index_of(case: Case | TimedCase | FeatureCase | OperatorCase) -> int:
    """Return the number of a case's launch."""
    match case:
        case TimedCase():
            return case.timed.index
        case FeatureCase():
            return case.index
        case OperatorCase():
            return case.operator.index
    return case.profile.index


#: Caveats that are one sentence for several subjects.
_OF_SEVERAL = {CaveatKind.MICROARCHITECTURE_NOT_MEASURED}
#: Sentences of one kind that are printed; of more, the last one says how many there are.
_MOST_OF_A_KIND = 3


@dataclass(slots=True)
class _Note:
    """A caveat, and what it is true of."""

    caveat: Caveat
    gpus: dict[str, None]
    subjects: dict[str, None]

    def text(self, everyone: int, most: int | None) -> str:
        """Return its sentence, behind the GPUs unless these are all; ``most``: GPUs that are named, None for all."""
        text = describe_caveat(replace(self.caveat, subject=all_of([*self.subjects])))
        if len(self.gpus) == everyone:
            return text
        return with_gpus(text, tuple(self.gpus), len(self.gpus) if most is None else most)


def notes_of(forecast: Forecast, *, names_all: bool = False) -> list[str]:
    """Return each caveat once, with the GPUs that it concerns unless it concerns all.

    Of many GPUs, and of many sentences of one kind, some are given; ``names_all`` gives all.
    """
    everyone = len({p.gpu for p in forecast.predictions})
    notes: dict[str, _Note] = {}
    for p in forecast.predictions:
        for caveat in p.caveats:
            is_shared = caveat.kind in _OF_SEVERAL
            text = describe_caveat(replace(caveat, subject="") if is_shared else caveat)
            note = notes.setdefault(text, _Note(caveat, {}, {}))
            note.gpus[p.gpu] = None
            note.subjects[caveat.subject] = None
    by_kind: dict[CaveatKind, list[_Note]] = {}
    for note in notes.values():
        by_kind.setdefault(note.caveat.kind, []).append(note)
    texts = [text for of_kind in by_kind.values() for text in _texts_of_kind(of_kind, everyone, names_all=names_all)]
    texts += [
        f"Refused: {r.kernel} (launch {r.launch}){f' on {r.gpu}' if r.gpu else ''}: {r.reason}"
        for r in forecast.refused
    ]
    return texts


def _texts_of_kind(notes: Sequence[_Note], everyone: int, *, names_all: bool) -> list[str]:
    if names_all or len(notes) <= _MOST_OF_A_KIND:
        return [note.text(everyone, None if names_all else MOST_GPUS) for note in notes]
    gpus = dict.fromkeys(gpu for note in notes[1:] for gpu in note.gpus)
    others = (
        f"{len(notes) - 1} more of this kind, with other numbers, for {len(gpus)} GPUs: --verbose or --json has them."
    )
    return [f"{notes[0].text(everyone, MOST_GPUS)} {others}"]
