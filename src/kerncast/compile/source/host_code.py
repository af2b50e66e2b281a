"""Finding the host code of a source and of its headers, which is removed before NVRTC sees them."""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clang.cindex import Cursor, CursorKind, Diagnostic, TranslationUnit

from kerncast.compile.source.constants import Constants, is_constant_number, sort_constants
from kerncast.compile.source.parsing import SHIM_FOLDER, qualified_name

# Take host code out of a source, so that NVRTC, which knows no host, compiles what is left.
#
# What is taken out becomes spaces: every line and every column of the rest stays where the user wrote it. Two things
# are added, constexpr before a const number and __device__ before a prototype, and move the columns of their lines.


_FUNCTIONS = {
    CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR, CursorKind.CONVERSION_FUNCTION,
}  # fmt: skip
_CLASSES = {
    CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL, CursorKind.UNION_DECL, CursorKind.CLASS_TEMPLATE,
    CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
}  # fmt: skip
_DEVICE = {
    CursorKind.CUDAGLOBAL_ATTR, CursorKind.CUDADEVICE_ATTR, CursorKind.CUDACONSTANT_ATTR,
    CursorKind.CUDASHARED_ATTR,
}  # fmt: skip
_CONSTANT_EXPRESSION = re.compile(rb"\b(?:constexpr|consteval)\b")
#: Textures and surfaces of the kind that CUDA 12 no longer has.
_TEXTURE_REFERENCE = re.compile(rb"(?:(?:static|extern)\s+)*(?:texture|surface)\s*<")
_DEFAULTED = re.compile(rb"=\s*(?:default|delete)\s*\Z")

#: Comments, texts and characters (so that a # inside them is none), and preprocessor directives.
_LEXEMES = re.compile(
    rb"//[^\n]*|/\*.*?\*/"
    rb'|R"([^()\\ \n]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    rb"|'(?:\\.|[^'\\\n])*'"
    rb"|^[ \t]*#[ \t]*(?P<directive>\w+)(?:\\\r?\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_KEPT_DIRECTIVES = {b"if", b"ifdef", b"ifndef", b"elif", b"else", b"endif", b"define", b"undef"}
_VISIBLE = re.compile(rb"[^\n\r\t]")

#: What the stand-ins declare in std for device code; a using declaration of another name is host code.
_DEVICE_STD = re.compile(
    rb"std\s*::\s*(?:size_t|ptrdiff_t|u?int\d+_t|u?intptr_t|min|max|swap|move|forward|numeric_limits)\b"
)

_BEFORE = re.compile(rb'(?:\[\[[^\[\]]*\]\]|extern\s*"C(?:\+\+)?"|template\s*<[^<>;{}]*>)\s*\Z')
_FARTHEST_BEFORE = 200
_REST_OF_FUNCTION = re.compile(rb"[^;{}]*;")
_CLOSING = re.compile(rb"\s*\)")
_INITIALIZER = re.compile(rb"\s*=(?!=)[^;]*")
_NO_CONSTANTS = Constants()
#: The macro of nvcc, which the headers of NVIDIA's wheels must not see.
_OTHER_COMPILER = re.compile(rb"\b__NVCC__\b")
#: (float2){x, y} of C, which nvcc takes and NVRTC does not: what stands before it tells it from a condition.
_COMPOUND_LITERAL = re.compile(
    rb"((?:[=,(+*/?:&|-]|\breturn)[ \t]*|^[ \t]*#[ \t]*define[ \t]+\w+[ \t]+)\(([A-Za-z_]\w*)\)(?=[ \t]*\{)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Context:
    """Facts on one file beside its declarations."""

    constants: Constants = _NO_CONSTANTS
    defined: Container[str] = frozenset()
    """device functions of all files; a prototype of one without __device__ gets it"""
    errors: Collection[int] = ()
    """offsets of names that the parser does not know"""


_NO_CONTEXT = Context()


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """One file without its host code."""

    text: bytes
    changed: bool
    """whether host code was removed, or a const number needs a constexpr"""
    has_unannotated: bool
    """whether functions without __device__ were left in, because they are constexpr"""


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int


class _Finder:
    """Collects what is host code in one file."""

    def __init__(self, text: bytes, context: Context) -> None:
        self._text = text
        self._context = context
        self.prototypes: list[int] = []
        self.host: list[_Span] = []
        self.device: list[_Span] = []
        self.templates: set[str] = set()
        self.has_unannotated = False
        self._names_of_host: set[str] = set()
        self._names_of_device: set[str] = set()

    def visit(self, cursor: Cursor) -> None:
        """Sort one declaration of namespace scope or of a class."""
        span = _Span(cursor.extent.start.offset, cursor.extent.end.offset)
        if cursor.kind in _FUNCTIONS:
            self._function(cursor, span)
        elif cursor.kind in _CLASSES:
            for member in cursor.get_children():
                self.visit(member)
        elif cursor.kind == CursorKind.FRIEND_DECL:
            if any(child.kind in _FUNCTIONS and not _is_device(child) for child in cursor.get_children()):
                self.host.append(span)
        elif cursor.kind == CursorKind.VAR_DECL:
            self._variable(cursor, span)
        elif cursor.kind == CursorKind.USING_DECLARATION:
            declared = self._text[span.start : span.end]
            # What the stand-ins declare is there for device code, too; the parser complains of the rest.
            is_known = not any(span.start <= place < span.end for place in self._context.errors)
            of_std = b"std" in declared and not is_known and not _DEVICE_STD.search(declared)
            names_host = cursor.spelling.rpartition("::")[2] in self._names_of_host - self._names_of_device
            if of_std or names_host:
                self.host.append(span)

    def _function(self, cursor: Cursor, span: _Span) -> None:
        if _is_device(cursor):
            self.device.append(span)
            self._names_of_device.add(cursor.spelling)
            return
        body = [child for child in cursor.get_children() if child.kind == CursorKind.COMPOUND_STMT]
        head = self._text[span.start : body[-1].extent.start.offset if body else span.end]
        if _DEFAULTED.search(head):
            return
        # Of a function that is only asked for its type, device code needs the declaration.
        is_asked = b"decltype(" + cursor.spelling.encode() + b"(" in self._text
        if is_asked or _CONSTANT_EXPRESSION.search(head):
            self.has_unannotated = True
        elif cursor.kind == CursorKind.FUNCTION_DECL and not body and _key(cursor) in self._context.defined:
            self.prototypes.append(span.start)
        else:
            self.host.append(span)
            self._names_of_host.add(cursor.spelling)
            if cursor.kind == CursorKind.FUNCTION_TEMPLATE:
                self.templates.add(cursor.spelling)

    def _variable(self, cursor: Cursor, span: _Span) -> None:
        if _is_device(cursor):
            self.device.append(span)
            return
        if is_constant_number(cursor.type) and span.start not in self._context.constants.host:
            return
        declared = self._text[span.start : span.end]
        if _TEXTURE_REFERENCE.match(declared) or _CONSTANT_EXPRESSION.search(declared):
            return
        # In "struct S { … } s;" the type stays.
        inner = [_Span(c.extent.start.offset, c.extent.end.offset) for c in cursor.get_children() if c.kind in _CLASSES]
        if inner:
            self.host += [_Span(span.start, inner[0].start), _Span(inner[0].end, span.end)]
        else:
            self.host.append(span)


def device_functions(found: Iterable[Cursor]) -> frozenset[str]:
    """Return keys of the device functions among declarations of namespace scope, to know their prototypes by."""
    return frozenset(_key(each) for each in found if each.kind == CursorKind.FUNCTION_DECL and _is_device(each))


def errors_by_file(unit: TranslationUnit) -> dict[str, list[int]]:
    """Return the offsets of what the parser does not know, by file."""
    found: dict[str, list[int]] = {}
    for each in unit.diagnostics:
        if each.severity >= Diagnostic.Error and each.location.file:
            found.setdefault(each.location.file.name, []).append(each.location.offset)
    return found


def device_code(text: bytes, found: Iterable[Cursor], context: Context = _NO_CONTEXT) -> DeviceCode:
    """Return the text of a file without its host code; found are its declarations of namespace scope."""
    finder = _Finder(text, context)
    for cursor in found:
        finder.visit(cursor)
    spans = [_whole(text, span) for span in finder.host]
    # A macro may expand to host and device code at once; then both have the extent of its use.
    spans = [span for span in spans if not any(span.start < d.end and d.start < span.end for d in finder.device)]
    rest = _without(text, spans)
    if finder.templates:
        rest = _without_instantiations(rest, finder.templates)
    insertions = dict.fromkeys(context.constants.constexpr, b"constexpr ") | dict.fromkeys(
        finder.prototypes, b"__device__ "
    )
    for place in sorted(insertions, reverse=True):
        rest = rest[:place] + insertions[place] + rest[place:]
    rest = _OTHER_COMPILER.sub(b"__CUDACC__", _COMPOUND_LITERAL.sub(rb"\1 \2 ", rest))
    return DeviceCode(rest, bool(spans or insertions or rest != text), finder.has_unannotated)


def device_codes(
    unit: TranslationUnit, found: Mapping[str, Sequence[Cursor]], texts: Mapping[str, bytes]
) -> dict[str, DeviceCode]:
    """Return files without their host code; declarations of namespace scope and texts are by file."""
    own = {name: found.get(name, ()) for name in texts}
    numbers = sort_constants(own, texts)
    defined = device_functions(cursor for cursors in own.values() for cursor in cursors)
    errors = errors_by_file(unit)
    return {
        name: device_code(text, own[name], Context(numbers.get(name, _NO_CONSTANTS), defined, errors.get(name, ())))
        for name, text in texts.items()
    }


def _key(function: Cursor) -> str:
    return f"{qualified_name(function)} {function.type.get_canonical().spelling}"


def _is_device(cursor: Cursor) -> bool:
    return any(child.kind in _DEVICE for child in cursor.get_children())


def _whole(text: bytes, span: _Span) -> _Span:
    """Extend a declaration by what stands before it (attributes, a linkage) and by what is left behind it."""
    start, end = span.start, span.end
    while before := _BEFORE.search(text, max(0, start - _FARTHEST_BEFORE), start):
        start = before.start()
    if text[start:end].endswith(b")"):
        # "= 0" of a pure virtual function, and attributes behind the parameters.
        rest = _REST_OF_FUNCTION.match(text, end)
        end = rest.end() if rest else end
    elif text.count(b"(", start, end) > text.count(b")", start, end) and (closing := _CLOSING.match(text, end)):
        # Of "int n(0);" the parser leaves out the closing bracket.
        end = closing.end()
    elif initializer := _INITIALIZER.match(text, end):
        # The parser leaves it out where it does not know the type.
        end = initializer.end()
    return _Span(start, end)


def _without(text: bytes, spans: Iterable[_Span]) -> bytes:
    parts = []
    place = 0
    for span in _merged(spans):
        parts += [text[place : span.start], _blank(text[span.start : span.end])]
        place = span.end
    return b"".join([*parts, text[place:]])


def _without_instantiations(text: bytes, templates: set[str]) -> bytes:
    """Take out ``template void f<float>(…);`` of host templates, which the parser does not list."""
    names = b"|".join(re.escape(name.encode()) for name in sorted(templates))
    pattern = re.compile(rb"\btemplate\s+(?!<)[^;{}()]*\b(?:" + names + rb")\b[^;{}]*;")
    return pattern.sub(lambda match: _blank(match[0]), text)


def _merged(spans: Iterable[_Span]) -> Iterator[_Span]:
    current: _Span | None = None
    for span in sorted(spans, key=lambda each: (each.start, each.end)):
        if current is not None and span.start <= current.end:
            current = _Span(current.start, max(current.end, span.end))
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current


def code_alone(text: bytes) -> bytes:
    """Return a text with spaces for comments, for what stands in quotes, and for preprocessor directives."""
    return _LEXEMES.sub(lambda match: _VISIBLE.sub(b" ", match[0]), text)


def _blank(text: bytes) -> bytes:
    """Replace what is visible by spaces, save preprocessor directives that text elsewhere may depend on."""
    parts = []
    place = 0
    for match in _LEXEMES.finditer(text):
        if match["directive"] in _KEPT_DIRECTIVES:
            parts += [_VISIBLE.sub(b" ", text[place : match.start()]), match[0]]
            place = match.end()
    return b"".join([*parts, _VISIBLE.sub(b" ", text[place:])])


# The user's own headers: which a source includes, and under what names.
#
# NVRTC resolves an #include inside a header in memory by its spelling, not by its folder; so each spelling has to be
# known, and as soon as one header has lost its host code all of them have to be in memory.


_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def user_headers(unit: TranslationUnit, excluded: Sequence[Path]) -> tuple[str, ...]:
    """Return the files on disk that the source includes, without those of the wheels."""
    names = dict.fromkeys(inclusion.include.name for inclusion in unit.get_includes())
    return tuple(
        name
        for name in names
        if not name.startswith(SHIM_FOLDER) and not any(Path(name).is_relative_to(folder) for folder in excluded)
    )


#: A library whose headers name this macro was written for NVRTC, too: what its code needs of host code must stay.
_NVRTC = b"__CUDACC_RTC__"
#: Share of its headers from which a folder counts as such a library: in other folders a header may mention NVRTC.
_LEAST_SHARE = 0.1


def written_for_nvrtc(texts: Mapping[str, bytes], headers: Sequence[str], folders: Sequence[Path]) -> frozenset[str]:
    """Return the headers of those folders of headers that know NVRTC."""
    homes: dict[Path, list[str]] = {}
    for name in headers:
        home = next((each for each in folders if Path(name).is_relative_to(each)), None)
        if home is not None:
            homes.setdefault(home, []).append(name)
    shares = {home: sum(_NVRTC in texts[name] for name in names) / len(names) for home, names in homes.items()}
    return frozenset(name for home, names in homes.items() if shares[home] >= _LEAST_SHARE for name in names)


def included_headers(
    names: Sequence[str], including: Mapping[str, bytes], folders: Sequence[Path]
) -> list[tuple[str, str]]:
    """Return each spelling by which the user's headers are included, beside the header that it means."""
    files = {Path(name).resolve(): name for name in names}
    found = [
        (spelling, files[path])
        for name, text in including.items()
        for spelling, path in _included(text, Path(name).parent, folders)
        if path in files
    ]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Source:
    """A source without its host code, and where it is."""

    path: Path
    text: bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """The headers of the user's that NVRTC gets in memory, and the source that includes them."""

    source: bytes
    headers: dict[str, bytes]
    """text by the name under which it is included; none where no header holds host code"""


def headers_in_memory(
    codes: Mapping[str, DeviceCode], included: Sequence[tuple[str, str]], source: Source, folders: Sequence[Path]
) -> Memory:
    """Return each user header under each of its spellings; where one spelling means two, each under its path."""
    if not any(code.changed for code in codes.values()):
        return Memory(source.text, {})
    if len(dict(included)) < len(set(included)):
        return _by_path(codes, source, folders)
    headers: dict[str, bytes] = {}
    first: dict[str, str] = {}
    for spelling, meant in included:
        # A second spelling includes the first: NVRTC applies "#pragma once" to names, not to contents.
        known = first.setdefault(meant, spelling)
        headers[spelling] = _placed(codes[meant].text, meant) if known == spelling else f'#include "{known}"\n'.encode()
    return Memory(source.text, headers)


def _by_path(codes: Mapping[str, DeviceCode], source: Source, folders: Sequence[Path]) -> Memory:
    paths = {Path(name).resolve() for name in codes}

    def renamed(text: bytes, own: Path) -> bytes:
        def by_path(match: re.Match[bytes]) -> bytes:
            path = _meant(match, own, folders)
            known = path is not None and path in paths and path.as_posix().isprintable() and '"' not in path.as_posix()
            return f'#include "{path}"'.encode() if known else match[0]

        return _INCLUDE.sub(by_path, text)

    headers = {
        str(Path(name).resolve()): _placed(renamed(code.text, Path(name).parent), name) for name, code in codes.items()
    }
    return Memory(renamed(source.text, source.path.parent), headers)


def _placed(text: bytes, file: str) -> bytes:
    """Return the text of a header that says where it is: NVRTC takes a name in memory as one in the current folder."""
    if not file.isprintable():
        return text
    name = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{name}"\n'.encode() + text


def _included(text: bytes, own: Path, folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for match in _INCLUDE.finditer(text):
        path = _meant(match, own, folders)
        if path is not None:
            yield match[2].decode(errors="replace"), path


def _meant(include: re.Match[bytes], own: Path, folders: Sequence[Path]) -> Path | None:
    """Return the file that a line includes; a name in brackets is no neighbour's."""
    spelling = include[2].decode(errors="replace")
    searched = (own, *folders) if include[1] == b'"' else folders
    path = next((folder / spelling for folder in searched if (folder / spelling).is_file()), None)
    return path.resolve() if path is not None else None
