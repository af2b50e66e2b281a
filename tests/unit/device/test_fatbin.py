"""PTX in fatbins: packed or not, the one that fits, and none where machine code is all there is."""

import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kerncast.device.fatbin import ptx_of, unpacked_lz4
from kerncast.errors import UnsupportedError

LZ4, ZSTD = 0x2000, 0x8000


def literal_lz4(data: bytes) -> bytes:
    """Return a block of LZ4 that holds some bytes as they are."""
    if len(data) < 15:
        return bytes([len(data) << 4]) + data
    rest, more = len(data) - 15, b""
    while rest >= 255:
        more, rest = more + b"\xff", rest - 255
    return b"\xf0" + more + bytes([rest]) + data


def entry(text: bytes, number: int, *, kind: int = 1, flags: int = 0) -> bytes:
    packed = literal_lz4(text) if flags & LZ4 else zstandard.compress(text) if flags & ZSTD else text
    head = bytearray(64)
    struct.pack_into("<HHIQI", head, 0, kind, 257, 64, len(packed), len(packed))
    struct.pack_into("<I", head, 28, number)
    struct.pack_into("<QQQ", head, 40, flags, 0, len(text))
    return bytes(head) + packed


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


TEXTS = {52: b".target sm_52\0", 75: b".target sm_75\0", 90: b".target sm_90\0"}


@pytest.mark.parametrize("flags", [0, LZ4, ZSTD])
@pytest.mark.parametrize(("wanted", "chosen"), [(75, 75), (86, 75), (90, 90), (120, 90), (35, 52)])
def test_the_newest_that_is_not_newer_is_chosen(flags: int, wanted: int, chosen: int) -> None:
    found = ptx_of(fatbin(*(entry(text, number, flags=flags) for number, text in TEXTS.items())), wanted)
    assert found == f".target sm_{chosen}"


def test_machine_code_alone_is_refused() -> None:
    for data in (fatbin(entry(b"code", 75, kind=2)), b"", b"x" * 100, fatbin()):
        with pytest.raises(UnsupportedError, match="machine code only"):
            ptx_of(data, 75)


def test_a_frame_that_grows_is_cut_at_its_stated_size() -> None:
    whole = entry(b"." * 10**6, 75, flags=ZSTD)
    stated = whole[:56] + struct.pack("<Q", 100) + whole[64:]
    assert ptx_of(fatbin(stated), 75) == "." * 100
    with pytest.raises(UnsupportedError, match="cannot be unpacked"):
        ptx_of(fatbin(whole[:64] + b"x" + whole[65:]), 75)


def test_matches_repeat_what_came_before() -> None:
    # 3 literals, then 10 bytes from 3 back: they overlap what they write.
    assert unpacked_lz4(bytes([0x36, 97, 98, 99, 3, 0]), 13) == b"abcabcabcabca"


@pytest.mark.parametrize(
    "data", [bytes([0x36, 97, 98, 99, 9, 0]), bytes([0x36, 97, 98]), bytes([0xF0, 255]), bytes([0x10, 97, 0, 0])]
)
def test_damaged_blocks_are_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedError, match="cannot be unpacked"):
        unpacked_lz4(data, 13)


@given(st.binary(max_size=400))
def test_any_bytes_are_unpacked_or_refused(data: bytes) -> None:
    assert unpacked_lz4(literal_lz4(data), len(data)) == data
    try:
        ptx_of(fatbin(entry(TEXTS[75], 75)) + data, 75)
        unpacked_lz4(data, 50)
    except UnsupportedError:
        pass
