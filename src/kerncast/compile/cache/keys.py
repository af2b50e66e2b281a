"""The key of an entry: a digest of everything that decides what the compiler answers, but for the texts it reads."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.compile.headers import HEADER_WHEELS, header_folders, package_folders
from kerncast.compile.nouns import CompileRequest
from kerncast.compile.nvrtc import library_paths, wheel
from kerncast.compile.targets import Target
from kerncast.version import __version__

#: Of the entries; another one makes every entry unknown.
FORMAT = 1

#: What bounds a compilation, and does not change what comes of it; the architectures have an entry each.
_IRRELEVANT = ("limits", "architectures")
_COMPILE = Path(__file__).parents[1]


def entry_key(request: CompileRequest, target: Target | None, inputs: str) -> str:
    """Return the key for one architecture of a request, or for its inspection where there is no target."""
    fields = {name: value for name, value in asdict(request).items() if name not in _IRRELEVANT}
    paths = (request.source, *request.include_dirs)
    facts = {
        "request": fields,
        # A relative path means another file elsewhere, and PTX names files by whole paths.
        "folder": None if all(path.is_absolute() for path in paths) else str(Path.cwd()),
        "target": asdict(target) if target else None,
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
    """Digest our own code that compiles, so that a change of it needs no thought of the cache."""
    digest = hashlib.sha256()
    for path in sorted(_COMPILE.rglob("*.py")):
        digest.update(path.read_bytes())
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
