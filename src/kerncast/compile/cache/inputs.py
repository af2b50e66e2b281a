"""What a compilation may read from disk: the source, its headers, and the places where a header could be."""

import hashlib
import os
import stat
from collections.abc import Iterable
from functools import cache

from kerncast.compile.cache.header_names import UnknowableError, header_names
from kerncast.compile.headers import header_folders, stand_ins
from kerncast.compile.nouns import CompileRequest

#: More than this is read and looked for only by what is not worth remembering.
_MOST_PLACES = 50_000
_MOST_BYTES = 64 * 2**20
_LARGEST_FILE = 16 * 2**20
#: What the headers of the wheels ask for with __has_include, and what none of them brings.
_ASKED_FOR_BY_WHEELS = ("__config", "ext/random")
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Inputs:
    """The files that a source may be compiled from, and the places where nothing is.

    Each name that a text mentions is looked for in each folder that could be searched; what is there is read in its
    turn. So a header that changes, goes away or newly stands before another gives another digest.
    """

    def __init__(self, request: CompileRequest) -> None:
        self.names: set[str] = set()
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
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE:
            raise UnknowableError
        try:
            descriptor = os.open(place, _READ_FLAGS)
            with open(descriptor, "rb") as stream:  # noqa: PTH123  of a descriptor
                text = stream.read(_LARGEST_FILE + 1)
        except OSError:
            raise UnknowableError from None
        self._bytes += len(text)
        if self._bytes > _MOST_BYTES:
            raise UnknowableError
        # "#pragma once" takes two names of one file for one.
        twin = self._twins.setdefault((found.st_dev, found.st_ino), place)
        self._states[place] = f"{hashlib.sha256(text).hexdigest()} {twin}"
        return text


def _provided_in(folder: str) -> Iterable[str]:
    """Yield the names in a user's folder that would go before what kerncast or the wheels provide."""
    yield from stand_ins()
    yield from _ASKED_FOR_BY_WHEELS
    for wheel in header_folders():
        yield from _shadows(folder, str(wheel), "")


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
