"""What one would change so that an SM holds more of a kernel: one block more, another block size.

Each answer is asked of ``occupancy`` or of one of its limits, so that it holds where they hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kerncast.architecture import WARP_SIZE, Architecture
from kerncast.carveout import default_bytes, granted_bytes
from kerncast.occupancy import BlockRequest, Limiter, allocated_shared_bytes, occupancy


@dataclass(frozen=True, slots=True)
class Change:
    """What a block takes of one resource, and the most that it may take."""

    limiter: Limiter
    """warps: threads of a block; registers: those of a thread; shared_memory: bytes of a block; barriers: of a block"""
    now: int
    at_most: int


@dataclass(frozen=True, slots=True)
class OneMore:
    """What has to change, all of it together, so that an SM holds a number of blocks."""

    blocks_per_sm: int
    changes: tuple[Change, ...]
    carveout_bytes: int | None = None
    """a carve-out that would do without a change of shared memory; None where that is not what is missing"""


@dataclass(frozen=True, slots=True)
class BlockSize:
    """A number of threads, and how many blocks and warps of that size an SM holds."""

    threads: int
    blocks_per_sm: int
    warps_per_sm: int


@dataclass(frozen=True, slots=True)
class Carveout:
    """How L1 and shared memory divide their memory where as many blocks are resident as fit."""

    shared_bytes: int
    l1_bytes: int | None
    """None where unknown"""
    is_preferred: bool
    """whether the program wished for it; else the driver's choice, as far as it is known"""


def one_more_block(request: BlockRequest, a: Architecture, preferred_bytes: int | None = None) -> OneMore | None:
    """Return the least changes with which an SM holds one more block; None where no change of a resource does that.

    256 threads of 40 registers on 7.0: 7 blocks are 56 warps, 14 in each sub-partition, and 16384 / 14 = 1170 registers
    per warp are 4 units of 256, 32 registers per thread:

    >>> from kerncast.architecture import load_architecture
    >>> [(each.now, each.at_most) for each in one_more_block(BlockRequest(256, 40), load_architecture("sm_70")).changes]
    [(40, 32)]
    """
    wanted = occupancy(request, a, preferred_bytes).blocks_per_sm + 1
    if wanted > a.max_blocks_per_sm:
        return None
    changed, changes = request, []
    for limiter in (Limiter.WARPS, Limiter.REGISTERS, Limiter.SHARED_MEMORY, Limiter.BARRIERS):
        now = _taken(request, limiter)
        for at_most in (now, *_less(changed, a, limiter)):
            less = _with_taken(changed, limiter, at_most)
            limit = occupancy(less, a, preferred_bytes).limit(limiter)
            if limit is None or limit >= wanted:
                break
        else:
            return None
        if at_most < now:
            changes.append(Change(limiter, now, at_most))
            changed = less
    is_short = any(change.limiter is Limiter.SHARED_MEMORY for change in changes)
    return OneMore(wanted, tuple(changes), _larger_carveout(request, a, preferred_bytes, wanted) if is_short else None)


def best_block_size(
    request: BlockRequest, a: Architecture, preferred_bytes: int | None = None, most_threads: int | None = None
) -> BlockSize | None:
    """Return the block size with most resident threads, the largest of several; None where none fits.

    Dynamic shared memory stays as it is. ``most_threads`` is the kernel's own limit, by __launch_bounds__.
    Source: cudaOccupancyMaxPotentialBlockSize.
    """
    most = min(most_threads or a.max_threads_per_block, a.max_threads_per_block)
    found = [_sized(request, a, preferred_bytes, min(threads, most)) for threads in _warp_multiples(most)]
    best = max(found, key=lambda size: (size.threads * size.blocks_per_sm, size.threads))
    return best if best.blocks_per_sm else None


def next_block_sizes(
    request: BlockRequest, a: Architecture, preferred_bytes: int | None = None, most_threads: int | None = None
) -> tuple[BlockSize | None, BlockSize | None]:
    """Return the next smaller and the next larger block size with more resident warps; None where there is none."""
    most = min(most_threads or a.max_threads_per_block, a.max_threads_per_block)
    now = _sized(request, a, preferred_bytes, request.threads)
    sizes = [_sized(request, a, preferred_bytes, min(threads, most)) for threads in _warp_multiples(most)]
    better = [size for size in sizes if size.warps_per_sm > now.warps_per_sm]
    smaller = [size for size in better if size.threads < request.threads]
    larger = [size for size in better if size.threads > request.threads]
    return smaller[-1] if smaller else None, larger[0] if larger else None


def carveout_of(request: BlockRequest, a: Architecture, preferred_bytes: int | None = None) -> Carveout | None:
    """Return how L1 and shared memory are divided; None where the SM has no choice, or no block fits."""
    resident = occupancy(request, a, preferred_bytes).blocks_per_sm
    if a.shared_carveouts_bytes is None or not resident:
        return None
    needed = allocated_shared_bytes(request, a)
    wished = None if preferred_bytes is None else granted_bytes(a, preferred_bytes, needed)
    shared = default_bytes(a, resident * needed) if wished is None else wished
    assert shared is not None
    l1 = None if a.l1_and_shared_bytes is None else a.l1_and_shared_bytes - shared
    return Carveout(shared, l1, shared == preferred_bytes)


def with_shared_bytes(request: BlockRequest, shared_bytes: int) -> BlockRequest:
    """Return a block with another total of shared memory; its static part shrinks only where the total is below it."""
    static = min(request.static_shared_bytes, shared_bytes)
    return replace(request, static_shared_bytes=static, dynamic_shared_bytes=shared_bytes - static)


def _taken(request: BlockRequest, limiter: Limiter) -> int:
    """Return what a block takes of a resource."""
    return {
        Limiter.WARPS: request.threads,
        Limiter.REGISTERS: request.registers_per_thread,
        Limiter.SHARED_MEMORY: request.shared_bytes,
        Limiter.BARRIERS: request.barriers,
    }[limiter]


def _less(request: BlockRequest, a: Architecture, limiter: Limiter) -> Iterable[int]:
    """Return what a block could take instead, from the most on, but for numbers that round up to the one before."""
    # All are tried: with a carve-out on Kepler, a smaller block can get the smaller part of the memory, and fewer fit.
    now, unit = _taken(request, limiter), a.shared_allocation_bytes
    if limiter is Limiter.WARPS:
        return range(min((now - 1) // WARP_SIZE * WARP_SIZE, a.max_threads_per_block), 0, -WARP_SIZE)
    if limiter is Limiter.REGISTERS:
        return range(min(now - 1, a.max_registers_per_thread), 0, -1)
    if limiter is Limiter.BARRIERS:
        return range(min(now - 1, a.barriers_per_sm or 0), -1, -1)
    reserved = a.reserved_shared_bytes_per_block
    most = min(now - 1, a.shared_bytes_per_block_optin) + reserved
    return range(most // unit * unit - reserved, -1, -unit)


def _with_taken(request: BlockRequest, limiter: Limiter, taken: int) -> BlockRequest:
    if limiter is Limiter.SHARED_MEMORY:
        return with_shared_bytes(request, taken)
    names = {Limiter.WARPS: "threads", Limiter.REGISTERS: "registers_per_thread", Limiter.BARRIERS: "barriers"}
    return replace(request, **{names[limiter]: taken})


def _larger_carveout(request: BlockRequest, a: Architecture, preferred_bytes: int | None, wanted: int) -> int | None:
    if preferred_bytes is None or a.shared_carveouts_bytes is None:
        return None
    for size in a.shared_carveouts_bytes:
        limit = occupancy(request, a, size).limit(Limiter.SHARED_MEMORY)
        if size >= preferred_bytes and (limit is None or limit >= wanted):
            return size
    return None  # what a block asks for is beyond all of them, or beyond what one block may have


def _sized(request: BlockRequest, a: Architecture, preferred_bytes: int | None, threads: int) -> BlockSize:
    found = occupancy(replace(request, threads=threads), a, preferred_bytes)
    return BlockSize(threads, found.blocks_per_sm, found.warps_per_sm)


def _warp_multiples(most: int) -> range:
    return range(WARP_SIZE, most + WARP_SIZE, WARP_SIZE)
