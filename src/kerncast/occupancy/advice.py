"""NOUN OccupancyCase: the occupancy of one block on one GPU, what would hold one more block, and what-if curves."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from kerncast.caveats import Caveat
from kerncast.gpu import GPU, WARP_SIZE, Architecture, CarveoutWish, default_bytes, granted_bytes, preferred_bytes
from kerncast.occupancy.resident_blocks import (
    BlockRequest,
    Limiter,
    Occupancy,
    allocated_registers,
    allocated_shared_bytes,
    occupancy,
    why_not,
)
from kerncast.occupancy.resident_clusters import ResidentClusters, resident_clusters

# What one would change so that an SM holds more of a kernel: one block more, another block size.
#
# Each answer is asked of ``occupancy`` or of one of its limits, so that it holds where they hold.


@dataclass(frozen=True, slots=True)
class Change:
    """The use of one resource by a block, and the most that it may use."""

    limiter: Limiter
    """resource: threads of a block (warps), registers of a thread, bytes of a block, or barriers of a block"""
    now: int
    at_most: int


@dataclass(frozen=True, slots=True)
class OneMore:
    """The changes, all of them together, with which an SM holds a number of blocks."""

    blocks_per_sm: int
    changes: tuple[Change, ...]
    carveout_bytes: int | None = None
    """carve-out that suffices without less shared memory; None where shared memory is not what is missing"""


@dataclass(frozen=True, slots=True)
class BlockSize:
    """A number of threads, and how many blocks and warps of that size an SM holds."""

    threads: int
    blocks_per_sm: int
    warps_per_sm: int


@dataclass(frozen=True, slots=True)
class Carveout:
    """The division of memory between L1 and shared memory where as many blocks are resident as fit."""

    shared_bytes: int
    l1_bytes: int | None
    """size of L1; None where unknown"""
    is_preferred: bool
    """whether the program asked for the carve-out; else it is the driver's choice, as far as known"""


def one_more_block(request: BlockRequest, a: Architecture, preferred_bytes: int | None = None) -> OneMore | None:
    """Return the least changes with which an SM holds one more block; None where no change of a resource does that.

    256 threads of 40 registers on 7.0: 7 blocks are 56 warps, 14 in each sub-partition, and 16384 / 14 = 1170 registers
    per warp are 4 units of 256, 32 registers per thread:

    >>> from kerncast.gpu.gpu import load_architecture
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


# What-if curves: occupancy against block size, registers per thread and shared memory per block.
#
# Each step of a curve is an answer of ``occupancy``; between its first and its last value nothing changes.


class Parameter(StrEnum):
    """The parameter that a curve varies; the others stay as the block has them."""

    THREADS = "threads_per_block"
    REGISTERS = "registers_per_thread"
    SHARED = "shared_bytes_per_block"


@dataclass(frozen=True, slots=True)
class Step:
    """A range of values with one answer."""

    first: int
    last: int
    """last value of the range, both ends included"""
    found: Occupancy


@dataclass(frozen=True, slots=True)
class Curve:
    """Occupancy against one parameter, from the least value to the most that a block may have."""

    parameter: Parameter
    own: int
    """value of the block itself, which may be beyond the last step"""
    steps: tuple[Step, ...]


def occupancy_curves(request: BlockRequest, a: Architecture, preferred_bytes: int | None = None) -> tuple[Curve, ...]:
    """Return three curves through one block. Where not even one fits, a step has 0 blocks and the limiter none-fits.

    With 40 registers per thread on 7.0, a block of 256 threads could have 32 without losing warps:

    >>> from kerncast.gpu.gpu import load_architecture
    >>> _, registers, _ = occupancy_curves(BlockRequest(256, 40), load_architecture("sm_70"))
    >>> [(step.last, step.found.warps_per_sm) for step in registers.steps[:3]]
    [(32, 64), (40, 48), (48, 40)]
    """
    ends = (
        (Parameter.THREADS, 1, (*range(WARP_SIZE, a.max_threads_per_block, WARP_SIZE), a.max_threads_per_block)),
        (Parameter.REGISTERS, 0, range(a.max_registers_per_thread + 1)),
        (Parameter.SHARED, 0, _shared_ends(a, preferred_bytes)),
    )
    return tuple(
        Curve(
            parameter,
            value_of(request, parameter),
            _merged(first, ((last, occupancy(varied(request, parameter, last), a, preferred_bytes)) for last in lasts)),
        )
        for parameter, first, lasts in ends
    )


def value_of(request: BlockRequest, parameter: Parameter) -> int:
    """Return what a block has of a parameter."""
    return {
        Parameter.THREADS: request.threads,
        Parameter.REGISTERS: request.registers_per_thread,
        Parameter.SHARED: request.shared_bytes,
    }[parameter]


def varied(request: BlockRequest, parameter: Parameter, value: int) -> BlockRequest:
    """Return the block with another value of one parameter."""
    if parameter is Parameter.SHARED:
        return with_shared_bytes(request, value)
    if parameter is Parameter.THREADS:
        return replace(request, threads=value)
    return replace(request, registers_per_thread=value)


def _shared_ends(a: Architecture, preferred_bytes: int | None) -> list[int]:
    """Return all totals of a block beyond which fewer blocks share an SM's memory, whatever its carve-out."""
    unit, most = a.shared_allocation_bytes, a.shared_bytes_per_block_optin
    sizes = {a.shared_bytes_per_sm, *(() if preferred_bytes is None else a.shared_carveouts_bytes or ())}
    totals = {
        size // blocks // unit * unit - a.reserved_shared_bytes_per_block
        for size in sizes
        for blocks in range(1, a.max_blocks_per_sm + 2)  # with one more than that, shared memory is not what limits
    }
    return sorted({most, *(total for total in totals if 0 <= total < most)})


def _merged(first: int, answers: Iterable[tuple[int, Occupancy]]) -> tuple[Step, ...]:
    """Return steps of neighbouring values with equal answers; each answer holds from the last one's value on."""
    steps: list[Step] = []
    for last, found in answers:
        if steps and _shown(steps[-1].found) == _shown(found):
            steps[-1] = replace(steps[-1], last=last)
        else:
            steps.append(Step(steps[-1].last + 1 if steps else first, last, found))
    return tuple(steps)


def _shown(found: Occupancy) -> tuple[int, int, Limiter]:
    return found.blocks_per_sm, found.warps_per_sm, found.limiter


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The use of one resource of an SM by the resident blocks."""

    limiter: Limiter
    per_block: int
    per_sm: int
    """amount that the SM has; shared memory at the carve-out that these blocks can have"""
    used: int


@dataclass(frozen=True, slots=True)
class OccupancyCase:
    """One kernel's block on one GPU, or on any with a compute capability."""

    request: BlockRequest
    architecture: Architecture
    gpu: GPU | None = None
    """GPU of the case; None where only a compute capability is given"""
    kernel: str | None = None
    launch: int | None = None
    most_threads: int | None = None
    """most threads of a block by the kernel's __launch_bounds__; None without any"""
    wish: CarveoutWish | None = None
    caveats: tuple[Caveat, ...] = ()
    """caveats on compiling the kernel for another architecture than this"""
    cluster_blocks: int = 1
    """blocks of a cluster; 1 without clusters"""

    @property
    def clusters(self) -> ResidentClusters | None:
        """Clusters that the GPU holds at once; None without clusters, or without a GPU."""
        if self.cluster_blocks == 1 or self.gpu is None:
            return None
        return resident_clusters(self.found.blocks_per_sm, self.cluster_blocks, self.gpu)

    @property
    def name(self) -> str:
        """The name of the GPU."""
        return f"capability {self.architecture.compute_capability}" if self.gpu is None else self.gpu.name

    @property
    def preferred_bytes(self) -> int | None:
        """The carve-out that the wish selects; None without one, or where it is not heeded."""
        return None if self.wish is None else preferred_bytes(self.wish, self.architecture)

    @property
    def found(self) -> Occupancy:
        """Blocks and warps per SM."""
        return occupancy(self.request, self.architecture, self.preferred_bytes)

    @property
    def reason(self) -> str | None:
        """Why not even one block can run; None when one can."""
        return why_not(self.request, self.architecture)

    @property
    def one_more(self) -> OneMore | None:
        """Changes for one block more."""
        return one_more_block(self.request, self.architecture, self.preferred_bytes)

    @property
    def best(self) -> BlockSize | None:
        """The block size with most resident threads."""
        return best_block_size(self.request, self.architecture, self.preferred_bytes, self.most_threads)

    @property
    def next_sizes(self) -> tuple[BlockSize | None, BlockSize | None]:
        """The next smaller and larger block size with more resident warps."""
        return next_block_sizes(self.request, self.architecture, self.preferred_bytes, self.most_threads)

    @property
    def carveout(self) -> Carveout | None:
        """Division of memory between L1 and shared memory."""
        return carveout_of(self.request, self.architecture, self.preferred_bytes)

    @property
    def curves(self) -> tuple[Curve, ...]:
        """What-if curves through this block."""
        return occupancy_curves(self.request, self.architecture, self.preferred_bytes)

    @property
    def uses(self) -> tuple[ResourceUse, ...]:
        """Use of an SM by the resident blocks, in the order of the limits."""
        a, r, blocks = self.architecture, self.request, self.found.blocks_per_sm
        shared = allocated_shared_bytes(r, a)
        wished = self.preferred_bytes if self.carveout is None else self.carveout.shared_bytes
        shared_per_sm = a.shared_bytes_per_sm if self.preferred_bytes is None or wished is None else wished
        rows = [
            (Limiter.WARPS, r.warps, a.max_warps_per_sm),
            (Limiter.REGISTERS, allocated_registers(r, a), a.registers_per_sm),
            (Limiter.SHARED_MEMORY, shared, shared_per_sm),
            (Limiter.BLOCKS, 1, a.max_blocks_per_sm),
        ]
        if a.barriers_per_sm is not None:
            rows.append((Limiter.BARRIERS, r.barriers, a.barriers_per_sm))
        return tuple(ResourceUse(limiter, taken, has, blocks * taken) for limiter, taken, has in rows)
