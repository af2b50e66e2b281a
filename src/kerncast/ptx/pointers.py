"""Pointers to functions: whose address a kernel can know, and which function a call through a pointer can mean."""

from collections.abc import Iterable
from functools import cached_property

from kerncast.ptx.module import Function, Instruction, Module, Prototype, Symbol, Vector, symbols_of

#: Functions of the driver that have no PTX body; the engine knows what they do.
INTRINSICS = frozenset({"vprintf", "__assertfail"})


def called_name(instruction: Instruction) -> str | None:
    """Return the name of the function that an instruction calls directly."""
    if instruction.root != "call":
        return None
    target = next((operand for operand in instruction.operands if not isinstance(operand, Vector)), None)
    return target.name if isinstance(target, Symbol) else None


def taken_functions(module: Module, kernel: str) -> tuple[str, ...]:
    """Return the functions whose address a kernel can come by, in the order of the text.

    An address is taken by an instruction that names the function and does not call it, or by the initial value of a
    variable, as in a table of functions of a class. Only what the kernel can reach counts.
    """
    variables = {variable.name: variable for variable in module.variables}
    taken: set[str] = set()
    seen: set[str] = set()
    waiting = [kernel]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in variables:
            symbols = [relocation.symbol for relocation in variables[name].relocations]
            taken.update(symbols)
            waiting += symbols
        elif name in module.functions:
            for instruction in module.functions[name].instructions:
                called = called_name(instruction)
                symbols = [symbol for operand in instruction.operands for symbol in symbols_of(operand)]
                taken.update(symbol for symbol in symbols if symbol != called)
                waiting += symbols
    return tuple(name for name, function in module.functions.items() if name in taken and not function.is_kernel)


def fits(function: Function, prototype: Prototype) -> bool:
    """Return whether a function takes and returns as many bytes as a prototype says, one by one."""
    returns = tuple(variable.nbytes for variable in function.returns)
    parameters = tuple(variable.nbytes for variable in function.parameters)
    return (returns, parameters) == (prototype.returns, prototype.parameters)


class DirectCalls:
    """Which functions call which by name."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._reached: dict[str, frozenset[str]] = {}
        self._obstacles: dict[str, str | None] = {}

    def obstacle(self, name: str, chain: Iterable[str]) -> str | None:
        """Say why a function cannot be inlined below a chain of calls; None if it can."""
        reached = self.reached(name)
        again = next((each for each in chain if each == name or each in reached), None)
        if again is not None:
            return f"recursion of {again} is not supported"
        if name not in self._obstacles:
            self._obstacles[name] = self._own_obstacle(name)
        return self._obstacles[name]

    def _own_obstacle(self, name: str) -> str | None:
        reached = self.reached(name)
        again = next((each for each in sorted({name, *reached}) if each in self.reached(each)), None)
        if again is not None:
            return f"recursion of {again} is not supported"
        missing = min(reached - self.module.functions.keys() - INTRINSICS, default=None)
        return None if missing is None else f"a call of {missing}, which has no body in this file, is not supported"

    def reached(self, name: str) -> frozenset[str]:
        """Return the functions that a function calls by name, and those that these call."""
        if name not in self._reached:
            found: set[str] = set()
            waiting = list(self._by_name.get(name, ()))
            while waiting:
                called = waiting.pop()
                if called not in found:
                    found.add(called)
                    waiting += self._by_name.get(called, ())
            self._reached[name] = frozenset(found)
        return self._reached[name]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        return {
            name: [called for ins in function.instructions if (called := called_name(ins)) is not None]
            for name, function in self.module.functions.items()
        }
