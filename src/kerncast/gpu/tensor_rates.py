"""Rates of tensor cores by the types of a product: the facts of ``data/instructions/tensor_products.csv``.

A rate is that of the chip, or a share of the GPU's own rate of FP16 with FP32 sums, which differs between boards of one
chip. Rates of warp-level instructions, without sparsity.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from kerncast.bounded_file import our_rows
from kerncast.gpu.files import DATA
from kerncast.gpu.gpu import Architecture

_FILE = DATA / "instructions" / "tensor_products.csv"
#: Types of A and B that are as fast as another one, as ptx.fragments says too.
_ALIKE = {"u8": "s8", "u4": "s4", "e5m2": "e4m3"}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "s8": 8}
_HALF_BITS = 16
_AMPERE = 80
#: Volta's products by quads in counts of instructions, as ptx.fragments names them too.
_BY_QUADS = "mma.m8n8k4."
#: Sums of integers by instructions of groups, in the table.
_BY_GROUP = "s32 by group"
#: What each type of A and B is called in tables, in the order of the roofline.
FACTORS = ("f16", "bf16", "tf32", "f64", "e4m3", "s8", "s4", "b1")


@dataclass(frozen=True, slots=True)
class TensorRate:
    """How fast the tensor cores of an SM are for one pair of types."""

    per_sm: float
    """multiply-adds per clock and SM"""
    latency: float | None
    """cycles to the result of a product whose rows of A have 32 bytes, 16 of them; None: it was not measured alone"""


@dataclass(frozen=True, slots=True)
class _Row:
    since: int
    per_sm: float
    share: float
    latency: float | None


def kind_of_factor(name: str) -> str:
    """Return the type in the table that is as fast as a type of A.

    >>> kind_of_factor("u8"), kind_of_factor("bf16")
    ('s8', 'bf16')
    """
    return _ALIKE.get(name, name)


def tensor_rate(architecture: Architecture, factor: str, total: str) -> TensorRate | None:
    """Return the rate of products of a type with sums of another; None where the GPU has none, or it is unknown.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> [tensor_rate(load_gpu("a100-sxm-80gb").architecture, *each).per_sm for each in (("tf32", "f32"), ("u8", "s32"))]
    [512.0, 2048.0]
    """
    if architecture.tensor_cores_per_sm is None:
        return None
    rows = [r for r in _table().get((kind_of_factor(factor), total), ()) if r.since <= architecture.number]
    if not rows:
        return None
    newest = rows[-1]
    per_sm = newest.per_sm or newest.share * (architecture.tensor_fp16_lanes_per_sm or 0.0)
    return TensorRate(per_sm, newest.latency) if per_sm else None


def group_rate(architecture: Architecture, factor: str) -> float | None:
    """Return the multiply-adds per clock and SM by instructions of groups of warps; None where that is unknown.

    Of every type they take rows of as many bytes in the same time (data sheets of Hopper and Blackwell), but for
    integers where the table has a rate of them.

    >>> from kerncast.gpu.gpu import load_gpu
    >>> [group_rate(load_gpu(name).architecture, "u8") for name in ("h100-sxm", "b200", "b300")]
    [4096.0, 8192.0, None]
    """
    rows = [r for r in _table().get((kind_of_factor(factor), _BY_GROUP), ()) if r.since <= architecture.number]
    if rows:
        return rows[-1].per_sm or None
    lanes, bits = architecture.tensor_group_fp16_lanes_per_sm, _BITS.get(kind_of_factor(factor))
    return None if lanes is None or bits is None else lanes * _HALF_BITS / bits


def has_products_by_quads(architecture: Architecture) -> bool:
    """Return whether tensor cores do Volta's four products by quads: from Ampere on they are code of shuffles and FMA.

    Source: ptxas 12.9.
    """
    return architecture.number < _AMPERE


def rate_in_use(architecture: Architecture, types: tuple[str, str], kinds: Iterable[str]) -> float | None:
    """Return the multiply-adds per clock and SM of products of A's type and the sums', by instructions of these kinds.

    Of four warps (wgmma) and in tensor memory (tcgen05) they have one rate; None where it is unknown.
    """
    kinds = list(kinds)
    factor, total = types
    if any(each.startswith(_BY_QUADS) for each in kinds) and not has_products_by_quads(architecture):
        return None
    if any(each.startswith(("wgmma", "tcgen05")) for each in kinds):
        return group_rate(architecture, factor)
    alone = tensor_rate(architecture, factor, total)
    return alone.per_sm if alone else None


@cache
def _table() -> dict[tuple[str, str], list[_Row]]:
    """Return the rows of each pair of types, oldest first."""
    found: dict[tuple[str, str], list[_Row]] = {}
    for row in our_rows(_FILE):
        latency = float(row["latency"]) if row["latency"] else None
        one = _Row(int(row["from"]), float(row["per_sm"] or 0), float(row["share"] or 0), latency)
        found.setdefault((row["factor"], row["total"]), []).append(one)
    return {key: sorted(rows, key=lambda row: row.since) for key, rows in found.items()}
