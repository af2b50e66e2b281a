"""Executions of each line of a kernel's PTX, for machine instructions that come from it."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kerncast.ptx import ControlFlowGraph, Instruction
from kerncast.traces import Trace

Floats = npt.NDArray[np.float64]


#: The time to solve for the edges that nothing determines grows with the third power: 1,200 take a second.
_MOST_EDGES = 1200


class UnmatchedError(Exception):
    """Machine code, PTX and trace do not belong together, or the code is not understood."""


@dataclass(frozen=True)  # no slots: what is derived from the counts is computed once and kept
class PtxCounts:
    """Executions per thread of the executed blocks of threads, by PTX instruction, basic block and line."""

    code: tuple[Instruction, ...]
    cfg: ControlFlowGraph
    threads: Floats
    """[instructions] executions per thread, with guards applied"""
    block_threads: Floats
    """[basic blocks] executions per thread"""

    @cached_property
    def block_of(self) -> list[int]:
        """Basic block of each instruction."""
        return [number for number, block in enumerate(self.cfg.blocks) for _ in range(block.start, block.stop)]

    @cached_property
    def on_line(self) -> dict[int, list[int]]:
        """Instructions on each line; a call that is inlined twice repeats its lines."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, instruction in enumerate(self.code):
            found[instruction.line].append(number)
        return dict(found)

    @cached_property
    def work(self) -> float:
        """PTX instructions per thread."""
        return float(sum(n * (b.stop - b.start) for n, b in zip(self.block_threads, self.cfg.blocks, strict=True)))

    def count(self, line: int) -> float:
        """Return how often a line was executed."""
        return float(sum(self.threads[number] for number in self.on_line[line]))

    def copies(self, line: int) -> int:
        """Return how many instructions of a line stand in one block: of a statement that has become several, all."""
        return max(Counter(self.block_of[number] for number in self.on_line[line]).values())

    def first(self, line: int) -> Instruction:
        """Return the instruction on a line; those on it differ only in the names of registers."""
        return self.code[self.on_line[line][0]]

    def block(self, line: int) -> int:
        """Return the basic block of a line, the first where a call was inlined twice."""
        return self.block_of[self.on_line[line][0]]

    def loop(self, line: int) -> int | None:
        """Return the number of the innermost loop around a line."""
        return self.cfg.loops.innermost[self.block(line)]

    @cached_property
    def edges(self) -> dict[tuple[int, int], float]:
        """How many threads went from a block to another, per edge.

        What enters a block is what it executes, and so is what leaves it: the least-squares solution is exact where
        the counts of the blocks decide the edges, as they do in structured control flow. Blocks that no thread ran have
        no part in it.
        """
        ran = [number for number, threads in enumerate(self.block_threads) if threads > 0 or number == 0]
        place = {number: at for at, number in enumerate(ran)}
        every = [(a, b) for a, block in enumerate(self.cfg.blocks) for b in dict.fromkeys(block.successors)]
        pairs = [(a, b) for a, b in every if a in place and (b in place or b == self.cfg.exit)]
        sums = [list[int]() for _ in range(2 * len(ran))]
        for edge, (a, b) in enumerate(pairs):
            sums[place[a]].append(edge)
            if b != self.cfg.exit:
                sums[len(ran) + place[b]].append(edge)
        leaving = self.block_threads[ran]
        entering = leaving.copy()
        entering[0] -= 1.0
        flows = flows_of(sums, np.concatenate([leaving, entering]), len(pairs))
        return dict.fromkeys(every, 0.0) | dict(zip(pairs, flows.tolist(), strict=True))

    def entries(self, loop: int) -> float:
        """Return how often a loop was entered from outside."""
        one = self.cfg.loops.loops[loop]
        return max(0.0, sum(n for (a, b), n in self.edges.items() if b == one.header and a not in one.body))


def flows_of(sums: Sequence[Sequence[int]], totals: Floats, edges: int) -> Floats:
    """Return the flow of each edge, of sums of edges that are known; the least ones where sums leave a choice.

    Of a sum in which all edges but one are known, that one is known, too: in most code nothing is left to be solved.
    Raises UnmatchedError where too much is.

    >>> flows_of([[0, 1], [0], [1, 2]], np.array([3.0, 1.0, 7.0]), 3).tolist()
    [1.0, 2.0, 5.0]
    """
    flows, is_known = np.zeros(edges), np.zeros(edges, np.bool_)
    holding = [list[int]() for _ in range(edges)]
    for number, members in enumerate(sums):
        for edge in members:
            holding[edge].append(number)
    left = [len(members) for members in sums]
    rest = totals.astype(np.float64)
    waiting = [number for number, count in enumerate(left) if count == 1]
    while waiting:
        number = waiting.pop()
        for edge in (each for each in sums[number] if not is_known[each]):
            flows[edge], is_known[edge] = rest[number], True
            for other in holding[edge]:
                left[other] -= 1
                rest[other] -= flows[edge]
                if left[other] == 1:
                    waiting.append(other)
    unknown = np.flatnonzero(~is_known)
    if len(unknown) > _MOST_EDGES:
        raise UnmatchedError
    if len(unknown):
        rows = [number for number, count in enumerate(left) if count]
        matrix = np.array([np.isin(unknown, sums[number]) for number in rows], np.float64)
        flows[unknown] = np.linalg.lstsq(matrix, rest[rows], rcond=None)[0]
    return flows


def count_lines(trace: Trace) -> PtxCounts:
    """Return how often the lines of a kernel ran in the executed blocks of threads."""
    threads = trace.thread_executions.sum(axis=0).astype(np.float64)
    block_threads = trace.counts.block_threads.sum(axis=0).astype(np.float64)
    started = max(1.0, float(block_threads[0]))
    return PtxCounts(trace.function.instructions, trace.cfg, threads / started, block_threads / started)
