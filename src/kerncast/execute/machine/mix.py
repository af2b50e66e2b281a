"""The machine instructions of a launch: disassembled where that is possible, else estimated."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.compile.disassemble import disassemble
from kerncast.execute.machine.disassembled import disassembled_steps
from kerncast.execute.machine.estimated import estimated_steps
from kerncast.execute.machine.linear_program import NotSolvedError
from kerncast.execute.machine.ptx_counts import UnmatchedError, count_lines
from kerncast.execute.machine.step import Step
from kerncast.kernel_profile import Count, MachineMix, OpcodeCount, Origin
from kerncast.trace import Trace

_DIGITS = 4
Scale = Callable[[npt.NDArray[np.float64]], Count]


def machine_mix(trace: Trace, scale: Scale, kernel: CompiledKernel) -> MachineMix:
    """Return the machine instructions of a launch; ``scale`` turns a value per executed block into a count."""
    architecture = kernel.resources.architecture
    number = int("".join(filter(str.isdigit, architecture)))
    code = disassemble(kernel.cubin, architecture)
    problem = code.problem or "the machine code could not be matched with the PTX"
    if kernel.mangled in code.routines:
        try:
            executed = count_lines(trace, kernel.ptx, kernel.mangled)
            steps, doubts = disassembled_steps(code.routines[kernel.mangled], executed, number)
            return replace(_mix(trace, scale, steps, (Origin.DISASSEMBLED, architecture)), doubts=doubts)
        except (NotSolvedError, UnmatchedError):
            pass
    doubt = f"machine instructions are estimated: {problem}"
    return replace(
        _mix(trace, scale, estimated_steps(trace, number), (Origin.ESTIMATED, architecture)), doubts=(doubt,)
    )


def _mix(trace: Trace, scale: Scale, steps: list[Step], source: tuple[Origin, str]) -> MachineMix:
    """Add up the steps of each opcode and scale them to the grid."""
    blocks = len(trace.cfg.blocks)
    times: dict[tuple[str, str, str], npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(blocks))
    on: dict[tuple[str, str, str], npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(blocks))
    for step in steps:
        key = step.opcode, step.work, step.pipe
        times[key][step.block] += step.times
        on[key][step.block] += step.times * step.on
    warps, threads = trace.counts.block_warps, trace.counts.block_threads

    def total_of(executed: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> Count:
        # What is solved for is right to some ten digits: noise beyond them would look like variation between blocks.
        return scale(np.round(executed @ weights, _DIGITS))

    opcodes = [
        OpcodeCount(*key, total_of(warps, times[key]), total_of(threads, times[key]), total_of(threads, on[key]))
        for key in times
    ]
    total, total_on = sum(times.values(), np.zeros(blocks)), sum(on.values(), np.zeros(blocks))
    return MachineMix(
        *source,
        tuple(sorted(opcodes, key=lambda o: (-o.warp_instructions.value, o.opcode, o.work))),
        total_of(warps, total),
        total_of(threads, total),
        total_of(threads, total_on),
    )
