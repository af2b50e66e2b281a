"""What a whole grid asks of L2 and DRAM, and the share of one SM in it."""

from dataclasses import dataclass, replace
from functools import partial

from kerncast.cache_geometry import CacheGeometry, l1_operations
from kerncast.errors import BudgetExceededError, KernelFault, UnsupportedError
from kerncast.execute.executed import Executed
from kerncast.gpu import GPU
from kerncast.models.sm.composition import SMLoad
from kerncast.models.sm.dram_rows import row_slowdown
from kerncast.models.sm.dram_traffic import DramSectors, dram_sectors_per_block, local_share
from kerncast.models.sm.hot_line import HotLine, hot_line
from kerncast.models.sm.l2_reuse import times_read
from kerncast.models.sm.parameters import MemoryShares, atomic_lines
from kerncast.models.sm.results import Simulated
from kerncast.sm_trace import MOST_EVENTS, SMTrace

#: Blocks side by side that tell what all blocks of a grid read.
_SOME_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class GridOnGPU:
    """A grid's blocks, without idle ones, on a GPU."""

    gpu: GPU
    geometry: CacheGeometry
    load: SMLoad
    resident: int
    blocks: int


@dataclass(frozen=True, slots=True)
class GridMemory:
    """What the blocks of a grid ask of memory, each on average."""

    once: DramSectors
    """of DRAM, were nothing lost from L2 that a wave reads again"""
    with_reuse: DramSectors
    """of DRAM, with what a wave reads again"""
    shares: MemoryShares
    """of one SM, before anything is simulated"""

    def after(self, simulated: Simulated) -> MemoryShares:
        """Return the shares of DRAM in what L2 was asked for while some blocks were simulated."""
        blocks = len(simulated.finish_cycles)
        return replace(
            self.shares,
            dram_read=_part(self.with_reuse.read * blocks, simulated.l2_read_sectors - simulated.local_read_sectors),
            dram_write=_part(
                self.with_reuse.written * blocks, simulated.l2_write_sectors - simulated.local_write_sectors
            ),
        )

    def dram_sectors(self, simulated: Simulated) -> DramSectors:
        """Return what a block causes DRAM to do: what comes again is read again where L1 has not caught it."""
        blocks = len(simulated.finish_cycles)
        asked = (simulated.l2_read_sectors - simulated.local_read_sectors) / blocks
        of_frames = self.shares.dram_local / blocks
        return DramSectors(
            min(self.with_reuse.read, max(self.once.read, asked)) + of_frames * simulated.local_read_sectors,
            self.with_reuse.written + of_frames * simulated.local_write_sectors,
        )


def grid_memory(executed: Executed, trace: SMTrace, grid: GridOnGPU, *, is_warm: bool) -> GridMemory:
    """Return what a grid asks of memory, by its footprint and by the blocks recorded for one SM."""
    curve, side_by_side = executed.footprint, min(grid.blocks, grid.gpu.sm_count * grid.resident)
    once = dram_sectors_per_block(curve, grid.geometry, grid.blocks, is_warm=is_warm)
    times = times_read(trace, grid.resident, grid.geometry, curve.sectors(side_by_side, "either"))
    shares = MemoryShares(
        active_sms=grid.load.active_sms,
        dram_read=1.0,
        dram_write=1.0,
        dram_local=local_share(
            trace.head(grid.resident), grid.geometry, grid.resident * trace.warps * grid.load.active_sms
        ),
        atomic_lines=atomic_lines(trace, grid.blocks),
        hot_line=_hot_line(executed, trace, grid),
        rows=row_slowdown(curve, grid.gpu, side_by_side),
    )
    return GridMemory(once, replace(once, read=once.read * times), shares)


def _hot_line(executed: Executed, trace: SMTrace, grid: GridOnGPU) -> HotLine | None:
    """Return the line whose slice of L2 is busier than the others; None where there is none or no fact about it."""
    from kerncast.execute.sm_blocks import record_sm  # noqa: PLC0415  LLVM takes time to load

    slices = grid.gpu.l2_slices
    if grid.blocks < _SOME_BLOCKS or slices is None or not grid.gpu.architecture.l2_bytes_per_clock_per_slice:
        return None
    try:
        neighbours = partial(record_sm, executed, 1, _SOME_BLOCKS, MOST_EVENTS)
        return hot_line(trace, l1_operations(grid.geometry), slices, neighbours)
    except (UnsupportedError, KernelFault, BudgetExceededError):
        return None  # blocks that cannot run by themselves side by side


def _part(some: float, everything: float) -> float:
    return min(1.0, some / everything) if everything else 0.0
