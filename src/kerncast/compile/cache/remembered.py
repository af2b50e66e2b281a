"""What the cache knows of one request: found before anything is compiled, kept after."""

import json
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kerncast.compile.cache.inputs import Inputs, UnknowableError, entry_key
from kerncast.compile.cache.store import Store, cache_place
from kerncast.compile.nouns import CompileRequest, KernelReply, SourceSummary
from kerncast.compile.targets import Target
from kerncast.typed_json import from_json, to_json

#: Nothing that kerncast compiles is larger: an entry that says so is damaged.
_MOST_BYTES = 128 * 2**20
_LEVEL = 6

Reply = TypeVar("Reply", KernelReply, SourceSummary)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One request, and the store that may know its replies."""

    store: Store
    request: CompileRequest
    inputs: str
    """digest of the texts, as they were when this was made"""

    def find(self, target: Target | None, kind: type[Reply]) -> Reply | None:
        """Return a remembered reply; None where there is none, or none that can be read."""
        key = entry_key(self.request, target, self.inputs)
        payload = self.store.load(key)
        if payload is None:
            return None
        try:
            return from_json(kind, _unpacked(payload))
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.store.drop(key)
            return None

    def keep(self, replies: Iterable[tuple[Target | None, KernelReply | SourceSummary]]) -> None:
        """Keep replies, unless a text has changed since they were asked for."""
        inputs = _inputs(self.request)
        if inputs is None or inputs.digest != self.inputs:
            return
        for target, reply in replies:
            # The name of a missing header that stands in no text of the user's: nobody looks whether it is there now.
            if isinstance(reply, SourceSummary) or inputs.names.issuperset(reply.emptied):
                key = entry_key(self.request, target, self.inputs)
                self.store.save(key, zlib.compress(json.dumps(to_json(reply)).encode(), _LEVEL))


def recall(request: CompileRequest) -> Remembered | None:
    """Return what is remembered of a request; None where nothing may be."""
    place = cache_place()
    if place.folder is None:
        return None
    inputs = _inputs(request)
    return Remembered(Store(place.folder, place.most_bytes), request, inputs.digest) if inputs else None


def _inputs(request: CompileRequest) -> Inputs | None:
    with suppress(UnknowableError, OSError):
        return Inputs(request)
    return None


def _unpacked(payload: bytes) -> Any:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(payload, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("the entry goes on for too long, or ends too soon")
    return json.loads(text)
