"""The ways of threads through a kernel that is not executed: each basic block as often as known conditions say.

Threads of a batch of blocks go together, the first place in the order of the control-flow graph first, as the reference
engine's do; nobody waits for anybody. Where a condition is unknown, threads go both ways: what lies behind is counted
at most so often, and at least never, until the ways meet. Out of a loop leads a known condition alone: a loop that only
data can end is refused. Loops that wait for what others do end at once.
"""

import numpy as np
import numpy.typing as npt

from kerncast.errors import UnsupportedError
from kerncast.execute.reference.tally import Tally
from kerncast.execute.reference.threads import Index, Threads
from kerncast.execute.setup.dataflow import waiting_blocks
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import Setting
from kerncast.execute.static.known_values import KnownValues, evaluated
from kerncast.execute.static.moved import Moves
from kerncast.ptx import Flow, Instruction, Register, results_of, waiting_loops

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

#: Steps after which the walks of a launch give up: basic blocks, evaluated instructions and accesses. Half a minute or
#: more, as a user waits for a rough answer; not seconds, so that equal launches have equal answers.
MOST_STEPS = 400_000


class NotCountedError(UnsupportedError):
    """A kernel of which the text and the arguments do not tell how often its loops run."""


class Ways:
    """What the control-flow graph says of each branch whose condition is unknown."""

    def __init__(self, program: Program) -> None:
        self.program, self._cfg = program, program.cfg
        self._code = program.function.instructions
        heads = {blocks[0] for blocks in waiting_loops(program.function, program.cfg).values()}
        self._waits = waiting_blocks(program.function, program.cfg) | heads
        self._undecided: dict[int, set[int]] = {}

    def allowed(self, here: int) -> tuple[list[int], bool]:
        """Return the positions of the successors that threads may take, and whether they are sure to.

        Raises NotCountedError for an endless loop.
        """
        following = self._cfg.blocks[here].successors
        open_ways = [n for n, block in enumerate(following) if not self._ends(block)] or list(range(len(following)))
        loops = [number for number, loop in enumerate(self._cfg.loops.loops) if here in loop.body]
        for number in sorted(loops, key=lambda each: -self._cfg.loops.loops[each].depth):
            loop = self._cfg.loops.loops[number]
            staying = [n for n in open_ways if following[n] in loop.body]
            if not staying or len(staying) == len(open_ways):
                continue
            if loop.header in self._waits:
                return [n for n in open_ways if n not in staying], True
            self._undecided.setdefault(number, set()).add(here)
            self._check(number, here)
            open_ways = staying
        return open_ways, False

    def meeting(self, here: int) -> int | None:
        """Return the block where ways that part here meet again; None where that is the end."""
        found = self._cfg.post_dominators.parents[here]
        return None if found is None or found == self._cfg.exit else found

    def _ends(self, block: int) -> bool:
        return block == self._cfg.exit or self._flow(block) in {Flow.TRAP, Flow.LEAVE}

    def _flow(self, block: int) -> Flow | None:
        one = self._cfg.blocks[block]
        last = self._code[one.stop - 1]
        return last.opcode.flow if last.guard is None and one.stop - one.start < _SHORT else None

    def _check(self, number: int, here: int) -> None:
        loop = self._cfg.loops.loops[number]
        known = {b for b, s in loop.exits if not self._ends(s)} - self._undecided[number]
        if not known:
            block = self._cfg.blocks[here]
            where = next((i.where for i in reversed(self._code[block.start : block.stop]) if i.where), None)
            raise NotCountedError("how often a loop runs depends on data", where=where)


#: A block of fewer instructions that leaves does nothing but that.
_SHORT = 3


_NEVER = np.iinfo(np.int64).max


class Walk:
    """One batch of blocks on its way."""

    def __init__(self, setting: Setting, block_ids: Counts, tally: Tally, moves: Moves) -> None:
        self.threads = Threads(setting.program, setting.launch, block_ids)
        self._program, self._tally, self._moves = setting.program, tally, moves
        self._values = KnownValues(setting, self.threads)
        self._ways = Ways(setting.program)
        self._evaluated = evaluated(setting.program.function)
        self._steps = 0
        self._standing: dict[int, Mask] = {}
        self._sure: Mask = self.threads.exist.reshape(-1).copy()
        """threads that are certainly where they stand"""
        self._meeting: dict[int, Mask] = {}
        """threads that are sure again at a place"""
        self._written: dict[str, Counts] = {}
        """step at which a register was last written by threads that may have gone another way; 0 where by none"""
        self._parted: dict[int, Counts] = {}
        """by the place where a way begins, the step at which threads parted there; _NEVER where they did not"""
        self.sure_threads = np.zeros((len(block_ids), len(setting.program.cfg.blocks)), np.int64)
        """[blocks of threads, basic blocks] executions that are certain"""
        self.sure_warps = np.zeros_like(self.sure_threads)

    def run(self, steps: int) -> int:
        """Run all threads to their ends, in so many steps at most; returns those left. Raises NotCountedError."""
        order = self._program.cfg.order
        self._tally.start(self.threads)
        if self._program.cfg.blocks:
            self._standing[order.place_of[0]] = self._sure.copy()
        with np.errstate(all="ignore"):
            while self._standing:
                if self._steps > steps:
                    raise NotCountedError(f"its loops run for more than the {MOST_STEPS} steps that are followed")
                place = min(self._standing)
                if place == order.end:
                    break
                standing = self._standing.pop(place)
                here = order.block_at[place]
                if order.is_turn[place]:
                    self._go(standing, order.place_of[here])
                    continue
                self._begin(place, standing)
                self._arrive(place, standing)
                self._visit(here, np.flatnonzero(standing))
        self._tally.end()
        return steps - self._steps

    def _go(self, threads: Mask, place: int) -> None:
        known = self._standing.get(place)
        self._standing[place] = threads if known is None else known | threads

    def _arrive(self, place: int, standing: Mask) -> None:
        """Make threads sure again whose ways meet here; what they wrote on one of them is unknown."""
        waiting = self._meeting.get(place)
        if waiting is None or not (meeting := waiting & standing).any():
            return
        self._sure |= meeting
        waiting &= ~meeting
        for name, written in self._written.items():
            if (both := (written > 0) & meeting).any():
                self._values.forget(name, both)
                written[both] = 0

    def _begin(self, place: int, standing: Mask) -> None:
        """Forget what threads have written on another way since they parted: there they go a second time."""
        parted = self._parted.get(place)
        if parted is None:
            return
        for name, written in self._written.items():
            if (other := standing & (written > parted)).any():
                self._values.forget(name, other)
        parted[standing] = _NEVER

    def _visit(self, here: int, active: Index) -> None:
        block, code = self._program.cfg.blocks[here], self._program.function.instructions
        self._steps += 1
        warps = np.unique(self.threads.warp[active])
        self._tally.enter(block.start, warps, active)
        sure = active[self._sure[active]]
        self.sure_threads[:, here] += self._per_block(sure)
        self.sure_warps[:, here] += np.bincount(
            np.unique(self.threads.warp[sure]) // self.threads.warps_per_block, minlength=self.threads.blocks
        )
        for number in range(block.start, block.stop):
            self._step(number, code[number], active)
        self._leave(here, code[block.stop - 1], active)

    def _step(self, number: int, ins: Instruction, active: Index) -> None:
        """Count an instruction, and evaluate it where something follows from its result."""
        doubtful = np.zeros(len(active), np.bool_)
        if ins.guard is not None and not ins.is_jump:
            assert ins.condition is not None
            doubtful = self._values.is_unknown([ins.guard], active)
            executing = self.threads.values(ins.condition, "pred", active) | doubtful
            active, doubtful = active[executing], doubtful[executing]
            self._tally.guard(number, active)
        if not len(active):
            return
        if number in self._evaluated:
            self._steps += 1
            self._values.run(ins, active, doubtful)
            unsure = active[~self._sure[active]]
            for register in results_of(ins) if len(unsure) else ():
                self._written.setdefault(register.name, np.zeros(self.threads.count, np.int64))[unsure] = self._steps
        if ins.opcode.access is not None:
            self._steps += 1
            self._moves.count(number, ins, active, self._values)

    def _leave(self, here: int, last: Instruction, active: Index) -> None:
        """Send the threads on."""
        targets = self._program.cfg.order.targets[here]
        if len(targets) == 1:
            self._send(active, targets[0])
            return
        condition = last.operands[0] if last.root == "brx" else last.condition
        assert condition is not None
        choice = (
            self.threads.values(condition, "u32", active).astype(np.int64)
            if last.root == "brx"
            else np.where(self.threads.values(condition, "pred", active), 0, 1)
        )
        register = condition if isinstance(condition, Register) else last.guard
        unknown = self._values.is_unknown([register] if register else [], active)
        for number, place in enumerate(targets):
            self._send(active[~unknown & (choice == number)], place)
        if unknown.any():
            self._part(here, active[unknown])

    def _part(self, here: int, threads: Index) -> None:
        """Send threads all ways that an unknown condition leaves open."""
        targets = self._program.cfg.order.targets[here]
        ways, is_sure = self._ways.allowed(here)
        were_sure = threads[self._sure[threads]]
        self._sure[threads] &= is_sure
        meeting = self._ways.meeting(here)
        if meeting is not None and not is_sure:
            place = self._program.cfg.order.place_of[meeting]
            waiting = self._meeting.setdefault(place, np.zeros(self.threads.count, np.bool_))
            waiting[were_sure] = True
        for number in ways:
            if len(ways) > 1:
                parted = self._parted.setdefault(targets[number], np.full(self.threads.count, _NEVER))
                parted[threads] = np.minimum(parted[threads], self._steps)
            self._send(threads, targets[number])

    def _send(self, threads: Index, place: int) -> None:
        if len(threads) and place != self._program.cfg.order.end:
            mask = np.zeros(self.threads.count, np.bool_)
            mask[threads] = True
            self._go(mask, place)

    def _per_block(self, threads: Index) -> Counts:
        return np.bincount(self.threads.row[threads], minlength=self.threads.blocks)
