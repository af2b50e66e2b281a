"""kerncast bound, as a user runs it: the contract of its JSON, and every mistake ends with one clear paragraph."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_bad_input import GOOD_ARGS, LAUNCH, SAXPY, check
from tests.helpers.places import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]

TIMES = "tpcs,seconds\n1,8e-3\n1,8.1e-3\n40,3e-4\n40,3.1e-4\n"
FEATURED = "tpcs,seconds,reads\n1,8e-3,100\n2,,50\n40,3e-4,3\n"


def bounded(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_contract(kerncast: Run, write: Write) -> None:
    found = bounded(kerncast("bound", write("t.csv", TIMES), "--gpu", "TITAN V", "--tpcs", "1-3,40", "--json"))
    rows = found["bounds"]
    assert found["schema_version"] == "1.0"
    assert isinstance(rows, list)
    assert [row["tpcs"] for row in rows] == [1, 2, 3, 40]
    assert {row["kind"] for row in rows} == {"conformal"}
    assert all(row["bound_seconds"] >= row["expected_seconds"] > 0 for row in rows)
    assert rows[0]["bound_seconds"] > 8.1e-3
    assert rows[-1]["bound_seconds"] > 3.1e-4
    assert "with a probability of 99 %" in rows[1]["guarantee"]
    assert (found["gpu_id"], found["method"], found["calibrated_on"]) == ("titan-v", "shapes", [1, 40])


def test_all_counts_are_the_default_and_the_table_says_what_is_guaranteed(kerncast: Run, write: Write) -> None:
    done = kerncast("bound", write("t.csv", TIMES), "--gpu", "titan-v")
    assert done.returncode == 0, done.stderr
    assert "Guarantee: with a probability of 99 %" in done.stdout
    assert done.stdout.count("\n ") > 40
    assert done.stderr == ""


def test_counts_that_are_no_anchors_are_judged(kerncast: Run, write: Write, tmp_path: Path) -> None:
    curve = "".join(f"{k},{-(-20 // k) * 1e-3}\n" for k in range(1, 8))
    file = write("t.csv", "tpcs,seconds\n" + curve)
    options = ("--gpu", "titan-v", "--tpcs", "1-7", "--anchors", "1,7", "--method", "curve-fit")
    found = bounded(kerncast("bound", file, *options, "--json", "--picture", "b.png"))
    scores = found["scores"]
    assert isinstance(scores, dict)
    assert scores["n"] == 5
    assert scores["violations"] > 0
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    done = kerncast("bound", file, *options)
    assert "Of 5 measured times that it does not know" in done.stdout


def test_a_launch_is_bounded_by_the_simulation_and_by_measured_times(kerncast: Run, write: Write) -> None:
    write("k.cu", SAXPY)
    file = write("launch.toml", LAUNCH.replace("ARGS", GOOD_ARGS))
    options = ("--gpu", "titan-v", "--tpcs", "1,2,40", "--json", "--quiet")
    found = bounded(kerncast("bound", file, *options))
    rows = found["bounds"]
    assert isinstance(rows, list)
    assert "nothing was measured" in rows[0]["guarantee"]
    assert found["kind"], found["level"] == ("conformal", 0.9)
    assert rows[0]["bound_seconds"] >= rows[1]["bound_seconds"] >= rows[2]["bound_seconds"]
    times = write("t.csv", "tpcs,seconds\n1,9e-6\n40,8e-6\n")
    found = bounded(kerncast("bound", file, "--times", times, "--method", "curve-fit", *options))
    rows = found["bounds"]
    assert isinstance(rows, list)
    assert (found["method"], rows[0]["bound_seconds"], rows[2]["bound_seconds"]) == ("curve-fit", 9e-6, 8e-6)
    check(kerncast("bound", file, "--gpu", "titan-v", "--method", "equal-blocks"), 2, "--times")
    table = "".join(f"k{n % 3},{n},{n}e6,{37 * n % 101}\n" for n in range(1, 40))
    train = write("train.csv", f"kernel,time_us,elapsed_cycles_sm,gld_request\n{table}")
    learned = ("--times", times, "--train", train, "--method", "linear-regression")
    rows = bounded(kerncast("bound", file, *learned, *options))["bounds"]
    assert isinstance(rows, list)
    assert rows[0]["bound_seconds"] == 9e-6
    check(kerncast("bound", file, *learned[:4], *options), 2, "have no effect on shapes")


def test_measured_times_of_a_launch_need_no_simulation(kerncast: Run, write: Write) -> None:
    write("k.cu", SAXPY.replace("y[i] = a * x[i] + y[i];", "y[i + 1000000] = a * x[i];"))
    file = write("launch.toml", LAUNCH.replace("ARGS", GOOD_ARGS))
    times = write("t.csv", TIMES)
    options = ("--times", times, "--gpu", "titan-v", "--tpcs", "1,2,40", "--json", "--quiet")
    by_list = ("--method", "list-scheduling")
    found = bounded(kerncast("bound", file, *options, *by_list))
    assert found["bounds"] == bounded(kerncast("bound", times, *options[2:], *by_list))["bounds"]
    assert "interval-" not in str(found["caveat_details"])
    check(kerncast("bound", file, *options, "--method", "curve-fit"), 3, "buffer")
    check(kerncast("bound", file, *options, "--blocks", "7"), 2, "--blocks has no effect")
    check(kerncast("bound", file, *options[2:], "--blocks", "7"), 2, "--blocks has no effect on simulation")
    featured = write("f.csv", FEATURED)
    check(kerncast("bound", file, "--times", featured, *options[2:], "--method", "curve-fit"), 2, "it has features")


def test_a_launch_that_cannot_be_simulated_is_refused(kerncast: Run, write: Write) -> None:
    write("k.cu", SAXPY.replace("y[i] = a * x[i] + y[i];", "y[i + 1000000] = a * x[i];"))
    file = write("launch.toml", LAUNCH.replace("ARGS", GOOD_ARGS))
    done = kerncast("bound", file, "--gpu", "titan-v", "--tpcs", "1", "--json", "--quiet")
    check(done, 3, "buffer")
    assert json.loads(done.stdout)["bounds"] == []


def test_the_document_shows_what_the_command_prints(kerncast: Run, write: Write) -> None:
    text = (ROOT / "docs" / "bound.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
    ((command, shown),) = re.findall(r"```console\n\$ kerncast (bound times\.csv[^\n]*)\n(.*?)```", text, re.DOTALL)
    assert "Guarantee" in shown
    write("times.csv", rows)
    done = kerncast(*shlex.split(command))
    printed = " ".join(done.stdout.split())
    assert " ".join(shown.split()) in printed, done.stdout


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (TIMES, (), ("no GPU is named",)),
        (TIMES, ("--gpu", "titan-v", "--gpu", "t4"), ("names 2 GPUs",)),
        (TIMES, ("--gpu", "TITAN W"), ("TITAN",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "1-41"), ("1 to 40",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "0-3"), ("0 TPCs",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "3-1"), ("ends before it begins",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "some"), ("not a list of TPCs",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "1-"), ("not a list of TPCs",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "1-99999999999999"), ("not a list of TPCs",)),
        (TIMES, ("--gpu", "titan-v", "--tpcs", "²"), ("not a list of TPCs",)),
        (TIMES, ("--gpu", "titan-v", "--kind", "margin", "--method", "shapes"), ("of the kind conformal", "curve-fit")),
        (TIMES, ("--gpu", "titan-v", "--kind", "best"), ("no kind",)),
        (TIMES, ("--gpu", "titan-v", "--method", "hope"), ("list-scheduling",)),
        (TIMES, ("--gpu", "titan-v", "--method", "simulation"), ("needs a launch",)),
        (TIMES, ("--gpu", "titan-v", "--method", "curve-fit-offset-oracle"), ("use curve-fit-offset",)),
        (TIMES, ("--gpu", "titan-v", "--method", "curve-fit", "--form", "staircase"), ("--blocks",)),
        (TIMES, ("--gpu", "titan-v", "--method", "curve-fit", "--form", "cubic"), ("inverse",)),
        (TIMES, ("--gpu", "titan-v", "--anchors", "1,7"), ("without a measured time: 7",)),
        (TIMES, ("--gpu", "titan-v", "--blocks", "0"), ("0 blocks",)),
        (TIMES, ("--gpu", "titan-v", "--blocks-per-tpc", "2"), ("--blocks",)),
        (TIMES, ("--gpu", "titan-v", "--level", "1"), ("level is 1.0", "below 1")),
        (TIMES, ("--gpu", "titan-v", "--timing", "once"), ("no timing is called",)),
        (TIMES, ("--gpu", "titan-v", "--form", "inverse"), ("have no effect on shapes",)),
        ("tpcs,seconds\n7,1\n", ("--gpu", "titan-v", "--method", "curve-fit", "--form", "affine"), ("second count",)),
        (TIMES, ("--gpu", "titan-v", "--method", "list-scheduling", "--blocks", "9"), ("equal-blocks",)),
        (FEATURED, ("--gpu", "titan-v", "--method", "curve-fit"), ("--train",)),
        (TIMES, ("--gpu", "titan-v", "--picture", "b.txt"), ("b.txt", ".png")),
        (TIMES, ("--gpu", "titan-v", "--times", "t.csv"), ("--times belongs",)),
        (TIMES, ("--gpu", "titan-v", "--profile", "ncu.csv"), ("not a TPC count with a file",)),
        (TIMES, ("--gpu", "titan-v", "--profile", "8=missing.csv"), ("missing.csv", "cannot be read")),
        (TIMES, ("--gpu", "titan-v", "--method", "curve-fit", "--train", "missing.csv"), ("missing.csv",)),
        ("tpcs,seconds\n41,1\n", ("--gpu", "titan-v"), ("41 TPCs", "has 40")),
        ("tpcs,seconds\n1,nan\n", ("--gpu", "titan-v"), ("line 2", "not a finite number")),
        ("tpcs,seconds\n1,0.1\n2", ("--gpu", "titan-v"), ("line 3", "1 columns")),
        ("", ("--gpu", "titan-v"), ("header tpcs,seconds",)),
    ],
)
def test_mistakes_are_told(
    kerncast: Run, write: Write, text: str, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    check(kerncast("bound", write("t.csv", text), *options), 2, *words)


def test_other_mistakes_are_told(kerncast: Run) -> None:
    check(kerncast("bound", "missing.csv", "--gpu", "t4"), 2, "missing.csv", "cannot be read")
    check(kerncast("bound", "k.cu", "--gpu", "t4"), 2, "LAUNCH.toml")
    check(kerncast("bound", "missing.toml", "--gpu", "t4"), 2, "missing.toml")
    check(kerncast("bound", ".", "--gpu", "t4"), 2, "cannot be read")
    check(kerncast("bound", "missing.toml", "--gpu", "t4", "--anchors", "1"), 2, "--anchors")


def test_features_need_a_training_table_that_has_them(kerncast: Run, write: Write) -> None:
    table = "kernel,time_us,reads,writes\n" + "".join(f"k,{10 * n + n % 3},{n},{n % 7}\n" for n in range(1, 40))
    file, train = write("t.csv", FEATURED), write("train.csv", table)
    options = ("--gpu", "titan-v", "--train", train, "--method", "linear-regression")
    found = bounded(kerncast("bound", file, *options, "--tpcs", "1,2,40", "--json"))
    rows = found["bounds"]
    assert isinstance(rows, list)
    assert 3e-4 < rows[1]["expected_seconds"] < 8e-3
    check(kerncast("bound", file, *options), 2, "features of 3, 4")
    check(kerncast("bound", write("u.csv", FEATURED.replace("reads", "ipc")), *options), 2, "no feature ipc")


def test_a_bare_table_imports_nothing_heavy(write: Write) -> None:
    heavy = {"sklearn", "pandas", "scipy", "matplotlib", "numba", "pyarrow"}
    code = (
        "import sys; from kerncast.cli.application import run;"
        f"run(['bound', {str(write('t.csv', TIMES))!r}, '--gpu', 'titan-v', '--json']);"
        f"sys.exit(bool({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
