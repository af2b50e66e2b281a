"""kerncast init from its command line to a forecast: skeleton, file, JSON, what is left to fill in, what is refused."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "init"

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]

SOURCE = """#include <cstdio>
template <class T> __global__ void fill(T *x, int n, T value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
__global__ void never(float *x, int) { x[0] = 1; }
int main() {
  const int n = 1000;
  float *x;
  cudaMalloc(&x, n * sizeof(float));
  fill<float><<<(n + 255) / 256, 256>>>(x, n, 2.0f);
}
"""
RUN_IT = "For the launches of the whole program, run it: kerncast run PROGRAM --export launches.toml\n"


def test_the_skeleton_is_alone_on_stdout(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "blur.cu").write_bytes((GOLDEN / "blur.cu").read_bytes())
    done = kerncast("init", "blur.cu")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (GOLDEN / "blur.toml").read_text(encoding="utf-8")


def test_a_file_that_is_filled_in_is_forecast(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("k.cu", SOURCE)
    (tmp_path / "out").mkdir()
    done = kerncast("init", "k.cu", "--kernel", "fill", "-o", "out/launch.toml")
    assert done.returncode == 0, done.stderr
    said = "out/launch.toml: 1 launch\nto fill in:\n  launch 0 (fill<float>, k.cu:11): args.x, args.n, args.value\n"
    assert done.stdout.endswith(said + RUN_IT)
    refused = kerncast("predict", "out/launch.toml", "--gpu", "t4")
    assert refused.returncode == 2
    assert "3 values are not decided: launch 0 (fill<float>) x, line" in refused.stderr
    text = (tmp_path / "out" / "launch.toml").read_text(encoding="utf-8")
    assert 'source = "../k.cu"' in text
    assert "grid = [4]" in text
    write(
        "out/launch.toml", text.replace('"?"', "5").replace('x = "?"', 'x = "f32[8]"').replace("x = 5", 'x = "f32[8]"')
    )
    forecast = kerncast("predict", "out/launch.toml", "--gpu", "t4", "--model", "roofline", "--json")
    assert forecast.returncode == 0, forecast.stderr
    assert json.loads(forecast.stdout)["predictions"][0]["kernel"] == "fill<float>"


def test_json_is_a_promise(kerncast: Run, write: Write) -> None:
    write("k.cu", SOURCE)
    found = json.loads(kerncast("init", "k.cu", "--json").stdout)
    assert set(found) == {"schema_version", "kernels", "launches", "undecided", "defines", "caveats"}
    assert [set(each) for each in found["kernels"]] == [
        {"kernel", "template_parameters", "signature", "line", "launches"}
    ] * 2
    first = found["launches"][0]
    assert set(first) == {"kernel", "written", "place", "grid", "block", "shared_bytes", "args"}
    assert (first["kernel"], first["place"]) == ("fill<float>", "k.cu:11")
    assert first["grid"] == {"value": [4], "decided": True, "expression": "(n + 255) / 256"}
    assert first["args"]["n"] == {"type": "int", "value": None, "decided": False, "expression": "n"}
    assert found["undecided"][0] == {
        "launch": 0, "kernel": "fill<float>", "key": "args.x", "expression": "x", "place": "k.cu:11",
    }  # fmt: skip


def test_a_file_that_is_there_is_kept(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("k.cu", SOURCE)
    write("launch.toml", "mine")
    done = kerncast("init", "k.cu", "-o", "launch.toml")
    assert (done.returncode, (tmp_path / "launch.toml").read_text(encoding="utf-8")) == (2, "mine")
    assert "--force" in done.stderr
    assert kerncast("init", "k.cu", "-o", "launch.toml", "--force").returncode == 0


def test_options_of_the_compiler_are_kept(kerncast: Run, write: Write, tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    write("inc/size.h", "constexpr int size = WIDTH * 2;\n")
    write("k.cu", '#include "size.h"\n__global__ void k(int n) {}\nint main() { k<<<size, 1>>>(WIDTH); }\n')
    done = kerncast("init", "k.cu", "-I", "inc", "-D", "WIDTH=8", "--std", "c++14")
    assert done.returncode == 0, done.stderr
    for line in ('include = ["inc"]', 'defines = { WIDTH = "8" }', 'std = "c++14"', "grid = [16]"):
        assert line in done.stdout


def test_macros_of_a_makefile_that_the_source_or_a_header_names(kerncast: Run, write: Write) -> None:
    write("Makefile", "CFLAGS := -DWIDTH=8 -DROWS=2 -DOTHER=3\nall:\n\tnvcc $(CFLAGS) k.cu\n")
    write("size.h", "const int rows = ROWS;\n")
    write("k.cu", '#include "size.h"\n__global__ void k(int n) {}\nint main() { k<<<WIDTH, rows>>>(WIDTH); }\n')
    done = kerncast("init", "k.cu")
    assert 'defines = { WIDTH = "8", ROWS = "2" } ' in done.stdout
    assert "# WIDTH, ROWS as in the Makefile" in done.stdout
    assert "grid = [8]" in done.stdout
    assert "block = [2]" in done.stdout
    assert "grid = [5]" in kerncast("init", "k.cu", "-D", "WIDTH=5").stdout


@pytest.mark.parametrize(
    ("text", "options", "status", "words"),
    [
        (None, (), 2, "no such file"),
        ("int main() {}", (), 2, "no kernel found"),
        (SOURCE, ("--kernel", "fil"), 2, "Did you mean fill?"),
        (SOURCE, ("--argv", "1024"), 2, "Run the program: kerncast run PROGRAM --export launches.toml -- ARGS"),
        (SOURCE, ("--host", "main.c"), 2, "Run the program: kerncast run PROGRAM --export launches.toml."),
        (SOURCE, ("other.cu",), 2, "2 sources are given, and a launch file has one. Call init for each"),
        (SOURCE, ("-D", "1=2"), 2, "--define"),
        (SOURCE, ("-I", "nowhere"), 2, "no such folder"),
        (SOURCE, ("--std", "c++99"), 2, "--std"),
        (SOURCE, ("-o", "no/folder.toml"), 2, "cannot be written"),
        ("\0", (), 2, ""),
        ("__global__ void k(int n) {}\nconst int t[] = {" + "1," * 200_000 + "};\nint main() { k<<<t[2], 1>>>(1); }\n",
         (), 0, ""),
        ("__global__ void k(int n) {}\nint main() { k<<<1, 1>>>((((", (), 0, ""),
        ("__global__ void k(int n) {}\nint main() {" + "{" * 5000 + "k<<<1, 1>>>(1);" + "}" * 5000 + "}", (), None, ""),
        ("__global__ void k(int n) {}\nint main() { k<<<" + "(" * 5000 + "1" + ")" * 5000 + ", 1>>>(1); }",
         (), None, ""),
    ],
)  # fmt: skip
def test_odd_and_hostile_sources(  # noqa: PLR0913, PLR0917  one row of the table, and two fixtures
    kerncast: Run, write: Write, text: str | None, options: tuple[str, ...], status: int | None, words: str
) -> None:
    if text is not None:
        write("k.cu", text)
    done = kerncast("init", "k.cu", *options)
    assert done.returncode == status if status is not None else done.returncode in {0, 2}
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_source_without_kernels_names_the_file_that_has_them(kerncast: Run, write: Write) -> None:
    write("k.cu", SOURCE)
    write("main.cu", "int main() {}\n")
    done = kerncast("init", "main.cu")
    assert done.returncode == 2
    assert "Kernels are defined in k.cu, beside it: give that file." in done.stderr
