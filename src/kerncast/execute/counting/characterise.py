"""A trace of some blocks to the KernelProfile of the whole launch."""

from dataclasses import replace

import numpy as np

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.execute.counting.sums import Totals, column, indicators, is_barrier, memory_counts
from kerncast.execute.sampling.run import run_launch
from kerncast.execute.sampling.sample import Budget, Sampler
from kerncast.launch import Launch
from kerncast.profiles import (
    Balance,
    BasicBlockCount,
    Counts,
    InstructionMix,
    KernelProfile,
    KindCount,
    LineCount,
    Origin,
    Sampling,
)
from kerncast.profiles.counts import CONTROL_OPS, FP16_FLOPS, FP32_FLOPS, FP64_FLOPS, INTEGER_OPS, SPECIAL_OPS
from kerncast.ptx import Location, classify, dependences, kind_name
from kerncast.traces import BlockCounts, Trace


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


def characterise(kernel: CompiledKernel, launch: Launch, budget: Budget | None = None) -> KernelProfile:
    """Execute a launch and return its profile; raises what ``execute`` raises."""
    executed = run_launch(kernel, launch, budget)
    return profile_of(executed.trace, executed.sampler, kernel, launch)


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
