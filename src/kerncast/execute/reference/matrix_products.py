"""Products of matrices by tensor cores, over whole matrices gathered from the registers of each warp."""

from collections.abc import Callable, Collection
from functools import cache
from itertools import product as pairs
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference import floats
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.ptx import Instruction, Operand, Vector
from kerncast.ptx.fragments import Product, product_of

AnyArray = npt.NDArray[Any]
Place = Callable[[int, int, int], tuple[int, int]]
"""row and column of an element, by lane, register and element of the register"""

_MOST, _LEAST = 2**31 - 1, -(2**31)
_SATFINITE = "satfinite"


def multiply(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run mma.sync; sums are taken in the order of k."""
    product = product_of(ins.modifiers, ins.types)
    assert product is not None, ins.name
    places = {"a": product.place_in_a, "b": product.place_in_b, "c": product.place_in_total}
    per = {"a": product.per_register, "b": product.per_register, "c": product.per_total}
    shapes = {"a": (product.m, product.k), "b": (product.k, product.n), "c": (product.m, product.n)}
    types = {"a": product.a, "b": product.b, "c": product.total}
    warps = np.unique(threads.warp[active])
    whole = {
        name: gathered(threads, operand, warps, (types[name], shapes[name], per[name], places[name]))
        for name, operand in zip("abc", ins.operands[1:], strict=True)
    }
    result = multiplied(ins.modifiers, product, whole["a"], whole["b"], whole["c"])
    spread(threads, ins.operands[0], (product, result), active)


def gathered(
    threads: Threads, operand: Operand, warps: Index, kind: "tuple[str, tuple[int, int], int, Place]"
) -> AnyArray:
    """Return [warps, rows, columns] a matrix that lies in registers; its kind is type, shape, numbers in one, place."""
    name, shape, per, place_of = kind
    lanes = (warps[:, None] * WARP_LANES + np.arange(WARP_LANES)).ravel()
    wide = "b64" if name == "f64" else "b32"
    raw = np.stack([threads.values(r, wide, lanes) for r in _listed(operand)], axis=-1)
    values = decoded(name, raw.reshape(len(warps), WARP_LANES, -1))
    matrix = np.zeros((len(warps), *shape), values.dtype)
    for place in pairs(range(WARP_LANES), range(values.shape[2]), range(per)):
        lane, register, element = place
        matrix[:, *place_of(*place)] = values[:, lane, register, element]
    return matrix


def spread(threads: Threads, operand: Operand, sums: tuple[Product, AnyArray], active: Index) -> None:
    """Write the sums of a product to the registers of its lanes."""
    product, result = sums
    position = np.searchsorted(np.unique(threads.warp[active]), threads.warp[active])
    for register, each in enumerate(_listed(operand)):
        row, column = np.moveaxis(_totals(product)[register], -1, 0)[..., threads.lane[active], :]
        found = np.ascontiguousarray(result[position[:, None], row, column])
        bits = found.view(np.uint64 if product.total == "f64" else np.uint32)
        threads.write(each, bits.ravel(), active)


@cache
def _totals(product: Product) -> AnyArray:
    """Return [registers, lanes, elements, 2] the rows and columns of D."""
    shape = (product.registers[2], WARP_LANES, product.per_total)
    found = [product.place_in_total(lane, register, e) for register, lane, e in pairs(*map(range, shape))]
    return np.array(found).reshape(*shape, 2)


def multiplied(modes: Collection[str], product: Product, a: AnyArray, b: AnyArray, c: AnyArray) -> AnyArray:
    """Return [warps, m, n] sums of the products of A and B, and C."""
    if product.total == "s32":
        if product.a == "b1":
            both = a[:, :, :, None] & b[:, None] if "and" in modes else a[:, :, :, None] ^ b[:, None]
            total = both.sum(axis=2, dtype=np.int64)
        else:
            total = np.matmul(a, b)
        total = total + c
        if _SATFINITE in modes:
            total = np.clip(total, _LEAST, _MOST)
        whole: AnyArray = total.astype(np.int32)
        return whole
    total = c if product.total == "f64" else c.astype(np.float32)
    shape = total.shape
    for k in range(product.k):
        left = np.broadcast_to(a[:, :, k, None], shape).ravel()
        right = np.broadcast_to(b[:, None, k], shape).ravel()
        if product.total == "f64":
            total = floats.fma64(left, right, total.ravel()).reshape(shape)
        else:
            total = floats.fma32(left, right, total.ravel(), "rn").reshape(shape)
    sums: AnyArray = total.astype(np.float16) if product.total == "f16" else total
    return sums


def decoded(name: str, raw: AnyArray) -> AnyArray:
    """Return [..., elements] the elements of registers, the lowest bits first."""
    if name in {"f64", "s32", "f32", "tf32"}:
        if name == "tf32":
            raw = raw & np.uint32(0xFFFFE000)
        kind = {"f64": np.float64, "s32": np.int32}.get(name, np.float32)
        values: AnyArray = raw.view(kind)[..., None]
        return values.astype(np.int64) if name == "s32" else values
    width = {"b1": 1, "bf16": 16, "f16": 16}.get(name) or (8 if name.startswith("e") else int(name[1:]))
    shifts = np.arange(0, 32, width, dtype=np.uint32)
    parts = (raw[..., None] >> shifts) & np.uint32((1 << width) - 1)
    if name == "f16":
        values = parts.astype(np.uint16).view(np.float16)
        return values.astype(np.float32)
    if name == "bf16":
        return np.asarray((parts << np.uint32(16)).view(np.float32))
    if name.startswith("e"):
        return np.asarray(_bytes(name)[parts])
    numbers = parts.astype(np.int64)
    return np.where(numbers >> (width - 1), numbers - (1 << width), numbers) if name.startswith("s") else numbers


@cache
def _bytes(name: str) -> AnyArray:
    """Return [256] the values of a type of 8 bits. Source: OCP 8-bit Floating Point Specification 1.0, table 1."""
    mantissa_bits = int(name[3])
    bias = (1 << int(name[1]) - 1) - 1
    values = []
    for code in range(256):
        exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & (1 << mantissa_bits) - 1
        part = mantissa / (1 << mantissa_bits)
        value = 2.0 ** (exponent - bias) * (1 + part) if exponent else 2.0 ** (1 - bias) * part
        if name == "e4m3" and code & 0x7F == 0x7F:
            value = np.nan
        if name == "e5m2" and exponent == 0x1F:
            value = np.nan if mantissa else np.inf
        values.append(-value if code & 0x80 else value)
    return np.array(values, np.float32)


def transpose(threads: Threads, ins: Instruction, active: Index) -> None:
    """Run movmatrix: a matrix of 8 x 8 elements of 16 bits is transposed."""
    warps = np.unique(threads.warp[active])
    lanes = (warps[:, None] * WARP_LANES + np.arange(WARP_LANES)).ravel()
    raw = np.ascontiguousarray(threads.values(ins.operands[1], "b32", lanes))
    turned = np.ascontiguousarray(raw.view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)).view(np.uint32)
    position = np.searchsorted(warps, threads.warp[active])
    threads.write(ins.operands[0], turned.reshape(-1, WARP_LANES)[position, threads.lane[active]], active)


def _listed(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)
