"""Turns the records of a measurement file into lines of JSON, and back with every type checked.

Names and types are those of the dataclasses in ``measurement.py``; ``docs/measurement-file.md`` describes the lines.
One kind of error, ValueError, stands for all that a line can get wrong.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kerncast.errors import InputError
from kerncast.measurement import LARGEST_NUMBER, Check, Configuration, Counters, Failure, Machine, Reading, Trial

SCHEMA_VERSION = "1.0"
HEADER_START = b'{"record": "header"'

Record = Configuration | Trial | Reading | Check | Counters | Failure

KINDS: Mapping[str, type[Record]] = {
    "configuration": Configuration,
    "trial": Trial,
    "reading": Reading,
    "check": Check,
    "counters": Counters,
    "failure": Failure,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_METRIC = ("name", "value", "unit")
_LARGEST_WHOLE = 2**63 - 1


def header_line(machine: Machine) -> bytes:
    """Return the first line of a file; raises InputError for a machine that could not be read back."""
    line = _line({"record": "header", "schema_version": SCHEMA_VERSION, "machine": asdict(machine)})
    _read_back(line)
    return line


def record_line(record: Record) -> tuple[bytes, Record]:
    """Return the line of a record, and the record as a reader will see it; raises InputError if none would accept it.

    >>> failure = Failure("seed/saxpy#0", "does not compile", "2026-03-01T12:00:00.000000+00:00")
    >>> record_line(failure)[0].decode().split(', "at"')[0]
    '{"record": "failure", "configuration": "seed/saxpy#0", "reason": "does not compile"'
    """
    table = {"record": _NAMES[type(record)], **asdict(record)}
    if isinstance(record, Counters):
        table["metrics"] = [dict(zip(_METRIC, metric, strict=True)) for metric in record.metrics]
    line = _line(table)
    seen = _read_back(line)
    assert not isinstance(seen, Machine | None)
    return line, seen


def parse_line(line: bytes) -> object:
    """Return the JSON value of a line; raises ValueError for text that is no JSON, such as half a line."""
    try:
        return json.loads(line.decode("utf-8"), object_pairs_hook=_table, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is no JSON: {error.msg} at character {error.colno}") from None
    except UnicodeDecodeError:
        raise ValueError("this is not UTF-8") from None
    except RecursionError:
        raise ValueError("this is too deeply nested") from None


class Decoder:
    """Reads the values of lines; knows which version they are of, and what of a newer one it has skipped."""

    def __init__(self) -> None:
        self.version = SCHEMA_VERSION
        self.remarks: dict[str, None] = {}
        self._is_newer = False

    def header(self, value: object) -> Machine:
        """Return the machine that the first line names; raises ValueError for anything else."""
        table = _header_table(value)
        version = table.pop("schema_version", None)
        match = re.fullmatch(r"([0-9]{1,6})\.([0-9]{1,6})", version) if isinstance(version, str) else None
        if match is None:
            raise ValueError("schema_version is missing, or is no version such as 1.0")
        major, minor = (int(part) for part in SCHEMA_VERSION.split("."))
        if int(match[1]) != major:
            raise ValueError(f"schema_version is {match[0]}; this kerncast reads {major}.x")
        self.version = match[0]
        self._is_newer = int(match[2]) > minor
        machine: Machine = self._dataclass(Machine, table.pop("machine", None), "machine")
        self._skip(table, "the header")
        return machine

    def record(self, value: object) -> Record | None:
        """Return the record of a line, or None where it is skipped; raises ValueError where it is none."""
        if not isinstance(value, dict) or not isinstance(value.get("record"), str):
            raise ValueError("this is no record: no object with a text named record")  # noqa: TRY004
        table = dict(value)
        name = table.pop("record")
        if name not in KINDS:
            self._skip([f"record {name!r:.80}"], "the file")
            return None
        if name == "counters":
            table["metrics"] = _metrics(table.get("metrics"))
        record: Record = self._dataclass(KINDS[name], table, name)
        return record

    def _skip(self, names: Any, place: str) -> None:
        for name in names:
            if not self._is_newer:
                raise ValueError(f"{name!s:.80} in {place} is unknown")
            self.remarks[f"{name!s:.80} in {place}, of the newer schema version {self.version}, is skipped"] = None

    def _value(self, kind: Any, value: object, name: str) -> Any:
        origin = get_origin(kind)
        if origin is UnionType:
            present = next(member for member in get_args(kind) if member is not NoneType)
            return None if value is None else self._value(present, value, name)
        if origin is tuple:
            return self._tuple(get_args(kind), value, name)
        if is_dataclass(kind):
            return self._dataclass(kind, value, name)
        return _scalar(kind, value, name)

    def _tuple(self, members: tuple[Any, ...], value: object, name: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{name} is no list")  # noqa: TRY004
        if members[-1] is Ellipsis:
            return tuple([self._value(members[0], each, name) for each in value])
        if len(value) != len(members):
            raise ValueError(f"{name} has {len(value)} values, not {len(members)}")
        return tuple(self._value(kind, each, name) for kind, each in zip(members, value, strict=True))

    def _dataclass(self, kind: Any, value: object, name: str) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{name} is no object")  # noqa: TRY004
        known = _fields(kind)
        self._skip([key for key in value if key not in known], name)
        missing = [key for key, (_, is_required) in known.items() if is_required and key not in value]
        if missing:
            raise ValueError(f"{missing[0]} is missing from {name}")
        return kind(**{key: self._value(known[key][0], each, key) for key, each in value.items() if key in known})


@cache
def _fields(kind: Any) -> Mapping[str, tuple[Any, bool]]:
    """Return type and whether it is required, by name of field."""
    types = get_type_hints(kind)
    return {field.name: (types[field.name], field.default is MISSING) for field in fields(kind)}


def _scalar(kind: Any, value: object, name: str) -> Any:
    if kind is float:
        return _number(value, name)
    if kind is int and (type(value) is not int or not 0 <= value <= _LARGEST_WHOLE):
        raise ValueError(f"{name} is {value!r:.80}, no whole number from 0 to 2**63 - 1")
    if kind is bool and not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r:.80}, neither true nor false")
    if issubclass(kind, str):
        if not isinstance(value, str):
            raise ValueError(f"{name} is {value!r:.80}, no text")  # noqa: TRY004
        if issubclass(kind, StrEnum):
            if value not in list(kind):
                raise ValueError(f"{name} is {value!r:.80}, none of {', '.join(kind)}")
            return kind(value)
        # Half a surrogate pair is JSON, but no text that a table of samples could hold.
        value.encode("utf-8")
    return value


def _number(value: object, name: str) -> float:
    # Written so that NaN, which is not below anything, is refused too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_NUMBER:
        raise ValueError(f"{name} is {value!r:.80}, no number of at most 1e100")
    return float(value)


def _metrics(value: object) -> list[list[object]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("metrics is no list of objects")
    for each in value:
        if each.keys() != set(_METRIC):
            raise ValueError(f"a metric has not the names {', '.join(_METRIC)}")
    return [[each[name] for name in _METRIC] for each in value]


def _header_table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("record") != "header":
        raise ValueError('the first line is no header, {"record": "header", …}')
    return {key: each for key, each in value.items() if key != "record"}


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return table


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _line(table: dict[str, Any]) -> bytes:
    try:
        return json.dumps(table, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"this record cannot be written: {error}") from None


def _read_back(line: bytes) -> Record | Machine | None:
    """Return what a reader will see, so that nothing is written that none accepts."""
    decoder = Decoder()
    value = parse_line(line)
    try:
        return decoder.header(value) if line.startswith(HEADER_START) else decoder.record(value)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"this record cannot be written: {error}") from None
