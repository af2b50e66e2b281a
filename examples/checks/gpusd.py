"""What the kernel of the gpuSD report must compute."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arguments = Mapping[str, Any]
Results = dict[str, npt.NDArray[Any]]


def gpuSD(before: Arguments) -> Results:  # noqa: N802 - the kernel's name
    """Root of the mean squared distance from the given mean, for both vectors of each pair."""
    pairs = before["na"] * before["nb"]
    first = np.repeat(before["vectsA"].astype(np.float64), before["nb"], axis=0)
    second = np.tile(before["vectsB"].astype(np.float64), (before["na"], 1))
    both = np.stack([first, second], axis=1)
    squares = (both - before["means"].reshape(pairs, 2, 1)) ** 2
    return {"sds": np.sqrt(np.nansum(squares, axis=2) / (before["numPairs"].reshape(pairs, 1) - 1))}
