"""How far forecasts are from what each resource alone would need, and from the roofline of counters."""

from collections.abc import Sequence
from itertools import groupby

from kerncast.errors import Refusal
from kerncast.forecast import Forecast
from kerncast.models import Case
from kerncast.models.roofline import Roofline
from kerncast.prediction import Prediction
from kerncast.report.tables import Table
from kerncast.report.words import describe_percent
from kerncast.units import format_seconds

EXPLANATION = (
    "Share of the forecast that each resource alone would need: the closer to 100 %, the more it decides."
    " The roofline is the slowest resource by the counters alone, with perfect overlap and no latency, which large"
    " launches approach. It counts PTX instructions, of which the compiler joins some: a forecast may be below it."
)


def roof_tables(forecast: Forecast) -> tuple[Table, ...]:
    """Return a table per launch: a row per GPU, a column per resource."""
    pairs = zip(forecast.predictions, forecast.cases, strict=True)
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
