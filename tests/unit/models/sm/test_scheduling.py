"""The order of issue within a basic block: loads early, in a window, the longest path first, memory in order."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.models.sm.lower.accesses import Place
from kerncast.models.sm.lower.operation_costs import Cost, Diffusion, Share
from kerncast.models.sm.lower.scheduling import MicroOp, scheduled
from kerncast.models.sm.micro_ops import FULL_WEIGHT, Memory, Pipe
from tests.helpers.thorough import examples

LATENCY = {Memory.NONE: 4.0, Memory.LOAD: 200.0, Memory.STORE: 4.0, Memory.ATOMIC: 200.0}
WINDOW = 24


def op(
    memory: Memory = Memory.NONE,
    sources: Sequence[int] = (),
    destinations: Sequence[int] = (),
    place: Place | None = None,
    *,
    is_fence: bool = False,
) -> MicroOp:
    pipe = Pipe.ALU if memory is Memory.NONE else Pipe.LSU
    places = () if place is None else (place,)
    return MicroOp(
        Cost(pipe), memory, FULL_WEIGHT, 0, tuple(sources), tuple(destinations), (), 0, places, is_fence=is_fence
    )


def at(base: str, start: int, space: str = "global", *, read_only: bool = False, version: int = 0) -> Place:
    return Place(space, base, base.startswith("held"), version, start, start + 4, read_only, is_ordered=False)


ORDERED = replace(at("c", 0), is_ordered=True)


def order_of(ops: Sequence[MicroOp]) -> list[int]:
    return scheduled(ops, [LATENCY[each.memory] for each in ops])


def test_loads_and_their_addresses_come_before_what_reads_them() -> None:
    # Two times: an address, a load, a use. In the order of the text the second load would wait for the first use.
    ops = [
        op(destinations=[0]), op(Memory.LOAD, [0], [1], at("a", 0)), op(sources=[1], destinations=[2]),
        op(destinations=[3]), op(Memory.LOAD, [3], [4], at("b", 0)), op(sources=[4], destinations=[5]),
    ]  # fmt: skip
    order = order_of(ops)
    assert set(order[:4]) == {0, 1, 3, 4}
    assert order[4:] == [2, 5]


def test_loads_stop_where_their_values_fill_the_window() -> None:
    count = 2 * WINDOW
    loads = [op(Memory.LOAD, [], [n], at("a", 4 * n)) for n in range(count)]
    uses = [op(sources=[n], destinations=[count + n]) for n in range(count)]
    order = order_of(loads + uses)
    assert order[:WINDOW] == list(range(WINDOW))
    assert order[WINDOW] >= count
    held = most = 0
    for number in order:
        held += 1 if number < count else -1
        most = max(most, held)
    assert most == WINDOW


def test_the_longest_path_goes_first() -> None:
    # One short and one long chain, in the order of the text.
    short = [op(destinations=[0]), op(sources=[0], destinations=[1])]
    long = [op(destinations=[2]), op(sources=[2], destinations=[3]), op(sources=[3], destinations=[4])]
    assert order_of(short + long)[0] == 2


def test_independent_chains_take_turns() -> None:
    ops = [op(sources=[chain] if step else [], destinations=[chain]) for chain in range(4) for step in range(3)]
    order = order_of(ops)
    assert [number % 3 for number in order] == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize(
    ("store", "load", "stays"),
    [
        (at("a", 0), at("a", 0), True), (at("a", 0), at("a", 4), False), (at("a", 0), at("b", 0), True),
        (at("a", 0), at("a", 4, version=1), True), (at("a", 0), at("b", 0, read_only=True), False),
        (at("a", 0), at("a", 0, "shared"), False), (at("a", 0), at("a", 0, "generic"), True),
        (at("held_a", 0, "shared"), at("held_b", 0, "shared"), False), (at("a", 0), ORDERED, True),
        (at("held_a", 0, "shared"), at("a", 0, "shared"), True), (at("", 0), at("", 64), True),
    ],
)  # fmt: skip
def test_a_load_passes_a_store_that_cannot_touch_its_bytes(store: Place, load: Place, *, stays: bool) -> None:
    order = order_of([op(Memory.STORE, place=store), op(Memory.LOAD, [], [0], load), op(sources=[0])])
    assert (order[0] == 0) is stays


def test_nothing_passes_a_fence_or_an_atomic() -> None:
    for wall in (op(is_fence=True), op(Memory.ATOMIC, place=ORDERED, is_fence=True)):
        ops = [op(Memory.STORE, place=at("a", 0)), wall, op(Memory.LOAD, [], [0], at("b", 0)), op(sources=[0])]
        assert order_of(ops) == [0, 1, 2, 3]


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 60))
def test_an_order_has_each_micro_op_once_and_keeps_true_dependences(choose: random.Random, count: int) -> None:
    ops = []
    for _ in range(count):
        memory = choose.choice([Memory.NONE, Memory.NONE, Memory.LOAD, Memory.STORE])
        place = at(choose.choice("ab"), 4 * choose.randrange(3)) if memory else None
        ops.append(
            op(memory, choose.sample(range(8), 2), [choose.randrange(8)] if memory is not Memory.STORE else [], place)
        )
    order = order_of(ops)
    assert sorted(order) == list(range(count))
    assert made(ops, order) == made(ops, range(count))
    assert order == order_of(ops)


def made(ops: Sequence[MicroOp], order: Sequence[int]) -> dict[int, list[int]]:
    """Return who made what each micro-op reads."""
    maker: dict[int, int] = {}
    found = {}
    for number in order:
        found[number] = [maker.get(register, -1) for register in ops[number].sources]
        maker |= dict.fromkeys(ops[number].destinations, number)
    return found


# --- Averages as whole numbers.

KINDS = [Cost(Pipe.ALU), Cost(Pipe.IMAD), Cost(Pipe.FMA), Cost(Pipe.LSU, latency=20.0)]
AVERAGES = st.lists(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 300)), max_size=4, unique_by=lambda pair: pair[0]),
    min_size=1,
    max_size=12,
)


def runs(share: Share, execution: int) -> bool:
    return (execution * share.weight + share.phase) % FULL_WEIGHT < share.weight


@settings(max_examples=examples(100), deadline=None)
@given(AVERAGES)
def test_over_all_executions_each_kind_runs_as_often_as_the_averages_say(block: list[list[tuple[Cost, int]]]) -> None:
    averages = [tuple((cost, hundredths / 100) for cost, hundredths in each) for each in block]
    shares = [share for own in Diffusion().whole(averages) for share in own]
    for kind in KINDS:
        expected = sum(times for each in averages for cost, times in each if cost == kind)
        own = [share for share in shares if share.cost == kind]
        executed = sum(runs(share, k) for share in own for k in range(FULL_WEIGHT))
        assert executed == sum(share.weight for share in own)
        assert executed / FULL_WEIGHT == pytest.approx(expected, abs=1 / FULL_WEIGHT)
        assert sum(share.weight < FULL_WEIGHT for share in own) <= 1


@given(st.integers(1, 99), st.integers(1, 40))
def test_what_runs_seldom_runs_in_some_of_many_blocks(hundredths: int, blocks: int) -> None:
    # Each block is executed once: 0.3 becomes neither 0 nor 1 in all of them.
    diffusion = Diffusion()
    found = [
        share for _ in range(blocks) for own in diffusion.whole([((KINDS[0], hundredths / 100),)]) for share in own
    ]
    executed = sum(runs(share, 0) for share in found)
    assert executed == pytest.approx(blocks * round(hundredths / 100 * FULL_WEIGHT) / FULL_WEIGHT, abs=1)


def test_an_instruction_gets_its_own_kind_where_that_is_owed_most() -> None:
    averages = [((KINDS[0], 0.4),), ((KINDS[2], 1.0),), ((KINDS[0], 0.4),), ((KINDS[2], 1.0),)]
    shares = Diffusion().whole(averages)
    assert [[share.cost for share in own] for own in shares] == [[], [KINDS[2]], [KINDS[0]], [KINDS[2]]]
