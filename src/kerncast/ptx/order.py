"""The order in which a warp runs the basic blocks of a function, so that diverged threads meet again.

Every thread of a warp stands at a place; the warp runs the threads at its first place, and the others wait. Threads
that went different ways meet because each block comes after all blocks from which it can be reached, loops aside. The
blocks of a loop stand together, before whatever follows the loop, so that threads which have left it wait for those
which have not; and behind them stands a turn, where threads that are done with an iteration wait for the others of
their warp. A thread that has left the function waits for nobody and nobody waits for it, unlike with meeting points
at immediate post-dominators, where an early return would keep the others apart. In structured code without such
returns threads meet at the immediate post-dominator, also where nested loops share their head.

Source: Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011; the order is that of nested strongly
connected components.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kerncast.errors import UnsupportedError
from kerncast.ptx.dominance import DominatorTree, dominators, post_dominators

_WORK_LIMIT = 3_000_000
"""blocks and edges that are looked at, once for every loop around them; keeps a hostile text from taking minutes"""


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
    places = _arrange(inner, predecessors, (dominators(successors), post_dominators(successors)))
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
"""a block and nothing, or the head of a loop and the blocks whose edges to it wait there"""

_Blocks = dict[int, list[int]]
"""some blocks with the edges between them"""

_Dominance = tuple[DominatorTree, DominatorTree]
"""dominators and post-dominators of the whole graph"""


def _arrange(graph: _Blocks, predecessors: Sequence[set[int]], dominance: _Dominance) -> list[_Place]:
    """Put the parts of a graph one after the other, and take loops apart until only blocks are left."""
    places: list[_Place] = []
    waiting: list[_Place | _Blocks] = [graph]
    work = 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            places.append(part)
            continue
        work += len(part) + sum(map(len, part.values()))
        if work > _WORK_LIMIT:
            raise UnsupportedError("loops are nested too deeply")
        parts: list[_Place | _Blocks] = []
        for component in _sorted_components(part):
            entered = {block for block in component if predecessors[block] - component}
            head = 0 if 0 in component else min(entered or component)
            if len(component) == 1 and head not in part[head]:
                parts.append((head, frozenset()))
                continue
            # Loops that share a head may also be taken as one: it is right too, and takes less work.
            closing = _outer_latches(part, component, head, dominance) if work < _WORK_LIMIT // 4 else None
            parts += _take_apart(part, component, head, closing)
        waiting += reversed(parts)
    return places


def _take_apart(
    graph: _Blocks, component: set[int], head: int, closing: frozenset[int] | None
) -> list[_Place | _Blocks]:
    """Return the parts of a loop, without the edges that close it."""
    if closing:
        inner = {b: [s for s in graph[b] if s in component and (s != head or b not in closing)] for b in component}
        return [{block: inner[block] for block in sorted(component)}, (head, closing)]
    rest = component - {head}
    body = {block: [s for s in graph[block] if s in rest] for block in sorted(rest)}
    return [(head, frozenset()), body, (head, frozenset(component))]


def _outer_latches(graph: _Blocks, component: set[int], head: int, dominance: _Dominance) -> frozenset[int]:
    """Return the blocks that close the outer one of two nested loops which share their head; none if it is one loop.

    A block that all threads pass after the head parts the two: the edges before it close the inner loop.
    """
    dominating, meetings = dominance
    latches = {block: dominating.spans[block][0] for block in component if head in graph[block]}
    if len(latches) < 2:
        return frozenset()
    numbers = sorted(latches.values())
    passed = [dominating.spans[b] for b in component if b != head and meetings.dominates(b, head)]
    behind = ((bisect_right(numbers, last) - bisect_left(numbers, first), first, last) for first, last in passed)
    _, first, last = min((found for found in behind if 0 < found[0] < len(latches)), default=(0, 0, -1))
    return frozenset(block for block, number in latches.items() if first <= number <= last)


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
