"""Profiles as the executor, the disassembler and the caches would make them, with numbers worked out by hand."""

from dataclasses import replace

from kerncast.caveats import Caveat, CaveatKind
from kerncast.profiles import (
    AccessCount,
    Balance,
    BasicBlockCount,
    CacheTraffic,
    Count,
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
    Traffic,
    WarpStates,
    Work,
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


def access(space: str, operation: str, spread: float = 0.0, **counts: float) -> AccessCount:
    """Return accesses whose intervals reach this share each way; counts not named are zero."""
    names = ("requests", "threads", "nbytes", "sectors", "lines", "wavefronts", "conflicts", "contention")
    return AccessCount(space, operation, **{name: scaled(exact(counts.get(name, 0)), spread) for name in names})


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
            ("dram", "l2", "l1", "issue", "fma", "alu", "imad", "xu", "lsu", "fp64", "fp16", "tensor", "branch",
             "uniform", "shared", "atomics", "blocks")
        )
    ),
)  # fmt: skip

SAXPY = KernelProfile(
    kernel="saxpy",
    index=0,
    grid=(4096, 1, 1),
    block=(256, 1, 1),
    shared_bytes=0,
    resources=RESOURCES,
    work=Work(Origin.EXECUTED, exact(2 * THREADS), ZERO, ZERO, ZERO, exact(4 * THREADS), exact(2 * THREADS)),
    traffic=Traffic(
        origin=Origin.EXECUTED,
        global_load_requests=exact(2 * WARPS),
        global_store_requests=exact(WARPS),
        global_load_sectors=exact(2 * SECTORS),
        global_store_sectors=exact(SECTORS),
        global_bytes_requested=exact(12 * THREADS),
        global_bytes_touched=exact(8 * THREADS),
        dram_bytes=Count(12.0 * THREADS, 12.0 * THREADS, 12.0 * THREADS),
        shared_requests=ZERO,
        atomic_operations=ZERO,
        local_bytes=ZERO,
    ),
    mix=MIX,
    sampling=Sampling(4096, 4096),
    accesses=(
        access("global", "ld", requests=2 * WARPS, threads=2 * THREADS, nbytes=8 * THREADS, sectors=2 * SECTORS,
               lines=2 * WARPS),
        access("global", "st", requests=WARPS, threads=THREADS, nbytes=4 * THREADS, sectors=SECTORS, lines=WARPS),
    ),
    caches=CacheTraffic(
        origin=Origin.SIMULATED,
        gpu="titan-v",
        l1_load_sectors=exact(2 * SECTORS),
        l1_load_hits=ZERO,
        l1_local_hits=ZERO,
        l2_read_sectors=exact(2 * SECTORS),
        l2_read_hits=ZERO,
        l2_write_sectors=exact(SECTORS),
        l2_write_hits=exact(SECTORS),
        l2_atomic_sectors=ZERO,
        l2_atomic_hits=ZERO,
        l2_instruction_sectors=ZERO,
        dram_read_sectors=exact(2 * SECTORS),
        dram_write_sectors=exact(SECTORS / 4),
        left_dirty_sectors=exact(SECTORS * 3 / 4),
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
    traffic=replace(SAXPY.traffic, atomic_operations=exact(64 * WARPS)),
    mix=replace(
        MIX,
        warp_instructions=scaled(exact(20 * WARPS)),
        thread_instructions=scaled(exact(500 * WARPS)),
        barriers=exact(128 * WARPS),
        divergent_branches=scaled(exact(3 * WARPS)),
    ),
    accesses=(
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
    ),
    balance=Balance(1.4, 2.0, 0.3),
)  # fmt: skip
