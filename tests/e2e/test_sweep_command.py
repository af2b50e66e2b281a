"""kerncast sweep as a user runs it."""

import csv
import json
from pathlib import Path

import pytest

from kerncast.read.tuners import read_cache, read_t4
from tests.conftest import Run

SOURCE = """
__global__ void scale(float *x, int n) {
#if UNROLL > 4
#error too many
#endif
    for (int u = 0; u < UNROLL; ++u) {
        int i = (blockIdx.x * UNROLL + u) * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= 2.0f;
    }
}
"""
LAUNCH = """
source = "scale.cu"
defines = { UNROLL = 1 }
[[launch]]
kernel = "scale"
grid = [64]
block = [64]
args = { x = "f32[4096] random", n = 4096 }
"""
SETTINGS = ("--set", "UNROLL=1,2,8", "--set", "block.x=64,128,2048", "--set", "grid.x=ceil(n/(block.x*UNROLL))")
HERE = ("--jobs", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "scale.cu").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "scale.toml").write_text(LAUNCH, encoding="utf-8")
    return tmp_path / "scale.toml"


def test_json_has_the_best_and_the_infeasible(kerncast: Run, file: Path) -> None:
    done = kerncast("sweep", file, *SETTINGS, "--gpu", "titan-v", "--gpu", "rtx-3090", *HERE, "--json", "--top", 2)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == [
        "schema_version", "level", "parameters", "points", "excluded", "reused", "best", "infeasible", "results",
    ]  # fmt: skip
    assert found["parameters"][0] == {"name": "UNROLL", "values": [1, 2, 8]}
    assert (found["points"], found["excluded"], found["reused"]) == (9, 0, 0)
    assert len(found["results"]) == 18
    assert list(found["results"][0]) == [
        "point", "settings", "gpu", "gpu_id", "seconds", "low", "high", "limiter", "model", "infeasible", "reason",
    ]  # fmt: skip
    assert [(row["gpu_id"], row["rank"]) for row in found["best"]] == [
        ("titan-v", 1), ("titan-v", 2), ("rtx-3090", 1), ("rtx-3090", 2),
    ]  # fmt: skip
    for gpu in ("titan-v", "rtx-3090"):
        times = [row["seconds"] for row in found["results"] if row["gpu_id"] == gpu and row["seconds"]]
        assert [row["seconds"] for row in found["best"] if row["gpu_id"] == gpu] == sorted(times)[:2]
        kinds = {row["kind"]: row["points"] for row in found["infeasible"] if row["gpu_id"] == gpu}
        assert kinds == {"compile": 2, "launch": 3}, "UNROLL=8 with 64 and 128; 2048 threads with each"


def test_a_point_is_what_predict_forecasts(kerncast: Run, file: Path) -> None:
    swept = json.loads(kerncast("sweep", file, "--set", "UNROLL=1,2", "--gpu", "t4", *HERE, "--json").stdout)
    alone = json.loads(kerncast("predict", file, "--gpu", "t4", "--json").stdout)["predictions"][0]
    (same,) = (row for row in swept["results"] if row["settings"] == {"UNROLL": 1})
    assert [same[key] for key in ("seconds", "low", "high", "limiter")] == [
        alone[key] for key in ("seconds", "low", "high", "limiter")
    ]


def test_text_tables_pictures_and_files(kerncast: Run, file: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    asked = ("sweep", file, *SETTINGS, "--gpu", "titan-v", *HERE, "--resume", "kept.jsonl")
    done = kerncast(*asked, "--line", "l.svg", "--heat", "h.svg", "--t4", "t4.json", "--tuner-cache", "cache.json")
    assert done.returncode == 0, done.stderr
    assert "TITAN V" in done.stdout
    assert "does not compile" in done.stdout
    assert "9 points on 1 GPU." in done.stdout
    assert "block.x" in (tmp_path / "h.svg").read_text(encoding="utf-8")
    assert "90% interval" in (tmp_path / "l.svg").read_text(encoding="utf-8")
    rows = list(csv.DictReader(kerncast(*asked, "--csv").stdout.splitlines()))
    assert len(rows) == 9
    assert rows[0]["UNROLL"] == "1"
    assert kerncast(*asked, "--out", "all.parquet").returncode == 0
    frame = pd.read_parquet(tmp_path / "all.parquet")
    assert list(frame.columns) == list(rows[0])
    assert [f"{each:g}" for each in frame["seconds"].dropna()] == [
        f"{float(row['seconds']):g}" for row in rows if row["seconds"]
    ]
    assert "9 points are of an earlier run" in kerncast(*asked).stdout


def test_tuners_files_are_read_back(kerncast: Run, file: Path, tmp_path: Path) -> None:
    files = ("--t4", "t4.json", "--tuner-cache", "cache.json")
    done = kerncast("sweep", file, *SETTINGS, "--gpu", "titan-v", *HERE, *files, "--json")
    results = json.loads(done.stdout)["results"]
    times = {(row["settings"]["UNROLL"], row["settings"]["block.x"]): row["seconds"] for row in results}
    t4 = json.loads((tmp_path / "t4.json").read_text(encoding="utf-8"))
    assert [each["invalidity"] for each in t4["results"]].count("compile") == 2
    text = (tmp_path / "cache.json").read_text(encoding="utf-8")
    assert text.endswith("}\n}"), "Kernel Tuner takes only this end for complete"
    cache = json.loads(text)
    assert cache["cache"]["8,64"]["time"] == "CompilationFailedConfig"
    assert cache["cache"]["1,2048"]["time"] == "InvalidConfig"
    for read in (read_t4(t4, "t4.json"), read_cache(cache, "cache.json")):
        assert len(read) == 4
        for each in read:
            unroll, block = (int(value) for _, value in each.settings)
            assert each.seconds == pytest.approx(times[unroll, block])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "nothing varies"),
        (("--set", "UNROLL=1,2", "--where", "UNROLL>5"), "no combination"),
        (("--set", "UNROLL=1,2", "--where", "UNROL>5"), "UNROL is not set"),
        (("--set", "UNROLL=1,2", "--line", "l.gif"), "no place for this output"),
        (("--set", "UNROLL=1,2", "--heat", "h.png"), "needs two parameters"),
        (("--set", "UNROLL=1,2", "--along", "n"), "n does not vary"),
        (("--set", "UNROLL=1,2", "--json", "--csv"), "both given"),
        (("--set", "UNROLL=1,2", "--jobs", 1, "--cluster", "tcp://x:1"), "both given"),
        (("--set", "UNROLL=1,2", "--gpu", "t4", "--t4", "x.json"), "of one GPU"),
        (("--set", "UNROLL=1,2", "--launch", 3), "no launch 3"),
        (("--set", "UNROLL=1,2", "--resume", "."), "cannot be used"),
        (("--set", "UNROLL=1,2", "--out", "nowhere/x.csv"), "is no folder"),
    ],
)
def test_bad_usage(kerncast: Run, file: Path, options: tuple[object, ...], says: str) -> None:
    done = kerncast("sweep", file, "--gpu", "titan-v", *options)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_sweep_of_nothing_feasible_is_refused(kerncast: Run, file: Path) -> None:
    done = kerncast("sweep", file, "--set", "UNROLL=5,6", "--gpu", "titan-v", *HERE, "--json")
    assert done.returncode == 3
    assert "too many" in done.stderr
    assert json.loads(done.stdout)["best"] == []
