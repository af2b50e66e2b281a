"""What was built before: objects and programs are kept by the digest of all that went into them.

An entry holds the digests of the files that were read, and that of what was made of them; a second entry holds what
was made. Both lie in the cache of compiled kernels, which checks what it reads and writes whole files only.
"""

import atexit
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from kerncast.bounded_file import Bound, sha256_of
from kerncast.compile.cache.store import Store, cache_place, unsafe
from kerncast.errors import InputError
from kerncast.units import GIB
from kerncast.version import __version__

#: No header, object or library is larger.
_FILE = Bound(GIB)

#: Another number makes all entries of before worthless.
_VERSION = 2
_INSIDE = "hostbuild"


@dataclass(frozen=True, slots=True)
class Kept:
    """Something built, by its digest."""

    digest: str
    files: tuple[str, ...] = ()
    """files that were read for it"""


@dataclass(frozen=True, slots=True)
class Search:
    """Folders that headers are looked for in, in their order."""

    own: tuple[str, ...]
    """those that the user named, the source's first"""
    tools: tuple[str, ...]
    """those of compilers, systems and wheels"""


def key_of(*parts: object) -> str:
    """Return the digest of values that JSON can hold."""
    text = json.dumps([_VERSION, __version__, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of(content: bytes) -> str:
    """Return the digest of what a file holds."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: str) -> str | None:
    """Return the digest of a file; None where there is none that can be read."""
    try:
        found = os.stat(path)  # noqa: PTH116  hundreds of headers for each source: Path takes ten times longer
        return _digest(path, found.st_mtime_ns, found.st_size)
    except (OSError, InputError):
        return None


@lru_cache(maxsize=65536)
def _digest(path: str, modified_ns: int, size: int) -> str:
    del modified_ns, size  # told apart by them
    return sha256_of(Path(path), _FILE)


@contextmanager
def replacing_folder(place: Path) -> Iterator[Path]:
    """Yield where to make a folder; at the end of the block it takes the place of what is there.

    Another process that was faster keeps the place.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=place.parent, ignore_cleanup_errors=True) as temporary:
        made = Path(temporary) / "made"
        yield made
        damaged = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        with suppress(OSError):
            place.rename(damaged)
        with suppress(OSError):
            made.rename(place)
        shutil.rmtree(damaged, ignore_errors=True)


def _store() -> Store | None:
    place = cache_place()
    return Store(place.folder, place.most_bytes) if place.folder is not None else None


def recall(key: str, search: Search | None = None) -> Kept | None:
    """Return what was built under a key before, where all the files that went into it are as they were.

    A header that newly stands before another in a folder of the user's makes a difference, too.
    """
    store = _store()
    entry = store.load(key) if store is not None else None
    if entry is None:
        return None
    try:
        table = json.loads(entry)
        digest, files = str(table["digest"]), [(str(path), str(value)) for path, value in table["files"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if any(file_digest(path) != value for path, value in files):
        return None
    names = tuple(path for path, _ in files)
    return None if search is not None and _is_hidden(names, search) else Kept(digest, names)


def _is_hidden(files: Iterable[str], search: Search) -> bool:
    """Whether a file now stands where an earlier look found none."""
    folders = [os.path.join(folder, "") for folder in (*search.own, *search.tools)]  # noqa: PTH118  as above
    own = folders[: len(search.own)]
    if not own:
        return False
    for file in files:
        place = next((place for place, folder in enumerate(folders) if file.startswith(folder)), 0)
        name = file[len(folders[place]) :]
        if any(os.path.exists(folder + name) for folder in own[:place]):  # noqa: PTH110  as above
            return True
    return False


def keep(key: str, files: Sequence[str], content: bytes, started_ns: int) -> Kept:
    """Keep what was built, and the files that went into it, unless one has changed since the work began."""
    kept = Kept(digest_of(content), tuple(files))
    store = _store()
    digests = [(path, file_digest(path)) for path in files]
    if store is not None and all(value is not None and _is_older(path, started_ns) for path, value in digests):
        store.save(key_of("content", kept.digest), content)
        store.save(key, json.dumps({"digest": kept.digest, "files": digests}).encode())
    return kept


def _is_older(path: str, started_ns: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns < started_ns  # noqa: PTH116  as above
    except OSError:
        return False


def content_of(kept: Kept) -> bytes | None:
    """Return what was built; None where it is no longer kept, or damaged."""
    store = _store()
    content = store.load(key_of("content", kept.digest)) if store is not None else None
    return content if content is not None and digest_of(content) == kept.digest else None


def workplace() -> Path:
    """Return a folder of ours for what is no entry: caches of compilers, libraries, the folders of a toolkit.

    It lies beside the cache of compiled kernels. Without a cache it is a temporary folder that this process removes.
    """
    place = cache_place()
    if place.folder is not None:
        folder = place.folder.parent / _INSIDE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            pass
        else:
            if unsafe(folder) is None:
                return folder
    return _temporary()


@cache
def _temporary() -> Path:
    temporary = tempfile.TemporaryDirectory(prefix="kerncast-", ignore_cleanup_errors=True)
    atexit.register(temporary.cleanup)
    return Path(temporary.name)
