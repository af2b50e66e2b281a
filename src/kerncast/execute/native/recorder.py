"""Runs blocks and records what they access, or in detail all that their warps do."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncast.execute.native import NativeEngine
from kerncast.execute.native.engine import Log, Worker
from kerncast.execute.setup.state import Setting
from kerncast.traces import End, Recording

_EVENTS_PER_LOG, _SEGMENTS_PER_LOG = 2**21, 2**18
_FIRST_BLOCKS = 8
#: 128 MiB, as for events: a warp that only waits at barriers has no events.
_MOST_SEGMENTS = 2**22
#: Blocks differ: a chunk is to fill so much of a log.
_FILL = 0.5
_LOCAL_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What a recording may hold, and what is known of the blocks."""

    most_events: int
    events_per_block: float = 0.0
    """expected; 0 where nothing is known"""
    may_repeat: bool = True
    """whether a block may run twice: one that changes what it reads would do other work the second time"""
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
        self._room = (room * len(workers), _SEGMENTS_PER_LOG * len(workers))
        logs = [Log.with_room(room, _SEGMENTS_PER_LOG) for _ in workers]
        self._engine.launch_run.record_into(logs, in_detail=plan.in_detail)
        self._blocks: list[npt.NDArray[np.int64]] = []
        self._events: list[npt.NDArray[np.uint64]] = []
        self._segments: list[npt.NDArray[np.void]] = []
        self._event_count = self._segment_count = self._rows = 0

    def run(self, blocks: npt.NDArray[np.int64], report: Callable[[int], None] | None = None) -> bool:
        """Run blocks in their order; returns whether all of them were recorded, within the limit of events.

        A chunk whose accesses do not fit into the logs is run once more, in halves, or ends the recording.
        """
        position, size = 0, self._affordable()
        while position < len(blocks) and size:
            chunk = blocks[position : position + size]
            self._engine.check_room(len(chunk))
            if self._keep(self._engine.run_parts(chunk)):
                self._blocks.append(chunk)
                position += len(chunk)
                size = self._affordable()
                if report:
                    report(self._rows)
            else:
                size = len(chunk) // 2 if self._plan.may_repeat else 0
        return position == len(blocks) and not self._is_full

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


def record(setting: Setting, blocks: npt.NDArray[np.int64], limit_events: int) -> Recording:
    """Run blocks in their order until about so many events are recorded; returns what was recorded of whole blocks."""
    recorder = Recorder(setting, Plan(limit_events))
    recorder.run(blocks)
    return recorder.recording()
