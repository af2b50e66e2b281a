"""Replace each call by the body of its function, so that a kernel is one control-flow graph.

A call passes its arguments in ``.param`` variables: the callee's parameters are renamed to the caller's
variables, and everything else of the callee gets a prefix that is unique to the call.

A call through a pointer becomes a chain: the pointer is compared with the address of each function that it can mean,
and a match runs the body of that one; at the end of the chain stands a trap. The instructions of the chain, a
comparison and a branch per function and a branch behind each body, count as instructions of the kernel. A GPU has one
indirect branch in their place, so that such a kernel is counted with a little more control flow than it has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx.module import (
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Prototype,
    Register,
    Symbol,
    Variable,
    Vector,
    symbols_of,
)
from kerncast.ptx.warp_matrices import expanded, is_wmma

#: Variables of which each call has its own. Static shared memory is one per block, however many calls there are.
_OWN = {"local", "param"}


@dataclass(slots=True)
class Frame:
    """One call of a function: how its names read in the kernel."""

    chain: tuple[str, ...]
    """functions that are being called, the kernel first"""
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
    """The functions that each function calls by name."""

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


_INSTRUCTION_LIMIT = 200_000
_DEPTH_LIMIT = 100


@dataclass(frozen=True, slots=True)
class _Call:
    """The parts of a call instruction, with the names of the kernel."""

    instruction: Instruction
    target: Symbol | Register
    returned: tuple[Operand, ...]
    arguments: tuple[Operand, ...]
    candidates: tuple[str, ...]
    """functions that the pointer of an indirect call can mean"""


def inline_calls(module: Module, kernel: str) -> Function:
    """Return the kernel with every call inlined; raises UnsupportedError for recursion and for missing bodies."""
    if kernel not in module.functions:
        raise PTXSyntaxError(f"there is no kernel {kernel}", where="PTX")
    function = module.functions[kernel]
    expansion = _Expansion(module, taken_functions(module, kernel), DirectCalls(module))
    expansion.add_body(function, Frame((kernel,)))
    return replace(
        function,
        instructions=tuple(expansion.instructions),
        labels=expansion.labels,
        tables=expansion.tables,
        variables=tuple(expansion.variables.values()),
    )


@dataclass(slots=True)
class _Expansion:
    """The kernel that grows while calls are replaced."""

    module: Module
    taken: tuple[str, ...]
    direct: DirectCalls
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    calls: int = 0

    def add_body(self, function: Function, frame: Frame) -> None:
        """Append the instructions of a function, with its calls replaced."""
        self.variables |= {v.name: v for v in map(frame.variable, function.variables)}
        for name, targets in function.tables.items():
            self.tables[frame.prefix + name] = tuple(frame.prefix + target for target in targets)
        position_of = []
        for instruction in function.instructions:
            position_of.append(len(self.instructions))
            if instruction.root == "call":
                self._add_call(self._parts(instruction, function, frame), frame)
            elif instruction.root == "ret" and frame.end is not None:
                jump = replace(instruction, root="bra", modifiers=("uni",), operands=(Label(frame.end),))
                self.instructions.append(replace(jump, guard=frame.instruction(instruction).guard))
            elif is_wmma(instruction):
                prefix = f"{frame.prefix}wmma#{len(position_of)}."
                self.instructions += expanded(frame.instruction(instruction), prefix, self.module.target)
            else:
                self.instructions.append(frame.instruction(instruction))
            # Calls count too: functions without instructions may call one another without end.
            if len(self.instructions) + self.calls > _INSTRUCTION_LIMIT:
                what = f"calls in {frame.chain[0]} expand to over {_INSTRUCTION_LIMIT} instructions"
                raise UnsupportedError(what)
        position_of.append(len(self.instructions))
        for name, index in function.labels.items():
            self.labels[frame.prefix + name] = position_of[index]

    def _parts(self, ins: Instruction, function: Function, frame: Frame) -> _Call:
        """Take a call apart: ``(result), function or pointer, (arguments), prototype``."""
        has_result = bool(ins.operands) and isinstance(ins.operands[0], Vector)
        lists = [frame.operands(operand.elements) for operand in ins.operands if isinstance(operand, Vector)]
        names = [operand for operand in ins.operands if not isinstance(operand, Vector)]
        target = names[0] if names else None
        if not isinstance(target, Symbol | Register):
            raise UnsupportedError("a call through a pointer that is not a register is not supported", where=ins.where)
        returned = lists[0] if has_result else ()
        arguments = lists[-1] if len(lists) > int(has_result) else ()
        if isinstance(target, Symbol):
            return _Call(frame.instruction(ins), target, returned, arguments, ())
        candidates = self._candidates(names[1:], function, ins)
        return _Call(frame.instruction(ins), frame.register(target), returned, arguments, candidates)

    def _candidates(self, rest: Sequence[Operand], function: Function, ins: Instruction) -> tuple[str, ...]:
        name = rest[0].name if rest and isinstance(rest[0], Label) else ""
        if name in function.prototypes:
            return tuple(n for n in self.taken if fits(self.module.functions[n], function.prototypes[name]))
        if name in function.tables:
            return tuple(n for n in self.taken if n in function.tables[name])
        raise UnsupportedError("a call through a pointer without a prototype is not supported", where=ins.where)

    def _add_call(self, call: _Call, frame: Frame) -> None:
        name = call.target.name
        if isinstance(call.target, Symbol) and name in INTRINSICS:
            operands = (*call.returned, *call.arguments)
            self.instructions.append(replace(call.instruction, modifiers=(name,), operands=operands))
            return
        self.calls += 1
        prefix = f"{name if isinstance(call.target, Symbol) else 'pointer'}#{self.calls}."
        end = prefix + "@end"
        guard = call.instruction.guard
        if guard is not None:
            self._add(call, "bra", (), Label(end), guard=guard)
            self.instructions[-1] = replace(self.instructions[-1], guard_negated=not call.instruction.guard_negated)
        if isinstance(call.target, Symbol):
            self._check(call, frame)
            self._add_callee(call, name, frame, prefix)
        else:
            self._add_chain(call, call.target, frame, prefix)
        self.labels[end] = len(self.instructions)

    def _check(self, call: _Call, frame: Frame) -> None:
        name, where = call.target.name, call.instruction.where
        if name in frame.chain:
            raise UnsupportedError(f"recursion of {name} is not supported", where=where)
        if name not in self.module.functions:
            raise UnsupportedError(f"a call of {name}, which has no body in this file, is not supported", where=where)

    def _add_callee(self, call: _Call, name: str, frame: Frame, prefix: str) -> None:
        """Append the body of a called function; it returns to the label ``@end`` of the outermost prefix."""
        callee = self.module.functions[name]
        where = call.instruction.where
        if len(frame.chain) > _DEPTH_LIMIT:
            raise UnsupportedError(f"calls are nested more than {_DEPTH_LIMIT} deep", where=where)
        formal = (*callee.returns, *callee.parameters)
        actual = (*call.returned, *call.arguments)
        names = [operand.name for operand in actual if isinstance(operand, Symbol)]
        if len(formal) != len(names) or len(actual) != len(names):
            raise UnsupportedError(f"a call of {name} that does not fit its parameters is not supported", where=where)
        bindings = {variable.name: own for variable, own in zip(formal, names, strict=True)}
        self.add_body(callee, frame.below(callee, prefix, bindings))

    def _add_chain(self, call: _Call, pointer: Register, frame: Frame, prefix: str) -> None:
        """Compare a pointer with each function that it can mean; one that cannot be inlined traps where it is meant."""
        differs = Register(prefix + "@differs", "pred")
        for number, name in enumerate(call.candidates):
            following = f"{prefix}@{number}"
            self._add(call, "setp", ("ne", "b64"), differs, pointer, Symbol(name))
            self._add(call, "bra", (), Label(following), guard=differs)
            obstacle = self.direct.obstacle(name, frame.chain)
            if obstacle is None:
                arm = f"{prefix}{number}."
                self._add_callee(call, name, frame, arm)
                self.labels[arm + "@end"] = len(self.instructions)
                self._add(call, "bra", ("uni",), Label(prefix + "@end"))
            else:
                self._add_trap(call, obstacle)
            self.labels[following] = len(self.instructions)
        self._add_trap(call, "a call through a bad function pointer")

    def _add_trap(self, call: _Call, note: str) -> None:
        self._add(call, "trap", ())
        self.instructions[-1] = replace(self.instructions[-1], note=note)

    def _add(
        self, call: _Call, root: str, modifiers: tuple[str, ...], *operands: Operand, guard: Register | None = None
    ) -> None:
        """Append an instruction that the expansion of a call needs."""
        location, line = call.instruction.location, call.instruction.line
        self.instructions.append(Instruction(root, modifiers, operands, guard, False, location, line=line))
