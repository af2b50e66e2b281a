"""The order in which a warp runs the basic blocks of a function, so that diverged threads meet again.

Every thread of a warp stands at a place; the warp runs the threads at its first place, and the others wait. Threads
that went different ways meet because each block comes after all blocks from which it can be reached, loops aside. The
blocks of a loop stand together, before whatever follows the loop, so that threads which have left it wait for those
which have not; and behind them stands a turn, where threads that are done with an iteration wait for the others of
their warp. A thread that has left the function waits for nobody and nobody waits for it, unlike with meeting points
at immediate post-dominators, where an early return would keep the others apart.

Source: Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011; the order is that of nested strongly
connected components.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """Places in the order in which a warp visits them."""

    block_at: tuple[int, ...]
    """per place the block that runs there; at a turn the head of the loop, which is where threads go on"""
    is_turn: tuple[bool, ...]
    place_of: tuple[int, ...]
    """per block its place"""
    targets: tuple[tuple[int, ...], ...]
    """per block the places of its successors: a turn where an edge closes a loop"""

    @property
    def end(self) -> int:
        """The place of threads that have left the function."""
        return len(self.block_at)


def arrange(successors: Sequence[Sequence[int]]) -> Order:
    """Order the blocks of a graph; the successor ``len(successors)`` is the exit.

    >>> arrange([[1], [3, 2], [1], [4]])  # 0 leads to the loop of 1 and 2, then 3
    Order(block_at=(0, 1, 2, 1, 3), is_turn=(False, False, False, True, False), place_of=(0, 1, 2, 4), targets=((1,), (4, 2), (3,), (5,)))
    """  # noqa: E501  one line of output
    count = len(successors)
    inner = {block: [s for s in following if s < count] for block, following in enumerate(successors)}
    predecessors: list[set[int]] = [set() for _ in range(count)]
    for block, following in inner.items():
        for successor in following:
            predecessors[successor].add(block)
    places = _arrange(inner, predecessors)
    place_of = {block: place for place, (block, members) in enumerate(places) if not members}
    place_of[count] = len(places)
    turns = {(member, block): place for place, (block, members) in enumerate(places) for member in members}
    targets = [tuple(turns.get((b, s), place_of[s]) for s in following) for b, following in enumerate(successors)]
    return Order(
        tuple(block for block, _ in places),
        tuple(bool(members) for _, members in places),
        tuple(place_of[block] for block in range(count)),
        tuple(targets),
    )


_Place = tuple[int, frozenset[int]]
"""a block and nothing, or the head of a loop and the members of that loop"""


def _arrange(graph: Mapping[int, list[int]], predecessors: Sequence[set[int]]) -> list[_Place]:
    places: list[_Place] = []
    for component in _sorted_components(graph):
        entered = {block for block in component if predecessors[block] - component}
        head = 0 if 0 in component else min(entered or component)
        if len(component) == 1 and head not in graph[head]:
            places.append((head, frozenset()))
            continue
        rest = component - {head}
        inside = {block: [s for s in graph[block] if s in rest] for block in sorted(rest)}
        places.append((head, frozenset()))
        places += _arrange(inside, predecessors)
        places.append((head, frozenset(component)))
    return places


def _sorted_components(graph: Mapping[int, list[int]]) -> Iterable[set[int]]:
    """Yield strongly connected components, each after those that lead to it; else in the order of the text."""
    components = _components(graph)
    number_of = {block: number for number, component in enumerate(components) for block in component}
    following = [{number_of[s] for block in c for s in graph[block]} - {n} for n, c in enumerate(components)]
    open_edges = [0] * len(components)
    for numbers in following:
        for number in numbers:
            open_edges[number] += 1
    ready = [(min(component), n) for n, component in enumerate(components) if not open_edges[n]]
    heapq.heapify(ready)
    while ready:
        _, number = heapq.heappop(ready)
        yield components[number]
        for other in following[number]:
            open_edges[other] -= 1
            if not open_edges[other]:
                heapq.heappush(ready, (min(components[other]), other))


def _components(graph: Mapping[int, list[int]]) -> list[set[int]]:
    """Return the strongly connected components (Tarjan 1972, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_blocks: list[int] = []
    is_open: set[int] = set()
    components = []
    for root in graph:
        work = [] if root in index else [(root, iter(graph[root]))]
        while work:
            block, rest = work[-1]
            if block not in index:
                index[block] = low[block] = len(index)
                open_blocks.append(block)
                is_open.add(block)
            for successor in rest:
                if successor not in index:
                    work.append((successor, iter(graph[successor])))
                    break
                if successor in is_open:
                    low[block] = min(low[block], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[block])
                if low[block] == index[block]:
                    components.append(_popped(open_blocks, block))
                    is_open -= components[-1]
    return components


def _popped(stack: list[int], last: int) -> set[int]:
    popped = {stack.pop()}
    while last not in popped:
        popped.add(stack.pop())
    return popped
