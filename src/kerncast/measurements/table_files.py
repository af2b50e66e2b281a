"""Tables for other programs, as CSV or Parquet; what is unknown is empty in CSV and null in Parquet."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.printable import write_csv
from kerncast.replaced_file import replacing
from kerncast.requirements import how_to_install

Cell = str | int | float | bool | None
Columns = Mapping[str, type[str | int | float | bool]]
"""types of the cells by the names of the columns, which carry the units"""

_ROWS_PER_GROUP = 65536


def write_table(path: Path, columns: Columns, rows: Iterable[Sequence[Cell]]) -> None:
    """Write rows in the format that the name ends in; the file is there whole, or as it was before."""
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    try:
        with replacing(path) as place:
            write(place, columns, rows)
    except InputError:
        raise
    except ValueError as error:  # what a format cannot hold
        cure = "Name a file in another format."
        raise InputError(f"cannot be written ({error})", where=str(path), cure=cure) from None


def _write_csv(file: Path, columns: Columns, rows: Iterable[Sequence[Cell]]) -> None:
    """Write as RFC 4180 says: lines end in CR LF, and a cell with a comma, a quote or a line break is quoted."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        cells = ([_text(cell) for cell in row] for row in rows)
        write_csv(stream, chain([tuple(columns)], cells), end="\r\n")


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _write_parquet(file: Path, columns: Columns, rows: Iterable[Sequence[Cell]]) -> None:
    pa = arrow()
    from pyarrow import parquet  # noqa: PLC0415  only who asks for Parquet needs it

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    left = iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(left, _ROWS_PER_GROUP)):
            cells = zip(*group, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def arrow(where: str | None = None) -> Any:
    """Return pyarrow; raises InputError where it is not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415  only who asks for Parquet needs it
    except ImportError:
        cure = f"Install it: {how_to_install('pyarrow')}. Or name a .csv file."
        raise InputError("Parquet needs pyarrow, which is not installed", where=where, cure=cure) from None
    return pa
