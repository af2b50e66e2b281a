"""Loads, stores and atomics of a batch of threads, checked for bounds and alignment in every state space."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerncast.errors import IllegalAddress
from kerncast.execute.reference import floats, texels
from kerncast.execute.reference.late_copies import Copies, LateCopies
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.setup.arena import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
    Arena,
    Room,
    window_of,
)
from kerncast.execute.setup.cluster_addresses import OFFSET_MASK, RANK_SHIFT, departed, outside_of_cluster
from kerncast.execute.setup.layout import DTYPES, as_type, raw_dtype, to_register
from kerncast.execute.setup.tensor_copies import BlockMemory, Moved, is_issued_once, moves
from kerncast.execute.setup.textures import OBJECT_BYTES, TextureObject, object_fault
from kerncast.ptx import TYPE_BITS, Address, Instruction, Operand, Register, Sink, Symbol, Trait, Vector
from kerncast.ptx.tensor_layouts import SHORT_NUMBERS

# Atomic updates of memory: threads that meet at one address take turns in lane order.
#
# Subnormal numbers are kept, also where the hardware flushes them (``atom.add.f32`` on global memory).


AnyArray = npt.NDArray[Any]

_ACCUMULATES: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def update(
    ins: Instruction, view: AnyArray, places: Index, arguments: list[AnyArray], *, wants_old: bool
) -> AnyArray | None:
    """Apply the operation at each place and return the values found there, if they are wanted."""
    name = next(m for m in ins.modifiers if m in _ACCUMULATES or m in _SINGLE)
    is_half = ins.type in {"f16", "bf16", "f16x2", "bf16x2"}
    if name in _ACCUMULATES and not wants_old and not is_half:
        _ACCUMULATES[name].at(view, places, arguments[0])
        return None
    if is_half:
        operation = _add_halves(replace(ins, root="add"))
    else:
        operation = _SINGLE.get(name) or (lambda found, given: _ACCUMULATES[name](found, given[0]))
    old = np.zeros(len(places), view.dtype)
    for turn in _turns(places):
        found = view[places[turn]]
        old[turn] = found
        view[places[turn]] = operation(found, [argument[turn] for argument in arguments])
    return old if wants_old else None


def _turns(places: Index) -> list[npt.NDArray[np.intp]]:
    """Group positions so that no place occurs twice in a group and equal places keep their order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.arange(len(order)) - start
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max(initial=-1)) + 2))
    return [order[by_rank[a:b]] for a, b in pairwise(bounds.tolist())]


def _add_halves(ins: Instruction) -> Callable[[AnyArray, list[AnyArray]], AnyArray]:
    def add(found: AnyArray, given: list[AnyArray]) -> AnyArray:
        return floats.compute(ins, [found, given[0]]).view(found.dtype)

    return add


def _increment(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where(found >= given[0], np.uint32(0), found + np.uint32(1))


def _decrement(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where((found == 0) | (found > given[0]), given[0], found - np.uint32(1))


def _exchange(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    del found
    return given[0]


def _compare_and_swap(found: AnyArray, given: list[AnyArray]) -> AnyArray:
    return np.where(found == given[0], given[1], found)


_SINGLE: dict[str, Callable[[AnyArray, list[AnyArray]], AnyArray]] = {
    "inc": _increment, "dec": _decrement, "exch": _exchange, "cas": _compare_and_swap,
}  # fmt: skip


_SPACE_OF_WINDOW = ("global", "shared", "local", "param")
_WINDOWS = {"global": 0, "call": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW,
            "cluster": SHARED_WINDOW}  # fmt: skip


class Part(NamedTuple):
    """The threads of an access that touch one state space."""

    space: str
    """global, const, shared, local, param (of the kernel) or call (parameters of a device function)"""
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    """offset of each access in the data"""
    threads: Index
    which: "Index | slice"
    """positions of these threads in the active ones"""
    address: npt.NDArray[np.int64]
    """address of each access in its state space: that of the block (shared) or of the thread (local)"""
    size: int
    """bytes of each access"""


class Memory:
    """Global memory of the launch with the shared and private memory of one batch."""

    def __init__(self, threads: Threads, arena: Arena, parameters: bytes, limit_bytes: int) -> None:
        program = threads.program
        self.threads = threads
        self.arena = arena
        self.parameters = np.frombuffer(parameters, np.uint8)
        self.shared_bytes = program.static_shared_bytes + threads.launch.shared_bytes
        self.private_bytes = program.private_bytes
        stride = -(-self.shared_bytes // 16) * 16
        room = Room(arena, limit_bytes)
        self.shared = room.allocate(stride * threads.blocks, "shared memory needs")
        self.private = room.allocate(self.private_bytes * threads.count, "local memory needs")
        self.late: LateCopies | None = None
        """copies that are done when they are waited for; None: they are done where they are issued"""
        self._stride = stride
        self._shared_start = threads.row * stride
        self._cluster_start = (threads.row - threads.rank) * stride
        self.doubt: Callable[[Instruction], None] = lambda _: None
        """called where PTX does not say what an instruction does"""
        self.departed: Callable[[Index], npt.NDArray[np.bool_]] = lambda rows: np.zeros(len(rows), np.bool_)
        """tells which of some blocks, by their position in the batch, have ended"""
        self._private_start = threads.all * self.private_bytes

    def private_of(self, thread: int) -> npt.NDArray[np.uint8]:
        """Return the memory of one thread."""
        start = thread * self.private_bytes
        return self.private[start : start + self.private_bytes]

    def access(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run an instruction that accesses memory; returns what it touched."""
        if ins.is_store:
            return self.store(ins, threads)
        if ins.is_copy:
            return self.copy(ins, threads)
        parts = self.load(ins, threads) if ins.is_load else self.atomic(ins, threads)
        if self.late:
            for part in (each for each in parts if each.data is self.shared):
                self.late.check(ins, part.threads, part.offsets, part.size)
        return parts

    def shared_of(self, thread: int) -> npt.NDArray[np.uint8]:
        """Return the shared memory of the block of a thread."""
        start = int(self._shared_start[thread])
        return self.shared[start : start + self.shared_bytes]

    def shared_of_block(self, row: int) -> npt.NDArray[np.uint8]:
        """Return the shared memory of a block, by its position in the batch."""
        return self.shared[row * self._stride : row * self._stride + self.shared_bytes]

    def store_words(self, ins: Instruction, words: npt.NDArray[np.uint32], threads: Index) -> list[Part]:
        """Store 32 bits of each thread that an instruction has computed; returns what it touched."""
        target = next(each for each in ins.operands if isinstance(each, Address))
        # Such instructions read 32 bits of an address: a generic pointer to shared memory is its window and an offset.
        addresses = self.addresses(target, threads) & np.uint64((1 << 32) - 1)
        parts = self.resolve(ins, addresses, threads, words.itemsize)
        for part in parts:
            _elements(part.data, words.dtype)[part.offsets >> _shift(words.itemsize)] = words[part.which]
        return parts

    def load(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run a load; returns what it touched."""
        if ins.root == "ldmatrix":
            return self._load_matrices(ins, threads)
        if ins.opcode.has(Trait.SAMPLED):
            return Objects(self).read(ins, threads)
        target, source = ins.operands
        assert isinstance(source, Address)
        elements = target.elements if isinstance(target, Vector) else (target,)
        if ins.space == "param" and isinstance(source.base, Symbol):
            at = self.threads.program.parameters.get(source.base.name)
            if at is not None:
                self._load_parameter(ins, at + source.offset, elements, threads)
                return []
        size = TYPE_BITS[ins.type] // 8
        parts = self.resolve(ins, self.addresses(source, threads), threads, size * len(elements))
        values = [np.empty(len(threads), raw_dtype(ins.type)) for _ in elements]
        for part in parts:
            view = _elements(part.data, raw_dtype(ins.type))
            first = part.offsets >> _shift(size)
            for position, value in enumerate(values):
                value[part.which] = view[first + position]
        for element, value in zip(elements, values, strict=True):
            self.threads.write(element, as_type(value, ins.type), threads)
        return parts

    def _load_matrices(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run ldmatrix: each lane gives the address of a row of 16 bytes."""
        target, source = ins.operands
        assert isinstance(source, Address)
        elements = _listed(target)
        lanes, warps = self.threads.lane, self.threads.warp
        asking = threads[lanes[threads] < 8 * len(elements)]
        parts = self.resolve(ins, self.addresses(source, asking), asking, ins.access_bytes)
        rows = np.zeros((self.threads.warps, 32, ins.access_bytes), np.uint8)
        for part in parts:
            places = part.offsets[:, None] + np.arange(part.size)
            rows[warps[part.threads], lanes[part.threads]] = part.data[places]
        for width in (SHORT_NUMBERS[m] for m in ins.modifiers if m in SHORT_NUMBERS):
            bits = np.unpackbits(rows, axis=2, bitorder="little")[:, :, : 16 * width]
            rows = np.packbits(bits.reshape(-1, 32, 16, width), axis=3, bitorder="little")[..., 0]
        for position, element in enumerate(elements):
            matrix = np.ascontiguousarray(rows[:, 8 * position : 8 * position + 8]).view(np.uint16)
            if "trans" in ins.modifiers:
                matrix = np.ascontiguousarray(matrix.swapaxes(1, 2))
            words = np.ascontiguousarray(matrix).view(np.uint32).reshape(-1, 32)
            self.threads.write(element, words[warps[threads], lanes[threads]], threads)
        return parts

    def _store_matrices(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run stmatrix: each lane gives the address of a row of 16 bytes."""
        target, source = ins.operands
        assert isinstance(target, Address)
        elements = _listed(source)
        lanes, warps = self.threads.lane, self.threads.warp
        asking = threads[lanes[threads] < 8 * len(elements)]
        parts = self.resolve(ins, self.addresses(target, asking), asking, ins.access_bytes)
        words = np.zeros((len(elements), self.threads.warps, 32), np.uint32)
        for position, element in enumerate(elements):
            words[position, warps[threads], lanes[threads]] = self.threads.values(element, "b32", threads)
        matrices: AnyArray = words.view(np.uint16).reshape(len(elements), -1, 8, 8)
        if "m16n8" in ins.modifiers:  # a lane 4 g + t has columns 2 t and 2 t + 1 of rows g and g + 8
            held = words.view(np.uint8).reshape(len(elements), -1, 8, 4, 2, 2)
            matrices = np.ascontiguousarray(held.transpose(0, 1, 3, 5, 4, 2)).reshape(len(elements), -1, 8, 16)
        elif "trans" in ins.modifiers:
            matrices = matrices.swapaxes(2, 3)
        rows = np.ascontiguousarray(matrices).view(np.uint8)
        for part in parts:
            places = part.offsets[:, None] + np.arange(part.size)
            lane = lanes[part.threads]
            part.data[places] = rows[lane // 8, warps[part.threads], lane % 8]
        return parts

    def store(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run a store; of several threads that write one place the last wins. Returns what it touched."""
        if ins.opcode.has(Trait.SAMPLED):
            return Objects(self).write(ins, threads)
        if ins.root == "stmatrix":
            return self._store_matrices(ins, threads)
        target, source = ins.operands
        assert isinstance(target, Address)
        elements = source.elements if isinstance(source, Vector) else (source,)
        size = TYPE_BITS[ins.type] // 8
        parts = self.resolve(ins, self.addresses(target, threads), threads, size * len(elements))
        for part in parts:
            if part.space == "param":
                raise self._fault(ins, part.threads[0], "writes to a kernel parameter, which is constant")
            view = _elements(part.data, raw_dtype(ins.type))
            first = part.offsets >> _shift(size)
            for position, element in enumerate(elements):
                value = self.threads.value(element, ins.type, part.threads)
                view[first + position] = to_register(value, ins.type)
        return parts

    def copy(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run a copy from global to shared memory; what a thread does not read of its bytes becomes zero."""
        target, source, _, *given = ins.operands
        assert isinstance(target, Address)
        assert isinstance(source, Address)
        size = ins.access_bytes
        wanted = np.full(len(threads), size, np.int64)
        if given and isinstance(given[0], Register) and given[0].type == "pred":
            wanted = np.where(self.threads.values(given[0], "pred", threads), 0, size)
        elif given:
            wanted = np.minimum(self.threads.values(given[0], "u32", threads).astype(np.int64), size)
        addresses = self.addresses(source, threads)
        rows = np.zeros((len(threads), size), np.uint8)
        reading = np.flatnonzero(wanted)
        self._check_aligned(ins, addresses[reading], threads[reading], size)
        for nbytes in np.unique(wanted[reading]).tolist():
            which = np.flatnonzero(wanted == nbytes)
            part = self._part(ins, "global", addresses[which], (threads[which], which), nbytes)
            rows[which, :nbytes] = part.data[part.offsets[:, None] + np.arange(nbytes)]
        everywhere = (addresses - np.uint64(GLOBAL_BASE)).view(np.int64)
        offsets = everywhere[reading]
        read = Part("global", self.arena.data, offsets, threads[reading], reading, offsets, size)
        addresses = self._in_own_shared(self.addresses(target, threads), threads)
        self._check_aligned(ins, addresses, threads, size)
        written = self._part(ins, "shared", addresses, (threads, slice(None)), size)
        if self.late:
            self.late.issue(Copies(ins, threads, everywhere, wanted, written.offsets))
        else:
            written.data[written.offsets[:, None] + np.arange(size)] = rows
        return [read, written] if len(reading) else [written]

    def atomic(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run an atomic or a reduction, threads one after the other in lane order; returns what it touched."""
        operands = ins.operands if ins.root == "atom" else (Sink(), *ins.operands)
        destination, target, *sources = operands
        assert isinstance(target, Address)
        dtype = DTYPES[ins.type]
        results, *lists = (_listed(operand) for operand in (destination, *sources))
        parts = self.resolve(ins, self.addresses(target, threads), threads, dtype.itemsize * len(lists[0]))
        for part in parts:
            if part.space not in {"global", "shared"}:
                what = f"points to {part.space} memory, which has no atomics"
                raise self._fault(ins, part.threads[0], what)
            first = part.offsets >> _shift(dtype.itemsize)
            found: list[tuple[Operand, AnyArray]] = []
            for position, elements in enumerate(zip(*lists, strict=True)):
                given = [self.threads.values(element, ins.type, part.threads) for element in elements]
                result = results[position] if ins.root == "atom" else destination
                wants_old = isinstance(result, Register) and result.name in self.threads.program.read
                old = update(ins, _elements(part.data, dtype), first + position, given, wants_old=wants_old)
                if old is not None:
                    found.append((result, old))
            for result, old in found:  # only now, because a result may be a source too
                self.threads.write(result, old, part.threads)
        return parts

    def bulk(self, ins: Instruction, threads: Index, complete: Callable[..., None]) -> list[tuple[int, Moved]]:
        """Run a copy of many bytes by each thread; returns what each touched."""
        leaves: list[list[AnyArray]] = []
        for operand in ins.operands:
            if isinstance(operand, Address):
                coordinates = (self.threads.values(each, "u32", threads) for each in operand.coordinates)
                leaves.append([self.addresses(operand, threads), *coordinates])
            elif isinstance(operand, Vector):
                leaves.append([self.threads.values(each, "u16", threads) for each in operand.elements])
            else:
                leaves.append([self.threads.values(operand, "u32", threads)])
        found, done = [], set()
        for number, thread in enumerate(threads.tolist()):
            values = [[int(each[number]) for each in own] for own in leaves]
            asked = int(self.threads.warp[thread]), tuple(map(tuple, values))
            if not (is_issued_once(ins) and asked in done):
                found.append((thread, moves(ins, values, self._block_memory(ins, thread, complete))))
                done.add(asked)
        return found

    def _block_memory(self, ins: Instruction, thread: int, complete: Callable[..., None]) -> BlockMemory:
        own = int(self.threads.rank[thread]) if self.threads.program.sees_cluster else 0
        row = int(self.threads.row[thread])

        def shared(rank: int) -> npt.NDArray[np.uint8] | None:
            other = row - own + rank
            blocks = self.threads.launch.cluster_blocks if self.threads.program.sees_cluster else 1
            if not 0 <= rank < blocks or self.departed(np.array([other]))[0]:
                return None
            return self.shared_of_block(other)

        def tell(address: int, nbytes: int) -> None:
            room, offset = shared(address >> RANK_SHIFT), address & OFFSET_MASK
            if room is None or offset + 8 > len(room) or offset % 8:
                what = f"is out of bounds: its mbarrier at {address:#x}"
                raise self._fault(ins, np.intp(thread), what)
            complete(ins, (room, offset), nbytes, thread)

        name = self.threads.describe(thread)
        return BlockMemory(self.arena, self.parameters.tobytes(), shared, name, tell)

    def _load_parameter(self, ins: Instruction, at: int, elements: tuple[Operand, ...], threads: Index) -> None:
        size = TYPE_BITS[ins.type] // 8
        if not 0 <= at <= len(self.parameters) - size * len(elements):
            what = f"is out of bounds: {size} bytes at {at:#x} of {len(self.parameters)} bytes of param memory"
            raise self._fault(ins, threads[0], what)
        for position, element in enumerate(elements):
            start = at + position * size
            raw = np.frombuffer(self.parameters[start : start + size].tobytes(), raw_dtype(ins.type))
            self.threads.write(element, as_type(raw, ins.type), threads)

    def addresses(self, operand: Address, threads: Index) -> npt.NDArray[np.uint64]:
        """Return the addresses of a memory operand, in the state space of the instruction."""
        base: AnyArray = np.zeros(1, np.uint64)
        if operand.base is not None:
            base = self.threads.value(operand.base, "u64", threads)
            if isinstance(operand.base, Register) and TYPE_BITS[operand.base.type] == 32:  # the sum wraps, too
                base = base + np.uint64(operand.offset % 2**32) & np.uint64(2**32 - 1)
                return np.broadcast_to(base, threads.shape)
        return np.broadcast_to(base + np.uint64(operand.offset & (2**64 - 1)), threads.shape)

    def resolve(self, ins: Instruction, addresses: npt.NDArray[np.uint64], threads: Index, size: int) -> list[Part]:
        """Split an access by state space, all checked."""
        self._check_aligned(ins, addresses, threads, size)
        everyone = slice(None)
        sees_cluster = self.threads.program.sees_cluster
        if ins.is_cluster_wide:
            return [self._in_cluster(ins, addresses, (threads, everyone), size)]
        if ins.space == "shared":
            addresses = self._in_own_shared(addresses, threads)
        if ins.space in {"global", "const", "shared", "local"}:
            return [self._part(ins, ins.space, addresses, (threads, everyone), size)]
        kinds = window_of(addresses)
        parts = []
        for number, space in enumerate(_SPACE_OF_WINDOW):
            which = np.flatnonzero(kinds == number)
            if len(which):
                # A call parameter lies in the thread's own memory, without a window; a kernel parameter has one.
                actual = "call" if ins.space == "param" and space != "param" else space
                inside = addresses[which] - np.uint64(_WINDOWS[actual])
                if space == "shared" and sees_cluster:
                    parts.append(self._in_cluster(ins, inside, (threads[which], which), size))
                    continue
                parts.append(self._part(ins, actual, inside, (threads[which], which), size))
        return parts

    def _in_own_shared(self, addresses: npt.NDArray[np.uint64], threads: Index) -> npt.NDArray[np.uint64]:
        """Return offsets in each block's own shared memory, by addresses in shared::cta, which hold its rank."""
        if not self.threads.program.sees_cluster:
            return addresses
        return addresses - (self.threads.rank[threads].astype(np.uint64) << np.uint64(RANK_SHIFT))

    def _check_aligned(self, ins: Instruction, addresses: npt.NDArray[np.uint64], threads: Index, size: int) -> None:
        misaligned = np.flatnonzero(addresses & np.uint64(size - 1))
        if len(misaligned):
            bad = misaligned[0]
            raise self._fault(ins, threads[bad], f"is misaligned: {size} bytes at address {int(addresses[bad]):#x}")

    def in_shared(self, ins: Instruction, place: tuple[Address, int], threads: Index, rank: int | None = None) -> Part:
        """Return where threads point to in shared memory, of their block or their cluster, however; checked.

        ``place`` is the operand and its bytes. If the block of a rank is meant, it is the offset that counts.
        """
        operand, size = place
        addresses = self.addresses(operand, threads)
        if rank is not None:
            addresses = addresses & np.uint64(OFFSET_MASK) | np.uint64(rank << RANK_SHIFT)
        elif ins.space == "generic":
            addresses = addresses - np.uint64(SHARED_WINDOW)
        self._check_aligned(ins, addresses, threads, size)
        if self.threads.program.sees_cluster:
            return self._in_cluster(ins, addresses, (threads, slice(None)), size)
        return self._part(ins, "shared", addresses, (threads, slice(None)), size)

    def _in_cluster(
        self,
        ins: Instruction,
        addresses: npt.NDArray[np.uint64],
        chosen: "tuple[Index, Index | slice]",
        size: int,
    ) -> Part:
        """Check accesses to shared memory of some block of the cluster."""
        threads, which = chosen
        rank = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
        inside = (addresses & np.uint64(OFFSET_MASK)).astype(np.int64)
        blocks = self.threads.launch.cluster_blocks
        outside = np.flatnonzero((rank < 0) | (rank >= blocks) | (inside > self.shared_bytes - size))
        if len(outside):
            bad = outside[0]
            what = outside_of_cluster(size, int(addresses[bad]), self.shared_bytes, blocks)
            raise self._fault(ins, threads[bad], what)
        rows = self.threads.row[threads] - self.threads.rank[threads] + rank
        gone = np.flatnonzero(self.departed(rows))
        if len(gone) and ins.opcode.has(Trait.PHASE):  # nobody waits there any more
            self.doubt(ins)
        elif len(gone):
            bad = gone[0]
            where = ins.where or self.threads.program.function.name
            raise departed(ins, int(rank[bad]), self.threads.describe(int(threads[bad])), where)
        offsets = self._cluster_start[threads] + rank * self._stride + inside
        # Banks are told by the low bits; places of two blocks are two places.
        return Part("shared", self.shared, offsets, threads, which, addresses.astype(np.int64), size)

    def _part(
        self,
        ins: Instruction,
        space: str,
        addresses: npt.NDArray[np.uint64],
        chosen: "tuple[Index, Index | slice]",
        size: int,
    ) -> Part:
        """Check the bounds of accesses to one state space; ``chosen`` is (threads, positions of these)."""
        threads, which = chosen
        if space in {"global", "const"}:
            offsets = (addresses - np.uint64(GLOBAL_BASE)).view(np.int64)
            outside = self.arena.outside(offsets, size)
            if len(outside):
                raise self._out_of_bounds(ins, threads[outside[0]], int(addresses[outside[0]]), size)
            return Part(space, self.arena.data, offsets, threads, which, offsets, size)
        data, start, length = {
            "shared": (self.shared, self._shared_start, self.shared_bytes),
            "local": (self.private, self._private_start, self.private_bytes),
            "call": (self.private, self._private_start, self.private_bytes),
            "param": (self.parameters, None, len(self.parameters)),
        }[space]
        limit = max(length - size + 1, 0)
        outside = np.flatnonzero(addresses >= np.uint64(limit))
        if len(outside):
            bad = outside[0]
            what = f"is out of bounds: {size} bytes at {int(addresses[bad]):#x} of {length} bytes of {space} memory"
            raise self._fault(ins, threads[bad], what + (" (static and dynamic)" if space == "shared" else ""))
        inside = addresses.astype(np.int64)
        return Part(space, data, inside if start is None else inside + start[threads], threads, which, inside, size)

    def _out_of_bounds(self, ins: Instruction, thread: np.intp, address: int, size: int) -> IllegalAddress:
        what = f"is out of bounds: {size} bytes at {address:#x}, {self.arena.describe(address)}"
        return self._fault(ins, thread, what)

    def _fault(self, ins: Instruction, thread: np.intp, what: str) -> IllegalAddress:
        verb = "atomic" if ins.opcode.access is None or ins.is_update else ins.opcode.access.value
        return IllegalAddress(
            f"a {'' if ins.is_copy else f'{ins.space} '}{verb} by {self.threads.describe(int(thread))} {what}",
            where=ins.where or self.threads.program.function.name,
            cure="Check the index, the sizes of the buffers and the launch geometry.",
        )


def _listed(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _elements(data: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> AnyArray:
    """Return bytes as elements; what is left over at the end lies in no variable."""
    return data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)


def _shift(size: int) -> int:
    return size.bit_length() - 1


@dataclass(frozen=True, slots=True)
class _Use:
    """Threads that use one object, and where in it."""

    ins: Instruction
    found: TextureObject
    which: Index
    """their positions among the active threads"""
    own: Index
    coordinates: list[AnyArray]
    layer: AnyArray | None


class Objects:
    """Runs tex, suld and sust, for the threads of one handle after the other."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._threads = memory.threads

    def read(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run tex or suld; returns what it touched."""
        elements = _listed(ins.operands[0])
        is_surface = ins.type.startswith("b")
        kind = f"u{TYPE_BITS[ins.type] // 8}" if is_surface else "u4"
        results = np.zeros((len(elements), len(threads)), kind)
        parts: list[Part] = []
        for use in self._uses(ins, ins.operands[1], threads):
            parts += self._read_surface(use, results) if is_surface else self._fetch(use, results)
        for element, value in zip(elements, results, strict=True):
            self._threads.write(element, value, threads)
        return parts

    def _fetch(self, use: _Use, results: AnyArray) -> list[Part]:
        parts: list[Part] = []

        def load(address: AnyArray, valid: AnyArray, code: str, counts: bool) -> AnyArray:
            size, values = int(code[1:]), np.zeros(int(valid.sum()), code)
            for part in self._resolve(use, address[valid], use.own[valid], size):
                values[part.which] = _elements(part.data, np.dtype(code))[part.offsets >> _shift(size)]
                parts.extend([part] * counts)
            return values

        component = next((n for n, name in enumerate("rgba") if name in use.ins.modifiers), None)
        if component is None:
            values = texels.fetch(use.found, use.coordinates, use.layer, load)
        else:
            values = texels.gather(use.found, use.coordinates, use.layer, load, component)
        results[:, use.which] = values[: len(results)]
        return parts

    def _read_surface(self, use: _Use, results: AnyArray) -> list[Part]:
        size = results.dtype.itemsize
        address, valid = self._in_surface(use, size * len(results))
        parts = self._resolve(use, address[valid], use.own[valid], size * len(results))
        for part in parts:
            view, first = _elements(part.data, results.dtype), part.offsets >> _shift(size)
            for number in range(len(results)):
                results[number, use.which[valid][part.which]] = view[first + number]
        return parts

    def write(self, ins: Instruction, threads: Index) -> list[Part]:
        """Run sust; returns what it touched."""
        elements, size = _listed(ins.operands[1]), TYPE_BITS[ins.type] // 8
        parts: list[Part] = []
        for use in self._uses(ins, ins.operands[0], threads):
            address, valid = self._in_surface(use, size * len(elements))
            inside = use.own[valid]
            written = self._resolve(use, address[valid], inside, size * len(elements))
            for part in written:
                for number, element in enumerate(elements):
                    value = self._threads.values(element, f"b{8 * size}", inside)
                    _elements(part.data, value.dtype)[(part.offsets >> _shift(size)) + number] = value[part.which]
            parts += written
        return parts

    def _resolve(self, use: _Use, address: AnyArray, threads: Index, size: int) -> list[Part]:
        return self._memory.resolve(use.ins, address.astype(np.uint64), threads, size) if len(threads) else []

    def _in_surface(self, use: _Use, size: int) -> tuple[AnyArray, AnyArray]:
        mode = next((m for m in use.ins.modifiers if m in {"trap", "clamp", "zero"}), "trap")
        address, valid = texels.place_in_surface(use.found, use.coordinates, use.layer, size, mode)
        if mode == "trap" and not valid.all():
            raise self._fault("surface", use.ins, int(use.own[~valid][0]), 0)
        return address, valid

    def _uses(self, ins: Instruction, place: Operand, threads: Index) -> Iterator[_Use]:
        """Yield the objects that threads name."""
        assert isinstance(place, Address)
        dims, is_layered = texels.dimensions_of(next(m for m in ins.modifiers if m in ins.opcode.one_of))
        kind = "s32" if ins.type.startswith("b") else ins.type  # of surfaces and of textures
        handles = self._memory.addresses(Address(place.base, place.offset), threads)
        for handle in np.unique(handles).tolist():
            which = np.flatnonzero(handles == np.uint64(handle))
            own = threads[which]
            given = [
                np.broadcast_to(self._threads.value(each, kind if n or not is_layered else "s32", own), own.shape)
                for n, each in enumerate(place.coordinates[: dims + is_layered])
            ]
            layer = given.pop(0) if is_layered else None
            yield _Use(ins, self._object(ins, int(own[0]), handle), which, own, given, layer)

    def _object(self, ins: Instruction, thread: int, handle: int) -> TextureObject:
        arena, start = self._memory.arena, handle - GLOBAL_BASE
        place = arena.find(handle)
        found = None
        if place is not None and place.start <= start <= place.start + place.nbytes - OBJECT_BYTES and handle % 8 == 0:
            found = TextureObject.unpacked(arena.data[start : start + OBJECT_BYTES])
        if found is None:
            raise self._fault("texture", ins, thread, handle)
        return found

    def _fault(self, name: str, ins: Instruction, thread: int, handle: int) -> IllegalAddress:
        where = ins.where or self._threads.program.function.name
        return object_fault(name, ins, (self._threads.describe(thread), where), handle)
