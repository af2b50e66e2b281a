"""One SM simulated with the blocks that it gets, and the grid composed from it: the default for kernels with source."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kerncast.errors import LaunchError, MissingEvidenceError, UnsupportedError
from kerncast.gpu import GPU, WARP_SIZE, launch_overhead_s
from kerncast.models.base import FOREIGN_CODE_LOG_SIGMA, Case, Estimate, Model, Needs, known_fact, launch_s
from kerncast.models.clock import OWN_CLOCK, slower_under_tensor_load
from kerncast.models.sm.grid_memory import DramSectors, Spills, grid_memory, spilled_words, spills_of
from kerncast.models.sm.micro_ops import Pipe, Program
from kerncast.models.sm.multiprocessor import SM, HotLine, need_pipes, path_bytes_per_cycle, sm_of
from kerncast.models.sm.plan import SMBlocks, blocks_to_simulate, busy_blocks, idle_work, plan_of
from kerncast.models.sm.results import Floats, Simulated, Stall, of_cluster, parts_of
from kerncast.models.sm.whole_grid import SimulatedBlocks, cycles_of_grid
from kerncast.prediction import SimulatedWork, Term, Timing
from kerncast.profiles import SECTOR_BYTES, KernelProfile, LineStates, ResourceTime, StateCycles, WarpStates
from kerncast.ptx import Location
from kerncast.traces import Execution, SMRecording

#: Resources that a block takes which accesses no memory: products have nothing to multiply.
_OF_IDLE = ("issue", *(pipe.name.lower() for pipe in Pipe if pipe not in {Pipe.LSU, Pipe.TENSOR, Pipe.TENSOR_MEMORY}))
#: A resource decides where it is busy for this part of the time; else latency does.
_DECIDES = 0.6


class Simulation(Model):
    """t = [t(simulated blocks) + (other blocks of the SM) x max(slope, DRAM, L2 per block)] / clock + launch.

    The busiest SM decides. Its blocks' PTX, lowered to micro-ops, runs against pipes, L1 and its share of L2 and DRAM.

    Source: this project's timing study (model 3). Fails when: SMs wait for one another (locks, tickets), blocks differ
    in what they do and not only in how much, or the machine code is far from what kernels of its kind become.
    """

    name: ClassVar[str] = "simulation"
    log_sigma: ClassVar[float] = 0.24
    needs: ClassVar[Needs] = Needs.SM
    simulates_clusters: ClassVar[bool] = True

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the simulated time with what each resource alone would need."""
        profile, gpu, execution = case.profile, case.gpu, case.execution
        if execution is None or profile.resources is None:
            raise MissingEvidenceError(
                f"{profile.kernel} comes without its source", cure="Give the source, or --model roofline."
            )
        from kerncast.models.sm.lower import doubts_of_code  # noqa: PLC0415  a forecast by counts does without

        found = simulated_launch(profile, gpu, execution, timing)
        body, launch = found.seconds, launch_s(gpu, timing, found.seconds)
        doubts, estimated = doubts_of_code(execution, gpu.architecture)
        busiest = max(found.terms, key=lambda term: term.seconds)
        limiter = busiest.name if busiest.seconds >= _DECIDES * body else "latency"
        return Estimate(
            seconds=body + launch,
            limiter="launch" if launch > body else limiter,
            terms=(*(term for term in found.terms if term.seconds), Term("launch", launch)),
            low=body + launch,
            high=body + launch,
            caveats=doubts,
            log_sigma=estimated * FOREIGN_CODE_LOG_SIGMA,
            work=found.work,
        )


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """One launch on one GPU: what the simulation of its busiest SM gave, and what that means for the whole grid."""

    program: Program
    sm: SM
    simulated: Simulated
    cycles: float
    seconds: float
    """time of the whole launch, at the clock that it leaves"""
    terms: tuple[Term, ...]
    """time that each resource alone would need for the whole launch"""
    work: SimulatedWork


def simulated_launch(profile: KernelProfile, gpu: GPU, execution: Execution, timing: Timing) -> SimulatedLaunch:
    """Simulate the blocks that one SM gets; raises Refusal where that cannot be done."""
    try:
        found = simulated_sm(profile, gpu, execution, is_warm=timing is not Timing.COLD).launch(execution)
    except LaunchError as error:
        raise UnsupportedError(error.what, cure="Use --model roofline.") from None
    return replace(found, seconds=found.seconds * slower_under_tensor_load(gpu, found.seconds, found.terms, profile))


def simulated_sm(profile: KernelProfile, gpu: GPU, execution: Execution, *, is_warm: bool) -> "SimulatedSM":
    """Simulate the blocks that one SM gets, alone; raises LaunchError for blocks that it cannot hold, and Refusal."""
    from kerncast.models.sm.lower import lower  # noqa: PLC0415  a forecast by counts does without

    recorded = execution.sm
    assert recorded is not None
    plan = plan_of(profile, gpu, execution.trace.function.instructions)
    blocks = blocks_to_simulate(plan, execution, *(recorded.ranks or (recorded.blocks,)))
    resources = profile.resources
    keeps_local = resources is None or resources.has_frame
    code = execution.trace.function, execution.trace.cfg
    program = lower(*code, gpu.architecture, execution.machine, keeps_local=keeps_local)
    need_pipes(program, gpu)
    found = _simulate_sm(blocks, program, recorded, is_warm=is_warm)
    if resources is None:
        return found
    warps_per_block = -(-math.prod(profile.block) // WARP_SIZE)
    words = spilled_words(resources, execution, warps_per_block)
    return replace(found, spills=spills_of(resources, warps_per_block, blocks.grid, words))


def _simulate_sm(blocks: SMBlocks, program: Program, recorded: SMRecording, *, is_warm: bool) -> "SimulatedSM":
    from kerncast.models.sm.simulate import simulate_together  # noqa: PLC0415  numba takes time to load

    gpu, geometry, trace = blocks.plan.gpu, blocks.plan.geometry, blocks.trace
    memory = grid_memory(recorded, trace, blocks.grid, is_warm=is_warm)
    shares = memory.shares
    # What L1 lets through is not known before the simulation: the first blocks tell it for all.
    traffic = [1.0] * blocks.together
    for rows in (blocks.resident, len(trace.block_ids)):
        sm = sm_of(gpu, geometry, shares)
        ranks = [each.head(rows) for each in blocks.ranks or (trace,)]
        of_ranks = (
            [sm.with_share(each, path_bytes_per_cycle(gpu)) for each in parts_of(traffic)] if blocks.ranks else [sm]
        )
        by_rank = simulate_together(program, ranks, of_ranks, blocks.resident)
        found = of_cluster(by_rank)
        traffic = [float(each.l2_read_sectors + each.l2_write_sectors) for each in by_rank]
        shares = memory.after(found)
    return SimulatedSM(blocks, program, sm, found, memory.dram_sectors(found), shares.hot_line)


_NO_SPILLS = Spills()


@dataclass(frozen=True, slots=True)
class SimulatedSM:
    """One SM that has been simulated, and what it says of the whole grid."""

    blocks: SMBlocks
    program: Program
    sm: SM
    simulated: Simulated
    dram: DramSectors
    hot_line: HotLine | None
    spills: Spills = _NO_SPILLS

    def launch(self, execution: Execution) -> SimulatedLaunch:
        """Return the whole launch."""
        gpu, grid_blocks = self.blocks.plan.gpu, execution.grid_blocks
        by_resource = self.terms()
        idle, of_grid = idle_work(self.blocks.plan, execution, self.blocks.together)
        started = grid_blocks * (gpu.architecture.cycles.grid_launch or 0.0)
        cycles = max(self._cycles(execution, by_resource, idle), started)
        more = max(1.0, idle) if self.blocks.plan.has_sm_for_each(execution.grid_blocks) else 1.0 + idle
        needed = by_resource | {name: by_resource[name] * more for name in _OF_IDLE} | {"blocks": started}
        terms = tuple(Term(name, each / gpu.clock_hz) for name, each in needed.items())
        work = self._work(of_grid)
        return SimulatedLaunch(self.program, self.sm, self.simulated, cycles, cycles / gpu.clock_hz, terms, work)

    def _work(self, idle: float) -> SimulatedWork:
        """Return what all blocks of the grid issue and move; idle ones move nothing."""
        found, dram, spills = self.simulated, self.dram, self.spills
        blocks = self.blocks.plan.grid_blocks
        per_simulated = blocks * self.blocks.work / len(found.finish_cycles)
        spilled = spills.l2_read + spills.l2_written
        return SimulatedWork(
            warp_instructions=found.issued * per_simulated * (1 + idle) + spills.requests * blocks,
            l2_bytes=SECTOR_BYTES
            * ((found.l2_read_sectors + found.l2_write_sectors) * per_simulated + spilled * blocks),
            dram_read_bytes=SECTOR_BYTES * (dram.read + dram.filled + spills.dram_read) * blocks,
            dram_written_bytes=SECTOR_BYTES * (dram.written + spills.dram_written) * blocks,
        )

    def _cycles(self, execution: Execution, by_resource: dict[str, float], idle: float) -> float:
        """Return the cycles of the whole launch, of cycles that its busy blocks take of each resource."""
        plan, work = self.blocks.plan, self.blocks.work
        floor = max(self._dram_cycles_per_block, self._l2_cycles_per_block * work)
        run = SimulatedBlocks(
            self.program, self.sm, plan.gpu.sm_count, self.blocks.trace, self.simulated, self.blocks.resident,
            plan.load, plan.grid_blocks, self.blocks.ranks,
        )  # fmt: skip
        idle_blocks = execution.grid_blocks - plan.grid_blocks
        kept = busy_blocks(execution, self.blocks.together) if idle_blocks else None
        busy = cycles_of_grid(execution, run, kept, floor, work)
        idle_cycles = known_fact(plan.gpu.architecture.cycles.idle_block, "cycles.idle_block", plan.gpu)
        of_slot = idle_blocks / plan.gpu.sm_count / plan.geometry.resident
        begun = of_slot * (self.sm.block_launch_cycles + idle_cycles)
        computed = idle * max(by_resource[name] for name in _OF_IDLE)
        # With the few warps that so many registers leave, nothing hides the way to what is spilled: it adds up.
        spilled = max(self._spill_cycles) * plan.load.blocks
        alone = max(busy + spilled, *by_resource.values())
        if plan.has_sm_for_each(execution.grid_blocks):  # an idle block lasts as the others would without accesses
            return max(alone, computed, idle * (alone - self.sm.dram_latency - self.sm.l2_latency))
        return alone + max(begun, computed)

    @property
    def _dram_cycles_per_block(self) -> float:
        read, written = self.dram.read, self.dram.written + self.dram.filled
        return SECTOR_BYTES * (read / self.sm.dram_bytes_per_cycle + written / self.sm.dram_write_bytes_per_cycle)

    @property
    def _l2_cycles_per_block(self) -> float:
        found, sm = self.simulated, self.sm
        # Atomics have a rate of their own.
        read, written = (n - found.l2_atomic_sectors for n in (found.l2_read_sectors, found.l2_write_sectors))
        blocks = len(found.finish_cycles)
        cycles = SECTOR_BYTES * (read / sm.l2_bytes_per_cycle + written / sm.l2_write_bytes_per_cycle) / blocks
        cycles += found.l2_merged_sectors * sm.merge_cycles / blocks
        hot = self.hot_line.sectors_per_block if self.hot_line else 0.0
        others = (read + written) / blocks - hot
        asked = found.l2_requests * sm.l2_request_cycles / blocks
        return max(cycles, asked, hot * sm.hot_sector_cycles + others * sm.sector_slice_cycles)

    @property
    def _spill_cycles(self) -> tuple[float, float]:
        """Cycles of L2 and of DRAM that the spills of one block take."""
        sm, spills = self.sm, self.spills
        in_l2 = spills.l2_read / sm.l2_bytes_per_cycle + spills.l2_written / sm.l2_write_bytes_per_cycle
        in_dram = spills.dram_read / sm.dram_bytes_per_cycle + spills.dram_written / sm.dram_write_bytes_per_cycle
        return SECTOR_BYTES * in_l2, SECTOR_BYTES * in_dram

    def terms(self) -> dict[str, float]:
        """Return the cycles that each resource alone would need for the launch, on the SM with the longest block."""
        found, sm, load = self.simulated, self.sm, self.blocks.plan.load
        blocks = load.blocks * self.blocks.work
        done, on_sm = len(found.finish_cycles), max(1.0, blocks)
        scale = on_sm / done
        per_scheduler = scale / sm.sub_partitions
        pipes = {pipe.name.lower(): float(found.busy_cycles[pipe]) * per_scheduler for pipe in Pipe}
        pipes["lsu"] = max(pipes["lsu"], found.exchange_cycles * scale)
        pipes["lsu"] += self.spills.requests * on_sm * (self.blocks.plan.gpu.architecture.cycles.load_store_sm or 0.0)
        return {
            **pipes,
            "issue": found.issued * per_scheduler / sm.issue_width,
            "shared": found.shared_cycles * scale,
            "l1": found.l1_cycles * scale,
            "l2": self._l2_cycles_per_block * blocks + self._spill_cycles[0] * load.blocks,
            "atomics": found.atomic_cycles * blocks / done,
            "dram": (self._dram_cycles_per_block + self._spill_cycles[1]) * load.blocks,
        }


def with_warp_states(profile: KernelProfile, execution: Execution, gpu: GPU) -> KernelProfile:
    """Add what warps wait for on a GPU; raises Refusal where the launch cannot be simulated."""
    found = simulated_launch(profile, gpu, execution, Timing.PROFILER)
    return replace(profile, warp_states=warp_states(found, execution, gpu))


def warp_states(found: SimulatedLaunch, execution: Execution, gpu: GPU) -> WarpStates:
    """Return the cycles of the simulated blocks by state."""
    simulated = found.simulated
    body = {each.name: found.seconds if each.name in OWN_CLOCK else found.cycles / gpu.clock_hz for each in found.terms}
    resources = (ResourceTime(each.name, each.seconds / body[each.name]) for each in found.terms if each.seconds)
    return WarpStates(
        gpu=gpu.id,
        seconds=found.seconds + launch_overhead_s(Timing.PROFILER),
        cycles=found.cycles,
        blocks_simulated=len(simulated.finish_cycles),
        simulated_cycles=float(simulated.finish_cycles[-1]),
        schedulers=found.sm.sub_partitions,
        issued=simulated.issued,
        states=tuple(_states(simulated.stalls.sum(axis=0))),
        lines=_lines(found, execution),
        resources=tuple(sorted(resources, key=lambda each: -each.share)),
    )


def _states(cycles: Floats) -> list[StateCycles]:
    return [StateCycles(stall.name.lower(), float(cycles[stall])) for stall in Stall]


def _lines(found: SimulatedLaunch, execution: Execution) -> tuple[LineStates, ...]:
    """Return the lines at which a warp was."""
    code = execution.trace.function.instructions
    places = [code[number].location or Location("", 0) for number in found.program.instruction]
    lines = sorted(set(places), key=lambda place: (place.file, place.line))
    position = {place: number for number, place in enumerate(lines)}
    cycles = np.zeros((len(lines), len(Stall)))
    np.add.at(cycles, [position[place] for place in places], found.simulated.stalls)
    rows = zip(lines, cycles, strict=True)
    return tuple(LineStates(place.file, place.line, _longest(row)) for place, row in rows if row.any())


def _longest(cycles: Floats) -> tuple[StateCycles, ...]:
    return tuple(sorted((each for each in _states(cycles) if each.warp_cycles), key=lambda each: -each.warp_cycles))
