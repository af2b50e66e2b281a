"""NOUN PartitionTimes: how long one kernel took on parts of a GPU, and what a profiler told of it there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from kerncast.errors import InputError

_LONGEST_PART = 12
#: No GPU has more SMs than this.
MOST_TPCS = 4096


@dataclass(frozen=True, slots=True)
class TPCRanges:
    """Ranges of TPC counts, both ends included."""

    text: str
    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, count: object) -> bool:
        return isinstance(count, int) and any(low <= count <= high for low, high in self.ranges)

    @property
    def largest(self) -> int:
        """The largest count that is named."""
        return max(high for _, high in self.ranges)

    @property
    def shown(self) -> str:
        """The text, cut where it is long."""
        return repr(self.text[:40])


def parse_tpcs(text: str, option: str = "--tpcs") -> TPCRanges:
    """Return what a text such as ``1-8,16`` means; raises InputError that names the option.

    >>> parse_tpcs("1-3, 8").ranges
    ((1, 3), (8, 8))
    """
    wanted: list[tuple[int, int]] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        numbers = (first, last) if dash else (first,)
        if len(part) > _LONGEST_PART or not all(each.isascii() and each.isdecimal() for each in numbers):
            raise InputError(f"{option} {text[:40]!r} is not a list of TPCs", cure="Write it as 1-8 or as 1,2,4,8-16.")
        wanted.append((int(first), int(last or first)))
    return TPCRanges(text, tuple(wanted))


def counts_up_to(text: str, largest: int, owner: str, option: str = "--tpcs") -> tuple[int, ...]:
    """Return every count that a text means, ascending; raises InputError for one above the largest, or below 1.

    >>> counts_up_to("1-3,8", 40, "TITAN V")
    (1, 2, 3, 8)
    """
    wanted = parse_tpcs(text, option)
    cure = f"{owner} has 1 to {largest}."
    if any(high < low for low, high in wanted.ranges):
        raise InputError(f"{option} {wanted.shown} has a range that ends before it begins", cure="Write 1-8, not 8-1.")
    if wanted.largest > largest:
        raise InputError(f"{option} {wanted.shown} asks for more TPCs than there are", cure=cure)
    if any(low < 1 for low, _ in wanted.ranges):
        raise InputError(f"{option} {wanted.shown} asks for 0 TPCs", cure=cure)
    return tuple(sorted({count for low, high in wanted.ranges for count in range(low, high + 1)}))


@dataclass(frozen=True, slots=True)
class CountFeatures:
    """Features of a kernel on so many TPCs, in the order of the names; nothing needs to be measured there."""

    tpcs: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Runs of one kernel, each on a number of TPCs; raises InputError for what is no count, no time or no feature."""

    tpcs: tuple[int, ...]
    """[runs] TPCs of the run"""
    seconds: tuple[float, ...]
    """[runs] measured time"""
    feature_names: tuple[str, ...] = ()
    features: tuple[CountFeatures, ...] = ()
    """features by number of TPCs, at most one set for each"""
    source: str = "times"

    def __post_init__(self) -> None:
        if len(self.tpcs) != len(self.seconds) or not self.seconds:
            raise InputError(
                f"{len(self.seconds)} times for {len(self.tpcs)} TPC counts",
                where=self.source,
                cure="Give each run both, and at least one run.",
            )
        for count, time in zip(self.tpcs, self.seconds, strict=True):
            if count < 1:
                raise InputError(f"a run on {count} TPCs", where=self.source, cure="Counts begin at 1.")
            if not (math.isfinite(time) and time > 0):
                raise InputError(f"a run of {time} s", where=self.source, cure="Times are above 0.")
        self._check_features()

    def _check_features(self) -> None:
        known = [each.tpcs for each in self.features]
        if len(set(known)) < len(known):
            raise InputError("features of one TPC count are given twice", where=self.source, cure="Give them once.")
        for each in self.features:
            if len(each.values) != len(self.feature_names) or not all(map(math.isfinite, each.values)):
                raise InputError(
                    f"features of {each.tpcs} TPCs are {each.values}",
                    where=self.source,
                    cure=f"Give one finite number for each of {', '.join(self.feature_names)[:200]}.",
                )

    @property
    def counts(self) -> tuple[int, ...]:
        """TPC counts that were measured, ascending."""
        return tuple(sorted(set(self.tpcs)))

    def by_count(self) -> dict[int, list[float]]:
        """Return all times in seconds of each measured count, ascending counts."""
        found: dict[int, list[float]] = {count: [] for count in self.counts}
        for count, time in zip(self.tpcs, self.seconds, strict=True):
            found[count].append(time)
        return found

    def repeats(self, tpcs: int) -> tuple[float, ...]:
        """Return all times on so many TPCs, in seconds; empty where none was measured."""
        return tuple(time for count, time in zip(self.tpcs, self.seconds, strict=True) if count == tpcs)

    def largest(self, tpcs: int) -> float:
        """Return the longest time on so many TPCs, in seconds; raises ValueError where none was measured."""
        return max(self.repeats(tpcs))

    def typical(self, tpcs: int) -> float:
        """Return the median time on so many TPCs, in seconds; raises ValueError where none was measured."""
        return median(self.repeats(tpcs))

    def first(self, runs: int) -> "PartitionTimes":
        """Return the first so many runs, in their order, with all features."""
        return replace(self, tpcs=self.tpcs[:runs], seconds=self.seconds[:runs])

    def only(self, counts: Sequence[int]) -> "PartitionTimes":
        """Return the runs on these numbers of TPCs, with all features; raises InputError where there are none."""
        runs = [pair for pair in zip(self.tpcs, self.seconds, strict=True) if pair[0] in counts]
        return PartitionTimes(
            tuple(count for count, _ in runs),
            tuple(time for _, time in runs),
            self.feature_names,
            self.features,
            self.source,
        )
