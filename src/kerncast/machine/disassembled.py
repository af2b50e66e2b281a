"""The steps of a kernel from its disassembled machine code."""

from collections import Counter, defaultdict

from kerncast.caveats import Caveat, CaveatKind
from kerncast.machine.control_flow import MachineGraph, is_anchor, machine_graph, stays_in_place
from kerncast.machine.frequencies import Frequencies, block_frequencies, rare_blocks
from kerncast.machine.instruction_set import Step, kind_of
from kerncast.machine.listing import MachineInstruction, MachineRoutine
from kerncast.machine.ptx_counts import PtxCounts, UnmatchedError
from kerncast.ptx import Trait

_JUMPS = {"BRA", "BRX", "JMP", "EXIT", "CALL", "RET"}
#: A selection becomes two moves, of which each thread does one, or one move that it may do.
_HALF = 0.5
_NEGLIGIBLE = 1e-8
_ANCHOR_VOTES = 4
#: Least executions of a PTX block, relative to the machine block's; with fewer it does not run with that block.
_ENOUGH = 0.99
#: Least share of instructions whose lines the PTX has; routines of the compiler and padding have none.
_MATCHED = 0.25
RARE = Caveat(CaveatKind.RARE_CODE_NOT_EXECUTED)


def disassembled_steps(
    routine: MachineRoutine, executed: PtxCounts, architecture: int
) -> tuple[list[Step], tuple[Caveat, ...]]:
    """Return the steps and what is in doubt; raises NotSolvedError and UnmatchedError."""
    graph = machine_graph(routine)
    matched = sum(ins.line in executed.on_line for ins in graph.code)
    if matched < _MATCHED * len(graph.code):
        raise UnmatchedError
    return Reading(graph, executed, block_frequencies(graph, executed)).steps(architecture), (
        (RARE,) if rare_blocks(graph) else ()
    )


class Reading:
    """Machine code whose blocks have counts."""

    def __init__(self, graph: MachineGraph, executed: PtxCounts, found: Frequencies) -> None:
        self.graph = graph
        self.executed = executed
        self.found = found
        self.ran = {block: times for block, times in found.blocks.items() if times > _NEGLIGIBLE}
        self.guarded: dict[tuple[object, ...], float] = defaultdict(float)
        """executions of guarded instructions, by the work that they do"""
        for block, times in self.ran.items():
            for ins in self.code_of(block):
                if ins.guard:
                    self.guarded[self._work(ins)] += times

    def steps(self, architecture: int) -> list[Step]:
        """Return the instructions that ran."""
        steps = []
        for block, times in sorted(self.ran.items()):
            beside = self.ptx_block(block, times)
            ratio = times / float(self.executed.block_threads[beside])
            for ins in self.code_of(block):
                kind = kind_of(ins.opcode, ins.modifiers, architecture)
                on = self.share_on(ins, block, times) if ins.guard else 1.0
                steps.append(Step(ins.opcode, kind.work, kind.pipe, beside, ratio, on))
        return steps

    def ptx_block(self, block: int, times: float) -> int:
        """Return the PTX block whose warps run a machine block: most of it, and as often or, unrolled, more often."""
        votes: Counter[int] = Counter()
        for ins in self.code_of(block):
            if not ins.guard and ins.line in self.executed.on_line:
                anchor = is_anchor(ins, self.executed.first(ins.line))
                votes[self.executed.block(ins.line)] += _ANCHOR_VOTES if anchor else 2 if stays_in_place(ins) else 1
        counts = self.executed.block_threads
        enough = [ptx for ptx in votes if counts[ptx] >= _ENOUGH * times]
        if enough:
            return max(enough, key=lambda ptx: (votes[ptx], -ptx))
        # Where threads meet again, the code bears lines of a block that few of them ran: one before it held them all.
        ptx: int | None = max(votes, key=lambda ptx: (votes[ptx], -ptx), default=0)
        while ptx is not None and counts[ptx] < _ENOUGH * times:
            ptx = self.executed.cfg.dominators.parents[ptx]
        return 0 if ptx is None else ptx

    def share_on(self, ins: MachineInstruction, block: int, times: float) -> float:
        """Return the share of threads whose predicate holds."""
        if ins.opcode in _JUMPS and self.graph.code[self.graph.blocks[block].stop - 1] is ins:
            to = self.graph.blocks[block].successors[0]
            return min(1.0, max(0.0, self.found.edges.get((block, to), 0.0) / times))
        if ins.line not in self.executed.on_line:
            return 1.0
        ptx = self.executed.first(ins.line)
        if ptx.opcode.has(Trait.RARE):
            return 0.0
        if ptx.root == "selp":
            return _HALF
        return min(1.0, self.executed.count(ins.line) / max(self.guarded[self._work(ins)], _NEGLIGIBLE))

    def _work(self, ins: MachineInstruction) -> tuple[object, ...]:
        """Return what instructions share that do the work of one PTX instruction between them.

        A local array in registers is read by a chain of moves, of which each thread does one.
        """
        ptx = self.executed.first(ins.line) if ins.line in self.executed.on_line else None
        if ptx is not None and ptx.space == "local" and ins.opcode not in {"LDL", "STL"}:
            return (ins.line,)
        return ins.line, ins.opcode, ins.modifiers

    def code_of(self, block: int) -> tuple[MachineInstruction, ...]:
        """Return the instructions of a machine block."""
        place = self.graph.blocks[block]
        return self.graph.code[place.start : place.stop]
