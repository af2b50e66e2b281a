"""NOUN KernelProfile: what one launch does, and where each number comes from.

A profile is what every model reads. Unknown is None, never 0; a model that needs an unknown value refuses.
"""

from dataclasses import dataclass
from enum import StrEnum

from kerncast.launch import Extent

#: What global memory moves in: the least that a request takes from L2 and DRAM, on every GPU from Kepler on.
SECTOR_BYTES = 32


class Origin(StrEnum):
    """Where a number comes from."""

    EXECUTED = "executed"
    """counted while the kernel's PTX ran on the CPU"""
    COMPILED = "compiled"
    """read from the compiler's output"""
    DECLARED = "declared"
    """stated by the user"""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of events in the whole launch; low and high enclose it where it was scaled from a sample."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Count":
        """Return a count that is known without sampling."""
        return cls(value, value, value)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> "Count":
        """Return the count multiplied by a factor that is at least 0."""
        return Count(self.value * factor, self.low * factor, self.high * factor)

    @property
    def is_exact(self) -> bool:
        """Whether the whole grid was counted."""
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread or block of the compiled kernel occupies on one architecture."""

    architecture: str
    """such as sm_70: registers and spills differ between architectures"""
    registers_per_thread: int
    static_shared_bytes: int
    """per block, as the user declared it"""
    local_bytes_per_thread: int
    """stack frame"""
    spill_store_bytes: int
    """per thread, static"""
    spill_load_bytes: int
    code_bytes: int
    barriers: int | None
    max_threads_per_block: int | None
    """from __launch_bounds__; None when the source sets none"""


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic of the whole launch, in thread-level operations."""

    origin: Origin
    fp32_flops: Count | None
    """add, subtract, multiply = 1, fused multiply-add = 2"""
    fp64_flops: Count | None
    fp16_flops: Count | None
    """half and bfloat16; a packed instruction counts for both halves"""
    special_ops: Count | None
    """division, reciprocal, square root, exponential, logarithm, sine, cosine, hyperbolic tangent"""
    integer_ops: Count | None
    """integer and bit arithmetic; a multiply-add is one, as the lanes take it"""
    control_ops: Count | None
    """branches, barriers, returns, votes"""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Memory accesses of the whole launch."""

    origin: Origin
    global_load_requests: Count | None
    """warp-level instructions with at least one active lane"""
    global_store_requests: Count | None
    global_load_sectors: Count | None
    """distinct 32-byte sectors per request, summed"""
    global_store_sectors: Count | None
    global_bytes_requested: Count | None
    """bytes that the threads ask for, loads, stores and atomics: an upper bound of useful traffic"""
    global_bytes_touched: Count | None
    """distinct sectors x 32 over the whole launch: the working set"""
    dram_bytes: Count | None
    """DRAM traffic with cold caches: every sector read once and written once; high is with no cache at all"""
    shared_requests: Count | None
    atomic_operations: Count | None
    """thread-level atomics and reductions in global and shared memory"""
    local_bytes: Count | None
    """thread-private memory: spills and arrays"""


@dataclass(frozen=True, slots=True)
class KindCount:
    """How often instructions of one kind ran."""

    kind: str
    """root and type of the PTX instruction, such as fma.f32"""
    warp_instructions: Count
    thread_instructions: Count


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """Dynamic PTX instructions of the whole launch."""

    origin: Origin
    warp_instructions: Count
    thread_instructions: Count
    kinds: tuple[KindCount, ...]
    """every kind that ran, most frequent first"""
    barriers: Count
    """warp-level arrivals"""
    divergent_branches: Count

    @property
    def active_lanes(self) -> float:
        """Mean number of active threads per warp instruction, 0 to 32."""
        issued = self.warp_instructions.value
        return self.thread_instructions.value / issued if issued else 0.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much of the grid was executed."""

    blocks_executed: int
    blocks: int

    @property
    def is_whole_grid(self) -> bool:
        """Whether every block ran, so that counts are exact."""
        return self.blocks_executed == self.blocks


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One launch of one kernel: geometry, resources, work, traffic and mix, each with its origin."""

    kernel: str
    index: int
    """zero-based place of the launch in its file"""
    grid: Extent
    block: Extent
    shared_bytes: int
    """dynamic shared memory per block"""
    resources: Resources | None
    work: Work
    traffic: Traffic
    mix: InstructionMix | None
    sampling: Sampling | None
    caveats: tuple[str, ...] = ()
