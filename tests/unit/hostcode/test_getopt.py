"""Options that host code looks for on its command line: each is stated as the program has it, or is a question mark."""

import getopt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.hostcode.options import LongOption, is_reordered, parsed
from tests.helpers.host_programs import argument, launches_with, program_of

HEAD = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <getopt.h>
__global__ void k(int n, int m) {}
"""
MAIN = "int main(int argc, char **argv) { int n = 1, m = 2, c; "
GETOPT = MAIN + 'while ((c = getopt(argc, argv, "n:m:dxo::")) != -1) '
LOOP = MAIN + "for (int i = 1; i < argc; i++) "
TABLE = 'struct option table[] = {{"size", 1, 0, \'s\'}, {"big", 0, 0, 1000}, {0, 0, 0, 0}}; '
END = " k<<<1, 32>>>(n, m); }"


@pytest.mark.parametrize(
    ("source", "expected"),
    [  # what the programs pass for n and m where gcc 12 compiles them; None where that is not stated
        (
            GETOPT + "switch (c) { case 'n': n = atoi(optarg); break; case 'm': n = 2 * atoi(optarg); break; }",
            {"": (1, 2), "-n 5": (5, 2), "-m 3 -n 4": (4, 2), "-n 4 -m3": (6, 2), "x -n 7": (7, 2), "-- -n 5": (1, 2)},
        ),
        (
            MAIN + 'while (1) { c = getopt(argc, argv, "n:"); m = c; if (c == -1) break; n = atoi(optarg); }',
            {"": (1, -1), "-n 5": (5, -1)},
        ),
        (GETOPT + "{ if (c != 'n') continue; n = atoi(optarg); }", {"-n 5 -m 6": (5, 2), "-m 6 -n 5": (5, 2)}),
        (GETOPT + "{ if (c == 'x') break; n = atoi(optarg); }", {"-x -n 5": (1, 2), "-n 5 -x -n 7": (5, 2)}),
        (
            GETOPT
            + "switch (c) { case 'm': m = n / 4; break; case 'd': n = n * 2; break; case 'n': n = atoi(optarg); }",
            {"-d -d": (4, 2), "-n 5 -d": (10, 2), "-d -n 5": (5, 2), "-n 64 -m 0 -n 8": (8, 16), "-m 0 -n 64": (64, 0)},
        ),
        (
            GETOPT
            + "switch (c) { case 'd': n = 2; if (m) break; case 'x': n = 3; break; case 'n': { n = 6; break; } }",
            {"-d": (2, 2), "-x": (3, 2), "-x -d": (2, 2), "-n 1 -x": (3, 2)},
        ),
        (
            GETOPT + "{ switch (c) { case 'd': goto next; case 'x': n = 3; break; } m = 9; next: ; }",
            {"-d": (None, None), "-x": (3, 9)},
        ),
        (GETOPT + "{ if (c == 'o') { if (optarg) n = atoi(optarg); else n = 42; } }", {"-o": (42, 2), "-o5": (5, 2)}),
        (GETOPT + "{ if (c == 'd') c = 'x'; if (c == 'x') n = 8; }", {"-d": (8, 2), "-x": (8, 2), "-n 4": (1, 2)}),
        (GETOPT + "{ optarg++; n = atoi(optarg); }", {"-n x5": (None, 2)}),
        (MAIN + "if (getopt(argc - 1, argv + 1, \"n:\") == 'n') n = atoi(optarg);", {"-n 5": (None, 2)}),
        (
            MAIN + 'while ((c = getopt(argc - 1, argv + 1, "n:")) != -1) n = atoi(optarg);',
            {"9 -n 6": (None, 2), "-n 5 9": (None, 2)},
        ),
        (
            MAIN + 'optind = 2; while ((c = getopt(argc, argv, "n:")) != -1) n = atoi(optarg); m = optind;',
            {"7": (1, None)},
        ),
        (GETOPT + "; n = atoi(argv[argc - 1]);", {"100 -n 5": (None, 2), "7 8": (8, 2)}),
        (GETOPT + "if (c == 'n') n = 3;" + GETOPT[len(MAIN) :] + "if (c == 'n') m = 4;", {"-n 5": (None, None)}),
        (
            MAIN + TABLE + 'while ((c = getopt_long(argc, argv, "s:", table, 0)) != -1) '
            "switch (c) { case 's': n = atoi(optarg); break; case 1000: m = 9; }",
            {"--size 5": (5, 2), "--si=6 --big": (6, 9), "-s 7": (7, 2), "--size": (1, 2), "--other --size 3": (3, 2)},
        ),
        (
            MAIN + TABLE + 'table[0].val = 1; while ((c = getopt_long(argc, argv, "", table, 0)) != -1) '
            "if (c == 's') n = atoi(optarg);",
            {"--size 5": (None, 2)},
        ),
        (
            MAIN + 'struct option table[] = {{.name = "size", .has_arg = 1, .flag = 0, .val = 115}, {0}}; '
            'while ((c = getopt_long(argc, argv, "", table, 0)) != -1) n = atoi(optarg);',
            {"--size 5": (None, 2)},
        ),
        (
            "int g = 3; void set(int c) { if (c == 'n') g = atoi(optarg); if (c == 'd') g = g * 2; } "
            + GETOPT
            + "set(c); n = g;",
            {"": (3, 2), "-n 5 -d": (10, 2), "-d -n 5 -n 7": (7, 2)},
        ),
        (
            "struct S { int n, m; }; void parse(int argc, char **argv, S *s) { int c; s->n = 3; "
            "while ((c = getopt(argc, argv, \"n:m:\")) != -1) switch (c) { case 'n': s->n = atoi(optarg); break; "
            "case 'm': s->m = atoi(optarg); break; default: exit(1); } } "
            + MAIN
            + "S s = {4, 5}; parse(argc, argv, &s); n = s.n; m = s.m;",
            {"": (3, 5), "-n 7": (7, 5), "-m 8 -n 9": (9, 8)},
        ),
        (
            LOOP + '{ if (!strcmp(argv[i], "-n")) { i++; n = atoi(argv[i]); } else m = atoi(argv[i]); }',
            {"": (1, 2), "-n 5": (5, 2), "7 -n 5": (5, 7), "-n 5 8": (5, 8)},
        ),
        (
            LOOP + '{ if (!strcmp(argv[i], "-s")) { n = atoi(argv[++i]); m = atoi(argv[++i]); } }',
            {"-s 5 6": (5, 6), "-s 5 6 -s 7 8": (7, 8)},
        ),
        (
            LOOP
            + '{ if (!strcmp(argv[i], "-d")) n *= 2; if (!strcmp(argv[i], "-m")) m = n; if (argv[i][1] == 0) break; }',
            {"-d": (None, None)},
        ),
        (
            LOOP
            + '{ if (!strcmp(argv[i], "--")) break; if (!strcmp(argv[i], "-d")) n = n + 3; else continue; m = n; }',
            {"-d -x -d": (7, 7), "-d -- -d": (4, 4), "-x": (1, 2)},
        ),
        (
            MAIN + 'for (int i = 0; i < argc; i++) { if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]); '
            'if (!strcmp(argv[i], "a.out")) m = 3; }',
            {"-n 5": (5, None)},
        ),
        (
            MAIN + 'for (int i = argc - 1; i > 0; i--) if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]);',
            {"-n 5 -n 6": (5, 2)},
        ),
        (
            'int g = 3; void set(char **v, int i) { if (!strcmp(v[i], "-n")) g = atoi(v[i + 1]); } '
            + LOOP
            + "set(argv, i); n = g;",
            {"-n 5": (5, 2), "-n 5 -n 6": (6, 2), "-x": (3, 2)},
        ),
        (
            "int value(int argc, char **argv, const char *name) { int found = 0; for (int i = 1; i < argc; i++) "
            "if (!strcmp(argv[i], name)) { found = atoi(argv[i + 1]); break; } return found; } "
            + MAIN
            + 'n = value(argc, argv, "-n"); m = value(argc, argv, "-m");',
            {"-n 5 -n 7 -m 3": (5, 3), "": (0, 0)},
        ),
        (
            MAIN
            + "int a[3] = {7, 8, 9}; for (int i = 1; i < argc; i++) for (int j = 0; j < 3; j++) a[j] = i; n = a[1];",
            {"x": (None, 2), "": (None, 2)},
        ),
    ],
)
def test_values_are_those_of_the_program(
    source: str, expected: dict[str, tuple[int | None, int | None]], tmp_path: Path
) -> None:
    read = program_of(HEAD + source + END, tmp_path)
    for argv, values in expected.items():
        (launch,) = launches_with(read, argv)
        assert tuple(argument(launch, name).value for name in "nm") == values, argv
        assert all(argument(launch, name).reason for name, value in zip("nm", values, strict=True) if value is None)


def test_what_a_launch_inside_the_loop_sees(tmp_path: Path) -> None:
    body = "switch (c) { case 'n': n = atoi(optarg); break; case 'd': k<<<1, 32>>>(n, m); }"
    (launch,) = launches_with(program_of(HEAD + GETOPT + body + " }", tmp_path), "-n 5 -d")
    assert argument(launch, "n").value is None


LETTERS = "nvs:o:"
LONG = (LongOption("size", 1, ord("S")), LongOption("sum", 0, ord("U")), LongOption("verbose", 0, ord("V")))
WORDS = st.sampled_from(["-n", "-v", "-nv", "-s", "-s5", "-ns", "-o", "-vo7", "-", "--", "x", "5", "", "-z", "-nz"])
LONG_WORDS = st.sampled_from(
    ["--size", "--size=3", "--si", "--s", "--sum", "--sum=1", "--ver", "--verbose", "--zoo", "--=1"]
)


@given(st.lists(WORDS | LONG_WORDS, max_size=6))
def test_options_are_those_of_gnu_getopt(words: list[str]) -> None:
    names = {"--size": ord("S"), "--sum": ord("U"), "--verbose": ord("V")}
    found = parsed(words, LETTERS, LONG)
    try:
        known, rest = getopt.gnu_getopt(words, LETTERS, ["size=", "sum", "verbose"])
    except getopt.GetoptError:
        assert found is None or ord("?") in {value for value, _ in found}
        return
    takes = {"-s", "-o", "--size"}
    expected = [(names.get(name) or ord(name[1]), text if name in takes else None) for name, text in known]
    assert found == expected
    if not is_reordered(words):
        assert words[len(words) - len(rest) :] == rest


@pytest.mark.parametrize(
    ("words", "letters", "expected"),
    [  # getopt of glibc 2.36
        (["-s"], "s:", [(ord("?"), None)]),
        (["-s"], ":s:", [(ord(":"), None)]),
        (["-z", "-n"], ":n", [(ord("?"), None), (ord("n"), None)]),
        (["-o", "5"], "o::", [(ord("o"), None)]),
        (["-o5", "-s", "--"], "o::s:", [(ord("o"), "5"), (ord("s"), "--")]),
        (["-:"], "a:", [(ord("?"), None)]),
        (["x", "-n"], "+n", None),
        (["-n"], "-n", None),
        (["-W", "x"], "W;", None),
    ],
)
def test_rules_of_the_letters(words: list[str], letters: str, expected: list[tuple[int, str | None]] | None) -> None:
    assert parsed(words, letters) == expected
