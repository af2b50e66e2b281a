"""Device memory and structs as a launch file writes them."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clang.cindex import CursorKind, Type, TypeKind

from kerncast.compile.host.contents import Contents
from kerncast.compile.host.libclang import is_declared_here
from kerncast.compile.host.memory import Memory
from kerncast.compile.host.tree import Node
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.values import Values
from kerncast.compile.host.writes import Step
from kerncast.compile.host_launches import HostArgument
from kerncast.compile.nouns import Parameter
from kerncast.compile.source.signatures import parameter_of
from kerncast.launch import ELEMENT_BYTES

#: A struct is looked into this deep, and this many of its numbers are taken one by one.
_DEEPEST = 6
_MOST_NUMBERS = 512
_ARRAYS = {TypeKind.CONSTANTARRAY}
_FORMATS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q",
            "f32": "f", "f64": "d"}  # fmt: skip


def buffer_text(memory: Memory, pointee: Type, contents: Contents) -> tuple[str, list[str]]:
    """Return a buffer for the memory behind a pointer, and what is assumed; raises Undecided."""
    if pointee.kind == TypeKind.POINTER:
        raise Undecided("it holds pointers, which a launch file cannot give")
    element, each = layout(pointee)
    if memory.size is None:
        raise Undecided(f"{memory.made_by} allocates it: {memory.why}" if memory.made_by else memory.why)
    notes = []
    offset = memory.offset
    if offset is None:
        notes.append("from the beginning of the allocation: the offset is not known")
    elif offset:
        notes.append(f"what the allocation holds from byte {offset} on")
    count = (memory.size - (offset or 0)) // (each * ELEMENT_BYTES[element])
    if count < 1 or (offset or 0) < 0:
        raise Undecided(f"{memory.made_by or 'the host'} gives it {memory.size} bytes, too few for one element")
    is_zero = contents.are_zero(memory)
    fill = "random" if element.startswith("f") and not is_zero else "zeros"
    if fill == "zeros" and not is_zero:
        notes.append("contents decide branches and addresses: decide them where these are read")
    shape = f"{count}, {each}" if each > 1 else str(count)
    return f"{element}[{shape}] {fill}", notes


def with_shared_memory(arguments: Sequence[HostArgument], memories: Mapping[int, Memory]) -> tuple[HostArgument, ...]:
    """Return arguments with a pointer into the buffer of another one where they point into one allocation."""
    found = list(arguments)
    for place, memory in memories.items():
        same = [
            (each.offset, other)
            for other, each in memories.items()
            if each.site == memory.site and each.site and each.offset is not None
        ]
        base = min(same, default=None)
        if base is None or base[1] == place or memory.offset is None:
            continue
        text = _pointer_into(found[base[1]].parameter, memory.offset - base[0])
        if text is not None:
            value = replace(found[place].value, value=text, notes=())
            found[place] = replace(found[place], value=value)
    return tuple(found)


def _pointer_into(base: Parameter, offset: int) -> str | None:
    """Return a pointer into the buffer of a parameter; None where a launch file cannot name it."""
    if not base.name or base.element is None:
        return f"&{base.name}" if base.name and offset == 0 else None
    index, rest = divmod(offset, ELEMENT_BYTES[base.element])
    if rest:
        return None
    return f"&{base.name}[{index}]" if index else f"&{base.name}"


def struct_text(values: Values, node: Node, type_: Type) -> str:
    """Return a struct byte for byte; raises Undecided where one of its numbers is not known."""
    canonical = type_.get_canonical()
    data = bytearray(max(canonical.get_size(), 0))
    budget = [_MOST_NUMBERS]

    def fill(part: Type, offset: int, path: tuple[Step, ...]) -> None:
        part = part.get_canonical()
        budget[0] -= 1
        if budget[0] < 0 or len(path) > _DEEPEST:
            raise Undecided("the struct holds too many numbers")
        if part.kind in _ARRAYS:
            for index in range(part.element_count):
                fill(part.element_type, offset + index * part.element_type.get_size(), (*path, index))
        elif part.kind == TypeKind.RECORD:
            if is_declared_here(part):
                raise Undecided(f"the type {part.spelling} is not known")
            if _inherits(part):
                raise Undecided("the struct inherits from another one")
            if part.get_declaration().kind == CursorKind.UNION_DECL or any(f.is_bitfield() for f in part.get_fields()):
                raise Undecided("the struct holds fields that share bytes")
            for field in part.get_fields():
                fill(field.type, offset + field.get_field_offsetof() // 8, (*path, field.spelling))
        else:
            element = parameter_of("", part).element if part.kind != TypeKind.POINTER else None
            if element not in _FORMATS:
                raise Undecided(f"the field {path[-1] if path else ''} is a {part.spelling}")
            number = values.part(node, path, None)
            if not isinstance(number, int | float):
                raise Undecided(f"the field {path[-1]} is not known")
            number = float(number) if element.startswith("f") else int(number)
            struct.pack_into(f"<{_FORMATS[element]}", data, offset, number)

    try:
        fill(canonical, 0, ())
    except (struct.error, OverflowError):
        raise Undecided("a number does not fit its field") from None
    if not data:
        raise Undecided("its size is not known")
    return f"bytes({data.hex()})"


def _inherits(part: Type) -> bool:
    """Whether a class has what its own fields do not show: those of another class, or a table of virtual methods."""
    first = min((each.get_field_offsetof() for each in part.get_fields()), default=8 * part.get_size())
    bases = (each.kind == CursorKind.CXX_BASE_SPECIFIER for each in part.get_declaration().get_children())
    # libclang shows no bases of an instance of a template; an empty class has one byte.
    return any(bases) or (first > 0 and part.get_size() > 1)


def layout(pointee: Type) -> tuple[str, int]:
    """Return the element of a launch file that a type is made of, and how many of it; raises Undecided."""
    if pointee.kind == TypeKind.VOID:
        return "u8", 1
    element = parameter_of("", pointee).element if pointee.kind not in _ARRAYS else None
    if element is not None:
        return element, 1
    size = pointee.get_size()
    if size <= 0 or is_declared_here(pointee):
        raise Undecided(f"the type {pointee.spelling} is not known")
    elements = _elements(pointee, _DEEPEST)
    if len(elements) == 1:
        only = elements.pop()
        return only, size // ELEMENT_BYTES[only]
    return "u8", size


def _elements(part: Type, depth: int) -> set[str]:
    """Return the elements that a struct is made of; more than one, or none of a launch file's, where it is mixed."""
    part = part.get_canonical()
    if depth == 0 or part.kind == TypeKind.POINTER:
        return {"", "u8"}
    if part.kind in _ARRAYS:
        return _elements(part.element_type, depth - 1)
    if part.kind == TypeKind.RECORD and parameter_of("", part).element is None:
        found: set[str] = set()
        for field in part.get_fields():
            found |= _elements(field.type, depth - 1)
        return found or {"", "u8"}
    return {parameter_of("", part).element or ""}
