"""Where the counters of one block of threads lie: a row of 64-bit numbers that generated code adds to."""

from dataclasses import dataclass

from kerncast.execute.native.memory.access import COUNTERS
from kerncast.execute.native.memory.transfer import GENERIC_COUNTERS
from kerncast.execute.setup.state import is_switched
from kerncast.ptx import ControlFlowGraph, Function, Instruction

_GENERIC_BYTES = 8 * sum(len(names) for names in COUNTERS.values())


@dataclass(frozen=True, slots=True)
class CounterPlan:
    """Offsets in a row of counters, in bytes."""

    guarded: dict[int, int]
    """guarded instruction: its counter of threads"""
    memory: dict[int, int]
    """memory instruction: its first counter"""
    divergent: int
    longest: int
    """instructions of the busiest warp"""
    bytes: int

    @staticmethod
    def of_block(number: int) -> int:
        """Return the offset of a basic block's counters: of warps, then of threads."""
        return 16 * number

    def columns(self, ins: Instruction, number: int, name: str) -> list[int]:
        """Return where in the row a memory instruction has a counter; more than one where it counts by space."""
        start = self.memory[number] // 8
        spaces = COUNTERS if ins.space == "generic" else {ins.space: COUNTERS.get(ins.space, ())}
        offsets = GENERIC_COUNTERS if ins.space == "generic" else {ins.space: 0}
        return [start + offsets[space] // 8 + names.index(name) for space, names in spaces.items() if name in names]


def plan_counters(function: Function, cfg: ControlFlowGraph) -> CounterPlan:
    """Return where the counters of a function lie."""
    position = 16 * len(cfg.blocks)
    guarded, memory = {}, {}
    for number, ins in enumerate(function.instructions):
        if is_switched(ins):
            guarded[number] = position
            position += 8
        if ins.opcode.access is not None:
            memory[number] = position
            position += _GENERIC_BYTES if ins.space == "generic" else 8 * len(COUNTERS.get(ins.space, ()))
    return CounterPlan(guarded, memory, position, position + 8, position + 16)
