"""What the counts of the PTX say about how often the blocks of the machine code ran.

Loops are unrolled, blocks are merged and branches become predicates, so that a machine block has no one PTX block.
Each line of the PTX gives an equation instead: all its copies together ran as often as the line.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from kerncast.execute.machine.anchors import is_anchor, stays_in_place
from kerncast.execute.machine.control_flow import MachineGraph
from kerncast.execute.machine.ptx_counts import PtxCounts

#: Routines for operands that are not finite, or too small or too large: their calls are taken as not executed.
_RARE = re.compile(r"slowpath|mediumpath|_full")
#: How much an instruction counts that the compiler moves and merges, against one that it does not.
_WEAK = 0.05
#: Share of its dominator's count below which an error of a count matters no more.
_FLOOR = 0.2
_SMALLEST = 1e-3

Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Executions of machine blocks, times copies, sum up to a count; a deviation costs the weight."""

    terms: Terms
    """(machine block, copies)"""
    count: float
    """per thread"""
    weight: float


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Where the lines of the PTX stand in the machine code, without instructions that have a guard."""

    anchors: dict[int, Counter[int]]
    """per line: machine block, and how often its anchors stand there"""
    others: dict[int, Counter[int]]
    """per line: machine block, and how often the most frequent of its other instructions stands there"""


def rare_blocks(graph: MachineGraph) -> frozenset[int]:
    """Return the blocks that call a routine for rare operands."""
    return frozenset(block for block in graph.main if _RARE.search(graph.blocks[block].called))


def occurrences(graph: MachineGraph, executed: PtxCounts) -> Occurrences:
    """Find the lines of the PTX in the kernel's own machine code."""
    anchors: dict[int, Counter[int]] = defaultdict(Counter)
    others: dict[int, Counter[int]] = defaultdict(Counter)
    for number in sorted(graph.main):
        block = graph.blocks[number]
        same: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
        for ins in graph.code[block.start : block.stop]:
            if ins.guard or ins.line not in executed.on_line:
                continue
            if is_anchor(ins, executed.first(ins.line)):
                anchors[ins.line][number] += 1
            elif stays_in_place(ins):
                same[ins.line, ins.opcode, ins.modifiers] += 1
        for (line, _, _), copies in same.items():
            others[line][number] = max(others[line][number], copies)
    return Occurrences(dict(anchors), dict(others))


def equations(graph: MachineGraph, executed: PtxCounts, found: Occurrences) -> list[Equation]:
    """Return what each line says; lines of PTX blocks that have anchors speak through these alone."""
    anchored = {executed.block(line) for line in found.anchors}
    copies = _copies(executed, found)
    rare = rare_blocks(graph)
    summed: dict[tuple[Terms, float, float], float] = defaultdict(float)
    for line in sorted(found.anchors.keys() | found.others.keys()):
        if any(executed.code[number].guard is not None for number in executed.on_line[line]):
            continue
        block, count = executed.block(line), executed.count(line)
        terms: Terms = ()
        if line in found.anchors:
            terms = tuple(sorted(found.anchors[line].items()))
        elif block not in anchored:
            terms = tuple((at, copies[at, block]) for at in sorted(found.others[line]) if at not in rare)
        if terms:
            summed[terms, count, _floor(executed, block, count)] += 1.0 if line in found.anchors else _WEAK
    return [Equation(terms, count, weight / floor) for (terms, count, floor), weight in summed.items()]


def _copies(executed: PtxCounts, found: Occurrences) -> dict[tuple[int, int], int]:
    """Return how often a PTX block stands in a machine block: the median over its lines there."""
    counts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for line, places in found.others.items():
        for at, copies in places.items():
            counts[at, executed.block(line)].append(copies)
    return {place: max(1, int(np.median(values))) for place, values in counts.items()}


def _floor(executed: PtxCounts, block: int, count: float) -> float:
    above = executed.cfg.dominators.parents[block]
    return max(count, _FLOOR * (executed.block_threads[above] if above is not None else 1.0), _SMALLEST)
