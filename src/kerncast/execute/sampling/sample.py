"""Which blocks of a grid to run, and how their counts are scaled to all blocks.

Blocks at the edges of the grid often do other work than those inside. The grid is cut into strata by position
(first, inner, last in each dimension); every stratum is sampled, and a total is the sum over strata of size times
mean. Source: Cochran, "Sampling Techniques", 3rd ed., equations 5.1 and 5.7.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.launch import Extent
from kerncast.profiles import Count

_GOLDEN = (math.sqrt(5) - 1) / 2
_NORMAL_95_PERCENT = 1.96
#: Students' factor over the normal one for few samples, so that a small sample does not look sure.
_SMALL_SAMPLE = 4.0
#: Skewness below which the interval is symmetric.
_SYMMETRIC = 1e-3
#: Blocks of the largest stratum beyond its first two that run before anything is known of the kernel.
_PILOT = 6


@dataclass(frozen=True, slots=True)
class Stratum:
    """A box of blocks: [start, stop) in x, y and z."""

    start: Extent
    stop: Extent

    @property
    def size(self) -> int:
        """Number of blocks."""
        return math.prod(b - a for a, b in zip(self.start, self.stop, strict=True))

    def block(self, index: int, grid: Extent) -> int:
        """Return the linear number of the stratum's block with this index."""
        nx, ny = self.stop[0] - self.start[0], self.stop[1] - self.start[1]
        x, y, z = index % nx, index // nx % ny, index // (nx * ny)
        return (self.start[0] + x) + grid[0] * ((self.start[1] + y) + grid[1] * (self.start[2] + z))


def strata_of(grid: Extent) -> tuple[Stratum, ...]:
    """Cut a grid into its corners, edges, faces and inside.

    >>> [s.size for s in strata_of((10, 1, 1))]
    [1, 8, 1]
    """
    per_axis = []
    for extent in grid:
        cuts = [(0, 1), (1, extent - 1), (extent - 1, extent)] if extent >= 3 else [(i, i + 1) for i in range(extent)]
        per_axis.append([(a, b) for a, b in cuts if b > a])
    return tuple(Stratum((x[0], y[0], z[0]), (x[1], y[1], z[1])) for x, y, z in itertools.product(*per_axis))


class Sampler:
    """Chooses blocks in a fixed order, so that equal launches give equal samples."""

    def __init__(self, grid: Extent) -> None:
        self.grid = grid
        self.blocks = math.prod(grid)
        self.strata = strata_of(grid)
        self.chosen: list[int] = []
        """blocks in the order in which they run"""
        self._stratum_of: list[int] = []
        self._taken: list[set[int]] = [set() for _ in self.strata]
        self._position = [0] * len(self.strata)

    @property
    def is_whole(self) -> bool:
        """Whether every block of the grid is chosen."""
        return len(self.chosen) == self.blocks

    def pilot(self) -> list[int]:
        """Choose the first blocks: two of each stratum, more of the largest."""
        largest = max(range(len(self.strata)), key=lambda i: self.strata[i].size)
        blocks = [b for i in range(len(self.strata)) for b in self._take(i, 2)]
        return blocks + self._take(largest, _PILOT)

    def extend(self, total: int) -> list[int]:
        """Choose further blocks until about ``total`` are chosen, in proportion to the strata's sizes."""
        more: list[int] = []
        for number, stratum in enumerate(self.strata):
            share = math.ceil(stratum.size * min(1.0, total / self.blocks))
            more += self._take(number, max(0, share - len(self._taken[number])))
        return more

    def weights(self) -> npt.NDArray[np.float64]:
        """Return [chosen blocks] for how many blocks of the grid each stands."""
        number = np.array(self._stratum_of)
        sizes = np.array([stratum.size for stratum in self.strata], np.float64)
        return np.asarray(sizes[number] / np.bincount(number, minlength=len(sizes))[number])

    def scale(self, per_block: npt.NDArray[np.float64]) -> Count:
        """Scale values [chosen blocks] to the whole grid, with an interval of about 95 %."""
        return self.scale_columns(per_block[:, np.newaxis])[0]

    def scale_columns(self, per_block: npt.NDArray[np.float64]) -> tuple[Count, ...]:
        """Scale each column of values [chosen blocks, columns] to the whole grid."""
        total, variance, third = np.zeros((3, per_block.shape[1]))
        number = np.array(self._stratum_of)
        for index, stratum in enumerate(self.strata):
            values = per_block[number == index] if len(self.strata) > 1 else per_block
            n, size = len(values), stratum.size
            total += size * (values.sum(axis=0) / n)
            if n < size:
                rest = 1 - n / size
                deviations = values - values.mean(axis=0)
                squares = deviations * deviations
                variance += size**2 * rest * squares.sum(axis=0) / (n - 1) / n
                third += size**3 * rest * (squares * deviations).mean(axis=0) / n**2
        factor = _NORMAL_95_PERCENT * (1 + _SMALL_SAMPLE / len(per_block))
        seen = per_block.sum(axis=0)
        columns = zip(total.tolist(), variance.tolist(), third.tolist(), seen.tolist(), strict=True)
        return tuple(_count(*column, factor) for column in columns)

    def _take(self, stratum: int, count: int) -> list[int]:
        """Choose further blocks of one stratum, spread evenly; fewer when it has no more."""
        size = self.strata[stratum].size
        taken = self._taken[stratum]
        wanted = min(count, size - len(taken))
        new = [i for i in range(size) if i not in taken] if len(taken) + wanted == size else []
        while len(new) < wanted:
            self._position[stratum] += 1
            index = int((self._position[stratum] * _GOLDEN) % 1.0 * size)
            while index in taken:
                index = (index + 1) % size
            taken.add(index)
            new.append(index)
        taken.update(new)
        blocks = sorted(self.strata[stratum].block(index, self.grid) for index in new)
        self.chosen += blocks
        self._stratum_of += [stratum] * len(blocks)
        return blocks


def _count(total: float, variance: float, third: float, seen: float, factor: float) -> Count:
    """Return an estimate with its interval; what was counted is the least that it can be."""
    if not variance:
        return Count.exact(total)
    low, high = _limits(third / variance**1.5, factor)
    spread = math.sqrt(variance)
    # Far in the tail the transformation turns round, and would put a limit on the other side.
    return Count(total, min(total, max(seen, total - low * spread)), max(total, total + high * spread))


def _limits(skewness: float, factor: float) -> tuple[float, float]:
    """Return how many standard errors an interval reaches below and above an estimate of this skewness.

    A sample from a heavy tail more often misses the tail than meets it, so that the truth lies more often above.
    Source: Hall, "On the removal of skewness by transformation", J. R. Statist. Soc. B 54, 1992, equation 2.
    """
    if abs(skewness) < _SYMMETRIC:
        return factor, factor

    def inverse(z: float) -> float:
        return 3 / skewness * float(np.cbrt(1 + skewness * (z - skewness / 6)) - 1)

    return inverse(factor), -inverse(-factor)
