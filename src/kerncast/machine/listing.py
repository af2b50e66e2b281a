"""Machine code as NVIDIA's disassembler prints it: how it is run, and what its text means."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

from kerncast.bounded_file import Bound, sha256_of
from kerncast.compile.cache import Store, cache_place
from kerncast.compile.cache.store import packed, unpacked
from kerncast.compile.headers import package_folders
from kerncast.confinement import Confinement, confine
from kerncast.errors import InputError

# The text that nvdisasm prints to machine instructions, each with the line of the PTX that it comes from.
#
# ``nvdisasm -c -gp`` writes ``//## File ".nv_debug_ptx_txt", line N`` before the instructions of line N, labels on
# lines of their own, and one instruction per line behind its address in a comment. Source: CUDA Binary Utilities
# 12.9, section 4 (nvdisasm); the line comments are seen in its output and are not documented.


_SECTION = re.compile(r"\.text\.(\S+):")
_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt(?:\.\d+)?", line (\d{1,18})')
_LABEL = re.compile(r"(\.L_\w+|\$\S+):")
_INSTRUCTION = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z][A-Z0-9]*)((?:\.[A-Za-z0-9_]+)*)\s*([^;]*);?"
)
_TARGET = re.compile(r"(\.L_\w+)|`\(([^)]+)\)")


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One machine instruction."""

    opcode: str
    """part of the name before the first dot, such as LDS"""
    modifiers: tuple[str, ...]
    """parts of the name behind the first dot, such as (U, 128)"""
    guard: str
    """predicate that must hold, such as P0 or !P0; empty where there is none"""
    line: int
    """line of the PTX text, from 1; 0 where the disassembler names none"""
    targets: tuple[str, ...]
    """labels that the operands name"""
    operands: str
    """operands as printed"""


@dataclass(frozen=True, slots=True)
class MachineRoutine:
    """The code of one section: a kernel, with the routines of the compiler behind it."""

    name: str
    instructions: tuple[MachineInstruction, ...]
    labels: Mapping[str, int] = field(hash=False)
    """number of the instruction behind each label; one past the last at the end"""


def parse_listing(text: str) -> dict[str, MachineRoutine]:
    r"""Return the routines of a listing by their mangled names; lines of another form are passed over.

    >>> text = '.text.k:\n//## File ".nv_debug_ptx_txt", line 9\n/*0010*/ @!P0 LDS.U.128 R4, [R2] ;'
    >>> parse_listing(text)["k"].instructions[0]
    MachineInstruction(opcode='LDS', modifiers=('U', '128'), guard='!P0', line=9, targets=(), operands='R4, [R2]')
    """
    found: dict[str, tuple[list[MachineInstruction], dict[str, int]]] = {}
    code: list[MachineInstruction] | None = None
    labels: dict[str, int] = {}
    line = 0
    for row in map(str.strip, text.splitlines()):
        if section := _SECTION.fullmatch(row):
            code, labels = found.setdefault(section[1], ([], {}))
            line = 0
        elif code is None:
            continue
        elif row.startswith(".section"):
            code = None
        elif place := _PTX_LINE.match(row):
            line = int(place[1])
        elif label := _LABEL.fullmatch(row):
            labels[label[1]] = len(code)
        elif ins := _INSTRUCTION.match(row):
            code.append(_instruction(ins, line))
    return {name: MachineRoutine(name, tuple(code), labels) for name, (code, labels) in found.items()}


def _instruction(match: re.Match[str], line: int) -> MachineInstruction:
    negation, guard, opcode, modifiers, operands = match.groups()
    targets = tuple(a or b for a, b in _TARGET.findall(operands)) if "`(" in operands or ".L_" in operands else ()
    always = guard in {None, "PT", "UPT"}
    return MachineInstruction(
        opcode, tuple(modifiers.split(".")[1:]), "" if always else negation + guard, line, targets, operands.strip()
    )


# Machine code to text, by NVIDIA's disassembler from a wheel: no driver and no toolkit is needed.
#
# The wheel nvidia-cuda-nvdisasm knows sm_75 and newer; where it is missing, averages serve. It runs as a child process
# with a limit on time: the machine code comes from a user's source.


WHEEL = "nvidia-cuda-nvdisasm"
#: The wheel refuses older machine code ("deprecated").
_FIRST_ARCHITECTURE = 75
#: Only stops what would run away: without machine code the counts are estimated, which must not depend on the load.
_SECONDS = 300.0
#: The largest program of the suite has 0.1 MiB; a listing is about 20 times as long.
_MOST_BYTES = 8 * 2**20
_MOST_TEXT = 256 * 2**20
_MOST_MEMORY = 4 * 2**30
#: Larger listings are rare, and would push many small entries out of the cache.
_MOST_KEPT = 4 * 2**20
_LEVEL = 1
_PROGRAM = Bound(256 * 2**20, error=InputError)
_LONGEST_REASON = 200
_LISTING = "listing"


@dataclass(frozen=True, slots=True)
class Disassembly:
    """The routines of one cubin, or why there are none."""

    routines: Mapping[str, MachineRoutine] = field(default_factory=dict)
    """routines by mangled name"""
    problem: str = ""
    """reason for the failure; empty where disassembly succeeded"""


def reads(architecture: str) -> bool:
    """Tell whether there is a disassembler for an architecture, such as sm_75."""
    return int("".join(filter(str.isdigit, architecture)) or 0) >= _FIRST_ARCHITECTURE


def disassembler() -> Path | None:
    """Return the path of nvdisasm, or None where its wheel is not installed."""
    name = "nvdisasm.exe" if sys.platform == "win32" else "nvdisasm"
    paths = (folder / "bin" / name for folder in package_folders("nvidia.cu13"))
    return next((path for path in paths if path.is_file()), None)


class _Reading:
    """The disassembler on one cubin, at work beside other things once it was started; it ends with this object."""

    def __init__(self, program: Path, cubin: bytes) -> None:
        self._program, self._cubin = program, cubin
        self._kept = _Kept(program, cubin)
        self._process: subprocess.Popen[str] | None = None
        self._found: str | None = None
        self._is_done = False

    def start(self) -> None:
        """Start it, unless it was; raises OSError, and SubprocessError where its limits cannot be set."""
        if self._process is not None or self._is_done or self._text is not None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="kerncast-"))
        try:
            self._process = _started(self._program, self._cubin, self._folder)
        except (OSError, subprocess.SubprocessError):
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._end = weakref.finalize(self, _end, self._process, self._folder)

    def listing(self) -> str:
        """Return what it prints; raises OSError, TimeoutExpired, and CalledProcessError where it fails."""
        if self._text is not None:
            return self._text
        self._is_done = False
        self.start()
        assert self._process is not None
        process, self._process, self._is_done = self._process, None, True
        try:
            _, said = process.communicate(timeout=_SECONDS)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, self._program, stderr=said)
            with (self._folder / _LISTING).open(encoding="utf-8", errors="replace") as listing:
                found = listing.read(_MOST_TEXT)
            self._kept.keep(found)
            return found
        finally:
            self._end()

    def finish(self) -> None:
        """Wait until it has ended, and keep what it prints in memory, unless that is very long; raises as listing."""
        found = self.listing()
        self._found = found if len(found) <= _MOST_KEPT else None

    @property
    def _text(self) -> str | None:
        return self._kept.text if self._found is None else self._found


class _Kept:
    """What the disassembler printed of a cubin in an earlier process, on disk: it takes half a second to start."""

    def __init__(self, program: Path, cubin: bytes) -> None:
        place, version = cache_place(), _digest(program)
        self._store = None if place.folder is None or version is None else Store(place.folder, place.most_bytes)
        self._key = hashlib.sha256(f"listing {version} ".encode() + cubin).hexdigest()

    @cached_property
    def text(self) -> str | None:
        """The listing; None where it is not kept."""
        payload = None if self._store is None else self._store.load(self._key)
        try:
            found = None if payload is None else unpacked(payload, _MOST_TEXT)
        except (zlib.error, ValueError, TypeError, RecursionError):
            return None
        return found.get("listing") if found else None

    def keep(self, text: str) -> None:
        if self._store is not None and len(text) <= _MOST_KEPT:
            self._store.save(self._key, packed({"listing": text}, _LEVEL))


@cache
def _digest(program: Path) -> str | None:
    """Return what tells versions of a program apart; None where it cannot be read, and so does not run either."""
    try:
        return sha256_of(program, _PROGRAM)
    except InputError:
        return None


def _started(program: Path, cubin: bytes, folder: Path) -> "subprocess.Popen[str]":
    """Start nvdisasm on a file of its own, confined; ``-gp`` asks for the lines of the PTX."""
    code = folder / "code.cubin"
    rules = Confinement(_MOST_MEMORY, _SECONDS, (folder, program), file_bytes=_MOST_TEXT, starts_processes=True)
    own = os.getpid()
    code.write_bytes(cubin)
    with (folder / _LISTING).open("wb") as out:
        return subprocess.Popen(  # noqa: S603  the program of a wheel, on a file of ours
            [str(program), "-c", "-gp", str(code)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={name: value for name, value in os.environ.items() if name in {"SYSTEMROOT", "TEMP", "TMP", "TMPDIR"}},
            preexec_fn=(lambda: confine(rules, parent=own)) if os.name == "posix" else None,  # noqa: PLW1509  takes no lock
        )


def _end(process: "subprocess.Popen[str]", folder: Path) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()
    shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=32)
def _reading(program: Path, cubin: bytes) -> _Reading:
    return _Reading(program, cubin)


def _program(cubin: bytes, architecture: str) -> Path | str:
    """Return the disassembler that reads a cubin, or why there is none."""
    program = disassembler()
    if program is None:
        return f"{WHEEL} is not installed"
    if not reads(architecture):
        return f"there is no disassembler for {architecture}"
    if not 0 < len(cubin) <= _MOST_BYTES:
        return f"{len(cubin)} bytes of machine code are none, or too many"
    return program


def begin(cubin: bytes, architecture: str) -> None:
    """Start to disassemble beside other work what ``disassemble`` will be asked for, if that can be."""
    program = _program(cubin, architecture)
    if isinstance(program, Path):
        with suppress(OSError, subprocess.SubprocessError):
            _reading(program, cubin).start()


def finish(cubin: bytes, architecture: str) -> None:
    """Wait until what was begun is there; forks of this process find it, unless it is very long."""
    program = _program(cubin, architecture)
    if isinstance(program, Path):
        with suppress(OSError, subprocess.SubprocessError):
            _reading(program, cubin).finish()


@lru_cache(maxsize=32)
def disassemble(cubin: bytes, architecture: str) -> Disassembly:
    """Return the machine code of a cubin; what goes wrong is in the reply, as an estimate can take its place."""
    program = _program(cubin, architecture)
    if isinstance(program, str):
        return Disassembly(problem=program)
    try:
        routines = parse_listing(_reading(program, cubin).listing())
    except subprocess.TimeoutExpired:
        return Disassembly(problem=f"the disassembler did not end within {_SECONDS:g} s")
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return Disassembly(problem=f"the disassembler failed: {said.strip()[:_LONGEST_REASON]}")
    return Disassembly(routines) if routines else Disassembly(problem="the disassembler's output holds no code")
