"""NOUN Prediction: a time with its interval, and why."""

from dataclasses import dataclass
from enum import StrEnum


class Timing(StrEnum):
    """What is timed."""

    SERIES = "series"
    """mean per launch of a warm, back-to-back series between CUDA events"""
    SINGLE = "single"
    """one launch between events, after others like it: L2 holds what they left"""
    COLD = "cold"
    """one launch between events, L2 flushed before"""
    PROFILER = "profiler"
    """the kernel's own duration, after others like it"""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a forecast: the time that one resource alone would need."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long one launch takes on one GPU, how sure that is, and why."""

    kernel: str
    launch: int
    gpu: str
    gpu_id: str
    seconds: float
    low: float
    high: float
    level: float
    """the share of truths that the interval claims to contain"""
    timing: Timing
    limiter: str
    """name of the term that decides"""
    terms: tuple[Term, ...]
    caveats: tuple[str, ...]
    model: str

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.seconds <= self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] does not contain {self.seconds}")

    def term(self, name: str) -> float | None:
        """Return the seconds of a term, or None where the model has no such term."""
        return next((term.seconds for term in self.terms if term.name == name), None)


@dataclass(frozen=True, slots=True)
class Refused:
    """A launch and a GPU for which there is no forecast."""

    kernel: str
    launch: int
    gpu: str | None
    """None when the launch is refused for every GPU"""
    reason: str
