"""Run the mini-applications of Van Lanker et al. (Euro-Par 2024) as whole programs, and forecast them on its four GPUs.

    python benchmarks/mini_app_programs.py --apps FOLDER --out FOLDER [--only NAME]… [--seconds 900] [--again]

``--apps`` holds a checkout of each repository that ``mini_app_programs.csv`` names, under the repository's name without
its owner, at the commit there: ``--fetch`` prints the commands that make them. A checkout stays as it is: each program
is built and run in a copy below ``--out``, which also keeps its recording (NAME.kc), what it printed (NAME.log) and its
forecasts (NAME.json). A program whose forecasts are there is not run again, but with ``--again``.

Sizes are compiled into many of them: then the build begins with the ``sed`` that sets the paper's. ``match`` tells
whether a run has the sizes of the paper: exact; launches exact, where there are fewer of them; reduced; not stated.
"""

import argparse
import csv
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("mini_app_programs.csv")
#: The paper's V100, A100-40, A100-80 and H100: the maxima in its Table 1 are those of the PCIe cards.
GPUS = ("v100-pcie-32gb", "a100-pcie-40gb", "a100-pcie-80gb", "h100-pcie")
_SHORT = ("V100", "A100-40", "A100-80", "H100")
_FORECAST_SECONDS = 1800.0
_MOST_KERNELS = 4


@dataclass(frozen=True, slots=True)
class Program:
    """One program of the paper's."""

    name: str
    repository: str
    """on GitHub, with its owner"""
    commit: str
    folder: str
    """where it is built and run"""
    build: str
    command: str
    paper: str
    """sizes of the paper's run"""
    ours: str
    match: str
    check: str
    """regular expression that what it prints matches when it is right; empty: it checks nothing"""

    @property
    def file_name(self) -> str:
        """How its files are called."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Ran:
    """A run and its forecasts."""

    program: Program
    seconds: float
    """of the run on this machine, without its build and forecasts; 0: not known"""
    check: str
    found: dict[str, Any]
    """what ``kerncast run --json`` printed of the forecasts"""


def load_programs(path: Path = PROGRAMS) -> list[Program]:
    """Return the programs of the list."""
    with path.open(newline="", encoding="utf-8") as file:
        return [Program(**row) for row in csv.DictReader(file)]


def fetch_commands(programs: Sequence[Program]) -> Iterator[str]:
    """Yield the commands that make the checkouts."""
    for repository, commit in dict.fromkeys((each.repository, each.commit) for each in programs):
        name = repository.partition("/")[2]
        yield f"git clone https://github.com/{repository} && git -C {name} checkout {commit}"


def run_program(program: Program, apps: Path, out: Path, seconds: float) -> Ran | None:
    """Run a program and forecast it; None where that fails: its log tells why."""
    folder, recording = out / "build" / program.file_name, (out / f"{program.file_name}.kc").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    checkout = apps / program.repository.partition("/")[2]
    shutil.copytree(checkout, folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    # A sign that all of it is one project, whose headers may be read.
    (folder / ".git").mkdir()
    mark = folder / ".built"
    gpus = " ".join(f"--gpu {gpu}" for gpu in GPUS)
    line = (
        f'exec "$0" -m kerncast run --build "$1" --timeout {seconds:g}s --launch-seconds {seconds:g} {gpus} --json -q '
        f'--out "$2" -- {program.command}'
    )
    words = ["bash", "-c", line, sys.executable, f"({program.build}) && touch {mark.absolute()}", str(recording)]
    with (out / f"{program.file_name}.log").open("w", encoding="utf-8") as log:
        printed = _called(words, folder / program.folder, log, 3 * seconds + _FORECAST_SECONDS)
    text = (out / f"{program.file_name}.log").read_text(encoding="utf-8", errors="replace")
    if not printed.startswith("{") or not mark.exists():
        return None
    check = "–" if not program.check else "yes" if re.search(program.check, text, re.MULTILINE) else "NO"
    # The recording is written when the program has ended, before the forecasts.
    took = recording.stat().st_mtime - mark.stat().st_mtime
    kept = {"seconds": took, "check": check, "found": json.loads(printed)}
    (out / f"{program.file_name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return _kept(program, out)


def _kept(program: Program, out: Path) -> Ran | None:
    path = out / f"{program.file_name}.json"
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Ran(program, kept["seconds"], kept["check"], kept["found"])


def _called(words: Sequence[str], folder: Path, log: Any, seconds: float) -> str:
    """Run a command; returns what it printed. Its messages go to the log."""
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603  our own
    try:
        printed, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate()
    return printed


def _time(seconds: float) -> str:
    units = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
    unit, scale = next((each for each in units if seconds * each[1] >= 1), units[-1])
    return f"{float(f'{seconds * scale:.3g}'):g} {unit}"


def runs_table(runs: Sequence[Ran]) -> Iterator[str]:
    """Yield what was run: sizes, launches, seconds here."""
    yield "| program | the paper's size | run here | match | launches | distinct | own check | run here took |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in runs:
        own = each.program
        yield (
            f"| {own.name} | {own.paper} | {own.ours} | {own.match} | {each.found['launches']:,} | "
            f"{each.found['distinct']:,} | {each.check} | {each.seconds:.0f} s |"
        )


def times_table(runs: Sequence[Ran]) -> Iterator[str]:
    """Yield the forecasts, a row per program and GPU."""
    yield "| program | GPU | application | interval | kernels | copies | host, measured here | GPU idle |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in runs:
        by_id = {one["gpu_id"]: one for one in each.found["applications"]}
        for number, gpu in enumerate(GPUS):
            one = by_id.get(gpu)
            name = each.program.name if number == 0 else ""
            if one is None:
                yield f"| {name} | {_SHORT[number]} | refused | | | | | |"
                continue
            idle = one["idle"] / one["seconds"] if one["seconds"] else 0.0
            cells = (
                _time(one["seconds"]), f"{_time(one['low'])} to {_time(one['high'])}", _time(one["kernels"]),
                _time(one["copies"]), _time(one["host"]), f"{idle:.0%}",
            )  # fmt: skip
            yield f"| {name} | {_SHORT[number]} | " + " | ".join(cells) + " |"


def kernels_table(runs: Sequence[Ran]) -> Iterator[str]:
    """Yield the kernels that take longest, with their mean time per launch on each GPU."""
    yield "| program | kernel | launches | share, V100 | one on V100 | A100-40 | A100-80 | H100 | limited by, V100 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in runs:
        by_id = {one["gpu_id"]: one for one in each.found["applications"]}
        first = by_id.get(GPUS[0])
        if first is None:
            continue
        for number, kernel in enumerate(first["by_kernel"][:_MOST_KERNELS]):
            means = []
            for gpu in GPUS:
                of_gpu = by_id.get(gpu, {}).get("by_kernel", ())
                same = [one for one in of_gpu if one["kernel"] == kernel["kernel"]]
                means.append(_time(same[0]["seconds"] / same[0]["launches"]) if same else "–")
            share = kernel["seconds"] / first["kernels"] if first["kernels"] else 0.0
            yield (
                f"| {each.program.name if number == 0 else ''} | {_plain(kernel['kernel'])} | {kernel['launches']:,} | "
                f"{share:.0%} | " + " | ".join(means) + f" | {kernel['limiter']} |"
            )


def _plain(name: str, most: int = 48) -> str:
    text = name.replace("|", "\\|")
    return f"`{text if len(text) <= most else text[:most] + '…'}`"


def main() -> int:
    """Print the tables; exit 1 where a program does not run, or its own check fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fetch", action="store_true", help="print the commands that fetch the programs, and end")
    parser.add_argument("--apps", type=Path, default=Path(), help="folder of the checkouts")
    parser.add_argument("--out", type=Path, default=Path("mini-apps"), help="folder for builds, recordings, forecasts")
    parser.add_argument("--only", action="append", metavar="NAME", help="program; repeatable")
    parser.add_argument("--seconds", type=float, default=900.0, help="limit of one run, without its build")
    parser.add_argument("--again", action="store_true", help="run what was run before, too")
    chosen = parser.parse_args()
    programs = [each for each in load_programs() if not chosen.only or each.name in chosen.only]
    if chosen.fetch:
        print("\n".join(fetch_commands(programs)))
        return 0
    chosen.out.mkdir(parents=True, exist_ok=True)
    runs, failed = [], []
    for program in programs:
        ran = None if chosen.again else _kept(program, chosen.out)
        ran = ran or run_program(program, chosen.apps, chosen.out, chosen.seconds)
        print(f"{program.name}: {'failed' if ran is None else 'ran'}", file=sys.stderr, flush=True)
        if ran is None:
            failed.append(program.name)
        else:
            runs.append(ran)
    for table in (runs_table, times_table, kernels_table):
        print("\n".join(table(runs)), end="\n\n")
    if failed:
        print(f"Not run: {', '.join(failed)}.")
    return int(bool(failed) or any(each.check == "NO" for each in runs))


if __name__ == "__main__":
    raise SystemExit(main())
