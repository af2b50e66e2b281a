"""The body of a function: scopes, labels, locations and instructions."""

import re
from dataclasses import dataclass

from kerncast.ptx.cursor import Cursor
from kerncast.ptx.module import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Label,
    Location,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from kerncast.ptx.variables import parse_variable

_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid)\.[xyz]|%(laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock_hi|clock64|globaltimer"
    r"|globaltimer_lo|globaltimer_hi|lanemask_(eq|lt|le|gt|ge)|total_smem_size|dynamic_smem_size|envreg\d+|pm\d+)"
)
_NUMBERED = re.compile(r"(%?[A-Za-z_$][\w$]*?)(\d+)$")


@dataclass(frozen=True, slots=True)
class Body:
    """What the braces of a function hold."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    variables: tuple[Variable, ...]


class _Scope:
    """The registers and variables that one pair of braces declares, with their unique names."""

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.registers: dict[str, Register] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.symbols: dict[str, str] = {}

    def register(self, name: str) -> Register | None:
        if name in self.registers:
            return self.registers[name]
        match = _NUMBERED.fullmatch(name)
        if match and match[1] in self.ranges and int(match[2]) < self.ranges[match[1]][0]:
            register = Register(name + self.suffix, self.ranges[match[1]][1])
            self.registers[name] = register
            return register
        return None


class BodyParser:
    """Reads one function body; names of inner scopes get a suffix, so that they are unique."""

    def __init__(self, cursor: Cursor, files: dict[int, str]) -> None:
        self.cursor = cursor
        self.files = files
        self.scopes: list[_Scope] = []
        self.scope_count = 0
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.variables: list[Variable] = []
        self.location: Location | None = None

    def parse(self) -> Body:
        """Read from the opening to the closing brace."""
        self.cursor.expect("{")
        self._open_scope()
        while self.scopes:
            self._statement()
        return Body(tuple(self.instructions), self.labels, tuple(self.variables))

    def _open_scope(self) -> None:
        self.scopes.append(_Scope(f"@{self.scope_count}" if self.scope_count else ""))
        self.scope_count += 1

    def _statement(self) -> None:
        cursor = self.cursor
        word = cursor.peek()
        if cursor.accept("{"):
            self._open_scope()
        elif cursor.accept("}"):
            self.scopes.pop()
        elif cursor.accept(";"):
            pass
        elif word == ".loc":
            self._loc()
        elif word == ".reg":
            self._registers()
        elif word in {".local", ".shared", ".param", ".const", ".global"}:
            self._variable()
        elif word in {".pragma", ".branchtargets", ".calltargets", ".callprototype"}:
            cursor.skip_past(";")
        elif cursor.peek(1) == ":":
            self._label()
        else:
            self.instructions.append(self._instruction())

    def _loc(self) -> None:
        cursor = self.cursor
        cursor.next()
        file, line, _column = cursor.integer(), cursor.integer(), cursor.integer()
        while cursor.accept(","):  # function_name and inlined_at: the innermost line is what we keep
            if cursor.next() == "inlined_at":
                cursor.integer(), cursor.integer(), cursor.integer()
            else:
                cursor.next()
                if cursor.accept("+"):
                    cursor.integer()
        if line:
            self.location = Location(self.files.get(file, "?"), line)

    def _registers(self) -> None:
        cursor = self.cursor
        cursor.next()
        element = cursor.next().removeprefix(".")
        if element in {"v2", "v4"}:
            raise cursor.error("vector registers are not supported")
        if element not in TYPE_BITS:
            raise cursor.error(f"unknown register type .{element}")
        scope = self.scopes[-1]
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

    def _variable(self) -> None:
        variable = parse_variable(self.cursor)
        self.cursor.expect(";")
        scope = self.scopes[-1]
        unique = variable.name + scope.suffix
        scope.symbols[variable.name] = unique
        self.variables.append(
            Variable(unique, variable.space, variable.type, variable.align, variable.count, variable.initial)
        )

    def _label(self) -> None:
        name = self.cursor.next()
        self.cursor.expect(":")
        if self.cursor.peek() in {".branchtargets", ".calltargets", ".callprototype"}:
            self._label_table(name)
            return
        if name in self.labels:
            raise self.cursor.error(f"label {name} stands twice")
        self.labels[name] = len(self.instructions)

    def _label_table(self, name: str) -> None:
        """Keep a branch table as a pseudo-instruction, so that brx.idx finds its targets."""
        kind = self.cursor.next().removeprefix(".")
        targets: list[Operand] = []
        while not self.cursor.accept(";"):
            word = self.cursor.next()
            if word != ",":
                targets.append(Label(word))
        if kind == "branchtargets":
            table = (Label(name), *targets)
            self.instructions.append(Instruction("branchtargets", (), table, None, False, self.location))

    def _instruction(self) -> Instruction:
        cursor = self.cursor
        guard, negated = None, False
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = self._register(cursor.next())
        opcode = cursor.next()
        if not opcode[:1].isalpha():
            raise cursor.error(f"{opcode!r} is no instruction")
        root, *modifiers = opcode.split(".")
        operands: list[Operand] = []
        while not cursor.accept(";"):
            if root == "call" and cursor.peek() == "(":
                operands.append(self._argument_list())
            else:
                operands.append(self._operand(is_target=root in {"bra", "brx"}))
            if cursor.accept("|"):  # setp and shfl give a second result
                operands.append(self._operand())
            if cursor.peek() != ";":
                cursor.expect(",")
        return Instruction(root, tuple(modifiers), tuple(operands), guard, negated, self.location)

    def _argument_list(self) -> Vector:
        self.cursor.expect("(")
        elements: list[Operand] = []
        while not self.cursor.accept(")"):
            elements.append(self._operand())
            self.cursor.accept(",")
        return Vector(tuple(elements))

    def _operand(self, *, is_target: bool = False) -> Operand:
        cursor = self.cursor
        if cursor.accept("{"):
            elements: list[Operand] = []
            while not cursor.accept("}"):
                elements.append(self._operand())
                cursor.accept(",")
            return Vector(tuple(elements))
        if cursor.accept("["):
            return self._address()
        if cursor.accept("!"):
            return Negated(self._register(cursor.next()))
        literal = cursor.literal()
        if literal is not None:
            return literal
        word = cursor.next()
        if word == "_":
            return Sink()
        register = self._find_register(word)
        if register is not None:
            return register
        if _SPECIAL.fullmatch(word):
            return Special(word)
        if word == "WARP_SZ":
            return Immediate(32, "int")
        if word.startswith("%"):
            raise cursor.error(f"register {word} is not declared")
        if is_target:
            return Label(word)
        return self._symbol(word)

    def _address(self) -> Address:
        cursor = self.cursor
        base: Register | Symbol | None = None
        offset = 0
        literal = cursor.literal()
        if literal is not None:
            offset = literal.value
        else:
            word = cursor.next()
            base = self._find_register(word) or self._symbol(word)
        if cursor.peek() in {"+", "-"}:
            sign = -1 if cursor.next() == "-" else 1
            offset += sign * cursor.integer()
        cursor.expect("]")
        return Address(base, offset)

    def _register(self, name: str) -> Register:
        register = self._find_register(name)
        if register is None:
            raise self.cursor.error(f"register {name} is not declared")
        return register

    def _find_register(self, name: str) -> Register | None:
        return next((r for s in reversed(self.scopes) if (r := s.register(name)) is not None), None)

    def _symbol(self, name: str) -> Symbol:
        return Symbol(next((s.symbols[name] for s in reversed(self.scopes) if name in s.symbols), name))
