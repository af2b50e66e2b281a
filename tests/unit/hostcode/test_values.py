"""Numbers of host code have the values that C++ gives them, or none."""

from pathlib import Path

import pytest

from tests.helpers.host_programs import argument, launches_of

KERNEL = "__global__ void k(int n, double x) {}\n"


def passed(before: str, body: str, expression: str, folder: Path, argv: str | None = "100 2.5 name") -> object:
    """Return what a launch in main passes for n, or why that is not known."""
    text = f"{KERNEL}{before}\nint main(int argc, char **argv) {{\n{body}\nk<<<1, 32>>>({expression}, 0);\n}}\n"
    (launch,) = launches_of(text, folder, argv)
    value = argument(launch, "n")
    return value.value if value.value is not None else value.reason


@pytest.mark.parametrize(
    ("before", "body", "expression", "expected"),
    [
        ("", "", "3 + 4 * 5 - 6 / 4", 22),
        ("", "", "(-7) / 2 + (-7) % 3", -4),
        ("", "", "1 << 10 | 3 & ~1 ^ 8", 1 << 10 | 10),
        ("", "", "sizeof(double) * 3 + sizeof(float4)", 40),
        ("", "int n = 5;", "n > 4 ? n : -n", 5),
        ("", "int n = 5;", "!n + (n == 5) + (n != 5 || n < 2 && n)", 1),
        ("#define N 12\n#define TWICE(a) (2 * (a))", "", "TWICE(N) + 1", 25),
        ("enum { A = 3, B }; enum class E { C = 7 };", "", "B + (int)E::C", 11),
        ("const int n = 4; constexpr int m = n * 2;", "", "m", 8),
        ("int n = 4;", "", "n", 4),
        ("static int n; ", "n = 9;", "n", 9),
        ("namespace a { int n = 6; }", "", "a::n", 6),
        ("struct S { static const int n = 7; static constexpr int m = 1; };", "", "S::n + S::m", 8),
        ("", "int n = 5; n += 3; n <<= 2; n--;", "n", 31),
        ("", "int n; n = 5; n = n + 1;", "n", 6),
        ("", "unsigned n = 0; n -= 1;", "n >> 28", 15),
        ("", "unsigned char n = 250; n += 10;", "n", 4),
        ("", "long long n = 1LL << 40;", "(int)(n >> 30)", 1024),
        ("", "float f = 0.1f;", "(int)(f * 1e9f)", 100000000),
        ("", "double d = 7.9;", "(int)d + static_cast<int>(d) + int(d)", 21),
        ("#include <cmath>", "int n = 1000;", "ceil(n / 256.0) + floor(2.7) + sqrt(16.0f)", 10),
        ("#include <algorithm>", "int n = 7;", "std::max(n, 5) + std::min(n, 5) + max(1, 2)", 14),
        ("#include <cmath>", "", "pow(2, 10) + log2(8.0) + abs(-4)", 1031),
        ("int up(int a, int b) { return (a + b - 1) / b; }", "", "up(1000, 256)", 4),
        ("int up(int a, int b = 10) { int c = a + b; return c; }", "", "up(5)", 15),
        ("int big(int a) { if (a > 10) return 1; return 2; }", "", "big(11) * 10 + big(3)", 12),
        ("template <class T> T up(T a, T b) { return (a + b - 1) / b; }", "", "up(1000, 256)", 4),
        ("template <int B> int blocks(int n) { return n / B; }", "", "blocks<16>(64)", 4),
        ("void set(int *p) { *p = 8; }", "int n = 1; set(&n);", "n", 8),
        ("void set(int &p) { p = 8; }", "int n = 1; set(n);", "n", 8),
        ("struct S { int a, b; };", "S s = {3, 4}; s.b = 6;", "s.a * 10 + s.b", 36),
        ("struct S { int a; };\nvoid set(S *s) { s->a = 5; }", "S s; set(&s);", "s.a", 5),
        ("struct S { int a = 2; int b = a + 1; };", "S s;", "s.b", 3),
        ("struct S { int a; S(int b) : a(b * 2) {} int get() { return a; } };", "S s(4);", "s.get()", 8),
        ("", "int a[] = {3, 5, 7};", "a[1]", 5),
        ("", "int a = 1, b = 2, c = a; a = b; b = c;", "a * 10 + b", 21),
        ("#include <utility>", "int a = 1, b = 2; std::swap(a, b);", "a * 10 + b", 21),
        ("#include <vector>", "std::vector<float> v(30);", "v.size()", 30),
        ("", "auto f = [](int a) { return a * 2; };", "f(4)", 8),
        ("", "auto n = 4u;", "n", 4),
        ("", "", "atoi(argv[1])", 100),
        ("", "", "(int)(atof(argv[2]) * 2)", 5),
        ("#include <string>", "", "std::stoi(argv[1]) + strtol(argv[1], NULL, 10) + argc", 204),
        ("", "int n = 1; if (argc > 1) n = atoi(argv[1]);", "n", 100),
        ("", "int n = argc > 9 ? atoi(argv[9]) : 7;", "n", 7),
        ("", "if (argc != 4) { printf(argv[0]); return 1; }\nint n = 3;", "n", 3),
        ("", "int n = 3; if (unknown()) { n = 4; exit(1); }", "n", 3),
        ("", "int n = 3; do { n = 5; } while (0);", "n", 5),
        ("", 'int n = 3; if (argc > 1 && !strcmp(argv[3], "name")) n = 9;', "n", 9),
        ("", "int n = 0; switch (0) { } n = 4;", "n", 4),
    ],
)  # fmt: skip
def test_a_number_of_host_code(before: str, body: str, expression: str, expected: int, tmp_path: Path) -> None:
    assert passed(before, body, expression, tmp_path) == expected


@pytest.mark.parametrize(
    ("before", "body", "expression", "words"),
    [
        ("", 'int n; scanf("%d", &n);', "n", "scanf"),
        ("", "int n = 0; std::ifstream f(argv[1]); f >> n;", "n", "stream"),
        ("", "int n = 1; if (unknown()) n = 2;", "n", "different values: 2, 1"),
        ("", "int n = 1; while (n < 10) n *= 2;", "n", "changes in the loop of k.cu:4"),
        ("", "int n = 0; for (int i = 0; i < 9; i++) if (i == 5) n = i;", "n", "in a loop"),
        ("", "int n = 7;\nfor (auto a : 5) { n++; }", "n", "code that is not followed, line 5"),
        ("", "int n;", "n", "set nowhere"),
        ("extern int n;", "", "n", "another file"),
        ("", "int zero = 0;", "1 / zero", "division by zero"),
        ("", "int n = 2147483647;", "n + 1", "overflows int"),
        ("", "int n = 3;", "1 << (n * 100)", "a shift by 300"),
        ("#include <cmath>", "double d = -1;", "(int)sqrt(d)", "not a number"),
        ("", "cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);", "p.multiProcessorCount", "cudaGetDeviceProperties"),
        ("int f(int a) { return f(a + 1); }", "", "f(1)", "nested too deeply"),
        ("int read_it();", "", "read_it()", "read_it"),
        ("", "", "rand()", "rand"),
        ("", "", "strtol(argv[1], NULL, 16)", "base 16"),
        ("", "int n = 1; unknown() && (n = 2);", "n", "different values: 2, 1"),
        ("struct W { int a; W(int b); operator int(); };", "W w(5);", "w", "W(…) is not known"),
        ("", "", "atoi(argv[7])", "argument 7"),
        ("", "int n = 1; int *p = &n; *p = 5; unknown(p);", "n", "points to it since k.cu:4"),
        ("", "int n = 1; int &p = n; p = 5;", "n", "points to it since k.cu:4"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_stated(before: str, body: str, expression: str, words: str, tmp_path: Path) -> None:
    found = passed(before, body, expression, tmp_path)
    assert isinstance(found, str)
    assert words in found


def test_without_a_command_line_its_values_are_undecided(tmp_path: Path) -> None:
    body = "int n = 4; if (argc > 1) n = atoi(argv[1]);"
    assert "argument" not in str(passed("", body, "n", tmp_path, None))
    assert "--argv" in str(passed("", "", "atoi(argv[1])", tmp_path, None))
    assert not isinstance(passed("", body, "n", tmp_path, None), int)


def test_an_unknown_function_is_taken_not_to_change_what_it_gets(tmp_path: Path) -> None:
    text = f"{KERNEL}int main() {{ int n = 5;\nreadIt(n); k<<<1, 32>>>(n, 0); }}\n"
    value = argument(launches_of(text, tmp_path)[0], "n")
    assert (value.value, value.notes) == (5, ("readIt(…) at k.cu:3 is not known and taken not to change it",))


def test_options_of_the_command_line(tmp_path: Path) -> None:
    body = """int n = 5;
for (int i = 1; i < argc; i++) {
  if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]);
  else if (strcmp(argv[i], "-m") == 0) i++;
}"""
    assert passed("", body, "n", tmp_path, "-n 10") == 10
    assert passed("", body, "n", tmp_path, "-m 10") == 5
    assert passed("", body, "n", tmp_path, "") == 5


def test_a_chain_of_many_sums_ends(tmp_path: Path) -> None:
    body = "int a0 = argc;" + "".join(f"int a{i + 1} = a{i} + a{i};" for i in range(40))
    assert passed("", body, "a40", tmp_path) == "it takes too long to work out"


@pytest.mark.parametrize("last", ["exit(1);", "return 1;", "{ printf(usage); exit(1); }"])
def test_a_switch_whose_last_case_ends_the_program_may_have_run_another(tmp_path: Path, last: str) -> None:
    setup = 'extern int c; const char *usage = "";'
    body = f"int n = 5; switch (c) {{ case 1: n = 7; break; case 2: n = 5; break; default: {last} }}"
    assert passed(setup, body, "n", tmp_path) == "it is given different values: 5, 7, 5"
    assert passed(setup, body.replace("n = 7", "n = 5"), "n", tmp_path) == 5
    ending = body.replace("n = 7; break;", "n = 7; exit(2);")
    assert passed(setup, ending, "n", tmp_path) == 5


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < argc; i++) { if (argv[i][0] == 'n') { n = atoi(argv[i]); continue; } exit(1); }",
        "while (argc > 7) { n = 7; if (argv[1]) break; exit(1); }",
        "if (argc > 7) { n = 7; if (argv[1]) goto on; exit(1); } on:;",
    ],
)
def test_a_jump_may_lead_around_the_exit_behind_it(tmp_path: Path, body: str) -> None:
    assert not isinstance(passed("", f"int n = 5; {body}", "n", tmp_path, None), int)
