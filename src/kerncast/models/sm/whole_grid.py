"""From the simulated blocks to the cycles of a grid, whose blocks may differ."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.architecture import WARP_SIZE
from kerncast.execute.executed import Executed
from kerncast.models.sm.composition import SMLoad, cycles_of, slope
from kerncast.models.sm.micro_ops import Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Simulated
from kerncast.models.sm.uneven import Slots, Uneven, are_alike, cycles_of_uneven, uneven, work_of_grid, work_of_trace
from kerncast.sm_trace import MOST_EVENTS, SMTrace

#: Of what a block lasts, the most that its launch can be.
_MOST_LAUNCHING = 0.5
#: A block that lasts so many times what the longest simulated one does is simulated by itself.
_LONG = 2.0


@dataclass(frozen=True, slots=True)
class SimulatedBlocks:
    """Some blocks of an SM with what it did with them."""

    program: Program
    sm: SM
    sms: int
    """of the GPU"""
    trace: SMTrace
    simulated: Simulated
    resident: int
    load: SMLoad
    grid_blocks: int
    """without idle ones"""


def cycles_of_grid(
    executed: Executed, run: SimulatedBlocks, kept: npt.NDArray[np.bool_] | None, floor: float, work: float
) -> float:
    """Return the cycles of all blocks; ``kept`` tells which of the sample are not idle, None: all.

    ``floor`` and ``work`` are those of ``cycles_of``, which serves where blocks are alike or leave work to one another.
    """
    even = cycles_of(run.simulated, run.load, run.resident, floor, work)
    if not executed.is_independent:
        return even
    everything = np.ones(len(executed.trace.block_ids), np.bool_)
    grid, longest = work_of_grid(executed, everything if kept is None else kept)
    simulated = work_of_trace(run.trace, np.array(executed.trace.cfg.lengths, np.int64))
    if are_alike(grid, simulated):
        return even
    steady, done = slope(run.simulated, run.resident), len(run.simulated.finish_cycles)
    launch = run.sm.block_launch_cycles if done > run.resident else 0.0
    launching = min(_MOST_LAUNCHING, launch / max(1.0, steady * run.resident))
    blocks = uneven(grid, simulated, run.grid_blocks, launching)
    finish, one_sm = float(run.simulated.finish_cycles[-1]), Slots(1, run.resident, 1.0)
    as_even = finish / one_sm.scheduled(blocks.simulated) * one_sm.even(done) / done
    # What is left when one long block lasts is no measure of the others; bandwidth waits for no SM and is a roof.
    per_block = min(steady / blocks.mean_simulated_work, as_even)
    full = min(per_block * run.resident, finish / float(blocks.simulated.max()))
    is_short = grid.warps[grid.longest.argmax()] <= MOST_EVENTS / WARP_SIZE  # a line per lane
    alone, lasting = _alone(executed, run, blocks, longest if is_short else None)
    slots = Slots(run.sms, run.resident, min(1.0, alone / max(1.0, full * lasting - launch)))
    return cycles_of_uneven(run.simulated, run.load, slots, blocks, per_block)


def _alone(executed: Executed, run: SimulatedBlocks, blocks: Uneven, longest: int | None) -> tuple[float, float]:
    """Return how long a long block takes that has the SM for itself, and how much longer than others it lasts.

    It is the ``longest`` of the grid, or of those simulated where that is too long or none.
    """
    from kerncast.execute.sm_blocks import record_blocks  # noqa: PLC0415  LLVM takes time to load
    from kerncast.models.sm.simulate import simulate  # noqa: PLC0415  numba takes time to load

    row = int(blocks.simulated.argmax())
    trace, lasting = run.trace.only(row), float(blocks.simulated[row])
    if longest is not None and blocks.grid.max() > _LONG * lasting:
        trace = record_blocks(executed, np.array([longest], np.int64), MOST_EVENTS)
        lasting = float(blocks.grid.max())
    return float(simulate(run.program, trace, run.sm, 1).finish_cycles[0]), lasting


def busy_share(executed: Executed) -> float:
    """Return the part of the blocks that access memory; 1 where none of the sample does."""
    accessed = busy_blocks(executed)
    if not accessed.any():
        return 1.0
    return executed.sampler.scale(accessed.astype(np.float64)).value / executed.sampler.blocks


def busy_blocks(executed: Executed) -> npt.NDArray[np.bool_]:
    """Return [n] which blocks of the sample access memory."""
    counts = executed.trace.counts
    return np.asarray((counts.lines + counts.shared_requests + counts.local_lines).sum(axis=1) > 0)
