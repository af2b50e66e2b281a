"""The threads of a batch of blocks: their registers, special registers and operand values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute.arena import GLOBAL_BASE, Arena
from kerncast.execute.dtypes import as_type, immediate, raw_dtype, to_register
from kerncast.execute.layout import Program
from kerncast.launch import Launch
from kerncast.ptx.module import (
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
)

AnyArray = npt.NDArray[Any]
Index = npt.NDArray[np.intp]

WARP_LANES = 32


class Threads:
    """Register state of blocks x warps x 32 lanes; the tail of a partly filled warp is never active."""

    def __init__(self, program: Program, launch: Launch, block_ids: npt.NDArray[np.int64], arena: Arena) -> None:
        self.program = program
        self.launch = launch
        self.arena = arena
        self.block_ids = block_ids
        self.warps_per_block = launch.warps_per_block
        self.blocks = len(block_ids)
        self.warps = self.blocks * self.warps_per_block
        self.count = self.warps * WARP_LANES
        self.clock = 0
        self.all: Index = np.arange(self.count)
        self.warp: Index = self.all // WARP_LANES
        self.lane: Index = self.all % WARP_LANES
        self.row: Index = self.warp // self.warps_per_block
        """position of the thread's block in ``block_ids``"""
        self.in_block: Index = self.all % (self.warps_per_block * WARP_LANES)
        self._registers: dict[str, AnyArray] = {}
        self._specials: dict[str, AnyArray] = {}

    @property
    def exist(self) -> npt.NDArray[np.bool_]:
        """Which lanes hold a thread of the launch, [warps, 32]."""
        return (self.in_block < self.launch.threads_per_block).reshape(-1, WARP_LANES)

    def value(self, operand: Operand, type_name: str, threads: Index) -> AnyArray:
        """Return an operand of these threads, read as a type; one element where it is the same for all."""
        match operand:
            case Register(name, _):
                return as_type(self._array(operand)[threads] if name else np.zeros(0), type_name)
            case Immediate(value, kind):
                return immediate(value, kind, type_name)
            case Special(name):
                return as_type(self._special(name)[threads], type_name)
            case Negated(register):
                return ~self._array(register)[threads]
            case Symbol(name):
                return np.array([self.address_of(name)], np.uint64).astype(raw_dtype(type_name))
        raise UnsupportedError(f"operand {operand} cannot be read as a value")

    def write(self, operand: Operand, values: AnyArray, threads: Index) -> None:
        """Set a register of these threads."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise UnsupportedError(f"operand {operand} cannot be written")
        self._array(operand)[threads] = to_register(values, operand.type)

    def peek(self, operand: Operand, type_name: str) -> AnyArray:
        """Return an operand of every thread, for instructions that read other lanes."""
        return np.broadcast_to(self.value(operand, type_name, self.all), (self.count,))

    def address_of(self, name: str) -> int:
        """Return the address of a variable in its own state space."""
        for table in (self.program.shared, self.program.private, self.program.parameters):
            if name in table:
                return table[name]
        return next((a.address for a in self.arena.allocations if a.name == name), 0) or self._unknown(name)

    def describe(self, thread: int) -> str:
        """Name a thread by its block and thread index."""
        block = _unravel(int(self.block_ids[self.row[thread]]), self.launch.grid)
        return f"block {block}, thread {_unravel(int(self.in_block[thread]), self.launch.block)}"

    def _unknown(self, name: str) -> int:
        raise UnsupportedError(f"the address of {name} is not known (a pointer to a function?)")

    def _array(self, register: Register) -> AnyArray:
        array = self._registers.get(register.name)
        if array is None:
            array = self._registers[register.name] = np.zeros(self.count, raw_dtype(register.type))
        return array

    def _special(self, name: str) -> AnyArray:
        if name.startswith(("%clock", "%globaltimer")):  # grows, so that a kernel that waits for it goes on
            return np.full(self.count, self.clock, np.uint64)
        if name not in self._specials:
            self._specials[name] = self._compute_special(name.removeprefix("%"))
        return self._specials[name]

    def _compute_special(self, name: str) -> AnyArray:
        root, _, axis = name.partition(".")
        if axis:
            sizes = self.launch.block if root in {"tid", "ntid"} else self.launch.grid
            linear = self.in_block if root == "tid" else self.block_ids[self.row]
            x, y, z = sizes
            index = "xyz".index(axis)
            if root in {"ntid", "nctaid"}:
                return np.full(self.count, sizes[index], np.uint32)
            parts = (linear % x, linear // x % y, linear // (x * y) % z)
            return parts[index].astype(np.uint32)
        lane = self.lane.astype(np.uint64)
        one = np.uint64(1)
        constants: dict[str, int] = {
            "nwarpid": self.warps_per_block, "smid": 0, "nsmid": 1, "gridid": 1,
            "total_smem_size": self.program.static_shared_bytes + self.launch.shared_bytes,
            "dynamic_smem_size": self.launch.shared_bytes,
        }  # fmt: skip
        if name in constants:
            return np.full(self.count, constants[name], np.uint32)
        if name == "laneid":
            return self.lane.astype(np.uint32)
        if name == "warpid":
            return (self.warp % self.warps_per_block).astype(np.uint32)
        masks = {
            "lanemask_eq": one << lane, "lanemask_lt": (one << lane) - one, "lanemask_le": (one << (lane + one)) - one,
            "lanemask_gt": ~((one << (lane + one)) - one), "lanemask_ge": ~((one << lane) - one),
        }  # fmt: skip
        if name in masks:
            return masks[name].astype(np.uint32)
        raise UnsupportedError(f"special register %{name} is not supported")


def is_global_address(address: int) -> bool:
    """Return whether an address lies in global memory."""
    return address >= GLOBAL_BASE


def guard_of(instruction: Instruction) -> Operand | None:
    """Return the guard of an instruction as an operand."""
    if instruction.guard is None:
        return None
    return Negated(instruction.guard) if instruction.guard_negated else instruction.guard


def _unravel(linear: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = sizes
    return (linear % x, linear // x % y, linear // (x * y))
