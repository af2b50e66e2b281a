"""kerncast study partitions, as a user runs it: a data set that kerncast reads again, tables, and clear mistakes."""

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.e2e.test_bad_input import check

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[[str, str], Path]

SOURCE = """
__global__ void {name}(int n, const float *x, float *y) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i];
    for (int k = 0; k < n; k++) a = a * 1.5f + 2.0f;
    y[i] = a;
}}
"""


def program(write: Write, name: str, *turns: int) -> None:
    write(f"{name}.cu", SOURCE.format(name=name))
    launches = "".join(
        f'[[launch]]\nkernel = "{name}"\ngrid = [160]\nblock = [128]\n'
        f'args = {{ n = {each}, x = "f32[20480] ones", y = "f32[20480] zeros" }}\n'
        for each in turns
    )
    write(f"{name}.toml", f'source = "{name}.cu"\n{launches}')


def test_a_data_set_and_the_tables_of_the_report(kerncast: Run, write: Write, tmp_path: Path) -> None:
    program(write, "brief", 1, 20)
    program(write, "lasting", 50, 300)
    program(write, "other", 70)
    options = ("--gpu", "titan-v", "--tpcs", "1,2,4", "--quiet", "--runs", "4")
    done = kerncast("study", "partitions", ".", *options, "--hold-out", "other", "--out", "table.csv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["times"].startswith("simulated")
    assert len(found["launches"]) == 5
    for launch in found["launches"]:
        assert launch["median_seconds"][0] > launch["median_seconds"][-1]
    methods = {(each["method"], each["anchors"]) for each in found["scores"]}
    assert ("curve-fit-offset", "fewest") in methods
    assert all(each["n"] == (2 if each["anchors"] == "fewest" else 1) for each in found["scores"])
    assert {each["r2"] is None for each in found["scores"] if each["n"] == 1} == {True}
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 3 * 4
    assert {"application", "tpcs", "time_us", "sm__cycles_elapsed.max"} <= rows[0].keys()
    write("times.csv", "tpcs,seconds\n1,1e-4\n4,3e-5\n")
    learned = ("--times", "times.csv", "--train", "table.csv", "--method", "linear-regression", "--json", "--quiet")
    program(write, "mine", 40)
    done = kerncast("bound", "mine.toml", "--gpu", "titan-v", "--tpcs", "1,2,4", *learned)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "linear-regression"


def test_mistakes_of_studies(kerncast: Run, write: Write) -> None:
    program(write, "brief", 1)
    check(kerncast("study", "weather", "brief.toml", "--gpu", "t4"), 2, "no study", "partitions")
    check(kerncast("study", "partitions", "missing.toml", "--gpu", "t4"), 2, "missing.toml")
    check(kerncast("study", "partitions", "brief.toml"), 2, "no GPU is named")
    check(kerncast("study", "partitions", "brief.toml", "--gpu", "t4", "--tpcs", "1-99"), 2, "1 to 20")
    check(kerncast("study", "partitions", "brief.toml", "--gpu", "t4", "--runs", "0"), 2, "--runs")
    options = ("--gpu", "t4", "--tpcs", "1,2", "--quiet")
    check(kerncast("study", "partitions", "brief.toml", *options, "--hold-out", "none"), 2, "no program is called")
    check(kerncast("study", "partitions", "brief.toml", *options, "--times", "gone.jsonl"), 2, "gone.jsonl")
