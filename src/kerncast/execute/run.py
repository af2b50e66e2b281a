"""Run a sample of a launch's blocks, or all of them."""

from dataclasses import fields
from itertools import pairwise
from typing import Literal

import numpy as np

from kerncast.compile import CompiledKernel
from kerncast.execute.budget import Budget
from kerncast.execute.prepare import contents, prepare
from kerncast.execute.reference import ReferenceEngine
from kerncast.execute.sample import Sampler
from kerncast.execute.state import BlockCounts, Engine, Progress, Setting
from kerncast.launch import Launch
from kerncast.trace import Footprint, Trace

#: How often the footprint is noted in a run.
_FOOTPRINTS = 8

EngineName = Literal["native", "reference"]


def execute(
    kernel: CompiledKernel,
    launch: Launch,
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    engine: EngineName = "native",
) -> tuple[Trace, Sampler]:
    """Execute a kernel's PTX on the CPU and return what happened in the blocks that ran.

    ``engine`` is native (compiled code) or reference (interpreted over NumPy arrays, slower and plainer).
    Raises LaunchError for arguments that do not fit, UnsupportedError for an instruction that is not covered,
    KernelFault for a kernel that misbehaves and BudgetExceededError for one that does not end.
    """
    setting = prepare(kernel, launch, budget or Budget())
    runner = ReferenceEngine(setting) if engine == "reference" else _native_engine(setting)
    sampler = Sampler(launch.grid)
    footprints = _run_sample(runner, setting, sampler, progress)
    counts = runner.counts()
    trace = Trace(
        function=setting.program.function,
        cfg=setting.program.cfg,
        block_ids=np.array([block for _, block in sampler.chosen], np.int64),
        **{field.name: getattr(counts, field.name) for field in fields(BlockCounts)},
        footprints=footprints,
        allocations=setting.arena.allocations,
        memory=contents(setting),
        remarks=runner.remarks,
    )
    return trace, sampler


def _native_engine(setting: Setting) -> Engine:
    from kerncast.execute.native import NativeEngine  # noqa: PLC0415  LLVM takes time to load

    return NativeEngine(setting)


def _run_sample(engine: Engine, setting: Setting, sampler: Sampler, progress: Progress | None) -> tuple[Footprint, ...]:
    """Run a few blocks, then as many as the budget allows; returns how the footprint grew."""
    footprints: list[Footprint] = []
    first = sampler.pilot()

    def run(blocks: list[int], total: int) -> None:
        engine.run(blocks, (lambda finished: progress(finished, total)) if progress else None)
        finished = len(blocks) + (footprints[-1].blocks if footprints else 0)
        footprints.append(setting.touched.footprint(finished))

    run(first, len(first))
    affordable = _affordable(engine.thread_instructions(), len(first), setting)
    engine.check_room(affordable)
    rest = sampler.rest(affordable)
    for start, stop in pairwise(len(rest) * n // _FOOTPRINTS for n in range(_FOOTPRINTS + 1)):
        if stop > start:
            run(rest[start:stop], len(first) + len(rest))
    return tuple(footprints)


def _affordable(done: int, blocks: int, setting: Setting) -> int:
    """Return how many blocks the budget of work allows, after the first have run."""
    budget = setting.budget
    return int(
        min(setting.launch.blocks, budget.sample_blocks, budget.sample_thread_instructions // max(1.0, done / blocks))
    )
