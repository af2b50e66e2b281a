"""The reference engine: PTX interpreted over NumPy arrays of threads, a batch of blocks in lockstep.

Plain on purpose: it is the oracle that faster engines are held against. Warps diverge and meet again at immediate
post-dominators; a barrier counts whole warps, as hardware did before Volta, so that a warp whose lanes have gone
different ways still arrives; warps of a batch advance in the order of the text. Racing accesses have one of their
legal outcomes.
"""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kerncast.errors import BudgetExceededError, KernelFault
from kerncast.execute import bits, convert, crosslane  # noqa: F401  bits and convert register their instructions
from kerncast.execute.arena import GLOBAL_BASE, LOCAL_WINDOW, SHARED_WINDOW, Arena, window_of
from kerncast.execute.arithmetic import ARITHMETIC
from kerncast.execute.budget import Budget
from kerncast.execute.layout import Program
from kerncast.execute.memory import Memory
from kerncast.execute.tally import Tally
from kerncast.execute.threads import WARP_LANES, Threads, guard_of
from kerncast.execute.warps import WarpStacks
from kerncast.launch import Launch
from kerncast.ptx.module import Instruction, Vector

Index = npt.NDArray[np.intp]

_NOTHING = frozenset(
    {"membar", "fence", "nanosleep", "prefetch", "prefetchu", "pmevent", "branchtargets", "bra", "brx", "ret", "exit"}
)


class Batch:
    """Some blocks of one launch, run together from start to end."""

    def __init__(self, program: Program, launch: Launch, arena: Arena, parameters: bytes, budget: Budget) -> None:
        self.program = program
        self.launch = launch
        self.arena = arena
        self.parameters = parameters
        self.budget = budget

    def run(self, block_ids: npt.NDArray[np.int64], tally: Tally, deadline: float) -> None:
        """Run these blocks and add what happened to the tally."""
        self.threads = Threads(self.program, self.launch, block_ids, self.arena)
        self.memory = Memory(self.threads, self.arena, self.parameters, self.budget.memory_bytes)
        self.stacks = WarpStacks(self.threads.exist, self.program.cfg)
        self.tally = tally
        tally.start(self.threads)
        self.barrier = np.full(self.threads.warps, -1, np.int64)
        self.barrier_threads = np.zeros(self.threads.warps, np.int64)
        with np.errstate(all="ignore"):
            for step in range(self.budget.block_steps + 1):
                ready = np.flatnonzero((self.barrier < 0) & ~self.stacks.ended)
                if not len(ready):
                    if self.stacks.ended.all():
                        return
                    self._release_barriers()
                    continue
                here = int(self.stacks.current[ready].min())
                if step == self.budget.block_steps or (step % 64 == 0 and time.monotonic() > deadline):
                    raise self._endless(here)
                self._run_block(here, ready[self.stacks.current[ready] == here])

    def _run_block(self, here: int, warps: Index) -> None:
        block = self.program.cfg.blocks[here]
        code = self.program.function.instructions
        lanes = self.stacks.active(warps)
        active = (warps[:, None] * WARP_LANES + np.arange(WARP_LANES))[lanes]
        self.tally.enter(block.start, block.stop, active)
        for number in range(block.start, block.stop):
            ins = code[number]
            self.threads.clock += 1
            executing = active
            guard = guard_of(ins)
            if guard is not None and ins.root not in {"bra", "ret", "exit"}:
                executing = active[np.broadcast_to(self.threads.value(guard, "pred", active), active.shape)]
                self.tally.guarded(number, executing)
            if len(executing):
                self._execute(number, ins, executing)
        self._leave(here, warps, lanes, active)

    def _execute(self, number: int, ins: Instruction, active: Index) -> None:
        root = ins.root
        if root in ARITHMETIC:
            self._arithmetic(ins, active)
        elif root in {"ld", "ldu"}:
            self.tally.memory(number, root, active, self.memory.load(ins, active))
        elif root == "st":
            self.tally.memory(number, root, active, self.memory.store(ins, active))
        elif root in {"atom", "red"}:
            self.tally.memory(number, root, active, self.memory.atomic(ins, active))
        elif root in _CROSS_LANE:
            _CROSS_LANE[root](self.threads, ins, active)
        elif root in _OTHERS:
            _OTHERS[root](self, ins, active)
        elif root not in _NOTHING:
            raise AssertionError(f"{ins.name} passed the check of supported instructions")

    def _arithmetic(self, ins: Instruction, active: Index) -> None:
        if ins.root == "setp":
            self._set_predicate(ins, active)
            return

        def source(position: int, type_name: str | None = None) -> npt.NDArray[np.generic]:
            return self.threads.value(ins.operands[1 + position], type_name or ins.type, active)

        result = ARITHMETIC[ins.root](ins, source)
        if ins.root == "set":
            is_float = ins.types[0] == "f32"
            result = result.astype(np.float32) if is_float else np.where(result, np.uint32(0xFFFFFFFF), np.uint32(0))
        self.threads.write(ins.operands[0], np.broadcast_to(result, active.shape), active)

    def _set_predicate(self, ins: Instruction, active: Index) -> None:
        combine = next((m for m in ins.modifiers if m in {"and", "or", "xor"}), None)
        second = len(ins.operands) - 3 - (combine is not None)  # 1 when p|q gives two results
        operands = ins.operands[1 + second :]

        def source(position: int, type_name: str | None = None) -> npt.NDArray[np.generic]:
            return self.threads.value(operands[position], type_name or ins.type, active)

        result = ARITHMETIC["setp"](ins, source)
        opposite = ~result
        if combine is not None:
            other = source(2, "pred")
            operation = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[combine]
            result, opposite = operation(result, other), operation(opposite, other)
        self.threads.write(ins.operands[0], np.broadcast_to(result, active.shape), active)
        if second:
            self.threads.write(ins.operands[1], np.broadcast_to(opposite, active.shape), active)

    def move(self, ins: Instruction, active: Index) -> None:
        target, source = ins.operands
        value = self.threads.value
        if isinstance(source, Vector):  # pack
            bits_each = _type_bits(ins) // len(source.elements)
            packed = np.zeros(len(active), np.uint64)
            for position, element in enumerate(source.elements):
                part = value(element, f"b{bits_each}", active).astype(np.uint64)
                packed |= part << np.uint64(position * bits_each)
            self.threads.write(target, packed.astype(f"u{_type_bits(ins) // 8}"), active)
        elif isinstance(target, Vector):  # unpack
            bits_each = _type_bits(ins) // len(target.elements)
            whole = np.broadcast_to(value(source, ins.type, active), active.shape)
            whole = np.ascontiguousarray(whole).view(f"u{_type_bits(ins) // 8}").astype(np.uint64)
            for position, element in enumerate(target.elements):
                part = whole >> np.uint64(position * bits_each)
                self.threads.write(element, part.astype(f"u{bits_each // 8}"), active)
        else:
            self.threads.write(target, np.broadcast_to(value(source, ins.type, active), active.shape), active)

    def convert_address(self, ins: Instruction, active: Index) -> None:
        base = np.uint64({"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(ins.space, 0))
        address = self.threads.value(ins.operands[1], "u64", active)
        moved = address - base if "to" in ins.modifiers else address + base
        self.threads.write(ins.operands[0], np.broadcast_to(moved, active.shape), active)

    def is_space(self, ins: Instruction, active: Index) -> None:
        address = np.broadcast_to(self.threads.value(ins.operands[1], "u64", active), active.shape)
        kinds = window_of(address)
        wanted = {"shared": 1, "local": 2}.get(ins.space, 0)
        result = (kinds == wanted) & ((wanted != 0) | (address >= np.uint64(GLOBAL_BASE)))
        self.threads.write(ins.operands[0], result, active)

    def arrive(self, ins: Instruction, active: Index) -> None:
        """Note at which barrier these warps wait; they do so when the block of instructions has ended."""
        if "warp" in ins.modifiers:
            return
        warps = np.unique(self.threads.warp[active])
        first = np.searchsorted(self.threads.warp[active], warps)
        identifier = np.broadcast_to(self.threads.value(ins.operands[0], "u32", active), active.shape)[first]
        expected = np.zeros(len(warps), np.int64)
        if len(ins.operands) > 1:
            expected = np.broadcast_to(self.threads.value(ins.operands[1], "u32", active), active.shape)[first]
        if "arrive" in ins.modifiers:
            raise KernelFault("bar.arrive is not supported", where=str(ins.location))
        self.barrier[warps] = identifier
        self.barrier_threads[warps] = expected

    def trap(self, ins: Instruction, active: Index) -> None:
        failed = "an assertion failed" if ins.root == "call" else "the kernel traps"
        raise KernelFault(
            f"{failed} in {self.threads.describe(int(active[0]))}",
            where=str(ins.location) if ins.location else self.program.function.name,
            cure="Check the arguments and the launch geometry.",
        )

    def call(self, ins: Instruction, active: Index) -> None:
        if "__assertfail" in ins.modifiers:
            self.trap(ins, active)
        self.tally.printed = True  # the text is dropped, and the result of printf stays zero

    def _leave(self, here: int, warps: Index, lanes: npt.NDArray[np.bool_], active: Index) -> None:
        """Send the warps to the blocks that follow."""
        block = self.program.cfg.blocks[here]
        last = self.program.function.instructions[block.stop - 1]
        guard = guard_of(last)
        if len(block.successors) == 1:
            self.stacks.jump(warps, block.successors[0])
        elif last.root == "brx":
            chosen = np.full(lanes.shape, -1, np.int64)
            chosen[lanes] = np.broadcast_to(self.threads.value(last.operands[0], "u32", active), active.shape)
            sides: dict[int, npt.NDArray[np.bool_]] = {}
            for position, target in enumerate(block.successors):
                sides[target] = sides.get(target, np.zeros_like(lanes)) | (lanes & (chosen == position))
            self.tally.divergent(self.stacks.branch(warps, here, list(sides.items())))
        else:
            assert guard is not None
            taken = np.zeros_like(lanes)
            taken[lanes] = np.broadcast_to(self.threads.value(guard, "pred", active), active.shape)
            target, following = block.successors
            self.tally.divergent(self.stacks.branch(warps, here, [(following, lanes & ~taken), (target, taken)]))

    def _release_barriers(self) -> None:
        """Let warps go on whose barrier is complete; raises KernelFault when none is."""
        per_block = self.threads.warps_per_block
        waiting = self.barrier.reshape(-1, per_block)
        alive = ~self.stacks.ended.reshape(-1, per_block)
        released = False
        for row in np.flatnonzero(alive.any(axis=1)):
            for identifier in np.unique(waiting[row][waiting[row] >= 0]):
                here = waiting[row] == identifier
                expected = int(self.barrier_threads.reshape(-1, per_block)[row][here].max())
                enough = (here | ~alive[row]).all() if not expected else here.sum() * WARP_LANES >= expected
                if enough:
                    self.barrier[row * per_block + np.flatnonzero(here)] = -1
                    released = True
        if not released:
            stuck = int(np.flatnonzero(self.barrier >= 0)[0])
            ins = self._instruction_before(int(self.stacks.current[stuck]))
            raise KernelFault(
                f"threads wait at a barrier that the others never reach, such as {self.threads.describe(stuck * 32)}",
                where=str(ins.location) if ins.location else self.program.function.name,
                cure="Let every thread of the block reach the same barrier.",
            )

    def _instruction_before(self, here: int) -> Instruction:
        blocks = self.program.cfg.blocks
        start = blocks[here].start if here < len(blocks) else len(self.program.function.instructions)
        return self.program.function.instructions[max(start - 1, 0)]

    def _endless(self, here: int) -> BudgetExceededError:
        block = self.program.cfg.blocks[here]
        code = self.program.function.instructions[block.start : block.stop]
        location = next((i.location for i in code if i.location), None)
        return BudgetExceededError(
            "the kernel did not end within its budget: an endless loop, or too much work for one block",
            where=str(location) if location else self.program.function.name,
            cure="Check the loop's condition and the arguments, or use a smaller problem.",
        )


def _type_bits(ins: Instruction) -> int:
    return int(ins.type[1:])


_CROSS_LANE: dict[str, Callable[[Threads, Instruction, Index], None]] = {
    "shfl": crosslane.shuffle, "vote": crosslane.vote, "match": crosslane.match, "activemask": crosslane.active_mask,
    "redux": crosslane.reduce_warp,
}  # fmt: skip
_OTHERS: dict[str, Callable[[Batch, Instruction, Index], None]] = {
    "mov": Batch.move, "cvta": Batch.convert_address, "isspacep": Batch.is_space, "bar": Batch.arrive,
    "barrier": Batch.arrive, "trap": Batch.trap, "call": Batch.call,
}  # fmt: skip
