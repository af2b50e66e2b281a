"""Const numbers at file scope: which of them only host code can have, and which NVRTC needs a constexpr for.

nvcc folds the initial value of a const number as far as it can, and leaves the rest to the start of the host program.
NVRTC makes each of them a __device__ variable, and folds only what C++ calls a constant expression: an integer, but not
a floating-point number, may be made from a const number without constexpr.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from clang.cindex import Cursor, CursorKind, StorageClass, Type, TypeKind

_INTEGERS = {
    TypeKind.BOOL, TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG,
    TypeKind.ULONGLONG, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG,
    TypeKind.LONGLONG, TypeKind.ENUM,
}  # fmt: skip
_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}
_NUMBERS = _INTEGERS | {TypeKind.FLOAT, TypeKind.DOUBLE}

#: What does not look at the value of the variable inside it (sizeof), or is code of its own.
_OPAQUE = {CursorKind.CXX_UNARY_EXPR, CursorKind.LAMBDA_EXPR}
_DEVICE = {CursorKind.CUDADEVICE_ATTR, CursorKind.CUDACONSTANT_ATTR, CursorKind.CUDASHARED_ATTR}
_CONSTANT_EXPRESSION = re.compile(rb"\b(?:constexpr|consteval)\b")
_BEFORE_VALUE = re.compile(rb"[^={]*")
_NAME = re.compile(rb"(?<![\w.])[A-Za-z_]")


@dataclass(frozen=True, slots=True)
class Constants:
    """Const numbers of one file that need a change, by the offset at which their declaration begins."""

    host: frozenset[int] = frozenset()
    """numbers whose value is known only when the host program runs"""
    constexpr: frozenset[int] = frozenset()
    """numbers that other constants are made from, or that are made from them"""


def is_constant_number(type_: Type) -> bool:
    """Whether device code may read a variable of this type that has no annotation: const numbers, arrays of them."""
    is_const = False
    while True:
        # An array without its aliases is const itself, one with them has const elements.
        is_const = is_const or type_.is_const_qualified()
        type_ = type_.get_canonical() if type_.kind not in _ARRAYS else type_
        if type_.kind not in _ARRAYS:
            return (is_const or type_.is_const_qualified()) and type_.kind in _NUMBERS
        type_ = type_.element_type


def sort_constants(found: Mapping[str, Iterable[Cursor]], texts: Mapping[str, bytes]) -> dict[str, Constants]:
    """Sort the const numbers among the declarations of namespace scope; all three are by file."""
    sorter = _Sorter(texts)
    for cursors in found.values():
        for cursor in cursors:
            if cursor.kind == CursorKind.VAR_DECL:
                sorter.add(cursor)
    return sorter.by_file()


class _Sorter:
    """Follows const numbers to those that they are made from, through all files."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._known: dict[int, bool] = {}
        """by the hash of a declaration: whether its value is a constant expression, or would be with constexpr"""
        self._host: set[tuple[str, int]] = set()
        self._kept: set[tuple[str, int]] = set()
        self._constexpr: set[tuple[str, int]] = set()

    def add(self, variable: Cursor) -> None:
        """Sort one variable; others than const numbers are left alone."""
        if is_constant_number(variable.type) and not any(c.kind in _DEVICE for c in variable.get_children()):
            self._is_constant(variable)

    def by_file(self) -> dict[str, Constants]:
        """Return the result; a declaration of several names is host code only where all of them are."""
        host = self._host - self._kept
        files = {file for file, _ in host | self._constexpr}
        return {
            file: Constants(
                frozenset(at for name, at in host if name == file),
                frozenset(at for name, at in self._constexpr - self._host if name == file),
            )
            for file in files
        }

    def _is_constant(self, variable: Cursor) -> bool:
        if variable.hash not in self._known:
            # A variable that is made from itself has no constant value.
            self._known[variable.hash] = False
            self._known[variable.hash] = known = self._decide(variable)
            (self._kept if known else self._host).add(_place(variable))
        return self._known[variable.hash]

    def _decide(self, variable: Cursor) -> bool:
        if not self._names_something(variable):
            return True
        used = []
        for expression in _inside(variable):
            if expression.kind == CursorKind.OVERLOADED_DECL_REF:
                return False  # a function that the parser does not know
            meant = expression.referenced if expression.kind == CursorKind.DECL_REF_EXPR else None
            if meant is None or meant.kind == CursorKind.ENUM_CONSTANT_DECL:
                continue
            if meant.kind == CursorKind.VAR_DECL:
                meant = meant.get_definition() or meant
                if not self._has_constant_value(meant):
                    return False
                used.append(meant)
            elif meant.kind in {CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD} and not self._is_constexpr(meant):
                return False
        self._mark(variable, used)
        return True

    def _has_constant_value(self, variable: Cursor) -> bool:
        if variable.storage_class == StorageClass.EXTERN and not variable.is_definition():
            return False
        return self._is_constexpr(variable) or (is_constant_number(variable.type) and self._is_constant(variable))

    def _names_something(self, variable: Cursor) -> bool:
        """Whether the initial value holds a name: a table of numbers may be too long to be followed one by one."""
        text = self._texts.get(_place(variable)[0])
        name, start = variable.spelling.encode(), variable.location.offset
        if text is None or not text.startswith(name, start):  # made by a macro
            return True
        return _NAME.search(text, start + len(name), variable.extent.end.offset) is not None

    def _is_constexpr(self, declared: Cursor) -> bool:
        """Whether a variable or a function is declared constexpr; what the stand-ins declare always is."""
        file, start = _place(declared)
        text = self._texts.get(file)
        head = _BEFORE_VALUE.match(text[start : declared.extent.end.offset]) if text is not None else None
        return head is None or _CONSTANT_EXPRESSION.search(head[0]) is not None

    def _mark(self, variable: Cursor, used: list[Cursor]) -> None:
        others = [each for each in used if each.type.get_canonical().kind not in _INTEGERS]
        needed = [each for each in others if not self._is_constexpr(each)]
        if needed:
            needed += [] if self._is_constexpr(variable) else [variable]
            self._constexpr |= {_place(each) for each in needed}


def _inside(cursor: Cursor) -> Iterator[Cursor]:
    for child in cursor.get_children():
        if child.kind not in _OPAQUE:
            yield child
            yield from _inside(child)


def _place(variable: Cursor) -> tuple[str, int]:
    start = variable.extent.start
    return (start.file.name if start.file else "", start.offset)
