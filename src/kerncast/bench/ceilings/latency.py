"""Ceilings that are no bandwidth and no arithmetic: latencies, launches, atomics, and the clock under load."""

from collections.abc import Iterator

from kerncast.bench.ceilings.ceiling import BLOCK, KERNEL_SECONDS, Ceiling, Chip, kernel_launch, zeros
from kerncast.launch import Launch, Value
from kerncast.measurement import Method
from kerncast.units import KIB, MIB

_LINE_BYTES = 128
_PAGE_LINES_LOG2 = 14
"""lines of a 2 MiB page"""

#: Chains: in L1 for the smallest L1; in L2 small enough for one partition's TLB reach; in DRAM far beyond L2.
_L1_CHAIN_BYTES = 8 * KIB
_L2_CHAIN_BYTES = MIB
_L2_SHARE = 0.4
_L2_MULTIPLE = 8
_LEAST_DRAM_CHAIN_BYTES = 512 * MIB
"""far beyond the reach of a first-level TLB"""
_MEMORY_SHARE = 4

#: Steps, so that a launch takes about a millisecond or more.
_CACHE_STEPS = 32768
_L2_STEPS = 8192
_DRAM_STEPS = 4096
_ARITHMETIC_STEPS = 262144
_BARRIER_STEPS = 32768
_ATOMIC_STEPS = 4096

_OLDEST_WITH_L1 = 50
_CHAOTIC = -1.9
_NEVER = 7
"""value that no chain of arithmetic takes"""

_ATOMIC_UNROLL = 8
_CLOCK_SECONDS = 25 * KERNEL_SECONDS
"""all launches together last seconds, in which the power limit is felt"""
_CLOCK_ROUND = 8 * 32


def clock(chip: Chip) -> Iterator[Ceiling]:
    """The SM clock while all SMs multiply and add."""
    blocks = chip.blocks()
    threads = blocks * BLOCK
    rounds = chip.rounds(threads * _CLOCK_ROUND, chip.architecture.fp32_lanes_per_sm * chip.sm_count, _CLOCK_SECONDS)
    arguments: dict[str, Value] = {
        "out": zeros("f32", threads),
        "hertz": zeros("f64", blocks),
        "c": _CHAOTIC,
        "rounds": rounds,
    }
    yield Ceiling(
        name="clock",
        launch=kernel_launch("clock", "clock_under_fma", blocks, **arguments),
        amount=2.0 * threads * _CLOCK_ROUND * rounds,
        unit="FLOP",
        reading=("hertz", "clock", "Hz"),
    )


def launches(chip: Chip) -> Iterator[Ceiling]:
    """A kernel that does nothing, of one block and of a full grid."""
    methods = (Method.SERIES, Method.GRAPH, Method.SINGLE)
    yield Ceiling("launch_empty", kernel_launch("launch", "empty", 1, 32), 1.0, "launch", methods)
    yield Ceiling("launch_full", kernel_launch("launch", "empty", chip.blocks()), 1.0, "launch", methods)


def latencies(chip: Chip) -> Iterator[Ceiling]:
    """Pointer chases, dependent arithmetic, the barrier and an atomic."""
    yield from _chases(chip)
    out, word = zeros("f32", 32), zeros("u32", 1)
    yield _latency("shared_latency", "chase_shared", _CACHE_STEPS, {"out": word})
    yield _latency("fma_latency", "latency_fma", _ARITHMETIC_STEPS, {"out": out, "c": _CHAOTIC, "stop": _NEVER}, 32)
    integers: dict[str, Value] = {"out": zeros("u32", 32), "seed": 2654435761, "stop": _NEVER}
    yield _latency("add_latency", "latency_iadd", _ARITHMETIC_STEPS, integers, 32)
    yield _latency("special_latency", "latency_mufu", _ARITHMETIC_STEPS // 4, {"out": out, "stop": _NEVER}, 32)
    for block in (32, 256, 1024):
        yield _latency(f"barrier_latency_{block}", "latency_barrier", _BARRIER_STEPS, {}, block)
    yield _latency("atomic_latency", "latency_atomic", _ATOMIC_STEPS, {"target": zeros("u32", 2), "one": 1})


def _latency(name: str, kernel: str, steps: int, arguments: dict[str, Value], block: int = 1) -> Ceiling:
    values: dict[str, Value] = {**arguments, "cycles": zeros("f32", 1), "steps": steps}
    launch = kernel_launch("latency", kernel, 1, block, **values)
    return Ceiling(name, launch, float(steps), "step", reading=("cycles", name, "cycle"))


def _chases(chip: Chip) -> Iterator[Ceiling]:
    l2_bytes = min(_L2_CHAIN_BYTES, int(chip.l2_bytes * _L2_SHARE))
    dram_bytes = max(_L2_MULTIPLE * chip.l2_bytes, _LEAST_DRAM_CHAIN_BYTES)
    dram_bytes = min(dram_bytes, chip.memory_bytes // _MEMORY_SHARE)
    if chip.number >= _OLDEST_WITH_L1:
        yield _chase("l1_latency", _L1_CHAIN_BYTES, _CACHE_STEPS)
    yield _chase("l2_latency", l2_bytes, _L2_STEPS)
    yield _chase("dram_latency", dram_bytes, _DRAM_STEPS)
    yield _chase("dram_random_latency", dram_bytes, _DRAM_STEPS)


def _chase(name: str, nbytes: int, steps: int) -> Ceiling:
    """A chain through the largest power of two of lines that so many bytes hold."""
    bits = max(1, nbytes // _LINE_BYTES).bit_length() - 1
    lines = 1 << bits
    window = min(bits, _PAGE_LINES_LOG2) if name == "dram_latency" else bits
    chain, cursor = zeros("u64", lines * _LINE_BYTES // 8), zeros("u64", 1)
    # A launch finds L1 empty; what is in L2 stays from one launch to the next.
    in_l1 = name == "l1_latency"
    arguments: dict[str, Value] = {
        "chain": chain,
        "cursor": cursor,
        "cycles": zeros("f32", 1),
        "warm_steps": lines if in_l1 else 0,
        "steps": steps,
    }
    setup: Launch = kernel_launch("latency", "chase_chain", 64, chain=chain, cursor=cursor, lines=lines, window=window)
    launch = kernel_launch("latency", "chase_l1" if in_l1 else "chase", 1, 1, **arguments)
    return Ceiling(name, launch, float(steps), "step", reading=("cycles", name, "cycle"), setup=setup)


def atomics(chip: Chip) -> Iterator[Ceiling]:
    """Additions whose results nobody uses, to addresses that are more or less contended for."""
    threads = chip.blocks() * BLOCK
    for name, lane_stride, warp_stride, words, per_cycle in (
        ("atomic_distinct", 1, 32, threads, 8 * chip.sm_count),
        ("atomic_warp", 0, 32, threads, 2 * chip.sm_count),
        ("atomic_same", 0, 0, 1, 8),
    ):
        rounds = chip.rounds(threads * _ATOMIC_UNROLL, per_cycle)
        strides: dict[str, Value] = {"lane_stride": lane_stride, "warp_stride": warp_stride, "one": 1}
        launch = kernel_launch(
            "atomics", "atomic_global", threads // BLOCK, target=zeros("u32", words), **strides, rounds=rounds
        )
        yield Ceiling(name, launch, float(threads * _ATOMIC_UNROLL * rounds), "op")
    for name, stride, per_cycle in (("atomic_shared_distinct", 1, 32), ("atomic_shared_same", 0, 1)):
        rounds = chip.rounds(threads * _ATOMIC_UNROLL, per_cycle * chip.sm_count)
        values: dict[str, Value] = {"total": zeros("u32", threads), "stride": stride, "one": 1, "rounds": rounds}
        launch = kernel_launch("atomics", "atomic_shared", threads // BLOCK, **values)
        yield Ceiling(name, launch, float(threads * _ATOMIC_UNROLL * rounds), "op")
