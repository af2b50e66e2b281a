"""A whole application as a table, sentences and JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from kerncast.forecast.application import Application, Applications
from kerncast.models.timeline import Timeline
from kerncast.recording import Recording
from kerncast.report.as_json import SCHEMA_VERSION, fields_of, refused_launch
from kerncast.report.notebook import Part, Shown
from kerncast.report.tables import Table, TextColumn, print_notes, print_table
from kerncast.report.words import describe_limiter, describe_name, describe_percent, describe_range
from kerncast.units import format_count, format_seconds

_MOST_KERNELS = 12
#: A part of the time that is worth a sentence.
_MATTERS = 0.1
_EXPLANATION = (
    "application: from the program's start to its end. kernels, copies: their sums; they overlap where streams allow."
    " host: the program's own work, measured on this machine's processor, and its calls of CUDA. idle: no engine of"
    " the GPU works."
)


def applications_table(found: Sequence[Application]) -> Table:
    """Return a row per GPU, the fastest first."""
    heading = (TextColumn("GPU"), "application", "interval", "kernels", "copies", "host", "GPU idle",
               TextColumn("longest kernel"))  # fmt: skip
    rows = []
    for each in sorted(found, key=lambda one: one.timeline.seconds):
        line = each.timeline
        longest = each.kernels[0] if each.kernels else None
        share = longest.seconds / line.kernels if longest and line.kernels else 0.0
        rows.append((
            each.gpu, format_seconds(line.seconds, 3), describe_range(each.low, each.high, 3),
            format_seconds(line.kernels, 3), format_seconds(line.copies, 3), format_seconds(line.host, 3),
            describe_percent(line.idle / line.seconds if line.seconds else 0.0),
            f"{describe_name(longest.kernel)}, {describe_percent(share)} of kernels" if longest else "–",
        ))  # fmt: skip
    return Table(heading, tuple(rows))


def kernels_table(found: Application) -> Table:
    """Return a row per kernel of an application on one GPU, the longest first."""
    total = found.timeline.kernels or 1.0
    rows = tuple(
        (describe_name(each.kernel), f"{each.launches:,}", format_seconds(each.seconds, 3),
         describe_percent(each.seconds / total), describe_limiter(each.limiter) if each.limiter else "–")
        for each in found.kernels[:_MOST_KERNELS]
    )  # fmt: skip
    return Table((TextColumn("kernel"), "launches", "together", "share", TextColumn("limited by")), rows)


def verdict(found: Sequence[Application]) -> str:
    """Return the fastest GPU and what its time is made of, in a sentence or two."""
    if not found:
        return "No launch could be forecast."
    best = min(found, key=lambda one: one.timeline.seconds)
    line = best.timeline
    others = f", the fastest of {len(found)} GPUs" if len(found) > 1 else ""
    first = f"The program takes about {format_seconds(line.seconds, 3)} on {best.gpu}{others}."
    return f"{first} {where_it_goes(line)}"


def where_it_goes(line: Timeline) -> str:
    """Return what an application waits for, the most first."""
    parts = {
        "kernels": line.kernels, "copies": line.copies, "the host's own work (measured here)": line.host,
    }  # fmt: skip
    told = [
        f"{name} {describe_percent(seconds / line.seconds)}"
        for name, seconds in sorted(parts.items(), key=lambda part: -part[1])
        if line.seconds and seconds >= _MATTERS * line.seconds
    ]
    idle = line.idle / line.seconds if line.seconds else 0.0
    waits = f" The GPU is idle for {describe_percent(idle)} of the time." if idle >= _MATTERS else ""
    return f"Of it: {', '.join(told)}.{waits}" if told else waits.strip()


def counted(recording: Recording) -> str:
    """Return how many launches there were, and how many of them differ."""
    kernels = len({recording.groups[group].kernel for group in set(recording.launches["group"].tolist())})
    n = len(recording.launches)
    plural = "" if kernels == 1 else "s"
    return f"{n:,} launch{'' if n == 1 else 'es'} of {kernels} kernel{plural}, {len(recording.kept)} of them kept"


def print_applications(recording: Recording, found: Applications, console: Console) -> None:
    """Print what came of a program on every GPU."""
    if found.found:
        print_table(applications_table(found.found), console)
        best = min(found.found, key=lambda one: one.timeline.seconds)
        console.print(escape(verdict(found.found)), highlight=False)
        if len(best.kernels) > 1:
            console.print(f"\nKernels on {escape(best.gpu)}", highlight=False)
            print_table(kernels_table(best), console)
    print_notes(notes_of_run(recording, found), console)


def shown_run(recording: Recording, found: Applications | None) -> Shown:
    """Return what a program did and how long it takes, a row per GPU, and its kernels on the fastest."""
    said = [f"{counted(recording)}."]
    if found is None or not found.found:
        return Shown(tuple(said), (), tuple(notes_of_run(recording, found) if found else recording.remarks))
    best = min(found.found, key=lambda one: one.timeline.seconds)
    parts = [Part(applications_table(found.found))]
    if len(best.kernels) > 1:
        parts.append(Part(kernels_table(best), f"Kernels on {best.gpu}"))
    return Shown((verdict(found.found), *said), tuple(parts), tuple(notes_of_run(recording, found)))


def print_remarks(recording: Recording, console: Console) -> None:
    """Print what is to be said of a run that was not forecast."""
    print_notes(list(recording.remarks), console)


def notes_of_run(recording: Recording, found: Applications) -> list[str]:
    """Return what is to be said of a run and its forecasts."""
    notes = [_EXPLANATION] if found.found else []
    missing = max((each.timeline.missing for each in found.found), default=0)
    if missing:
        notes.append(f"{format_count(missing)} launches have no forecast and count as nothing.")
    notes += list(dict.fromkeys(f"{describe_name(each.kernel)} on {each.gpu or 'all GPUs'}: {each.reason}"
                                for each in found.forecast.refused))  # fmt: skip
    return [*notes, *recording.remarks]


def run_object(recording: Recording, found: Applications | None, status: int | None) -> dict[str, Any]:
    """Return the object that ``kerncast run --json`` prints; times in seconds, no status where nothing was run."""
    applications = found.found if found else ()
    return {
        "schema_version": SCHEMA_VERSION,
        "command": list(recording.command),
        "ended": recording.ended,
        "status": status,
        "launches": len(recording.launches),
        "distinct": len(recording.kept),
        "kernels": [fields_of(each, "name", "mangled") for each in recording.kernels],
        "host_seconds": recording.host_seconds,
        "applications": [_application(each) for each in applications],
        "refused": [refused_launch(each) for each in found.forecast.refused] if found else [],
        "remarks": list(recording.remarks),
    }


def _application(each: Application) -> dict[str, Any]:
    return {
        **fields_of(each, "gpu", "gpu_id"),
        **fields_of(each.timeline, "seconds"),
        **fields_of(each, "low", "high", "level"),
        **fields_of(each.timeline, "kernels", "copies", "host", "idle"),
        "by_kernel": [fields_of(one, "kernel", "launches", "seconds", "limiter") for one in each.kernels],
    }
