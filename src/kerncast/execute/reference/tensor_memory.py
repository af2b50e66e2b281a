"""Tensor memory of a batch of blocks as one array, word by word; products over whole matrices.

Source: NVIDIA, Parallel Thread Execution ISA 8.8, section 9.7.16 (TensorCore 5th Generation Family Instructions).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import KerncastError
from kerncast.execute.reference.group_products import addresses_of, first_outside
from kerncast.execute.reference.matrix_products import decoded, multiplied
from kerncast.execute.reference.memory import Memory, Part
from kerncast.execute.reference.threads import Index
from kerncast.execute.setup.cluster_addresses import departed
from kerncast.execute.setup.small_floats import values_of
from kerncast.execute.setup.tensor_faults import tensor_fault
from kerncast.ptx import Address, Immediate, Instruction, Operand, Vector
from kerncast.ptx.fragments import Product
from kerncast.ptx.tensor_layouts import (
    COLUMNS,
    COPIES,
    LANES,
    PADDED,
    PAIR,
    STATIONARY,
    Kind,
    Shape,
    kind_of,
    movement_of,
    shape_of,
)

AnyArray = npt.NDArray[Any]
_WHOLE = 128


class TensorMemory:
    """The tensor memory of the blocks of a batch, and who has which columns."""

    def __init__(self, memory: Memory, *, is_used: bool) -> None:
        self._memory, self._threads = memory, memory.threads
        blocks = self._threads.blocks if is_used else 0
        self._words = np.zeros((blocks, LANES, COLUMNS), np.uint32)
        self._owners = np.full((blocks, COLUMNS), -1)
        """first column of the allocation that each column belongs to, or -1"""
        self._allocators: dict[int, tuple[Instruction, int]] = {}
        self._relinquished: set[int] = set()

    def run(self, ins: Instruction, active: Index) -> list[Part]:
        """Run an instruction on tensor memory; returns what it touched of other memory."""
        match ins.opcode.name.removeprefix("tcgen05."):
            case "alloc":
                return self._allocate(ins, active)
            case "dealloc":
                for thread in self._leaders(active):
                    self._free(ins, thread)
            case "relinquish_alloc_permit":
                self._relinquished |= set(self._threads.row[active].tolist())
            case "ld" | "st":
                self._move(ins, active)
            case "cp":
                for thread in active:
                    self._copy(ins, thread)
            case "mma" | "mma.ws":
                for thread in active:
                    self._multiply(ins, thread)
        return []

    def end(self) -> None:
        """Raise KernelFault for a block that has not freed what it took."""
        for row in np.flatnonzero((self._owners >= 0).any(axis=1)).tolist():
            ins, thread = self._allocators[row]
            raise tensor_fault("unfreed", ins, self._place(ins, thread), 0)

    def _leaders(self, active: Index) -> Index:
        _, first = np.unique(self._threads.warp[active], return_index=True)
        leaders: Index = active[first]
        return leaders

    def _one(self, operand: Operand, thread: np.intp, kind: str = "b32") -> int:
        """Return an operand of one thread; of an address, the address."""
        chosen = np.array([thread])
        if isinstance(operand, Address):
            base = self._threads.values(operand.base, kind, chosen)[0] if operand.base is not None else 0
            return int(base) + operand.offset & 0xFFFFFFFF
        return int(self._threads.values(operand, kind, chosen)[0])

    def _place(self, ins: Instruction, thread: int) -> tuple[str, str]:
        return self._threads.describe(thread), ins.where or self._threads.program.function.name

    def _fault(self, name: str, ins: Instruction, thread: np.intp, what: int) -> KerncastError:
        return tensor_fault(name, ins, self._place(ins, int(thread)), what, self._memory.shared_bytes)

    def _columns(self, ins: Instruction, thread: np.intp, address: int, count: int) -> slice:
        """Return columns, which have to be taken."""
        first = address & 0xFFFF
        owners = self._owners[self._threads.row[thread]]
        if not 0 < count <= COLUMNS - first or (owners[first : first + count] < 0).any():
            raise self._fault("columns", ins, thread, address | count << 32)
        return slice(first, first + count)

    def _allocate(self, ins: Instruction, active: Index) -> list[Part]:
        leaders = self._leaders(active)
        found = []
        for thread in leaders:
            row, count = int(self._threads.row[thread]), self._one(ins.operands[1], thread)
            owners = self._owners[row]
            starts = range(0, COLUMNS - count + 1, count) if count in {32, 64, 128, 256, 512} else ()
            first = next((s for s in starts if (owners[s : s + count] < 0).all()), None)
            if first is None or row in self._relinquished:
                raise self._fault("allocation", ins, thread, count)
            owners[first : first + count] = first
            self._allocators[row] = (ins, int(thread))
            found.append(first)
        return self._memory.store_words(ins, np.array(found, np.uint32), leaders)

    def _free(self, ins: Instruction, thread: np.intp) -> None:
        address, count = (self._one(each, thread) for each in ins.operands)
        first = address & 0xFFFF
        owners = self._owners[self._threads.row[thread]]
        if (
            address >> 16
            or not count
            or not np.array_equal(np.flatnonzero(owners == first), np.arange(first, first + count))
        ):
            raise self._fault("columns", ins, thread, address | count << 32)
        owners[first : first + count] = -1

    def _move(self, ins: Instruction, active: Index) -> None:
        """Run ld and st, warp by warp."""
        found = movement_of(ins.modifiers)
        assert found is not None, ins.name
        movement, repeats = found
        threads = self._threads
        packs = 2 if {"pack::16b", "unpack::16b"} & set(ins.modifiers) else 1
        loads = ins.opcode.name.endswith("ld")
        given = next(each for each in ins.operands if not isinstance(each, Address | Immediate))
        registers = given.elements if isinstance(given, Vector) else (given,)
        split = next((each.value for each in ins.operands if isinstance(each, Immediate)), 0)
        for leader in self._leaders(active):
            own = active[threads.warp[active] == threads.warp[leader]]
            address = self._one(next(each for each in ins.operands if isinstance(each, Address)), leader)
            lowest = 32 * int(threads.warp[leader] % threads.warps_per_block % 4)
            told = address >> 16 & LANES - 1  # of a pair, the second block's lanes may be numbered from 128 on
            # An address of the first 32 lanes means a warp's own, as kernels that run on B200 take for granted.
            first = told + (lowest if told < 32 else 0)
            offset = first - lowest
            if offset not in ({0} if movement.lanes == 32 else {0, 16}):
                raise self._fault("lanes", ins, leader, first)
            width = repeats * movement.columns * packs
            start = self._columns(ins, leader, address, width).start
            if movement.is_split:
                self._columns(ins, leader, (address & 0xFFFF) + split, width)
            words = self._words[threads.row[leader]]
            for number, register in enumerate(registers):
                turn, part = divmod(number, movement.registers)
                places = [movement.place(thread, part) for thread in threads.lane[own].tolist()]
                lanes = first + np.array([lane for lane, _ in places])
                columns = start + packs * (turn * movement.columns + np.array([column for _, column in places]))
                if movement.is_split:
                    columns = columns + np.where(threads.lane[own] >= 16, split, 0)
                if loads:
                    low = words[lanes, columns]
                    both = low & np.uint32(0xFFFF) | words[lanes, columns + 1] << np.uint32(16) if packs == 2 else low
                    threads.write(register, both, own)
                else:
                    values = threads.values(register, "b32", own)
                    words[lanes, columns] = values & np.uint32(0xFFFF) if packs == 2 else values
                    if packs == 2:
                        words[lanes, columns + 1] = values >> np.uint32(16)

    def _blocks(self, ins: Instruction, thread: np.intp) -> list[int]:
        """Return the blocks that an instruction works on, by their position: that of the thread, or a pair of them."""
        row = int(self._threads.row[thread])
        if PAIR not in ins.modifiers:
            return [row]
        if self._memory.departed(np.array([row ^ 1]))[0]:
            rank = int(self._threads.rank[thread]) ^ 1
            raise departed(ins, rank, *self._place(ins, int(thread)))
        return [row & ~1, row | 1]

    def _rows(
        self, ins: Instruction, thread: np.intp, what: tuple[Operand, int], shape: tuple[int, int, int]
    ) -> npt.NDArray[np.uint8]:
        """Return [rows, bytes] a tile of shared memory; the shape is rows, bytes of each, those of a turned number.

        ``what`` is the operand with the descriptor, and the position of the block.
        """
        rows, size, turned = shape
        descriptor = self._one(what[0], thread, "b64")
        swizzle = {0: 0, 2: 1, 4: 2, 6: 3}.get(descriptor >> 61)
        if swizzle is None or descriptor >> 52 & 1:
            raise self._fault("swizzle", ins, thread, descriptor)
        if descriptor >> 49 & 7:
            raise self._fault("descriptor", ins, thread, descriptor)
        plain = descriptor & (1 << 46) - 1 | swizzle << 62
        addresses = addresses_of(plain, np.arange(rows), is_turned=turned > 0, size=turned)[:, :size]
        outside = first_outside(addresses, self._memory.shared_bytes)
        if outside is not None:
            raise self._fault("tile", ins, thread, outside)
        return self._memory.shared_of_block(what[1])[addresses]

    def _copy(self, ins: Instruction, thread: np.intp) -> None:
        """Run cp, which may copy rows to several lanes; each block of a pair copies its own."""
        target, source = ins.operands
        key = tuple(m for m in ins.details if not m.startswith("cta_group"))
        rows, size, places = COPIES[key]
        address = self._one(target, thread)
        columns = self._columns(ins, thread, address, size // 4)
        if address >> 16:
            raise self._fault("lanes", ins, thread, address >> 16)
        for block in self._blocks(ins, thread):
            raw = self._rows(ins, thread, (source, block), (rows, size, 0))
            found = np.ascontiguousarray(raw).view(np.uint32)
            for quarter, lanes in enumerate(places):
                for lane in lanes:
                    self._words[block, lane : lane + 32, columns] = found[32 * quarter : 32 * quarter + 32]

    def _multiply(self, ins: Instruction, thread: np.intp) -> None:
        """Run mma."""
        kind, (d, a, b, word, *_) = kind_of(ins.modifiers), ins.operands
        assert kind is not None, ins.name
        blocks = self._blocks(ins, thread)
        shape = shape_of(kind, self._one(word, thread), len(blocks), is_stationary=STATIONARY in ins.modifiers)
        if shape is None or (isinstance(a, Address) and (shape.is_folded or shape.a in PADDED)):
            raise self._fault("format", ins, thread, self._one(word, thread))
        base = self._one(d, thread) >> 16
        if base not in ({0} if shape.m == _WHOLE or len(blocks) > 1 or shape.is_stationary else {0, 16}):
            raise self._fault("lanes", ins, thread, base)
        self._columns(ins, thread, self._one(d, thread), shape.columns)
        size = shape.turns[1] * 32 // shape.k
        right = [self._rows(ins, thread, (b, block), (shape.n // len(blocks), 32, size)) for block in blocks]
        second = _numbers(shape.b, np.concatenate(right), shape.k).T
        for number, block in enumerate(blocks):
            self._multiply_in(ins, thread, (shape, kind), (number, block, second))

    def _multiply_in(
        self, ins: Instruction, thread: np.intp, what: tuple[Shape, Kind], where: tuple[int, int, AnyArray]
    ) -> None:
        """Run the part of one block: its number in the pair, its position, and [k, n] the columns of B."""
        (shape, kind), (number, block, second) = what, where
        address = self._one(ins.operands[0], thread)
        rows, below = (np.array(each) for each in shape.places())
        lanes = (rows + (address >> 16))[:, None] + below
        columns = (address & 0xFFFF) + np.arange(shape.n) % shape.columns
        before = self._words[block][lanes, columns]
        left = self._left(ins, thread, (ins.operands[1], shape), (block, lanes[:, 0]))
        first = (
            _numbers(shape.a, left, shape.k) if left.dtype == np.uint8 else decoded(shape.a, left).reshape(shape.m, -1)
        )
        total = self._sums_before(ins, thread, shape, before)
        modes = ("satfinite",) if shape.saturates else ()
        product = Product(shape.m, shape.n, shape.k, shape.a, shape.b, shape.total)
        factors = -first if shape.negates else first
        if kind.is_scaled:
            result = total + self._scaled(ins, thread, (shape, kind, block), (factors, second))
        else:
            result = multiplied(modes, product, (factors[None], second[None]), total[None])[0]
        bits = result.view(np.uint16) if shape.total == "f16" else result.view(np.uint32)
        kept = self._kept(ins, thread, number)[lanes]
        self._words[block][lanes, columns] = np.where(kept, before, bits.astype(np.uint32))

    def _left(
        self, ins: Instruction, thread: np.intp, what: tuple[Operand, Shape], where: tuple[int, Index]
    ) -> AnyArray:
        """Return [rows, …] the words or the bytes of A of a block, which are in shared memory or in these lanes."""
        (operand, shape), (block, lanes) = what, where
        if not isinstance(operand, Address):
            return self._rows(ins, thread, (operand, block), (shape.m, 32, shape.turns[0] * 32 // shape.k))
        place = self._one(operand, thread)
        if place >> 16 != lanes[0]:
            raise self._fault("lanes", ins, thread, place >> 16)
        words: AnyArray = self._words[block][lanes, self._columns(ins, thread, place, 8)]
        return words

    def _sums_before(self, ins: Instruction, thread: np.intp, shape: Shape, words: npt.NDArray[np.uint32]) -> AnyArray:
        """Return the sums that a product goes on from."""
        adds, *rest = (each for each in ins.operands[4:] if not isinstance(each, Address | Vector))
        total = _totals(shape.total, words)
        if not self._one(adds, thread, "pred"):
            return np.zeros_like(total)
        for exponent in rest:
            total = total * np.float32(2.0 ** -self._one(exponent, thread))
        return total

    def _kept(self, ins: Instruction, thread: np.intp, number: int) -> npt.NDArray[np.bool_]:
        """Return [128] which lanes keep what they have, in the block of a number in its pair."""
        masks = (each.elements for each in ins.operands[4:] if isinstance(each, Vector))
        words = [self._one(part, thread) for part in next(masks, ())][4 * number :][:4] or [0] * 4
        return np.unpackbits(np.array(words, np.uint32).view(np.uint8), bitorder="little").astype(np.bool_)

    def _scaled(
        self, ins: Instruction, thread: np.intp, what: tuple[Shape, Kind, int], matrices: tuple[AnyArray, AnyArray]
    ) -> AnyArray:
        """Return products of parts of rows and columns, each times the factors of both, added up as FP32."""
        shape, kind, block = what
        places = [self._one(each, thread) for each in ins.operands[4:] if isinstance(each, Address)]
        factors = []
        for place, count, byte in zip(places, (shape.m, shape.n), shape.scale_bytes, strict=True):
            columns = self._columns(ins, thread, place & 0xFFFF, -(-count // 32))
            words = self._words[block, :32, columns].T.ravel()[:count]
            codes = words[:, None] >> np.uint32(8) * np.arange(byte, byte + kind.scales, dtype=np.uint32)
            factors.append(_factors(shape.scale, codes & np.uint32(0xFF)))
        length = shape.k // kind.scales
        total = np.zeros((shape.m, shape.n), np.float32)
        for number in range(kind.scales):
            part = slice(length * number, length * (number + 1))
            product = Product(shape.m, shape.n, length, shape.a, shape.b, "f32")
            both = matrices[0][None, :, part], matrices[1][None, part]
            sums = multiplied((), product, both, np.zeros((1, shape.m, shape.n), np.float32))[0]
            total = total + sums * factors[0][:, number, None] * factors[1][None, :, number]
        return total


def _factors(name: str, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    """Return factors by their codes: powers of two, or FP8 whose sign does not count."""
    table = values_of("ue8m0") if name == "ue8m0" else np.abs(values_of("e4m3"))
    return np.asarray(table[codes].astype(np.float32))


def _numbers(name: str, raw: npt.NDArray[np.uint8], k: int) -> AnyArray:
    """Return [rows, k] the numbers of rows of 32 bytes in shared memory."""
    if name in PADDED and k == raw.shape[1]:
        width = 4 if name == "e2m1" else 6
        bits = np.unpackbits(raw.reshape(-1, 16), axis=1, bitorder="little")[:, : 16 * width]
        codes = np.packbits(bits.reshape(-1, 16, width), axis=2, bitorder="little")
        return values_of(name)[codes].astype(np.float32).reshape(len(raw), k)
    return decoded(name, np.ascontiguousarray(raw).view(np.uint32)).reshape(len(raw), k)


def _totals(name: str, words: npt.NDArray[np.uint32]) -> AnyArray:
    """Return the sums that words of tensor memory hold."""
    words = np.ascontiguousarray(words)
    if name == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float32)
    return words.view(np.int32).astype(np.int64) if name == "s32" else words.view(np.float32)
