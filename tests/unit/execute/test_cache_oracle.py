"""The oracle of the caches against closed forms: it is what the executor's simulator is held against."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.traces import MASK_SHIFT, OPERATION_MASK, OPERATION_SHIFT, SEGMENT, End, Operation, Recording
from tests.helpers.cache_oracle import Cache, Geometry, Issue, Totals, schedule, simulate
from tests.helpers.recordings import ALL, Request, Segment, Warp, each, random_recording, recorded


def loads(lines: Iterable[int], mask: int = ALL) -> list[Request]:
    return each(Operation.LOAD, lines, mask)


def stores(lines: Iterable[int], mask: int = ALL) -> list[Request]:
    return each(Operation.STORE, lines, mask)


def atomics(lines: Iterable[int], mask: int = ALL) -> list[Request]:
    return each(Operation.ATOMIC, lines, mask)


def one_warp(requests: Segment, **geometry: int) -> Totals:
    return simulate(recorded([[[requests]]]), Geometry(**geometry))  # type: ignore[arg-type]


# Caches


@pytest.mark.parametrize("mask", [0b0001, 0b1010, ALL])
def test_streaming_reads_every_sector_from_dram(mask: int) -> None:
    sectors = 1000 * mask.bit_count()
    found = one_warp(loads(range(1000), mask), l1_lines=64, l2_lines=128)
    assert found == Totals(l1_load_sectors=sectors, l2_read=sectors, dram_read=sectors)


@pytest.mark.parametrize("lines", [4, 16, 24])
def test_a_second_pass_of_a_small_array_hits(lines: int) -> None:
    found = one_warp(loads([*range(lines)] * 2), l1_lines=64)
    size = 4 * lines
    assert found == Totals(l1_load_sectors=2 * size, l1_load_hits=size, l2_read=size, dram_read=size)


def test_a_second_pass_of_a_large_array_hits_in_l2() -> None:
    found = one_warp(loads([*range(256)] * 2), l1_lines=16, l2_lines=512)
    assert found == Totals(l1_load_sectors=2048, l2_read=2048, l2_read_hits=1024, dram_read=1024)


def test_one_line_more_than_there_is_room_for_never_hits() -> None:
    """Lines used in a circle, the next one always that used longest ago: the worst case of LRU."""
    found = one_warp(loads([*range(17)] * 5), l1_lines=16, l2_lines=16)
    assert (found.l1_load_hits, found.l2_read_hits, found.dram_read) == (0, 0, 4 * 17 * 5)


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(1, 16))
def test_lru_hits_as_often_as_few_other_lines_come_between(lines: list[int], room: int) -> None:
    """A line is present if fewer other lines than there is room for were used since (Mattson's stack distance)."""
    hits = 0
    for position, line in enumerate(lines):
        before = lines[:position]
        if line in before:
            since = before[len(before) - before[::-1].index(line) :]
            hits += len(set(since)) < room
    found = one_warp(loads(lines, 0b0001), l1_lines=room, l2_lines=4096)
    assert found.l1_load_hits == hits
    assert found.dram_read == len(set(lines))


def test_sectors_of_a_line_are_fetched_apart() -> None:
    found = one_warp([*loads([5], 0b0011), *loads([5], 0b0110), *loads([5])], l1_lines=16)
    assert found == Totals(l1_load_sectors=8, l1_load_hits=1 + 3, l2_read=4, dram_read=4)


def test_loads_that_pass_l1_by() -> None:
    for operation, geometry in (
        (Operation.LOAD_UNCACHED, Geometry(l1_lines=16)),
        (Operation.LOAD, Geometry(l1_lines=16, caches_global=False)),
        (Operation.LOAD_READ_ONLY, Geometry(l1_lines=16, caches_read_only=False)),
        (Operation.LOAD, Geometry(l1_lines=0)),
    ):
        found = simulate(recorded([[[each(operation, [1, 1])]]]), geometry)
        assert found == Totals(l1_load_sectors=8, l2_read=8, l2_read_hits=4, dram_read=4)
    geometry = Geometry(l1_lines=16, caches_local=False)
    found = simulate(recorded([[[each(Operation.LOCAL_LOAD, [1, 1])]]]), geometry)
    assert found == Totals(l1_local_sectors=8, l2_read=8, l2_read_hits=4, dram_read=4)


def test_read_only_loads_have_their_own_switch() -> None:
    geometry = Geometry(l1_lines=16, caches_global=False)
    found = simulate(recorded([[[each(Operation.LOAD_READ_ONLY, [1, 1])]]]), geometry)
    assert found == Totals(l1_load_sectors=8, l1_load_hits=4, l2_read=4, dram_read=4)


def test_stores_fill_l2_and_read_nothing() -> None:
    found = one_warp([*stores([3, 3]), *loads([3])], l1_lines=16)
    assert found == Totals(
        l1_load_sectors=4, l2_read=4, l2_read_hits=4, l2_write=8, l2_write_hits=4, left_dirty=4
    )  # fmt: skip


@pytest.mark.parametrize("lines", [16, 17, 100])
def test_dirty_lines_are_written_when_they_have_to_leave(lines: int) -> None:
    found = one_warp(stores(range(lines), 0b0111), l2_lines=16)
    assert found == Totals(l2_write=3 * lines, dram_write=3 * (lines - 16), left_dirty=3 * 16)


def test_lines_that_leave_clean_are_not_written() -> None:
    found = one_warp([*stores([0], 0b0001), *loads(range(1, 50))], l2_lines=16)
    assert (found.dram_write, found.left_dirty, found.dram_read) == (1, 0, 4 * 49)


@pytest.mark.parametrize(("allocates", "hits"), [(False, 2), (True, 4)])
def test_a_store_updates_l1_or_makes_it_forget(*, allocates: bool, hits: int) -> None:
    requests = [*loads([7]), *stores([7], 0b0011), *loads([7])]
    found = simulate(recorded([[[requests]]]), Geometry(l1_lines=16, stores_allocate=allocates))
    assert found.l1_load_hits == hits
    assert found.l2_read == 4 + 4 - hits
    assert found.dram_read == 4
    alone = simulate(recorded([[[[*stores([7]), *loads([7])]]]]), Geometry(l1_lines=16, stores_allocate=allocates))
    assert alone.l1_load_hits == (4 if allocates else 0)


def test_a_store_that_does_not_allocate_keeps_a_line_no_longer() -> None:
    """Line 0 is used longest ago although a store meets it again: it leaves first."""
    requests = [*loads(range(16)), *stores([0], 0b0001), *loads([16, 0, 1], 0b0010)]
    found = one_warp(requests, l1_lines=16)
    assert found.l1_load_hits == 0, "16 pushed out 0, which pushed out 1"


@pytest.mark.parametrize("operation", [Operation.ATOMIC, Operation.REDUCTION])
def test_atomics_are_carried_out_by_l2(operation: Operation) -> None:
    requests = [*loads([9]), *each(operation, [9, 9, 10], 0b0001), *loads([9])]
    found = one_warp(requests, l1_lines=16)
    assert found == Totals(
        l1_load_sectors=8, l1_load_hits=3, l2_read=5, l2_read_hits=1, l2_atomic=3, l2_atomic_hits=2, dram_read=5,
        left_dirty=2,
    )  # fmt: skip


def test_local_memory_belongs_to_a_warp_in_its_slot() -> None:
    """Two warps on each of two SMs have words of their own; a block that follows in a slot finds the same ones."""
    own = [*each(Operation.LOCAL_STORE, range(3)), *each(Operation.LOCAL_LOAD, range(3))]
    geometry = Geometry(sms=2, l1_lines=16, l2_lines=64, stores_allocate=True)
    first = simulate(recorded([[[own], [own]]] * 2), geometry)
    assert first == Totals(l1_local_sectors=48, l1_local_hits=48, l2_write=48, left_dirty=48)
    later = simulate(recorded([[[own], [own]]] * 6), geometry)
    assert later == Totals(l1_local_sectors=144, l1_local_hits=144, l2_write=144, l2_write_hits=96, left_dirty=48)


def test_local_and_global_lines_are_different_lines() -> None:
    found = one_warp([*loads([0]), *each(Operation.LOCAL_LOAD, [0])], l1_lines=16)
    assert (found.l1_load_hits, found.l1_local_hits, found.dram_read) == (0, 0, 8)


def test_sms_share_l2_but_not_l1() -> None:
    found = simulate(recorded([[[loads([1, 1])]]] * 3), Geometry(sms=3, l1_lines=16))
    assert found == Totals(l1_load_sectors=24, l1_load_hits=12, l2_read=12, l2_read_hits=8, dram_read=4)


def test_a_hit_in_l1_is_not_seen_by_l2() -> None:
    """Line 0 is in use all the time, but L2 hears of it once, and drops it for the 17th line."""
    between = [request for line in range(1, 17) for request in loads([line, 0])]
    found = one_warp([*loads([0]), *between, *each(Operation.LOAD_UNCACHED, [0])], l1_lines=16, l2_lines=16)
    assert (found.l1_load_hits, found.l2_read_hits) == (4 * 16, 0)


@pytest.mark.parametrize(("caches_local", "hits"), [(True, 0), (False, 4)])
def test_local_stores_use_l1_where_local_loads_do(*, caches_local: bool, hits: int) -> None:
    requests = [*loads([5]), *each(Operation.LOCAL_STORE, [0]), *loads([5])]
    geometry = Geometry(l1_lines=1, caches_local=caches_local, stores_allocate=True)
    assert simulate(recorded([[[requests]]]), geometry).l1_load_hits == hits


@pytest.mark.parametrize("sets", [1, 4, 7, 100])
def test_neighbouring_lines_spread_over_the_sets(sets: int) -> None:
    """Line n is in the set at the fraction of n / golden ratio, so that no set gets much more than its share."""
    cache = Cache(16 * sets)
    golden = (math.sqrt(5) - 1) / 2
    numbers = {id(ways): number for number, ways in enumerate(cache._sets)}
    lines = range(8 * sets)
    found = [numbers[id(cache._set_of(line))] for line in lines]
    assert found == [int(line * golden % 1 * sets) for line in lines]
    assert max(Counter(found).values()) <= 12


@pytest.mark.parametrize(("sectors", "read", "hits"), [(1, 2 + 1, 2), (2, 2 + 2, 3), (4, 3 + 4, 3)])
def test_a_missing_sector_brings_its_neighbours(sectors: int, read: int, hits: int) -> None:
    """Sector 1 was stored; an atomic needs 2, then a load all of 1 to 3."""
    requests = [*stores([0], 0b0010), *atomics([0], 0b0100), *loads([0], 0b1110), *loads([1], 0b0001)]
    found = one_warp(requests, fetch_sectors=sectors)
    assert (found.dram_read, found.l2_read_hits, found.left_dirty) == (read, hits, 2)


def test_read_only_loads_may_have_a_cache_of_their_own() -> None:
    """No other loads pass through it, and no store reaches it."""
    requests = [
        *each(Operation.LOAD_READ_ONLY, [0]),
        *loads(range(1, 17)),
        *stores([0]),
        *each(Operation.LOAD_READ_ONLY, [0]),
    ]
    found = one_warp(requests, l1_lines=1, read_only_lines=1)
    assert (found.l1_load_hits, found.l2_read_hits) == (4, 0)
    shared = one_warp(requests, l1_lines=1)
    assert (shared.l1_load_hits, shared.l2_read_hits) == (0, 4)
    assert one_warp(each(Operation.LOAD_READ_ONLY, [0, 0]), l1_lines=16, read_only_lines=0).l1_load_hits == 0


def test_lines_have_32_bits() -> None:
    assert one_warp(loads([5, 2**32 + 5]), l1_lines=16).l1_load_hits == 4


# Order


def order(blocks: Sequence[Sequence[Warp]], sms: int = 1, resident: int = 1) -> list[tuple[int, int, int, int]]:
    """Return SM, slot, warp and first line of the requests in the order in which they are issued."""
    issues: Iterable[Issue] = schedule(recorded(blocks), Geometry(sms=sms, resident=resident))
    return [(i.sm, i.slot, i.warp, i.events[0] & 0xFFFF) for i in issues]


def lines_of(issued: list[tuple[int, int, int, int]]) -> list[int]:
    return [line for _, _, _, line in issued]


def test_warps_take_turns_and_a_request_is_not_cut() -> None:
    wide = [(Operation.LOAD, [(1, ALL), (2, ALL)]), (Operation.LOAD, [(3, 1)])]
    issues = list(schedule(recorded([[[wide], [loads([4, 5, 6])]]]), Geometry()))
    assert [(i.warp, [event & 0xFFFF for event in i.events]) for i in issues] == [
        (0, [1, 2]), (1, [4]), (0, [3]), (1, [5]), (1, [6])
    ]  # fmt: skip


def test_sms_issue_in_turn_each_round() -> None:
    found = order([[[loads([10, 11])]], [[loads([20])]], [[loads([30, 31, 32])]]], sms=3)
    assert lines_of(found) == [10, 20, 30, 11, 31, 32]


def test_warps_wait_at_a_barrier_for_all_of_their_block() -> None:
    """Warp 1 has one request before the barrier, warp 0 three, warp 2 none at all."""
    block = [[loads([1, 2, 3]), loads([4])], [loads([11]), loads([12, 13])], [[], loads([21])]]
    assert lines_of(order([block])) == [1, 11, 2, 3, 12, 21, 4, 13]


def test_a_warp_that_has_ended_is_not_waited_for() -> None:
    assert lines_of(order([[[loads([1]), loads([2])], [loads([11])]]])) == [1, 11, 2]


def test_barriers_one_after_the_other_take_no_turn() -> None:
    assert lines_of(order([[[[], [], loads([1]), [], loads([2])], [[], [], [], loads([11]), []]]])) == [1, 11, 2]


def test_blocks_fill_sms_in_turn_then_slots_that_become_free() -> None:
    """Blocks 0 to 3 start; block 1 ends first and makes room for 4, then 2 for 5."""
    lengths = [4, 1, 2, 4, 3, 1]
    blocks = [[[loads([100 * block + n for n in range(length)])]] for block, length in enumerate(lengths)]
    found = order(blocks, sms=2, resident=2)
    where = {line // 100: (sm, slot) for sm, slot, _, line in found}
    assert where == {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (1, 1), 4: (1, 0), 5: (0, 1)}
    assert lines_of(found) == [0, 100, 200, 300, 1, 400, 201, 301, 2, 401, 500, 302, 3, 402, 303]


def test_blocks_without_requests_make_room_at_once() -> None:
    nothing: list[Warp] = [[[], []]]
    assert order([nothing, [[loads([1])]], nothing, nothing, [[loads([2])]]], sms=2) == [(0, 0, 0, 2), (1, 0, 0, 1)]
    assert order([nothing] * 3, sms=2) == []
    many: list[list[Warp]] = [nothing, [[loads([1])]], nothing, nothing, [[loads([4])]], [[loads([5])]], [[loads([6])]]]
    assert order(many, sms=2, resident=2) == [(0, 0, 0, 4), (1, 0, 0, 1), (0, 1, 0, 5), (1, 1, 0, 6)]


def test_pauses_cut_nothing() -> None:
    """A segment that ends because the warp had its turn is followed by the next as if there were no cut."""
    whole = recorded([[[loads([1, 2, 3])], [loads([11, 12])]]])
    cut = np.array([(0, 0, 0, 1, End.PAUSE, 0), (0, 0, 1, 1, End.PAUSE, 0), (0, 0, 1, 3, End.EXIT, 0),
                    (0, 1, 3, 5, End.EXIT, 0)], SEGMENT)  # fmt: skip
    other = Recording(whole.block_ids, whole.warps, whole.local_lines, whole.events, cut)
    assert list(schedule(other, Geometry())) == list(schedule(whole, Geometry()))


@given(st.integers(0, 2**32), st.sampled_from([0, 5, 16, 48]), st.booleans(), st.integers(1, 3))
def test_nothing_is_lost(seed: int, l1_lines: int, allocates: bool, sms: int) -> None:
    recording = random_recording(seed)
    geometry = Geometry(sms=sms, resident=2, l1_lines=l1_lines, l2_lines=32, stores_allocate=allocates)
    issued = Counter(event for issue in schedule(recording, geometry) for event in issue.events)
    assert issued == Counter(recording.events.tolist())
    t = simulate(recording, geometry)
    sectors: Counter[Operation] = Counter()
    for event in recording.events.tolist():
        sectors[Operation(event >> OPERATION_SHIFT & OPERATION_MASK)] += (event >> MASK_SHIFT & ALL).bit_count()
    assert t.l1_load_sectors == sum(sectors[o] for o in (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation(2)))
    assert t.l1_local_sectors == sectors[Operation.LOCAL_LOAD]
    assert t.l2_read == t.l1_load_sectors - t.l1_load_hits + t.l1_local_sectors - t.l1_local_hits
    assert t.l2_write == sectors[Operation.STORE] + sectors[Operation.LOCAL_STORE]
    assert t.l2_atomic == sectors[Operation.ATOMIC] + sectors[Operation.REDUCTION]
    assert t.dram_read == t.l2_read - t.l2_read_hits + t.l2_atomic - t.l2_atomic_hits
    assert t.dram_write + t.left_dirty <= t.l2_write + t.l2_atomic
    assert t.left_dirty <= 4 * 32
