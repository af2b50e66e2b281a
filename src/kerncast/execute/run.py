"""Run a sample of a launch's blocks, or all of them."""

from typing import Literal

import numpy as np

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, UnsupportedError
from kerncast.execute.budget import Budget
from kerncast.execute.executed import Executed
from kerncast.execute.portions import Portions
from kerncast.execute.prepare import contents, linked_program, prepare
from kerncast.execute.reference import ReferenceEngine
from kerncast.execute.sample import Sampler
from kerncast.execute.state import Engine, Progress, Setting
from kerncast.launch import Launch
from kerncast.trace import Trace

INTERPRETED = "the kernel is too large to be compiled: it was interpreted, which is slow"
#: What the parameters of a kernel may take (CUDA C++ Programming Guide 12.9, section 10.5.10.3).
_PARAMETER_BYTES = 32_764

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
    executed = run_launch(kernel, launch, budget, progress, engine)
    return executed.trace, executed.sampler


def run_launch(
    kernel: CompiledKernel,
    launch: Launch,
    budget: Budget | None = None,
    progress: Progress | None = None,
    engine: EngineName = "native",
) -> Executed:
    """Execute as ``execute`` does, and keep what is needed to run further blocks."""
    try:
        _check_parameters(kernel)
        return _run(kernel, prepare(kernel, launch, budget or Budget()), progress, engine)
    except MemoryError:
        cure = "Use a smaller problem, or a machine with more memory."
        raise BudgetExceededError("the launch needs more memory than is free", where=launch.label, cure=cure) from None


def _run(kernel: CompiledKernel, setting: Setting, progress: Progress | None, engine: EngineName) -> Executed:
    runner, doubts = (ReferenceEngine(setting), ()) if engine == "reference" else _fast_engine(setting)
    portions = Portions(runner, setting, progress)
    portions.run()
    trace = Trace(
        function=setting.program.function,
        cfg=setting.program.cfg,
        block_ids=np.array(portions.sampler.chosen, np.int64),
        counts=runner.counts(),
        footprints=tuple(portions.footprints),
        allocations=setting.arena.allocations,
        memory=contents(setting),
        remarks=(*doubts, *setting.remarks, *portions.remarks, *runner.remarks),
        printed=runner.printed,
    )
    return Executed(kernel, setting, trace, portions.sampler)


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
