"""Floating-point formats that neither NumPy nor every CPU computes in."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format."""

    precision: int
    """bits of the significand, the hidden one included"""
    least_exponent: int
    """of the smallest normal number"""

    @property
    def largest(self) -> float:
        """Largest finite number."""
        return math.ldexp(2.0 - 2.0 ** (1 - self.precision), 1 - self.least_exponent)

    @property
    def smallest_normal(self) -> float:
        """Smallest number that is not subnormal."""
        return math.ldexp(1.0, self.least_exponent)


FORMATS = {"f16": Format(11, -14), "bf16": Format(8, -126), "f32": Format(24, -126)}
