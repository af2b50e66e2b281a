"""Products of matrices by four warps, where each warp takes its 16 rows of A and all of B.

The address of each byte of a tile is computed by itself.
Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.15.5.1 (Shared Memory Matrix Layout).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference.matrix_products import decoded, gathered, multiplied, spread, spread_out
from kerncast.execute.reference.memory import Memory
from kerncast.execute.reference.threads import Index
from kerncast.execute.setup.tensor_faults import tensor_fault
from kerncast.ptx import Immediate, Instruction, Operand, Vector
from kerncast.ptx.fragments import group_product_of

AnyArray = npt.NDArray[Any]

_GROUP_WARPS, _WARP_ROWS, _ROW_BYTES = 4, 16, 32
#: Bytes after which the pattern of a swizzle goes on one row further down, by the number in a descriptor.
_WIDTHS = (16, 128, 64, 32)
_NARROWEST = 3
_MINUS_ONE = {-1, 2**32 - 1, 2**64 - 1}


def multiply(memory: Memory, ins: Instruction, active: Index) -> None:
    """Run wgmma.mma_async, which is done at once; sums are taken in the order of k."""
    threads = memory.threads
    product = group_product_of(ins.modifiers, ins.types)
    assert product is not None, ins.name
    totals, left, right, *others = ins.operands
    metadata, (adds, *constants) = (others[:2], others[2:]) if product.is_sparse else ([], others)
    warps, first = np.unique(threads.warp[active], return_index=True)
    leaders = active[first]
    signs, turns = _settings(constants)
    if isinstance(left, Vector):
        turns = [False, *turns]
    own = threads.warp[leaders] % threads.warps_per_block % _GROUP_WARPS * _WARP_ROWS
    everything = np.arange(product.n)
    pairs = []
    for leader, first_row in zip(leaders.tolist(), own.tolist(), strict=True):  # a fault is that of the first warp
        rows = np.arange(first_row, first_row + _WARP_ROWS)
        is_given = isinstance(left, Vector)
        a_tile = None if is_given else _tile(memory, (ins, left, product.a), leader, (rows, 0), turns[0])
        starts = (0, _ROW_BYTES) if product.is_sparse else (0,)
        parts = [_tile(memory, (ins, right, product.b), leader, (everything, first), turns[1]) for first in starts]
        pairs.append((a_tile, np.concatenate(parts, axis=1)))
    b = np.stack([b_tile for _, b_tile in pairs])
    if isinstance(left, Vector):
        shape = (product.m, product.length)
        a = gathered(threads, left, warps, (product.a, shape, product.per_register, product.place_in_a))
    else:
        a = np.stack([a_tile for a_tile, _ in pairs if a_tile is not None])
    shape = (product.m, product.n)
    c = gathered(threads, totals, warps, (product.total, shape, product.per_total, product.place_in_total))
    c = np.where(threads.values(adds, "pred", leaders)[:, None, None], c, np.zeros_like(c))
    held = None
    if product.is_sparse:
        a, held = spread_out(threads, metadata, (product, warps), a)
    factors = -a if signs[0] else a, (-b if signs[1] else b).swapaxes(1, 2)
    result = multiplied(ins.modifiers, product, factors, c, held)
    spread(threads, totals, (product, result), active)


def _settings(constants: list[Operand]) -> tuple[list[bool], list[bool]]:
    """Return whether A and B are negated, and which matrices lie turned."""
    values = [each.value for each in constants if isinstance(each, Immediate)]
    signs = [value in _MINUS_ONE for value in values[:2]] or [False, False]
    return signs, [bool(value) for value in values[2:]] or [False, False]


def _tile(
    memory: Memory, what: tuple[Instruction, Operand, str], leader: int, where: tuple[Index, int], is_turned: bool
) -> AnyArray:
    """Return [rows, k] numbers that the descriptor of a leading lane describes: of rows, from a byte in them on."""
    rows, first = where
    ins, operand, name = what
    threads = memory.threads
    descriptor = int(threads.values(operand, "u64", np.array([leader]))[0])
    place = threads.describe(leader), ins.where or threads.program.function.name
    if descriptor >> 49 & 7:
        raise tensor_fault("descriptor", ins, place, descriptor)
    if first and descriptor >> 62 == _NARROWEST and not is_turned:  # rows of 64 bytes do not fit into its pattern
        raise tensor_fault("swizzle", ins, place, descriptor)
    addresses = addresses_of(descriptor, rows, is_turned=is_turned, first=first)
    outside = first_outside(addresses, memory.shared_bytes)
    if outside is not None:
        raise tensor_fault("tile", ins, place, outside, memory.shared_bytes)
    words = memory.shared_of(leader)[addresses].view(np.uint32)
    return decoded(name, words).reshape(len(rows), -1)


def first_outside(addresses: Index, size: int) -> int | None:
    """Return the last piece of 16 bytes of the first 8 rows that leave shared memory."""
    groups = addresses.reshape(-1, 8 * addresses.shape[1]).max(axis=1)
    bad = groups[groups >= size]
    return int(bad[0]) & -16 if len(bad) else None


def addresses_of(descriptor: int, rows: Index, *, is_turned: bool, size: int = 2, first: int = 0) -> Index:
    """Return [rows, 32] the address of each byte of these rows in shared memory; size is that of a turned number.

    ``first`` is the first of these bytes in a longer row.
    """
    start, leading, stride = ((descriptor >> shift & 0x3FFF) * 16 for shift in (0, 16, 32))
    width = _WIDTHS[descriptor >> 62]
    row, byte = rows[:, None], first + np.arange(_ROW_BYTES)
    if not is_turned:
        along = byte % 16 + byte // 16 * leading if width == 16 else byte
        plain = start + row // 8 * stride + row % 8 * width + along
    else:
        across, down = (stride, leading) if width == 16 else (leading, stride)
        column, per = byte // size, width // size
        plain = start + row // per * across + row % per * size + column // 8 * down + column % 8 * width + byte % size
    swizzled: Index = plain ^ (plain >> 7 & width // 16 - 1) << 4
    return swizzled
