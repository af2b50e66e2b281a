"""Run a sample of a launch's blocks, or all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, KernelFault, MachineLimitError, UnsupportedError
from kerncast.execute.counting import Sums
from kerncast.execute.sampling.sample import Budget, Sampler, nominal_seconds
from kerncast.execute.setup.arena import Touched
from kerncast.execute.setup.dataflow import blocks_are_independent, common_counters
from kerncast.execute.setup.prepare import contents, linked_program, prepare, program_of
from kerncast.execute.setup.state import Engine, Progress, Setting, Turns
from kerncast.launch import NO_CLUSTER, Launch
from kerncast.traces import BlockCounts, Footprint, Trace, telling_accesses


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters in global memory that tell warps how many came before them, of all blocks."""

    turns: Mapping[int, Turns] = field(default_factory=dict)
    """who asks each of them; empty where that is not known"""
    queues: frozenset[int] = frozenset()
    """those from which blocks take their work"""
    decide_nothing: bool = False
    """whether their numbers change nothing of what two blocks do, and nothing else tells of other blocks"""
    is_affordable: bool = True
    """whether the whole grid can be run, by what these two do where all take turns"""

    @property
    def queue(self) -> Mapping[int, Turns]:
        """Who takes work from each queue."""
        return {counter: each for counter, each in self.turns.items() if counter in self.queues}

    @property
    def share_work(self) -> bool | None:
        """Whether blocks find their work by what others have done; None where that is not known."""
        return True if self.queues else False if self.decide_nothing else None


@dataclass(frozen=True, slots=True)
class Executed:
    """A launch in memory, after its sample of blocks has run."""

    kernel: CompiledKernel
    setting: Setting
    trace: Trace
    sampler: Sampler
    is_independent: bool
    """whether no block may read what another one writes, so that blocks can run again on the same memory"""
    counters: "Counters"
    """counters of the whole grid, and what their numbers decide"""

    @property
    def nominal_seconds(self) -> float:
        """Nominal seconds that running the whole grid would cost."""
        return self.sampler.scale(nominal_seconds(self.trace.counts, self.trace.cfg.lengths)).value

    def fresh(self) -> Setting:
        """Return a setting in which blocks can run as if none had run before, with nothing touched."""
        setting = self.setting
        if not self.is_independent:
            return replace(prepare(self.kernel, setting.launch, setting.budget), turns=setting.turns)
        return replace(setting, touched=Touched(setting.arena, setting.touched.nbytes))


#: A portion is at most as large as all before it and, by its cost, this part of the budget. The footprint is noted
#: after each; the counts are looked at whenever there are twice as many.
_PORTIONS = 8
#: A sample ends when half the 95 % interval of each main count is below this part of it,
_PRECISE = 0.01
#: but not before so many blocks have run: work that one block in 1000 does is missed by 1024 blocks in 36 cases of 100
#: and by 4096 in 1 or 2, and a sample that has missed it looks precise.
_LEAST_BLOCKS = 4096
#: Of the memory budget, what the sample may touch: the blocks that a simulation asks for have the rest.
_TOUCHED = 0.5
#: The counts of more blocks take more memory than they are worth.
_MOST_BLOCKS = 2**17


class Portions:
    """The blocks that have run so far."""

    def __init__(self, engine: Engine, setting: Setting, progress: Progress | None, *, is_whole: bool = False) -> None:
        self.sampler = Sampler(setting.launch.grid, setting.launch.cluster or NO_CLUSTER)
        self.footprints: list[Footprint] = []
        self._engine = engine
        self._setting = setting
        self._budget = setting.budget
        self._is_whole = is_whole or setting.budget.is_whole_grid
        self._progress = progress

    def run(self) -> None:
        """Run blocks; how many is in ``sampler``."""
        if self._setting.launch.cooperative:  # no block ends before all have begun
            self._engine.check_room(self.sampler.blocks)
            self._run(self.sampler.extend(self.sampler.blocks), self.sampler.blocks)
            return
        if self._is_whole:
            self._engine.check_room(self.sampler.blocks)
        self._run(self.sampler.pilot(), len(self.sampler.chosen))
        looked_at, (wanted, most) = len(self.sampler.chosen), self._plan()
        while (done := len(self.sampler.chosen)) < wanted:
            self._run(self.sampler.extend(min(wanted, done + min(done, most))), wanted)
            if len(self.sampler.chosen) >= 2 * looked_at:
                looked_at, (wanted, most) = len(self.sampler.chosen), self._plan()

    def _run(self, blocks: list[int], total: int) -> None:
        told = self._progress
        self._engine.run(blocks, (lambda finished: told(finished, total)) if told else None)
        self.footprints.append(self._setting.touched.footprint(len(self.sampler.chosen)))

    def _plan(self) -> tuple[int, int]:
        """Return how many blocks are to have run in the end, and the most in a portion, by what is known so far."""
        done, grid, budget = len(self.sampler.chosen), self.sampler.blocks, self._budget
        if done == grid or self._is_whole:
            return grid, grid
        counts = self._engine.counts()
        costs = self._engine.slowness * nominal_seconds(counts, self._setting.program.cfg.lengths)
        mean = self.sampler.scale(costs).value / grid
        left = max(0.0, budget.sample_seconds - float(costs.sum()))
        touching = self._setting.touched.blocks_within(int(_TOUCHED * budget.memory_bytes), done)
        wanted = self._with_room(max(done, int(min(done + int(left / mean), grid, _MOST_BLOCKS, touching))))
        is_enough = wanted < grid and done >= _LEAST_BLOCKS and self._is_precise(counts)
        return done if is_enough else wanted, max(1, int(budget.sample_seconds / _PORTIONS / mean))

    def _with_room(self, blocks: int) -> int:
        """Return how many of so many blocks have counts that fit into memory."""
        while blocks > len(self.sampler.chosen):
            try:
                self._engine.check_room(blocks)
            except BudgetExceededError:
                blocks //= 2
            else:
                break
        return blocks

    def _is_precise(self, counts: BlockCounts) -> bool:
        """Return whether the intervals are small of all that models make times from.

        Rare events such as divergent branches are not asked for by themselves: what they cost is in these counts.
        """
        program = self._setting.program
        sums = Sums(program.function.instructions, program.cfg, counts)
        memory = (counts.sectors, counts.shared_wavefronts, counts.local_sectors, counts.contention)
        columns = [sums.warps(sums.every), sums.threads(sums.every), sums.threads(sums.flops)]
        columns += [each.sum(axis=1, keepdims=True, dtype=np.float64) for each in memory]
        scaled = self.sampler.scale_columns(np.hstack(columns))
        return all(count.high - count.low <= 2 * _PRECISE * count.value for count in scaled)


INTERPRETED = Caveat(CaveatKind.INTERPRETED)
#: What the parameters of a kernel may take (CUDA C++ Programming Guide 12.9, section 10.5.10.3).
_PARAMETER_BYTES = 32_764

EngineName = Literal["native", "reference", "late"]


def execute(
    kernel: CompiledKernel,
    launch: Launch,
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    engine: EngineName = "native",
) -> tuple[Trace, Sampler]:
    """Execute a kernel's PTX on the CPU and return what happened in the blocks that ran.

    ``engine`` is native (compiled code), reference (interpreted over NumPy arrays, slower and plainer), or late: the
    reference, which copies asynchronously when that is waited for, so that a read before is a KernelFault.
    Raises LaunchError for arguments that do not fit, UnsupportedError for an instruction that is not covered,
    KernelFault for a kernel that misbehaves and BudgetExceededError for one that does not end.
    """
    executed = run_launch(kernel, launch, budget, progress, engine)
    return executed.trace, executed.sampler


def run_launch(
    kernel: CompiledKernel,
    launch: Launch,
    budget: Budget | None = None,
    progress: Progress | None = None,
    engine: EngineName = "native",
) -> Executed:
    """Execute as ``execute`` does, and keep what is needed to run further blocks."""
    try:
        _check_parameters(kernel)
        counters = _counters_of(kernel, launch, budget or Budget()) if engine == "native" else Counters()
        return _run(kernel, prepare(kernel, launch, budget or Budget()), progress, engine, counters)
    except BudgetExceededError as refusal:
        if refusal.where is not None:
            raise
        raise type(refusal)(refusal.what, where=launch.label, cure=refusal.cure) from None
    except MemoryError:
        cure = "Use a smaller problem, or a machine with more memory."
        raise MachineLimitError("the launch needs more memory than is free", where=launch.label, cure=cure) from None


def _run(
    kernel: CompiledKernel, setting: Setting, progress: Progress | None, engine: EngineName, counters: Counters
) -> Executed:
    if counters.queues and not counters.is_affordable:
        try:
            found = _executed(kernel, replace(setting, turns=counters.queue), progress, engine)
        except KernelFault:  # it is no queue: who asks first has what the counter says
            counters, setting = Counters(), prepare(kernel, setting.launch, setting.budget)
        else:
            return replace(found, counters=counters)
    found = _executed(kernel, setting, progress, engine, is_whole=bool(counters.queues))
    return replace(found, counters=counters)


def _executed(
    kernel: CompiledKernel, setting: Setting, progress: Progress | None, engine: EngineName, *, is_whole: bool = False
) -> Executed:
    is_late = engine == "late"
    runner, doubts = _fast_engine(setting) if engine == "native" else (_plain_engine(setting, is_late=is_late), ())
    portions = Portions(runner, setting, progress, is_whole=is_whole)
    portions.run()
    trace = Trace(
        function=setting.program.function,
        cfg=setting.program.cfg,
        block_ids=np.array(portions.sampler.chosen, np.int64),
        counts=runner.counts(),
        footprints=tuple(portions.footprints),
        allocations=setting.arena.allocations,
        memory=contents(setting),
        remarks=(*doubts, *setting.remarks, *runner.remarks),
        printed=runner.printed,
        in_turn=bool(setting.turns),
    )
    independent = blocks_are_independent(setting.program, setting.buffers)
    return Executed(kernel, setting, trace, portions.sampler, independent, Counters())


def _check_parameters(kernel: CompiledKernel) -> None:
    """Refuse more parameters than CUDA takes, before numbers of that size are made of the arguments."""
    nbytes = linked_program(kernel.ptx, kernel.mangled).parameter_bytes
    if nbytes > _PARAMETER_BYTES:
        raise UnsupportedError(f"{nbytes} bytes of parameters are over the {_PARAMETER_BYTES} that CUDA allows")


def _fast_engine(setting: Setting) -> tuple[Engine, tuple[Caveat, ...]]:
    """Return the native engine; of a kernel that LLVM would take minutes for, the reference engine and a remark."""
    from kerncast.execute.native import NativeEngine, TooLargeError  # noqa: PLC0415  LLVM takes time to load

    try:
        return NativeEngine(setting), ()
    except TooLargeError:
        return _plain_engine(setting), (INTERPRETED,)


def _plain_engine(setting: Setting, *, is_late: bool = False) -> Engine:
    from kerncast.execute.reference import ReferenceEngine  # noqa: PLC0415  few launches need it

    return ReferenceEngine(setting, is_late=is_late)


# Queues: blocks that take their work from a counter in global memory, which moves on with each piece.
#
# Of a sample the first blocks would take what is meant for the whole grid. Where the grid is too much to be run, each
# warp that asks gets the numbers that fall to it where all take turns, and the counter stays as it is.


#: Turns after which nothing is left in any queue.
_FAR_BEYOND = 2**24
#: Blocks do less than this part of their work where nothing is left in their queue; all of it where it is none.
_LESS = 0.95
#: Loop iterations for a block that finds nothing, beyond those of one that does.
_MORE_STEPS = 100_000


def _counters_of(kernel: CompiledKernel, launch: Launch, budget: Budget) -> Counters:
    """Return the counters of a launch; queues are those by which two blocks do less when many had their turns.

    Fails when: places of results lie out of bounds by then, so that nothing is known of their counter; other warps ask
    in other blocks.
    """
    from kerncast.execute.native import TooLargeError  # noqa: PLC0415  LLVM takes time to load

    program = program_of(kernel, launch)
    atomics = common_counters(program)
    if launch.cooperative or launch.blocks == 1 or not atomics:
        return Counters()
    setting = prepare(kernel, launch, budget)
    if setting.launch.cluster_blocks > 1:
        return Counters()
    all_warps = Turns((1 << launch.warps_per_block) - 1, launch.blocks)
    try:
        asked = _trial(setting, dict.fromkeys(atomics.values(), all_warps)).asked
        turns = {counter: replace(all_warps, warps=warps) for counter, warps in enumerate(asked) if warps}
        share = _trial(setting, turns)
    except (KernelFault, BudgetExceededError, TooLargeError):
        return Counters()
    left = {counter: _left(setting, turns, counter, share) for counter in turns}
    queues = frozenset(counter for counter, part in left.items() if part is not None and part < _LESS)
    is_known = left.keys() == set(atomics.values()) and None not in left.values()
    decide_nothing = is_known and not queues and telling_accesses(program.function) <= atomics.keys()
    return Counters(turns, queues, decide_nothing, share.seconds * launch.blocks <= budget.sample_seconds)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What two blocks of a grid do, the first one and that in the middle."""

    seconds: float
    """nominal seconds, in the mean"""
    steps: int
    """basic blocks that their warps enter"""
    asked: list[int]
    """warps that ask each counter of the whole grid, as bits"""


def _left(setting: Setting, turns: Mapping[int, Turns], counter: int, share: _Trial) -> float | None:
    """Return the part of their share that two blocks do when a counter is far beyond; None where they fail then."""
    shorter = replace(setting, budget=replace(setting.budget, block_steps=_MORE_STEPS + share.steps))
    try:
        rest = _trial(shorter, {**turns, counter: replace(turns[counter], first=_FAR_BEYOND)})
    except (KernelFault, BudgetExceededError):
        return None
    return rest.seconds / share.seconds


def _trial(setting: Setting, turns: Mapping[int, Turns]) -> _Trial:
    from kerncast.execute.native import NativeEngine  # noqa: PLC0415  LLVM takes time to load

    engine = NativeEngine(replace(setting, turns=turns))
    # Not the last one, which may do what is left to the block that asks last.
    engine.run([0] if setting.launch.blocks < 3 else [0, (setting.launch.blocks - 1) // 2], None)
    counts = engine.counts()
    seconds = nominal_seconds(counts, setting.program.cfg.lengths).mean()
    return _Trial(float(seconds), int(counts.block_warps.sum()), engine.asked)
