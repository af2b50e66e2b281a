"""Writes the feature table as CSV or Parquet; what is unknown is empty in CSV and null in Parquet."""

import csv
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kerncast.errors import InputError
from kerncast.report.features import FEATURES, Cell, feature_row
from kerncast.report.profiled import ProfiledLaunch

_WHERE = "--features"


def check_feature_path(path: Path) -> None:
    """Raise InputError where no feature table can be written there, before any work is done for it."""
    if path.suffix not in {".csv", ".parquet"}:
        raise InputError(f"{path.name!r} is no feature table", where=_WHERE, cure="End its name in .csv or .parquet.")
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist", where=_WHERE, cure="Make it, or choose another place.")
    if path.suffix == ".parquet":
        _arrow()


def write_features(launches: Sequence[ProfiledLaunch], path: Path) -> None:
    """Write a row per launch, in the format that the name ends in; the file is there whole, or as it was before."""
    check_feature_path(path)
    rows = [feature_row(launch) for launch in launches]
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        (_write_parquet if path.suffix == ".parquet" else _write_csv)(rows, partial)
        partial.replace(path)
    except OSError as error:
        cure = "Name a file in a folder that you may write to."
        raise InputError(f"cannot be written ({error.strerror})", where=str(path), cure=cure) from None
    finally:
        with suppress(OSError):  # what kept it from being written has been reported
            partial.unlink(missing_ok=True)


def _write_csv(rows: Sequence[Sequence[Cell]], file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([feature.name for feature in FEATURES])
        writer.writerows([_text(cell) for cell in row] for row in rows)


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _write_parquet(rows: Sequence[Sequence[Cell]], file: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415  only who asks for Parquet needs it

    pa = _arrow()
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(feature.name, types[feature.type]) for feature in FEATURES])
    columns = [[row[number] for row in rows] for number in range(len(FEATURES))]
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
    parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), file)


def _arrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415  only who asks for Parquet needs it
    except ImportError:
        cure = "Install it: pip install 'kerncast[gpu]'. Or name a .csv file."
        raise InputError("Parquet needs pyarrow, which is not installed", where=_WHERE, cure=cure) from None
    return pa
