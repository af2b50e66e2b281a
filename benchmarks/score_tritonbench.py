"""Score forecasts of TritonBench's kernels against its published times: medians of do_bench on an A100 80GB.

Run it with a checkout of thunlp/TritonBench at 603e28a5, of which kernels and their harness are read, and no result::

    python benchmarks/score_tritonbench.py --repository TritonBench --times times.csv --rows rows.jsonl

Each operator of the set G runs as a script of its own, confined. Those of the set T are PyTorch's own kernels.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

#: Shorter times are the launch's, and say nothing of the kernel.
LEAST_US = 20.0
ROWS = 2
SECONDS = 150
GPU = "a100-sxm-80gb"

HARNESS = """
import json, sys, torch, triton
from torch.utils._python_dispatch import TorchDispatchMode
for name in ("rand", "randn"):
    setattr(torch, name, torch.zeros)
zeros_like = torch.zeros_like
torch.rand_like = torch.randn_like = zeros_like
from performance_utils import Performance_Metrics
from perf import performance_metrics
FREE = ("empty", "view", "reshape", "transpose", "permute", "slice", "select", "expand", "squeeze", "alias", "detach",
        "as_strided", "t.", "stride", "size", "split", "unbind", "chunk", "lift")
class Seen(TorchDispatchMode):
    def __init__(self): super().__init__(); self.names = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func).removeprefix("aten.")
        if not name.startswith(FREE) and "unsqueeze" not in name: self.names.append(name)
        return func(*args, **(kwargs or {}))
own = performance_metrics()
own.get_input_tensors()
for number in json.loads(ROWS_ASKED):
    try:
        given = own.to_cuda(own.input_tensors[number])
        seen = Seen()
        def work():
            with seen: own.call_op(given)
        ms = triton.testing.do_bench(work)
        low, high = triton.testing.do_bench.__self__.last[1:]
        print("ROW", json.dumps([number, ms, sorted(set(seen.names)), 1e3 * low, 1e3 * high]))
    except Exception as error:
        print("FAILED", json.dumps([number, f"{type(error).__name__}: {error}"[:300]]))
"""
RUN = (
    "import sys; from pathlib import Path; from kerncast.scripts import Script, record_script;"
    "import kerncast.scripts.benchmarks as benchmarks; benchmarks.MEASURING_SECONDS = {seconds};"
    "from kerncast.gpu import load_gpu; from kerncast.recording import read_recording;"
    "found = record_script(Script(Path(sys.argv[1]), seconds={seconds}), load_gpu({gpu!r}), Path(sys.argv[2]));"
    "print(*('NOTE ' + each for each in read_recording(found.recording).remarks), sep='\\n', file=sys.stderr);"
    "print('ENDED', found.failed, file=sys.stderr)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured time, and its forecast."""

    operator: str
    row: int
    size: str
    measured_us: float
    forecast_us: float | None
    torch_ops: tuple[str, ...] = ()
    """operators of torch's that ran beside kernels: their time is measured and not forecast"""
    why: str = ""
    low_us: float | None = None
    high_us: float | None = None

    @property
    def error(self) -> float:
        """Relative error of the forecast."""
        assert self.forecast_us is not None
        return self.forecast_us / self.measured_us - 1


def asked(times: Path) -> dict[str, list[tuple[int, str, float]]]:
    """Return the rows of each operator of G that are long enough: the middle one and the longest."""
    found = defaultdict(list)
    with times.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["set"] == "G" and float(row["time_us"]) > LEAST_US:
                found[row["operator"]].append((int(row["row"]), row["input_size"], float(row["time_us"])))
    return {name: _chosen(rows) for name, rows in found.items()}


def _chosen(rows: list[tuple[int, str, float]]) -> list[tuple[int, str, float]]:
    rows = sorted(rows, key=lambda row: row[2])
    return list({row[0]: row for row in (rows[0], rows[len(rows) // 2])}.values())[:ROWS]


def content(repository: Path, name: str) -> str:
    """Return a file of the repository, from a checkout or from its git directory."""
    if (repository / name).is_file():
        return (repository / name).read_text(encoding="utf-8")
    command = ["git", "-C", str(repository), "show", f"HEAD:{name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def make(repository: Path, operator: str, numbers: Sequence[int], folder: Path) -> Path:
    """Write the script of an operator below a folder; returns its path."""
    kernel = content(repository, f"data/TritonBench_G_v1/{operator}.py")
    metrics = content(repository, f"performance_metrics/perf_G/golden_metrics/{operator}_perf.py")
    package = re.search(r"from (\w+)\.\w+ import", metrics)
    place = folder / (package[1] if package else "TritonBench_v1")
    place.mkdir()
    (place / "__init__.py").touch()
    # Some import torch for their tests only, which stand below the line and are left out.
    own = re.split(r"\n#{60,}\n", kernel)[0]
    (place / f"{operator}.py").write_text(f"import torch\n{own}", encoding="utf-8")
    (folder / "perf.py").write_text(metrics.partition("if __name__")[0], encoding="utf-8")
    helper = content(repository, "performance_metrics/perf_G/performance_utils.py")
    (folder / "performance_utils.py").write_text(helper, encoding="utf-8")
    script = folder / "script.py"
    script.write_text(HARNESS.replace("ROWS_ASKED", repr(json.dumps(list(numbers)))), encoding="utf-8")
    return script


def score(repository: Path, operator: str, rows: list[tuple[int, str, float]]) -> Iterator[Row]:
    """Yield what comes of an operator's rows."""
    with tempfile.TemporaryDirectory() as folder:
        script = make(repository, operator, [row[0] for row in rows], Path(folder))
        code = RUN.format(seconds=SECONDS, gpu=GPU)
        command = [sys.executable, "-c", code, str(script), str(Path(folder) / "out.kc")]
        try:
            ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=2 * SECONDS)  # noqa: S603
            said = ended.stderr
        except subprocess.TimeoutExpired:
            said = "ENDED took too long"
    told = {found[0]: found for found in map(row_of, re.findall(r"^ROW (.*)$", said, re.MULTILINE))}
    failed = dict(json.loads(each) for each in re.findall(r"^FAILED (.*)$", said, re.MULTILINE))
    notes = [each for each in re.findall(r"^NOTE (.*)$", said, re.MULTILINE) if "torch's own" not in each]
    last = (re.findall(r"^(?:ENDED |\w*Error: |kerncast\.\S+: )(.*)$", said, re.MULTILINE) or ["no words"])[-1]
    for number, size, measured in rows:
        if number in told and np.isfinite(told[number][1]):
            _, middle, names, *ends = told[number]
            low, high = (1e3 * each for each in ends)
            yield Row(operator, number, size, measured, middle * 1e3, tuple(names), "", low, high)
        else:
            why = failed.get(number) or "; ".join(notes[-2:]) or last
            yield Row(operator, number, size, measured, None, why=why[:400])


def row_of(text: str) -> tuple[int, float, list[str], float, float]:
    """Return number, milliseconds, operators of torch's, and the interval's milliseconds."""
    number, milliseconds, names, low, high = json.loads(text)
    return number, milliseconds, names, low, high


def main() -> None:
    """Score, and write a line for each row as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--times", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True, help="file for the rows, which is added to (.jsonl)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no operator after this")
    given = parser.parse_args()
    every = asked(given.times)
    names = list(np.random.default_rng(0).permutation(sorted(every)))
    known = {json.loads(line)["operator"] for line in given.rows.open()} if given.rows.exists() else set()
    begun = time.monotonic()
    for name in names:
        if name in known or time.monotonic() - begun > given.seconds:
            continue
        for row in score(given.repository, name, every[name]):
            with given.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
            print(row.operator, row.row, row.measured_us, row.forecast_us, row.torch_ops, row.why[:100], flush=True)
    summary(
        [Row(**{**json.loads(line), "torch_ops": tuple(json.loads(line)["torch_ops"])}) for line in given.rows.open()]
    )


def summary(rows: list[Row]) -> None:
    """Print errors of the rows that were forecast, and why others were not."""
    good = [row for row in rows if row.forecast_us is not None]
    alone = [row for row in good if not row.torch_ops]
    for title, some in (("all", good), ("no operator of torch's beside the kernels", alone)):
        if some:
            errors = np.array([row.error for row in some])
            print(
                f"{title}: {len(some)} rows of {len({r.operator for r in some})} operators,"
                f" median error {np.median(np.abs(errors)):.1%}, median {np.median(errors):+.1%}"
            )
    for row in sorted(alone, key=lambda row: -abs(np.log(row.error + 1)))[:20]:
        print(f"  {row.operator} {row.size}: {row.measured_us:.1f} us measured, {row.forecast_us:.1f} forecast")
    for row in rows:
        if row.forecast_us is None:
            print(f"  {row.operator} {row.row}: {row.why[:160]}")


if __name__ == "__main__":
    main()
