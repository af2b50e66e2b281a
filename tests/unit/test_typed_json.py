"""Frozen dataclasses survive the way to JSON and back; other data is refused."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.compile import CompileRequest, DeviceVariable, HostCopy, Limits
from kerncast.compile.nouns import Geometry
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


GOOD = {"dots": [], "ends": [1, "a"], "name": None, "content": "", "place": "p", "start": None, "other": None}


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("ends", [1]), ("ends", [True, "a"]), ("ends", {}), ("name", 3), ("content", "no base64"), ("place", 1),
        ("dots", [{"x": "1", "colour": "red"}]), ("dots", [{"x": 1.0, "colour": "green"}]), ("dots", [{"x": 1.0}]),
        ("dots", [{"x": True, "colour": "red"}]), ("dots", None), ("more", 1),
    ],
)  # fmt: skip
def test_other_data_is_refused(field: str, data: object) -> None:
    assert from_json(Line, GOOD) == Line((), (1, "a"), None, b"", Path("p"))
    with pytest.raises(ValueError, match=r"."):
        from_json(Line, {**GOOD, field: data})


@pytest.mark.parametrize("data", [None, 1, [], {}, "text"])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="should stand here"):
        from_json(Line, data)


def test_a_value_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no form"):
        to_json(object())


VALUES = [
    CompileRequest(Path("a/k.cu"), ("sm_70",), None, (("N", "4"),), (Path("inc"),), limits=Limits(1.5, 7)),
    DeviceVariable(
        "w", True, "int[2]", "i32", 8, False, 3, (HostCopy("k.cu", 9, b"\0\xff"), HostCopy("k.cu", 9, None))
    ),
    *(Geometry("n", extents) for extents in ((1,), (1, None), (2**63, 2, 3))),
]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_survives_json(value: object) -> None:
    again = from_json(type(value), json.loads(json.dumps(to_json(value))))
    assert again == value
    # 1, 1.0 and True are equal.
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True), (int, 1.0), (bool, 1), (str, None), (str | None, 1), (tuple[int, ...], 1), (tuple[int, ...], [""]),
        (tuple[int, int], [1]), (bytes, "no base64"), (bytes, 1), (Path, None), (Limits, None),
        (Limits, {"seconds": 1.0}), (Limits, {"seconds": 1.0, "memory_bytes": 1, "more": 1}),
        (Limits, {"seconds": "1", "memory_bytes": 1}),
    ],
)  # fmt: skip
def test_what_is_no_such_value_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(kind, value)
