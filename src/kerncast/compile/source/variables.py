"""What the source says of its variables in constant and global memory, and where its host code sets them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from clang.cindex import Cursor, CursorKind, TypeKind

from kerncast.compile.nouns import DeviceVariable, HostCopy
from kerncast.compile.source.parsing import qualified_name
from kerncast.compile.source.signatures import element_of, size_of
from kerncast.compile.source.symbol_copies import symbol_copies

_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}


def device_variables(found: Mapping[str, Iterable[Cursor]], texts: Mapping[str, bytes]) -> tuple[DeviceVariable, ...]:
    """Return the variables of namespace scope with __constant__ or __device__; both mappings are by file."""
    variables = [
        _variable(cursor, kinds, texts.get(file, b""))
        for file in texts
        for cursor in found.get(file, ())
        if cursor.kind == CursorKind.VAR_DECL
        and (kinds := {child.kind for child in cursor.get_children()})
        & {CursorKind.CUDACONSTANT_ATTR, CursorKind.CUDADEVICE_ATTR}
    ]
    copies = [(file, copy) for file, text in texts.items() for copy in symbol_copies(text)]
    return tuple(
        replace(
            variable,
            copies=tuple(
                HostCopy(file, copy.line, copy.data) for file, copy in copies if _is_named(variable.name, copy.symbol)
            ),
        )
        for variable in variables
    )


def _variable(cursor: Cursor, kinds: set[CursorKind], text: bytes) -> DeviceVariable:
    value = cursor.type.get_canonical()
    while value.kind in _ARRAYS:
        value = value.element_type.get_canonical()
    name = cursor.spelling.encode()
    behind = text[cursor.location.offset + len(name) : cursor.extent.end.offset]
    return DeviceVariable(
        name=qualified_name(cursor),
        is_constant=CursorKind.CUDACONSTANT_ATTR in kinds,
        type_text=cursor.type.spelling,
        element=element_of(value),
        byte_size=size_of(cursor.type.get_canonical()),
        has_initial=b"=" in behind or b"{" in behind,
        line=cursor.location.line,
    )


def _is_named(name: str, symbol: str) -> bool:
    """Whether a name as host code writes it can mean the variable."""
    shorter, longer = sorted((name, symbol.removeprefix("::")), key=len)
    return longer == shorter or longer.endswith(f"::{shorter}")
