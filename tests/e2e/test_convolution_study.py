"""kerncast study convolution, as a user runs it."""

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_bad_input import check

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]


def test_a_sweep_with_values_of_ones_own(kerncast: Run, write: Write, tmp_path: Path) -> None:
    """A layer of 14 x 14 outputs has 2 x 9 x 14^2 x 32^2 operations, and a multiplication of each output."""
    flops = 2 * 9 * 14**2 * 32**2 + 14**2 * 32
    write("mine.csv", f"size,flops,int_ops,milliseconds\n14,{flops},20000000,0.05\n")
    sweep = ("study", "convolution", "--sweep", "size=14", "--given", "mine.csv")
    done = kerncast(*sweep, "--json", "--out", "table.csv", "--quiet")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (point,) = found["sweeps"][0]["points"]
    assert (found["gpu_id"], found["clock_hz"], point["size"]) == ("titan-v", 1.2e9, 14)
    assert point["given"] == {
        "flops": flops, "int_ops": 20_000_000, "ops": flops + 20_000_000, "seconds": pytest.approx(5e-5),
        "ops_per_s": pytest.approx((flops + 20_000_000) / 5e-5),
    }  # fmt: skip
    assert point["simulated"]["flops"] == flops
    assert point["errors"]["simulated"]["flops"] == 0
    assert [each["by"] for each in found["sweeps"][0]["scores"]] == ["predicted", "predicted by latencies", "simulated"]
    (row,) = csv.DictReader((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines())
    assert (row["given_int_ops"], float(row["simulated_seconds"])) == ("20000000", point["simulated"]["seconds"])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("suite",), "no use of WHAT"),
        (("--rows", "a.csv"), "no use of --rows"),
        (("--sweep", "width"), "no sweep is called 'width'"),
        (("--sweep", "size=0"), "no values of size"),
        (("--given", "none.csv"), "cannot be read"),
        (("--given", "bad.csv"), "bad.csv, line 2"),
        (("--out", "table.txt"), "no place for a study"),
        (("--out", "none/table.csv"), "no place for a study"),
        (("--gpu", "t4", "--gpu", "l4"), "2 GPUs are named"),
        (("--gpu", "all"), "GPUs"),
        (("--gpu", "GTX 9999"), "no GPU is called"),
    ],
)
def test_bad_input(options: tuple[str, ...], part: str, kerncast: Run, write: Write) -> None:
    write("bad.csv", "size,flops\n14,many\n")
    check(kerncast("study", "convolution", *options), 2, part)


def test_other_studies_make_no_use_of_its_options(kerncast: Run) -> None:
    check(kerncast("study", "zero-shot", "--sweep", "block"), 2, "no use of --sweep")
    check(kerncast("study", "zero-shot"), 2, "is of nothing")
    check(kerncast("study", "partitions", "--gpu", "t4"), 2, "is of nothing")


def test_all_refused_is_status_3(kerncast: Run) -> None:
    done = kerncast("study", "convolution", "--sweep", "block=64", "--json", "--quiet")
    assert done.returncode == 3
    assert all("4096 threads" in text for text in (json.loads(done.stdout)["refused"][0], done.stderr))
