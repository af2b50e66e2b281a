"""Build and run whole programs of three suites, as they are, on the virtual GPU of ``kerncast run``.

    python benchmarks/score_whole_programs.py --rodinia FOLDER --hecbench FOLDER --samples FOLDER
        [--only NAME]… [--seconds 120] [--forecast-seconds 0] [--reduced] [--logs FOLDER] [--json FILE] [--page FILE]

FOLDER is a checkout of yuhc/gpu-rodinia, zjin-lcf/HeCBench or NVIDIA/cuda-samples; each stays as it is: a program is
copied, with links to what lies beside it. ``whole_programs.csv`` names the programs (those of
``front_end_programs.csv`` and 22 samples, chosen before any was run, and ours), the command that builds each, its
command line as its Makefile or run script gives it, a reduced one for where that takes more than the seconds, and the
words by which its own check tells success. What a checkout lacks, ``whole_program_inputs.py`` makes: "own input" in
the table. Outcomes in ``--json FILE`` stay where their programs are not run again; ``--page FILE`` takes the tables.
A program runs whole where it ends with the status of success within the seconds, every launch was executed, and its
own check, if it has one, told success.
"""

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from whole_program_inputs import make_inputs

PROGRAMS = Path(__file__).with_name("whole_programs.csv")
SUITES = ("rodinia", "hecbench", "samples", "own")
GPU = "T4"
#: Building and compiling kernels is not running: seconds beside those of the run.
_BUILD_SECONDS = 900.0
_LONGEST_REASON = 160
_OUTCOMES = ("ran whole", "wrong", "failed", "does not build", "too long")
_HEADS = ("suite", "program", "arguments", "launches", "distinct", "check", "build s", "run s", "outcome", "forecast",
          "reason")  # fmt: skip
#: Programs that are to run whole and right: of which suites, how many, and of how many.
_TARGETS = ((("rodinia", "hecbench"), 70, 83), (("samples",), 18, 22), (("own",), 1, 1))
#: The tables of a page stand between these lines.
_BEGIN, _END = "<!-- begin: score_whole_programs.py -->\n", "<!-- end -->\n"
_STARTED = "runs natively, as you: only its kernels are confined"
#: What a run may remark without anything being amiss.
_HARMLESS = re.compile(r"went on, as on a GPU|was not registered|was left out when PTX was linked")


@dataclass(frozen=True, slots=True)
class Program:
    """One program of a suite, or one of several that one makefile builds."""

    suite: str
    program: str
    part: str
    """which of the programs of its folder; mostly empty"""
    folder: str
    """where it is built and run, in the checkout"""
    build: str
    command: str
    """as its Makefile or run script has it"""
    reduced: str
    """command with less work; empty: there is none"""
    reduced_build: str
    """build of the reduction, where its size is compiled in"""
    why: str
    """why the full command is not tried at all; empty: it is"""
    options: str
    """of kerncast run, such as --on-fault warn"""
    inputs: str
    """files to make where the checkout lacks them, as of make_inputs"""
    check: str
    """regular expression that what it prints matches when it is right; empty: it checks nothing"""
    note: str

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.program} {self.part}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far a program got."""

    suite: str
    program: str
    name: str
    arguments: str
    outcome: str
    reason: str = ""
    launches: int = 0
    distinct: int = 0
    check: str = "none"
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    forecast: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one call of ``kerncast run`` gave."""

    status: int
    found: dict[str, object]
    """its JSON; empty where there is none"""
    said: str
    built_after: float | None
    """seconds; None: it was not built"""
    seconds: float

    @property
    def printed(self) -> str:
        """What the program printed, without its build."""
        return self.said.partition(_STARTED)[2]

    @property
    def remarks(self) -> list[str]:
        """Remarks on launches that failed, and on calls that do not exist."""
        found = self.found.get("remarks", [])
        return [str(each) for each in found if not _HARMLESS.search(str(each))] if isinstance(found, list) else []

    def count(self, name: str) -> int:
        """Return a number of its JSON."""
        number = self.found.get(name)
        return number if isinstance(number, int) else 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user of this script asks for."""

    seconds: float
    forecast_seconds: float
    logs: Path | None
    is_reduced: bool
    """take reduced command lines at once"""


def load_programs(path: Path = PROGRAMS) -> list[Program]:
    """Return the programs of the list."""
    with path.open(newline="", encoding="utf-8") as file:
        return [Program(**row) for row in csv.DictReader(file)]


def run_program(program: Program, checkout: Path, limits: Limits) -> Outcome:
    """Build and run a program in a copy; with its reduced arguments where the full ones take too long."""
    with tempfile.TemporaryDirectory(prefix="kerncast-whole-") as temporary:
        folder = mirrored(checkout, program.folder, Path(temporary))
        own = make_inputs(program.inputs, folder, Path(temporary))
        if not program.reduced or not (program.why or limits.is_reduced):
            outcome = _attempt(program, (program.build, program.command), folder, limits)
            if outcome.outcome != "too long" or not program.reduced:
                return _told(outcome, "full", own=own)
        outcome = _attempt(program, (program.reduced_build or program.build, program.reduced), folder, limits)
        return _told(outcome, f"`{program.reduced}`", own=own)


def _told(outcome: Outcome, arguments: str, *, own: bool) -> Outcome:
    return Outcome(**{**asdict(outcome), "arguments": arguments + (", own input" if own else "")})


def mirrored(checkout: Path, inside: str, target: Path) -> Path:
    """Copy a folder of a checkout, with links to what lies beside it and its parents; returns the copy."""
    source, place = checkout, target
    for name in Path(inside).parts:
        for each in source.iterdir():
            if each.name == name:
                continue
            if each.is_dir() and not any(each.iterdir()):
                (place / each.name).mkdir()  # for own inputs
            else:
                (place / each.name).symlink_to(each.resolve())
        source, place = source / name, place / name
        if name != Path(inside).name:
            place.mkdir()
    shutil.copytree(source, place, symlinks=True)
    return place


def _attempt(program: Program, lines: tuple[str, str], folder: Path, limits: Limits) -> Outcome:
    ran = _run(program, lines, folder, limits)
    if limits.logs is not None:
        log = limits.logs / f"{program.suite}-{program.name.replace(' ', '-')}.log"
        log.write_text(f"$ {lines[0]}\n$ {lines[1]}\n{ran.said}\n{json.dumps(ran.found, indent=1)}\n", encoding="utf-8")
    built = ran.seconds if ran.built_after is None else ran.built_after
    check, kind, reason = _judged(program, ran, limits)
    forecast = _forecast(folder, limits) if kind in {"ran whole", "wrong"} and ran.count("launches") else ""
    return Outcome(
        program.suite, program.program, program.name, "", kind, reason, ran.count("launches"), ran.count("distinct"),
        check, round(built, 1), round(ran.seconds - built, 1), forecast,
    )  # fmt: skip


def _judged(program: Program, ran: Ran, limits: Limits) -> tuple[str, str, str]:
    """Return what came of the program's check, the class of the outcome, and its reason."""
    if ran.built_after is None:
        return "", "does not build", _first_error(ran.said)
    if (ran.count("status") < 0 and ran.seconds - ran.built_after > limits.seconds) or ran.status == -signal.SIGKILL:
        return "", "too long", "; ".join(ran.remarks[:1])
    passed = bool(program.check) and re.search(program.check, ran.printed, re.MULTILINE) is not None
    check = "passed" if passed else "failed" if program.check else "none"
    if ran.remarks or ran.status or not ran.found:
        last = (ran.printed.strip().splitlines() or [f"status {ran.status}"])[-1]
        return check, "failed", (ran.remarks or [f"status {ran.status}: {last}"])[0]
    if check == "failed":
        return check, "wrong", "its check did not tell success"
    return check, "ran whole", ""


def _run(program: Program, lines: tuple[str, str], folder: Path, limits: Limits) -> Ran:
    mark = folder / ".kerncast-built"
    mark.unlink(missing_ok=True)
    line = ["bash", "-c", (
        f'exec "$0" -m kerncast run --build "$1" --timeout {limits.seconds:g}s {program.options} '
        f"--json -q --out .whole.kc -- {lines[1]}"
    ), sys.executable, f"({lines[0]}) && touch {mark}"]  # fmt: skip
    started, began = time.time(), time.monotonic()
    status, out, said = _called(line, folder, _BUILD_SECONDS + 2 * limits.seconds)
    seconds = time.monotonic() - began
    found = json.loads(out) if out.startswith("{") else {}
    return Ran(status, found, said, mark.stat().st_mtime - started if mark.exists() else None, seconds)


def _called(line: Sequence[str], folder: Path, limit: float) -> tuple[int, str, str]:
    """Run a command; return its status, and what it wrote to its two streams. All its processes end with it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603  our own command, with those of the list
            line, cwd=folder, stdout=out, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = -signal.SIGKILL
        texts = []
        for file in (out, said):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return status, texts[0], texts[1]


def _forecast(folder: Path, limits: Limits) -> str:
    """Return what the recording's forecast says."""
    if not limits.forecast_seconds:
        return ""
    line = (sys.executable, "-m", "kerncast", "run", ".whole.kc", "--gpu", GPU, "--json", "-q")
    status, out, said = _called(line, folder, limits.forecast_seconds)
    if status == -signal.SIGKILL:
        return "too long"
    found = json.loads(out) if out.startswith("{") else {}
    refused = found.get("refused", [])
    if refused:
        return f"{len(refused)} refused: {refused[0].get('reason', '')}"[:_LONGEST_REASON]
    times = [f"{1e3 * each['seconds']:.3g} ms" for each in found.get("applications", ())]
    return times[0] if times else f"status {status}: {' '.join(said.split())}"[:_LONGEST_REASON]


def _first_error(said: str) -> str:
    """Return the first line of a build that tells of an error."""
    lines = [each.strip() for each in said.splitlines()]
    errors = [each for each in lines if re.search(r"error|undefined|No rule|cannot|not found|No such", each)]
    return (errors or lines or ["the build gave nothing"])[0]


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " …"


def table_row(each: Outcome) -> str:
    """Return a program's row of the Markdown table."""
    cells = (
        each.suite, each.name, each.arguments, f"{each.launches:,}", f"{each.distinct:,}", each.check,
        f"{each.build_seconds:.0f}", f"{each.run_seconds:.0f}", each.outcome, each.forecast, each.reason,
    )  # fmt: skip
    return _row(map(_cell, cells))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tables(outcomes: Sequence[Outcome]) -> str:
    """Return the tables of a page: how many programs got how far, the targets, and each program."""
    rows = [_row(_HEADS), "|---" * len(_HEADS) + "|", *map(table_row, outcomes)]
    return "\n".join([*totals(outcomes), "", *targets(outcomes), "", *rows, ""])


def write_page(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Put the tables between the lines of a page that mark their place."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{page} has no lines {_BEGIN.strip()} and {_END.strip()}")
    page.write_text(before + begin + "\n" + tables(outcomes) + "\n" + end + after, encoding="utf-8")


def merged(before: Sequence[Outcome], now: Sequence[Outcome], programs: Sequence[Program]) -> list[Outcome]:
    """Return the newest outcome of each program, in the order of the list."""
    newest = {(each.suite, each.name): each for each in (*before, *now)}
    return [newest[key] for each in programs if (key := (each.suite, each.name)) in newest]


def targets(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a table of how many programs ran whole and right, and how many are to."""
    yield "| suites | programs | run whole and right | target |"
    yield "|---|---|---|---|"
    for suites, least, count in _TARGETS:
        found: dict[tuple[str, str], bool] = {}
        for each in outcomes:
            if each.suite in suites:
                key = each.suite, each.program
                found[key] = found.get(key, True) and each.outcome == "ran whole"
        if found:
            yield f"| {', '.join(suites)} | {len(found)} of {count} tried | {sum(found.values())} | {least} |"


def totals(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield how many programs of each suite got how far; of several in one folder, the worst counts."""
    yield "| suite | programs | " + " | ".join(_OUTCOMES) + " | own check told success | of |"
    yield "|---" * (len(_OUTCOMES) + 4) + "|"
    for suite in dict.fromkeys(each.suite for each in outcomes):
        found: dict[str, list[Outcome]] = {}
        for each in outcomes:
            if each.suite == suite:
                found.setdefault(each.program, []).append(each)
        worst = [max(_OUTCOMES.index(one.outcome) for one in each) for each in found.values()]
        checked = [each for each in found.values() if any(one.check not in {"none", ""} for one in each)]
        passed = sum(all(one.check in {"none", "passed"} for one in each) for each in checked)
        counts = [str(worst.count(number)) for number in range(len(_OUTCOMES))]
        yield f"| {suite} | {len(found)} | " + " | ".join(counts) + f" | {passed} | {len(checked)} |"


def main() -> int:
    """Print the tables; exit 1 where a program gave a wrong result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for suite in SUITES[:-1]:
        parser.add_argument(f"--{suite}", type=Path, help="checkout of this suite; without one it is left out")
    parser.add_argument("--only", action="append", metavar="NAME", help="program; repeatable")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of one run, without its build")
    parser.add_argument("--forecast-seconds", type=float, default=0.0, help="limit of one forecast; 0: none is made")
    parser.add_argument("--reduced", action="store_true", help="take reduced command lines at once")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep what each program said")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each outcome; others in it stay")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables into this Markdown page")
    chosen = parser.parse_args()
    checkouts = {suite: getattr(chosen, suite) for suite in SUITES[:-1] if getattr(chosen, suite)}
    checkouts["own"] = Path(__file__).parent
    everything = load_programs()
    programs = [each for each in everything
                if each.suite in checkouts and (not chosen.only or each.program in chosen.only)]  # fmt: skip
    if chosen.logs:
        chosen.logs.mkdir(parents=True, exist_ok=True)
    limits = Limits(chosen.seconds, chosen.forecast_seconds, chosen.logs, chosen.reduced)
    before = _known(chosen.json)
    outcomes: list[Outcome] = []
    for program in programs:
        outcomes.append(run_program(program, checkouts[program.suite], limits))
        print(table_row(outcomes[-1]), flush=True)
        if chosen.json:
            text = json.dumps([asdict(each) for each in merged(before, outcomes, everything)], indent=1)
            chosen.json.write_text(text + "\n", encoding="utf-8")
    found = merged(before, outcomes, everything)
    print("\n".join(("", *totals(found), "", *targets(found))))
    if chosen.page:
        write_page(chosen.page, found)
    return int(any(each.outcome == "wrong" for each in found))


def _known(path: Path | None) -> list[Outcome]:
    if path is None or not path.exists():
        return []
    return [Outcome(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    raise SystemExit(main())
