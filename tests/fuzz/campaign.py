"""Runs fuzzers in processes of their own: a crash is counted, kept, and the next input read."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fuzz.target import Verdict
from tests.fuzz.worker import Board, Counts
from tests.helpers.places import ROOT

#: Files in memory, where the system has a place for them: nothing waits for a disk.
_MEMORY = Path("/dev/shm")  # noqa: S108  a folder of our own is made in it
#: A process that says nothing for so long hangs in code that is not Python's; it may wait for a core, too.
_SILENT_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_MOST_CRASHES = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is read."""

    seed: int
    seconds: float
    """of each target"""
    inputs: int = sys.maxsize
    """of each target at most"""
    first: int = 0
    """index of the first input"""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that no reader should answer so."""

    target: str
    index: int
    verdict: str
    trace: str


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one target."""

    target: str
    counts: Counts
    crashes: int
    findings: tuple[Finding, ...]

    @property
    def inputs(self) -> int:
        """Return the number of inputs that were read."""
        counts = self.counts
        return counts.accepted + counts.refused + counts.defects + counts.hangs + self.crashes

    @property
    def seconds(self) -> float:
        """Return the time of making and reading inputs."""
        return max(self.counts.reading_ns, 1) / 1_000_000_000

    @property
    def is_clean(self) -> bool:
        """Whether every input was accepted or refused."""
        return not (self.counts.defects or self.counts.hangs or self.crashes)


def run(names: Sequence[str], plan: Plan, jobs: int) -> Iterator[Row]:
    """Yield what came of each target, as they end."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda name: _run(name, plan), names)


def _run(name: str, plan: Plan) -> Row:
    began, crashes = time.monotonic(), 0
    findings: list[Finding] = []
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kerncast-fuzz-", dir=place) as text:
        folder, left = Path(text), plan
        board = Board(folder)
        while crashes < _MOST_CRASHES and left.inputs > 0:
            how = _worked(name, left, folder, board)
            if how is None:
                break
            counts = board.read()
            if how == "hang":
                board.add(Verdict.HANG)
            else:
                crashes += 1
            findings.append(Finding(name, counts.next, how, ""))
            spent = time.monotonic() - began
            if spent >= plan.seconds:
                break
            done = counts.next + 1 - plan.first
            left = replace(plan, first=counts.next + 1, seconds=plan.seconds - spent, inputs=plan.inputs - done)
        counts = board.read()
        board.close()
        findings += _findings(name, folder)
    return Row(name, counts, crashes, tuple(findings))


def _worked(name: str, plan: Plan, folder: Path, board: Board) -> str | None:
    """Let a process read inputs; returns how it ended, None where as it should."""
    numbers = (plan.seed, plan.first, plan.seconds, plan.inputs, folder)
    environment = {**os.environ, "TMPDIR": str(folder), "KERNCAST_CACHE": "off", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.fuzz.worker", name, *map(str, numbers)]
    log = folder / "stderr"
    with log.open("wb") as errors, subprocess.Popen(command, cwd=ROOT, env=environment, stderr=errors) as process:
        last, since = board.read(), time.monotonic()
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS)
            now = board.read()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > _SILENT_SECONDS:
                process.kill()
                return "hang"
    if process.returncode == 1:  # the fuzzer itself is wrong
        raise RuntimeError(log.read_text(encoding="utf-8", errors="replace")[-2000:])
    return f"crash ({process.returncode})" if process.returncode else None


def _findings(name: str, folder: Path) -> Iterator[Finding]:
    path = folder / "findings.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        yield Finding(name, row["index"], row["verdict"], row["trace"])
