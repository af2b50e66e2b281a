"""Tables for a terminal."""

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from kerncast.forecast import Forecast
from kerncast.report.as_json import totals
from kerncast.prediction import Prediction
from kerncast.report.document import Table, notes_of
from kerncast.report.words import (
    conclude,
    describe_interval,
    describe_limiter,
    describe_sampling,
    describe_timing,
)
from kerncast.units import format_seconds


_TEXT_COLUMNS = {"limited by", "largest terms", "source", "status", "name", "state", "needed for", "cure", "kernel", "GPU"}


def print_forecast(forecast: Forecast, console: Console) -> None:
    """Print the forecast: a table per launch, the total, the conclusion and the caveats."""
    cases = iter(forecast.cases)
    for _, group in groupby(forecast.predictions, key=lambda p: p.launch):
        predictions = list(group)
        profile = [next(cases).profile for _ in predictions][0]
        geometry = f"grid {_extent(profile.grid)}, block {_extent(profile.block)}"
        console.print(f"[bold]{escape(profile.kernel)}[/bold]  {geometry}. {describe_sampling(profile)}", highlight=False)
        print_table(_forecast_table(predictions), console)
    if not forecast.predictions:
        return
    if len({p.launch for p in forecast.predictions}) > 1:
        rows = tuple(
            (row["gpu"], str(row["launches"]), format_seconds(row["seconds"]), _interval(row["low"], row["high"]))
            for row in totals(forecast.predictions)
        )
        console.print("[bold]Total[/bold] of all launches")
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


def print_table(table: Table, console: Console) -> None:
    """Print one table; the first column to the left, numbers to the right."""
    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(table.heading):
        is_text = number == 0 or heading in _TEXT_COLUMNS
        rich_table.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(escape(cell) for cell in row))
    console.print(rich_table)


def print_notes(notes: Sequence[str], console: Console) -> None:
    """Print caveats as dim lines."""
    for note in notes:
        console.print(f"[dim]* {escape(note)}[/dim]", highlight=False)


def _extent(extent: tuple[int, int, int]) -> str:
    return f"({', '.join(map(str, extent))})"


def _interval(low: float, high: float) -> str:
    return f"{format_seconds(low, 2)} to {format_seconds(high, 2)}"
