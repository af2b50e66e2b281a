"""Run a sample of a launch's blocks, or all of them."""

from itertools import pairwise
from typing import Literal

import numpy as np

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, UnsupportedError
from kerncast.execute.budget import Budget
from kerncast.execute.prepare import contents, linked_program, prepare
from kerncast.execute.reference import ReferenceEngine
from kerncast.execute.sample import Sampler
from kerncast.execute.state import Engine, Progress, Setting
from kerncast.launch import Launch
from kerncast.trace import Footprint, Trace

INTERPRETED = "the kernel is too large to be compiled: it was interpreted, which is slow"
#: What the parameters of a kernel may take (CUDA C++ Programming Guide 12.9, section 10.5.10.3).
_PARAMETER_BYTES = 32_764
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
    try:
        return _execute(kernel, launch, budget or Budget(), progress, engine)
    except MemoryError:
        cure = "Use a smaller problem, or a machine with more memory."
        raise BudgetExceededError("the launch needs more memory than is free", where=launch.label, cure=cure) from None


def _execute(
    kernel: CompiledKernel, launch: Launch, budget: Budget, progress: Progress | None, engine: EngineName
) -> tuple[Trace, Sampler]:
    _check_parameters(kernel)
    setting = prepare(kernel, launch, budget)
    runner, doubts = (ReferenceEngine(setting), ()) if engine == "reference" else _fast_engine(setting)
    sampler = Sampler(launch.grid)
    footprints = _run_sample(runner, setting, sampler, progress)
    trace = Trace(
        function=setting.program.function,
        cfg=setting.program.cfg,
        block_ids=np.array([block for _, block in sampler.chosen], np.int64),
        counts=runner.counts(),
        footprints=footprints,
        allocations=setting.arena.allocations,
        memory=contents(setting),
        remarks=(*doubts, *runner.remarks),
        printed=runner.printed,
    )
    return trace, sampler


def _check_parameters(kernel: CompiledKernel) -> None:
    """Refuse more parameters than CUDA takes, before numbers of that size are made of the arguments."""
    nbytes = linked_program(kernel.ptx, kernel.mangled).parameter_bytes
    if nbytes > _PARAMETER_BYTES:
        raise UnsupportedError(f"{nbytes} bytes of parameters are over the {_PARAMETER_BYTES} that CUDA takes")


def _fast_engine(setting: Setting) -> tuple[Engine, tuple[str, ...]]:
    """Return the native engine; of a kernel that LLVM would take minutes for, the reference engine and a remark."""
    from kerncast.execute.native import NativeEngine, TooLargeError  # noqa: PLC0415  LLVM takes time to load

    try:
        return NativeEngine(setting), ()
    except TooLargeError:
        return ReferenceEngine(setting), (INTERPRETED,)


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
