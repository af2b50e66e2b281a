"""Natural loops of a control-flow graph.

An edge to a block that dominates its source closes a loop; the loop is all blocks that lead to such an edge without
passing its header. Edges to one header make one loop. A cycle with several entries has no header and is no natural
loop: the graph is then not reducible.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kerncast.ptx.dominance import DominatorTree, Graph, reversed_graph


@dataclass(frozen=True, slots=True)
class Loop:
    """One natural loop."""

    header: int
    """the block by which every thread enters"""
    body: frozenset[int]
    """all blocks, the header and those of inner loops included"""
    latches: tuple[int, ...]
    """blocks from which an edge closes the loop"""
    exits: tuple[tuple[int, int], ...]
    """edges (from, to) that leave the loop"""
    parent: int | None
    """number of the loop around this one"""
    depth: int
    """1 for an outermost loop"""


@dataclass(frozen=True, slots=True)
class LoopNest:
    """All loops of a graph."""

    loops: tuple[Loop, ...]
    """each behind the loop around it"""
    innermost: tuple[int | None, ...]
    """per block the number of the innermost loop around it"""
    is_reducible: bool
    """whether every cycle is closed by an edge to its header, so that no cycle is missing among the loops"""


def find_loops(successors: Graph, tree: DominatorTree) -> LoopNest:
    """Return the natural loops of a graph whose successor ``len(successors)`` is the exit.

    >>> from kerncast.ptx.dominance import dominators
    >>> graph = [[1], [2, 3], [1], [4]]
    >>> [(loop.header, sorted(loop.body), loop.exits) for loop in find_loops(graph, dominators(graph)).loops]
    [(1, [1, 2], ((1, 3),))]
    """
    predecessors = reversed_graph([*successors, ()])
    latches: dict[int, list[int]] = {}
    for block, following in enumerate(successors):
        for successor in dict.fromkeys(following):
            if tree.dominates(successor, block):
                latches.setdefault(successor, []).append(block)
    bodies = {header: _body(header, tails, predecessors, tree) for header, tails in latches.items()}
    innermost: list[int | None] = [None] * len(successors)
    loops: list[Loop] = []
    for header in sorted(bodies, key=lambda header: (-len(bodies[header]), header)):
        body = bodies[header]
        exits = tuple((b, s) for b in sorted(body) for s in dict.fromkeys(successors[b]) if s not in body)
        parent = innermost[header]
        depth = 1 if parent is None else loops[parent].depth + 1
        for block in body:
            innermost[block] = len(loops)
        loops.append(Loop(header, body, tuple(latches[header]), exits, parent, depth))
    return LoopNest(tuple(loops), tuple(innermost), _is_reducible(successors, tree))


def _body(
    header: int, latches: Sequence[int], predecessors: Sequence[Sequence[int]], tree: DominatorTree
) -> frozenset[int]:
    body = {header}
    waiting = list(latches)
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting += [p for p in predecessors[block] if tree.reaches(p)]
    return frozenset(body)


def _is_reducible(successors: Graph, tree: DominatorTree) -> bool:
    """Return whether no cycle is left without the edges that close loops, among blocks that are reached."""
    forward = {
        block: [s for s in dict.fromkeys(following) if s < len(successors) and not tree.dominates(s, block)]
        for block, following in enumerate(successors)
        if tree.reaches(block)
    }
    open_edges = dict.fromkeys(forward, 0)
    for following in forward.values():
        for successor in following:
            open_edges[successor] += 1
    ready = [block for block, count in open_edges.items() if not count]
    done = 0
    while ready:
        done += 1
        for successor in forward[ready.pop()]:
            open_edges[successor] -= 1
            if not open_edges[successor]:
                ready.append(successor)
    return done == len(forward)
