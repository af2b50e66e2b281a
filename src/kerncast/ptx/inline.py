"""Replace each direct call by the body of its function, so that a kernel is one control-flow graph.

A call passes its arguments in ``.param`` variables: the callee's parameters are renamed to the caller's
variables, and everything else of the callee gets a prefix that is unique to the call.
"""

from collections.abc import Mapping
from dataclasses import replace

from kerncast.errors import UnsupportedError
from kerncast.ptx.module import (
    Address,
    Function,
    Immediate,
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
_INSTRUCTION_LIMIT = 500_000


def inline_calls(module: Module, kernel: str) -> Function:
    """Return the kernel with every direct call inlined; raises UnsupportedError for recursion and pointers."""
    return _inline(module, module.functions[kernel], (kernel,))


def _inline(module: Module, function: Function, chain: tuple[str, ...]) -> Function:
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    variables = list(function.variables)
    position_of: dict[int, int] = {}
    for index, instruction in enumerate(function.instructions):
        position_of[index] = len(instructions)
        if instruction.root != "call":
            instructions.append(instruction)
            continue
        returned, name, arguments = _call_parts(instruction)
        if name in INTRINSICS:
            instructions.append(replace(instruction, modifiers=(name,), operands=(*returned, *arguments)))
            continue
        callee = _callee(module, name, chain, instruction)
        body = _renamed(
            _inline(module, callee, (*chain, name)),
            prefix=f"{name}#{len(instructions)}.",
            bindings=_bindings(callee, returned, arguments, instruction),
        )
        skip = f"{name}#{len(instructions)}.end"
        start = len(instructions)
        if instruction.guard is not None:
            negated = not instruction.guard_negated
            instructions.append(
                Instruction("bra", (), (Label(skip),), instruction.guard, negated, instruction.location)
            )
            start += 1
        for label, place in body.labels.items():
            labels[label] = start + place
        instructions += [_return_to(i, skip) for i in body.instructions]
        labels[skip] = len(instructions)
        variables += [v for v in body.variables if v not in variables]
        if len(instructions) > _INSTRUCTION_LIMIT:
            raise UnsupportedError(f"calls in {function.name} expand to over {_INSTRUCTION_LIMIT} instructions")
    position_of[len(function.instructions)] = len(instructions)
    labels |= {name: position_of[index] for name, index in function.labels.items()}
    return replace(function, instructions=tuple(instructions), labels=labels, variables=tuple(variables))


def _call_parts(call: Instruction) -> tuple[tuple[Operand, ...], str, tuple[Operand, ...]]:
    lists = [operand.elements for operand in call.operands if isinstance(operand, Vector)]
    names = [operand for operand in call.operands if not isinstance(operand, Vector)]
    has_result = isinstance(call.operands[0], Vector)
    returned = lists[0] if has_result else ()
    arguments = lists[-1] if len(lists) > int(has_result) else ()
    if not names or not isinstance(names[0], Symbol):
        raise UnsupportedError("a call through a pointer is not supported", where=str(call.location))
    return returned, names[0].name, arguments


def _callee(module: Module, name: str, chain: tuple[str, ...], call: Instruction) -> Function:
    if name in chain:
        raise UnsupportedError(f"recursion of {name} is not supported", where=str(call.location))
    if name not in module.functions:
        raise UnsupportedError(f"function {name} has no body in this file", where=str(call.location))
    return module.functions[name]


def _bindings(
    callee: Function, returned: tuple[Operand, ...], arguments: tuple[Operand, ...], call: Instruction
) -> dict[str, str]:
    formal = (*callee.returns, *callee.parameters)
    actual = (*returned, *arguments)
    if len(formal) != len(actual) or not all(isinstance(operand, Symbol) for operand in actual):
        raise UnsupportedError(f"call of {callee.name} with other parameters", where=str(call.location))
    names = [operand.name for operand in actual if isinstance(operand, Symbol)]
    return {variable.name: name for variable, name in zip(formal, names, strict=True)}


def _return_to(instruction: Instruction, label: str) -> Instruction:
    if instruction.root != "ret":
        return instruction
    return replace(instruction, root="bra", modifiers=("uni",), operands=(Label(label),))


def _renamed(function: Function, prefix: str, bindings: Mapping[str, str]) -> Function:
    # Static shared memory inside a device function is one per block, however often the function is called.
    own = {variable.name for variable in function.variables if variable.space in {"local", "param"}}

    def symbol(name: str) -> str:
        return bindings.get(name) or (prefix + name if name in own else name)

    def rename(operand: Operand) -> Operand:
        match operand:
            case Register(name, type_):
                return Register(prefix + name, type_)
            case Negated(register):
                return Negated(Register(prefix + register.name, register.type))
            case Symbol(name):
                return Symbol(symbol(name))
            case Address(Register(name, type_), offset):
                return Address(Register(prefix + name, type_), offset)
            case Address(Symbol(name), offset):
                return Address(Symbol(symbol(name)), offset)
            case Vector(elements):
                return Vector(tuple(rename(element) for element in elements))
            case Label(name):
                return Label(prefix + name)
            case Immediate() | _:
                return operand

    def instruction(old: Instruction) -> Instruction:
        guard = Register(prefix + old.guard.name, old.guard.type) if old.guard else None
        return replace(old, operands=tuple(rename(operand) for operand in old.operands), guard=guard)

    def variable(old: Variable) -> Variable:
        return replace(old, name=prefix + old.name) if old.name in own else old

    return replace(
        function,
        instructions=tuple(instruction(i) for i in function.instructions),
        labels={prefix + name: index for name, index in function.labels.items()},
        variables=tuple(variable(v) for v in function.variables),
    )
