"""Two profiles beside one another: how the time changed, and which metrics did, what matters most first."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.report.as_json import SCHEMA_VERSION
from kerncast.report.comparison.before_after import describe_change
from kerncast.report.page.pages import Document, Origin, Section
from kerncast.report.tables import Fact, Table, TextColumn, print_notes, print_table
from kerncast.report.words import describe_name
from kerncast.studies.comparing.profile_changes import Change, ProfilePair
from kerncast.units import MEGA, NANOSECOND, format_bytes, format_count, format_seconds

_DIGITS = 3
_MOST_ROWS = 20
_NOTHING = "–"
IMPORTANCE = (
    "The most important changes come first: the doublings that a metric changed by, times the share of its peak that"
    " its unit (DRAM, L2, L1 or SM) reaches in the busier of both profiles."
)
_ONE_TIME = "A profile has one time per launch, measured or simulated, and does not tell how much runs differ."


def change_headline(pairs: Sequence[ProfilePair]) -> str:
    """Return how the time of all launches changed; what the profiles lack is said."""
    known = [pair.seconds for pair in pairs]
    before = [old for old, new in known if old is not None and new is not None]
    after = [new for old, new in known if old is not None and new is not None]
    if not before:
        return "The profiles tell no times"
    some = "" if len(before) == len(known) else f" ({len(before)} of {len(known)} launches)"
    return f"{describe_change(sum(before), sum(after)).capitalize()}{some}"


def _doubt(pairs: Sequence[ProfilePair]) -> tuple[str, ...]:
    return (_ONE_TIME,) if any(None not in pair.seconds for pair in pairs) else ()


def _times(pair: ProfilePair) -> str:
    old, new = pair.seconds
    if old is None or new is None:
        return "The time is not in both profiles."
    return f"{format_seconds(old, _DIGITS)} before, {format_seconds(new, _DIGITS)} after: {describe_change(old, new)}."


def _title(pair: ProfilePair) -> str:
    old, new = describe_name(pair.before.kernel), describe_name(pair.after.kernel)
    return f"{new} (launch {pair.after.number})" + ("" if old == new else f", before {old}")


def change_table(pair: ProfilePair, most: int | None = None, *, has_meaning: bool = True) -> Table:
    """Return a row per metric that changed, the most important first."""
    rows = tuple(
        (
            each.name, _shown(each.before, each.unit), _shown(each.after, each.unit), _ratio(each),
            *((each.meaning,) if has_meaning else ()),
        )
        for each in pair.changes[:most]
    )  # fmt: skip
    heading = (TextColumn("metric", is_whole=True), "before", "after", "after / before")
    return Table((*heading, *((TextColumn("meaning"),) if has_meaning else ())), rows)


def _ratio(change: Change) -> str:
    return "new" if change.ratio is None else f"×{change.ratio:.3g}"


def _shown(value: float, unit: str) -> str:
    """Return a value with its unit.

    >>> _shown(2048.0, "byte"), _shown(1500.0, "ns"), _shown(81.25, "%"), _shown(1e9, "hz"), _shown(20000.0, "inst")
    ('2.05 kB', '1.5 µs', '81.2 %', '1000 MHz', '20 k')
    """
    if unit == "ns":
        return format_seconds(value * NANOSECOND, _DIGITS)
    if unit in {"byte", "byte/block"}:
        return format_bytes(value)
    if unit == "byte/s":
        return format_count(value, "B/s")
    if unit in {"%", "hz"}:
        return f"{value:.3g} %" if unit == "%" else f"{value / MEGA:.4g} MHz"
    return format_count(value) if abs(value) >= 1000 else f"{value:.4g}"


def _left(pair: ProfilePair) -> str:
    only = f"{len(pair.only_before)} are in the profile before alone, {len(pair.only_after)} in the one after"
    return f"{len(pair.changes)} metrics changed by 0.5 % or more, {pair.unchanged} did not; {only}."


def print_changes(pairs: Sequence[ProfilePair], console: Console) -> None:
    """Print the time of all launches, then of each launch the metrics that changed most."""
    console.print(f"[bold]{escape(change_headline(pairs))}[/bold]\n", highlight=False)
    for pair in pairs:
        console.print(f"[bold]{escape(_title(pair))}[/bold]  {escape(_times(pair))}", highlight=False)
        if pair.changes:
            print_table(change_table(pair, _MOST_ROWS, has_meaning=False), console)
        more = len(pair.changes) - _MOST_ROWS
        told = f" {more} further changes: --json and --report have all." if more > 0 else ""
        print_notes([_left(pair) + told], console)
    print_notes([IMPORTANCE, *_doubt(pairs)], console)


def changes_object(pairs: Sequence[ProfilePair]) -> dict[str, Any]:
    """Return the object that ``kerncast profile --compare-to --json`` prints."""
    return {"schema_version": SCHEMA_VERSION, "pairs": [_pair(pair) for pair in pairs]}


def _pair(pair: ProfilePair) -> dict[str, Any]:
    old, new = pair.seconds
    return {
        "before": {"kernel": pair.before.kernel, "launch": pair.before.number, "seconds": old},
        "after": {"kernel": pair.after.kernel, "launch": pair.after.number, "seconds": new},
        "metrics": [
            {
                "name": each.name, "unit": each.unit, "before": each.before, "after": each.after, "ratio": each.ratio,
                "importance": each.importance,
            }
            for each in pair.changes
        ],
        "unchanged": pair.unchanged,
        "only_before": list(pair.only_before),
        "only_after": list(pair.only_after),
    }  # fmt: skip


def change_document(pairs: Sequence[ProfilePair], names: tuple[str, str], origin: Origin | None) -> Document:
    """Return the page of two profiles; ``names`` are those of the files, before and after."""
    tiles = []
    for label, times in zip(("Before", "After"), zip(*(pair.seconds for pair in pairs), strict=True), strict=True):
        known = [each for each in times if each is not None]
        note = "" if len(times) == 1 else f"{len(known)} launches"
        tiles.append(Fact(label, format_seconds(sum(known), _DIGITS) if known else _NOTHING, note))
    sections = (
        *_pair_sections(pairs),
        Section("How this was made", (f"Before: {names[0]}. After: {names[1]}.",), key="origin",
                facts=origin.facts if origin else ()),
    )  # fmt: skip
    first = _times(pairs[0]) if len(pairs) == 1 else f"{len(pairs)} launches of both profiles are compared."
    lead = (first, *_doubt(pairs))
    return Document("Two profiles compared", sections, change_headline(pairs), lead, tuple(tiles))


def _pair_sections(pairs: Sequence[ProfilePair]) -> Iterator[Section]:
    for number, pair in enumerate(pairs):
        names = ((pair.only_before, "before"), (pair.only_after, "after"))
        inside = tuple(
            Section(f"Metrics of the profile {when} alone", every, is_list=True, is_folded=True)
            for every, when in names
            if every
        )
        said = (_times(pair), _left(pair), *((IMPORTANCE,) if number == 0 else ()))
        tables = (change_table(pair),) if pair.changes else ()
        yield Section(_title(pair), said, tables, key=f"launch-{number}", inside=inside)
