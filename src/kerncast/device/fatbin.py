"""PTX in the fatbins that nvcc puts into programs: entries of PTX and machine code, packed by LZ4 or zstd, or not.

The format was read off fatbins of nvcc 11 to 13. An entry has a head of at least 64 bytes: kind (2 bytes), version (2),
bytes of the head (4), bytes that follow (8), bytes of the packed code (4, at 16), compute capability times ten (4, at
28), flags (8, at 40), bytes of the code unpacked (8, at 56).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kerncast.errors import UnsupportedError
from kerncast.units import MIB

_MAGIC = 0xBA55ED50
_IS_PTX = 1
_BY_LZ4, _BY_ZSTD = 0x2000, 0x8000
_MOST_BYTES = 256 * MIB
_MOST_ENTRIES = 4096
_ZSTD_CURE = "Install zstandard, which kerncast[run] brings."


@dataclass(frozen=True, slots=True)
class _Entry:
    number: int
    """compute capability, times ten"""
    flags: int
    packed: bytes
    size: int


def ptx_of(fatbin: bytes, wanted: int) -> str:
    """Return the PTX in a fatbin that fits a compute capability (times ten).

    That is the newest which is not newer, or else the oldest. Raises UnsupportedError where there is none, or none that
    can be read.
    """
    found = sorted(_entries(fatbin), key=lambda each: each.number)
    if not found:
        raise UnsupportedError(
            "the program holds machine code only", cure="Build it with PTX: -gencode arch=compute_75,code=compute_75."
        )
    fitting = [each for each in found if each.number <= wanted] or found[:1]
    return _text(fitting[-1])


def _entries(fatbin: bytes) -> Iterator[_Entry]:
    """Yield the entries of PTX, as far as the fatbin is whole."""
    if len(fatbin) < 16:
        return
    magic, _, head, total = struct.unpack_from("<IHHQ", fatbin)
    if magic != _MAGIC:
        return
    position, end = head, min(len(fatbin), head + total)
    for _ in range(_MOST_ENTRIES):
        if position + 64 > end:
            return
        kind, _, head, following, packed = struct.unpack_from("<HHIQI", fatbin, position)
        (number,) = struct.unpack_from("<I", fatbin, position + 28)
        flags, _, size = struct.unpack_from("<QQQ", fatbin, position + 40)
        start = position + head
        if kind == _IS_PTX and start + following <= end:
            length = packed if flags & (_BY_LZ4 | _BY_ZSTD) else following
            yield _Entry(number, flags, fatbin[start : start + min(length, following)], size)
        position = start + following


def _text(entry: _Entry) -> str:
    data = entry.packed
    if entry.flags & (_BY_LZ4 | _BY_ZSTD):
        if entry.size > _MOST_BYTES:
            raise UnsupportedError(f"its PTX has {entry.size // MIB} MiB")
        data = unpacked_lz4(data, entry.size) if entry.flags & _BY_LZ4 else _unpacked_zstd(data, entry.size)
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def _unpacked_zstd(data: bytes, size: int) -> bytes:
    try:
        import zstandard  # noqa: PLC0415  an extra
    except ImportError:
        raise UnsupportedError("its PTX is packed by zstd", cure=_ZSTD_CURE) from None
    try:
        # A frame may state any size of its own.
        with zstandard.ZstdDecompressor(max_window_size=_MOST_BYTES).stream_reader(data) as reader:
            return bytes(reader.read(size))
    except zstandard.ZstdError:
        raise UnsupportedError("its PTX cannot be unpacked") from None


def unpacked_lz4(data: bytes, size: int) -> bytes:
    """Return a block of LZ4 unpacked; raises UnsupportedError for one that is damaged.

    A sequence is a token (length of literals, length of the match less 4), more bytes of either length, the literals,
    and how far back the match lies. Source: lz4_Block_format.md of lz4 1.10.

    >>> unpacked_lz4(bytes([0x32, 97, 98, 99, 3, 0, 0x10, 33]), 10)
    b'abcabcabc!'
    """
    found = bytearray()
    position = 0
    try:
        while position < len(data):
            token = data[position]
            literals, position = _length(data, position + 1, token >> 4)
            found += data[position : position + literals]
            position += literals
            if position >= len(data):
                break
            back = data[position] | data[position + 1] << 8
            match, position = _length(data, position + 2, token & 15)
            _repeat(found, back, match + 4)
            if len(found) > size:
                break
    except (IndexError, ValueError):
        found.clear()
    if len(found) != size:
        raise UnsupportedError("its PTX cannot be unpacked")
    return bytes(found)


def _length(data: bytes, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            more = data[position]
            position += 1
            length += more
            if more != 255:
                break
    return length, position


def _repeat(found: bytearray, back: int, count: int) -> None:
    if not 0 < back <= len(found):
        raise ValueError(back)
    start = len(found) - back
    while count > 0:
        part = found[start : start + count]
        found += part
        count -= len(part)
