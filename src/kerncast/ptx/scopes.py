"""Names inside a function body: each pair of braces may declare registers, variables and labels of its own."""

from dataclasses import dataclass, field

from kerncast.ptx.module import Register

_DIGITS = "0123456789"
_MOST_DIGITS = 9


@dataclass(slots=True)
class Scope:
    """What one pair of braces declares; names get the scope's suffix, so that they are unique in the function."""

    suffix: str
    outer: "Scope | None"
    depth: int = 0
    """how many braces stand around these"""
    registers: dict[str, Register] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    """prefix of numbered registers: (how many, type)"""
    symbols: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def find_register(self, name: str) -> Register | None:
        """Return the register that a name means here."""
        scope: Scope | None = self
        while scope is not None:
            register = scope.own_register(name)
            if register is not None:
                return register
            scope = scope.outer
        return None

    def find_symbol(self, name: str) -> str:
        """Return the unique name of a variable; a name that is not declared here belongs to the module."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.symbols:
                return scope.symbols[name]
            scope = scope.outer
        return name

    def find_label(self, name: str) -> str:
        """Return the unique name of a label; call it when the whole body has been read."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.outer
        return name

    def own_register(self, name: str) -> Register | None:
        """Return the register of this name that this scope itself declares."""
        if name in self.registers:
            return self.registers[name]
        digits = len(name) - len(name.rstrip(_DIGITS))
        for length in range(1, min(digits, _MOST_DIGITS) + 1):  # the prefix may end in a digit too
            count, type_name = self.ranges.get(name[:-length], (0, ""))
            if int(name[-length:]) < count:
                register = self.registers[name] = Register(name + self.suffix, type_name)
                return register
        return None
