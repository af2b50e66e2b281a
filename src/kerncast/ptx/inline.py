"""Replace each direct call by the body of its function, so that a kernel is one control-flow graph.

A call passes its arguments in ``.param`` variables: the callee's parameters are renamed to the caller's
variables, and everything else of the callee gets a prefix that is unique to the call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx.module import (
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

#: Functions of the driver that have no PTX body; the engine knows what they do.
INTRINSICS = frozenset({"vprintf", "__assertfail"})
_INSTRUCTION_LIMIT = 200_000
_DEPTH_LIMIT = 100


@dataclass(frozen=True, slots=True)
class _Call:
    """The parts of a call instruction."""

    instruction: Instruction
    name: str
    returned: tuple[Operand, ...]
    arguments: tuple[Operand, ...]


@dataclass(slots=True)
class _Expansion:
    """The function that grows while calls are replaced."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)

    def add_call(self, call: _Call, callee: Function, body: Function) -> None:
        """Append the body of a called function, whose own calls are inlined already."""
        prefix = f"{call.name}#{len(self.instructions)}."
        body = _renamed(body, prefix, _bindings(callee, call))
        end = prefix + "end"
        guard = call.instruction.guard
        if guard is not None:
            jump = Instruction("bra", (), (Label(end),), guard, not call.instruction.guard_negated, None)
            self.instructions.append(replace(jump, location=call.instruction.location))
        start = len(self.instructions)
        self.labels |= {label: start + place for label, place in body.labels.items()}
        self.tables |= body.tables
        self.instructions += [_return_to(i, end) for i in body.instructions]
        self.labels[end] = len(self.instructions)
        self.variables |= {v.name: v for v in body.variables}


def inline_calls(module: Module, kernel: str) -> Function:
    """Return the kernel with every direct call inlined; raises UnsupportedError for recursion and pointers."""
    if kernel not in module.functions:
        raise PTXSyntaxError(f"there is no kernel {kernel}", where="PTX")
    return _inline(module, module.functions[kernel], (kernel,))


def _inline(module: Module, function: Function, chain: tuple[str, ...]) -> Function:
    expansion = _Expansion(tables=dict(function.tables), variables={v.name: v for v in function.variables})
    position_of = []
    for instruction in function.instructions:
        position_of.append(len(expansion.instructions))
        if instruction.root != "call":
            expansion.instructions.append(instruction)
            continue
        call = _parts(instruction)
        if call.name in INTRINSICS:
            operands = (*call.returned, *call.arguments)
            expansion.instructions.append(replace(instruction, modifiers=(call.name,), operands=operands))
            continue
        callee = _callee(module, call, chain)
        expansion.add_call(call, callee, _inline(module, callee, (*chain, call.name)))
        if len(expansion.instructions) > _INSTRUCTION_LIMIT:
            raise UnsupportedError(f"calls in {function.name} expand to over {_INSTRUCTION_LIMIT} instructions")
    position_of.append(len(expansion.instructions))
    expansion.labels |= {name: position_of[index] for name, index in function.labels.items()}
    return replace(
        function,
        instructions=tuple(expansion.instructions),
        labels=expansion.labels,
        tables=expansion.tables,
        variables=tuple(expansion.variables.values()),
    )


def _parts(call: Instruction) -> _Call:
    has_result = bool(call.operands) and isinstance(call.operands[0], Vector)
    names = [operand for operand in call.operands if not isinstance(operand, Vector)]
    if not names or not isinstance(names[0], Symbol):
        raise UnsupportedError("a call through a pointer is not supported", where=call.where)
    lists = [operand.elements for operand in call.operands if isinstance(operand, Vector)]
    returned = lists[0] if has_result else ()
    return _Call(call, names[0].name, returned, lists[-1] if len(lists) > int(has_result) else ())


def _callee(module: Module, call: _Call, chain: tuple[str, ...]) -> Function:
    where = call.instruction.where
    if call.name in chain:
        raise UnsupportedError(f"recursion of {call.name} is not supported", where=where)
    if call.name not in module.functions:
        raise UnsupportedError(f"a call of {call.name}, which has no body in this file, is not supported", where=where)
    if len(chain) > _DEPTH_LIMIT:
        raise UnsupportedError(f"calls are nested more than {_DEPTH_LIMIT} deep", where=where)
    return module.functions[call.name]


def _bindings(callee: Function, call: _Call) -> dict[str, str]:
    formal = (*callee.returns, *callee.parameters)
    actual = (*call.returned, *call.arguments)
    names = [operand.name for operand in actual if isinstance(operand, Symbol)]
    if len(formal) != len(names) or len(actual) != len(names):
        what = f"a call of {callee.name} that does not fit its parameters is not supported"
        raise UnsupportedError(what, where=call.instruction.where)
    return {variable.name: name for variable, name in zip(formal, names, strict=True)}


def _return_to(instruction: Instruction, label: str) -> Instruction:
    if instruction.root != "ret":
        return instruction
    return replace(instruction, root="bra", modifiers=("uni",), operands=(Label(label),))


def _renamed(function: Function, prefix: str, bindings: Mapping[str, str]) -> Function:
    # Static shared memory inside a device function is one per block, however often the function is called.
    own = {v.name for v in function.variables if v.space in {"local", "param"}}
    names = {**bindings, **{name: prefix + name for name in own}}

    def register(old: Register) -> Register:
        return Register(prefix + old.name, old.type)

    def symbol(old: Symbol) -> Symbol:
        return Symbol(names.get(old.name, old.name), old.offset)

    def rename(operand: Operand) -> Operand:
        renamed: Operand = operand
        match operand:
            case Register():
                renamed = register(operand)
            case Negated(inner):
                renamed = Negated(register(inner))
            case Symbol():
                renamed = symbol(operand)
            case Address(base, offset) if base is not None:
                renamed = Address(register(base) if isinstance(base, Register) else symbol(base), offset)
            case Vector(elements):
                renamed = Vector(tuple(rename(element) for element in elements))
            case Label(name):
                renamed = Label(prefix + name)
        return renamed

    def instruction(old: Instruction) -> Instruction:
        guard = register(old.guard) if old.guard else None
        return replace(old, operands=tuple(rename(operand) for operand in old.operands), guard=guard)

    return replace(
        function,
        instructions=tuple(instruction(i) for i in function.instructions),
        labels={prefix + name: index for name, index in function.labels.items()},
        tables={prefix + name: tuple(prefix + t for t in targets) for name, targets in function.tables.items()},
        variables=tuple(replace(v, name=names.get(v.name, v.name)) for v in function.variables),
    )
