"""Executions of each block of the machine code: the flow of threads that fits the counts of the PTX best.

Threads are conserved: as many leave a block as enter it. Among all flows through the machine code, the one is taken
with the least sum of weighted deviations from what the PTX says, and of those that deviate equally the one with the
fewest instructions, which prefers unrolled loops to their remainders. It is a linear program.
"""

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from kerncast.machine.control_flow import MachineGraph, is_anchor, pieces_of, stays_in_place
from kerncast.machine.linear_program import Floats, NotSolvedError, solve_linear_program
from kerncast.machine.ptx_counts import PtxCounts

# What the counts of the PTX say about how often the blocks of the machine code ran.
#
# Loops are unrolled, blocks are merged and branches become predicates, so that a machine block has no one PTX block.
# Each line of the PTX gives an equation instead: all its copies together ran as often as the line.


#: Routines for operands that are not finite, or too small or too large: their calls are taken as not executed.
_RARE = re.compile(r"slowpath|mediumpath|_full")
#: Weight of an instruction that the compiler moves and merges, relative to one that it does not.
_WEAK = 0.05
#: Share of its dominator's count below which an error of a count matters no more.
_FLOOR = 0.2
_SMALLEST = 1e-3

Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Executions of machine blocks, times copies, sum up to a count; a deviation costs the weight."""

    terms: Terms
    """pairs (machine block, copies)"""
    count: float
    """executions per thread"""
    weight: float


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The occurrences of PTX lines in the machine code, without instructions that have a guard."""

    anchors: dict[int, Counter[int]]
    """anchors of each line in each machine block"""
    others: dict[int, Counter[int]]
    """most frequent other instruction of each line in each machine block: how often it occurs there"""


def rare_blocks(graph: MachineGraph) -> frozenset[int]:
    """Return the blocks that call a routine for rare operands."""
    return frozenset(block for block in graph.main if _RARE.search(graph.blocks[block].called))


def occurrences(graph: MachineGraph, executed: PtxCounts) -> Occurrences:
    """Find the lines of the PTX in the kernel's own machine code."""
    anchors: dict[int, Counter[int]] = defaultdict(Counter)
    others: dict[int, Counter[int]] = defaultdict(Counter)
    for number in sorted(graph.main):
        block = graph.blocks[number]
        same: Counter[tuple[int, str, tuple[str, ...], int]] = Counter()
        for ins in graph.code[block.start : block.stop]:
            if ins.guard or ins.line not in executed.on_line:
                continue
            if is_anchor(ins, executed.first(ins.line)):
                anchors[ins.line][number] += 1
            elif stays_in_place(ins, first := executed.first(ins.line)):
                same[ins.line, ins.opcode, ins.modifiers, pieces_of(ins, first)] += 1
        for (line, _, _, pieces), copies in same.items():
            others[line][number] = max(others[line][number], round(copies / executed.copies(line) / pieces), 1)
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
            count /= executed.copies(line)
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


# How often unrolled copies of a loop can run at most.
#
# A loop of n iterations, unrolled c times, runs its main loop floor(n / c) times and the rest in a smaller loop or in
# straight code. The equations of the lines leave open how the iterations are shared.


_NEARLY = 1e-5
#: Iterations of the loops that are entered at all, relative to the mean, where numbers of iterations vary.
_VARIATION = 2.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a machine block ran: so often per thread, and so often each time that its loop is entered."""

    block: int
    most: float = 0.0
    per_entry: float = 0.0
    entering: tuple[tuple[int, int], ...] = ()
    """edges into the block's loop; empty for a block in no loop"""


@dataclass(frozen=True, slots=True)
class _Region:
    """Machine code that holds copies of a loop's body."""

    copies: int
    is_straight: bool
    """whether the code runs at most once each time that the loop is entered"""
    block: int


@dataclass(frozen=True, slots=True)
class _Turns:
    """A loop of the PTX, and how many of its iterations one of the machine code does."""

    loop: int
    copies: int


def unrolling_limits(graph: MachineGraph, executed: PtxCounts, found: Occurrences) -> list[Limit]:
    """Return the limits of all regions that hold several copies of a loop's body."""
    regions: dict[int, list[_Region]] = defaultdict(list)
    connected: list[Limit] = []
    loop_of = _matching_loops(graph, executed)
    for number, ptx_loop in loop_of.items():
        loop = graph.loops.loops[number]
        own = [block for block in loop.body if graph.loops.innermost[block] == number]
        if copies := _most_copies(executed, found, own, ptx_loop):
            regions[ptx_loop].append(_Region(copies, is_straight=False, block=loop.header))
            connected += _connection(graph, executed, number, _Turns(ptx_loop, copies))
    for block in sorted(graph.main):
        around = _loops_around(graph, loop_of, block)
        loops = {executed.loop(line) for line, places in found.anchors.items() if block in places}
        for ptx_loop in sorted(loop for loop in loops if loop is not None and loop not in around):
            copies = _most_copies(executed, found, [block], ptx_loop)
            regions[ptx_loop].append(_Region(copies, is_straight=True, block=block))
    return connected + [limit for loop, parts in sorted(regions.items()) for limit in _limits(executed, loop, parts)]


def _connection(graph: MachineGraph, executed: PtxCounts, number: int, turns: "_Turns") -> list[Limit]:
    """Return that a machine loop only runs where it is entered, which conservation alone does not say."""
    entries, trips = _trips(executed, turns.loop)
    if entries < _NEARLY:
        return []
    loop = graph.loops.loops[number]
    entering = tuple(
        (a, loop.header) for a in sorted(graph.main - loop.body) if loop.header in graph.blocks[a].successors
    )
    most = trips / turns.copies
    most = math.floor(most + _NEARLY) if _is_whole(trips) else _VARIATION * most
    return [Limit(loop.header, per_entry=max(1.0, most), entering=entering)]


def _trips(executed: PtxCounts, loop: int) -> tuple[float, float]:
    """Return how often a loop of the PTX was entered, and its mean number of iterations."""
    entries = executed.entries(loop)
    header = float(executed.block_threads[executed.cfg.loops.loops[loop].header])
    return entries, header / entries if entries > _NEARLY else 0.0


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < _NEARLY


def _limits(executed: PtxCounts, loop: int, regions: list[_Region]) -> list[Limit]:
    """Share the iterations among the regions, those with the most copies first."""
    entries, left = _trips(executed, loop)
    if entries < _NEARLY:
        return []
    is_fixed = _is_whole(left)
    limits = []
    for region in sorted(regions, key=lambda r: (-r.copies, r.is_straight, r.block)):
        if region.copies < 2:
            continue
        # Numbers of iterations that vary leave, on average, half of what the largest rest is.
        turns = left / region.copies if is_fixed else (left - (region.copies - 1) / 2) / region.copies
        turns = max(0.0, math.floor(turns + _NEARLY) if is_fixed else turns)
        turns = min(turns, 1.0) if region.is_straight else turns
        limits.append(Limit(region.block, turns * entries))
        left -= region.copies * turns
    return limits


def _matching_loops(graph: MachineGraph, executed: PtxCounts) -> dict[int, int]:
    """Return the PTX loop of each machine loop: the one that the same branch closes."""
    closed_by = {latch: number for number, loop in enumerate(executed.cfg.loops.loops) for latch in loop.latches}
    found = {}
    for number, loop in enumerate(graph.loops.loops):
        lines = [graph.code[graph.blocks[latch].stop - 1].line for latch in loop.latches]
        blocks = [executed.block(line) for line in lines if line in executed.on_line]
        if blocks:
            inner = executed.cfg.loops.innermost[blocks[0]]
            match = closed_by.get(blocks[0], inner)
            if match is not None:
                found[number] = match
    return found


def _most_copies(executed: PtxCounts, found: Occurrences, blocks: list[int], ptx_loop: int) -> int:
    """Return how often the anchors of a loop stand in blocks; where it has none, its other instructions."""
    for places in (found.anchors, found.others):
        copies: Counter[int] = Counter()
        for line, at in places.items():
            if executed.loop(line) == ptx_loop:
                copies[line] = sum(at[block] for block in blocks)
        if any(copies.values()):
            return max(copies.values())
    return 0


def _loops_around(graph: MachineGraph, loop_of: dict[int, int], block: int) -> set[int]:
    """Return the PTX loops of the machine loops around a block."""
    around = set()
    number = graph.loops.innermost[block]
    while number is not None:
        if number in loop_of:
            around.add(loop_of[number])
        number = graph.loops.loops[number].parent
    return around


#: Cost of all instructions of the PTX, against an anchor that is off by its whole count.
_LENGTH_COST = 0.05
_LIMIT_COST = 0.5
_LIMIT_FLOOR = 0.2
#: Cost of an edge that is taken for operands, or for warps, that are rare.
_RARE_COST = 100.0
#: Rows of the program beyond which its solution takes more than about ten seconds.
_MOST_ROWS = 1500
#: Digits of the largest flow.
_DIGITS = 6
_RARE_BRANCHES = {"DIV", "CONV"}


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Executions per thread."""

    blocks: dict[int, float]
    """executions of each machine block, per thread"""
    edges: dict[tuple[int, int], float]
    """executions of each edge between machine blocks, per thread; the exit is one past the last block"""


def block_frequencies(graph: MachineGraph, executed: PtxCounts) -> Frequencies:
    """Return how often the blocks ran; raises NotSolvedError."""
    found = occurrences(graph, executed)
    program = _Program(graph)
    for block in program.blocks:
        program.add_conservation(block)
    for equation in equations(graph, executed, found):
        program.add_equation(equation)
    for limit in unrolling_limits(graph, executed, found):
        program.add_limit(limit)
    program.add_costs(rare_blocks(graph), _LENGTH_COST / max(1.0, executed.work))
    flows = program.solve()
    blocks = {block: sum(flows[edge] for edge in program.leaving[block]) for block in program.blocks}
    return Frequencies(blocks, {pair: float(flows[n]) for n, pair in enumerate(program.edges)})


class _Program:
    """The linear program while it is written; its first unknowns are the edges, the others take up deviations."""

    def __init__(self, graph: MachineGraph) -> None:
        self.graph = graph
        self.blocks = sorted(graph.main | graph.called)
        self.edges = [(a, b) for a in self.blocks for b in dict.fromkeys(graph.blocks[a].successors)]
        self.leaving: dict[int, list[int]] = defaultdict(list)
        self.entering: dict[int, list[int]] = defaultdict(list)
        for number, (a, b) in enumerate(self.edges):
            self.leaving[a].append(number)
            self.entering[b].append(number)
        self.costs = [0.0] * len(self.edges)
        self.rows: list[dict[int, float]] = []
        self.right: list[float] = []

    def add_conservation(self, block: int) -> None:
        """What enters a block leaves it; a routine is also entered by the blocks that call it."""
        row: Counter[int] = Counter(self.entering[block])
        row.subtract(self.leaving[block])
        for caller in self.blocks:
            if self.graph.blocks[caller].calls == block:
                row.update(self.leaving[caller])
        self._add({edge: float(n) for edge, n in row.items() if n}, -1.0 if block == 0 else 0.0)

    def add_equation(self, equation: Equation) -> None:
        """Let the flow deviate from an equation, at its cost."""
        row = self._sum(equation.terms)
        row[self._unknown(equation.weight)] = -1.0
        row[self._unknown(equation.weight)] = 1.0
        self._add(row, equation.count)

    def add_limit(self, limit: Limit) -> None:
        """Let a block run more often than its limit, at a cost, and less often for nothing."""
        row = self._sum(((limit.block, 1),))
        for edge in limit.entering:
            row[self.edges.index(edge)] = row.get(self.edges.index(edge), 0.0) - limit.per_entry
        row[self._unknown(0.0)] = 1.0
        row[self._unknown(_LIMIT_COST / max(limit.most, _LIMIT_FLOOR))] = -1.0
        self._add(row, limit.most)

    def add_costs(self, rare: frozenset[int], cost: float) -> None:
        """Let instructions cost a little, and rare ways much."""
        for block in self.blocks:
            place = self.graph.blocks[block]
            last = self.graph.code[place.stop - 1]
            for edge in self.leaving[block]:
                self.costs[edge] += cost * (place.stop - place.start) + (_RARE_COST if block in rare else 0.0)
            if _RARE_BRANCHES.intersection(last.modifiers):
                self.costs[self.leaving[block][0]] += _RARE_COST

    def solve(self) -> Floats:
        """Return the best flow along each edge; raises NotSolvedError, for a program that is too large too.

        Rounded to what the solver is good for: beyond, this machine's way to add products decides, and a simulation
        that follows such digits ends at another time elsewhere.
        """
        if len(self.rows) > _MOST_ROWS:
            raise NotSolvedError
        matrix = np.zeros((len(self.rows), len(self.costs)))
        for number, row in enumerate(self.rows):
            matrix[number, list(row)] = list(row.values())
        right = np.array(self.right)
        scale = 1.0 / np.maximum(np.abs(right), 1.0)
        flows = solve_linear_program(np.array(self.costs), matrix * scale[:, None], right * scale)
        largest = max(1.0, float(np.abs(flows).max()))
        return np.round(flows[: len(self.edges)], _DIGITS - math.ceil(math.log10(largest)))

    def _sum(self, terms: tuple[tuple[int, int], ...]) -> dict[int, float]:
        row: Counter[int] = Counter()
        for block, copies in terms:
            for edge in self.leaving[block]:
                row[edge] += copies
        return {edge: float(n) for edge, n in row.items()}

    def _unknown(self, cost: float) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def _add(self, row: dict[int, float], right: float) -> None:
        self.rows.append(row)
        self.right.append(right)
