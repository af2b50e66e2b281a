"""NOUN KernelProfile: what is known of one launch, each count with its origin and its range."""

import math
from dataclasses import dataclass, field

from kerncast.caveats import Caveat
from kerncast.gpu import GPU
from kerncast.launch import Extent, Settings
from kerncast.prediction import Timing
from kerncast.profiles.counts import FLOAT_OPERATIONS, Count, Counts, Origin, float_operation


@dataclass(frozen=True, slots=True)
class FloatMix:
    """Floating-point instructions of one precision in the whole launch, one per active thread."""

    bits: int
    """bits of the precision: 16, 32 or 64"""
    additions: Count
    """additions and subtractions"""
    multiplications: Count
    fused: Count
    """fused multiply-adds, which count as two operations each"""

    @property
    def flops(self) -> Count:
        """Floating-point operations."""
        return self.additions + self.multiplications + self.fused.times(2)

    @property
    def flops_value(self) -> float:
        """Floating-point operations without their bounds."""
        return self.additions.value + self.multiplications.value + 2 * self.fused.value

    @property
    def by_name(self) -> dict[str, Count]:
        """The three counts by their names."""
        counts = (self.additions, self.multiplications, self.fused)
        return {float_operation(self.bits, each): count for each, count in zip(FLOAT_OPERATIONS, counts, strict=True)}

    @classmethod
    def of(cls, bits: int, counts: Counts) -> "FloatMix | None":
        """Return what a table tells of one precision; None where one of the three is unknown."""
        known = [counts.get(float_operation(bits, each)) for each in FLOAT_OPERATIONS]
        found = [count for count in known if count is not None]
        return cls(bits, *found) if len(found) == len(known) else None


@dataclass(frozen=True, slots=True)
class StateSamples:
    """How often a profiler's samples met warps in one state."""

    state: str
    """warp state of Nsight Compute, such as long_scoreboard"""
    samples: float


@dataclass(frozen=True, slots=True)
class SampledLine:
    """One source line of a measured run, as a profiler saw it."""

    file: str
    """name of the file where the kernel was built; empty where the code names none"""
    line: int
    text: str
    """the line; empty where the profile does not hold it"""
    warp_instructions: float
    """machine instructions that warps issued for it"""
    states: tuple[StateSamples, ...]
    """states that occurred, the most frequent first"""
    sass: tuple[str, ...]
    """its machine instructions, in the order of their addresses"""

    @property
    def samples(self) -> float:
        """Samples in all states."""
        return sum(each.samples for each in self.states)


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A measured time, and what else a profiler told of the run."""

    gpu: GPU
    seconds: float
    timing: Timing
    """kind of time: a profiler gives the kernel's own duration"""
    achieved_occupancy: float | None = None
    """resident warps over the most that an SM holds, 0 to 1, mean over active cycles"""
    active_threads: float | None = None
    """active threads per warp instruction, 0 to 32"""
    clock_hz: float | None = None
    """clock of the SMs during the run"""
    not_in_profile: tuple[str, ...] = ()
    """names of counts that the profile lacks and the executor supplied"""
    settings: Settings = ()
    """a tuner's parameters that the kernel was compiled with"""
    lines: tuple[SampledLine, ...] = ()
    """source lines of the run, in the order of files and lines; empty where the profile has no counters of them"""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"{self.seconds} s is not a time")


@dataclass(frozen=True, slots=True)
class StateCycles:
    """The cycles of warps in one state."""

    state: str
    """warp state of Nsight Compute: selected, not_selected, wait, short_scoreboard, long_scoreboard, barrier,
    math_pipe_throttle, lg_throttle, mio_throttle, branch_resolving"""
    warp_cycles: float


@dataclass(frozen=True, slots=True)
class LineStates:
    """The cycles of warps by state at the instructions of one line of the user's source."""

    file: str
    line: int
    states: tuple[StateCycles, ...]
    """states that occurred, longest first"""

    @property
    def warp_cycles(self) -> float:
        """Cycles in all states."""
        return sum(each.warp_cycles for each in self.states)


@dataclass(frozen=True, slots=True)
class ResourceTime:
    """The time that one resource alone would need for the whole launch."""

    resource: str
    share: float
    """share of the launch's time; near 1, the resource decides"""


@dataclass(frozen=True, slots=True)
class WarpStates:
    """The states of the warps of one SM of a GPU, from a simulation of some of its blocks."""

    gpu: str
    """id of the GPU"""
    seconds: float
    """time of the whole launch, as a profiler would measure it"""
    cycles: float
    """cycles of the whole launch"""
    blocks_simulated: int
    simulated_cycles: float
    """cycles until the last of these blocks ended"""
    schedulers: int
    issued: int
    """machine instructions issued by all schedulers"""
    states: tuple[StateCycles, ...]
    """all states, selected first"""
    lines: tuple[LineStates, ...]
    """states by source line, in the order of files and lines; line 0 of no file stands for PTX that names no line"""
    resources: tuple[ResourceTime, ...]
    """resources in use, busiest first"""

    @property
    def warp_cycles(self) -> float:
        """Cycles in all states."""
        return sum(each.warp_cycles for each in self.states)


# NOUN KernelProfile: what one launch does, and where each number comes from.
#
# A profile is what every model reads. Unknown is None, never 0; a model that needs an unknown value refuses.


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that a thread or block of the compiled kernel occupies on one architecture."""

    architecture: str
    """architecture, such as sm_70: registers and spills differ between architectures"""
    registers_per_thread: int
    static_shared_bytes: int
    """static shared memory per block, as the user declared it"""
    local_bytes_per_thread: int
    """bytes of the stack frame"""
    spill_store_bytes: int
    """bytes per thread that spills store, as the code stands"""
    spill_load_bytes: int
    code_bytes: int
    barriers: int | None
    max_threads_per_block: int | None
    """bound by __launch_bounds__; None when the source sets none"""
    required_block: tuple[int, int, int] | None = None
    """only block that a launch may have, by __block_size__; None when the source sets none"""
    cluster_blocks: tuple[int, int, int] | None = None
    """blocks of a cluster along each axis, by __cluster_dims__; None when the source sets none"""

    @property
    def spills(self) -> bool:
        """Whether the machine code keeps registers in local memory for a time."""
        return self.spill_load_bytes + self.spill_store_bytes > 0

    @property
    def has_frame(self) -> bool:
        """Whether the machine code uses local memory: arrays that the PTX keeps there may end in registers."""
        return self.local_bytes_per_thread > 0


@dataclass(frozen=True, slots=True)
class CacheSimulation:
    """A simulation of the caches of one GPU; its counts are in the profile's counts."""

    gpu: str
    """id of the GPU"""
    resident_blocks_per_sm: int
    l1_bytes: int | None
    """L1 of one SM, beside the carve-out for shared memory; None where L1 caches no loads"""
    l2_bytes: int
    blocks_simulated: int
    """neighbouring blocks whose accesses went through the caches; the rest is scaled from them"""
    wave_blocks: int = 0
    """blocks that all SMs hold at once, or the simulated part of them"""
    wave_sectors: int | None = None
    """distinct sectors that the first wave of blocks touches"""


@dataclass(frozen=True, slots=True)
class KindCount:
    """The number of executed instructions of one kind."""

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
    """all kinds that ran, most frequent first"""
    barriers: Count
    """arrivals of warps at barriers"""
    divergent_branches: Count

    @property
    def active_lanes(self) -> float:
        """Mean number of active threads per warp instruction, 0 to 32."""
        issued = self.warp_instructions.value
        return self.thread_instructions.value / issued if issued else 0.0


@dataclass(frozen=True, slots=True)
class OpcodeCount:
    """The number of executed machine instructions of one opcode."""

    opcode: str
    """opcode without modifiers, such as FFMA, IMAD, LDG"""
    work: str
    """class in Nsight Compute: fp16, fp32, fp64, integer, conversion, control, memory, misc, inter_thread, uniform"""
    pipe: str
    """pipe on this architecture: fma, alu, fp16, fp64, xu, lsu, cbu, adu, uniform, tex, tensor, or none"""
    warp_instructions: Count
    thread_instructions: Count
    """executions by active threads; a predicate may have switched some of them off"""
    threads_on: Count
    """executions by active threads whose predicate holds"""


@dataclass(frozen=True, slots=True)
class MachineMix:
    """Dynamic machine instructions (SASS) of the whole launch on one architecture."""

    origin: Origin
    """DISASSEMBLED or ESTIMATED"""
    architecture: str
    opcodes: tuple[OpcodeCount, ...]
    """all opcodes that ran, most frequent first"""
    warp_instructions: Count
    thread_instructions: Count
    threads_on: Count
    doubts: tuple[Caveat, ...] = ()
    """caveats on how the instructions were found"""


@dataclass(frozen=True, slots=True)
class BasicBlockCount:
    """One basic block of the PTX: how often it ran, and how far its instructions can overlap."""

    number: int
    where: str
    """first source line of the block, such as saxpy.cu:4; empty where the PTX names none"""
    instructions: int
    warps: Count
    """warps that ran the block"""
    threads: Count
    critical_path: int
    """instructions on the longest chain of dependences through the block"""
    dependency_distance: float | None
    """mean number of instructions from a value's maker to its first reader; None without any"""
    loop_depth: int

    @property
    def parallelism(self) -> float:
        """Instruction-level parallelism: instructions over the longest chain, 1 where each waits for the one before."""
        return self.instructions / self.critical_path if self.critical_path else 0.0


@dataclass(frozen=True, slots=True)
class LineCount:
    """The counts of one line of the user's source in the whole launch."""

    file: str
    line: int
    warp_instructions: Count
    """PTX instructions of warps"""
    thread_instructions: Count
    flops: Count
    """floating-point operations of FP16, FP32 and FP64"""
    global_requests: Count
    global_sectors: Count
    shared_requests: Count
    shared_wavefronts: Count
    local_sectors: Count
    barriers: Count
    """arrivals of warps"""


@dataclass(frozen=True, slots=True)
class Balance:
    """The evenness of the work, in warp instructions: 1 is perfectly even."""

    longest_over_mean_warp: float
    """busiest warp of a block over the mean of its warps, averaged over blocks by their work"""
    longest_over_mean_block: float
    """busiest executed block over the mean of all executed blocks"""
    block_variation: float
    """standard deviation of the blocks' work over its mean"""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The part of the grid that was executed."""

    blocks_executed: int
    blocks: int

    @property
    def is_whole_grid(self) -> bool:
        """Whether every block ran, so that counts are exact."""
        return self.blocks_executed == self.blocks


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """The work that blocks of a cluster do together."""

    size: tuple[int, int, int]
    """blocks of a cluster in x, y and z"""
    barriers: float
    """how often a block waits for the others of its cluster, by the mean block"""

    @property
    def blocks(self) -> int:
        """Number of blocks of a cluster."""
        return math.prod(self.size)


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One launch of one kernel: geometry, resources, counts and instruction mix, each with its origin."""

    kernel: str
    index: int
    """zero-based place of the launch in its file"""
    grid: Extent
    block: Extent
    shared_bytes: int
    """dynamic shared memory per block"""
    resources: Resources | None
    origin: Origin
    """origin of the profile; counts that it lacked may have another one"""
    counts: Counts
    mix: InstructionMix | None
    sampling: Sampling | None
    caveats: tuple[Caveat, ...] = ()
    caches: CacheSimulation | None = None
    """caches of the GPU; None where no GPU was named, or the profile was not executed"""
    machine: MachineMix | None = None
    blocks: tuple[BasicBlockCount, ...] = ()
    """basic blocks that ran, in the order of the PTX"""
    lines: tuple[LineCount, ...] = ()
    """lines that ran, in the order of files and lines"""
    balance: Balance | None = None
    busiest: Counts = field(default_factory=Counts)
    """counts of the block with the most instructions; empty where all are alike, or take their work from one another"""
    warp_states: WarpStates | None = None
    """simulated warp states; None where no GPU was named, or the launch could not be simulated"""
    grid_barriers: int | None = None
    """how often the blocks of a cooperative launch wait for one another; None for other launches"""
    clusters: ClusterUse | None = None
    """what the blocks of clusters do together; None for launches without clusters"""
    run: SourceRun | None = None
    """measured run that other GPUs are forecast from; None without one"""


@dataclass(frozen=True, slots=True)
class LevelCeiling:
    """One level of memory: what the machine reaches there, and what this kernel can."""

    level: str
    """name of the level: l1, l2 or dram"""
    crossing_bytes: float
    intensity: float
    """operations per byte that crosses the level"""
    max_bytes_per_s: float
    """bandwidth that the machine reaches"""
    ceiling_bytes_per_s: float
    """bandwidth that the kernel can reach: the harmonic mean over the levels that its bytes come from"""
    is_measured: bool
    """whether the machine's bandwidth was measured"""
    peak_bytes_per_s: float | None = None
    """bandwidth by the data sheet; None where it gives none"""


@dataclass(frozen=True, slots=True)
class KernelRoofline:
    """The roofs of a machine, the ceilings of a kernel, and where the kernel lies under them."""

    kernel: str
    gpu: str
    flops: float
    max_flops_per_s: float
    """rate that the machine reaches with fused multiply-adds of the kernel's precision"""
    mix_flops_per_s: float
    """ceiling with the kernel's mix of fused and other operations"""
    ceiling_flops_per_s: float
    """ceiling with the kernel's active threads, too"""
    levels: tuple[LevelCeiling, ...]
    """levels, the nearest to the SMs first"""
    low_flops_per_s: float
    """rate that the kernel reaches: measured, or the slower end of the projection"""
    high_flops_per_s: float
    is_projected: bool
    is_compute_measured: bool
    """whether the machine's maximum was measured, for each precision that the kernel uses"""
    peak_flops_per_s: float | None = None
    """rate by the data sheet for the kernel's precision; None where it gives none"""
    precision: str = ""
    """precision of the operations, such as FP32 or FP32+FP64; empty without any"""

    def roof(self, level: LevelCeiling) -> float:
        """Return what the kernel can reach by one level: min(bandwidth ceiling x intensity, compute ceiling)."""
        return min(level.ceiling_bytes_per_s * level.intensity, self.ceiling_flops_per_s)


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of one source file."""

    file: str
    """name of the file in the profile"""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A profile, the GPU that it is for, and the source texts that could be read."""

    profile: KernelProfile
    gpu: GPU | None = None
    assumed: tuple[Caveat, ...] = ()
    """assumptions about the GPU's name"""
    sources: tuple[SourceText, ...] = ()

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """All caveats on the numbers."""
        machine = self.profile.machine
        return (*self.assumed, *self.profile.caveats, *(machine.doubts if machine else ()))
