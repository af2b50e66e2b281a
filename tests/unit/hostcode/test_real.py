"""Forms of host code in which real programs passed something else than was stated, in small programs."""

from pathlib import Path

import pytest

from kerncast.compile import CompileRequest
from kerncast.hostcode import read_host_code
from tests.helpers.host_programs import argument, launches_of


def test_an_instance_of_a_class_template_that_inherits_is_not_stated(tmp_path: Path) -> None:
    text = """
    template <class T> struct Base { T *data; int size; Base(T *d, int n) : data(d), size(n) {} };
    template <class T> struct View : Base<T> { View(T *d, int n) : Base<T>(d, n) {} };
    __global__ void k(View<float> v) {}
    int main() { float *d; cudaMalloc(&d, 40); View<float> v(d, 10); k<<<1, 32>>>(v); }
    """
    (launch,) = launches_of(text, tmp_path)
    assert argument(launch, "v").is_undecided


@pytest.mark.parametrize(
    "body",
    [
        "for (int n = 1; n < 99; n += 40) run(d, n);",
        "run(d, 1); run(d, 50);",
    ],
)
@pytest.mark.parametrize(
    "choice",
    [
        "if (n < 32) other<<<1, 32>>>(d, n); else k<<<n, 32>>>(d, n);",
        "if (n < 32) { other<<<1, 32>>>(d, n); return; } k<<<n, 32>>>(d, n);",
        "switch (n) { case 1: other<<<1, 32>>>(d, n); break; default: k<<<n, 32>>>(d, n); }",
    ],
)
def test_a_launch_that_the_first_call_does_not_reach_does_not_get_its_values(
    body: str, choice: str, tmp_path: Path
) -> None:
    text = f"""
    __global__ void k(float *d, int n) {{}}
    __global__ void other(float *d, int n) {{}}
    void run(float *d, int n) {{ {choice} }}
    int main() {{ float *d; cudaMalloc(&d, 400); {body} }}
    """
    launch = next(each for each in launches_of(text, tmp_path) if each.kernel == "k")
    assert launch.grid.value == (None,)
    assert argument(launch, "n").value is None
    assert argument(launch, "d").value == "f32[100] random"


def test_templates_over_half_and_bfloat16_keep_their_launches(tmp_path: Path) -> None:
    text = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #include <vector>
    template <class T> __global__ void k(T *x, T by) {}
    template <class T> void run(int n) {
      std::vector<T> h(n);
      for (int i = 0; i < n; i++) { h[i] = T(0.5f * i); h[i] += (float)h[i] + h[0] * 2.f; if (h[i] > 3) h[i] = 0.f; }
      T *d; cudaMalloc(&d, n * sizeof(T)); k<T><<<n, 32>>>(d, T(1));
    }
    int main() { run<float>(10); run<__half>(20); run<nv_bfloat16>(30); }
    """
    launches = {each.kernel: each for each in launches_of(text, tmp_path)}
    assert {name: each.grid.value for name, each in launches.items()} == {
        "k<float>": (10,),
        "k<__half>": (20,),
        "k<__nv_bfloat16>": (30,),
    }
    assert argument(launches["k<__half>"], "x").value == "f16[20] random"


def test_a_pointer_of_thrust_that_is_passed_by_value_is_not_stated(tmp_path: Path) -> None:
    text = """
    #include <thrust/device_vector.h>
    __global__ void k(thrust::device_ptr<float> p) {}
    int main() { thrust::device_vector<float> v(10); k<<<1, 32>>>(v.data()); }
    """
    (launch,) = launches_of(text, tmp_path)
    assert argument(launch, "p").is_undecided


def test_the_size_of_a_struct_with_a_member_of_a_library_is_not_stated(tmp_path: Path) -> None:
    text = """
    #include <string>
    #include "nowhere.h"
    struct Cell { float x; std::string name; };
    struct Grid { Cell cells[4]; };
    struct Row { float x; real y; };
    __global__ void k(Cell *c, Row *r, int n, int m) {}
    int main() {
      Cell *c; cudaMalloc(&c, 100); Row *r; cudaMalloc(&r, 100);
      k<<<1, 32>>>(c, r, sizeof(Grid), sizeof(Row));
    }
    """
    (launch,) = launches_of(text, tmp_path)
    assert [each[0] for each in launch.undecided] == ["args.c", "args.r", "args.n", "args.m"]


_BEFORE = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n__global__ void k(float *d, int n) {}\n"


@pytest.mark.parametrize(
    ("body", "argv", "expected"),
    [  # the numbers are what the programs print where g++ 12 compiles them
        ("int n = 5; if (argc == 9) n = 1; else LAUNCH", "", 5),
        ("int n = 5; if (rand() == -1) n = 1; else LAUNCH", "", 5),
        ("int n = 5; if (rand() == -1) n = 1; else if (argc == 9) n = 2; else { LAUNCH }", "", 5),
        ("int n = 5; switch (argc) { case 9: n = 1; break; case 1: LAUNCH break; default: n = 7; }", "", 5),
        ("int n = 5; switch (argc) { case 9: { n = 1; break; } default: LAUNCH }", "", 5),
        ("int n = 5; switch (argc) { case 9: n = 6; case 1: n++; LAUNCH }", "", None),  # 6, by falling through or not
        ("int n = 5; switch (argc) { case 9: case 1: n = 6; n++; LAUNCH }", "", 7),
        ("int n = 5; OPTIONS { i++; n = atoi(argv[i]); } LAUNCH", "-l 9", 9),
        ("int n = 5; OPTIONS { if (++i < argc) n = atoi(argv[i]); else exit(1); } LAUNCH", "-l 9", 9),
        ("int n = 5, m; OPTIONS { m = atoi(argv[++i]); n = atoi(argv[++i]); } LAUNCH", "-l 9 2", 2),
        ('int n = 5, m = 2; OPTIONS { m = atoi(argv[++i]); } else if (!strcmp(argv[i], "-m")) n *= m; LAUNCH', "", 5),
        ('int n = 5; OPTIONS n = 1; else if (!strcmp(argv[i], "-m")) n = 2; LAUNCH', "-l -m", 2),
        ('int n = 5; OPTIONS n = 1; else if (!strcmp(argv[i], "-m")) n = 2; LAUNCH', "-m -l", 1),
        ("int n = 5, c; GETOPT case 'l': n = 1; break; case 'm': n = 2; } LAUNCH", "-m -l", 1),
        ("int n = 5, c; GETOPT case 'l': n = 1; break; case 'm': n = 2; } LAUNCH", "-l -m", 2),
    ],
)  # fmt: skip
def test_branches_exclude_one_another_and_options_move_on(
    body: str, argv: str, expected: int | None, tmp_path: Path
) -> None:
    body = (
        body.replace("LAUNCH", "{ k<<<n, 32>>>(d, n); }")
        .replace("OPTIONS", 'for (int i = 1; i < argc; i++) if (!strcmp(argv[i], "-l"))')
        .replace("GETOPT", 'while ((c = getopt(argc, argv, "lm")) != -1) switch (c) {')
    )
    text = f"{_BEFORE}int main(int argc, char **argv) {{ float *d; {body} }}\n"
    (launch,) = launches_of(text, tmp_path, argv)
    assert launch.grid.value == (expected,)
    assert argument(launch, "n").value == expected


@pytest.mark.parametrize(
    "text",
    [
        "void run(float *d, int n) { while (n < 50) { k<<<n, 32>>>(d, n); n *= 2; } } int main() { run(0, 5); }",
        "int n = 5; int main() { while (n < 50) { k<<<n, 32>>>(0, n); n *= 2; } }",
        "int n = 5; void run() { k<<<n, 32>>>(0, n); } int main() { while (n < 50) { run(); n *= 2; } }",
        "int n = 5; void grow() { n *= 2; } int main() { while (n < 50) { k<<<n, 32>>>(0, n); grow(); } }",
        "int n = 5; void run() { k<<<n, 32>>>(0, n); n *= 2; } int main() { while (n < 50) run(); }",
    ],
)
def test_a_parameter_or_a_global_that_a_loop_changes_says_so(text: str, tmp_path: Path) -> None:
    (launch,) = launches_of(_BEFORE + text, tmp_path)
    assert launch.grid.value == (5,)
    assert launch.grid.notes == ("in the first pass of the loop of k.cu:5",)


def test_what_the_other_branch_of_a_pass_before_may_have_set_is_not_stated(tmp_path: Path) -> None:
    text = "int main() { int n = 5; while (n < 50) if (rand() == -1) n *= 2; else k<<<n, 32>>>(0, n); }"
    (launch,) = launches_of(_BEFORE + text, tmp_path)
    assert launch.grid.value == (None,)


def test_enumerations_and_what_is_unknown_go_with_numbers(tmp_path: Path) -> None:
    text = """
    #include "nowhere.h"
    enum { SIDE = 4 };
    __global__ void k(float *d, int n) {}
    int main() {
      float *d;
      for (int i = 0; i < SIDE; i++) if (3 == unknown(i)) cudaMalloc(&d, 40);
      int n = 10;
      if (n < SIDE) n = 2;
      k<<<n * SIDE, 32>>>(d, SIDE * n - 1);
    }
    """
    (launch,) = launches_of(text, tmp_path)
    assert launch.grid.value == (40,)
    assert argument(launch, "n").value == 39


def test_an_expression_that_the_parser_does_not_understand_has_no_value(tmp_path: Path) -> None:
    text = """
    struct A { int v; };
    __global__ void k(float *d, int n, int m) {}
    int main() { A a{3}; int n = 10; k<<<n * a * 4, 32>>>(0, -a, a * 4); }
    """
    (launch,) = launches_of(text, tmp_path)
    assert launch.grid.value == (None,)
    assert argument(launch, "n").value is None
    assert argument(launch, "m").value is None


@pytest.mark.parametrize(
    ("calls", "grid", "notes"),
    [
        ("run<32>(); run<64>(); run<128>();", (32,), ("as in the first of 3 instances of run",)),
        ("run<32>(); more();", (None,), ()),
        ("if (argc == 9) run<32>(); else run<64>();", (64,), ()),
    ],
)
def test_instances_of_one_function_share_a_launch(
    calls: str, grid: tuple[int | None, ...], notes: tuple[str, ...], tmp_path: Path
) -> None:
    text = f"""
    __global__ void k(float *d, int n) {{}}
    template <int N> void run() {{ float *d; cudaMalloc(&d, 4 * N); k<<<N, 32>>>(d, N); }}
    void more() {{ run<64>(); }}
    int main(int argc, char **argv) {{ {calls} }}
    """
    (launch,) = launches_of(text, tmp_path, "")
    assert (launch.is_reached, launch.grid.value, launch.grid.notes) == (True, grid, notes)
    assert argument(launch, "n").value == grid[0]
    assert argument(launch, "d").value == f"f32[{grid[0] or '?'}] random"


@pytest.mark.parametrize(
    "launch", ["k << <4, 32 >> >(d, n)", "k<< < 4, dim3(32)>> > (d, n)", "k < <<4, 32> >>\n(d, n)"]
)
def test_brackets_with_spaces_launch_too(launch: str, tmp_path: Path) -> None:
    text = f"""
    __global__ void k(float *d, int n) {{}}
    template <class T> struct A {{}};
    int main() {{ A<A<A<int> > > a; float *d; int n = 1 << 3; cudaMalloc(&d, 40); {launch}; k<<<2, 32>>>(d, n); }}
    """
    first, second = launches_of(text, tmp_path)
    assert (first.grid.value, first.block.value, second.grid.value) == ((4,), (32,), (2,))
    assert argument(first, "n").value == 8


@pytest.mark.parametrize(
    "condition",
    ["o.n > 3", "+".join(["a"] * 1500)],
)
def test_a_condition_that_cannot_be_worked_out_stops_nothing(condition: str, tmp_path: Path) -> None:
    text = f"""
    #include <stdlib.h>
    struct O {{ int n; int m; void set(int v) {{ m = v; }} }} o;
    void start() {{ o.set(3); }}
    __global__ void k(float *d, int n) {{}}
    void run(int n) {{ int a = rand(); if ({condition}) k<<<n, 32>>>(0, n); }}
    int main() {{ void (*f)() = start; f(); run(5); }}
    """
    (launch,) = launches_of(text, tmp_path)
    assert (launch.is_reached, launch.grid.value) == (True, (5,))


def test_a_launch_by_a_function_that_could_not_be_read_is_named(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <tuple>\n"
        "__global__ void k(int n) {}\n"
        "int main() {\n"
        '    int n = 1; void *a[] = {&n}; auto t = std::make_tuple(1, 2); unknown << "a" << n;\n'
        "    cudaLaunchKernel((void *)k, dim3(std::get<1>(t)), dim3(32), a, 0, 0);\n"
        "    cudaLaunchKernel((void *)k, dim3(4), dim3(32), a, 0, 0);\n"
        "}\n",
        encoding="utf-8",
    )
    program = read_host_code(CompileRequest(source, ()))
    assert [launch.place for launch in program.launches] == ["k.cu:6"]
    assert program.caveats == ("a launch could not be read and is missing: k.cu:5",)


def test_what_each_pass_sets_anew_is_not_of_the_first_one(tmp_path: Path) -> None:
    text = """
    __global__ void k(float *d, int n) {}
    int main() {
      int n;
      for (int i = 0; i < 9; i++) { if (i < 4) n = 1; else { n = 8; k<<<n, 32>>>(0, n); n = 5; } }
    }
    """
    (launch,) = launches_of(text, tmp_path)
    assert (launch.grid.value, launch.grid.notes) == ((8,), ())


def test_getopt_in_a_loop_that_ends_in_the_middle(tmp_path: Path) -> None:
    text = (
        _BEFORE
        + """
    int main(int argc, char **argv) {
      int n = 5;
      while (1) {
        int c = getopt(argc, argv, "n:m:");
        if (c == -1) break;
        switch (c) { case 'n': n = atoi(optarg); break; case 'm': n = 3; break; }
      }
      k<<<n, 32>>>(0, n);
    }
    """
    )
    (launch,) = launches_of(text, tmp_path, "-n 12")
    assert launch.grid.value == (12,)
