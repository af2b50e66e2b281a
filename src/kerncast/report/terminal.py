"""Tables for a terminal."""

from collections.abc import Sequence
from itertools import groupby, islice

from rich.console import Console
from rich.markup import escape

from kerncast.forecast import Forecast
from kerncast.report.as_json import totals
from kerncast.report.document import estimate_table, notes_of
from kerncast.report.many_launches import MOST_TABLES, all_launches, common_notes, conclude_together, origins
from kerncast.report.tables import Table, print_notes, print_rows, print_table
from kerncast.report.transferred import transfer_tables
from kerncast.report.words import (
    conclude,
    describe_range,
    describe_sampling,
    describe_timing,
)
from kerncast.units import format_seconds

#: Of more launches, reports and JSON tell the numbers.
_MOST_TRANSFERS = 3


def print_forecast(forecast: Forecast, console: Console) -> None:
    """Print the forecast: a table per launch, or one list of many; the total, the conclusion and the caveats."""
    launches = len({p.launch for p in forecast.predictions})
    if launches > MOST_TABLES:
        _print_many(forecast, console)
        return
    pairs = zip(forecast.predictions, forecast.cases, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].launch):
        predictions, cases = zip(*group, strict=True)
        profile = cases[0].profile
        geometry = f"grid {_extent(profile.grid)}, block {_extent(profile.block)}"
        counted = escape(describe_sampling(profile))
        console.print(f"[bold]{escape(profile.kernel)}[/bold]  {geometry}. {counted}", highlight=False)
        print_table(estimate_table(predictions), console)
    if not forecast.predictions:
        return
    if launches > 1:
        _print_total(forecast, console)
    for table in islice(transfer_tables(forecast.predictions), _MOST_TRANSFERS):
        console.print("[bold]Carried over from a measured run[/bold]")
        print_table(table, console)
    _print_end(forecast, conclude(forecast.predictions), notes_of(forecast), console)


def _print_many(forecast: Forecast, console: Console) -> None:
    for sentence in origins(forecast):
        console.print(escape(sentence), highlight=False)
    print_rows(all_launches(forecast.predictions), console)
    _print_total(forecast, console)
    _print_end(forecast, conclude_together(forecast.predictions), common_notes(forecast), console)


def _print_total(forecast: Forecast, console: Console) -> None:
    rows = tuple(
        (row["gpu"], str(row["launches"]), format_seconds(row["seconds"]), describe_range(row["low"], row["high"]))
        for row in totals(forecast.predictions)
    )
    some = " that were forecast" if forecast.refused else ""
    console.print(f"[bold]Total[/bold] of all launches{some}")
    print_table(Table(("GPU", "launches", "time", "interval"), rows), console)


def _print_end(forecast: Forecast, conclusion: Sequence[str], notes: Sequence[str], console: Console) -> None:
    timing = describe_timing(forecast.predictions[0].timing)
    models = " and ".join(dict.fromkeys(p.model for p in forecast.predictions))
    console.print(f"Timing: {timing}. Model: {models}.", highlight=False)
    for sentence in conclusion:
        console.print(escape(sentence), highlight=False)
    print_notes(notes, console)


def _extent(extent: tuple[int, int, int]) -> str:
    return f"({', '.join(map(str, extent))})"
