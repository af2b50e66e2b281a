"""What a kernel's own machine code does for each instruction of its PTX, where a disassembler reads it.

The lines of the PTX say where a machine instruction comes from, and the flow of threads how often it ran. Fails when:
the compiler names another line, as it does where it has moved an instruction; what it moved far is given to no
instruction, but to the block that runs it.
"""

import numpy as np

from kerncast.compile import CompiledKernel
from kerncast.machine.forms import issuing_blocks
from kerncast.machine.listing import reads
from kerncast.machine.mix import Reading, reading_of
from kerncast.traces import MachineCode, MachineOperation, Trace

#: Executions of a machine instruction, relative to those of its PTX instruction, outside of which the compiler has
#: moved it to another block: four turns of a loop that is unrolled are inside.
_LEAST, _MOST = 0.2, 5.0


def machine_code(trace: Trace, kernel: CompiledKernel) -> MachineCode:
    """Return the machine instructions of an executed kernel, each with the PTX instruction that it comes from.

    Of an architecture without a disassembler nothing is known, and nothing has failed.
    """
    if not reads(kernel.resources.architecture):
        return MachineCode()
    reading, problem = reading_of(trace, kernel)
    return MachineCode(problem=problem) if reading is None else _Attribution(trace, reading).code()


class _Attribution:
    """Gives each machine instruction to an instruction of the PTX, or to a block alone."""

    def __init__(self, trace: Trace, reading: Reading) -> None:
        self._reading, self._executed = reading, reading.executed
        self._warps = trace.counts.block_warps.sum(axis=0).astype(np.float64)
        self._threads = trace.counts.block_threads.sum(axis=0).astype(np.float64)
        self._issued_with = issuing_blocks(trace.function, trace.cfg)

    def code(self) -> MachineCode:
        """Return all machine instructions that ran."""
        found: list[MachineOperation] = []
        started = max(1.0, float(self._threads[0]))
        for block, times in sorted(self._reading.ran.items()):
            beside = self._reading.ptx_block(block, times)
            if not self._threads[beside]:
                continue
            # Threads that leave the others take their warp along: a block's warps run as full as its PTX block's.
            warps = times * started * float(self._warps[beside] / self._threads[beside])
            for ins in self._reading.code_of(block):
                own = [n for n in self._executed.on_line.get(ins.line, ()) if self._is_of(n, beside, warps)]
                if not own:
                    found.append(MachineOperation(ins.opcode, ins.modifiers, beside, None, warps))
                for number in own:
                    place = self._executed.block_of[number]
                    found.append(MachineOperation(ins.opcode, ins.modifiers, place, number, warps / len(own)))
        return MachineCode(tuple(found), tuple(self._warps.tolist()))

    def _is_of(self, number: int, beside: int, warps: float) -> bool:
        """Tell whether what runs with a block so often does the work of a PTX instruction where that one stands."""
        issuer = self._issued_with[self._executed.block_of[number]]
        own = float(self._warps[issuer])
        return own > 0 and (issuer == self._issued_with[beside] or _LEAST * own <= warps <= _MOST * own)
