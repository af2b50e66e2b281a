"""NOUN Counts: what is counted of one launch, each number with its bounds and its origin, under one vocabulary."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

#: What global memory moves in: the least that a request takes from L2 and DRAM, on every GPU from Kepler on.
SECTOR_BYTES = 32


class Origin(StrEnum):
    """The origin of a number."""

    EXECUTED = "executed"
    """counted while the kernel's PTX ran on the CPU"""
    COUNTED = "counted"
    """counted by the kernel's text, arguments and launch, without running it"""
    COMPILED = "compiled"
    """read from the compiler's output"""
    DECLARED = "declared"
    """stated by the user"""
    DISASSEMBLED = "disassembled"
    """machine instructions of the compiled kernel, as often as the PTX they come from was executed"""
    ESTIMATED = "estimated"
    """machine instructions that the executed PTX should become, where no disassembler is at hand"""
    PROFILED = "profiled"
    """counted by a profiler while the kernel ran on a GPU"""
    SIMULATED = "simulated"
    """caches or an SM of one GPU, run on what was executed"""


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

    def __sub__(self, part: "Count") -> "Count":
        """Return what is left when a part of the count is taken away, at least 0."""
        return Count(max(0.0, self.value - part.value), max(0.0, self.low - part.high), max(0.0, self.high - part.low))

    def times(self, factor: float) -> "Count":
        """Return the count multiplied by a factor that is at least 0."""
        return Count(self.value * factor, self.low * factor, self.high * factor)

    @property
    def is_exact(self) -> bool:
        """Whether the whole grid was counted."""
        return self.low == self.high


# NOUN Counts: what is counted of one launch, by the names of one vocabulary.
#
# The names are Nsight Compute's where it has the counter, and begin with kerncast__ where it has none; those that are
# printed are in ``data/vocabulary.csv``. Unknown is absent, never 0.


#: Origins, the better first. A profiler counts the machine's own events. The executor counts those of the PTX, which
#: the compiler may join or split. A simulation adds the model of a cache to that, an estimate the guess of a compiler,
#: and nobody checked what is declared.
_BEST_FIRST = (
    Origin.PROFILED, Origin.EXECUTED, Origin.DISASSEMBLED, Origin.COMPILED, Origin.SIMULATED, Origin.ESTIMATED,
    Origin.COUNTED, Origin.DECLARED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counted:
    """A count with its origin."""

    count: Count
    origin: Origin

    def or_better(self, other: "Counted") -> "Counted":
        """Return the count that is nearer to the hardware: profiled, executed, simulated, estimated, declared."""
        return min(self, other, key=lambda each: _BEST_FIRST.index(each.origin))


@dataclass(frozen=True, slots=True, eq=False)
class Counts(Mapping[str, Count]):
    """A table of counts of one launch by name.

    >>> counts = Counts.of(Origin.EXECUTED, {DRAM_BYTES_ONCE: Count.exact(64), SHARED_BYTES: None})
    >>> counts[DRAM_BYTES_ONCE].value, counts.origin(DRAM_BYTES_ONCE), SHARED_BYTES in counts
    (64, <Origin.EXECUTED: 'executed'>, False)
    """

    rows: Mapping[str, Counted] = field(default_factory=dict)
    """counts by name; never changed"""

    @classmethod
    def of(cls, origin: Origin, counts: Mapping[str, Count | None]) -> "Counts":
        """Return a table of counts of one origin; None stands for what is unknown."""
        return cls({name: Counted(count, origin) for name, count in counts.items() if count is not None})

    def __getitem__(self, name: str) -> Count:
        return self.rows[name].count

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return self.rows == other.rows if isinstance(other, Counts) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.rows.items()))

    def origin(self, name: str) -> Origin | None:
        """Return where a count comes from; None where it is unknown."""
        row = self.rows.get(name)
        return None if row is None else row.origin

    def first(self, names: Iterable[str]) -> Count | None:
        """Return the first of these counts that is known."""
        return next((self[name] for name in names if name in self), None)

    def total(self, names: Iterable[str]) -> Count:
        """Return the sum of those of these counts that are known; 0 where none is."""
        return sum((self[name] for name in names if name in self), Count.exact(0))

    def only(self, names: Iterable[str]) -> "Counts":
        """Return the table of those of these names that are known."""
        return Counts({name: self.rows[name] for name in names if name in self})

    def updated(self, newer: "Counts") -> "Counts":
        """Return the counts of both tables; where both know one, the newer."""
        return Counts({**self.rows, **newer.rows})

    def merged(self, other: "Counts") -> "Counts":
        """Return the counts of both tables; where both know one, that of the better origin, or else its own."""
        both = {name: row.or_better(other.rows[name]) for name, row in self.rows.items() if name in other}
        return Counts({**self.rows, **other.rows, **both})


# Operations of the threads.

FP32_FLOPS = "kerncast__fp32_flops.sum"
"""floating-point operations of FP32: add, subtract, multiply = 1, fused multiply-add = 2"""
FP64_FLOPS = "kerncast__fp64_flops.sum"
FP16_FLOPS = "kerncast__fp16_flops.sum"
"""floating-point operations of half and bfloat16; a packed instruction counts for both halves"""
SPECIAL_OPS = "kerncast__special_ops.sum"
"""division, reciprocal, square root, exponential, logarithm, sine, cosine, hyperbolic tangent"""
INTEGER_OPS = "kerncast__integer_ops.sum"
"""integer and bit arithmetic; a multiply-add is one, as the lanes take it"""
CONTROL_OPS = "kerncast__control_ops.sum"
"""branches, barriers, returns, votes"""
FLOPS = {16: FP16_FLOPS, 32: FP32_FLOPS, 64: FP64_FLOPS}
"""count of floating-point operations by the bits of the precision"""
FLOAT_OPERATIONS = ("add", "mul", "fma")
TENSOR_OPS: Mapping[tuple[str, str], str] = MappingProxyType({
    (factor, total): f"sm__ops_path_tensor_src_{name}.sum"
    for factor, total, name in (
        ("f16", "f16", "fp16_dst_fp16"), ("f16", "f32", "fp16_dst_fp32"), ("bf16", "f32", "bf16_dst_fp32"),
        ("tf32", "f32", "tf32_dst_fp32"), ("f64", "f64", "fp64"), ("e4m3", "f32", "fp8"), ("e4m3", "f16", "fp8"),
        ("s8", "s32", "int8"), ("s4", "s32", "int4"), ("b1", "s32", "int1"),
    )
})  # fmt: skip
"""count of operations of tensor cores by the types of A and of the sums: multiply and add count 2"""
TENSOR_FLOPS = tuple(dict.fromkeys(name for (_, total), name in TENSOR_OPS.items() if total != "s32"))
"""those of them that are of floats"""


def float_operation(bits: int, operation: str) -> str:
    """Return the name of additions, multiplications or fused multiply-adds: one per active thread.

    >>> float_operation(32, "fma")
    'smsp__sass_thread_inst_executed_op_ffma_pred_on.sum'
    """
    letter = {16: "h", 32: "f", 64: "d"}[bits]
    return f"smsp__sass_thread_inst_executed_op_{letter}{operation}_pred_on.sum"


# Machine instructions of the warps.

INSTRUCTIONS = "smsp__inst_executed.sum"
"""warp instructions executed"""
PIPES = ("fma", "alu", "fp16", "fp64", "xu", "lsu")
"""pipes that execute a warp's instructions"""
WORKS = ("fp16", "fp32", "fp64", "integer", "conversion", "memory")
"""kinds of instructions that profilers count by threads"""


def pipe_instructions(pipe: str) -> str:
    """Return the name of the warp instructions that a pipe executes.

    >>> pipe_instructions("fma")
    'smsp__inst_executed_pipe_fma.sum'
    """
    return f"smsp__inst_executed_pipe_{pipe}.sum"


def work_threads(work: str) -> str:
    """Return the name of the instructions of one kind, one per active thread whose predicate holds.

    >>> work_threads("integer")
    'smsp__sass_thread_inst_executed_op_integer_pred_on.sum'
    """
    return f"smsp__sass_thread_inst_executed_op_{work}_pred_on.sum"


# Memory accesses, by state space and operation.

SPACES = ("global", "shared", "local")
"""state spaces; global holds module variables in constant memory too"""
OPERATIONS = ("ld", "st", "atom", "red", "ldgsts")
"""load, store, atomic whose result is read, atomic whose result is not, copy from global to shared memory"""
QUANTITIES = ("requests", "threads", "bytes", "sectors", "lines", "wavefronts", "conflicts", "contention")
"""quantities of accesses: warp instructions with at least one active thread; threads; bytes that the threads ask for;
distinct 32-byte sectors per request, summed (local memory lies interleaved, shared memory has none); distinct 128-byte
lines likewise; passes of shared memory that the requests take; passes beyond what requests of this width take without a
bank conflict; threads of an atomic request that update its most wanted address, summed over requests"""


#: By state space and quantity, what Nsight Compute's names begin with.
_COUNTERS = {
    "global": {
        "requests": "l1tex__t_requests_pipe_lsu",
        "sectors": "l1tex__t_sectors_pipe_lsu",
        "bytes": "smsp__sass_data_bytes",
    },
    "local": {"requests": "l1tex__t_requests_pipe_lsu", "sectors": "l1tex__t_sectors_pipe_lsu"},
    "shared": {
        "wavefronts": "l1tex__data_pipe_lsu_wavefronts",
        "conflicts": "l1tex__data_bank_conflicts_pipe_lsu",
        "bytes": "smsp__sass_data_bytes",
    },
}
#: Operations that Nsight Compute counts under these names.
_COUNTED_OPERATIONS = {"global": ("ld", "st", "atom", "red"), "local": ("ld", "st"), "shared": ("ld", "st")}
#: Of copies from global to shared memory it counts these on all architectures that have them.
_COPY_COUNTERS = {
    "global": {
        "requests": "smsp__sass_l1tex_t_requests_pipe_lsu",
        "sectors": "smsp__sass_l1tex_t_sectors_pipe_lsu",
        "bytes": "smsp__sass_data_bytes",
    },
    "shared": {
        "wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts",
        "conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu",
        "bytes": "smsp__sass_data_bytes",
    },
    "local": {},
}


def access_name(space: str, operation: str, quantity: str) -> str:
    """Return the name of a count of accesses.

    Nsight Compute counts requests to shared memory as machine instructions, which join neighbours, and its atomics
    of shared memory are of both kinds: these have other names here.

    >>> access_name("global", "ld", "sectors"), access_name("shared", "red", "wavefronts")
    ('l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum', 'kerncast__wavefronts_mem_shared_op_red.sum')
    """
    own = f"kerncast__{quantity}"
    if operation == "ldgsts":
        counter = _COPY_COUNTERS[space].get(quantity, own)
    else:
        counter = _COUNTERS[space].get(quantity, own) if operation in _COUNTED_OPERATIONS[space] else own
    return f"{counter}_mem_{space}_op_{operation}.sum"


GLOBAL_LOAD_REQUESTS = access_name("global", "ld", "requests")
GLOBAL_LOAD_SECTORS = access_name("global", "ld", "sectors")
GLOBAL_WRITE_REQUESTS = "kerncast__global_write_requests.sum"
"""requests of stores and atomics: a sum with an interval of its own where it is scaled from a sample"""
GLOBAL_WRITE_SECTORS = "kerncast__global_write_sectors.sum"
GLOBAL_WRITES = (GLOBAL_WRITE_REQUESTS, access_name("global", "st", "requests"))
"""names of write requests, the best first; the second has stores alone"""
GLOBAL_SECTORS_WRITTEN = (GLOBAL_WRITE_SECTORS, access_name("global", "st", "sectors"))
GLOBAL_BYTES_REQUESTED = "kerncast__global_bytes_requested.sum"
"""bytes that the threads ask for by loads, stores and atomics: an upper bound of useful traffic"""
GLOBAL_BYTES_TOUCHED = "kerncast__global_bytes_touched.sum"
"""size of the working set: distinct sectors x 32 over the whole launch"""
SHARED_REQUESTS = "kerncast__shared_requests.sum"
ATOMIC_THREADS = "kerncast__atomic_threads.sum"
"""thread-level atomics and reductions in global and shared memory"""
LOCAL_BYTES_REQUESTED = "kerncast__local_bytes_requested.sum"
"""bytes of thread-private memory of the PTX: arrays, not the spills of the machine code"""


# Bytes that cross each level of memory: N+ of Van Lanker et al., Euro-Par 2024, equation 10. A level is asked for them
# whether it holds them or not.

L1_SECTORS = "l1tex__t_sectors.sum"
L1_BYTES = "l1tex__t_bytes.sum"
"""bytes of global and local memory in whole sectors; without shared memory"""
SHARED_BYTES = "smsp__sass_data_bytes_mem_shared.sum"
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
"""cycles of shared memory, bank conflicts included"""
L2_BYTES = "lts__t_bytes.sum"
"""bytes as a profiler counts them, an atomic's once"""
L2_BYTES_EXCHANGED = "kerncast__l2_bytes_exchanged.sum"
"""bytes between SMs and simulated L2, an atomic's both ways; without code"""
DRAM_BYTES = "dram__bytes.sum"
DRAM_BYTES_ONCE = "kerncast__dram_bytes_once.sum"
"""bytes with cold caches: every sector read once and written once; high is with no cache at all"""
L2_CROSSING = (L2_BYTES, L2_BYTES_EXCHANGED)
DRAM_CROSSING = (DRAM_BYTES, DRAM_BYTES_ONCE)


# What simulated caches of one GPU let through, in sectors over the whole launch, from cold. Loads that L1 does not
# cache on this GPU count as missing it. Atomics are carried out by L2.

L1_LOAD_SECTORS = "kerncast__l1_load_sectors.sum"
"""sectors that global loads ask L1 for, of the blocks in the order of the simulation"""
L1_LOAD_HITS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
L1_LOCAL_HITS = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum"
L2_LOAD_SECTORS = "kerncast__l2_load_sectors.sum"
"""sectors that loads ask L2 for after L1 let them through"""
L2_LOAD_HITS = "kerncast__l2_load_hits.sum"
L2_WRITE_SECTORS = "lts__t_sectors_op_write.sum"
L2_WRITE_HITS = "kerncast__l2_rewritten_sectors.sum"
L2_ATOMIC_SECTORS = "kerncast__l2_atomic_sectors.sum"
L2_ATOMIC_HITS = "kerncast__l2_atomic_hits.sum"
L2_INSTRUCTION_SECTORS = "kerncast__l2_instruction_sectors.sum"
"""sectors of code that SMs read whose instruction cache is too small for it; 0 where its size is unknown"""
DRAM_READ_SECTORS = "dram__sectors_read.sum"
DRAM_WRITE_SECTORS = "dram__sectors_write.sum"
"""sectors pushed out of L2 while the kernel runs"""
L2_DIRTY_BYTES = "kerncast__l2_dirty_bytes_left.sum"
"""bytes written that are still in L2 when the kernel ends: DRAM gets them later, unless they are overwritten first"""


#: What a forecast asks for, by the keys of files of declared counts and of JSON: the names that answer, the best first.
QUESTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "l1_bytes": (L1_BYTES,),
    "shared_bytes": (SHARED_BYTES,),
    "shared_wavefronts": (SHARED_WAVEFRONTS,),
    "l2_bytes": L2_CROSSING,
    "dram_bytes": DRAM_CROSSING,
    "fp32_flops": (FP32_FLOPS,),
    "fp64_flops": (FP64_FLOPS,),
    "fp16_flops": (FP16_FLOPS,),
    "special_ops": (SPECIAL_OPS,),
    "integer_ops": (INTEGER_OPS,),
    "control_ops": (CONTROL_OPS,),
    "global_load_requests": (GLOBAL_LOAD_REQUESTS,),
    "global_store_requests": GLOBAL_WRITES,
    "global_load_sectors": (GLOBAL_LOAD_SECTORS,),
    "global_store_sectors": GLOBAL_SECTORS_WRITTEN,
    "global_bytes_requested": (GLOBAL_BYTES_REQUESTED,),
    "global_bytes_touched": (GLOBAL_BYTES_TOUCHED,),
    "shared_requests": (SHARED_REQUESTS,),
    "atomic_operations": (ATOMIC_THREADS,),
    "local_bytes": (LOCAL_BYTES_REQUESTED,),
})  # fmt: skip
_READ_AND_WRITTEN = 2


def with_totals(counts: Counts) -> Counts:
    """Return counts with the bytes of each level of memory, as far as the accesses and the caches tell them."""
    rows: dict[str, Counted] = {}

    def add(name: str, count: Count, part: str) -> None:
        origin = counts.origin(part)
        if origin is not None:
            rows[name] = Counted(count, origin)

    parts = [access_name(space, each, "sectors") for space in ("global", "local") for each in OPERATIONS]
    add(L1_SECTORS, counts.total(parts), GLOBAL_LOAD_SECTORS)
    add(L1_BYTES, counts.total(parts).times(SECTOR_BYTES), GLOBAL_LOAD_SECTORS)
    for name, quantity in ((SHARED_BYTES, "bytes"), (SHARED_WAVEFRONTS, "wavefronts")):
        parts = [access_name("shared", each, quantity) for each in OPERATIONS]
        add(name, counts.total(parts), parts[0])
    asked = counts.total((L2_LOAD_SECTORS, L2_WRITE_SECTORS))
    exchanged = asked + counts.total((L2_ATOMIC_SECTORS,)).times(_READ_AND_WRITTEN)
    add(L2_BYTES_EXCHANGED, exchanged.times(SECTOR_BYTES), L2_LOAD_SECTORS)
    moved = counts.total((DRAM_READ_SECTORS, DRAM_WRITE_SECTORS))
    add(DRAM_BYTES, moved.times(SECTOR_BYTES), DRAM_READ_SECTORS)
    return counts.updated(Counts(rows))


def dram_bytes_of_launch(counts: Counts) -> Count | None:
    """Return DRAM traffic by itself: as profiled or declared, else every sector once.

    Models that reckon with caches on their own must not see it after simulated caches.
    """
    is_simulated = counts.origin(DRAM_BYTES) is Origin.SIMULATED
    return counts.first((DRAM_BYTES_ONCE,) if is_simulated else (DRAM_BYTES, DRAM_BYTES_ONCE))
