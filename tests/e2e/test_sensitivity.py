"""kerncast sensitivity and profile --advice as a user runs them."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
TRANSPOSE = EXAMPLES / "kernels" / "naive_transpose.toml"


def test_the_object_keeps_its_promise(kerncast: Run) -> None:
    options = ("--gpu", "TITAN V", "--parameter", "dram_bandwidth", "--parameter", "l2_latency", "--no-advice")
    done = kerncast("sensitivity", EXAMPLES / "saxpy.toml", *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == [
        "schema_version", "gpu", "gpu_id", "seconds", "low", "high", "launch_share", "elasticities", "unknown",
        "recommendations", "launches", "refused", "caveats",
    ]  # fmt: skip
    first = found["elasticities"][0]
    assert list(first) == ["parameter", "elasticity", "low", "high", "kind", "enough_factor", "points"]
    assert first["parameter"] == "dram_bandwidth"
    assert first["low"] <= first["elasticity"] <= first["high"] < -0.5
    assert {"factor": 1.0, "seconds": found["seconds"]} in first["points"]
    assert [each["kernel"] for each in found["launches"]] == ["saxpy"]


def test_pages_and_pictures(kerncast: Run, tmp_path: Path) -> None:
    html, picture, text = tmp_path / "page.html", tmp_path / "tornado.svg", tmp_path / "page.md"
    options = ("--gpu", "RTX 3080", "--parameter", "sm_clock", "--parameter", "l1_bandwidth", "-q")
    done = kerncast("sensitivity", TRANSPOSE, *options, "--report", html, "--tornado", picture)
    assert done.returncode == 0, done.stderr
    assert "clock of SMs and L2" in done.stdout
    assert "naive_transpose.cu:8" in done.stdout
    page = html.read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert page.count("<script") == 1
    assert "Advice: naive_transpose (launch 0) on RTX 3080" in page
    assert "change of the time in percent" in picture.read_text(encoding="utf-8")
    assert kerncast("sensitivity", TRANSPOSE, *options, "--report", text).returncode == 0
    assert "| clock of SMs and L2 |" in text.read_text(encoding="utf-8")


def test_profile_has_the_advice(kerncast: Run) -> None:
    done = kerncast("profile", TRANSPOSE, "--gpu", "RTX 3080", "--advice", "--json", "-q")
    assert done.returncode == 0, done.stderr
    for kernel in json.loads(done.stdout)["kernels"]:
        first = kernel["advice"][0]
        assert list(first) == [
            "cause",
            "speed_up",
            "seconds",
            "limiter",
            "unroll",
            "resident_blocks",
            "advice",
            "lines",
        ]
        assert first["cause"] == "uncoalesced"
        assert first["speed_up"] > 1.5
        assert first["lines"][0]["line"] == 8
        assert first["lines"][0]["taken"] == pytest.approx(4 * first["lines"][0]["needed"])


def test_what_cannot_run_leaves_the_others(kerncast: Run, tmp_path: Path) -> None:
    source = tmp_path / "two.cu"
    source.write_text("__global__ void k(float* y) { extern __shared__ float s[]; y[threadIdx.x] = s[threadIdx.x]; }")
    rows = [
        f'[[launch]]\ngrid = [80]\nblock = [64]\nshared_bytes = {size}\nargs = {{ y = "f32[64] zeros" }}\n'
        for size in (1024, 90_000)
    ]
    file = tmp_path / "two.toml"
    file.write_text('source = "two.cu"\n' + "".join(rows))
    options = ("--gpu", "t4", "--parameter", "sm_clock", "--json", "-q")
    done = kerncast("sensitivity", file, *options)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert [each["launch"] for each in found["launches"]] == [0]
    assert [each["launch"] for each in found["refused"]] == [1]
    assert "--force" not in done.stderr
    file.write_text('source = "two.cu"\n' + rows[1])
    done = kerncast("sensitivity", file, *options)
    assert done.returncode == 3
    assert json.loads(done.stdout)["elasticities"] == []


def test_a_family_name_says_which_gpu_is_meant(kerncast: Run) -> None:
    options = ("--gpu", "H100", "--parameter", "dram_bandwidth", "--no-advice", "-q")
    assert 'The name "H100" fits several GPUs' in kerncast("sensitivity", EXAMPLES / "saxpy.toml", *options).stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("sensitivity", EXAMPLES / "saxpy.toml"), "--gpu"),
        (("sensitivity", EXAMPLES / "saxpy.toml", "--gpu", "T4", "--gpu", "A2"), "Name one"),
        (("sensitivity", EXAMPLES / "saxpy.toml", "--gpu", "T4", "--parameter", "speed"), "dram_bandwidth"),
        (("sensitivity", EXAMPLES / "saxpy.toml", "--gpu", "T4", "--tornado", "a.txt"), "End it in .png"),
        (("sensitivity", EXAMPLES / "saxpy.toml", "--gpu", "T4", "--report", "a.txt"), "End it in .html"),
        (("sensitivity", EXAMPLES / "saxpy.toml", "--gpu", "T4", "--clock", "fast"), "base, boost"),
        (("sensitivity", EXAMPLES / "missing.toml", "--gpu", "T4"), "missing.toml"),
        (("sensitivity", EXAMPLES / "kernels" / "gpusd_declared.toml", "--gpu", "T4"), "no launch with a source"),
        (("profile", TRANSPOSE, "--advice"), "needs a GPU"),
        (("profile", TRANSPOSE, "--advice", "--csv", "--gpu", "T4"), "no place for --advice"),
    ],
)
def test_bad_usage(kerncast: Run, arguments: tuple[object, ...], expected: str) -> None:
    done = kerncast(*arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
