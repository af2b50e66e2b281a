"""Where the cache is: a folder that the environment names, or the system's place for caches."""

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from kerncast.errors import InputError
from kerncast.units import MIB

#: A folder for the cache, or ``off``.
FOLDER_VARIABLE = "KERNCAST_CACHE"
#: How large it may get, in MiB.
SIZE_VARIABLE = "KERNCAST_CACHE_MB"
DEFAULT_BYTES = 256 * MIB

#: In the cache's folder, what holds the entries.
_INSIDE = "compiled"


@dataclass(frozen=True, slots=True)
class Place:
    """Where compiled kernels are remembered."""

    folder: Path | None
    """None where nothing is remembered"""
    most_bytes: int
    why_not: str | None = None
    """why nothing is remembered"""


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


def unsafe(folder: Path) -> str | None:
    """Say why a folder must not be used: others could put code of theirs into it."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if is_foreign(found):
        return "it belongs to somebody else"
    if hasattr(os, "geteuid") and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return None


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
            f"{SIZE_VARIABLE}={text[:40]!r} is no size", cure="Give a whole number of MiB, such as 256, or 0 for none."
        )
    return int(text) * MIB
