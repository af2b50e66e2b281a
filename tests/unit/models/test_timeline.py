"""Timelines of applications against times reckoned by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.models.timeline import SPAN, Durations, Link, Timeline, busy_seconds, timeline
from kerncast.recording import EVENT, LAUNCH, Direction, EventKind, Group, Kernel, Recording, Waited
from kerncast.recording.recording import HOST_WAITS, PAGEABLE

CALL, LAUNCHING, INTERVAL = 0.1, 0.01, 0.02
LINK = Link(CALL, LAUNCHING, to_device_bytes_per_s=10.0, to_host_bytes_per_s=5.0, on_device_bytes_per_s=200.0,
            interval_s=INTERVAL)  # fmt: skip
Row = tuple[int, int, int, float, int, int]


def launch(at: float, number: int = 0, stream: int = 0) -> Row:
    return (EventKind.LAUNCH, 0, stream, at, number, 0)


def copy(at: float, nbytes: int, way: Direction, *, stream: int = 0, waits: bool = True) -> Row:
    return (EventKind.COPY, 0, stream, at, nbytes, int(way) + (HOST_WAITS if waits else 0))


def wait(at: float, what: Waited = Waited.DEVICE, number: int = 0) -> Row:
    return (EventKind.WAIT, 0, 0, at, number, int(what))


def end(at: float) -> Row:
    return (EventKind.END, 0, 0, at, 0, 0)


def run(rows: list[Row], seconds: list[float], shares: list[float] | None = None, link: Link = LINK) -> Timeline:
    count = len(seconds)
    recording = Recording(
        ("app",), "t4", "", (), (Kernel("k", "k", 0),), (Group(0, (1, 1, 1), (1, 1, 1), 0),), (),
        np.array([(0, 1, 0)] * count, LAUNCH), np.array(rows, EVENT),
    )  # fmt: skip
    return timeline(recording, Durations(np.array(seconds), np.array(shares or [1.0] * count), np.zeros(0), link))


def test_kernels_of_one_stream_follow_one_another_while_the_host_goes_on() -> None:
    found = run([launch(1.0), launch(1.0, 1), wait(1.0), end(1.5)], [3.0, 4.0])
    # The host launches at 1.01 and 1.02, waits until 8.01, and works for half a second.
    assert found.seconds == pytest.approx(1.0 + LAUNCHING + 7.0 + 0.5)
    assert found.kernels == pytest.approx(7.0)
    assert found.host == pytest.approx(1.5 + 2 * LAUNCHING)
    assert found.idle == pytest.approx(1.0 + LAUNCHING + 0.5)


def test_short_kernels_are_held_up_by_the_launch_rate_and_by_the_shortest_interval() -> None:
    by_host = run([launch(0.0, n) for n in range(10)] + [wait(0.0), end(0.0)], [1e-6] * 10)
    # One every INTERVAL, because the host is faster.
    assert by_host.seconds == pytest.approx(LAUNCHING + 10 * INTERVAL)


def test_a_copy_that_waits_comes_after_the_kernels_of_its_stream() -> None:
    found = run([launch(0.0), copy(0.0, 10, Direction.DEVICE_TO_HOST), end(0.0)], [3.0])
    assert found.seconds == pytest.approx(LAUNCHING + 3.0 + 10 / 5.0)
    assert found.copies == pytest.approx(2.0)


def test_a_wait_for_a_stream_is_none_for_later_work_of_the_default_one() -> None:
    rows = [launch(0.0, 0, 1), launch(0.0, 1, 0), wait(0.0, Waited.STREAM, 1), end(5.0)]
    found = run(rows, [1.0, 4.0])
    # The host works for five seconds from 1.01 on; the second kernel ends at 5.01.
    assert found.seconds == pytest.approx(1.0 + LAUNCHING + 5.0)


def test_streams_that_do_not_block_pass_the_default_one_by() -> None:
    made = (EventKind.STREAM, 0, 1, 0.0, 1, 0)
    rows = [launch(0.0, 0, 0), launch(0.0, 1, 1), wait(0.0), end(0.0)]
    half = [0.5, 0.5]
    assert run(rows, [3.0, 3.0], half).seconds == pytest.approx(LAUNCHING + 6.0)
    assert run([made, *rows], [3.0, 3.0], half).seconds == pytest.approx(2 * LAUNCHING + 3.0)


def test_processes_that_follow_one_another_add_up() -> None:
    first = [launch(0.0), wait(0.0), end(1.0)]
    second = [(EventKind.BEGIN, 1, 0, 0.0, 1, 0), *((row[0], 1, *row[2:]) for row in first)]
    assert run([*first, *second], [2.0]).seconds == pytest.approx(2 * (LAUNCHING + 2.0 + 1.0))


def test_memory_that_is_not_pinned_takes_longer() -> None:
    row = copy(0.0, 10, Direction.HOST_TO_DEVICE)
    slow = (*row[:5], row[5] + PAGEABLE)
    link = replace(LINK, pageable=0.5)
    assert [run([each, end(0.0)], [], link=link).seconds for each in (row, slow)] == [CALL + 1.0, CALL + 2.0]


def test_copies_of_both_ways_overlap_and_those_of_one_way_do_not() -> None:
    rows = [
        copy(0.0, 10, Direction.HOST_TO_DEVICE, stream=1, waits=False),
        copy(0.0, 10, Direction.DEVICE_TO_HOST, stream=2, waits=False), wait(0.0), end(0.0),
    ]  # fmt: skip
    assert run(rows, []).seconds == pytest.approx(2 * CALL + 2.0)
    rows[1] = copy(0.0, 10, Direction.HOST_TO_DEVICE, stream=2, waits=False)
    assert run(rows, []).seconds == pytest.approx(CALL + 1.0 + 1.0)


def test_kernels_of_two_streams_share_the_sms_as_far_as_they_leave_room() -> None:
    rows = [launch(0.0, 0, 1), launch(0.0, 1, 2), wait(0.0), end(0.0)]
    assert run(rows, [3.0, 3.0], [0.5, 0.5]).seconds == pytest.approx(2 * LAUNCHING + 3.0)
    assert run(rows, [3.0, 3.0], [0.6, 0.5]).seconds == pytest.approx(LAUNCHING + 6.0)


def test_the_default_stream_waits_for_all_and_they_for_it() -> None:
    rows = [launch(0.0, 0, 1), launch(0.0, 1, 0), launch(0.0, 2, 2), wait(0.0), end(0.0)]
    assert run(rows, [1.0, 2.0, 4.0], [0.1] * 3).seconds == pytest.approx(LAUNCHING + 7.0)


def test_a_stream_waits_for_an_event_of_another_one() -> None:
    recorded: Row = (EventKind.RECORD, 0, 1, 0.0, 5, 0)
    depends: Row = (EventKind.DEPEND, 0, 2, 0.0, 5, 0)
    rows = [launch(0.0, 0, 1), recorded, depends, launch(0.0, 1, 2), wait(0.0, Waited.STREAM, 2), end(0.0)]
    assert run(rows, [3.0, 2.0], [0.1, 0.1]).seconds == pytest.approx(LAUNCHING + 5.0)
    rows[2] = (EventKind.DEPEND, 0, 3, 0.0, 5, 0)
    assert run(rows, [3.0, 2.0], [0.1, 0.1]).seconds == pytest.approx(LAUNCHING + 3.0)
    waits_for_event = [launch(0.0, 0, 1), recorded, launch(0.0, 1, 1), wait(0.0, Waited.EVENT, 5), end(0.0)]
    assert run(waits_for_event, [3.0, 2.0]).seconds == pytest.approx(LAUNCHING + 5.0)


def test_launches_without_a_forecast_count_as_nothing_and_are_told() -> None:
    found = run([launch(0.0), launch(0.0, 1), wait(0.0), end(0.0)], [2.0, float("nan")])
    assert found.missing == 1
    assert found.kernels == pytest.approx(2.0)


def test_no_events_take_no_time() -> None:
    assert run([], []).seconds == 0.0


def spans(*times: tuple[float, float]) -> float:
    return busy_seconds(np.array([(1, 0, 0, a, b, 0) for a, b in times], SPAN))


def test_time_in_which_anything_works() -> None:
    assert spans() == 0.0
    assert spans((0, 1), (2, 3)) == 2.0
    assert spans((0, 9), (1, 2), (3, 4)) == 9.0
    assert spans((5, 6), (0, 5)) == 6.0


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 3)), min_size=1, max_size=20), st.floats(1, 5))
def test_longer_kernels_never_make_an_application_shorter(kernels: list[tuple[float, int]], factor: float) -> None:
    rows = [launch(0.1 * n, n, stream) for n, (_, stream) in enumerate(kernels)] + [wait(5.0), end(6.0)]
    times = [seconds for seconds, _ in kernels]
    shorter, longer = (run(rows, [scale * each for each in times]) for scale in (1.0, factor))
    assert longer.seconds >= shorter.seconds - 1e-9
    assert shorter.seconds >= max(times)
    assert shorter.idle <= shorter.seconds
