"""Counts of some blocks become the KernelProfile of a whole launch: sums per block that ran, scaled to all."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.execute.sampling.sample import Sampler
from kerncast.execute.setup.dataflow import waiting_blocks
from kerncast.launch import Launch
from kerncast.profiles import (
    SECTOR_BYTES,
    Balance,
    BasicBlockCount,
    ClusterUse,
    Count,
    Counts,
    InstructionMix,
    KernelProfile,
    KindCount,
    LineCount,
    Origin,
    Sampling,
)
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    CONTROL_OPS,
    DRAM_BYTES_ONCE,
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_REQUESTED,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_LOAD_REQUESTS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS,
    INSTRUCTIONS,
    INTEGER_OPS,
    LOCAL_BYTES_REQUESTED,
    OPERATIONS,
    SHARED_REQUESTS,
    SPECIAL_OPS,
    TENSOR_OPS,
    access_name,
    with_totals,
)
from kerncast.ptx import (
    ControlFlowGraph,
    Instruction,
    Location,
    classify,
    dependences,
    kind_name,
    sources_of,
)
from kerncast.ptx.fragments import group_product_of, product_of
from kerncast.ptx.known_constants import Constants, described_product
from kerncast.traces import BlockCounts, Operation, Trace, operation_of
from kerncast.traces import Counts as PerBlock

Columns = npt.NDArray[np.float64]
_FLOAT_CLASSES = frozenset({"fp16", "fp32", "fp64"})


#: Numbers of a table [blocks, columns] that are made at once: 64 MiB of them.
_MOST_AT_ONCE = 2**23


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Weights [instructions, columns] with one entry in each row: a kernel of many lines has a column for each."""

    column_of: npt.NDArray[np.int64]
    """[instructions] column of the entry"""
    values: npt.NDArray[np.int64]
    """[instructions] entry; 0 for an instruction that is left out"""
    columns: int

    def times(self, factors: "Weights") -> "Weights":
        """Return the weights multiplied by one number for each instruction."""
        return replace(self, values=self.values * factors.values)

    def parts(self, rows: int) -> Iterator["Weights"]:
        """Yield the weights of so many columns at a time that a table of them with so many rows stays small."""
        step = max(1, _MOST_AT_ONCE // max(1, rows))
        if step >= self.columns:
            yield self
            return
        for start in range(0, self.columns, step):
            count = min(step, self.columns - start)
            inside = (start <= self.column_of) & (self.column_of < start + count)
            yield Weights(np.where(inside, self.column_of - start, 0), np.where(inside, self.values, 0), count)


def one_column(values: Sequence[int] | PerBlock) -> Weights:
    """Return weights of a single column."""
    return Weights(np.zeros(len(values), np.int64), np.asarray(values, np.int64), 1)


def indicators(groups: Sequence[int], count: int) -> Weights:
    """Return weights 1 where an instruction belongs to a group, given the group of each, or -1."""
    numbers = np.asarray(groups, np.int64)
    return Weights(np.maximum(numbers, 0), (numbers >= 0).astype(np.int64), count)


class Sums:
    """Weighted sums, one row for each block: integers below 2^53, which floats hold exactly in any order."""

    def __init__(self, code: Sequence[Instruction], cfg: ControlFlowGraph, counts: BlockCounts) -> None:
        self.counts = counts
        self._block_of = np.repeat(np.arange(len(cfg.blocks)), cfg.lengths)
        self._guarded = np.array(counts.guarded, np.int64)
        self._switched_off = counts.block_threads[:, self._block_of[self._guarded]] - counts.guarded_threads
        self._accessing = np.array(counts.accessing, np.int64)
        self.every = one_column(np.ones(len(code), np.int64))
        """1 for each instruction"""
        self.flops = one_column([_flops(ins) for ins in code])
        """floating-point operations of one thread, in all precisions"""

    def warps(self, weights: Weights) -> Columns:
        """Return [n, columns]: weights times warps that issued each instruction."""
        return _sums_of_columns(self.counts.block_warps, self._block_of, weights)

    def threads(self, weights: Weights) -> Columns:
        """Return [n, columns]: weights times threads that executed each instruction."""
        executed = _sums_of_columns(self.counts.block_threads, self._block_of, weights)
        return executed - _sums_of_instructions(self._switched_off, self._guarded, weights)

    def accesses(self, counts: PerBlock, weights: Weights) -> Columns:
        """Return [n, columns]: weights times counts [n, accessing] of memory instructions."""
        used = np.flatnonzero(counts.any(axis=0))  # most instructions have few of the counts
        return _sums_of_instructions(counts[:, used], self._accessing[used], weights)


def _sums_of_instructions(counts: PerBlock, numbers: PerBlock, weights: Weights) -> Columns:
    """Return [n, columns] the weighted sums of counts [n, chosen] of the instructions with these numbers."""
    chosen = replace(weights, column_of=weights.column_of[numbers], values=weights.values[numbers])
    return _sums_of_columns(counts, np.arange(len(numbers)), chosen)


def _sums_of_columns(counts: PerBlock, place_of: PerBlock, weights: Weights) -> Columns:
    """Return [n, columns] the weighted sums of counts [n, places], given the place of each instruction."""
    found = np.zeros((len(counts), weights.columns))
    used = np.flatnonzero(weights.values)
    if not len(used):
        return found
    # Instructions of one basic block and one column are added up before they meet the counts of many rows.
    both = weights.column_of[used] * counts.shape[1] + place_of[used]
    pairs, pair_of = np.unique(both, return_inverse=True)
    factors = np.bincount(pair_of, weights.values[used], len(pairs))
    column_of, places = np.divmod(pairs, counts.shape[1])
    columns, starts = np.unique(column_of, return_index=True)
    found[:, columns] = np.add.reduceat(counts[:, places] * factors, starts, axis=1)
    return found


class Totals:
    """Weighted sums of a trace, scaled to the whole launch."""

    def __init__(self, trace: Trace, sampler: Sampler) -> None:
        self.code = trace.function.instructions
        self.cfg = trace.cfg
        self.constants = Constants(trace.function)
        """registers with one value"""
        self.counts = _in_one_row(trace.counts) if sampler.is_whole else trace.counts
        self._sums = Sums(self.code, trace.cfg, self.counts)
        self._sampler = sampler

    @property
    def every(self) -> Weights:
        """1 for each instruction."""
        return self._sums.every

    @property
    def flops(self) -> Weights:
        """Floating-point operations of one thread, in all precisions, for each instruction."""
        return self._sums.flops

    def warps(self, weights: Weights) -> tuple[Count, ...]:
        """Return per column of weights the sum over warps that issued each instruction."""
        return self._scaled(self._sums.warps, weights)

    def threads(self, weights: Weights) -> tuple[Count, ...]:
        """Return per column of weights the sum over threads that executed each instruction."""
        return self._scaled(self._sums.threads, weights)

    def accesses(self, counts: PerBlock, weights: Weights) -> tuple[Count, ...]:
        """Return per column of weights the sum of a count of memory instructions."""
        return self._scaled(partial(self._sums.accesses, counts), weights)

    def _scaled(self, sums: Callable[[Weights], Columns], weights: Weights) -> tuple[Count, ...]:
        parts = weights.parts(len(self.counts.block_warps))
        return tuple(count for part in parts for count in self.scale(sums(part)))

    def scale(self, per_block: npt.NDArray[np.generic]) -> tuple[Count, ...]:
        """Scale columns [n, columns]; what the whole grid did is in one row."""
        columns = per_block.astype(np.float64)
        return (
            tuple(map(Count.exact, columns[0].tolist()))
            if self._sampler.is_whole
            else self._sampler.scale_columns(columns)
        )


def is_barrier(ins: Instruction) -> bool:
    """Return whether the warps of a block of threads wait for one another here."""
    return ins.is_barrier and "warp" not in ins.modifiers


def _flops(ins: Instruction) -> int:
    kind = classify(ins)
    return kind.operations if kind.name in _FLOAT_CLASSES else 0


def _in_one_row(counts: BlockCounts) -> BlockCounts:
    """Return the sums over all blocks as those of one."""
    return _changed(counts, lambda values: values.sum(axis=0, keepdims=True))


def _changed(counts: BlockCounts, change: Callable[[PerBlock], PerBlock]) -> BlockCounts:
    """Return counts with each array of them changed."""
    arrays = {f.name: value for f in fields(counts) if isinstance(value := getattr(counts, f.name), np.ndarray)}
    changed: dict[str, Any] = {name: change(value) for name, value in arrays.items()}
    return replace(counts, **changed)


_OPERATION_NAMES = {Operation.STORE: "st", Operation.ATOMIC: "atom", Operation.REDUCTION: "red"}


def memory_counts(totals: Totals, trace: Trace, blocks: int) -> Counts:
    """Return what a launch of so many blocks accesses, by state space and operation, and what that sums up to."""
    found = _accesses(totals) | _sums(totals, trace, blocks)
    return with_totals(Counts.of(Origin.EXECUTED, found))


def _accesses(totals: Totals) -> dict[str, Count]:
    """Return what was accessed, by state space and operation."""
    counts = totals.counts
    operations = _operations(totals.code, counts.accessing)
    # Counters of copies are those of newer architectures: a kernel without a copy has none of them, not even zero.
    shown = [name for name in OPERATIONS if name != "ldgsts" or any(ins.is_copy for ins in totals.code)]
    of_bytes = operations.times(_nbytes(totals.code, counts.accessing))
    found: dict[str, Count] = {}
    for space, columns in _by_space(counts).items():
        sums = {quantity: totals.accesses(column, operations) for quantity, column in columns.items()}
        sums["bytes"] = totals.accesses(columns["threads"], of_bytes)
        for quantity, row in sums.items():
            by_operation = dict(zip(OPERATIONS, row, strict=True))
            found |= {access_name(space, operation, quantity): by_operation[operation] for operation in shown}
    return found


def _sums(totals: Totals, trace: Trace, blocks: int) -> dict[str, Count]:
    """Return sums over operations; where they are scaled, their intervals are narrower than those of the parts."""
    code, counts = totals.code, totals.counts
    every, nbytes = totals.every, _nbytes(code, counts.accessing)
    atomics = one_column([ins.is_update for ins in code])
    writes = one_column([ins.is_update + ins.is_store for ins in code])
    once = touched(trace, "read", blocks) + touched(trace, "written", blocks)
    (sectors,) = totals.accesses(counts.sectors, every)
    return {
        GLOBAL_WRITE_REQUESTS: totals.accesses(counts.requests, writes)[0],
        GLOBAL_WRITE_SECTORS: totals.accesses(counts.sectors, writes)[0],
        GLOBAL_BYTES_REQUESTED: totals.accesses(counts.accesses, nbytes)[0],
        GLOBAL_BYTES_TOUCHED: touched(trace, "either", blocks),
        DRAM_BYTES_ONCE: Count(once.value, once.low, max(once.high, SECTOR_BYTES * sectors.high)),
        SHARED_REQUESTS: totals.accesses(counts.shared_requests, every)[0],
        ATOMIC_THREADS: totals.accesses(counts.accesses + counts.shared_accesses, atomics)[0],
        LOCAL_BYTES_REQUESTED: totals.accesses(counts.local_accesses, nbytes)[0],
    }


def _by_space(counts: BlockCounts) -> dict[str, dict[str, PerBlock]]:
    """Return per state space what was counted of its accesses, but for the bytes.

    Contention of a generic atomic counts where most of its requests went.
    """
    in_shared = counts.shared_requests > counts.requests
    return {
        "global": {
            "requests": counts.requests,
            "threads": counts.accesses,
            "sectors": counts.sectors,
            "lines": counts.lines,
            "contention": counts.contention * ~in_shared,
        },
        "shared": {
            "requests": counts.shared_requests,
            "threads": counts.shared_accesses,
            "wavefronts": counts.shared_wavefronts,
            "conflicts": counts.shared_conflicts,
            "contention": counts.contention * in_shared,
        },
        "local": {
            "requests": counts.local_requests,
            "threads": counts.local_accesses,
            "sectors": counts.local_sectors,
            "lines": counts.local_lines,
        },
    }


def _operations(code: Sequence[Instruction], accessing: Sequence[int]) -> Weights:
    """Return 1 in the column of the operation of each memory instruction."""
    read = frozenset(register.name for ins in code for register in sources_of(ins))
    groups = [-1] * len(code)
    for number in accessing:
        is_load = code[number].is_copy and not code[number].writes_global
        name = "ldgsts" if is_load else _OPERATION_NAMES.get(operation_of(code[number], read), "ld")
        groups[number] = OPERATIONS.index(name)
    return indicators(groups, len(OPERATIONS))


def _nbytes(code: Sequence[Instruction], accessing: Sequence[int]) -> Weights:
    """Return the bytes that one thread moves with each memory instruction, else 0."""
    nbytes = np.zeros(len(code), np.int64)
    for number in accessing:
        nbytes[number] = code[number].access_bytes
    return one_column(nbytes)


def touched(trace: Trace, access: str, blocks: int) -> Count:
    """Extrapolate the distinct sectors of each buffer by the growth seen so far, up to the whole buffer.

    ``access`` names a field or property of Footprint: read, written, either, only_read or only_written.
    """
    last = trace.footprints[-1]
    earlier = min(trace.footprints, key=lambda f: abs(f.blocks - last.blocks / 2))
    value = low = high = 0.0
    for number, allocation in enumerate(trace.allocations):
        seen, before = int(getattr(last, access)[number]), int(getattr(earlier, access)[number])
        whole = -(-allocation.nbytes // SECTOR_BYTES)
        if not seen:
            continue
        growth = blocks / last.blocks
        exponent = 1.0
        if earlier.blocks < last.blocks and before:
            exponent = min(1.0, math.log(seen / before) / math.log(last.blocks / earlier.blocks))
        value += min(whole, seen * growth**exponent)
        low += seen
        high += min(whole, seen * growth)
    return Count(value, low, high).times(SECTOR_BYTES)


def basic_blocks(totals: Totals) -> tuple[BasicBlockCount, ...]:
    """Return the basic blocks that ran, with how far their instructions can overlap."""
    loops = totals.cfg.loops
    warps, threads = totals.scale(totals.counts.block_warps), totals.scale(totals.counts.block_threads)
    found = []
    for number, block in enumerate(totals.cfg.blocks):
        body = totals.code[block.start : block.stop]
        chains, innermost = dependences(body), loops.innermost[number]
        found.append(
            BasicBlockCount(
                number=number,
                where=next((str(ins.location) for ins in body if ins.location), ""),
                instructions=len(body),
                warps=warps[number],
                threads=threads[number],
                critical_path=chains.critical_path,
                dependency_distance=chains.mean_distance,
                loop_depth=0 if innermost is None else loops.loops[innermost].depth,
            )
        )
    return tuple(block for block in found if block.warps.value)


def source_lines(totals: Totals) -> tuple[LineCount, ...]:
    """Return what each line of the source did; line 0 of no file is what the PTX names no line for.

    An instruction counts where it was written, not where the compiler moved it.
    """
    places = [ins.location or Location("", 0) for ins in totals.code]
    lines = sorted(set(places), key=lambda place: (place.file, place.line))
    number = {place: position for position, place in enumerate(lines)}
    of_line = indicators([number[place] for place in places], len(lines))
    counts = totals.counts
    memory = (
        counts.requests, counts.sectors, counts.shared_requests, counts.shared_wavefronts, counts.local_sectors,
    )  # fmt: skip
    columns = zip(
        lines,
        totals.warps(of_line),
        totals.threads(of_line),
        totals.threads(of_line.times(totals.flops)),
        *(totals.accesses(each, of_line) for each in memory),
        totals.warps(of_line.times(one_column([is_barrier(ins) for ins in totals.code]))),
        strict=True,
    )
    found = (LineCount(place.file, place.line, *line) for place, *line in columns)
    return tuple(line for line in found if line.warp_instructions.value)


def balance(trace: Trace, warps: int) -> Balance | None:
    """Return how evenly the executed blocks share the work, and the ``warps`` of each; None if they did nothing."""
    work = trace.issued
    total = int(work.sum())
    if not total:
        return None
    mean = total / len(work)
    return Balance(
        longest_over_mean_warp=warps * int(trace.counts.longest_warp.sum()) / total,
        longest_over_mean_block=int(work.max()) / mean,
        block_variation=float(work.std()) / mean,
    )


#: Relative difference of the busiest block from the mean below which blocks count as alike.
_ALIKE = 0.01
#: What is told of the busiest block, beside its arithmetic and its instructions.
_OF_BUSIEST = (
    GLOBAL_LOAD_REQUESTS, GLOBAL_LOAD_SECTORS, access_name("global", "ldgsts", "sectors"), GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS, SHARED_REQUESTS,
)  # fmt: skip


def busiest_block(trace: Trace) -> Counts:
    """Return what the block with the most instructions does; nothing where blocks are alike, or may share work.

    The first block that runs here takes all work of a common queue, which blocks of a GPU share.
    """
    work = trace.issued
    row = int(work.argmax())
    if work[row] <= (1 + _ALIKE) * work.mean() or trace.sees_other_blocks:
        return Counts()
    alone = Sampler((1, 1, 1))
    alone.pilot()
    totals = Totals(replace(trace, counts=_changed(trace.counts, lambda values: values[row : row + 1])), alone)
    accesses = memory_counts(totals, trace, 1).only(_OF_BUSIEST)
    issued = Counts.of(Origin.EXECUTED, {INSTRUCTIONS: totals.warps(totals.every)[0]})
    return _work(totals).updated(accesses).updated(issued)


#: The counts of operations, by the class of work that they add up.
_CLASSES = {
    "fp32": FP32_FLOPS, "fp64": FP64_FLOPS, "fp16": FP16_FLOPS, "special": SPECIAL_OPS, "integer": INTEGER_OPS,
    "control": CONTROL_OPS,
}  # fmt: skip
#: Of what at least 3 in n blocks do, n blocks show something in 95 of 100 cases. Source: Hanley and Lippman-Hand, "If
#: nothing goes wrong, is everything all right?", JAMA 249, 1983.
_RULE_OF_THREE = 3


def profile_of(trace: Trace, sampler: Sampler, kernel: CompiledKernel, launch: Launch) -> KernelProfile:
    """Scale a trace to the whole launch."""
    if not kernel.resources.has_frame:
        trace = replace(trace, counts=_without_local(trace.counts))
    totals = Totals(trace, sampler)
    return KernelProfile(
        kernel=kernel.kernel,
        index=launch.index,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        resources=kernel.resources,
        origin=Origin.EXECUTED,
        counts=_work(totals).updated(memory_counts(totals, trace, launch.blocks)),
        mix=_mix(totals),
        sampling=Sampling(len(trace.block_ids), launch.blocks),
        caveats=(*_caveats(trace, launch), *trace.remarks),
        blocks=basic_blocks(totals),
        lines=source_lines(totals),
        balance=balance(trace, launch.warps_per_block),
        busiest=busiest_block(trace),
        grid_barriers=grid_barriers(trace) if launch.cooperative else None,
        clusters=cluster_use(trace, sampler, launch),
    )


def cluster_use(trace: Trace, sampler: Sampler, launch: Launch) -> ClusterUse | None:
    """Return what the blocks of each cluster do together, by the mean block."""
    if sampler.together == 1:
        return None
    code, blocks = trace.function.instructions, trace.cfg.blocks
    ending = [n for n, block in enumerate(blocks) if any(i.is_cluster_barrier for i in code[block.start : block.stop])]
    passed = trace.counts.block_warps[:, ending].sum(axis=1) / launch.warps_per_block
    return ClusterUse(sampler.cluster, sampler.scale(passed).value / sampler.blocks)


def grid_barriers(trace: Trace) -> int:
    """Return how often a block waits for all others: how often it enters loops that wait for what others write."""
    cfg, found = trace.cfg, np.zeros(len(trace.block_ids), np.int64)
    for header in waiting_blocks(trace.function, cfg):
        before = [n for n, block in enumerate(cfg.blocks) if header in cfg.successors[n] and n != header]
        entering = [n for n in before if set(cfg.successors[n]) == {header}]
        found += trace.counts.block_warps[:, entering if len(entering) == len(before) else [header]].sum(axis=1)
    return int(found.max(initial=0))


def _without_local(counts: BlockCounts) -> BlockCounts:
    """Return counts of a kernel whose local arrays the compiler holds in registers: its machine code has no frame."""
    names = ("local_requests", "local_accesses", "local_sectors", "local_lines")
    return replace(counts, **{name: np.zeros_like(getattr(counts, name)) for name in names})


def _caveats(trace: Trace, launch: Launch) -> list[Caveat]:
    """Say what a sample may get wrong."""
    executed = len(trace.block_ids)
    if executed == launch.blocks:
        return []
    share = max(1, executed // _RULE_OF_THREE)
    caveats = [Caveat.of(CaveatKind.SCALED_FROM_SAMPLE, executed=executed, blocks=launch.blocks)]
    if share > 1:
        caveats.append(Caveat.of(CaveatKind.RARE_BLOCKS_MISSED, rare=share))
    if trace.in_turn:
        caveats.append(Caveat(CaveatKind.TAKEN_IN_TURN))
    last = trace.footprints[-1]
    in_place = zip(trace.allocations, last.read, last.written, strict=True)
    names = ", ".join(allocation.name for allocation, read, written in in_place if read and written)
    if names:
        caveats.append(Caveat.of(CaveatKind.STALE_READS, names))
    return caveats


def _work(totals: Totals) -> Counts:
    """Return the arithmetic of the launch."""
    kinds = [classify(ins) for ins in totals.code]
    number = {name: position for position, name in enumerate(_CLASSES)}
    classes = indicators([number.get(kind.name, -1) for kind in kinds], len(number))
    weights = classes.times(one_column([kind.operations for kind in kinds]))
    found = dict(zip(_CLASSES.values(), totals.threads(weights), strict=True))
    return Counts.of(Origin.EXECUTED, found | _products(totals))


def _products(totals: Totals) -> dict[str, Count]:
    """Return the operations of tensor cores that the launch has, by their types."""
    names = list(dict.fromkeys(TENSOR_OPS.values()))
    places, by_warps, by_threads = [-1] * len(totals.code), [0] * len(totals.code), [0] * len(totals.code)
    for number, ins in enumerate(totals.code):
        product = product_of(ins.modifiers, ins.types) or group_product_of(ins.modifiers, ins.types)
        described = described_product(ins, totals.constants)
        if ins.opcode.name.startswith("tcgen05.mma") and described is None:
            return {}  # a count of some of the products would pass for one of all
        if described is not None:  # a thread asks for all of it
            places[number] = names.index(TENSOR_OPS[described.a, described.total])
            by_threads[number] = described.operations
        elif ins.opcode.pipe == "tensor" and product is not None:
            if (product.kind, product.total) not in TENSOR_OPS:
                return {}
            places[number] = names.index(TENSOR_OPS[product.kind, product.total])
            by_warps[number] = product.operations
    of_types = indicators(places, len(names))
    found: dict[str, Count] = {}
    for count, operations in ((totals.warps, by_warps), (totals.threads, by_threads)):
        if any(operations):
            counted = zip(names, count(of_types.times(one_column(operations))), strict=True)
            found |= {name: found.get(name, Count.exact(0)) + each for name, each in counted if each.value}
    return found


def _mix(totals: Totals) -> InstructionMix:
    """Return the instruction mix of the launch."""
    names = [kind_name(ins) for ins in totals.code]
    kinds = list(dict.fromkeys(names))
    number = {kind: position for position, kind in enumerate(kinds)}
    members = indicators([number[name] for name in names], len(kinds))
    counted = zip(kinds, totals.warps(members), totals.threads(members), strict=True)
    found = [KindCount(*kind) for kind in counted if kind[1].value]
    return InstructionMix(
        Origin.EXECUTED,
        totals.warps(totals.every)[0],
        totals.threads(totals.every)[0],
        tuple(sorted(found, key=lambda kind: (-kind.thread_instructions.value, kind.kind))),
        totals.warps(one_column([is_barrier(ins) for ins in totals.code]))[0],
        totals.scale(totals.counts.divergent_branches[:, np.newaxis])[0],
    )
