"""Which registers an instruction reads and writes, and how far a straight run of instructions can overlap."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kerncast.ptx.module import Address, Instruction, Negated, Operand, Register, Vector
from kerncast.ptx.opcodes import COMBINATIONS, Trait

#: The carry flag of add.cc and its kin.
CARRY = Register("%cc", "pred")
#: Modifiers that add a source: the predicate of a comparison, or which lanes take part.
_WITH_SOURCE = COMBINATIONS | {"sync"}


def results_of(ins: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction writes."""
    carry = (CARRY,) if "cc" in ins.modifiers else ()
    return (*_registers(ins.operands[: result_count(ins)]), *carry)


def sources_of(ins: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction reads, its guard among them."""
    count = result_count(ins)
    addresses = (o for o in ins.operands[:count] if isinstance(o, Address))
    guard = (ins.guard,) if ins.guard else ()
    carry = (CARRY,) if ins.opcode.has(Trait.CARRY) else ()
    return (*_registers((*ins.operands[count:], *addresses)), *guard, *carry)


def kept_by(ins: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction writes in some threads only: the others keep the old value."""
    return results_of(ins) if ins.guard is not None or ins.is_barrier else ()


def result_count(ins: Instruction) -> int:
    """Return how many of the first operands are results."""
    if not ins.opcode.has_result or not ins.operands:
        return 0
    if ins.is_barrier:
        return int("red" in ins.modifiers)
    if ins.opcode.fewest_sources is None:
        return 1
    sources = ins.opcode.fewest_sources + sum(m in _WITH_SOURCE for m in ins.modifiers)
    return max(1, len(ins.operands) - sources)


@dataclass(frozen=True)  # no slots: what is derived is computed once and kept
class Dependences:
    """True dependences within a straight run of instructions: a value is made, then read.

    A guarded instruction also waits for the value that it leaves alone where its guard does not hold. Loads and stores
    do not wait for one another, whatever their addresses.
    """

    makers: tuple[tuple[int, ...], ...]
    """per instruction the positions of those that make the values it reads"""

    @cached_property
    def critical_path(self) -> int:
        """Number of instructions on the longest chain, where each costs one."""
        depth: list[int] = []
        for makers in self.makers:
            depth.append(1 + max((depth[maker] for maker in makers), default=0))
        return max(depth, default=0)

    @cached_property
    def mean_distance(self) -> float | None:
        """Mean number of instructions from one that makes a value to the first that reads it; None without any.

        An instruction that makes several values counts once.
        """
        first_reader: dict[int, int] = {}
        for reader, makers in enumerate(self.makers):
            for maker in makers:
                first_reader.setdefault(maker, reader)
        return sum(r - m for m, r in first_reader.items()) / len(first_reader) if first_reader else None


def dependences(code: Sequence[Instruction]) -> Dependences:
    """Return who waits for whom in instructions that run one after the other."""
    made: dict[str, int] = {}
    makers = []
    for position, ins in enumerate(code):
        read = dict.fromkeys(register.name for register in (*sources_of(ins), *kept_by(ins)))
        makers.append(tuple(dict.fromkeys(made[name] for name in read if name in made)))
        made.update((register.name, position) for register in results_of(ins))
    return Dependences(tuple(makers))


def _registers(operands: Iterable[Operand]) -> Iterator[Register]:
    for operand in operands:
        match operand:
            case Register():
                yield operand
            case Negated(register):
                yield register
            case Address(Register() as register):
                yield register
            case Vector(elements):
                yield from _registers(elements)
