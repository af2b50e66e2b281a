"""The profile of a launch whose kernel is not executed: how often its blocks of code run follows from known values.

Some blocks of threads stand for all, as they do where a kernel is executed.
"""

from dataclasses import fields, replace

import numpy as np

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.errors import NotExecutedError
from kerncast.execute.counting import profile_of
from kerncast.execute.reference.tally import Tally
from kerncast.execute.reference.threads import WARP_LANES
from kerncast.execute.sampling.sample import Budget, Sampler
from kerncast.execute.setup.prepare import laid_out
from kerncast.execute.setup.state import ACCESS_COUNTS, Setting
from kerncast.execute.static.moved import Bytes, Moves
from kerncast.execute.static.walk import MOST_STEPS, NotCountedError, Walk
from kerncast.launch import NO_CLUSTER, Launch
from kerncast.profiles import Count, Counts, InstructionMix, KernelProfile, KindCount, Origin
from kerncast.profiles.counts import DRAM_BYTES_ONCE, GLOBAL_BYTES_TOUCHED
from kerncast.traces import BlockCounts, Footprint, Trace
from kerncast.traces import Counts as PerBlock

__all__ = ["NotCountedError", "count_by_text"]

#: Threads that go together, as in the reference engine.
_TOGETHER = 16_384


def count_by_text(kernel: CompiledKernel, launch: Launch, refusal: NotExecutedError, budget: Budget) -> KernelProfile:
    """Return the counts of a launch by its text and its arguments; ``refusal`` says why it is not executed.

    Raises NotCountedError where they do not tell how often a loop runs, and what ``laid_out`` raises.
    """
    setting = laid_out(kernel, launch, budget)
    sampler = Sampler(setting.launch.grid, setting.launch.cluster or NO_CLUSTER)
    blocks = sampler.pilot()
    tally = Tally(setting.program, setting.touched, budget.memory_bytes)
    moves = Moves(setting, tally)
    walked = _walk(setting, blocks, tally, moves)
    most = _counts(tally)
    trace = Trace(
        function=setting.program.function, cfg=setting.program.cfg, block_ids=np.array(blocks, np.int64), counts=most,
        footprints=walked.footprints, allocations=setting.arena.allocations, memory={}, remarks=tuple(tally.remarks),
    )  # fmt: skip
    found = profile_of(trace, sampler, kernel, setting.launch)
    least = profile_of(replace(trace, counts=_at_least(most, walked, trace)), sampler, kernel, setting.launch)
    counts = _between(least.counts, found.counts).updated(_with_loose(found, moves, (setting, sampler)))
    said = [Caveat.of(CaveatKind.COUNTED_BY_TEXT, refusal.where or kernel.kernel, instruction=refusal.what)]
    if moves.unknown:
        said.append(Caveat.of(CaveatKind.COPIES_NOT_COUNTED, ", ".join(moves.unknown)))
    return replace(
        found, origin=Origin.COUNTED, counts=counts, mix=_mix(least.mix, found.mix), caveats=(*said, *found.caveats)
    )


class _Walked:
    """What the walks of all batches have told, in the order of the blocks."""

    def __init__(self) -> None:
        self.footprints: tuple[Footprint, ...] = ()
        self.sure_threads: list[PerBlock] = []
        self.sure_warps: list[PerBlock] = []


def _walk(setting: Setting, blocks: list[int], tally: Tally, moves: Moves) -> _Walked:
    """Let the threads of these blocks go, in batches, and note what they touched after each."""
    found, left = _Walked(), MOST_STEPS
    together = setting.launch.cluster_blocks
    fitting = max(1, _TOGETHER // (setting.launch.warps_per_block * WARP_LANES) // together)
    # At least two portions, so that it is seen how what is touched grows.
    batch = together * min(fitting, max(1, len(blocks) // together // 2))
    for start in range(0, len(blocks), batch):
        chosen = blocks[start : start + batch]
        tally.extend(len(chosen))
        moves.start(len(chosen))
        walk = Walk(setting, np.array(chosen, np.int64), tally, moves)
        left = walk.run(left)
        found.sure_threads.append(walk.sure_threads)
        found.sure_warps.append(walk.sure_warps)
        found.footprints = (*found.footprints, setting.touched.footprint(start + len(chosen)))
    return found


def _counts(tally: Tally) -> BlockCounts:
    names = ("guarded", "accessing", "divergent_branches", "longest_warp")
    values = {**tally.counts, **{name: getattr(tally, name) for name in names}}
    return BlockCounts(**{field.name: values[field.name] for field in fields(BlockCounts)})


def _at_least(most: BlockCounts, walked: _Walked, trace: Trace) -> BlockCounts:
    """Return what is certain of some counts: accesses by the share of their basic block's executions that is."""
    threads, warps = np.concatenate(walked.sure_threads), np.concatenate(walked.sure_warps)
    share = threads / np.maximum(most.block_threads, 1)
    block_of = np.repeat(np.arange(len(trace.cfg.blocks)), trace.cfg.lengths)
    arrays = {}
    for name, places in (("guarded_threads", most.guarded), *((each, most.accessing) for each in ACCESS_COUNTS)):
        columns = block_of[np.array(places, np.int64)]
        arrays[name] = np.floor(getattr(most, name) * share[:, columns]).astype(np.int64)
    return replace(most, block_threads=threads, block_warps=warps, **arrays)


def _between(least: Counts, most: Counts) -> Counts:
    """Return counts whose bounds are those of what is certain and of what is possible."""
    names = {name: _middle(least.first([name]) or Count.exact(0), count) for name, count in most.items()}
    return Counts.of(Origin.COUNTED, names)


def _middle(least: Count, most: Count) -> Count:
    return Count((least.value + most.value) / 2, min(least.low, most.low), most.high)


def _mix(least: InstructionMix | None, most: InstructionMix | None) -> InstructionMix | None:
    if least is None or most is None:
        return most
    known = {each.kind: each for each in least.kinds}
    none = Count.exact(0)
    kinds = []
    for each in most.kinds:
        low = known.get(each.kind, KindCount(each.kind, none, none))
        warps = _middle(low.warp_instructions, each.warp_instructions)
        kinds.append(KindCount(each.kind, warps, _middle(low.thread_instructions, each.thread_instructions)))
    return replace(
        most,
        origin=Origin.COUNTED,
        warp_instructions=_middle(least.warp_instructions, most.warp_instructions),
        thread_instructions=_middle(least.thread_instructions, most.thread_instructions),
        kinds=tuple(kinds),
        barriers=_middle(least.barriers, most.barriers),
    )


def _with_loose(found: KernelProfile, moves: Moves, launched: tuple[Setting, Sampler]) -> Counts:
    """Return the bytes that are touched, with those of accesses whose addresses nobody knows: each buffer once."""
    read, written = (_loose(each, moves, *launched) for each in (moves.read, moves.written))
    once, touched = found.counts[DRAM_BYTES_ONCE], found.counts[GLOBAL_BYTES_TOUCHED]
    more = read + written
    return Counts.of(
        Origin.COUNTED,
        {
            DRAM_BYTES_ONCE: Count(once.value + more.value, once.low, once.high + more.high),
            GLOBAL_BYTES_TOUCHED: Count(touched.value + more.value, touched.low, touched.high + more.high),
        },
    )


def _loose(nbytes: Bytes, moves: Moves, setting: Setting, sampler: Sampler) -> Count:
    sizes = {allocation.address: allocation.nbytes for allocation in setting.arena.allocations}
    total, high = 0.0, 0.0
    for place, rows in nbytes.items():
        moved = sampler.scale(moves.per_block(rows).astype(np.float64)).value
        total += min(moved, sizes.get(place, sum(sizes.values())))
        high += moved
    return Count(total, 0.0, high)
