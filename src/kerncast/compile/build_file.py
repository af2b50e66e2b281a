"""Compiler options that the Makefile of a source holds: folders of headers, macros, version of C++.

A small part of GNU make is read: variables, conditionals, and the lines of recipes; nothing is run. What it cannot
follow (functions, includes) has no effect.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kerncast.bounded_file import Bound, is_file, read_bytes, read_head
from kerncast.caveats import Caveat, CaveatKind
from kerncast.compile.headers import header_folders, stand_ins
from kerncast.compile.nouns import CompileRequest
from kerncast.errors import InputError
from kerncast.units import MIB

_NAMES = ("GNUmakefile", "makefile", "Makefile")
#: The source may lie in a folder of the one that is built.
_MOST_PARENTS = 2
_MAKEFILE = Bound(MIB)
#: Letters of a variable, and of a text whose variables are replaced.
_MOST_EXPANSIONS = 2**16
#: Letters that all replacements of one file may make together: real files need some thousands.
_MOST_EXPANDED = 2**22
_DEEPEST = 20

_ASSIGNMENT = re.compile(r"(?:export\s+|override\s+)?([\w.-]+)\s*(\+|\?|::?|!)?=\s*(.*)")
_REFERENCE = re.compile(r"\$(?:\(([\w.-]+)\)|\{([\w.-]+)\}|(\w))")
_CONDITION = re.compile(r"(ifeq|ifneq)\b\s*(.*)")
_QUOTED = re.compile(r"[\"']([^\"']*)[\"']\s+[\"']([^\"']*)[\"']")
_FLAG = re.compile(
    r"(?<!\S)(?:-I\s*(?P<folder>[^\s;]+)|-isystem\s+(?P<system>[^\s;]+)|-D\s*(?P<name>[A-Za-z_]\w*)(?P<value>=\S*)?"
    r"|(?P<fast>--?use_fast_math))(?!\S)"
)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_MOST_HEADERS = 200
_MOST_SHOWN = 8
_MOST_SCANNED_BYTES = 2**24
_COMMENT = re.compile(r"(?<!\\)#.*")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of the compiler that a Makefile holds."""

    file: Path
    label: str
    """path of the file from the folder of the source"""
    include_dirs: tuple[Path, ...] = ()
    """folders of headers that exist; absolute paths are left out, as they name what one machine has installed"""
    defines: tuple[tuple[str, str], ...] = ()
    fast_math: bool = False
    of_several: frozenset[str] = frozenset()
    """macros that have another value elsewhere in the file"""


def build_options(source: Path) -> BuildOptions | None:
    """Return the options in the Makefile in the folder of a source or just above; None where there is none."""
    folder = source.parent
    for level in range(_MOST_PARENTS + 1):
        if level and _all_may_write(folder):  # such as /tmp: what lies there may be anybody's
            return None
        for name in _NAMES:
            if is_file(folder / name):
                return _read(BuildOptions(folder / name, "../" * level + name))
        folder = folder / ".."
    return None


def folders_of_missing_headers(source: Path, include_dirs: Sequence[Path], options: BuildOptions) -> tuple[Path, ...]:
    """Return the folders of a Makefile that hold headers which a source includes and which are nowhere else."""
    found: dict[Path, None] = {}
    waiting, seen = [source], set[Path]()
    elsewhere = (*include_dirs, *header_folders())
    while waiting and len(seen) < _MOST_HEADERS:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in _included(file):
            folder = _first_with(name, (file.parent, source.parent, *include_dirs, *found))
            if folder is None and name not in stand_ins() and _first_with(name, elsewhere) is None:
                folder = _first_with(name, options.include_dirs)
                if folder is not None:
                    found[folder] = None
            if folder is not None:
                waiting.append(folder / name)
    return tuple(found)


def headers_of(source: Path, include_dirs: Sequence[Path]) -> tuple[Path, ...]:
    """Return the headers that a source includes, and those that they include, where they lie in these folders."""
    waiting, found = [source], dict[Path, None]()
    while waiting and len(found) < _MOST_HEADERS:
        file = waiting.pop()
        for name in _included(file):
            folder = _first_with(name, (file.parent, source.parent, *include_dirs))
            if folder is not None and folder / name not in found:
                found[folder / name] = None
                waiting.append(folder / name)
    return tuple(found)


def folders_caveat(options: BuildOptions, folders: Sequence[Path]) -> Caveat:
    """Say that headers come from folders that the Makefile names, with their paths from its own."""
    names = ", ".join(Path(os.path.relpath(folder, options.file.parent)).as_posix() for folder in folders)
    return Caveat.of(CaveatKind.HEADERS_FROM_MAKEFILE, options.label, folders=names)


def macros_not_given(request: CompileRequest, options: BuildOptions) -> tuple[tuple[str, str], ...]:
    """Return the macros of a Makefile that a request leaves open."""
    given = {name for name, _ in request.defines}
    return tuple((name, value) for name, value in options.defines if name not in given)


def fast_math_caveat(options: BuildOptions) -> Caveat:
    """Say that the Makefile's approximate functions are not taken: other instructions, and other times."""
    return Caveat(CaveatKind.FAST_MATH_IGNORED, options.label)


def macros_caveats(options: BuildOptions, macros: Sequence[tuple[str, str]]) -> tuple[Caveat, ...]:
    """Say that a source was compiled with the macros of the Makefile."""
    shown = ", ".join(f"{name} = {value}" for name, value in macros[:_MOST_SHOWN])
    more = f" and {len(macros) - _MOST_SHOWN} more" if len(macros) > _MOST_SHOWN else ""
    several = [name for name, _ in macros if name in options.of_several]
    caveat = Caveat.of(CaveatKind.MACROS_FROM_MAKEFILE, options.label, macros=f"{shown}{more}")
    if not several:
        return (caveat,)
    return caveat, Caveat.of(CaveatKind.FIRST_OF_SEVERAL_VALUES, ", ".join(several[:_MOST_SHOWN]))


def _included(file: Path) -> list[str]:
    try:
        text = read_head(file, _MOST_SCANNED_BYTES)
    except InputError:
        return []
    return [match[1].decode(errors="replace") for match in _INCLUDE.finditer(text)]


def _first_with(name: str, folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if is_file(folder / name)), None)


def _read(found: BuildOptions) -> BuildOptions | None:
    try:
        raw = read_bytes(found.file, _MAKEFILE)
    except InputError:
        return None
    variables = _Variables({}, [])
    variables.read(raw.decode(errors="replace"))
    texts = [variables.expanded(text) for text in (*variables.values.values(), *variables.recipes)]
    return _with_flags(found, [match for text in texts for match in _FLAG.finditer(text)])


def _with_flags(found: BuildOptions, flags: list[re.Match[str]]) -> BuildOptions:
    folder = found.file.parent
    paths = [flag["folder"] or flag["system"] for flag in flags if flag["folder"] or flag["system"]]
    # An absolute path names what is installed on some machine, such as a toolkit.
    named = [folder / path for path in paths if not Path(path).is_absolute() and "$" not in path]
    values: dict[str, dict[str, None]] = {}
    for flag in flags:
        if flag["name"] and "$" not in (flag["value"] or ""):
            value = (flag["value"] or "=1")[1:].replace('\\"', '"').strip("'")
            values.setdefault(flag["name"], {})[value] = None
    return replace(
        found,
        include_dirs=tuple(dict.fromkeys(each for each in named if _is_folder(each))),
        defines=tuple((name, next(iter(several))) for name, several in values.items()),
        fast_math=any(flag["fast"] for flag in flags),
        of_several=frozenset(name for name, several in values.items() if len(several) > 1),
    )


def _all_may_write(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH) and os.name == "posix"
    except OSError:
        return True


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class _Branch:
    """The state of reading between a condition and its endif."""

    is_outside_open: bool
    is_decided: bool = False
    """whether a branch has been taken already"""
    is_open: bool = False
    """whether the lines here count"""

    def after(self, holds: bool) -> "_Branch":
        """Return where reading is behind a condition, or behind an else."""
        is_open = self.is_outside_open and not self.is_decided and holds
        return _Branch(self.is_outside_open, self.is_decided or is_open, is_open)


@dataclass(slots=True)
class _Variables:
    """The variables after the lines that the conditionals have let through, and those lines that are recipes."""

    values: dict[str, str]
    recipes: list[str]
    letters_left: int = _MOST_EXPANDED

    def read(self, text: str) -> None:
        """Take in the lines of a Makefile."""
        branches: list[_Branch] = []
        for line in _lines(text):
            word = line.split(maxsplit=1)[0] if line.strip() else ""
            if word in {"ifeq", "ifneq", "ifdef", "ifndef"} or word.startswith(("ifeq(", "ifneq(")):
                is_open = not branches or branches[-1].is_open
                branches.append(_Branch(is_open).after(is_open and self._holds(line.strip())))
            elif word == "else" and branches:
                rest = line.split(maxsplit=1)[1:]
                branches[-1] = branches[-1].after(not rest or self._holds(rest[0]))
            elif word == "endif" and branches:
                branches.pop()
            elif not branches or branches[-1].is_open:
                self._assign(line)

    def expanded(self, text: str) -> str:
        """Replace the variables in a text by what they hold, some levels deep."""
        for _ in range(_DEEPEST):
            if "$" not in text:
                break
            found = [self.values.get(match[1] or match[2] or match[3], "") for match in _REFERENCE.finditer(text)]
            letters = len(text) + sum(map(len, found))
            if not found or letters > min(_MOST_EXPANSIONS, self.letters_left):
                break
            self.letters_left -= letters
            text = _REFERENCE.sub(partial(_next_of, iter(found)), text)
        return text

    def _assign(self, line: str) -> None:
        if line.startswith("\t"):
            self.recipes.append(line)
            return
        match = _ASSIGNMENT.match(line.strip())
        if match is None or match[2] == "!":
            return
        name, kind, value = match[1], match[2], match[3].strip()
        if kind == "+":
            longer = f"{self.values.get(name, '')} {value}".strip()
            self.letters_left -= len(longer)
            if len(longer) <= min(_MOST_EXPANSIONS, self.letters_left):
                self.values[name] = longer
        elif kind != "?" or name not in self.values:
            self.values[name] = self.expanded(value) if kind in {":", "::"} else value

    def _holds(self, condition: str) -> bool:
        word, _, name = condition.partition(" ")
        if word in {"ifdef", "ifndef"}:
            return bool(self.values.get(name.strip())) == (word == "ifdef")
        match = _CONDITION.match(condition)
        sides = _sides(match[2].strip()) if match else None
        if match is None or sides is None:
            return False
        first, second = (self.expanded(side).strip() for side in sides)
        return (first == second) == (match[1] == "ifeq")


def _sides(compared: str) -> tuple[str, str] | None:
    """Return what a condition compares, as ``(a,b)`` or ``"a" "b"``."""
    if compared.startswith("(") and compared.endswith(")"):
        first, comma, second = compared[1:-1].rpartition(",")
        return (first, second) if comma else None
    match = _QUOTED.fullmatch(compared)
    return (match[1], match[2]) if match else None


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        yield _COMMENT.sub("", line)


def _next_of(values: Iterator[str], _: re.Match[str]) -> str:
    return next(values)
