"""Fuzzers of what is no text: arrays, trained models, Parquet tables."""

import io
import math
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kerncast.execute.setup.arguments import fill_buffer
from kerncast.launch import Buffer, Fill
from kerncast.models.learned.model_files import read_model
from kerncast.read.features.parquet_files import parquet_columns
from tests.fuzz.mutations import of_bytes, of_text, of_tree
from tests.fuzz.target import Place, Target

CORPUS = Path(__file__).parent / "corpus"
_NPY_WORDS = (
    b"'descr'", b"'fortran_order'", b"'shape'", b"True", b"False", b"<f4", b">f4", b"|O", b"|V8", b"<M8[ns]", b"(4, 3)",
    b"(12,)", b"()", b"(-12,)", b"(99999999999999999999,)", b"'<f4',(", b"12L", b"[('a', '<f4')]", b"\x93NUMPY",
    b"PK\x03\x04", b"lambda: 0",
)  # fmt: skip
_START = 10


def binary_targets() -> list[Target]:
    """Return the fuzzers of binary files."""
    models = tuple(path.read_bytes() for path in sorted(CORPUS.glob("*.kcm")))
    tables = _tables()
    return [
        Target("npy", _array_reader(), _arrays(), (_npy_header, _npy_header, of_bytes(_NPY_WORDS))),
        Target("kcm", _model_reader(), models, (_entry, _entry, _entry, of_bytes((b"PK\x01\x02", b"PK\x05\x06")))),
        Target("parquet", _table_reader(), tables, (_footer, _footer, of_bytes((b"PAR1", b"PARE")))),
    ]


def _array_reader() -> Callable[[bytes], None]:
    places: list[Place] = []
    memory = np.zeros(48, np.uint8)

    def read(data: bytes) -> None:
        if not places:
            places.append(Place("a.npy"))
        buffer = Buffer("f32", (4, 3), Fill("file", path=places[0].holding(data)))
        fill_buffer(memory, buffer, np.random.default_rng(0), "x")

    return read


def _arrays() -> tuple[bytes, ...]:
    numbers = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = []
    for array in (numbers, np.asfortranarray(numbers), numbers.ravel()):
        raw = io.BytesIO()
        np.save(raw, array)
        found.append(raw.getvalue())
    raw = io.BytesIO()
    np.lib.format.write_array(raw, numbers, version=(2, 0))
    return (*found, raw.getvalue())


def _npy_header(choose: random.Random, data: bytes) -> bytes:
    """Change the header of an array, and tell the length that it has then."""
    if data[6] != 1 or len(data) < _START:
        return of_bytes(_NPY_WORDS)(choose, data)
    end = _START + int.from_bytes(data[8:_START], "little")
    header = of_text(_NPY_WORDS)(choose, data[_START:end])
    return data[:8] + (len(header) % 65536).to_bytes(2, "little") + header + data[end:]


def _model_reader() -> Callable[[bytes], None]:
    places: list[Place] = []

    def read(data: bytes) -> None:
        if not places:
            places.append(Place("a.kcm"))
        model = read_model(places[0].holding(data))
        features = len(model.header.features)
        seconds = model.seconds(np.array([[0.0] * features, [1.0] * features, [1e6] * features]))
        if not all(map(math.isfinite, seconds)):
            raise ValueError(f"a model that was taken forecasts {seconds}")

    return read


def _entry(choose: random.Random, data: bytes) -> bytes:
    """Change one entry of a model and pack it again, with the right sums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    name = "header.json" if choose.random() < 0.5 else choose.choice(sorted(entries))
    if name == "header.json":
        entries[name] = of_tree()(choose, entries[name])
    elif choose.random() < 0.5:
        entries[name] = _npy_header(choose, entries[name])
    else:
        entries[name] = _numbers(choose, entries[name])
    if choose.random() < 0.03:
        del entries[choose.choice(sorted(entries))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", choose.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for each, content in entries.items():
            archive.writestr(each, content)
    return packed.getvalue()


def _numbers(choose: random.Random, data: bytes) -> bytes:
    """Change one number of an array, or its number of numbers."""
    if choose.random() < 0.2:
        return of_bytes()(choose, data)
    end = _START + int.from_bytes(data[8:_START], "little")
    at = end + 8 * int(choose.random() * ((len(data) - end) // 8))
    value = choose.choice((0.0, -1.0, 1e300, -1e300, 5e-324, math.nan, math.inf, 1e-9, 2.0**31, choose.random()))
    kind = choose.choice(("<f8", "<i8", "<i4"))
    number = np.array(value if kind == "<f8" else choose.choice((-1, 0, 1, 7, 2**31 - 1)), kind).tobytes()
    return data[:at] + number + data[at + len(number) :]


def _table_reader() -> Callable[[bytes], None]:
    places: list[Place] = []

    def read(data: bytes) -> None:
        if not places:
            places.append(Place("a.parquet"))
        parquet_columns(places[0].holding(data))

    return read


def _tables() -> tuple[bytes, ...]:
    rows = 24
    columns = {
        "count": np.arange(rows),
        "gpu.name": [f"k{row % 7}" if row % 5 else None for row in range(rows)],
        "gpu": pa.array(["x", "y"] * (rows // 2)).dictionary_encode(),
        "list": pa.array([[1, 2]] * rows),
        "struct": pa.array([{"a": 1, "b": "z"}] * rows),
        "kernel": pa.array([f"kernel {row}" for row in range(rows)], pa.large_string()),
        "at": pa.array([1] * rows, pa.timestamp("us")),
        "is_warm": pa.array([True, None] * (rows // 2)),
        "seconds": np.arange(rows) * 1.5,
    }
    table = pa.table(columns)
    plain = {"use_dictionary": False, "compression": "none"}
    return (
        _written(table.select(["kernel", "gpu", "seconds"])),
        _written(table.select(["count", "gpu.name", "at"]), compression="none", store_schema=False),
        _written(table.select(["list", "struct", "is_warm"]), compression="gzip"),
        _written(table.select(["kernel", "seconds"]), row_group_size=10, data_page_version="2.0", **plain),
        _written(table.select(["kernel"]), column_encoding={"kernel": "DELTA_BYTE_ARRAY"}, **plain),
        _written(table.select(["count"]), column_encoding={"count": "DELTA_BINARY_PACKED"}, **plain),
    )


def _written(table: pa.Table, **options: object) -> bytes:
    file = io.BytesIO()
    parquet.write_table(table, file, **options)
    return file.getvalue()


def _varint(value: int) -> bytes:
    found = []
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _footer(choose: random.Random, data: bytes) -> bytes:
    """Change numbers of the footer, or of the header of a page, and tell the footer's length that it has then."""
    length = int.from_bytes(data[-8:-4], "little")
    pages, footer = data[: -8 - length], data[-8 - length : -8]
    for _ in range(choose.choice((1, 1, 2))):
        number = _varint(
            choose.choice((0, 1, 2, 3, 127, 2**31 - 1, 2**32, 2**63 - 1, 2**64 - 1, choose.getrandbits(12)))
        )
        if choose.random() < 0.75:
            footer = _replaced(choose, footer, number)
        else:
            pages = _replaced(choose, pages, number)
    return pages + footer + len(footer).to_bytes(4, "little") + data[-4:]


def _replaced(choose: random.Random, data: bytes, number: bytes) -> bytes:
    at = int(choose.random() * len(data))
    end = at
    while end < len(data) - 1 and data[end] > 127:
        end += 1
    return data[:at] + number + data[end + 1 :]
