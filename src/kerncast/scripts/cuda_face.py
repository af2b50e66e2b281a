"""The face of a GPU on CPU tensors of torch: a script that asks for ``cuda`` gets memory of this machine.

Nothing of torch is computed on a GPU, and nothing of it is timed: only kernels that the script itself launches are.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self

from kerncast.gpu import GPU
from kerncast.scripts.benchmarks import Benchmarks
from kerncast.units import GIB

_KIND = "cuda"
_DEFAULT_BYTES = 16 * GIB
_FACTORIES = (
    "empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "eye", "tensor",
    "as_tensor", "empty_strided", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "randint_like",
)  # fmt: skip
_METHODS = ("to", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor")


def wear(gpu: GPU, asked: Callable[[], None], benchmarks: Benchmarks) -> None:
    """Let torch seem to have a GPU, in this thread; ``asked`` is told when its properties are asked for."""
    import torch  # noqa: PLC0415  an extra
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415  an extra

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]
        """Makes on the CPU what is asked for on a GPU."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            if func is torch.device:
                return func(*args, **(kwargs or {}))
            named = {name: _on_cpu(each) for name, each in (kwargs or {}).items() if name != "pin_memory"}
            return func(*map(_on_cpu, args), **named)

    OnCpu().__enter__()
    for owner, names in ((torch, _FACTORIES), (torch.Tensor, _METHODS)):
        for name in names:
            setattr(owner, name, _made_on_cpu(getattr(owner, name)))
    _dress_tensors(torch)
    _Event.benchmarks = benchmarks
    _dress_cuda(torch.cuda, torch, gpu)
    properties = _properties(gpu)

    def answer(*_: Any, **__: Any) -> SimpleNamespace:
        asked()
        return properties

    torch.cuda.get_device_properties = answer


def _made_on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch's that makes its tensor here: where autograd goes backwards, no mode holds."""

    @functools.wraps(function)
    def made(*arguments: Any, **named: Any) -> Any:
        own = {name: _on_cpu(each) for name, each in named.items() if name != "pin_memory"}
        return function(*map(_on_cpu, arguments), **own)

    return made


def _on_cpu(value: Any) -> Any:
    kind = getattr(value, "type", None)
    if isinstance(value, str):
        return "cpu" if value.partition(":")[0] == _KIND else value
    if kind == _KIND and type(value).__name__ == "device":
        return "cpu"
    return value


def _dress_tensors(torch: Any) -> None:
    tensor, here = torch.Tensor, torch.device(_KIND, 0)
    tensor.device = property(lambda _: here)
    tensor.is_cuda = property(lambda _: True)
    tensor.get_device = lambda _: 0
    tensor.cuda = lambda self, *_, **__: self
    tensor.pin_memory = lambda self, *_, **__: self
    tensor.record_stream = lambda *_: None
    torch.Generator = _generators(torch.Generator)


def _generators(own: Any) -> Any:
    """Return a class that makes generators of random numbers of the CPU."""

    class OfGenerators(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, own)

    class Generator(metaclass=OfGenerators):
        def __new__(cls, device: Any = None) -> Any:
            del device
            return own("cpu")

    return Generator


class _Event:
    """An event of a stream: between two of them passes the forecast of the launches between them."""

    benchmarks: Benchmarks

    def __init__(self, *_: Any, **__: Any) -> None:
        self.place = 0

    def record(self, *_: Any) -> None:
        self.place = self.benchmarks.mark()

    def synchronize(self) -> None:
        pass

    def wait(self, *_: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: "_Event") -> float:
        return self.benchmarks.milliseconds_between(self.place, end.place)


class _Stream(_Event):
    cuda_stream = 0

    def wait_event(self, *_: Any) -> None:
        pass

    def wait_stream(self, *_: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


def _dress_cuda(cuda: Any, torch: Any, gpu: GPU) -> None:
    properties = _properties(gpu)
    total = properties.total_memory
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True, "is_bf16_supported": True,
        "is_current_stream_capturing": False, "get_device_name": properties.name, "memory_allocated": 0,
        "get_device_capability": (properties.major, properties.minor), "mem_get_info": (total, total),
        "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0, "current_stream": _Stream(),
        "default_stream": _Stream(), "init": None, "synchronize": None, "set_device": None, "empty_cache": None,
        "set_stream": None, "ipc_collect": None, "reset_peak_memory_stats": None, "reset_max_memory_allocated": None,
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(cuda, name, lambda *_, answer=answer, **__: answer)

    def seed(number: int) -> None:
        torch.random.default_generator.manual_seed(int(number))

    cuda.manual_seed = cuda.manual_seed_all = seed
    cuda.Event, cuda.Stream, cuda.stream, cuda.device = _Event, _Stream, _nothing, _nothing
    cuda.device_of = cuda._DeviceGuard = _nothing  # noqa: SLF001  kernels of Inductor name it
    cuda._exchange_device = cuda._maybe_exchange_device = lambda _number: 0  # noqa: SLF001  same
    torch._C._cuda_getCurrentRawStream = lambda _number: 0  # noqa: SLF001  kernels that Inductor wrote name it
    torch._C._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(  # noqa: SLF001  same
        size, stride, dtype=dtype
    )
    cuda._lazy_init = lambda: None  # noqa: SLF001  what asks for it asks for nothing else


def _properties(gpu: GPU) -> SimpleNamespace:
    a = gpu.architecture
    major, minor = divmod(a.number, 10)
    return SimpleNamespace(
        name=f"NVIDIA {gpu.name}", major=major, minor=minor, multi_processor_count=gpu.sm_count,
        total_memory=gpu.memory_bytes or _DEFAULT_BYTES, warp_size=32, L2_cache_size=gpu.l2_bytes or 0,
        max_threads_per_multi_processor=a.max_threads_per_sm, regs_per_multiprocessor=a.registers_per_sm,
        shared_memory_per_block=a.shared_bytes_per_block, shared_memory_per_block_optin=a.shared_bytes_per_block_optin,
        shared_memory_per_multiprocessor=a.shared_bytes_per_sm, gcnArchName="",
    )  # fmt: skip
