"""The reference engine: PTX interpreted over NumPy arrays of threads, a batch of blocks in lockstep.

Plain on purpose: it is the oracle that faster engines are held against. The warps of a batch that stand at the first
place in the order of the control-flow graph run it together. Racing accesses have one of their legal outcomes.
"""

import time
from collections.abc import Callable
from dataclasses import fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kerncast.caveats import Caveat
from kerncast.errors import AssertionFailed, BudgetExceededError, KernelFault
from kerncast.execute.reference import arithmetic, bits, compare, crosslane, group_products, matrix_products
from kerncast.execute.reference.arithmetic import ARITHMETIC
from kerncast.execute.reference.barriers import Barriers, ClusterBarrier, Mbarriers
from kerncast.execute.reference.crosslane import WarpPlaces
from kerncast.execute.reference.late_copies import LateCopies
from kerncast.execute.reference.memory import Memory
from kerncast.execute.reference.tally import Tally
from kerncast.execute.reference.tensor_memory import TensorMemory
from kerncast.execute.reference.threads import WARP_LANES, Index, Threads
from kerncast.execute.sampling.sample import Budget, endless, runaway
from kerncast.execute.setup.arena import Arena
from kerncast.execute.setup.layout import Program
from kerncast.execute.setup.state import Console, Report, Setting, doubt_about, remark_on
from kerncast.execute.setup.supported import uses_tensor_memory
from kerncast.launch import Launch
from kerncast.ptx import Flow, Instruction, Trait, access_and_tell, waiting_loops
from kerncast.traces import BlockCounts

Lanes = npt.NDArray[np.bool_]

#: What ends the kernel, or calls a function of the driver: printf, or that for assertions that fail.
_STOPS = frozenset({Flow.TRAP, Flow.BREAKPOINT, Flow.CALL})
#: A warp that has not run for so many steps goes first, so that others which wait for it in a loop go on.
_PATIENCE_STEPS = 256
#: Rounds in which all warps ask mbarriers in vain before it is a dead lock: a kernel may watch a clock.
_SILENT_ROUNDS = 1000

#: These modules register their instructions when they are imported.
_REGISTERED = (arithmetic, bits, compare)


class Batch:
    """Some blocks of one launch, run together from start to end."""

    def __init__(self, program: Program, launch: Launch, arena: Arena, parameters: bytes, budget: Budget) -> None:
        self.program = program
        self.launch = launch
        self.arena = arena
        self.parameters = parameters
        self.budget = budget
        self.console = Console(program, arena)
        self.is_late = False
        """whether asynchronous copies are done when they are waited for, and not where they are issued"""
        self._waiting = waiting_loops(program.function, program.cfg)

    def run(self, block_ids: npt.NDArray[np.int64], tally: Tally, deadline: float) -> None:
        """Run these blocks and add what happened to the tally."""
        self.threads = Threads(self.program, self.launch, block_ids)
        self.memory = Memory(self.threads, self.arena, self.parameters, self.budget.memory_bytes)
        self._tensor_memory = TensorMemory(self.memory, is_used=uses_tensor_memory(self.program.function))
        self.places = WarpPlaces(self.threads.exist, self.program.cfg.order)
        self.barriers = Barriers(self.threads)
        self.cluster_barrier = ClusterBarrier(self.threads)
        if self.is_late:
            self.memory.late = LateCopies(self.threads, self.arena.data, self.memory.shared)
        self.memory.departed = self._departed
        self.memory.doubt = lambda ins: tally.remark(doubt_about(ins))
        self.mbarriers = Mbarriers(self.threads, self.memory)
        self._silent = self._changes = 0
        self.tally = tally
        self.deadline = deadline
        tally.start(self.threads)
        last_run = np.zeros(self.threads.warps, np.int64)
        with np.errstate(all="ignore"):
            for step in range(self.budget.block_steps + 1):
                waiting = self.barriers.waiting | self.cluster_barrier.waiting
                if self.cluster_barrier.waiting.any() and self.cluster_barrier.release(self.places.alive):
                    continue
                able = (self.places.current < self.places.end) & ~waiting
                ready = np.flatnonzero(able & ~self.mbarriers.spun)
                if not len(ready):
                    if self.places.ended.all():
                        tally.end()
                        self._tensor_memory.end()
                        return
                    self._release(able)
                    continue
                if step % _PATIENCE_STEPS == 0:  # who waits in a loop may wait for those behind a barrier
                    self.barriers.release(self.places.ended)
                place = self._next_place(ready, step - last_run[ready])
                if step == self.budget.block_steps:
                    raise self._endless(place)
                warps = ready[self.places.current[ready] == place]
                last_run[warps] = step
                self._visit(place, warps)

    def _next_place(self, ready: Index, waited: npt.NDArray[np.int64]) -> int:
        """Return the first place where a warp stands, or that of the warp which has waited too long."""
        longest = int(waited.argmax())
        current = self.places.current[ready]
        return int(current[longest] if waited[longest] > _PATIENCE_STEPS else current.min())

    def _visit(self, place: int, warps: Index) -> None:
        """Run what stands at a place for these warps, and send them on."""
        order = self.program.cfg.order
        lanes = self.places.standing_at(place, warps)
        here = order.block_at[place]
        active = (warps[:, None] * WARP_LANES + np.arange(WARP_LANES))[lanes]
        if order.is_turn[place]:
            self.places.go(warps, lanes, order.place_of[here])
            if place in self._waiting:
                self.tally.take_back(self._waiting[place], active)
            return
        self._run_block(here, warps, active)
        self._leave(here, warps, lanes, active)

    def _run_block(self, here: int, warps: Index, active: Index) -> None:
        block = self.program.cfg.blocks[here]
        code = self.program.function.instructions
        self.tally.enter(block.start, warps, active)
        for blocks in self._waiting.values():
            self.tally.walk(blocks, here, active)
        for number in range(block.start, block.stop):
            if time.monotonic() > self.deadline:
                raise runaway(self.budget.seconds, code[number].where or self.program.function.name)
            ins = code[number]
            self.threads.clock += 1
            executing = active
            if ins.condition is not None and not ins.is_jump:
                executing = active[self.threads.values(ins.condition, "pred", active)]
                self.tally.guard(number, executing)
            if len(executing):
                self._execute(number, ins, executing)
                if self.memory.late:
                    self.memory.late.go_on(ins, executing)

    def _execute(self, number: int, ins: Instruction, active: Index) -> None:
        root = ins.opcode.name
        if bits.uses_carry(ins):
            bits.compute(self.threads, ins, active)
        elif root in ARITHMETIC:
            compare.compute(self.threads, ins, active)
        elif ins.opcode.access is not None or ins.opcode.has(Trait.TENSOR_MEMORY):
            self._access(number, ins, active)
        elif ins.opcode.has(Trait.CROSS_LANE):
            self._exchange(ins, active)
        elif root in _MOVES:
            _MOVES[root](self.threads, ins, active)
        elif ins.is_barrier or root == "barrier.cluster.arrive":
            self._meet(ins, active)
        elif ins.opcode.has(Trait.MEET):
            self.tally.wait(self.barriers.meet(ins, active))
        elif ins.opcode.has(Trait.PHASE):
            self._tell(ins, active)
        elif ins.opcode.flow in _STOPS:
            self._trap(ins, active)
        else:
            assert ins.is_jump or ins.opcode.has(Trait.INERT), f"{ins.name} passed the check of supported instructions"

    def _tell(self, ins: Instruction, active: Index) -> None:
        """Run an instruction on mbarriers."""
        if self.memory.late and ins.root == "cp":
            self.memory.late.finish(active)
        if remark := remark_on(ins):
            self.tally.remark(remark)
        self.mbarriers.run(ins, active)
        if not ins.opcode.has(Trait.WAIT):  # lanes that let others go first may have waited for this
            self.places.defer_none()

    def _access(self, number: int, ins: Instruction, active: Index) -> None:
        if ins.opcode.has(Trait.BULK):
            self.tally.bulk(number, ins, self.memory.bulk(ins, active, self.mbarriers.complete))
            self.places.defer_none()
            return
        if ins.opcode.has(Trait.PHASE):  # done at once, and an mbarrier is told of it
            access, tell = access_and_tell(ins)
            self.tally.memory(number, ins, self.memory.access(access, active))
            self._tell(tell, active)
            return
        is_tensor = ins.opcode.has(Trait.TENSOR_MEMORY)
        parts = self._tensor_memory.run(ins, active) if is_tensor else self.memory.access(ins, active)
        if ins.opcode.access is not None:  # what allocates tensor memory stores an address
            self.tally.memory(number, ins, parts)

    def _exchange(self, ins: Instruction, active: Index) -> None:
        if crosslane.absent(self.threads, ins, active, self.places.alive):
            self.tally.remark(doubt_about(ins))
        if ins.opcode.has(Trait.DESCRIBED):
            group_products.multiply(self.memory, ins, active)
        else:
            _CROSS_LANE[ins.opcode.name](self.threads, ins, active)

    def _meet(self, ins: Instruction, active: Index) -> None:
        """Run a barrier; that of a warp is run where its block ends."""
        if ins.is_cluster_barrier:
            self.tally.wait(self.cluster_barrier.wait(ins, active))
        elif not ins.is_barrier:
            self.cluster_barrier.arrive(ins, active)
        elif "warp" not in ins.modifiers:
            if self.places.deferring(self.threads.warp[active]).any():
                raise self.mbarriers.stuck()
            self.tally.wait(self.barriers.arrive(ins, active))

    def _trap(self, ins: Instruction, active: Index) -> None:
        if remark := remark_on(ins):
            self.tally.remark(remark)
            for thread in active.tolist():
                self.console.print(ins, self.memory.private_of(thread))
            return
        kind, failed = (
            (AssertionFailed, "an assertion failed") if ins.root == "call" else (KernelFault, "the kernel traps")
        )
        raise kind(
            f"{failed} in {self.threads.describe(int(active[0]))}",
            where=ins.where or self.program.function.name,
            cure="Check the arguments and the launch geometry.",
        )

    def _leave(self, here: int, warps: Index, lanes: Lanes, active: Index) -> None:
        """Send the warps to the places that follow."""
        block = self.program.cfg.blocks[here]
        last = self.program.function.instructions[block.stop - 1]
        targets = self.program.cfg.order.targets[here]
        if len(targets) == 1:
            self.places.go(warps, lanes, targets[0])
            if last.is_barrier and "warp" in last.modifiers:
                self._park(last, warps, active)
            return
        if last.root == "brx":
            choice = self.threads.values(last.operands[0], "u32", active).astype(np.int64)
            if (choice >= len(targets)).any():
                where = last.where or self.program.function.name
                raise KernelFault("a branch table is used with an index past its end", where=where)
        else:
            assert last.condition is not None
            choice = np.where(self.threads.values(last.condition, "pred", active), 0, 1)
        to = np.full(lanes.shape, self.places.end, np.int32)
        to[lanes] = np.array(targets, np.int32)[choice]
        self.places.go(warps, lanes, to)
        lowest, highest = np.where(lanes, to, self.places.end + 1).min(axis=1), np.where(lanes, to, -1).max(axis=1)
        self.tally.divergent(warps[lowest != highest])

    def _park(self, ins: Instruction, warps: Index, active: Index) -> None:
        """Let the threads that ran a bar.warp.sync wait for those that it names."""
        if ins.condition is not None:
            active = active[self.threads.values(ins.condition, "pred", active)]
        lanes = np.zeros((self.threads.warps, WARP_LANES), np.bool_)
        masks = np.zeros((self.threads.warps, WARP_LANES), np.uint32)
        lanes.reshape(-1)[active] = True
        masks.reshape(-1)[active] = crosslane.members(self.threads, ins, active)
        self.places.park(warps, lanes[warps], masks[warps])

    def _release(self, able: Lanes) -> None:
        """Let warps go on that wait; raises KernelFault when none can. ``able`` asked mbarriers in vain."""
        everyone = np.arange(self.threads.warps)
        # Lanes that are parked wait for lanes at a barrier, if they cannot go on.
        if self.places.release(everyone) or self.barriers.release(self.places.ended):
            return
        if self.cluster_barrier.release(self.places.alive):
            return
        if not able.any():
            raise (self.barriers if self.barriers.waiting.any() else self.cluster_barrier).stuck()
        if self.mbarriers.changes == self._changes:
            self._silent += 1
            self.places.defer(self.mbarriers.failing)
        else:
            self._silent, self._changes = 0, self.mbarriers.changes
            self.places.defer_none()
        if self._silent > _SILENT_ROUNDS:
            raise self.mbarriers.stuck()
        self.mbarriers.spun[:] = False

    def _departed(self, rows: Index) -> Lanes:
        """Return which of some blocks, by their position in the batch, have ended."""
        ended = np.asarray(self.places.ended.reshape(self.threads.blocks, -1).all(axis=1))
        return np.asarray(ended[rows], np.bool_)

    def _endless(self, place: int) -> BudgetExceededError:
        block = self.program.cfg.blocks[self.program.cfg.order.block_at[place]]
        code = self.program.function.instructions[block.start : block.stop]
        where = next((i.where for i in code if i.where), self.program.function.name)
        return endless(f"within {self.budget.block_steps} steps", where)


_CROSS_LANE: dict[str, Callable[[Threads, Instruction, Index], None]] = {
    "shfl": crosslane.shuffle, "vote": crosslane.vote, "match": crosslane.match, "activemask": crosslane.active_mask,
    "elect": crosslane.elect, "redux": crosslane.reduce_warp, "mma": matrix_products.multiply,
    "mma.sp": matrix_products.multiply, "mma.sp::ordered_metadata": matrix_products.multiply,
    "movmatrix": matrix_products.transpose,
}  # fmt: skip
_MOVES: dict[str, Callable[[Threads, Instruction, Index], None]] = {
    "mov": compare.move, "cvta": compare.convert_address, "isspacep": compare.is_space, "mapa": compare.map_to_rank,
    "getctarank": compare.rank_of_address, "clusterlaunchcontrol.query_cancel": compare.read_answer,
}  # fmt: skip


_BATCH_THREADS = 32_768
_BATCH_MEMORY_BYTES = 256 * 2**20


class ReferenceEngine:
    """Runs lists of blocks in batches of a fitting size."""

    #: Measured: an interpreted step takes 10 to 20 times as long as a step of compiled code.
    slowness: ClassVar[float] = 16.0

    def __init__(self, setting: Setting, tally: Tally | None = None, *, is_late: bool = False) -> None:
        program, launch, budget = setting.program, setting.launch, setting.budget
        self._launch = launch
        self._batch = Batch(program, launch, setting.arena, setting.parameters, budget)
        self._batch.is_late = is_late
        self._tally = tally or Tally(program, setting.touched, budget.memory_bytes)
        self._touched, self._limit_bytes = setting.touched, budget.memory_bytes
        self._seconds = budget.seconds
        self._deadline = time.monotonic() + budget.seconds
        threads = launch.warps_per_block * WARP_LANES
        shared = program.static_shared_bytes + launch.shared_bytes
        per_block = shared + threads * (program.private_bytes + program.register_bytes)
        together, fitting = (
            launch.cluster_blocks,
            min(_BATCH_THREADS // threads, _BATCH_MEMORY_BYTES // max(per_block, 1)),
        )
        self._batch_blocks = launch.blocks if launch.cooperative else together * max(1, fitting // together)

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
            self._touched.check(self._limit_bytes)
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
