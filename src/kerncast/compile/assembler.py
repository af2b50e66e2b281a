"""PTX to machine code by nvJitLink, for kernels that come as PTX: its assembler is that of the compiler.

Source of the interface: nvJitLink 12.9 API reference. The log is that of ptxas, which tells of spills.
"""

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kerncast.compile.headers import package_folders
from kerncast.compile.wheels import cure_for_missing
from kerncast.errors import CompileError

WHEEL = "nvidia-nvjitlink-cu12"
_NAMES = ("lib/libnvJitLink.so.12", "bin/nvJitLink_120_0.dll")
_VERSION = "12_9"
_PTX_INPUT = 2
_ERROR = re.compile(r"ptxas [^\n]*?, line (\d+); (?:error|fatal)\s*: ([^\n]+)")
_FAULT = re.compile(r"(?:ptxas fatal|error)\s*:\s*([^\n]+)")
_ENTRY = re.compile(r"^\s*(?:\.(?:visible|weak)\s+)*\.entry\s+([\w$.@]+)", re.MULTILINE)
#: The newest version of PTX that this assembler reads. Text of a newer compiler mostly uses nothing newer: what it does
#: use is then refused by name.
_NEWEST = (8, 8)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_PTX_VERSION = re.compile(rb"^(\s*\.version\s+)(\d+)\.(\d+)", re.MULTILINE)
_LONGEST = 300
_MANGLED = re.compile(r"(_Z\w{38})\w+")


@dataclass(frozen=True, slots=True)
class Assembled:
    """Machine code, and what the assembler said."""

    cubin: bytes
    log: str


def library_path() -> Path | None:
    """Return the path of nvJitLink, or None where its wheel is not installed."""
    for folder in package_folders("nvidia.nvjitlink"):
        for name in _NAMES:
            if (folder / name).is_file():
                return folder / name
    return None


def entries_of(ptx: str) -> tuple[str, ...]:
    """Return the names of the kernels in a text of PTX.

    >>> entries_of(".visible .entry saxpy(.param .u64 x) { ret; }")
    ('saxpy',)
    """
    return tuple(_ENTRY.findall(ptx))


def variant_for(ptx: str, architecture: str) -> str:
    """Return an architecture with the letter that PTX made for it has: what only this one can do is code for it alone.

    >>> variant_for(".target sm_90a", "sm_90"), variant_for(".target sm_90a", "sm_100")
    ('sm_90a', 'sm_100')
    """
    found = _TARGET.search(ptx)
    return found[1] if found and found[1].rstrip("af") == architecture else architecture


def assemble(ptx: bytes, architecture: str, source: str) -> Assembled:
    """Return the machine code of PTX for an architecture such as sm_90; raises CompileError."""
    library = _library()
    if library is None:
        raise CompileError("nvJitLink, which assembles PTX, is not installed", cure=cure_for_missing(WHEEL))
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 4)(f"-arch={architecture}".encode(), b"-lineinfo", b"-verbose", b"-Xptxas=-v")
    status = library.create(ctypes.byref(handle), len(options), options)
    if status:
        raise CompileError(f"no code can be made for {architecture}", where=source, cure="Choose another GPU.")
    try:
        ptx = _readable(ptx)
        failed = library.add(handle, _PTX_INPUT, ptx, len(ptx), b"kernel.ptx") or library.complete(handle)
        if failed:
            raise failure(library.read(handle, "ErrorLog"), architecture, source)
        return Assembled(library.read(handle, "LinkedCubin"), library.read(handle, "InfoLog").decode(errors="replace"))
    finally:
        library.destroy(ctypes.byref(handle))


def _readable(ptx: bytes) -> bytes:
    """Return PTX that calls itself no newer than the assembler is."""

    def lowered(match: re.Match[bytes]) -> bytes:
        version = min(_NEWEST, (int(match[2]), int(match[3])))
        return match[1] + b"%d.%d" % version

    return _PTX_VERSION.sub(lowered, ptx, count=1)


class _Library:
    """The functions of nvJitLink."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.create = self._function("Create", ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32, ctypes.c_void_p)
        self.add = self._function(
            "AddData", ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p
        )
        self.complete = self._function("Complete", ctypes.c_void_p)
        self.destroy = self._function("Destroy", ctypes.POINTER(ctypes.c_void_p))

    def read(self, handle: ctypes.c_void_p, what: str) -> bytes:
        """Return a log or the machine code."""
        size = ctypes.c_size_t()
        ask = self._function(f"Get{what}Size", ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))
        get = self._function(f"Get{what}", ctypes.c_void_p, ctypes.c_char_p)
        if ask(handle, ctypes.byref(size)):
            return b""
        room = ctypes.create_string_buffer(max(size.value, 1))
        get(handle, room)
        return room.raw[: size.value] if what == "LinkedCubin" else room.raw.rstrip(b"\0")

    def _function(self, name: str, *arguments: object) -> Any:
        function = getattr(self._library, f"__nvJitLink{name}_{_VERSION}")
        function.argtypes, function.restype = list(arguments), ctypes.c_int
        return function


@cache
def _library() -> _Library | None:
    path = library_path()
    if path is None:
        return None
    try:
        return _Library(path)
    except (OSError, AttributeError) as error:
        raise CompileError(f"nvJitLink cannot be loaded ({error})", cure=cure_for_missing(WHEEL)) from None


def failure(log: bytes, architecture: str, source: str) -> CompileError:
    """Return what an assembler's log says of PTX that it refuses."""
    text = _MANGLED.sub(r"\1…", log.decode(errors="replace"))
    found = _ERROR.search(text)
    if found:
        return CompileError(found[2][:_LONGEST], where=f"{source}:{found[1]}", cure="Mend the PTX.")
    fault = _FAULT.search(text)
    what = fault[1][:_LONGEST] if fault else "the assembler refuses it"
    if "regcount" in what:
        cure = "A function that the kernel calls needs more registers than its warps have: declare it __forceinline__."
        return CompileError(what, where=source, cure=cure)
    cure = (
        f"PTX runs on the architecture it was made for and newer ones: choose another GPU than one of {architecture}."
    )
    return CompileError(what, where=source, cure=cure)
