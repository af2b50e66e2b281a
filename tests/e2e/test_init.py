"""kerncast init from its command line to a forecast: skeleton, file, JSON, what is left to decide, what is refused."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "init"

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]

DECIDED = """#include <cstdio>
template <class T> __global__ void fill(T *x, int n, T value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
__global__ void never(float *x, int) { x[0] = 1; }
int main() {
  const int n = 1000;
  float *x;
  cudaMalloc(&x, n * sizeof(float));
  fill<<<(n + 255) / 256, 256>>>(x, n, 2.0f);
}
"""


def test_the_skeleton_is_alone_on_stdout(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "blur.cu").write_bytes((GOLDEN / "blur.cu").read_bytes())
    done = kerncast("init", "blur.cu", "--argv", "1920 1080")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (GOLDEN / "blur.toml").read_text(encoding="utf-8")


def test_a_file_that_is_decided_is_forecast_at_once(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("k.cu", DECIDED)
    (tmp_path / "out").mkdir()
    done = kerncast("init", "k.cu", "--kernel", "fill", "-o", "out/launch.toml")
    assert done.returncode == 0, done.stderr
    assert "out/launch.toml: 1 launch\n" in done.stdout
    assert "decide" not in done.stdout
    assert 'source = "../k.cu"' in (tmp_path / "out" / "launch.toml").read_text(encoding="utf-8")
    forecast = kerncast("predict", "out/launch.toml", "--gpu", "t4", "--model", "roofline", "--json")
    assert forecast.returncode == 0, forecast.stderr
    assert json.loads(forecast.stdout)["predictions"][0]["kernel"] == "fill<float>"


def test_what_is_left_to_decide_is_an_error_that_names_it(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("k.cu", DECIDED)
    done = kerncast("init", "k.cu", "--kernel", "never", "-o", "launch.toml")
    assert "left to decide:" in done.stdout
    refused = kerncast("predict", "launch.toml", "--gpu", "t4")
    assert refused.returncode == 2
    assert "4 values are not decided: launch 0 (never) grid, line" in refused.stderr
    text = (tmp_path / "launch.toml").read_text(encoding="utf-8")
    for before, after in (('["?"]', "[1]"), ("f32[?]", "f32[8]"), ('"?"', "5")):
        text = text.replace(before, after)
    write("launch.toml", text)
    assert kerncast("predict", "launch.toml", "--gpu", "t4", "--model", "roofline").returncode == 0


def test_json_is_a_promise(kerncast: Run, write: Write) -> None:
    write("k.cu", DECIDED)
    found = json.loads(kerncast("init", "k.cu", "--json").stdout)
    assert set(found) == {"schema_version", "kernels", "launches", "undecided", "defines", "caveats"}
    assert [set(each) for each in found["kernels"]] == [
        {"kernel", "template_parameters", "signature", "line", "launches"}
    ] * 2
    first = found["launches"][0]
    assert set(first) == {"kernel", "written", "place", "grid", "block", "shared_bytes", "args", "globals"}
    assert first["grid"] == {
        "value": [4], "decided": True, "expression": "(n + 255) / 256", "place": "k.cu:11", "notes": [], "reason": None,
    }  # fmt: skip
    assert first["args"]["n"]["type"] == "int"
    assert found["undecided"][0] == {
        "launch": 1, "kernel": "never", "key": "grid", "expression": "", "place": "",
        "reason": "nothing here launches this kernel",
    }  # fmt: skip


def test_a_file_that_is_there_is_kept(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("k.cu", DECIDED)
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
    for line in ('include = ["inc"]', 'defines = { WIDTH = "8" }', 'std = "c++14"', "grid = [16]", "n = 8 "):
        assert line in done.stdout


def test_macros_of_a_makefile_that_the_source_names(kerncast: Run, write: Write) -> None:
    write("Makefile", "CFLAGS := -DWIDTH=8 -DOTHER=3\nall:\n\tnvcc $(CFLAGS) k.cu\n")
    write("k.cu", "__global__ void k(int n) {}\nint main() { k<<<WIDTH, 1>>>(WIDTH); }\n")
    done = kerncast("init", "k.cu")
    assert 'defines = { WIDTH = "8" } ' in done.stdout
    assert "# WIDTH as in the Makefile" in done.stdout
    assert "grid = [8]" in done.stdout
    assert "grid = [5]" in kerncast("init", "k.cu", "-D", "WIDTH=5").stdout


def test_macros_of_a_makefile_that_a_header_names(kerncast: Run, write: Write) -> None:
    write("Makefile", "CFLAGS := -DPRECISION=1\nall:\n\tnvcc $(CFLAGS) k.cu\n")
    write("real.h", "#if PRECISION == 1\ntypedef float real;\n#else\ntypedef double real;\n#endif\n")
    write("all.h", '#include "real.h"\n')
    write("k.cu", '#include "all.h"\n__global__ void k(real x) {}\nint main() { k<<<1, 1>>>(sizeof(real)); }\n')
    done = kerncast("init", "k.cu")
    assert 'defines = { PRECISION = "1" } ' in done.stdout
    assert "x = 4.0 " in done.stdout


@pytest.mark.parametrize(
    ("text", "options", "status", "words"),
    [
        (None, (), 2, "no such file"),
        ("int main() {}", (), 2, "no kernel found"),
        (DECIDED, ("--kernel", "fil"), 2, "Did you mean fill?"),
        (DECIDED, ("--argv", "'open"), 2, "open quote"),
        (DECIDED, ("-D", "1=2"), 2, "--define"),
        (DECIDED, ("-I", "nowhere"), 2, "no such folder"),
        (DECIDED, ("--std", "c++99"), 2, "--std"),
        (DECIDED, ("-o", "no/folder.toml"), 2, "cannot be written"),
        ("\0", (), 2, ""),
        ("__global__ void k(int n) {}\nint f(int n) { return f(n + 1) + f(n); }\nint main() { k<<<f(1), 1>>>(1); }\n",
         (), 0, ""),
        ("__global__ void k(int n) {}\nint main() { int a = rand(); k<<<1, 1>>>(" + "+".join(["a"] * 3000) + "); }\n",
         (), 0, ""),
        ("__global__ void k(int n) {}\nconst int t[] = {" + "1," * 200_000 + "};\nint main() { k<<<t[2], 1>>>(1); }\n",
         (), 0, ""),
        ("__global__ void k(int n) {}\nint main() { k<<<1, 1>>>((((", (), 0, ""),
        ("__global__ void k(int n) {}\nint main() {" + "{" * 5000 + "k<<<1, 1>>>(1);" + "}" * 5000 + "}", (), None, ""),
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


WORKER = """__global__ void scale(float *x, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
extern "C" void run(struct work *w);
struct work { int n; float by; };
extern "C" void run(struct work *w) {
  float *x;
  cudaMalloc(&x, w->n * sizeof(float));
  scale<<<(w->n + 127) / 128, 128>>>(x, w->n, w->by);
}
"""
MAIN_IN_C = """#include <stdlib.h>
#include <unistd.h>
struct work { int n; float by; };
struct work *made(n)
int n;
{
  struct work *new = malloc(sizeof(struct work));
  if (new == NULL) return NULL;
  new->n = n;
  new->by = 0.5f;
  return new;
}
int main(int argc, char *argv[]) {
  int n = 100, c;
  while ((c = getopt(argc, argv, "n:h")) != -1)
    switch (c) {
      case 'n': n = atoi(optarg); break;
      default: exit(1);
    }
  run(made(n));
  return 0;
}
"""


def test_what_another_source_passes(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("worker.cu", WORKER)
    write("main.c", MAIN_IN_C)
    alone = kerncast("init", "worker.cu", "-o", "alone.toml")
    assert "main.c seems to call run: what it passes is read with --host main.c" in alone.stdout
    assert "w is a parameter of run, which nothing here calls" in alone.stdout
    done = kerncast("init", "worker.cu", "--host", "main.c", "--argv", "-n 1000", "-o", "launch.toml")
    assert done.returncode == 0, done.stderr
    assert "seems" not in done.stdout
    assert "decide" not in done.stdout
    text = (tmp_path / "launch.toml").read_text(encoding="utf-8")
    for line in ("grid = [8] ", 'x = "f32[1000] random" ', "n = 1000 ", "by = 0.5 "):
        assert f"\n{line}" in text
    forecast = kerncast("predict", "launch.toml", "--gpu", "t4", "--model", "roofline", "--json")
    assert forecast.returncode == 0, forecast.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("worker.cu", "--host", "none.c"), "--host none.c: cannot be read (no such file). Check the path."),
        (("worker.cu", "--host", "."), "--host .: cannot be read (it is a folder). Check the path."),
        (("worker.cu", *("--host", "main.c") * 33), "--host is given 33 times. Give at most 32 sources."),
        (("main.c", "--host", "worker.cu"), "such as worker.cu, and this one with --host."),
    ],
)
def test_sources_that_cannot_be_read_together(kerncast: Run, write: Write, options: tuple[str, ...], said: str) -> None:
    write("worker.cu", WORKER)
    write("main.c", MAIN_IN_C)
    done = kerncast("init", *options)
    assert done.returncode == 2
    assert said in done.stderr


BY_MODE = """#include <cstdlib>
__global__ void once(int n) {}
__global__ void twice(int n) {}
__global__ void each(int n) {}
static void run_twice(int n) { twice<<<2, 32>>>(n); }
template <int B> void run(int n) { each<<<4, B>>>(n); }
int main(int argc, char **argv) {
  int mode = argc > 1 ? atoi(argv[1]) : 1;
  if (mode == 1) once<<<1, 32>>>(mode); else run_twice(mode);
  switch (mode) { case 1: run<64>(mode); break; case 2: run<128>(mode); }
}
"""


def test_a_launch_that_does_not_happen_is_left_out(kerncast: Run, write: Write, tmp_path: Path) -> None:
    write("k.cu", BY_MODE)
    for argv, kept, left in (("1", "once", "twice"), ("2", "twice", "once"), ("", "once", "twice")):
        done = kerncast("init", "k.cu", "--argv", argv, "-o", "launch.toml", "--force")
        assert f"{left} is not launched at k.cu:" in done.stdout
        text = (tmp_path / "launch.toml").read_text(encoding="utf-8")
        assert f'kernel = "{kept}"' in text
        assert f'kernel = "{left}"' not in text
        assert f"block = [{64 if kept == 'once' else 128}]" in text
    asked = kerncast("init", "k.cu", "--argv", "1", "--kernel", "twice")
    assert 'kernel = "twice"' in asked.stdout
    open_ = kerncast("init", "k.cu")
    assert open_.stdout.count("[[launch]]") == 3
