"""PTX text to a Module: a recursive-descent parser with nested register scopes.

Source: NVIDIA, Parallel Thread Execution ISA 8.8. Debug sections are skipped; ``.loc`` is kept.
"""

import re
import struct
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kerncast.errors import PTXSyntaxError
from kerncast.ptx.module import (
    TYPE_BITS,
    Address,
    ClusterRule,
    Function,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Opaque,
    Operand,
    Prototype,
    Register,
    Relocation,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from kerncast.ptx.opcodes import Flow, opcode_of

# Literals of PTX: integers in four bases, floats as decimals or as bit patterns.


_BIT_PATTERN = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[0-7]{0,22}|[1-9]\d{0,19})U?", re.ASCII)
_DECIMAL = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)


def parse_literal(text: str) -> Immediate | None:
    """Return the literal that a word means, or None.

    >>> parse_literal("0f3F800000"), parse_literal("0x1F"), parse_literal("017")
    (Immediate(value=1065353216, kind='f32'), Immediate(value=31, kind='int'), Immediate(value=15, kind='int'))
    >>> parse_literal("1.5") == parse_literal("0d3FF8000000000000"), parse_literal("%r1")
    (True, None)
    """
    pattern = _BIT_PATTERN.fullmatch(text)
    if pattern:
        return Immediate(int(pattern[1] or pattern[2], 16), "f32" if pattern[1] else "f64")
    whole = _INTEGER.fullmatch(text)
    if whole:
        digits = whole[1]
        is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return Immediate(int(digits, 8 if is_octal else 0), "int")
    if _DECIMAL.fullmatch(text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    return None


def negative(literal: Immediate) -> Immediate:
    """Return the literal with its sign changed."""
    if literal.kind == "int":
        return Immediate(-literal.value, "int")
    return Immediate(literal.value ^ (1 << (31 if literal.kind == "f32" else 63)), literal.kind)


# Text of PTX to tokens.


_TOKEN = re.compile(
    r"""(?P<skipped>  \s+ | //[^\n]* | /\*.*?(?:\*/|\Z) )
      | (?P<text>     "(?:[^"\\\n]|\\.)*" )
      | (?P<word>     \.[A-Za-z_]\w*                          # a directive: .reg.b16 is two
                    | (?:\d+(?:\.\d*)?|\.\d+)[eE][+-]\d+
                    | (?:[\w$%.]|::)+ )
      | (?P<mark>     [{}()\[\]<>,;:=|!@+\-*] )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token(NamedTuple):  # made a hundred thousand times: a dataclass takes twice as long
    """A word, a quoted text or one punctuation mark, with its line."""

    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a PTX text; raises PTXSyntaxError at a character that PTX does not have."""
    text = text.rstrip("\0")  # NVRTC ends its text like a C string
    tokens = []
    position, line = 0, 1
    for match in _TOKEN.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        kind = match.lastgroup
        if kind != "skipped":
            tokens.append(Token(match[0], line))
        if kind in {"skipped", "text"}:  # words and marks have no line breaks
            line += match[0].count("\n")
    if position < len(text):
        raise PTXSyntaxError(f"unexpected {text[position]!r}", where=f"PTX line {line}")
    return tokens


# A place in a list of tokens, with the few moves that a recursive-descent parser needs.


class Cursor:
    """Reads tokens in order; every error names the line."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def at_end(self) -> bool:
        """Whether every token was read."""
        return self._position >= len(self._tokens)

    @property
    def line(self) -> int:
        """Line of the text, from 1, that the next token stands on."""
        return self._tokens[min(self._position, len(self._tokens) - 1)].line

    def peek(self, ahead: int = 0) -> str:
        """Return a token without reading it; empty past the end."""
        position = self._position + ahead
        return self._tokens[position].text if position < len(self._tokens) else ""

    def next(self) -> str:
        """Read one token."""
        if self.at_end:
            raise self.error("the text ends too early")
        self._position += 1
        return self._tokens[self._position - 1].text

    def accept(self, text: str) -> bool:
        """Read the next token if it is this one."""
        if self.peek() == text:
            self._position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Read the next token, which must be this one."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek()!r}")

    def skip_past(self, text: str) -> list[str]:
        """Read tokens up to and including this one, and return those before it."""
        skipped = []
        while (word := self.next()) != text:
            skipped.append(word)
        return skipped

    def integer(self) -> int:
        """Read an integer, which may have a sign."""
        literal = self.literal()
        if literal is None or literal.kind != "int":
            raise self.error(f"expected an integer, found {self.peek()!r}")
        return literal.value

    def literal(self) -> Immediate | None:
        """Read a literal, which may have a sign, if one comes next."""
        signed = self.peek() in {"-", "+"}
        literal = parse_literal(self.peek(int(signed)))
        if literal is None:
            return None
        is_negative = self.peek() == "-"
        self._position += 1 + int(signed)
        return negative(literal) if is_negative else literal

    def offset(self) -> int:
        """Read ``+ 8`` or ``- 8`` if it comes next; zero otherwise."""
        if self.peek() not in {"+", "-"}:
            return 0
        sign = -1 if self.next() == "-" else 1
        return sign * self.integer()

    def error(self, what: str) -> PTXSyntaxError:
        """Return an error at the current line."""
        if not self._tokens:
            return PTXSyntaxError(what, where="PTX")
        return PTXSyntaxError(what, where=f"PTX line {self.line}")


# Names inside a function body: each pair of braces may declare registers, variables and labels of its own.


_DIGITS = "0123456789"
_MOST_DIGITS = 9


@dataclass(slots=True)
class Scope:
    """The declarations within one pair of braces; names get its suffix, so that they are unique in the function."""

    suffix: str
    outer: "Scope | None"
    depth: int = 0
    """number of braces around the scope"""
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


# Operands of instructions.


_DEEPEST_OPERAND = 8
_SPECIAL = re.compile(
    r"%((tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(\.[xyzw])?|laneid|warpid|nwarpid"
    r"|smid|nsmid|gridid|clock|clock_hi|clock64|globaltimer(_lo|_hi)?|lanemask_(eq|lt|le|gt|ge)|total_smem_size"
    r"|aggr_smem_size|dynamic_smem_size|cluster_ctarank|cluster_nctarank|is_explicit_cluster|current_graph_exec"
    r"|reserved_smem_offset_\w+|envreg\d+|pm\d+(_64)?)",
    re.ASCII,
)


def parse_operand(cursor: Cursor, scope: Scope, depth: int = 0) -> Operand:
    """Read one operand; ``depth`` is how many braces stand around it."""
    if cursor.accept("{"):
        if depth == _DEEPEST_OPERAND:
            raise cursor.error("braces are nested too deeply")
        elements = parse_list(cursor, scope, "}", depth + 1)
        return elements[0] if len(elements) == 1 else Vector(elements)  # Triton writes single registers so
    if cursor.accept("["):
        return _parse_address(cursor, scope)
    if cursor.accept("!"):
        return Negated(parse_register(cursor, scope))
    return cursor.literal() or _parse_name(cursor, scope)


def parse_list(cursor: Cursor, scope: Scope, closing: str, depth: int = 0) -> tuple[Operand, ...]:
    """Read operands up to and including a closing mark."""
    elements: list[Operand] = []
    while not cursor.accept(closing):
        elements.append(parse_operand(cursor, scope, depth))
        if cursor.peek() != closing:
            cursor.expect(",")
    return tuple(elements)


def parse_register(cursor: Cursor, scope: Scope) -> Register:
    """Read the name of a declared register."""
    name = cursor.next()
    register = scope.find_register(name)
    if register is None:
        raise _undeclared(cursor, name)
    return register


def parse_target(cursor: Cursor, scope: Scope) -> Operand:
    """Read an operand of a branch: a label or a register."""
    word = cursor.next()
    return scope.find_register(word) or Label(word)


def _parse_name(cursor: Cursor, scope: Scope) -> Operand:
    word = cursor.next()
    if word == "_":
        return Sink()
    if word == "WARP_SZ":
        return Immediate(32, "int")
    register = scope.find_register(word)
    if register is not None:
        return register
    if _SPECIAL.fullmatch(word):
        return Special(word)
    if word == "generic" and cursor.accept("("):
        word = cursor.next()
        cursor.expect(")")
    if not word[0].isalpha() and word[0] not in "_$":
        raise _undeclared(cursor, word)
    return Symbol(scope.find_symbol(word), cursor.offset())


def _parse_address(cursor: Cursor, scope: Scope) -> Operand:
    literal = cursor.literal()
    base: Register | Symbol | None = None
    offset = 0
    if literal is not None:
        offset = literal.value
    elif cursor.peek() == "{":
        return _skip_brackets(cursor)
    else:
        word = cursor.next()
        base = scope.find_register(word) or Symbol(scope.find_symbol(word))
        if isinstance(base, Symbol) and word.startswith("%"):
            raise _undeclared(cursor, word)
    offset += cursor.offset()
    if cursor.accept("]"):
        return Address(base, offset)
    if not (cursor.accept(",") and cursor.accept("{")):
        return _skip_brackets(cursor)
    coordinates = parse_list(cursor, scope, "}", _DEEPEST_OPERAND)
    return Address(base, offset, coordinates) if cursor.accept("]") else _skip_brackets(cursor)


def _skip_brackets(cursor: Cursor) -> Opaque:
    """Skip the rest of an operand of a texture or tensor instruction."""
    return Opaque(" ".join(cursor.skip_past("]")))


def _undeclared(cursor: Cursor, name: str) -> PTXSyntaxError:
    return cursor.error(f"register {name} is not declared" if name.startswith("%") else f"{name!r} is not an operand")


# Variable declarations: ``.shared .align 4 .b8 tile[1024]``, parameters, initial values.


_ELEMENT_LIMIT = 2**40  # no GPU has a larger variable; keeps a hostile file from asking for it
_ALIGNMENT_LIMIT = 2**20
_HANDLES = {"texref", "samplerref", "surfref"}  # opaque to everything but instructions that are refused by name


def parse_variable(cursor: Cursor, *, is_extern: bool = False) -> Variable:
    """Read one declaration, without its closing semicolon, comma or parenthesis."""
    space = cursor.next().removeprefix(".")
    align, element, vector_width = _parse_attributes(cursor)
    name = cursor.next()
    count = _parse_extents(cursor) * vector_width
    data = _Initial()
    size = TYPE_BITS[element] // 8
    if cursor.accept("="):
        data.read(cursor, size)
        count = count or len(data.bytes) // size
        if len(data.bytes) > count * size:
            raise cursor.error(f"the initial value of {name} is larger than the variable")
    return Variable(
        name, space, element, align or max(1, size) * vector_width, count, bytes(data.bytes), is_extern,
        tuple(data.relocations),
    )  # fmt: skip


def parse_prototype(cursor: Cursor) -> Prototype:
    """Read ``(.param .b32 _) _ (.param .b64 _, .param .b8 _[12]);``, where either list may be missing."""
    returns = _parse_sizes(cursor)
    cursor.expect("_")
    parameters = _parse_sizes(cursor)
    cursor.skip_past(";")  # .noreturn and .abi_preserve do not change what is called
    return Prototype(returns, parameters)


def _parse_sizes(cursor: Cursor) -> tuple[int, ...]:
    sizes: list[int] = []
    if not cursor.accept("("):
        return ()
    while not cursor.accept(")"):
        sizes.append(parse_variable(cursor).nbytes)
        cursor.accept(",")
    return tuple(sizes)


def _parse_attributes(cursor: Cursor) -> tuple[int, str, int]:
    """Return (alignment, element type, vector width); alignment 0 where none is given."""
    align, element, vector_width = 0, "", 1
    is_pointee = False
    while cursor.peek().startswith("."):
        word = cursor.next().removeprefix(".")
        if word == "align":
            value = _parse_alignment(cursor)
            align = align if is_pointee else value
        elif word == "ptr":  # what follows describes the memory that a parameter points to
            is_pointee = True
        elif word in {"v2", "v4"}:
            vector_width = int(word[1])
        elif word in _HANDLES:
            element = "b64"
        elif TYPE_BITS.get(word, 0) in _WHOLE_BYTES:
            element = word
        elif word == "attribute":
            cursor.expect("(")
            cursor.skip_past(")")
        elif word not in {"managed", "global", "const", "shared", "local"}:
            raise cursor.error(f"unknown attribute .{word} of a variable")
    if not element:
        raise cursor.error("a variable has no type")
    return align, element, vector_width


def _parse_alignment(cursor: Cursor) -> int:
    value = cursor.integer()
    if not 1 <= value <= _ALIGNMENT_LIMIT or value & (value - 1):
        raise cursor.error(f"an alignment is {value}")
    return value


def _parse_extents(cursor: Cursor) -> int:
    count = 1
    while cursor.accept("["):
        if cursor.accept("]"):
            count = 0
            continue
        extent = cursor.integer()
        cursor.expect("]")
        count *= extent
        if extent < 0 or count > _ELEMENT_LIMIT:
            raise cursor.error(f"a variable has {count} elements")
    return count


class _Initial:
    """The bytes of an initial value, with the addresses that are known only at run time."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.relocations: list[Relocation] = []

    def read(self, cursor: Cursor, size: int) -> None:
        """Read one value, or nested lists of values in braces, each value ``size`` bytes."""
        depth = 0
        while True:
            if cursor.accept("{"):
                depth += 1
            elif cursor.accept("}"):
                depth -= 1
            elif not cursor.accept(","):
                self._value(cursor, size)
            if depth <= 0:
                return

    def _value(self, cursor: Cursor, size: int) -> None:
        literal = cursor.literal()
        if literal is None:
            self._address(cursor, size, 0)
        elif cursor.peek() == "(" and literal.kind == "int":  # 0xFF00(symbol): one byte of its address
            cursor.next()
            self._address(cursor, size, _lowest_bit(literal.value))
            cursor.expect(")")
        else:
            self.bytes += _pack(literal, size)

    def _address(self, cursor: Cursor, size: int, shift: int) -> None:
        name = cursor.next()
        if name == "generic":
            cursor.expect("(")
            name = cursor.next()
            cursor.expect(")")
        if not name[0].isalpha() and name[0] not in "_$%":
            raise cursor.error(f"{name!r} is not an initial value")
        self.relocations.append(Relocation(len(self.bytes), name, cursor.offset(), size, shift))
        self.bytes += bytes(size)


def _lowest_bit(mask: int) -> int:
    return max((mask & -mask).bit_length() - 1, 0)


def _pack(literal: Immediate, size: int) -> bytes:
    value = literal.value
    if literal.kind == "f64" and size == 4:  # a decimal literal in a .f32 array
        (number,) = struct.unpack("<d", value.to_bytes(8, "little"))
        try:
            return struct.pack("<f", number)
        except OverflowError:
            return struct.pack("<f", float("inf") if number > 0 else float("-inf"))
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


# The body of a function: scopes, labels, locations and instructions.


_SPACES = {".local", ".shared", ".param", ".const", ".global"}
_HAS_POLICY = "L2::cache_hint"
_DEEPEST_SCOPE = 2500
_TABLES = {".branchtargets", ".calltargets", ".callprototype"}


@dataclass(frozen=True, slots=True)
class Body:
    """The contents of a function's braces."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]
    prototypes: dict[str, Prototype]
    variables: tuple[Variable, ...]


#: Bits of what registers and variables hold; elements of matrices may have fewer.
_WHOLE_BYTES = {8, 16, 32, 64, 128}


class BodyParser:
    """Reads one function body."""

    def __init__(self, cursor: Cursor, files: dict[int, str]) -> None:
        self.cursor = cursor
        self.files = files
        self.scope: Scope | None = None
        self.scope_count = 0
        self.instructions: list[Instruction] = []
        self.branches: list[tuple[int, Scope]] = []
        """instructions that name labels, which may stand further down, and their scopes"""
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
        if element != "pred" and (element not in TYPE_BITS or TYPE_BITS[element] not in _WHOLE_BYTES):
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
        line, guard, negated = cursor.line, None, False
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = parse_register(cursor, scope)
        opcode = cursor.next()
        if not opcode[0].isalpha():
            raise cursor.error(f"{opcode!r} is not an instruction")
        root, *modifiers = opcode.split(".")
        operands = self._operands(root, scope)
        if _HAS_POLICY in modifiers and len(operands) > 1 and isinstance(operands[-1], Register):
            # What a cache is told to keep changes no value, and nothing here simulates it.
            operands = operands[:-1]
            modifiers = [m for m in modifiers if m != _HAS_POLICY]
        self._append(Instruction(root, tuple(modifiers), operands, guard, negated, self.location, line=line), scope)

    def _operands(self, root: str, scope: Scope) -> tuple[Operand, ...]:
        cursor = self.cursor
        operands: list[Operand] = []
        while not cursor.accept(";"):
            if root == "call" and cursor.accept("("):
                operands.append(Vector(parse_list(cursor, scope, ")")))
            elif opcode_of(root).flow is Flow.BRANCH:
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


_LINKAGE = {".extern", ".visible", ".weak", ".common"}
_ESCAPE = re.compile(rb"\\(?:([0-3][0-7]{2})|(.))")


def parse_ptx(text: str) -> Module:
    """Return the module that a PTX text describes; raises PTXSyntaxError with the line.

    >>> parse_ptx('.version 8.8 .target sm_70 .address_size 64 .visible .entry k() { ret; }').kernels
    ('k',)
    """
    return _ModuleParser(tokenize(text)).parse()


class _ModuleParser:
    """Reads the declarations of a module one after the other."""

    def __init__(self, tokens: list[Token]) -> None:
        self.cursor = Cursor(tokens)
        self.version = ""
        self.target = ""
        self.files = _source_files(tokens)
        self.variables: list[Variable] = []
        self.functions: dict[str, Function] = {}

    def parse(self) -> Module:
        while not self.cursor.at_end:
            self._declaration()
        if not self.version:
            raise PTXSyntaxError("no .version found: this is not PTX", where="PTX line 1")
        return Module(self.version, self.target, tuple(self.variables), self.functions)

    def _declaration(self) -> None:
        cursor = self.cursor
        linkage = set()
        while cursor.peek() in _LINKAGE:
            linkage.add(cursor.next())
        word = cursor.peek()
        if word == ".version":
            cursor.next()
            self.version = cursor.next()
        elif word == ".target":
            cursor.next()
            self.target = cursor.next()
            while cursor.accept(","):
                cursor.next()
        elif word == ".address_size":
            cursor.next()
            if cursor.next() != "64":
                raise cursor.error("only 64-bit PTX is supported")
        elif word == ".file":
            self._skip_file()
        elif word == ".section":
            self._skip_section()
        elif word in {".entry", ".func"}:
            self._function()
        elif word in {".global", ".const", ".shared", ".local"}:
            self.variables.append(parse_variable(cursor, is_extern=".extern" in linkage))
            cursor.expect(";")
        elif word in {".pragma", ".alias"}:
            cursor.skip_past(";")
        elif not cursor.accept(";"):
            raise cursor.error(f"unexpected {word!r}")

    def _skip_file(self) -> None:
        for _ in (".file", "index", "name"):
            self.cursor.next()
        while self.cursor.accept(","):
            self.cursor.next()

    def _skip_section(self) -> None:
        self.cursor.next()
        while not self.cursor.accept("{"):
            self.cursor.next()
        depth = 1
        while depth:
            word = self.cursor.next()
            depth += (word == "{") - (word == "}")

    def _function(self) -> None:
        cursor = self.cursor
        is_kernel = cursor.next() == ".entry"
        returns = self._parameters() if cursor.peek() == "(" else ()
        name = cursor.next()
        parameters = self._parameters() if cursor.peek() == "(" else ()
        rule = self._cluster_rule()
        if cursor.accept(";"):
            return
        body = BodyParser(cursor, self.files).parse()
        self.functions[name] = Function(
            name,
            is_kernel,
            parameters,
            returns,
            body.variables,
            body.instructions,
            body.labels,
            body.tables,
            body.prototypes,
            rule,
        )

    def _cluster_rule(self) -> ClusterRule:
        """Read what stands between the head and the body of a function: the limits of blocks the cubin tells, too."""
        rule = ClusterRule()
        while self.cursor.peek() not in {"{", ";"}:
            match self.cursor.next():
                case ".reqnctapercluster":
                    numbers = self._numbers()
                    x, y, z = (*numbers, 1, 1, 1)[:3]
                    rule = replace(rule, blocks=(x, y, z))
                case ".maxclusterrank":
                    rule = replace(rule, most_blocks=self._numbers()[0])
                case ".explicitcluster":
                    rule = replace(rule, is_explicit=True)
                case ".blocksareclusters":
                    rule = replace(rule, counts_clusters=True)
        return rule

    def _numbers(self) -> list[int]:
        """Read numbers with commas between them: at least one, and none below one."""
        numbers = []
        while True:
            word = self.cursor.next()
            found = parse_literal(word)
            if found is None or found.value < 1:
                raise self.cursor.error(f"expected a number, found {word!r}")
            numbers.append(found.value)
            if not self.cursor.accept(","):
                return numbers

    def _parameters(self) -> tuple[Variable, ...]:
        self.cursor.expect("(")
        parameters = []
        while not self.cursor.accept(")"):
            if self.cursor.peek() != ".param":
                raise self.cursor.error(f"expected a parameter, found {self.cursor.peek()!r}")
            parameters.append(parse_variable(self.cursor))
            self.cursor.accept(",")
        return tuple(parameters)


def _source_files(tokens: list[Token]) -> dict[int, str]:
    """Return the names of source files by index: NVRTC writes them after the code that refers to them."""
    files = {}
    for place, index, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        number = parse_literal(index.text) if place.text == ".file" else None
        if number is not None:
            files[number.value] = _unescaped(name.text.strip('"'))
    return files


def _unescaped(name: str) -> str:
    r"""Return a name as the file system has it: NVRTC writes what is not ASCII as octal bytes.

    >>> _unescaped(r"/caf\303\251/k.cu")
    '/café/k.cu'
    """
    raw = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]) if match[1] else match[2], name.encode())
    return raw.decode(errors="replace")
