"""Kernels as the source declares them: names, parameters, template parameters."""

from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind, Diagnostic, TranslationUnit, Type, TypeKind

from kerncast.compile.nouns import KernelSignature, Parameter
from kerncast.compile.source.parsing import declarations, qualified_name

_TEMPLATE_PARAMETERS = {
    CursorKind.TEMPLATE_TYPE_PARAMETER, CursorKind.TEMPLATE_NON_TYPE_PARAMETER,
    CursorKind.TEMPLATE_TEMPLATE_PARAMETER,
}  # fmt: skip
_UNSIGNED = {
    TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.ULONGLONG,
}  # fmt: skip
_SIGNED = {
    TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.LONGLONG,
    TypeKind.ENUM,
}  # fmt: skip
_FLOATS = {TypeKind.FLOAT: "f32", TypeKind.DOUBLE: "f64"}
_ALIASES = {CursorKind.TYPEDEF_DECL, CursorKind.TYPE_ALIAS_DECL}
_ARRAYS = {TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}
_POINTER_BYTES = 8
_HALF = "__half"
_SMALL_FLOATS = {
    "__nv_bfloat16": "bf16", "__nv_fp8_e4m3": "f8e4m3", "__nv_fp8_e5m2": "f8e5m2", "__nv_fp8_e8m0": "f8e8m0",
    "__nv_fp6_e2m3": "f6e2m3", "__nv_fp6_e3m2": "f6e3m2", "__nv_fp4x2_e2m1": "f4e2m1x2",
}  # fmt: skip

#: The alias by which ``instance_signature`` asks the parser for the type of a template instance.
_INSTANCE = "kerncast_instance"


def kernel_signatures(unit: TranslationUnit) -> tuple[KernelSignature, ...]:
    """Return the kernels that the source and its own headers define, in order."""
    found: dict[tuple[str, tuple[str, ...]], KernelSignature] = {}
    errors = _errors(unit)
    for cursor in _kernels(unit):
        signature = _signature(cursor, errors)
        found[signature.name, tuple(p.type_text for p in signature.parameters)] = signature
    return tuple(found.values())


def instance_text(instance: str) -> str:
    """Return the text that makes the parser instantiate a template, named as it is or cast to its type."""
    return f"using {_INSTANCE} = decltype({'' if instance.startswith('(') else '&'}{instance});"


def instance_signature(unit: TranslationUnit | None, template: KernelSignature) -> KernelSignature | None:
    """Return the template's signature with the types of the instance; None where the parser found none."""
    for cursor in unit.cursor.get_children() if unit is not None else ():
        if cursor.kind == CursorKind.TYPE_ALIAS_DECL and cursor.spelling == _INSTANCE:
            function = cursor.underlying_typedef_type.get_canonical().get_pointee()
            if function.kind != TypeKind.FUNCTIONPROTO:
                return None
            types = list(function.argument_types())
            if len(types) != len(template.parameters):
                return None
            parameters = tuple(
                parameter_of(declared.name, type_) for declared, type_ in zip(template.parameters, types, strict=True)
            )
            return KernelSignature(template.name, parameters, False, template.template_parameters, template.line)
    return None


def _kernels(unit: TranslationUnit) -> Iterator[Cursor]:
    for cursor in declarations(unit.cursor):
        if cursor.kind in {CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE} and cursor.is_definition():
            kinds = {child.kind for child in cursor.get_children()}
            if CursorKind.CUDAGLOBAL_ATTR in kinds:
                yield cursor


def _errors(unit: TranslationUnit) -> frozenset[tuple[str, int]]:
    """Return the places, file and offset, of what the parser does not know."""
    places = (each.location for each in unit.diagnostics if each.severity >= Diagnostic.Error)
    return frozenset((place.file.name, place.offset) for place in places if place.file)


def _signature(cursor: Cursor, errors: frozenset[tuple[str, int]]) -> KernelSignature:
    children = list(cursor.get_children())
    return KernelSignature(
        name=qualified_name(cursor),
        parameters=tuple(
            _unknown(c) if _is_unresolved(c, errors) else parameter_of(c.spelling, c.type)
            for c in children
            if c.kind == CursorKind.PARM_DECL
        ),
        is_template=cursor.kind == CursorKind.FUNCTION_TEMPLATE,
        template_parameters=tuple(c.spelling for c in children if c.kind in _TEMPLATE_PARAMETERS),
        line=cursor.location.line,
    )


def parameter_of(name: str, type_: Type) -> Parameter:
    """Return what a type says of a parameter; an array is a pointer to its elements there."""
    canonical = type_.get_canonical()
    is_array = canonical.kind in _ARRAYS
    kind = "pointer" if is_array else _kind(canonical)
    pointee = canonical.element_type if is_array else type_.get_pointee() if kind == "pointer" else None
    value = pointee.get_canonical() if pointee is not None else canonical
    plain = value.spelling.replace("const ", "").replace("volatile ", "")
    return Parameter(
        name=name,
        type_text=type_.spelling,
        kind=kind,
        byte_size=_POINTER_BYTES if is_array else size_of(canonical),
        is_pointer=kind == "pointer",
        is_const=value.is_const_qualified(),
        signed=value.kind in _SIGNED,
        element=element_of(value) or (_small_float(value) if pointee is not None else None),
        pointee_type=plain if pointee is not None else None,
        pointee_bytes=size_of(value) if pointee is not None else None,
        canonical_type=canonical.spelling,
    )


def _is_unresolved(declared: Cursor, errors: frozenset[tuple[str, int]]) -> bool:
    """Whether the parser does not know the type of a parameter, or of an alias that it is made with.

    It takes an unknown type for an int, which would be a wrong size without a word.
    """
    start, end = declared.extent.start, declared.extent.end
    if start.file and any(file == start.file.name and start.offset <= at < end.offset for file, at in errors):
        return True
    aliases = (
        child.referenced
        for child in declared.get_children()
        if child.kind == CursorKind.TYPE_REF and child.referenced and child.referenced.kind in _ALIASES
    )
    return any(_is_unresolved(alias, errors) for alias in aliases)


def _unknown(declared: Cursor) -> Parameter:
    """Return a parameter of which only its text is known, and whether it is a pointer."""
    words, end = "", 0
    for token in declared.get_tokens():
        if token.spelling == declared.spelling:
            break
        words += " " if words and token.extent.start.offset > end else ""
        words, end = words + token.spelling, token.extent.end.offset
    is_pointer = _kind(declared.type.get_canonical()) == "pointer"
    return Parameter(
        name=declared.spelling,
        type_text=words or declared.type.spelling,
        kind="pointer" if is_pointer else "unknown",
        byte_size=size_of(declared.type.get_canonical()) if is_pointer else None,
        is_pointer=is_pointer,
        is_const=False,
        signed=False,
        element=None,
        pointee_type=words.rstrip("* ").removeprefix("const ") if is_pointer else None,
        pointee_bytes=None,
    )


def _kind(canonical: Type) -> str:
    if canonical.kind in {TypeKind.POINTER, TypeKind.LVALUEREFERENCE}:
        return "pointer"
    if canonical.kind == TypeKind.BOOL:
        return "bool"
    if canonical.kind in _SIGNED or canonical.kind in _UNSIGNED:
        return "integer"
    if canonical.kind in _FLOATS or _is_half(canonical):
        return "float"
    return "struct" if canonical.kind == TypeKind.RECORD else "unknown"


def element_of(value: Type) -> str | None:
    """Return the name that launch files give to a type; a bool is a byte."""
    size = size_of(value)
    if _is_half(value):
        return "f16"
    if value.kind in _FLOATS:
        return _FLOATS[value.kind]
    if size is None:
        return None
    if value.kind in _SIGNED:
        return f"i{size * 8}"
    return f"u{size * 8}" if value.kind in _UNSIGNED or value.kind == TypeKind.BOOL else None


def _small_float(value: Type) -> str | None:
    """Return the name that launch files give to what a pointer points to, where it is a short float of a header."""
    return _SMALL_FLOATS.get(value.get_declaration().spelling) if value.kind == TypeKind.RECORD else None


def _is_half(value: Type) -> bool:
    return bool(value.kind == TypeKind.RECORD and value.get_declaration().spelling == _HALF)


def size_of(type_: Type) -> int | None:
    """Return the size in bytes; the parser answers with a negative number where it knows none."""
    size = type_.get_size()
    return size if size > 0 else None
