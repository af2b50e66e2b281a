"""Simulate the suite's launches on parts of GPUs: the sweeps that bounds learn from and are scored on.

Of each program of the suite the first launch, the one in the middle and the last are taken. Writes a JSON object per
launch and GPU and line: seconds and terms of each number of TPCs, and the ends of its intervals. Takes an hour at
first; what is simulated is remembered.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.bench.plan import SUITE
from kerncast.errors import KerncastError
from kerncast.forecast import Options, forecast_all
from kerncast.gpu import GPU, load_gpu
from kerncast.launch import Launch, load_launches
from kerncast.models.clock import blame_of
from kerncast.prediction import Prediction, Term, Timing
from kerncast.studies.bounds.base import never_rising
from kerncast.studies.bounds.simulation import SimulatedCurve, simulated_curve
from kerncast.studies.partitions import most_tpcs, part_of

GPUS = ("TITAN V", "T4")
#: One-sided 99.5 %: half of the risk of a bound of 99 %; and 95 %, that of 90 %.
LEVELS = (0.99, 0.9)
_ALL_UP_TO = 16


@dataclass(frozen=True, slots=True)
class Sweep:
    """One launch simulated on numbers of TPCs of one GPU."""

    family: str
    launch: int
    gpu: str
    counts: tuple[int, ...]
    seconds: tuple[float, ...]
    highs: tuple[tuple[float, ...], ...]
    """[levels][counts] upper ends of the intervals"""
    terms: tuple[tuple[Term, ...], ...]
    """[counts]"""

    @property
    def most(self) -> int:
        """TPCs of the GPU."""
        return self.counts[-1]

    def curve(self, level: float) -> SimulatedCurve:
        """Return the curve as bounds take it; the level is one of LEVELS."""
        high = self.highs[LEVELS.index(level)]
        predictions = [
            Prediction(
                self.family, self.launch, self.gpu, self.gpu, seconds, seconds, end, level, Timing.SERIES, "", terms,
                (), "",
            )
            for seconds, end, terms in zip(self.seconds, high, self.terms, strict=True)
        ]  # fmt: skip
        return simulated_curve(self.counts, predictions, level)


def counts_of(most: int) -> tuple[int, ...]:
    """Return the counts that are simulated: all up to 16, then every other one, and the last."""
    return tuple(count for count in range(1, most + 1) if count <= _ALL_UP_TO or count % 2 == 0 or count == most)


def chosen_launches() -> Iterator[Launch]:
    """Yield the first launch of each program, the one in the middle and the last."""
    for path in sorted(SUITE.glob("*.toml")):
        try:
            launches = load_launches(path)
        except KerncastError:  # counts that were declared by hand
            continue
        for number in sorted({0, len(launches) // 2, len(launches) - 1}):
            yield launches[number]


def swept(launch: Launch, gpu: GPU) -> Sweep:
    """Simulate one launch; raises KerncastError where that cannot be done."""
    counts = counts_of(most_tpcs(gpu))
    parts = [(part_of(gpu, count), ()) for count in counts]
    found = [forecast_all(launch, list(parts), Options("simulation", level=level)).predictions for level in LEVELS]
    if len(found[0]) < len(counts):
        raise KerncastError("it is not simulated on every part")
    first = found[0]
    return Sweep(
        launch.source.stem, launch.index, gpu.name, counts, tuple(each.seconds for each in first),
        tuple(tuple(each.high for each in row) for row in found), tuple(each.terms for each in first),
    )  # fmt: skip


def written(sweep: Sweep) -> str:
    """Return a sweep as one line."""
    terms = [{term.name: term.seconds for term in row} for row in sweep.terms]
    return json.dumps({
        "family": sweep.family, "launch": sweep.launch, "gpu": sweep.gpu, "counts": sweep.counts,
        "seconds": sweep.seconds, "highs": sweep.highs, "terms": terms,
    })  # fmt: skip


def read_sweeps(path: Path) -> tuple[Sweep, ...]:
    """Read the sweeps of a file; times never rise with more TPCs, as in bounds."""
    return tuple(_sweep(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())


def _sweep(row: dict[str, Any]) -> Sweep:
    return Sweep(
        row["family"], row["launch"], row["gpu"], tuple(row["counts"]), never_rising(row["seconds"]),
        tuple(map(never_rising, row["highs"])),
        tuple(tuple(Term(name, seconds) for name, seconds in each.items()) for each in row["terms"]),
    )  # fmt: skip


def shares_of(sweep: Sweep) -> list[dict[str, float]]:
    """Return by count which resources limit a launch."""
    return [dict(blame_of(seconds, terms)) for seconds, terms in zip(sweep.seconds, sweep.terms, strict=True)]


def main() -> None:
    """Simulate and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path, help="file to write, a line per sweep; what it holds is not done again")
    parser.add_argument("--gpu", action="append", help="repeatable; TITAN V and T4, where none is named")
    parser.add_argument("--part", default="0/1", help="such as 1/2: every second launch, to use two processes")
    asked = parser.parse_args()
    which, of = map(int, asked.part.split("/"))
    done = read_sweeps(asked.out) if asked.out.exists() else ()
    known = {(each.family, each.launch, each.gpu) for each in done}
    with asked.out.open("a", encoding="utf-8") as file:
        for number, launch in enumerate(chosen_launches()):
            for gpu in map(load_gpu, asked.gpu or GPUS):
                if number % of != which or (launch.source.stem, launch.index, gpu.name) in known:
                    continue
                try:
                    file.write(written(swept(launch, gpu)) + "\n")
                    file.flush()
                except KerncastError as error:
                    print(f"{launch.label} on {gpu.name}: left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
