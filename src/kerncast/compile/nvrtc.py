"""NVRTC, the CUDA compiler as a library, through ctypes: nothing but the wheel's own .so is needed.

The functions and their meaning: https://docs.nvidia.com/cuda/nvrtc/ (section 3, User Interface).
"""

import ctypes
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kerncast.compile.headers import package_folders
from kerncast.compile.wheels import cure_for_broken
from kerncast.errors import CompileError

#: By the major version: wheel, library and the built-in functions that it loads, on Linux and on Windows.
_LIBRARIES = {
    11: ("nvidia-cuda-nvrtc-cu11", "libnvrtc.so.11.2", "libnvrtc-builtins.so.11.8",
         "nvrtc64_112_0.dll", "nvrtc-builtins64_118.dll"),
    12: ("nvidia-cuda-nvrtc-cu12", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9",
         "nvrtc64_120_0.dll", "nvrtc-builtins64_129.dll"),
}  # fmt: skip

_Program = ctypes.c_void_p
_Size = ctypes.POINTER(ctypes.c_size_t)
_Texts = ctypes.POINTER(ctypes.c_char_p)
_SIGNATURES: dict[str, list[object]] = {
    "nvrtcVersion": [ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)],
    "nvrtcGetNumSupportedArchs": [ctypes.POINTER(ctypes.c_int)],
    "nvrtcGetSupportedArchs": [ctypes.POINTER(ctypes.c_int)],
    "nvrtcCreateProgram": [
        ctypes.POINTER(_Program), ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, _Texts, _Texts,
    ],
    "nvrtcDestroyProgram": [ctypes.POINTER(_Program)],
    "nvrtcAddNameExpression": [_Program, ctypes.c_char_p],
    "nvrtcCompileProgram": [_Program, ctypes.c_int, _Texts],
    "nvrtcGetLoweredName": [_Program, ctypes.c_char_p, _Texts],
    "nvrtcGetProgramLogSize": [_Program, _Size],
    "nvrtcGetProgramLog": [_Program, ctypes.c_char_p],
    "nvrtcGetPTXSize": [_Program, _Size],
    "nvrtcGetPTX": [_Program, ctypes.c_char_p],
    "nvrtcGetCUBINSize": [_Program, _Size],
    "nvrtcGetCUBIN": [_Program, ctypes.c_char_p],
}  # fmt: skip


class NvrtcError(Exception):
    """NVRTC refuses: the status in words, and the log where there is one."""

    def __init__(self, status: str, log: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.log = log


@dataclass(frozen=True, slots=True)
class Unit:
    """The text to compile, and what its #include lines may find in memory."""

    text: bytes
    name: str
    """path of the source, for messages and line information"""
    headers: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Image:
    """The result of one compilation."""

    ptx: str
    cubin: bytes
    log: str
    lowered: dict[str, str]
    """mangled name of each name expression"""


class Nvrtc:
    """One version of NVRTC; several may live in one process."""

    def __init__(self, library: Path, builtins: Path) -> None:
        # Loaded first and by its full path: otherwise a toolkit in LD_LIBRARY_PATH could supply another one.
        self._builtins = ctypes.CDLL(str(builtins))
        self._library = ctypes.CDLL(str(library))
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_int
        self._library.nvrtcGetErrorString.argtypes = [ctypes.c_int]
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> str:
        """Major and minor version, such as 12.9."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    @property
    def architectures(self) -> tuple[int, ...]:
        """Numbers of the architectures that it compiles for, such as 70."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        numbers = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(numbers))
        return tuple(numbers)

    def compile(self, unit: Unit, options: Sequence[str], names: Sequence[str] = ()) -> Image:
        """Compile a text to PTX and machine code; raises NvrtcError with the log."""
        with self._program(unit) as program:
            for name in names:
                self._check(self._library.nvrtcAddNameExpression(program, name.encode()))
            status = self._library.nvrtcCompileProgram(program, len(options), _texts(options))
            log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            self._check(status, log)
            return Image(
                ptx=self._read(program, "PTX").rstrip(b"\0").decode(errors="replace"),
                cubin=self._read(program, "CUBIN"),
                log=log,
                lowered={name: self._lowered(program, name) for name in names},
            )

    @contextmanager
    def _program(self, unit: Unit) -> Iterator[ctypes.c_void_p]:
        program = _Program()
        contents = (ctypes.c_char_p * len(unit.headers))(*unit.headers.values())
        names = _texts(list(unit.headers))
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), unit.text, unit.name.encode(), len(unit.headers), contents, names
            )
        )
        try:
            yield program
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw[: size.value]

    def _lowered(self, program: ctypes.c_void_p, name: str) -> str:
        text = ctypes.c_char_p()
        self._check(self._library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(text)))
        return (text.value or b"").decode()

    def _check(self, status: int, log: str = "") -> None:
        if status:
            raise NvrtcError(self._library.nvrtcGetErrorString(status).decode(), log)


def library_paths(major: int) -> tuple[Path, Path] | None:
    """Return the paths of NVRTC and of its built-in functions, or None where the wheel is not installed."""
    _, *names = _LIBRARIES[major]
    for folder in package_folders("nvidia.cuda_nvrtc"):
        for place, (library, builtins) in (("lib", names[:2]), ("bin", names[2:])):
            paths = folder / place / library, folder / place / builtins
            if all(path.is_file() for path in paths):
                return paths
    return None


def wheel(major: int) -> str:
    """Return the name of the package that holds this NVRTC."""
    return _LIBRARIES[major][0]


@cache
def load(major: int) -> Nvrtc | None:
    """Return the NVRTC of one major version, or None where its wheel is not installed.

    Raises CompileError where it cannot be loaded.
    """
    paths = library_paths(major)
    if paths is None:
        return None
    if sys.platform == "win32":
        import os  # noqa: PLC0415

        os.add_dll_directory(str(paths[0].parent))
    try:
        return Nvrtc(*paths)
    except (OSError, AttributeError) as error:
        raise CompileError(
            f"the CUDA compiler NVRTC cannot be loaded ({error})", cure=cure_for_broken(wheel(major))
        ) from None


def _texts(texts: Sequence[str]) -> "ctypes.Array[ctypes.c_char_p]":
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


PARSER = "libclang"


def load_part(part: str) -> str:
    """Load NVRTC by its major version, or libclang; raises CompileError where that fails."""
    if part == PARSER:
        _load_parser()
        return part
    compiler = load(int(part))
    if compiler is None:
        raise CompileError("is not installed")
    return str(compiler.version)


def _load_parser() -> None:
    if importlib.util.find_spec("clang") is None:
        raise CompileError("is not installed")
    from kerncast.compile.source import parsing  # noqa: PLC0415  needs libclang

    parsing.new_index()
