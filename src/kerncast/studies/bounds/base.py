"""What every method of bounding a time on parts of a GPU is asked, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kerncast.errors import InputError
from kerncast.partition_times import PartitionTimes
from kerncast.studies.bounds.spread import Spread

Floats = npt.NDArray[np.float64]

#: Times that differ by a smaller share are the same but for rounding.
ROUNDING = 2.0**-30


@dataclass(frozen=True, slots=True)
class Blocks:
    """The grid of a kernel whose blocks all take equally long."""

    count: int
    per_tpc: int = 1
    """resident on one TPC at a time"""

    def __post_init__(self) -> None:
        if not (1 <= self.count < 2**63 and 1 <= self.per_tpc <= 2**16):
            raise InputError(
                f"{self.count} blocks, {self.per_tpc} per TPC", cure="Give the blocks of the grid, and how many fit."
            )

    def waves(self, tpcs: Sequence[int]) -> Floats:
        """Return how many times each number of TPCs is filled with blocks.

        >>> Blocks(100, per_tpc=16).waves((1, 2, 7)).tolist()
        [7.0, 4.0, 1.0]
        """
        return np.array([-(-self.count // (self.per_tpc * each)) for each in tpcs], np.float64)


def standard_scale(values: Floats) -> Floats:
    """Return the standard deviation of each column, 1 where a column is constant but for rounding.

    >>> standard_scale(np.array([[0.1, 3.0]] * 999 + [[0.1, 1.0]])).round(3).tolist()
    [1.0, 0.063]
    """
    spread = np.asarray(values.std(axis=0))
    return np.where(spread > ROUNDING * np.abs(values).max(axis=0), spread, 1.0)


@dataclass(frozen=True, slots=True)
class Regressors:
    """What a base model learns from, and what it is told of each number of TPCs."""

    names: tuple[str, ...]
    training_values: Floats
    """launches by regressors"""
    training_seconds: Floats
    counts: tuple[int, ...]
    values: Floats
    """counts by regressors"""
    training_counts: tuple[int, ...] = ()
    """TPCs of each launch learned from, where those are the measured runs themselves; else empty"""

    def without(self, count: int) -> "Regressors":
        """Return what is left to learn from where the runs on so many TPCs are unknown."""
        kept = [place for place, each in enumerate(self.training_counts) if each != count]
        return replace(
            self,
            training_values=self.training_values[kept],
            training_seconds=self.training_seconds[kept],
            training_counts=tuple(self.training_counts[place] for place in kept),
        )


@dataclass(frozen=True, slots=True)
class BoundQuestion:
    """Measured times, and the numbers of TPCs that a bound is wanted for; raises InputError where they contradict."""

    times: PartitionTimes
    anchors: tuple[int, ...]
    """TPC counts that a method may use the times of"""
    tpcs: tuple[int, ...]
    """asked, ascending"""
    regressors: Regressors | None = None
    """of the asked and the measured counts; None for methods without a base model"""
    blocks: Blocks | None = None

    def __post_init__(self) -> None:
        measured_anchors(self.times, self.anchors)

    @property
    def measured(self) -> PartitionTimes:
        """The runs that a method may use."""
        return self.times.only(self.anchors)


def measured_anchors(times: PartitionTimes, anchors: tuple[int, ...]) -> tuple[int, ...]:
    """Return the anchors; raises InputError where there are none, or one was not measured."""
    unknown = sorted(set(anchors) - set(times.counts))
    if unknown or not anchors:
        named = ", ".join(map(str, unknown))[:200] or "none"
        raise InputError(
            f"anchors without a measured time: {named}",
            where=times.source,
            cure=f"Measured are {', '.join(map(str, times.counts))[:200]} TPCs.",
        )
    return anchors


class Contradiction(StrEnum):
    """What measured times say against the assumptions of a bound."""

    SLOWER_WITH_MORE = "slower-with-more-tpcs"
    """a kernel took longer on more TPCs"""
    LESS_WORK_WITH_MORE = "less-work-with-more-tpcs"
    """it sped up by more than the TPCs grew"""
    ABOVE_OTHERS = "above-the-bound-of-others"
    """a measured time is above the bound that the other ones give"""
    NO_STAIRCASE = "no-staircase"
    """no number of equal blocks gives these times"""


@dataclass(frozen=True, slots=True)
class BoundAnswer:
    """Expected times and bounds in seconds, one per number of TPCs asked, and how they came about."""

    expected: tuple[float, ...]
    bound: tuple[float, ...]
    calibrated_on: tuple[int, ...]
    """TPC counts whose measured times were used, and where the bound is the longest of them"""
    known_beside: tuple[int, ...] = ()
    """further TPC counts whose measured times the bounds were chosen by"""
    margin: float | None = None
    """share that was added"""
    offset_seconds: float | None = None
    """time that was added"""
    spread: Spread | None = None
    """of the repeats"""
    is_enough: bool = True
    """False where the largest margin did not lift every time it was judged by"""
    contradictions: tuple[Contradiction, ...] = ()
    measure_next: int | None = None
    """the TPC count whose time would tighten the bounds most; None where the method does not tell"""


class BoundMethod(Protocol):
    """One way to bound the time of a kernel on parts of a GPU."""

    @property
    def name(self) -> str:
        """As ``--method`` names it; ``-oracle`` looks at the times that it is judged by."""

    @property
    def has_base_model(self) -> bool:
        """Whether it needs regressors."""

    def bound(self, question: BoundQuestion) -> BoundAnswer:
        """Return the bounds; raises InputError where the question lacks something."""
