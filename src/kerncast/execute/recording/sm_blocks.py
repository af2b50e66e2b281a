"""Records what one SM executes: some of the blocks that it gets, warp by warp and in detail."""

import numpy as np

from kerncast.errors import UnsupportedError
from kerncast.execute.native.recorder import Plan, Recorder
from kerncast.execute.recording.window import Blocks, chain_of, lines_of, middle_of, recorded_by
from kerncast.execute.sampling.executed import Executed
from kerncast.traces import MOST_INSTRUCTIONS, Recording, SMTrace

#: Of the blocks that were sampled, so many stand for the middle of the grid.
_NEIGHBOURS = 8
#: Where they access less than this part of the mean, the middle of the grid is not where the work is.
_IDLE = 0.5


def record_sm(executed: Executed, sms: int, blocks: int, most_events: int) -> SMTrace:
    """Record some of the blocks that one of so many SMs gets, fewer where they make more than ``most_events``.

    Raises UnsupportedError for a kernel too long to be traced, BudgetExceededError where one block makes more than
    ``most_events``, native.TooLargeError for a kernel that only the interpreter runs, and what running blocks raises.
    """
    grid = executed.sampler.blocks
    count = max(1, min(blocks, -(-grid // sms)))
    return record_blocks(executed, chain_of(grid, sms, count, _middle(executed)), most_events)


def record_blocks(executed: Executed, blocks: Blocks, most_events: int) -> SMTrace:
    """Record these blocks in their order; raises as ``record_sm``."""
    _check_length(executed)
    plan = Plan(most_events, _most_events_of_a_block(executed), executed.is_independent, in_detail=True)
    recorder = Recorder(executed.fresh(), plan)
    recorder.run(blocks)
    return _within(trace_of(recorded_by(recorder, executed)), most_events)


def trace_of(recording: Recording) -> SMTrace:
    """Put the events of each warp, which lie in segments among those of others, one after the other."""
    segments, warps = recording.segments, recording.warps
    owners = segments["row"].astype(np.int64) * warps + segments["warp"]
    order = np.argsort(owners, kind="stable")
    starts = segments["start"][order]
    lengths = segments["stop"][order] - starts
    stops = np.cumsum(lengths)
    first = np.searchsorted(owners[order], np.arange(len(recording.block_ids) * warps + 1))
    places = np.arange(int(lengths.sum())) + np.repeat(starts - (stops - lengths), lengths)
    chains = np.append(0, stops)[first].astype(np.int64)
    return SMTrace(recording.block_ids, warps, recording.local_lines, recording.events[places], chains)


def _within(trace: SMTrace, most_events: int) -> SMTrace:
    """Return the first blocks, at least one, that have no more events than this."""
    ends = trace.chains[trace.warps :: trace.warps]
    count = max(1, int(np.searchsorted(ends, most_events, side="right")))
    if count == len(trace.block_ids):
        return trace
    events = trace.events[: ends[count - 1]]
    return SMTrace(
        trace.block_ids[:count], trace.warps, trace.local_lines, events, trace.chains[: count * trace.warps + 1]
    )


def _check_length(executed: Executed) -> None:
    trace = executed.trace
    longest = max(len(trace.function.instructions), len(trace.cfg.blocks))
    if longest > MOST_INSTRUCTIONS:
        raise UnsupportedError(
            f"the kernel has {longest} PTX instructions, over the {MOST_INSTRUCTIONS} of one that can be simulated"
        )


def _most_events_of_a_block(executed: Executed) -> float:
    """Return the events of the busiest block of the sample."""
    counts, code = executed.trace.counts, executed.trace.function.instructions
    events = counts.block_warps.sum(axis=1) + (counts.lines + counts.local_lines + counts.shared_requests).sum(axis=1)
    updates = [code[number].is_update for number in counts.accessing]
    return float((events + counts.requests[:, updates].sum(axis=1)).max())


def _middle(executed: Executed) -> float:
    """Return the block around which others are to lie: the middle of the grid, or of what its blocks access.

    Blocks in the middle of the grid do the mean of work that grows steadily from block to block. They do nothing where
    the grid is larger than the data.
    """
    lines, middle = lines_of(executed), executed.sampler.blocks / 2
    near = np.argsort(np.abs(executed.trace.block_ids - middle), kind="stable")[:_NEIGHBOURS]
    mean = executed.sampler.scale(lines).value / executed.sampler.blocks
    return middle if lines[near].mean() >= _IDLE * mean else float(middle_of(executed))
