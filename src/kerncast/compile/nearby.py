"""Which other sources near one call its functions, or hold the kernels that it lacks: those that a user should name."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kerncast.compile.build_file import build_options

_SUFFIXES = {".c", ".cc", ".cpp", ".cxx", ".cu"}
#: Files that are looked into, and bytes of one.
_MOST_FILES = 200
_MOST_BYTES = 2**22
_MOST_SHOWN = 4
#: What stands before a call: a declaration has a type there.
_BEFORE = rb"(?:[=(,;{})]|^|\breturn)\s*(?:\w+::)*"
_KERNEL = re.compile(rb"^(?!\s*//).*\b__global__\b", re.MULTILINE)


def callers_elsewhere(source: Path, hosts: Sequence[Path], functions: Sequence[str]) -> tuple[str, ...]:
    """Return a caveat for each function that nothing calls in the sources read, where a file nearby seems to."""
    if not functions:
        return ()
    read = {each.resolve() for each in (source, *hosts)}
    texts = [(file, _text(file)) for file in _nearby(source) if file.resolve() not in read]
    found: dict[tuple[Path, ...], list[str]] = {}
    for name in functions:
        call = re.compile(_BEFORE + re.escape(name.encode()) + rb"\s*\(", re.MULTILINE)
        files = tuple(file for file, text in texts if call.search(text))
        if files:
            found.setdefault(files, []).append(name)
    return tuple(_caveat(files, names) for files, names in found.items())


def kernels_elsewhere(source: Path, hosts: Sequence[Path]) -> tuple[Path, ...]:
    """Return the sources that hold kernels: those that are given with one that has none, else those near it."""
    files = [*hosts, *_nearby(source)]
    return tuple(dict.fromkeys(file for file in files if _KERNEL.search(_text(file))))[:_MOST_SHOWN]


def _caveat(files: Sequence[Path], names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_SHOWN]) + (" and others" if len(names) > _MOST_SHOWN else "")
    one, *more = files
    other = f"; so do {', '.join(each.name for each in more[:_MOST_SHOWN])}" if more else ""
    return f"{one.name} seems to call {shown}{other}: what it passes is read with --host {one.as_posix()}"


def _nearby(source: Path) -> Iterable[Path]:
    """Return the sources in the folder of a source and below that of its Makefile."""
    options = build_options(source)
    roots = [source.parent] + ([options.file.parent] if options is not None else [])
    found: dict[Path, Path] = {}
    for file in (file for root in roots for file in _sources_below(root)):
        found.setdefault(file.resolve(), file)
        if len(found) >= _MOST_FILES:
            break
    return sorted(found.values())


def _sources_below(folder: Path) -> Iterator[Path]:
    try:
        for file in sorted(folder.glob("*")) + sorted(folder.glob("*/*")):
            if file.suffix in _SUFFIXES and file.is_file():
                yield file
    except OSError:
        return


def _text(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return b""
