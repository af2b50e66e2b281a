"""The findings of the doctor and the cache, in words."""

import platform
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kerncast.units import MIB, format_bytes
from kerncast.version import __version__

if TYPE_CHECKING:
    from kerncast.checkup import Checkup
    from kerncast.compile import ToolStatus
    from kerncast.compile.cache import CacheReport

_DAY_SECONDS = 86_400.0
_WIDTH = 80
_STATE_WIDTH = 10


def cache_lines(report: "CacheReport", removed: int | None = None) -> Iterator[str]:
    """Yield what ``kerncast cache`` prints."""
    if removed is not None:
        yield f"{removed} {_entries(removed)} removed"
    if report.folder is not None:
        yield f"folder    {report.folder}"
    if not report.is_used:
        yield f"not used  {report.why_not}"
        return
    usage = report.usage
    yield f"holds     {usage.entries} {_entries(usage.entries)}, {format_bytes(usage.bytes)}"
    yield f"bound     {format_bytes(report.most_bytes)} ({report.most_bytes // MIB} MiB)"
    if usage.oldest_use is not None:
        yield f"oldest    last used {_ago(time.time() - usage.oldest_use)}"


def _entries(count: int) -> str:
    return "entry" if count == 1 else "entries"


def _ago(seconds: float) -> str:
    """Return how long ago, in words.

    >>> _ago(3.0), _ago(7200.0), _ago(90_000.0), _ago(500_000.0)
    ('within the last hour', '2 h ago', '1 day ago', '6 days ago')
    """
    hours = int(seconds // 3600)
    if hours < 1:
        return "within the last hour"
    days = round(seconds / _DAY_SECONDS)
    return f"{hours} h ago" if hours < 24 else f"{days} day{'s' if days > 1 else ''} ago"


def doctor_lines(found: "Checkup") -> Iterator[str]:
    """Yield what ``kerncast doctor`` prints, for 80 columns; only commands to paste may be longer."""
    yield f"kerncast {__version__} on {platform.system()} {platform.machine()}"
    yield from _group("Required", (*_packages(found.packages), *map(_part_lines, found.compiler)))
    yield from _group("Optional", map(_part_lines, found.optional))
    yield from _group("This machine", map(_part_lines, found.here))
    yield ""
    yield from textwrap.wrap(" ".join(_conclusion(found)), _WIDTH)


def _group(title: str, parts: Iterable[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield title
    for lines in parts:
        yield from lines


def _packages(statuses: "Sequence[ToolStatus]") -> Iterator[list[str]]:
    """Yield one part for all packages that are as they should be, and one for each of the others."""
    first, *others = statuses
    yield _part_lines(first)
    for status in others:
        if not status.found:
            yield _part_lines(status)
    if sound := [status for status in others if status.found]:
        versions = ", ".join(f"{status.name} {status.version}" for status in sound)
        yield _wrapped("ok", f"packages: {versions}")


def _part_lines(status: "ToolStatus") -> list[str]:
    if status.found:
        note = f", for {status.needed_for}" if status.is_optional and _is_plain(status.version) else ""
        joint = " " if _is_plain(status.version) else ": "
        return _wrapped("ok", f"{status.name}{joint}{status.version}{note}")
    if status.trouble:
        lines = _wrapped("broken", f"{status.name}: {status.trouble}")
    else:
        lines = _wrapped("missing", f"{status.name}, for {status.needed_for}")
    if status.command:  # on one line, to be pasted
        return [*lines, " " * _STATE_WIDTH + status.command]
    return [*lines, *_wrapped("", status.cure or "")]


def _is_plain(version: str | None) -> bool:
    return version is not None and version[:1].isdigit() and " " not in version


def _wrapped(state: str, text: str) -> list[str]:
    head, rest = f"  {state}".ljust(_STATE_WIDTH), " " * _STATE_WIDTH
    return textwrap.wrap(text, _WIDTH, initial_indent=head, subsequent_indent=rest, break_long_words=False)


def _conclusion(found: "Checkup") -> Iterator[str]:
    """Yield the sentences that say what works here, and what does not."""
    if found.sources_work:
        yield "Ready: forecasts work, from sources, profiles, measured times and counts."
    elif found.counts_work:
        yield "Not ready: forecasts from sources do not work; those from profiles and declared counts do."
    else:
        yield "Not ready: forecasts do not work until what is required is mended."
    absent = [status.needed_for for status in found.optional if not status.found]
    if absent:
        yield f"Not available without the optional parts: {'; '.join(absent)}."
