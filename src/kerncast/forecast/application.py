"""A whole application on GPUs: the launches that a recording keeps are forecast, all others lie between them."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import our_table
from kerncast.forecast.asked import Forecast, GPUsNoted, Options
from kerncast.forecast.compiled_launch import Progress
from kerncast.forecast.forecast import forecast_all
from kerncast.forecast.library_calls import forecast_library_calls
from kerncast.gpu import GPU, launch_overhead_s
from kerncast.launch import Launch
from kerncast.models import Case
from kerncast.models.timeline import Durations, Link, Timeline, timeline
from kerncast.occupancy import block_request_of, occupancy
from kerncast.prediction import Prediction, Refused, Timing
from kerncast.read.launches import launches_of
from kerncast.recording import EventKind, Recording
from kerncast.units import GIGA, MICROSECOND

Floats = npt.NDArray[np.float64]

#: Work beyond that of the kept launches scales their time, up to this factor.
_MOST_SCALED = 64.0


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What all launches of one kernel take together."""

    kernel: str
    launches: int
    seconds: float
    limiter: str
    """what limits most of its time"""


@dataclass(frozen=True, slots=True)
class Application:
    """The forecast of a whole application on one GPU."""

    gpu: str
    gpu_id: str
    timeline: Timeline
    low: float
    high: float
    level: float
    kernels: tuple[KernelTime, ...]
    """the kernel that takes longest first"""
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class Applications:
    """Forecasts of an application, and those of the launches behind them."""

    found: tuple[Application, ...]
    """in the order of the GPUs"""
    forecast: Forecast


def forecast_application(
    recording: Recording, gpus: GPUsNoted, options: Options, progress: Progress | None = None
) -> Applications:
    """Forecast a program's run on GPUs: each launch that is kept is executed and simulated once."""
    launches: tuple[Launch, ...] = ()
    forecast = Forecast((), (), ())
    if recording.kept:
        launches = launches_of(recording)
        forecast = forecast_all(launches, gpus, replace(options, timing=Timing.PROFILER), progress)
    by_gpu: dict[str, list[tuple[Prediction, object]]] = defaultdict(list)
    for prediction, case in zip(forecast.predictions, forecast.cases, strict=True):
        by_gpu[prediction.gpu_id].append((prediction, case))
    found = tuple(
        _on_gpu(recording, (gpu, options), by_gpu[gpu.id], forecast)
        for gpu, _ in gpus
        if by_gpu[gpu.id] or (recording.library_calls and not launches)
    )
    return Applications(found, forecast)


def _on_gpu(
    recording: Recording, asked: tuple[GPU, Options], kept: Sequence[tuple[Prediction, object]], forecast: Forecast
) -> Application:
    gpu, options = asked
    shares = {p.launch: share_of(case, gpu) for p, case in kept}
    middle, low, high = (
        between(recording, {p.launch: getattr(p, name) for p, _ in kept}) for name in ("seconds", "low", "high")
    )
    own = between(recording, shares, scales=False)
    called = forecast_library_calls(recording.library_calls, gpu, options)
    first, *ends = (
        timeline(recording, Durations(each, own, np.array([getattr(p, name) for p in called]), link_of(gpu, name)))
        for each, name in ((middle, "seconds"), (low, "low"), (high, "high"))
    )
    predictions = [p for p, _ in kept]
    refused = tuple(each for each in forecast.refused if each.gpu in {None, gpu.name})
    return Application(
        gpu.name, gpu.id, first, ends[0].seconds, ends[1].seconds, options.level,
        _longest_first(kernel_times(recording, middle, predictions) + _called_times(recording, called)), refused,
    )  # fmt: skip


def share_of(case: object, gpu: GPU) -> float:
    """Return which part of the SMs the blocks of a launch fill."""
    request = block_request_of(case.profile) if isinstance(case, Case) else None
    if request is None or not isinstance(case, Case):
        return 1.0
    resident = max(1, occupancy(request, gpu.architecture).blocks_per_sm)
    return min(1.0, math.prod(case.profile.grid) / (resident * gpu.sm_count))


def between(recording: Recording, values: dict[int, float], *, scales: bool = True) -> Floats:
    """Return [launches] a value of each launch, given that of some kept ones: between two by their work, in logarithms.

    Beyond the ends the value of the last one, scaled with the work where it ``scales``. NaN where a group has none.
    """
    found = np.full(len(recording.launches), np.nan)
    work = np.log(np.maximum(recording.launches["instructions"], 1).astype(np.float64))
    groups = recording.launches["group"]
    known: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for number, value in values.items():
        launch = recording.kept[number].launch
        known[int(groups[launch])].append((float(work[launch]), float(np.log(max(value, 1e-12)))))
    for group, points in known.items():
        members = np.flatnonzero(groups == group)
        found[members] = at_work(points, work[members], scales=scales)
    return found


def at_work(points: Sequence[tuple[float, float]], work: Floats, *, scales: bool = True) -> Floats:
    """Return values at some work, given pairs of work and value: all but the result are logarithms."""
    places, logarithms = np.array(sorted(points)).T
    logs = np.interp(work, places, logarithms)
    if scales:
        limit = np.log(_MOST_SCALED)
        logs += np.clip(work - places[-1], 0, limit) - np.clip(places[0] - work, 0, limit)
    found: Floats = np.exp(logs)
    return found


def kernel_times(recording: Recording, seconds: Floats, predictions: Sequence[Prediction]) -> tuple[KernelTime, ...]:
    """Return the time of each kernel."""
    names = [recording.kernels[group.kernel].name for group in recording.groups]
    limiters: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for each in predictions:
        group = int(recording.launches["group"][recording.kept[each.launch].launch])
        limiters[names[group]][each.limiter] += each.count * each.seconds
    sums, counts = defaultdict[str, float](float), defaultdict[str, int](int)
    for group, name in enumerate(names):
        of_group = seconds[recording.launches["group"] == group]
        sums[name] += float(np.nansum(of_group))
        counts[name] += len(of_group)
    worst = {name: max(limits, key=lambda each: limits[each]) for name, limits in limiters.items()}
    return tuple(KernelTime(name, counts[name], sums[name], worst.get(name, "")) for name in sums)


def _called_times(recording: Recording, called: Sequence[Prediction]) -> tuple[KernelTime, ...]:
    """Return the time of each function of a library."""
    events = recording.events
    counts = np.bincount(events["value"][events["kind"] == EventKind.LIBRARY].astype(np.int64), minlength=len(called))
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(called):
        by_name[each.kernel].append(number)
    return tuple(
        KernelTime(
            name, int(counts[numbers].sum()), sum(called[n].seconds * int(counts[n]) for n in numbers),
            max((called[n] for n in numbers), key=lambda each: each.seconds).limiter,
        )
        for name, numbers in by_name.items()
    )  # fmt: skip


def _longest_first(times: Sequence[KernelTime]) -> tuple[KernelTime, ...]:
    return tuple(sorted(times, key=lambda each: -each.seconds))


def link_of(gpu: GPU, end: str = "seconds") -> Link:
    """Return the times of copies and calls with a GPU, by the generation of its link.

    ``end`` is which time of an interval they are for: its low one, its high one, or the seconds between.
    """
    facts = _link_facts()
    capability = tuple(map(int, gpu.architecture.compute_capability.split(".")))
    since = {tuple(map(int, key.split("."))): generation for key, generation in facts["since"].items()}
    generation = since[max(key for key in since if key <= capability)]
    name = {"low": "low", "high": "high"}.get(end, "value")
    share = facts["copy"]["share"][{"low": "high", "high": "low"}.get(end, "value")]
    rate = GIGA * facts["generation"][str(generation)]["gb_per_s"] * share
    interval = gpu.launch_interval_s if gpu.launch_interval_s is not None else launch_overhead_s(Timing.SERIES)
    copies = facts["copy"]
    call_s, launch_s = (copies[each][name] * MICROSECOND for each in ("call_us", "launch_us"))
    pageable = copies["pageable_share"]["value"] / copies["share"]["value"]
    return Link(call_s, launch_s, rate, rate, gpu.dram_bytes_per_s, interval, pageable)


@cache
def _link_facts() -> dict[str, Any]:
    return our_table(Path(__file__).parents[1] / "data" / "host_links.toml")
