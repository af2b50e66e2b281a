"""Take the programs of two suites as they are through init, the compiler, the executor and a forecast.

    python benchmarks/score_front_end.py --rodinia FOLDER --hecbench FOLDER [--only NAME]… [--jobs 2] [--json FILE]

FOLDER is a checkout of yuhc/gpu-rodinia or zjin-lcf/HeCBench. The programs stand in ``front_end_programs.csv`` with the
macros, folders and further sources of their makefiles and the arguments with which those run them; they were chosen
before any was run.
Nothing in a launch file that ``kerncast init`` writes is changed: a launch that holds something undecided is left out
and counted as undecided.
"""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).with_name("front_end_programs.csv")
#: Where the programs lie in a checkout.
FOLDERS = {"rodinia": "cuda", "hecbench": "src"}
GPU = "TITAN V"
UNDECIDED = "?"
_HEADER = "[[launch]]"
_LONGEST_REASON = 150
_STAGES = ("decided", "compiled", "forecast")
_HEADS = (
    "| suite | program | source | init | launches | decided | compiled | forecast | first reason |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True, slots=True)
class Program:
    """One source file of a program, with the options of its makefile."""

    suite: str
    program: str
    source: str
    options: tuple[str, ...]
    argv: str


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """How far one launch that init found got."""

    kernel: str
    decided: bool = False
    compiled: bool = False
    forecast: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What came of one source file."""

    suite: str
    program: str
    source: str
    written: bool
    """whether init wrote a launch file with at least one launch"""
    reason: str = ""
    launches: tuple[LaunchOutcome, ...] = field(default=())


def load_programs(path: Path = PROGRAMS) -> tuple[Program, ...]:
    """Read the list of programs."""
    with path.open(encoding="utf-8", newline="") as text:
        return tuple(
            Program(row["suite"], row["program"], row["source"], tuple(shlex.split(row["options"])), row["argv"])
            for row in csv.DictReader(text)
        )


def run_file(program: Program, checkout: Path, seconds: float) -> FileOutcome:
    """Take one file through init, and each of its launches as far as it gets."""
    names = program.suite, program.program, program.source
    home = checkout / FOLDERS[program.suite] / program.program
    with tempfile.TemporaryDirectory() as folder:
        skeleton = Path(folder) / "launch.toml"
        argv = ("--argv", program.argv) if program.argv else ()
        options = _absolute(program.options, home)
        status, said = _kerncast(
            "init", str(home / program.source), "-o", str(skeleton), *argv, *options, limit=seconds
        )
        if status or not skeleton.is_file():
            return FileOutcome(*names, written=False, reason=said or f"init ended with {status}")
        head, *sections = skeleton.read_text(encoding="utf-8").split(_HEADER)
        if not sections:
            return FileOutcome(*names, written=False, reason="no launch was found")
        launches = tuple(_run_launch(head, section, Path(folder), seconds) for section in sections)
    return FileOutcome(*names, written=True, launches=launches)


def _run_launch(head: str, section: str, folder: Path, seconds: float) -> LaunchOutcome:
    """Ask for a forecast of a file with this launch alone."""
    table = tomllib.loads(head + _HEADER + section)
    kernel = str(table["launch"][0].get("kernel", ""))
    file = folder / "one.toml"
    file.write_text(head + _HEADER + section, encoding="utf-8")
    open_values = [line.strip() for line in section.splitlines() if UNDECIDED in line.partition("#")[0]]
    if open_values:
        status, said = _compile(table, folder, kernel, seconds)
        return LaunchOutcome(kernel, compiled=status == 0, reason=said if status else open_values[0])
    status, said = _kerncast("predict", str(file), "--gpu", GPU, "--json", "-q", limit=seconds)
    if status == 0:
        return LaunchOutcome(kernel, decided=True, compiled=True, forecast=True)
    compiled, _ = _compile(table, folder, kernel, seconds)
    return LaunchOutcome(kernel, decided=True, compiled=compiled == 0, reason=said or f"predict ended with {status}")


def _compile(table: dict[str, object], folder: Path, kernel: str, seconds: float) -> tuple[int, str]:
    """Ask for the occupancy of one thread per block, which compiles the kernel and does nothing else."""
    file = folder / "compiled.toml"
    defines = table.get("defines", {})
    lines = [f"source = {json.dumps(table['source'])}"]
    lines += [f"{key} = {json.dumps(table[key])}" for key in ("include", "std") if key in table]
    if isinstance(defines, dict) and defines:
        lines.append(
            "defines = { " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in defines.items()) + " }"
        )
    lines += [_HEADER, f"kernel = {json.dumps(kernel)}", "grid = [1]", "block = [1]", "args = {}"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return _kerncast("occupancy", str(file), "--gpu", GPU, "--json", limit=seconds)


def _absolute(options: Sequence[str], home: Path) -> tuple[str, ...]:
    """Return the options with the paths that the program's makefile names from where it lies."""
    found = list(options)
    for place in range(1, len(found)):
        if found[place - 1] in {"-I", "--host"}:
            found[place] = os.path.normpath(home / found[place])
    return tuple(found)


def _kerncast(*arguments: str, limit: float) -> tuple[int, str]:
    """Run a command; return its exit status and what it said on stderr, as one line."""
    try:
        done = subprocess.run(  # noqa: S603  our own command
            [sys.executable, "-m", "kerncast", *arguments], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"not done after {limit:g} s"
    said = done.stderr
    if not said.strip() and done.stdout.startswith("{"):
        said = "; ".join(each.get("reason", "") for each in json.loads(done.stdout).get("refused", ()))
    return done.returncode, " ".join(said.split())


def _shortened(text: str) -> str:
    text = text.replace("|", "\\|")
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " …"


def table_row(outcome: FileOutcome) -> str:
    """Return a file's row of the Markdown table, with the first reason where it did not get to the end."""
    counts = (sum(getattr(one, name) for one in outcome.launches) for name in _STAGES)
    reason = outcome.reason or next((one.reason for one in outcome.launches if one.reason), "")
    written = "yes" if outcome.written else "no"
    cells = [
        outcome.suite,
        outcome.program,
        outcome.source,
        written,
        len(outcome.launches),
        *counts,
        _shortened(reason),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def totals(outcomes: Sequence[FileOutcome]) -> list[str]:
    """Return how many programs and launches got how far, suite by suite."""
    heads = [
        *("suite", "programs", "through init", "every kernel compiled", "a launch forecast", "every launch forecast"),
        *("launches", *_STAGES),
    ]
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for suite in (*dict.fromkeys(each.suite for each in outcomes), "together"):
        files = [each for each in outcomes if suite in {each.suite, "together"}]
        programs: dict[tuple[str, str], list[FileOutcome]] = {}
        for each in files:
            programs.setdefault((each.suite, each.program), []).append(each)
        launches = [one for each in files for one in each.launches]
        through = [found for found in programs.values() if all(each.written for each in found)]
        whole = [[one for each in found for one in each.launches] for found in through]
        cells = [
            len(programs), len(through), sum(all(one.compiled for one in each) for each in whole),
            sum(any(one.forecast for each in found for one in each.launches) for found in programs.values()),
            sum(all(one.forecast for one in each) for each in whole),
            len(launches), *(sum(getattr(one, name) for one in launches) for name in _STAGES),
        ]  # fmt: skip
        rows.append(f"| {suite} | " + " | ".join(map(str, cells)) + " |")
    return rows


def main() -> int:
    """Print the tables; exit 1 where fewer than 80 % of the programs got through init."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for suite in FOLDERS:
        parser.add_argument(f"--{suite}", type=Path, help="checkout of this suite; without one it is left out")
    parser.add_argument("--only", action="append", metavar="NAME", help="program; repeatable")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of one command")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each outcome")
    chosen = parser.parse_args()
    checkouts = {suite: getattr(chosen, suite) for suite in FOLDERS if getattr(chosen, suite)}
    programs = [
        each for each in load_programs() if each.suite in checkouts and (not chosen.only or each.program in chosen.only)
    ]
    if not programs:
        parser.error("give a checkout: --rodinia FOLDER, --hecbench FOLDER")
    print("\n".join(_HEADS))
    outcomes = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for outcome in pool.map(lambda each: run_file(each, checkouts[each.suite], chosen.seconds), programs):
            outcomes.append(outcome)
            print(table_row(outcome), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n", encoding="utf-8")
    print("\n".join(("", *totals(outcomes))))
    passed = Counter(dict.fromkeys(((each.suite, each.program) for each in outcomes), 1))
    for each in outcomes:
        if not each.written:
            passed[each.suite, each.program] = 0
    return int(sum(passed.values()) < 0.8 * len(passed))


if __name__ == "__main__":
    raise SystemExit(main())
