"""Resident blocks of an SM, the resource that limits them, and the change that would allow one more."""

from kerncast.occupancy.resident_blocks import (
    SECTOR_BYTES,
    BlockRequest,
    CacheGeometry,
    Limiter,
    Occupancy,
    block_request,
    block_request_of,
    cache_geometry,
    check_can_run,
    check_fits,
    l1_operations,
    occupancy,
    sm_limits,
    why_not,
)
from kerncast.occupancy.resident_clusters import ResidentClusters, resident_clusters

__all__ = [
    "SECTOR_BYTES", "BlockRequest", "CacheGeometry", "Limiter", "Occupancy", "ResidentClusters", "block_request",
    "block_request_of", "cache_geometry", "check_can_run", "check_fits", "l1_operations", "occupancy",
    "resident_clusters", "sm_limits", "why_not",
]  # fmt: skip
