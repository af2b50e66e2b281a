"""Basic blocks and the order in which a warp runs them."""

import pytest

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx import ControlFlowGraph, arrange, build_cfg, cfg, parse_ptx

HEAD = ".version 8.8 .target sm_70 .address_size 64 .entry k() { .reg .pred %p<9>; .reg .b32 %r<9>; "


def graph(body: str) -> ControlFlowGraph:
    return build_cfg(parse_ptx(HEAD + body + "}").functions["k"])


def edges(body: str) -> list[tuple[int, ...]]:
    return [block.successors for block in graph(body).blocks]


def test_straight_line() -> None:
    found = graph("mov.u32 %r1, 1; mov.u32 %r2, 2; ret;")
    assert [(b.start, b.stop, b.successors) for b in found.blocks] == [(0, 3, (1,))]
    assert found.exit == 1


def test_branches_and_guards() -> None:
    assert edges("@%p1 bra A; membar.gl; A: ret;") == [(2, 1), (2,), (3,)]
    assert edges("@%p1 ret; membar.gl; @%p2 exit; trap;") == [(3, 1), (3, 2), (3,)]
    assert edges("bra A; B: ret; A: bra B;") == [(2,), (3,), (1,)]


def test_a_barrier_ends_a_block() -> None:
    assert edges("bar.sync 0; @%p1 bar.sync 0; bar.warp.sync -1; ret;") == [(1,), (2,), (3,), (4,)]


def test_a_function_may_end_without_ret() -> None:
    assert edges("membar.gl;") == [(1,)]
    assert edges("A: membar.gl; bra A; B:") == [(0,)]
    assert edges("bra END; END:") == [(1,)]
    assert edges("") == []


def test_branch_table() -> None:
    assert edges("brx.idx %r1, t; A: ret; B: ret; t: .branchtargets B, A, B;") == [(2, 1, 2), (3,), (3,)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("bra NOWHERE;", "branch to unknown label NOWHERE"),
        ("bra %r1;", "a branch has no label"),
        ("bra;", "a branch has no label"),
        ("brx.idx %r1, t;", "branch table t is missing"),
        ("brx.idx %r1, t; t: .branchtargets A;", "branch to unknown label A"),
    ],
)
def test_branches_to_nowhere(body: str, expected: str) -> None:
    with pytest.raises(PTXSyntaxError, match=expected):
        graph(body)


def test_a_guarded_branch_table_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"brx\.idx with a guard"):
        graph("@%p1 brx.idx %r1, t; A: ret; t: .branchtargets A;")


def test_blocks_of_a_loop_stand_together_before_what_follows_it() -> None:
    # 0 -> 1 (head) -> 2 or 4 (after the loop); 2 -> 3 or 5 (found: leaves); 3 -> 1; 4, 5 -> exit
    found = arrange([[1], [4, 2], [5, 3], [1], [6], [6]])
    assert found.block_at == (0, 1, 2, 3, 1, 4, 5)
    assert found.is_turn == (False, False, False, False, True, False, False)
    assert found.targets[3] == (4,), "the edge that closes the loop leads to its turn"
    assert found.end == 7


def test_nested_loops_have_a_turn_each() -> None:
    # outer head 1, inner head 2 with body 3, outer latch 4
    found = arrange([[1], [2, 5], [3, 4], [2], [1], [6]])
    assert found.block_at == (0, 1, 2, 3, 2, 4, 1, 5)
    assert [found.block_at[p] for p in range(found.end) if found.is_turn[p]] == [2, 1]


def test_nested_loops_that_share_their_head_have_a_turn_each() -> None:
    # inner loop of 0 and 1, which all leave by 2; the outer loop goes back from 2
    found = arrange([[2, 1], [0], [0, 3], [4]])
    assert found.block_at == (0, 1, 0, 2, 0, 3)
    assert found.is_turn == (False, False, True, False, True, False)
    assert found.targets[:3] == ((3, 1), (2,), (4, 5))


def test_loops_may_be_nested_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int) -> list[list[int]]:
        return [[i + 1] for i in range(depth)] + [[depth + i + 1, depth - i - 1] for i in range(depth)]

    assert sum(arrange(nested(300)).is_turn) == 300
    monkeypatch.setattr(cfg, "_WORK_LIMIT", 10_000)
    with pytest.raises(UnsupportedError, match="loops are nested too deeply"):
        arrange(nested(300))


def test_loops_that_share_their_head_are_one_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    # each block either goes on or starts again
    many = [[i + 1, 0] for i in range(50)]
    assert sum(arrange(many).is_turn) == 50
    monkeypatch.setattr(cfg, "_WORK_LIMIT", 300)
    assert sum(arrange(many).is_turn) == 1


def test_text_order_does_not_matter() -> None:
    """A block that stands behind the exit in the text, as rare paths do, still comes before where it leads."""
    found = arrange([[2, 1], [3], [1], [4]])
    assert found.place_of[2] < found.place_of[1] < found.place_of[3]


# Dominators and loops

NESTED = """
    mov.u32 %r1, 0;
OUTER:
    @%p1 bra END;
INNER:
    @%p2 bra NEXT;
    @%p3 bra END;
    bra INNER;
NEXT:
    bra OUTER;
END:
    ret;"""


def test_dominators_of_a_branch() -> None:
    found = graph("@%p1 bra ELSE; membar.gl; bra END; ELSE: membar.gl; END: ret;")
    assert found.successors == ((2, 1), (3,), (3,), (4,))
    assert found.dominators.parents == (None, 0, 0, 0, 3)
    assert found.post_dominators.parents == (3, 3, 3, 4, None)
    assert found.loops.loops == ()
    assert found.loops.is_reducible


def test_nested_loops() -> None:
    found = graph(NESTED)  # 0 start, 1 OUTER, 2 INNER, 3 the second test, 4 back to INNER, 5 NEXT, 6 END
    outer, inner = found.loops.loops
    assert (outer.header, sorted(outer.body), outer.latches, outer.depth) == (1, [1, 2, 3, 4, 5], (5,), 1)
    assert (inner.header, sorted(inner.body), inner.latches, inner.depth) == (2, [2, 3, 4], (4,), 2)
    assert (outer.parent, inner.parent) == (None, 0)
    assert outer.exits == ((1, 6), (3, 6))
    assert inner.exits == ((2, 5), (3, 6))
    assert found.loops.innermost == (None, 0, 1, 1, 1, 0, None)


def test_edges_to_one_header_make_one_loop() -> None:
    (loop,) = graph("A: @%p1 bra A; @%p2 bra A; ret;").loops.loops
    assert (sorted(loop.body), loop.latches, loop.exits) == ([0, 1], (0, 1), ((1, 2),))


def test_a_cycle_with_two_entries_is_no_loop() -> None:
    found = graph("@%p1 bra B; A: membar.gl; B: @%p2 bra A; ret;")
    assert found.loops.loops == ()
    assert not found.loops.is_reducible


def test_code_that_nothing_reaches_has_no_dominator() -> None:
    found = graph("bra END; A: @%p1 bra A; END: ret;")
    assert found.dominators.parents[1] is None
    assert not found.dominators.reaches(1)
    assert found.loops.loops == ()
    assert found.post_dominators.parents == (2, 2, 3, None)


def test_an_endless_loop_has_no_post_dominator() -> None:
    found = graph("A: membar.gl; bra A;")
    assert found.post_dominators.parents == (None, None)
    assert [loop.exits for loop in found.loops.loops] == [()]


def test_an_empty_function() -> None:
    found = graph("")
    assert found.dominators.parents == (None,)
    assert found.loops.innermost == ()


def test_a_long_function_needs_no_recursion() -> None:
    count = 20_000
    found = graph("".join(f"L{i}: @%p1 bra L{i + 1};" for i in range(count)) + f"L{count}: bra L0;")
    assert found.dominators.dominates(0, count)
    assert len(found.loops.loops[0].body) == count + 1
