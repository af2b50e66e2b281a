"""Where the counters of one block of threads lie: a row of 64-bit numbers that generated code adds to."""

from dataclasses import dataclass

from kerncast.execute.native.access import COUNTERS
from kerncast.execute.native.transfer import GENERIC_COUNTERS
from kerncast.execute.state import MEMORY_ROOTS, is_switched
from kerncast.ptx import ControlFlowGraph, Function
from kerncast.ptx.module import Instruction

_GENERIC_BYTES = 48


@dataclass(frozen=True, slots=True)
class CounterPlan:
    """Offsets in a row of counters, in bytes."""

    guarded: dict[int, int]
    """guarded instruction: its counter of threads"""
    memory: dict[int, int]
    """memory instruction: its first counter"""
    divergent: int
    bytes: int

    @staticmethod
    def of_block(number: int) -> int:
        """Return the offset of a basic block's counters: of warps, then of threads."""
        return 16 * number

    def columns(self, ins: Instruction, number: int) -> dict[str, int]:
        """Return the positions in the row of a memory instruction's counters, by the names of Trace."""
        start = self.memory[number] // 8
        if ins.space != "generic":
            return {name: start + place for place, name in enumerate(COUNTERS.get(ins.space, ()))}
        return {
            name: start + GENERIC_COUNTERS[space] // 8 + place
            for space, names in COUNTERS.items()
            for place, name in enumerate(names)
        }


def plan_counters(function: Function, cfg: ControlFlowGraph) -> CounterPlan:
    """Return where the counters of a function lie."""
    position = 16 * len(cfg.blocks)
    guarded, memory = {}, {}
    for number, ins in enumerate(function.instructions):
        if is_switched(ins):
            guarded[number] = position
            position += 8
        if ins.root in MEMORY_ROOTS:
            memory[number] = position
            position += _GENERIC_BYTES if ins.space == "generic" else 8 * len(COUNTERS.get(ins.space, ()))
    return CounterPlan(guarded, memory, position, position + 8)
