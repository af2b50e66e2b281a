"""A CUDA driver made of Python, for tests: it computes nothing and keeps time exactly."""
# ruff: noqa: N802, N815  the driver's own names

import ctypes
import itertools
from collections import deque
from types import SimpleNamespace
from typing import Any

NAMES = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 600: "CUDA_ERROR_NOT_READY"}
NAMES |= {700: "CUDA_ERROR_ILLEGAL_ADDRESS", 915: "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"}


class Clock:
    """A host clock that moves when somebody waits or submits."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeDriver:
    """The functions of the driver API that the queue uses, on a GPU that computes nothing and keeps time exactly."""

    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.durations = {"short": 3e-6, "empty": 0.0, "flush": 1e-5, "endless": float("inf"), "faulty": 3e-6}
        self.submit_seconds = 4e-6
        self.free_at = 0.0
        self.places = 1024
        self.pending: deque[float] = deque()
        self.fault_at = float("inf")
        self.events: dict[int, float] = {}
        self.launched: list[Any] = []
        self.depth = 0
        self.captured: list[float] | None = None
        self.graphs: dict[int, list[float]] = {}
        self.shared_limit = 48 * 1024
        self._numbers = itertools.count(1)

    def _status(self) -> int:
        return 700 if self.clock.now >= self.fault_at else 0

    def _submit(self, seconds: float) -> None:
        if self.captured is not None:
            self.captured.append(seconds)
            return
        self.clock.now += self.submit_seconds
        while self.pending and self.pending[0] <= self.clock.now:
            self.pending.popleft()
        if len(self.pending) >= self.places:
            # The host waits for a place, as it does with the real one.
            self.clock.now = self.pending.popleft()
        self.free_at = max(self.free_at, self.clock.now) + seconds
        self.pending.append(self.free_at)

    def cuGetErrorName(self, status: int) -> tuple[int, bytes]:
        return 0, NAMES[status].encode()

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:
        return 0, b"what the driver says of it" if status else b""

    def cuCtxPushCurrent(self, context: str) -> tuple[int]:
        assert context == "context"
        self.depth += 1
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, str]:
        self.depth -= 1
        return 0, "context"

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        assert flags == 0
        assert self.depth == 1
        return 0, next(self._numbers)

    def cuEventDestroy(self, event: int) -> tuple[int]:
        self.events.pop(event, None)
        return (0,)

    def cuEventRecord(self, event: int, stream: str) -> tuple[int]:
        assert stream == "stream"
        self._submit(0.0)
        self.events[event] = self.free_at
        return (0,)

    def cuEventQuery(self, event: int) -> tuple[int]:
        return (self._status() or (0 if self.clock.now >= self.events[event] else 600),)

    def cuEventElapsedTime(self, start: int, end: int) -> tuple[int, float]:
        assert self.clock.now >= self.events[end]
        return 0, (self.events[end] - self.events[start]) * 1e3

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[int]:
        *geometry, shared_bytes, stream, parameters, extra = rest
        assert (stream, parameters) == ("stream", 0)
        self.launched.append((function, tuple(geometry)))
        if geometry[3] * geometry[4] * geometry[5] > 1024 or shared_bytes > self.shared_limit:
            return (1,)
        nanoseconds = int.from_bytes(read_block(extra), "little") if function == "delay" else 0
        self._submit(nanoseconds * 1e-9 if function == "delay" else self.durations[function])
        if function == "faulty":
            self.fault_at = self.free_at
        return (0,)

    def cuKernelSetAttribute(self, attribute: int, value: int, kernel: str, device: int) -> tuple[int]:
        assert (attribute, kernel, device) == (8, "short", 0)
        self.shared_limit = value
        return (0,)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: str) -> tuple[int]:
        assert (target, source, nbytes, stream) == (1, 2, 3, "stream")
        self._submit(1e-6)
        return (0,)

    def cuStreamBeginCapture(self, stream: str, mode: int) -> tuple[int]:
        assert (stream, mode) == ("stream", 1)
        self.captured = []
        return (0,)

    def cuStreamEndCapture(self, stream: str) -> tuple[int, int]:
        assert stream == "stream"
        assert self.captured is not None
        number = next(self._numbers)
        self.graphs[number], self.captured = self.captured, None
        return 0, number

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[int, int]:
        number = next(self._numbers)
        self.graphs[number] = self.graphs[graph]
        assert flags == 0
        return 0, number

    def cuGraphUpload(self, graph: int, stream: str) -> tuple[int]:
        return (0 if graph in self.graphs and stream == "stream" else 1,)

    def cuGraphLaunch(self, graph: int, stream: str) -> tuple[int]:
        assert stream == "stream"
        self._submit(sum(self.graphs[graph]))
        return (0,)

    def cuGraphDestroy(self, graph: int) -> tuple[int]:
        del self.graphs[graph]
        return (0,)

    cuGraphExecDestroy = cuGraphDestroy


def read_block(extra: int) -> bytes:
    """Return the parameter block that an array `extra` of cuLaunchKernel points to."""
    names = ctypes.cast(extra, ctypes.POINTER(ctypes.c_void_p * 5)).contents
    assert (names[0], names[2], names[4]) == (1, 2, None)
    assert names[1] is not None
    assert names[3] is not None
    return ctypes.string_at(names[1], ctypes.c_size_t.from_address(names[3]).value)


class SplittingDriver(FakeDriver):
    """A driver with green contexts: sizes are rounded up to steps of 8, or of 2 with the flag."""

    steps = (8, 2)

    def cuDeviceGetDevResource(self, device: int, kind: int) -> tuple[int, Any]:
        assert (device, kind) == (0, 1)
        return 0, SimpleNamespace(sm=SimpleNamespace(smCount=20))

    def cuDevSmResourceSplitByCount(self, groups: int, whole: Any, flags: int, count: int) -> tuple[Any, ...]:
        step = self.steps[flags]
        given_count = -(-count // step) * step
        if groups != 1 or given_count > whole.sm.smCount:
            return 915, None, None, None
        return 0, [SimpleNamespace(sm=SimpleNamespace(smCount=given_count))], 1, None

    def cuDevResourceGenerateDesc(self, resources: list[Any], count: int) -> tuple[int, Any]:
        assert len(resources) == count == 1
        return 0, resources[0]

    def cuGreenCtxCreate(self, description: Any, device: int, flags: int) -> tuple[int, Any]:
        assert (device, flags) == (0, 1)
        return 0, description

    def cuGreenCtxGetDevResource(self, green: Any, kind: int) -> tuple[int, Any]:
        assert kind == 1
        return 0, green

    def cuCtxFromGreenCtx(self, green: Any) -> tuple[int, Any]:
        return 0, green

    def cuGreenCtxStreamCreate(self, green: Any, flags: int, priority: int) -> tuple[int, str]:
        assert (flags, priority) == (1, 0)
        return 0, f"stream of {green.sm.smCount} SMs"

    def cuStreamDestroy(self, stream: str) -> tuple[int]:
        assert stream.startswith("stream")
        return (0,)

    def cuGreenCtxDestroy(self, green: Any) -> tuple[int]:
        assert green
        return (0,)


class WholeDriver(SplittingDriver):
    """A driver with memory and libraries too, as a CudaDevice needs it; ``live`` holds what was not given back."""

    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_DEFAULT=0)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.live: dict[int, str] = {}
        self.blocks: list[bytes] = []
        """the parameter block of each launch"""
        self.cleared: list[tuple[int, int]] = []
        self.is_clearing = False

    def CUfunction(self, kernel: int) -> str:
        return self.live[kernel]

    def cuDeviceGetPCIBusId(self, length: int, device: int) -> tuple[int, bytes]:
        assert (length, device) == (16, 0)
        return 0, b"0000:3B:00.0\0"

    def cuDeviceTotalMem(self, device: int) -> tuple[int, int]:
        assert device == 0
        return 0, 80 << 30

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, 13000

    def cuDevicePrimaryCtxRelease(self, device: int) -> tuple[int]:
        assert device == 0
        return (0,)

    def cuStreamCreate(self, flags: int) -> tuple[int, str]:
        assert flags == 0
        return 0, "stream"

    def cuCtxFromGreenCtx(self, green: Any) -> tuple[int, str]:
        self.live[id(green)] = "green context"
        return 0, "context"

    def cuGreenCtxStreamCreate(self, green: Any, flags: int, priority: int) -> tuple[int, str]:
        super().cuGreenCtxStreamCreate(green, flags, priority)
        return 0, "stream"

    def cuGreenCtxDestroy(self, green: Any) -> tuple[int]:
        del self.live[id(green)]
        return (0,)

    def cuLibraryLoadData(self, cubin: bytes, *options: Any) -> tuple[int, int]:
        assert cubin.startswith(b"\x7fELF")
        assert options == ([], [], 0, [], [], 0)
        return 0, self._new("library")

    def cuLibraryUnload(self, library: int) -> tuple[int]:
        assert self.live.pop(library) == "library"
        return (0,)

    def cuLibraryGetKernel(self, library: int, name: bytes) -> tuple[int, int]:
        assert self.live[library] == "library"
        kernel = self._new(name.decode())
        return 0, kernel

    def cuKernelGetAttribute(self, attribute: int, kernel: int, device: int) -> tuple[int, int]:
        assert (attribute, device) == (1, 0)
        assert kernel in self.live
        return 0, 0

    def cuMemAlloc(self, nbytes: int) -> tuple[int, int]:
        assert nbytes > 0
        return 0, self._new("memory")

    def cuMemFree(self, address: int) -> tuple[int]:
        assert self.live.pop(address) == "memory"
        return (0,)

    def cuMemsetD8(self, address: int, value: int, nbytes: int) -> tuple[int]:
        assert self.live[address] == "memory"
        assert value == 0
        assert nbytes > 0
        self.cleared.append((address, nbytes))
        self.is_clearing = True
        return (0,)

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        assert stream == 0
        self.is_clearing = False
        return (0,)

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[int]:
        assert not self.is_clearing
        self.blocks.append(read_block(rest[-1]))
        return super().cuLaunchKernel(function, *rest)

    def count(self, kind: str) -> int:
        """Return how many things of a kind were not given back."""
        return sum(each == kind for each in self.live.values())

    def _new(self, kind: str) -> int:
        number = next(self._numbers)
        self.live[number] = kind
        return number


#: What cuda.core says of a GPU with 20 SMs and 50 MiB of L2.
CORE_DEVICE = SimpleNamespace(
    device_id=0,
    uuid="5c2e0b7e-1f7a-4d0c-8d0e-0123456789ab",
    name="NVIDIA Fake",
    compute_capability=(9, 0),
    properties=SimpleNamespace(
        multiprocessor_count=20,
        l2_cache_size=50 << 20,
        clock_rate=1_980_000,
        memory_clock_rate=2_619_000,
        global_memory_bus_width=5120,
        ecc_enabled=1,
    ),
)
