"""Counts of some blocks become the KernelProfile of a whole launch: sums per block that ran, scaled to all."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.execute.sampling.sample import Sampler
from kerncast.launch import Launch
from kerncast.profiles import (
    SECTOR_BYTES,
    Balance,
    BasicBlockCount,
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
    GLOBAL_WRITE_REQUESTS,
    GLOBAL_WRITE_SECTORS,
    INTEGER_OPS,
    LOCAL_BYTES_REQUESTED,
    OPERATIONS,
    SHARED_REQUESTS,
    SPECIAL_OPS,
    access_name,
    with_totals,
)
from kerncast.ptx import (
    TYPE_BITS,
    ControlFlowGraph,
    Instruction,
    Location,
    Vector,
    classify,
    dependences,
    kind_name,
    sources_of,
)
from kerncast.traces import BlockCounts, Operation, Trace, operation_of
from kerncast.traces import Counts as PerBlock


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


_OPERATION_NAMES = {Operation.STORE: "st", Operation.ATOMIC: "atom", Operation.REDUCTION: "red"}


def memory_counts(totals: Totals, trace: Trace, blocks: int) -> Counts:
    """Return what a launch of so many blocks accesses, by state space and operation, and what that sums up to."""
    found = _accesses(totals) | _sums(totals, trace, blocks)
    return with_totals(Counts.of(Origin.EXECUTED, found))


def _accesses(totals: Totals) -> dict[str, Count]:
    """Return what was accessed, by state space and operation."""
    counts = totals.counts
    operations = _operations(totals.code, counts.accessing)
    of_bytes = operations * _nbytes(totals.code, counts.accessing)
    found: dict[str, Count] = {}
    for space, columns in _by_space(counts).items():
        sums = {quantity: totals.accesses(column, operations) for quantity, column in columns.items()}
        sums["bytes"] = totals.accesses(columns["threads"], of_bytes)
        for quantity, row in sums.items():
            names = (access_name(space, operation, quantity) for operation in OPERATIONS)
            found |= dict(zip(names, row, strict=True))
    return found


def _sums(totals: Totals, trace: Trace, blocks: int) -> dict[str, Count]:
    """Return sums over operations; where they are scaled, their intervals are narrower than those of the parts."""
    code, counts = totals.code, totals.counts
    every, nbytes = np.ones((len(code), 1), np.int64), _nbytes(code, counts.accessing)
    atomics = column([ins.is_update for ins in code])
    writes = atomics + column([ins.is_store for ins in code])
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


def _operations(code: Sequence[Instruction], accessing: Sequence[int]) -> PerBlock:
    """Return [instructions, operations] 1 for the operation of each memory instruction."""
    read = frozenset(register.name for ins in code for register in sources_of(ins))
    groups = [-1] * len(code)
    for number in accessing:
        groups[number] = OPERATIONS.index(_OPERATION_NAMES.get(operation_of(code[number], read), "ld"))
    return indicators(groups, len(OPERATIONS))


def _nbytes(code: Sequence[Instruction], accessing: Sequence[int]) -> PerBlock:
    """Return [instructions, 1] the bytes that one thread moves with each memory instruction, else 0."""
    nbytes = np.zeros((len(code), 1), np.int64)
    for number in accessing:
        nbytes[number] = access_bytes(code[number])
    return nbytes


def touched(trace: Trace, access: str, blocks: int) -> Count:
    """Extrapolate the distinct sectors of each buffer by the growth seen so far, up to the whole buffer.

    ``access`` is read, written or either.
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
        totals.threads(of_line * totals.flops),
        *(totals.accesses(each, of_line) for each in memory),
        totals.warps(of_line * column([is_barrier(ins) for ins in totals.code])),
        strict=True,
    )
    found = (LineCount(place.file, place.line, *line) for place, *line in columns)
    return tuple(line for line in found if line.warp_instructions.value)


def balance(trace: Trace, warps: int) -> Balance | None:
    """Return how evenly the executed blocks share the work, and the ``warps`` of each; None if they did nothing."""
    work = trace.counts.block_warps @ np.array(trace.cfg.lengths, np.int64)
    total = int(work.sum())
    if not total:
        return None
    mean = total / len(work)
    return Balance(
        longest_over_mean_warp=warps * int(trace.counts.longest_warp.sum()) / total,
        longest_over_mean_block=int(work.max()) / mean,
        block_variation=float(work.std()) / mean,
    )


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
    )


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
    last = trace.footprints[-1]
    in_place = zip(trace.allocations, last.read, last.written, strict=True)
    names = ", ".join(allocation.name for allocation, read, written in in_place if read and written)
    if names:
        caveats.append(Caveat.of(CaveatKind.STALE_READS, names))
    return caveats


def _work(totals: Totals) -> Counts:
    """Return the arithmetic of the launch."""
    kinds = [classify(ins) for ins in totals.code]
    weights = np.array([[k.operations if k.name == name else 0 for name in _CLASSES] for k in kinds], np.int64)
    return Counts.of(Origin.EXECUTED, dict(zip(_CLASSES.values(), totals.threads(weights), strict=True)))


def _mix(totals: Totals) -> InstructionMix:
    """Return the instruction mix of the launch."""
    names = [kind_name(ins) for ins in totals.code]
    kinds = list(dict.fromkeys(names))
    members = indicators([kinds.index(name) for name in names], len(kinds))
    counted = zip(kinds, totals.warps(members), totals.threads(members), strict=True)
    found = [KindCount(*kind) for kind in counted if kind[1].value]
    everything = np.ones((len(names), 1), np.int64)
    return InstructionMix(
        Origin.EXECUTED,
        totals.warps(everything)[0],
        totals.threads(everything)[0],
        tuple(sorted(found, key=lambda kind: (-kind.thread_instructions.value, kind.kind))),
        totals.warps(column([is_barrier(ins) for ins in totals.code]))[0],
        totals.scale(totals.counts.divergent_branches[:, np.newaxis])[0],
    )
