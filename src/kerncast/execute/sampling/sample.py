"""The choice of the blocks to run, and the scaling of their counts to all blocks.

Blocks at the edges of the grid often do other work than those inside. The grid is cut into strata by position
(first, inner, last in each dimension); every stratum is sampled, and a total is the sum over strata of size times
mean. Source: Cochran, "Sampling Techniques", 3rd ed., equations 5.1 and 5.7.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, MachineLimitError
from kerncast.launch import NO_CLUSTER, Extent, blocks_of_clusters, cluster_grid, clusters_of_blocks
from kerncast.profiles import Count
from kerncast.traces import BlockCounts
from kerncast.units import GIB

#: Nominal rate of work: 4 x 10^8 thread-instructions per second of full warps without memory. One core with AVX-512
#: is 2 to 15 times as fast on the programs of examples/kernels. These are nominal seconds: a budget in them buys the
#: same work on every machine, busy or idle, so that equal input gives equal counts.
_STEP_SECONDS = 80e-9
_BLOCK_SECONDS = 7e-6
#: Wall time after which a launch is stopped: what ends by its steps has ended long before, also on a starved machine.
_RUNAWAY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits that keep any user kernel finite; sampling aims far below them."""

    sample_seconds: float = 2.0
    """nominal seconds of work that the sample of blocks may cost"""
    block_steps: int = 50_000_000
    """loop iterations that the warps of one block may do before the kernel counts as endless"""
    seconds: float = _RUNAWAY_SECONDS
    """wall time of one launch, compiling included; stops only what runs away, and the refusal says so"""
    memory_bytes: int = 4 * GIB
    """bytes of the buffers' values, of what blocks write to them, and of shared and local memory together; buffers of
    zeros, and values that repeat, cost what is touched"""

    @classmethod
    def for_sample(cls, seconds: float) -> "Budget":
        """Return a budget for a sample of so many nominal seconds."""
        return cls(sample_seconds=seconds, seconds=_RUNAWAY_SECONDS + seconds)

    @property
    def is_whole_grid(self) -> bool:
        """Whether every block is to run, whatever it costs."""
        return math.isinf(self.sample_seconds)


@dataclass(frozen=True, slots=True)
class WholeGrid(Budget):
    """Run every block: exact counts and final memory, whatever it costs."""

    sample_seconds: float = math.inf
    seconds: float = 3600.0


def nominal_seconds(counts: BlockCounts, lengths: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return [n] what each block that ran is reckoned to cost; ``lengths`` are those of the basic blocks.

    A warp instruction, a sector of global memory and a wavefront of shared memory cost one step each.
    """
    steps = counts.block_warps @ np.array(lengths, np.int64)
    steps = steps + counts.sectors.sum(axis=1) + counts.shared_wavefronts.sum(axis=1)
    return np.asarray(steps * _STEP_SECONDS + _BLOCK_SECONDS)


def runaway(seconds: float, where: str) -> MachineLimitError:
    """Return the error for a launch that the clock has stopped."""
    return MachineLimitError(
        f"the launch was stopped after {seconds:g} s of wall time, a limit for runaway kernels",
        where=where,
        cure="Check the loop's condition and the arguments, use a smaller problem, or a machine that is less busy.",
    )


def endless(limit: str, where: str) -> BudgetExceededError:
    """Return the error for a kernel that did not end within a limit."""
    return BudgetExceededError(
        f"the kernel did not end {limit}: an endless loop, a lock that lanes of one warp contend for, or too much work"
        " for one block",
        where=where,
        cure="Check the loop's condition and the arguments, or use a smaller problem.",
    )


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

    def __init__(self, grid: Extent, cluster: Extent = NO_CLUSTER) -> None:
        self.grid = grid
        self.blocks = math.prod(grid)
        self.cluster = cluster
        self.together = math.prod(cluster)
        """blocks of a cluster: one is chosen with all of them, one after the other by rank"""
        self._clusters = cluster_grid(grid, cluster)
        self.strata = strata_of(self._clusters)
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
        for number, stratum in enumerate(self.strata):  # of clusters, of which one block is chosen with the others
            share = math.ceil(stratum.size * min(1.0, total / self.blocks))
            more += self._take(number, max(0, share - len(self._taken[number])))
        return more

    def members(self, clusters: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the blocks of some clusters, by rank in each; without clusters every block is one."""
        return clusters if self.together == 1 else blocks_of_clusters(clusters, self.grid, self.cluster)

    def clusters_of(self, blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return [n] the cluster of each block; without clusters every block is one."""
        return blocks if self.together == 1 else clusters_of_blocks(blocks, self.grid, self.cluster)

    def weights(self) -> npt.NDArray[np.float64]:
        """Return [chosen blocks] for how many blocks of the grid each stands."""
        number = np.array(self._stratum_of)
        sizes = np.array([stratum.size for stratum in self.strata], np.float64)
        weights = sizes[number] / np.bincount(number, minlength=len(sizes))[number]
        return np.repeat(np.asarray(weights), self.together)

    def scale(self, per_block: npt.NDArray[np.float64]) -> Count:
        """Scale values [chosen blocks] to the whole grid, with an interval of about 95 %."""
        return self.scale_columns(per_block[:, np.newaxis])[0]

    def scale_columns(self, per_block: npt.NDArray[np.float64]) -> tuple[Count, ...]:
        """Scale each column of values [chosen blocks, columns] to the whole grid; clusters are what is sampled."""
        if self.together > 1:
            per_block = per_block.reshape(-1, self.together, per_block.shape[1]).sum(axis=1)
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
        chosen = sorted(self.strata[stratum].block(index, self._clusters) for index in new)
        self._stratum_of += [stratum] * len(chosen)
        blocks: list[int] = self.members(np.array(chosen, np.int64)).tolist()
        self.chosen += blocks
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
