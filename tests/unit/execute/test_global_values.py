"""What variables in constant and global memory hold: initial values, those of a launch, those that the host copies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel, compile_source
from kerncast.errors import LaunchError
from kerncast.execute import execute
from kerncast.launch import Argument, Launch, load_launches, parse_value
from kerncast.traces import Trace
from tests.helpers.execute_helpers import launch, run
from tests.helpers.launch_files import dump_launches

SOURCE = """#include <cuda_runtime.h>
struct Point { float x; int id[2]; };
__constant__ float weights[3];
__constant__ int n;
__constant__ float scale;
__constant__ double copied[4];
__constant__ bool flag;
namespace grid { __device__ float table[8]; namespace { __constant__ Point hidden; } }
__device__ float *pointer;
__device__ int counter = 3;
__device__ float start[3] = {1.5f, -2.f};
__device__ float *aimed = start + 1;
__constant__ Point points[2] = {{0.5f, {1, 2}}, {2.5f, {3, 4}}};
__constant__ int none = 0;
__device__ int unused;
extern "C" __global__ void k(float *out) {
  out[0] = weights[0]; out[1] = weights[1]; out[2] = n; out[3] = scale; out[4] = copied[1]; out[5] = copied[2];
  out[6] = flag; out[7] = grid::table[7]; out[8] = grid::hidden.id[1]; out[9] = pointer ? pointer[5] : -1.f;
  out[10] = counter; out[11] = start[0]; out[12] = *aimed; out[13] = points[1].id[1]; out[14] = points[0].x + none;
}
const float values[] = {0.25f, -.5f, 1e1};
int main() {
  double h[4] = {1, 0x2};
  int size = 5;
  size = 7;
  float *d = 0;
  cudaMalloc(&d, 100);
  cudaMemcpyToSymbol(weights, values, sizeof(values));
  cudaMemcpyToSymbol(n, &size, sizeof(int));
  cudaMemcpyToSymbol(::copied, h, sizeof h);  // cudaMemcpyToSymbol(scale, h, 4)
  cudaMemcpyToSymbol(pointer, &d, sizeof d);
}
"""
OUT = "f32[15] zeros"
INITIAL = [3, 1.5, -2, 4, 0.5]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> CompiledKernel:
    path = tmp_path_factory.mktemp("globals") / "g.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return compile_source(path, architectures=["sm_70"]).kernels[0]


def launched(values: dict[str, Any]) -> Launch:
    given = tuple(Argument(name, parse_value(value, name, Path())) for name, value in values.items())
    return replace(launch(1, 1, out=OUT), globals=given)


def ran(kernel: CompiledKernel, **values: Any) -> Trace:
    return run(kernel, launched({name.replace("__", "::"): value for name, value in values.items()}))


def test_initial_values_and_what_the_host_copies(kernel: CompiledKernel) -> None:
    trace = ran(kernel)
    assert trace.memory["out"].tolist() == [0.25, -0.5, 0, 0, 2, 0, 0, 0, 0, -1, *INITIAL]
    *others, last = trace.remarks
    assert others == [
        Caveat.of(CaveatKind.VARIABLE_COPIED, "weights", places="g.cu line 28"),
        Caveat.of(CaveatKind.VARIABLE_SET_BY_HOST, "n", places="g.cu line 29", key="n"),
        Caveat.of(CaveatKind.CONSTANT_NEVER_SET, "scale", key="scale"),
        Caveat.of(CaveatKind.VARIABLE_COPIED, "copied", places="g.cu line 30"),
        Caveat.of(CaveatKind.CONSTANT_NEVER_SET, "flag", key="flag"),
        Caveat.of(CaveatKind.VARIABLE_SET_BY_HOST, "pointer", places="g.cu line 31", key="pointer"),
    ]
    assert (last.kind, last.details) == (CaveatKind.CONSTANT_NEVER_SET, {"key": '"grid::hidden"'})


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_launch_sets_them(kernel: CompiledKernel, engine: Any) -> None:
    where = launched(
        {
            "weights": "f32[3] ones", "n": 4, "scale": 2, "copied": "f64[2, 2] iota", "flag": True,
            "table": "f32[8] randint(5, 6)", "grid::hidden": "bytes(000000000000000009000000)",
            "::pointer": "f32[16] iota", "counter": -7, "unused": 5,
        }
    )  # fmt: skip
    trace = execute(kernel, where, engine=engine)[0]
    assert trace.memory["out"].tolist() == [1, 1, 4, 2, 1, 2, 1, 5, 9, 5, -7, *INITIAL[1:]]
    assert trace.remarks == ()


def test_random_values_are_repeated_and_differ_from_those_of_arguments(kernel: CompiledKernel) -> None:
    first, again = (ran(kernel, weights="f32[3] random").memory["out"] for _ in range(2))
    assert np.array_equal(first, again)
    assert 0 < first[0] != first[1] < 1


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "wieghts",
            "f32[3]",
            "the kernel uses no such variable. Did you mean weights? It uses aimed, copied, counter,",
        ),
        ("out", 3, "the kernel uses no such variable"),
        ("n", 2.5, "2.5 is given for an integer parameter"),
        ("n", 2**31, "2147483648 does not fit a parameter of 32 bits. Give -2147483648 to 2147483647"),
        ("n", "f32[1] ones", "f32 is given for a variable of int, 4 bytes. Give elements of type i32"),
        ("weights", "f32[4] ones", "16 bytes are given for a variable of float[3], 12 bytes. Give as many"),
        ("weights", 1.0, "a number is given for a variable of float[3], 12 bytes"),
        ("copied", "f32[8] ones", "f32 is given for a variable of double[4], 32 bytes. Give elements of type f64"),
        ("flag", 2, "Give 0 to 1"),
        ("pointer", 3, "a pointer is given neither a buffer nor 0"),
        ("grid::hidden", "bytes(00)", "1 bytes are given for a variable of Point, 12 bytes"),
        ("grid::hidden", 0, "a number is given for a variable of Point"),
    ],
)
def test_what_does_not_fit_is_an_error(kernel: CompiledKernel, name: str, value: Any, said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        run(kernel, launched({name: value}))
    assert said in str(caught.value)
    assert f"global {name}: " in str(caught.value)


def test_a_variable_given_under_two_names_is_an_error(kernel: CompiledKernel) -> None:
    with pytest.raises(LaunchError, match="this variable is given twice"):
        run(kernel, launched({"n": 1, "::n": 2}))


def test_launch_files_hold_them(tmp_path: Path) -> None:
    text = 'grid = [1]\nblock = [1]\nargs = {}\nglobals = { n = 4, "grid::table" = "f32[8] iota", flag = true }\n'
    head = 'source = "g.cu"\nstd = "c++14"\nfast_math = true\n[[launch]]\n'
    path = tmp_path / "g.toml"
    path.write_text(head + text, encoding="utf-8")
    (found,) = load_launches(path)
    assert [(each.name, str(each.value)) for each in found.globals] == [
        ("n", "4"), ("grid::table", "f32[8] iota"), ("flag", "True"),
    ]  # fmt: skip
    assert (found.standard, found.fast_math) == ("c++14", True)
    copy = tmp_path / "copy.toml"
    copy.write_text(dump_launches([found]), encoding="utf-8")
    assert load_launches(copy) == (found,)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'std = "c++98"',
            "std 'c\\+\\+98' is not a version of C\\+\\+. Known: c\\+\\+11, c\\+\\+14, c\\+\\+17, c\\+\\+20",
        ),
        ("std = 17", "not a version of C"),
        ("std = [17]", "not a version of C"),
        ("fast_math = 1", "fast_math is 1, neither true nor false"),
        ("[[launch]]\ngrid = [1]\nblock = [1]\nglobals = 3", "globals is not a table"),
        ('[[launch]]\ngrid = [1]\nblock = [1]\nglobals = { n = "f99[3]" }', "global n: 'f99' is not an element type"),
        ("[[launch]]\ngrid = [1]\nblock = [1]\nglobals = { n = [1] }", "global n: .* is neither a number nor a text"),
    ],
)
def test_bad_launch_files_name_the_place(tmp_path: Path, line: str, said: str) -> None:
    rest = "" if "[[launch]]" in line else "\n[[launch]]\ngrid = [1]\nblock = [1]\n"
    path = tmp_path / "g.toml"
    path.write_text(f'source = "g.cu"\n{line}{rest}', encoding="utf-8")
    with pytest.raises(LaunchError, match=f"g.toml.*{said}"):
        load_launches(path)


def test_variables_of_templates_of_functions_and_of_other_files(tmp_path: Path) -> None:
    text = """
template <class T> __constant__ T table[4];
extern __constant__ float elsewhere[2];
__global__ void k(float *out) {
  __constant__ static float inner[2];
  out[0] = table<float>[1]; out[1] = elsewhere[1]; out[2] = inner[1];
}
"""
    path = tmp_path / "t.cu"
    path.write_text(text, encoding="utf-8")
    kernel = compile_source(path, architectures=["sm_70"]).kernels[0]
    names = [remark.subject for remark in ran(kernel).remarks]
    assert sorted(names) == ["elsewhere", "table"]
    out = ran(kernel, table="f32[4] iota", elsewhere="f32[2] ones").memory["out"]
    assert out[:3].tolist() == [1, 1, 0]
