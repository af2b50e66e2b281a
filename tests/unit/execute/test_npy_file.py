"""Arrays come out of .npy files as NumPy put them in, and no file is believed."""

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncast.bounded_file import Bound, opened
from kerncast.errors import InputError
from kerncast.execute.setup import ELEMENT_DTYPES
from kerncast.execute.setup.npy_file import read_npy
from tests.helpers.thorough import examples

pytestmark = pytest.mark.timeout(60)  # a hang is a failure

FOUR = np.arange(4, dtype=np.float32)
SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def saved(array: npt.NDArray[Any], version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version, allow_pickle=False)
    return file.getvalue()


def read(path: Path, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = np.zeros(like.size, like.dtype)
    with opened(path, Bound(2**20)) as stream:
        read_npy(stream, values, like.shape)
    return values


def refusal(path: Path, raw: bytes, like: npt.NDArray[Any] = FOUR) -> str:
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read(path, like)
    assert caught.value.cure
    assert "pickle" not in str(caught.value)
    return str(caught.value)


def with_header(text: str, version: int = 1, numbers: bytes = bytes(16)) -> bytes:
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin-1") + numbers


@given(
    kind=st.sampled_from(sorted(ELEMENT_DTYPES.values())),
    shape=st.lists(st.integers(1, 4), max_size=4),
    is_fortran=st.booleans(),
    version=st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
@SHARED_FOLDER
def test_what_numpy_writes_is_read_as_numpy_reads_it(
    kind: str, shape: list[int], is_fortran: bool, version: tuple[int, int], tmp_path: Path
) -> None:
    array = np.arange(np.prod(shape, dtype=int)).astype(kind).reshape(shape)
    path = tmp_path / "x.npy"
    path.write_bytes(saved(np.array(array, order="F" if is_fortran else "C"), version))
    assert np.array_equal(read(path, array).reshape(shape), np.load(path))


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
        "{'shape': (4L,), 'descr': '<f4', 'fortran_order': False}",
        '{"descr":"<f4","fortran_order":True,"shape":(2,2)}  \n',
    ],
)
def test_headers_that_others_write_are_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(with_header(text, 2, FOUR.tobytes()))
    assert sorted(read(tmp_path / "x.npy", FOUR)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "it is no .npy file"),
        (b"PK\x03\x04junk", "it is an archive of several arrays (.npz)"),
        (b"\x93NUMPY\x09\x00" + bytes(64), "it is no .npy file"),
        (with_header("{'descr': '<f4',("), "its header is none of an array of numbers"),
        (with_header("[" * 5000), "its header is none of an array of numbers"),
        (with_header("-" * 9999), "its header is none of an array of numbers"),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': 'f4'}"), "its header is none"),
        (with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}"), "its header is none"),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} + 1"), "its header is none"),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}"), "its header is none"),
        (with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1" * 300 + "#"), "its header is none"),
        (with_header("{'descr': '<f3', 'fortran_order': False, 'shape': (4,)}"), "of no known type (<f3)"),
        (
            with_header("{'descr': '|O', 'fortran_order': False, 'shape': (4,)}"),
            "it holds object[4], not float32[4]. Save an array of that type and size",
        ),
        (
            with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (4,)}"),
            "it holds >f4[4], not float32[4]",
        ),
        (
            with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
            "it holds float32[99999999999999999999], not float32[4]",
        ),
        (with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (" + "1," * 40 + "4)}"), "32 dimensions"),
        (with_header(" " * 20_000, 2), "its header of 20,000 bytes is cut off, or is longer than any"),
        (with_header("")[:10], "its header of 0 bytes"),
        (saved(FOUR)[:20], "its header of 118 bytes is cut off"),
        (saved(FOUR)[:-1], "its header tells 16 bytes of numbers, and it holds 15"),
        (saved(FOUR) + b"\0", "its header tells 16 bytes of numbers, and it holds 17"),
    ],
)
def test_what_is_no_such_array_is_refused(raw: bytes, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path / "x.npy", raw)


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}, []], object), allow_pickle=True)
    assert "it holds object[2]" in refusal(tmp_path / "x.npy", (tmp_path / "o.npy").read_bytes())


@given(data=st.data())
@settings(parent=SHARED_FOLDER, max_examples=examples(300))
def test_any_change_of_a_file_is_an_array_or_an_error(data: st.DataObject, tmp_path: Path) -> None:
    raw = bytearray(saved(np.arange(12, dtype=np.float32).reshape(3, 4)))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"(", b"{", b"9" * 25, b"'", b"O"])
        )
    path = tmp_path / "x.npy"
    path.write_bytes(bytes(raw))
    with suppress(InputError):
        assert read(path, np.zeros((3, 4), np.float32)).shape == (12,)
