"""The file of a recording: an archive of a header, the launches, the events, and what memory and files held.

Read with bounds, and nothing of it is executed: a stranger's recording is as safe as a launch file. What is too new is
refused; what a later version adds is passed over.
"""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from kerncast.bounded_file import Bound, opened
from kerncast.errors import InputError
from kerncast.recording.contents import read_contents
from kerncast.recording.recording import (
    EVENT,
    LAUNCH,
    Code,
    EventKind,
    Group,
    KeptLaunch,
    Kernel,
    LibraryCall,
    Recording,
)
from kerncast.replaced_file import replacing
from kerncast.typed_json import from_json, to_json
from kerncast.units import GIB, MIB

FORMAT = "kerncast recording"
#: 1.x are read; fields may be added in 1.y.
FORMAT_VERSION = "1.0"
SUFFIX = ".kc"
_CURE = "The file was changed or damaged: copy it again, or record the program again."
_BOUND = Bound(64 * GIB, cure="Name a file that kerncast run wrote.", cure_if_larger="Record less of it: --keep 1GiB.")
_HEADER, _LAUNCHES, _EVENTS, _CONTENTS = "recording.json", "launches.bin", "events.bin", "contents.bin"
_MOST_BYTES = {_HEADER: 128 * MIB, _LAUNCHES: 512 * MIB, _EVENTS: 512 * MIB}
#: The date of each entry: the same run gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
_COPY_BYTES = MIB
#: No call of a library does more operations, or moves more bytes.
_MOST_WORK = 1e24
#: No program ran for thirty years.
_LONGEST_SECONDS = 2.0**30
_DIGEST = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class _Header:
    """What stands in the header, beside its format."""

    command: tuple[str, ...]
    gpu: str
    ended: str
    codes: tuple[Code, ...]
    kernels: tuple[Kernel, ...]
    groups: tuple[Group, ...]
    kept: tuple[KeptLaunch, ...]
    library_calls: tuple[LibraryCall, ...]
    remarks: tuple[str, ...]
    processes: int
    host_seconds: float


def write_recording(path: Path, recording: Recording, contents: Path | None) -> None:
    """Write a recording, with what memory held from a file of chunks; raises InputError where it cannot be written."""
    # Where the contents lie is known when the file is read.
    kept = tuple(replace(each, memory=replace(each.memory, file=Path())) for each in recording.kept)
    header = _header_of(replace(recording, kept=kept))
    text = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, **to_json(header)}, allow_nan=False)
    with replacing(path) as place, zipfile.ZipFile(place, "w", allowZip64=True) as archive:
        for name, data in (
            (_HEADER, text.encode()), (_LAUNCHES, recording.launches.tobytes()), (_EVENTS, recording.events.tobytes()),
        ):  # fmt: skip
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=6)
        with archive.open(zipfile.ZipInfo(_CONTENTS, _DATE), "w", force_zip64=True) as target:
            if contents is not None:
                with contents.open("rb") as source:
                    while part := source.read(_COPY_BYTES):
                        target.write(part)


def _header_of(recording: Recording) -> _Header:
    return _Header(**{name: getattr(recording, name) for name in _Header.__dataclass_fields__})


def read_recording(path: Path) -> Recording:
    """Read a recording; raises InputError for a file that is none, is damaged or too new."""
    where = str(path)
    try:
        with opened(path, _BOUND) as stream, zipfile.ZipFile(stream) as archive:
            parts = {name: _part(archive, name, where) for name in _MOST_BYTES}
            archive.getinfo(_CONTENTS)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError, OSError):
        raise InputError("it is not a recording of kerncast, or damaged", where=where, cure=_CURE) from None
    header = _read_header(parts[_HEADER], where)
    launches, events = _rows(parts[_LAUNCHES], LAUNCH, where), _rows(parts[_EVENTS], EVENT, where)
    kept = tuple(replace(each, memory=replace(each.memory, file=path)) for each in header.kept)
    found = Recording(**{**{name: getattr(header, name) for name in _Header.__dataclass_fields__}, "kept": kept},
                      launches=launches, events=events, file=path)  # fmt: skip
    _check(found, where)
    return found


def contents_of(path: Path, wanted: Collection[str]) -> Mapping[str, bytes]:
    """Return chunks of what memory and files held, from a recording or from a file of chunks alone."""
    start, stop = 0, None
    try:
        with opened(path, _BOUND) as stream:
            if zipfile.is_zipfile(stream):
                start, stop = _place_of_contents(stream)
    except (zipfile.BadZipFile, KeyError, OSError, NotImplementedError):
        raise InputError("it is not a recording of kerncast, or damaged", where=str(path), cure=_CURE) from None
    return read_contents(path, wanted, start, stop)


def _place_of_contents(stream: io.BufferedReader) -> tuple[int, int]:
    with zipfile.ZipFile(stream) as archive:
        entry = archive.getinfo(_CONTENTS)
        if entry.compress_type != zipfile.ZIP_STORED:
            raise zipfile.BadZipFile
        stream.seek(entry.header_offset + 26)
        lengths = stream.read(4)
        start = entry.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        return start, start + entry.file_size


def _part(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    """Return what an entry holds: no more is unpacked than is allowed, whatever the file says."""
    with archive.open(name) as stream:
        data = stream.read(_MOST_BYTES[name] + 1)
    if len(data) > _MOST_BYTES[name]:
        raise InputError(f"{name} in it is larger than {_MOST_BYTES[name] // MIB} MiB", where=where, cure=_CURE)
    return data


def _read_header(data: bytes, where: str) -> _Header:
    try:
        table = json.loads(data)
        is_one, version = table["format"] == FORMAT, str(table["format_version"])[:20]
    except (ValueError, KeyError, TypeError, RecursionError):
        is_one, version = False, ""
    if not is_one:
        raise InputError("it is not a recording of kerncast, or damaged", where=where, cure=_CURE)
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        what = f"its format is {version}, this kerncast reads {FORMAT_VERSION}"
        raise InputError(what, where=where, cure="Update kerncast, or record the program again.")
    try:
        return from_json(_Header, {name: table[name] for name in _Header.__dataclass_fields__})
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError("its header lacks what every recording's has", where=where, cure=_CURE) from None


def _rows(data: bytes, kind: "np.dtype[np.void]", where: str) -> npt.NDArray[np.void]:
    if len(data) % kind.itemsize:
        raise InputError("its launches or events are cut off", where=where, cure=_CURE)
    return np.frombuffer(data, kind)


def _check(found: Recording, where: str) -> None:
    """Raise InputError where a part names another one that is not there."""
    launches = len(found.launches)
    named = (
        *((each.code, len(found.codes)) for each in found.kernels),
        *((each.kernel, len(found.kernels)) for each in found.groups),
        *((each.launch, launches) for each in found.kept),
    )
    groups = int(found.launches["group"].max(initial=0)) if launches else -1
    events = found.events
    asked = ((EventKind.LAUNCH, launches), (EventKind.LIBRARY, len(found.library_calls)))
    is_beyond = any((events["value"][events["kind"] == kind] >= count).any() for kind, count in asked)
    if any(not 0 <= number < count for number, count in named) or groups >= len(found.groups) or is_beyond:
        raise InputError("a part of it names another one that is not there", where=where, cure=_CURE)
    amounts = [amount for each in found.library_calls for amount in (each.operations, each.nbytes)]
    if any(not 0 <= amount <= _MOST_WORK for amount in amounts):
        raise InputError("a call of a library in it does no such work", where=where, cure=_CURE)
    times = np.append(events["at"], found.host_seconds)
    if not ((times >= 0) & (times <= _LONGEST_SECONDS)).all():
        raise InputError("a time in it is none", where=where, cure=_CURE)
    if not np.isin(events["kind"], list(EventKind)).all():
        raise InputError("an event in it is of no known kind", where=where, cure=_CURE)
    if len({each.launch for each in found.kept}) < len(found.kept):
        raise InputError("a launch in it is kept twice", where=where, cure=_CURE)
    for code in found.codes:
        _check_code(code, where)


def _check_code(code: Code, where: str) -> None:
    """Raise InputError for files that cannot lie beside one another, or that the source is none of."""
    digests = [each.digest for each in code.files] + ([code.ptx] if code.ptx else [])
    paths = [PurePosixPath(each.path) for each in code.files]
    parents = {parent for path in paths for parent in path.parents}
    are_fit = len(set(paths)) == len(paths) and not parents & set(paths) and all(map(_is_fit, paths))
    if not all(map(_DIGEST.fullmatch, digests)) or not are_fit or (paths and PurePosixPath(code.source) not in paths):
        raise InputError("the files of a kernel in it are no such files", where=where, cure=_CURE)


def _is_fit(path: PurePosixPath) -> bool:
    """Whether a file can have this name in a folder of ours."""
    return bool(path.name) and "\0" not in str(path)
