"""A forecast on a terminal: a table per launch, or a row per launch where there are many."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from rich.console import Console
from rich.markup import escape

from kerncast.forecast import Forecast
from kerncast.models import Case, FeatureCase, TimedCase
from kerncast.models.operators.operator_work import OperatorCase
from kerncast.prediction import Prediction
from kerncast.report.as_json import totals
from kerncast.report.forecast.forecast_tables import (
    EVIDENCE_HEADING,
    LIMITS_HEADING,
    TRANSFER_HEADING,
    evidence_tables,
    index_of,
    is_sum_of_operators,
    lacks_launches,
    limit_tables,
    narrower_tables,
    notes_of,
    total_table,
    transfer_tables,
)
from kerncast.report.forecast.verdict import contests, verdict, verdict_together
from kerncast.report.tables import Table, TextColumn, print_fullest, print_notes, print_rows, print_table
from kerncast.report.words import (
    describe_caveat,
    describe_interval,
    describe_limiter,
    describe_name,
    describe_operator,
    describe_percent,
    describe_sampling,
    describe_times,
    describe_timing,
    head_interval,
)
from kerncast.units import format_seconds

#: Most launches with a table each; more would be unreadable.
MOST_TABLES = 20
_MOST_NOTES = 12
_NAME_WIDTH = 48


def all_launches(predictions: Sequence[Prediction]) -> Table:
    """Return one row per launch and GPU, in the order of launches; with shares of the time where some are repeated."""
    interval = head_interval(predictions[:1])
    has_counts = any(p.count > 1 for p in predictions)
    counted = ("calls", "together", "share") if has_counts else ()
    columns = ("launch", TextColumn("kernel"), TextColumn("GPU"), "time", interval, *counted, TextColumn("limited by"))
    limiters = {name: describe_limiter(name) for name in {p.limiter for p in predictions}}
    whole = {row["gpu_id"]: row["seconds"] for row in totals(predictions)}
    rows = tuple(
        (
            str(p.launch), describe_name(p.kernel, _NAME_WIDTH), p.gpu, format_seconds(p.seconds), describe_interval(p),
            *(_together(p, whole[p.gpu_id]) if has_counts else ()), limiters[p.limiter],
        )
        for p in predictions
    )  # fmt: skip
    return Table(columns, rows)


def _together(p: Prediction, whole: float) -> tuple[str, str, str]:
    """Return how often a launch occurs, what all of them take, and their share of all launches on the GPU."""
    return str(p.count), format_seconds(p.count * p.seconds), describe_percent(p.count * p.seconds / whole)


def origins(forecast: Forecast) -> Iterator[str]:
    """Yield how the counts came about, with the number of launches of each kind."""
    by_launch = {index_of(case): _origin(case) for case in forecast.cases}
    for sentence, count in Counter(by_launch.values()).most_common(_MOST_NOTES):
        yield sentence if count == len(by_launch) else f"{count} launches: {sentence}"


def _origin(case: Case | TimedCase | FeatureCase | OperatorCase) -> str:
    match case:
        case TimedCase():
            return "Only times are known."
        case FeatureCase():
            return f"Features as {case.source} has them."
        case OperatorCase():
            return "Operators are known by their sizes."
    return describe_sampling(case.profile)


def common_notes(forecast: Forecast) -> list[str]:
    """Return the caveats that concern the most forecasts, each with their number; then how many others there are."""
    counted = Counter(caveat for p in forecast.predictions for caveat in set(p.caveats))
    everything = len(forecast.predictions)
    notes = [
        ("" if count == everything else f"{count} of {everything} forecasts: ") + describe_caveat(caveat)
        for caveat, count in counted.most_common(_MOST_NOTES)
    ]
    if len(counted) > _MOST_NOTES:
        notes.append(
            f"{len(counted) - _MOST_NOTES} further caveats of fewer forecasts: --json has each with its launch"
        )
    refused = Counter(r.reason for r in forecast.refused)
    notes += [f"Refused, {count} times: {reason}" for reason, count in refused.most_common(_MOST_NOTES)]
    if len(refused) > _MOST_NOTES:
        notes.append(f"{len(refused) - _MOST_NOTES} further reasons of refusals: --json has each with its launch")
    return notes


#: Most launches with numbers of the transfer; of more, reports and JSON tell them.
_MOST_TRANSFERS = 3


def print_forecast(forecast: Forecast, console: Console, *, is_verbose: bool = False) -> None:
    """Print the verdict, then a table per launch or one list of many, the total and the caveats.

    ``is_verbose``: caveats name every GPU that they concern.
    """
    launches = len({p.launch for p in forecast.predictions})
    is_repeated = launches > 1 and any(p.count > 1 for p in forecast.predictions)
    if launches > MOST_TABLES or is_repeated:
        _print_many(forecast, console)
        return
    if not forecast.predictions:
        return
    _print_launches(forecast, console)
    if launches > 1 or is_sum_of_operators(forecast):
        _print_total(forecast, console)
    for table in islice(transfer_tables(forecast.predictions), _MOST_TRANSFERS):
        console.print(f"[bold]{TRANSFER_HEADING}[/bold]")
        print_table(table, console)
    for heading, tables in ((EVIDENCE_HEADING, evidence_tables), (LIMITS_HEADING, limit_tables)):
        for table in islice(tables(forecast.predictions), _MOST_TRANSFERS):
            console.print(f"[bold]{heading}[/bold]")
            print_table(table, console)
    _print_end(forecast, notes_of(forecast, names_all=is_verbose), console)


def _print_launches(forecast: Forecast, console: Console) -> None:
    """Print the verdict over all, then each launch with its own verdict and tables."""
    of_launches = contests(forecast)
    is_one = len(of_launches) == 1
    _print_verdict([verdict(of_launches[0])] if is_one else verdict_together(forecast), console)
    cases = {p.launch: case for p, case in zip(forecast.predictions, forecast.cases, strict=True)}
    for found in of_launches:
        first = found[0].predictions[0]
        heading = _heading(cases[first.launch])
        console.print(f"[bold]{escape(describe_name(first.kernel))}[/bold]  {escape(heading)}", highlight=False)
        if not is_one:
            console.print(escape(verdict(found)), highlight=False)
        for number, contest in enumerate(found):
            if number:
                model = contest.predictions[0].model
                console.print(f"Not compared with these: forecast by {escape(model)}", highlight=False)
            print_fullest(narrower_tables(contest.predictions), console)


def _print_verdict(sentences: Sequence[str], console: Console) -> None:
    for sentence in sentences:
        console.print(f"[bold]{escape(sentence)}[/bold]", highlight=False)
    console.print()


def _heading(case: Case | TimedCase | FeatureCase | OperatorCase) -> str:
    """Return what is known of a launch beside its kernel's name."""
    match case:
        case TimedCase():
            return describe_times(case.timed)
        case FeatureCase():
            return f"row {case.index + 1}. {_origin(case)}"
        case OperatorCase():
            return describe_operator(case.operator)
    return f"grid {case.profile.grid}, block {case.profile.block}. {describe_sampling(case.profile)}"


def _print_many(forecast: Forecast, console: Console) -> None:
    _print_verdict(verdict_together(forecast, is_partial=lacks_launches(forecast)), console)
    for sentence in origins(forecast):
        console.print(escape(sentence), highlight=False)
    print_rows(all_launches(forecast.predictions), console)
    _print_total(forecast, console)
    _print_end(forecast, common_notes(forecast), console)


def _print_total(forecast: Forecast, console: Console) -> None:
    some = " that were forecast, without those that were refused" if lacks_launches(forecast) else ""
    console.print(f"[bold]Total[/bold] of all launches{some}")
    print_table(total_table(forecast), console)


def _print_end(forecast: Forecast, notes: Sequence[str], console: Console) -> None:
    timing = describe_timing(forecast.predictions[0].timing)
    models = " and ".join(dict.fromkeys(p.model for p in forecast.predictions))
    console.print(f"Timing: {timing}. Model: {models}. Terms: kerncast explain.", highlight=False)
    print_notes(notes, console)
