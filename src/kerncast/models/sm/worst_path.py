"""The worst path: how long a launch takes at most if nothing overlaps, nothing is cached, and every wait adds up.

    T <= sum(path) / S + (1 - 1/S) max(path) + sum over resources of busy(r) + launch

path(b) is what block b takes alone if each of its instructions waits for the one before, S the blocks that all SMs
hold at once, busy(r) the time that resource r needs for all that the busiest SM asks of it. Proof: the block that ends
last starts when some slot is free for it; until then all S slots hold blocks, each of which is on its path or waits
for a resource that works meanwhile. What they spend on paths is sum(path) / S on average, what they wait is at most
the sum of busy(r). The last block is on its own path for at most max(path), of which 1/S is counted already (Graham,
"Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969, for one resource).

It assumes: blocks go to the slot that is free first; a resource that is asked works, and serves one request at a time
in any order; no load finds its data in L1, L2 starts empty, and each access has the latency of DRAM; rates and
latencies are those of the GPU's facts, at its base clock; the executed inputs take the worst path; no other work runs.
Fails when: one of these is not so; counters of L2 and DRAM are those of the recorded blocks.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from kerncast.errors import LaunchError, MissingEvidenceError, UnsupportedError
from kerncast.models.base import Case, Estimate, Model, Needs, launch_s
from kerncast.models.sm.micro_ops import FULL_WEIGHT, Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.plan import busy_blocks
from kerncast.models.sm.results import Floats
from kerncast.models.sm.simulation import SimulatedSM, simulated_sm
from kerncast.models.sm.whole_grid import work_of_grid, work_of_trace
from kerncast.prediction import Term, Timing
from kerncast.traces import INSTRUCTION_SHIFT, OPERATION_MASK, OPERATION_SHIFT, Execution, Operation, SMTrace

_TO_GLOBAL = {
    Memory.LOAD, Memory.ATOMIC, Memory.ATOMIC_JOINED, Memory.ATOMIC_JOINED_BY_ALL, Memory.COPY,
}  # fmt: skip
_TO_SHARED = {
    Memory.SHARED_LOAD, Memory.SHARED_STORE, Memory.SHARED_ATOMIC, Memory.SHARED_ATOMIC_JOINED,
    Memory.SHARED_ATOMIC_JOINED_BY_ALL,
}  # fmt: skip


class WorstPath(Model):
    """T = sum(path) / S + (1 - 1/S) max(path) + sum(busy) + launch: an upper bound, no forecast."""

    name: ClassVar[str] = "worst-path"
    log_sigma: ClassVar[float] = 0.0
    needs: ClassVar[Needs] = Needs.SM

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return the bound, with its path and what each resource adds to it."""
        profile, gpu, execution = case.profile, case.gpu, case.execution
        if execution is None or profile.resources is None:
            raise MissingEvidenceError(f"{profile.kernel} comes without its source", cure="Give the source.")
        try:
            found = without_hits(simulated_sm(profile, gpu, execution, is_warm=False))
        except LaunchError as error:
            raise UnsupportedError(error.what, cure="Use --kind conformal.") from None
        cycles = {"path": path_cycles(found, execution), **found.terms()}
        cycles["blocks"] = execution.grid_blocks * (gpu.architecture.cycles.grid_launch or 0.0)
        terms = tuple(Term(name, each / gpu.clock_hz) for name, each in cycles.items() if each)
        body = sum(term.seconds for term in terms)
        launch = launch_s(gpu, timing, body)
        limiter = max(terms, key=lambda term: term.seconds).name
        return Estimate(body + launch, limiter, (*terms, Term("launch", launch)), body + launch, body + launch)


def without_hits(found: SimulatedSM) -> SimulatedSM:
    """Return what an SM asks of L2 where L1 holds nothing that is loaded."""
    simulated = found.simulated
    missed = simulated.l1_sectors / max(1, simulated.l1_sectors - simulated.l1_hits)
    return replace(
        found,
        simulated=replace(
            simulated,
            l2_read_sectors=simulated.l2_read_sectors + simulated.l1_hits,
            l2_requests=round(simulated.l2_requests * missed),
        ),
    )


def path_cycles(found: SimulatedSM, execution: Execution) -> float:
    """Return sum(path) / S + (1 - 1/S) max(path) in cycles; blocks that were not recorded are longer by their work."""
    traces, plan = found.blocks.ranks or (found.blocks.trace,), found.blocks.plan
    paths = np.concatenate([block_paths(found.program, found.sm, each) for each in traces])
    paths += found.sm.block_launch_cycles
    kept = busy_blocks(execution, found.blocks.together)
    everything = np.ones(len(kept), np.bool_)
    of_grid, _ = work_of_grid(execution, kept if kept.any() else everything)
    lengths = np.array(execution.trace.cfg.lengths, np.int64)
    recorded = np.concatenate([work_of_trace(each, lengths).longest for each in traces])
    per_instruction = paths / np.maximum(1.0, recorded)
    mean = float(paths.mean()) * max(1.0, float(of_grid.longest.mean()) / max(1.0, float(recorded.mean())))
    longest = max(float(paths.max()), float(of_grid.longest.max()) * float(per_instruction.max()))
    slots = plan.gpu.sm_count * found.blocks.resident
    return execution.grid_blocks * mean / slots + (1 - 1 / slots) * longest


def block_paths(program: Program, sm: SM, trace: SMTrace) -> Floats:
    """Return [blocks] cycles of each recorded block alone: from barrier to barrier its slowest warp counts."""
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    places = np.flatnonzero(operation == Operation.BASIC_BLOCK)
    entered = (trace.events[places] >> np.uint64(INSTRUCTION_SHIFT)).astype(np.int64)
    owner = np.searchsorted(trace.chains, places, side="right") - 1
    cycles, waits = cycles_of_blocks(program, sm)
    # Barriers that a warp has passed before it enters a block.
    passed = np.cumsum(waits[entered]) - waits[entered]
    warps = len(trace.chains) - 1
    first = np.searchsorted(owner, np.arange(warps))
    before = np.append(passed, passed[-1:] if len(passed) else 0)[np.minimum(first, max(0, len(passed) - 1))]
    phase = (passed - before[owner]).astype(np.int64) if len(passed) else passed.astype(np.int64)
    phases = int(phase.max()) + 1 if len(phase) else 1
    table = np.bincount(owner * phases + phase, weights=cycles[entered], minlength=warps * phases)
    by_warp = table.reshape(-1, trace.warps, phases)
    return np.asarray(by_warp.max(axis=1).sum(axis=1), np.float64)


def cycles_of_blocks(program: Program, sm: SM) -> tuple[Floats, Floats]:
    """Return [basic blocks] cycles of one warp that waits for each result, and barriers, per execution."""
    cycles = np.where(program.latency > 0, program.latency, np.array(sm.pipe_latency)[program.pipe]).astype(np.float64)
    cycles = np.where(program.pipe == Pipe.BRANCH, np.maximum(cycles, sm.branch_latency), cycles)
    for requests, latency in ((_TO_GLOBAL, sm.dram_latency), (_TO_SHARED, sm.shared_latency)):
        cycles = np.where(np.isin(program.memory, [int(each) for each in requests]), latency, cycles)
    is_barrier = program.memory == Memory.BARRIER
    cycles = np.where(is_barrier, sm.barrier_latency, cycles) + 1
    share = program.weight / FULL_WEIGHT
    blocks = np.repeat(np.arange(len(program.starts) - 1), np.diff(program.starts))
    count = len(program.starts) - 1
    return (
        np.bincount(blocks, weights=cycles * share, minlength=count).astype(np.float64),
        np.bincount(blocks, weights=is_barrier * share, minlength=count).round().astype(np.float64),
    )
