"""What the convolution layer must compute."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arguments = Mapping[str, Any]
Results = dict[str, npt.NDArray[Any]]


def convolution_layer(before: Arguments) -> Results:
    """Multiply the matrix of all filters by that of all windows, and quarter what is negative."""
    weights = before["synapse"].astype(np.float64)
    filters, channels, edge, _ = weights.shape
    size = before["neuron_n"].shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(before["neuron_i"], (edge, edge), axis=(1, 2))
    columns = windows[:, :size, :size].transpose(0, 3, 4, 1, 2).reshape(channels * edge * edge, size * size)
    sums = (weights.reshape(filters, -1) @ columns).reshape(filters, size, size)
    return {"neuron_n": np.where(sums > 0, sums, sums / 4)}
