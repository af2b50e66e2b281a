"""The interface on a GPU that is really here; every test is skipped where there is none."""

import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kerncast.bench.cuda import CudaDevice, open_device
from kerncast.bench.device import Call, Copy, Flush, Timed, Untimed
from kerncast.compile import compile_source
from kerncast.errors import BudgetExceededError, InputError, UnsupportedError

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void shared_sum(const float *x, float *y)
{
    extern __shared__ float part[];
    for (int i = threadIdx.x; i < 20000; i += blockDim.x) part[i] = x[i % 256];
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < 20000; ++i) sum += part[i];
        *y = sum;
    }
}
"""
COUNT = 1 << 20

#: Kernels that end the use of the GPU, each in a process of its own; the process must report and end.
ENDING = """
import os, struct, sys
from pathlib import Path
from kerncast.bench.cuda.device import open_device
from kerncast.bench.device import Call, Timed
from kerncast.compile import compile_source
from kerncast.errors import KerncastError
device = open_device()
device.deadline_seconds = 2.0
capability = device.machine.compute_capability
kernel = compile_source(Path(sys.argv[1]), architectures=[capability], kernel=sys.argv[2]).kernels[0]
address = device.allocate(256)
call = Call(device.load(kernel), (1, 1, 1), (32, 1, 1), 0, struct.pack("<Q", int(sys.argv[3]) or address))
for attempt in range(2):
    try:
        device.run([Timed((call,))])
    except KerncastError as error:
        print(type(error).__name__, error, flush=True)
device.close()
os._exit(0)
"""
ENDING_KERNELS = """
extern "C" __global__ void endless(volatile int *p) { while (*p != 12345) { } }
extern "C" __global__ void faulty(int *p) { *p = 1; }
"""


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    try:
        opened = open_device()
    except InputError as error:
        pytest.skip(str(error))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gpu") / "kernels.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def saxpy(device: CudaDevice, source: Path) -> Call:
    """Return a launch of saxpy on COUNT ones and zeros, so that repeating it only counts up."""
    capability = device.machine.compute_capability
    handle = device.load(compile_source(source, architectures=[capability], kernel="saxpy").kernels[0])
    x, y = device.allocate(4 * COUNT), device.allocate(4 * COUNT)
    device.write(x, np.ones(COUNT, np.float32).view(np.uint8))
    device.write(y, np.zeros(4 * COUNT, np.uint8))
    parameters = struct.pack("<ifQQ", COUNT, 2.0, x, y)
    return Call(handle, (COUNT // 256, 1, 1), (256, 1, 1), 0, parameters)


def buffers(call: Call) -> tuple[int, int]:
    _, _, x, y = struct.unpack("<ifQQ", call.parameters)
    return x, y


def test_the_machine_is_described(device: CudaDevice) -> None:
    machine = device.machine
    assert machine.gpu_uuid.startswith(("GPU-", "MIG-"))
    assert machine.sm_count > 0
    assert machine.l2_bytes > 0
    assert 1e8 < machine.clock_max_hz < 4e9
    assert machine.compiler.startswith("NVRTC 1")
    assert "CUDA 1" in machine.driver


def test_the_state_is_plausible_or_unknown(device: CudaDevice) -> None:
    state = device.state()
    assert state.sm_hz is None or 1e8 < state.sm_hz < 4e9
    assert state.temperature_c is None or 0 < state.temperature_c < 120
    assert state.power_w is None or 0 < state.power_w < 2000


def test_bytes_return_as_they_were_written(device: CudaDevice) -> None:
    data = np.random.default_rng(0).integers(0, 256, 3_000_001, dtype=np.uint8)
    first, second = device.allocate(data.nbytes), device.allocate(data.nbytes)
    assert first % 256 == second % 256 == 0
    device.write(first, data)
    device.run([Copy(second, first, data.nbytes)])
    assert np.array_equal(device.read(second, data.nbytes), data)
    device.free(first)
    device.free(second)


def test_memory_is_cleared(device: CudaDevice) -> None:
    address = device.allocate(3_000_001)
    device.write(address, np.full(3_000_001, 0xA5, np.uint8))
    device.clear(address, 3_000_000)
    assert not device.read(address, 3_000_000).any()
    assert device.read(address + 3_000_000, 1)[0] == 0xA5
    device.clear(address, 0)
    device.free(address)


def test_kernels_come_and_go(device: CudaDevice, saxpy: Call, source: Path) -> None:
    capability = device.machine.compute_capability
    kernel = compile_source(source, architectures=[capability], kernel="saxpy").kernels[0]
    for _ in range(50):
        handle = device.load(kernel)
        assert device.run([Timed((Call(handle, saxpy.grid, saxpy.block, 0, saxpy.parameters),))])[0] > 0
        device.unload(handle)
    assert device.run([Flush(), Timed((saxpy,))])[0] > 0


def test_saxpy_equals_numpy(device: CudaDevice, saxpy: Call) -> None:
    x_address, y_address = buffers(saxpy)
    x, y = np.random.default_rng(1).random((2, COUNT), dtype=np.float32)
    device.write(x_address, x.view(np.uint8))
    device.write(y_address, y.view(np.uint8))
    device.run([Untimed((saxpy,))])
    result = device.read(y_address, 4 * COUNT).view(np.float32)
    # One rounding on the GPU, which fuses, and two in NumPy.
    np.testing.assert_allclose(result, 2 * x + y, rtol=3e-7)


def test_every_step_runs_in_order_and_once(device: CudaDevice, saxpy: Call) -> None:
    x_address, y_address = buffers(saxpy)
    device.write(x_address, np.ones(COUNT, np.float32).view(np.uint8))
    device.write(y_address, np.zeros(4 * COUNT, np.uint8))
    device.run([Untimed((saxpy,) * 3), Flush(), Untimed((saxpy,) * 1500)])
    assert set(device.read(y_address, 4 * COUNT).view(np.float32)) == {2.0 * 1503}


def test_times_grow_with_the_work(device: CudaDevice, saxpy: Call) -> None:
    x, y = buffers(saxpy)
    small = Call(saxpy.handle, (1, 1, 1), (256, 1, 1), 0, struct.pack("<ifQQ", 256, 2.0, x, y))
    large = Call(saxpy.handle, (1, 1, 1), (256, 1, 1), 0, saxpy.parameters)
    short, long = device.run([Untimed((small, large)), Timed((small,) * 10), Timed((large,) * 10)])
    assert 0 < short < long
    assert 1e-6 < short / 10 < 1e-4


def test_a_series_costs_less_than_its_launches_one_by_one(device: CudaDevice, saxpy: Call) -> None:
    series, *single = device.run([Untimed((saxpy,) * 5), Timed((saxpy,) * 100), *[Timed((saxpy,))] * 100])
    assert series < 1.1 * sum(single)


def test_a_graph_gives_a_time_near_that_of_the_series(device: CudaDevice, saxpy: Call) -> None:
    series, graph = device.run([Untimed((saxpy,) * 5), Timed((saxpy,) * 200), Timed((saxpy,) * 200, as_graph=True)])
    assert 0.3 * series < graph < 1.5 * series


def test_a_thousand_launches_are_timed_together(device: CudaDevice, saxpy: Call) -> None:
    (seconds,) = device.run([Timed((saxpy,) * 1000)])
    assert seconds > 0


def test_cold_is_not_quicker_than_warm(device: CudaDevice, saxpy: Call) -> None:
    x, y = buffers(saxpy)
    # 512 KiB in all, which every L2 since Maxwell holds.
    call = Call(saxpy.handle, (256, 1, 1), (256, 1, 1), 0, struct.pack("<ifQQ", 1 << 16, 2.0, x, y))
    warm = device.run([Untimed((call,) * 5), *[Timed((call,))] * 50])
    cold = device.run([Flush(), Timed((call,))] * 50)
    assert np.median(cold) >= np.median(warm)


def test_a_flush_reads_from_dram_what_l2_cannot_hold(device: CudaDevice) -> None:
    """A flush cannot be quicker than DRAM, which no GPU yet reads at 10 TB/s, nor slower than a slow one."""
    (seconds,) = device.run([Flush(), Timed((flush_of(device),))])
    assert 64 * 2**20 / 10e12 < seconds < 20e-3


def flush_of(device: CudaDevice) -> Call:
    return device._flush_call()


def test_a_flush_leaves_nothing_to_be_written_back(device: CudaDevice, saxpy: Call) -> None:
    """A cold read takes as long after stores as after reads: the flush has written back what was dirty."""
    x, y = buffers(saxpy)
    reading = Call(saxpy.handle, (256, 1, 1), (256, 1, 1), 0, struct.pack("<ifQQ", 1 << 16, 2.0, x, y))
    nbytes = 2 * device.machine.l2_bytes
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    clean = device.run([Flush(), Flush(), Timed((reading,))] * 50)
    dirty = device.run([Copy(target, source, nbytes), Flush(), Timed((reading,))] * 50)
    device.free(source)
    device.free(target)
    assert np.median(dirty) < 1.3 * np.median(clean)


def test_much_shared_memory_is_granted(device: CudaDevice, saxpy: Call, source: Path) -> None:
    capability = device.machine.compute_capability
    if float(capability) < 7:
        pytest.skip("needs compute capability 7.0 for more than 48 KiB")
    kernel = device.load(compile_source(source, architectures=[capability], kernel="shared_sum").kernels[0])
    x, y = buffers(saxpy)
    device.write(x, np.ones(256, np.float32).view(np.uint8))
    # 80 kB exceeds what compute capability 7.5 grants, so it is refused there, and nothing else is.
    call = Call(kernel, (1, 1, 1), (256, 1, 1), 80_000, struct.pack("<QQ", x, y))
    if capability == "7.5":
        with pytest.raises(UnsupportedError):
            device.run([Timed((call,))])
        return
    device.run([Timed((call,))])
    assert device.read(y, 4).view(np.float32)[0] == 20000.0


def test_a_block_too_large_is_refused_and_the_gpu_stays_usable(device: CudaDevice, saxpy: Call) -> None:
    with pytest.raises(UnsupportedError):
        device.run([Timed((Call(saxpy.handle, (1, 1, 1), (1025, 1, 1), 0, saxpy.parameters),))])
    assert device.run([Timed((saxpy,))])[0] > 0


def test_memory_that_is_not_there_is_refused(device: CudaDevice) -> None:
    with pytest.raises(BudgetExceededError, match="of memory left"):
        device.allocate(2 * device.machine.memory_bytes)


def test_fewer_sms_take_longer(device: CudaDevice, saxpy: Call) -> None:
    sizes = device.partition_sizes()
    if not sizes:
        pytest.skip("this GPU or its driver knows no partitions")
    assert sizes == tuple(sorted(set(sizes)))
    assert 1 <= sizes[0] <= sizes[-1] <= device.machine.sm_count
    steps = (Untimed((saxpy,) * 5), Timed((saxpy,) * 50))
    (few,), (most,), (whole,) = (device.run(steps, sm_count=n) for n in (sizes[0], sizes[-1], None))
    assert few > 1.5 * most
    assert 0.5 * whole < most < 2 * whole


def test_a_partition_takes_graphs_and_flushes(device: CudaDevice, saxpy: Call) -> None:
    sizes = device.partition_sizes()
    if not sizes:
        pytest.skip("this GPU or its driver knows no partitions")
    series, graph = device.run([Flush(), Timed((saxpy,) * 20), Timed((saxpy,) * 20, as_graph=True)], sm_count=sizes[0])
    assert 0.3 * series < graph < 1.5 * series


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("kernel", "address", "error"), [("endless", 0, "DeviceLostError"), ("faulty", 16, "DeviceLostError")]
)
def test_a_kernel_that_ends_the_use_is_reported(tmp_path: Path, kernel: str, address: int, error: str) -> None:
    path = tmp_path / "ending.cu"
    path.write_text(textwrap.dedent(ENDING_KERNELS), encoding="utf-8")
    command = [sys.executable, "-c", ENDING, str(path), kernel, str(address)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(error)
    assert second.startswith("DeviceLostError the GPU is lost to this process")
