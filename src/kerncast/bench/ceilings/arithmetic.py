"""Ceilings of arithmetic: rates of the pipes and tensor cores, and a matrix product."""

from collections.abc import Iterator
from dataclasses import dataclass

from kerncast.bench.ceilings.ceiling import BLOCK, KERNEL_SECONDS, Ceiling, Chip, kernel_launch, zeros
from kerncast.launch import Buffer, Fill, Value

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
    """compute capabilities that have it; None for all from ``oldest`` on"""
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
