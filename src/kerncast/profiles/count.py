"""NOUN Count: a number of events with its bounds, and NOUN Origin: where such numbers come from."""

from dataclasses import dataclass
from enum import StrEnum

#: What global memory moves in: the least that a request takes from L2 and DRAM, on every GPU from Kepler on.
SECTOR_BYTES = 32


class Origin(StrEnum):
    """Where a number comes from."""

    EXECUTED = "executed"
    """counted while the kernel's PTX ran on the CPU"""
    COMPILED = "compiled"
    """read from the compiler's output"""
    DECLARED = "declared"
    """stated by the user"""
    DISASSEMBLED = "disassembled"
    """machine instructions of the compiled kernel, as often as the PTX they come from was executed"""
    ESTIMATED = "estimated"
    """machine instructions that the executed PTX should become, where no disassembler is at hand"""
    PROFILED = "profiled"
    """counted by a profiler while the kernel ran on a GPU"""
    SIMULATED = "simulated"
    """caches or an SM of one GPU, run on what was executed"""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of events in the whole launch; low and high enclose it where it was scaled from a sample."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Count":
        """Return a count that is known without sampling."""
        return cls(value, value, value)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, part: "Count") -> "Count":
        """Return what is left when a part of the count is taken away, at least 0."""
        return Count(max(0.0, self.value - part.value), max(0.0, self.low - part.high), max(0.0, self.high - part.low))

    def times(self, factor: float) -> "Count":
        """Return the count multiplied by a factor that is at least 0."""
        return Count(self.value * factor, self.low * factor, self.high * factor)

    @property
    def is_exact(self) -> bool:
        """Whether the whole grid was counted."""
        return self.low == self.high
