"""The cached replies to one request: found before anything is compiled, kept after."""

import hashlib
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.bounded_file import OUR_DATA, Bound, read_bytes
from kerncast.compile.cache.store import Store, cache_place, packed, unpacked
from kerncast.compile.headers import HEADER_WHEELS, header_folders, package_folders, stand_ins
from kerncast.compile.nouns import CompileRequest, KernelReply
from kerncast.compile.nvrtc import library_paths, wheel
from kerncast.compile.targets import Target
from kerncast.errors import InputError
from kerncast.typed_json import from_json, to_json
from kerncast.units import MIB
from kerncast.version import __version__

# Which files a text may include, found without a preprocessor: more than it includes, never fewer.
#
# Conditions, comments and strings are not looked at: what stands behind ``#include`` or ``__has_include`` counts
# wherever it is. Fails, and says so, where a macro makes the name or the text depends on the time of day.


#: The name of a header in quotes or brackets.
_NAME = rb'(?:"([^"\r\n]+)"|<([^>\r\n]+)>)'
_BLANK = rb"[ \t\v\f]"

#: ``#import`` and ``#__include_macros`` are clang's; ``%:`` is another way to write ``#``.
_DIRECTIVE = re.compile(
    rb"(?:#|%:)" + _BLANK + rb"*+(?:(?=/\*)|(?:include(?:_next)?|import|__include_macros|embed)\b"
    rb"(?:" + _BLANK + rb"*+" + _NAME + rb")?)"
)
#: Between two line ends: nothing but blanks, or the end of a comment, so that a directive may begin there.
_DIRECTIVE_MAY_BEGIN = re.compile(rb"(?:.*\*/)?" + _BLANK + rb"*+\Z", re.DOTALL)
_QUESTION = re.compile(
    rb"__has_(?:include(?:_next)?|embed)\b(?:" + _BLANK + rb"*+\(" + _BLANK + rb"*+" + _NAME + rb")?"
)
#: Asks whether the question may be asked, and asks nothing.
_IS_DEFINED = re.compile(rb"(?:\bdefined" + _BLANK + rb"*+\(?|\bifn?def)" + _BLANK + rb"*+\Z")

#: Trigraphs, the clock, names for other names, assembly that reads files.
_UNKNOWABLE = re.compile(rb"\?\?[=/]|__DATE__|__TIME__|__TIMESTAMP__|include_alias|\.incbin")

#: A backslash at the end of a line joins it with the next: NVRTC allows no blanks between the two, clang does.
_SPLICES = (re.compile(rb"\\\r?\n"), re.compile(rb"\\[ \t\v\f\r]*\n"))
_LONGEST_BEGINNING = 400


class UnknowableError(Exception):
    """The files that a compilation reads cannot be told from its texts alone."""


def header_names(text: bytes) -> set[str]:
    r"""Return the names of headers in a text; raises UnknowableError.

    >>> sorted(header_names(b'#if 0\n# include <b.h>\n#endif // #include "a.h"'))
    ['a.h', 'b.h']
    """
    names: set[str] = set()
    for spliced in dict.fromkeys(splice.sub(b"", text) for splice in _SPLICES):
        if _UNKNOWABLE.search(spliced):
            raise UnknowableError
        names |= _directives(spliced) | _questions(spliced)
    return names


def _directives(text: bytes) -> set[str]:
    names = set()
    for match in _DIRECTIVE.finditer(text):
        name = match[1] or match[2]
        if name is None and _may_begin_at(text, match.start()) and not _MADE.match(text, match.end()):
            raise UnknowableError  # a macro without an argument, or a comment, stands where the name should
        if name is not None:
            names.add(os.fsdecode(name))
    return names


#: ``#include MACRO(name)``, behind the word, and what may define such a macro.
_MADE = re.compile(rb"[ \t]+([A-Za-z_]\w*)\([ \t]*([\w./]+)[ \t]*\)[ \t\r]*(?:$|//)", re.MULTILINE)
_MAKER = re.compile(
    rb"(?:#|%:)[ \t]*define[ \t]+(\w+)(?:\([ \t]*(\w+)[ \t]*\)[ \t]*" + _NAME + rb"[ \t\r]*$)?", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _Maker:
    """What a macro makes of its argument: the name of a header."""

    parameter: bytes
    name: bytes

    def made(self, argument: bytes) -> str:
        return os.fsdecode(re.sub(rb"\b" + self.parameter + rb"\b", lambda _: argument, self.name))


class _MadeNames:
    """The names of headers that macros make, by all definitions of these macros in all texts."""

    def __init__(self, defines: Iterable[tuple[str, str]]) -> None:
        self._makers: dict[bytes, set[_Maker | None]] = {name.partition("(")[0].encode(): {None} for name, _ in defines}
        self._uses: set[tuple[bytes, bytes]] = set()

    def read(self, text: bytes) -> None:
        """Note the uses and the definitions in a text."""
        for spliced in dict.fromkeys(splice.sub(b"", text) for splice in _SPLICES):
            uses = (
                _MADE.match(spliced, match.end())
                for match in _DIRECTIVE.finditer(spliced)
                if not match[0].endswith((b'"', b">"))
            )
            self._uses |= {(use[1], use[2]) for use in uses if use}
            for match in _MAKER.finditer(spliced):
                name = match[3] or match[4]
                maker = _Maker(match[2], name) if name else None
                self._makers.setdefault(match[1], set()).add(maker)

    def names(self) -> Iterator[str]:
        """Yield the names; raises UnknowableError where a macro is not defined, or makes something else."""
        for macro, argument in self._uses:
            makers = self._makers.get(macro, {None})
            for each in makers:
                if each is None:
                    raise UnknowableError
                yield each.made(argument)


def _may_begin_at(text: bytes, start: int) -> bool:
    before = max(text.rfind(b"\n", 0, start), text.rfind(b"\r", 0, start)) + 1
    # Nobody writes a directive behind so long a comment; if somebody does, nothing is remembered.
    return start - before > _LONGEST_BEGINNING or _DIRECTIVE_MAY_BEGIN.match(text[before:start]) is not None


def _questions(text: bytes) -> set[str]:
    names = set()
    for match in _QUESTION.finditer(text):
        name = match[1] or match[2]
        if name is not None:
            names.add(os.fsdecode(name))
        elif not _IS_DEFINED.search(text, max(0, match.start() - 40), match.start()):
            raise UnknowableError
    return names


#: More than this is read and looked for only by what is not worth remembering.
_MOST_PLACES = 50_000
_MOST_TEXT_BYTES = 64 * 2**20
_INPUT = Bound(16 * MIB)
#: What the headers of the wheels ask for with __has_include, and what none of them brings.
_ASKED_FOR_BY_WHEELS = ("__config", "ext/random")


class Inputs:
    """The files that a source may be compiled from, and the places where nothing is.

    Each name that a text mentions is looked for in each folder that could be searched; what is there is read in its
    turn. So a header that changes, goes away or newly stands before another gives another digest.
    """

    def __init__(self, request: CompileRequest) -> None:
        self.names: set[str] = set()
        self._made = _MadeNames(request.defines)
        self._states: dict[str, str] = {}
        self._twins: dict[tuple[int, int], str] = {}
        self._bytes = 0
        self._folders: dict[str, None] = {}
        if self._look(str(request.source)) is None:
            raise UnknowableError
        for name, value in request.defines:
            self.names |= header_names(f"{name} {value}".encode())
        searched = [os.path.realpath(folder) for folder in (request.source.parent, *request.include_dirs)]
        self._folders |= dict.fromkeys(searched)
        wheels = {os.path.realpath(folder) for folder in header_folders()}
        for folder in dict.fromkeys(searched):
            for name in () if folder in wheels else _provided_in(folder):
                self._look(os.path.join(folder, name))  # noqa: PTH118  thousands of times: Path takes ten times longer
        self._close()

    @property
    def digest(self) -> str:
        """SHA-256 over every place where something is, and what."""
        lines = (f"{place}\0{state}\n" for place, state in sorted(self._states.items()) if state)
        return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were found, the source first."""
        return tuple(place for place, state in self._states.items() if state)

    def _close(self) -> None:
        """Look for every name in every folder, until there is neither a new name nor a new folder."""
        while True:
            names, folders = list(self.names), list(self._folders)
            places = [os.path.join(folder, name) for folder in folders for name in names]  # noqa: PTH118  as above
            for place in places:
                self._look(place)
            if len(names) == len(self.names) and len(folders) == len(self._folders):
                self.names.update(self._made.names())
                if len(names) == len(self.names):
                    return

    def _look(self, place: str) -> bytes | None:
        if place in self._states:
            return None
        if len(self._states) >= _MOST_PLACES:
            raise UnknowableError
        text = self._text(place)
        if text is None:
            self._states[place] = ""
            return None
        self.names |= header_names(text)
        self._made.read(text)
        for file in (place, os.path.realpath(place)):
            self._folders.setdefault(os.path.realpath(os.path.dirname(file)))  # noqa: PTH120  as above
        return text

    def _text(self, place: str) -> bytes | None:
        """Return what a file holds, and note it; None where there is no file."""
        try:
            found = os.stat(place)  # noqa: PTH116  as above
        except (OSError, ValueError):
            return None
        if stat.S_ISDIR(found.st_mode):
            return None
        try:
            text = read_bytes(place, _INPUT)
        except InputError:
            raise UnknowableError from None
        self._bytes += len(text)
        if self._bytes > _MOST_TEXT_BYTES:
            raise UnknowableError
        # "#pragma once" takes two names of one file for one.
        twin = self._twins.setdefault((found.st_dev, found.st_ino), place)
        self._states[place] = f"{hashlib.sha256(text).hexdigest()} {twin}"
        return text


def _provided_in(folder: str) -> Iterable[str]:
    """Yield the names in a user's folder that would go before what kerncast or the wheels provide."""
    yield from stand_ins()
    yield from _ASKED_FOR_BY_WHEELS
    for place in header_folders():
        yield from _shadows(folder, str(place), "")


def _shadows(folder: str, wheel: str, inside: str) -> Iterable[str]:
    """Yield the files of a wheel that a user's folder holds, too."""
    for name, is_folder in _listed(os.path.join(wheel, inside)):  # noqa: PTH118  as above
        path = os.path.join(inside, name)  # noqa: PTH118
        if not is_folder:
            yield path
        elif os.path.isdir(os.path.join(folder, path)):  # noqa: PTH112, PTH118
            yield from _shadows(folder, wheel, path)


@cache
def _listed(folder: str) -> tuple[tuple[str, bool], ...]:
    with os.scandir(folder) as found:
        return tuple((each.name, each.is_dir()) for each in found)


#: Version of the entries; entries of another one count as absent.
FORMAT = 1

#: What bounds a compilation, and does not change what comes of it; the architectures have an entry each.
_IRRELEVANT = ("limits", "architectures")
_COMPILE = Path(__file__).parents[1]


def entry_key(request: CompileRequest, target: Target, inputs: str) -> str:
    """Return the key for one architecture of a request."""
    fields = {name: value for name, value in asdict(request).items() if name not in _IRRELEVANT}
    paths = (request.source, *request.include_dirs)
    facts = {
        "request": fields,
        # A relative path means another file elsewhere, and PTX names files by whole paths.
        "folder": None if all(path.is_absolute() for path in paths) else str(Path.cwd()),
        "target": asdict(target),
        "inputs": inputs,
        "tools": _tools(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _tools() -> dict[str, Any]:
    """Return what compiles: our code, the compilers and the headers of the wheels, by version and by place."""
    return {
        "format": FORMAT,
        "kerncast": __version__,
        "code": _code_digest(),
        "system": [sys.platform, os.uname().machine if hasattr(os, "uname") else ""],
        "wheels": dict(_versions()),
        "libraries": [_identity(path) for major in (11, 12) for path in library_paths(major) or ()],
        "parser": [_identity(native) for folder in package_folders("clang") if (native := folder / "native").is_dir()],
        # Where headers lie stands in the PTX.
        "headers": [_identity(folder) for folder in header_folders()],
    }


def _code_digest() -> str:
    """Digest our own code and headers that compile, so that a change of them needs no thought of the cache."""
    digest = hashlib.sha256()
    for path in sorted(path for path in _COMPILE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        digest.update(read_bytes(path, OUR_DATA))
    return digest.hexdigest()


def _versions() -> Iterator[tuple[str, str | None]]:
    from importlib import metadata  # noqa: PLC0415  of all commands, few compile

    for name in (wheel(11), wheel(12), "libclang", *(name for _, _, name in HEADER_WHEELS)):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, None


def _identity(path: Path) -> list[object]:
    """Return a path and when it changed: an installation of the same version over another is seen, too."""
    found = path.stat()
    return [str(path), found.st_size, found.st_mtime_ns]


#: Nothing that kerncast compiles is larger: an entry that says so is damaged.
_MOST_BYTES = 128 * 2**20
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Remembered:
    """One request, and the store that may know its replies."""

    store: Store
    request: CompileRequest
    inputs: str
    """digest of the texts at the time when this entry was made"""

    def find(self, target: Target) -> KernelReply | None:
        """Return a remembered reply; None where there is none, or none that can be read."""
        key = entry_key(self.request, target, self.inputs)
        payload = self.store.load(key)
        if payload is None:
            return None
        try:
            return from_json(KernelReply, unpacked(payload, _MOST_BYTES))
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.store.drop(key)
            return None

    def keep(self, replies: Iterable[tuple[Target, KernelReply]]) -> None:
        """Keep replies, unless a text has changed since they were asked for."""
        inputs = _inputs(self.request)
        if inputs is None or inputs.digest != self.inputs:
            return
        for target, reply in replies:
            # The name of a missing header that stands in no text of the user's: nobody looks whether it is there now.
            if inputs.names.issuperset(reply.emptied):
                key = entry_key(self.request, target, self.inputs)
                self.store.save(key, packed(to_json(reply), _LEVEL))


def recall(request: CompileRequest) -> Remembered | None:
    """Return what is remembered of a request; None where nothing may be."""
    place = cache_place()
    if place.folder is None:
        return None
    inputs = _inputs(request)
    return Remembered(Store(place.folder, place.most_bytes), request, inputs.digest) if inputs else None


def _inputs(request: CompileRequest) -> Inputs | None:
    with suppress(UnknowableError, OSError):
        return Inputs(request)
    return None
