"""Launches as the text of a source writes them, with the geometry that is constant there.

Nothing is evaluated but what the compiler itself folds: each ``k<<<grid, block>>>(…)`` is replaced by calls of a
function of ours with the same expressions, and libclang says which of them are constants, by the scopes, macros and
const numbers of C++. An expression that it does not know is left open.
"""

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from clang.cindex import Cursor, CursorKind, TranslationUnit, conf

from kerncast.compile.nouns import Geometry, WrittenLaunch
from kerncast.compile.source.host_code import code_alone
from kerncast.compile.source.parsing import ParseOptions, declarations, parse_host

#: Launches of one source, and letters of one launch.
_MOST_LAUNCHES = 5_000
_LONGEST = 10_000

_OPENED = re.compile(rb"(?<!<)<\s*<\s*<(?!\s*<)")
_OPERATOR = re.compile(rb"\boperator\s*\Z")
_NAME = re.compile(rb"(?:::\s*)?(?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*\s*\Z")
_CLOSED = re.compile(rb">\s*>\s*>")
_ARGUMENTS = re.compile(rb"\s*\(")
_TOKEN = re.compile(rb">\s*>\s*>|[()\[\]{},]")
_NOT_BRACKETS = re.compile(rb"<<|>>|->|<=|>=")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F]+|[1-9]\d*|0)[uUlL]*\Z")
_DIM3 = re.compile(r"dim3\s*[({]([^()]*)[)}]\Z")
_SUFFIX = "uUlL"
_FUNDAMENTAL = {
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "const", "true", "false",
}  # fmt: skip

_MACRO = "KERNCAST_LAUNCH_"
_PROBE = "kerncast_geometry"
_DECLARED = f"template <class T> int {_PROBE}(int launch, int part, T value);\n"
_PARTS = 3
_CLASSES = {
    CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL, CursorKind.CLASS_TEMPLATE,
    CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
}  # fmt: skip
#: A name, with what tells a reading of it from a change.
_USE = (
    rb"(?P<probe>KERNCAST_LAUNCH_\d+\(\d+, \d, \s*)?(?P<before>(?:&|\+\+|--)\s*)?\b(?P<name>NAME)\b"
    rb"(?P<field>\s*\.\s*[xyz]\b)?(?P<changed>\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|\s*(?:\+\+|--))?"
)
_IS_INTEGER = 1


@dataclass(frozen=True, slots=True)
class _Span:
    """One launch in the text of a file."""

    file: str
    start: int
    end: int
    written: str
    template: str
    """arguments of the template as written; empty where there are none"""
    parts: tuple[str, ...]
    """expressions of the configuration"""
    arguments: tuple[str, ...]


def written_launches(options: ParseOptions, texts: Mapping[str, bytes]) -> tuple[WrittenLaunch, ...]:
    """Return the launches in the texts of a source, which is the first, and of its headers, in their order.

    Launches that the preprocessor leaves out are none, and those inside macros are not read.
    """
    spans = [span for file, text in texts.items() for span in _spans(file, text)][:_MOST_LAUNCHES]
    if not spans:
        return ()
    replaced = {file: _with_probes(text, [s for s in enumerate(spans) if s[1].file == file])
                for file, text in texts.items()}  # fmt: skip
    macros = "".join(f"#define {_MACRO}{index} {_PROBE}\n" for index in range(len(spans)))
    unit = parse_host(options, replaced, _DECLARED + macros)
    if unit is None:
        return tuple(_launch(span, texts, {}, is_instance=False) for span in spans)
    return tuple(_found(unit, spans, texts, replaced))


def _spans(file: str, text: bytes) -> Iterator[_Span]:
    code = code_alone(text)
    place = 0
    while opened := _OPENED.search(code, place):
        place = opened.end()
        if _OPERATOR.search(code, max(0, opened.start() - _LONGEST), opened.start()):
            continue
        span = _span(file, code, opened)
        if span is not None:
            yield span
            place = span.end


def _span(file: str, code: bytes, opened: re.Match[bytes]) -> _Span | None:
    start = opened.start()
    name_end = _template_start(code, start)
    name = _NAME.search(code, max(0, name_end - _LONGEST), name_end)
    configuration = _split(code, opened.end(), closing=b">>>")
    if name is None or configuration is None:
        return None
    parts, end = configuration
    called = _ARGUMENTS.match(code, end)
    passed = _split(code, called.end(), closing=b")") if called else None
    if passed is None:
        return None
    template = _one_line(code[name_end:start])
    if not all(map(_is_balanced, (code[slice(*each)] for each in parts))):  # a comma inside < and >
        parts = [(parts[0][0], parts[-1][1])]
    return _Span(
        file=file,
        start=name.start(),
        end=passed[1],
        written=_one_line(code[name.start() : name_end]).replace(" ", ""),
        template=template[1:-1].strip(),
        parts=tuple(_one_line(code[slice(*each)]) for each in parts),
        arguments=tuple(_one_line(code[slice(*each)]) for each in passed[0]),
    )


def _template_start(code: bytes, end: int) -> int:
    """Return where the arguments of a template begin that end before a place; that place where there are none."""
    place = len(code[max(0, end - _LONGEST) : end].rstrip()) + max(0, end - _LONGEST)
    if code[place - 1 : place] != b">":
        return end
    depth = 0
    for at in range(place - 1, max(0, place - _LONGEST), -1):
        depth += {b">": 1, b"<": -1}.get(code[at : at + 1], 0)
        if depth == 0:
            return at
        if code[at : at + 1] in {b";", b"{", b"}"}:
            break
    return end


def _split(code: bytes, start: int, *, closing: bytes) -> tuple[list[tuple[int, int]], int] | None:
    """Return the places between commas up to a closing bracket, and where that ends; None where nothing closes."""
    depth, begin, parts = 0, start, list[tuple[int, int]]()
    for token in _TOKEN.finditer(code, start, start + _LONGEST):
        sign = token[0]
        is_end = depth == 0 and (sign == closing or (closing == b">>>" and sign[:1] == b">"))
        if depth == 0 and (is_end or sign == b","):
            parts.append((begin, token.start()))
            begin = token.end()
        if is_end:
            return [each for each in parts if code[slice(*each)].strip()], token.end()
        depth += (sign in {b"(", b"[", b"{"}) - (sign in {b")", b"]", b"}"})
        if depth < 0:
            return None
    return None


def _is_balanced(code: bytes) -> bool:
    plain = _NOT_BRACKETS.sub(b"", code)
    return plain.count(b"<") == plain.count(b">")


def _with_probes(text: bytes, spans: list[tuple[int, _Span]]) -> str:
    """Return a text with calls of our function in the place of launches."""
    parts, place = [], 0
    for index, span in spans:
        probes = [f"{_MACRO}{index}({index}, {part}, {each})" for part, each in enumerate(span.parts[:_PARTS])]
        parts += [text[place : span.start], f"({', '.join(probes) or f'{_MACRO}{index}({index}, 0, 0)'})".encode()]
        place = span.end
    whole = b"".join([*parts, text[place:]])
    try:
        return whole.decode()
    except UnicodeDecodeError:
        return whole.decode("ascii", "replace").replace("\ufffd", "?")


def _found(
    unit: TranslationUnit, spans: list[_Span], texts: Mapping[str, bytes], replaced: Mapping[str, str]
) -> Iterator[WrittenLaunch]:
    """Yield the launches that the preprocessor lets through."""
    top = list(unit.cursor.get_children())
    seen = {  # where the preprocessor met each launch
        int(each.spelling.removeprefix(_MACRO)): (each.location.file.name, each.location.offset)
        for each in top
        if each.kind == CursorKind.MACRO_INSTANTIATION and each.spelling.startswith(_MACRO)
    }
    known = {each.spelling for each in declarations(unit.cursor)}
    reader = _Reader({file: code_alone(text.encode()) for file, text in replaced.items()})
    for function in _functions(unit.cursor, set(seen.values())):
        reader.read(function)
    for index, span in enumerate(spans):
        if index in seen:
            names = set(_IDENTIFIER.findall(span.template)) - _FUNDAMENTAL
            is_instance = bool(span.template) and names <= known - reader.local.get(index, known)
            yield _launch(span, texts, reader.values.get(index, {}), is_instance=is_instance)


def _functions(parent: Cursor, places: set[tuple[str, int]]) -> Iterator[Cursor]:
    """Yield the functions and variables around some places."""
    for cursor in declarations(parent):
        start, end = cursor.extent.start, cursor.extent.end
        if start.file is None or not any(
            file == start.file.name and start.offset <= at <= end.offset for file, at in places
        ):
            continue
        if cursor.kind in _CLASSES:
            yield from _functions(cursor, places)
        else:
            yield cursor


class _Reader:
    """The constants of launches, by the number of the launch and the part of its configuration."""

    def __init__(self, codes: Mapping[str, bytes]) -> None:
        self._codes = codes
        self.values: dict[int, dict[int, tuple[int | None, ...]]] = {}
        self.local: dict[int, set[str]] = {}
        """names that the function around a launch declares"""

    def read(self, function: Cursor) -> None:
        """Read the launches inside a function."""
        waiting, names, met = [function], set[str](), set[int]()
        while waiting:
            cursor = waiting.pop()
            if cursor.kind.is_declaration():
                names.add(cursor.spelling)
            if cursor.kind == CursorKind.CALL_EXPR and cursor.spelling == _PROBE:
                launch, part, expression = cursor.get_arguments()
                index = _constant(launch)
                which = _constant(part)
                if index is not None and which is not None:
                    self.values.setdefault(index, {})[which] = self._extents(expression, function)
                    met.add(index)
            waiting += cursor.get_children()
        self.local |= dict.fromkeys(met, names)

    def _extents(self, expression: Cursor, function: Cursor) -> tuple[int | None, ...]:
        number = _constant(expression)
        if number is not None:
            return (number,)
        if expression.kind == CursorKind.DECL_REF_EXPR:
            variable = expression.referenced
            initial = [each for each in variable.get_children() if each.kind.is_expression()] if variable else []
            is_plain = initial and _is_dim3(variable) and self._is_unchanged(variable, function)
            return self._extents(initial[-1], function) if is_plain else (None,)
        if expression.kind == CursorKind.CALL_EXPR and _is_dim3(expression):
            given = list(expression.get_arguments())
            if len(given) > 1 or (given and not _is_dim3(given[0])):
                return tuple(_constant(each) for each in given)
            return self._extents(given[0], function) if given else (None,)
        values = [each for each in expression.get_children() if each.kind.is_expression()]
        return self._extents(values[0], function) if len(values) == 1 and _is_dim3(expression) else (None,)

    def _is_unchanged(self, variable: Cursor, function: Cursor) -> bool:
        """Whether nothing but its declaration gives a variable a value: its name stands in launches and reads alone."""
        if variable.type.get_canonical().is_const_qualified():
            return True
        start, end = function.extent.start, function.extent.end
        at = variable.location
        if at.file is None or at.file.name != start.file.name or not start.offset <= at.offset < end.offset:
            return False
        code = self._codes.get(at.file.name, b"")[start.offset : end.offset]
        uses = re.compile(_USE.replace(b"NAME", re.escape(variable.spelling.encode())))
        declared = at.offset - start.offset
        return all(
            each["probe"]
            or each.start("name") == declared
            or (each["field"] and not (each["before"] or each["changed"]))
            for each in uses.finditer(code)
        )


def _is_dim3(cursor: Cursor) -> bool:
    return bool(cursor.type.get_canonical().spelling.removeprefix("const ") == "dim3")


@cache
def _library() -> Any:
    library = conf.lib
    pointer = ctypes.c_void_p
    for name, arguments, result in (
        ("clang_Cursor_Evaluate", [Cursor], pointer),
        ("clang_EvalResult_getKind", [pointer], ctypes.c_int),
        ("clang_EvalResult_getAsLongLong", [pointer], ctypes.c_longlong),
        ("clang_EvalResult_dispose", [pointer], None),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def _constant(expression: Cursor) -> int | None:
    """Return the integer that the compiler folds an expression to; None where it folds it to none."""
    library = _library()
    result = library.clang_Cursor_Evaluate(expression)
    if not result:
        return None
    try:
        is_integer = library.clang_EvalResult_getKind(result) == _IS_INTEGER
        return int(library.clang_EvalResult_getAsLongLong(result)) if is_integer else None
    finally:
        library.clang_EvalResult_dispose(result)


def _launch(
    span: _Span, texts: Mapping[str, bytes], values: Mapping[int, tuple[int | None, ...]], *, is_instance: bool
) -> WrittenLaunch:
    grid, block, shared = (_geometry(span.parts, part, values.get(part)) for part in range(_PARTS))
    line = texts[span.file].count(b"\n", 0, span.start) + 1
    return WrittenLaunch(
        written=span.written,
        template=span.template,
        is_instance=is_instance or bool(span.template and set(_IDENTIFIER.findall(span.template)) <= _FUNDAMENTAL),
        place=f"{Path(span.file).name}:{line}",
        grid=grid,
        block=block,
        shared_bytes=Geometry("", (0,)) if len(span.parts) == _PARTS - 1 else shared,
        arguments=span.arguments,
    )


def _geometry(parts: Sequence[str], part: int, value: tuple[int | None, ...] | None) -> Geometry:
    expression = parts[part] if part < len(parts) else ""
    if value is None or None in value:
        value = _literal(expression) or value
    extents = value or (None,)
    while len(extents) > 1 and extents[-1] == 1:
        extents = extents[:-1]
    return Geometry(expression, extents)


def _literal(expression: str) -> tuple[int, ...] | None:
    """Return the integers of an expression that has nothing else."""
    dim3 = _DIM3.match(expression)
    texts = [each.strip() for each in (dim3[1].split(",") if dim3 else [expression])]
    if not all(map(_INTEGER.match, texts)):
        return None
    numbers = [each.rstrip(_SUFFIX) for each in texts]
    return tuple(int(each, 8 if each[0] == "0" and each.isdigit() else 0) for each in numbers)


def _one_line(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())
