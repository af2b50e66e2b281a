"""A driver for Triton that records: kernels are compiled for a GPU that is not here, and launched on a recorder.

Source of the interface: Triton 3.5 to 3.9, python/triton/backends/driver.py and runtime/jit.py. What differs between
these versions is read from the PTX: how many parameters a kernel has, and the threads of its block.
"""

import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from kerncast.compile.assembler import assemble, variant_for
from kerncast.compile.cubin import read_resources
from kerncast.errors import InputError, UnsupportedError
from kerncast.gpu import GPU
from kerncast.profiles import Resources
from kerncast.scripts.benchmarks import Benchmarks
from kerncast.scripts.entries import Entry, entry_in
from kerncast.scripts.host_arrays import array_of
from kerncast.scripts.late_number import LateNumber
from kerncast.scripts.recorder import Asked, Parameter, Pointer, Recorder, Scratch
from kerncast.scripts.tensor_maps import tiled_map
from kerncast.units import BITS_PER_BYTE, KILO

#: Kernels of Triton have at most so many threads (CUDA C++ Programming Guide, technical specifications).
_MOST_THREADS = 1024
_OLDEST = (3, 5)
_FLOATS = {"fp32": "<f", "f32": "<f", "fp64": "<d", "fp16": "<e"}
_POINTER_BYTES = 8
#: Types of elements that Triton numbers as the instructions do, by the driver's numbers; the others have one number.
_TYPES_OF_DRIVER = {8: 10, 9: 8, 10: 9}
#: Where a GPU's file does not know its bus.
_BUS_BITS = 256


def activate(recorder: Recorder, benchmarks: Benchmarks) -> None:
    """Make the recorder Triton's GPU; raises InputError for a Triton that is too old."""
    import triton  # noqa: PLC0415  an extra

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < _OLDEST:
        cure = "Install a newer one: pip install 'triton>=3.5'."
        raise InputError(f"Triton {triton.__version__} cannot be recorded", cure=cure)
    _without_assembler()
    triton.runtime.driver.set_active(_Driver(recorder, benchmarks))
    benchmarks.take_over(triton)


@contextmanager
def activated(recorder: Recorder, benchmarks: Benchmarks) -> Iterator[None]:
    """Make the recorder Triton's GPU for a time; compiled kernels are kept under its own name."""
    import triton  # noqa: PLC0415  an extra
    from triton.backends.nvidia import compiler  # noqa: PLC0415  an extra

    driver, backend = triton.runtime.driver, compiler.CUDABackend
    before, cubin, digest = driver._active, backend.make_cubin, backend.hash  # noqa: SLF001  there is no other way
    activate(recorder, benchmarks)
    try:
        yield
    finally:
        driver._active = before  # noqa: SLF001  same
        backend.make_cubin, backend.hash = cubin, digest
        benchmarks.give_back()


def _without_assembler() -> None:
    """Let Triton end with PTX: machine code is made by the forecast, for any kernel."""
    from triton.backends.nvidia import compiler  # noqa: PLC0415  an extra

    backend = compiler.CUDABackend
    backend.make_cubin = lambda _self, text, *_told: text.encode()
    # Named in the keys of Triton's cache: what lies there is no machine code.
    backend.hash = lambda self: f"kerncast-{self.target.arch}"


def know_by_files() -> None:
    """Let Triton know its own version by the size and date of its compiler.

    In the keys of its cache it names itself by a digest of all its files, of hundreds of MB, in each new process. A
    script's own cache is not worth that.
    """
    import triton  # noqa: PLC0415  an extra

    cache: Any = sys.modules.get("triton.runtime.cache")
    files = sorted((Path(triton.__file__).parent / "_C").glob("libtriton*"))
    if not files or not hasattr(cache, "triton_key"):
        return
    dates = (f"{each.stat().st_size}-{each.stat().st_mtime_ns}" for each in files)
    key = "-".join([triton.__version__, *dates])
    cache.triton_key = lambda: key


@dataclass(frozen=True, slots=True)
class _Function:
    """A kernel that was loaded."""

    name: str
    ptx: str


def _resources(function: _Function, architecture: str) -> Resources:
    """Return the resources of a kernel, assembled; raises CompileError."""
    variant = variant_for(function.ptx, architecture)
    assembled = assemble(function.ptx.encode(), variant, function.name)
    return read_resources(assembled.cubin, assembled.log, architecture)[function.name]


class _Utils:
    """What Triton asks a driver beside launches."""

    def __init__(self, recorder: Recorder) -> None:
        self._gpu, self._recorder = recorder.shared.settings.gpu, recorder

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[object, ...]:
        """Take a kernel; it is assembled only where the script asks for registers or spills."""
        del shared, device
        function = _Function(name, kernel.decode())
        architecture = self._gpu.architecture.code_name
        registers = LateNumber(lambda: _resources(function, architecture).registers_per_thread)
        spills = LateNumber(lambda: _resources(function, architecture).spill_store_bytes)
        return object(), function, registers, spills, _MOST_THREADS

    def unload_module(self, module: object) -> None:
        """Forget a kernel: what was recorded of it stays."""

    def get_device_properties(self, device: int) -> Mapping[str, int]:
        """Return what kernels are chosen by."""
        del device
        asker = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001  Triton itself asks before each kernel
        if not asker.startswith("triton.compiler"):
            self._recorder.note_asked()
        return device_properties(self._gpu)

    def fill_tma_descriptor_tiled(self, *told: Any) -> tuple[Any, ...]:
        """Return what a tensor map is made of: it is coded when the place of the tensor is known."""
        return told


def device_properties(gpu: GPU) -> dict[str, int]:
    """Return the properties of a GPU as Triton names them; clocks in kHz, the bus in bits."""
    a, bus = gpu.architecture, gpu.dram_bus_bits or _BUS_BITS
    return {
        "max_shared_mem": a.shared_bytes_per_block_optin, "multiprocessor_count": gpu.sm_count,
        "max_num_regs": a.registers_per_sm, "warpSize": 32, "sm_clock_rate": round(gpu.clock_boost_hz / KILO),
        # Two transfers per clock.
        "mem_clock_rate": round(gpu.dram_bytes_per_s / (bus / BITS_PER_BYTE) / 2 / KILO), "mem_bus_width": bus,
    }  # fmt: skip


#: Triton keeps compiled kernels, with what launches them, by the number of a device: each recording is one of its own.
_DEVICES = count()


class _Driver:
    """The active driver of Triton."""

    def __init__(self, recorder: Recorder, benchmarks: Benchmarks) -> None:
        from triton.backends.compiler import GPUTarget  # noqa: PLC0415  an extra

        self._gpu = recorder.shared.settings.gpu
        self._number = next(_DEVICES)
        self._target = GPUTarget("cuda", self._gpu.architecture.number, 32)
        self._benchmarks = benchmarks
        self.utils = _Utils(recorder)
        self.launcher_cls = lambda src, metadata: _Launcher(src, metadata, recorder)

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_device(self) -> int:
        return self._number

    def set_current_device(self, device: int) -> None:
        del device

    def get_current_stream(self, device: int | None = None) -> int:
        del device
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        del device
        return divmod(self._gpu.architecture.number, 10)

    def get_current_target(self) -> Any:
        return self._target

    def get_active_torch_device(self) -> Any:
        import torch  # noqa: PLC0415  an extra

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        torch = sys.modules.get("torch")
        return torch.cuda if torch else SimpleNamespace(synchronize=lambda: None, current_device=lambda: 0)

    def map_python_to_cpp_type(self, name: str) -> str:
        return name

    def get_benchmarker(self) -> Callable[..., Any]:
        return self._benchmarks.do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        return None

    def clear_cache(self, cache: object) -> None:
        """Do nothing: what lies in a cache is the forecast's."""


class _Launcher:
    """Turns a launch of Triton's into one of the recorder's."""

    def __init__(self, src: Any, metadata: Any, recorder: Recorder) -> None:
        self._signature = src.signature
        self._metadata = metadata
        self._recorder = recorder

    def __call__(self, *told: Any) -> None:
        x, y, z, _, function, *_ = told[:9]
        entry = entry_in(function.ptx, function.name)
        if entry.block is None:
            raise UnsupportedError(f"{function.name} does not tell its block", cure="Report it.")
        clusters = getattr(self._metadata, "num_ctas", 1)
        grid = x * clusters, y, z
        own = _Parameters(entry, self._metadata).of(self._signature, told[9:])
        own += self._hidden(entry, len(own), x * y * z * clusters)
        asked = Asked(function.ptx, function.name, grid, entry.block, self._metadata.shared, tuple(own))
        self._recorder.launch(asked)

    def _hidden(self, entry: Entry, count: int, blocks: int) -> list[Parameter]:
        """Return what Triton adds behind the script's parameters: pointers to scratch memory of all blocks."""
        sizes = [getattr(self._metadata, f"{kind}_scratch_size", 0) or 0 for kind in ("global", "profile")]
        left = len(entry.parameters) - count
        return [Scratch(size * blocks) if size else bytes(_POINTER_BYTES) for size in sizes[:left]]


class _Parameters:
    """Arguments of a script as the parameters of a kernel in PTX."""

    def __init__(self, entry: Entry, metadata: Any) -> None:
        self._sizes = entry.parameters
        self._maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
        self._found: list[Parameter] = []

    def of(self, signature: Mapping[str, Any], arguments: Sequence[Any]) -> list[Parameter]:
        """Return the parameters; raises InputError for an argument of no known type."""
        for (name, kind), value in zip(signature.items(), arguments, strict=False):
            self._add(str(name), kind, value)
        return self._found

    def _add(self, name: str, kind: Any, value: Any) -> None:
        if isinstance(kind, tuple):
            for number, (inner, each) in enumerate(zip(kind, value, strict=False)):
                self._add(f"{name}[{number}]", inner, each)
        elif kind == "constexpr":
            return
        elif kind.startswith("tensordesc"):
            self._found += self._of_descriptor(name, value)
        elif kind.startswith("*"):
            self._found.append(_pointer(name, value))
        else:
            self._found.append(self._scalar(name, kind, value))

    def _scalar(self, name: str, kind: str, value: Any) -> bytes:
        try:
            if kind in _FLOATS:
                return struct.pack(_FLOATS[kind], float(value))
            if kind == "bf16":
                return struct.pack("<f", float(value))[2:]
            size = self._sizes[len(self._found)]
            return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        except (TypeError, ValueError, IndexError, struct.error):
            what = f"{name} is {str(value)[:60]!r}, which cannot be passed as {kind}"
            raise InputError(what, cure="Check the arguments of the launch.") from None

    def _of_descriptor(self, name: str, value: Any) -> Iterator[Parameter]:
        """Yield the parameters of a tensor descriptor: a coded map where there is one, else pointer and strides."""
        shape, strides = [int(each) for each in value.shape], [int(each) for each in value.strides]
        own = next(self._maps, None)
        pointer = _pointer(name, value.base)
        if own is not None:
            told = {**own, "elem_type": _TYPES_OF_DRIVER.get(own["elem_type"], own["elem_type"])}
            yield tiled_map(pointer, told, shape, strides, fills_nan=value.padding == "nan")
        else:
            yield pointer
            yield from (each.to_bytes(8, "little") for each in (*shape, *strides))
            flags = [value.padding == "nan", bool(getattr(value, "round_f32_to_tf32", False))]
            begun = len(self._found) + 1 + 2 * len(shape)
            for number, flag in enumerate(flags):
                if self._sizes[begun + number] == 1:
                    yield bytes([flag])
        yield from (each.to_bytes(4, "little") for each in shape)
        yield from (each.to_bytes(8, "little") for each in strides)


def _pointer(name: str, value: Any) -> Pointer | bytes:
    if value is None:
        return bytes(_POINTER_BYTES)
    if isinstance(value, int | np.integer):
        return int(value).to_bytes(_POINTER_BYTES, "little")
    array, offset = array_of(value, name)
    return Pointer(array, offset) if array.nbytes else bytes(_POINTER_BYTES)
