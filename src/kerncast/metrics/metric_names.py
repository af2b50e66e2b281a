"""The names that ``kerncast profile`` prints, with unit and meaning: ``data/vocabulary.csv``."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from kerncast.bounded_file import our_rows
from kerncast.gpu import DATA
from kerncast.profiles import Count, Origin
from kerncast.units import PERCENT

ZERO = Count.exact(0)


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of counts."""
    return sum(counts, start=ZERO)


def ratio(above: Count, below: Count, most: float = math.inf) -> Count | None:
    """Return a ratio that is at most ``most``; None where the denominator is zero or may be.

    Both counts come from one sample, so that their errors mostly cancel: the interval, which takes them as if they
    did not, is wider than the truth needs.
    """
    if not below.value or (below.low <= 0 and math.isinf(most)):
        return None
    high = min(most, above.high / below.low) if below.low > 0 else most
    value = min(most, above.value / below.value)
    return Count(value, min(value, above.low / below.high), max(value, high))


def percentage(part: Count, whole: Count) -> Count | None:
    """Return a part in percent of the whole; None where there is nothing.

    >>> percentage(Count.exact(3), Count.exact(4))
    Count(value=75.0, low=75.0, high=75.0)
    """
    share = ratio(part, whole, 1.0)
    return None if share is None else share.times(1 / PERCENT)


@dataclass(frozen=True, slots=True)
class Word:
    """One name of the vocabulary."""

    name: str
    """Nsight Compute's name where it has the counter; otherwise it begins with kerncast__"""
    unit: str
    """Nsight Compute's base unit; empty where it prints none"""
    kind: str
    """counter, ratio, percentage or fact"""
    needs_gpu: bool
    """whether the value depends on the GPU, or on the machine code for it"""
    source: str
    """origin of the name: ncu or kerncast"""
    meaning: str

    @property
    def is_total(self) -> bool:
        """Whether it is a whole number of events, summed over the launch."""
        return self.kind == "counter"


@dataclass(frozen=True, slots=True)
class Metric:
    """The value of one name for one launch."""

    name: str
    count: Count
    unit: str
    origin: Origin


@cache
def vocabulary() -> tuple[Word, ...]:
    """Return every name, in the order in which they are printed."""
    return tuple(
        Word(
            row["name"], row["unit"], row["kind"], row["gpu_needed"] == "yes", row["source"], row["meaning"]
        )
        for row in our_rows(DATA / "vocabulary.csv")
    )  # fmt: skip


@cache
def place_of(name: str) -> int:
    """Return the position of a name in the vocabulary; raises KeyError where it is not there."""
    return _places()[name]


def word(name: str) -> Word:
    """Return a name's entry; raises KeyError where it is not there."""
    return vocabulary()[place_of(name)]


def is_word(name: str) -> bool:
    """Return whether a name is in the vocabulary."""
    return name in _places()


def measured(name: str, count: Count, origin: Origin) -> Metric:
    """Return a metric, with the unit that the vocabulary gives it."""
    return Metric(name, count, word(name).unit, origin)


@cache
def _places() -> dict[str, int]:
    return {each.name: place for place, each in enumerate(vocabulary())}
