"""Threads of a warp that go different ways meet again: on random graphs, against post-dominators by definition."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.execute.reference.crosslane import WarpPlaces
from kerncast.ptx import arrange
from tests.helpers.graphs import Graph, reachable
from tests.helpers.thorough import examples


def meeting_point(graph: Graph, node: int) -> int:
    """Return the immediate post-dominator: the nearest node without which the exit cannot be reached."""
    leaves = len(graph)
    candidates = [c for c in range(leaves + 1) if c != node and leaves not in reachable(graph, node, without=c)]
    return next(c for c in candidates if all(other in reachable(graph, c) for other in candidates))


@st.composite
def structured(draw: st.DrawFn) -> Graph:
    """Build the graph of a program of nested ifs and loops, with break, continue and return."""
    graph: Graph = []
    pending: list[tuple[int, str]] = []

    def block() -> int:
        graph.append([])
        return len(graph) - 1

    def statements(depth: int, head: int | None, leaving: list[int]) -> tuple[int, int]:
        first = last = block()
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["plain", "if", "else", "loop", "break", "continue", "return"]))
            following = None
            if kind in {"if", "else"} and depth < 3:
                branches = [statements(depth + 1, head, leaving) for _ in range(1 + (kind == "else"))]
                following = block()
                graph[last] += [branch[0] for branch in branches] + ([following] if kind == "if" else [])
                for _, end in branches:
                    graph[end].append(following)
            elif kind == "loop" and depth < 3:
                top = block()
                out: list[int] = []
                graph[last].append(top)
                body = statements(depth + 1, top, out)
                graph[top].append(body[0])
                graph[body[1]].append(top)
                following = block()
                graph[top].append(following)
                for node in out:
                    graph[node].append(following)
            elif kind in {"break", "continue"} and head is not None:
                following = block()
                graph[last].append(following)
                if kind == "break":
                    leaving.append(last)
                else:
                    graph[last].append(head)
            elif kind == "return":
                following = block()
                graph[last].append(following)
                pending.append((last, "return"))
            if following is not None:
                last = following
        return first, last

    _, last = statements(0, None, [])
    pending.append((last, "end"))
    leaves = len(graph)
    for node, _ in pending:
        graph[node].append(leaves)
    return graph


def walk(graph: Graph, lanes: int, choose: random.Random) -> list[tuple[int, frozenset[int]]]:
    """Let one warp run through a graph with random branches; returns (block, lanes that run it) per step."""
    order = arrange(graph)
    exists = np.zeros((1, 32), np.bool_)
    exists[0, :lanes] = True
    places = WarpPlaces(exists, order)
    warp = np.zeros(1, np.intp)
    log = []
    for _ in range(3000):
        place = int(places.current[0])
        if place == order.end:
            break
        standing = places.standing_at(place, warp)
        here = order.block_at[place]
        if order.is_turn[place]:
            places.go(warp, standing, order.place_of[here])
            continue
        log.append((here, frozenset(np.flatnonzero(standing[0]).tolist())))
        targets = np.array([[choose.choice(order.targets[here]) for _ in range(32)]], np.int32)
        places.go(warp, standing, targets)
    return log


@settings(max_examples=examples(150), deadline=None)
@given(structured(), st.integers(2, 8), st.randoms(use_true_random=False))
def test_split_lanes_meet_at_the_post_dominator(graph: Graph, lanes: int, choose: random.Random) -> None:
    log = walk(graph, lanes, choose)
    for step, (here, together) in enumerate(log[:-1]):
        if len(set(graph[here])) < 2:
            continue
        meeting = meeting_point(graph, here)
        if meeting == len(graph):
            continue
        later = next((ran for block, ran in log[step + 1 :] if block == meeting and ran & together), None)
        assert later is None or together <= later, (graph, here, meeting)


@settings(max_examples=examples(100), deadline=None)
@given(structured(), st.randoms(use_true_random=False))
def test_every_lane_takes_a_path_of_the_graph(graph: Graph, choose: random.Random) -> None:
    log = walk(graph, 6, choose)
    for lane in range(6):
        path = [block for block, ran in log if lane in ran]
        assert path[0] == 0
        assert all(after in graph[before] for before, after in pairwise(path))


graphs = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n), min_size=1, max_size=3), min_size=n, max_size=n)
)


@settings(max_examples=examples(200), deadline=None)
@given(graphs)
def test_order_of_any_graph(graph: Sequence[Sequence[int]]) -> None:
    """Irreducible and unreachable code included: every block has a place, and only turns are behind loops."""
    order = arrange(graph)
    blocks = [block for block, turn in zip(order.block_at, order.is_turn, strict=True) if not turn]
    assert sorted(blocks) == list(range(len(graph)))
    for block, successors in enumerate(graph):
        for successor, place in zip(successors, order.targets[block], strict=True):
            assert place > order.place_of[block], "every edge leads forward, to a turn where it closes a loop"
            assert place == order.end if successor == len(graph) else order.block_at[place] == successor
    for turn in (p for p in range(order.end) if order.is_turn[p]):
        assert order.place_of[order.block_at[turn]] < turn
