"""One SM simulated with the blocks that it gets, and the grid composed from it: the default for kernels with source."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kerncast.errors import BudgetExceededError, KernelFault, LaunchError, MissingEvidenceError, UnsupportedError
from kerncast.execute.sampling.executed import Executed
from kerncast.gpu import GPU
from kerncast.models.base import Case, Estimate, Model, launch_s
from kerncast.models.sm.composition import SMLoad, load_of
from kerncast.models.sm.grid_memory import GridOnGPU, grid_memory
from kerncast.models.sm.micro_ops import Pipe, Program
from kerncast.models.sm.multiprocessor import SM, known, need_pipes, sm_of
from kerncast.models.sm.results import Simulated
from kerncast.models.sm.whole_grid import SimulatedBlocks, busy_blocks, busy_share, cycles_of_grid
from kerncast.occupancy import block_request_of, cache_geometry, occupancy
from kerncast.prediction import Term, Timing
from kerncast.profiles import SECTOR_BYTES, KernelProfile
from kerncast.traces import MOST_EVENTS, SMTrace, entered_blocks

#: Whole waves of an SM's blocks that are simulated, where that many are affordable.
_WAVES = 2
#: PTX instructions of warps beyond which fewer waves are simulated, and beyond which nothing is: some seconds.
_MOST_INSTRUCTIONS, _FAR_TOO_MANY_INSTRUCTIONS = 2e6, 6e7
#: Where a smaller part of the blocks accesses memory, the grid is larger than its data.
_BUSY = 0.75
#: Blocks that share work do as much as finds them: recorded alone, they do that of the others.
_MOST_OTHER_WORK = 2.0
#: A resource decides where it is busy for this part of the time; else latency does.
_DECIDES = 0.6
_CURE = "Use --model roofline."


class Simulation(Model):
    """t = [t(simulated blocks) + (other blocks of the SM) x max(slope, DRAM, L2 per block)] / clock + launch.

    The busiest SM decides. Its blocks' PTX, lowered to micro-ops, runs against pipes, L1 and its share of L2 and DRAM.

    Source: this project's timing study (model 3). Fails when: SMs wait for one another (locks, tickets), blocks differ
    in what they do and not only in how much, or the machine code is far from what kernels of its kind become.
    """

    name: ClassVar[str] = "simulation"
    log_sigma: ClassVar[float] = 0.24

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the simulated time with what each resource alone would need."""
        profile, gpu, executed = case.profile, case.gpu, case.executed
        if executed is None or profile.resources is None:
            raise MissingEvidenceError(
                f"{profile.kernel} comes without its source", cure="Give the source, or --model roofline."
            )
        found = simulated_launch(profile, gpu, executed, timing)
        body = found.cycles / gpu.clock_hz
        launch = launch_s(gpu, timing, body)
        busiest = max(found.terms, key=lambda term: term.seconds)
        limiter = busiest.name if busiest.seconds >= _DECIDES * body else "latency"
        return Estimate(
            seconds=body + launch,
            limiter="launch" if launch > body else limiter,
            terms=(*(term for term in found.terms if term.seconds), Term("launch", launch)),
            low=body + launch,
            high=body + launch,
        )


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """One launch on one GPU: what the simulation of its busiest SM gave, and what that means for the whole grid."""

    program: Program
    sm: SM
    simulated: Simulated
    cycles: float
    """of the whole launch, at the GPU's clock"""
    terms: tuple[Term, ...]
    """what each resource alone would need for the whole launch"""


def simulated_launch(profile: KernelProfile, gpu: GPU, executed: Executed, timing: Timing) -> SimulatedLaunch:
    """Record some of the blocks that one SM gets, and simulate them; raises Refusal where that cannot be done."""
    from kerncast.execute.native import TooLargeError  # noqa: PLC0415  LLVM takes time to load

    try:
        return _Run(profile, gpu, executed, is_warm=timing is not Timing.COLD).result()
    except TooLargeError:
        raise UnsupportedError("the kernel is too large to be compiled for this CPU", cure=_CURE) from None
    except MemoryError:
        raise BudgetExceededError("the simulation needs more memory than is free", cure=_CURE) from None
    except LaunchError as error:
        raise UnsupportedError(error.what, cure=_CURE) from None
    except (UnsupportedError, KernelFault, BudgetExceededError) as refusal:
        what = f"the blocks of one SM could not be run by themselves: {refusal.what}"
        raise type(refusal)(what, where=refusal.where, cure=_CURE) from None


class _Run:
    """One kernel on one GPU."""

    def __init__(self, profile: KernelProfile, gpu: GPU, executed: Executed, *, is_warm: bool) -> None:
        self._profile, self._gpu, self._executed, self._is_warm = profile, gpu, executed, is_warm
        request = block_request_of(profile)
        assert request is not None
        resident = max(1, occupancy(request, gpu.architecture).blocks_per_sm)
        self._geometry = cache_geometry(gpu, resident, request.shared_bytes)
        self._grid = self._blocks = math.prod(profile.grid)
        mix = profile.mix
        self._instructions = mix.warp_instructions.value / self._grid if mix else 1.0
        """per block, on average"""
        self._load = self._load_of(resident, self._instructions)
        self._trace, self._work = self._record_busy_blocks(resident)
        # The cache geometry goes by what an SM could hold; a small grid fills less of it.
        self._resident = min(resident, self._load.blocks)
        self._simulated = self._simulate()

    def _load_of(self, resident: int, instructions: float) -> SMLoad:
        waves = max(1, min(_WAVES, int(_MOST_INSTRUCTIONS / max(1.0, instructions * resident))))
        return load_of(self._blocks, self._gpu.sm_count, resident, waves)

    def _record_busy_blocks(self, resident: int) -> tuple[SMTrace, float]:
        """Return some blocks of an SM, and what a block of the grid does over what one of these does.

        Where that is little, the grid is taken to have so many fewer blocks, and idle ones: ``_blocks`` and ``_load``
        then leave these out.
        """
        from kerncast.execute.recording.sm_blocks import record_sm  # noqa: PLC0415  LLVM takes time to load

        executed, sms = self._executed, self._gpu.sm_count
        trace = record_sm(executed, sms, self._load.simulated, MOST_EVENTS)
        lengths = np.array(executed.trace.cfg.lengths, np.int64)
        traced = float(lengths[entered_blocks(trace)].sum()) / len(trace.block_ids)
        if traced * min(resident, len(trace.block_ids)) > _FAR_TOO_MANY_INSTRUCTIONS:
            raise BudgetExceededError("one SM has too much to do at once to be simulated", cure=_CURE)
        work = self._instructions / traced if traced else 1.0
        if not executed.is_independent and not 1 / _MOST_OTHER_WORK <= work <= _MOST_OTHER_WORK:
            raise UnsupportedError("blocks share a work queue, so one SM cannot be simulated alone", cure=_CURE)
        busy = busy_share(executed)
        if busy >= _BUSY:
            return trace, work
        self._blocks = max(1, round(self._grid * busy))
        self._load = self._load_of(resident, traced)
        return trace.head(self._load.simulated), 1.0

    def _simulate(self) -> Simulated:
        from kerncast.models.sm.lower import lower  # noqa: PLC0415  a forecast by counts does without
        from kerncast.models.sm.simulate import simulate  # noqa: PLC0415  numba takes time to load

        executed, trace = self._executed, self._trace
        function, cfg = executed.trace.function, executed.trace.cfg
        resources = self._profile.resources
        keeps_local = resources is None or resources.has_frame
        self._program = lower(function, cfg, self._gpu.architecture, keeps_local=keeps_local)
        need_pipes(self._program, self._gpu)
        grid = GridOnGPU(self._gpu, self._geometry, self._load, self._resident, self._blocks)
        memory = grid_memory(executed, trace, grid, is_warm=self._is_warm)
        shares = memory.shares
        # What L1 lets through is not known before: the first blocks tell it for all.
        for part in (trace.head(self._resident), trace):
            self._sm = sm_of(self._gpu, self._geometry, shares)
            found = simulate(self._program, part, self._sm, self._resident)
            shares = memory.after(found)
        self._dram, self._hot_line = memory.dram_sectors(found), shares.hot_line
        return found

    def result(self) -> SimulatedLaunch:
        """Return what was found."""
        by_resource = self._terms()
        started = self._grid * (self._gpu.architecture.cycles.grid_launch or 0.0)
        cycles = max(self._cycles(max(by_resource.values())), started)
        needed = by_resource | {"blocks": started}
        terms = tuple(Term(name, each / self._gpu.clock_hz) for name, each in needed.items())
        return SimulatedLaunch(self._program, self._sm, self._simulated, cycles, terms)

    def _cycles(self, roof: float) -> float:
        """Return the cycles of the whole launch; ``roof`` are those of the busiest resource."""
        floor = max(self._dram_cycles_per_block, self._l2_cycles_per_block * self._work)
        sms = self._gpu.sm_count
        blocks = SimulatedBlocks(
            self._program, self._sm, sms, self._trace, self._simulated, self._resident, self._load, self._blocks
        )
        kept = None if self._blocks == self._grid else busy_blocks(self._executed)
        busy = cycles_of_grid(self._executed, blocks, kept, floor, self._work)
        idle_cycles = known(self._gpu.architecture.cycles.idle_block, "cycles.idle_block", self._gpu)
        idle_blocks = (self._grid - self._blocks) / self._gpu.sm_count
        idle = idle_blocks * (self._sm.block_launch_cycles + idle_cycles) / self._geometry.resident
        return max(busy, roof) + idle

    @property
    def _dram_cycles_per_block(self) -> float:
        read, written = self._dram.read, self._dram.written
        return SECTOR_BYTES * (read / self._sm.dram_bytes_per_cycle + written / self._sm.dram_write_bytes_per_cycle)

    @property
    def _l2_cycles_per_block(self) -> float:
        found, sm = self._simulated, self._sm
        read, written = found.l2_read_sectors, found.l2_write_sectors
        blocks = len(found.finish_cycles)
        cycles = SECTOR_BYTES * (read / sm.l2_bytes_per_cycle + written / sm.l2_write_bytes_per_cycle) / blocks
        hot = self._hot_line.sectors_per_block if self._hot_line else 0.0
        others = (read + written) / blocks - hot
        return max(cycles, hot * sm.hot_sector_cycles + others * sm.sector_slice_cycles)

    def _terms(self) -> dict[str, float]:
        """Return the cycles that each resource alone would need for the whole launch."""
        found, sm, blocks = self._simulated, self._sm, self._load.blocks * self._work
        scale = blocks / len(found.finish_cycles)
        per_scheduler = scale / sm.sub_partitions
        pipes = {pipe.name.lower(): float(found.busy_cycles[pipe]) * per_scheduler for pipe in Pipe}
        pipes["lsu"] = max(pipes["lsu"], found.exchange_cycles * scale)
        return {
            **pipes,
            "issue": found.issued * per_scheduler / sm.issue_width,
            "shared": found.shared_cycles * scale,
            "l1": found.l1_cycles * scale,
            "l2": self._l2_cycles_per_block * blocks,
            "atomics": found.atomic_cycles * scale,
            "dram": self._dram_cycles_per_block * self._load.blocks,
        }
