"""JSON of the command line: the same object comes back; of long lists each element is a line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.report.as_json import json_text

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=20)


@given(st.dictionaries(st.text(), VALUES), st.lists(VALUES, max_size=5))
def test_the_same_object_comes_back(table: dict[str, object], some: list[object]) -> None:
    whole = {**table, "long": some * 60}
    assert json.loads(json_text(whole)) == whole


def test_small_objects_are_as_the_library_indents_them() -> None:
    table = {"a": [1, {"µ": "x\ny"}], "b": {}, "c": []}
    assert json_text(table) == json.dumps(table, indent=2, ensure_ascii=False) + "\n"
    assert json_text({}) == "{}\n"


def test_an_element_of_a_long_list_is_a_line() -> None:
    text = json_text({"rows": [{"n": number, "of": [1, 2]} for number in range(1000)]})
    assert len(text.splitlines()) == 1004
    assert text.splitlines()[2] == '    {"n": 0, "of": [1, 2]},'


@pytest.mark.parametrize("length", [1, 1000])
def test_what_json_cannot_hold_is_an_error(length: int) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"rows": [float("nan")] * length})
