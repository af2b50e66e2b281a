"""Variable declarations: ``.shared .align 4 .b8 tile[1024]``, parameters, initial values."""

import struct

from kerncast.ptx.cursor import Cursor
from kerncast.ptx.module import TYPE_BITS, Immediate, Prototype, Relocation, Variable

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
        elif word in TYPE_BITS and word != "pred":
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
            raise cursor.error(f"{name!r} is no initial value")
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
