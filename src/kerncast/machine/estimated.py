"""The steps of a kernel from its PTX alone, where no disassembler is at hand.

Each PTX instruction becomes what its form became on average in the machine code of the suite. Short blocks behind a
branch are issued, with a predicate, with the block before them. Fails when: the compiler treats the kernel at hand
otherwise than most, as when it unrolls a loop whose body is large.
"""

import numpy as np

from kerncast.machine.forms import forms_of, predicated_blocks
from kerncast.machine.instruction_set import ENTRY, Step, kind_of, lowered
from kerncast.traces import Trace

#: Instructions whose predicate says where threads go; the threads that take the branch count as on.
_BRANCHES = {"BRA", "BRX", "EXIT"}


def estimated_steps(trace: Trace, architecture: int) -> list[Step]:
    """Return the steps that the executed PTX should become on an architecture, such as 75."""
    lowering = _Lowering(trace, architecture)
    for number, form in enumerate(forms_of(trace.function, trace.cfg)):
        lowering.add(number, form)
    for opcode, times in lowered(ENTRY, architecture):
        lowering.steps.append(lowering.step(opcode, 0, times, 1.0))
    return lowering.steps


class _Lowering:
    """The steps while they are collected."""

    def __init__(self, trace: Trace, architecture: int) -> None:
        self.trace = trace
        self.architecture = architecture
        self.steps: list[Step] = []
        self.block_of = [n for n, block in enumerate(trace.cfg.blocks) for _ in range(block.start, block.stop)]
        self.issued_with = predicated_blocks(trace.function, trace.cfg)
        self.block_threads = trace.counts.block_threads.sum(axis=0).astype(np.float64)
        guarded = trace.counts.guarded_threads.sum(axis=0)
        self.guarded = dict(zip(trace.counts.guarded, guarded.tolist(), strict=True))

    def add(self, number: int, form: str) -> None:
        """Add what one PTX instruction becomes."""
        block = self.block_of[number]
        issued = block
        while issued in self.issued_with:
            issued = self.issued_with[issued]
        threads = self.guarded.get(number, float(self.block_threads[block]))
        on = min(1.0, threads / float(self.block_threads[issued])) if self.block_threads[issued] else 0.0
        for opcode, times in lowered(form, self.architecture):
            share = self._taken(block) if opcode in _BRANCHES and issued == block else on
            self.steps.append(self.step(opcode, issued, times, share))

    def step(self, opcode: str, block: int, times: float, on: float) -> Step:
        """Return a step with its class and pipe."""
        kind = kind_of(opcode, (), self.architecture)
        return Step(opcode, kind.work, kind.pipe, block, times, on)

    def _taken(self, block: int) -> float:
        """Return the share of threads that a branch takes somewhere else, where block counts tell it."""
        following = self.trace.cfg.successors[block]
        own = float(self.block_threads[block])
        others = [to for to in set(following) if to != block + 1]
        if not own or len(set(following)) < 2 or len(others) != 1 or block + 1 >= self.trace.cfg.exit:
            return 1.0
        entered_by = [b for b, to in enumerate(self.trace.cfg.successors) if block + 1 in to]
        fallen = float(self.block_threads[block + 1]) if len(entered_by) == 1 else own / 2
        return min(1.0, max(0.0, 1.0 - fallen / own))
