"""The harness's interface on a real GPU.

cuda.core names the GPU and holds its context. Everything that has to outlive a kernel that does not end (streams,
events, libraries, memory) is asked of the driver directly, since nothing then waits for that kernel at the end.
"""

import contextlib
import itertools
import struct
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from kerncast.bench import KERNELS
from kerncast.bench.cuda.driver import INSTALL, Driver, load_driver
from kerncast.bench.cuda.queue import Lane, LoadedKernel, Queue
from kerncast.bench.cuda.telemetry import Telemetry, gpu_uuid, machine_facts
from kerncast.bench.device import Bytes, Call, Step
from kerncast.compile import CompiledKernel, compile_source
from kerncast.errors import BudgetExceededError, DeviceLostError, InputError, KerncastError, Refusal, UnsupportedError
from kerncast.measurements import ClockState, Machine
from kerncast.units import MIB, format_bytes

# Parts of the GPU: green contexts, whose launches run on some of the SMs alone.
#
# Sizes are what a split really gives, never what a table says. NVIDIA's guideline (CUDA driver API 12.9, section Green
# Contexts) is: at least 1 SM on compute capability 6.x; 2 on 7.x, in steps of 2; 4 on 8.x, in steps of 2; 8 on 9.0 and
# newer, in steps of 8. CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING lowers both, at the cost of large clusters.


#: CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, whose enumeration has another name in each version of the bindings.
_IGNORE_COSCHEDULING = 1
#: CU_GREEN_CTX_DEFAULT_STREAM, which is required, and CU_STREAM_NON_BLOCKING.
_DEFAULT_STREAM = _NON_BLOCKING = 1


class Partition:
    """A green context of some SMs."""

    def __init__(self, driver: Driver, device: int, resource: Any) -> None:
        self._driver = driver
        description = driver.call("cuDevResourceGenerateDesc", [resource], 1)
        self._green = driver.call("cuGreenCtxCreate", description, device, _DEFAULT_STREAM)
        self.sm_count = int(driver.call("cuGreenCtxGetDevResource", self._green, _sm_type(driver)).sm.smCount)
        self.context = driver.call("cuCtxFromGreenCtx", self._green)
        # Made with the context current: an event and the stream that records it must be of one context.
        self.stream = driver.call("cuGreenCtxStreamCreate", self._green, _NON_BLOCKING, 0)

    def close(self) -> None:
        """Give the stream and the green context back, in this order: a context does not take its streams along."""
        self._driver.call("cuStreamDestroy", self.stream)
        self._driver.call("cuGreenCtxDestroy", self._green)


class Partitions:
    """The parts that the SMs of a GPU can be split into."""

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver = driver
        self._device = device
        self._splits: dict[int, int] | None = None
        """flags of the split that gives each number of SMs; None before any was tried"""

    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of SMs that a split gives exactly, ascending."""
        if self._splits is None:
            self._splits = self._probe()
        return tuple(sorted(self._splits))

    def create(self, sm_count: int) -> Partition:
        """Make a partition of so many SMs."""
        if sm_count not in self.sizes() or self._splits is None:
            raise InputError(
                f"launches cannot be confined to {sm_count} SMs",
                cure=_choice(self.sizes()),
            )
        part = self._split(self._whole(), sm_count, self._splits[sm_count])
        partition = Partition(self._driver, self._device, part)
        if partition.sm_count != sm_count:
            partition.close()
            raise UnsupportedError(f"asked for {sm_count} SMs, the driver gave {partition.sm_count}")
        return partition

    def _probe(self) -> dict[int, int]:
        """Try every size; the first also as a context, which some drivers and modes refuse although they split."""
        try:
            whole = self._whole()
            found = {n: flags for n in range(1, int(whole.sm.smCount) + 1) if (flags := self._flags_for(whole, n)) >= 0}
            if found:
                least = min(found)
                Partition(self._driver, self._device, self._split(whole, least, found[least])).close()
        except DeviceLostError:
            raise
        except (Refusal, InputError):
            return {}
        return found

    def _flags_for(self, whole: Any, sm_count: int) -> int:
        """Return the flags with which a split gives exactly so many SMs, or -1."""
        # The flag first, so that all sizes of a sweep are placed by the same rule.
        for flags in (_IGNORE_COSCHEDULING, 0):
            try:
                part = self._split(whole, sm_count, flags)
            except (Refusal, InputError):
                if self._driver.lost:
                    raise
                continue
            if part is not None and int(part.sm.smCount) == sm_count:
                return flags
        return -1

    def _whole(self) -> Any:
        return self._driver.call("cuDeviceGetDevResource", self._device, _sm_type(self._driver))

    def _split(self, whole: Any, sm_count: int, flags: int) -> Any:
        """Split off one group of at least so many SMs; None where there is none."""
        groups, count, _rest = self._driver.call("cuDevSmResourceSplitByCount", 1, whole, flags, sm_count)
        return groups[0] if int(count) else None


def _choice(sizes: tuple[int, ...]) -> str:
    steps = sorted({b - a for a, b in itertools.pairwise(sizes)})
    spread = f", in steps of {' and '.join(map(str, steps))}" if steps else ""
    return f"Choose {sizes[0]} to {sizes[-1]}{spread}." if sizes else "This GPU or its driver knows no partitions."


def _sm_type(driver: Driver) -> Any:
    try:
        return driver.api.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    except AttributeError:
        raise UnsupportedError("these cuda-bindings know no partitions", cure="Update cuda-bindings.") from None


#: Read to empty L2: twice its size, since a replacement policy other than LRU keeps some old lines.
_FLUSHED_L2 = 2
_LEAST_FLUSHED_BYTES = 64 * MIB
#: Threads per SM that read: as many as an SM of any generation holds, so that none idles, in blocks that fit all.
_FLUSH_THREADS, _FLUSH_BLOCKS_PER_SM = 256, 8
_FLUSH_BYTES_PER_READ = 16

#: Green contexts that are kept: each holds queues of the GPU, of which there are not many.
#: A plan goes through 10 sizes again and again.
_MOST_PARTITIONS = 12


def open_device(index: int = 0) -> "CudaDevice":
    """Open one GPU by its number; raises InputError where there is none, or where something is not installed."""
    try:
        core = import_module("cuda.core")
    except ImportError:
        raise InputError("cuda-core, which uses the GPU, is not installed", cure=INSTALL) from None
    if not hasattr(core, "Device"):
        raise InputError("cuda-core is older than 1.0", cure=INSTALL)
    driver = load_driver()
    count = int(driver.call("cuDeviceGetCount"))
    if not 0 <= index < count:
        there = f"GPUs 0 to {count - 1} are" if count > 1 else "only GPU 0 is" if count else "none is"
        raise InputError(f"there is no GPU {index}: {there} there", cure="nvidia-smi -L lists the GPUs.")
    try:
        device = core.Device(index)
        device.set_current()
        # A reference that only `close` gives back: the context then outlives a kernel that does not end.
        context = driver.call("cuDevicePrimaryCtxRetain", index)
    except KerncastError:
        raise
    except Exception as error:
        # cuda.core's error has no public name; its text begins with that of the driver's.
        raise InputError(f"GPU {index} cannot be used ({error})", cure="Look whether nvidia-smi works.") from error
    return CudaDevice(driver, device, context)


class CudaDevice:
    """One NVIDIA GPU by way of its driver."""

    def __init__(self, driver: Driver, device: Any, context: Any) -> None:
        self._driver = driver
        self._index = int(device.device_id)
        self._context = context
        bus = driver.call("cuDeviceGetPCIBusId", 16, self._index)
        self._telemetry = Telemetry(gpu_uuid(str(device.uuid)), bus.rstrip(b"\0").decode())
        self._machine = machine_facts(device, driver, self._telemetry)
        self._partitions = Partitions(driver, self._index)
        self._libraries: list[Any] = []
        self._memory: set[int] = set()
        self._flush: Call | None = None
        self._delay_kernel = self.load(_own_kernel("delay", self._machine.compute_capability))
        self._flush_kernel = self.load(_own_kernel("flush", self._machine.compute_capability))
        self._whole = self._queue(Lane(context, driver.call("cuStreamCreate", _stream_flags(driver)), self._index))
        self._parts: dict[int, tuple[Partition, Queue]] = {}
        self.deadline_seconds = 30.0
        """longest wait for one timed step"""

    @property
    def machine(self) -> Machine:
        """The GPU, its driver and the compiler."""
        return self._machine

    def state(self) -> ClockState:
        """Return clocks, temperature and power at this moment."""
        return self._telemetry.state()

    def load(self, kernel: CompiledKernel) -> LoadedKernel:
        """Load a kernel's machine code; it can be launched on the whole GPU and on every partition."""
        library = self._driver.call("cuLibraryLoadData", kernel.cubin, [], [], 0, [], [], 0)
        self._libraries.append(library)
        handle = self._driver.call("cuLibraryGetKernel", library, kernel.mangled.encode())
        attribute = self._driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        static = int(self._driver.call("cuKernelGetAttribute", attribute, handle, self._index))
        return LoadedKernel(handle, self._driver.api.CUfunction(int(handle)), static, library)

    def unload(self, handle: LoadedKernel) -> None:
        """Give back what ``load`` returned; it never runs then, since ``run`` waits for all that it queues."""
        self._libraries.remove(handle.library)
        if not self._driver.lost:
            self._driver.call("cuLibraryUnload", handle.library)

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory; raises BudgetExceededError where there is none."""
        try:
            address = int(self._driver.call("cuMemAlloc", max(1, nbytes)))
        except BudgetExceededError:
            raise BudgetExceededError(
                f"the GPU has no {format_bytes(nbytes)} of memory left",
                cure="Use smaller buffers, or end what else runs on the GPU.",
            ) from None
        self._memory.add(address)
        return address

    def free(self, address: int) -> None:
        """Give back what ``allocate`` returned; with a GPU that is lost, its memory is too."""
        if not self._driver.lost:
            self._driver.call("cuMemFree", address)
        self._memory.discard(address)

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes to the device."""
        if data.nbytes:
            source = np.ascontiguousarray(data)
            self._driver.call("cuMemcpyHtoD", address, source.ctypes.data, source.nbytes)
            # A copy from pageable memory may return before it has arrived, and a partition's stream would not wait.
            self._driver.call("cuStreamSynchronize", 0)

    def clear(self, address: int, nbytes: int) -> None:
        """Fill memory with zeros."""
        if nbytes:
            self._driver.call("cuMemsetD8", address, 0, nbytes)
            # It may return before the memory is filled, and a partition's stream would not wait.
            self._driver.call("cuStreamSynchronize", 0)

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes from the device."""
        target = np.empty(nbytes, np.uint8)
        if nbytes:
            self._driver.call("cuMemcpyDtoH", target.ctypes.data, address, nbytes)
        return target

    def run(self, steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        """Queue all steps without a gap, wait for them, and return the seconds of each Timed one, in order.

        Where the host was too slow to queue them, some run again: launches that add to a buffer then add more often.
        """
        queue = self._whole if sm_count is None else self._part(sm_count)
        queue.deadline_seconds = self.deadline_seconds
        return queue.run(steps)

    def partition_sizes(self) -> tuple[int, ...]:
        """Return the numbers of SMs that launches can be confined to, ascending; empty where that is impossible."""
        return self._partitions.sizes()

    def close(self) -> None:
        """Give back everything; after a fault the driver does it when the process ends, and asking could wait long."""
        with contextlib.suppress(DeviceLostError):
            self._close_parts()
            self._whole.close()
            self._driver.call("cuStreamDestroy", self._whole.lane.stream)
            for address in tuple(self._memory):
                self.free(address)
            for library in self._libraries:
                self._driver.call("cuLibraryUnload", library)
            self._driver.call("cuDevicePrimaryCtxRelease", self._index)
            self._libraries.clear()
        self._driver.lost = self._driver.lost or "it was closed"
        self._telemetry.close()

    def _queue(self, lane: Lane) -> Queue:
        return Queue(self._driver, lane, self._delay_kernel, self._flush_call)

    def _part(self, sm_count: int) -> Queue:
        if sm_count not in self._parts:
            if len(self._parts) >= _MOST_PARTITIONS:
                self._close_parts()
            partition = self._partitions.create(sm_count)
            queue = self._queue(Lane(partition.context, partition.stream, self._index))
            self._parts[sm_count] = partition, queue
        return self._parts[sm_count][1]

    def _close_parts(self) -> None:
        for partition, queue in self._parts.values():
            queue.close()
            partition.close()
        self._parts.clear()

    def _flush_call(self) -> Call:
        """Return the launch that empties L2; on a partition it is the same, and takes longer."""
        if self._flush is None:
            nbytes = max(_LEAST_FLUSHED_BYTES, _FLUSHED_L2 * self._machine.l2_bytes)
            address = self.allocate(nbytes)
            self.clear(address, nbytes)
            grid = (_FLUSH_BLOCKS_PER_SM * self._machine.sm_count, 1, 1)
            parameters = struct.pack("<QQ", address, nbytes // _FLUSH_BYTES_PER_READ)
            self._flush = Call(self._flush_kernel, grid, (_FLUSH_THREADS, 1, 1), 0, parameters)
        return self._flush


def _stream_flags(driver: Driver) -> int:
    # Ordered after the copies of `write`, which go to the default stream.
    return int(driver.api.CUstream_flags.CU_STREAM_DEFAULT)


def _own_kernel(name: str, capability: str) -> CompiledKernel:
    return compile_source(KERNELS / "bench" / f"{name}.cu", architectures=[capability]).kernels[0]
