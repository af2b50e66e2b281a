"""A program to run on the virtual GPU: built from its sources, by a command of the user's, or there already."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kerncast.bounded_file import Bound, read_bytes
from kerncast.child_process import Progress
from kerncast.confinement import include_places, source_places
from kerncast.device.session import Run
from kerncast.device.wire import Environment
from kerncast.errors import InputError
from kerncast.execute.live import Rules
from kerncast.forecast.application import link_of
from kerncast.gpu import GPU
from kerncast.hostbuild.compiling import SOURCE_TAG
from kerncast.hostbuild.nvcc_options import parse_command_line
from kerncast.hostbuild.program import BuildRequest, build_program
from kerncast.hostbuild.runtime import runtime_libraries
from kerncast.hostbuild.toolkit import ARCHITECTURE_VARIABLE, toolkit_environment
from kerncast.units import GIB, MIB

#: Beside the memory of the GPU: what the host pins and manages.
_ROOM_FOR_HOST_BYTES = 64 * GIB
_UNKNOWN_MEMORY_BYTES = 16 * GIB
#: Of the memory that is free here, what that of the GPU may take.
_SHARE_OF_FREE = 0.6
_MEMORY_INFO = Bound(MIB)
_PROGRAM = Bound(512 * MIB)
#: What our build leaves in a program, of each source with kernels.
_TAG = re.compile(re.escape(SOURCE_TAG.encode()) + rb"(\{[^\0\n]{1,100000}\})")
_MOST_TAGS = 10_000


@dataclass(frozen=True, slots=True)
class Built:
    """A program that can be started."""

    command: tuple[str, ...]
    libraries: Path
    """folder of the runtime's libraries"""
    reads: tuple[Path, ...]
    """what its kernels may be compiled from"""
    environment: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program is built, and who is told of it."""

    folder: Path
    show: Progress | None


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a program is to be run."""

    rules: Rules
    seconds: float | None
    memory_bytes: int | None
    """memory of the GPU that may be touched here; None: a part of what is free"""
    kept_bytes: int
    has_clock: bool
    stdout: int | None = None


def built_of_sources(words: Sequence[str], arguments: Sequence[str], gpu: GPU, place: Place) -> Built:
    """Build a program of sources for a GPU, given as nvcc would take them; raises CompileError, InputError."""
    libraries = runtime_libraries(progress=place.show).folder
    line = parse_command_line(words)
    line = replace(line, code=replace(line.code, architecture=gpu.architecture.number))
    name = line.inputs[0].path.stem if line.inputs else "program"
    program = build_program(BuildRequest.of(line, place.folder / name, libraries), place.show)
    reads = _read_by(program.path, program.sources)
    return Built((str(program.path), *arguments), libraries, reads, remarks=(*line.remarks, *program.remarks))


def built_by_command(build: str, command: Sequence[str], gpu: GPU, show: Progress | None) -> Built:
    """Let a command of the user's build a program with our nvcc; raises InputError where it fails."""
    libraries = runtime_libraries(progress=show).folder
    environment = toolkit_environment(libraries) | {ARCHITECTURE_VARIABLE: str(gpu.architecture.number)}
    # What it prints is no part of the program's own output.
    ended = subprocess.run(build, shell=True, check=False, env={**os.environ, **environment}, stdout=2)  # noqa: S602  the user's own command
    if ended.returncode:
        what = f"the command that builds the program ended with status {ended.returncode}"
        raise InputError(what, where=build[:200], cure="Mend what it complains of, and run it again.")
    return _started_as(command, libraries, environment)


def found(command: Sequence[str], show: Progress | None) -> Built:
    """Return a program that is there; raises InputError where it is not."""
    return _started_as(command, runtime_libraries(progress=show).folder, {})


def _started_as(command: Sequence[str], libraries: Path, environment: Mapping[str, str]) -> Built:
    program = shutil.which(command[0])
    if program is None:
        cure = "Name a program that can be run, such as ./app, or sources."
        raise InputError("is not a program", where=command[0], cure=cure)
    return Built(tuple(command), libraries, _read_by(Path(program), ()), environment)


def _read_by(program: Path, sources: Sequence[Path]) -> tuple[Path, ...]:
    """Return what kernels of a program may be compiled from: what our build has noted in it, and where it is run."""
    places: dict[Path, None] = {}
    for source in sources:
        places |= dict.fromkeys(source_places(source))
    for source, folders in _noted_in(program):
        places |= dict.fromkeys(source_places(source))
        places |= dict.fromkeys(place for folder in folders for place in include_places(folder))
    for each in (program.resolve(), Path.cwd() / "program"):
        places |= dict.fromkeys(place for place in source_places(each) if place != each)
    return tuple(places)


def _noted_in(program: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield the sources that our build has noted in a program, with their folders of headers."""
    try:
        content = read_bytes(program, _PROGRAM)
    except InputError:
        return
    for number, found_tag in enumerate(_TAG.finditer(content)):
        if number == _MOST_TAGS:
            return
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            table = json.loads(found_tag[1])
            yield Path(str(table["source"])), [Path(str(each)) for each in table["include_dirs"]]


def run_of(built: Built, gpu: GPU, wishes: Wishes) -> Run:
    """Return the run of a program that is told of a GPU."""
    from kerncast.device.running import Settings  # noqa: PLC0415  starts the engine's imports

    link = link_of(gpu)
    budget = wishes.memory_bytes if wishes.memory_bytes is not None else int(_SHARE_OF_FREE * _free_bytes())
    environment = Environment(
        wishes.has_clock,
        budget,
        link.launch_s,
        link.call_s,
        link.to_device_bytes_per_s,
        link.to_host_bytes_per_s,
        link.pageable,
    )
    room = -(-(gpu.memory_bytes or _UNKNOWN_MEMORY_BYTES) // MIB) * MIB + _ROOM_FOR_HOST_BYTES
    return Run(
        built.command, Settings(gpu, environment, room, wishes.rules), built.libraries, built.environment, built.reads,
        wishes.seconds, wishes.kept_bytes, wishes.stdout,
    )  # fmt: skip


def _free_bytes() -> int:
    """Return the memory that is free on this machine."""
    with suppress(InputError, ValueError, IndexError):
        text = read_bytes("/proc/meminfo", _MEMORY_INFO).decode()
        return int(text.partition("MemAvailable:")[2].split()[0]) * 1024
    return _UNKNOWN_MEMORY_BYTES
