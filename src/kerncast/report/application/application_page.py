"""A whole program as a page: its time on each GPU, what that is made of, its timeline, and its kernels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncast.forecast.application import Application, Applications
from kerncast.models.timeline import busy_seconds
from kerncast.recording import EventKind, Recording
from kerncast.report.application.application_tables import (
    applications_table,
    counted,
    kernels_table,
    notes_of_run,
    verdict,
)
from kerncast.report.application.trace import name_of
from kerncast.report.forecast.document import (
    Beyond,
    facts_section,
    kernel_sections,
    origin_sections,
    words_section,
)
from kerncast.report.forecast.forecast_tables import notes_of
from kerncast.report.page.figures import Picture, bars_picture, stacks_picture, timeline_picture
from kerncast.report.page.fragments import Bar, Lane, Part, Stack
from kerncast.report.page.pages import Document, Section
from kerncast.report.pictures.colours import FAINT, LIMITS, REST, series_colours
from kerncast.report.tables import Fact, Table, TextColumn
from kerncast.report.words import describe_percent, describe_range
from kerncast.units import format_seconds

_MOST_NAMED, _OTHERS = 6, "other kernels"
_COPY_COLOUR = LIMITS["fma"]
_COPIES = {EventKind.COPY, EventKind.FILL}
_MOST_LANES, _LONGEST_TITLE = 10, 80
#: About as many columns has a picture: nothing is narrower than one, and spans that lie closer are drawn as one.
_COLUMNS = 1500
_PARTS = (
    "Every moment of the program counts once: a kernel runs, or the GPU copies alone, or it is idle while the host does"
    " its own work or calls CUDA."
)


def application_document(recording: Recording, found: Applications, beyond: Beyond) -> Document:
    """Return a program's run as a page; at least one GPU must have a forecast."""
    ranked = sorted(found.found, key=lambda one: one.timeline.seconds)
    best = ranked[0]
    colours = _colours(recording, ranked)
    bars = [Bar(each.gpu, each.low, each.timeline.seconds, each.high) for each in ranked]
    forecast = found.forecast
    sections = [
        Section(
            "Forecast", tables=(applications_table(ranked),), key="forecast",
            pictures=(bars_picture(bars, f"From start to end, with its {best.level:.0%} interval."),),
        ),
        _time_section(ranked, colours),
        _timeline_section(recording, ranked, colours),
        _kernels_section(ranked),
        *kernel_sections(forecast, beyond),
        Section("Caveats", (*notes_of_run(recording, found), *notes_of(forecast)), is_list=True, key="caveats"),
        *((facts_section([case.gpu for case in forecast.cases]),) if forecast.cases else ()),
        words_section(forecast.predictions, has_states=any(look.profile.warp_states for look in beyond.looks)),
        *origin_sections(beyond.origin, (counted(recording).capitalize() + ".",)),
    ]  # fmt: skip
    words = (Path(recording.command[0]).name, *recording.command[1:]) if recording.command else ()
    title = f"Forecast of the program {' '.join(words)[:_LONGEST_TITLE]}"
    headline = f"{format_seconds(best.timeline.seconds, 3)} on {best.gpu}"
    return Document(title, tuple(sections), headline, (verdict(ranked),), _tiles(best))


def _tiles(best: Application) -> tuple[Fact, ...]:
    line = best.timeline
    longest = best.kernels[0] if best.kernels else None
    share = longest.seconds / line.kernels if longest and line.kernels else 0.0
    tiles = [
        Fact(f"{best.level:.0%} interval", describe_range(best.low, best.high, 3)),
        Fact("Kernels", format_seconds(line.kernels, 3), f"{sum(each.launches for each in best.kernels):,} launches"),
        Fact("GPU idle", describe_percent(line.idle / line.seconds if line.seconds else 0.0), "of the time"),
    ]
    if longest is not None:
        tiles.append(Fact("Longest kernel", longest.kernel, f"{describe_percent(share)} of the kernels' time"))
    return tuple(tiles)


def _colours(recording: Recording, ranked: Sequence[Application]) -> dict[str, str]:
    """Return a colour for each of the kernels that take longest, and one for all others."""
    sums: dict[str, float] = {}
    for each in ranked:
        for kernel in each.kernels:
            sums[kernel.kernel] = sums.get(kernel.kernel, 0.0) + kernel.seconds
    most = sorted(sums, key=lambda name: -sums[name])[:_MOST_NAMED]
    found = series_colours(most)
    return found | ({_OTHERS: FAINT} if len(sums) > len(most) or recording.library_calls else {})


def moments(found: Application) -> tuple[Part, ...]:
    """Return the parts of a program's time, of which each moment is in one."""
    line = found.timeline
    is_copy = [int(span["kind"]) in _COPIES for span in line.spans]
    kernels = busy_seconds([span for span, copies in zip(line.spans, is_copy, strict=True) if not copies])
    copies = busy_seconds(line.spans) - kernels
    idle = max(0.0, line.seconds - kernels - copies)
    return (
        Part("kernels run", kernels, LIMITS["issue"]),
        Part("only copies run", copies, _COPY_COLOUR),
        Part("the GPU is idle", idle, REST),
    )


def _time_section(ranked: Sequence[Application], colours: dict[str, str]) -> Section:
    parts = [Stack(each.gpu, each.timeline.seconds, moments(each)) for each in ranked]
    kernels = [Stack(each.gpu, each.timeline.kernels, _by_kernel(each, colours)) for each in ranked if each.kernels]
    pictures = [stacks_picture(parts, _PARTS)]
    if kernels and len(colours) > 1:
        pictures.append(
            stacks_picture(kernels, "The time of the kernels, by kernel; those of several streams may overlap.")
        )
    rows = tuple(
        (stack.label, *(format_seconds(part.seconds, 3) for part in stack.parts), format_seconds(stack.seconds, 3))
        for stack in parts
    )
    heading: tuple[str | TextColumn, ...] = (TextColumn("GPU"), *(part.name for part in parts[0].parts), "program")
    return Section("Where the time goes", key="time", pictures=tuple(pictures), instead=(Table(heading, rows),))


def _by_kernel(found: Application, colours: dict[str, str]) -> tuple[Part, ...]:
    named = [Part(each.kernel, each.seconds, colours[each.kernel]) for each in found.kernels if each.kernel in colours]
    rest = sum(each.seconds for each in found.kernels if each.kernel not in colours)
    return (*named, Part(_OTHERS, rest, FAINT)) if rest else tuple(named)


def _timeline_section(recording: Recording, ranked: Sequence[Application], colours: dict[str, str]) -> Section:
    first, *others = [(each, _timeline(recording, each, colours)) for each in ranked]
    folded = tuple(Section(f"On {each.gpu}", pictures=(picture,), is_folded=True) for each, picture in others)
    return Section("Timeline", key="timeline", pictures=(first[1],), inside=folded)


def _timeline(recording: Recording, found: Application, colours: dict[str, str]) -> Picture:
    line = found.timeline
    rows: dict[tuple[bool, int, int], list[Any]] = {}
    for span in line.spans:
        key = int(span["kind"]) in _COPIES, int(span["process"]), int(span["stream"])
        rows.setdefault(key, []).append(span)
    lanes = []
    for (is_copy, _, stream), spans in sorted(rows.items(), key=lambda row: row[0])[:_MOST_LANES]:
        what = "copies" if is_copy else "kernels"
        marks = marks_of(recording, spans, {} if is_copy else colours, line.seconds)
        lanes.append(Lane(f"{what}, stream {stream}" if stream else what, tuple(marks.items())))
    legend = [*colours.items(), *([("copies and fills", _COPY_COLOUR)] if any(key[0] for key in rows) else [])]
    left = len(rows) - len(lanes)
    more = f" {left} more streams are left out." if left > 0 else ""
    return timeline_picture(lanes, line.seconds, legend, f"{found.gpu}: {format_seconds(line.seconds, 3)}.{more}")


def marks_of(
    recording: Recording, spans: Sequence[Any], colours: dict[str, str], seconds: float
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return begin and end of marks by colour; neighbours of one colour are one, none is too narrow to be seen."""
    found: dict[str, list[tuple[float, float]]] = {}
    step = seconds / _COLUMNS
    for span in spans:
        colour = colours.get(name_of(recording, span), FAINT) if colours else _COPY_COLOUR
        begin, end = float(span["begin"]), float(span["end"])
        marks = found.setdefault(colour, [])
        if marks and begin - marks[-1][1] < step:
            marks[-1] = marks[-1][0], max(marks[-1][1], end)
        else:
            marks.append((begin, max(end, begin + step)))
    return {colour: tuple(marks) for colour, marks in found.items()}


def _kernels_section(ranked: Sequence[Application]) -> Section:
    first, *others = [each for each in ranked if each.kernels] or [ranked[0]]
    folded = tuple(Section(f"On {each.gpu}", tables=(kernels_table(each),), is_folded=True) for each in others)
    return Section(f"Kernels on {first.gpu}", tables=(kernels_table(first),), key="kernels", inside=folded)
