"""The choice of the blocks with which one SM is simulated, and their part in the grid."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, UnsupportedError
from kerncast.gpu import GPU
from kerncast.models.sm.grid_memory import GridOnGPU
from kerncast.models.sm.results import SMLoad, load_of
from kerncast.occupancy import CacheGeometry, block_request_of, cache_geometry, occupancy
from kerncast.profiles import KernelProfile
from kerncast.ptx import Immediate, Instruction
from kerncast.ptx.tensor_layouts import COLUMNS
from kerncast.traces import (
    OBJECT_BITS,
    EventChange,
    EventChanges,
    Execution,
    SMTrace,
    event_changes,
    instructions_of_warps,
)

#: Whole waves of an SM's blocks that are simulated, where that many are affordable. More of blocks that do little: they
#: run in step at first, and by two waves copies were 6 % too long.
_WAVES, _MOST_WAVES = 2, 6
#: PTX instructions of warps beyond which no further waves are simulated, fewer are, and nothing is: some seconds.
_FEW_INSTRUCTIONS, _MOST_INSTRUCTIONS, _FAR_TOO_MANY_INSTRUCTIONS = 4e5, 2e6, 6e7
#: Least share of blocks that access memory; with fewer, the grid is larger than its data.
_BUSY = 0.75
#: Blocks that share work do as much as finds them: recorded alone, they do that of the others.
_MOST_OTHER_WORK = 2.0


@dataclass(frozen=True, slots=True)
class SMPlan:
    """The number of blocks that the busiest SM gets, and how many of them to record."""

    gpu: GPU
    geometry: CacheGeometry
    """caches of the GPU with as many blocks as an SM can hold"""
    grid_blocks: int
    instructions_per_block: float
    """PTX instructions of warps, mean over the grid"""
    resident: int
    """blocks that an SM can hold"""
    load: SMLoad

    def has_sm_for_each(self, blocks: int) -> bool:
        """Return whether each of so many blocks gets an SM of its own, so that idle ones disturb no others."""
        return blocks <= self.gpu.sm_count

    def with_blocks(self, blocks: int, instructions_per_block: float) -> "SMPlan":
        """Return the plan of a grid of so many blocks."""
        return replace(
            self,
            grid_blocks=blocks,
            instructions_per_block=instructions_per_block,
            load=_load(blocks, self.gpu.sm_count, self.resident, instructions_per_block),
        )


@dataclass(frozen=True, slots=True)
class SMBlocks:
    """The blocks that one SM is simulated with."""

    plan: SMPlan
    """plan for the grid without its idle blocks"""
    trace: SMTrace
    work: float
    """mean work of a block of the grid, relative to one of these blocks"""
    ranks: tuple[SMTrace, ...] = ()
    """blocks of the same clusters by rank, of which ``trace`` has the first; empty where they need no others"""

    @property
    def together(self) -> int:
        """Blocks of a cluster that have different roles; 1 where they have not."""
        return max(1, len(self.ranks))

    @property
    def resident(self) -> int:
        """Blocks that the SM holds at once; a small grid fills less of it than it can hold."""
        return min(self.plan.resident, self.plan.load.blocks)

    @property
    def grid(self) -> GridOnGPU:
        """The grid that these blocks stand for, on its GPU."""
        plan = self.plan
        return GridOnGPU(plan.gpu, plan.geometry, plan.load, self.resident, plan.grid_blocks)


def plan_of(profile: KernelProfile, gpu: GPU, code: Iterable[Instruction] = ()) -> SMPlan:
    """Return how many blocks an SM gets of a launch, and how many of them to record.

    ``code`` is the kernel's, which tells how much tensor memory a block takes; registers are those of the launch,
    whatever warps hand to one another later (``setmaxnreg``).
    """
    request = block_request_of(profile)
    assert request is not None
    resident = occupancy(request, gpu.architecture).blocks_per_sm
    resident = max(1, min(resident, COLUMNS // max(1, tensor_columns(code))))
    blocks = math.prod(profile.grid)
    instructions = profile.mix.warp_instructions.value / blocks if profile.mix else 1.0
    load = _load(blocks, gpu.sm_count, resident, instructions)
    geometry = cache_geometry(gpu, resident, request.shared_bytes)
    return SMPlan(gpu, geometry, blocks, instructions, resident, load)


def tensor_columns(code: Iterable[Instruction]) -> int:
    """Return the columns of tensor memory that a block takes, as far as the PTX names their number.

    A block that finds too few of them waits in its allocation until another one frees some: it is taken to begin then.
    """
    taken = (ins.operands[1] for ins in code if ins.opcode.name == "tcgen05.alloc")
    return min(COLUMNS, sum(count.value for count in taken if isinstance(count, Immediate)))


def blocks_to_simulate(plan: SMPlan, execution: Execution, trace: SMTrace, *others: SMTrace) -> SMBlocks:
    """Return the blocks to simulate of those that were recorded by a plan, and what they stand for.

    ``others`` are of the further ranks of the same clusters, where these have different roles. Where many blocks of the
    grid do little, the grid is taken to have so many fewer blocks, and idle ones.
    Raises BudgetExceededError for blocks that do too much, UnsupportedError for those that leave work to one another.
    """
    ranks = (trace, *others)
    lengths = np.array(execution.trace.cfg.lengths, np.int64)
    traced = (
        sum(float(instructions_of_warps(each, lengths).sum()) for each in ranks) / len(ranks) / len(trace.block_ids)
    )
    if traced * min(plan.resident, len(trace.block_ids)) > _FAR_TOO_MANY_INSTRUCTIONS:
        raise BudgetExceededError("one SM has too much work at once to be simulated")
    work = plan.instructions_per_block / traced if traced else 1.0
    busiest = execution.work_of_busiest / traced if traced and execution.takes_turns else work
    if execution.may_share_work and not any(1 / _MOST_OTHER_WORK <= w <= _MOST_OTHER_WORK for w in (work, busiest)):
        raise UnsupportedError("blocks share a work queue, so one SM cannot be simulated alone")
    busy = busy_share(execution, len(ranks))
    if busy >= _BUSY:
        return SMBlocks(plan, trace, work, ranks if others else ())
    without_idle = plan.with_blocks(max(1, round(plan.grid_blocks * busy)), traced)
    kept = tuple(each.head(without_idle.load.simulated) for each in ranks)
    return SMBlocks(without_idle, kept[0], 1.0, kept if others else ())


def busy_share(execution: Execution, together: int = 1) -> float:
    """Return the part of the blocks that are busy; 1 where none of the sample is."""
    accessed = busy_blocks(execution, together)
    return execution.mean(accessed.astype(np.float64)) if accessed.any() else 1.0


def busy_blocks(execution: Execution, together: int = 1) -> npt.NDArray[np.bool_]:
    """Return [n] which blocks of the sample access memory, or one of so many together does that have different roles.

    Such blocks lie one after the other in the sample; one that only tells others what it has done works with them.
    """
    counts = execution.trace.counts
    accessed = (counts.lines + counts.shared_requests + counts.local_lines).sum(axis=1) > 0
    return np.repeat(accessed.reshape(-1, together).any(axis=1), together)


def idle_work(plan: SMPlan, execution: Execution, together: int = 1) -> tuple[float, float]:
    """Return the instructions of idle blocks, relative to those of the others: on the busiest SM, and in the grid.

    A block beyond the end of its data may end at once, or compute all the same and only guard its accesses. Idle blocks
    are spread over all SMs, also where there are fewer of the others than SMs; where each block has an SM of its own,
    one of them counts against one of the others. ``plan`` is that of the grid without idle blocks.
    """
    idle_blocks = execution.grid_blocks - plan.grid_blocks
    if idle_blocks <= 0:
        return 0.0, 0.0
    of_grid = _work_of_idle(execution, together)
    if plan.has_sm_for_each(execution.grid_blocks):
        return of_grid * plan.grid_blocks / idle_blocks, of_grid
    return of_grid * plan.grid_blocks / (plan.load.blocks * plan.gpu.sm_count), of_grid


def _work_of_idle(execution: Execution, together: int) -> float:
    accessed = busy_blocks(execution, together)
    issued = execution.trace.issued
    of_others = execution.mean(issued * accessed)
    return execution.mean(issued * ~accessed) / of_others if of_others else 0.0


def _load(blocks: int, sms: int, resident: int, instructions: float) -> SMLoad:
    """Return the load of the busiest SM; of blocks that do much, fewer waves are simulated."""
    of_wave = max(1.0, instructions * resident)
    usual = max(1, min(_WAVES, int(_MOST_INSTRUCTIONS / of_wave)))
    waves = max(usual, min(_MOST_WAVES, int(_FEW_INSTRUCTIONS / of_wave)))
    return load_of(blocks, sms, resident, waves)


def have_roles(trace: SMTrace) -> bool:
    """Return whether blocks of a cluster have different roles: one does what another waits for.

    What the others of a cluster tell a block counts as told when it tells the same. That is enough where each mbarrier
    gets as many bytes as its block expects, and where no more phases end than are waited for, but for a last one that
    nobody needs. One that gets too much would end its phases too early, and no warp would hang.
    """
    found = event_changes(trace)
    number, place = found.numbers, found.warps // trace.warps << OBJECT_BITS | found.objects
    of_change = {kind: found.changes == kind for kind in EventChange}
    for one in np.unique(place[~of_change[EventChange.PRODUCT]]).tolist():
        here = place == one
        total = {kind: int(number[here & of].sum()) for kind, of in of_change.items()}
        awaited = np.unique(found.warps[here & of_change[EventChange.WAIT]], return_counts=True)[1].max(initial=0)
        begun = number[here & of_change[EventChange.BEGIN]]
        phases = total[EventChange.ARRIVE] // int(begun[-1]) if len(begun) and begun[-1] else 0
        if total[EventChange.EXPECT] != total[EventChange.COMPLETE] or (awaited and phases > awaited + 1):
            return True
        if len(begun) and begun[-1] == 1 and _has_uneven_phases(found, here):
            return True
    return False


def _has_uneven_phases(found: EventChanges, here: npt.NDArray[np.bool_]) -> bool:
    """Return whether some phase of an mbarrier with one arrival a phase gets other bytes than it expects.

    What others tell is taken to be in proportion to what the block copies: it is not where the mbarrier serves copies
    for all of a cluster first, and then those of its block alone. Only where one warp asks is the order known.
    """
    told = here & ((found.changes == EventChange.EXPECT) | (found.changes == EventChange.ARRIVE))
    came = here & (found.changes == EventChange.COMPLETE)
    if not came.any() or any(len(np.unique(found.warps[each])) != 1 for each in (told, came)):
        return False
    arrives = found.changes[told] == EventChange.ARRIVE
    expected = np.where(arrives, 0, found.numbers[told]).cumsum()[arrives]
    return not bool(np.isin(expected, found.numbers[came].cumsum()).all())
