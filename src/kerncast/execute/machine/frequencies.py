"""How often each block of the machine code ran: the flow of threads that fits the counts of the PTX best.

Threads are conserved: as many leave a block as enter it. Among all flows through the machine code, the one is taken
with the least sum of weighted deviations from what the PTX says, and of those that deviate equally the one with the
fewest instructions, which prefers unrolled loops to their remainders. It is a linear program.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from kerncast.execute.machine.control_flow import MachineGraph
from kerncast.execute.machine.evidence import Equation, equations, occurrences, rare_blocks
from kerncast.execute.machine.linear_program import Floats, NotSolvedError, solve_linear_program
from kerncast.execute.machine.ptx_counts import PtxCounts
from kerncast.execute.machine.unrolling import Limit, unrolling_limits

#: Cost of all instructions of the PTX, against an anchor that is off by its whole count.
_LENGTH_COST = 0.05
_LIMIT_COST = 0.5
_LIMIT_FLOOR = 0.2
#: Cost of an edge that is taken for operands, or for warps, that are rare.
_RARE_COST = 100.0
#: Rows of the program beyond which its solution takes more than about ten seconds.
_MOST_ROWS = 1500
_RARE_BRANCHES = {"DIV", "CONV"}


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Executions per thread."""

    blocks: dict[int, float]
    """by machine block"""
    edges: dict[tuple[int, int], float]
    """by machine blocks; the exit is one past the last"""


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
        """Return the best flow along each edge; raises NotSolvedError, for a program that is too large too."""
        if len(self.rows) > _MOST_ROWS:
            raise NotSolvedError
        matrix = np.zeros((len(self.rows), len(self.costs)))
        for number, row in enumerate(self.rows):
            matrix[number, list(row)] = list(row.values())
        right = np.array(self.right)
        scale = 1.0 / np.maximum(np.abs(right), 1.0)
        flows = solve_linear_program(np.array(self.costs), matrix * scale[:, None], right * scale)
        return flows[: len(self.edges)]

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
