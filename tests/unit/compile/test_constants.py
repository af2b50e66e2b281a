"""Const numbers at file scope: what nvcc folds is folded, what only the host program knows goes."""

from pathlib import Path

import numpy as np
import pytest

from kerncast.compile import compile_source
from kerncast.compile.source import constants, host_code, parsing
from tests.helpers.execute_helpers import compiled, launch, run

OPTIONS = parsing.ParseOptions(70, "c++17", (), ())


def device_code(text: str, tmp_path: Path) -> str:
    path = tmp_path / "k.cu"
    path.write_text(text, encoding="utf-8")
    found = parsing.by_file(parsing.parse(path, OPTIONS))
    sorted_ = constants.sort_constants(found, {str(path): text.encode()})
    here = sorted_.get(str(path), constants.Constants())
    return host_code.device_code(text.encode(), found.get(str(path), ()), host_code.Context(here)).text.decode()


@pytest.mark.parametrize(
    ("declared", "used", "expected"),
    [
        ("const float a = 0.5f;\nconst float b = -a;", "a + 3 * b", 0.5 - 1.5),
        (
            "const float a = 0.5f;\nconst float b = -a;\nconstexpr int twice(int n) { return 2 * n; }",
            "twice(3) * b",
            -3,
        ),
        ("static const double a = 1.5, b = a * a;", "b", 2.25),
        ("const float a(3), b{a + 1}; const float c(b * 2);", "c", 8),
        ("const float a = 3; const float w[2] = {a, 2 * a}; const float v = w[1];", "v", 6),
        ("typedef float row[3]; const float a = 3; const row w = {1, a, 1};", "w[1]", 3),
        ("const float a = 2.5f; const int n = a * 2;", "n", 5),
        ("const int n = 4; const int m = n * 2; const float f = m; const float g = f + n;", "g", 12),
        ("enum { E = 3 }; const float a = E; const float b = a * E;", "b", 9),
        ("namespace N { const float a = 3; namespace { const float b = a + 1; } }", "N::b", 4),
        ("#define NUMBER(n, v) const float n = v;\nNUMBER(a, 2.0f)\nNUMBER(b, -a)", "b", -2),
        (
            "template <class T> constexpr T twice(T a) { return a + a; }\nconst float a = twice(3.0f), b = a + 1;",
            "b",
            7,
        ),
        ("#include <algorithm>\nconst float a = std::max(3.0f, 4.0f); const float b = a + 1;", "b", 5),
        ("const float a = 1.0f / 4; const float b = a < 0.5f ? a : 2 * a;", "b", 0.25),
    ],
)
def test_a_const_number_made_from_others_has_its_value(declared: str, used: str, expected: float) -> None:
    kernel = compiled(f'{declared}\nextern "C" __global__ void k(float *x) {{ x[threadIdx.x] = {used}; }}\n')
    trace = run(kernel, launch(1, 32, x="f32[32] zeros"))
    np.testing.assert_array_equal(trace.memory["x"], np.full(32, expected, np.float32))


@pytest.mark.parametrize(
    "text",
    [
        "const int COUNT = 7;",
        "const int COUNT = 7, MORE = 2 * COUNT;",
        "const int COUNT = 7; const float REAL = COUNT * 2.0f;",
        "const float WEIGHTS[3] = {0.5f, 1.0f, 0.5f};",
        "constexpr float a = 1; constexpr float b = -a;",
        "const unsigned long BYTES = sizeof(float) * 4;",
        "const float UNKNOWN_MADE = SOMETHING_UNKNOWN;",
    ],
)
def test_what_needs_no_constexpr_stays_byte_for_byte(text: str, tmp_path: Path) -> None:
    assert device_code(text, tmp_path) == text


@pytest.mark.parametrize(
    "text",
    [
        "float g; const float s = g;",
        "int now(); const int started = now();",
        "const float root = unknown_function(2.0f);",
        "#include <cmath>\nconst double pi = acos(-1.0); const double half = pi / 2;",
        "extern const float elsewhere; const float back = -elsewhere;",
        "template <class T> T twice(T a) { return a + a; }\nconst float six = twice(3.0f);",
    ],
)
def test_what_only_the_host_program_knows_does_no_harm(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(text + "\nvoid host() {}\n__global__ void k(float *x) { x[0] = 1; }\n", encoding="utf-8")
    assert ".entry _Z1kPf(" in compile_source(path, architectures=["sm_70"]).kernels[0].ptx


def test_a_const_number_may_stand_in_a_header(tmp_path: Path) -> None:
    (tmp_path / "step.h").write_text("#pragma once\nconst float step = 0.5f;\n", encoding="utf-8")
    path = tmp_path / "k.cu"
    path.write_text(
        '#include "step.h"\nconst float back = -step;\n__global__ void k(float *x) { x[0] = back; }\n', encoding="utf-8"
    )
    # -0.5 as PTX writes a float.
    assert "BF000000" in compile_source(path, architectures=["sm_70"]).kernels[0].ptx.upper()


def test_lines_stay_where_they_were(tmp_path: Path) -> None:
    text = "const float a = 1;\nconst float b = -a;\nconst int n = 2;\n"
    rest = device_code(text, tmp_path)
    assert [line.removeprefix("constexpr ") for line in rest.splitlines()] == text.splitlines()
    assert rest.count("constexpr") == 2
