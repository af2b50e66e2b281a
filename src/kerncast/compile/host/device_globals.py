"""Variables of the device that host code sets before a launch, and what is known of their values."""

from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind, Type, TypeKind, conf

from kerncast.compile.host.buffers import layout
from kerncast.compile.host.libclang import overloads
from kerncast.compile.host.tree import Call
from kerncast.compile.host.undecided import Undecided
from kerncast.compile.host.values import Values
from kerncast.compile.host.writes import POINTEE
from kerncast.compile.host_launches import UNDECIDED, HostArgument, HostValue
from kerncast.compile.source.parsing import qualified_name
from kerncast.compile.source.signatures import parameter_of
from kerncast.launch import ELEMENT_BYTES

_COPYING_TO_SYMBOL = {"cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync", "hipMemcpyToSymbol", "hipMemcpyToSymbolAsync"}
_ARRAYS = {TypeKind.CONSTANTARRAY}


class DeviceGlobals:
    """The variables that host code copies to, without those whose data the compiler finds by itself."""

    def __init__(self, values: Values, literal: frozenset[str]) -> None:
        self._values = values
        self._copies: dict[int, tuple[Cursor, list[Call]]] = {}
        for call in values.program.every_call:
            meant = (
                call.arguments[0].plain.meant if call.name in _COPYING_TO_SYMBOL and len(call.arguments) > 1 else None
            )
            if meant is not None and meant.kind == CursorKind.VAR_DECL and qualified_name(meant) not in literal:
                self._copies.setdefault(int(meant.hash), (meant, []))[1].append(call)

    def used_by(self, kernel: Cursor) -> tuple[HostArgument, ...]:
        """Return the variables that a kernel names, in itself or in what it calls."""
        if not self._copies:
            return ()
        named = set(_named(kernel, set()))
        return tuple(self._value(*found) for key, found in self._copies.items() if key in named)

    def _value(self, variable: Cursor, calls: list[Call]) -> HostArgument:
        type_ = variable.type.get_canonical()
        source = calls[-1].arguments[1]
        place = self._values.where(calls[-1].node)
        expression = f"{calls[-1].name} from {source.plain.name}" if source.plain.name else calls[-1].name
        parameter = parameter_of(qualified_name(variable), type_)
        if parameter.kind in {"integer", "float", "bool"} and len(calls) == 1:
            self._values.begin()
            try:
                number = self._values.part(source, (POINTEE,), None)
                if isinstance(number, int | float):
                    value = float(number) if parameter.kind == "float" else int(number)
                    return HostArgument(parameter, HostValue(expression, place, value, tuple(self._values.notes)))
            except (Undecided, LookupError, RecursionError) as error:
                reason = str(error) or "it is not known here"
                return HostArgument(parameter, HostValue(expression, place, UNDECIDED, (), reason))
        return HostArgument(parameter, HostValue(expression, place, *_contents(type_)))


def _contents(type_: Type) -> tuple[str, tuple[str, ...], str | None]:
    """Return a placeholder for the data of a variable, what it assumes, and why it is undecided where it is."""
    size = type_.get_size()
    element_type = type_
    while element_type.kind in _ARRAYS:
        element_type = element_type.element_type.get_canonical()
    try:
        element, _ = layout(element_type)
    except Undecided:
        return UNDECIDED, (), "its data is not known"
    if (element == "u8" and element_type.kind == TypeKind.RECORD) or size <= 0:
        return f"bytes({UNDECIDED})", (), f"{size} bytes of {type_.spelling}"
    fill = "random" if element.startswith("f") else "zeros"
    return f"{element}[{size // ELEMENT_BYTES[element]}] {fill}", ("contents are assumed",), None


def _named(cursor: Cursor, seen: set[int]) -> Iterator[int]:
    """Yield the variables that a function names, in itself or in what it may call."""
    template = conf.lib.clang_getSpecializedCursorTemplate(cursor)
    cursor = (template or cursor).get_definition() or cursor
    if int(cursor.hash) in seen:
        return
    seen.add(int(cursor.hash))
    for child in cursor.walk_preorder():
        for meant in overloads(child):
            yield from _named(meant, seen)
        if child.kind != CursorKind.DECL_REF_EXPR or child.referenced is None:
            continue
        meant = child.referenced.canonical
        if meant.kind == CursorKind.VAR_DECL:
            yield int(meant.hash)
        elif meant.kind in {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE}:
            yield from _named(meant, seen)
