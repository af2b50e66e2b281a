"""Kernels of CuPy, recorded: a stand-in for the package, whose arrays are NumPy's and whose raw kernels go to NVRTC.

Source of the interface: CuPy 13 and 14, user guide "User-Defined Kernels" (RawKernel, RawModule). CuPy itself makes no
array without a driver, so that it is not asked for.
"""

import re
import struct
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from kerncast.compile import CompiledKernel, CompileRequest, compile_request
from kerncast.errors import InputError, UnsupportedError
from kerncast.launch import DEFAULT_STANDARD, Extent
from kerncast.scripts.host_arrays import array_of
from kerncast.scripts.recorder import Asked, Parameter, Pointer, Recorder

_DEFINE = re.compile(r"-D\s*(\w+)(?:=(.*))?", re.DOTALL)
_STANDARD = re.compile(r"--?std=(c\+\+\d\d)")
#: Options that change nothing here.
_IGNORED = re.compile(r"--?(?:O\d|use[-_]fast[-_]math|lineinfo|restrict|G|w|ftz=\w+|prec-\w+=\w+|fmad=\w+)")


class _Module(ModuleType):
    """The package: what it does not have is NumPy's."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(np, name)
        except AttributeError:
            cure = "Use arrays, functions that NumPy has, RawKernel and RawModule."
            raise UnsupportedError(f"cupy.{name} is not recorded", cure=cure) from None


def install(recorder: Recorder) -> None:
    """Put the stand-in in CuPy's place, for scripts that are imported from now on."""
    module = _Module("cupy")
    stream = SimpleNamespace(synchronize=lambda: None, null=None, ptr=0, use=lambda: None)
    runtime = SimpleNamespace(deviceSynchronize=lambda: None, getDeviceCount=lambda: 1, getDevice=lambda: 0)
    told: dict[str, Any] = {
        "RawKernel": lambda code, name, options=(), **_: RawKernel(recorder, str(code), str(name), options),
        "RawModule": lambda code=None, options=(), **_: RawModule(recorder, str(code), options),
        "asnumpy": lambda value, **_: np.array(value), "get_array_module": lambda *_: module, "ndarray": np.ndarray,
        "is_available": lambda: True,
        "cuda": SimpleNamespace(
            Stream=lambda *_, **__: stream, get_current_stream=lambda: stream, runtime=runtime,
            is_available=lambda: True,
            Device=lambda *_: nullcontext(SimpleNamespace(synchronize=lambda: None)),
        ),
    }  # fmt: skip
    for name, value in told.items():
        setattr(module, name, value)
    stream.null = stream
    sys.modules["cupy"] = module


class RawModule:
    """A source with kernels."""

    def __init__(self, recorder: Recorder, code: str, options: Sequence[str]) -> None:
        self._recorder, self._code, self._options = recorder, code, options

    def get_function(self, name: str) -> "RawKernel":
        """Return a kernel of the source, which may be an instance of a template."""
        return RawKernel(self._recorder, self._code, name, self._options)


class RawKernel:
    """A kernel in CUDA C++."""

    def __init__(self, recorder: Recorder, code: str, name: str, options: Sequence[str]) -> None:
        self._recorder, self.code, self.name, self.options = recorder, code, name, tuple(options)
        self._compiled: CompiledKernel | None = None

    def __call__(self, grid: Any, block: Any, args: Sequence[Any], *, shared_mem: int = 0, **_: Any) -> None:
        """Launch it."""
        if self._compiled is None:
            self._compiled = self._compile()
        parameters = tuple(_parameter(each, f"argument {n} of {self.name}") for n, each in enumerate(args))
        ptx, name = self._compiled.ptx, self._compiled.mangled
        own = self.name if self.name.isidentifier() else name
        asked = Asked(ptx.replace(name, own), own, _extent(grid), _extent(block), int(shared_mem), parameters)
        self._recorder.launch(asked)

    def compile(self, *_: Any, **__: Any) -> None:
        """Compile it, as a launch would."""
        self._compiled = self._compile()

    def _compile(self) -> CompiledKernel:
        place = Path(tempfile.gettempdir()) / f"{re.sub(r'[^A-Za-z0-9_]', '_', self.name)[:40]}.cu"
        place.write_text(self.code, encoding="utf-8")
        architecture = self._recorder.shared.settings.gpu.architecture.code_name
        fast = any(re.fullmatch(r"--?use[-_]fast[-_]math", each) for each in self.options)
        defines, folders, standard = _options(self.options)
        request = CompileRequest(
            place, (architecture,), self.name, defines=defines, include_dirs=folders, standard=standard, fast_math=fast
        )
        return compile_request(request).kernels[0]


def _options(options: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], tuple[Path, ...], str]:
    """Return macros, folders of headers and the standard; raises InputError for an option that is not known."""
    defines, folders, standard = [], [], DEFAULT_STANDARD
    for each in options:
        if found := _DEFINE.fullmatch(each):
            defines.append((found[1], found[2] or "1"))
        elif each.startswith("-I"):
            folders.append(Path(each[2:].strip()))
        elif found := _STANDARD.fullmatch(each):
            standard = found[1]
        elif not _IGNORED.fullmatch(each):
            raise InputError(f"the option {each[:60]!r} of a raw kernel is not known", cure="Leave it out.")
    return tuple(defines), tuple(folders), standard


def _extent(value: Any) -> Extent:
    x, y, z = (*(int(each) for each in value), 1, 1)[:3]
    return x, y, z


def _parameter(value: Any, name: str) -> Parameter:
    """Return what CuPy passes: an array by its address, a number in the bytes of its type."""
    if isinstance(value, np.ndarray):
        array, offset = array_of(value, name)
        return Pointer(array, offset) if array.nbytes else bytes(8)
    if value is None or isinstance(value, np.generic):
        raw: bytes = bytes(8) if value is None else value.tobytes()
        return raw
    if isinstance(value, bool | int):
        size = 1 if isinstance(value, bool) else 8
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if isinstance(value, float | complex):
        return struct.pack("<d", value) if isinstance(value, float) else struct.pack("<2d", value.real, value.imag)
    cure = "Pass arrays and numbers."
    raise InputError(f"{name} cannot be passed to a raw kernel ({type(value).__name__})", cure=cure)
