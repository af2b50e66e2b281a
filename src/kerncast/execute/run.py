"""Run a sample of a launch's blocks, or all of them."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError
from kerncast.execute.arena import Arena
from kerncast.execute.arguments import BoundArgument, bind_arguments, fill_buffers, pack_parameters
from kerncast.execute.budget import Budget
from kerncast.execute.layout import Program, link
from kerncast.execute.reference import Batch
from kerncast.execute.sample import Sampler
from kerncast.execute.supported import check_supported
from kerncast.execute.tally import Tally
from kerncast.execute.threads import WARP_LANES
from kerncast.launch import Buffer, Launch
from kerncast.ptx import parse_ptx
from kerncast.trace import Trace

_BATCH_THREADS = 16_384
_BATCH_MEMORY_BYTES = 256 * 2**20

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
    arena, parameters = _prepare_memory(program, bound, launch, budget)
    sampler = Sampler(launch.grid)
    pilot = sampler.pilot()
    runner = _Runner(program, launch, Batch(program, launch, arena, parameters, budget), budget, progress)
    tally = Tally(program, arena, len(pilot))
    runner.run(pilot, tally, len(pilot))
    work_per_block = max(1.0, tally.thread_executions.sum() / len(pilot))
    rest = sampler.rest(int(min(launch.blocks, budget.sample_thread_instructions // work_per_block)))
    tally.extend(len(rest))
    runner.run(rest, tally, len(pilot) + len(rest))
    trace = Trace(
        program.function, program.cfg, np.array(pilot + rest, np.int64), tally.warp_executions,
        tally.thread_executions, tally.requests, tally.sectors, tally.divergent_branches, tuple(tally.footprints),
        tuple(arena.allocations), _buffers(bound, arena), tally.printed,
    )  # fmt: skip
    return trace, sampler


class _Runner:
    """Runs lists of blocks in batches of a fitting size."""

    def __init__(
        self, program: Program, launch: Launch, batch: Batch, budget: Budget, progress: Progress | None
    ) -> None:
        self.batch = batch
        self.launch = launch
        self.progress = progress
        self.deadline = time.monotonic() + budget.seconds
        shared = program.static_shared_bytes + launch.shared_bytes
        per_thread = program.private_bytes + 256  # registers take a few hundred bytes of a thread
        per_block = shared + launch.warps_per_block * WARP_LANES * per_thread
        by_threads = _BATCH_THREADS // (launch.warps_per_block * WARP_LANES)
        self.batch_blocks = max(1, min(by_threads, _BATCH_MEMORY_BYTES // per_block))

    def run(self, blocks: list[int], tally: Tally, total: int) -> None:
        """Run these blocks and note the footprint after each batch."""
        for start in range(0, len(blocks), self.batch_blocks):
            if time.monotonic() > self.deadline:
                raise BudgetExceededError(
                    f"only {tally.finished} of {total} sampled blocks ran within the time budget",
                    where=self.launch.label,
                    cure="Use a smaller problem.",
                )
            self.batch.run(np.array(blocks[start : start + self.batch_blocks], np.int64), tally, self.deadline)
            tally.note_footprint()
            if self.progress:
                self.progress(tally.finished, total)


def _prepare_memory(
    program: Program, bound: tuple[BoundArgument, ...], launch: Launch, budget: Budget
) -> tuple[Arena, bytes]:
    sizes = [(b.argument.name, b.argument.value.nbytes) for b in bound if isinstance(b.argument.value, Buffer)]
    sizes += [(variable.name, variable.nbytes) for variable in program.globals]
    arena = Arena(sizes, budget.memory_bytes)
    for name, values in fill_buffers(bound, launch):
        arena.bytes_of(arena.named(name))[:] = values.view(np.uint8)
    for variable in program.globals:
        place = arena.bytes_of(arena.named(variable.name))
        place[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
        for offset, symbol in variable.relocations:
            address = np.array([arena.named(symbol).address], np.uint64)
            place[offset : offset + 8] = address.view(np.uint8)
    addresses = {a.name: a.address for a in arena.allocations}
    offsets = [program.parameters[b.parameter.name] for b in bound]
    return arena, pack_parameters(bound, addresses, offsets)


def _buffers(bound: tuple[BoundArgument, ...], arena: Arena) -> dict[str, npt.NDArray[Any]]:
    contents = {}
    for one in bound:
        value = one.argument.value
        if isinstance(value, Buffer):
            element = value.element.replace("i", "int").replace("u", "uint").replace("f", "float")
            raw = arena.bytes_of(arena.named(one.argument.name))
            contents[one.argument.name] = raw.view(np.dtype(element)).reshape(value.shape)
    return contents
