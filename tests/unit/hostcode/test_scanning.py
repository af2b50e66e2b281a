"""What sscanf stores: compared with the C library's own, and where it changes a number of host code."""

import ctypes
import ctypes.util
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kerncast.hostcode.values import scanned
from tests.helpers.host_programs import argument, launches_of

C_LIBRARY = ctypes.CDLL(ctypes.util.find_library("c"))
INT_MAX = 2**31 - 1
KERNEL = "__global__ void k(int n) {}\n"


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="0123456789+-. ,x\tne", max_size=12),
    st.lists(st.sampled_from(["%d", "%*d", "%3d", "x", ",", " ", "n"]), min_size=1, max_size=5).map("".join),
)
def test_whole_numbers_are_those_of_the_c_library(text: str, pattern: str) -> None:
    stored = [ctypes.c_int(-77) for _ in range(5)]
    count = C_LIBRARY.sscanf(text.encode(), pattern.encode(), *map(ctypes.byref, stored))
    found = scanned(text, pattern)
    assert found is not None
    # ISO C 7.21.6.2 leaves open what a number beyond its type stores.
    assume(all(abs(each) <= INT_MAX for each in found))
    assert found == [each.value for each in stored[: max(0, count)]]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from(["%f", "%g", "%e"]))
def test_real_numbers_are_those_of_the_c_library(number: float, pattern: str) -> None:
    stored = ctypes.c_float()
    assert C_LIBRARY.sscanf(repr(number).encode(), pattern.encode(), ctypes.byref(stored)) == 1
    found = scanned(repr(number), pattern)
    assert found is not None
    assert ctypes.c_float(found[0]).value == stored.value


@pytest.mark.parametrize("pattern", ["%s", "%i", "%x", "%c", "%[a-z]", "%%", "%n", "%"])
def test_other_patterns_are_not_known(pattern: str) -> None:
    assert scanned("12", pattern) is None


@pytest.mark.parametrize(
    ("argv", "expected"), [("12", 12), ("7x", 7), ("x", 5), ("-3", -3), ("", "argument 1 of the command line")]
)
def test_a_number_of_the_command_line(tmp_path: Path, argv: str, expected: int | str) -> None:
    body = 'int n = 5; sscanf(argv[1], "%d", &n);'
    text = f"#include <stdio.h>\n{KERNEL}int main(int argc, char **argv) {{ {body} k<<<1, 32>>>(n); }}\n"
    (launch,) = launches_of(text, tmp_path, argv)
    value = argument(launch, "n")
    assert value.value == expected or (isinstance(expected, str) and expected in str(value.reason))
