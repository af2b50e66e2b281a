"""One SM simulated with the blocks that it gets, and the grid composed from it: the default for kernels with source."""

import math
from typing import ClassVar

import numpy as np

from kerncast.cache_geometry import cache_geometry
from kerncast.errors import MissingEvidenceError
from kerncast.execute.executed import Executed
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.kernel_profile import SECTOR_BYTES, KernelProfile
from kerncast.models.base import Estimate, Model
from kerncast.models.sm.composition import cycles_of, share_of
from kerncast.models.sm.micro_ops import Pipe
from kerncast.models.sm.parameters import Shares, atomic_lines, sm_of
from kerncast.models.sm.residency import dram_sectors_per_block
from kerncast.models.sm.results import Simulated
from kerncast.occupancy import block_request_of, occupancy
from kerncast.prediction import Term, Timing
from kerncast.sm_trace import entered_blocks

#: Whole waves of an SM's blocks that are simulated, where that many are affordable.
_WAVES = 2
#: Micro-ops beyond which fewer waves are simulated.
_MOST_MICRO_OPS = 2e6
_MOST_EVENTS = 2**24
#: A first simulation that missed the share of DRAM by less than this is not repeated.
_CLOSE = 0.03
#: A resource decides where it is busy for this part of the time; else latency does.
_DECIDES = 0.6


class Simulation(Model):
    """t = [t(simulated blocks) + (other blocks of the SM) x max(slope, DRAM, L2 per block)] / clock + launch.

    The busiest SM decides. Its blocks' PTX, lowered to micro-ops, runs against pipes, L1 and its share of L2 and DRAM.

    Source: this project's timing study (model 3). Fails when: blocks differ much over the grid, SMs wait for one
    another (locks, tickets), or the machine code is far from what kernels of its kind become.
    """

    name: ClassVar[str] = "simulation"
    log_sigma: ClassVar[float] = 0.24

    def estimate(self, profile: KernelProfile, gpu: GPU, timing: Timing, executed: Executed | None = None) -> Estimate:
        """Return the simulated time with what each resource alone would need."""
        if executed is None or profile.resources is None:
            raise MissingEvidenceError(
                f"{profile.kernel} comes without its source", cure="Give the source, or --model roofline."
            )
        run = _Run(profile, gpu, executed, is_warm=timing is not Timing.COLD)
        cycles = run.cycles()
        body = cycles / gpu.clock_hz
        launch = launch_overhead_s(timing)
        if timing is Timing.SERIES and gpu.launch_interval_s is not None:
            launch = max(launch, gpu.launch_interval_s - body)
        terms = {name: value / gpu.clock_hz for name, value in run.terms().items()}
        busiest = max(terms, key=lambda name: terms[name])
        limiter = busiest if terms[busiest] >= _DECIDES * body else "latency"
        return Estimate(
            seconds=body + launch,
            limiter="launch" if launch > body else limiter,
            terms=(*(Term(name, value) for name, value in terms.items() if value), Term("launch", launch)),
            low=body + launch,
            high=body + launch,
        )


class _Run:
    """One kernel on one GPU."""

    def __init__(self, profile: KernelProfile, gpu: GPU, executed: Executed, *, is_warm: bool) -> None:
        self._profile, self._gpu, self._executed, self._is_warm = profile, gpu, executed, is_warm
        request = block_request_of(profile)
        assert request is not None
        resident = max(1, occupancy(request, gpu.architecture).blocks_per_sm)
        self._geometry = cache_geometry(gpu, resident, request.shared_bytes)
        self._blocks = math.prod(profile.grid)
        self._share = share_of(self._blocks, gpu.sm_count, resident, self._waves(resident))
        self._resident = min(resident, self._share.blocks)
        self._simulated = self._simulate()

    def _waves(self, resident: int) -> int:
        mix = self._profile.mix
        per_block = mix.warp_instructions.value / self._blocks if mix else 1.0
        return max(1, min(_WAVES, int(_MOST_MICRO_OPS / max(1.0, per_block * resident))))

    def _simulate(self) -> Simulated:
        from kerncast.execute.sm_blocks import record_sm  # noqa: PLC0415  LLVM takes time to load
        from kerncast.models.sm.lowering import lower  # noqa: PLC0415
        from kerncast.models.sm.simulator import simulate  # noqa: PLC0415

        executed = self._executed
        trace = record_sm(executed, self._gpu.sm_count, self._share.simulated, _MOST_EVENTS)
        program = lower(executed.trace.function, executed.trace.cfg, self._gpu.architecture)
        dram = dram_sectors_per_block(executed.footprint, self._geometry, self._blocks, is_warm=self._is_warm)
        self._trace = trace
        blocks = len(trace.block_ids)
        shares = Shares(self._share.active_sms, 1.0, 1.0, atomic_lines(trace))
        found = None
        for _ in range(2):
            sm = sm_of(self._gpu, self._geometry, shares)
            found = simulate(program, trace, sm, self._resident)
            seen = Shares(
                self._share.active_sms,
                _part(dram.read * blocks, found.l2_read_sectors),
                _part(dram.written * blocks, found.l2_write_sectors),
                shares.atomic_lines,
            )
            self._sm, self._dram_sectors = sm, dram.read + dram.written
            if abs(seen.dram_read - shares.dram_read) + abs(seen.dram_write - shares.dram_write) < _CLOSE:
                break
            shares = seen
        assert found is not None
        return found

    def cycles(self) -> float:
        """Return the cycles of the whole launch."""
        floor = max(self._dram_cycles_per_block, self._l2_cycles_per_block)
        return cycles_of(self._simulated, self._share, self._resident, floor, self._work)

    @property
    def _work(self) -> float:
        """What a block of the grid does over what a simulated one does, in PTX instructions."""
        lengths = np.array([block.stop - block.start for block in self._executed.trace.cfg.blocks], np.int64)
        traced = float(lengths[entered_blocks(self._trace)].sum()) / len(self._trace.block_ids)
        mix = self._profile.mix
        return mix.warp_instructions.value / self._blocks / traced if mix and traced else 1.0

    @property
    def _dram_cycles_per_block(self) -> float:
        return self._dram_sectors * SECTOR_BYTES / self._sm.dram_bytes_per_cycle

    @property
    def _l2_cycles_per_block(self) -> float:
        found, sm = self._simulated, self._sm
        read, written = found.l2_read_sectors, found.l2_write_sectors
        cycles = SECTOR_BYTES * (read / sm.l2_bytes_per_cycle + written / sm.l2_write_bytes_per_cycle)
        return cycles / len(found.finish_cycles)

    def terms(self) -> dict[str, float]:
        """Return the cycles that each resource alone would need for the whole launch."""
        found, sm, blocks = self._simulated, self._sm, self._share.blocks
        scale = blocks / len(found.finish_cycles)
        per_scheduler = scale / sm.sub_partitions
        pipes = {pipe.name.lower(): float(found.busy_cycles[pipe]) * per_scheduler for pipe in Pipe}
        return {
            **pipes,
            "issue": found.issued * per_scheduler / sm.issue_width,
            "shared": found.shared_cycles * scale,
            "l1": found.l1_cycles * scale,
            "l2": self._l2_cycles_per_block * blocks,
            "atomics": found.atomic_cycles * scale,
            "dram": self._dram_cycles_per_block * blocks,
        }


def _part(some: float, everything: float) -> float:
    return min(1.0, some / everything) if everything else 0.0
