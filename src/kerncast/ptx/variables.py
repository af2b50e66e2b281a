"""Variable declarations: ``.shared .align 4 .b8 tile[1024]``, parameters, initial values."""

import struct

from kerncast.ptx.cursor import Cursor
from kerncast.ptx.module import TYPE_BITS, Immediate, Variable

_ELEMENT_LIMIT = 2**34  # no GPU has a larger variable; keeps a hostile file from asking for it


def parse_variable(cursor: Cursor, *, is_extern: bool = False) -> Variable:
    """Read one declaration, without its closing semicolon, comma or parenthesis."""
    space = cursor.next().removeprefix(".")
    align, element = 0, ""
    vector_width = 1
    while cursor.peek().startswith("."):
        word = cursor.next().removeprefix(".")
        if word == "align":
            align = cursor.integer()
        elif word in {"v2", "v4"}:
            vector_width = int(word[1])
        elif word in TYPE_BITS:
            element = word
        elif word not in {"ptr", "attribute", "managed", "global", "const", "shared", "local"}:
            raise cursor.error(f"unknown attribute .{word} of a variable")
    if not element:
        raise cursor.error("a variable has no type")
    name = cursor.next()
    count = _parse_extents(cursor) * vector_width
    initial: bytes = b""
    relocations: tuple[tuple[int, str], ...] = ()
    if cursor.accept("="):
        initial, relocations = _parse_initial(cursor, element)
        count = max(count, len(initial) * 8 // TYPE_BITS[element]) if count == 0 else count
    natural = max(1, TYPE_BITS[element] // 8) * vector_width
    return Variable(name, space, element, align or natural, count, initial, is_extern, relocations)


def _parse_extents(cursor: Cursor) -> int:
    count = 1
    while cursor.accept("["):
        if cursor.accept("]"):
            count = 0
            continue
        count *= cursor.integer()
        cursor.expect("]")
    if not 0 <= count <= _ELEMENT_LIMIT:
        raise cursor.error(f"a variable has {count} elements")
    return count


def _parse_initial(cursor: Cursor, element: str) -> tuple[bytes, tuple[tuple[int, str], ...]]:
    size = TYPE_BITS[element] // 8
    data = bytearray()
    relocations: list[tuple[int, str]] = []
    depth = 0
    while True:
        if cursor.accept("{"):
            depth += 1
        elif cursor.accept("}"):
            depth -= 1
        elif not cursor.accept(","):
            literal = cursor.literal()
            if literal is not None:
                data += _pack(literal, size)
            else:
                relocations.append((len(data), _parse_symbol(cursor)))
                data += bytes(size)
        if depth == 0 and cursor.peek() != ",":
            return bytes(data), tuple(relocations)
        if cursor.at_end:
            raise cursor.error("an initial value does not end")


def _parse_symbol(cursor: Cursor) -> str:
    name = cursor.next()
    if name == "generic":
        cursor.expect("(")
        name = cursor.next()
        cursor.expect(")")
    return name


def _pack(literal: Immediate, size: int) -> bytes:
    value = literal.value
    if literal.kind == "f64" and size == 4:  # a decimal literal in a .f32 array
        (number,) = struct.unpack("<d", value.to_bytes(8, "little"))
        return struct.pack("<f", number)
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
