"""Tables for a terminal."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape

from kerncast.forecast import Forecast
from kerncast.prediction import Prediction
from kerncast.report.as_json import totals
from kerncast.report.document import notes_of
from kerncast.report.tables import Table, print_notes, print_table
from kerncast.report.words import (
    conclude,
    describe_interval,
    describe_limiter,
    describe_range,
    describe_sampling,
    describe_timing,
)
from kerncast.units import format_seconds


def print_forecast(forecast: Forecast, console: Console) -> None:
    """Print the forecast: a table per launch, the total, the conclusion and the caveats."""
    pairs = zip(forecast.predictions, forecast.cases, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].launch):
        predictions, cases = zip(*group, strict=True)
        profile = cases[0].profile
        geometry = f"grid {_extent(profile.grid)}, block {_extent(profile.block)}"
        console.print(
            f"[bold]{escape(profile.kernel)}[/bold]  {geometry}. {describe_sampling(profile)}", highlight=False
        )
        print_table(_forecast_table(predictions), console)
    if not forecast.predictions:
        return
    if len({p.launch for p in forecast.predictions}) > 1:
        rows = tuple(
            (row["gpu"], str(row["launches"]), format_seconds(row["seconds"]), describe_range(row["low"], row["high"]))
            for row in totals(forecast.predictions)
        )
        some = " that were forecast" if forecast.refused else ""
        console.print(f"[bold]Total[/bold] of all launches{some}")
        print_table(Table(("GPU", "launches", "time", "interval"), rows), console)
    first = forecast.predictions[0]
    console.print(f"Timing: {describe_timing(first.timing)}. Model: {first.model}.", highlight=False)
    for sentence in conclude(forecast.predictions):
        console.print(escape(sentence), highlight=False)
    print_notes(notes_of(forecast), console)


def _forecast_table(predictions: Sequence[Prediction]) -> Table:
    """Return what fits a terminal: the terms beside the deciding one in one column."""
    rows = tuple(
        (p.gpu, format_seconds(p.seconds), describe_interval(p), describe_limiter(p.limiter), _largest_terms(p))
        for p in predictions
    )
    return Table(("GPU", "time", f"{predictions[0].level:.0%} interval", "limited by", "largest terms"), rows)


def _largest_terms(p: Prediction) -> str:
    ranked = sorted(p.terms, key=lambda term: -term.seconds)[:3]
    return ", ".join(f"{term.name} {format_seconds(term.seconds, 2)}" for term in ranked)


def _extent(extent: tuple[int, int, int]) -> str:
    return f"({', '.join(map(str, extent))})"
