"""NOUN FloatMix: how many additions, multiplications and fused multiply-adds a kernel makes, by precision."""

from dataclasses import dataclass

from kerncast.count import Count


@dataclass(frozen=True, slots=True)
class FloatMix:
    """Floating-point instructions of one precision in the whole launch, one per active thread."""

    bits: int
    """16, 32 or 64"""
    additions: Count
    """subtractions too"""
    multiplications: Count
    fused: Count
    """fused multiply-adds, of two operations each"""

    @property
    def flops(self) -> Count:
        """Floating-point operations."""
        return self.additions + self.multiplications + self.fused.times(2)

    @property
    def flops_value(self) -> float:
        """The same without their bounds."""
        return self.additions.value + self.multiplications.value + 2 * self.fused.value
