"""A statement of another branch, of another case, or behind a jump has not run where a launch stands."""

from pathlib import Path

import pytest

from tests.helpers.host_programs import argument, launches_with, program_of

HEAD = """#include <stdlib.h>
__global__ void k(int n) {}
"""
MODE = 'int n = 100, mode = getenv("HOME") ? 1 : 0; '
END = " k<<<1, 32>>>(n); }"


def stated(text: str, folder: Path, argv: str = "") -> list[object]:
    """Return what the launches of a program pass, and None for what is left to decide."""
    values = [argument(each, "n") for each in launches_with(program_of(HEAD + text, folder), argv)]
    assert all(value.reason for value in values if value.value is None)
    return [f"{value.value} noted" if value.notes and value.value is not None else value.value for value in values]


@pytest.mark.parametrize(
    ("body", "expected"),
    [  # the program passes 200 each time, where gcc 12 compiles it
        ("switch (mode) { case 1: { n = 200; break; } default: exit(1); }", None),
        ("switch (mode) { case 1: n = 200; if (mode) break; exit(3); default: exit(1); }", None),
        ("switch (mode) { case 1: n = 200; goto done; default: exit(1); } done:", None),
        ("for (int i = 0; i < 2; i++) switch (mode) { case 1: n = 200; continue; default: exit(1); }", None),
        (
            "switch (mode) { case 1: { n = 200; switch (mode + 1) { case 7: exit(0); } break; } default: exit(1); }",
            None,
        ),
        ("switch (mode) { case 0: n = 7; exit(2); case 1: n = 200; }", None),
        ("do { if (mode) { n = 200; break; } n = 6; exit(0); } while (0);", None),
        ("n = 200; switch (mode) { case 0: n = 300; exit(1); }", 200),
        ("n = 200; do { if (mode > 5) n = 200; } while (0);", 200),
    ],
)
def test_what_a_switch_sets_is_not_forgotten(body: str, expected: int | None, tmp_path: Path) -> None:
    assert stated("int main() { " + MODE + body + END, tmp_path) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("switch (mode) { case 0: n = 200; k<<<1, 32>>>(n); break; case 1: k<<<1, 32>>>(n); }", [200, 100]),
        ("switch (mode) { case 0: n = 2; break; case 1: n = 3; case 2: k<<<1, 32>>>(n); }", [None]),
        ("if (mode) n = 200; else k<<<1, 32>>>(n);", [100]),
        ("if (mode) { n = 200; } else { if (mode + 1) { n = 300; } else { k<<<1, 32>>>(n); } }", [100]),
        ("for (int i = 0; i < 2; i++) if (mode + i == 1) n = 200; else k<<<1, 32>>>(n);", [None]),
    ],
)
def test_another_case_or_branch_has_not_run(text: str, expected: list[object], tmp_path: Path) -> None:
    assert stated("int main() { " + MODE + text + " }", tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "int n = 2, m = 5; void w() { for (int i = 0; i < 2; i++) m = n++; } int main() { w(); k<<<1, 32>>>(m); }",
            None,
        ),
        (
            "int m = 5; void work() { k<<<1, 32>>>(m); m += 1; } int main() { for (int i = 0; i < 2; i++) work(); }",
            "5 noted",
        ),
        ("int m = 5; void work() { k<<<1, 32>>>(m); m += 1; } int main() { work(); }", 5),
    ],
)
def test_later_passes_of_a_loop_that_functions_change(text: str, expected: object, tmp_path: Path) -> None:
    assert stated(text, tmp_path) == [expected]


def test_instances_of_a_function_share_a_launch_with_a_note(tmp_path: Path) -> None:
    text = "template <int B> void run() { k<<<1, B>>>(B); } int main(int c, char **) { if (c) run<64>(); run<32>(); }"
    assert stated(text, tmp_path) == ["64 noted"]
