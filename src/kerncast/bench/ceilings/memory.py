"""Ceilings of memory: bandwidth of DRAM, L2, L1 and shared memory."""

import math
from collections.abc import Iterator

from kerncast.bench.ceilings.ceiling import BLOCK, KERNEL_SECONDS, Ceiling, Chip, kernel_launch, with_define, zeros
from kerncast.launch import Launch, Value
from kerncast.units import GIB, MIB

_VECTOR_BYTES = 16

#: Size of one buffer in DRAM: many times L2, so that what L2 keeps from the launch before is little.
_L2_MULTIPLE = 8
_LEAST_BYTES = 256 * MIB
_MOST_BYTES = GIB
_MEMORY_SHARE = 4
"""all buffers of a ceiling together take at most one part of so many of the memory"""

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

#: Working set in L2, as a share of its size: GPUs with two partitions may hold data in both.
_L2_SHARE = 0.4
#: Bytes per cycle and SM, of which no GPU delivers more.
_L2_BYTES_PER_CYCLE = 32
_L1_BYTES_PER_CYCLE = 128
#: Working set in L1: the smallest L1 has 24 KiB.
_L1_WORDS = 4096
_OLDEST_WITH_L1 = 50
"""Kepler's L1 holds no global data"""

_CACHE_UNROLL = 8
_SHARED_UNROLL = 16
#: Threads of a block with 32 KiB of shared memory; one for each SM.
_SHARED_BLOCK = 1024
_BANK_BYTES = 4
_ROUND_STRIDE = 512
"""how far apart two rounds begin in shared memory"""


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
