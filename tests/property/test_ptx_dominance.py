"""Dominators, loops and the meeting of threads, against their definitions on random graphs and random programs."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.ptx import (
    ControlFlowGraph,
    DominatorTree,
    build_cfg,
    dominators,
    find_loops,
    parse_ptx,
    post_dominators,
    reversed_graph,
)
from tests.helpers.graphs import Graph, reachable
from tests.helpers.thorough import examples

graphs = st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(st.integers(0, n), max_size=3), min_size=n, max_size=n))


def check_tree(tree: DominatorTree, graph: Graph, root: int) -> None:
    """Compare a tree with the definition: one node dominates another if the root reaches it only through that one."""
    nodes = range(len(graph))
    found = reachable(graph, root)
    above = {b: {a for a in nodes if b not in reachable(graph, root, without=a)} for b in found}
    for b in nodes:
        assert {a for a in nodes if tree.dominates(a, b)} == above.get(b, set())
        assert tree.reaches(b) == (b in found)
        strict = above.get(b, set()) - {b}
        nearest = [a for a in strict if all(other in above[a] for other in strict)]
        assert tree.parents[b] == next(iter(nearest), None)


@settings(max_examples=examples(300), deadline=None)
@given(graphs)
def test_dominators_of_any_graph(graph: Graph) -> None:
    check_tree(dominators(graph), [*graph, []], 0)
    check_tree(post_dominators(graph), reversed_graph([*graph, []]), len(graph))


def has_cycle(graph: Graph, members: set[int]) -> bool:
    inside = [[s for s in following if s in members] if node in members else [] for node, following in enumerate(graph)]
    return any(node in reachable(inside, successor) for node in members for successor in inside[node])


@settings(max_examples=examples(300), deadline=None)
@given(graphs)
def test_loops_of_any_graph(graph: Graph) -> None:
    whole = [*graph, []]
    nest = find_loops(graph, dominators(graph))
    reached = reachable(whole, 0)
    back = {(a, b) for a in reached for b in whole[a] if a not in reachable(whole, 0, without=b)}
    assert {(latch, loop.header) for loop in nest.loops for latch in loop.latches} == back
    for loop in nest.loops:
        assert loop.body == {loop.header} | {
            node
            for node in reached
            if any(latch in reachable(whole, node, without=loop.header) for latch in loop.latches)
        }
        assert set(loop.exits) == {(a, b) for a in loop.body for b in whole[a] if b not in loop.body}
        around = [other for other in nest.loops if other.body > loop.body]
        assert loop.depth == 1 + len(around)
        parent = None if loop.parent is None else nest.loops[loop.parent]
        assert parent == min(around, key=lambda other: len(other.body), default=None)
    for node in range(len(graph)):
        inner = min((o for o in nest.loops if node in o.body), key=lambda o: len(o.body), default=None)
        number = nest.innermost[node]
        assert (None if number is None else nest.loops[number]) == inner
    cut = [[b for b in following if (a, b) not in back] for a, following in enumerate(whole)]
    assert nest.is_reducible == (not has_cycle(cut, reached))


class Program:
    """A random program of nested ifs and loops with break and continue, as PTX text."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.labels = 0

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def statements(self, depth: int, loop: tuple[str, str] | None) -> None:
        """Write some statements; ``loop`` holds the labels to which continue and break go."""
        for _ in range(self.choose.randint(1, 3)):
            kind = self.choose.choice(["plain", "if", "else", "while", "do", "break", "continue"])
            if kind in {"if", "else"} and depth < 3:
                self.branch(depth, loop, has_else=kind == "else")
            elif kind in {"while", "do"} and depth < 3:
                self.loop(depth, tests_first=kind == "while")
            elif kind in {"break", "continue"} and loop is not None:
                self.lines.append(f"@%p bra {loop[kind == 'break']};")
            else:
                self.lines.append("membar.gl;")

    def branch(self, depth: int, loop: tuple[str, str] | None, *, has_else: bool) -> None:
        otherwise, after = self.label(), self.label()
        self.lines.append(f"@%p bra {otherwise};")
        self.statements(depth + 1, loop)
        if has_else:
            self.lines.append(f"bra {after};")
        self.lines.append(f"{otherwise}:")
        if has_else:
            self.statements(depth + 1, loop)
        self.lines.append(f"{after}:")

    def loop(self, depth: int, *, tests_first: bool) -> None:
        head, latch, after = self.label(), self.label(), self.label()
        self.lines.append(f"{head}:")
        if tests_first:
            self.lines.append(f"@%p bra {after};")
        self.statements(depth + 1, (latch, after))
        self.lines.append(f"{latch}: membar.gl; {'' if tests_first else '@%p '}bra {head};")
        self.lines.append(f"{after}:")


def structured(choose: random.Random) -> ControlFlowGraph:
    program = Program(choose)
    program.statements(0, None)
    body = "\n".join(program.lines)
    text = f".version 8.8 .target sm_70 .address_size 64 .entry k() {{ .reg .pred %p;\n{body}\nret; }}"
    return build_cfg(parse_ptx(text).functions["k"])


def walk(graph: ControlFlowGraph, lanes: int, choose: random.Random) -> list[tuple[int, set[int]]]:
    """Let one warp always run its lanes at the first place, with random branches; returns (block, lanes) per step."""
    order = graph.order
    at = dict.fromkeys(range(lanes), order.place_of[0])
    log = []
    for _ in range(2000):
        place = min(at.values())
        if place == order.end:
            break
        standing = {lane for lane, where in at.items() if where == place}
        here = order.block_at[place]
        if not order.is_turn[place]:
            log.append((here, standing))
        for lane in standing:
            at[lane] = order.place_of[here] if order.is_turn[place] else choose.choice(order.targets[here])
    return log


seeds = st.randoms(use_true_random=False)


@settings(max_examples=examples(150), deadline=None)
@given(seeds)
def test_structured_programs_are_reducible(choose: random.Random) -> None:
    graph = structured(choose)
    assert graph.loops.is_reducible
    for loop in graph.loops.loops:
        assert all(graph.dominators.dominates(loop.header, block) for block in loop.body)
        assert loop.exits, "every loop of such a program can end"


@settings(max_examples=examples(150), deadline=None)
@given(seeds, st.integers(2, 8))
def test_lanes_of_structured_programs_meet_at_the_post_dominator(choose: random.Random, lanes: int) -> None:
    """Lanes that a branch parts are together again when the first of them runs the immediate post-dominator."""
    graph = structured(choose)
    log = walk(graph, lanes, choose)
    for step, (here, together) in enumerate(log):
        if len(set(graph.blocks[here].successors)) < 2:
            continue
        meeting = graph.post_dominators.parents[here]
        later = next((ran for block, ran in log[step + 1 :] if block == meeting and ran & together), None)
        assert later is None or together <= later, (here, meeting)


@settings(max_examples=examples(50), deadline=None)
@given(seeds)
def test_lanes_pass_what_dominates(choose: random.Random) -> None:
    graph = structured(choose)
    log = walk(graph, 4, choose)
    for lane in range(4):
        path = [block for block, ran in log if lane in ran]
        assert all(after in graph.blocks[before].successors for before, after in pairwise(path))
        for place, block in enumerate(path):
            parent = graph.dominators.parents[block]
            assert parent is None or parent in path[:place]
