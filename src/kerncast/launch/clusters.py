"""Clusters of blocks: the part of a grid whose blocks run at the same time, on neighbouring SMs.

Source: CUDA C++ Programming Guide, section Thread Block Clusters; PTX ISA 8.8, sections 2.2.2 and 11.6. A block's rank
counts x first, then y, then z; the cluster's own coordinates are those of its blocks over its sizes.
"""

import math
from typing import TYPE_CHECKING

from kerncast.errors import LaunchError

if TYPE_CHECKING:  # the doctor works where NumPy is missing
    import numpy as np
    import numpy.typing as npt

    Blocks = npt.NDArray[np.int64]

#: Sizes of a grid, a block or a cluster in x, y and z.
Sizes = tuple[int, int, int]

#: Blocks that a cluster may have on every GPU with clusters.
PORTABLE_CLUSTER_BLOCKS = 8
#: Blocks that it may have where the kernel allows sizes that are not portable.
MOST_CLUSTER_BLOCKS = 16
NO_CLUSTER = (1, 1, 1)


def check_cluster(cluster: Sizes, grid: Sizes, where: str) -> None:
    """Raise LaunchError for a cluster that no GPU runs, or that does not divide the grid."""
    blocks = math.prod(cluster)
    if min(cluster) < 1 or blocks > MOST_CLUSTER_BLOCKS:
        raise LaunchError(
            f"cluster {list(cluster)} has {blocks} blocks, outside 1 to {MOST_CLUSTER_BLOCKS}",
            where=where,
            cure=f"Give at most {PORTABLE_CLUSTER_BLOCKS} blocks, {MOST_CLUSTER_BLOCKS} where a size that is not"
            " portable is allowed.",
        )
    if any(size % part for size, part in zip(grid, cluster, strict=True)):
        raise LaunchError(
            f"the grid {list(grid)} is not a multiple of the cluster {list(cluster)}",
            where=where,
            cure="Make each size of the grid a multiple of the cluster's.",
        )


def cluster_grid(grid: Sizes, cluster: Sizes) -> Sizes:
    """Return how many clusters a grid has in x, y and z."""
    x, y, z = (size // part for size, part in zip(grid, cluster, strict=True))
    return (x, y, z)


def blocks_of_clusters(clusters: "Blocks", grid: Sizes, cluster: Sizes) -> "Blocks":
    """Return the linear numbers of the blocks of these clusters, cluster after cluster, in each by rank.

    >>> import numpy as np
    >>> blocks_of_clusters(np.array([1]), (4, 4, 1), (2, 2, 1)).tolist()
    [2, 3, 6, 7]
    """
    import numpy as np  # noqa: PLC0415  the doctor works where NumPy is missing

    rank = np.arange(math.prod(cluster))
    parts = [_coordinates(numbers, sizes) for numbers, sizes in
             ((np.asarray(clusters, np.int64), cluster_grid(grid, cluster)), (rank, cluster))]  # fmt: skip
    x, y, z = (first[:, None] * size + within for first, within, size in zip(*parts, cluster, strict=True))
    return np.asarray(x + grid[0] * (y + grid[1] * z), np.int64).ravel()


def clusters_of_blocks(blocks: "Blocks", grid: Sizes, cluster: Sizes) -> "Blocks":
    """Return [n] the linear number of each block's cluster.

    >>> import numpy as np
    >>> clusters_of_blocks(np.array([0, 2, 6, 8]), (4, 4, 1), (2, 2, 1)).tolist()
    [0, 1, 1, 2]
    """
    import numpy as np  # noqa: PLC0415  as above

    x, y, z = (part // size for part, size in zip(_coordinates(blocks, grid), cluster, strict=True))
    nx, ny, _ = cluster_grid(grid, cluster)
    return np.asarray(x + nx * (y + ny * z), np.int64)


def _coordinates(linear: "Blocks", sizes: Sizes) -> "tuple[Blocks, Blocks, Blocks]":
    x, y, _ = sizes
    return linear % x, linear // x % y, linear // (x * y)
