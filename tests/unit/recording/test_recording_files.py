"""Recordings on disk: what is read is what was written; damage, lies and newer formats are refused."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.launch import Memory, Region
from kerncast.recording import (
    CHUNK_BYTES,
    EVENT,
    LAUNCH,
    Code,
    ContentsWriter,
    EventKind,
    Group,
    KeptLaunch,
    Kernel,
    LibraryCall,
    Recording,
    SourceFile,
    read_contents,
    read_recording,
    write_recording,
)
from kerncast.recording.contents import ZEROS, joined
from kerncast.recording.recording_files import contents_of
from kerncast.typed_json import to_json


def sample(contents: ContentsWriter) -> Recording:
    """Return a recording of two launches of one kernel, with the memory of the first."""
    held = np.zeros(3 * CHUNK_BYTES + 5, np.uint8)
    held[CHUNK_BYTES : CHUNK_BYTES + 4] = 7
    chunks = contents.keep_memory(held)
    assert chunks is not None
    memory = Memory(contents.path, b"12345678", (Region("buffer 1", 1 << 44, len(held), chunks),), (("table", 99),))
    digest = contents.keep(b"__global__ void k() {}")
    assert digest
    return Recording(
        ("./app", "7"), "t4", "with status 0",
        (Code("/a/k.cu", (("N", "3"),), files=(SourceFile("/a/k.cu", digest),)),),
        (Kernel("k<float>", "_Z1kIfEvv", 0),), (Group(0, (2, 1, 1), (32, 1, 1), 16),), (KeptLaunch(0, memory),),
        np.array([(0, 100, 5), (0, 200, 6)], LAUNCH),
        np.array([(EventKind.LAUNCH, 0, 1, 0.5, 0, 0), (EventKind.END, 0, 0, 1.5, 0, 0)], EVENT),
        (LibraryCall("cublasSgemm_v2", "gemm(M=1, N=1, K=1)", 2.0, 12.0),), ("a remark",), None, 1, 1.5,
    )  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> Path:
    contents = ContentsWriter(tmp_path / "contents", 10**6)
    recording = sample(contents)
    contents.close()
    write_recording(tmp_path / "run.kc", recording, contents.path)
    return tmp_path / "run.kc"


def test_what_is_read_is_what_was_written(written: Path, tmp_path: Path) -> None:
    contents = ContentsWriter(tmp_path / "again", 10**6)
    expected, found = sample(contents), read_recording(written)
    contents.close()
    assert found.file == written
    assert (found.launches == expected.launches).all()
    assert (found.events == expected.events).all()
    for name in ("command", "gpu", "ended", "codes", "kernels", "groups", "library_calls", "remarks", "host_seconds"):
        assert getattr(found, name) == getattr(expected, name)
    (kept,) = found.kept
    assert kept.memory == replace(expected.kept[0].memory, file=written)
    (region,) = kept.memory.regions
    assert [bool(each) for each in region.chunks] == [False, True, False, False]
    memory = np.zeros(region.nbytes, np.uint8)
    joined(region.chunks, contents_of(written, set(region.chunks)), memory)
    assert memory[CHUNK_BYTES : CHUNK_BYTES + 4].tolist() == [7] * 4
    assert memory.sum() == 28


def test_code_is_kept_where_memory_has_taken_all_room(tmp_path: Path) -> None:
    contents = ContentsWriter(tmp_path / "contents", 0)
    assert contents.keep(b"values") is None
    digest = contents.keep_code(b"code")
    contents.close()
    assert read_contents(tmp_path / "contents", {digest}) == {digest: b"code"}


def test_the_same_run_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    write_recording(tmp_path / "other.kc", read_recording(written), tmp_path / "contents")
    assert (tmp_path / "other.kc").read_bytes() == written.read_bytes()


@given(st.data())
def test_no_damage_is_read_as_something_else(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        contents = ContentsWriter(place / "contents", 10**6)
        recording = sample(contents)
        contents.close()
        write_recording(place / "run.kc", recording, contents.path)
        raw = bytearray((place / "run.kc").read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
        (place / "run.kc").write_bytes(raw[: data.draw(st.sampled_from([len(raw), at]))])
        try:
            found = read_recording(place / "run.kc")
            (region,) = found.kept[0].memory.regions
            held = contents_of(place / "run.kc", set(region.chunks))
        except InputError:
            return
        assert found.groups == recording.groups
        assert all(held[digest][:4] == b"\7\7\7\7" for digest in region.chunks if digest)


def code(source: str, digest: str, *paths: str) -> object:
    """Return a source and its files as a header holds them."""
    return to_json(Code(source, files=tuple(SourceFile(path, digest) for path in paths)))


def changed(path: Path, **fields: object) -> Path:
    """Write a recording again with other fields in its header."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["recording.json"] = json.dumps(json.loads(parts["recording.json"]) | fields).encode()
    other = path.with_name("changed.kc")
    with zipfile.ZipFile(other, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return other


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"format_version": "2.0"}, "its format is 2.0"),
        ({"format": "other"}, "not a recording"),
        ({"kernels": [{"name": "k", "mangled": "k", "code": 7}]}, "names another one that is not there"),
        ({"kept": []}, None),
        ({"groups": []}, "names another one that is not there"),
        ({"library_calls": []}, None),
        (
            {"library_calls": [{"function": "f", "operator": "", "operations": 1e300, "nbytes": 0, "double": False}]},
            "no such work",
        ),
        ({"groups": "x"}, "lacks what every recording's has"),
        ({"host_seconds": -1e300}, "a time in it is none"),
        ({"codes": [code("/a/k.cu", "", "/a/k.cu")]}, "no such files"),
        ({"codes": [code("/etc/passwd", "0" * 32, "/a/k.cu")]}, "no such files"),
        ({"codes": [code("/", "0" * 32, "/")]}, "no such files"),
        ({"codes": [code("/a", "0" * 32, "/a", "/a/b")]}, "no such files"),
        ({"news": [1, 2]}, None),
    ],
)
def test_headers_that_lie_or_are_newer(written: Path, fields: dict[str, object], text: str | None) -> None:
    path = changed(written, **fields)
    if text is None:
        read_recording(path)
        return
    with pytest.raises(InputError, match=text):
        read_recording(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    for name, content in (("a.kc", b""), ("b.kc", b"PK\3\4junk"), ("c.kc", b"x" * 5000)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="not a recording"):
            read_recording(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        read_recording(tmp_path / "missing.kc")


def test_contents_are_kept_once_and_up_to_a_limit(tmp_path: Path) -> None:
    contents = ContentsWriter(tmp_path / "c", 200)
    first = contents.keep(b"a" * 5000)
    left = contents.left_bytes
    assert contents.keep(b"a" * 5000) == first
    assert contents.left_bytes == left
    assert contents.keep(np.random.default_rng(0).bytes(1000)) is None
    assert contents.keep_memory(np.zeros(3 * CHUNK_BYTES, np.uint8)) == (ZEROS,) * 3
    contents.close()
    assert first
    assert read_contents(tmp_path / "c", {first, ZEROS}) == {first: b"a" * 5000}
    with pytest.raises(InputError, match="lacks"):
        read_contents(tmp_path / "c", {"0" * 32})


def test_a_file_of_contents_that_is_cut_off_is_good_up_to_there(tmp_path: Path) -> None:
    contents = ContentsWriter(tmp_path / "c", 10**6)
    first, second = contents.keep(b"one" * 100), contents.keep(b"two" * 100)
    contents.close()
    raw = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(raw[:-10])
    assert first
    assert second
    assert read_contents(tmp_path / "c", {first})[first] == b"one" * 100
    with pytest.raises(InputError):
        read_contents(tmp_path / "c", {second})
