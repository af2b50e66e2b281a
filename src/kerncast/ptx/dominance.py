"""Dominators and post-dominators of a control-flow graph.

Source: Cooper, Harvey, Kennedy, "A simple, fast dominance algorithm", Rice University, 2001.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Graph = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class DominatorTree:
    """Which blocks every path from the root passes; of post-dominators the root is the exit and paths go backwards."""

    root: int
    parents: tuple[int | None, ...]
    """per block, and for the exit behind them, the immediate dominator; None at the root and where no path leads"""
    spans: tuple[tuple[int, int], ...]
    """per block its number in a walk through the tree and that of the last block below it; (0, -1) off the tree"""

    def dominates(self, above: int, below: int) -> bool:
        """Return whether every path from the root to ``below`` passes ``above``; false if there is no path at all."""
        first, last = self.spans[above]
        return first <= self.spans[below][0] <= last and self.reaches(below)

    def reaches(self, block: int) -> bool:
        """Return whether a path leads from the root to a block."""
        return self.spans[block][1] >= 0


def dominators(successors: Graph) -> DominatorTree:
    """Return the dominators of the blocks of a graph; the successor ``len(successors)`` is the exit.

    >>> dominators([[1, 2], [3], [3]]).parents
    (None, 0, 0, 0)
    """
    return _tree([*successors, ()], 0)


def post_dominators(successors: Graph) -> DominatorTree:
    """Return the post-dominators: where threads that part at a branch have to meet again.

    >>> post_dominators([[1, 2], [3], [3]]).parents
    (3, 3, 3, None)
    """
    return _tree(reversed_graph([*successors, ()]), len(successors))


def reversed_graph(graph: Graph) -> list[list[int]]:
    """Return the predecessors of each block."""
    predecessors: list[list[int]] = [[] for _ in graph]
    for block, following in enumerate(graph):
        for successor in dict.fromkeys(following):
            predecessors[successor].append(block)
    return predecessors


def _tree(graph: Graph, root: int) -> DominatorTree:
    """Take the meeting point of all predecessors as the immediate dominator until nothing changes."""
    order = _postorder(graph, root)
    rank = {block: number for number, block in enumerate(order)}
    predecessors = reversed_graph(graph)
    found = {root: root}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [p for p in predecessors[block] if p in found]
            nearest = known[0]
            for other in known[1:]:
                nearest = _meeting(nearest, other, found, rank)
            changed |= found.get(block) != nearest
            found[block] = nearest
    parents = tuple(None if block == root else found.get(block) for block in range(len(graph)))
    return DominatorTree(root, parents, _spans(parents, root))


def _meeting(one: int, other: int, found: dict[int, int], rank: dict[int, int]) -> int:
    while one != other:
        while rank[one] < rank[other]:
            one = found[one]
        while rank[other] < rank[one]:
            other = found[other]
    return one


def _postorder(graph: Graph, root: int) -> list[int]:
    """Return the blocks that the root reaches, each after those first found from it; without recursion."""
    order = []
    seen = {root}
    stack = [(root, iter(graph[root]))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(graph[successor])))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def _spans(parents: Sequence[int | None], root: int) -> tuple[tuple[int, int], ...]:
    children: list[list[int]] = [[] for _ in parents]
    for block, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(block)
    below = _postorder(children, root)[::-1]
    number = {block: place for place, block in enumerate(below)}
    last = dict(number)
    for block in reversed(below):
        parent = parents[block]
        if parent is not None:
            last[parent] = max(last[parent], last[block])
    return tuple((number[block], last[block]) if block in number else (0, -1) for block in range(len(parents)))
