"""Sums over the instructions of a kernel, per block of threads that ran or scaled to the whole launch."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from kerncast.execute.sampling.sample import Sampler
from kerncast.profiles import Count
from kerncast.ptx import TYPE_BITS, ControlFlowGraph, Instruction, MemoryAccess, Register, Trait, Vector
from kerncast.traces import BlockCounts, Operation, Trace
from kerncast.traces import Counts as PerBlock

# What kind of work each PTX instruction is.


_FLOAT_CLASS = {
    "f32": "fp32", "f32x2": "fp32", "f64": "fp64", "f16": "fp16", "f16x2": "fp16", "bf16": "fp16", "bf16x2": "fp16",
}  # fmt: skip
_WORK_OF_ANY_TYPE = {"memory", "control"}
#: Modifiers of loads that L1 does not serve.
_PASSES_L1 = {"volatile", "relaxed", "acquire", "mmio", "cg", "cv"}


@dataclass(frozen=True, slots=True)
class WorkKind:
    """The class of an instruction and how many operations one thread does in it."""

    name: str
    """fp32, fp64, fp16, special, integer, control, memory, move"""
    operations: int


def classify(ins: Instruction) -> WorkKind:
    """Return the class of an instruction.

    A fused multiply-add of floats is two operations, of integers one: an integer lane takes one per clock.
    Comparison, minimum, sign and conversion of floats are moves, as Nsight Compute's FLOP counts leave them out;
    division and square root count as one special function each.
    """
    opcode, float_class = ins.opcode, _FLOAT_CLASS.get(ins.type)
    if float_class is None or opcode.work in _WORK_OF_ANY_TYPE:
        return WorkKind("move" if ins.type == "pred" and opcode.work == "integer" else opcode.work, 1)
    if opcode.flops:
        return WorkKind(float_class, opcode.flops * (2 if ins.type.endswith("x2") else 1))
    return WorkKind("special" if opcode.is_special else "move", 1)


def kind_name(ins: Instruction) -> str:
    """Return the opcode with its type, or with its state space for memory: fma.f32, ld.global, bar.sync."""
    if ins.opcode.access is not None:
        return f"{ins.root}.{ins.space}"
    if ins.opcode.has(Trait.MODE):
        return ".".join((ins.root, *ins.modifiers[:2]))
    return f"{ins.root}.{ins.type}" if ins.type else ins.root


def operation_of(ins: Instruction, read: frozenset[str]) -> Operation:
    """Return what a recording says of an access to global memory; ``read`` are the registers that anything reads."""
    modifiers = set(ins.modifiers)
    if ins.is_load:
        if "nc" in modifiers:
            return Operation.LOAD_READ_ONLY
        return Operation.LOAD_UNCACHED if modifiers & _PASSES_L1 else Operation.LOAD
    if ins.is_store:
        return Operation.STORE
    results = ins.operands[0] if ins.opcode.access is MemoryAccess.ATOMIC else None
    registers = results.elements if isinstance(results, Vector) else (results,)
    is_read = any(isinstance(r, Register) and r.name in read for r in registers)
    return Operation.ATOMIC if is_read else Operation.REDUCTION


def access_bytes(ins: Instruction) -> int:
    """Return the bytes that one thread loads or stores with a memory instruction."""
    data = next((o for o in ins.operands if isinstance(o, Vector)), None)
    return TYPE_BITS[ins.type] // 8 * (len(data.elements) if data else 1)


Columns = npt.NDArray[np.float64]
_FLOAT_CLASSES = frozenset({"fp16", "fp32", "fp64"})


class Sums:
    """Weighted sums, one row for each block: integers below 2^53, which floats hold exactly."""

    def __init__(self, code: Sequence[Instruction], cfg: ControlFlowGraph, counts: BlockCounts) -> None:
        self.counts = counts
        self._starts = [block.start for block in cfg.blocks]
        self._warps, self._threads = (each.astype(np.float64) for each in (counts.block_warps, counts.block_threads))
        block_of = np.repeat(np.arange(len(cfg.blocks)), cfg.lengths)
        self._guarded = list(counts.guarded)
        self._switched_off = self._threads[:, block_of[self._guarded]] - counts.guarded_threads
        self.flops = np.array([[_flops(ins)] for ins in code], np.int64)
        """[instructions, 1] floating-point operations of one thread, in all precisions"""

    def warps(self, weights: PerBlock) -> Columns:
        """Return [n, columns]: weights [instructions, columns] times warps that issued each instruction."""
        return np.asarray(self._warps @ np.add.reduceat(weights, self._starts, axis=0))

    def threads(self, weights: PerBlock) -> Columns:
        """Return [n, columns]: weights [instructions, columns] times threads that executed each instruction."""
        executed = self._threads @ np.add.reduceat(weights, self._starts, axis=0)
        return np.asarray(executed - self._switched_off @ weights[self._guarded])

    def accesses(self, counts: PerBlock, weights: PerBlock) -> Columns:
        """Return [n, columns]: weights [instructions, columns] times counts [n, accessing] of memory instructions."""
        weights = weights[list(self.counts.accessing)]
        used = np.flatnonzero(weights.any(axis=1) & counts.any(axis=0))  # most instructions have few of the counts
        return np.asarray(counts[:, used].astype(np.float64) @ weights[used])


class Totals:
    """Weighted sums of a trace, scaled to the whole launch."""

    def __init__(self, trace: Trace, sampler: Sampler) -> None:
        self.code = trace.function.instructions
        self.cfg = trace.cfg
        self.counts = _in_one_row(trace.counts) if sampler.is_whole else trace.counts
        self._sums = Sums(self.code, trace.cfg, self.counts)
        self._sampler = sampler

    @property
    def flops(self) -> PerBlock:
        """[instructions, 1] floating-point operations of one thread, in all precisions."""
        return self._sums.flops

    def warps(self, weights: PerBlock) -> tuple[Count, ...]:
        """Return per column of weights [instructions, columns] the sum over warps that issued each instruction."""
        return self.scale(self._sums.warps(weights))

    def threads(self, weights: PerBlock) -> tuple[Count, ...]:
        """Return per column of weights [instructions, columns] the sum over threads that executed each instruction."""
        return self.scale(self._sums.threads(weights))

    def accesses(self, counts: PerBlock, weights: PerBlock) -> tuple[Count, ...]:
        """Return per column of weights [instructions, columns] the sum of a count of memory instructions."""
        return self.scale(self._sums.accesses(counts, weights))

    def scale(self, per_block: npt.NDArray[np.generic]) -> tuple[Count, ...]:
        """Scale columns [n, columns]; what the whole grid did is in one row."""
        columns = per_block.astype(np.float64)
        return (
            tuple(map(Count.exact, columns[0].tolist()))
            if self._sampler.is_whole
            else self._sampler.scale_columns(columns)
        )


def indicators(groups: Sequence[int], count: int) -> PerBlock:
    """Return [instructions, count] 1 where an instruction belongs to a group, given the group of each."""
    return np.equal.outer(np.asarray(groups, np.int64), np.arange(count)).astype(np.int64)


def column(flags: Sequence[bool]) -> PerBlock:
    """Return [instructions, 1] 1 for chosen instructions, else 0."""
    return np.array(flags, np.int64)[:, np.newaxis]


def is_barrier(ins: Instruction) -> bool:
    """Return whether the warps of a block of threads wait for one another here."""
    return ins.is_barrier and "warp" not in ins.modifiers


def _flops(ins: Instruction) -> int:
    kind = classify(ins)
    return kind.operations if kind.name in _FLOAT_CLASSES else 0


def _in_one_row(counts: BlockCounts) -> BlockCounts:
    """Return the sums over all blocks as those of one."""
    arrays = {f.name: value for f in fields(counts) if isinstance(value := getattr(counts, f.name), np.ndarray)}
    return replace(counts, **{name: value.sum(axis=0, keepdims=True) for name, value in arrays.items()})
