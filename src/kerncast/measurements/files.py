"""Reads and writes measurement files: JSON Lines, one record per line, appended while the GPU runs.

The format is described in ``docs/measurement-file.md``. What has been added survives a killed process; what a killed
process leaves half written is cut off when the file is resumed.
"""

import codecs
import io
import json
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, Self, get_args, get_origin, get_type_hints

from kerncast.bounded_file import Bound, opened, place_of
from kerncast.errors import InputError
from kerncast.measurements.measurement import (
    LARGEST_NUMBER,
    Check,
    Configuration,
    Counters,
    Failure,
    Machine,
    Measurement,
    Method,
    Reading,
    Trial,
)
from kerncast.units import KIB, MIB

# Turns the records of a measurement file into lines of JSON, and back with every type checked.
#
# Names and types are those of the dataclasses in ``measurement.py``; ``docs/measurement-file.md`` describes the lines.
# One kind of error, ValueError, stands for all that a line can get wrong.


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
        raise ValueError(f"this is not JSON: {error.msg} at character {error.colno}") from None
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
            raise ValueError("schema_version is missing, or is not a version such as 1.0")
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
            raise ValueError("this is not a record: an object with a text named record")  # noqa: TRY004
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
            raise ValueError(f"{name} is not a list")  # noqa: TRY004
        if members[-1] is Ellipsis:
            return tuple([self._value(members[0], each, name) for each in value])
        if len(value) != len(members):
            raise ValueError(f"{name} has {len(value)} values, not {len(members)}")
        return tuple(self._value(kind, each, name) for kind, each in zip(members, value, strict=True))

    def _dataclass(self, kind: Any, value: object, name: str) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{name} is not an object")  # noqa: TRY004
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
        raise ValueError(f"{name} is {value!r:.80}, not a whole number from 0 to 2**63 - 1")
    if kind is bool and not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r:.80}, neither true nor false")
    if issubclass(kind, str):
        if not isinstance(value, str):
            raise ValueError(f"{name} is {value!r:.80}, not a text")  # noqa: TRY004
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
        raise ValueError(f"{name} is {value!r:.80}, not a number of at most 1e100")
    return float(value)


def _metrics(value: object) -> list[list[object]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("metrics is not a list of objects")
    for each in value:
        if each.keys() != set(_METRIC):
            raise ValueError(f"a metric has other names than {', '.join(_METRIC)}")
    return [[each[name] for name in _METRIC] for each in value]


def _header_table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("record") != "header":
        raise ValueError('the first line is not a header, {"record": "header", …}')
    return {key: each for key, each in value.items() if key != "record"}


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return table


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


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


try:
    import fcntl
except ImportError:  # Windows: there, nothing keeps two processes from writing into one file
    fcntl = None  # type: ignore[assignment]

#: Larger files and lines are refused before they are parsed; a suite of 71 configurations takes about 5 MiB.
#: What a line becomes in memory takes up to about 20 times its bytes, so these two bound the memory.
MAX_FILE_BYTES = 256 * MIB
MAX_LINE_BYTES = 16 * MIB
_LONGEST_HEADER = 64 * KIB

_OTHER_FILE = "Name another file with --out."
_MEASUREMENT = Bound(MAX_FILE_BYTES, cure="Name a measurement file.", cure_if_larger="Split it.")


def read_measurement(path: str | os.PathLike[str]) -> Measurement:
    """Read a measurement file; raises InputError, with the line, for anything that it cannot mean."""
    return read_with_remarks(path)[0]


def read_with_remarks(path: str | os.PathLike[str]) -> tuple[Measurement, tuple[str, ...]]:
    """Read a measurement file, and say what of it was skipped: a torn last line, or what a newer version has added."""
    file = Path(path)
    with opened(file, _MEASUREMENT) as stream:
        contents = _read(stream, file)
    return contents.collected.measurement(), contents.remarks


def _refuse_other_machine(recorded: Machine, here: Machine, where: str) -> None:
    differences = recorded.differences(here)
    if differences:
        what = f"was measured on another machine: {'; '.join(differences)}"
        raise InputError(what, where=where, cure=_OTHER_FILE)


class Recorder:
    """Appends records to a measurement file; what ``add`` has returned from is on the disk.

    One process at a time: a lock is held until ``close`` where the operating system and the file system have one.
    """

    def __init__(self, file: Path, stream: io.FileIO, collected: "_Collected") -> None:
        self._file = file
        self._stream = stream
        self._collected = collected

    @classmethod
    def open(cls, path: str | os.PathLike[str], machine: Machine) -> Self:
        """Begin a file, or go on with it; raises InputError if it is of another machine, or is being written."""
        file = Path(path)
        stream = _open_locked(file)
        try:
            return cls._resume(file, stream, machine) if _holds_lines(stream) else cls._begin(file, stream, machine)
        except OSError as error:
            stream.close()
            raise InputError(f"cannot be written ({error.strerror})", where=str(file), cure=_OTHER_FILE) from None
        except BaseException:
            stream.close()
            raise

    @classmethod
    def _begin(cls, file: Path, stream: io.FileIO, machine: Machine) -> Self:
        stream.truncate(0)
        recorder = cls(file, stream, _Collected(machine))
        recorder._append(header_line(machine))
        return recorder

    @classmethod
    def _resume(cls, file: Path, stream: io.FileIO, machine: Machine) -> Self:
        if os.fstat(stream.fileno()).st_size > MAX_FILE_BYTES:
            raise InputError(f"is larger than {MAX_FILE_BYTES // MIB} MiB", where=str(file), cure=_OTHER_FILE)
        stream.seek(0)
        buffered = io.BufferedReader(stream)
        contents = _read(buffered, file)
        buffered.detach()
        if contents.version != SCHEMA_VERSION:
            what = f"has schema version {contents.version}; this kerncast appends to {SCHEMA_VERSION} only"
            raise InputError(what, where=str(file), cure=_OTHER_FILE)
        _refuse_other_machine(contents.collected.machine, machine, str(file))
        stream.truncate(contents.whole_bytes)
        recorder = cls(file, stream, contents.collected)
        if contents.lacks_newline:
            recorder._append(b"\n")
        return recorder

    @property
    def measurement(self) -> Measurement:
        """Contents of the file at this moment."""
        return self._collected.measurement()

    def configuration(self, key: str) -> Configuration | None:
        """Return the configuration of a key, or None where none is recorded."""
        return self._collected.configurations.get(key)

    def has(self, key: str, method: Method, number: int) -> bool:
        """Say whether a trial is recorded already."""
        return (key, method, number) in self._collected.trials

    def add(self, record: Record) -> None:
        """Append one record, and return once it is on the disk; a configuration that is recorded already is ignored."""
        try:
            line, seen = record_line(record)
            is_new = self._collected.is_new(seen)
        except InputError as error:
            raise InputError(error.what, where=str(self._file), cure=error.cure) from None
        if is_new:
            self._append(line)
            self._collected.add(seen)

    def close(self) -> None:
        """Release the file and its lock."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, line: bytes) -> None:
        size = os.fstat(self._stream.fileno()).st_size
        if len(line) > MAX_LINE_BYTES or size + len(line) > MAX_FILE_BYTES:
            what = f"would exceed {MAX_FILE_BYTES // MIB} MiB, or a line {MAX_LINE_BYTES // MIB} MiB"
            raise InputError(what, where=str(self._file), cure=_OTHER_FILE)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._stream.write(rest) :]
            os.fsync(self._stream.fileno())
        except OSError as error:
            # Half a line would spoil what is appended after it.
            self._stream.truncate(size)
            raise InputError(
                f"cannot be written ({error.strerror})",
                where=str(self._file),
                cure="Make room, then start again: what is recorded is kept.",
            ) from None


class _Collected:
    """Records in their order, each checked against those before it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.trials: set[tuple[str, Method, int]] = set()
        self.configurations: dict[str, Configuration] = {}
        self._records: dict[type[Record], list[Any]] = {kind: [] for kind in KINDS.values()}

    def is_new(self, record: Record) -> bool:
        """Say whether a record adds something; raises InputError where it contradicts one that is here."""
        if isinstance(record, Configuration):
            known = self.configurations.get(record.key, record)
            if known != record:
                names = [f.name for f in fields(record) if getattr(known, f.name) != getattr(record, f.name)]
                raise InputError(
                    f"the kernel or its launch has changed: {record.key} has another {', '.join(names)}",
                    cure=_OTHER_FILE,
                )
            return record.key not in self.configurations
        # A failure may concern a kernel that does not compile, of which no configuration is known.
        if not isinstance(record, Failure) and record.configuration not in self.configurations:
            raise InputError(f"the configuration {record.configuration[:200]!r} is unknown")
        if isinstance(record, Trial) and _identity(record) in self.trials:
            raise InputError(f"{record.configuration}, {record.method}, trial {record.number} is recorded already")
        return True

    def add(self, record: Record) -> None:
        """Take a record in."""
        if not self.is_new(record):
            return
        self._records[type(record)].append(record)
        if isinstance(record, Configuration):
            self.configurations[record.key] = record
        elif isinstance(record, Trial):
            self.trials.add(_identity(record))

    def measurement(self) -> Measurement:
        """Return everything as one value."""
        return Measurement(
            self.machine,
            configurations=tuple(self._records[Configuration]),
            trials=tuple(self._records[Trial]),
            readings=tuple(self._records[Reading]),
            checks=tuple(self._records[Check]),
            counters=tuple(self._records[Counters]),
            failures=tuple(self._records[Failure]),
        )


def _identity(trial: Trial) -> tuple[str, Method, int]:
    return trial.configuration, trial.method, trial.number


def _refuse_other_than_file(file: Path) -> None:
    if file.exists() and not file.is_file():  # a pipe would be waited for
        raise InputError("is not a file", where=place_of(file), cure=_OTHER_FILE)


def _open_locked(file: Path) -> io.FileIO:
    try:
        _refuse_other_than_file(file)
        stream = io.FileIO(file, "a+")
    except InputError:
        raise
    except FileNotFoundError:
        cure = "Make it, or name another file with --out."
        raise InputError(f"there is no folder {file.parent}", where=str(file), cure=cure) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be written ({reason})", where=place_of(file), cure=_OTHER_FILE) from None
    try:
        _lock(stream)
    except BlockingIOError:
        stream.close()
        cure = f"Wait until it has ended. Or: {_OTHER_FILE}"
        raise InputError("another process is writing this file", where=str(file), cure=cure) from None
    return stream


def _lock(stream: io.FileIO) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        # Some network file systems have no locks; a run there is worth more than a refusal.
        return


def _holds_lines(stream: io.FileIO) -> bool:
    """Say whether there is more than a header that a killed process has left half written."""
    stream.seek(0)
    start = stream.read(len(HEADER_START)) or b""
    if not start or (len(start) < len(HEADER_START) and HEADER_START.startswith(start)):
        return False
    return start != HEADER_START or b"\n" in (stream.read(_LONGEST_HEADER) or b"")


@dataclass(frozen=True, slots=True)
class _Contents:
    collected: _Collected
    version: str
    remarks: tuple[str, ...]
    whole_bytes: int
    """bytes up to the end of the last whole record"""
    lacks_newline: bool
    """whether the newline after the last whole record is missing"""


def _read(stream: BinaryIO, file: Path) -> _Contents:
    decoder = Decoder()
    torn: tuple[str, ...] = ()
    collected: _Collected | None = None
    whole_bytes, lacks_newline = 0, False
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), start=1):
        is_ended = line.endswith(b"\n")
        try:
            value = _parse(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
        except ValueError as error:
            if is_ended or collected is None or len(line) > MAX_LINE_BYTES:
                raise _fault(error, file, number) from None
            torn = (f"line {number}, the last, is torn and skipped",)
            break
        try:
            if collected is None:
                collected = _Collected(decoder.header(value))
            elif (record := decoder.record(value)) is not None:
                collected.add(record)
        except ValueError as error:
            raise _fault(error, file, number) from None
        whole_bytes += len(line)
        lacks_newline = not is_ended
    if collected is None:
        raise InputError("is empty", where=str(file), cure="Name a measurement file.")
    return _Contents(collected, decoder.version, (*decoder.remarks, *torn), whole_bytes, lacks_newline)


def _parse(line: bytes) -> object:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"the line is longer than {MAX_LINE_BYTES // MIB} MiB")
    return parse_line(line)


def _fault(error: ValueError, file: Path, number: int) -> InputError:
    what = error.what if isinstance(error, InputError) else str(error)
    return InputError(what, where=f"{file} line {number}", cure="docs/measurement-file.md describes the lines.")
