"""How the cache stands, for ``kerncast cache`` and ``kerncast doctor``."""

from dataclasses import dataclass
from pathlib import Path

from kerncast.compile.cache.place import cache_place
from kerncast.compile.cache.store import Store, Usage


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Where the cache is, what it holds, and whether it can be used."""

    folder: Path | None
    """None where nothing is remembered"""
    most_bytes: int
    usage: Usage
    is_used: bool
    why_not: str | None
    """why nothing is remembered"""


def cache_report() -> CacheReport:
    """Look at the cache, and try to write to it; raises InputError for a size that is none."""
    place = cache_place()
    if place.folder is None:
        return CacheReport(None, place.most_bytes, Usage(0, 0, None), is_used=False, why_not=place.why_not)
    store = Store(place.folder, place.most_bytes)
    why_not = store.why_unusable()
    return CacheReport(place.folder, place.most_bytes, store.usage(), is_used=why_not is None, why_not=why_not)
