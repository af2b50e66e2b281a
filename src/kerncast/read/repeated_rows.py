"""Profiles of launches that differ in little but their time: a tuner's file or a trace has tens of thousands."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace

from kerncast.gpu import GPU
from kerncast.kernel_profile import KernelProfile
from kerncast.launch import check_geometry
from kerncast.read.ncu_profile import profiles_of
from kerncast.read.ncu_row import NcuRow
from kerncast.read.selection import Selection
from kerncast.units import NANOSECOND

DURATION = "gpu__time_duration.sum"
#: Where one of these is known, more of the profile than its time follows from the time.
_WITH_TIME = re.compile(r"cycles|per_second|throughput|sustained_elapsed")


def profiles_of_rows(
    rows: Sequence[NcuRow], source_gpu: GPU | None, where: str, selection: Selection | None = None
) -> tuple[KernelProfile, ...]:
    """Return the profile of each launch that is selected, as ``profiles_of`` does, reading equal counters once."""
    selection = selection or Selection()
    kernels = [row.kernel for row in rows]
    chosen = selection.chosen(kernels)
    selection.check(chosen, kernels, where)
    models: dict[Hashable, int] = {}
    read: list[NcuRow] = []
    for index in chosen:
        if models.setdefault(_alike(rows[index], index), len(read)) == len(read):
            read.append(rows[index])
    profiles = profiles_of(read, source_gpu, where)
    return tuple(
        _adapted(profiles[models[_alike(rows[index], index)]], rows[index], index, f"{where}, launch {index}")
        for index in chosen
    )


def _alike(row: NcuRow, index: int) -> Hashable:
    """Return what rows have in common whose profiles differ in name, sizes and time only."""
    rest = tuple(metric for metric in row.metrics if metric.name != DURATION)
    if row.grid is None or row.block is None or len(rest) == len(row.metrics) or not row.value(DURATION):
        return index
    if any(_WITH_TIME.search(metric.name) for metric in rest):
        return index
    return (row.device, row.compute_capability, rest)


def _adapted(profile: KernelProfile, row: NcuRow, index: int, where: str) -> KernelProfile:
    grid, block = row.grid or profile.grid, row.block or profile.block
    check_geometry(grid, block, where)
    nanoseconds = row.value(DURATION)
    run = profile.run
    if run is not None and nanoseconds:
        run = replace(run, seconds=nanoseconds * NANOSECOND)
    return replace(profile, kernel=row.kernel, index=index, grid=grid, block=block, run=run)
