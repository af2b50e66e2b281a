"""What the doctor and the cache say, in words."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kerncast.units import MIB, format_bytes

if TYPE_CHECKING:
    from kerncast.compile.cache import CacheReport

_DAY_SECONDS = 86_400.0


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


def cache_words(report: "CacheReport") -> str:
    """Say in one line where the cache is and how much it holds, or why there is none."""
    if not report.is_used:
        return f"{report.folder or 'none'}: {report.why_not}"
    usage = report.usage
    held = (
        f"{usage.entries} {_entries(usage.entries)}, {format_bytes(usage.bytes)} of {format_bytes(report.most_bytes)}"
    )
    return f"{report.folder}: {held}"


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
