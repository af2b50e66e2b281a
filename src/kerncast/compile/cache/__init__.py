"""What was compiled before is remembered on disk, under a digest of everything that it was made from."""

from kerncast.compile.cache.remembered import Remembered, recall
from kerncast.compile.cache.store import CacheReport, Place, Store, Usage, cache_place, cache_report

__all__ = ["CacheReport", "Place", "Remembered", "Store", "Usage", "cache_place", "cache_report", "recall"]
