"""The table of programs that go through the front end, on a made-up checkout whose outcomes are known."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.places import ROOT

BENCHMARKS = ROOT / "benchmarks"

GOOD = """#include <cstdlib>
__global__ void twice(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    float *x;
    cudaMalloc(&x, n * sizeof(float));
    twice<<<(n + 255) / 256, 256>>>(x, n);
}
"""
HALF = """#include <cstdio>
__global__ void fill(int *x, int value) { x[threadIdx.x] = value; }
int main() {
    int value, *x;
    scanf("%d", &value);
    cudaMalloc(&x, 64 * sizeof(int));
    fill<<<1, 64>>>(x, value);
    fill<<<1, 64>>>(x, 7);
}
"""
BAD = "int main() { return 0; }\n"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("score_front_end")


def test_the_list_is_as_large_as_it_must_be(module: ModuleType) -> None:
    programs = module.load_programs()
    assert len({(each.suite, each.program) for each in programs}) == 83
    assert sum(each.suite == "hecbench" for each in {(p.suite, p.program): p for p in programs}.values()) == 60


def test_each_program_gets_as_far_as_it_can(module: ModuleType, tmp_path: Path) -> None:
    for name, text in (("good", GOOD), ("half", HALF), ("bad", BAD)):
        folder = tmp_path / "src" / name
        folder.mkdir(parents=True)
        (folder / "main.cu").write_text(text, encoding="utf-8")
    good, half, bad = (
        module.run_file(module.Program("hecbench", name, "main.cu", (), argv), tmp_path, 300.0)
        for name, argv in (("good", "5000"), ("half", ""), ("bad", ""))
    )
    assert good.written
    assert [(one.decided, one.compiled, one.forecast) for one in good.launches] == [(True, True, True)]
    assert [(one.decided, one.compiled, one.forecast) for one in half.launches] == [
        (False, True, False),
        (True, True, True),
    ]
    assert half.launches[0].reason.startswith('value = "?"')
    assert not bad.written
    assert "no kernel found" in bad.reason
    assert module.totals([good, half, bad])[-1] == "| together | 3 | 2 | 2 | 2 | 1 | 3 | 2 | 3 | 2 |"


def test_the_script_names_what_it_needs() -> None:
    script = BENCHMARKS / "score_front_end.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "--hecbench FOLDER" in done.stderr


def test_the_script_writes_each_outcome(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(BENCHMARKS / "score_front_end.py"), "--hecbench", str(tmp_path), "--only", "dp-cuda"]
    done = subprocess.run(
        [*command, "--json", str(out)], capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 1, "below 80 %"
    assert "| hecbench | dp-cuda | main.cu | no |" in done.stdout
    (outcome,) = json.loads(out.read_text(encoding="utf-8"))
    assert (outcome["program"], outcome["written"], outcome["launches"]) == ("dp-cuda", False, [])
