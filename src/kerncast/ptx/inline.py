"""Replace each call by the body of its function, so that a kernel is one control-flow graph.

A call passes its arguments in ``.param`` variables: the callee's parameters are renamed to the caller's
variables, and everything else of the callee gets a prefix that is unique to the call.

A call through a pointer becomes a chain: the pointer is compared with the address of each function that it can mean,
and a match runs the body of that one; at the end of the chain stands a trap. The instructions of the chain, a
comparison and a branch per function and a branch behind each body, count as instructions of the kernel. A GPU has one
indirect branch in their place, so that such a kernel is counted with a little more control flow than it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kerncast.errors import PTXSyntaxError, UnsupportedError
from kerncast.ptx.frames import Frame
from kerncast.ptx.module import (
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)
from kerncast.ptx.pointers import INTRINSICS, DirectCalls, fits, taken_functions

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
            raise UnsupportedError("a call through a pointer that is no register is not supported", where=ins.where)
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
        location = call.instruction.location
        self.instructions.append(Instruction(root, modifiers, operands, guard, False, location))
