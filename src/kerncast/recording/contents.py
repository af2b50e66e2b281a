"""What memory and files held, in pieces that are kept once, whoever held them: a file of packed chunks.

A chunk is its digest (16 bytes), how many bytes it takes here and unpacked (4 bytes each, little-endian), and the
bytes as zlib packs them. The file is written from the front to the back, so that one which is cut off is good up to
its last whole chunk.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import Bound, opened
from kerncast.errors import InputError
from kerncast.units import GIB, KIB

CHUNK_BYTES = 64 * KIB
"""bytes of memory that are kept or left out together"""
#: The digest of a chunk of zeros, which is not kept.
ZEROS = ""
_HEAD = struct.Struct("<16sII")
_LEVEL = 1
_MOST_FILE = Bound(
    64 * GIB, cure="Name a file that kerncast run wrote.", cure_if_larger="Record less of it: --keep 1GiB."
)
_CURE = "The file was changed or damaged: copy it again, or record the program again."
#: Chunks of text may be larger than those of memory: a source, or PTX.
_MOST_CHUNK = 64 * 1024 * KIB
#: zlib packs by 1000 at most.
_MOST_CHUNKS = 2**22

Bytes = npt.NDArray[np.uint8]


def digest_of(data: bytes | memoryview) -> str:
    """Return the digest of a chunk; that of zeros is empty."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def chunks_of(memory: Bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the place and the bytes of each chunk of some memory that is not all zeros."""
    for start in range(0, len(memory), CHUNK_BYTES):
        part = memory[start : start + CHUNK_BYTES]
        if part.any():
            yield start, part.tobytes()


class ContentsWriter:
    """Appends chunks to a file, each once, up to a limit."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.left_bytes = most_bytes
        """bytes that may still be written"""
        self._file: BinaryIO = path.open("xb")
        self._known: set[str] = set()

    def keep(self, data: bytes) -> str | None:
        """Return the digest of a chunk, which is written unless it is known; None where there is no room for it."""
        digest = digest_of(data)
        if digest in self._known:
            return digest
        packed = zlib.compress(data, _LEVEL)
        if _HEAD.size + len(packed) > self.left_bytes:
            return None
        return self._write(digest, packed, len(data))

    def keep_code(self, data: bytes) -> str:
        """Return the digest of code, which is written whatever room there is: without it no launch is of use."""
        digest = digest_of(data)
        return digest if digest in self._known else self._write(digest, zlib.compress(data, _LEVEL), len(data))

    def _write(self, digest: str, packed: bytes, nbytes: int) -> str:
        self._file.write(_HEAD.pack(bytes.fromhex(digest), len(packed), nbytes))
        self._file.write(packed)
        self.left_bytes -= _HEAD.size + len(packed)
        self._known.add(digest)
        return digest

    def keep_memory(self, memory: Bytes) -> tuple[str, ...] | None:
        """Return the digests of the chunks of some memory, ZEROS for zeros; None where there is no room for all."""
        found = [ZEROS] * -(-len(memory) // CHUNK_BYTES)
        for start, data in chunks_of(memory):
            digest = self.keep(data)
            if digest is None:
                return None
            found[start // CHUNK_BYTES] = digest
        return tuple(found)

    def flush(self) -> None:
        """Let readers of the file see all that was written."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()


def read_contents(path: Path, wanted: Collection[str], start: int = 0, stop: int | None = None) -> Mapping[str, bytes]:
    """Return the chunks with some digests, from a part of a file.

    Raises InputError for a file that is damaged, or lacks some.
    """
    missing = set(wanted) - {ZEROS}
    found: dict[str, bytes] = {}
    with opened(path, _MOST_FILE) as stream:
        for digest, packed, unpacked in _heads(stream, start, stop):
            if digest in missing:
                found[digest] = _unpacked(stream.read(packed), unpacked, digest, path)
                missing.discard(digest)
                if not missing:
                    break
            else:
                stream.seek(packed, os.SEEK_CUR)
    if missing:
        raise InputError("it lacks what a launch saw of memory", where=str(path), cure=_CURE)
    return found


def _heads(stream: BinaryIO, start: int, stop: int | None) -> Iterator[tuple[str, int, int]]:
    """Yield the head of each chunk; whoever asks moves the stream behind its bytes before the next one."""
    stream.seek(start)
    for _ in range(_MOST_CHUNKS):
        if stop is not None and stream.tell() + _HEAD.size > stop:
            return
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        digest, packed, unpacked = _HEAD.unpack(head)
        yield digest.hex(), packed, unpacked


def _unpacked(packed: bytes, size: int, digest: str, path: Path) -> bytes:
    if size <= _MOST_CHUNK:
        unpacking = zlib.decompressobj()
        try:
            data = unpacking.decompress(packed, size + 1)
        except zlib.error:
            data = b""
        if len(data) == size and digest_of(data) == digest:
            return data
    raise InputError("a part of it is not what it was", where=str(path), cure=_CURE)


def joined(digests: Sequence[str], contents: Mapping[str, bytes], memory: Bytes) -> None:
    """Write chunks over zeroed memory; raises InputError where one is larger than its place."""
    for number, digest in enumerate(digests):
        if digest == ZEROS:
            continue
        data = contents[digest]
        place = memory[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
        if len(data) > len(place):
            raise InputError("a chunk is larger than its place", cure=_CURE)
        place[: len(data)] = np.frombuffer(data, np.uint8)
