"""Functions of libclang that cindex 18 declares nowhere (clang-c/Index.h)."""

import ctypes
from functools import cache
from typing import Any

from clang.cindex import Cursor, CursorKind, LinkageKind, SourceLocation, Type, TypeKind, conf

from kerncast.compile.host.c_sources import STAND_IN
from kerncast.compile.host.declarations import ANYTHING, UNKNOWN
from kerncast.compile.source.parsing import SHIM_FOLDER

_INT, _FLOAT = 1, 2
#: Structs inside one another that are looked into.
_DEEPEST = 4
_SHARED = {CursorKind.FIELD_DECL, CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL, CursorKind.UNION_DECL}


@cache
def _library() -> Any:
    library = conf.lib
    pointer = ctypes.c_void_p
    for name, arguments, result in (
        ("clang_Cursor_Evaluate", [Cursor], pointer),
        ("clang_EvalResult_getKind", [pointer], ctypes.c_int),
        ("clang_EvalResult_getAsLongLong", [pointer], ctypes.c_longlong),
        ("clang_EvalResult_getAsUnsigned", [pointer], ctypes.c_ulonglong),
        ("clang_EvalResult_isUnsignedInt", [pointer], ctypes.c_uint),
        ("clang_EvalResult_getAsDouble", [pointer], ctypes.c_double),
        ("clang_EvalResult_dispose", [pointer], None),
        ("clang_getCursorBinaryOperatorKind", [Cursor], ctypes.c_int),
        ("clang_getCursorUnaryOperatorKind", [Cursor], ctypes.c_int),
        ("clang_getFileLocation", [SourceLocation, pointer, pointer, pointer, pointer], None),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def constant(expression: Cursor) -> int | float | None:
    """Return the number that an expression always has; None where that is not known when it is compiled."""
    library = _library()
    result = library.clang_Cursor_Evaluate(expression)
    if not result:
        return None
    try:
        kind = library.clang_EvalResult_getKind(result)
        if kind == _FLOAT:
            return float(library.clang_EvalResult_getAsDouble(result))
        if kind != _INT:
            return None
        if library.clang_EvalResult_isUnsignedInt(result):
            return int(library.clang_EvalResult_getAsUnsigned(result))
        return int(library.clang_EvalResult_getAsLongLong(result))
    finally:
        library.clang_EvalResult_dispose(result)


def identity(declaration: Cursor) -> int:
    """Return what tells declarations apart: the same for a variable, a class or a field that several sources share."""
    kind = declaration.kind
    if kind in _SHARED or (kind == CursorKind.VAR_DECL and declaration.linkage == LinkageKind.EXTERNAL):
        return hash(declaration.get_usr())
    return int(declaration.canonical.hash)


def parameter_types(function: Cursor | None) -> list[Type]:
    """Return the types of the parameters of a function; none where C does not declare them, or it is no function."""
    is_function = function is not None and function.type.kind == TypeKind.FUNCTIONPROTO
    return list(function.type.argument_types()) if function is not None and is_function else []


def operator_of(expression: Cursor) -> int:
    """Return the number of a binary or unary operator, as CXBinaryOperatorKind or CXUnaryOperatorKind."""
    library = _library()
    if expression.kind == CursorKind.UNARY_OPERATOR:
        return int(library.clang_getCursorUnaryOperatorKind(expression))
    return int(library.clang_getCursorBinaryOperatorKind(expression))


def overloads(expression: Cursor) -> list[Cursor]:
    """Return the functions that a name which is not resolved may mean."""
    if expression.kind != CursorKind.OVERLOADED_DECL_REF:
        return []
    count = conf.lib.clang_getNumOverloadedDecls(expression)
    return [conf.lib.clang_getOverloadedDecl(expression, index) for index in range(count)]


def overloaded(expression: Cursor) -> Cursor | None:
    """Return the only function or template that a name which is not resolved may mean; None where there are more."""
    for cursor in (expression, *expression.get_children()):
        found = overloads(cursor)
        if len(found) == 1:
            return found[0]
    return None


def is_declared_here(type_: Type, depth: int = _DEEPEST) -> bool:
    """Whether a type is one, or holds one, that the source does not declare, and that stands in for it.

    Its size means nothing; nor does that of a class of a library of which only the methods are declared here.
    """
    type_ = type_.get_canonical()
    while type_.kind == TypeKind.CONSTANTARRAY:
        type_ = type_.element_type.get_canonical()
    declared = type_.get_declaration()
    if type_.kind != TypeKind.RECORD or declared.location.file is None:
        return False
    fields = list(type_.get_fields())
    if not declared.location.file.name.startswith(SHIM_FOLDER):
        return depth > 0 and any(is_declared_here(each.type, depth - 1) for each in fields)
    bases = (each.type.spelling for each in declared.get_children() if each.kind == CursorKind.CXX_BASE_SPECIFIER)
    is_stand_in = declared.spelling.startswith(STAND_IN)
    return is_stand_in or not fields or not {ANYTHING, UNKNOWN}.isdisjoint({str(declared.spelling), *bases})


def is_stand_in(declared: Cursor | None) -> bool:
    """Whether a variable is one that only the parser's own text declares, since its source does not."""
    is_variable = declared is not None and declared.kind == CursorKind.VAR_DECL
    file = declared.location.file if declared is not None else None
    return is_variable and file is not None and file.name.startswith(SHIM_FOLDER)


def written_at(location: SourceLocation) -> int:
    """Return the offset where a token was written: of an argument of a macro, its own place."""
    offset = ctypes.c_uint()
    _library().clang_getFileLocation(location, None, None, None, ctypes.byref(offset))
    return offset.value
