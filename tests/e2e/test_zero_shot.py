"""kerncast study zero-shot, train --recipe residual and predict by its file, as a user runs them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import kerncast as package
from kerncast.gpu import load_gpu
from tests.e2e.test_bad_input import check
from tests.helpers.measured_cases import case, cases

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]

SOURCE = """
__global__ void scale(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * 2.0f;
}
"""
LAUNCH = """source = "scale.cu"
[[launch]]
kernel = "scale"
grid = [160]
block = [128]
args = { x = "f32[20480] ones", y = "f32[20480] zeros" }
"""


def test_the_page_the_rows_and_the_model(kerncast: Run, write: Write, tmp_path: Path) -> None:
    secret = [case(f"hidden{n}", "titan-v", 0.4, 0.1, set="sixteen", size="secret size") for n in range(3)]
    write("cases.json", json.dumps([*cases(), *secret]))
    done = kerncast("study", "zero-shot", "cases.json", "--out", "page", "--rows", "rows.csv", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    names = ["gpu", "kernel", "set", "one time", "one time, new kernel"]
    assert [each["protocol"] for each in found["protocols"]] == names
    kernel = {each["method"]: each for each in found["protocols"][1]["methods"]}
    assert kernel["residual"]["mape"] < kernel["simulation"]["mape"] < kernel["roofline"]["mape"]
    page = (tmp_path / "page" / "zero-shot.md").read_text(encoding="utf-8")
    assert "## One kernel left out" in page
    for secret_word in ("hidden0", "secret size"):
        assert secret_word not in page + done.stdout + (tmp_path / "rows.csv").read_text(encoding="utf-8")
    assert all((tmp_path / "page" / "pictures" / f"zero-shot-{name}.svg").exists() for name in ("forecasts", "gpus"))
    _learns_and_forecasts(kerncast, write)


def _learns_and_forecasts(kerncast: Run, write: Write) -> None:
    options = ("--recipe", "residual", "--model", "residual-gp", "--split", "kernels", "--out", "mine.kcm", "--json")
    done = kerncast("train", "rows.csv", *options, "--quiet")
    assert done.returncode == 0, done.stderr
    mape = {each["model"]: each["mape"] for each in json.loads(done.stdout)["scores"]}
    assert mape["residual-gp"] < mape["simulation"] < mape["constant"]
    write("scale.cu", SOURCE)
    path = write("scale.toml", LAUNCH)
    done = kerncast("predict", "scale.toml", "--gpu", "titan-v", "--model", "mine.kcm", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    forecast = json.loads(done.stdout)["predictions"][0]
    assert forecast["low"] < forecast["seconds"] < forecast["high"]
    assert "launch" in forecast["terms"]
    # Far from the few launches that it learned from, and at any clock, it follows the simulation.
    clocks = [load_gpu("titan-v").at_clock(hz) for hz in (0.9e9, 1.2e9, 1.455e9)]
    by_model = [package.predict(path, gpu, str(path.parent / "mine.kcm"))[0].seconds for gpu in clocks]
    simulated = [package.predict(path, gpu)[0].seconds for gpu in clocks]
    factors = [a / b for a, b in zip(by_model, simulated, strict=True)]
    assert factors == pytest.approx([factors[0]] * 3)
    assert factors[0] == pytest.approx(1, abs=0.02)
    assert by_model == sorted(by_model, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("zero-shot", "cases.json", "--gpu", "titan-v"), "makes no use of --gpu"),
        (("zero-shot", "cases.json", "--out", "page.txt"), "no place for a page"),
        (("zero-shot", "missing.json"), "cannot be read"),
        (("partitions", ".", "--rows", "rows.csv", "--gpu", "titan-v"), "makes no use of --rows"),
        (("partitions", "a", "b", "--gpu", "titan-v"), "2 names are given"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], words: str, kerncast: Run, write: Write) -> None:
    write("cases.json", "[]")
    check(kerncast("study", *arguments), 2, words)
