"""Tables come out of Parquet as pandas wrote them, and no size that a file tells is believed."""

import io
import math
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from kerncast.errors import InputError
from kerncast.read.features import parquet_files
from kerncast.read.features.parquet_files import parquet_columns
from kerncast.units import KIB, MIB
from tests.helpers.thorough import examples

pytestmark = pytest.mark.timeout(60)  # a hang is a failure

ROWS = 3000
TABLE = pa.table(
    {
        "count": np.arange(ROWS),
        "gpu.name": [f"k{row % 7}" if row % 5 else None for row in range(ROWS)],
        "absent": [None] * ROWS,
        "is_warm": pa.array([True, None] * (ROWS // 2)),
        "gpu": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
        "list": pa.array([[1, 2]] * ROWS),
        "struct": pa.array([{"gpu": 1, "name": "z"}] * ROWS),
        "kernel": pa.array([f"kernel {row}" for row in range(ROWS)], pa.large_string()),
        "at": pa.array([1] * ROWS, pa.timestamp("us")),
        "half": pa.array(np.ones(ROWS, np.float16)),
        "seconds": np.arange(ROWS) * 1.5,
    }
)


def written(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    parquet.write_table(table, file, **options)
    return file.getvalue()


def varint(value: int, length: int | None = None) -> bytes:
    """Return a whole number as Thrift writes it, or longer than it need be."""
    rest = value << 1
    found: list[int] = []
    while rest > 127 or (length is not None and len(found) < length - 1):
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def lying(raw: bytes, **told: int) -> bytes:
    """Return a file whose footer tells other sizes than it did."""
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    metadata = parquet.read_metadata(io.BytesIO(raw))
    group = metadata.row_group(0)
    footer = raw[start:]
    true = {
        "rows": [metadata.num_rows],
        "unpacked": [
            group.total_byte_size,
            *(group.column(c).total_uncompressed_size for c in range(group.num_columns)),
        ],
    }
    for name, value in told.items():
        for number in set(true[name]):
            before = varint(number)
            assert before in footer
            footer = footer.replace(before, varint(value, len(before)))
    return raw[:start] + footer


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "none", "row_group_size": 100, "version": "1.0"},
        {"use_dictionary": False, "column_encoding": {"kernel": "DELTA_BYTE_ARRAY", "count": "DELTA_BINARY_PACKED"}},
        {"data_page_size": 100, "write_batch_size": 10, "compression": "gzip", "write_page_index": True},
    ],
)
def test_what_is_written_is_read(options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(written(TABLE, **options))
    found = parquet_columns(tmp_path / "a.parquet")
    assert found.rows == ROWS
    for name, values in TABLE.to_pydict().items():
        if name in {"gpu.name", "gpu", "kernel"}:
            assert found.texts(name) == tuple(value or "" for value in values)
        elif name in {"list", "struct", "at"}:  # neither numbers nor texts
            kind = "timestamp[us]" if name == "at" else f"{name}<"
            assert all(text.startswith(kind) for text in found.texts(name))
        else:
            assert np.array_equal(found.numbers(name), [math.nan if v is None else v for v in values], equal_nan=True)


def test_texts_in_pieces_are_the_same_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_CELLS_OF_A_BATCH", 1000)
    test_what_is_written_is_read({"row_group_size": 700}, tmp_path)


def test_a_footer_that_tells_small_sizes_is_not_believed(tmp_path: Path) -> None:
    """200 kB of zeros unpack to 320 MB; the footer says that they are 2,000 numbers."""
    rows = 40_000_000
    raw = written(pa.table({"a": np.zeros(rows)}), use_dictionary=False, compression="zstd", data_page_size=2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, told in (("none", {}), ("lying", {"rows": 2000, "unpacked": 16_000})):
        (tmp_path / name).write_bytes(lying(raw, **told))
        with pytest.raises(InputError, match=r"its pages unpack to more than \d+ MiB"):
            parquet_columns(tmp_path / name)
    assert len(raw) < 250 * KIB
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * KIB < 64 * MIB


@pytest.mark.parametrize("told", [3001, 8000])
def test_fewer_rows_than_the_footer_tells_are_an_error(told: int, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(lying(written(TABLE.select(["count", "gpu"])), rows=told))
    with pytest.raises(InputError, match=r"rows|not a Parquet table"):
        parquet_columns(tmp_path / "a.parquet")


def test_more_cells_than_are_taken_are_refused_by_the_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "MOST_CELLS", 7999)
    (tmp_path / "a.parquet").write_bytes(lying(written(TABLE.select(["count"])), rows=8000))
    with pytest.raises(InputError, match="it holds more than"):
        parquet_columns(tmp_path / "a.parquet")


def test_a_long_footer_is_refused_unread(tmp_path: Path) -> None:
    raw = written(TABLE)
    (tmp_path / "a.parquet").write_bytes(raw[:-8] + (9 * MIB).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(InputError, match="it holds more than"):
        parquet_columns(tmp_path / "a.parquet")


def test_a_list_of_many_values_in_a_row_is_not_read(tmp_path: Path) -> None:
    """One row may hold any number of values, which no count of rows bounds."""
    (tmp_path / "a.parquet").write_bytes(written(pa.table({"a": [1.0], "many": [[0] * 1_000_000]})))
    assert parquet_columns(tmp_path / "a.parquet").cells[1] == ("list<element: int64>",)


def test_texts_that_share_their_beginnings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their encoding, 100 kB of page become 100 times as much."""
    monkeypatch.setattr(parquet_files, "_MOST_TEXT_BYTES", MIB)
    texts = ["x" * 4000 + f"{row:06}" for row in range(1000)]
    raw = written(pa.table({"a": texts}), use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
    (tmp_path / "a.parquet").write_bytes(raw)
    with pytest.raises(InputError, match="it holds more than"):
        parquet_columns(tmp_path / "a.parquet")


def test_a_place_outside_of_the_dictionary_is_an_error(tmp_path: Path) -> None:
    """Places of 2 bits can name a fourth word where there are three."""
    table = pa.table({"a": ["a", "b", "c", *["c"] * 1000]})
    raw = written(table, compression="none", write_statistics=False, store_schema=False)
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    said = []
    for place in (place for place in range(4, start) if raw[place] == 2):
        (tmp_path / "a.parquet").write_bytes(raw[:place] + b"\3" + raw[place + 1 :])
        with suppress(InputError):
            parquet_columns(tmp_path / "a.parquet")
            continue
        with pytest.raises(InputError) as caught:
            parquet_columns(tmp_path / "a.parquet")
        said.append(caught.value.what)
    assert "a text of it has no place in its dictionary" in said


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_a_file_is_a_table_or_an_error(data: st.DataObject, tmp_path: Path) -> None:
    compression = data.draw(st.sampled_from(["none", "snappy"]))
    names = data.draw(st.sampled_from([["count", "gpu"], ["kernel", "seconds"], ["struct", "list", "gpu.name"]]))
    raw = bytearray(written(TABLE.select(names).slice(0, 20), compression=compression))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = tmp_path / "a.parquet"
    path.write_bytes(bytes(raw))
    with suppress(InputError):
        assert parquet_columns(path).rows >= 0
