"""NOUN PartitionTimes: how long one kernel took on parts of a GPU, and what a profiler told of it there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kerncast.errors import InputError


@dataclass(frozen=True, slots=True)
class CountFeatures:
    """What is known of a kernel on so many TPCs, in the order of the names; nothing needs to be measured there."""

    tpcs: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Runs of one kernel, each on a number of TPCs; raises InputError for what is no count, no time or no feature."""

    tpcs: tuple[int, ...]
    """one of each run"""
    seconds: tuple[float, ...]
    """one of each run"""
    feature_names: tuple[str, ...] = ()
    features: tuple[CountFeatures, ...] = ()
    """at most one per number of TPCs"""
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
            raise InputError("features of one TPC count stand twice", where=self.source, cure="Give them once.")
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

    def repeats(self, tpcs: int) -> tuple[float, ...]:
        """Return all times on so many TPCs, in seconds; empty where none was measured."""
        return tuple(time for count, time in zip(self.tpcs, self.seconds, strict=True) if count == tpcs)

    def largest(self, tpcs: int) -> float:
        """Return the longest time on so many TPCs, in seconds; raises ValueError where none was measured."""
        return max(self.repeats(tpcs))

    def typical(self, tpcs: int) -> float:
        """Return the median time on so many TPCs, in seconds; raises ValueError where none was measured."""
        return median(self.repeats(tpcs))

    def features_of(self, tpcs: int) -> tuple[float, ...] | None:
        """Return the features on so many TPCs, or None where they are unknown."""
        return next((each.values for each in self.features if each.tpcs == tpcs), None)

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
