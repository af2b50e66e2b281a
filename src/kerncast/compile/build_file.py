"""What the Makefile of a source says of how it is compiled: folders of headers, macros, version of C++.

A small part of GNU make is read: variables, conditionals, and the lines of recipes; nothing is run. What it cannot
follow (functions, includes) has no effect.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kerncast.compile.headers import header_folders, stand_ins
from kerncast.compile.nouns import CompileRequest
from kerncast.launch import STANDARDS

_NAMES = ("GNUmakefile", "makefile", "Makefile")
#: The source may lie in a folder of the one that is built.
_MOST_PARENTS = 2
_MOST_BYTES = 2**20
#: Letters of a variable, and of a text whose variables are replaced.
_MOST_EXPANSIONS = 2**16
_DEEPEST = 20

_ASSIGNMENT = re.compile(r"(?:export\s+|override\s+)?([\w.-]+)\s*(\+|\?|::?|!)?=\s*(.*)")
_REFERENCE = re.compile(r"\$(?:\(([\w.-]+)\)|\{([\w.-]+)\}|(\w))")
_CONDITION = re.compile(r"(ifeq|ifneq)\s*(?:\((.*),(.*)\)|[\"'](.*?)[\"']\s+[\"'](.*?)[\"'])\s*$")
_FLAG = re.compile(
    r"(?<!\S)(?:-I\s*(?P<folder>[^\s;]+)|-isystem\s+(?P<system>[^\s;]+)|-D\s*(?P<name>[A-Za-z_]\w*)(?P<value>=\S*)?"
    r"|--?std[= ](?P<standard>\S+)|(?P<fast>--?use_fast_math))(?!\S)"
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
    include_dirs: tuple[Path, ...] = ()
    """those that exist; absolute paths, which name what is installed on one machine, are left out"""
    defines: tuple[tuple[str, str], ...] = ()
    standard: str | None = None
    fast_math: bool = False


def build_options(source: Path) -> BuildOptions | None:
    """Return the options in the Makefile in the folder of a source or just above; None where there is none."""
    folder = source.parent
    for _ in range(_MOST_PARENTS + 1):
        for name in _NAMES:
            if (folder / name).is_file():
                return _read(folder / name)
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


def folders_caveat(options: BuildOptions, folders: Sequence[Path]) -> str:
    """Say that headers come from folders that the Makefile names, with their paths from its own."""
    names = ", ".join(Path(os.path.relpath(folder, options.file.parent)).as_posix() for folder in folders)
    return f"headers from {names}, which {options.file.name} names: say include = […] to choose others"


def macros_not_given(request: CompileRequest, options: BuildOptions) -> tuple[tuple[str, str], ...]:
    """Return the macros of a Makefile that a request leaves open."""
    given = {name for name, _ in request.defines}
    return tuple((name, value) for name, value in options.defines if name not in given)


def macros_caveat(options: BuildOptions, macros: Sequence[tuple[str, str]]) -> str:
    """Say that a source was compiled with the macros of the Makefile."""
    shown = ", ".join(f"{name} = {value}" for name, value in macros[:_MOST_SHOWN])
    return (
        f"compiled with the macros of {options.file.name}, without which it does not compile: {shown};"
        " say defines = {…} to choose others"
    )


def _included(file: Path) -> list[str]:
    try:
        if not file.is_file():  # a pipe would be waited for
            return []
        with file.open("rb") as stream:
            text = stream.read(_MOST_SCANNED_BYTES)
    except OSError:
        return []
    return [match[1].decode(errors="replace") for match in _INCLUDE.finditer(text)]


def _first_with(name: str, folders: Iterable[Path]) -> Path | None:
    for folder in folders:
        try:
            if (folder / name).is_file():
                return folder
        except (OSError, ValueError):  # a name that no file system takes
            return None
    return None


def _read(file: Path) -> BuildOptions | None:
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except OSError:
        return None
    if len(raw) > _MOST_BYTES:
        return None
    values, recipes = _evaluate(raw.decode(errors="replace"))
    found = BuildOptions(file)
    texts = [_expanded(text, values) for text in (*values.values(), *recipes)]
    return _with_flags(found, [match for text in texts for match in _FLAG.finditer(text)])


def _with_flags(found: BuildOptions, flags: list[re.Match[str]]) -> BuildOptions:
    folder = found.file.parent
    paths = [flag["folder"] or flag["system"] for flag in flags if flag["folder"] or flag["system"]]
    # An absolute path names what is installed on some machine, such as a toolkit.
    named = [folder / path for path in paths if not Path(path).is_absolute() and "$" not in path]
    defines: dict[str, str] = {}
    for flag in flags:
        if flag["name"] and "$" not in (flag["value"] or ""):
            defines.setdefault(flag["name"], (flag["value"] or "=1")[1:].replace('\\"', '"').strip("'"))
    standards = [flag["standard"] for flag in flags if flag["standard"] in STANDARDS]
    return BuildOptions(
        found.file,
        include_dirs=tuple(dict.fromkeys(each for each in named if _is_folder(each))),
        defines=tuple(defines.items()),
        standard=standards[0] if standards else None,
        fast_math=any(flag["fast"] for flag in flags),
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _evaluate(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables after all lines that the conditionals let through, and those lines that are recipes."""
    values: dict[str, str] = {}
    recipes: list[str] = []
    active: list[bool] = []
    for line in _lines(text):
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word in {"ifeq", "ifneq", "ifdef", "ifndef"}:
            active.append(_holds(line.strip(), values))
        elif word == "else" and active:
            rest = line.split(maxsplit=1)[1:]
            active[-1] = not active[-1] and (not rest or _holds(rest[0], values))
        elif word == "endif" and active:
            active.pop()
        elif all(active):
            _assign(line, values, recipes)
    return values, recipes


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        yield _COMMENT.sub("", line)


def _assign(line: str, values: dict[str, str], recipes: list[str]) -> None:
    if line.startswith("\t"):
        recipes.append(line)
        return
    match = _ASSIGNMENT.match(line.strip())
    if match is None or match[2] == "!":
        return
    name, kind, value = match[1], match[2], match[3].strip()
    if kind == "+":
        values[name] = f"{values.get(name, '')} {value}".strip()[:_MOST_EXPANSIONS]
    elif kind != "?" or name not in values:
        values[name] = _expanded(value, values) if kind in {":", "::"} else value


def _holds(condition: str, values: dict[str, str]) -> bool:
    word, _, name = condition.partition(" ")
    if word in {"ifdef", "ifndef"}:
        return bool(values.get(name.strip())) == (word == "ifdef")
    match = _CONDITION.match(condition)
    if match is None:
        return False
    first, second = match[2] or match[4] or "", match[3] or match[5] or ""
    is_equal = _expanded(first, values).strip() == _expanded(second, values).strip()
    return is_equal == (match[1] == "ifeq")


def _next_of(values: Iterator[str], _: re.Match[str]) -> str:
    return next(values)


def _expanded(text: str, values: dict[str, str]) -> str:
    """Replace the variables in a text by what they hold, some levels deep."""
    for _ in range(_DEEPEST):
        if "$" not in text:
            break
        found = [values.get(match[1] or match[2] or match[3], "") for match in _REFERENCE.finditer(text)]
        if not found or len(text) + sum(map(len, found)) > _MOST_EXPANSIONS:
            break
        text = _REFERENCE.sub(partial(_next_of, iter(found)), text)
    return text
