"""Names of one inlined call: what the called function declares gets a prefix that no other call has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kerncast.ptx.module import (
    Address,
    Function,
    Instruction,
    Label,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

#: Variables of which each call has its own. Static shared memory is one per block, however many calls there are.
_OWN = {"local", "param"}


@dataclass(slots=True)
class Frame:
    """One call of a function: how its names read in the kernel."""

    chain: tuple[str, ...]
    """the functions that are being called, the kernel first"""
    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """variables that have another name in the kernel"""
    end: str | None = None
    """label where a return goes; None in the kernel itself"""
    _registers: dict[str, Register] = field(default_factory=dict)

    def below(self, callee: Function, prefix: str, bindings: Mapping[str, str]) -> "Frame":
        """Return the frame of a call in this one; the bindings are the caller's variables for the parameters."""
        own = {v.name: prefix + v.name for v in callee.variables if v.space in _OWN}
        return Frame((*self.chain, callee.name), prefix, {**bindings, **own}, prefix + "@end")

    def instruction(self, old: Instruction) -> Instruction:
        """Return an instruction with the kernel's names."""
        if not self.prefix:
            return old
        guard = self.register(old.guard) if old.guard else None
        return replace(old, operands=self.operands(old.operands), guard=guard)

    def operands(self, old: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Return operands with the kernel's names."""
        return tuple(self.operand(operand) for operand in old) if self.prefix else old

    def operand(self, old: Operand) -> Operand:
        """Return an operand with the kernel's names."""
        new = old
        match old:
            case Register():
                new = self.register(old)
            case Negated(inner):
                new = Negated(self.register(inner))
            case Symbol():
                new = self._symbol(old)
            case Address(Register() as base, offset):
                new = Address(self.register(base), offset)
            case Address(Symbol() as base, offset):
                new = Address(self._symbol(base), offset)
            case Vector(elements):
                new = Vector(self.operands(elements))
            case Label(name):
                new = Label(self.prefix + name)
        return new

    def register(self, old: Register) -> Register:
        """Return a register with the kernel's name."""
        if not self.prefix:
            return old
        found = self._registers.get(old.name)
        if found is None:
            found = self._registers[old.name] = Register(self.prefix + old.name, old.type)
        return found

    def variable(self, old: Variable) -> Variable:
        """Return a variable with the kernel's name."""
        return replace(old, name=self.names.get(old.name, old.name))

    def _symbol(self, old: Symbol) -> Symbol:
        return Symbol(self.names.get(old.name, old.name), old.offset)
