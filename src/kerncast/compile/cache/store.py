"""The cache on disk: where it lies, how entries are written and read, and how it stands."""

import hashlib
import json
import os
import re
import secrets
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.units import MIB

#: A folder for the cache, or ``off``.
FOLDER_VARIABLE = "KERNCAST_CACHE"
#: Variable of the environment for the largest size of the cache in MiB.
SIZE_VARIABLE = "KERNCAST_CACHE_MB"
DEFAULT_BYTES = 256 * MIB

#: In the cache's folder, what holds the entries.
_INSIDE = "compiled"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder in which compiled kernels are remembered."""

    folder: Path | None
    """folder of the cache; None where nothing is remembered"""
    most_bytes: int
    why_not: str | None = None
    """reason why nothing is remembered; None where the cache is used"""


def cache_place() -> Place:
    """Return where the cache is to be; raises InputError for a size that is none."""
    most_bytes = _most_bytes()
    asked = os.environ.get(FOLDER_VARIABLE, "").strip()
    if asked.lower() == "off":
        return Place(None, most_bytes, f"{FOLDER_VARIABLE} is off")
    if most_bytes == 0:
        return Place(None, most_bytes, f"{SIZE_VARIABLE} is 0")
    try:
        root = Path(asked).expanduser().absolute() if asked else _default()
    except RuntimeError:  # neither a variable nor the system says where home is
        return Place(None, most_bytes, f"there is no home folder: name a folder by {FOLDER_VARIABLE}")
    return Place(root / _INSIDE, most_bytes)


def store_in(root: Path) -> "Store":
    """Return the cache of a process for which ``KERNCAST_CACHE`` names this folder."""
    return Store(root / _INSIDE, _most_bytes())


def unsafe(folder: Path) -> str | None:
    """Say why a folder must not be used: others could put code of theirs into it."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if is_foreign(found):
        return "it belongs to somebody else"
    if _others_may_write(found):
        return "others may write to it"
    return None


def _others_may_write(found: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def is_foreign(found: os.stat_result) -> bool:
    """Tell whether a file or a folder belongs to neither this user nor root."""
    return hasattr(os, "geteuid") and found.st_uid not in {os.geteuid(), 0}


def _default() -> Path:
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "kerncast" / "cache"
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is to be ignored.
    if Path(named).is_absolute():
        return Path(named) / "kerncast"
    home = Path.home()
    if not home.is_dir():  # as daemons have it: nobody wants a folder there
        raise RuntimeError(home)
    return home / ".cache" / "kerncast"


def _most_bytes() -> int:
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    if not text:
        return DEFAULT_BYTES
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(
            f"{SIZE_VARIABLE}={text[:40]!r} is not a size", cure="Give whole MiB, such as 256, or 0 for no cache."
        )
    return int(text) * MIB


# Entries on disk under their keys: written whole or not at all, checked when read, the least recently used go first.
#
# Several processes may use it at once: none waits for another, and each takes a file that has gone for one that never
# was. Nothing here raises because of the disk: what cannot be kept is made anew.


#: Sixteen parts with a bound each, so that keeping it means to list one part.
_PARTS = "0123456789abcdef"
_MAGIC = b"kerncast-cache 1\n"
_DIGEST_BYTES = 32
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry\Z")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{16}\.part\Z")
#: What an ended process left unfinished goes after this time.
_LEFT_OVER_SECONDS = 3600.0

#: Marks a folder that backups may skip (https://bford.info/cachedir/), and that it is ours.
_TAG_NAME = "CACHEDIR.TAG"
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by kerncast: compiled kernels. `kerncast cache --clear`\n"

_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """The size of a store."""

    entries: int
    bytes: int
    oldest_use: float | None
    """time at which the least recently used entry was used, in seconds since 1970; None without entries"""


@dataclass(frozen=True, slots=True)
class Store:
    """The entries in one folder, together never larger than ``most_bytes``."""

    folder: Path
    most_bytes: int

    def load(self, key: str) -> bytes | None:
        """Return an entry, and note that it was used; None where there is no sound one."""
        if unsafe(self.folder):
            return None
        path = self._path(key)
        try:
            content = _read(path, self._part_bytes)
        except FileNotFoundError:
            return None
        except OSError:
            content = b""
        start = len(_MAGIC) + _DIGEST_BYTES
        payload = content[start:]
        if content[:start] != _MAGIC + _digest(key, payload):
            self.drop(key)
            return None
        with suppress(OSError):
            os.utime(path)
        return payload

    def holds(self, key: str) -> bool:
        """Tell whether something stands in the place of an entry, sound or not."""
        return unsafe(self.folder) is None and self._path(key).exists()

    def save(self, key: str, payload: bytes) -> None:
        """Keep an entry, where that is possible."""
        content = _MAGIC + _digest(key, payload) + payload
        if len(content) > self._part_bytes:
            return
        with suppress(OSError):
            self.prepare()
            path = self._path(key)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write(path, content)
            self._trim(path.parent)

    def drop(self, key: str) -> None:
        """Remove what is in the place of an entry, but never what a link leads to."""
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
        except OSError:
            with suppress(OSError):
                path.rmdir()

    def usage(self) -> Usage:
        """Return what the store holds; what others are writing counts as bytes."""
        files = list(self._files())
        used = [found.st_mtime for path, found in files if _ENTRY.match(path.name)]
        return Usage(len(used), sum(found.st_size for _, found in files), min(used, default=None))

    def clear(self) -> int:
        """Remove every entry, and nothing else; returns how many there were."""
        if not self.is_ours():
            return 0
        removed = 0
        for path, _ in list(self._files()):
            with suppress(OSError):
                path.unlink()
                removed += bool(_ENTRY.match(path.name))
        for part in self._parts():
            with suppress(OSError):
                part.rmdir()
        with suppress(OSError):
            if [each.name for each in self.folder.iterdir()] == [_TAG_NAME]:
                (self.folder / _TAG_NAME).unlink()
                self.folder.rmdir()
        return removed

    def why_unusable(self) -> str | None:
        """Say why nothing can be kept here; None where it can. What is made to try it is removed again."""
        absent = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        try:
            self.prepare()
            trial = self.folder / f"{'0' * 64}.{secrets.token_hex(8)}.part"
            os.close(os.open(trial, _WRITE, 0o600))
            trial.unlink()
        except OSError as error:
            return error.strerror or str(error)
        finally:
            with suppress(OSError):
                if absent:
                    (self.folder / _TAG_NAME).unlink(missing_ok=True)
                for each in absent:
                    each.rmdir()
        return None

    def is_there(self) -> bool:
        """Tell whether anything stands in the place of the folder."""
        try:
            self.folder.lstat()
        except OSError:
            return False
        return True

    def is_ours(self) -> bool:
        """Tell whether the folder is a cache that kerncast made."""
        if unsafe(self.folder):
            return False
        try:
            tag = _read(self.folder / _TAG_NAME, len(_TAG))
        except OSError:
            return False
        return tag == _TAG

    @property
    def _part_bytes(self) -> int:
        return self.most_bytes // len(_PARTS)

    def _path(self, key: str) -> Path:
        return self.folder / key[0] / f"{key}.entry"

    def prepare(self) -> None:
        """Make the folder; raises OSError where it cannot be made, or is not ours."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if why := unsafe(self.folder):
            raise PermissionError(0, why)
        if self.is_ours():
            return
        with os.scandir(self.folder) as found:
            # Without its tag, for a process was killed, or cleared the store while this one began to fill it.
            if not all(each.name == _TAG_NAME or _UNFINISHED.match(each.name) or _is_part(each) for each in found):
                raise PermissionError(0, "it holds files, but is not a cache of kerncast")
        _write(self.folder / _TAG_NAME, _TAG)

    def _parts(self) -> Iterator[Path]:
        with suppress(OSError), os.scandir(self.folder) as found:
            yield from [Path(each.path) for each in found if _is_part(each)]

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        if self.is_ours():
            for part in (self.folder, *self._parts()):
                yield from ((part / name, status) for name, status in _owned(part))

    def _trim(self, part: Path) -> None:
        """Remove what was left unfinished, and the least recently used until the rest is small enough."""
        files = sorted(_owned(part), key=lambda each: each[1].st_mtime)
        total = sum(found.st_size for _, found in files)
        now = time.time()
        for name, found in files:
            is_left_over = not _ENTRY.match(name) and now - found.st_mtime > _LEFT_OVER_SECONDS
            if is_left_over or (total > self._part_bytes and _ENTRY.match(name)):
                with suppress(OSError):
                    (part / name).unlink()
                total -= found.st_size


def _is_part(found: "os.DirEntry[str]") -> bool:
    return len(found.name) == 1 and found.name in _PARTS and found.is_dir(follow_symlinks=False)


def _owned(part: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the names of the files that a store made, without what has other names."""
    with suppress(OSError), os.scandir(part) as found:
        for each in found:
            if _ENTRY.match(each.name) or _UNFINISHED.match(each.name):
                with suppress(OSError):
                    status = each.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        yield each.name, status


def _read(path: Path, most_bytes: int) -> bytes:
    """Return what a regular file of this user's holds; raises OSError for anything else."""
    descriptor = os.open(path, _READ)
    with open(descriptor, "rb") as stream:  # noqa: PTH123  of a descriptor
        found = os.fstat(descriptor)
        # Whoever may write to a folder above can put one of theirs in its place, after it was looked at.
        if not stat.S_ISREG(found.st_mode) or is_foreign(found) or _others_may_write(found):
            raise OSError("not a regular file of this user, to which nobody else may write")
        return stream.read(most_bytes + 1)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; raises OSError."""
    stem = path.stem if _ENTRY.match(path.name) else "0" * 64
    unfinished = path.with_name(f"{stem}.{secrets.token_hex(8)}.part")
    try:
        with open(os.open(unfinished, _WRITE, 0o600), "wb") as stream:  # noqa: PTH123  of a descriptor
            stream.write(content)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _digest(key: str, payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + payload).digest()


def packed(data: dict[str, Any], level: int) -> bytes:
    """Return a JSON object as the payload of an entry."""
    return zlib.compress(json.dumps(data).encode(), level)


def unpacked(payload: bytes, most_bytes: int) -> dict[str, Any]:
    """Return the JSON object of a payload; raises zlib.error, ValueError, TypeError or RecursionError for others."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(payload, most_bytes)
    if not unpacker.eof:
        raise ValueError("the entry goes on for too long, or ends too soon")
    data = json.loads(text)
    if not isinstance(data, dict):
        raise TypeError("the entry is not an object")
    return data


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The state of the cache: its folder, its contents, and whether it can be used."""

    folder: Path | None
    """folder of the cache; None where nothing is remembered"""
    most_bytes: int
    usage: Usage
    is_used: bool
    why_not: str | None
    """reason why nothing is remembered; None where the cache is used"""


def cache_report() -> CacheReport:
    """Look at the cache, and try to write to it; raises InputError for a size that is none."""
    place = cache_place()
    if place.folder is None:
        return CacheReport(None, place.most_bytes, Usage(0, 0, None), is_used=False, why_not=place.why_not)
    store = Store(place.folder, place.most_bytes)
    why_not = store.why_unusable()
    return CacheReport(place.folder, place.most_bytes, store.usage(), is_used=why_not is None, why_not=why_not)
