"""The cache of executed and simulated launches on disk, by a digest of everything that they were made from.

Entries lie in the store of compiled kernels: bounded, checked when read, safe where several processes use it at once.
A refusal is remembered like a result, unless this machine's clock or memory has caused it.
"""

import hashlib
import os
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import kerncast
from kerncast.bounded_file import sha256_of
from kerncast.compile import CompiledKernel
from kerncast.compile.cache import Store, cache_place
from kerncast.compile.cache.store import packed, unpacked
from kerncast.errors import (
    AssertionFailed,
    BudgetExceededError,
    IllegalAddress,
    InputError,
    KernelFault,
    NotExecutedError,
    Refusal,
    UnsupportedError,
)
from kerncast.execute import Budget
from kerncast.launch import FILL_FILE, Buffer, Launch
from kerncast.machine.listing import disassembler
from kerncast.typed_json import from_json, to_json
from kerncast.version import __version__

T = TypeVar("T")

#: Results kept in memory: many rows of a profile may be of one launch.
_MOST_IN_MEMORY = 256
#: No result is larger: an entry that says so is damaged.
_MOST_BYTES = 64 * 2**20
_LEVEL = 1
_REFUSALS: dict[str, type[Refusal]] = {
    each.__name__: each
    for each in (UnsupportedError, NotExecutedError, KernelFault, IllegalAddress, AssertionFailed, BudgetExceededError)
}


class Results:
    """Results by the digest of what they were made from: in memory for one forecast, on disk for those to come."""

    def __init__(self) -> None:
        place = cache_place()
        self._store = None if place.folder is None else Store(place.folder, place.most_bytes)
        self._known: OrderedDict[str, object] = OrderedDict()

    def get(self, kind: type[T], key: str, make: Callable[[], T]) -> T:
        """Return the result of a kind that is remembered under a key, else what ``make`` returns.

        ``kind`` is a frozen dataclass. Raises the Refusal of ``make``, remembered or new.
        """
        own = hashlib.sha256(f"{kind.__name__} {key}".encode()).hexdigest()
        known: Any = self._known.get(own)
        if known is None and self._store is not None:
            known = _load(self._store, own, kind)
        if known is None:
            known = _outcome(make)
            if self._store is not None:
                _save(self._store, own, known)
        self._known[own] = known
        if len(self._known) > _MOST_IN_MEMORY:
            self._known.popitem(last=False)
        if isinstance(known, Refusal):
            raise known.copied()
        found: T = known
        return found


def _load(store: Store, key: str, kind: type[T]) -> T | Refusal | None:
    payload = store.load(key)
    if payload is None:
        return None
    try:
        data = unpacked(payload, _MOST_BYTES)
        if "refused" not in data:
            return from_json(kind, data["result"])
        name, what, where, cure = data["refused"]
        return _REFUSALS[name](what, where=where, cure=cure)
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        store.drop(key)
        return None


def _save(store: Store, key: str, known: object) -> None:
    if isinstance(known, Refusal):
        if type(known) not in _REFUSALS.values():
            return
        data: dict[str, Any] = {"refused": [type(known).__name__, known.what, known.where, known.cure]}
    else:
        data = {"result": to_json(known)}
    store.save(key, packed(data, _LEVEL))


def execution_key(kernel: CompiledKernel, launch: Launch, budget: Budget) -> str:
    """Return a digest of all that decides what the blocks of a launch do: code, arguments, files, budget, ourselves."""
    facts = (
        _own_digest(),
        kernel.ptx,
        kernel.mangled,
        repr((kernel.resources, kernel.signature, kernel.variables)),
        repr(launch.work),
        repr(launch.memory and replace(launch.memory, file=Path())),  # chunks are told by their digests
        repr([_file_digest(path) for path in _files_of(launch)]),
        repr((budget.sample_seconds, budget.block_steps, budget.memory_bytes)),
    )
    return _digest(*facts)


def simulation_key(execution: str, *facts: object) -> str:
    """Return a digest of an execution and of the further facts that a simulation of it depends on."""
    return _digest(execution, *map(repr, facts))


def _outcome(make: Callable[[], T]) -> T | Refusal:
    try:
        return make()
    except Refusal as refusal:
        return refusal.copied()


def _files_of(launch: Launch) -> Iterator[Path]:
    for argument in (*launch.arguments, *launch.globals):
        if isinstance(argument.value, Buffer) and argument.value.fill.path is not None:
            yield argument.value.fill.path


def _file_digest(path: Path) -> str:
    """Return the digest of a file's content; one that cannot be read is refused when it is filled from."""
    try:
        return sha256_of(path, FILL_FILE)
    except InputError:
        return ""


def _file_identity(path: Path | None) -> str:
    """Return what tells one version of a program from another; empty where it is not installed."""
    if path is None:
        return ""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


@cache
def _own_digest() -> str:
    """Return a digest of our own code, facts and tools: a change of them needs no thought of what is remembered."""
    found = sorted(_identities(Path(kerncast.__path__[0])))
    versions = __version__, repr(sys.version_info[:2]), np.__version__, _file_identity(disassembler())
    return _digest(*versions, repr(found))


def _identities(folder: Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir():
                if each.name != "__pycache__":
                    yield from _identities(Path(each.path))
            else:
                status = each.stat()
                yield each.path, status.st_size, status.st_mtime_ns


def _digest(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{len(text)} ".encode() + text.encode())
    return digest.hexdigest()
