"""Runs neighbouring blocks, more and more of them, and counts the distinct sectors that they have touched.

The sample of blocks is spread over the grid, so that it does not tell what neighbours share. These blocks run without
being recorded, in the order of their numbers from the middle of the grid on; how many depends on the budget, by what
they are reckoned to cost and not by the clock: a slow machine or a busy one counts the same.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kerncast.execute.counting.traffic import touched
from kerncast.execute.native import NativeEngine
from kerncast.execute.recording.window import Blocks, middle_of
from kerncast.execute.sampling.budget import nominal_seconds
from kerncast.execute.sampling.executed import Executed
from kerncast.execute.setup.state import Progress, Setting
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import Footprint, FootprintCurve, Touches

_GROWTH = 1.5
#: Blocks run at a time, so that their counters, which nobody reads, take little memory.
_MOST_AT_ONCE = 2**14


def footprint_curve(executed: Executed, most_seconds: float, progress: Progress | None = None) -> FootprintCurve:
    """Count the sectors that 1, 2, 3, 5, … neighbouring blocks touch, as far as so many nominal seconds pay for them.

    Blocks that cost more than the mean of the sample end it sooner. Raises what running blocks raises, which ends by
    the clock what takes far longer than reckoned, and native.TooLargeError for a kernel that only the interpreter runs.
    """
    most = _affordable(executed, most_seconds)
    spent = 0.0
    setting, found, rows = executed.fresh(), list[Footprint](), list[tuple[float, float]]()
    engine = NativeEngine(setting)
    before = start = _start(executed, most)
    stop = start
    for count in _counts(most):
        first = max(0, min(start, executed.sampler.blocks - count))
        new = np.concatenate([np.arange(first, before), np.arange(stop, first + count)])
        before, stop = first, first + count
        spent += _run(engine, new, executed.trace.cfg.lengths)
        found.append(setting.touched.footprint(count))
        rows.append(setting.touched.rows())
        if progress:
            progress(count, most)
        if spent > most_seconds:
            break
    return replace(_curve(executed, setting, found), rows=np.array(rows))


def _curve(executed: Executed, setting: Setting, found: list[Footprint]) -> FootprintCurve:
    grid = executed.sampler.blocks
    total = (touched(executed.trace, kind, grid).value / SECTOR_BYTES for kind in ("read", "written", "either"))
    return FootprintCurve(
        blocks=np.array([each.blocks for each in found], np.int64),
        read=np.array([each.read for each in found]),
        written=np.array([each.written for each in found]),
        either=np.array([each.either for each in found]),
        allocation_sectors=np.array([-(-a.nbytes // SECTOR_BYTES) for a in setting.arena.allocations], np.int64),
        grid_blocks=grid,
        total=Touches(*total),
    )


def _run(engine: NativeEngine, blocks: Blocks, lengths: tuple[int, ...]) -> float:
    """Run blocks; returns the nominal seconds that they cost."""
    spent = 0.0
    for start in range(0, len(blocks), _MOST_AT_ONCE):
        engine.run_parts(blocks[start : start + _MOST_AT_ONCE])
        spent += float(nominal_seconds(engine.counts(), lengths).sum())
        engine.launch_run.forget()
    return spent


def _affordable(executed: Executed, most_seconds: float) -> int:
    """Return how many blocks so much nominal time pays for."""
    seconds, grid = executed.nominal_seconds, executed.sampler.blocks
    return grid if seconds <= most_seconds else max(1, int(grid * most_seconds / seconds))


def _start(executed: Executed, most: int) -> int:
    """Return the block with which to begin: of a row of blocks in the middle, the first."""
    grid, row = executed.sampler.blocks, executed.sampler.grid[0]
    if most == grid and not executed.is_independent:
        return 0  # each finds what those before it have written
    middle = middle_of(executed)
    return middle - middle % row if row < grid else middle


def _counts(most: int) -> Iterator[int]:
    """Give numbers of blocks, growing to the last."""
    count = 1
    while count < most:
        yield count
        count = max(count + 1, round(_GROWTH * count))
    yield most
