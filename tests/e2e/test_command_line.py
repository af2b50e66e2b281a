"""The contract of the command line: what is printed where, exit status, files, JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
KERNELS = EXAMPLES / "kernels"
DECLARED = KERNELS / "gpusd_declared.toml"

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_json_is_alone_on_stdout(kerncast_process: Run) -> None:
    done = kerncast_process("predict", EXAMPLES / "saxpy.toml", "--gpu", "TITAN V", "--gpu", "h100-sxm", "--json", "-q")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert [p["gpu_id"] for p in found["predictions"]] == ["titan-v", "h100-sxm"]


def test_all_gpus_and_out(kerncast: Run, tmp_path: Path) -> None:
    done = kerncast("predict", DECLARED, "--gpu", "all", "--json", "--out", "found.json")
    assert done.returncode == 0
    assert done.stdout == ""
    found = json.loads((tmp_path / "found.json").read_text())
    listed = json.loads(kerncast("gpus", "--json").stdout)["gpus"]
    assert {p["gpu_id"] for p in found["predictions"]} == {gpu["id"] for gpu in listed}
    assert len(listed) >= 20


def test_out_without_json_is_plain_text(kerncast: Run, tmp_path: Path) -> None:
    assert kerncast("predict", DECLARED, "--gpu", "t4", "--out", "found.txt").returncode == 0
    text = (tmp_path / "found.txt").read_text()
    assert "T4" in text
    assert "\x1b" not in text


def test_a_source_with_options_equals_its_launch_file(kerncast: Run) -> None:
    options = ["--kernel", "saxpy", "--grid", "4096", "--block", "256", "--arg", "n=1048576", "--arg", "a=2.0"]
    buffers = ["--arg", "x=f32[1048576] random", "--arg", "y=f32[1048576] random"]
    inline = kerncast("predict", KERNELS / "saxpy.cu", *options, *buffers, "--gpu", "t4", "--json")
    by_file = kerncast("predict", EXAMPLES / "saxpy.toml", "--gpu", "t4", "--json")
    assert json.loads(inline.stdout) == json.loads(by_file.stdout)


def test_max_and_compare_to(kerncast: Run, tmp_path: Path) -> None:
    ask = ("predict", DECLARED, "--gpu", "TITAN V", "--model", "template", "--json")
    assert kerncast(*ask, "--max", "6us").returncode == 0
    slow = kerncast(*ask, "--max", "5us")
    assert slow.returncode == 4
    assert "over --max 5 µs" in slow.stderr
    assert json.loads(slow.stdout)["predictions"]
    assert kerncast(*ask, "--out", "old.json").returncode == 0
    assert kerncast(*ask, "--compare-to", "old.json").returncode == 0
    old = json.loads((tmp_path / "old.json").read_text())
    for p in old["predictions"]:
        p["low"], p["high"] = p["low"] / 100, p["high"] / 100
    (tmp_path / "fast.json").write_text(json.dumps(old))
    slower = kerncast(*ask, "--compare-to", "fast.json")
    assert slower.returncode == 4
    assert "slower than before" in slower.stderr


def test_json_is_printed_when_everything_is_refused(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(int *p) { p[9] = 1; }")
    options = ["--grid", "1", "--block", "1", "--arg", "p=i32[4]", "--gpu", "t4", "--json"]
    done = kerncast("predict", "k.cu", *options)
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["predictions"] == []
    assert "out of bounds" in found["refused"][0]["reason"]
    assert found["refused"][0]["kernel"] == "k"


def test_several_launches_and_their_total(kerncast: Run, tmp_path: Path) -> None:
    text = (EXAMPLES / "saxpy.toml").read_text().replace('"kernels/saxpy.cu"', f'"{KERNELS}/saxpy.cu"')
    launch = text[text.index("[[launch]]") :]
    (tmp_path / "two.toml").write_text(text + launch.replace("a = 2.0", "a = 3.0"))
    done = kerncast("predict", "two.toml", "--gpu", "t4", "--json")
    found = json.loads(done.stdout)
    assert [p["launch"] for p in found["predictions"]] == [0, 1]
    (total,) = found["totals"]
    assert total["launches"] == 2
    assert total["seconds"] == pytest.approx(sum(p["seconds"] for p in found["predictions"]))
    assert "Total" in kerncast("predict", "two.toml", "--gpu", "t4").stdout


def test_versions_stand_in_one_report(kerncast: Run, tmp_path: Path) -> None:
    """A version that is forecast pairs by place; as fast as itself, with the same exit status as a file of times."""
    ask = ("predict", DECLARED, "--gpu", "TITAN V", "--model", "template")
    assert kerncast(*ask, "--compare-to", DECLARED, "--report", "r.html").returncode == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "As fast as before on TITAN V" in page
    assert 'id="change"' in page
    assert "--compare-to" in page  # the command
    done = kerncast(*ask, "--compare-to", "none.toml", "--report", "r.html")
    assert (done.returncode, "none.toml" in done.stderr) == (2, True)
    assert kerncast(*ask, "--advice").returncode == 2


@pytest.mark.parametrize(("name", "start"), [("r.html", "<!DOCTYPE html>"), ("r.md", "# Forecast of gpuSD")])
def test_reports_are_written(kerncast: Run, tmp_path: Path, name: str, start: str) -> None:
    assert kerncast("predict", KERNELS / "gpusd.toml", "--gpu", "TITAN V", "--report", name).returncode == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_a_users_own_gpu(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("from = 'sm_86'\nsm_count = 46\nclock_boost_mhz = 1725\ndram_gb_per_s = 448\n")
    done = kerncast("predict", DECLARED, "--gpu", "mine.toml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predictions"][0]["gpu_id"] == "mine"


def test_a_users_own_architecture(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "tuned.toml").write_text('name = "Tuned Volta"\nfrom = "sm_70"\ncompute_capability = "7.0"\n')
    card = "from = 'tuned.toml'\nsm_count = 40\nclock_boost_mhz = 1000\ndram_gb_per_s = 448\n"
    (tmp_path / "mine.toml").write_text(card)
    done = kerncast("predict", EXAMPLES / "saxpy.toml", "--gpu", "mine.toml", "--json")
    assert done.returncode == 0, done.stderr


def test_timings_differ_by_their_launch(kerncast: Run) -> None:
    times = {}
    for timing in ("series", "single", "cold", "profiler"):
        done = kerncast("predict", DECLARED, "--gpu", "t4", "--timing", timing, "--json")
        found = json.loads(done.stdout)
        assert found["timing"] == timing
        times[timing] = found["predictions"][0]["terms"]["launch"]
    assert times == pytest.approx({"series": 1.6e-6, "single": 2.75e-6, "cold": 2.75e-6, "profiler": 1.2e-6})


def test_clock(kerncast: Run, tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text('[[declared]]\nkernel="k"\ngrid=[80]\nblock=[1]\nfp32_flops=1e12\ndram_bytes=0\n')
    seconds = {}
    for clock in ("base", "boost", "1000"):
        done = kerncast("predict", "d.toml", "--gpu", "TITAN V", "--clock", clock, "--timing", "profiler", "--json")
        seconds[clock] = json.loads(done.stdout)["predictions"][0]["seconds"] - 1.2e-6
    expected = {
        name: 1e12 / (2 * 64 * 80 * mhz * 1e6) for name, mhz in (("base", 1200), ("boost", 1455), ("1000", 1000))
    }
    assert seconds == pytest.approx(expected)


def test_family_names_say_what_they_mean(kerncast: Run) -> None:
    done = kerncast("predict", DECLARED, "--gpu", "A100", "--json")
    assert any("a100-sxm-80gb" in caveat for caveat in json.loads(done.stdout)["predictions"][0]["caveats"])


def test_occupancy_of_a_launch_and_by_hand(kerncast: Run) -> None:
    by_file = kerncast("occupancy", EXAMPLES / "matmul_tiled.toml", "--gpu", "TITAN V", "--json")
    (row,) = json.loads(by_file.stdout)["occupancies"]
    assert row["shared_bytes_per_block"] == 2 * 16 * 16 * 4
    hand = kerncast("occupancy", "--gpu", "TITAN V", "--block", 256, "--registers", 40, "--json")
    (row,) = json.loads(hand.stdout)["occupancies"]
    assert (row["blocks_per_sm"], row["occupancy"], row["limiter"]) == (6, 0.75, "registers")


def test_doctor(kerncast_process: Run) -> None:
    done = kerncast_process("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["healthy"] is True


def test_version_and_help(kerncast_process: Run) -> None:
    assert kerncast_process("--version").stdout.startswith("kerncast 0.")
    assert "predict" in kerncast_process("--help").stdout
    assert kerncast_process().returncode == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m kerncast gpus --json | head -c 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)  # noqa: S607
    assert done.stderr == ""


def test_no_colour_when_piped(kerncast: Run) -> None:
    assert "\x1b" not in kerncast("gpus").stdout


def test_a_toolkit_elsewhere_makes_no_difference(
    kerncast_process: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = kerncast_process("predict", EXAMPLES / "saxpy.toml", "--gpu", "t4", "--json").stdout
    (tmp_path / "bin").mkdir()
    for tool in ("nvcc", "ptxas", "nvdisasm"):
        (tmp_path / "bin" / tool).write_text("#!/bin/sh\nexit 99\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert kerncast_process("predict", EXAMPLES / "saxpy.toml", "--gpu", "t4", "--json").stdout == plain
