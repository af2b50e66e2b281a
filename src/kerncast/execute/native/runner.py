"""The fast engine on a launch: compiled once per kernel, its counters given back as those of Trace."""

import time
from functools import lru_cache
from typing import ClassVar

import numpy as np

from kerncast.caveats import Caveat
from kerncast.execute.native.counting import CounterPlan
from kerncast.execute.native.engine import Compiled, Run, Worker, compile_program, worker_count
from kerncast.execute.sampling.budget import runaway
from kerncast.execute.setup.arena import check_room
from kerncast.execute.setup.arguments import own_buffers
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import ACCESS_COUNTS, PRINTF, Report, Setting, absent_lanes
from kerncast.traces import BlockCounts, Counts


class NativeEngine:
    """Runs lists of blocks on the cores of this machine."""

    slowness: ClassVar[float] = 1.0

    def __init__(self, setting: Setting, compiled: Compiled | None = None, workers: int | None = None) -> None:
        deadline = time.monotonic() + setting.budget.seconds  # compiling counts too
        self._setting = setting
        compiled = compiled or _compiled(_Identity(setting.linked))
        self._plan = compiled.counters
        self.launch_run = Run(compiled, setting)
        addresses = [setting.program.address_of(name) for name in compiled.symbols]
        buffers = own_buffers(setting.arguments)
        self.launch_run.prepare(setting.parameters, addresses, workers or _workers(_Identity(setting.linked), buffers))
        self.launch_run.deadline = deadline

    @property
    def remarks(self) -> tuple[Caveat, ...]:
        """What a reader of the counts should know."""
        code = self._setting.program.function.instructions
        doubtful = [absent_lanes(code[number]) for number in np.flatnonzero(self.launch_run.remarks).tolist()]
        prints = [number for number, ins in enumerate(code) if "vprintf" in ins.modifiers]
        executed = self._executions(prints) if prints else 0
        return tuple(dict.fromkeys([*doubtful, *([PRINTF] if executed else [])]))

    @property
    def printed(self) -> str:
        """What the kernel printed."""
        return self.launch_run.console.text

    def check_room(self, blocks: int) -> None:
        """Raise BudgetExceededError if the counts of so many blocks take too much memory."""
        check_room(blocks * self._plan.bytes, self._setting.budget.memory_bytes, f"the counts of {blocks} blocks need")

    def run(self, blocks: list[int], report: Report | None) -> None:
        """Run these blocks."""
        self.run_parts(np.array(blocks, np.int64), report)

    def run_parts(self, blocks: Counts, report: Report | None = None) -> list[Worker]:
        """Run these blocks and return the workers that ran them, in the order of their parts."""
        before = self.launch_run.finished

        def keep_going(finished: int) -> None:
            if report:
                report(before + finished)
            if time.monotonic() > self.launch_run.deadline:
                raise runaway(self._setting.budget.seconds, self.launch_run.where_stands())

        return self.launch_run.run(blocks, keep_going)

    def thread_instructions(self) -> int:
        """Return how many instructions all threads have executed so far."""
        lengths = np.array(self._setting.program.cfg.lengths, np.int64)
        return int((self.launch_run.counters[:, 1 : 2 * len(lengths) : 2] @ lengths).sum())

    def counts(self) -> BlockCounts:
        """Return the counts of all blocks that have run."""
        rows, plan = self.launch_run.counters, self._plan
        blocks = len(self._setting.program.cfg.blocks)
        guarded, accessing = tuple(plan.guarded), tuple(plan.memory)
        return BlockCounts(
            block_warps=rows[:, 0 : 2 * blocks : 2],
            block_threads=rows[:, 1 : 2 * blocks : 2],
            guarded=guarded,
            guarded_threads=rows[:, [plan.guarded[number] // 8 for number in guarded]],
            accessing=accessing,
            **{name: self._accesses(name) for name in ACCESS_COUNTS},
            divergent_branches=rows[:, plan.divergent // 8],
            longest_warp=rows[:, plan.longest // 8],
        )

    def _accesses(self, name: str) -> Counts:
        """Return [blocks, memory instructions] a counter; one that counts by space is summed over these."""
        rows, code = self.launch_run.counters, self._setting.program.function.instructions
        found = np.zeros((len(rows), len(self._plan.memory)), np.int64)
        places = [self._plan.columns(code[number], number, name) for number in self._plan.memory]
        for turn in range(max(map(len, places), default=0)):
            columns = [column for column, each in enumerate(places) if len(each) > turn]
            found[:, columns] += rows[:, [places[column][turn] for column in columns]]
        return found

    def _executions(self, numbers: list[int]) -> int:
        blocks, guarded = self._setting.program.cfg.blocks, self._plan.guarded
        own = [guarded[n] for n in numbers if n in guarded]
        others = [n for n in numbers if n not in guarded]
        within = [b for b, block in enumerate(blocks) if any(block.start <= n < block.stop for n in others)]
        columns = [place // 8 for place in (*own, *(CounterPlan.of_block(b) for b in within))]
        return int(self.launch_run.counters[:, columns].sum())


class _Identity:
    """A program as a key: only the same object is equal."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.program is self.program

    def __hash__(self) -> int:
        return id(self.program)


@lru_cache(maxsize=32)
def _compiled(program: _Identity) -> Compiled:
    return compile_program(program.program)


@lru_cache(maxsize=32)
def _workers(program: _Identity, buffers: frozenset[str]) -> int:
    return worker_count(program.program, buffers)
