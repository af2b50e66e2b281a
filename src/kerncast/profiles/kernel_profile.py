"""NOUN KernelProfile: what is known of one launch, each count with its origin and its range."""

from dataclasses import dataclass

from kerncast.caveats import Caveat
from kerncast.gpu import GPU
from kerncast.launch import Extent, Settings
from kerncast.prediction import Timing
from kerncast.profiles.counts import FLOAT_OPERATIONS, Count, Counts, Origin, float_operation


@dataclass(frozen=True, slots=True)
class FloatMix:
    """Floating-point instructions of one precision in the whole launch, one per active thread."""

    bits: int
    """16, 32 or 64"""
    additions: Count
    """subtractions too"""
    multiplications: Count
    fused: Count
    """fused multiply-adds, of two operations each"""

    @property
    def flops(self) -> Count:
        """Floating-point operations."""
        return self.additions + self.multiplications + self.fused.times(2)

    @property
    def flops_value(self) -> float:
        """The same without their bounds."""
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
class SourceRun:
    """A measured time, and what else a profiler told of the run."""

    gpu: GPU
    seconds: float
    timing: Timing
    """Kind of time: a profiler gives the kernel's own duration."""
    achieved_occupancy: float | None = None
    """resident warps over the most that an SM holds, 0 to 1, mean over active cycles"""
    active_threads: float | None = None
    """per warp instruction, 0 to 32"""
    clock_hz: float | None = None
    """Clock of the SMs during the run."""
    not_in_profile: tuple[str, ...] = ()
    """Counts that the profile lacks and the executor supplied."""
    settings: Settings = ()
    """a tuner's parameters that the kernel was compiled with"""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"{self.seconds} s is no time")


@dataclass(frozen=True, slots=True)
class StateCycles:
    """How long warps were in one state."""

    state: str
    """after Nsight Compute's warp states: selected, not_selected, wait, short_scoreboard, long_scoreboard, barrier,
    math_pipe_throttle, lg_throttle, mio_throttle, branch_resolving"""
    warp_cycles: float


@dataclass(frozen=True, slots=True)
class LineStates:
    """How long warps were in which state at the instructions of one line of the user's source."""

    file: str
    line: int
    states: tuple[StateCycles, ...]
    """those that occurred, longest first"""

    @property
    def warp_cycles(self) -> float:
        """Cycles in all states."""
        return sum(each.warp_cycles for each in self.states)


@dataclass(frozen=True, slots=True)
class ResourceTime:
    """What one resource alone would need for the whole launch."""

    resource: str
    share: float
    """Share of the launch's time; near 1, the resource decides."""


@dataclass(frozen=True, slots=True)
class WarpStates:
    """What the warps of one SM of a GPU wait for, from a simulation of some of its blocks."""

    gpu: str
    """id"""
    seconds: float
    """Time of the whole launch, as a profiler would measure it."""
    cycles: float
    """Cycles of the whole launch."""
    blocks_simulated: int
    simulated_cycles: float
    schedulers: int
    """Cycles of the SM."""
    issued: int
    """machine instructions"""
    states: tuple[StateCycles, ...]
    """all of them, selected first"""
    lines: tuple[LineStates, ...]
    """at which a warp was, in the order of files and lines; line 0 of no file is what the PTX names no line for"""
    resources: tuple[ResourceTime, ...]
    """those in use, busiest first"""

    @property
    def warp_cycles(self) -> float:
        """Cycles in all states."""
        return sum(each.warp_cycles for each in self.states)


# NOUN KernelProfile: what one launch does, and where each number comes from.
#
# A profile is what every model reads. Unknown is None, never 0; a model that needs an unknown value refuses.


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
    required_block: tuple[int, int, int] | None = None
    """from __block_size__: a launch must have just this block"""
    cluster_blocks: tuple[int, int, int] | None = None
    """from __cluster_dims__: blocks of a cluster along each axis"""

    @property
    def has_frame(self) -> bool:
        """Whether the machine code uses local memory: arrays that the PTX keeps there may end in registers."""
        return self.local_bytes_per_thread > 0


@dataclass(frozen=True, slots=True)
class CacheSimulation:
    """How the caches of one GPU were simulated; what they let through is in the profile's counts."""

    gpu: str
    """id"""
    resident_blocks_per_sm: int
    l1_bytes: int | None
    """L1 of one SM, beside the carve-out for shared memory; None where L1 caches no loads."""
    l2_bytes: int
    blocks_simulated: int
    """neighbouring blocks whose accesses went through the caches; the rest is scaled from them"""
    wave_blocks: int = 0
    """blocks that all SMs hold at once, or what of them was simulated"""
    wave_sectors: int | None = None
    """distinct sectors that the first of these waves touches"""


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
class OpcodeCount:
    """How often machine instructions of one opcode ran."""

    opcode: str
    """without modifiers, such as FFMA, IMAD, LDG"""
    work: str
    """Nsight Compute's class: fp16, fp32, fp64, integer, conversion, control, memory, misc, inter_thread, uniform"""
    pipe: str
    """Pipe on this architecture: fma, alu, fp16, fp64, xu, lsu, cbu, adu, uniform, tex, tensor, or none"""
    warp_instructions: Count
    thread_instructions: Count
    """Executions by active threads; a predicate may have switched some of them off."""
    threads_on: Count
    """Executions by active threads whose predicate holds."""


@dataclass(frozen=True, slots=True)
class MachineMix:
    """Dynamic machine instructions (SASS) of the whole launch on one architecture."""

    origin: Origin
    """disassembled or estimated"""
    architecture: str
    opcodes: tuple[OpcodeCount, ...]
    """every opcode that ran, most frequent first"""
    warp_instructions: Count
    thread_instructions: Count
    threads_on: Count
    doubts: tuple[Caveat, ...] = ()
    """Caveats on how the instructions were found."""


@dataclass(frozen=True, slots=True)
class BasicBlockCount:
    """One basic block of the PTX: how often it ran, and how far its instructions can overlap."""

    number: int
    where: str
    """first source line of it, such as saxpy.cu:4; empty where the PTX names none"""
    instructions: int
    warps: Count
    """warps that ran it"""
    threads: Count
    critical_path: int
    """instructions on the longest chain of dependences through it"""
    dependency_distance: float | None
    """mean number of instructions from one that makes a value to the first that reads it; None without any"""
    loop_depth: int

    @property
    def parallelism(self) -> float:
        """Instruction-level parallelism: instructions over the longest chain, 1 where each waits for the one before."""
        return self.instructions / self.critical_path if self.critical_path else 0.0


@dataclass(frozen=True, slots=True)
class LineCount:
    """What one line of the user's source did in the whole launch."""

    file: str
    line: int
    warp_instructions: Count
    """PTX instructions"""
    thread_instructions: Count
    flops: Count
    """FP16, FP32 and FP64"""
    global_requests: Count
    global_sectors: Count
    shared_requests: Count
    shared_wavefronts: Count
    local_sectors: Count
    barriers: Count
    """warps that arrive"""


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly work is spread, in warp instructions: 1 is perfectly even."""

    longest_over_mean_warp: float
    """busiest warp of a block over the mean of its warps, averaged over blocks by their work"""
    longest_over_mean_block: float
    """busiest executed block over the mean of all executed blocks"""
    block_variation: float
    """standard deviation of the blocks' work over its mean"""


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
    """Origin of the profile; counts that it lacked may have another one."""
    counts: Counts
    mix: InstructionMix | None
    sampling: Sampling | None
    caveats: tuple[Caveat, ...] = ()
    caches: CacheSimulation | None = None
    """None where no GPU was named, or the profile was not executed"""
    machine: MachineMix | None = None
    blocks: tuple[BasicBlockCount, ...] = ()
    """basic blocks that ran, in the order of the PTX"""
    lines: tuple[LineCount, ...] = ()
    """lines that ran, in the order of files and lines"""
    balance: Balance | None = None
    warp_states: WarpStates | None = None
    """None where no GPU was named, or the launch could not be simulated"""
    run: SourceRun | None = None
    """the measured run that other GPUs are forecast from; None without one"""


@dataclass(frozen=True, slots=True)
class LevelCeiling:
    """One level of memory: what the machine reaches there, and what this kernel can."""

    level: str
    """l1, l2 or dram"""
    crossing_bytes: float
    intensity: float
    """operations per byte that crosses the level"""
    max_bytes_per_s: float
    """of the machine"""
    ceiling_bytes_per_s: float
    """of the kernel: the harmonic mean over the levels that its bytes come from"""
    is_measured: bool
    """whether somebody measured the machine's bandwidth"""
    peak_bytes_per_s: float | None = None
    """of the data sheet; None where it gives none"""


@dataclass(frozen=True, slots=True)
class KernelRoofline:
    """The roofs of a machine, the ceilings of a kernel, and where the kernel lies under them."""

    kernel: str
    gpu: str
    flops: float
    max_flops_per_s: float
    """of the machine, fused multiply-adds of the kernel's precision"""
    mix_flops_per_s: float
    """Ceiling with the kernel's mix of fused and other operations."""
    ceiling_flops_per_s: float
    """Ceiling with its active threads, too."""
    levels: tuple[LevelCeiling, ...]
    """the nearest to the SMs first"""
    low_flops_per_s: float
    """Rate that the kernel reaches: measured, or the slower end of the projection."""
    high_flops_per_s: float
    is_projected: bool
    is_compute_measured: bool
    """whether somebody measured the machine's maximum, of each precision that the kernel uses"""
    peak_flops_per_s: float | None = None
    """of the data sheet, of the kernel's precision"""
    precision: str = ""
    """of the operations, such as FP32 or FP32+FP64; empty without any"""

    def roof(self, level: LevelCeiling) -> float:
        """Return what the kernel can reach by one level: min(bandwidth ceiling x intensity, compute ceiling)."""
        return min(level.ceiling_bytes_per_s * level.intensity, self.ceiling_flops_per_s)


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of one source file."""

    file: str
    """Name of the file in the profile."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """A profile, the GPU that it is for, and the source texts that could be read."""

    profile: KernelProfile
    gpu: GPU | None = None
    assumed: tuple[Caveat, ...] = ()
    """Assumptions about the GPU's name."""
    sources: tuple[SourceText, ...] = ()

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What a reader of the numbers should know."""
        machine = self.profile.machine
        return (*self.assumed, *self.profile.caveats, *(machine.doubts if machine else ()))
