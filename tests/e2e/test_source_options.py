"""Options of a source on the command line, and what docs/sources.md shows."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "sources.md"
BLUR = [
    "predict", EXAMPLES / "blur.cu", "--kernel", "blur<float, 2>", "--grid", "60,135", "--block", "32,8",
    "--arg", "in=f32[1080, 1920] random", "--arg", "out=f32[1080, 1920] zeros", "--arg", "width=1920",
    "--arg", "height=1080", "--gpu", "RTX 4090", "--model", "roofline", "-q",
]  # fmt: skip

Run = Callable[..., subprocess.CompletedProcess[str]]


def shown(text: str) -> str:
    return " ".join(text.split())


def test_the_caveats_of_the_page(kerncast: Run) -> None:
    found = json.loads(kerncast(*BLUR, "--json").stdout)["predictions"][0]["caveats"]
    about = [caveat for caveat in found if "image::" in caveat]
    assert len(about) == 2
    page = PAGE.read_text(encoding="utf-8")
    assert [caveat for caveat in about if f"* {caveat}\n" not in page] == []


def test_variables_and_options_equal_the_launch_file(kerncast: Run, tmp_path: Path) -> None:
    more = ["--std", "c++14", "--use-fast-math", "-D", "UNUSED", "-I", EXAMPLES, "--global", "image::gain=1.0"]
    inline = kerncast(*BLUR, *more, "--json")
    assert inline.returncode == 0, inline.stderr
    text = (EXAMPLES / "blur.toml").read_text(encoding="utf-8")
    source = (EXAMPLES / "blur.cu").as_posix()
    head = f'std = "c++14"\nfast_math = true\ndefines = {{ UNUSED = 1 }}\ninclude = ["{EXAMPLES.as_posix()}"]\n'
    (tmp_path / "blur.toml").write_text(head + text.replace("blur.cu", source), encoding="utf-8")
    by_file = kerncast("predict", "blur.toml", "--gpu", "RTX 4090", "--model", "roofline", "--json", "-q")
    assert json.loads(inline.stdout) == json.loads(by_file.stdout)
    assert "gain" not in inline.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--std", "c++98"], "--std: std 'c++98' is not a version of C++. Known: c++11, c++14, c++17, c++20."),
        (["-D", "1A=3"], "--define '1A=3' is not NAME or NAME=VALUE."),
        (["--global", "gain=1", "--global", "gain=2"], "--global names the same variable twice."),
        (
            ["--global", "wieghts=f32[5]"],
            "global wieghts: the kernel uses no such variable. Did you mean image::weights?",
        ),
    ],
)
def test_what_cannot_be_is_bad_input(kerncast: Run, options: list[str], said: str) -> None:
    done = kerncast(*BLUR, *options)
    assert done.returncode == 2
    assert said in shown(done.stderr)
    assert done.stdout == ""


def test_options_of_a_source_mean_nothing_for_a_launch_file(kerncast: Run) -> None:
    done = kerncast("predict", EXAMPLES / "saxpy.toml", "--gpu", "t4", "--use-fast-math")
    assert done.returncode == 2
    assert "--use-fast-math need a source" in done.stderr
