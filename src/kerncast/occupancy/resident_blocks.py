"""Whether a GPU can run a launch at all: what its kernel declares, and what a block may take of an SM."""

import math
from dataclasses import dataclass
from enum import StrEnum

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import DoesNotFitError, LaunchError, MissingEvidenceError
from kerncast.gpu import GPU, WARP_SIZE, Architecture, default_bytes, granted_bytes
from kerncast.launch import Extent, Launch
from kerncast.profiles import KernelProfile, Resources
from kerncast.remembered import remembered
from kerncast.traces import LINE_BYTES, Operation

# How many blocks of a kernel an SM holds at once: exact, and equal to NVIDIA's own calculator.
#
# Source: CUDA C++ Programming Guide, technical specifications. The rounding is that of cuda_occupancy.h, which
# ``tests/unit/test_occupancy_header.py`` executes beside this. Two differences are on purpose: 63 registers per
# thread on compute capability 3.0 and 255 from 7.0 on, where the header lets 255 and 256 pass. Partitioned global
# caching (5.2 to 6.2, off by default) is taken to be off.


class Limiter(StrEnum):
    """The resources that can keep one more block from an SM."""

    WARPS = "warps"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared_memory"
    BLOCKS = "blocks"
    BARRIERS = "barriers"
    NONE_FITS = "none-fits"
    """not even one block can run"""


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """The resources that one block of a kernel needs."""

    threads: int
    registers_per_thread: int
    static_shared_bytes: int = 0
    """bytes that the source declares, without those that the system reserves"""
    dynamic_shared_bytes: int = 0
    """bytes that the launch asks for; the kernel is taken to have opted in"""
    barriers: int = 1

    def __post_init__(self) -> None:
        for name in self.__slots__:
            least = 1 if name == "threads" else 0
            if getattr(self, name) < least:
                raise LaunchError(f"{name} is {getattr(self, name)}", cure=f"Give at least {least}.")

    @property
    def warps(self) -> int:
        """Number of warps; the last may be partly empty."""
        return _divide_up(self.threads, WARP_SIZE)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True, slots=True)
class Limit:
    """The number of blocks that one resource of an SM suffices for."""

    limiter: Limiter
    blocks: int | None
    """number of blocks; None where they do not use the resource"""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The blocks and warps resident on one SM, and the resource that limits them."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    """resident warps over the most that the SM can hold, 0 to 1"""
    limiter: Limiter
    limits: tuple[Limit, ...]
    """one limit per resource; the first of the smallest decides"""

    def limit(self, limiter: Limiter) -> int | None:
        """Return how many blocks one resource suffices for; None when it does not limit."""
        return next((limit.blocks for limit in self.limits if limit.limiter is limiter), None)


@remembered(256)
def occupancy(request: BlockRequest, architecture: Architecture, preferred_bytes: int | None = None) -> Occupancy:
    """Return how many blocks of this kind are resident on one SM.

    ``preferred_bytes`` is the carve-out that the program wishes for (``carveout.preferred_bytes``), None without one.

    256 threads of 40 registers on 7.0: 40 x 32 = 1280 registers per warp, 65536 / 4 / 1280 = 12 warps in each
    of 4 sub-partitions, 48 warps, 6 blocks of 8 warps:

    >>> from kerncast.gpu.gpu import load_gpu
    >>> found = occupancy(BlockRequest(256, 40), load_gpu("titan-v").architecture)
    >>> found.blocks_per_sm, found.fraction, found.limiter.value
    (6, 0.75, 'registers')
    """
    limits = (
        Limit(Limiter.WARPS, _warps_limit(request, architecture)),
        Limit(Limiter.REGISTERS, _registers_limit(request, architecture)),
        Limit(Limiter.SHARED_MEMORY, _shared_limit(request, architecture, preferred_bytes)),
        Limit(Limiter.BLOCKS, architecture.max_blocks_per_sm),
        Limit(Limiter.BARRIERS, _barriers_limit(request, architecture)),
    )
    blocks, limiter = min(
        ((limit.blocks, limit.limiter) for limit in limits if limit.blocks is not None),
        key=lambda pair: pair[0],
    )
    warps = blocks * request.warps
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=warps,
        fraction=warps / architecture.max_warps_per_sm,
        limiter=limiter if blocks else Limiter.NONE_FITS,
        limits=limits,
    )


def block_request(threads: int, resources: Resources, shared_bytes: int) -> BlockRequest:
    """Return what one block of a compiled kernel asks of an SM; ``shared_bytes`` is the dynamic part."""
    return BlockRequest(
        threads=threads,
        registers_per_thread=resources.registers_per_thread,
        static_shared_bytes=resources.static_shared_bytes,
        dynamic_shared_bytes=shared_bytes,
        barriers=resources.barriers or 0,
    )


@remembered(8)
def block_request_of(found: KernelProfile) -> BlockRequest | None:
    """Return what one block asks of an SM, or None where the kernel's resources are unknown."""
    if found.resources is None:
        return None
    return block_request(math.prod(found.block), found.resources, found.shared_bytes)


def allocated_shared_bytes(request: BlockRequest, a: Architecture) -> int:
    """Return the shared memory that one block takes of an SM: with what the system reserves, rounded up."""
    return _round_up(request.shared_bytes + a.reserved_shared_bytes_per_block, a.shared_allocation_bytes)


def allocated_registers(request: BlockRequest, a: Architecture) -> int:
    """Return the registers that one block takes of an SM: those of its warps, each rounded up."""
    return _registers_per_warp(request, a) * request.warps


def why_not(request: BlockRequest, architecture: Architecture) -> str | None:
    """Return why not even one block can run on this architecture, with numbers; None when one can."""
    a, r = architecture, request
    registers = _assumed_registers(r, a)
    reasons = []
    if r.threads > a.max_threads_per_block:
        reasons.append(f"a block has {r.threads} threads, over the {a.max_threads_per_block} allowed")
    if r.registers_per_thread > a.max_registers_per_thread:
        reasons.append(
            f"a thread has {r.registers_per_thread} registers, over the {a.max_registers_per_thread} allowed"
        )
    if registers > a.max_registers_per_block:
        reasons.append(
            f"{r.threads} threads x {r.registers_per_thread} registers take {registers} registers when"
            f" rounded up, over the {a.max_registers_per_block} of a block"
        )
    if r.shared_bytes > a.shared_bytes_per_block_optin:
        reasons.append(
            f"a block has {r.shared_bytes} bytes of shared memory ({r.static_shared_bytes} static,"
            f" {r.dynamic_shared_bytes} dynamic), over the {a.shared_bytes_per_block_optin} allowed"
        )
    if a.barriers_per_sm is not None and r.barriers > a.barriers_per_sm:
        reasons.append(f"a block has {r.barriers} barriers, over the {a.barriers_per_sm} of an SM")
    return f"compute capability {a.compute_capability}: {'; '.join(reasons)}" if reasons else None


def sm_limits(a: Architecture) -> tuple[object, ...]:
    """Return all that occupancy asks of an architecture: equal for those on which every block has the same answer."""
    return (
        a.max_threads_per_sm, a.max_threads_per_block, a.max_blocks_per_sm, a.barriers_per_sm, a.schedulers_per_sm,
        a.registers_per_sm, a.max_registers_per_block, a.max_registers_per_thread, a.register_allocation_unit,
        a.warp_allocation_granularity, a.shared_bytes_per_sm, a.shared_bytes_per_block_optin,
        a.reserved_shared_bytes_per_block, a.shared_allocation_bytes, a.shared_carveouts_bytes,
        a.heeds_carveout_percent,
    )  # fmt: skip


def _warps_limit(request: BlockRequest, a: Architecture) -> int:
    if request.threads > a.max_threads_per_block:
        return 0
    return a.max_warps_per_sm // request.warps


def _registers_limit(request: BlockRequest, a: Architecture) -> int | None:
    if request.registers_per_thread > a.max_registers_per_thread:
        return 0
    if _assumed_registers(request, a) > a.max_registers_per_block:
        return 0
    per_warp = _registers_per_warp(request, a)
    if per_warp == 0:
        return None
    # A warp's registers lie in one sub-partition, so each sub-partition holds whole warps only.
    warps = a.registers_per_sm // a.schedulers_per_sm // per_warp * a.schedulers_per_sm
    return warps // request.warps


def _registers_per_warp(request: BlockRequest, a: Architecture) -> int:
    return _round_up(request.registers_per_thread * WARP_SIZE, a.register_allocation_unit)


def _assumed_registers(request: BlockRequest, a: Architecture) -> int:
    """Registers that the hardware's check of one block counts: as if all sub-partitions got equal warps."""
    return _registers_per_warp(request, a) * _round_up(request.warps, a.warp_allocation_granularity)


def _shared_limit(request: BlockRequest, a: Architecture, preferred_bytes: int | None) -> int | None:
    if request.shared_bytes > a.shared_bytes_per_block_optin:
        return 0
    taken = allocated_shared_bytes(request, a)
    return granted_bytes(a, preferred_bytes, taken) // taken if taken else None


def _barriers_limit(request: BlockRequest, a: Architecture) -> int | None:
    if a.barriers_per_sm is None or request.barriers == 0:
        return None
    return a.barriers_per_sm // request.barriers


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _round_up(number: int, unit: int) -> int:
    return _divide_up(number, unit) * unit


def check_can_run(launch: Launch, resources: Resources, gpu: GPU) -> None:
    """Raise DoesNotFitError for a launch that a GPU cannot run, with the limit by name."""
    request = block_request(launch.threads_per_block, resources, launch.shared_bytes)
    reason = _undeclared(launch.grid, launch.block, resources) or _why_not(request, resources, gpu)
    if reason is not None:
        raise DoesNotFitError(f"this launch cannot run on {gpu.name}: {reason}", cure="Change the launch.")


def check_fits(found: KernelProfile, gpu: GPU, *, force: bool | None) -> tuple[Caveat, ...]:
    """Raise DoesNotFitError for a launch that a GPU cannot run; where it is forced, return that as a caveat instead.

    ``force`` is None where nobody can ask for that.
    """
    request, resources = block_request_of(found), found.resources
    if request is None or resources is None:
        return ()
    reason = _undeclared(found.grid, found.block, resources) or _why_not(request, resources, gpu)
    if reason is None:
        return ()
    if not force:
        cure = "Change the launch." if force is None else "Change the launch, or use --force."
        raise DoesNotFitError(f"this launch cannot run on {gpu.name}: {reason}", cure=cure)
    return (Caveat.of(CaveatKind.FORCED, gpu.name, reason=reason),)


def _undeclared(grid: Extent, block: Extent, resources: Resources) -> str | None:
    """Return why a launch does not fit what the kernel declares of its block and of its cluster."""
    needed, cluster = resources.required_block, resources.cluster_blocks
    if needed is not None:
        # With __block_size__ the grid counts clusters, so that any fits.
        return None if block == needed else f"the block is {list(block)}, not the {list(needed)} of its __block_size__"
    if cluster is None or all(size % part == 0 for size, part in zip(grid, cluster, strict=True)):
        return None
    return f"the grid {list(grid)} is not a multiple of the {list(cluster)} of the kernel's __cluster_dims__"


def _why_not(request: BlockRequest, resources: Resources, gpu: GPU) -> str | None:
    """Return why a GPU cannot run a block, or None where it can."""
    limit = resources.max_threads_per_block
    if limit and request.threads > limit:
        return f"a block has {request.threads} threads, over the {limit} of the kernel's __launch_bounds__"
    return why_not(request, gpu.architecture)


# How large the caches are that a kernel finds on a GPU, and what they hold.
#
# Since Volta, L1 and shared memory divide one memory of the SM, and the driver chooses where for each kernel.
# Source: CUDA C++ Programming Guide, shared memory of compute capability 7.x to 9.0: the driver avoids that shared
# memory limits occupancy; NVIDIA does not publish how it chooses. ``carveout.py`` says what is taken.
# Fails when: the program states a wish (cudaFuncAttributePreferredSharedMemoryCarveout), or the driver leaves room
# for more blocks: of 42 choices recorded in ``tests/unit/test_cache_geometry.py``, 4 are the next larger size.


#: Bytes of a sector: what L1 asks of L2, on every GPU since Kepler.
SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """The caches of one GPU as one kernel finds them; the flags are those of the compiler's default operators."""

    l1_bytes: int | None
    """L1 of one SM; None where unknown"""
    l2_bytes: int
    caches_global: bool
    """whether ordinary global loads are cached in L1"""
    caches_read_only: bool
    """whether loads by ld.global.nc are cached in the SM"""
    caches_local: bool
    stores_allocate: bool
    """whether a global store that misses L1 puts its data there"""
    l2_fetch_bytes: int
    """aligned bytes that L2 reads from DRAM when a sector misses: one sector where unknown"""
    resident: int
    """blocks on one SM at once"""
    sms: int
    read_only_bytes: int | None = None
    """size of the SM's own cache for read-only loads; None where they use L1"""
    writes_back_early: bool = False
    """whether L2 writes dirty sectors to DRAM before it needs their place; False where unknown"""
    fills_sectors: bool = False
    """whether L2 reads what it lacks of a sector before it writes it to DRAM; False where unknown"""
    instruction_bytes: int | None = None
    """code that one SM holds; None where unknown"""
    l2_partitions: int = 1
    """parts of L2 that each hold what their own SMs read: 1 where unknown"""


def cache_geometry(gpu: GPU, resident_blocks: int, shared_bytes_per_block: int) -> CacheGeometry:
    """Return the caches that a kernel finds, by its resident blocks per SM and the static and dynamic shared memory.

    A V100 without shared memory in use: all 128 KiB are L1; two blocks of 20 KiB leave 64:

    >>> from kerncast.gpu.gpu import load_gpu
    >>> volta = load_gpu("v100-pcie-16gb")
    >>> [cache_geometry(volta, 2, shared).l1_bytes // 1024 for shared in (0, 20 * 1024)]
    [128, 64]
    """
    a = gpu.architecture
    if gpu.l2_bytes is None:
        raise MissingEvidenceError("the size of L2 is unknown", where=gpu.name, cure="Give peak.l2_kib in its file.")
    carveout = default_bytes(a, _shared_bytes_in_use(a, resident_blocks, shared_bytes_per_block))
    from_shared = None if a.l1_and_shared_bytes is None or carveout is None else a.l1_and_shared_bytes - carveout
    return CacheGeometry(
        l1_bytes=from_shared if a.l1_bytes is None else a.l1_bytes,
        l2_bytes=gpu.l2_bytes,
        caches_global=a.caches_global_loads_in_l1,
        caches_read_only=a.caches_read_only_loads_in_l1,
        caches_local=a.caches_local_in_l1,
        stores_allocate=a.stores_allocate_in_l1,
        l2_fetch_bytes=a.l2_fetch_bytes or SECTOR_BYTES,
        resident=resident_blocks,
        sms=gpu.sm_count,
        read_only_bytes=a.read_only_cache_bytes,
        writes_back_early=bool(a.l2_writes_back_early),
        fills_sectors=bool(a.l2_fills_sectors),
        instruction_bytes=a.instruction_cache_bytes,
        l2_partitions=gpu.l2_partitions or 1,
    )


def l1_operations(geometry: CacheGeometry) -> int:
    """Return one bit for each operation that concerns L1."""
    has_l1 = (geometry.l1_bytes or 0) >= LINE_BYTES
    read_only = geometry.l1_bytes if geometry.read_only_bytes is None else geometry.read_only_bytes
    used = {
        Operation.LOAD: has_l1 and geometry.caches_global,
        Operation.LOAD_READ_ONLY: (read_only or 0) >= LINE_BYTES and geometry.caches_read_only,
        Operation.LOCAL_LOAD: has_l1 and geometry.caches_local,
        Operation.LOCAL_STORE: has_l1 and geometry.caches_local,
        Operation.STORE: has_l1, Operation.ATOMIC: has_l1, Operation.REDUCTION: has_l1,
    }  # fmt: skip
    return sum(1 << operation for operation, is_used in used.items() if is_used)


def _shared_bytes_in_use(a: Architecture, resident_blocks: int, shared_bytes_per_block: int) -> int:
    """Return the shared memory that the resident blocks of an SM take, rounded as for occupancy."""
    if resident_blocks < 1 or shared_bytes_per_block < 0:
        raise LaunchError(
            f"{resident_blocks} resident blocks of {shared_bytes_per_block} bytes of shared memory",
            cure="Give at least 1 block and 0 bytes.",
        )
    unit = a.shared_allocation_bytes
    per_block = -(-(shared_bytes_per_block + a.reserved_shared_bytes_per_block) // unit) * unit
    if resident_blocks * per_block > a.shared_bytes_per_sm:
        raise LaunchError(
            f"{resident_blocks} blocks take {per_block} bytes of shared memory each,"
            f" over the {a.shared_bytes_per_sm} of an SM",
            where=f"compute capability {a.compute_capability}",
            cure="Give the resident blocks as occupancy counts them.",
        )
    return resident_blocks * per_block
