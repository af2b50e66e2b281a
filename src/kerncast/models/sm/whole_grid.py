"""The cycles of a whole grid, whose blocks may differ, from those of the simulated blocks."""

from dataclasses import dataclass, replace
from heapq import heapreplace

import numpy as np
import numpy.typing as npt

from kerncast.gpu import WARP_SIZE
from kerncast.models.sm.micro_ops import Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Simulated, SMLoad, cycles_of, slope
from kerncast.traces import MOST_EVENTS, Execution, SMTrace, instructions_of_warps

# Blocks that differ: what a grid takes over one whose blocks all do the mean of their work.
#
# Each block starts where another one ends. While an SM's slots are full, a block lasts as long as its longest warp;
# when no blocks are left, those that still run have the SM for themselves. Source: Graham, "Bounds on multiprocessing
# timing anomalies", SIAM J. Appl. Math. 17, 1969 (list scheduling). Fails when: long blocks wait for other things
# than short ones (their cost is taken to be that of their instructions), few blocks of a large grid are long and the
# sample holds none of them, or blocks leave work to one another.

Floats = npt.NDArray[np.float64]
#: Blocks that are scheduled at most: larger grids are thinned out evenly, and run on as many fewer SMs.
_MOST_BLOCKS = 2**17
#: Relative difference below which blocks count as alike: in most grids those at the edges differ a little.
_ALIKE = 0.01


@dataclass(frozen=True, slots=True)
class BlockWork:
    """Work of some blocks in PTX instructions, in the order of their start."""

    warps: Floats
    """[block] instructions of all its warps together"""
    longest: Floats
    """[block] instructions of its longest warp"""


@dataclass(frozen=True, slots=True)
class Uneven:
    """Durations of blocks on full SMs, relative to a block that does the mean of the grid's work."""

    grid: Floats
    """[block] durations of the grid's blocks, or of a sample spread over it"""
    simulated: Floats
    """[block] durations of the simulated blocks"""
    grid_blocks: int
    """blocks of the grid, idle ones left out"""
    mean_simulated_work: float
    """mean work of a simulated block relative to that of the grid; launching a block counts as work"""


@dataclass(frozen=True, slots=True)
class Slots:
    """Places in which blocks run."""

    sms: int
    """SMs of the GPU"""
    resident: int
    """blocks per SM"""
    alone: float
    """duration of a block alone on its SM, relative to its duration on a full SM (<= 1)"""

    def stretch(self, blocks: Uneven) -> float:
        """Return how much longer the grid's blocks take than as many even ones.

        A sample of a larger grid is scheduled on as many fewer SMs.
        """
        count = len(blocks.grid)
        slots = replace(self, sms=max(1, round(self.sms * count / blocks.grid_blocks)))
        return slots.scheduled(blocks.grid) / slots.even(count)

    def scheduled(self, lasting: Floats) -> float:
        """Return when the last block ends, each of which starts in the slot that is free first.

        SMs get the first blocks in turn; one that gets long ones has that much to do, however fast one alone would be.

        >>> Slots(1, 2, 1.0).scheduled(np.array([1.0, 1.0, 1.0, 4.0]))
        5.0
        >>> Slots(1, 2, 0.5).scheduled(np.array([1.0, 1.0, 1.0, 4.0]))
        3.5
        """
        slots = self.sms * self.resident
        ends = [0.0] * slots
        for each in lasting.tolist():
            heapreplace(ends, ends[0] + each)
        first, last = ends[0], max(ends)
        given = max(float(lasting[sm : slots : self.sms].sum()) for sm in range(self.sms)) / self.resident
        return max(float(lasting.sum()) / slots, given, first + (last - first) * self.alone)

    def even(self, blocks: int) -> float:
        """Return what ``scheduled`` gives for so many blocks that last 1 each.

        >>> Slots(1, 2, 0.75).even(7), Slots(1, 2, 0.75).scheduled(np.ones(7))
        (3.75, 3.75)
        """
        slots = self.sms * self.resident
        waves, rest = divmod(blocks, slots)
        given = -(-min(blocks, slots) // self.sms) / self.resident
        return max(blocks / slots, given, waves + self.alone if rest else float(waves))


def work_of_grid(execution: Execution, kept: npt.NDArray[np.bool_], together: int = 1) -> tuple[BlockWork, int]:
    """Return the work of a grid's blocks, and the number of the block that takes longest.

    Each block of the sample stands for some; left out are those that are not kept. Of so many together, one after the
    other in the sample, each counts as their mean.
    """
    trace = execution.trace
    order = np.argsort(trace.block_ids, kind="stable")
    stops = np.cumsum((execution.weights * kept)[order])
    count = max(1, min(_MOST_BLOCKS, round(float(stops[-1]))))
    places = np.searchsorted(stops, (np.arange(count) + 0.5) * stops[-1] / count)
    chosen = order[np.minimum(places, len(order) - 1)]
    works = (trace.issued, trace.counts.longest_warp)
    warps, longest = (np.repeat(each.reshape(-1, together).mean(axis=1), together)[chosen] for each in works)
    number = int(trace.block_ids[chosen[longest.argmax()]])
    return BlockWork(warps, longest), number


def work_of_trace(trace: SMTrace, lengths: npt.NDArray[np.int64]) -> BlockWork:
    """Return the work of the blocks that were recorded; ``lengths`` are those of the basic blocks."""
    per_warp = instructions_of_warps(trace, lengths).astype(np.float64)
    return BlockWork(per_warp.sum(axis=1), per_warp.max(axis=1))


def are_alike(*works: BlockWork) -> bool:
    """Tell whether all blocks do about the same."""
    both = (np.concatenate([work.warps for work in works]), np.concatenate([work.longest for work in works]))
    return all(float(np.ptp(each)) <= _ALIKE * float(each.mean()) for each in both)


def uneven(grid: BlockWork, simulated: BlockWork, grid_blocks: int, launch_share: float) -> Uneven:
    """Return how blocks differ; launching takes this part of what a simulated one lasts where all slots are full.

    A block lasts as long as its longest warp, and costs what its warps do together.
    """
    launch = launch_share / (1 - launch_share)
    costs = grid.warps + launch * simulated.warps.mean()
    lengths = grid.longest + launch * simulated.longest.mean()
    mean = float(costs.mean())
    per_length = float(np.median(costs / lengths)) / mean
    return Uneven(
        grid=lengths * per_length,
        simulated=(simulated.longest + launch * simulated.longest.mean()) * per_length,
        grid_blocks=grid_blocks,
        mean_simulated_work=float(simulated.warps.mean()) * (1 + launch) / mean,
    )


def cycles_of_uneven(
    simulated: Simulated, load: SMLoad, slots: Slots, blocks: Uneven, cycles_per_even_block: float
) -> float:
    """Return the cycles of all blocks: those of even ones, by as much as scheduling these takes longer.

    T = (t(simulated) / scheduled(simulated) x even(as many) + (blocks - simulated) x cycles per block)
    x scheduled(grid) / even(grid).
    """
    done, one_sm = len(simulated.finish_cycles), replace(slots, sms=1)
    finish = float(simulated.finish_cycles[-1]) / one_sm.scheduled(blocks.simulated) * one_sm.even(done)
    left = max(0, load.blocks - done)
    return (finish + left * cycles_per_even_block) * slots.stretch(blocks)


#: Largest part of a block's duration that its launch is taken to be.
_MOST_LAUNCHING = 0.5
#: Duration relative to the longest simulated block from which a block of the grid is simulated by itself.
_LONG = 2.0


@dataclass(frozen=True, slots=True)
class SimulatedBlocks:
    """Some blocks of an SM and the result of their simulation."""

    program: Program
    sm: SM
    sms: int
    """SMs of the GPU"""
    trace: SMTrace
    """the simulated blocks"""
    simulated: Simulated
    resident: int
    """blocks that an SM holds at once"""
    load: SMLoad
    """blocks of the busiest SM"""
    grid_blocks: int
    """blocks of the grid, idle ones left out"""
    ranks: tuple[SMTrace, ...] = ()
    """blocks of the same clusters by rank, where these have different roles"""


def cycles_of_grid(
    execution: Execution, run: SimulatedBlocks, kept: npt.NDArray[np.bool_] | None, floor: float, work: float
) -> float:
    """Return the cycles of all blocks; ``kept`` tells which of the sample are not idle, None: all.

    ``floor`` and ``work`` are those of ``cycles_of``, which serves where blocks are alike or leave work to one another.
    """
    even = cycles_of(run.simulated, run.load, run.resident, floor, work)
    found = _works(execution, kept, *(run.ranks or (run.trace,)))
    if found is None:
        return even
    grid, simulated, _ = found
    steady, done = slope(run.simulated, run.resident), len(run.simulated.finish_cycles)
    launch = run.sm.block_launch_cycles if done > run.resident else 0.0
    launching = min(_MOST_LAUNCHING, launch / max(1.0, steady * run.resident))
    blocks = uneven(grid, simulated, run.grid_blocks, launching)
    finish, one_sm = float(run.simulated.finish_cycles[-1]), Slots(1, run.resident, 1.0)
    as_even = finish / one_sm.scheduled(blocks.simulated) * one_sm.even(done) / done
    # What is left when one long block lasts is no measure of the others; bandwidth waits for no SM and is a roof.
    per_block = min(steady / blocks.mean_simulated_work, as_even)
    full = min(per_block * run.resident, finish / float(blocks.simulated.max()))
    alone, lasting = _alone(execution, run, blocks)
    slots = Slots(run.sms, run.resident, min(1.0, alone / max(1.0, full * lasting - launch)))
    return cycles_of_uneven(run.simulated, run.load, slots, blocks, per_block)


def block_far_longer(execution: Execution, trace: SMTrace, kept: npt.NDArray[np.bool_] | None) -> int | None:
    """Return the number of the grid's longest block, where those that were recorded are much shorter; else None.

    None, too, where it is too long to be recorded.
    """
    found = _works(execution, kept, trace)
    if found is None:
        return None
    grid, simulated, longest = found
    # At worst each lane touches a line of its own: so many events a longer block could not be recorded within.
    is_short = grid.warps[grid.longest.argmax()] <= MOST_EVENTS / WARP_SIZE
    return longest if is_short and grid.longest.max() > _LONG * simulated.longest.max() else None


def _works(
    execution: Execution, kept: npt.NDArray[np.bool_] | None, *ranks: SMTrace
) -> tuple[BlockWork, BlockWork, int] | None:
    """Return the work of the grid's blocks and of those recorded, and the grid's longest block.

    Of clusters whose ranks have different roles each block counts as the mean of its cluster. None where all of them do
    about the same, or leave work to one another.
    """
    if execution.may_share_work:
        return None
    everything = np.ones(len(execution.trace.block_ids), np.bool_)
    grid, longest = work_of_grid(execution, everything if kept is None else kept, len(ranks))
    lengths = np.array(execution.trace.cfg.lengths, np.int64)
    works = [work_of_trace(trace, lengths) for trace in ranks]
    simulated = BlockWork(*(np.mean(each, axis=0) for each in zip(*((w.warps, w.longest) for w in works), strict=True)))
    return None if are_alike(grid, simulated) else (grid, simulated, longest)


def _alone(execution: Execution, run: SimulatedBlocks, blocks: Uneven) -> tuple[float, float]:
    """Return how long a long block takes that has the SM for itself, and how much longer than others it lasts.

    It is the longest of the grid, or of those simulated where that is too long or lasts about as long.
    """
    from kerncast.models.sm.simulate import simulate, simulate_together  # noqa: PLC0415  numba takes time to load

    row = int(blocks.simulated.argmax())
    if run.ranks:
        alone = simulate_together(run.program, [each.only(row) for each in run.ranks], [run.sm] * len(run.ranks), 1)
        return max(float(each.finish_cycles[0]) for each in alone), float(blocks.simulated[row])
    trace, lasting = run.trace.only(row), float(blocks.simulated[row])
    longest = execution.sm.longest if execution.sm else None
    if longest is not None and blocks.grid.max() > _LONG * lasting:
        trace, lasting = longest, float(blocks.grid.max())
    return float(simulate(run.program, trace, run.sm, 1).finish_cycles[0]), lasting
