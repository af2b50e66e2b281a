"""Frozen dataclasses survive the way to JSON and back; other data is refused."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.typed_json import from_json, to_json


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Dot:
    x: float
    colour: Colour


@dataclass(frozen=True)
class Line:
    dots: tuple[Dot, ...]
    ends: tuple[int, str]
    name: str | None
    content: bytes
    place: Path
    start: Dot | None = None
    other: "Line | Dot | None" = None


numbers = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False)
dots = st.builds(Dot, numbers, st.sampled_from(Colour))
lines = st.recursive(
    st.builds(
        Line,
        st.lists(dots, max_size=3).map(tuple),
        st.tuples(st.integers(), st.text()),
        st.none() | st.text(),
        st.binary(),
        st.just(Path("a/b")),
        st.none() | dots,
    ),
    lambda inner: st.builds(
        Line, st.just(()), st.just((1, "")), st.none(), st.just(b""), st.just(Path("c")), st.none(), inner | dots
    ),
    max_leaves=3,
)


@given(lines)
def test_what_goes_out_comes_back(line: Line) -> None:
    assert from_json(Line, json.loads(json.dumps(to_json(line)))) == line


@pytest.mark.parametrize(
    "data",
    [
        None,
        1,
        [],
        {},
        {"Line": []},
        {"Dot": [1.0, "red"]},
        {"Line": [[], [1], None, "", "p", None, None]},
        {"Line": [[], [1, "a"], 3, "", "p", None, None]},
        {"Line": [[], [True, "a"], None, "", "p", None, None]},
        {"Line": [[], [1, "a"], None, "xyz", "p", None, None]},
        {"Line": [[{"Dot": ["1", "red"]}], [1, "a"], None, "", "p", None, None]},
        {"Line": [[{"Dot": [1.0, "green"]}], [1, "a"], None, "", "p", None, None]},
    ],
)
def test_other_data_is_refused(data: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        from_json(Line, data)


def test_a_value_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no form"):
        to_json(object())
