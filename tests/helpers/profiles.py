"""Profiles as the executor, the disassembler and the caches would make them, with numbers worked out by hand."""

from collections.abc import Mapping
from dataclasses import replace

from kerncast.caveats import Caveat, CaveatKind
from kerncast.profiles import (
    QUESTIONS,
    Balance,
    BasicBlockCount,
    CacheSimulation,
    Count,
    Counts,
    InstructionMix,
    KernelProfile,
    KindCount,
    LineCount,
    LineStates,
    MachineMix,
    OpcodeCount,
    Origin,
    Resources,
    ResourceTime,
    Sampling,
    StateCycles,
    WarpStates,
)
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    CONTROL_OPS,
    DRAM_BYTES_ONCE,
    DRAM_READ_SECTORS,
    DRAM_WRITE_SECTORS,
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS,
    INTEGER_OPS,
    L1_LOAD_HITS,
    L1_LOAD_SECTORS,
    L1_LOCAL_HITS,
    L2_ATOMIC_HITS,
    L2_ATOMIC_SECTORS,
    L2_DIRTY_BYTES,
    L2_INSTRUCTION_SECTORS,
    L2_LOAD_HITS,
    L2_LOAD_SECTORS,
    L2_WRITE_HITS,
    L2_WRITE_SECTORS,
    LOCAL_BYTES_REQUESTED,
    OPERATIONS,
    QUANTITIES,
    SHARED_REQUESTS,
    SPACES,
    SPECIAL_OPS,
    access_name,
    with_totals,
)

exact = Count.exact
ZERO = exact(0)

#: saxpy of 2**20 elements in 4096 blocks of 256 threads: 32768 warps, two loads and one store of 4 bytes per thread.
WARPS = 32_768
THREADS = 32 * WARPS
SECTORS = 4 * WARPS


def scaled(count: Count, share: float = 0.05) -> Count:
    """Return a count with an interval of this share each way."""
    return Count(count.value, count.value * (1 - share), count.value * (1 + share))


def access(space: str, operation: str, spread: float = 0.0, **counts: float) -> dict[str, Count]:
    """Return accesses whose intervals reach this share each way; what is not named is zero."""
    return {
        access_name(space, operation, quantity): scaled(
            exact(counts.get(quantity.replace("bytes", "nbytes"), 0)), spread
        )
        for quantity in QUANTITIES
    }


def accessed(*rows: dict[str, Count]) -> Counts:
    """Return what an executed profile counts of these accesses, all others zero, and the bytes of each level."""
    found = {name: count for space in SPACES for each in OPERATIONS for name, count in access(space, each).items()}
    for row in rows:
        found |= row
    return with_totals(Counts.of(Origin.EXECUTED, found))


def with_counts(profile: KernelProfile, counts: Mapping[str, Count | None]) -> KernelProfile:
    """Return a profile with other counts of its origin; None takes one away."""
    kept = profile.counts.only(name for name in profile.counts if name not in counts)
    return replace(profile, counts=kept.updated(Counts.of(profile.origin, counts)))


def answered(profile: KernelProfile, **answers: Count | None) -> KernelProfile:
    """Return a profile that answers some questions of a forecast otherwise; None where it does not know."""
    changes: dict[str, Count | None] = {}
    for key, count in answers.items():
        changes |= dict.fromkeys(QUESTIONS[key]) | {QUESTIONS[key][0]: count}
    return with_counts(profile, changes)


def opcode(name: str, work: str, pipe: str, warps: float) -> OpcodeCount:
    """Return an opcode that whole warps run."""
    return OpcodeCount(name, work, pipe, exact(warps), exact(32 * warps), exact(32 * warps))


def line(number: int, warps: float, **counts: float) -> LineCount:
    """Return a source line of saxpy.cu."""
    names = (
        "flops", "global_requests", "global_sectors", "shared_requests", "shared_wavefronts", "local_sectors",
        "barriers",
    )  # fmt: skip
    rest = {name: exact(counts.get(name, 0)) for name in names}
    return LineCount("saxpy.cu", number, exact(warps), exact(32 * warps), **rest)


RESOURCES = Resources("sm_70", 16, 0, 0, 0, 0, 512, 0, None)

MIX = InstructionMix(
    Origin.EXECUTED,
    exact(20 * WARPS),
    exact(20 * THREADS),
    (
        KindCount("mov.u32", exact(6 * WARPS), exact(6 * THREADS)),
        KindCount("mad.s32", exact(4 * WARPS), exact(4 * THREADS)),
        KindCount("ld.f32", exact(2 * WARPS), exact(2 * THREADS)),
        KindCount("bra", exact(2 * WARPS), exact(2 * THREADS)),
        KindCount("fma.f32", exact(WARPS), exact(THREADS)),
        KindCount("st.f32", exact(WARPS), exact(THREADS)),
        KindCount("ret", exact(4 * WARPS), exact(4 * THREADS)),
    ),
    ZERO,
    ZERO,
)  # fmt: skip

#: 20 blocks of 8 warps on an SM of the TITAN V: 64 warps at a time would be all; 40 are there in the mean.
WARP_STATES = WarpStates(
    gpu="titan-v",
    seconds=22e-6,
    cycles=30_000,
    blocks_simulated=20,
    simulated_cycles=10_000,
    schedulers=4,
    issued=2000,
    states=(
        StateCycles("selected", 2000), StateCycles("not_selected", 10_000), StateCycles("wait", 4000),
        StateCycles("short_scoreboard", 4000), StateCycles("long_scoreboard", 300_000), StateCycles("barrier", 0),
        StateCycles("math_pipe_throttle", 1000), StateCycles("lg_throttle", 76_000), StateCycles("mio_throttle", 2000),
        StateCycles("branch_resolving", 1000),
    ),
    lines=(
        LineStates("saxpy.cu", 2, (StateCycles("wait", 4000), StateCycles("short_scoreboard", 4000))),
        LineStates("saxpy.cu", 3, (StateCycles("long_scoreboard", 300_000), StateCycles("lg_throttle", 76_000))),
    ),
    resources=tuple(
        ResourceTime(name, 0.9 / (rank + 1))
        for rank, name in enumerate(
            ("dram", "l2", "l1", "issue", "fma", "alu", "imad", "xu", "lsu", "fp64", "fp16", "tensor", "tensor_memory",
             "branch", "uniform", "shared", "atomics", "blocks")
        )
    ),
)  # fmt: skip

#: No GPU changes these.
EXECUTED = accessed(
    access("global", "ld", requests=2 * WARPS, threads=2 * THREADS, nbytes=8 * THREADS, sectors=2 * SECTORS,
           lines=2 * WARPS),
    access("global", "st", requests=WARPS, threads=THREADS, nbytes=4 * THREADS, sectors=SECTORS, lines=WARPS),
).updated(Counts.of(Origin.EXECUTED, {
    FP32_FLOPS: exact(2 * THREADS),
    FP64_FLOPS: ZERO,
    FP16_FLOPS: ZERO,
    SPECIAL_OPS: ZERO,
    INTEGER_OPS: exact(4 * THREADS),
    CONTROL_OPS: exact(2 * THREADS),
    GLOBAL_WRITE_REQUESTS: exact(WARPS),
    GLOBAL_WRITE_SECTORS: exact(SECTORS),
    GLOBAL_BYTES_REQUESTED: exact(12 * THREADS),
    GLOBAL_BYTES_TOUCHED: exact(8 * THREADS),
    DRAM_BYTES_ONCE: exact(12.0 * THREADS),
    SHARED_REQUESTS: ZERO,
    ATOMIC_THREADS: ZERO,
    LOCAL_BYTES_REQUESTED: ZERO,
}))  # fmt: skip

#: Of the TITAN V.
SIMULATED = with_totals(Counts.of(Origin.SIMULATED, {
    L1_LOAD_SECTORS: exact(2 * SECTORS),
    L1_LOAD_HITS: ZERO,
    L1_LOCAL_HITS: ZERO,
    L2_LOAD_SECTORS: exact(2 * SECTORS),
    L2_LOAD_HITS: ZERO,
    L2_WRITE_SECTORS: exact(SECTORS),
    L2_WRITE_HITS: exact(SECTORS),
    L2_ATOMIC_SECTORS: ZERO,
    L2_ATOMIC_HITS: ZERO,
    L2_INSTRUCTION_SECTORS: ZERO,
    DRAM_READ_SECTORS: exact(2 * SECTORS),
    DRAM_WRITE_SECTORS: exact(SECTORS / 4),
    L2_DIRTY_BYTES: exact(32 * SECTORS * 3 / 4),
}))  # fmt: skip

SAXPY = KernelProfile(
    kernel="saxpy",
    index=0,
    grid=(4096, 1, 1),
    block=(256, 1, 1),
    shared_bytes=0,
    resources=RESOURCES,
    origin=Origin.EXECUTED,
    counts=EXECUTED.updated(SIMULATED),
    mix=MIX,
    sampling=Sampling(4096, 4096),
    caches=CacheSimulation(
        gpu="titan-v",
        resident_blocks_per_sm=8,
        l1_bytes=131_072,
        l2_bytes=4_718_592,
        blocks_simulated=1280,
        wave_blocks=640,
        wave_sectors=640 * 8 * 8,
    ),
    machine=MachineMix(
        Origin.DISASSEMBLED,
        "sm_70",
        (
            opcode("IMAD", "integer", "fma", 3 * WARPS),
            opcode("LDG", "memory", "lsu", 2 * WARPS),
            opcode("S2R", "misc", "none", 2 * WARPS),
            opcode("ISETP", "integer", "alu", WARPS),
            opcode("FFMA", "fp32", "fma", WARPS),
            opcode("STG", "memory", "lsu", WARPS),
            opcode("EXIT", "control", "cbu", 2 * WARPS),
        ),
        exact(12 * WARPS),
        exact(12 * THREADS),
        exact(11 * THREADS),
    ),
    blocks=(
        BasicBlockCount(0, "saxpy.cu:2", 12, exact(WARPS), exact(THREADS), 6, 2.5, 0),
        BasicBlockCount(1, "saxpy.cu:3", 8, exact(WARPS), exact(THREADS), 8, None, 0),
    ),
    lines=(
        line(2, 8 * WARPS),
        line(3, 12 * WARPS, flops=2 * THREADS, global_requests=3 * WARPS, global_sectors=3 * SECTORS),
    ),
    balance=Balance(1.0, 1.0, 0.0),
    warp_states=WARP_STATES,
)  # fmt: skip


#: A tile of a product of matrices in shared memory, with atomics, divergence and spills, scaled from a sample.

TILED = replace(
    SAXPY,
    kernel="tiled<16>",
    index=1,
    grid=(64, 64, 1),
    block=(16, 16, 1),
    shared_bytes=1024,
    resources=replace(RESOURCES, static_shared_bytes=2048, registers_per_thread=40),
    sampling=Sampling(240, 4096),
    caveats=(Caveat.of(CaveatKind.SCALED_FROM_SAMPLE, executed=240, blocks=4096),),
    mix=replace(
        MIX,
        warp_instructions=scaled(exact(20 * WARPS)),
        thread_instructions=scaled(exact(500 * WARPS)),
        barriers=exact(128 * WARPS),
        divergent_branches=scaled(exact(3 * WARPS)),
    ),
    counts=EXECUTED.updated(SIMULATED).updated(accessed(
        access("global", "ld", spread=0.05, requests=2 * WARPS, threads=2 * THREADS, nbytes=8 * THREADS,
               sectors=8 * SECTORS, lines=8 * WARPS),
        access("global", "red", requests=WARPS, threads=THREADS, nbytes=4 * THREADS, sectors=WARPS, lines=WARPS,
               contention=32 * WARPS),
        access("local", "ld", requests=WARPS, threads=THREADS, nbytes=4 * THREADS, sectors=SECTORS, lines=WARPS),
        access("local", "st", requests=WARPS, threads=THREADS, nbytes=4 * THREADS, sectors=SECTORS, lines=WARPS),
        access("shared", "ld", requests=64 * WARPS, threads=64 * THREADS, nbytes=256 * THREADS, wavefronts=128 * WARPS,
               conflicts=64 * WARPS),
        access("shared", "st", requests=2 * WARPS, threads=2 * THREADS, nbytes=8 * THREADS, wavefronts=2 * WARPS),
        access("shared", "atom", requests=WARPS, threads=THREADS, nbytes=4 * THREADS, wavefronts=4 * WARPS,
               conflicts=3 * WARPS, contention=4 * WARPS),
    )).updated(Counts.of(Origin.EXECUTED, {ATOMIC_THREADS: exact(64 * WARPS)})),
    balance=Balance(1.4, 2.0, 0.3),
)  # fmt: skip
