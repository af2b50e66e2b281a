"""The reference engine as an oracle of recordings: every access, warp by warp, in the order of the program.

In detail also basic blocks, shared memory and how far atomics contend.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.execute.reference import ReferenceEngine
from kerncast.execute.reference.tally import Lanes, Numbers, Pieces, Tally, contention, global_pieces, local_pieces
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.setup import Program, Setting
from kerncast.execute.setup.arena import check_room
from kerncast.profiles import SECTOR_BYTES
from kerncast.ptx import Instruction
from kerncast.traces import (
    CONTENT_SHIFT,
    INSTRUCTION_SHIFT,
    LAST_SHIFT,
    LINE_BYTES,
    MASK_SHIFT,
    MOST_INSTRUCTIONS,
    OPERATION_SHIFT,
    PASSES_SHIFT,
    SEGMENT,
    End,
    Operation,
    Recording,
)
from kerncast.traces import operation_of as operation_in_global

Events = npt.NDArray[np.uint64]

_LOCAL_LINE_BYTES = 4
"""of each thread; 32 of them are a line"""
_ENTRY_BYTES = 16


class Recorder:
    """Collects events of batches of blocks."""

    def __init__(self, program: Program, warps: int, limit_bytes: int, *, in_detail: bool = False) -> None:
        self._program = program
        self.in_detail = in_detail
        self._warps = warps
        self._limit_bytes = limit_bytes
        self._nbytes = 0
        self._rows = 0
        self._block_ids: list[npt.NDArray[np.int64]] = []
        self._events: list[Events] = []
        self._segments: list[npt.NDArray[np.void]] = []
        self._positions = 0
        """events of the batches that have ended"""

    def start(self, threads: Threads) -> None:
        """Begin a batch."""
        self._threads = threads
        self._entries: list[tuple[Index, Events]] = []
        """warps and their events, in the order of time"""
        self._seen = np.zeros(threads.warps, np.int64)
        """events of each warp so far"""
        self._waits: list[list[int]] = [[] for _ in range(threads.warps)]
        """how many events each warp had when it came to a barrier"""

    def access(self, number: int, ins: Instruction, space: str, pieces: Pieces, content: Numbers | None = None) -> None:
        """Write down the requests of instruction ``number`` to global or local memory; ``content`` is of each piece."""
        operation = operation_of(ins, space, self._program.read)
        lines = int(pieces.line.max(initial=0)) + 1
        _, first, which = np.unique(pieces.warp * lines + pieces.line, return_index=True, return_inverse=True)
        masks = np.zeros(len(first), np.uint64)
        np.bitwise_or.at(masks, which, np.uint64(1) << pieces.sector.astype(np.uint64))
        order = np.argsort(first)
        warp, line = pieces.warp[first[order]], pieces.line[first[order]].astype(np.uint64)
        is_last = np.append(warp[1:] != warp[:-1], [True]).astype(np.uint64)
        events = line | masks[order] << np.uint64(MASK_SHIFT) | is_last << np.uint64(LAST_SHIFT)
        if content is not None:
            events |= content[first[order]].astype(np.uint64) << np.uint64(PASSES_SHIFT)
        self._append(warp, events | _tag(operation, number))

    def note(self, operation: Operation, number: int, warps: Index, contents: npt.NDArray[Any]) -> None:
        """Write down one event without a line for each of these warps, if the recording is in detail."""
        if self.in_detail:
            last = 0 if operation is Operation.CONTENTION else 1 << LAST_SHIFT
            self._append(warps, contents.astype(np.uint64) | _tag(operation, number) | np.uint64(last))

    def _append(self, warp: Index, events: Events) -> None:
        self._entries.append((warp, events))
        self._seen += np.bincount(warp, minlength=len(self._seen))
        self._nbytes += _ENTRY_BYTES * len(events)
        check_room(self._nbytes, self._limit_bytes, "the recorded accesses need")

    def wait(self, warps: Index) -> None:
        """Note that warps wait at a barrier of their block."""
        for warp in warps.tolist():
            self._waits[warp].append(int(self._seen[warp]))

    def end(self) -> None:
        """End a batch: put the events of each warp together."""
        threads, per_block = self._threads, self._warps
        warps = np.concatenate([np.zeros(0, np.intp), *(warp for warp, _ in self._entries)])
        events = np.concatenate([np.zeros(0, np.uint64), *(events for _, events in self._entries)])
        begins = self._positions + np.cumsum(self._seen) - self._seen
        segments = [
            (self._rows + warp // per_block, warp % per_block, begin + start, begin + stop, end, 0)
            for warp, begin in enumerate(begins.tolist())
            for start, stop, end in _pieces_of(self._waits[warp], int(self._seen[warp]))
        ]
        self._events.append(events[np.argsort(warps, kind="stable")])
        self._segments.append(np.array(segments, SEGMENT))
        self._block_ids.append(threads.block_ids)
        self._rows += threads.blocks
        self._positions += len(events)

    def recording(self) -> Recording:
        """Return what the batches that have ended did."""
        return Recording(
            np.concatenate([np.zeros(0, np.int64), *self._block_ids]),
            self._warps,
            self._program.private_bytes // _LOCAL_LINE_BYTES,
            np.concatenate([np.zeros(0, np.uint64), *self._events]),
            np.concatenate([np.zeros(0, SEGMENT), *self._segments]),
        )


def _partly_stored(lanes: Lanes) -> Numbers:
    """Return for each lane how many sectors of its line its warp fills in part only, by the lanes that store there."""
    found = np.zeros(len(lanes.warp), np.int64)
    for warp in np.unique(lanes.warp):
        own = np.flatnonzero(lanes.warp == warp)
        lines, address = lanes.address[own] // LINE_BYTES, lanes.address[own]
        sectors, stored = np.unique(address // SECTOR_BYTES, return_counts=True)
        is_part = stored * lanes.size < SECTOR_BYTES
        for line in np.unique(lines):
            found[own[lines == line]] = int(is_part[sectors // (LINE_BYTES // SECTOR_BYTES) == line].sum())
    return found


def operation_of(ins: Instruction, space: str, read: frozenset[str]) -> Operation:
    """Return what an instruction does in global or local memory; ``read`` are the registers that the kernel reads."""
    if space == "local":
        return Operation.LOCAL_STORE if ins.is_store else Operation.LOCAL_LOAD
    return operation_in_global(ins, read)


def _tag(operation: Operation, number: int) -> np.uint64:
    """Return the bits of an event that tell what is done, and by which instruction."""
    return np.uint64(operation << OPERATION_SHIFT | min(number, MOST_INSTRUCTIONS - 1) << INSTRUCTION_SHIFT)


def _pieces_of(waits: list[int], events: int) -> list[tuple[int, int, End]]:
    """Return start, stop and end of a warp's segments."""
    ends = [End.BARRIER] * len(waits) + [End.EXIT]
    return [(start, stop, end) for (start, stop), end in zip(pairwise([0, *waits, events]), ends, strict=True)]


class RecordingTally(Tally):
    """Writes down what it counts."""

    def __init__(self, setting: Setting, *, in_detail: bool = False) -> None:
        program, limit = setting.program, setting.budget.memory_bytes
        super().__init__(program, setting.touched, limit)
        self.recorder = Recorder(program, setting.launch.warps_per_block, limit, in_detail=in_detail)

    def start(self, threads: Threads) -> None:
        super().start(threads)
        self.recorder.start(threads)

    def end(self) -> None:
        super().end()
        self.recorder.end()

    def enter(self, start: int, warps: Index, active: Index) -> None:
        super().enter(start, warps, active)
        lanes = np.bincount(self._threads.warp[active], 2.0 ** self._threads.lane[active], self._threads.warps)
        self.recorder.note(Operation.BASIC_BLOCK, self._block_of[start], warps, lanes[warps])

    def wait(self, warps: Index) -> None:
        self.recorder.wait(warps)

    def _global(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        super()._global(number, ins, lanes)
        if ins.is_update:
            most, addresses = contention(lanes, self._threads.warps)
            warps = np.unique(lanes.warp)
            self.recorder.note(Operation.CONTENTION, number, warps, (most | addresses << CONTENT_SHIFT)[warps])
        content = _partly_stored(lanes) if ins.is_store else np.zeros(len(lanes.warp), np.int64)
        if self.recorder.in_detail and not ins.is_store:
            content = self._passes(lanes, is_atomic=False)[0][lanes.warp]
        self.recorder.access(number, ins, "global", global_pieces(lanes), content)

    def _shared(self, number: int, ins: Instruction, lanes: Lanes) -> None:
        super()._shared(number, ins, lanes)
        served = self._served(number, lanes)
        if served is None:
            return
        content, warps = self._passes(served, is_atomic=ins.is_update)[0], np.unique(lanes.warp)
        if ins.is_update:
            content = content | contention(lanes, self._threads.warps)[0] << CONTENT_SHIFT
        self.recorder.note(_shared_operation(ins), number, warps, content[warps])

    def _local(self, number: int, lanes: Lanes) -> None:
        super()._local(number, lanes)
        ins = self._threads.program.function.instructions[number]
        self.recorder.access(number, ins, "local", local_pieces(lanes))


def recorded_by_reference(setting: Setting, *parts: list[int], in_detail: bool = False) -> Recording:
    """Run these blocks, part after part, and return what they accessed."""
    tally = RecordingTally(setting, in_detail=in_detail)
    engine = ReferenceEngine(setting, tally)
    for blocks in parts:
        engine.run(blocks, None)
    return tally.recorder.recording()


def _shared_operation(ins: Instruction) -> Operation:
    if ins.is_update:
        return Operation.SHARED_ATOMIC
    return Operation.SHARED_STORE if ins.is_store else Operation.SHARED_LOAD
