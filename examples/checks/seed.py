"""What the kernels of the suite of 16 must compute."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arguments = Mapping[str, Any]
Array = npt.NDArray[Any]
Results = dict[str, Array]


def vector_add(before: Arguments) -> Results:
    """Add vectors."""
    return {"C": before["A"] + before["B"]}


def saxpy(before: Arguments) -> Results:
    """Scale and add vectors."""
    return {"y": before["a"] * before["x"] + before["y"]}


def strided_copy_8(before: Arguments) -> Results:
    """Copy where the index is a multiple of eight."""
    target: Array = before["target"].copy()
    target[::8] = before["source"][::8]
    return {"target": target}


def random_access(before: Arguments) -> Results:
    """Gather."""
    return {"target": before["source"][before["indices"]]}


def naive_transpose(before: Arguments) -> Results:
    """Transpose."""
    return {"B": before["A"].T}


def shared_transpose(before: Arguments) -> Results:
    """Transpose."""
    return {"B": before["A"].T}


def matmul_naive(before: Arguments) -> Results:
    """Multiply matrices, in double precision."""
    return {"C": before["A"].astype(np.float64) @ before["B"]}


def matmul_tiled(before: Arguments) -> Results:
    """Multiply matrices, in double precision."""
    return {"C": before["A"].astype(np.float64) @ before["B"]}


def _filtered(before: Arguments) -> Results:
    """Correlate where the filter fits; the edge at the right and at the bottom stays as it was."""
    image, weights = before["image"].astype(np.float64), before["weights"]
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape)
    filtered = before["filtered"].astype(np.float64)
    filtered[: windows.shape[0], : windows.shape[1]] = np.tensordot(windows, weights, axes=2)
    return {"filtered": filtered}


def conv2d_3x3(before: Arguments) -> Results:
    """Correlate with a filter of 3 x 3."""
    return _filtered(before)


def conv2d_7x7(before: Arguments) -> Results:
    """Correlate with a filter of 7 x 7."""
    return _filtered(before)


def _sums_of_blocks(values: Array, before: Arguments) -> Results:
    return {"partial": values.reshape(before["grid"][0], 2 * before["block"][0]).sum(axis=1, dtype=np.float64)}


def reduce_sum(before: Arguments) -> Results:
    """Sum the elements of each block."""
    return _sums_of_blocks(before["values"], before)


def dot_product(before: Arguments) -> Results:
    """Sum the products of each block."""
    return _sums_of_blocks(before["A"].astype(np.float64) * before["B"], before)


def histogram(before: Arguments) -> Results:
    """Count values."""
    return {"counts": before["counts"] + np.bincount(before["values"], minlength=256)}


def atomic_hotspot(before: Arguments) -> Results:
    """Count threads, times the repeats."""
    threads = int(np.prod(before["grid"])) * int(np.prod(before["block"]))
    return {"counter": before["counter"] + threads * before["repeats"]}


def vector_add_divergent(before: Arguments) -> Results:
    """Add vectors; even elements have the sum 0 + 1 + ... + 127, times the step, on top."""
    is_even = np.arange(before["n"]) % 2 == 0
    return {"C": before["A"] + before["B"] + np.where(is_even, before["step"] * 127 * 128 / 2, 0.0)}


def shared_bank_conflict(before: Arguments) -> Results:
    """Each thread sums the table 0, 1, ..., 1023: the step of 33 words is odd, so every word comes once."""
    return {"sums": np.full_like(before["sums"], 1023 * 1024 // 2)}
