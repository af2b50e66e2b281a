"""Arguments that point into the buffer of another one: ``&x[128]``."""

from pathlib import Path
from typing import Any

import pytest

from kerncast.errors import LaunchError
from kerncast.execute import execute, run_launch
from kerncast.launch import Reference, parse_value
from tests.helpers.execute_helpers import compiled, launch, run

SOURCE = """
extern "C" __global__ void shift(float *x, const float *y, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = y[threadIdx.x] + 100;
}
"""


@pytest.mark.parametrize(("text", "offset"), [("&x", 0), ("&x[0]", 0), ("&x[128]", 128), (" & x [ 7 ] ", 7)])
def test_a_reference_is_read(text: str, offset: int) -> None:
    found = parse_value(text, "", Path())
    assert found == Reference("x", offset)
    assert parse_value(str(found), "", Path()) == found


@pytest.mark.parametrize("text", ["&", "&x[", "&x[-1]", "&x[1.5]", "&x[y]", "&x + 3", "&3", "x[3]", "&x[1][2]"])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(LaunchError):
        parse_value(text, "", Path())


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_both_pointers_reach_one_buffer(engine: Any) -> None:
    where = launch(1, 32, x="f32[8] iota", y="&x[4]", n=4)
    trace = execute(compiled(SOURCE), where, engine=engine)[0]
    assert trace.memory["x"].tolist() == [104, 105, 106, 107, 4, 5, 6, 7]
    assert [allocation.name for allocation in trace.allocations] == ["x"]


def test_a_reference_may_stand_before_its_buffer() -> None:
    trace = run(compiled(SOURCE), launch(1, 32, x="&y[2]", y="f32[4] iota", n=2))
    assert trace.memory["y"].tolist() == [0, 1, 100, 101]


def test_blocks_that_share_a_buffer_are_not_taken_for_independent() -> None:
    shared = run_launch(compiled(SOURCE), launch(2, 32, x="f32[8] iota", y="&x[4]", n=4))
    apart = run_launch(compiled(SOURCE), launch(2, 32, x="f32[8] iota", y="f32[4] iota", n=4))
    assert apart.is_independent
    assert not shared.is_independent


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": "f32[8]", "y": "&z", "n": 4}, "no argument z has a buffer. Arguments with a buffer: x."),
        ({"x": "f32[8]", "y": "&n", "n": 4}, "no argument n has a buffer"),
        ({"x": 0, "y": "&x", "n": 4}, "no argument x has a buffer. No argument has one."),
        ({"x": "f32[8]", "y": "&x[8]", "n": 4}, "&x[8] lies outside x, which has 8 elements. Give 0 to 7."),
        ({"x": "f32[8]", "y": "&x", "n": "&x"}, "&x[0] is given for a parameter that is not a pointer"),
    ],
)
def test_what_does_not_fit_is_an_error(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        run(compiled(SOURCE), launch(1, 32, **arguments))
    assert said in str(caught.value)


def test_past_the_end_is_found_as_with_any_pointer() -> None:
    with pytest.raises(Exception, match="past the end of x"):
        run(compiled(SOURCE), launch(1, 32, x="f32[8] iota", y="&x[6]", n=4))
