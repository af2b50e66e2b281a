"""A small function for numba to compile, and what it is called with."""

from typing import Any

import numpy as np

ARGUMENTS = (np.arange(4.0), 2.0)


def weighted(values: Any, weight: Any) -> Any:
    """Return the sum of some values times a weight: 12 of ``ARGUMENTS``."""
    total = 0.0
    for value in values:
        total += weight * value
    return total
