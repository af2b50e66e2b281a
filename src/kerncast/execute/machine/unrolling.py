"""How often unrolled copies of a loop can run at most.

A loop of n iterations, unrolled c times, runs its main loop floor(n / c) times and the rest in a smaller loop or in
straight code. The equations of the lines leave open how the iterations are shared.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from kerncast.execute.machine.control_flow import MachineGraph
from kerncast.execute.machine.evidence import Occurrences
from kerncast.execute.machine.ptx_counts import PtxCounts

_NEARLY = 1e-5
#: Where numbers of iterations vary, the loops that are entered at all run so much longer than the mean.
_VARIATION = 2.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a machine block ran: so often per thread, and so often each time that its loop is entered."""

    block: int
    most: float = 0.0
    per_entry: float = 0.0
    entering: tuple[tuple[int, int], ...] = ()
    """edges by which its loop is entered; empty for a block in no loop"""


@dataclass(frozen=True, slots=True)
class _Region:
    """Machine code that holds copies of a loop's body."""

    copies: int
    is_straight: bool
    """run at most once for each time that the loop is entered"""
    block: int


@dataclass(frozen=True, slots=True)
class _Turns:
    """A loop of the PTX, and how many of its iterations one of the machine code does."""

    loop: int
    copies: int


def unrolling_limits(graph: MachineGraph, executed: PtxCounts, found: Occurrences) -> list[Limit]:
    """Return the limits of all regions that hold several copies of a loop's body."""
    regions: dict[int, list[_Region]] = defaultdict(list)
    connected: list[Limit] = []
    loop_of = _matching_loops(graph, executed)
    for number, ptx_loop in loop_of.items():
        loop = graph.loops.loops[number]
        own = [block for block in loop.body if graph.loops.innermost[block] == number]
        if copies := _most_copies(executed, found, own, ptx_loop):
            regions[ptx_loop].append(_Region(copies, is_straight=False, block=loop.header))
            connected += _connection(graph, executed, number, _Turns(ptx_loop, copies))
    for block in sorted(graph.main):
        around = _loops_around(graph, loop_of, block)
        loops = {executed.loop(line) for line, places in found.anchors.items() if block in places}
        for ptx_loop in sorted(loop for loop in loops if loop is not None and loop not in around):
            copies = _most_copies(executed, found, [block], ptx_loop)
            regions[ptx_loop].append(_Region(copies, is_straight=True, block=block))
    return connected + [limit for loop, parts in sorted(regions.items()) for limit in _limits(executed, loop, parts)]


def _connection(graph: MachineGraph, executed: PtxCounts, number: int, turns: "_Turns") -> list[Limit]:
    """Return that a machine loop only runs where it is entered, which conservation alone does not say."""
    entries, trips = _trips(executed, turns.loop)
    if entries < _NEARLY:
        return []
    loop = graph.loops.loops[number]
    entering = tuple(
        (a, loop.header) for a in sorted(graph.main - loop.body) if loop.header in graph.blocks[a].successors
    )
    most = trips / turns.copies
    most = math.floor(most + _NEARLY) if _is_whole(trips) else _VARIATION * most
    return [Limit(loop.header, per_entry=max(1.0, most), entering=entering)]


def _trips(executed: PtxCounts, loop: int) -> tuple[float, float]:
    """Return how often a loop of the PTX was entered, and its mean number of iterations."""
    entries = executed.entries(loop)
    header = float(executed.block_threads[executed.cfg.loops.loops[loop].header])
    return entries, header / entries if entries > _NEARLY else 0.0


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < _NEARLY


def _limits(executed: PtxCounts, loop: int, regions: list[_Region]) -> list[Limit]:
    """Share the iterations among the regions, those with the most copies first."""
    entries, left = _trips(executed, loop)
    if entries < _NEARLY:
        return []
    is_fixed = _is_whole(left)
    limits = []
    for region in sorted(regions, key=lambda r: (-r.copies, r.is_straight, r.block)):
        if region.copies < 2:
            continue
        # Numbers of iterations that vary leave, on average, half of what the largest rest is.
        turns = left / region.copies if is_fixed else (left - (region.copies - 1) / 2) / region.copies
        turns = max(0.0, math.floor(turns + _NEARLY) if is_fixed else turns)
        turns = min(turns, 1.0) if region.is_straight else turns
        limits.append(Limit(region.block, turns * entries))
        left -= region.copies * turns
    return limits


def _matching_loops(graph: MachineGraph, executed: PtxCounts) -> dict[int, int]:
    """Return the PTX loop of each machine loop: the one that the same branch closes."""
    closed_by = {latch: number for number, loop in enumerate(executed.cfg.loops.loops) for latch in loop.latches}
    found = {}
    for number, loop in enumerate(graph.loops.loops):
        lines = [graph.code[graph.blocks[latch].stop - 1].line for latch in loop.latches]
        blocks = [executed.block(line) for line in lines if line in executed.on_line]
        if blocks:
            inner = executed.cfg.loops.innermost[blocks[0]]
            match = closed_by.get(blocks[0], inner)
            if match is not None:
                found[number] = match
    return found


def _most_copies(executed: PtxCounts, found: Occurrences, blocks: list[int], ptx_loop: int) -> int:
    """Return how often the anchors of a loop stand in blocks; where it has none, its other instructions."""
    for places in (found.anchors, found.others):
        copies: Counter[int] = Counter()
        for line, at in places.items():
            if executed.loop(line) == ptx_loop:
                copies[line] = sum(at[block] for block in blocks)
        if any(copies.values()):
            return max(copies.values())
    return 0


def _loops_around(graph: MachineGraph, loop_of: dict[int, int], block: int) -> set[int]:
    """Return the PTX loops of the machine loops around a block."""
    around = set()
    number = graph.loops.innermost[block]
    while number is not None:
        if number in loop_of:
            around.add(loop_of[number])
        number = graph.loops.loops[number].parent
    return around
