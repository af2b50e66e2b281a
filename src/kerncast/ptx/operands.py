"""Operands of instructions."""

import re

from kerncast.errors import PTXSyntaxError
from kerncast.ptx.cursor import Cursor
from kerncast.ptx.module import (
    Address,
    Immediate,
    Label,
    Negated,
    Opaque,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from kerncast.ptx.scopes import Scope

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
        return Vector(parse_list(cursor, scope, "}", depth + 1))
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
    return Address(base, offset) if cursor.accept("]") else _skip_brackets(cursor)


def _skip_brackets(cursor: Cursor) -> Opaque:
    """Skip the rest of an operand of a texture or tensor instruction."""
    return Opaque(" ".join(cursor.skip_past("]")))


def _undeclared(cursor: Cursor, name: str) -> PTXSyntaxError:
    return cursor.error(f"register {name} is not declared" if name.startswith("%") else f"{name!r} is no operand")
