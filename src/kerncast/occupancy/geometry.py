"""How large the caches are that a kernel finds on a GPU, and what they hold.

Since Volta, L1 and shared memory divide one memory of the SM, and the driver chooses where for each kernel.
Source: CUDA C++ Programming Guide, shared memory of compute capability 7.x to 9.0: the driver avoids that shared
memory limits occupancy; NVIDIA does not publish how it chooses. ``carveout.py`` says what is taken.
Fails when: the program states a wish (cudaFuncAttributePreferredSharedMemoryCarveout), or the driver leaves room
for more blocks: of 42 choices recorded in ``tests/unit/test_cache_geometry.py``, 4 are the next larger size.
"""

from dataclasses import dataclass

from kerncast.errors import LaunchError, MissingEvidenceError
from kerncast.gpu import GPU, Architecture, default_bytes
from kerncast.traces import LINE_BYTES, Operation

#: Bytes of a sector: what L1 asks of L2, on every GPU since Kepler.
SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """The caches of one GPU as one kernel finds them; the flags are those of the compiler's default operators."""

    l1_bytes: int | None
    """of one SM; None where unknown"""
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
    """of one SM, where read-only loads have a cache of their own; None: they use L1"""
    writes_back_early: bool = False
    """whether L2 writes dirty sectors to DRAM before it needs their place; False where unknown"""
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
