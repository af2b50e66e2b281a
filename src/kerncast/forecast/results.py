"""What was executed and simulated before is remembered on disk, under a digest of everything that it was made from.

Entries lie in the store of compiled kernels: bounded, checked when read, safe where several processes use it at once.
A refusal is remembered like a result, unless this machine's clock or memory has caused it.
"""

import hashlib
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

import kerncast
from kerncast.compile import CompiledKernel
from kerncast.compile.cache import Store, cache_place
from kerncast.errors import BudgetExceededError, KernelFault, MachineLimitError, Refusal, UnsupportedError
from kerncast.execute import Budget
from kerncast.launch import Buffer, Launch
from kerncast.typed_json import from_json, to_json
from kerncast.version import __version__

T = TypeVar("T")

#: No result is larger: an entry that says so is damaged.
_MOST_BYTES = 64 * 2**20
_LEVEL = 1
_REFUSALS: dict[str, type[Refusal]] = {
    each.__name__: each for each in (UnsupportedError, KernelFault, BudgetExceededError)
}


@dataclass(frozen=True, slots=True)
class Results(Generic[T]):
    """The remembered results of one kind."""

    kind: type[T]
    store: Store | None
    """None where nothing is to be remembered"""

    @classmethod
    def of(cls, kind: type[T]) -> "Results[T]":
        """Return the results of a kind, a frozen dataclass."""
        place = cache_place()
        return cls(kind, None if place.folder is None else Store(place.folder, place.most_bytes))

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return what is remembered under a key, else what ``make`` returns; raises its Refusal, remembered or new."""
        if self.store is None:
            return make()
        own = hashlib.sha256(f"{self.kind.__name__} {key}".encode()).hexdigest()
        known = self._load(self.store, own)
        if known is None:
            known = _outcome(make)
            self._save(self.store, own, known)
        if isinstance(known, Refusal):
            raise known
        return known

    def _load(self, store: Store, key: str) -> T | Refusal | None:
        payload = store.load(key)
        if payload is None:
            return None
        try:
            return self._read(_unpacked(payload))
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            store.drop(key)
            return None

    def _read(self, data: dict[str, Any]) -> T | Refusal:
        if "refused" not in data:
            return from_json(self.kind, data["result"])
        name, what, where, cure = data["refused"]
        return _REFUSALS[name](what, where=where, cure=cure)

    def _save(self, store: Store, key: str, known: T | Refusal) -> None:
        if isinstance(known, Refusal):
            if type(known) not in _REFUSALS.values() or isinstance(known, MachineLimitError):
                return
            data: dict[str, Any] = {"refused": [type(known).__name__, known.what, known.where, known.cure]}
        else:
            data = {"result": to_json(known)}
        store.save(key, zlib.compress(json.dumps(data).encode(), _LEVEL))


def execution_key(kernel: CompiledKernel, launch: Launch, budget: Budget) -> str:
    """Return a digest of all that decides what the blocks of a launch do: code, arguments, files, budget, ourselves."""
    facts = (
        _own_digest(),
        kernel.ptx,
        kernel.mangled,
        repr((kernel.resources, kernel.signature, kernel.variables)),
        repr((launch.grid, launch.block, launch.shared_bytes, launch.arguments, launch.globals, launch.seed)),
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
        return refusal


def _files_of(launch: Launch) -> Iterator[Path]:
    for argument in (*launch.arguments, *launch.globals):
        if isinstance(argument.value, Buffer) and argument.value.fill.path is not None:
            yield argument.value.fill.path


def _file_digest(path: Path) -> str:
    """Return the digest of a file's content; one that cannot be read is refused when it is filled from."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


@cache
def _own_digest() -> str:
    """Return a digest of our own code and facts, so that a change of them needs no thought of what is remembered."""
    found = sorted(_identities(Path(kerncast.__path__[0])))
    return _digest(__version__, repr(sys.version_info[:2]), np.__version__, repr(found))


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


def _unpacked(payload: bytes) -> dict[str, Any]:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(payload, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("the entry goes on for too long, or ends too soon")
    data = json.loads(text)
    if not isinstance(data, dict):
        raise TypeError("the entry is no object")
    return data
