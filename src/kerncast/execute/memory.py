"""Loads, stores and atomics of a batch of threads, checked for bounds and alignment in every state space."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, KernelFault, UnsupportedError
from kerncast.execute.arena import GLOBAL_BASE, LOCAL_WINDOW, SECTOR_BYTES, SHARED_WINDOW, Arena, window_of
from kerncast.execute.atomics import update
from kerncast.execute.dtypes import DTYPES, as_type, raw_dtype, to_register
from kerncast.execute.threads import Threads
from kerncast.ptx.module import TYPE_BITS, Address, Instruction, Register, Symbol, Vector
from kerncast.units import format_bytes

AnyArray = npt.NDArray[Any]
Index = npt.NDArray[np.intp]


class Accessed(NamedTuple):
    """Which threads touched which sector of global memory; both empty for other state spaces."""

    threads: Index
    sectors: npt.NDArray[np.int64]


Part = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], Index]
"""(bytes, offset of each access, position of its thread in the active ones)"""


class Memory:
    """Global memory of the launch with the shared and private memory of one batch."""

    def __init__(self, threads: Threads, arena: Arena, parameters: bytes, limit_bytes: int) -> None:
        program = threads.program
        self.threads = threads
        self.arena = arena
        self.parameters = np.frombuffer(parameters, np.uint8)
        self.shared_bytes = program.static_shared_bytes + threads.launch.shared_bytes
        self.shared_stride = -(-max(self.shared_bytes, 1) // 16) * 16
        self.private_bytes = program.private_bytes
        needed = self.shared_stride * threads.blocks + self.private_bytes * threads.count
        if needed > limit_bytes:
            raise BudgetExceededError(f"shared and local memory need {format_bytes(needed)}")
        self.shared = np.zeros(self.shared_stride * threads.blocks, np.uint8)
        self.private = np.zeros(self.private_bytes * threads.count, np.uint8)

    def load(self, ins: Instruction, threads: Index) -> Accessed:
        """Run a load."""
        target, source = ins.operands
        assert isinstance(source, Address)
        elements = target.elements if isinstance(target, Vector) else (target,)
        size = TYPE_BITS[ins.type] // 8
        if self._is_kernel_parameter(ins, source):
            self._load_parameter(ins, source, threads)
            return self._accessed([], threads)
        addresses = self.addresses(source, threads)
        values = [np.zeros(len(threads), raw_dtype(ins.type)) for _ in elements]
        parts = self._resolve(ins, addresses, threads, size * len(elements))
        for data, offsets, which in parts:
            view = data[: len(data) // size * size].view(raw_dtype(ins.type))
            for position, value in enumerate(values):
                value[which] = view[offsets // size + position]
        for element, value in zip(elements, values, strict=True):
            self.threads.write(element, as_type(value, ins.type), threads)
        return self._accessed(parts, threads)

    def store(self, ins: Instruction, threads: Index) -> Accessed:
        """Run a store; of several threads that write one place the last wins."""
        target, source = ins.operands
        assert isinstance(target, Address)
        elements = source.elements if isinstance(source, Vector) else (source,)
        size = TYPE_BITS[ins.type] // 8
        addresses = self.addresses(target, threads)
        parts = self._resolve(ins, addresses, threads, size * len(elements))
        for data, offsets, which in parts:
            view = data[: len(data) // size * size].view(raw_dtype(ins.type))
            for position, element in enumerate(elements):
                value = to_register(self.threads.value(element, ins.type, threads[which]), ins.type)
                view[offsets // size + position] = value
        return self._accessed(parts, threads)

    def atomic(self, ins: Instruction, threads: Index) -> Accessed:
        """Run an atomic or a reduction, threads one after the other in lane order."""
        operands = ins.operands if ins.root == "atom" else (None, *ins.operands)
        destination, target, *values = operands
        assert isinstance(target, Address)
        dtype = DTYPES[ins.type]
        size = dtype.itemsize
        parts = self._resolve(ins, self.addresses(target, threads), threads, size)
        for data, offsets, which in parts:
            if data is self.private:
                raise UnsupportedError(f"{ins.name} on thread-private memory", where=str(ins.location))
            arguments = [
                np.broadcast_to(self.threads.value(v, ins.type, threads[which]), offsets.shape)
                for v in values
                if v is not None
            ]
            view = data[: len(data) // size * size].view(dtype)
            old = update(ins, view, offsets // size, arguments, wants_old=isinstance(destination, Register))
            if destination is not None and old is not None:
                self.threads.write(destination, old, threads[which])
        return self._accessed(parts, threads)

    def _accessed(self, parts: list[Part], threads: Index) -> Accessed:
        found = [(threads[which], offsets // SECTOR_BYTES) for data, offsets, which in parts if data is self.arena.data]
        if len(found) == 1:
            return Accessed(*found[0])
        return Accessed(np.zeros(0, np.intp), np.zeros(0, np.int64))

    def addresses(self, operand: Address, threads: Index) -> npt.NDArray[np.uint64]:
        """Return the addresses of a memory operand, in the state space of the instruction."""
        offset = np.uint64(operand.offset & (2**64 - 1))
        if isinstance(operand.base, Register):
            base = self.threads.value(operand.base, "u64", threads)
            return base + offset
        start = self.threads.address_of(operand.base.name) if isinstance(operand.base, Symbol) else 0
        return np.full(len(threads), np.uint64(start), np.uint64) + offset

    def _is_kernel_parameter(self, ins: Instruction, source: Address) -> bool:
        if ins.space != "param":
            return False
        if isinstance(source.base, Symbol):
            return source.base.name in self.threads.program.parameters
        return isinstance(source.base, Register)  # only kernel parameters may be addressed through a register

    def _load_parameter(self, ins: Instruction, source: Address, threads: Index) -> None:
        target = ins.operands[0]
        elements = target.elements if isinstance(target, Vector) else (target,)
        size = TYPE_BITS[ins.type] // 8
        offsets = self.addresses(source, threads).astype(np.int64)
        bad = (offsets < 0) | (offsets + size * len(elements) > len(self.parameters))
        if bad.any():
            raise self._fault(ins, threads[bad][0], "reads past the kernel's parameters")
        for position, element in enumerate(elements):
            index = (offsets + position * size)[:, None] + np.arange(size)
            raw = np.ascontiguousarray(self.parameters[index]).view(raw_dtype(ins.type))[:, 0]
            self.threads.write(element, as_type(raw, ins.type), threads)

    def _resolve(
        self, ins: Instruction, addresses: npt.NDArray[np.uint64], threads: Index, size: int
    ) -> list[Part]:
        """Split an access by state space into (bytes, offsets, positions in ``threads``), all checked."""
        misaligned = addresses % np.uint64(size) != 0
        if misaligned.any():
            bad = int(np.flatnonzero(misaligned)[0])
            raise self._fault(ins, threads[bad], f"is misaligned: {size} bytes at address {int(addresses[bad]):#x}")
        everyone: Index = np.arange(len(threads))
        space = ins.space
        if space in {"local", "param"}:
            return [self._private(ins, addresses, threads, everyone, size)]
        if space == "shared":
            return [self._shared(ins, addresses, threads, everyone, size)]
        if space in {"global", "const"}:
            return [self._global(ins, addresses, threads, everyone, size)]
        kinds = window_of(addresses)
        parts = []
        for kind, base, access in (
            (0, 0, self._global), (1, SHARED_WINDOW, self._shared), (2, LOCAL_WINDOW, self._private)
        ):  # fmt: skip
            which = np.flatnonzero(kinds == kind)
            if len(which):
                parts.append(access(ins, addresses[which] - np.uint64(base), threads[which], which, size))
        return parts

    def _global(
        self, ins: Instruction, addresses: npt.NDArray[np.uint64], threads: Index, which: Index, size: int
    ) -> Part:
        offsets = (addresses - np.uint64(GLOBAL_BASE)).view(np.int64)
        _, inside = self.arena.owners(offsets, size)
        if not inside.all():
            bad = int(np.flatnonzero(~inside)[0])
            address = int(addresses[bad])
            raise self._fault(
                ins, threads[bad], f"is out of bounds: {size} bytes at {address:#x}, {self.arena.describe(address)}"
            )
        return self.arena.data, offsets, which

    def _shared(
        self, ins: Instruction, addresses: npt.NDArray[np.uint64], threads: Index, which: Index, size: int
    ) -> Part:
        inside = (addresses < 2**40) & (addresses + np.uint64(size) <= np.uint64(self.shared_bytes))
        if not inside.all():
            bad = int(np.flatnonzero(~inside)[0])
            raise self._fault(
                ins, threads[bad],
                f"is out of bounds: {size} bytes at {int(addresses[bad]):#x} of {self.shared_bytes} bytes of shared"
                " memory (static and dynamic)",
            )  # fmt: skip
        return self.shared, addresses.astype(np.int64) + self.threads.row[threads] * self.shared_stride, which

    def _private(
        self, ins: Instruction, addresses: npt.NDArray[np.uint64], threads: Index, which: Index, size: int
    ) -> Part:
        inside = (addresses < 2**40) & (addresses + np.uint64(size) <= np.uint64(self.private_bytes))
        if not inside.all():
            bad = int(np.flatnonzero(~inside)[0])
            raise self._fault(ins, threads[bad], "is out of bounds of the thread's local memory")
        return self.private, addresses.astype(np.int64) + threads * self.private_bytes, which

    def _fault(self, ins: Instruction, thread: np.intp, what: str) -> KernelFault:
        verb = {"ld": "load", "st": "store"}.get(ins.root, "atomic")
        return KernelFault(
            f"a {ins.space} {verb} by {self.threads.describe(int(thread))} {what}",
            where=str(ins.location) if ins.location else self.threads.program.function.name,
            cure="Check the index, the sizes of the buffers and the launch geometry.",
        )
