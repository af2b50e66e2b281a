"""A recorded execution as it would be without one of its limits: what Nsight Compute's rules ask for, made true.

Each limit is lifted in the recording, and the simulation runs on what is left: what another limit hides is not won.
Where an instruction is named, its limit alone is lifted, so that the gain belongs to its source line.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from kerncast.gpu import WARP_SIZE
from kerncast.profiles import SECTOR_BYTES
from kerncast.traces import (
    CONTENT_SHIFT,
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BITS,
    LINE_BYTES,
    MASK_SHIFT,
    OPERATION_MASK,
    OPERATION_SHIFT,
    PASSES_MASK,
    PASSES_SHIFT,
    Execution,
    FootprintCurve,
    Operation,
    SMRecording,
    SMTrace,
    Touches,
    entered_blocks,
    instructions_of_warps,
)


class Limit(StrEnum):
    """What slows a kernel down beyond the work that it has to do."""

    BANK_CONFLICTS = "bank_conflicts"
    """shared memory takes further passes because lanes want other words of one bank"""
    UNCOALESCED = "uncoalesced"
    """requests to global memory touch more sectors than their bytes fill"""
    DIVERGENCE = "divergence"
    """warps run basic blocks with a part of their lanes"""


Events = npt.NDArray[np.uint64]
Whole = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_SECTORS_PER_LINE = LINE_BYTES // SECTOR_BYTES
_GLOBAL = (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation.LOAD_UNCACHED, Operation.STORE)
_SHARED = (Operation.SHARED_LOAD, Operation.SHARED_STORE, Operation.SHARED_ATOMIC)
_UPDATES = (Operation.ATOMIC, Operation.REDUCTION, Operation.CONTENTION)
#: Masks of the first 0, 1, … 4 sectors of a line.
_FIRST_SECTORS = np.array([0, 1, 3, 7, 15], np.int64)


@dataclass(frozen=True, slots=True)
class Excess:
    """What one instruction takes beyond its need, over the whole grid."""

    instruction: int
    needed: float
    """wavefronts or sectors that it would take, or lanes that it runs"""
    taken: float

    @property
    def wasted(self) -> float:
        """Wavefronts, sectors or lanes beyond the need."""
        return max(0.0, self.taken - self.needed)


def lifted(execution: Execution, limit: Limit, only: Collection[int] | None = None) -> Execution:
    """Return an execution whose recorded blocks are without a limit, everywhere or of these instructions alone.

    Divergence is a matter of whole basic blocks: ``only`` then names any instruction of each.
    """
    recorded = execution.sm
    assert recorded is not None
    edit = _EDITS[limit](execution, None if only is None else set(only))
    changed = replace(
        recorded,
        blocks=edit(recorded.blocks),
        side_by_side=recorded.side_by_side and edit(recorded.side_by_side),
        longest=recorded.longest and edit(recorded.longest),
        ranks=tuple(edit(each) for each in recorded.ranks),
    )
    if limit is Limit.UNCOALESCED:
        changed = replace(changed, footprint=_packed(changed, recorded, execution, is_all=only is None))
    if limit is Limit.DIVERGENCE:
        execution = _with_fewer_entries(execution, *(each.ranks or (each.blocks,) for each in (changed, recorded)))
    return replace(execution, sm=changed)


def instructions_left(execution: Execution, original: Execution) -> float:
    """Return the part of the warp instructions that an execution still has of those that it had at first."""
    lengths = np.array(original.trace.cfg.lengths, np.int64)
    now, before = (float((each.trace.counts.block_warps @ lengths).sum()) for each in (execution, original))
    return now / before if before else 1.0


def excesses(execution: Execution, limit: Limit) -> tuple[Excess, ...]:
    """Return what each instruction wastes by a limit, the most wasteful first; none where nothing is wasted."""
    counts, weights = execution.trace.counts, execution.weights
    if limit is Limit.DIVERGENCE:
        found = _partly_active(execution)
    elif limit is Limit.BANK_CONFLICTS:
        taken, conflicts = weights @ counts.shared_wavefronts, weights @ counts.shared_conflicts
        found = [Excess(n, float(t - c), float(t)) for n, t, c in zip(counts.accessing, taken, conflicts, strict=True)]
    else:
        needed = _ideal_sectors(execution) * (weights @ counts.requests)
        rows = zip(counts.accessing, needed.tolist(), (weights @ counts.sectors).tolist(), strict=True)
        code = execution.trace.function.instructions
        found = [Excess(n, need, taken) for n, need, taken in rows if not code[n].is_update]
    return tuple(sorted((each for each in found if each.wasted), key=lambda each: -each.wasted))


def _partly_active(execution: Execution) -> list[Excess]:
    """Return the lanes that warps run basic blocks with, of those that they could, at each block's first instruction.

    Blocks in which all of a warp's threads that take part at all do so by turns count; whole idle warps do not.
    """
    cfg, counts = execution.trace.cfg, execution.trace.counts
    warps, threads = execution.weights @ counts.block_warps, execution.weights @ counts.block_threads
    starts = np.cumsum([0, *cfg.lengths[:-1]])
    each = zip(starts.tolist(), cfg.lengths, warps.tolist(), threads.tolist(), strict=True)
    return [Excess(n, float(t * length), float(w * WARP_SIZE * length)) for n, length, w, t in each if length]


def operations(events: Events) -> Whole:
    """Return the Operation of each event."""
    return (events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)).astype(np.int64)


def instructions(events: Events) -> Whole:
    """Return the PTX instruction, or the basic block, of each event."""
    return (events >> np.uint64(INSTRUCTION_SHIFT)).astype(np.int64)


# Bank conflicts: each request takes the passes that its width needs.


def _without_conflicts(execution: Execution, only: set[int] | None) -> Callable[[SMTrace], SMTrace]:
    counts = execution.trace.counts
    requests = counts.shared_requests.sum(axis=0)
    needed = counts.shared_wavefronts.sum(axis=0) - counts.shared_conflicts.sum(axis=0)
    least = _by_instruction(execution, np.ceil(needed / np.maximum(1, requests)))

    def edit(trace: SMTrace) -> SMTrace:
        events = trace.events.copy()
        numbers = instructions(events)
        chosen = np.isin(operations(events), _SHARED) & _among(numbers, only)
        passes = (events[chosen] & np.uint64(2**CONTENT_SHIFT - 1)).astype(np.int64)
        fewer = np.minimum(passes, np.maximum(1, least[numbers[chosen]]))
        events[chosen] -= (passes - fewer).astype(np.uint64)
        return replace(trace, events=events)

    return edit


# Coalescing: each request touches as many sectors as its bytes fill, in as many lines.
#
# Which of its lines a request keeps goes round: a warp that walks down columns then has each of its lines once, whole,
# as after a transposition, and one that reads every eighth word has an eighth of the lines. Fails when: lanes of
# several warps share sectors on purpose.


def _coalesced(execution: Execution, only: set[int] | None) -> Callable[[SMTrace], SMTrace]:
    ideal = _by_instruction(execution, np.ceil(_ideal_sectors(execution)))

    def edit(trace: SMTrace) -> SMTrace:
        events, numbers = trace.events, instructions(trace.events)
        chosen = np.isin(operations(events), _GLOBAL) & _among(numbers, only)
        requests = _requests(events, chosen)
        if not len(requests.starts):
            return trace
        sectors = np.maximum(1, ideal[numbers[requests.starts]])
        chosen = requests.sectors > sectors
        starts, lengths = requests.starts[chosen], requests.lengths[chosen]
        kept, new = np.ones(len(events), bool), events.copy()
        wasteful = zip(starts.tolist(), lengths.tolist(), sectors[chosen].tolist(), _turns(trace, starts), strict=True)
        for start, length, count, turn in wasteful:
            _pack(new, kept, slice(start, start + length), count, int(turn))
        return _with_events(trace, new, kept)

    return edit


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests to global memory, each some events in a row."""

    starts: Whole
    lengths: Whole
    """lines of each"""
    sectors: Whole


def _requests(events: Events, chosen: npt.NDArray[np.bool_]) -> _Requests:
    places = np.flatnonzero(chosen)
    if not len(places):
        nothing = np.zeros(0, np.int64)
        return _Requests(nothing, nothing, nothing)
    is_last = (events[places] >> np.uint64(LAST_SHIFT) & np.uint64(1)).astype(bool)
    begins = np.concatenate([[True], is_last[:-1] | (np.diff(places) != 1)])
    first = np.flatnonzero(begins)
    masks = events[places] >> np.uint64(MASK_SHIFT) & np.uint64(0xF)
    return _Requests(
        starts=places[first],
        lengths=np.diff(np.append(first, len(places))),
        sectors=np.add.reduceat(np.bitwise_count(masks).astype(np.int64), first),
    )


def _turns(trace: SMTrace, starts: Whole) -> Whole:
    """Return how often a warp has made a request from the same line on before, whichever instruction made it."""
    warp = np.searchsorted(trace.chains, starts, side="right") - 1
    line = (trace.events[starts] & np.uint64(2**LINE_BITS - 1)).astype(np.int64)
    order = np.lexsort((starts, line, warp))
    begins = np.append(True, (np.diff(warp[order]) != 0) | (np.diff(line[order]) != 0))
    first = np.flatnonzero(begins)[np.cumsum(begins) - 1]
    turns = np.empty(len(starts), np.int64)
    turns[order] = np.arange(len(starts)) - first
    return turns


def _pack(events: Events, kept: npt.NDArray[np.bool_], request: slice, sectors: int, turn: int) -> None:
    """Leave one request with so many sectors, in whole lines of its own: those whose turn it is."""
    lines = np.unique(events[request] & np.uint64(2**LINE_BITS - 1))
    wanted = min(len(lines), -(-sectors // _SECTORS_PER_LINE))
    chosen = lines[(turn * wanted + np.arange(wanted)) % len(lines)]
    kept[request] = False
    places = np.arange(request.start, request.start + wanted)
    kept[places] = True
    left = sectors
    for place, line in zip(places.tolist(), chosen.tolist(), strict=True):
        mask = int(_FIRST_SECTORS[min(left, _SECTORS_PER_LINE)])
        events[place] = _event(int(events[request.start]), line, mask, is_last=place == places[-1])
        left = max(1, left - _SECTORS_PER_LINE)


def _event(like: int, line: int, mask: int, *, is_last: bool) -> np.uint64:
    """Return an event with another line; loads then take a pass of L1 per line, stores fill their sectors."""
    operation = like >> OPERATION_SHIFT & OPERATION_MASK
    passes = 0 if operation == Operation.STORE else min(1, like >> PASSES_SHIFT & PASSES_MASK)
    head = like >> OPERATION_SHIFT << OPERATION_SHIFT
    return np.uint64(head | is_last << LAST_SHIFT | mask << MASK_SHIFT | passes << PASSES_SHIFT | line)


def _ideal_sectors(execution: Execution) -> Floats:
    """Return [accessing] the sectors that the bytes of a request's lanes fill, never more than it touches."""
    counts = execution.trace.counts
    requests = np.maximum(1, counts.requests.sum(axis=0))
    code = execution.trace.function.instructions
    widths = np.array([code[number].access_bytes for number in counts.accessing], np.float64)
    filled = np.ceil(counts.accesses.sum(axis=0) / requests * widths / SECTOR_BYTES)
    ideal: Floats = np.minimum(np.maximum(1.0, filled), counts.sectors.sum(axis=0) / requests)
    return ideal


def _packed(new: SMRecording, old: SMRecording, execution: Execution, *, is_all: bool) -> FootprintCurve:
    """Return the footprint with no more sectors than are asked for, and in whole rows of DRAM where all are packed."""
    curve, blocks, grid = old.footprint, len(new.blocks.block_ids), execution.grid_blocks
    read, written = (_asked(new.blocks, is_store=each) / blocks for each in (False, True))
    total = curve.total
    if total is not None:
        most = read * grid, written * grid, (read + written) * grid
        total = Touches(min(total.read, most[0]), min(total.written, most[1]), min(total.either, most[2]))
    return replace(
        curve,
        read=_capped(curve.read, read, curve.blocks),
        written=_capped(curve.written, written, curve.blocks),
        either=_capped(curve.either, read + written, curve.blocks),
        total=total,
        partly=None if is_all else curve.partly,
        rows=None if is_all else curve.rows,
    )


def _asked(trace: SMTrace, *, is_store: bool) -> float:
    """Return the sectors that requests to global memory touch, each counted as often as it is."""
    operation = operations(trace.events)
    chosen = operation <= Operation.REDUCTION
    wanted = (operation >= Operation.STORE) if is_store else (operation != Operation.STORE)
    masks = trace.events[chosen & wanted] >> np.uint64(MASK_SHIFT) & np.uint64(0xF)
    return float(np.bitwise_count(masks).sum())


def _capped(sectors: Whole, most: float, blocks: Whole) -> Whole:
    """Return [n, allocations] sectors, all of a row smaller by one factor where they are over ``most`` per block."""
    part = np.minimum(1.0, most * blocks / np.maximum(1, sectors.sum(axis=1)))
    capped: Whole = np.ceil(sectors * part[:, None]).astype(np.int64)
    return capped


# Divergence: within a block of threads, entries of a basic block with a part of a warp's lanes join to full ones.
#
# The n-th entry of one thread joins n-th entries of others, so that no thread gets ahead of itself. The lines of global
# memory that they touch stay; instructions and passes become fewer. Basic blocks with barriers or atomics stay as they
# are. Fails when: threads cannot be regrouped, which is for the reader to know.


def _without_divergence(execution: Execution, only: set[int] | None) -> Callable[[SMTrace], SMTrace]:
    joins = _joinable(execution, only)

    def edit(trace: SMTrace) -> SMTrace:
        events, operation = trace.events, operations(trace.events)
        entries = np.flatnonzero(operation == Operation.BASIC_BLOCK)
        if not len(entries):
            return trace
        entry_of = np.searchsorted(entries, np.arange(len(events)), side="right") - 1
        return _joined(trace, entries, entry_of, _leaders(trace, entries, joins))

    return edit


def _joinable(execution: Execution, only: set[int] | None) -> npt.NDArray[np.bool_]:
    """Return [basic blocks] whether entries may be joined."""
    cfg, code = execution.trace.cfg, execution.trace.function.instructions
    starts = np.cumsum([0, *cfg.lengths])
    found = []
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        inside = code[first:last]
        is_chosen = only is None or any(number in only for number in range(first, last))
        found.append(is_chosen and not any(ins.is_update or ins.is_barrier for ins in inside))
    return np.array(found, bool)


def _leaders(trace: SMTrace, entries: Whole, joins: npt.NDArray[np.bool_]) -> Whole:
    """Return [entries] the entry that each one joins; itself where it stays.

    Only entries of one turn join: what a thread does one after the other, it does so in full warps, too.
    """
    events = trace.events[entries]
    block = instructions(events)
    masks = events & np.uint64(2**LINE_BITS - 1)
    warp = np.searchsorted(trace.chains, entries, side="right") - 1
    turn = _turns_of_threads(masks, warp * len(joins) + block)
    lanes = np.bitwise_count(masks).astype(np.int64)
    widest = np.ones(len(trace.chains), np.int64)
    np.maximum.at(widest, warp, lanes)
    filled = np.minimum(WARP_SIZE, -(-lanes * WARP_SIZE // widest[warp]))
    group = (warp // trace.warps) * len(joins) + block
    order = np.lexsort((np.arange(len(entries)), turn, group))
    is_new = np.append(True, (np.diff(group[order]) != 0) | (np.diff(turn[order]) != 0))
    before = np.cumsum(filled[order]) - filled[order]
    full_warps = (before - before[np.flatnonzero(is_new)[np.cumsum(is_new) - 1]]) // WARP_SIZE
    leader = np.arange(len(entries))
    may_join = joins[block[order]]
    leader[order[may_join]] = order[_first_of_warps(is_new, warp[order], full_warps)[may_join]]
    return leader


def _first_of_warps(is_new: npt.NDArray[np.bool_], warp: Whole, wanted: Whole) -> Whole:
    """Return for each entry the first one of the warp with number ``wanted`` among those of its turn.

    So full warps are packed into the first warps: were each to stay where its first threads were, half of the
    sub-partitions could be left with all of them.
    """
    begins = is_new | np.append(True, np.diff(warp) != 0)
    firsts, turn = np.flatnonzero(begins), np.cumsum(is_new) - 1
    of_turn = (np.cumsum(begins) - 1)[is_new]
    warps = np.diff(np.append(of_turn, len(firsts)))
    found: Whole = firsts[of_turn[turn] + np.minimum(wanted, warps[turn] - 1)]
    return found


def _turns_of_threads(masks: Events, group: Whole) -> Whole:
    """Return how often the threads of each entry have entered its group, a warp's basic block, before: at most."""
    order = np.argsort(group, kind="stable")
    begins = np.append(True, np.diff(group[order]) != 0)
    first = np.flatnonzero(begins)[np.cumsum(begins) - 1]
    turn = np.zeros(len(masks), np.int64)
    for lane in range(WARP_SIZE):
        enters = (masks[order] >> np.uint64(lane) & np.uint64(1)).astype(np.int64)
        before = np.cumsum(enters) - enters
        own = before - before[first]
        turn[order] = np.where(enters, np.maximum(turn[order], own), turn[order])
    return turn


def _joined(trace: SMTrace, entries: Whole, entry_of: Whole, leader: Whole) -> SMTrace:
    """Return the chains with only the entries that others join, and behind each the lines of all that join it."""
    events, operation = trace.events, operations(trace.events)
    stays = np.zeros(len(entries), bool)
    stays[leader] = True
    own, is_global = np.maximum(entry_of, 0), np.isin(operation, _GLOBAL)
    kept = stays[own] | is_global
    target = np.where(is_global, leader[own], own)
    numbers = np.where(operation == Operation.BASIC_BLOCK, -1, instructions(events))
    places = np.flatnonzero(kept)
    order = places[np.lexsort((places, numbers[places], target[places]))]
    new = events[order]
    same = (target[order][1:] == target[order][:-1]) & (numbers[order][1:] == numbers[order][:-1])
    is_line = np.isin(operation[order], _GLOBAL)
    ends = np.append(~same, True)
    bit = np.uint64(1 << LAST_SHIFT)
    new[is_line] = np.where(ends[is_line], new[is_line] | bit, new[is_line] & ~bit)
    return replace(trace, events=new, chains=_chains(trace, entries[target[order]]))


def _chains(trace: SMTrace, places: Whole) -> Whole:
    """Return where each warp's events start, of events that stand at these places of the old chains."""
    warp = np.searchsorted(trace.chains, places, side="right") - 1
    found: Whole = np.concatenate([[0], np.cumsum(np.bincount(warp, minlength=len(trace.chains) - 1))])
    return found.astype(np.int64)


def _with_fewer_entries(execution: Execution, now: Sequence[SMTrace], before: Sequence[SMTrace]) -> Execution:
    """Return an execution whose sample enters basic blocks as much less often as the recorded blocks do."""
    counts, blocks = execution.trace.counts, len(execution.trace.cfg.lengths)
    entered, old = (
        sum(np.bincount(entered_blocks(trace.events), minlength=blocks) for trace in each) for each in (now, before)
    )
    part = entered / np.maximum(1, old)
    warps = counts.block_warps * np.where(old > 0, part, 1.0)
    lengths = np.array(execution.trace.cfg.lengths, np.int64)
    longest = [
        sum(float(instructions_of_warps(trace, lengths).max(axis=1).sum()) for trace in each) for each in (now, before)
    ]
    fewer = replace(
        counts,
        block_warps=np.rint(warps).astype(np.int64),
        longest_warp=np.rint(counts.longest_warp * (longest[0] / max(1.0, longest[1]))).astype(np.int64),
    )
    return replace(execution, trace=replace(execution.trace, counts=fewer))


def _with_events(trace: SMTrace, events: Events, kept: npt.NDArray[np.bool_]) -> SMTrace:
    before = np.concatenate([[0], np.cumsum(kept)])
    return replace(trace, events=events[kept], chains=before[trace.chains])


def _among(numbers: Whole, only: set[int] | None) -> npt.NDArray[np.bool_]:
    return np.ones(len(numbers), bool) if only is None else np.isin(numbers, sorted(only))


def _by_instruction(execution: Execution, values: Floats) -> Whole:
    """Return [instructions] a value of each that accesses memory, 1 for the others."""
    found = np.ones(len(execution.trace.function.instructions), np.int64)
    found[list(execution.trace.counts.accessing)] = values
    return found


_EDITS: dict[Limit, Callable[[Execution, set[int] | None], Callable[[SMTrace], SMTrace]]] = {
    Limit.BANK_CONFLICTS: _without_conflicts,
    Limit.UNCOALESCED: _coalesced,
    Limit.DIVERGENCE: _without_divergence,
}
