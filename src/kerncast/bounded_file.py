"""The one way in for bytes: regular files up to a limit. What cannot be read is named, with the reason and a cure.

Every reader says by a ``Bound`` how much it takes. Pipes and devices are refused before a byte is asked of them: a pipe
without a writer would be waited for, and a device such as /dev/zero never ends.
"""

import csv
import hashlib
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.units import KIB, MIB

_CHUNK_BYTES = 64 * KIB
_LONGEST_PLACE = 300
#: Not waiting is what lets a pipe be opened and refused; a terminal must not become the one that ends this process.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """What one reader takes of a file that nobody vouches for."""

    most_bytes: int
    cure: str = "Name an existing file."
    """what to do where the file cannot be read"""
    cure_if_larger: str = "Split it, or leave out what is not needed."
    error: type[InputError] = InputError
    """what is raised"""


#: Files that came with kerncast; the largest has 1 MB.
OUR_DATA = Bound(16 * MIB, cure="Install kerncast again.", cure_if_larger="Install kerncast again.")


@contextmanager
def opened(path: Path | str, bound: Bound) -> Iterator[BufferedReader]:
    """Yield a regular file that is no larger than the bound, open for reading.

    Raises the bound's error for anything else, and for what fails while it is read.
    """
    try:
        with os.fdopen(_descriptor(path, bound), "rb") as stream:
            yield stream
    except OSError as error:
        raise unreadable(path, bound, error) from None


def _descriptor(path: Path | str, bound: Bound) -> int:
    """Return a descriptor of a regular file that is no larger than the bound."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise unreadable(path, bound, error) from None
    try:
        _check(path, os.fstat(descriptor), bound)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: Path | str, found: os.stat_result, bound: Bound) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((text for is_kind, text in _KINDS if is_kind(found.st_mode)), "it is no regular file")
        cure = bound.cure if stat.S_ISDIR(found.st_mode) else "Write what it gives into a file, and name that."
        raise bound.error(f"cannot be read ({kind})", where=place_of(path), cure=cure)
    if found.st_size > bound.most_bytes:
        raise _too_large(path, bound)


def read_bytes(path: Path | str, bound: Bound) -> bytes:
    """Return what a file holds; raises the bound's error for a file that is none, or is larger."""
    with opened(path, bound) as stream:
        # A file of /proc has no size, and any may grow: what is read counts, not what was said.
        step = max(_CHUNK_BYTES, os.fstat(stream.fileno()).st_size + 1)
        parts, left = [], bound.most_bytes + 1
        while left and (part := stream.read(min(step, left))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise _too_large(path, bound)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_head(path: Path, count: int) -> bytes:
    """Return the first bytes of a file of any size; raises InputError where there is none."""
    with opened(path, Bound(sys.maxsize)) as stream:
        return stream.read(count)


def read_text(path: Path, bound: Bound) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark; raises the bound's error."""
    raw = read_bytes(path, bound)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cure = "Save it as text in UTF-8."
        raise bound.error(f"byte {error.start} is not UTF-8 text", where=place_of(path), cure=cure) from None
    # As files that are opened as text.
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


NOT_TOML = "is not valid TOML: "


def read_toml(path: Path, bound: Bound) -> dict[str, Any]:
    """Return the table of a TOML file; raises the bound's error, for a key of many parts too."""
    text = read_text(path, bound)
    try:
        check_depth(text)
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, nesting without end
        reason = str(error)[:200] if isinstance(error, ValueError) else "it is nested too deeply"
        raise bound.error(f"{NOT_TOML}{reason}", where=place_of(path), cure="Mend the line named.") from None


def our_table(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file that came with kerncast."""
    return read_toml(path, OUR_DATA)


def our_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV that came with kerncast, by the names in its first line."""
    return list(csv.DictReader(read_text(path, OUR_DATA).splitlines(keepends=True)))


def sha256_of(path: Path, bound: Bound) -> str:
    """Return the SHA-256 of a file in hexadecimal; raises the bound's error."""
    with opened(path, bound) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_file(path: Path) -> bool:
    r"""Whether a name is one of a regular file; a name that no file system takes is none.

    >>> is_file(Path("x" * 100_000)), is_file(Path("a\0b"))
    (False, False)
    """
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a name is one of a folder; a name that no file system takes is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def place_of(path: Path | str) -> str:
    """Return a path for a message: its end, where it is long, and printable where its bytes are no text."""
    return f"{path}".encode(errors="replace").decode()[-_LONGEST_PLACE:]


def unreadable(path: Path | str, bound: Bound, error: Exception) -> InputError:
    """Return the error for a file that the system does not give."""
    reason = "no such file" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", None)
    return bound.error(f"cannot be read ({reason or 'no such path'})", where=place_of(path), cure=bound.cure)


def _too_large(path: Path | str, bound: Bound) -> InputError:
    most = f"{bound.most_bytes // MIB} MiB" if bound.most_bytes >= MIB else f"{bound.most_bytes // KIB} KiB"
    return bound.error(f"it holds more than {most}", where=place_of(path), cure=bound.cure_if_larger)


#: Time and memory of the parser grow with the square of a key's parts.
_MOST_DOTS = 20
#: What TOML is made of. Quotes and hash signs mean the same anywhere outside of texts, so that this needs no grammar.
_TOKEN = re.compile(
    r"""
      (?P<text>\"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+(?:"{3,5})? | '{3}(?:[^']|'{1,2}(?!'))*+(?:'{3,5})?
        | "(?:[^"\\\n]|\\.)*+"? | '[^'\n]*+'?)
    | (?P<bare>[\w-]++)
    | (?P<dot>\.)
    | (?P<blank>[ \t]++)
    | (?P<rest>\#[^\n]*+ | [^"'\w.\#\ \t-]++)
    """,
    re.VERBOSE | re.DOTALL,
)


def check_depth(text: str) -> None:
    r"""Raise ValueError for TOML with a key of twenty dots or more, in time that grows with the text alone.

    >>> check_depth('x = "1.2.3"\n"a b" . c = 1')
    >>> check_depth(".".join('"a b"' for _ in range(21)) + " = 1")
    Traceback (most recent call last):
        ...
    ValueError: a key has twenty dots or more (line 1)
    """
    # A key stands in one line, and few lines have so many dots.
    if not any(line.count(".") >= _MOST_DOTS for line in text.split("\n")):
        return
    dots = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "rest":
            dots = 0
        elif token.lastgroup == "dot":
            dots += 1
            if dots >= _MOST_DOTS:
                line = text.count("\n", 0, token.start()) + 1
                raise ValueError(f"a key has twenty dots or more (line {line})")
