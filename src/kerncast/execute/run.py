"""Run a sample of a launch's blocks, or all of them."""

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.execute.arena import Arena
from kerncast.execute.arguments import BoundArgument, bind_arguments, pack_parameters
from kerncast.execute.budget import Budget
from kerncast.execute.fill import fill_buffer
from kerncast.execute.layout import Program, link
from kerncast.execute.reference.engine import ReferenceEngine
from kerncast.execute.sample import Sampler
from kerncast.execute.state import BlockCounts, Engine, Progress, Setting
from kerncast.execute.supported import check_supported
from kerncast.execute.touched import Touched
from kerncast.launch import Buffer, Launch
from kerncast.ptx import parse_ptx
from kerncast.ptx.module import Variable
from kerncast.trace import Footprint, Trace

if TYPE_CHECKING:
    from kerncast.execute.native.engine import Compiled

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
    budget = budget or Budget()
    linked = _linked(kernel.ptx, kernel.mangled)
    bound = bind_arguments(launch, linked.program.function.parameters, kernel.signature)
    check_supported(linked.program.function)
    program, arena = _prepare_memory(linked.program, bound, launch, budget)
    parameters = pack_parameters(bound, [a.address for a in arena.allocations], list(program.parameters.values()))
    setting = Setting(program, launch, arena, parameters, budget, Touched(arena))
    runner = ReferenceEngine(setting) if engine == "reference" else _native_engine(setting, linked)
    sampler = Sampler(launch.grid)
    footprints = _run_sample(runner, setting, sampler, progress)
    counts = runner.counts()
    trace = Trace(
        function=program.function,
        cfg=program.cfg,
        block_ids=np.array([block for _, block in sampler.chosen], np.int64),
        **{field.name: getattr(counts, field.name) for field in fields(BlockCounts)},
        footprints=footprints,
        allocations=arena.allocations,
        memory=_buffers(bound, arena),
        remarks=runner.remarks,
    )
    return trace, sampler


@dataclass(frozen=True, slots=True, eq=False)
class _Linked:
    """A program, and its code once that is wanted; kept as long as the process, because launches repeat."""

    program: Program
    code: "list[Compiled]"


@lru_cache(maxsize=32)
def _linked(ptx: str, mangled: str) -> _Linked:
    return _Linked(link(parse_ptx(ptx), mangled), [])


def _native_engine(setting: Setting, linked: _Linked) -> Engine:
    from kerncast.execute.native.engine import compile_program  # noqa: PLC0415  LLVM takes time to load
    from kerncast.execute.native.runner import NativeEngine  # noqa: PLC0415

    if not linked.code:
        linked.code.append(compile_program(linked.program))
    return NativeEngine(setting, linked.code[0])


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


def _prepare_memory(
    program: Program, bound: tuple[BoundArgument, ...], launch: Launch, budget: Budget
) -> tuple[Program, Arena]:
    """Set up global memory: buffers first, in the order of the arguments, then the module's variables."""
    buffers = [(i, b.argument.name, b.argument.value) for i, b in enumerate(bound)]
    sizes = [(name, value.nbytes) for _, name, value in buffers if isinstance(value, Buffer)]
    arena = Arena(sizes + [(variable.name, variable.nbytes) for variable in program.globals], budget.memory_bytes)
    places = iter(arena.allocations)
    for position, name, value in buffers:
        if isinstance(value, Buffer):
            generator = np.random.default_rng([launch.seed, position])
            where = f"{launch.label}, argument {name}"
            fill_buffer(arena.bytes_of(next(places)), value, generator, where)
    variables = dict(zip(program.globals, places, strict=True))
    addresses = {variable.name: place.address for variable, place in variables.items()}
    program = replace(program, addresses={**program.addresses, **addresses})
    for variable, place in variables.items():
        _initialise(arena.bytes_of(place), variable, program)
    return program, arena


def _initialise(data: npt.NDArray[np.uint8], variable: Variable, program: Program) -> None:
    data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    for relocation in variable.relocations:
        address = program.address_of(relocation.symbol) + relocation.offset >> relocation.shift
        raw = (address & (1 << 8 * relocation.nbytes) - 1).to_bytes(relocation.nbytes, "little")
        data[relocation.position : relocation.position + relocation.nbytes] = np.frombuffer(raw, np.uint8)


def _buffers(bound: tuple[BoundArgument, ...], arena: Arena) -> dict[str, npt.NDArray[Any]]:
    """Return the contents of the buffers, which are the arena's first allocations."""
    contents = {}
    values = (one.argument for one in bound if isinstance(one.argument.value, Buffer))
    for argument, allocation in zip(values, arena.allocations, strict=False):
        assert isinstance(argument.value, Buffer)
        element = argument.value.element.replace("i", "int").replace("u", "uint").replace("f", "float")
        contents[argument.name] = arena.bytes_of(allocation).view(np.dtype(element)).reshape(argument.value.shape)
    return contents
