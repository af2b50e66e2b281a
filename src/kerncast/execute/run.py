"""Run a sample of a launch's blocks, or all of them."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError
from kerncast.execute.arena import Arena
from kerncast.execute.arguments import BoundArgument, bind_arguments, pack_parameters
from kerncast.execute.budget import Budget
from kerncast.execute.fill import fill_buffer
from kerncast.execute.layout import Program, link
from kerncast.execute.reference import Batch
from kerncast.execute.sample import Sampler
from kerncast.execute.supported import check_supported
from kerncast.execute.tally import Tally
from kerncast.execute.threads import WARP_LANES
from kerncast.launch import Buffer, Launch
from kerncast.ptx import parse_ptx
from kerncast.ptx.module import Variable
from kerncast.trace import Trace

_BATCH_THREADS = 32_768
_BATCH_MEMORY_BYTES = 256 * 2**20
#: How often the footprint is noted in a run.
_FOOTPRINTS = 8

Progress = Callable[[int, int], None]
"""called with (blocks run, blocks to run)"""


def execute(
    kernel: CompiledKernel, launch: Launch, budget: Budget | None = None, progress: Progress | None = None
) -> tuple[Trace, Sampler]:
    """Execute a kernel's PTX on the CPU and return what happened in the blocks that ran.

    Raises LaunchError for arguments that do not fit, UnsupportedError for an instruction that is not covered,
    KernelFault for a kernel that misbehaves and BudgetExceededError for one that does not end.
    """
    budget = budget or Budget()
    program = link(parse_ptx(kernel.ptx), kernel.mangled)
    bound = bind_arguments(launch, program.function.parameters, kernel.signature)
    check_supported(program.function)
    program, arena = _prepare_memory(program, bound, launch, budget)
    parameters = pack_parameters(bound, [a.address for a in arena.allocations], list(program.parameters.values()))
    tally = Tally(len(program.function.instructions), arena, budget.memory_bytes)
    runner = _Runner(Batch(program, launch, arena, parameters, budget), tally, progress)
    sampler = Sampler(launch.grid)
    runner.run(sampler.pilot())
    runner.run(sampler.rest(_affordable(tally, launch, budget)))
    trace = Trace(
        function=program.function,
        cfg=program.cfg,
        block_ids=np.array([block for _, block in sampler.chosen], np.int64),
        **tally.counts,
        divergent_branches=tally.divergent_branches,
        footprints=tuple(tally.footprints),
        allocations=arena.allocations,
        memory=_buffers(bound, arena),
        remarks=tuple(tally.remarks),
    )
    return trace, sampler


def _affordable(tally: Tally, launch: Launch, budget: Budget) -> int:
    """Return how many blocks the budget of work allows, after the first have run."""
    work_per_block = max(1.0, tally.counts["thread_executions"].sum() / tally.finished)
    blocks = int(min(launch.blocks, budget.sample_blocks, budget.sample_thread_instructions // work_per_block))
    tally.check_room(blocks)
    return blocks


class _Runner:
    """Runs lists of blocks in batches of a fitting size."""

    def __init__(self, batch: Batch, tally: Tally, progress: Progress | None) -> None:
        self.batch = batch
        self.tally = tally
        self.progress = progress
        self.deadline = time.monotonic() + batch.budget.seconds
        threads = batch.launch.warps_per_block * WARP_LANES
        shared = batch.program.static_shared_bytes + batch.launch.shared_bytes
        per_block = shared + threads * (batch.program.private_bytes + batch.program.register_bytes)
        self.batch_blocks = max(1, min(_BATCH_THREADS // threads, _BATCH_MEMORY_BYTES // max(per_block, 1)))

    def run(self, blocks: list[int]) -> None:
        """Run these blocks, and note the footprint now and then."""
        total = self.tally.finished + len(blocks)
        self.tally.extend(len(blocks))
        noted = self.tally.finished
        for start in range(0, len(blocks), self.batch_blocks):
            if time.monotonic() > self.deadline:
                raise BudgetExceededError(
                    f"only {self.tally.finished} of {total} sampled blocks ran within the time budget",
                    where=self.batch.launch.label,
                    cure="Use a smaller problem.",
                )
            chosen = np.array(blocks[start : start + self.batch_blocks], np.int64)
            self.batch.run(chosen, self.tally, self.deadline)
            if (self.tally.finished - noted) * _FOOTPRINTS >= total or self.tally.finished == total:
                self.tally.note_footprint()
                noted = self.tally.finished
            if self.progress:
                self.progress(self.tally.finished, total)


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
