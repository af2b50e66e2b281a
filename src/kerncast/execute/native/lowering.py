"""What every lowering of an arithmetic instruction shares: its operands, and the table of opcodes.

Each function writes the LLVM IR of one opcode for a whole warp and returns the result; semantics are those of the
reference engine, instruction by instruction.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kerncast.execute.native.block import BlockCode
from kerncast.execute.native.ir import Emitter, Value, integer, vector
from kerncast.ptx import TYPE_BITS, Instruction

FLOATS = frozenset({"f32", "f64"})
HALVES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})
I1, I8, I16, I32, I64 = (vector(f"i{n}") for n in (1, 8, 16, 32, 64))
F32, F64 = vector("float"), vector("double")


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction with its operands at hand."""

    ins: Instruction
    block: BlockCode
    first: int = 1
    """position of the first source among the operands"""

    @property
    def emit(self) -> Emitter:
        """Where code is written."""
        return self.block.emit

    @property
    def type(self) -> str:
        """The PTX type of the operation."""
        return self.ins.type

    @property
    def width(self) -> int:
        """Bits of the type."""
        return TYPE_BITS[self.ins.type]

    @property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self.ins.type.startswith("s")

    def has(self, modifier: str) -> bool:
        """Whether the opcode carries a modifier."""
        return modifier in self.ins.modifiers

    def source(self, position: int, type_name: str | None = None) -> Value:
        """Return a source operand; its type is the instruction's unless another is named."""
        return self.block.source(self.ins.operands[self.first + position], type_name or self.ins.type)

    def constant(self, like: Value, number: int) -> Value:
        """Return an integer constant of the type of a value."""
        return integer(like.type, number)


Lowering = Callable[[Operation], Value]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*roots: str) -> Callable[[Lowering], Lowering]:
    """Register the function that writes these opcodes."""

    def register(function: Lowering) -> Lowering:
        for root in roots:
            LOWERINGS[root] = function
        return function

    return register
