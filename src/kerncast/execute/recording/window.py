"""Which neighbouring blocks are recorded for the caches, and the recording.

The counts come from blocks spread over the grid; caches need neighbours. Recorded are whole waves, the blocks that all
SMs hold at once, from the middle of the grid: as many as a part of the budget pays for, the whole grid where it does.
Where not even one wave is affordable, fewer SMs are simulated.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError
from kerncast.execute.native.recorder import Plan, Recorder
from kerncast.execute.sampling.executed import Executed
from kerncast.execute.setup.state import Progress
from kerncast.traces import Recording

#: Of the budget of time, at its cautious rate and beside the spread sample: so much that two waves are the rule.
_SHARE = 1.5
#: 128 MiB of events.
_MOST_EVENTS = 2**24
#: A segment takes as much memory as so many events, and each warp has at least one.
_EVENTS_PER_SEGMENT = 4
#: Blocks of one SM, in times of what it holds at once.
_CHAIN_WAVES = 3
Blocks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring blocks and what they accessed."""

    recording: Recording
    wave_blocks: int
    """blocks of the first wave, or what was recorded of it"""
    wave_sectors: int
    """distinct sectors that the first wave touched"""
    is_whole_grid: bool

    @property
    def waves(self) -> float:
        """How many waves were recorded."""
        return len(self.recording.block_ids) / self.wave_blocks if self.wave_blocks else 0.0


def record_window(executed: Executed, wave: int, progress: Progress | None = None) -> Window:
    """Record the neighbouring blocks that the budget pays for; ``wave`` is how many blocks all SMs hold at once.

    Raises what running blocks raises.
    """
    blocks = _window(executed, wave)
    setting = executed.fresh()
    recorder = Recorder(setting, _plan(executed))
    first = min(wave, len(blocks))
    report = (lambda finished: progress(finished, len(blocks))) if progress else None
    complete = recorder.run(blocks[:first], report)
    touched = setting.touched.footprint(first)
    complete = complete and recorder.run(blocks[first:], report)
    recording = recorded_by(recorder, executed)
    recorded = len(recording.block_ids)
    if recorded > wave and recorded < len(blocks):
        recording = recording.head(recorded - recorded % wave)
    whole = complete and len(blocks) == executed.sampler.blocks
    return Window(recording, min(first, recorded), int(touched.either.sum()), whole)


def record_chain(executed: Executed, sms: int, resident: int) -> Recording:
    """Record blocks that one SM gets, one after the other, from the middle of the grid."""
    grid = executed.sampler.blocks
    count = max(1, min(_CHAIN_WAVES * resident, grid // sms))
    recorder = Recorder(executed.fresh(), _plan(executed))
    recorder.run(chain_of(grid, sms, count, (grid - sms + 1) / 2))  # what the first SM of a round gets
    return recorded_by(recorder, executed)


def chain_of(grid: int, sms: int, count: int, middle: float) -> Blocks:
    """Return so many blocks that one SM gets one after the other, as near to having this middle as the grid allows."""
    span = (count - 1) * sms + 1
    start = min(max(0, math.floor(middle - span / 2)), grid - span)
    return start + sms * np.arange(count, dtype=np.int64)


def recorded_by(recorder: Recorder, executed: Executed) -> Recording:
    """Return what was recorded, without local memory where the machine code keeps it in registers."""
    found = recorder.recording()
    if not len(found.block_ids):
        raise BudgetExceededError("what one block accesses is more than can be recorded", cure="Use a smaller problem.")
    is_complete = executed.kernel.resources.has_frame or not found.local_lines
    return found if is_complete else found.without_local()


def _plan(executed: Executed) -> Plan:
    return Plan(_MOST_EVENTS, float(lines_of(executed).max()), executed.is_independent)


def lines_of(executed: Executed) -> npt.NDArray[np.float64]:
    """Return [n] the events of each block of the sample: one per line of a request."""
    counts = executed.trace.counts
    return np.asarray((counts.lines + counts.local_lines).sum(axis=1), np.float64)


def _window(executed: Executed, wave: int) -> Blocks:
    grid, row = executed.sampler.blocks, executed.sampler.grid[0]
    budget, seconds = executed.setting.budget, executed.nominal_seconds / grid
    lines, warps = lines_of(executed), executed.setting.launch.warps_per_block
    events = max(_EVENTS_PER_SEGMENT * warps, executed.sampler.scale(lines).value / grid)
    affordable = int(min(grid, _SHARE * budget.sample_seconds / seconds, _MOST_EVENTS / events))
    count = affordable - affordable % wave if grid > affordable > wave else max(1, affordable)
    start = min(max(0, middle_of(executed) - count // 2), grid - count)
    start -= start % row if count + row <= grid else 0
    return np.arange(start, start + count, dtype=np.int64)


def middle_of(executed: Executed) -> int:
    """Return the block before which half of the sample's accesses lie: some grids are larger than their data."""
    lines = lines_of(executed)
    order = np.argsort(executed.trace.block_ids)
    before = np.cumsum(lines[order])
    return int(executed.trace.block_ids[order][np.searchsorted(before, before[-1] / 2)])
