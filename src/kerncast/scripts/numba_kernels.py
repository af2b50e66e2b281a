"""Kernels of Numba, recorded: compiled to PTX for a GPU that is not here, on arrays of NumPy.

Source of the interface: numba-cuda 0.30, numba/cuda/dispatcher.py (launches, arguments) and compiler.py (PTX). An array
is seven words or more: two that are not used, its count, the bytes of one element, its address, shape and strides.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncast.compile.assembler import entries_of
from kerncast.errors import InputError, UnsupportedError
from kerncast.launch import Extent
from kerncast.scripts.host_arrays import array_of
from kerncast.scripts.recorder import Asked, Parameter, Pointer, Recorder

_WORD = struct.Struct("<q")
_COMPLEX = {"complex64": "<2f", "complex128": "<2d"}
_SCALARS = {"float16": "<e", "float32": "<f", "float64": "<d"}
#: Where forall names no threads for a block, it asks the driver, which is not here.
_THREADS_OF_FORALL = 256
_MOST_DIMENSIONS = 3


class DeviceArray(np.ndarray[Any, Any]):
    """An array of the GPU's: memory of this machine."""

    def copy_to_host(self, ary: Any = None, stream: object = 0) -> Any:
        """Return a copy, or write it to an array."""
        del stream
        if ary is None:
            return np.array(self)
        np.copyto(ary, self)
        return ary

    def copy_to_device(self, ary: Any, stream: object = 0) -> None:
        """Take what another array holds."""
        del stream
        np.copyto(self, np.asarray(ary).reshape(self.shape))


Patch = tuple[Any, str, Any]
"""object, attribute, and the value that it gets"""


def install(recorder: Recorder) -> None:
    """Make the recorder Numba's GPU; raises InputError for a Numba without the package of its kernels."""
    for owner, name, value in _patches(recorder):
        setattr(owner, name, value)


@contextmanager
def installed(recorder: Recorder) -> Iterator[None]:
    """Make the recorder Numba's GPU for a time."""
    patches = _patches(recorder)
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in patches]
    install(recorder)
    try:
        yield
    finally:
        for owner, name, value in before:
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def _patches(recorder: Recorder) -> list[Patch]:
    try:
        cuda: Any = import_module("numba.cuda")
        kind: Any = import_module("numba.cuda.dispatcher").CUDADispatcher
    except ImportError as error:
        cure = "Install it: pip install 'numba-cuda[cu12]'."
        raise InputError(f"Numba's kernels cannot be compiled here ({error})", cure=cure) from None

    def configure(own: Any, grid: Any, block: Any, stream: object = 0, sharedmem: int = 0) -> _Configured:
        del stream
        return _Configured(own, recorder, (grid, block, sharedmem))

    def forall(own: Any, tasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0) -> _Configured:
        threads = tpb or _THREADS_OF_FORALL
        return configure(own, -(-tasks // threads), threads, stream, sharedmem)

    def call(own: Any, arguments: Any, shape: Any) -> None:  # of a launcher that was made before
        _Configured(own, recorder, (shape.griddim, shape.blockdim, shape.sharedmem))(*arguments)

    answers = {
        "configure": configure, "forall": forall, "call": call,
        "compile": lambda _own, _types: None,  # signatures are those of the launches' arguments
    }  # fmt: skip

    def of_tasks(own: Any, *arguments: Any) -> None:  # same
        forall(own.dispatcher, own.ntasks, own.thread_per_block, 0, own.sharedmem)(*arguments)

    own = [(kind, name, answer) for name, answer in answers.items()]
    own.append((import_module("numba.cuda.dispatcher").ForAll, "__call__", of_tasks))
    return [*own, *((cuda, name, answer) for name, answer in _face(recorder).items())]


class _Configured:
    """A kernel with its grid."""

    def __init__(self, dispatcher: Any, recorder: Recorder, shape: tuple[Any, Any, Any]) -> None:
        self._dispatcher, self._recorder = dispatcher, recorder
        grid, block, shared = shape
        self._grid, self._block, self._shared = _extent(grid, "grid"), _extent(block, "block"), int(shared)

    def __call__(self, *arguments: Any) -> None:
        dispatcher = self._dispatcher
        types = tuple(dispatcher.typeof_pyval(each) for each in arguments)
        name = dispatcher.py_func.__name__
        parameters = tuple(
            each
            for kind, value, number in zip(types, arguments, range(len(arguments)), strict=True)
            for each in _parameters(kind, value, f"argument {number} of {name}")
        )
        text = _compiled(dispatcher, types, self._recorder.shared.settings.gpu.architecture.number)
        asked = Asked(text, name, self._grid, self._block, self._shared, parameters)
        self._recorder.launch(asked)


def _extent(value: Any, what: str) -> Extent:
    numbers = [int(each) for each in (value if isinstance(value, tuple | list) else (value,))]
    if not 1 <= len(numbers) <= _MOST_DIMENSIONS:
        raise InputError(f"a {what} has {len(numbers)} dimensions", cure="Give one to three numbers.")
    x, y, z = (*numbers, 1, 1)[:_MOST_DIMENSIONS]
    return x, y, z


def _compiled(dispatcher: Any, types: tuple[Any, ...], architecture: int) -> str:
    """Return the PTX of a kernel for arguments of some types, with its own name."""
    cuda: Any = import_module("numba.cuda")
    known = dispatcher.__dict__.setdefault("_kerncast", {})
    key = types, architecture
    if key not in known:
        options = dispatcher.targetoptions
        chosen = {name: options[name] for name in ("fastmath", "opt", "launch_bounds") if options.get(name) is not None}
        capability = divmod(architecture, 10)
        text, _ = cuda.compile_ptx(dispatcher.py_func, types, lineinfo=True, cc=capability, **chosen)
        if isinstance(text, bytes):
            text = text.decode()
        (mangled,) = entries_of(text)
        known[key] = text.replace(mangled, dispatcher.py_func.__name__)
    found: str = known[key]
    return found


def _parameters(kind: Any, value: Any, name: str) -> Iterator[Parameter]:
    """Yield the parameters in PTX that one argument becomes."""
    text = type(kind).__name__
    if text == "Array":
        yield from _of_array(np.asarray(value), name)
    elif hasattr(kind, "bitwidth") and str(kind).startswith(("int", "uint")):
        yield (int(value) & ((1 << kind.bitwidth) - 1)).to_bytes(kind.bitwidth // 8, "little")
    elif str(kind) in _SCALARS:
        yield struct.pack(_SCALARS[str(kind)], float(value))
    elif str(kind) == "bool":
        yield bytes([bool(value)])
    elif str(kind) in _COMPLEX:
        whole = struct.pack(_COMPLEX[str(kind)], value.real, value.imag)
        yield from (whole[: len(whole) // 2], whole[len(whole) // 2 :])
    elif isinstance(value, tuple):
        for number, (inner, each) in enumerate(zip(kind, value, strict=True)):
            yield from _parameters(inner, each, f"{name}[{number}]")
    else:
        cure = "Pass arrays, numbers and tuples of them."
        raise UnsupportedError(f"{name} is of Numba's type {str(kind)[:60]}, which is not recorded", cure=cure)


def _of_array(value: npt.NDArray[Any], name: str) -> Iterator[Parameter]:
    array, offset = array_of(value, name)
    yield from (bytes(8), bytes(8), _WORD.pack(value.size), _WORD.pack(value.itemsize))
    yield Pointer(array, offset) if array.nbytes else bytes(8)
    yield from (_WORD.pack(each) for each in (*value.shape, *value.strides))


def _face(recorder: Recorder) -> Mapping[str, Callable[..., Any]]:
    """Return Numba's interface to the GPU, which works on memory of this machine."""
    gpu = recorder.shared.settings.gpu
    capability = divmod(gpu.architecture.number, 10)

    def device() -> SimpleNamespace:
        recorder.note_asked()
        return SimpleNamespace(
            compute_capability=capability, MULTIPROCESSOR_COUNT=gpu.sm_count, name=gpu.name.encode(), id=0,
            WARP_SIZE=32, MAX_THREADS_PER_BLOCK=gpu.architecture.max_threads_per_block, reset=lambda: None,
        )  # fmt: skip

    def made(like: Any, *_: Any, **__: Any) -> DeviceArray:
        return np.empty_like(np.asarray(like)).view(DeviceArray)

    def moved(value: Any, stream: object = 0, copy: bool = True, to: Any = None) -> Any:
        del stream, copy
        if to is None:
            return np.array(value).view(DeviceArray)
        to.copy_to_device(value)
        return to

    def empty(shape: Any, dtype: Any = np.float64, *_: Any, **__: Any) -> DeviceArray:
        return np.empty(shape, dtype).view(DeviceArray)

    return {
        "to_device": moved, "device_array": empty, "pinned_array": empty, "mapped_array": empty, "managed_array": empty,
        "device_array_like": made, "pinned_array_like": made, "as_cuda_array": lambda value, **_: value,
        "is_cuda_array": lambda value: isinstance(value, DeviceArray), "synchronize": lambda *_: None,
        "is_available": lambda: True, "detect": lambda: True, "get_current_device": device, "close": lambda: None,
        "select_device": lambda _number: device(), "stream": _Stream, "default_stream": _Stream, "event": _Event,
        "event_elapsed_time": lambda _start, _end: float("nan"),
    }  # fmt: skip


class _Event:
    """An event of a stream: no time passes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, stream: object = 0) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def elapsed_time(self, end: object) -> float:
        """Return no time."""
        del end
        return float("nan")


class _Stream(_Event):
    def auto_synchronize(self) -> Any:
        """Return a context in which nothing is done."""
        from contextlib import nullcontext  # noqa: PLC0415

        return nullcontext(self)
