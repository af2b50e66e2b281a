"""What changed between two profiles, metric by metric, what matters most first.

    importance = |log2(after / before)| x use

where use is the share of its peak that the metric's unit (DRAM, L2, L1, SM) reaches in the busier of both profiles: a
unit that hardly works limits nothing, however much its counters change. It is 1 where no profile tells. A counter that
comes or goes counts as a factor of 1024. Fails when: a metric is a sum of parts that change against one another.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kerncast.errors import InputError
from kerncast.metrics import is_word, word
from kerncast.read.ncu.rows import NcuMetric, NcuRow
from kerncast.units import NANOSECOND

DURATION = "gpu__time_duration.sum"
#: Doublings that a counter from or to zero stands for.
_MOST_DOUBLINGS = 10.0
#: Changes of less than half a percent are none.
_LEAST_DOUBLINGS = math.log2(1.005)
#: What units are called in names of metrics, and how busy they are.
_UNITS = {"dram": "dram", "fbpa": "dram", "lts": "lts", "l1tex": "l1tex", "sm": "sm", "smsp": "sm", "idc": "sm"}
_BUSY = {
    "dram": ("gpu__dram_throughput", "dram__throughput"), "lts": ("lts__throughput", "lts__t_sectors"),
    "l1tex": ("l1tex__throughput",), "sm": ("sm__throughput", "sm__inst_executed"),
}  # fmt: skip
_OF_PEAK = (".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active")
#: Facts of the machine and of the profiler itself, and what merely follows from the time.
_LEFT_OUT = ("device__", "profiler__", "kerncast__blocks_", "kerncast__simulated", "kerncast__sampling")


@dataclass(frozen=True, slots=True)
class Change:
    """One metric in both profiles."""

    name: str
    unit: str
    before: float
    after: float
    importance: float
    """at least 0; the larger, the more it matters"""
    meaning: str
    """what the metric counts; empty where our vocabulary lacks it"""

    @property
    def ratio(self) -> float | None:
        """After over before, None where it was 0 before."""
        return self.after / self.before if self.before else None


@dataclass(frozen=True, slots=True)
class ProfilePair:
    """One launch in both profiles."""

    before: NcuRow
    after: NcuRow
    changes: tuple[Change, ...]
    """metrics that changed, the most important first; without the time"""
    unchanged: int
    """number of metrics that are the same in both"""
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    @property
    def seconds(self) -> tuple[float | None, float | None]:
        """Durations before and after, in seconds; None where a profile lacks it."""
        before, after = (row.value(DURATION) for row in (self.before, self.after))
        return (before * NANOSECOND if before else None), (after * NANOSECOND if after else None)


def pair_profiles(before: Sequence[NcuRow], after: Sequence[NcuRow]) -> tuple[ProfilePair, ...]:
    """Return the launches of both profiles in pairs: by place where both have as many, else by kernel and turn.

    Raises InputError where no launch has a counterpart.
    """
    pairs = list(zip(before, after, strict=True)) if len(before) == len(after) else _by_kernel(before, after)
    if not pairs:
        raise InputError(
            f"no kernel is in both profiles: {len(before)} launches before, {len(after)} after",
            cure="Profile the same launches of both versions, or as many (ncu -k NAME --launch-count N).",
        )
    return tuple(_compared(old, new) for old, new in pairs)


def _by_kernel(before: Sequence[NcuRow], after: Sequence[NcuRow]) -> list[tuple[NcuRow, NcuRow]]:
    waiting: dict[str, list[NcuRow]] = defaultdict(list)
    for row in before:
        waiting[row.kernel].append(row)
    return [(waiting[row.kernel].pop(0), row) for row in after if waiting[row.kernel]]


def _compared(before: NcuRow, after: NcuRow) -> ProfilePair:
    old, new = ({each.name: each for each in row.metrics if _is_compared(each)} for row in (before, after))
    use = {unit: max(_busy(row, unit) for row in (before, after)) for unit in _BUSY}
    both = [(old[name], new[name]) for name in old if name in new and old[name].unit == new[name].unit]
    changed = [(a, b, doublings) for a, b in both if (doublings := _doublings(a.value, b.value)) >= _LEAST_DOUBLINGS]
    changes = [_change(a, b, doublings * use.get(_unit_of(a.name), 1.0)) for a, b, doublings in changed]
    known = {a.name for a, _ in both}
    return ProfilePair(
        before, after, tuple(sorted(changes, key=lambda each: (-each.importance, each.name))), len(both) - len(changed),
        tuple(name for name in old if name not in known), tuple(name for name in new if name not in known),
    )  # fmt: skip


def _is_compared(metric: NcuMetric) -> bool:
    return metric.name != DURATION and not metric.name.startswith(_LEFT_OUT)


def _change(before: NcuMetric, after: NcuMetric, importance: float) -> Change:
    meaning = word(before.name).meaning if is_word(before.name) else ""
    return Change(before.name, before.unit, before.value, after.value, importance, meaning)


def _doublings(before: float, after: float) -> float:
    """Return by how many doublings a value changed, whichever way.

    >>> _doublings(2.0, 8.0), _doublings(8.0, 4.0), _doublings(0.0, 1.0), _doublings(0.0, 0.0)
    (2.0, 1.0, 10.0, 0.0)
    """
    if before == after:
        return 0.0
    if before * after <= 0:
        return _MOST_DOUBLINGS
    return min(_MOST_DOUBLINGS, abs(math.log2(after / before)))


def _unit_of(name: str) -> str:
    return _UNITS.get(name.partition("__")[0], "")


def _busy(row: NcuRow, unit: str) -> float:
    """Return which share of its peak a unit reaches, 1 where the profile does not tell."""
    names = [f"{stem}{ending}" for stem in _BUSY[unit] for ending in _OF_PEAK]
    found = [value for name in names if (value := row.value(name)) is not None]
    return min(1.0, max(found) / 100) if found else 1.0
