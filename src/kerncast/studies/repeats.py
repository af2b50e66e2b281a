"""Runs of a launch that differ as measured ones do, for studies where nothing was measured.

Source: ten runs each of launches of Rodinia on a Tesla K40 (gpuperfpredict, Amaris et al., CC BY 4.0), of which
``tools/sample_repeats.py`` keeps the least and the longest of 400. What lies between them is drawn.
"""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import kerncast
from kerncast.bounded_file import our_rows
from kerncast.errors import InputError

REPEATS_FILE = Path(kerncast.__path__[0]) / "data" / "calibration" / "run_repeats.csv"

Floats = npt.NDArray[np.float64]


@cache
def _measured() -> tuple[tuple[str, ...], Floats]:
    """Return the kernel of each measured launch, and [launches, 2] its least and its longest run over the median."""
    try:
        rows = our_rows(REPEATS_FILE)
        ratios = np.array([[float(row["least"]), float(row["longest"])] for row in rows])
        kernels = tuple(row["kernel"] for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        cure = "Install kerncast again."
        raise InputError(f"the measured repeats are faulty: {error}", where=str(REPEATS_FILE), cure=cure) from None
    return kernels, ratios


def drawn_runs(medians: Floats, runs: int, draw: np.random.Generator) -> Floats:
    """Return [medians, runs] runs around some medians, all of them like launches of one measured kernel.

    >>> found = drawn_runs(np.array([1.0, 2.0]), 10, np.random.default_rng(0))
    >>> found.shape, bool((0.5 < found / [[1.0], [2.0]]).all())
    ((2, 10), True)
    """
    kernels, ratios = _measured()
    kernel = kernels[int(draw.integers(len(kernels)))]
    rows = ratios[[each == kernel for each in kernels]]
    of_ten = [_ten_runs(rows, len(medians), draw) for _ in range(-(-runs // _TEN))]
    factors = draw.permuted(np.hstack(of_ten), axis=1)[:, :runs]
    return np.asarray(medians[:, np.newaxis] * factors, np.float64)


#: Runs of each measured launch.
_TEN = 10


def _ten_runs(rows: Floats, count: int, draw: np.random.Generator) -> Floats:
    """Return [count, 10] factors on a median: five runs below it and five above, the outermost as measured."""
    least, longest = (each[:, np.newaxis] for each in rows[draw.integers(len(rows), size=count)].T)
    between = _TEN // 2 - 1
    below = 1 - (1 - least) * draw.random((count, between))
    above = 1 + (longest - 1) * draw.random((count, between)) ** 2
    return np.hstack([least, below, above, longest])
