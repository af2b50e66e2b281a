"""Run a sample of a launch's blocks, or all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, KernelFault, MachineLimitError, UnsupportedError
from kerncast.execute.counting import Sums
from kerncast.execute.sampling.sample import Budget, Sampler, nominal_seconds
from kerncast.execute.setup.arena import Touched
from kerncast.execute.setup.dataflow import blocks_are_independent, common_counters
from kerncast.execute.setup.layout import Program
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
    """those from which blocks take work until nothing is left"""
    numbers: frozenset[int] = frozenset()
    """those that tell each block which one it is"""
    decide_nothing: bool = False
    """whether their numbers change nothing of what two blocks do, and nothing else tells of other blocks"""
    is_affordable: bool = True
    """whether the whole grid can be run, by what these two do where all take turns"""

    def of(self, kinds: frozenset[int]) -> Mapping[int, Turns]:
        """Return who asks some of the counters."""
        return {counter: each for counter, each in self.turns.items() if counter in kinds}

    @property
    def share_work(self) -> bool | None:
        """Whether blocks find their work by what others have done; None where that is not known."""
        return True if self.queues | self.numbers else False if self.decide_nothing else None


@dataclass(frozen=True, slots=True)
class Executed:
    """A launch in memory, after its sample of blocks has run."""

    kernel: CompiledKernel
    setting: Setting
    trace: Trace
    sampler: Sampler
    is_independent: bool
    """whether no block may read what another one writes, so that blocks can run again on the same memory"""
    counters: Counters
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
    budget = budget or Budget()
    try:
        _check_parameters(kernel)
        counters = _counters_of(kernel, launch, budget) if engine == "native" else Counters()
        return _run(kernel, prepare(kernel, launch, budget), progress, engine, counters)
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
            return _in_turn(kernel, setting, progress, counters)
        except KernelFault:  # it is no queue: who asks first has what the counter says
            counters, setting = Counters(), prepare(kernel, setting.launch, setting.budget)
    found = replace(_executed(kernel, setting, progress, engine, is_whole=bool(counters.queues)), counters=counters)
    all_ask = all(asking_blocks(found, counter) == found.sampler.blocks for counter in counters.numbers)
    return found if all_ask else replace(found, counters=Counters())


def _in_turn(kernel: CompiledKernel, setting: Setting, progress: Progress | None, counters: Counters) -> Executed:
    """Run a sample whose blocks take turns; once more where not all blocks of the grid do."""
    queues = counters.of(counters.queues)
    found = replace(_executed(kernel, replace(setting, turns=queues), progress, "native"), counters=counters)
    asking = {counter: replace(each, blocks=asking_blocks(found, counter)) for counter, each in queues.items()}
    if asking == queues:
        return found
    setting = replace(prepare(kernel, setting.launch, setting.budget), turns=asking)
    return replace(_executed(kernel, setting, progress, "native"), counters=counters)


def asking_blocks(executed: Executed, counter: int) -> int:
    """Return how many blocks of the grid ask a counter, by the sample; at least one."""
    asking = (_asks(executed.trace.counts, executed.setting.linked, counter) > 0).astype(np.float64)
    return max(1, round(executed.sampler.scale(asking).value))


def _asks(counts: BlockCounts, program: Program, counter: int) -> npt.NDArray[np.int64]:
    """Return [n] how often warps of each block asked a counter."""
    atomics = common_counters(program)
    places = [place for place, number in enumerate(counts.accessing) if atomics.get(number) == counter]
    return np.asarray(counts.requests[:, places].sum(axis=1), np.int64)


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


#: How far counters are moved on to see what they decide: nothing is left then in any queue. Odd, as rings have powers
#: of two, and two of them, as one may mean by chance what the counter means now.
_DISTANCES = (2**30 - 35, 2**29 - 3)
#: Blocks do less than this part of their work where nothing is left in their queue.
_LESS = 0.99
#: Loop iterations for the blocks that are tried: those that wait for others do so for ever.
_MOST_STEPS = 10_000_000


def _counters_of(kernel: CompiledKernel, launch: Launch, budget: Budget) -> Counters:
    """Return the counters of a launch, and what they decide.

    Two blocks run with their turns, and once more with each counter far beyond. A queue is one by which they do less
    then, and ask less often. Fails when: other warps ask in other blocks. Nothing is known of counters whose numbers
    lie out of bounds far beyond, or where blocks do other work the second time.
    """
    from kerncast.execute.native import TooLargeError  # noqa: PLC0415  LLVM takes time to load

    atomics = common_counters(program_of(kernel, launch))
    if launch.cooperative or launch.blocks == 1 or not atomics:
        return Counters()
    setting = prepare(kernel, launch, replace(budget, block_steps=min(budget.block_steps, _MOST_STEPS)))
    if setting.launch.cluster_blocks > 1:
        return Counters()
    all_warps = Turns((1 << launch.warps_per_block) - 1, launch.blocks)
    try:
        asked = _trial(setting, dict.fromkeys(atomics.values(), all_warps)).asked
        turns = {counter: replace(all_warps, warps=warps) for counter, warps in enumerate(asked) if warps}
        share = _trial(setting, turns)
        moved = {counter: _moved(setting, turns, counter) for counter in turns}
        is_settled = _trial(setting, turns).entered == share.entered
    except (KernelFault, BudgetExceededError, TooLargeError):
        return Counters()
    if not is_settled:
        return Counters()
    kinds = {counter: _kind(share, trials, counter, turns[counter]) for counter, trials in moved.items()}
    queues, numbers = (frozenset(c for c, kind in kinds.items() if kind == k) for k in ("queue", "number"))
    decide_nothing = kinds.keys() == set(atomics.values()) == {c for c, kind in kinds.items() if kind == "nothing"}
    decide_nothing &= telling_accesses(setting.program.function) <= atomics.keys()
    is_affordable = share.seconds * launch.blocks <= budget.sample_seconds
    return Counters(turns, queues, numbers, decide_nothing, is_affordable)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What two blocks of a grid do, the first one and that in the middle."""

    blocks: int
    seconds: float
    """nominal seconds, in the mean"""
    issued: int
    """instructions of their warps"""
    entered: bytes
    """how often each entered each basic block"""
    asks: Mapping[int, int]
    """how often they asked each counter"""
    asked: list[int]
    """warps that asked each counter, as bits"""


def _kind(
    share: _Trial, moved: Sequence[_Trial] | None, counter: int, turns: Turns
) -> Literal["queue", "number", "nothing", "unknown"]:
    """Return what a counter decides, by what two blocks do with their turns and where it is far beyond."""
    if moved is None:
        return "unknown"
    if all(each.entered == share.entered for each in moved):
        return "nothing"
    if not all(each.issued < _LESS * share.issued for each in moved):
        return "unknown"
    if all(each.asks[counter] < share.asks[counter] for each in moved):
        return "queue"
    asks_once = share.asks[counter] == share.blocks * turns.warps.bit_count()
    return "number" if asks_once else "unknown"


def _moved(setting: Setting, turns: Mapping[int, Turns], counter: int) -> list[_Trial] | None:
    """Return what two blocks do with a counter far beyond; None where they fail then."""
    try:
        return [_trial(setting, {**turns, counter: replace(turns[counter], beyond=far)}) for far in _DISTANCES]
    except (KernelFault, BudgetExceededError):
        return None


def _trial(setting: Setting, turns: Mapping[int, Turns]) -> _Trial:
    from kerncast.execute.native import NativeEngine  # noqa: PLC0415  LLVM takes time to load

    engine, grid = NativeEngine(replace(setting, turns=turns)), setting.launch.blocks
    # Not the last one, which may do what is left to the block that asks last.
    blocks = [0] if grid < 3 else [0, (grid - 1) // 2]
    engine.run(blocks, None)
    counts, lengths = engine.counts(), setting.program.cfg.lengths
    asks = {counter: int(_asks(counts, setting.linked, counter).sum()) for counter in turns}
    issued = int((counts.block_warps @ np.array(lengths, np.int64)).sum())
    seconds = float(nominal_seconds(counts, lengths).mean())
    return _Trial(len(blocks), seconds, issued, counts.block_warps.tobytes(), asks, engine.asked)
