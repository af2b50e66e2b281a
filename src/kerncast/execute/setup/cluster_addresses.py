"""Addresses in the shared memory of a cluster, and the words for what goes wrong there.

The bits of an address from the 24th on are the rank of the block, those below it the offset in that block's shared
memory; as on hardware the addresses of a block's own variables have its rank, too. Without clusters every rank is 0.
"""

from kerncast.errors import IllegalAddress, KernelFault
from kerncast.ptx import Instruction, Trait

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
#: Ranks are below it; the cluster of a launch is smaller.
RANK_MASK = 0xFF


def rank_of(address: int) -> int:
    """Return the rank of the block that an address names."""
    return address >> RANK_SHIFT & RANK_MASK


def outside_of_cluster(size: int, address: int, room: int, blocks: int) -> str:
    """Say what is wrong with an access to no block of the cluster, or outside a block's shared memory."""
    return (
        f"is out of bounds: {size} bytes at {address & OFFSET_MASK:#x} of {room} bytes of shared memory of the block of"
        f" rank {address >> RANK_SHIFT}, in a cluster of {blocks} blocks"
    )


def stuck(ins: Instruction, thread: str, where: str) -> KernelFault:
    """Return the error for threads that wait at a barrier in vain."""
    if ins.opcode.has(Trait.MEET):
        return KernelFault(
            f"warps wait at {ins.name} that others of their group of four never reach, such as that of {thread}",
            where=where,
            cure="Let all four warps of a group run the same products and wait for them.",
        )
    group = "cluster" if ins.is_cluster_barrier else "block"
    name = "a barrier of the cluster" if ins.is_cluster_barrier else "a barrier"
    return KernelFault(
        f"threads wait at {name} that the others never reach, such as {thread}",
        where=where,
        cure=f"Let every thread of the {group} reach the same barrier.",
    )


def disordered(ins: Instruction, thread: str, where: str) -> KernelFault:
    """Return the error for a thread that does not arrive and wait by turns at the barrier of its cluster."""
    arrives = ins.opcode.name.endswith("arrive")
    what = "arrives twice at the cluster's barrier without waiting" if arrives else "waits without having arrived"
    return KernelFault(
        f"{thread} {what}",
        where=where,
        cure="Let every thread call barrier.cluster.arrive and barrier.cluster.wait by turns.",
    )


def departed(ins: Instruction, rank: int, thread: str, where: str) -> IllegalAddress:
    """Return the error for an access to the shared memory of a block that has ended."""
    return IllegalAddress(
        f"{thread} accesses shared memory of the block of rank {rank} in its cluster, which has ended ({ins.name})",
        where=where,
        cure="Let no block of the cluster leave before the others have done: end with cluster.sync().",
    )


def cluster_fault(name: str, ins: Instruction, place: tuple[str, str], address: int) -> KernelFault:
    """Return the error for a fault by its name: stuck, cluster or gone; ``place`` is the thread and the line."""
    match name:
        case "stuck":
            return stuck(ins, *place)
        case "cluster":
            return disordered(ins, *place)
    return departed(ins, rank_of(address), *place)
