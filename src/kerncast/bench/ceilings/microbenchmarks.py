"""The microbenchmarks: rates of arithmetic, latencies, bandwidths."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kerncast.bench.ceilings.ceiling import BLOCK, KERNEL_SECONDS, Ceiling, Chip, kernel_launch, with_define, zeros
from kerncast.launch import Buffer, Fill, Launch, Value
from kerncast.measurements import Method
from kerncast.units import GIB, KIB, MIB

_CHAINS = 8
_UNROLL = 32
_ADD_UNROLL = 33

#: Start of chaotic iterations x * x + c that stay within (-2, 2).
_CHAOTIC = -1.9
#: The same as two halves.
_CHAOTIC_HALVES = 0xBF9ABF9A
#: Any odd number.
_ODD = 2654435761

_OLDEST_WITH_FP16 = 53
_FP16_LANES = 2
"""results per cycle and SM where the architecture's file names none"""

_TILES = 4
_TENSOR_UNROLL = 16
_TENSOR_BLOCK = 512
#: Compute capability from which on two blocks are resident on an SM; before, they take too many registers.
_OLDEST_WITH_TWO = 75

_LARGEST_MATRIX = 4096
_MATRIX_TILE = 128
_MATRIX_SECONDS = 20 * KERNEL_SECONDS


@dataclass(frozen=True, slots=True)
class _Tensor:
    """One kind of operands of the tensor cores."""

    name: str
    capabilities: frozenset[int] | None
    """compute capabilities with this kind of operands; None: all from ``oldest`` on"""
    oldest: int
    shape: tuple[int, int, int]
    """rows, columns and depth of one product"""
    element: str
    fill: Fill
    total: str
    unit: str
    per_cycle: int
    """operations per cycle and SM of fast tensor cores; the slowest take some times as long"""


# Halves and floats are uniform in [0, 1); bfloat16 are the bits of [0.5, 1); bytes are all there are.
_TENSORS = (
    _Tensor("tensor_f16", None, 70, (16, 16, 16), "f16", Fill("random"), "f32", "FLOP", 2048),
    _Tensor("tensor_bf16", None, 80, (16, 16, 16), "u16", Fill("randint", 0x3F00, 0x3F80), "f32", "FLOP", 2048),
    _Tensor("tensor_tf32", None, 80, (16, 16, 8), "f32", Fill("random"), "f32", "FLOP", 1024),
    _Tensor("tensor_i8", None, 72, (16, 16, 16), "i8", Fill("randint", -128, 128), "i32", "op", 4096),
    # Only the large chips multiply FP64 in tensor cores; the others take many steps.
    _Tensor("tensor_f64", frozenset({80, 90, 100}), 80, (8, 8, 4), "f64", Fill("random"), "f64", "FLOP", 128),
)


def rates(chip: Chip) -> Iterator[Ceiling]:
    """One instruction each, in independent chains."""
    lanes = chip.architecture
    fp16 = (lanes.fp16_lanes_per_sm or _FP16_LANES) // 2
    yield _rate(chip, "fma_f32", lanes.fp32_lanes_per_sm, {"out": "f32", "c": _CHAOTIC})
    yield _rate(chip, "fma_f64", lanes.fp64_lanes_per_sm, {"out": "f64", "c": _CHAOTIC})
    if chip.number >= _OLDEST_WITH_FP16:
        yield _rate(chip, "fma_f16x2", max(1, fp16), {"out": "u32", "c": _CHAOTIC_HALVES})
    yield _rate(chip, "add_i32", lanes.int32_lanes_per_sm, {"out": "u32", "seed": _ODD})
    yield _rate(chip, "mad_i32", lanes.int32_lanes_per_sm // 2, {"out": "u32", "c": _ODD})
    yield _rate(chip, "ex2_f32", lanes.special_lanes_per_sm, {"out": "f32"})
    yield _rate(chip, "rsqrt_f32", lanes.special_lanes_per_sm, {"out": "f32"})


#: Operations of one instruction of a thread, and their unit; 1 op for the others.
_OPERATIONS = {"fma_f32": (2, "FLOP"), "fma_f64": (2, "FLOP"), "fma_f16x2": (4, "FLOP")}


def _rate(chip: Chip, name: str, lanes: int, arguments: dict[str, str | float]) -> Ceiling:
    operations, unit = _OPERATIONS.get(name, (1, "op"))
    threads = chip.blocks() * BLOCK
    per_round = threads * _CHAINS * (_ADD_UNROLL if name == "add_i32" else _UNROLL)
    rounds = chip.rounds(per_round, lanes * chip.sm_count)
    values: dict[str, Value] = {
        key: zeros(value, threads) if isinstance(value, str) else value for key, value in arguments.items()
    }
    launch = kernel_launch("rates", name, threads // BLOCK, **values, rounds=rounds)
    return Ceiling(name=name, launch=launch, amount=float(operations * per_round * rounds), unit=unit)


def tensor_rates(chip: Chip) -> Iterator[Ceiling]:
    """Warp-level matrix products."""
    for tensor in _TENSORS:
        if chip.number < tensor.oldest or (tensor.capabilities and chip.number not in tensor.capabilities):
            continue
        m, n, k = tensor.shape
        blocks = chip.sm_count * (2 if chip.number >= _OLDEST_WITH_TWO else 1)
        warps = blocks * _TENSOR_BLOCK // 32
        per_round = warps * _TILES * _TENSOR_UNROLL * 2 * m * n * k
        rounds = chip.rounds(per_round, tensor.per_cycle * chip.sm_count)
        arguments: dict[str, Value] = {
            "a": Buffer(tensor.element, (m * k,), tensor.fill),
            "b": Buffer(tensor.element, (_TILES * k * n,), tensor.fill),
            "out": zeros(tensor.total, warps * m * n),
            "rounds": rounds,
        }
        launch = kernel_launch("tensor", tensor.name, blocks, _TENSOR_BLOCK, **arguments)
        yield Ceiling(name=tensor.name, launch=launch, amount=float(per_round * rounds), unit=tensor.unit)


def matrix_product(chip: Chip) -> Iterator[Ceiling]:
    """A large FP32 product of square matrices; smaller where the GPU would take long."""
    flops = chip.architecture.fp32_lanes_per_sm * 2 * chip.sm_count * chip.clock_hz * _MATRIX_SECONDS
    size = int(min(_LARGEST_MATRIX, max(2 * _MATRIX_TILE, (flops / 2) ** (1 / 3)))) // _MATRIX_TILE * _MATRIX_TILE
    tiles = size // _MATRIX_TILE
    operand = Buffer("f32", (size, size), Fill("random"))
    sizes = {"rows": size, "columns": size, "depth": size}
    arguments: dict[str, Value] = {"a": operand, "b": operand, "c": Buffer("f32", (size, size), Fill("zeros")), **sizes}
    launch = kernel_launch("matrix_product", "matrix_product", (tiles, tiles, 1), **arguments)
    yield Ceiling(name="matrix_product", launch=launch, amount=2.0 * size**3, unit="FLOP")


_LINE_BYTES = 128
_PAGE_LINES_LOG2 = 14
"""lines of a 2 MiB page"""

#: Chains: in L1 for the smallest L1; in L2 small enough for one partition's TLB reach; in DRAM far beyond L2.
_L1_CHAIN_BYTES = 8 * KIB
_L2_CHAIN_BYTES = MIB
_L2_SHARE = 0.4
# Ceilings of memory: bandwidth of DRAM, L2, L1 and shared memory.


_L2_MULTIPLE = 8
_LEAST_DRAM_CHAIN_BYTES = 512 * MIB
"""least bytes of a chain in DRAM: far beyond the reach of a first-level TLB"""
_MEMORY_SHARE = 4

#: Steps, so that a launch takes about a millisecond or more.
_CACHE_STEPS = 32768
_L2_STEPS = 8192
_DRAM_STEPS = 4096
_ARITHMETIC_STEPS = 262144
_BARRIER_STEPS = 32768
_ATOMIC_STEPS = 4096

_OLDEST_WITH_L1 = 50
"""oldest compute capability, without its point, whose L1 holds global data; Kepler's holds none"""
_NEVER = 7
"""value that no chain of arithmetic takes"""

_ATOMIC_UNROLL = 8
_CLOCK_SECONDS = 25 * KERNEL_SECONDS
"""seconds of all launches together: long enough to reach the power limit"""
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


_VECTOR_BYTES = 16
_LEAST_BYTES = 256 * MIB
_MOST_BYTES = GIB
"""most bytes of one buffer; all buffers together take at most 1 / _MEMORY_SHARE of the GPU's memory"""

#: How often a launch streams through its buffers where nothing tells how fast the memory is.
_PASSES = 8

#: Unrolling, threads of a block, and whether only as many blocks run as are resident: which is best differs by GPU.
_DRAM_SHAPES = ((4, 256, True), (4, 1024, True), (4, 256, False), (1, 256, False))

#: Kernel: buffers that are filled, buffers, other arguments. Moved bytes are those of all buffers once.
_DRAM_KERNELS: tuple[tuple[str, str, str, dict[str, Value]], ...] = (
    ("dram_copy", "a", "ab", {}),
    ("dram_read", "a", "a", {"out": zeros("f32", 1)}),
    ("dram_init", "", "b", {"value": 0.7}),
    ("dram_triad", "ab", "abc", {"factor": 0.3}),
)
#: Bytes per cycle and SM, of which no GPU delivers more.
_L2_BYTES_PER_CYCLE = 32
_L1_BYTES_PER_CYCLE = 128
#: Working set in L1: the smallest L1 has 24 KiB.
_L1_WORDS = 4096

_CACHE_UNROLL = 8
_SHARED_UNROLL = 16
#: Threads of a block with 32 KiB of shared memory; one for each SM.
_SHARED_BLOCK = 1024
_BANK_BYTES = 4
_ROUND_STRIDE = 512
"""words between the starts of two rounds in shared memory"""


def dram(chip: Chip) -> Iterator[Ceiling]:
    """Streaming: copy, read, init and triad, each in several shapes."""
    for name, filled, buffers, others in _DRAM_KERNELS:
        for index, (most_unrolled, block, is_resident) in enumerate(_DRAM_SHAPES):
            # More would take more registers than a full SM has for each thread.
            unroll = min(most_unrolled, 2) if len(filled) > 1 else most_unrolled
            room = min(_MOST_BYTES, chip.memory_bytes // _MEMORY_SHARE // len(buffers))
            wanted = min(room, max(_LEAST_BYTES, _L2_MULTIPLE * chip.l2_bytes)) // _VECTOR_BYTES
            step = unroll * (chip.blocks(block) * block if is_resident else block)
            count = max(1, wanted // step) * step
            grid = chip.blocks(block) if is_resident else count // step
            held: dict[str, Value] = {each: zeros("f32", 4 * count) for each in buffers}
            moved = len(buffers) * count * _VECTOR_BYTES
            # Blocks of one row of the grid stream once through the buffers; the next row begins where they are cold.
            passes = _passes(chip, moved)
            launch = kernel_launch("dram", name, (grid, passes, 1), block, **held, **others, count=count)
            yield Ceiling(
                name=f"{name}#{index}",
                launch=with_define(launch, "UNROLL", unroll),
                amount=float(moved * passes),
                unit="B",
                setup=_dram_setup(chip, filled, held, count),
            )


def _passes(chip: Chip, moved_bytes: int) -> int:
    if chip.dram_bytes_per_s is None:
        return _PASSES
    return math.ceil(KERNEL_SECONDS * chip.dram_bytes_per_s / moved_bytes)


def _dram_setup(chip: Chip, filled: str, held: dict[str, Value], count: int) -> Launch | None:
    if not filled:
        return None
    kernel = "dram_fill_two" if len(filled) > 1 else "dram_fill"
    return kernel_launch("dram", kernel, chip.blocks(), **{each: held[each] for each in filled}, count=count)


def l2(chip: Chip) -> Iterator[Ceiling]:
    """Reads of a working set that all SMs share and that fits into L2."""
    count = max(32, int(chip.l2_bytes * _L2_SHARE) // _VECTOR_BYTES // 32 * 32)
    words = zeros("u32", 4 * count)
    for index, block in enumerate((256, 512, 1024)):
        blocks = chip.blocks(block)
        loads = blocks * block * _CACHE_UNROLL
        rounds = chip.rounds(loads * _VECTOR_BYTES, _L2_BYTES_PER_CYCLE * chip.sm_count)
        arguments: dict[str, Value] = {"set": words, "out": zeros("u32", 1), "count": count}
        # All threads together step on by their number; where that ends at the same place, by one warp.
        stride = blocks * block % count or 32
        launch = kernel_launch("cache", "l2_read", blocks, block, **arguments, stride=stride, rounds=rounds)
        yield Ceiling(
            name=f"l2_read#{index}",
            launch=launch,
            amount=float(loads * rounds * _VECTOR_BYTES),
            unit="B",
            setup=kernel_launch("cache", "cache_fill", chip.blocks(), set=words, count=4 * count),
        )


def l1(chip: Chip) -> Iterator[Ceiling]:
    """Reads of a working set that each SM holds in L1, by 4, 8 and 16 bytes per thread."""
    if chip.number < _OLDEST_WITH_L1:
        return
    # The loads of a round reach beyond the place where it begins.
    reach = BLOCK * 4 + _CACHE_UNROLL * 32 * 4
    for index, width in enumerate((4, 2, 1)):
        blocks = chip.blocks()
        loads = blocks * BLOCK * _CACHE_UNROLL
        rounds = chip.rounds(loads * 4 * width, _L1_BYTES_PER_CYCLE * chip.sm_count)
        words = zeros("u32", _L1_WORDS + reach)
        sizes: dict[str, Value] = {"count": _L1_WORDS, "stride": 32 * width, "rounds": rounds}
        launch = kernel_launch("cache", "l1_read", blocks, set=words, out=zeros("u32", 1), **sizes)
        yield Ceiling(
            name=f"l1_read#{index}",
            launch=with_define(launch, "WORDS", width),
            amount=float(loads * rounds * 4 * width),
            unit="B",
            setup=kernel_launch("cache", "cache_fill", chip.blocks(), set=words, count=_L1_WORDS + reach),
        )


def shared(chip: Chip) -> Iterator[Ceiling]:
    """Reads of shared memory without bank conflicts, and with conflicts of all 32 lanes."""
    loads = chip.sm_count * _SHARED_BLOCK * _SHARED_UNROLL
    for name, width, per_cycle in (
        ("shared_read", _VECTOR_BYTES, _L1_BYTES_PER_CYCLE),
        ("shared_conflict", _BANK_BYTES, _BANK_BYTES),
    ):
        rounds = chip.rounds(loads * width, per_cycle * chip.sm_count)
        sizes: dict[str, Value] = {"stride": _ROUND_STRIDE, "rounds": rounds}
        launch = kernel_launch("shared", name, chip.sm_count, _SHARED_BLOCK, out=zeros("u32", 1), **sizes)
        yield Ceiling(name=name, launch=launch, amount=float(loads * rounds * width), unit="B")
