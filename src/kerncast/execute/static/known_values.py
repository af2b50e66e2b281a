"""Registers of which some values are not known: of those that say where threads go, and what they access.

What is computed from parameters, indices and constants is known, and what the host wrote to memory that the kernel
does not change. All else that comes out of memory or of an instruction that is not executed is unknown, and so is what
is made of it. Fails when: a value passes through memory that the kernel writes; it counts as unknown.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute.reference import bits, compare, crosslane
from kerncast.execute.reference.arithmetic import ARITHMETIC, AnyArray
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.setup.arena import GLOBAL_BASE, PARAMETER_WINDOW
from kerncast.execute.setup.dataflow import UNKNOWN, BufferUse, use_of
from kerncast.execute.setup.layout import DTYPES, raw_dtype
from kerncast.execute.setup.state import Setting
from kerncast.execute.setup.supported import is_covered
from kerncast.launch import MAP_BYTES, TensorTiles, tiles_of
from kerncast.ptx import (
    Address,
    Function,
    Instruction,
    Operand,
    Register,
    Symbol,
    Trait,
    Vector,
    results_of,
    sources_of,
)

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

#: Instructions that read other lanes, of which a value is known where those of all lanes of the warp are.
_EXCHANGES = {
    "shfl": crosslane.shuffle, "vote": crosslane.vote, "match": crosslane.match, "activemask": crosslane.active_mask,
    "elect": crosslane.elect, "redux": crosslane.reduce_warp,
}  # fmt: skip
_MOVES = {
    "mov": compare.move, "cvta": compare.convert_address, "isspacep": compare.is_space, "mapa": compare.map_to_rank,
    "getctarank": compare.rank_of_address,
}  # fmt: skip
#: State spaces whose contents at the start the host has written.
_OF_HOST = frozenset({"global", "const", "param"})


def wanted_operands(ins: Instruction) -> tuple[Operand, ...]:
    """Return the operands whose values the counts are made from: conditions, addresses and sizes."""
    wanted: list[Operand] = [] if ins.condition is None else [ins.condition]
    if ins.root == "brx":
        wanted.append(ins.operands[0])
    if ins.opcode.access is not None and ins.space not in {"shared", "local"}:
        wanted += [each for each in ins.operands if isinstance(each, Address)]
    if ins.opcode.has(Trait.BULK):
        wanted += [each for each in ins.operands if not isinstance(each, Address)]
    return tuple(wanted)


def evaluated(function: Function) -> frozenset[int]:
    """Return the instructions that have to be evaluated: what the wanted operands are made from."""
    makers: dict[str, list[int]] = {}
    for number, ins in enumerate(function.instructions):
        for register in results_of(ins):
            makers.setdefault(register.name, []).append(number)
    waiting = [each for ins in function.instructions for each in _names(wanted_operands(ins))]
    seen, found = set(waiting), set[int]()
    while waiting:
        for number in makers.get(waiting.pop(), ()):
            if number in found:
                continue
            found.add(number)
            ins = function.instructions[number]
            new = {each.name for each in sources_of(ins)} - seen if _can_compute(ins) else set()
            seen |= new
            waiting += new
    return frozenset(found)


def _names(operands: Iterable[Operand]) -> list[str]:
    found = []
    for operand in operands:
        base = operand.base if isinstance(operand, Address) else getattr(operand, "register", operand)
        found += [base.name] if isinstance(base, Register) else []
    return found


def _can_compute(ins: Instruction) -> bool:
    """Return whether the result follows from the registers that an instruction reads, or from what the host wrote."""
    name = ins.opcode.name
    if not is_covered(ins):
        return False
    if ins.is_load:
        return ins.space in _OF_HOST and not ins.opcode.has(Trait.SAMPLED)
    return bits.uses_carry(ins) or name in ARITHMETIC or name in _MOVES or name in _EXCHANGES


class KnownValues:
    """The registers of a batch of threads, and in which of them the value is unknown."""

    def __init__(self, setting: Setting, threads: Threads) -> None:
        self.threads = threads
        self._setting = setting
        self._unknown: dict[str, Mask] = {}
        self._use: BufferUse = use_of(setting.program, setting.buffers)

    def is_unknown(self, registers: Iterable[Register], active: Index) -> Mask:
        """Return [active] in which threads any of the registers is unknown."""
        found = np.zeros(len(active), np.bool_)
        for register in registers:
            if register.name in self._unknown:
                found |= self._unknown[register.name][active]
        return found

    def forget(self, name: str, threads: Mask) -> None:
        """Take the value of a register for unknown in these of all threads."""
        self._unknown.setdefault(name, np.zeros(self.threads.count, np.bool_))[threads] = True

    def run(self, ins: Instruction, active: Index, is_doubtful: Mask) -> None:
        """Evaluate an instruction in the active threads; whether it is executed is unknown in some of them."""
        try:
            unknown = self._evaluate(ins, active) | is_doubtful
        except (UnsupportedError, KeyError, ValueError, IndexError):
            unknown = np.ones(len(active), np.bool_)
        for register in results_of(ins):
            if unknown.any() or register.name in self._unknown:
                self._unknown.setdefault(register.name, np.zeros(self.threads.count, np.bool_))[active] = unknown

    def _evaluate(self, ins: Instruction, active: Index) -> Mask:
        if ins.opcode.has(Trait.WAIT):  # what is waited for has come
            self.threads.write(ins.operands[0], np.ones(1, np.bool_), active)
            return np.zeros(len(active), np.bool_)
        if ins.opcode.name == "clusterlaunchcontrol.query_cancel":  # no request is granted
            no: AnyArray = np.zeros(1, np.bool_ if "is_canceled" in ins.modifiers else np.uint32)
            for register in results_of(ins):
                self.threads.write(register, no, active)
            return np.zeros(len(active), np.bool_)
        if not _can_compute(ins):
            return np.ones(len(active), np.bool_)
        if ins.is_load:
            return self._load(ins, active)
        unknown = self.is_unknown(sources_of(ins), active)
        name = ins.opcode.name
        if name in _EXCHANGES:
            _EXCHANGES[name](self.threads, ins, active)
            of_warp = np.bincount(self.threads.warp[active], unknown, self.threads.warps) > 0
            return np.asarray(of_warp[self.threads.warp[active]])
        if name in _MOVES:
            _MOVES[name](self.threads, ins, active)
        else:
            (bits if bits.uses_carry(ins) else compare).compute(self.threads, ins, active)
        return unknown

    def addresses(self, operand: Address, active: Index) -> tuple[Numbers, Mask]:
        """Return [active] the addresses that an operand names, and where they are unknown."""
        base = operand.base
        values = np.zeros(len(active), np.uint64)
        if base is not None:
            values = self.threads.values(base, "u64", active)
        unknown = self.is_unknown([base] if isinstance(base, Register) else [], active)
        return values.astype(np.int64) + operand.offset, unknown

    def map_of(self, operand: Address, active: Index) -> TensorTiles | None:
        """Return the tensor map that the first of the active threads names; None where it is unknown."""
        addresses, unknown = self.addresses(operand, active[:1])
        data = None if unknown.any() else self._bytes(int(addresses[0]), MAP_BYTES)
        return None if data is None else tiles_of(data)

    def _load(self, ins: Instruction, active: Index) -> Mask:
        """Run a load of what the host has written; all else is unknown."""
        address = ins.operands[1]
        assert isinstance(address, Address)
        addresses, unknown = self._places(ins, address, active)
        target = ins.operands[0]
        elements: Sequence[Operand] = target.elements if isinstance(target, Vector) else (target,)
        dtype = DTYPES[ins.type]
        width = dtype.itemsize * len(elements)
        places, which = np.unique(addresses, return_inverse=True)
        rows = np.zeros((len(places), width), np.uint8)
        for number, place in enumerate(places.tolist()):
            data = self._bytes(place, width)
            unknown = unknown | ((which == number) & (data is None))
            rows[number] = np.frombuffer(data or bytes(width), np.uint8)
        values = np.ascontiguousarray(rows).view(raw_dtype(ins.type) if dtype.kind == "V" else dtype)
        for number, element in enumerate(elements):
            self.threads.write(element, np.ascontiguousarray(values[which, number]), active)
        return unknown

    def _places(self, ins: Instruction, address: Address, active: Index) -> tuple[Numbers, Mask]:
        program = self._setting.program
        if ins.space == "param":
            is_own = isinstance(address.base, Symbol) and address.base.name in program.parameters
            if not is_own and isinstance(address.base, Symbol):
                raise UnsupportedError("parameters of calls are memory of the thread")
            return self.addresses(address, active)
        changed = self._use.written | ({UNKNOWN} if self._use.updates else frozenset())
        if ins.space == "global" and (self._use.of(ins) & changed or UNKNOWN in changed | self._use.of(ins)):
            raise UnsupportedError("the kernel may change what is loaded")
        return self.addresses(address, active)

    def _bytes(self, address: int, size: int) -> bytes | None:
        """Return what the host wrote at an address; None where that is nowhere."""
        setting = self._setting
        if 0 <= (place := address - PARAMETER_WINDOW) <= len(setting.parameters) - size:
            return setting.parameters[place : place + size]
        allocation = setting.arena.find(address)
        if allocation is None or address + size > allocation.address + allocation.nbytes:
            return None
        return setting.arena.data[address - GLOBAL_BASE :][:size].tobytes()
