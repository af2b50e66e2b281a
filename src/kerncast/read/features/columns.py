"""The role of a column in a table of launches, told by its name: the time with its unit, the launch, or a feature."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kerncast.units import parse_seconds

_UNIT = r"(?P<unit>ns|us|µs|ms|s)"
_STATISTIC = r"(?:_(?P<statistic>median|mean|avg|min|max|std))?"
_TIME = re.compile(
    rf"(?:time|duration|gpu__time_duration\.(?:sum|avg))(?:_| ?\[| ?\(){_UNIT}[\])]?{_STATISTIC}", re.IGNORECASE
)
_SECONDS = re.compile(rf"(?:time_|duration_)?seconds{_STATISTIC}", re.IGNORECASE)
_ANY_TIME = re.compile(
    r"(?:^|_|\b)(?:time|times|duration|latency|elapsed_(?:s|ms|us|ns)|seconds)(?:$|_|\b|\[)", re.IGNORECASE
)
#: What a single number for a launch is best told by; a spread or the slowest run is none.
_PREFERRED = ("median", "mean", "avg", "", "min")

_KERNEL = ("kernel", "kernel name", "kernel_name")
_GPU = ("gpu", "gpu_id", "device", "device name", "device_name")
_CONFIGURATION = re.compile(
    r"(?:launch|config(?:uration)?|problem.*|(?:input_)?size.*|grid.*|block.*|tpcs|(?:p|param|tune)_.+)", re.IGNORECASE
)
#: Numbers that only tell launches apart: no model may learn from them.
_LABELS = re.compile(r"(?:launch|config(?:uration)?|problem|id|index|row|run|seed|executed_share)", re.IGNORECASE)
_RUNS = re.compile(r"n|n_runs|runs|samples|repeats", re.IGNORECASE)
_RATE = re.compile(
    r"throughput|bandwidth|per_second|_per_s\b|g?flops?_per_s|gflops|perf(?:ormance)?$|efficiency_peak|flop_[sdh]p_efficiency"
    r"|utilization|sustained_elapsed|/s\b|frequency",
    re.IGNORECASE,
)
_CYCLES = re.compile(
    r"cycle|ipc$|sustained_active|sm_efficiency|\bactive_warps\b|per_cycle|warps_active", re.IGNORECASE
)


class Derived(Enum):
    """The ways in which a column follows from the time that a model is to forecast."""

    TIME = "time"
    """another time of the same launch"""
    RATE = "rate"
    """a number divided by the time"""
    CYCLES = "cycles"
    """a number of cycles, which is the time multiplied by a clock, or a number divided by that"""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The column that holds the times."""

    name: str
    seconds_per_unit: float


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns of a table by what they are; each has one role."""

    time: TimeColumn | None
    """column of the time; None in a table of features whose times stand in another file"""
    kernel: str | None
    gpu: str | None
    configuration: tuple[str, ...]
    """columns that tell launches of a kernel apart; numbers among them, except labels, are features too"""
    features: tuple[str, ...]
    times: tuple[str, ...]
    """further times of the same launches"""
    labels: tuple[str, ...]
    """columns of numbers that only tell rows apart, or count runs"""


def roles_of(names: Sequence[str], time: str | None = None) -> Roles:
    """Return what the columns are; ``time`` is the one to be taken, if several hold times.

    >>> roles = roles_of(["gpu", "kernel", "grid_x", "time_us_min", "time_us_median", "inst_executed"])
    >>> roles.time.name, roles.features, roles.times
    ('time_us_median', ('grid_x', 'inst_executed'), ('time_us_min',))
    """
    chosen = _time_column(names, time)
    kernel, gpu = _first(names, _KERNEL), _first(names, _GPU)
    taken = {kernel, gpu, chosen.name if chosen else None}
    times = tuple(name for name in names if name not in taken and _ANY_TIME.search(name))
    has_spread = any(name.endswith(("_std", "_max")) for name in times)
    rest = [name for name in names if name not in taken and name not in times]
    labels = tuple(n for n in rest if _LABELS.fullmatch(n) or (has_spread and _RUNS.fullmatch(n)))
    return Roles(
        time=chosen,
        kernel=kernel,
        gpu=gpu,
        configuration=tuple(name for name in rest if _CONFIGURATION.fullmatch(name)),
        features=tuple(name for name in rest if name not in labels),
        times=times,
        labels=labels,
    )


def derived(name: str) -> Derived | None:
    """Return how a column follows from the time, by its name, or None where it does not.

    >>> [derived(n) for n in ("l2_throughput__reads", "sm__cycles_elapsed.sum", "inst_executed")]
    [<Derived.RATE: 'rate'>, <Derived.CYCLES: 'cycles'>, None]
    """
    if _RATE.search(name):
        return Derived.RATE
    if _CYCLES.search(name):
        return Derived.CYCLES
    return Derived.TIME if _ANY_TIME.search(name) else None


def _time_column(names: Iterable[str], asked: str | None) -> TimeColumn | None:
    found: dict[str, TimeColumn] = {}
    for name in names:
        match = _TIME.fullmatch(name) or _SECONDS.fullmatch(name)
        if match is None or (asked is not None and name != asked):
            continue
        statistic = (match["statistic"] or "").lower()
        unit = match.groupdict().get("unit", "s").lower()
        if asked is not None or statistic in _PREFERRED:
            found.setdefault(statistic, TimeColumn(name, parse_seconds(f"1{unit}")))
    return min(found.items(), key=lambda item: _rank(item[0]))[1] if found else None


def _rank(statistic: str) -> int:
    return _PREFERRED.index(statistic) if statistic in _PREFERRED else len(_PREFERRED)


def _first(names: Sequence[str], known: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in known if name in by_lower), None)
