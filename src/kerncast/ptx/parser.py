"""PTX text to a Module: a recursive-descent parser with nested register scopes.

Source: NVIDIA, Parallel Thread Execution ISA 8.8. Debug sections are skipped; ``.loc`` is kept.
"""

import re

from kerncast.errors import PTXSyntaxError
from kerncast.ptx.body import BodyParser
from kerncast.ptx.cursor import Cursor
from kerncast.ptx.lexer import Token, tokenize
from kerncast.ptx.literals import parse_literal
from kerncast.ptx.module import Function, Module, Variable
from kerncast.ptx.variables import parse_variable

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
        while cursor.peek() not in {"{", ";"}:  # .maxntid, .minnctapersm, .noreturn …: limits that the cubin also tells
            cursor.next()
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
        )

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
