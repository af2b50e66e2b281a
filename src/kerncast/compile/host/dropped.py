"""What the parser has left out: it drops a statement that it cannot understand, with all that is in it.

A value that such a statement changes would look constant. So the text of a function is searched for what looks like
writes, and those that the tree does not hold are remembered by the name that they change.
"""

import ctypes
import re
from collections.abc import Iterable

from clang.cindex import Cursor, CursorKind, SourceRange, TranslationUnit, conf

from kerncast.compile.host.libclang import written_at
from kerncast.compile.host.tree import Node

_NOT_CODE = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\r?\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_LAUNCH = re.compile(rb"<<<|<<\s+<(?!<)|\b(?:cuda|hip)Launch(?:Cooperative)?Kernel\s*\(")
_WRITE = re.compile(
    rb"(?:\+\+|--|&|>>)\s*(?:\w+(?:\.|->))*([A-Za-z_]\w*)"
    rb"|\b([A-Za-z_]\w*)\s*(?:\[[^\[\]]*\]\s*)*(?:=(?!=)|\+=|-=|\*=|/=|%=|<<=|>>=|&=|\|=|\^=|\+\+|--)"
)


class _Ranges(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint), ("ranges", ctypes.POINTER(SourceRange)))


def skipped(unit: TranslationUnit) -> dict[str, list[tuple[int, int]]]:
    """Return what the preprocessor left out, by file: offsets from and to."""
    function = conf.lib.clang_getAllSkippedRanges
    function.argtypes, function.restype = [TranslationUnit], ctypes.POINTER(_Ranges)
    found: dict[str, list[tuple[int, int]]] = {}
    result = function(unit)
    if not result:
        return found
    for index in range(result.contents.count):
        each = result.contents.ranges[index]
        if each.start.file is not None:
            found.setdefault(each.start.file.name, []).append((each.start.offset, each.end.offset))
    return found


class Dropped:
    """Names that functions change in code that the tree does not hold."""

    def __init__(self, texts: dict[str, bytes], left_out: dict[str, list[tuple[int, int]]]) -> None:
        self._texts = {name: _code(text, left_out.get(name, ())) for name, text in texts.items()}
        self._by_function: dict[int, dict[str, int]] = {}

    def names(self, function: Node) -> dict[str, int]:
        """Return the names that a function changes unseen, each with a line."""
        if function.order not in self._by_function:
            self._by_function[function.order] = self._find(function)
        return self._by_function[function.order]

    def launches(self, seen: Iterable[Node]) -> list[tuple[str, int]]:
        """Return file and line of each launch in the text that none of those which were seen holds."""
        extents: dict[str, list[tuple[int, int]]] = {}
        for node in seen:
            extent: SourceRange = node.cursor.extent
            extents.setdefault(node.file, []).append((written_at(extent.start), written_at(extent.end)))
        return [
            (name, text.count(b"\n", 0, match.start()) + 1)
            for name, text in self._texts.items()
            for match in _LAUNCH.finditer(text)
            if not any(start <= match.start() <= end for start, end in extents.get(name, ()))
        ]

    def _find(self, function: Node) -> dict[str, int]:
        text = self._texts.get(function.file)
        extent: SourceRange = function.cursor.extent
        if text is None or function.kind in {CursorKind.VAR_DECL, CursorKind.FIELD_DECL}:
            return {}
        written = [
            (match[1] or match[2], match.start(1) if match[1] else match.start(2))
            for match in _WRITE.finditer(text, written_at(extent.start), written_at(extent.end))
        ]
        if not written:
            return {}
        seen = set(_offsets(function.walk()))
        return {
            name.decode(errors="replace"): text.count(b"\n", 0, offset) + 1
            for name, offset in written
            if offset not in seen
        }


def _offsets(nodes: Iterable[Node]) -> Iterable[int]:
    """Yield where names stand that a tree holds."""
    for node in nodes:
        cursor: Cursor = node.cursor
        if node.kind.is_expression() or node.kind.is_declaration() or node.kind.is_reference():
            yield written_at(cursor.location)
            if node.kind == CursorKind.MEMBER_REF_EXPR:
                yield written_at(cursor.extent.end) - len(node.name.encode())


def _code(text: bytes, left_out: Iterable[tuple[int, int]]) -> bytes:
    """Return a text with spaces in the place of what is no code, and of what the preprocessor left out."""
    text = _NOT_CODE.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), text)
    for start, end in left_out:
        text = text[:start] + re.sub(rb"[^\n]", b" ", text[start:end]) + text[end:]
    return text
