"""A device for the harness that is no GPU: the executor runs the launches, and a formula gives their times.

Memory, addresses and packed parameters are real: a launch computes what the kernel computes, on what was written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kerncast.bench.device import Bytes, Call, Copy, Flush, Step, Timed, Untimed
from kerncast.compile import CompiledKernel
from kerncast.errors import BudgetExceededError, DeviceLostError, KernelFault
from kerncast.execute import WholeGrid
from kerncast.execute.native import NativeEngine
from kerncast.execute.setup import Arena, Setting, Touched, linked_program
from kerncast.execute.setup.prepare import initialise
from kerncast.launch import Launch
from kerncast.measurements import ClockState, Machine

MACHINE = Machine(
    gpu_name="Executor",
    gpu_uuid="GPU-0",
    compute_capability="7.0",
    sm_count=8,
    memory_bytes=2**26,
    l2_bytes=2**16,
    clock_max_hz=1.2e9,
    memory_clock_hz=8.5e8,
    memory_bus_bits=3072,
    power_limit_w=None,
    ecc_enabled=None,
    mig_enabled=False,
    driver="none",
    compiler="NVRTC 12.9",
    host="test",
    software="test",
)
LAUNCH_SECONDS = 2e-6
THREAD_INSTRUCTIONS_PER_S = 1e11
COLD_SECONDS = 5e-6


@dataclass
class ExecutorDevice:
    """One device; ``events`` holds what it was asked, in order."""

    machine: Machine = MACHINE
    spoil: Callable[[], None] | None = None
    """changes what a launch leaves in memory, to play a GPU that computes something else"""
    fails_at: int | None = None
    """number of the timed launch at which the GPU gives up"""
    factors: Sequence[float] = (1.0, 1.02, 0.99)
    """by which times vary, in turn"""
    events: list[str] = field(default_factory=list)
    launches: int = 0
    live: dict[int, int] = field(default_factory=dict)
    """bytes by address"""

    def __post_init__(self) -> None:
        self._sizes: list[tuple[str, int]] = []
        self._arena = Arena.for_buffers([])
        self._is_cold = False
        self._timed = self._timed_launches = 0

    def state(self) -> ClockState:
        return ClockState(sm_hz=1.2e9, temperature_c=40.0)

    def load(self, kernel: CompiledKernel) -> CompiledKernel:
        self.events.append(f"load {kernel.kernel}")
        return kernel

    def unload(self, handle: CompiledKernel) -> None:
        self.events.append(f"unload {handle.kernel}")

    def allocate(self, nbytes: int) -> int:
        if sum(self.live.values()) + nbytes > self.machine.memory_bytes:
            raise BudgetExceededError(f"{nbytes} bytes of device memory are not free")
        self._sizes.append((f"b{len(self._sizes)}", nbytes))
        before, self._arena = self._arena, Arena.for_buffers(self._sizes)
        self._arena.data[: len(before.data)] = before.data
        address = self._arena.allocations[-1].address
        self.live[address] = nbytes
        return address

    def free(self, address: int) -> None:
        del self.live[address]

    def write(self, address: int, data: Bytes) -> None:
        self._bytes(address, data.nbytes)[:] = data

    def clear(self, address: int, nbytes: int) -> None:
        self._bytes(address, nbytes)[:] = 0

    def read(self, address: int, nbytes: int) -> Bytes:
        return self._bytes(address, nbytes).copy()

    def run(self, steps: Sequence[Step], sm_count: int | None = None) -> tuple[float, ...]:
        times = []
        for step in steps:
            self.events.append(type(step).__name__)
            match step:
                case Timed(calls, _):
                    share = self.machine.sm_count / (sm_count or self.machine.sm_count)
                    seconds = sum(self._launch(call, share, is_timed=True) for call in calls)
                    factor = self.factors[self._timed % len(self.factors)]
                    self._timed += 1
                    times.append(seconds * factor)
                case Untimed(calls):
                    for call in calls:
                        self._launch(call)
                case Copy(target, source, nbytes):
                    self._bytes(target, nbytes)[:] = self._bytes(source, nbytes)
                case Flush():
                    self._is_cold = True
        return tuple(times)

    def partition_sizes(self) -> tuple[int, ...]:
        return tuple(range(2, self.machine.sm_count + 1, 2))

    def close(self) -> None:
        self.events.append("close")

    def _bytes(self, address: int, nbytes: int) -> Bytes:
        place = next(a for a in self._arena.allocations if a.address <= address < a.address + max(a.nbytes, 1))
        assert place.address in self.live, "memory that was given back"
        return self._arena.bytes_of(place)[:nbytes]

    def _launch(self, call: Call, share: float = 1.0, *, is_timed: bool = False) -> float:
        self.launches += 1
        self._timed_launches += is_timed
        if is_timed and self._timed_launches == self.fails_at:
            raise DeviceLostError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")
        kernel: CompiledKernel = call.handle
        linked = linked_program(kernel.ptx, kernel.mangled)
        launch = Launch(Path(kernel.kernel), None, call.grid, call.block, call.shared_bytes)
        variables = [(variable.name, variable.nbytes) for variable in linked.globals]
        arena = Arena.for_buffers([*self._sizes, *variables])
        arena.data[: len(self._arena.data)] = self._arena.data
        places = arena.allocations[len(self._sizes) :]
        program = replace(linked, addresses={**linked.addresses, **{place.name: place.address for place in places}})
        for variable, place in zip(program.globals, places, strict=True):
            initialise(arena.bytes_of(place), variable, program)
        setting = Setting(linked, program, launch, arena, call.parameters, WholeGrid(), Touched(arena), (), frozenset())
        engine = NativeEngine(setting, workers=1)
        try:
            engine.run(list(range(launch.blocks)), None)
        except KernelFault as error:
            raise DeviceLostError(str(error)) from None
        self._arena.data[:] = arena.data[: len(self._arena.data)]
        if self.spoil:
            self.spoil()
        seconds = LAUNCH_SECONDS + engine.thread_instructions() / THREAD_INSTRUCTIONS_PER_S * share
        cold, self._is_cold = self._is_cold, False
        return seconds + (COLD_SECONDS if cold else 0.0)
