"""Runs further blocks of a launch for a model, after its sample has run."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, KernelFault, UnsupportedError
from kerncast.execute.counting import touched
from kerncast.execute.native import NativeEngine, TooLargeError
from kerncast.execute.native.engine import Log, Worker
from kerncast.execute.sampling.run import Executed, asking_blocks
from kerncast.execute.sampling.sample import nominal_seconds
from kerncast.execute.setup.dataflow import common_counters, waiting_blocks
from kerncast.execute.setup.state import Progress, Setting, Turns
from kerncast.launch import NO_CLUSTER, blocks_of_clusters
from kerncast.profiles import SECTOR_BYTES
from kerncast.ptx.tensor_layouts import PAIR
from kerncast.traces import (
    INSTRUCTION_SHIFT,
    MOST_EVENTS,
    MOST_INSTRUCTIONS,
    NUMBER_MASK,
    OBJECT_BITS,
    OPERATION_MASK,
    OPERATION_SHIFT,
    TOLD_MASK,
    TOLD_SHIFT,
    End,
    EventChange,
    Execution,
    Footprint,
    FootprintCurve,
    MachineCode,
    Operation,
    Recording,
    SMTrace,
    Touches,
    entered_blocks,
    event_changes,
    instructions_of_warps,
)

_EVENTS_PER_LOG, _SEGMENTS_PER_LOG = 2**21, 2**18
_FIRST_BLOCKS = 8
#: 128 MiB, as for events: a warp that only waits at barriers has no events.
_MOST_SEGMENTS = 2**22
#: Blocks differ: a chunk is to fill so much of a log.
_FILL = 0.5
_LOCAL_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """Limits of a recording, and expectations of the blocks."""

    most_events: int
    events_per_block: float = 0.0
    """expected events of a block; 0 where unknown"""
    may_repeat: bool = True
    """whether a block may run twice; one that changes what it reads would do other work the second time"""
    in_detail: bool = False
    """whether basic blocks, shared memory and contention are recorded too"""


class Recorder:
    """Blocks of one launch and what they accessed, chunk after chunk."""

    def __init__(self, setting: Setting, plan: Plan, engine: NativeEngine | None = None) -> None:
        self._setting = setting
        self._plan = plan
        self._engine = engine or NativeEngine(setting)
        workers = self._engine.launch_run.workers
        # Memory that no event is written to costs nothing.
        room = min(max(_EVENTS_PER_LOG, math.ceil(plan.events_per_block / _FILL)), plan.most_events + 1)
        segments = _SEGMENTS_PER_LOG
        if setting.launch.cooperative:  # all blocks are recorded at once
            room, segments = plan.most_events + 1, _MOST_SEGMENTS
        self._room = (room * len(workers), segments * len(workers))
        logs = [Log.with_room(room, segments) for _ in workers]
        self._engine.launch_run.record_into(logs, in_detail=plan.in_detail)
        self._blocks: list[npt.NDArray[np.int64]] = []
        self._events: list[npt.NDArray[np.uint64]] = []
        self._segments: list[npt.NDArray[np.void]] = []
        self._event_count = self._segment_count = self._rows = 0

    def run(self, blocks: npt.NDArray[np.int64], report: Callable[[int], None] | None = None) -> bool:
        """Run blocks of whole clusters in their order; returns whether all were recorded, within the limit of events.

        A chunk whose accesses do not fit into the logs is run once more, in halves, or ends the recording.
        """
        if self._setting.launch.cooperative:
            return not len(blocks) or self._run_together(blocks)
        together = self._setting.launch.cluster_blocks
        position, size = 0, self._affordable()
        while position < len(blocks) and size:
            chunk = blocks[position : position + -(-size // together) * together]
            self._engine.check_room(len(chunk))
            if self._keep(self._engine.run_parts(chunk)):
                self._blocks.append(chunk)
                position += len(chunk)
                size = self._affordable()
                if report:
                    report(self._rows)
            else:
                size = len(chunk) // 2 // together * together if self._plan.may_repeat else 0
        return position == len(blocks) and not self._is_full

    def _run_together(self, blocks: npt.NDArray[np.int64]) -> bool:
        """Run the whole grid, whose blocks wait for one another, and keep some of its blocks."""
        launch = self._setting.launch
        grid = np.arange(launch.blocks)
        if launch.cluster_blocks > 1:
            clusters = np.arange(launch.blocks // launch.cluster_blocks)
            grid = blocks_of_clusters(clusters, launch.grid, launch.cluster or NO_CLUSTER)
        self._engine.check_room(len(grid))
        if not self._keep(self._engine.run_parts(grid)):
            what = "the blocks of a cooperative launch make more accesses together than can be recorded"
            raise BudgetExceededError(what, cure="Use a smaller problem, or --model roofline.")
        place = np.full(len(grid), -1)
        place[blocks] = np.arange(len(blocks))
        row_of = place[grid]
        for segments in self._segments:
            segments["row"] = row_of[segments["row"]]
        self._segments = [segments[segments["row"] >= 0] for segments in self._segments]
        self._blocks, self._rows = [blocks], len(blocks)
        lengths = (int((each["stop"] - each["start"]).sum()) for each in self._segments)
        self._event_count, self._segment_count = sum(lengths), sum(map(len, self._segments))
        return not self._is_full

    def recording(self) -> Recording:
        """Return everything so far that the limit has room for, at least one block.

        Where a chunk ends depends on the cores of this machine; which blocks have room does not.
        """
        nothing = Log.with_room(0, 0)
        found = Recording(
            block_ids=np.concatenate([np.zeros(0, np.int64), *self._blocks]),
            warps=self._setting.launch.warps_per_block,
            local_lines=-(-self._setting.program.private_bytes // _LOCAL_WORD_BYTES),
            events=np.concatenate([nothing.events, *self._events]),
            segments=np.concatenate([nothing.segments, *self._segments]),
        )
        if not self._is_full:
            return found
        lengths = found.segments["stop"] - found.segments["start"]
        events = np.cumsum(np.bincount(found.segments["row"], weights=lengths))
        segments = np.cumsum(np.bincount(found.segments["row"]))
        fitting = np.count_nonzero((events <= self._plan.most_events) & (segments <= _MOST_SEGMENTS))
        return found.head(max(1, int(fitting)))

    @property
    def _is_full(self) -> bool:
        return self._event_count > self._plan.most_events or self._segment_count > _MOST_SEGMENTS

    def _keep(self, workers: list[Worker]) -> bool:
        """Take what the workers recorded of a chunk; returns False, and takes nothing, where a log was too small."""
        logs = [worker.recorded() for worker in workers]
        if any(log is None for log in logs):
            return False
        for worker, log in zip(workers, logs, strict=True):
            assert log is not None
            segments = log.segments
            segments["row"] += self._rows
            segments["start"] += self._event_count
            segments["stop"] += self._event_count
            is_empty = (segments["end"] == End.PAUSE) & (segments["start"] == segments["stop"])
            self._segments.append(segments[~is_empty])
            self._segment_count += len(self._segments[-1])
            self._events.append(log.events)
            self._event_count += len(log.events)
            self._rows += len(worker.blocks)
        return True

    def _affordable(self) -> int:
        """Return how many more blocks the logs and the limit have room for; one more until the limit is passed."""
        if self._is_full:
            return 0
        known, most = self._plan.events_per_block, self._plan.most_events
        if not self._rows:
            return int(min(_FIRST_BLOCKS, max(1.0, _FILL * self._room[0] / known))) if known else _FIRST_BLOCKS
        events, segments = (max(1.0, count / self._rows) for count in (self._event_count, self._segment_count))
        in_logs = _FILL * min(self._room[0] / max(events, known), self._room[1] / segments)
        in_limit = min((most - self._event_count) / events, (_MOST_SEGMENTS - self._segment_count) / segments)
        return int(max(1.0, min(in_logs, in_limit)))


# Which neighbouring blocks are recorded for the caches, and the recording.
#
# The counts come from blocks spread over the grid; caches need neighbours. Recorded are whole waves, the blocks that
# all SMs hold at once, from the middle of the grid: as many as a part of the budget pays for, the whole grid where it
# does. Where not even one wave is affordable, fewer SMs are simulated.


#: Share of the budget of time, at its cautious rate and beside the spread sample: enough for two waves as a rule.
_SHARE = 1.5
#: 128 MiB of events.
_MOST_EVENTS = 2**24
#: A segment takes as much memory as so many events, and each warp has at least one.
_EVENTS_PER_SEGMENT = 4
#: Blocks of one SM, in times of what it holds at once.
_CHAIN_WAVES = 3
Blocks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring blocks and what they accessed."""

    recording: Recording
    wave_blocks: int
    """blocks of the first wave, or what was recorded of it"""
    wave_sectors: int
    """distinct sectors that the first wave touched"""
    is_whole_grid: bool

    @property
    def waves(self) -> float:
        """Number of waves recorded."""
        return len(self.recording.block_ids) / self.wave_blocks if self.wave_blocks else 0.0


def record_window(executed: Executed, wave: int, progress: Progress | None = None) -> Window:
    """Record the neighbouring blocks that the budget pays for; ``wave`` is how many blocks all SMs hold at once.

    Raises what running blocks raises.
    """
    if executed.setting.launch.cooperative:
        wave = executed.sampler.blocks
    else:
        wave = max(1, wave // executed.sampler.together) * executed.sampler.together
    blocks = _window(executed, wave)
    setting = executed.fresh()
    recorder = Recorder(setting, _plan(executed))
    first = min(wave, len(blocks))
    report = (lambda finished: progress(finished, len(blocks))) if progress else None
    complete = recorder.run(blocks[:first], report)
    touched = setting.touched.footprint(first)
    complete = complete and recorder.run(blocks[first:], report)
    recording = recorded_by(recorder, executed)
    recorded = len(recording.block_ids)
    if recorded > wave and recorded < len(blocks):
        recording = recording.head(recorded - recorded % wave)
    whole = complete and len(blocks) == executed.sampler.blocks
    return Window(recording, min(first, recorded), int(touched.either.sum()), whole)


def record_chain(executed: Executed, sms: int, resident: int) -> Recording:
    """Record blocks that one SM gets, one after the other, from the middle of the grid."""
    grid = executed.sampler.blocks
    count = max(1, min(_CHAIN_WAVES * resident, grid // sms))
    recorder = Recorder(executed.fresh(), _plan(executed))
    places = chain_of(grid, sms, count, (grid - sms + 1) / 2)  # what the first SM of a round gets
    return _recorded_alone(recorder, executed, _of_one_sm(executed, places))


def _of_one_sm(executed: Executed, places: Blocks) -> Blocks:
    """Return the blocks at some places of the order in which blocks begin.

    The blocks of a cluster lie on SMs of their own; one SM gets blocks of every rank.
    """
    sampler = executed.sampler
    if sampler.together == 1:
        return places
    clusters = np.unique(places // sampler.together)
    ranks = np.arange(len(clusters)) % sampler.together
    if any(PAIR in ins.modifiers for ins in executed.trace.function.instructions):  # those of even rank lead their pair
        ranks = 2 * ranks % sampler.together
    return sampler.members(clusters).reshape(-1, sampler.together)[np.arange(len(clusters)), ranks]


def _recorded_alone(recorder: Recorder, executed: Executed, blocks: Blocks) -> Recording:
    """Run blocks with all others of their clusters, and return what they alone did."""
    sampler = executed.sampler
    if sampler.together == 1:
        recorder.run(blocks)
        return recorded_by(recorder, executed)
    recorder.run(sampler.members(np.unique(sampler.clusters_of(blocks))))
    found = recorded_by(recorder, executed).only(blocks)
    if not len(found.block_ids):
        raise BudgetExceededError("one cluster makes more accesses than can be recorded", cure="Use a smaller problem.")
    return found


def _of_each(sms: int, grid: int, most: int) -> int:
    """Return how many blocks of the grid each SM gets, no more than these."""
    return max(1, min(most, -(-grid // sms)))


def chain_of(grid: int, sms: int, count: int, middle: float) -> Blocks:
    """Return so many blocks that one SM gets one after the other, as near to having this middle as the grid allows."""
    span = (count - 1) * sms + 1
    start = min(max(0, math.floor(middle - span / 2)), grid - span)
    return start + sms * np.arange(count, dtype=np.int64)


def recorded_by(recorder: Recorder, executed: Executed) -> Recording:
    """Return what was recorded, without local memory where the machine code keeps it in registers."""
    found = recorder.recording()
    if not len(found.block_ids):
        raise BudgetExceededError("one block makes more accesses than can be recorded", cure="Use a smaller problem.")
    is_complete = executed.kernel.resources.has_frame or not found.local_lines
    return found if is_complete else found.without_local()


def _plan(executed: Executed) -> Plan:
    return Plan(_MOST_EVENTS, float(lines_of(executed).max()), executed.is_independent)


def lines_of(executed: Executed) -> npt.NDArray[np.float64]:
    """Return [n] the events of each block of the sample: one per line of a request."""
    counts = executed.trace.counts
    return np.asarray((counts.lines + counts.local_lines).sum(axis=1), np.float64)


def _window(executed: Executed, wave: int) -> Blocks:
    grid, row = executed.sampler.blocks, executed.sampler.grid[0]
    if executed.setting.launch.cooperative:
        return np.arange(grid)
    budget, seconds = executed.setting.budget, executed.nominal_seconds / grid
    lines, warps = lines_of(executed), executed.setting.launch.warps_per_block
    events = max(_EVENTS_PER_SEGMENT * warps, executed.sampler.scale(lines).value / grid)
    affordable = int(min(grid, _SHARE * budget.sample_seconds / seconds, _MOST_EVENTS / events))
    count = affordable - affordable % wave if grid > affordable > wave else max(1, affordable)
    together = executed.sampler.together
    if together > 1:
        return executed.sampler.members(_middle_clusters(executed, max(1, count // together)))
    start = min(max(0, middle_of(executed) - count // 2), grid - count)
    start -= start % row if count + row <= grid else 0
    return np.arange(start, start + count, dtype=np.int64)


def _middle_clusters(executed: Executed, count: int) -> Blocks:
    """Return so many neighbouring clusters around the middle of what the grid does."""
    sampler = executed.sampler
    middle = int(sampler.clusters_of(np.array([middle_of(executed)]))[0])
    start = min(max(0, middle - count // 2), sampler.blocks // sampler.together - count)
    return np.arange(start, start + count, dtype=np.int64)


def middle_of(executed: Executed) -> int:
    """Return the block before which half of the sample's accesses lie: some grids are larger than their data."""
    lines = lines_of(executed)
    order = np.argsort(executed.trace.block_ids)
    before = np.cumsum(lines[order])
    return int(executed.trace.block_ids[order][np.searchsorted(before, before[-1] / 2)])


#: Number of sampled blocks that stand for the middle of the grid.
_NEIGHBOURS = 8
#: Least accesses of these blocks, relative to the mean; with fewer the middle of the grid is not where the work is.
_IDLE = 0.5


def record_sm(executed: Executed, sms: int, blocks: int, most_events: int) -> SMTrace:
    """Record some of the blocks that one of so many SMs gets, fewer where they make more than ``most_events``.

    Raises UnsupportedError for a kernel too long to be traced, BudgetExceededError where one block makes more than
    ``most_events``, native.TooLargeError for a kernel that only the interpreter runs, and what running blocks raises.
    """
    grid = executed.sampler.blocks
    places = chain_of(grid, sms, _of_each(sms, grid, blocks), _middle(executed))
    return record_blocks(executed, _of_one_sm(executed, places), most_events)


# Blocks that take their work from a queue: a counter in global memory, which moves on with each piece.
#
# Of blocks that run one after the other the first would take all, and of the warps of a block, too. Here the counter
# stays as it is, and each warp that asks gets the numbers that fall to it where all warps of the grid that ask take
# turns; counters that decide nothing move on. On a GPU who is done first asks first: of the blocks at both ends of the
# grid and in its middle, and of some in between, those stand for the busiest SM that do nearest to what the busiest
# block then does. What a piece costs is told by these blocks, and in between by its place in the queue. Fails when: a
# piece's cost has nothing to do with its place; more blocks than a GPU holds at once take from a queue; the block that
# ends last does more.


def record_share(executed: Executed, sms: int, blocks: int, most_events: int) -> SMTrace | None:
    """Record so many of the blocks that one of ``sms`` SMs gets, each with its share of a queue.

    None without a queue, and where its blocks cannot run so. Raises as ``record_sm``.
    """
    if not executed.counters.share_work:
        return None
    grid, queue = executed.sampler.blocks, _Queue.of(executed)

    def at(middle: float) -> SMTrace:
        places = chain_of(grid, sms, _of_each(sms, grid, blocks), middle)
        return record_blocks(executed, places, most_events, queue.turns)

    try:
        found = {place: at(place) for place in (grid / 2, 0.0, float(grid))}
        pieces = [queue.pieces(trace.only(row)) for trace in found.values() for row in range(len(trace.block_ids))]
        if all(len(each) == 2 and each[0] < _PROLOGUE * each[1] for each in pieces):
            return found[grid / 2]
        wanted = queue.work_of_busiest(found.values()) or execution_of(executed).work_of_busiest
        for _ in range(_MORE_PLACES):
            missing = {place: queue.work(trace) - wanted for place, trace in found.items()}
            if (between := _between(missing, _NEAR * wanted)) is None:
                break
            found[between] = at(between)
    except (KernelFault, BudgetExceededError):
        return None
    return min(found.values(), key=lambda trace: abs(queue.work(trace) - wanted))


#: Blocks that do so nearly what the busiest one must are good enough; so often others are tried.
_NEAR, _MORE_PLACES = 0.05, 3
#: A block that does no more than this part of its work before it asks once takes a number for itself, not work.
_PROLOGUE = 0.1
#: Of more pieces a block, and of more in all, each is a small part of what a block does: the mean tells as much.
_MANY_A_BLOCK, _MANY_PIECES = 64, 2**18


def _between(missing: Mapping[float, float], near: float) -> float | None:
    """Return the place in the grid where nothing is missing, between two known ones; None where one is near enough."""
    if min(map(abs, missing.values())) <= near:
        return None
    for one, other in pairwise(sorted(missing)):
        a, b = missing[one], missing[other]
        if a * b < 0 and other - one > 1:
            return one + (other - one) * a / (a - b)
    return None


@dataclass(frozen=True, slots=True)
class _Queue:
    """The counters of a launch from which warps of all blocks take their work."""

    executed: Executed
    turns: Mapping[int, Turns]
    """who takes from each counter"""

    @classmethod
    def of(cls, executed: Executed) -> "_Queue":
        """Return the queue of a launch that has one, with how many blocks of the grid take from each counter."""
        counters = executed.counters
        turns = counters.of(counters.queues | counters.numbers)
        return cls(executed, {c: replace(each, blocks=asking_blocks(executed, c)) for c, each in turns.items()})

    @property
    def mean(self) -> float:
        """Instructions of a block, in the mean of the sample."""
        execution = execution_of(self.executed)
        return execution.mean(execution.trace.issued)

    def work(self, trace: SMTrace) -> float:
        """Return the instructions of a block of a trace, in the mean."""
        return float(instructions_of_warps(trace, self._lengths).sum()) / len(trace.block_ids)

    def work_of_busiest(self, traces: Iterable[SMTrace]) -> float:
        """Return the instructions of the busiest of blocks that take the next piece when they are done with one.

        The traces tell what pieces cost. 0 where that is not known: several warps of a block ask, blocks work without
        asking, or the pieces are many. Never less than the mean, where all blocks have run or each had its share.
        """
        single = {int(trace.block_ids[row]): trace.only(row) for trace in traces for row in range(len(trace.block_ids))}
        costs = {number: self.pieces(block) for number, block in single.items()}
        grid, turns = self.executed.sampler.blocks, max(map(len, costs.values()))
        works_alone = any(not costs[n] and self.work(single[n]) > _PROLOGUE * self.mean for n in costs)
        if not turns or works_alone or turns > _MANY_A_BLOCK or turns * grid > _MANY_PIECES:
            return 0.0
        known: dict[int, float] = {}
        for number, block in costs.items():
            whole = [*block[:-2], sum(block[-2:])]  # a block that asks ahead asks in vain before its last piece ends
            known |= {number + grid * turn: whole[turn] if turn < len(whole) else 0.0 for turn in range(turns)}
        places = sorted(known)
        until = [0.0] * grid
        for cost in np.interp(np.arange(turns * grid), places, [known[place] for place in places]):
            heapreplace(until, until[0] + float(cost))
        knows_mean = self.executed.trace.in_turn or len(self.executed.trace.block_ids) == grid
        return max(*until, self.mean if knows_mean else 0.0)

    def pieces(self, block: SMTrace) -> Sequence[float]:
        """Return the instructions of each piece of a block, in turn; none where not just one of its warps asks."""
        entered = [entered_blocks(block.warp(warp)) for warp in range(block.warps)]
        asks = [np.flatnonzero(np.isin(each, self._asking)) for each in entered]
        (askers,) = np.nonzero([len(each) for each in asks])
        if len(askers) != 1:
            return ()
        done = self._lengths[entered[askers[0]]]
        pieces = np.add.reduceat(done, np.unique([0, *asks[askers[0]]]))
        all_warps = sum(int(self._lengths[each].sum()) for each in entered)
        return [float(each) * all_warps / done.sum() for each in pieces]

    @property
    def _asking(self) -> list[int]:
        """The basic blocks in which warps ask."""
        starts = [block.start for block in self.executed.trace.cfg.blocks]
        atomics = common_counters(self.executed.setting.linked)
        asking = [number for number, counter in atomics.items() if counter in self.turns]
        return [int(np.searchsorted(starts, number, "right")) - 1 for number in asking]

    @property
    def _lengths(self) -> Blocks:
        return np.array(self.executed.trace.cfg.lengths, np.int64)


def record_one(executed: Executed, number: int, most_events: int) -> SMTrace:
    """Record one block of the grid: of one that does more where it asks a counter last, with what it does then.

    Such a block sums up for all. What the sample has seen it do tells which it is. Raises as ``record_sm``.
    """
    block, counters = np.array([number], np.int64), executed.counters
    lengths = np.array(executed.trace.cfg.lengths, np.int64)
    seen = int(executed.trace.issued[executed.trace.block_ids == number].sum())

    def missing(trace: SMTrace) -> int:
        return abs(int(instructions_of_warps(trace, lengths).sum()) - seen)

    alone = record_blocks(executed, block, most_events)
    if not counters.decide_nothing or missing(alone) <= _NEAR * seen:
        return alone
    turns = {
        counter: replace(each, first=(each.blocks - 1 - number) * each.warps.bit_count())
        for counter, each in counters.turns.items()
    }
    try:
        return min(alone, record_blocks(executed, block, most_events, turns), key=missing)
    except (KernelFault, BudgetExceededError):
        return alone


def execution_of(executed: Executed) -> Execution:
    """Return the sample of a launch."""
    return Execution(executed.trace, executed.sampler.weights(), executed.is_independent, executed.counters.share_work)


def record_blocks(
    executed: Executed, blocks: Blocks, most_events: int, turns: Mapping[int, Turns] | None = None
) -> SMTrace:
    """Record these blocks in their order, with ``turns`` or those of the sample; raises as ``record_sm``."""
    _check_length(executed)
    plan = Plan(most_events, _most_events_of_a_block(executed), executed.is_independent, in_detail=True)
    setting = executed.fresh()
    if turns is not None:
        setting = replace(setting, turns=turns)
    recorder = Recorder(setting, plan)
    if executed.sampler.together == 1:
        trace = trace_of(_recorded_alone(recorder, executed, blocks))
    else:
        trace = _told_by_cluster(recorder, executed, blocks)
    return _within(_as_timed(trace, executed), most_events)


def _as_timed(trace: SMTrace, executed: Executed) -> SMTrace:
    """Return a trace without the turns in which blocks of a cooperative launch wait for others."""
    if not executed.setting.launch.cooperative:
        return trace
    return without_waiting(trace, waiting_blocks(executed.trace.function, executed.trace.cfg))


def record_clusters(executed: Executed, sms: int, blocks: int, most_events: int) -> tuple[SMTrace, ...]:
    """Record the clusters of some of the blocks that one of so many SMs gets; returns a trace for each rank.

    Row n of each is of cluster n, with what it tells the others as it is. Raises as ``record_sm``.
    """
    _check_length(executed)
    sampler = executed.sampler
    places = chain_of(sampler.blocks, sms, _of_each(sms, sampler.blocks, blocks), _middle(executed))
    members = sampler.members(np.unique(places // sampler.together)).reshape(-1, sampler.together)
    plan = Plan(most_events, _most_events_of_a_block(executed), executed.is_independent, in_detail=True)
    recorder = Recorder(executed.fresh(), plan)
    recorder.run(members.ravel())
    recording = recorded_by(recorder, executed)
    members = members[np.isin(members, recording.block_ids).all(axis=1)]
    if not len(members):
        raise BudgetExceededError("one cluster makes more accesses than can be recorded", cure="Use a smaller problem.")
    traces = [_as_timed(trace_of(recording.only(of_rank)), executed) for of_rank in members.T]
    ranks = [_within(trace, most_events) for trace in traces]
    rows = min(len(trace.block_ids) for trace in ranks)
    return tuple(trace.head(rows) for trace in ranks)


def _told_by_cluster(recorder: Recorder, executed: Executed, blocks: Blocks) -> SMTrace:
    """Run blocks with all others of their clusters, and return what they did, and what the others told them.

    A block's mbarriers are changed by others of its cluster, too, on other SMs. They are taken to do so when the block
    itself does: as much more happens then. What it tells others happens there. Fails when: it does not change a
    phase that others do, or they do so at another time.
    """
    sampler = executed.sampler
    recorder.run(sampler.members(np.unique(sampler.clusters_of(blocks))))
    recording = recorded_by(recorder, executed)
    whole = trace_of(recording)
    found = trace_of(recording.only(blocks))
    if not len(found.block_ids):
        raise BudgetExceededError("one cluster makes more accesses than can be recorded", cure="Use a smaller problem.")
    theirs, own = (_changes(trace, executed) for trace in (whole, found))
    events, kept = found.events.copy(), np.ones(len(found.events), np.bool_)
    for key in np.unique(own.keys):
        direct, remote = (own.places[(own.keys == key) & (own.is_direct == which)] for which in (True, False))
        total = int(theirs.numbers[theirs.told == key].sum())
        if not len(direct):  # others tell it what it tells others, when it does so
            direct, remote = (remote, direct) if total else (direct, remote)
        kept[remote] = False
        numbers = (events[direct] >> np.uint64(OBJECT_BITS) & np.uint64(NUMBER_MASK)).astype(np.int64)
        if len(direct) and total != numbers.sum():
            # Rounded as sums: no byte is lost, and each phase ends where as much of all has come.
            numbers = np.diff(numbers.cumsum() * total // numbers.sum(), prepend=0)
        bare = events[direct] & ~np.uint64(NUMBER_MASK << OBJECT_BITS | TOLD_MASK << TOLD_SHIFT)
        events[direct] = bare | numbers.astype(np.uint64) << np.uint64(OBJECT_BITS)
    before = np.concatenate([[0], np.cumsum(kept)])
    return replace(found, events=events[kept], chains=before[found.chains])


#: Changes of mbarriers that other blocks of a cluster make, too.
_TELLING = [int(EventChange[name]) for name in ("ARRIVE", "DROP", "EXPECT", "COMPLETE")]


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of mbarriers in a trace."""

    places: Blocks
    """their positions among the events"""
    numbers: Blocks
    """arrivals or bytes"""
    keys: Blocks
    """what tells apart the blocks that make them, the places of mbarriers and the kinds of change"""
    told: Blocks
    """the same with the blocks that are told"""
    is_direct: npt.NDArray[np.bool_]
    """whether the block itself is told"""


def _changes(trace: SMTrace, executed: Executed) -> _Changes:
    every, sampler = event_changes(trace), executed.sampler
    telling = np.isin(every.changes, _TELLING)
    change, place, others = (each[telling] for each in (every.changes, every.objects, every.told))
    clusters = sampler.clusters_of(trace.block_ids)
    members = sampler.members(np.unique(clusters))
    order = {block: place % sampler.together for place, block in enumerate(members.tolist())}
    ranks = np.array([order[block] for block in trace.block_ids.tolist()])
    rows = every.warps[telling] // trace.warps
    blocks = clusters[rows] * sampler.together
    makes, told = ((blocks + rank << OBJECT_BITS | place) << 4 | change for rank in (ranks[rows], ranks[rows] ^ others))
    return _Changes(every.positions[telling], every.numbers[telling], makes, told, others == 0)


def without_waiting(trace: SMTrace, waiting: frozenset[int]) -> SMTrace:
    """Return a trace without the turns of loops that wait for other blocks: their number says nothing of a GPU."""
    operation = trace.events >> np.uint64(OPERATION_SHIFT) & np.uint64(OPERATION_MASK)
    is_entry = operation == Operation.BASIC_BLOCK
    number = np.where(is_entry, trace.events >> np.uint64(INSTRUCTION_SHIFT), 0).astype(np.int64)
    # Each event belongs to the last block that was entered, and each chain begins by entering one.
    last = np.maximum.accumulate(np.where(is_entry, np.arange(len(number)), 0))
    kept = ~np.isin(number[last], list(waiting))
    before = np.concatenate([[0], np.cumsum(kept)])
    return replace(trace, events=trace.events[kept], chains=before[trace.chains])


def trace_of(recording: Recording) -> SMTrace:
    """Put the events of each warp, which lie in segments among those of others, one after the other."""
    segments, warps = recording.segments, recording.warps
    owners = segments["row"].astype(np.int64) * warps + segments["warp"]
    order = np.argsort(owners, kind="stable")
    starts = segments["start"][order]
    lengths = segments["stop"][order] - starts
    stops = np.cumsum(lengths)
    first = np.searchsorted(owners[order], np.arange(len(recording.block_ids) * warps + 1))
    places = np.arange(int(lengths.sum())) + np.repeat(starts - (stops - lengths), lengths)
    chains = np.append(0, stops)[first].astype(np.int64)
    return SMTrace(recording.block_ids, warps, recording.local_lines, recording.events[places], chains)


def _within(trace: SMTrace, most_events: int) -> SMTrace:
    """Return the first blocks, at least one, that have no more events than this."""
    ends = trace.chains[trace.warps :: trace.warps]
    return trace.head(max(1, int(np.searchsorted(ends, most_events, side="right"))))


def _check_length(executed: Executed) -> None:
    trace = executed.trace
    longest = max(len(trace.function.instructions), len(trace.cfg.blocks))
    if longest > MOST_INSTRUCTIONS:
        raise UnsupportedError(
            f"the kernel has {longest} PTX instructions, over the {MOST_INSTRUCTIONS} of one that can be simulated"
        )


def _most_events_of_a_block(executed: Executed) -> float:
    """Return the events of the busiest block of the sample."""
    counts, code = executed.trace.counts, executed.trace.function.instructions
    events = counts.block_warps.sum(axis=1) + (counts.lines + counts.local_lines + counts.shared_requests).sum(axis=1)
    updates = [code[number].is_update for number in counts.accessing]
    return float((events + counts.requests[:, updates].sum(axis=1)).max())


def _middle(executed: Executed) -> float:
    """Return the block around which others are to lie: the middle of the grid, or of what its blocks access.

    Blocks in the middle of the grid do the mean of work that grows steadily from block to block. They do nothing where
    the grid is larger than the data, or the first of them does nothing where this is the end of the data.
    """
    lines, middle = lines_of(executed), executed.sampler.blocks / 2
    near = np.argsort(np.abs(executed.trace.block_ids - middle), kind="stable")[:_NEIGHBOURS]
    mean = executed.sampler.scale(lines).value / executed.sampler.blocks
    does_work = lines[near].mean() >= _IDLE * mean and (lines[near[0]] > 0 or not mean)
    return middle if does_work else middle_of(executed) + 0.5  # the middle of that block


# Runs neighbouring blocks, more and more of them, and counts the distinct sectors that they have touched.
#
# The sample of blocks is spread over the grid, so that it does not tell what neighbours share. These blocks run
# without being recorded, in the order of their numbers from the middle of the grid on; how many depends on the
# budget, by what they are reckoned to cost and not by the clock: a slow machine or a busy one counts the same.


_GROWTH = 1.5
#: Blocks run at a time, so that their counters, which nobody reads, take little memory.
_MOST_AT_ONCE = 2**14


def footprint_curve(executed: Executed, most_seconds: float, progress: Progress | None = None) -> FootprintCurve:
    """Count the sectors that 1, 2, 3, 5, … neighbouring blocks touch, as far as so many nominal seconds pay for them.

    Clusters run whole. Blocks that cost more than the mean of the sample end it sooner. Raises what running blocks
    raises, which ends by the clock what takes far longer than reckoned, and native.TooLargeError for a kernel that only
    the interpreter runs.
    """
    if executed.setting.launch.cooperative:
        return _curve_of_whole(executed)
    sampler, together = executed.sampler, executed.sampler.together
    most = -(-_affordable(executed, most_seconds) // together)
    spent, lines = 0.0, [0.0]
    setting, found, rows = executed.fresh(), list[Footprint](), list[tuple[float, float]]()
    engine = NativeEngine(setting)
    before = start = int(sampler.clusters_of(np.array([_start(executed, most * together)]))[0])
    stop = start
    for count in _counts(most):
        first = max(0, min(start, sampler.blocks // together - count))
        new = np.concatenate([np.arange(first, before), np.arange(stop, first + count)])
        before, stop = first, first + count
        seconds, asked = _run(engine, sampler.members(new), executed.trace.cfg.lengths)
        spent += seconds
        lines.append(lines[-1] + asked)
        found.append(setting.touched.footprint(count * together))
        rows.append(setting.touched.rows())
        if progress:
            progress(count * together, most * together)
        # A part of the curve is better than none.
        fitting = setting.touched.blocks_within(setting.budget.memory_bytes, count * together)
        if spent > most_seconds or fitting < _GROWTH * (count + 1) * together:
            break
    mean = executed.sampler.scale(lines_of(executed)).value / executed.sampler.blocks
    curve = _curve(executed, setting, found)
    busier = np.array(lines[1:]) / curve.blocks / mean if mean else None
    return replace(curve, rows=np.array(rows), busier=busier)


def _curve_of_whole(executed: Executed) -> FootprintCurve:
    """Return the curve of a grid whose blocks only run together: each is taken to touch its share."""
    last, grid = executed.trace.footprints[-1], executed.sampler.blocks
    counts = ("read", "written", "either", "partly")
    shares = Footprint(1, *(-(-getattr(last, name) // grid) for name in counts))
    return _curve(executed, executed.setting, [shares, last] if grid > 1 else [last])


def _curve(executed: Executed, setting: Setting, found: list[Footprint]) -> FootprintCurve:
    grid = executed.sampler.blocks
    total = (touched(executed.trace, kind, grid).value / SECTOR_BYTES for kind in ("read", "written", "either"))
    return FootprintCurve(
        blocks=np.array([each.blocks for each in found], np.int64),
        read=np.array([each.read for each in found]),
        written=np.array([each.written for each in found]),
        either=np.array([each.either for each in found]),
        allocation_sectors=np.array([-(-a.nbytes // SECTOR_BYTES) for a in setting.arena.allocations], np.int64),
        grid_blocks=grid,
        total=Touches(*total),
        partly=np.array([each.partly for each in found]),
    )


def _run(engine: NativeEngine, blocks: Blocks, lengths: tuple[int, ...]) -> tuple[float, float]:
    """Run blocks; returns the nominal seconds that they cost, and the lines that they ask for."""
    spent = lines = 0.0
    together = engine.launch_run.launch.cluster_blocks
    at_once = _MOST_AT_ONCE // together * together
    for start in range(0, len(blocks), at_once):
        engine.run_parts(blocks[start : start + at_once])
        counts = engine.counts()
        spent += float(nominal_seconds(counts, lengths).sum())
        lines += float(counts.lines.sum() + counts.local_lines.sum())
        engine.launch_run.forget()
    return spent, lines


def _affordable(executed: Executed, most_seconds: float) -> int:
    """Return how many blocks so much nominal time pays for."""
    seconds, grid = executed.nominal_seconds, executed.sampler.blocks
    return grid if seconds <= most_seconds else max(1, int(grid * most_seconds / seconds))


def _start(executed: Executed, most: int) -> int:
    """Return the block with which to begin: of a row of blocks in the middle, the first."""
    grid, row = executed.sampler.blocks, executed.sampler.grid[0]
    if most == grid and not executed.is_independent:
        return 0  # each finds what those before it have written
    middle = middle_of(executed)
    return middle - middle % row if row < grid else middle


def _counts(most: int) -> Iterator[int]:
    """Give numbers of blocks, growing to the last."""
    count = 1
    while count < most:
        yield count
        count = max(count + 1, round(_GROWTH * count))
    yield most


#: One SM's blocks alone may wait for others for ever. A block that takes this many times the steps of the longest block
#: of the sample is taken to wait: many times that of short blocks, a few times that of blocks which are long anyway.
_MOST_TIMES_LONGEST, _FEWEST_TIMES_LONGEST = 100, 4
_LEAST_STEPS, _MANY_STEPS = 100_000, 20_000_000
#: Most nominal seconds for neighbouring blocks, where the whole grid was asked for.
_MOST_SECONDS = 7.5


@dataclass(frozen=True, slots=True)
class LaunchRecorder:
    """The Recorder of one launch; those of several architectures with the same PTX share what none of them changes."""

    executed: Executed
    shared: dict[str, FootprintCurve] = field(default_factory=dict)
    codes: dict[str, MachineCode] = field(default_factory=dict)
    """machine code by architecture"""
    by_averages: bool = False
    """whether the machine code is not read"""

    @classmethod
    def after(cls, executed: Executed, *, by_averages: bool = False) -> "LaunchRecorder":
        """Return the recorder of a launch whose sample has run; its further blocks end soon."""
        budget = executed.setting.budget
        longest = int(executed.trace.counts.block_warps.sum(axis=1).max())
        times = min(_MOST_TIMES_LONGEST, max(_FEWEST_TIMES_LONGEST, _MANY_STEPS // max(1, longest)))
        shorter = replace(
            budget,
            block_steps=min(budget.block_steps, _LEAST_STEPS + times * longest),
            sample_seconds=min(budget.sample_seconds, _MOST_SECONDS),
        )
        return cls(replace(executed, setting=replace(executed.setting, budget=shorter)), by_averages=by_averages)

    def compiled_as(self, kernel: CompiledKernel) -> "LaunchRecorder":
        """Return the recorder for another architecture whose PTX is the same."""
        return replace(self, executed=replace(self.executed, kernel=kernel))

    def execution(self) -> Execution:
        """Return the sample."""
        return execution_of(self.executed)

    def machine_code(self) -> MachineCode:
        """Return what the PTX of the sample became on the architecture that it was compiled for; it is read once."""
        from kerncast.machine.own_code import machine_code  # noqa: PLC0415  only the simulation needs it

        if self.by_averages:
            return MachineCode()
        executed = self.executed
        architecture = executed.kernel.resources.architecture
        if architecture not in self.codes:
            self.codes[architecture] = machine_code(executed.trace, executed.kernel)
        return self.codes[architecture]

    def footprint(self) -> FootprintCurve:
        """Return how many distinct sectors growing groups of neighbouring blocks touch; they run once."""
        if "footprint" not in self.shared:
            executed = self.executed
            with _compilable():
                self.shared["footprint"] = footprint_curve(executed, executed.setting.budget.sample_seconds)
        return self.shared["footprint"]

    def sm_blocks(self, sms: int, blocks: int) -> SMTrace:
        """Record so many of the blocks that one of ``sms`` SMs gets, fewer where they make too many events."""
        with _compilable():
            return record_sm(self.executed, sms, blocks, MOST_EVENTS)

    def share(self, sms: int, blocks: int) -> SMTrace | None:
        """Record the same blocks, each with its share of a queue that all take work from; None without one."""
        with _compilable():
            return record_share(self.executed, sms, blocks, MOST_EVENTS)

    def clusters(self, sms: int, blocks: int) -> tuple[SMTrace, ...]:
        """Record the clusters of as many blocks, and return a trace for each rank, in the order of clusters."""
        with _compilable():
            return record_clusters(self.executed, sms, blocks, MOST_EVENTS)

    def block(self, number: int) -> SMTrace:
        """Record one block of the grid."""
        with _compilable():
            return record_one(self.executed, number, MOST_EVENTS)


@contextmanager
def _compilable() -> Iterator[None]:
    try:
        yield
    except TooLargeError:
        raise UnsupportedError("the kernel is too large to be compiled for this CPU") from None
