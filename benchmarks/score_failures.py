"""Score the failures that the projection's paper reports, on exactly the measured pairs that show them.

    python benchmarks/score_timing.py --json scores.json
    python benchmarks/score_failures.py scores.json

Per failure: ``ceilings`` and ``algorithm1`` get the run's counters and its time; the simulation gets the source, alone
and with that one time. The variances that say how much of a time is carried over are those of ``score_evidence.py``:
estimated from ``scores.json``, without the kernel's family and without both GPUs. ``docs/failures`` shows the tables.
"""

import argparse
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from failure_cases import FAILURES, Facts, Failure, launches
from projection_cases import Launched, Run
from projection_runs import Plan, project
from projection_scores import Pair, Projected, score
from score_evidence import MODEL, Without, forecast, read_timed
from score_projection import gpus_of
from timing_cases import Row

from kerncast.errors import KerncastError
from kerncast.execute import Budget
from kerncast.forecast import Forecast, Options, forecast_all
from kerncast.gpu import GPU
from kerncast.models.transfer.posterior import Effects
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import KernelProfile
from kerncast.units import PERCENT

#: The models of the table, in its order.
ALONE, WITH_TIME = "simulation", "simulation with the time"
MODELS = ("ceilings", "algorithm1", ALONE, WITH_TIME)
#: Those of the Kernel Tuning Toolkit lie between events, the others are a profiler's.
_TIMINGS = {"convolution-ktt": Timing.SINGLE}
_SECONDS, _SAMPLE_SECONDS = 0.5, 0.1
#: Working sets that fit some L2 take no longer; a profiler's durations, which hold no launch, are exact to 1 %.
_LEAST_SECONDS = 5e-6
_DRAM_READS = "device_memory_read_transactions"

GPUs = Mapping[tuple[str, str], GPU]


@dataclass(frozen=True, slots=True)
class Simulated:
    """One launch on one GPU as it is compiled, executed and simulated for it."""

    gpu: GPU
    seconds: float
    """measured"""
    profile: KernelProfile
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one launch: projections by the published models, and its simulation on each GPU."""

    launched: Launched
    projected: tuple[Projected, ...]
    simulated: tuple[Simulated, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """One pair: what decides which failures it shows, and each model's forecast of it."""

    facts: Facts
    dram_ratio: float | None
    """DRAM sectors that the target read over those that the source read, both counted; None where one is not known"""
    by_model: tuple[Projected, ...]
    """in the order of ``MODELS``"""

    @property
    def pair(self) -> Pair:
        """The launch and both GPUs."""
        return self.by_model[0].pair


def main() -> None:
    """Read, forecast, print."""
    asked = _arguments()
    work = launches()
    if not work:
        sys.exit("Skipped: no measurements of several GPUs are in ../shared/data.")
    effects = Without(
        [timed for file in asked.scores for timed in read_timed(json.loads(file.read_text(encoding="utf-8")))]
    )
    gpus = gpus_of(work, None)
    outcomes = run(work, gpus, asked.jobs)
    print(report([each for outcome in outcomes for each in scored(outcome, effects)]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scores", nargs="+", type=Path, help="what score_timing.py --json wrote")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def run(work: Sequence[Launched], gpus: GPUs, jobs: int) -> Iterator[Outcome]:
    """Project and simulate all launches in several processes, in their order."""
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(outcome_of, each, gpus) for each in work]
        for number, future in enumerate(futures):
            print(f"\r{number} of {len(futures)} launches ", end="", file=sys.stderr, flush=True)
            yield future.result()
    print(file=sys.stderr)


def outcome_of(launched: Launched, gpus: GPUs) -> Outcome:
    """Project one launch from each run with counters, and simulate it on all GPUs."""
    known = {run.gpu: (run, gpus[launched.set, run.gpu]) for run in launched.runs if (launched.set, run.gpu) in gpus}
    projected = project(launched, gpus, Plan(sample_seconds=_SAMPLE_SECONDS, least_seconds=_LEAST_SECONDS)).projected
    options = Options(MODEL, _TIMINGS.get(launched.set, Timing.PROFILER), budget=Budget.for_sample(_SECONDS))
    try:
        found = forecast_all(launched.launch, [(gpu, ()) for _, gpu in known.values()], options)
    except KerncastError as error:
        print(f"{launched.kernel} {launched.size}: not simulated: {error}", file=sys.stderr)
        return Outcome(launched, projected, ())
    return Outcome(launched, projected, tuple(_simulated(found, known)))


def _simulated(found: Forecast, known: Mapping[str, tuple[Run, GPU]]) -> Iterator[Simulated]:
    for prediction, case in zip(found.predictions, found.profiled, strict=True):
        run, gpu = known[case.gpu.id]
        yield Simulated(gpu, run.seconds, case.profile, prediction)


def scored(outcome: Outcome, effects: Callable[..., Effects]) -> Iterator[Scored]:
    """Yield each pair that all models forecast."""
    on = {each.gpu.id: each for each in outcome.simulated}
    counters = {run.gpu: run.counters for run in outcome.launched.runs}
    by_pair: dict[Pair, dict[str, Projected]] = {}
    for each in outcome.projected:
        by_pair.setdefault(each.pair, {})[each.model] = each
    for pair, by_model in by_pair.items():
        if not {pair.source, pair.target} <= on.keys() or not set(MODELS[:2]) <= by_model.keys():
            continue
        sides = on[pair.source], on[pair.target]
        ours = with_time(outcome.launched, pair, sides, effects)
        profiles, gpus = (sides[0].profile, sides[1].profile), (sides[0].gpu, sides[1].gpu)
        yield Scored(
            Facts.of(profiles, gpus, pair.source_seconds),
            dram_ratio(counters[pair.source], counters[pair.target]),
            (*(by_model[name] for name in MODELS[:2]), *ours),
        )


def with_time(
    launched: Launched, pair: Pair, sides: tuple[Simulated, Simulated], effects: Callable[..., Effects]
) -> tuple[Projected, Projected]:
    """Return the simulation of the target, alone and as the time on the source moves it."""
    alone = sides[1].prediction
    source, target = read_timed(row_of(launched, side) for side in sides)
    moved = forecast(target, [source], effects((target.family,), (source.gpu, target.gpu)))
    seconds = pair.seconds * math.exp(moved.log_forecast_over_measured)
    factor = math.exp(moved.log_half_width)
    return (
        Projected(pair, ALONE, alone.seconds, alone.low, alone.high, alone.limiter),
        Projected(pair, WITH_TIME, seconds, seconds / factor, seconds * factor, alone.limiter),
    )


def row_of(launched: Launched, side: Simulated) -> dict[str, object]:
    """Return a launch on one GPU as ``score_timing.py --json`` writes it, as far as evidence is made of it."""
    launch, p = launched.launch, side.prediction
    return {
        "set": launched.set, "kernel": launched.kernel, "size": launched.size, "gpu": side.gpu.id,
        "grid": launch.grid, "block": launch.block, "defines": dict(launch.defines), "measured_seconds": side.seconds,
        "spills": side.profile.resources is not None and side.profile.resources.spills,
        "forecasts": {
            MODEL: {"seconds": p.seconds, "limiter": p.limiter, "terms": {t.name: t.seconds for t in p.terms}}
        },
    }  # fmt: skip


def dram_ratio(source: Row | None, target: Row | None) -> float | None:
    """Return how much more the target read from DRAM, as nvprof counted both; None where either is not known."""
    read = [float(str(row.get(_DRAM_READS, "nan"))) for row in (source, target) if row is not None]
    if len(read) < 2 or not all(count > 0 for count in read):  # NaN is not above 0
        return None
    return read[1] / read[0]


def report(every: Sequence[Scored]) -> str:
    """Return a table per failure, and what else is known of the pairs that show it."""
    return "\n\n".join([LEGEND, *(_section(failure, every) for failure in FAILURES)])


def _section(failure: Failure, every: Sequence[Scored]) -> str:
    own = [each for each in every if each.pair.set in failure.sets]
    showing = [each for each in own if failure.shows(each.facts)]
    groups = {"all of them": showing}
    groups |= {name: [each for each in showing if shows(each.facts)] for name, shows in failure.parts}
    others = [each for each in own if not failure.shows(each.facts)]
    groups |= {name: [each for each in others if shows(each.facts)] for name, shows in failure.beside}
    groups["the other pairs"] = others
    lines = [f"## {failure.name}: {len(showing)} of {len(own)} pairs\n", _HEADER, "|---" * (len(MODELS) + 2) + "|"]
    lines += [f"| {name} | {len(group)} | {_cells(group)} |" for name, group in groups.items() if group]
    return "\n".join([*lines, "", *_remarks(showing)])


_HEADER = f"| pairs | n | {' | '.join(MODELS)} |"
LEGEND = "MAPE/median APE in %; geometric mean of forecast / measured; share of measured times in the interval."


def _cells(group: Sequence[Scored]) -> str:
    """Return what each model scores on the same pairs."""
    cells = []
    for place in range(len(MODELS)):
        found = score([each.by_model[place] for each in group])
        inside = "" if found.coverage is None else f"; {found.coverage:.0%}"
        cells.append(f"{found.mape / PERCENT:.1f}/{found.median / PERCENT:.1f}; {found.bias:.2f}{inside}")
    return " | ".join(cells)


def _remarks(showing: Sequence[Scored]) -> Iterator[str]:
    """Yield which kernels these are, and how far the counted reads of DRAM differ."""
    kernels = Counter(each.pair.kernel for each in showing)
    yield "Kernels: " + ", ".join(f"{name} {count}" for name, count in kernels.most_common()) + "."
    ratios = [each.dram_ratio for each in showing if each.dram_ratio is not None]
    if ratios:
        low, middle, high = np.exp(np.quantile(np.abs(np.log(ratios)), (0.1, 0.5, 0.9)))
        yield (
            f"Sectors read from DRAM, the larger count over the smaller: median {middle:.2f}, 80 % of {len(ratios)}"
            f" pairs from {low:.2f} to {high:.2f}."
        )


if __name__ == "__main__":
    main()
