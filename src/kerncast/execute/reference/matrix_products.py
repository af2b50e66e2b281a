"""Products of matrices by tensor cores, over whole matrices gathered from the registers of each warp."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
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
    m, k = product.m * product.count, product.k * product.count
    shapes = {"a": (m, product.length), "b": (k, product.n), "c": (m, product.n)}
    types = {"a": product.a, "b": product.b, "c": product.total}
    warps = np.unique(threads.warp[active])
    whole = {
        name: gathered(threads, operand, warps, (types[name], shapes[name], per[name], places[name]))
        for name, operand in zip("abc", ins.operands[1:4], strict=True)
    }
    held = None
    if product.is_sparse:
        whole["a"], held = spread_out(threads, ins.operands[4:6], (product, warps), whole["a"])
    if product.scales:
        result = _scaled(threads, ins, (product, warps), whole)
    else:
        apart = {name: each.reshape(-1, each.shape[1] // product.count, each.shape[2]) for name, each in whole.items()}
        result = multiplied(ins.modifiers, product, (apart["a"], apart["b"]), apart["c"], held).reshape(
            whole["c"].shape
        )
    spread(threads, ins.operands[0], (product, result), active)


def spread_out(
    threads: Threads, operands: Sequence[Operand], what: tuple[Product, Index], held: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Return [warps, m, k] a sparse A with its zeros, and which numbers it holds, as metadata say.

    The operands are the word of metadata and what selects the lanes that have some.
    """
    product, warps = what
    words, selector = operands
    first = product.lanes_of_metadata * int(threads.values(selector, "b32", warps[:1] * WARP_LANES)[0])
    everyone = (warps[:, None] * WARP_LANES + np.arange(WARP_LANES)).ravel()
    metadata = threads.values(_listed(words)[0], "b32", everyone).reshape(-1, WARP_LANES)
    whole = np.zeros((len(warps), product.m, product.k), held.dtype)
    is_held = np.zeros(whole.shape, np.bool_)
    own = np.arange(len(warps))
    for row, number in pairs(range(product.m), range(product.length)):
        lane, bit = product.place_of_metadata(row, number)
        code = metadata[:, first + lane] >> np.uint32(bit)
        if product.a == "tf32":  # the halves of a number: 0b0100 is the first one, 0b1110 the second one
            place = 2 * number + (code >> np.uint32(1) & np.uint32(1))
        else:
            per = product.per_code
            place = np.uint32(per) * (4 * (number // per // 2) + (code & np.uint32(3))) + number % per
        whole[own, row, place.astype(np.int64)] += held[:, row, number]
        is_held[own, row, place.astype(np.int64)] = True
    return whole, is_held


def _scaled(threads: Threads, ins: Instruction, what: tuple[Product, Index], whole: dict[str, AnyArray]) -> AnyArray:
    """Return [warps, m, n] C and the products of parts of A and B times the factors of their rows and columns.

    They are added up as FP64 and rounded once.
    """
    product, warps = what
    rows, columns = np.arange(product.m), np.arange(product.n)
    places = (4 * (rows % 8) + rows // 8, 4 * columns)  # lanes that hold the factors, but for that of the selector
    in_a, in_b = (
        _factors(threads, ins.operands[first : first + 2], (product, warps), lanes)
        for first, lanes in zip((4, 6), ((places[0], 2), (places[1], 1)), strict=True)
    )
    length = product.k // product.scales
    total = whole["c"].astype(np.float64)
    for number in range(product.scales):
        part = slice(length * number, length * (number + 1))
        some = replace(product, k=length)
        sums = multiplied((), some, (whole["a"][:, :, part], whole["b"][:, part]), np.zeros_like(whole["c"]))
        total += sums.astype(np.float64) * in_a[:, :, None, number] * in_b[:, None, :, number]
    rounded: AnyArray = total.astype(np.float32)
    return rounded


def _factors(
    threads: Threads, operands: tuple[Operand, ...], what: tuple[Product, Index], place: tuple[Index, int]
) -> AnyArray:
    """Return [warps, rows, factors]; the operands are a register, and which byte of which lanes holds the first one."""
    product, warps = what
    lanes, step = place
    data, selector = operands
    byte, lane = (
        threads.values(each, "b16", warps * WARP_LANES).astype(np.int64)[:, None] for each in _listed(selector)
    )
    everyone = (warps[:, None] * WARP_LANES + np.arange(WARP_LANES)).ravel()
    words = threads.values(_listed(data)[0], "b32", everyone).reshape(-1, WARP_LANES)
    chosen = np.take_along_axis(words, lanes + step * lane, axis=1)[..., None]
    codes = chosen >> (8 * (byte[..., None] + np.arange(product.scales))).astype(np.uint32) & np.uint32(0xFF)
    if product.scale == "ue4m3":
        return np.asarray(_bytes("e4m3")[codes & np.uint32(0x7F)].astype(np.float64))
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int64) - 127))


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


def multiplied(
    modes: Collection[str],
    product: Product,
    factors: tuple[AnyArray, AnyArray],
    c: AnyArray,
    held: AnyArray | None = None,
) -> AnyArray:
    """Return [warps, m, n] sums of the products of A and B, and C; held: [warps, m, k] what a sparse A has."""
    a, b = factors
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
            found = floats.fma32(left, right, total.ravel(), "rn").reshape(shape)
            total = found if held is None else np.where(held[:, :, k, None], found, total)
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
    if name == "e2m1_8":
        name, raw = "e2m1", raw >> np.uint32(2)
        parts = (raw[..., None] >> np.arange(0, 32, 8, dtype=np.uint32)) & np.uint32(15)
        return np.asarray(_bytes(name)[parts])
    width = {"b1": 1, "bf16": 16, "f16": 16, "e2m1": 4}.get(name) or (8 if name.startswith("e") else int(name[1:]))
    shifts = np.arange(0, 32, width, dtype=np.uint32)
    parts = (raw[..., None] >> shifts) & np.uint32((1 << width) - 1)
    if name == "f16":
        values = parts.astype(np.uint16).view(np.float16)
        return values.astype(np.float32)
    if name == "bf16":
        return np.asarray((parts << np.uint32(16)).view(np.float32))
    if name in {"e2m3", "e3m2"}:  # the two highest bits of the byte have no meaning
        parts = parts & np.uint32(63)
    if name.startswith("e"):
        return np.asarray(_bytes(name)[parts])
    numbers = parts.astype(np.int64)
    return np.where(numbers >> (width - 1), numbers - (1 << width), numbers) if name.startswith("s") else numbers


@cache
def _bytes(name: str) -> AnyArray:
    """Return the values of a type of 8, 6 or 4 bits.

    Source: OCP 8-bit Floating Point Specification 1.0, table 1; OCP Microscaling Formats 1.0, section 5.3.
    """
    mantissa_bits = int(name[3])
    size = 1 << int(name[1]) + mantissa_bits
    bias = (1 << int(name[1]) - 1) - 1
    values = []
    for code in range(2 * size):
        exponent, mantissa = (code & size - 1) >> mantissa_bits, code & (1 << mantissa_bits) - 1
        part = mantissa / (1 << mantissa_bits)
        value = 2.0 ** (exponent - bias) * (1 + part) if exponent else 2.0 ** (1 - bias) * part
        if name == "e4m3" and code & 0x7F == 0x7F:
            value = np.nan
        if name == "e5m2" and exponent == 0x1F:
            value = np.nan if mantissa else np.inf
        values.append(-value if code & size else value)
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
