"""Score how good the configurations are that a sweep calls best, on search spaces that tuners measured.

    python benchmarks/score_sweeps.py [--sample N] [--jobs N] [--keep results.jsonl]

Of each space a random sample of configurations that were measured on all GPUs of its set, of a fixed seed; a larger
sample holds a smaller one. What counts is the measured time of the configuration that is forecast to be the fastest,
over the fastest measured time of the sample; the same for the fastest of the ten that are forecast to be the fastest,
which is what measuring ten tells. Beside: the expected value of choosing at random, and the rank correlation.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from scipy.stats import spearmanr
from timing_cases import Case, read_clocks
from timing_convolutions import convolution_2023, convolution_2025, convolution_ktt, coulomb

from kerncast.forecast import Options
from kerncast.gpu import GPU, load_gpu
from kerncast.launch import Launch
from kerncast.prediction import Timing
from kerncast.studies.sweeps.executors import Executor, LocalProcesses, ThisProcess
from kerncast.studies.sweeps.point_results import Job, Task
from kerncast.studies.sweeps.space import Point

SETS: dict[str, Callable[[int | None], list[Case]]] = {
    "convolution-2023": convolution_2023,
    "convolution-2025": convolution_2025,
    "convolution-ktt": convolution_ktt,
    "coulomb": coulomb,
}
_SEED = 20260601
_MEASURED_FIRST = 10


@dataclass(frozen=True, slots=True)
class Configuration:
    """One measured configuration of a space."""

    set: str
    size: str
    launch: Launch
    seconds: tuple[tuple[str, float], ...]
    """measured time by GPU"""

    @property
    def key(self) -> str:
        """Name that tells it from all others."""
        return f"{self.set}: {self.size}"


@dataclass(frozen=True, slots=True)
class Score:
    """How far the configurations called best are from the best, on one GPU; 0.1: 10 % slower."""

    set: str
    gpu: str
    count: int
    first: float
    first_ten: float
    random_one: float
    """expected value of one at random"""
    random_ten: float
    """expected value of the fastest of ten at random"""
    spearman: float


def main() -> None:
    """Forecast the samples and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sample", type=int, default=120, help="configurations of each space")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 0: this one")
    parser.add_argument("--keep", type=Path, help="file of forecasts, which a later run goes on from")
    asked = parser.parse_args()
    samples = {name: sample(name, read(None), asked.sample) for name, read in SETS.items()}
    if not any(samples.values()):
        print("score_sweeps.py: ../shared/data is not here: nothing is scored.", file=sys.stderr)
        return
    known = forecasts(samples, asked.jobs, asked.keep)
    scores = [score for configurations in samples.values() for score in scored(configurations, known)]
    print(table(scores))


def sample(name: str, cases: Sequence[Case], count: int) -> list[Configuration]:
    """Return so many configurations at random, of those that were measured on all GPUs."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case.size, []).append(case)
    most = max((len({case.gpu for case in own}) for own in found.values()), default=0)
    whole = [
        Configuration(name, size, own[0].launch, tuple((case.gpu, case.seconds) for case in own))
        for size, own in sorted(found.items())
        if len({case.gpu for case in own}) == most
    ]
    random.Random(_SEED).shuffle(whole)  # noqa: S311  a sample, no secret
    return whole[:count]


def forecasts(
    samples: dict[str, list[Configuration]], jobs: int, keep: Path | None
) -> dict[tuple[str, str], float | None]:
    """Return the forecast seconds by configuration and GPU; None where there is no forecast."""
    known: dict[tuple[str, str], float | None] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            known |= {(row["key"], gpu): seconds for gpu, seconds in row["seconds"].items()}
    for name, found in _arriving(samples, known, jobs):
        known |= {(name, gpu): seconds for gpu, seconds in found.items()}
        if keep is not None:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": name, "seconds": found}) + "\n")
    return known


def _arriving(
    samples: dict[str, list[Configuration]], known: dict[tuple[str, str], float | None], jobs: int
) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield the forecasts that are missing, a part of each space in turn."""
    parts = {name: [own[i : i + 20] for i in range(0, len(own), 20)] for name, own in samples.items()}
    for turn in zip_longest(*parts.values(), fillvalue=[]):
        for part in turn:
            missing = [each for each in part if (each.key, each.seconds[0][0]) not in known]
            if not missing:
                continue
            job = Job(tuple((gpu, ()) for gpu in _gpus(missing[0])), Options(timing=Timing.SINGLE))
            executor: Executor = LocalProcesses(job, jobs) if jobs else ThisProcess(job)
            tasks = [Task(Point(number, ()), each.launch) for number, each in enumerate(missing)]
            for result in executor.run(tasks):
                yield missing[result.point.number].key, {each.gpu_id: each.seconds for each in result.outcomes}


def _gpus(configuration: Configuration) -> list[GPU]:
    clocks = read_clocks()
    gpus = [load_gpu(name) for name, _ in configuration.seconds]
    named = [(gpu, clocks.get((configuration.set, gpu.id))) for gpu in gpus]
    return [gpu if clock is None else gpu.at_clock(clock) for gpu, clock in named]


def scored(configurations: Sequence[Configuration], known: dict[tuple[str, str], float | None]) -> Iterator[Score]:
    """Yield the score of a space on each of its GPUs, by the configurations that have a forecast."""
    gpus = dict.fromkeys(gpu for each in configurations for gpu, _ in each.seconds)
    for gpu in gpus:
        pairs = [
            (forecast, dict(each.seconds)[gpu])
            for each in configurations
            if (forecast := known.get((each.key, gpu))) is not None
        ]
        if len(pairs) > _MEASURED_FIRST:
            yield score_of(configurations[0].set, gpu, pairs)


def score_of(name: str, gpu: str, pairs: Sequence[tuple[float, float]]) -> Score:
    """Return the score of pairs of a forecast and a measured time.

    >>> found = score_of("set", "gpu", [(number, 10.0 + (number - 3) ** 2) for number in range(20)])
    >>> found.first, found.first_ten
    (0.9, 0.0)
    """
    measured = sorted(seconds for _, seconds in pairs)
    best, count = measured[0], len(measured)
    ranked = [seconds for _, seconds in sorted(pairs)]
    # Of ten at random the fastest has place k with the probability that nine of the ten come behind it.
    ten, left = 0.0, 1.0
    for place, seconds in enumerate(measured):
        others = count - place
        chance = min(1.0, _MEASURED_FIRST / others)
        ten, left = ten + left * chance * seconds, left * (1 - chance)
    return Score(
        name, gpu, count, ranked[0] / best - 1, min(ranked[:_MEASURED_FIRST]) / best - 1,
        statistics.mean(measured) / best - 1, ten / best - 1,
        float(spearmanr([forecast for forecast, _ in pairs], [seconds for _, seconds in pairs]).statistic),
    )  # fmt: skip


def table(scores: Sequence[Score]) -> str:
    """Return the scores as a table, with the median over the GPUs of each space."""
    lines = [
        "| space | GPU | n | first | best of the first 10 | one at random | best of 10 at random | Spearman |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(each.set for each in scores):
        own = [each for each in scores if each.set == name]
        lines += [f"| {name} | {each.gpu} | {each.count} | {_cells(each)} | {each.spearman:.2f} |" for each in own]
        lines += _medians(name, own)
    lines += _medians(" and ".join(_OF_KERNEL_TUNER), [each for each in scores if each.set in _OF_KERNEL_TUNER])
    return "\n".join(lines)


def _medians(name: str, scores: Sequence[Score]) -> list[str]:
    """Return a row with the medians over GPUs, none where there is one GPU."""
    if len(scores) < 2:
        return []
    cells = " | ".join(f"{100 * _median(scores, field):.1f} %" for field in _SHARES)
    return [f"| {name} | median of {len(scores)} | | {cells} | {_median(scores, 'spearman'):.2f} |"]


_OF_KERNEL_TUNER = ("convolution-2023", "convolution-2025")
_SHARES = ("first", "first_ten", "random_one", "random_ten")


def _median(scores: Sequence[Score], field: str) -> float:
    return statistics.median(float(getattr(each, field)) for each in scores)


def _cells(score: Score) -> str:
    return " | ".join(f"{100 * getattr(score, field):.1f} %" for field in _SHARES)


if __name__ == "__main__":
    main()
