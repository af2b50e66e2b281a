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
from kerncast.execute.setup.tensor_faults import tensor_fault
from kerncast.ptx import Address, Immediate, Instruction, Operand, Vector
from kerncast.ptx.fragments import Product
from kerncast.ptx.tensor_layouts import COLUMNS, COPIES, KINDS, LANES, Shape, movement_of, shape_of

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
            case "mma":
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
            # An address of the first 32 lanes means a warp's own, as kernels that run on B200 take for granted.
            first = (address >> 16) + (lowest if address >> 16 < 32 else 0)
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

    def _rows(
        self, ins: Instruction, thread: np.intp, operand: Operand, shape: tuple[int, int, int]
    ) -> npt.NDArray[np.uint8]:
        """Return [rows, bytes] a tile of shared memory; the shape is rows, bytes of each, those of a turned number."""
        rows, size, turned = shape
        descriptor = self._one(operand, thread, "b64")
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
        return self._memory.shared_of(int(thread))[addresses]

    def _copy(self, ins: Instruction, thread: np.intp) -> None:
        """Run cp, which may copy rows to several lanes."""
        target, source = ins.operands
        key = tuple(m for m in ins.details if not m.startswith("cta_group"))
        rows, size, places = COPIES[key]
        address = self._one(target, thread)
        columns = self._columns(ins, thread, address, size // 4)
        if address >> 16:
            raise self._fault("lanes", ins, thread, address >> 16)
        found = np.ascontiguousarray(self._rows(ins, thread, source, (rows, size, 0))).view(np.uint32)
        words = self._words[self._threads.row[thread]]
        for quarter, lanes in enumerate(places):
            for lane in lanes:
                words[lane : lane + 32, columns] = found[32 * quarter : 32 * quarter + 32]

    def _multiply(self, ins: Instruction, thread: np.intp) -> None:
        """Run mma."""
        kind = KINDS[next(m for m in ins.modifiers if m in KINDS)]
        d, a, b, word, *others = ins.operands
        shape = shape_of(kind, self._one(word, thread))
        if shape is None:
            raise self._fault("format", ins, thread, self._one(word, thread))
        base = self._one(d, thread) >> 16
        if base not in ({0} if shape.m == _WHOLE else {0, 16}):
            raise self._fault("lanes", ins, thread, base)
        columns = self._columns(ins, thread, self._one(d, thread), shape.n)
        row = np.arange(shape.m)
        lanes = row if shape.m == _WHOLE else row // 16 * 32 + row % 16 + base
        words = self._words[self._threads.row[thread]]
        left = self._left(ins, thread, (a, shape), lanes)
        right = self._rows(ins, thread, b, (shape.n, 32, shape.turns[1] * 32 // shape.k))
        first = decoded(shape.a, np.ascontiguousarray(left).view(np.uint32)).reshape(shape.m, -1)
        second = decoded(shape.b, np.ascontiguousarray(right).view(np.uint32)).reshape(shape.n, -1).T
        before = words[lanes, columns]
        total = self._sums_before(ins, thread, shape, before)
        product = Product(shape.m, shape.n, shape.k, shape.a, shape.b, shape.total)
        modes = ("satfinite",) if shape.saturates else ()
        start = np.zeros_like(total) if kind.is_scaled else total
        factors = -first if shape.negates else first
        result = multiplied(modes, product, factors[None], second[None], start[None])[0]
        if kind.is_scaled:
            result = total + self._scaled(ins, thread, (shape, others), result)
        bits = result.view(np.uint16) if shape.total == "f16" else result.view(np.uint32)
        words[lanes, columns] = np.where(self._kept(ins, thread)[lanes, None], before, bits.astype(np.uint32))

    def _left(self, ins: Instruction, thread: np.intp, what: tuple[Operand, Shape], lanes: Index) -> AnyArray:
        """Return [rows, …] the words or the bytes of A."""
        operand, shape = what
        if not isinstance(operand, Address):
            return self._rows(ins, thread, operand, (shape.m, 32, shape.turns[0] * 32 // shape.k))
        place = self._one(operand, thread)
        if place >> 16 != lanes[0]:
            raise self._fault("lanes", ins, thread, place >> 16)
        words: AnyArray = self._words[self._threads.row[thread]][lanes, self._columns(ins, thread, place, 8)]
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

    def _kept(self, ins: Instruction, thread: np.intp) -> npt.NDArray[np.bool_]:
        """Return [128] which lanes keep what they have."""
        masks = (each.elements for each in ins.operands[4:] if isinstance(each, Vector))
        words = [self._one(part, thread) for part in next(masks, ())] or [0] * 4
        return np.unpackbits(np.array(words, np.uint32).view(np.uint8), bitorder="little").astype(np.bool_)

    def _scaled(self, ins: Instruction, thread: np.intp, what: tuple[Shape, list[Operand]], sums: AnyArray) -> AnyArray:
        """Return sums times the factors of their rows and columns: powers of two, whose exponents are bytes."""
        shape, others = what
        words = self._words[self._threads.row[thread]]
        places = [self._one(each, thread) for each in others if isinstance(each, Address)]
        factors = []
        for place, count, byte in zip(places, (shape.m, shape.n), shape.scale_bytes, strict=True):
            columns = self._columns(ins, thread, place & 0xFFFF, -(-count // 32))
            found = words[:32, columns].T.ravel()[:count] >> np.uint32(8 * byte) & np.uint32(0xFF)
            power = np.ldexp(np.float32(1), found.astype(np.int32) - 127)
            factors.append(np.where(found == 255, np.float32(np.nan), power).astype(np.float32))
        scaled: AnyArray = sums * factors[0][:, None] * factors[1][None]
        return scaled


def _totals(name: str, words: npt.NDArray[np.uint32]) -> AnyArray:
    """Return the sums that words of tensor memory hold."""
    words = np.ascontiguousarray(words)
    if name == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float32)
    return words.view(np.int32).astype(np.int64) if name == "s32" else words.view(np.float32)
