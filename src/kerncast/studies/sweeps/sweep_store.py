"""The file of a sweep's results: one line a point, written as it arrives, from which a killed run goes on."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from kerncast.bounded_file import sha256_of
from kerncast.compile import SOURCE_FILE
from kerncast.errors import CompileError, InputError
from kerncast.launch import parse_launches
from kerncast.studies.sweeps.expressions import Scalar
from kerncast.studies.sweeps.point_results import Infeasible, Job, PointResult
from kerncast.studies.sweeps.space import Point, Space
from kerncast.typed_json import from_json, to_json
from kerncast.version import __version__

FORMAT = "kerncast sweep 1.0"
_MOST_BYTES = 4 * 2**30
_LONGEST_LINE = 2**22


class SweepStore:
    """Results of one sweep in a file of JSON lines.

    The first line says which sweep: a digest of the launch, its source, the GPUs, the options and the version of
    kerncast. Each further line has the digest of its point's settings. A line that a killed run left unfinished is
    removed.
    """

    def __init__(self, path: Path, space: Space, job: Job) -> None:
        self._path, self._space = path, space
        self._sweep = sweep_digest(space, job)
        self._gpus = tuple(gpu.id for gpu, _ in job.gpus)
        self._known: dict[str, PointResult] = {}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("a+b")
            self._continue(self._file)
        except OSError as error:
            self._close()
            raise InputError(f"cannot be used ({error.strerror})", where=str(self._path)) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def known(self, point: Point) -> PointResult | None:
        """Return the result of a point that an earlier run has kept."""
        found = self._known.get(self._key(point))
        return None if found is None else PointResult(point, found.outcomes)

    def add(self, result: PointResult) -> None:
        """Write a result; it is in the file when this returns. A lost point is left out: another run may find it."""
        key = self._key(result.point)
        if key not in self._known and all(each.infeasible is not Infeasible.LOST for each in result.outcomes):
            self._known[key] = result
            self._write({"key": key, "result": to_json(result)})

    def _continue(self, file: IO[bytes]) -> None:
        """Read what the file holds, remove an unfinished last line, and begin an empty one."""
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a device never ends
            raise InputError("is not a file", where=str(self._path), cure="Name another file.")
        header = _line({"format": FORMAT, "sweep": self._sweep, "kerncast": __version__})
        file.seek(0)
        whole = number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n") and len(line) < _LONGEST_LINE and (whole or header.startswith(line)):
                break
            self._read(line, number)
            whole += len(line)
            if whole > _MOST_BYTES:
                raise InputError("it is too large", where=str(self._path), cure="Name another file.")
        file.truncate(whole)
        if not whole:
            file.write(header)
            file.flush()

    def _key(self, point: Point) -> str:
        settings: list[tuple[str, Scalar]] = [*point.settings]
        settings += [(each.name, each.text) for each in self._space.derived]
        return hashlib.sha256(f"{self._sweep} {sorted(map(repr, settings))}".encode()).hexdigest()[:32]

    def _write(self, row: dict[str, Any]) -> None:
        assert self._file is not None
        try:
            self._file.write(_line(row))
            self._file.flush()
        except OSError as error:
            cure = "What it holds counts: make room, and go on with it."
            raise InputError(f"cannot be written ({error.strerror})", where=str(self._path), cure=cure) from None

    def _read(self, line: bytes, number: int) -> None:
        where = f"{self._path}, line {number}"
        try:
            row = json.loads(line)
            if number == 1:
                self._check(row)
                return
            result = from_json(PointResult, row["result"])
            key = str(row["key"])
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError):
            cure = "Remove the line, or name another file: its point is forecast again."
            raise InputError("it is no result of a sweep", where=where, cure=cure) from None
        if tuple(each.gpu_id for each in result.outcomes) == self._gpus:
            self._known[key] = result

    def _check(self, row: dict[str, Any]) -> None:
        if row["format"] != FORMAT or row["sweep"] != self._sweep:
            raise InputError(
                "it holds another sweep: of another launch, source, GPU, option or version of kerncast",
                where=str(self._path),
                cure="Name another file, or remove this one.",
            )

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # every line was flushed, or its failure was told
                self._file.close()
            self._file = None


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def sweep_digest(space: Space, job: Job) -> str:
    """Return a digest of all that decides the result of a point, but for its settings."""
    digest = hashlib.sha256()
    for text in _facts(space, job):
        digest.update(f"{len(text)} ".encode() + text.encode())
    return digest.hexdigest()


def _facts(space: Space, job: Job) -> Iterator[str]:
    yield __version__
    yield json.dumps(space.table, sort_keys=True, default=str)
    yield repr(space.constants)
    (launch,) = parse_launches(space.table, space.file)
    try:
        yield sha256_of(launch.source, SOURCE_FILE)
    except CompileError:
        yield ""
    yield repr([gpu for gpu, _ in job.gpus])
    yield repr(job.options)
