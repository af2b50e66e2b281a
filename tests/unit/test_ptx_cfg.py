"""Basic blocks and the order in which a warp runs them."""

import pytest

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx import ControlFlowGraph, build_cfg, parse_ptx
from kerncast.ptx.order import arrange

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


def test_text_order_does_not_matter() -> None:
    """A block that stands behind the exit in the text, as rare paths do, still comes before where it leads."""
    found = arrange([[2, 1], [3], [1], [4]])
    assert found.place_of[2] < found.place_of[1] < found.place_of[3]
