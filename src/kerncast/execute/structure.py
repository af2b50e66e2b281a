"""Where in a kernel its work is done, and how evenly: basic blocks, lines of the source, warps and blocks."""

import numpy as np

from kerncast.execute.sums import Totals, column, indicators, is_barrier
from kerncast.kernel_profile import Balance, BasicBlockCount, LineCount
from kerncast.ptx.dependence import dependences
from kerncast.ptx.module import Location
from kerncast.trace import Trace


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
