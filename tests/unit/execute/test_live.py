"""Kernels on the memory of a running program: kept between launches, whole grids, faults that stop or are noted."""

import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.errors import DoesNotFitError, KernelFault, LaunchError, MachineLimitError
from kerncast.execute.live import Call, LiveKernel, LiveMemory, Rules, Work, on_large_stack
from kerncast.execute.setup import linked_program
from kerncast.execute.setup.arena import GLOBAL_BASE
from kerncast.execute.setup.paged import zeroed
from kerncast.execute.setup.prepare import initialise
from kerncast.ptx import Variable
from tests.helpers.execute_helpers import compiled

SOURCE = """#include <cstdio>
#define KERNEL extern "C" __global__ void
extern "C" __global__ void add(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}
KERNEL square(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
KERNEL shifted(const float *x, float *y, int by) { y[threadIdx.x] = x[(int)threadIdx.x + by]; }
struct Pair { const float *x; float *y; };
KERNEL by_struct(Pair p, int n) { p.y[threadIdx.x] = p.x[threadIdx.x] + n; }
KERNEL endless(volatile int *flag) { while (flag[0] == 0) ; }
KERNEL says(int n) { if (threadIdx.x < n) printf("thread %d\\n", threadIdx.x); }
KERNEL meets(volatile int *count, int blocks) {
    atomicAdd((int *)count, 1);
    while (count[0] < 32 * blocks) ;
    count[1 + blockIdx.x] = count[0];
}
KERNEL look_back(volatile int *state, int *sum) {
    if (blockIdx.x) while (state[blockIdx.x - 1] == 0) ;
    state[blockIdx.x] = 1 + (blockIdx.x ? state[blockIdx.x - 1] : 0);
    *sum = state[blockIdx.x];
}
"""
WORDS = 4096


class GPU:
    """Some memory, and kernels on it."""

    def __init__(self) -> None:
        self.memory = LiveMemory(zeroed(2**22))
        self.kernels: dict[str, LiveKernel] = {}

    def array(self, place: int, values: npt.NDArray[Any]) -> int:
        address = GLOBAL_BASE + 2**16 * place
        self.memory.add(address, values.nbytes, f"array {place}")
        self.memory.bytes_at(address, values.nbytes).view(values.dtype)[:] = values
        return address

    def floats(self, address: int, count: int = WORDS) -> npt.NDArray[np.float32]:
        return self.memory.bytes_at(address, 4 * count).view(np.float32)

    def place(self, variables: tuple[Variable, ...]) -> dict[str, int]:
        places = {variable.name: GLOBAL_BASE + 2**21 + 512 * n for n, variable in enumerate(variables)}
        for variable in variables:
            self.memory.add(places[variable.name], variable.nbytes, variable.name)
        return places

    def run(self, name: str, grid: int, block: int, *values: int, rules: Rules | None = None, **options: Any) -> Work:
        if name not in self.kernels:
            found = compiled(SOURCE, name)
            linked = linked_program(found.ptx, found.mangled)
            self.kernels[name] = kernel = LiveKernel(linked, self.place(linked.globals))
            for variable in linked.globals:
                data = self.memory.bytes_at(kernel.addresses[variable.name], variable.nbytes)
                initialise(data, variable, kernel.program)
        kernel, raw = self.kernels[name], b""
        for parameter, value in zip(kernel.linked.function.parameters, values, strict=True):
            raw = raw.ljust(kernel.linked.parameters[parameter.name], b"\0")
            raw += value.to_bytes(parameter.nbytes, "little", signed=value < 0)
        call = Call((grid, 1, 1), (block, 1, 1), 0, raw, **options)
        found_work: list[Work] = []
        on_large_stack(lambda: found_work.append(kernel.launch(call, self.memory, rules or Rules())))
        return found_work[0]


@pytest.fixture
def gpu() -> GPU:
    return GPU()


def test_a_kept_geometry_takes_new_parameters_and_new_allocations(gpu: GPU) -> None:
    x, y = gpu.array(1, np.arange(WORDS, dtype=np.float32)), gpu.array(2, np.ones(WORDS, np.float32))
    first = gpu.run("add", 16, 256, x, y, WORDS)
    assert (gpu.floats(y) == np.arange(WORDS) + 1).all()
    z = gpu.array(3, np.zeros(WORDS, np.float32))
    again = gpu.run("add", 16, 256, x, z, WORDS)
    assert (gpu.floats(z) == np.arange(WORDS)).all()
    assert (first.fingerprint, first.thread_instructions) == (again.fingerprint, again.thread_instructions)
    fewer = gpu.run("add", 16, 256, x, z, 10)
    assert fewer.fingerprint != first.fingerprint
    assert fewer.thread_instructions < first.thread_instructions
    gpu.memory.remove(z)
    with pytest.raises(KernelFault, match="out of bounds"):
        gpu.run("add", 16, 256, x, z, WORDS)
    gpu.run("add", 16, 256, x, y, WORDS)  # and goes on after the fault


def test_large_grids_on_two_cores_and_in_place_on_one(gpu: GPU) -> None:
    count = 2**18
    x = np.arange(count, dtype=np.float32)
    at, to = gpu.array(1, x), gpu.array(33, np.zeros(count, np.float32))
    gpu.run("square", count // 256, 256, at, to, count)
    assert (gpu.floats(to, count) == x * x).all()
    gpu.run("square", count // 256, 256, at, at, count)  # now both parameters reach one buffer
    assert (gpu.floats(at, count) == x * x).all()


def test_pointers_in_structs(gpu: GPU) -> None:
    x, y = gpu.array(1, np.arange(32, dtype=np.float32)), gpu.array(2, np.zeros(32, np.float32))
    gpu.run("by_struct", 1, 32, x | y << 64, 5)
    assert (gpu.floats(y, 32) == np.arange(32) + 5).all()


def test_what_strays_stops_or_goes_on_as_on_a_gpu(gpu: GPU) -> None:
    x, y = gpu.array(1, np.arange(32, dtype=np.float32)), gpu.array(2, np.full(32, 9, np.float32))
    with pytest.raises(KernelFault, match="12 bytes before the start of array 1"):
        gpu.run("shifted", 1, 32, x, y, -3)
    gpu.kernels.clear()
    work = gpu.run("shifted", 1, 32, x, y, -3, rules=Rules(goes_on=True))
    assert work.stray
    assert "out of bounds" in work.stray
    assert "12 bytes before the start of array 1" in work.stray
    assert gpu.floats(y, 32).tolist() == [0, 0, 0, *range(29)]
    assert gpu.run("shifted", 1, 32, x, y, 0, rules=Rules(goes_on=True)).stray is None
    with pytest.raises(KernelFault, match="out of bounds"):  # where nothing is mapped
        gpu.run("shifted", 1, 32, x, y, 2**28, rules=Rules(goes_on=True))


def test_a_launch_that_does_not_end_is_stopped(gpu: GPU) -> None:
    flag = gpu.array(1, np.zeros(1, np.int32))
    begun = time.monotonic()
    with pytest.raises(MachineLimitError, match=r"stopped after 0\.3 s"):
        gpu.run("endless", 1, 32, flag, rules=Rules(seconds=0.3))
    assert time.monotonic() - begun < 30


def test_text_is_that_of_each_launch(gpu: GPU) -> None:
    assert gpu.run("says", 1, 32, 2).printed == "thread 0\nthread 1\n"
    assert gpu.run("says", 1, 32, 1).printed == "thread 0\n"


def test_all_blocks_of_a_cooperative_launch_are_resident(gpu: GPU) -> None:
    count = gpu.array(1, np.zeros(100, np.int32))
    gpu.run("meets", 64, 32, count, 64, is_cooperative=True)
    assert gpu.memory.bytes_at(count, 400).view(np.int32)[:65].tolist() == [64 * 32, *[64 * 32] * 64]


def test_blocks_run_in_order(gpu: GPU) -> None:
    state, total = gpu.array(1, np.zeros(1000, np.int32)), gpu.array(2, np.zeros(1, np.int32))
    gpu.run("look_back", 1000, 1, state, total)
    assert gpu.memory.bytes_at(state, 4000).view(np.int32).tolist() == list(range(1, 1001))


def test_which_allocations_a_launch_reaches(gpu: GPU) -> None:
    x, y = gpu.array(1, np.zeros(32, np.float32)), gpu.array(2, np.zeros(32, np.float32))
    gpu.run("square", 1, 32, x, y, 32)
    kernel = gpu.kernels["square"]
    call = Call((1, 1, 1), (32, 1, 1), 0, x.to_bytes(8, "little") + y.to_bytes(8, "little") + bytes([32, 0, 0, 0]))
    use = kernel.use(call.parameters, gpu.memory)
    assert kernel.reaches(use.read, call.parameters, gpu.memory) == {x - GLOBAL_BASE}
    assert kernel.reaches(use.written, call.parameters, gpu.memory) == {y - GLOBAL_BASE}
    same = Call(call.grid, call.block, 0, x.to_bytes(8, "little") * 2 + bytes([32, 0, 0, 0]))
    assert kernel.reaches(kernel.use(same.parameters, gpu.memory).read, same.parameters, gpu.memory) is None


def test_allocations_that_overlap_or_lie_outside_are_refused(gpu: GPU) -> None:
    gpu.memory.add(GLOBAL_BASE + 4096, 100, "a")
    for address, nbytes in ((4096, 1), (4195, 1), (4000, 97), (2**22 - 1, 2), (-1, 1), (4100, 0)):
        with pytest.raises(LaunchError, match="no place"):
            gpu.memory.add(GLOBAL_BASE + address, nbytes, "b")
    gpu.memory.add(GLOBAL_BASE + 4196, 1, "b")
    found = gpu.memory.find(GLOBAL_BASE + 4150)
    assert found is not None
    assert found.name == "a"
    gpu.memory.remove(GLOBAL_BASE + 4096)
    gpu.memory.remove(GLOBAL_BASE + 4096)
    assert gpu.memory.find(GLOBAL_BASE + 4150) is None
    assert [each.name for each in gpu.memory.allocations] == ["b"]


def test_errors_leave_the_thread_with_the_large_stack() -> None:
    def fail() -> None:
        raise ValueError(threading.current_thread().name)

    with pytest.raises(ValueError, match="Thread-"):
        on_large_stack(fail)


PAIRED = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k() { tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned; ret; }
"""


def test_blocks_that_work_in_pairs_are_launched_in_clusters() -> None:
    kernel = LiveKernel(linked_program(PAIRED, "k"), {})
    with pytest.raises(DoesNotFitError, match="in pairs of blocks"):
        kernel.launch(Call((2, 1, 1), (32, 1, 1), 0, b""), LiveMemory(zeroed(2**16)), Rules())
