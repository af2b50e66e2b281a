"""Launches chosen as Nsight Compute does, and patterns against Python's own ``re``."""

import re
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.read import Pattern, Selection, function_name

KERNELS = (
    "init(float *)", "void app::reduce<float, 256>(const T1 *, T1 *)", "reduce(int)", "reduce_last(int)",
    "init(float *)", "void app::reduce<double, 256>(const T1 *, T1 *)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), (0, 1, 2, 3, 4, 5)),
        (Selection("reduce"), (1, 2, 5)),  # the whole name of the function, whatever its template and namespace
        (Selection("reduce(int)"), (2,)),
        (Selection("red"), ()),
        (Selection("regex:red"), (1, 2, 3, 5)),  # anywhere in it
        (Selection("regex:^reduce$"), (1, 2, 5)),
        (Selection("regex:app"), ()),  # only the name of the function is looked at
        (Selection("regex:^(init|reduce_last)$"), (0, 3, 4)),
        (Selection(skip=4), (4, 5)),
        (Selection("reduce", skip=1), (2, 5)),  # of those that match
        (Selection("reduce", skip=1, count=1), (2,)),
        (Selection(count=2), (0, 1)),
        (Selection(skip=99), ()),
    ],
)
def test_what_is_chosen(selection: Selection, expected: tuple[int, ...]) -> None:
    assert selection.chosen(KERNELS) == expected


def test_nothing_chosen_names_what_there_is() -> None:
    with pytest.raises(InputError, match=r"p\.csv: no kernel is called 'sum'\. It holds init, reduce, reduce_last"):
        Selection("sum").check((), KERNELS, "p.csv")
    with pytest.raises(InputError, match="every launch is skipped"):
        Selection(skip=9).check((), KERNELS, "p.csv")


@pytest.mark.parametrize(("name", "arguments"), [("skip", (None, -1)), ("count", (None, 0, 0)), ("-k", ("",))])
def test_a_selection_of_nothing_is_refused(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=name):
        Selection(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("saxpy", "saxpy"),
        ("void f<(int)4, g<h>>(void (*)(int))", "f"),
        ("copy_blocked[v1,cw51](Array<long long, 1, C>, long long)", "copy_blocked"),
        ("(anonymous namespace)::k(int)", "k"),
        ("_Z5saxpyifPf", "_Z5saxpyifPf"),
        ("<<<((([[[", "<<<((([[["),
    ],
)
def test_names_of_functions(kernel: str, expected: str) -> None:
    assert function_name(kernel) == expected


def test_a_hostile_name_takes_no_time() -> None:
    start = time.process_time()
    function_name("(" * 200_000 + "k" + ")" * 200_000)
    assert time.process_time() - start < 20


PIECES = st.sampled_from([
    *"abc.|()^$", "*", "+", "?", "(a|b)", "(?:ab)", "[ab]", "[^a]", r"\w", r"\.", "a{2}", "b{1,2}", "c{2,}", "a*?",
])  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=8).map("".join), st.text("abc.", max_size=8))
def test_patterns_fit_what_pythons_fit(pattern: str, text: str) -> None:
    try:
        found = Pattern(pattern).is_in(text)
    except InputError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = re.search(pattern.replace("$", r"\Z"), text, re.DOTALL)
        except re.error:
            return
    assert found == bool(expected)


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$b", "(.*)*(.*)*(.*)*x", "(a?){60}a{60}b", "a*a*a*a*a*b"]
)
def test_patterns_that_backtracking_never_ends_on(pattern: str) -> None:
    start = time.process_time()
    assert not Pattern(pattern).is_in("a" * 2000)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "group without an end"),
        (")", "closes a group"),
        ("*a", "repeats nothing"),
        ("a**", "repeats a repetition"),
        ("[a", "class"),
        ("[z-a]", "class"),
        (r"(a)\1", "not known here"),
        ("(?=a)", "looks around"),
        ("a{3,1}", "at least"),
        ("((a{99}){99}){99}", "repeats too much"),
        ("(" * 100 + ")" * 100, "nests too many"),
        ("a" * 301, "longer than 300"),
        ("a\\", "not known here"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Selection(f"regex:{pattern}")


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused(pattern: str, text: str) -> None:
    try:
        Pattern(pattern).is_in(text)
    except InputError:
        return
