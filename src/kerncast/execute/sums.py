"""Sums over the instructions of a kernel, per block of threads that ran or scaled to the whole launch."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from kerncast.execute.sample import Sampler
from kerncast.execute.work import classify
from kerncast.kernel_profile import Count
from kerncast.ptx.cfg import ControlFlowGraph
from kerncast.ptx.module import Instruction
from kerncast.trace import BlockCounts, Counts, Trace

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

    def warps(self, weights: Counts) -> Columns:
        """Return [n, columns]: weights [instructions, columns] times warps that issued each instruction."""
        return np.asarray(self._warps @ np.add.reduceat(weights, self._starts, axis=0))

    def threads(self, weights: Counts) -> Columns:
        """Return [n, columns]: weights [instructions, columns] times threads that executed each instruction."""
        executed = self._threads @ np.add.reduceat(weights, self._starts, axis=0)
        return np.asarray(executed - self._switched_off @ weights[self._guarded])

    def accesses(self, counts: Counts, weights: Counts) -> Columns:
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
    def flops(self) -> Counts:
        """[instructions, 1] floating-point operations of one thread, in all precisions."""
        return self._sums.flops

    def warps(self, weights: Counts) -> tuple[Count, ...]:
        """Return per column of weights [instructions, columns] the sum over warps that issued each instruction."""
        return self.scale(self._sums.warps(weights))

    def threads(self, weights: Counts) -> tuple[Count, ...]:
        """Return per column of weights [instructions, columns] the sum over threads that executed each instruction."""
        return self.scale(self._sums.threads(weights))

    def accesses(self, counts: Counts, weights: Counts) -> tuple[Count, ...]:
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


def indicators(groups: Sequence[int], count: int) -> Counts:
    """Return [instructions, count] 1 where an instruction belongs to a group, given the group of each."""
    return np.equal.outer(np.asarray(groups, np.int64), np.arange(count)).astype(np.int64)


def column(flags: Sequence[bool]) -> Counts:
    """Return [instructions, 1] 1 for chosen instructions, else 0."""
    return np.array(flags, np.int64)[:, np.newaxis]


def is_barrier(ins: Instruction) -> bool:
    """Return whether the warps of a block of threads wait for one another here."""
    return ins.root in {"bar", "barrier"} and "warp" not in ins.modifiers


def _flops(ins: Instruction) -> int:
    kind = classify(ins)
    return kind.operations if kind.name in _FLOAT_CLASSES else 0


def _in_one_row(counts: BlockCounts) -> BlockCounts:
    """Return the sums over all blocks as those of one."""
    arrays = {f.name: value for f in fields(counts) if isinstance(value := getattr(counts, f.name), np.ndarray)}
    return replace(counts, **{name: value.sum(axis=0, keepdims=True) for name, value in arrays.items()})
