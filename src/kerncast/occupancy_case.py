"""NOUN OccupancyCase: one kernel's block on one GPU, and everything that is asked of its occupancy."""

from dataclasses import dataclass

from kerncast.architecture import Architecture
from kerncast.carveout import CarveoutWish, preferred_bytes
from kerncast.gpu import GPU
from kerncast.occupancy import (
    BlockRequest,
    Limiter,
    Occupancy,
    allocated_registers,
    allocated_shared_bytes,
    occupancy,
    why_not,
)
from kerncast.occupancy_advice import (
    BlockSize,
    Carveout,
    OneMore,
    best_block_size,
    carveout_of,
    next_block_sizes,
    one_more_block,
)
from kerncast.occupancy_curves import Curve, occupancy_curves


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What the resident blocks use of one resource of an SM."""

    limiter: Limiter
    per_block: int
    per_sm: int
    """what the SM has; of shared memory at the carve-out that it can have for these blocks"""
    used: int


@dataclass(frozen=True, slots=True)
class OccupancyCase:
    """One kernel's block on one GPU, or on any with a compute capability."""

    request: BlockRequest
    architecture: Architecture
    gpu: GPU | None = None
    """None where only a compute capability is asked about"""
    kernel: str | None = None
    launch: int | None = None
    most_threads: int | None = None
    """of a block, by the kernel's __launch_bounds__"""
    wish: CarveoutWish | None = None
    caveats: tuple[str, ...] = ()
    """how the kernel was compiled, where that was not for this architecture"""

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
        """What to change for one block more."""
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
        """How L1 and shared memory are divided."""
        return carveout_of(self.request, self.architecture, self.preferred_bytes)

    @property
    def curves(self) -> tuple[Curve, ...]:
        """What-if curves through this block."""
        return occupancy_curves(self.request, self.architecture, self.preferred_bytes)

    @property
    def uses(self) -> tuple[ResourceUse, ...]:
        """What the resident blocks use of an SM, in the order of the limits."""
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
