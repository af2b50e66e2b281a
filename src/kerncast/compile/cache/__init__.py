"""The cache of compiled kernels on disk, by a digest of everything that they were made from."""

from kerncast.compile.cache.remembered import Remembered, recall
from kerncast.compile.cache.store import CacheReport, Place, Store, Usage, cache_place, cache_report

__all__ = ["CacheReport", "Place", "Remembered", "Store", "Usage", "cache_place", "cache_report", "recall"]
