"""How often DRAM is read again for what L2 has lost: closed forms, and footprints by their definition."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.gpu import load_gpu
from kerncast.models.sm.grid_memory import times_read
from kerncast.occupancy import CacheGeometry, cache_geometry
from kerncast.traces import Operation, SMTrace
from tests.helpers.sm_programs import WHOLE_LINE, Step, trace_of

Events = list[tuple[Operation, int, int]]


def geometry(l2_lines: int, l1_lines: int = 0) -> CacheGeometry:
    """Return caches of so many lines of 128 bytes."""
    some = cache_geometry(load_gpu("v100-pcie-16gb"), 1, 0)
    return replace(some, l1_bytes=128 * l1_lines, l2_bytes=128 * l2_lines)


def trace(*warps: Events) -> SMTrace:
    """Return one block whose warps make these accesses, one after the other."""
    return trace_of([[[Step(0, {n: [event]}) for n, event in enumerate(events)] for events in warps]])


def loads(lines: list[int], mask: int = WHOLE_LINE) -> Events:
    return [(Operation.LOAD, line, mask) for line in lines]


def test_each_pass_reads_again_what_is_larger_than_l2() -> None:
    """Three passes over ten lines of each of 100 SMs."""
    found = trace(loads(list(range(10)) * 3))
    assert times_read(found, 1, geometry(100 * 9), 100 * 40) == pytest.approx(3)
    assert times_read(found, 1, geometry(100 * 10), 100 * 40) == 1


def test_only_the_sectors_that_come_again_are_read_again() -> None:
    found = trace([*loads(list(range(10))), *loads(list(range(10)), 0b0001)])
    assert times_read(found, 1, geometry(5), 40) == pytest.approx(1.25)


def test_a_line_used_at_once_again_is_not_lost() -> None:
    found = trace(loads([line for line in range(50) for _ in range(4)]))
    assert times_read(found, 1, geometry(10), 200) == 1


def test_what_l1_holds_is_not_read_again() -> None:
    found = trace(loads(list(range(10)) * 3))
    assert times_read(found, 1, geometry(5, l1_lines=10), 40) == 1
    assert times_read(found, 1, geometry(5, l1_lines=9), 40) == pytest.approx(3)


def test_warps_take_turns() -> None:
    """Each of four warps walks twice over five lines of its own: together they have twenty in use."""
    found = trace(*(loads([10 * warp + n for n in range(5)] * 2) for warp in range(4)))
    assert times_read(found, 1, geometry(19), 80) == pytest.approx(2)
    assert times_read(found, 1, geometry(20), 80) == 1


def test_stores_take_room_but_are_not_read() -> None:
    stores: Events = [(Operation.STORE, 100 + n, WHOLE_LINE) for n in range(40)]
    assert times_read(trace(stores * 2), 1, geometry(5), 160) == 1
    assert times_read(trace([*loads([1]), *stores, *loads([1])]), 1, geometry(20), 164) == pytest.approx(2)


def test_nothing_accessed() -> None:
    assert times_read(trace([(Operation.SHARED_LOAD, 1, 0)]), 1, geometry(5), 0) == 1


@given(st.lists(st.integers(0, 12), min_size=2, max_size=40), st.integers(1, 12))
def test_the_window_is_the_longest_that_holds_so_many_lines_on_average(lines: list[int], kept: int) -> None:
    distinct, count = len(set(lines)), len(lines)
    expected = 1.0
    if kept < distinct:
        footprints = [
            np.mean([len(set(lines[start : start + w])) for start in range(count - w + 1)]) for w in range(count + 1)
        ]
        window = max(w for w, footprint in enumerate(footprints) if footprint <= kept + 1e-9)
        again = sum(
            any(lines[n] == lines[before] for before in range(n)) and lines[n] not in lines[max(0, n - window) : n]
            for n in range(count)
        )
        expected += again / distinct
    assert times_read(trace(loads(lines)), 1, geometry(kept), 4 * distinct) == pytest.approx(expected)
