"""The reference engine, batch after batch of blocks."""

import time
from dataclasses import fields
from typing import ClassVar

import numpy as np

from kerncast.caveats import Caveat
from kerncast.execute.reference.batch import Batch
from kerncast.execute.reference.tally import Recorder, Tally
from kerncast.execute.reference.threads import WARP_LANES
from kerncast.execute.sampling.sample import runaway
from kerncast.execute.setup.state import Report, Setting
from kerncast.traces import BlockCounts, Recording

_BATCH_THREADS = 32_768
_BATCH_MEMORY_BYTES = 256 * 2**20


class ReferenceEngine:
    """Runs lists of blocks in batches of a fitting size."""

    #: Measured: an interpreted step takes 10 to 20 times as long as a step of compiled code.
    slowness: ClassVar[float] = 16.0

    def __init__(self, setting: Setting, *, records: bool = False, in_detail: bool = False) -> None:
        program, launch, budget = setting.program, setting.launch, setting.budget
        self._launch = launch
        self._batch = Batch(program, launch, setting.arena, setting.parameters, budget)
        room = budget.memory_bytes
        recorder = Recorder(program, launch.warps_per_block, room, in_detail=in_detail) if records else None
        self._tally = Tally(program, setting.touched, budget.memory_bytes, recorder)
        self._seconds = budget.seconds
        self._deadline = time.monotonic() + budget.seconds
        threads = launch.warps_per_block * WARP_LANES
        shared = program.static_shared_bytes + launch.shared_bytes
        per_block = shared + threads * (program.private_bytes + program.register_bytes)
        self._batch_blocks = max(1, min(_BATCH_THREADS // threads, _BATCH_MEMORY_BYTES // max(per_block, 1)))

    @property
    def remarks(self) -> tuple[Caveat, ...]:
        """Caveats on the counts."""
        return tuple(self._tally.remarks)

    @property
    def printed(self) -> str:
        """Text that the kernel printed."""
        return self._batch.console.text

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""
        self._tally.check_room(blocks)

    def run(self, blocks: list[int], report: Report | None) -> None:
        """Run these blocks."""
        self._tally.extend(len(blocks))
        for start in range(0, len(blocks), self._batch_blocks):
            if time.monotonic() > self._deadline:
                raise runaway(self._seconds, self._launch.label)
            chosen = np.array(blocks[start : start + self._batch_blocks], np.int64)
            self._batch.run(chosen, self._tally, self._deadline)
            if report:
                report(self._tally.finished)

    def thread_instructions(self) -> int:
        """Return how many instructions all threads have executed so far."""
        lengths = np.array(self._batch.program.cfg.lengths, np.int64)
        return int((self._tally.counts["block_threads"] @ lengths).sum())

    def counts(self) -> BlockCounts:
        """Return the counts of all blocks that have run."""
        tally = self._tally
        names = ("guarded", "accessing", "divergent_branches", "longest_warp")
        values = {**tally.counts, **{name: getattr(tally, name) for name in names}}
        return BlockCounts(**{field.name: values[field.name] for field in fields(BlockCounts)})

    def recording(self) -> Recording:
        """Return the accesses of all blocks that have run; the engine must have been told to record them."""
        assert self._tally.recorder is not None
        return self._tally.recorder.recording()
