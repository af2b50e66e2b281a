"""The threads of a batch of blocks: their registers, special registers and operand values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute.setup.cluster_addresses import RANK_SHIFT
from kerncast.execute.setup.layout import Program, as_type, immediate, raw_dtype, to_register
from kerncast.execute.setup.supported import clock_value, constant_special, is_clock, lane_special, unravel
from kerncast.launch import NO_CLUSTER, Launch, cluster_grid
from kerncast.ptx import Immediate, Negated, Operand, Register, Sink, Special, Symbol

AnyArray = npt.NDArray[Any]
Index = npt.NDArray[np.intp]

WARP_LANES = 32


class Threads:
    """Register state of blocks x warps x 32 lanes; the tail of a partly filled warp is never active."""

    def __init__(self, program: Program, launch: Launch, block_ids: npt.NDArray[np.int64]) -> None:
        self.program = program
        self.launch = launch
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
        self.rank: Index = self.row % launch.cluster_blocks
        """rank of the thread's block in its cluster, whose blocks lie one after the other"""
        self.in_block: Index = self.all % (self.warps_per_block * WARP_LANES)
        self._registers: dict[str, AnyArray] = {}
        self._specials: dict[str, AnyArray] = {}

    @property
    def exist(self) -> npt.NDArray[np.bool_]:
        """[warps, 32] whether the lane holds a thread of the launch."""
        return (self.in_block < self.launch.threads_per_block).reshape(-1, WARP_LANES)

    def value(self, operand: Operand, type_name: str, threads: Index) -> AnyArray:
        """Return an operand of these threads, read as a type; one element where it is the same for all.

        What is returned may be the register itself: it is not to be changed.
        """
        match operand:
            case Register():
                return as_type(self._of(self._array(operand), threads), type_name)
            case Immediate(value, kind):
                return immediate(value, kind, type_name)
            case Special(name):
                if is_clock(name):
                    return as_type(np.array([clock_value(name, self.clock)]), type_name)
                return as_type(self._of(self._special(name), threads), type_name)
            case Negated(register):
                return ~self._of(self._array(register), threads)
            case Symbol(name, offset):
                return self._address(name, offset, type_name, threads)
        raise UnsupportedError(f"operand {operand} cannot be read as a value")

    def _address(self, name: str, offset: int, type_name: str, threads: Index) -> AnyArray:
        """Return the address of a variable; in a cluster, that of a shared one is another in each block."""
        address = immediate(self.program.address_of(name) + offset, "int", type_name)
        if not self.program.sees_cluster or name not in self.program.shared:
            return address
        ranks = self._of(self.rank, threads).astype(address.dtype)
        found: AnyArray = address + (ranks << address.dtype.type(RANK_SHIFT))
        return found

    def values(self, operand: Operand, type_name: str, threads: Index) -> AnyArray:
        """Return an operand of these threads, one element for each."""
        value = self.value(operand, type_name, threads)
        return value if value.shape == threads.shape else np.broadcast_to(value, threads.shape)

    def write(self, operand: Operand, values: AnyArray, threads: Index) -> None:
        """Set a register of these threads; one value stands for all."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise UnsupportedError(f"operand {operand} cannot be written")
        array = self._array(operand)
        if len(threads) == self.count:
            array[:] = to_register(values, operand.type)
        else:
            array[threads] = to_register(values, operand.type)

    def describe(self, thread: int) -> str:
        """Name a thread by its block and thread index."""
        block = unravel(int(self.block_ids[self.row[thread]]), self.launch.grid)
        return f"block {block}, thread {unravel(int(self.in_block[thread]), self.launch.block)}"

    def _of(self, array: AnyArray, threads: Index) -> AnyArray:
        return array if len(threads) == self.count else array[threads]

    def _array(self, register: Register) -> AnyArray:
        array = self._registers.get(register.name)
        if array is None:
            array = self._registers[register.name] = np.zeros(self.count, raw_dtype(register.type))
        return array

    def _special(self, name: str) -> AnyArray:
        if name not in self._specials:
            self._specials[name] = self._compute_special(name)
        return self._specials[name]

    def _compute_special(self, name: str) -> AnyArray:
        root, _, axis = name.removeprefix("%").partition(".")
        if axis and root in {"tid", "ctaid"}:
            index = self.in_block if root == "tid" else self.block_ids[self.row]
            sizes = self.launch.block if root == "tid" else self.launch.grid
            part: AnyArray = unravel(index, sizes)["xyz".index(axis)]
            return part.astype(np.uint32)
        cluster = self.launch.cluster or NO_CLUSTER
        if axis and root in {"clusterid", "cluster_ctaid"}:
            size = cluster["xyz".index(axis)]
            own = self._special(f"%ctaid.{axis}")
            return own // size if root == "clusterid" else own % size
        if axis:
            sizes = {"ntid": self.launch.block, "nctaid": self.launch.grid, "cluster_nctaid": cluster,
                     "nclusterid": cluster_grid(self.launch.grid, cluster)}[root]  # fmt: skip
            return np.full(self.count, sizes["xyz".index(axis)], np.uint32)
        if name == "%cluster_ctarank":
            return self.rank.astype(np.uint32)
        if name == "%warpid":
            return (self.warp % self.warps_per_block).astype(np.uint32)
        dynamic = self.launch.shared_bytes
        sizes_by_name = {
            "%cluster_nctarank": self.launch.cluster_blocks,
            "%is_explicit_cluster": int(self.launch.cluster is not None),
            "%nwarpid": self.warps_per_block, "%dynamic_smem_size": dynamic,
            "%total_smem_size": self.program.static_shared_bytes + dynamic,
        }  # fmt: skip
        constant = sizes_by_name.get(name, constant_special(name))
        return lane_special(name, self.lane) if constant is None else np.full(self.count, constant, np.uint32)
