"""Control-flow graph of a function: basic blocks and where control goes from each.

Blocks also end at barriers, so that a warp that waits always stands between two blocks.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx.module import Function, Instruction, Label
from kerncast.ptx.opcodes import Flow, Trait

# Dominators and post-dominators of a control-flow graph.
#
# Source: Cooper, Harvey, Kennedy, "A simple, fast dominance algorithm", Rice University, 2001.


Graph = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class DominatorTree:
    """Which blocks every path from the root passes; of post-dominators the root is the exit and paths go backwards."""

    root: int
    parents: tuple[int | None, ...]
    """[blocks + 1] immediate dominator, of the exit last; None at the root and where no path leads"""
    spans: tuple[tuple[int, int], ...]
    """[blocks + 1] number in a walk through the tree, and that of the last block below; (0, -1) off the tree"""

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


# Natural loops of a control-flow graph.
#
# An edge to a block that dominates its source closes a loop; the loop is all blocks that lead to such an edge without
# passing its header. Edges to one header make one loop. A cycle with several entries has no header and is no natural
# loop: the graph is then not reducible.


@dataclass(frozen=True, slots=True)
class Loop:
    """One natural loop."""

    header: int
    """block by which every thread enters"""
    body: frozenset[int]
    """all blocks of the loop, the header and those of inner loops included"""
    latches: tuple[int, ...]
    """blocks from which an edge closes the loop"""
    exits: tuple[tuple[int, int], ...]
    """edges (from, to) that leave the loop"""
    parent: int | None
    """number of the loop around this one"""
    depth: int
    """nesting depth, 1 for an outermost loop"""


@dataclass(frozen=True, slots=True)
class LoopNest:
    """All loops of a graph."""

    loops: tuple[Loop, ...]
    """all loops, each behind the loop around it"""
    innermost: tuple[int | None, ...]
    """[blocks] number of the innermost loop around the block"""
    is_reducible: bool
    """whether an edge to its header closes every cycle, so that no cycle is missing among the loops"""


def find_loops(successors: Graph, tree: DominatorTree) -> LoopNest:
    """Return the natural loops of a graph whose successor ``len(successors)`` is the exit.

    >>> from kerncast.ptx.cfg import dominators
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


# The order in which a warp runs the basic blocks of a function, so that diverged threads meet again.
#
# Every thread of a warp stands at a place; the warp runs the threads at its first place, and the others wait. Threads
# that went different ways meet because each block comes after all blocks from which it can be reached, loops aside.
# The blocks of a loop stand together, before whatever follows the loop, so that threads which have left it wait for
# those which have not; and behind them stands a turn, where threads that are done with an iteration wait for the
# others of their warp. A thread that has left the function waits for nobody and nobody waits for it, unlike with
# meeting points at immediate post-dominators, where an early return would keep the others apart. In structured code
# without such returns threads meet at the immediate post-dominator, also where nested loops share their head.
#
# Source: Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011; the order is that of nested strongly
# connected components.


_WORK_LIMIT = 3_000_000
"""most blocks and edges to look at, once for every loop around them; keeps a hostile text from taking minutes"""


@dataclass(frozen=True, slots=True)
class Order:
    """Places in the order in which a warp visits them."""

    block_at: tuple[int, ...]
    """[places] block that runs there; at a turn the head of the loop, where threads go on"""
    is_turn: tuple[bool, ...]
    place_of: tuple[int, ...]
    """[blocks] place of the block"""
    targets: tuple[tuple[int, ...], ...]
    """[blocks] places of the successors: a turn where an edge closes a loop"""

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
"""a block and no members, or the head of a loop and the blocks whose edges to it wait there"""

_Blocks = dict[int, list[int]]
"""successors of some blocks among one another"""

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


_LEAVES = {Flow.LEAVE, Flow.TRAP}


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions [start, stop) that always run one after the other."""

    start: int
    stop: int
    successors: tuple[int, ...]
    """successors: of a branch the targets, then the fall-through; ``len(blocks)`` is the exit"""


@dataclass(frozen=True)  # no slots: what is derived from the edges is computed once and kept
class ControlFlowGraph:
    """Blocks in the order of the text, and the order in which a warp runs them."""

    blocks: tuple[BasicBlock, ...]
    order: Order

    @property
    def exit(self) -> int:
        """Index of the virtual block where every thread ends."""
        return len(self.blocks)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Instructions of each block."""
        return tuple(block.stop - block.start for block in self.blocks)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The edges, per block."""
        return tuple(block.successors for block in self.blocks)

    @cached_property
    def dominators(self) -> DominatorTree:
        """Dominators: blocks on every path from the start to a block."""
        return dominators(self.successors)

    @cached_property
    def post_dominators(self) -> DominatorTree:
        """Post-dominators: blocks on every path from a block to the exit."""
        return post_dominators(self.successors)

    @cached_property
    def loops(self) -> LoopNest:
        """The natural loops."""
        return find_loops(self.successors, self.dominators)


def build_cfg(function: Function) -> ControlFlowGraph:
    """Return the control-flow graph; raises PTXSyntaxError for a branch to nowhere."""
    code = function.instructions
    starts = {0, *function.labels.values()} | {i + 1 for i, instruction in enumerate(code) if instruction.ends_block}
    bounds = [*sorted(start for start in starts if start < len(code)), len(code)]
    block_at = {start: number for number, start in enumerate(bounds)}
    blocks = []
    for number in range(len(bounds) - 1):
        start, stop = bounds[number], bounds[number + 1]
        last = code[stop - 1]
        names = _target_names(last, function)
        for name in names:
            if name not in function.labels:
                raise PTXSyntaxError(f"branch to unknown label {name}", where=last.where or function.name)
        successors = [block_at[function.labels[name]] for name in names]
        if last.opcode.flow in _LEAVES:
            successors.append(len(bounds) - 1)
        if last.opcode.flow not in _LEAVES | {Flow.BRANCH} or last.guard is not None:
            successors.append(number + 1)
        blocks.append(BasicBlock(start, stop, tuple(successors)))
    return ControlFlowGraph(tuple(blocks), arrange([block.successors for block in blocks]))


#: Most basic blocks of a loop that is taken for one which only waits.
MOST_WAITING_BLOCKS = 16


def waiting_loops(function: Function, cfg: ControlFlowGraph) -> Mapping[int, tuple[int, ...]]:
    """Return the blocks of each loop that only asks for the end of a phase of an mbarrier, by the place of its turn.

    The head of the loop is the first. Each block runs at most once in a turn, as there are no loops inside.
    """
    order, code, found = cfg.order, function.instructions, {}
    for turn in (place for place, is_turn in enumerate(order.is_turn) if is_turn):
        places = range(order.place_of[order.block_at[turn]], turn)
        if len(places) > MOST_WAITING_BLOCKS or any(order.is_turn[place] for place in places):
            continue
        blocks = tuple(order.block_at[place] for place in places)
        inside = [ins for b in blocks for ins in code[cfg.blocks[b].start : cfg.blocks[b].stop]]
        if all(_only_asks(ins) for ins in inside) and any(ins.opcode.has(Trait.WAIT) for ins in inside):
            found[turn] = blocks
    return found


def _only_asks(ins: Instruction) -> bool:
    """Whether an instruction changes nothing but registers, and is not switched off by a guard."""
    is_jump = ins.opcode.flow is Flow.BRANCH
    is_plain = ins.opcode.access is None and (is_jump or (ins.opcode.flow is None and ins.guard is None))
    return is_plain and (ins.opcode.has(Trait.WAIT) or not ins.opcode.has(Trait.PHASE))


def _target_names(last: Instruction, function: Function) -> tuple[str, ...]:
    target = last.operands[-1] if last.operands else None
    if not last.is_branch:
        return ()
    if not isinstance(target, Label) or len(last.operands) != (1 if last.root == "bra" else 2):
        raise PTXSyntaxError("a branch has no label", where=last.where or function.name)
    if last.root == "bra":
        return (target.name,)
    if last.guard is not None:
        raise UnsupportedError("brx.idx with a guard is not supported", where=last.where or function.name)
    if not function.tables.get(target.name):
        raise PTXSyntaxError(f"branch table {target.name} is missing", where=last.where or function.name)
    return function.tables[target.name]
