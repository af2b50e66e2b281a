"""What a product of matrices costs the tensor cores: its multiply-adds over the rate of its types.

The rates are facts (``gpu.tensor_rate``). A short product takes the pipe for less time in proportion, and its result
comes as much earlier. Fails when: short products are slower than in proportion, as nobody has measured of most types.
"""

from collections.abc import Iterable

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import Architecture, group_rate, has_products_by_quads, tensor_rate
from kerncast.machine.control_flow import rows_and_depth
from kerncast.ptx import Instruction
from kerncast.ptx.fragments import Product, product_of
from kerncast.ptx.tensor_layouts import STATIONARY

_BITS = {
    "f64": 64,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
#: From this architecture on, products of 8 rows of integers are made of those of 16 rows (ptxas 12.9).
_PADS_INTEGERS = 100
_ROWS, _COLUMNS, _ROW_BITS = 16, 8, 256
_NATIVE = {"DMMA": ("f64", "f64"), "BMMA": ("b1", "s32")}
Cycles = tuple[float, float]
"""cycles that a warp occupies the pipe, and cycles to the result"""


def check_products(code: Iterable[Instruction], architecture: Architecture) -> None:
    """Raise MissingEvidenceError for what tensor cores do that is no product of a warp, of four or of a block.

    Machine code may not tell which instruction of the PTX it comes from.
    """
    for ins in code:
        if ins.opcode.pipe == "tensor" and ins.root != "tcgen05" and not ins.opcode.group:
            _product(ins, architecture)
        elif ins.root == "tcgen05":
            _check_tensor_memory(ins, architecture)


def _check_tensor_memory(ins: Instruction, architecture: Architecture) -> None:
    """Raise MissingEvidenceError for tensor memory without times, and for products of integers of no rate."""
    known = architecture.cycles.tensor_memory, architecture.cycles.tensor_commit
    if None in known or architecture.tensor_group_fp16_lanes_per_sm is None:
        raise MissingEvidenceError(
            f"{ins.name} uses tensor memory, whose times are unknown on {architecture.id}",
            where=ins.where, cure="Use --model roofline.",
        )  # fmt: skip
    is_of_unknown_rate = "kind::i8" in ins.modifiers and group_rate(architecture, "s8") is None
    if is_of_unknown_rate or STATIONARY in ins.modifiers:  # nobody has published what products take where B stays
        raise _unknown(ins, architecture)


def cycles_of_product(ins: Instruction, architecture: Architecture) -> Cycles:
    """Return what a product of the PTX takes; raises MissingEvidenceError where its rate is not known."""
    product = _product(ins, architecture)
    rows = _ROWS if product.total == "s32" and architecture.number >= _PADS_INTEGERS else product.m
    return _cycles(ins, architecture, (product.kind, product.total), product.count * rows * product.n * product.length)


def _product(ins: Instruction, architecture: Architecture) -> Product:
    """Return what an instruction computes; raises MissingEvidenceError where tensor cores don't do it in one piece."""
    product = product_of(ins.modifiers, ins.types)
    if product is None or (product.count > 1 and not has_products_by_quads(architecture)):
        raise _unknown(ins, architecture)
    return product


def cycles_of_machine_product(
    opcode: str, modifiers: tuple[str, ...], ins: Instruction, architecture: Architecture
) -> Cycles:
    """Return what a machine instruction takes; ``ins`` is the instruction of the PTX that it comes from.

    Raises MissingEvidenceError where its rate is not known.
    """
    shape = rows_and_depth(modifiers)
    if shape is None:
        return cycles_of_product(ins, architecture)
    kinds = _NATIVE.get(opcode) or _kinds(opcode, modifiers)
    rows, depth = shape
    depth //= 2 if "SP" in modifiers else 1  # of a sparse A half is multiplied
    # Of four products by quads, HMMA.884 does a quarter; of FP16 sums a half (ptxas: two steps instead of four).
    count = 2 if "884" in modifiers and kinds == ("f16", "f16") else 1
    return _cycles(ins, architecture, kinds, count * rows * _COLUMNS * depth)


def _kinds(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, str]:
    """Return the types of A and of the sums."""
    small = [m.lower() for m in modifiers]
    named = next((m for m in small if m in _BITS and m != "f16"), "")
    if opcode == "IMMA":
        return named or "s8", "s32"
    if opcode == "QMMA":  # floats of 4, 6 and 8 bits have a byte each: they are as fast as FP8
        named = "e4m3"
    return named or "f16", "f32" if "f32" in small else "f16"


def _cycles(ins: Instruction, architecture: Architecture, kinds: tuple[str, str], multiply_adds: int) -> Cycles:
    rate = tensor_rate(architecture, *kinds)
    if rate is None:
        raise _unknown(ins, architecture)
    per_scheduler = rate.per_sm / architecture.schedulers_per_sm
    interval = multiply_adds / per_scheduler
    known, cycles = architecture.cycles.tensor_latency, architecture.cycles
    if rate.latency is not None:
        whole = _ROWS * _COLUMNS * _ROW_BITS / _BITS[kinds[0]] / per_scheduler
        latency = rate.latency + interval - whole
    elif known is not None and cycles.tensor is not None:
        latency = known + interval - cycles.tensor
    else:
        latency = interval + (cycles.alu_latency or 0.0)
    return interval, max(latency, interval)


def _unknown(ins: Instruction, architecture: Architecture) -> MissingEvidenceError:
    return MissingEvidenceError(
        f"{ins.name} is a product of tensor cores whose rate is unknown on {architecture.id}",
        cure="data/instructions/tensor_products.csv has the known ones.",
    )
