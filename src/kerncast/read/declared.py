"""Counts declared by hand, for a kernel whose source is not at hand.

A file has one ``[[declared]]`` per kernel; see ``docs/launch-file.md``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import LaunchError
from kerncast.launch import Extent, check_geometry, parse_extent, read_toml
from kerncast.profiles import Count, KernelProfile, Origin, Traffic, Work

#: No launch does more: a GPU of 1e15 operations per second would need a lifetime.
_MOST = 1e24

_WORK = ("fp32_flops", "fp64_flops", "fp16_flops", "special_ops", "integer_ops", "control_ops")
_TRAFFIC = (
    "global_load_requests", "global_store_requests", "global_load_sectors", "global_store_sectors",
    "global_bytes_requested", "global_bytes_touched", "dram_bytes", "shared_requests", "atomic_operations",
    "local_bytes",
)  # fmt: skip


def read_declared(path: Path) -> tuple[KernelProfile, ...]:
    """Read the profiles that a file declares; raises LaunchError with place and cure."""
    table = read_toml(path)
    rows = table.get("declared")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise LaunchError("no [[declared]] found", where=str(path), cure="Add one per kernel.")
    return tuple(_parse_row(row, index, f"{path} declared {index}") for index, row in enumerate(rows))


def declared_profile(kernel: str, grid: Extent, block: Extent, index: int = 0, **counts: float) -> KernelProfile:
    """Return a profile of counts known by hand; what is not given is unknown."""

    def count(name: str) -> Count | None:
        return Count.exact(counts[name]) if name in counts else None

    return KernelProfile(
        kernel=kernel,
        index=index,
        grid=grid,
        block=block,
        shared_bytes=0,
        resources=None,
        work=Work(Origin.DECLARED, *(count(name) for name in _WORK)),
        traffic=Traffic(Origin.DECLARED, *(count(name) for name in _TRAFFIC)),
        mix=None,
        sampling=None,
        caveats=(Caveat(CaveatKind.COUNTS_DECLARED),),
    )


def _parse_row(row: Mapping[str, Any], index: int, where: str) -> KernelProfile:
    known = {"kernel", "grid", "block", *_WORK, *_TRAFFIC}
    unknown = sorted(set(row) - known)
    if unknown:
        raise LaunchError(f"unknown key {unknown[0]!r}", where=where, cure=f"Known: {', '.join(sorted(known))}.")
    for name in ("kernel", "grid", "block"):
        if name not in row:
            raise LaunchError(f"{name} is missing", where=where)
    if not isinstance(row["kernel"], str) or not row["kernel"].isprintable():
        raise LaunchError("kernel is not a printable text", where=where)
    grid, block = parse_extent(row["grid"], "grid", where), parse_extent(row["block"], "block", where)
    check_geometry(grid, block, where)
    counts = {name: _number(row[name], name, where) for name in (*_WORK, *_TRAFFIC) if name in row}
    return declared_profile(row["kernel"], grid, block, index, **counts)


def _number(value: object, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        text = str(value)[:40] if isinstance(value, float | str | bool) else "no such number"
        raise LaunchError(f"{name} is {text}", where=where, cure="Give a number from 0 to 1e24.")
    return float(value)
