"""The body of a function: scopes, labels, locations and instructions."""

from dataclasses import dataclass, replace

from kerncast.ptx.cursor import Cursor
from kerncast.ptx.module import (
    TYPE_BITS,
    Instruction,
    Label,
    Location,
    Operand,
    Prototype,
    Register,
    Symbol,
    Variable,
    Vector,
)
from kerncast.ptx.operands import parse_list, parse_operand, parse_register, parse_target
from kerncast.ptx.scopes import Scope
from kerncast.ptx.variables import parse_prototype, parse_variable

_SPACES = {".local", ".shared", ".param", ".const", ".global"}
_DEEPEST_SCOPE = 2500
_TABLES = {".branchtargets", ".calltargets", ".callprototype"}


@dataclass(frozen=True, slots=True)
class Body:
    """What the braces of a function hold."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]
    prototypes: dict[str, Prototype]
    variables: tuple[Variable, ...]


class BodyParser:
    """Reads one function body."""

    def __init__(self, cursor: Cursor, files: dict[int, str]) -> None:
        self.cursor = cursor
        self.files = files
        self.scope: Scope | None = None
        self.scope_count = 0
        self.instructions: list[Instruction] = []
        self.branches: list[tuple[int, Scope]] = []
        """instructions that name labels, which may stand further down, and where they do so"""
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[Scope, list[str]]] = {}
        self.prototypes: dict[str, Prototype] = {}
        self.variables: list[Variable] = []
        self.location: Location | None = None

    def parse(self) -> Body:
        """Read from the opening to the closing brace."""
        self.cursor.expect("{")
        self._open_scope()
        while self.scope is not None:
            self._statement(self.scope)
        for number, scope in self.branches:
            self.instructions[number] = _resolve_labels(self.instructions[number], scope)
        tables = {name: tuple(scope.find_label(word) for word in words) for name, (scope, words) in self.tables.items()}
        return Body(tuple(self.instructions), self.labels, tables, self.prototypes, tuple(self.variables))

    def _open_scope(self) -> None:
        depth = self.scope.depth + 1 if self.scope else 0
        if depth > _DEEPEST_SCOPE:
            raise self.cursor.error("braces are nested too deeply")
        self.scope = Scope(f"@{self.scope_count}" if self.scope_count else "", self.scope, depth)
        self.scope_count += 1

    def _statement(self, scope: Scope) -> None:
        cursor = self.cursor
        word = cursor.peek()
        if cursor.accept("{"):
            self._open_scope()
        elif cursor.accept("}"):
            self.scope = scope.outer
        elif cursor.accept(";"):
            pass
        elif word == ".loc":
            self._loc()
        elif word == ".reg":
            self._registers(scope)
        elif word in _SPACES:
            self._variable(scope)
        elif word == ".pragma" or word in _TABLES:
            cursor.skip_past(";")
        elif cursor.peek(1) == ":":
            self._label(scope)
        else:
            self._instruction(scope)

    def _loc(self) -> None:
        cursor = self.cursor
        cursor.next()
        file, line, _column = cursor.integer(), cursor.integer(), cursor.integer()
        while cursor.accept(","):  # function_name and inlined_at: the innermost line is what we keep
            word = cursor.next()
            if word == "inlined_at":
                _ = cursor.integer(), cursor.integer(), cursor.integer()
            elif word == "function_name":
                cursor.next()
                cursor.offset()
        if line > 0:
            self.location = Location(self.files.get(file, "?"), line)

    def _registers(self, scope: Scope) -> None:
        cursor = self.cursor
        cursor.next()
        element = cursor.next().removeprefix(".")
        if element not in TYPE_BITS:
            raise cursor.error(f"registers of type .{element} are not supported")
        while True:
            name = cursor.next()
            if cursor.accept("<"):
                scope.ranges[name] = (cursor.integer(), element)
                cursor.expect(">")
            else:
                scope.registers[name] = Register(name + scope.suffix, element)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _variable(self, scope: Scope) -> None:
        variable = parse_variable(self.cursor)
        self.cursor.expect(";")
        scope.symbols[variable.name] = variable.name + scope.suffix
        self.variables.append(replace(variable, name=variable.name + scope.suffix))

    def _label(self, scope: Scope) -> None:
        name = self.cursor.next()
        self.cursor.expect(":")
        if name in scope.labels:
            raise self.cursor.error(f"label {name} stands twice")
        unique = scope.labels[name] = name + scope.suffix
        if self.cursor.peek() in _TABLES:
            if self.cursor.next() == ".callprototype":
                self.prototypes[unique] = parse_prototype(self.cursor)
            else:
                self.tables[unique] = (scope, [word for word in self.cursor.skip_past(";") if word != ","])
        else:
            self.labels[unique] = len(self.instructions)

    def _instruction(self, scope: Scope) -> None:
        cursor = self.cursor
        guard, negated = None, False
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = parse_register(cursor, scope)
        opcode = cursor.next()
        if not opcode[0].isalpha():
            raise cursor.error(f"{opcode!r} is no instruction")
        root, *modifiers = opcode.split(".")
        operands = self._operands(root, scope)
        self._append(Instruction(root, tuple(modifiers), operands, guard, negated, self.location), scope)

    def _operands(self, root: str, scope: Scope) -> tuple[Operand, ...]:
        cursor = self.cursor
        operands: list[Operand] = []
        while not cursor.accept(";"):
            if root == "call" and cursor.accept("("):
                operands.append(Vector(parse_list(cursor, scope, ")")))
            elif root in {"bra", "brx"}:
                operands.append(parse_target(cursor, scope))
            else:
                operands.append(parse_operand(cursor, scope))
            if cursor.accept("|"):  # setp and shfl give a second result
                operands.append(parse_operand(cursor, scope))
            if cursor.peek() != ";":
                cursor.expect(",")
        return _with_prototype(operands) if root == "call" else tuple(operands)

    def _append(self, instruction: Instruction, scope: Scope) -> None:
        if any(isinstance(operand, Label) for operand in instruction.operands):
            self.branches.append((len(self.instructions), scope))
        self.instructions.append(instruction)


def _with_prototype(operands: list[Operand]) -> tuple[Operand, ...]:
    """Return the operands of a call, with the label of a prototype behind the target where there is one."""
    names = [place for place, operand in enumerate(operands) if not isinstance(operand, Vector)]
    for place in names[1:]:
        operand = operands[place]
        if isinstance(operand, Symbol):
            operands[place] = Label(operand.name)
    return tuple(operands)


def _resolve_labels(instruction: Instruction, scope: Scope) -> Instruction:
    operands = (Label(scope.find_label(o.name)) if isinstance(o, Label) else o for o in instruction.operands)
    return replace(instruction, operands=tuple(operands))
