"""Control flow of machine code: basic blocks, where control goes from each, and which routines they call."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from kerncast.machine.listing import MachineInstruction, MachineRoutine
from kerncast.machine.ptx_counts import UnmatchedError
from kerncast.ptx import Instruction, LoopNest, dominators, find_loops
from kerncast.ptx.fragments import product_of
from kerncast.units import BITS_PER_BYTE

# Which machine instructions do exactly what one PTX instruction does, so that they count its executions.
#
# Address arithmetic is merged, moved and shared among the copies of a loop; memory accesses, barriers and floating-
# point arithmetic are not: as often as the PTX does them, the machine code does.


_LOADS, _STORES = frozenset({"LDG", "LD", "LDS", "LDL"}), frozenset({"STG", "ST", "STS", "STL"})
_LOCAL = frozenset({"LDL", "STL"})
_UPDATES = frozenset({"ATOM", "ATOMG", "ATOMS", "RED", "REDG"})
#: Accesses that are one instruction in PTX, too: matrices of shared memory, and copies to it.
_ALIKE = frozenset({"LDSM", "STSM", "LDGSTS"})
#: Opcodes of machine code that read, write or change global, shared or local memory.
ACCESSES = _LOADS | _STORES | _UPDATES | _ALIKE
#: Machine operations that the table of PTX opcodes names by their whole opcode.
_WHOLE = _ALIKE | {"BAR", "SHFL", "MUFU"}
#: Type by the first letter of FADD, DADD and the like; packed halves are left out, as they also load constants.
_FLOATS = {"F": "f32", "D": "f64"}
_WIDE = {"64": 64, "128": 128, "U8": 8, "S8": 8, "U16": 16, "S16": 16}
_WORD = 32

#: Their places say little of the place in the PTX that they stand for: control, constants, special registers.
_FLOATING = frozenset({
    "BSYNC", "BSSY", "BREAK", "BMOV", "NOP", "WARPSYNC", "YIELD", "BRA", "EXIT", "RET", "CALL", "DEPBAR",
    "MOV", "LDC", "S2R", "CS2R", "PLOP3", "P2R", "R2P", "LDL", "STL",
})  # fmt: skip


def is_anchor(machine: MachineInstruction, ptx: Instruction) -> bool:
    """Return whether a machine instruction is executed once for each execution of a PTX instruction."""
    opcode = machine.opcode
    if opcode in _LOADS or opcode in _STORES:
        is_same = ptx.is_load if opcode in _LOADS else ptx.is_store
        # A register that is spilled bears the line of the instruction that wants it, or of one nearby.
        is_spill = opcode in _LOCAL and ptx.space not in {"local", "generic"}
        return is_same and not is_spill and bits_of(machine.modifiers) == ptx.access_bytes * BITS_PER_BYTE
    if opcode in _UPDATES:
        return ptx.is_update
    if opcode in _WHOLE:
        return ptx.opcode.machine == opcode
    return ptx.opcode.machine == opcode[1:] != "" and ptx.type == _FLOATS.get(opcode[0])


def stays_in_place(machine: MachineInstruction, ptx: Instruction) -> bool:
    """Return whether an instruction is likely to run as often as its line.

    Uniform ones are moved out of loops; beside a product of tensor cores stand moves of its sums.
    """
    if ptx.opcode.pipe == "tensor":
        return machine.opcode.endswith("MMA")
    return machine.opcode not in _FLOATING and not machine.opcode.startswith("U")


_SHAPE = re.compile(r"(16|8)x?8x?(\d+)")


def rows_and_depth(modifiers: Iterable[str]) -> tuple[int, int] | None:
    """Return the shape of a machine's product of a warp, 8 columns wide, of its modifiers; None where none tells it.

    >>> rows_and_depth(["1684", "F32", "TF32"])
    (16, 4)
    """
    shape = next(filter(None, map(_SHAPE.fullmatch, modifiers)), None)
    return (int(shape[1]), int(shape[2])) if shape else None


def pieces_of(machine: MachineInstruction, ptx: Instruction) -> int:
    """Return how many such machine instructions a PTX instruction becomes: a product may be made of shallower ones.

    ptxas 12.9 multiplies TF32 in steps of 4 (HMMA.1684) where both halves of a factor lie in the same registers.
    """
    product = product_of(ptx.modifiers, ptx.types) if ptx.opcode.pipe == "tensor" else None
    shape = rows_and_depth(machine.modifiers)
    if product is None or shape is None or product.m != shape[0] or "SP" in machine.modifiers:
        return 1
    return max(1, product.length // shape[1])


def bits_of(modifiers: Iterable[str]) -> int:
    """Return how many bits of each thread an access with such modifiers moves."""
    return next((_WIDE[m] for m in modifiers if m in _WIDE), _WORD)


_JUMPS = {"BRA", "BRX", "JMP", "JMX", "BRXU", "JMXU"}
_LEAVES = {"EXIT", "RET", "KILL"}
_CALLS = {"CALL", "JCAL"}
#: A branch whose condition is an operand (UP0 of ``BRA.U UP0``, UR4 of ``BRA.DIV ~UR4``) instead of a guard.
_CONDITION = re.compile(r"!?U?P\d|~")
#: Routines that the compiler adds, such as those for division; others are functions of the user's.
_COMPILERS_OWN = re.compile(r"\$__internal|__cuda_sm")


@dataclass(frozen=True, slots=True)
class MachineBlock:
    """Instructions [start, stop) that run one after the other."""

    start: int
    stop: int
    successors: tuple[int, ...]
    """successors: of a branch the targets, then the fall-through; ``len(blocks)`` is the exit"""
    calls: int | None
    """first block of the routine that the last instruction calls; None without a call"""
    called: str
    """name of the routine called; empty without a call"""


@dataclass(frozen=True)  # no slots: what is derived from the edges is computed once and kept
class MachineGraph:
    """Blocks in the order of the code; block 0 is the entry."""

    code: tuple[MachineInstruction, ...]
    blocks: tuple[MachineBlock, ...]

    @property
    def exit(self) -> int:
        """Index of the virtual block where every thread ends."""
        return len(self.blocks)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The edges, per block."""
        return tuple(block.successors for block in self.blocks)

    @cached_property
    def loops(self) -> LoopNest:
        """Natural loops of the kernel and of the functions that it calls."""
        graph = [block.successors if block.calls is None else (block.calls, *block.successors) for block in self.blocks]
        return find_loops(graph, dominators(graph))

    @cached_property
    def main(self) -> frozenset[int]:
        """Blocks of the kernel and of the user's functions that it calls."""
        return frozenset(self._reached(lambda name: _COMPILERS_OWN.search(name) is None))

    @cached_property
    def called(self) -> frozenset[int]:
        """Blocks of the compiler's routines that the kernel calls."""
        return frozenset(self._reached(lambda _name: True) - self.main)

    def _reached(self, follows: Callable[[str], bool]) -> set[int]:
        """Return the blocks that the entry reaches, through calls of routines whose names are followed too."""
        found: set[int] = set()
        waiting = [0]
        while waiting:
            number = waiting.pop()
            if number < self.exit and number not in found:
                found.add(number)
                block = self.blocks[number]
                waiting += block.successors
                if block.calls is not None and follows(block.called):
                    waiting.append(block.calls)
        return found


def machine_graph(routine: MachineRoutine) -> MachineGraph:
    """Return the control flow of a routine; raises UnmatchedError where control goes to an unknown place.

    Routines that stand elsewhere, such as those that end a failed assertion, are called and have no blocks here.
    """
    code, labels = routine.instructions, dict(routine.labels)
    places = {to for ins in code if ins.opcode in _JUMPS | _CALLS for to in ins.targets if not _is_routine(ins, to)}
    unknown = places - labels.keys()
    if unknown or not code or any(ins.opcode in _CALLS and not ins.targets for ins in code):
        raise UnmatchedError
    ends = {number + 1 for number, ins in enumerate(code) if _ends_block(ins)}
    bounds = [*sorted(b for b in {0, *labels.values()} | ends if b < len(code)), len(code)]
    block_at = {start: number for number, start in enumerate(bounds)}
    blocks = []
    for number in range(len(bounds) - 1):
        last = code[bounds[number + 1] - 1]
        called = next((t for t in last.targets if _is_routine(last, t)), "")
        blocks.append(
            MachineBlock(
                bounds[number],
                bounds[number + 1],
                _successors(last, number, {name: block_at[at] for name, at in labels.items()}, len(bounds) - 1),
                block_at[labels[called]] if called in labels else None,
                called,
            )
        )
    return MachineGraph(code, tuple(blocks))


def _ends_block(ins: MachineInstruction) -> bool:
    return ins.opcode in _JUMPS | _LEAVES | _CALLS


def _is_routine(ins: MachineInstruction, target: str) -> bool:
    return ins.opcode in _CALLS and not target.startswith(".L_")


def _successors(last: MachineInstruction, number: int, block_of: dict[str, int], leave: int) -> tuple[int, ...]:
    if not _ends_block(last):
        return (number + 1,)
    if last.opcode in _CALLS and any(_is_routine(last, target) for target in last.targets):
        return (number + 1,)
    conditional = bool(last.guard) or _CONDITION.match(last.operands) is not None
    after = (number + 1,) if conditional else ()
    if last.opcode in _LEAVES:
        return (leave, *after)
    return (*dict.fromkeys(block_of[target] for target in last.targets if target in block_of), *after)
