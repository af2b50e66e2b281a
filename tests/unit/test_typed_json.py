"""What a child is asked and answers survives JSON; anything else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from kerncast.compile.nouns import CompileRequest, DeviceVariable, HostCopy, Limits
from kerncast.hostcode.nouns import HostValue
from kerncast.typed_json import from_json, to_json

VALUES = [
    CompileRequest(Path("a/k.cu"), ("sm_70",), None, (("N", "4"),), (Path("inc"),), limits=Limits(1.5, 7)),
    DeviceVariable(
        "w", True, "int[2]", "i32", 8, False, 3, (HostCopy("k.cu", 9, b"\0\xff"), HostCopy("k.cu", 9, None))
    ),
    *(HostValue("n", "k.cu:1", value) for value in (None, True, 1, 1.0, "f32[4] zeros", (1, None))),
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
        (tuple[int, int], [1]), (bytes, "none"), (bytes, 1), (Path, None), (Limits, None), (Limits, {"Limits": [1]}),
        (Limits, {"Limits": [1.0, 2, 3]}), (Limits, {"Limits": ["1", 2]}), (Limits, {"Other": [1.0, 2]}),
    ],
)  # fmt: skip
def test_what_is_no_such_value_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        from_json(kind, value)
