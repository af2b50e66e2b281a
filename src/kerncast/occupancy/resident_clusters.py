"""How many clusters of blocks a GPU holds at once.

The blocks of a cluster lie in one graphics processing cluster (GPC). Which SMs of a chip are switched off differs from
board to board, so that the least and the most over all divisions of its SMs among GPCs are told.
Source: CUDA C++ Programming Guide, section Thread Block Clusters; cudaOccupancyMaxActiveClusters tells it of one board.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kerncast.gpu import GPU
from kerncast.remembered import remembered


@dataclass(frozen=True, slots=True)
class ResidentClusters:
    """Clusters that a GPU holds at once."""

    least: int | None
    """on the board with the worst division of its SMs; None where the size of a GPC is unknown"""
    most: int


@remembered(64)
def resident_clusters(blocks_per_sm: int, cluster_blocks: int, gpu: GPU) -> ResidentClusters:
    """Return how many clusters of so many blocks are resident, where an SM holds ``blocks_per_sm`` of them.

    132 SMs in 8 GPCs of at most 18, whole TPCs of 2. Each has room for two clusters of 8 blocks if it has 16 SMs; of
    GPCs with 14 and 18 some have room for one only. On one board 15 were seen:

    >>> from kerncast.gpu.gpu import load_gpu
    >>> [resident_clusters(1, blocks, load_gpu("h100-sxm")) for blocks in (2, 8, 16)]
    [ResidentClusters(least=66, most=66), ResidentClusters(least=13, most=16), ResidentClusters(least=5, most=8)]
    """
    a = gpu.architecture
    if a.sms_per_gpc is None or a.gpcs is None or a.sms_per_gpc * a.gpcs < gpu.sm_count:
        return ResidentClusters(None, gpu.sm_count * blocks_per_sm // cluster_blocks)
    step = a.sms_per_tpc or 1
    sizes = {size: size * blocks_per_sm // cluster_blocks for size in range(0, a.sms_per_gpc + 1, step)}
    least, most = {0: 0}, {0: 0}
    for _ in range(a.gpcs):
        least, most = _one_more(least, sizes, min), _one_more(most, sizes, max)
    whole = gpu.sm_count // step * step
    return ResidentClusters(least[whole], most[whole])


def _one_more(before: dict[int, int], sizes: dict[int, int], better: Callable[[int, int], int]) -> dict[int, int]:
    """Return the best count of clusters by SMs, with one more GPC."""
    found: dict[int, int] = {}
    for sms, clusters in before.items():
        for size, more in sizes.items():
            total = clusters + more
            found[sms + size] = better(found[sms + size], total) if sms + size in found else total
    return found
