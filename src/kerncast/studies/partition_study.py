"""The data set of a study of times on parts of a GPU, and the tables that come from it.

Features of each launch on each number of TPCs are the executor's; times are measured, or simulated with the spread of
measured runs, and said to be so. Source: G. Warde, "Estimating the Execution Time of CUDA Programs", 2025, sections 3.1
and 4.2: whole applications are held out, and bounded from times on one or two numbers of TPCs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kerncast.errors import InputError, Refusal
from kerncast.forecast import Options, Progress
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.measurements import CountFeatures, PartitionTimes
from kerncast.measurements.feature_table import FeatureTable
from kerncast.measurements.scores import Scores, scores_of
from kerncast.models import DEFAULT_MODEL
from kerncast.prediction import Timing
from kerncast.read.launches import load_launches
from kerncast.read.partition_files import MeasurementFile, partitions_of
from kerncast.studies.bounding import BoundOptions, bound_times
from kerncast.studies.bounds import METHODS, Kind
from kerncast.studies.bounds.published.forms import selected_features
from kerncast.studies.partitions import Parts, executed_features, forecast_on, part_of
from kerncast.studies.repeats import drawn_runs
from kerncast.studies.worst_case import WorstCaseScores, worst_case_of
from kerncast.units import MICROSECOND

_SEED = 0
#: Each takes seconds on each number of TPCs.
_MOST_LAUNCHES = 400
#: The fewest and the most are known; at least one is judged.
_LEAST_COUNTS = 3


@dataclass(frozen=True, slots=True)
class StudiedLaunch:
    """One launch on some numbers of TPCs."""

    application: str
    kernel: str
    launch: int
    features: tuple[tuple[float, ...], ...]
    """[counts][names]"""
    times: PartitionTimes
    """runs on each count"""


@dataclass(frozen=True, slots=True)
class PartitionStudy:
    """Launches on numbers of TPCs of one GPU, with features and times."""

    gpu: GPU
    tpcs: tuple[int, ...]
    names: tuple[str, ...]
    """features that every launch has"""
    launches: tuple[StudiedLaunch, ...]
    is_measured: bool
    refused: tuple[str, ...]
    """launches that are left out, and why"""

    def table(self, left_out: str | None = None) -> FeatureTable:
        """Return all runs as rows with their features, without one application; raises InputError without any."""
        rows = [
            (each, values, seconds)
            for each in self.launches
            if each.application != left_out
            for count, values in zip(self.tpcs, each.features, strict=True)
            for seconds in each.times.repeats(count)
        ]
        if not rows:
            raise InputError("no launch is left to learn from", cure="Name more programs, or hold out fewer.")
        return FeatureTable(
            self.names,
            np.array([values for _, values, _ in rows]),
            np.array([seconds for _, _, seconds in rows]),
            tuple(each.kernel for each, _, _ in rows),
            (self.gpu.id,) * len(rows),
            tuple(f"{each.application} {each.launch}" for each, _, _ in rows),
            "study",
            "",
        )


@dataclass(frozen=True, slots=True)
class MethodScores:
    """One method on the launches of an application that it did not learn from."""

    application: str
    method: str
    anchors: str
    """which counts it knew: fewest, or fewest and most"""
    scores: Scores
    """of the bounds, beside the longest runs"""
    worst: WorstCaseScores


def launches_of(what: Path) -> tuple[tuple[Launch, ...], tuple[str, ...]]:
    """Return the launches of a launch file, or of all in a folder, and which files are none; raises InputError."""
    paths = sorted(what.glob("*.toml")) if what.is_dir() else [what]
    found: list[Launch] = []
    left_out: list[str] = []
    for path in paths:
        try:
            found += load_launches(path)
        except InputError as error:
            if not what.is_dir():
                raise
            left_out.append(str(error))
    if not found:
        raise InputError("it holds no launch", where=str(what), cure="Name a launch file, or a folder of them.")
    if len(found) > _MOST_LAUNCHES:
        raise InputError(f"it holds {len(found)} launches", where=str(what), cure=f"Name at most {_MOST_LAUNCHES}.")
    return tuple(found), tuple(left_out)


def check_held_out(names: Sequence[str], launches: Sequence[Launch], tpcs: Sequence[int]) -> None:
    """Raise InputError for programs that are not there, and where no count would be left to judge."""
    known = {each.source.stem for each in launches}
    for name in names:
        if name not in known:
            raise InputError(f"no program is called {name[:40]!r}", cure=f"There are {', '.join(sorted(known))[:300]}.")
    if names and len(tpcs) < _LEAST_COUNTS:
        raise InputError(
            f"{len(tpcs)} TPC counts leave none to judge", cure="Ask for three --tpcs or more, or leave out --hold-out."
        )
    if names and known == set(names):
        raise InputError("no program is left to learn from", cure="Hold out fewer, or name more programs.")


@dataclass(frozen=True, slots=True)
class TimesFrom:
    """Where the times of a study come from."""

    measured: MeasurementFile | None = None
    """measured by ``kerncast measure partition``; None: the simulation"""
    runs: int = 10
    """runs of each count, where they are simulated"""


def study_partitions(
    launches: Sequence[Launch], parts: Parts, source: TimesFrom, progress: Progress | None = None
) -> PartitionStudy:
    """Collect features and times of launches on numbers of TPCs; raises Refusal where none can be studied."""
    draw, found, refused = np.random.default_rng(_SEED), [], []
    gpu, tpcs = parts
    names: list[set[str]] = []
    for number, launch in enumerate(launches):
        if progress:
            progress(f"studying {launch.label}", number, len(launches))
        try:
            rows = [executed_features(launch, part_of(gpu, count), gpu) for count in tpcs]
            times = _times(launch, parts, source, draw)
        except (Refusal, InputError) as refusal:
            refused.append(f"{launch.label}: {refusal}")
            continue
        names += [set(row) for row in rows]
        found.append((launch, rows, times))
    if not found:
        raise Refusal(f"no launch could be studied: {refused[0]}")
    shared = tuple(name for name in found[0][1][0] if all(name in each for each in names))
    return PartitionStudy(
        gpu, tpcs, shared,
        tuple(
            StudiedLaunch(
                launch.source.stem, launch.kernel or launch.source.stem, launch.index,
                tuple(tuple(row[name] for name in shared) for row in rows), times,
            )
            for launch, rows, times in found
        ),
        source.measured is not None, tuple(refused),
    )  # fmt: skip


def _times(launch: Launch, parts: Parts, source: TimesFrom, draw: np.random.Generator) -> PartitionTimes:
    (gpu, tpcs), measured, runs = parts, source.measured, source.runs
    if measured is not None:
        times = partitions_of(measured, gpu, f"partition/{launch.source.stem}#{launch.index}")
        missing = [count for count in tpcs if count not in times.counts]
        if missing:
            raise InputError(f"it has no time on {missing[0]} TPCs", where=times.source, cure="Ask for fewer --tpcs.")
        return times.only(tpcs)
    forecast = forecast_on(launch, [part_of(gpu, count) for count in tpcs], Options(DEFAULT_MODEL, Timing.SINGLE))
    seconds = drawn_runs(np.array([each.seconds for each in forecast.predictions]), runs, draw)
    return PartitionTimes(tuple(count for count in tpcs for _ in range(runs)), tuple(seconds.ravel().tolist()))


def worst_case_scores(study: PartitionStudy, held_out: Sequence[str]) -> tuple[MethodScores, ...]:
    """Return how the published methods bound applications that they did not learn from; raises InputError.

    Each has the features of section 3.2 and times on the fewest TPCs, or on the fewest and the most.
    """
    known = {each.application for each in study.launches}
    for name in held_out:
        if name not in known:
            reason = next((each for each in study.refused if each.startswith(name)), "it is not among the launches")
            raise InputError(f"{name} could not be studied: {reason}", cure="Hold out another program.")
    return tuple(found for name in held_out for found in _scores_of(study, name))


def _scores_of(study: PartitionStudy, application: str) -> Iterator[MethodScores]:
    training = study.table(application)
    chosen = tuple(selected_features([training.names]).values())
    places = [study.names.index(name) for name in chosen]
    for method in METHODS:
        if method.kind is not Kind.MARGIN or method.name.endswith("-oracle"):
            continue
        for anchors in ((study.tpcs[0],), (study.tpcs[0], study.tpcs[-1])):
            pairs: list[tuple[float, float]] = []
            for each in study.launches:
                if each.application != application:
                    continue
                features = tuple(
                    CountFeatures(count, tuple(values[place] for place in places))
                    for count, values in zip(study.tpcs, each.features, strict=True)
                )
                times = PartitionTimes(each.times.tpcs, each.times.seconds, chosen, features)
                options = BoundOptions(method.name, anchors, training=training)
                bound = bound_times(times, study.gpu, study.tpcs, options).answer.bound
                pairs += [
                    (times.largest(count), seconds)
                    for count, seconds in zip(study.tpcs, bound, strict=True)
                    if count not in anchors
                ]
            yield MethodScores(
                application, method.name, "fewest" if len(anchors) == 1 else "fewest and most",
                scores_of([time for time, _ in pairs], [bound for _, bound in pairs]), worst_case_of(pairs),
            )  # fmt: skip


def rows_of(study: PartitionStudy) -> Iterator[tuple[str | int | float, ...]]:
    """Yield a row per run: application, kernel, GPU, launch, TPCs, microseconds and the features."""
    for each in study.launches:
        for count, values in zip(study.tpcs, each.features, strict=True):
            for seconds in each.times.repeats(count):
                launch = f"{each.application} {each.launch}"
                yield each.application, each.kernel, study.gpu.id, launch, count, seconds / MICROSECOND, *values
