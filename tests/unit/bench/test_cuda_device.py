"""The interface on a real GPU, as far as it shows without one: a driver made of Python takes the real one's place."""

import itertools
import struct
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.bench import KERNELS
from kerncast.bench.cuda import CudaDevice, open_device
from kerncast.bench.cuda import queue as queue_module
from kerncast.bench.cuda.device import Partitions
from kerncast.bench.cuda.driver import Driver, check_versions
from kerncast.bench.cuda.queue import Delay, Lane, LoadedKernel, PackedCall, Queue, batches, command_count
from kerncast.bench.cuda.telemetry import Telemetry, throttle_reasons
from kerncast.bench.device import Call, Copy, Flush, Step, Timed, Untimed
from kerncast.compile import CompiledKernel, compile_source
from kerncast.errors import BudgetExceededError, DeviceLostError, InputError, KerncastError, UnsupportedError
from kerncast.execute import WholeGrid, execute, profile_of
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.profiles.counts import GLOBAL_BYTES_REQUESTED, GLOBAL_BYTES_TOUCHED, GLOBAL_WRITE_REQUESTS
from tests.helpers.fake_cuda import CORE_DEVICE, Clock, FakeDriver, SplittingDriver, WholeDriver, read_block

DELAY = LoadedKernel("delay", "delay", 0, "library")
SHORT = LoadedKernel("short", "short", 1024, "library")
FLUSH = Call(LoadedKernel("flush", "flush", 0, "library"), (4, 1, 1), (256, 1, 1), 0, b"")


def call(kernel: LoadedKernel = SHORT, threads: int = 256, shared_bytes: int = 0) -> Call:
    return Call(kernel, (4, 1, 1), (threads, 1, 1), shared_bytes, b"\x01\x02\x03\x04")


def kernel(name: str) -> LoadedKernel:
    return LoadedKernel(name, name, 0, "library")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    clock = Clock()
    monkeypatch.setattr(queue_module, "time", clock)
    return FakeDriver(clock)


@pytest.fixture
def queue(gpu: FakeDriver) -> Queue:
    return Queue(Driver(gpu), Lane("context", "stream", 0), DELAY, lambda: FLUSH)


def test_the_parameter_block_goes_by_the_extra_array() -> None:
    packed = PackedCall(call(), "stream")
    function, *geometry, shared_bytes, stream, parameters, extra = packed.arguments
    assert (function, geometry, shared_bytes, stream, parameters) == ("short", [4, 1, 1, 256, 1, 1], 0, "stream", 0)
    assert read_block(extra) == b"\x01\x02\x03\x04"


def test_a_kernel_without_parameters_has_no_extra_array() -> None:
    assert PackedCall(Call(SHORT, (1, 1, 1), (1, 1, 1), 0, b""), "stream").arguments[-1] == 0


@st.composite
def steps(draw: st.DrawFn) -> tuple[Step, ...]:
    calls = st.integers(0, 30).map(lambda n: (call(),) * n)
    one = st.one_of(
        st.builds(Timed, calls, st.booleans()), st.builds(Untimed, calls), st.just(Flush()), st.just(Copy(1, 2, 3))
    )
    return tuple(draw(st.lists(one, max_size=12)))


def order(given_steps: tuple[Step, ...]) -> list[Any]:
    """Return what is queued, call by call; a timed step is one thing."""
    return [
        each
        for s in given_steps
        for each in (s.calls if isinstance(s, Untimed) else (s,))  # what is cut, and what not
    ]


@given(steps(), st.integers(1, 25))
def test_batches_keep_order_and_fit_the_queue(given_steps: tuple[Step, ...], limit: int) -> None:
    cut = list(batches(given_steps, limit))
    assert order(tuple(itertools.chain.from_iterable(cut))) == order(given_steps)
    assert all(cut)
    for batch in cut:
        count, timed = sum(map(command_count, batch)), [step for step in batch if isinstance(step, Timed)]
        assert count <= limit or (len(timed) == 1 and count <= command_count(timed[0]) + 20)


def test_what_restores_a_buffer_stays_with_its_launch() -> None:
    pair: list[Step] = [Copy(1, 2, 3), Copy(4, 5, 6), Flush(), Timed((call(),))]
    assert {len(batch) % 4 for batch in batches(pair * 1000)} == {0}
    assert [len(batch) for batch in batches((*pair[:3], Timed((call(),) * 1000)) * 2)] == [4, 4]


def test_equal_graphs_are_built_once(gpu: FakeDriver, queue: Queue) -> None:
    series = (call(),) * 50
    first, second = queue.run([Timed(series, as_graph=True), Timed(series, as_graph=True)])
    assert (first, second) == pytest.approx((150e-6, 150e-6))
    # One delay, and the launches of one capture.
    assert len(gpu.launched) == 51


def test_a_delay_covers_the_submission_it_has_seen() -> None:
    delay = Delay()
    assert delay.seconds(100) == pytest.approx(1.1e-3)
    assert delay.seconds(100, attempt=2) == pytest.approx(4.4e-3)
    delay.learn(100, 400e-6)
    assert 400e-6 < delay.seconds(100) < 1.1e-3
    delay.learn(3, 1.0)
    assert delay.seconds(100) < 1.1e-3
    assert delay.seconds(10**6, attempt=5) == pytest.approx(0.5)


def test_a_series_is_timed_without_the_host(gpu: FakeDriver, queue: Queue) -> None:
    seconds = queue.run([Untimed((call(),) * 20), Timed((call(),) * 100), Flush(), Timed((call(),)), Copy(1, 2, 3)])
    assert seconds == pytest.approx((300e-6, 3e-6))
    assert gpu.depth == 0


def test_every_long_run_is_cut_and_each_part_delayed(gpu: FakeDriver, queue: Queue) -> None:
    seconds = queue.run([Flush(), Timed((call(),))] * 1000)
    assert seconds == pytest.approx((3e-6,) * 1000)
    # 4 commands a pair, of which no batch holds more than 900.
    assert sum(function == "delay" for function, _ in gpu.launched) == 5


def test_a_thousand_calls_may_be_timed_together(queue: Queue) -> None:
    assert queue.run([Timed((call(),) * 1000)]) == pytest.approx((3e-3,))


def test_no_delay_where_nothing_is_timed(gpu: FakeDriver, queue: Queue) -> None:
    assert queue.run([Untimed((call(),) * 3), Flush(), Copy(1, 2, 3)]) == ()
    assert [function for function, _ in gpu.launched] == ["short"] * 3 + ["flush"]
    assert gpu.clock.now >= gpu.free_at


def test_a_time_below_the_resolution_is_not_zero(queue: Queue) -> None:
    seconds = queue.run([Timed((call(kernel("empty")),)), Timed((call(),))])
    assert seconds == pytest.approx((1e-7, 3e-6))


def test_a_queue_that_ran_dry_is_queued_again(gpu: FakeDriver, queue: Queue) -> None:
    gpu.submit_seconds = 40e-6
    assert queue.run([Timed((call(),) * 100)]) == pytest.approx((300e-6,))
    assert sum(function == "delay" for function, _ in gpu.launched) == 2
    assert len(gpu.launched) == 202


def test_a_loaded_host_is_waited_for(gpu: FakeDriver, queue: Queue) -> None:
    # 0.27 s in all.
    gpu.submit_seconds = 0.3e-3
    assert queue.run([Timed((call(),) * 890)]) == pytest.approx((890 * 3e-6,))


def test_a_host_that_is_too_slow_is_refused(gpu: FakeDriver, queue: Queue) -> None:
    gpu.submit_seconds = 10e-3
    with pytest.raises(UnsupportedError, match="began before 102 commands were queued") as caught:
        queue.run([Timed((call(),) * 100)])
    assert "as a graph" in str(caught.value)
    assert gpu.depth == 0


def test_a_queue_that_holds_less_is_given_less(gpu: FakeDriver, queue: Queue) -> None:
    gpu.places = 250
    assert queue.run([Flush(), Timed((call(),))] * 300) == pytest.approx((3e-6,) * 300)
    assert queue.most_commands <= 250
    assert queue.run([Timed((call(),) * 100)] * 4) == pytest.approx((300e-6,) * 4)


def test_a_series_longer_than_the_queue_counts_where_the_gpu_stayed_busy(gpu: FakeDriver, queue: Queue) -> None:
    gpu.places = 600
    assert queue.run([Timed((call(),) * 1000)]) == pytest.approx((3e-3,))


def test_a_graph_is_one_command_and_is_given_back(gpu: FakeDriver, queue: Queue) -> None:
    assert queue.run([Timed((call(),) * 500, as_graph=True)]) == pytest.approx((1.5e-3,))
    assert gpu.graphs == {}


def test_a_capture_ends_though_a_launch_is_refused(gpu: FakeDriver, queue: Queue) -> None:
    with pytest.raises(UnsupportedError, match="CUDA_ERROR_INVALID_VALUE"):
        queue.run([Timed((call(threads=2048),), as_graph=True)])
    assert gpu.captured is None
    assert queue.run([Timed((call(),))]) == pytest.approx((3e-6,))


def test_a_refused_launch_leaves_the_gpu_usable_and_idle(gpu: FakeDriver, queue: Queue) -> None:
    with pytest.raises(UnsupportedError, match=r"CUDA_ERROR_INVALID_VALUE.*cuLaunchKernel"):
        queue.run([Timed((call(),)), Timed((call(threads=2048),))])
    assert gpu.clock.now >= gpu.free_at
    assert queue.run([Timed((call(),))]) == pytest.approx((3e-6,))


def test_much_shared_memory_is_asked_for(gpu: FakeDriver, queue: Queue) -> None:
    queue.run([Timed((call(shared_bytes=47 * 1024),))])
    assert gpu.shared_limit == 48 * 1024
    queue.run([Timed((call(shared_bytes=96 * 1024),))])
    assert gpu.shared_limit == 96 * 1024


def test_a_fault_is_reported_and_ends_the_use(gpu: FakeDriver, queue: Queue) -> None:
    with pytest.raises(DeviceLostError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        queue.run([Timed((call(kernel("faulty")),))])
    assert caught.value.exit_status == 3
    before = len(gpu.launched)
    with pytest.raises(DeviceLostError, match=r"lost to this process.*ILLEGAL_ADDRESS"):
        queue.run([Timed((call(),))])
    assert len(gpu.launched) == before


def test_an_endless_kernel_is_given_up(gpu: FakeDriver, queue: Queue) -> None:
    with pytest.raises(DeviceLostError, match=r"did not end within 30 s.*end this process"):
        queue.run([Timed((call(),)), Timed((call(kernel("endless")),))])
    assert 30 < gpu.clock.now < 31
    with pytest.raises(DeviceLostError, match="lost to this process"):
        queue.run([Timed((call(),))])


def test_an_interruption_gives_nothing_back_that_still_runs(
    gpu: FakeDriver, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu.clock, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue.run([Timed((call(),) * 3, as_graph=True)])
    assert gpu.graphs
    with pytest.raises(DeviceLostError, match="after: an interruption"):
        queue.run([Timed((call(),))])


def test_the_deadline_is_for_one_timed_step(gpu: FakeDriver, queue: Queue) -> None:
    gpu.durations["short"] = 20.0
    assert queue.run([Timed((call(),))] * 4) == pytest.approx((20.0,) * 4)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (2, BudgetExceededError, "no memory left"),
        (700, DeviceLostError, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (1, UnsupportedError, "CUDA_ERROR_INVALID_VALUE"),
    ],
)
def test_statuses_become_errors(gpu: FakeDriver, status: int, kind: type[KerncastError], words: str) -> None:
    with pytest.raises(kind, match=words):
        Driver(SimpleNamespace(**{**functions(gpu), "cuMemAlloc": lambda _: (status, None)})).call("cuMemAlloc", 1)


def functions(gpu: FakeDriver) -> dict[str, Any]:
    return {"cuGetErrorName": gpu.cuGetErrorName, "cuGetErrorString": gpu.cuGetErrorString}


def test_a_function_that_the_driver_lacks_is_named() -> None:
    with pytest.raises(UnsupportedError, match="offers no cuGreenCtxCreate"):
        Driver(SimpleNamespace()).call("cuGreenCtxCreate")


def test_only_sizes_really_given_are_listed() -> None:
    partitions = Partitions(Driver(SplittingDriver(Clock())), 0)
    assert partitions.sizes() == tuple(range(2, 21, 2))
    assert partitions.create(6).stream == "stream of 6 SMs"
    with pytest.raises(InputError, match=r"cannot be confined to 5 SMs\. Choose 2 to 20, in steps of 2"):
        partitions.create(5)


def test_coarse_splits_are_listed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SplittingDriver, "steps", (8, 8))
    assert Partitions(Driver(SplittingDriver(Clock())), 0).sizes() == (8, 16)


def test_no_sizes_where_the_driver_has_no_green_contexts(gpu: FakeDriver) -> None:
    partitions = Partitions(Driver(gpu), 0)
    assert partitions.sizes() == ()
    with pytest.raises(InputError, match="knows no partitions"):
        partitions.create(2)


def test_no_sizes_where_contexts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SplittingDriver, "cuGreenCtxCreate", lambda *_: (1, None))
    assert Partitions(Driver(SplittingDriver(Clock())), 0).sizes() == ()


@pytest.mark.parametrize(
    ("driver", "bindings", "words"),
    [
        (12080, "13.5.0", r"CUDA 12\.8, but cuda-bindings 13\.5\.0.*pip install 'cuda-bindings<13'"),
        (11040, "12.9.10", r"CUDA 11\.4.*Update the driver to 525"),
    ],
)
def test_an_old_driver_is_refused_with_a_cure(driver: int, bindings: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_versions(driver, bindings)


@pytest.mark.parametrize(("driver", "bindings"), [(13000, "13.5.0"), (13000, "12.9.10"), (12040, "12.9.10")])
def test_a_driver_that_fits_is_taken(driver: int, bindings: str) -> None:
    check_versions(driver, bindings)


@pytest.mark.parametrize("missing", ["cuda.core", "cuda.bindings.driver"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", SimpleNamespace(Device=None))
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=r"is not installed.*pip install 'kerncast\[gpu\]'") as caught:
        open_device()
    assert caught.value.exit_status == 2


def test_an_old_cuda_core_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", SimpleNamespace(experimental=None))
    with pytest.raises(InputError, match=r"older than 1\.0"):
        open_device()


def fake_cuda(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Put modules in the place of cuda.core and cuda.bindings."""
    driver = FakeDriver(Clock())
    api = {"cuDriverGetVersion": lambda: (0, 13000), "cuInit": lambda _: (0,), "cuDeviceGetCount": lambda: (0, 2)}
    api = {**functions(driver), **api, **more}
    monkeypatch.setitem(sys.modules, "cuda.core", SimpleNamespace(Device=None))
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(__version__="13.5.0"))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", SimpleNamespace(**api))
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")


def no_driver() -> tuple[int, int]:
    raise RuntimeError("libcuda.so.1 is not there")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"cuDriverGetVersion": no_driver}, "no CUDA driver is found"),
        ({"cuInit": lambda _: (700,)}, "does not start: CUDA_ERROR_ILLEGAL_ADDRESS"),
        ({}, r"there is no GPU 2: GPUs 0 to 1 are there\. nvidia-smi -L"),
        ({"cuDeviceGetCount": lambda: (0, 0)}, "there is no GPU 2: none is there"),
    ],
)
def test_a_machine_without_the_gpu_is_told_so(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], words: str
) -> None:
    fake_cuda(monkeypatch, **more)
    with pytest.raises(InputError, match=words):
        open_device(2)


def test_an_error_of_cuda_core_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda(monkeypatch)
    with pytest.raises(InputError, match="GPU 0 cannot be used"):
        open_device(0)


def test_the_installed_libraries_say_that_there_is_no_driver() -> None:
    pytest.importorskip("cuda.core")
    try:
        open_device().close()
    except InputError as error:
        assert error.cure  # noqa: PT017  with a driver, opening it is the test


#: nvml.h of driver 580: nvmlClocksEventReason* and, above, nvmlClocksThrottleReason*.
BITS = {
    1: "applications_clocks_setting",
    2: "sw_power_cap",
    3: "hw_slowdown",
    4: "sync_boost",
    5: "sw_thermal_slowdown",
    6: "hw_thermal_slowdown",
    7: "hw_power_brake_slowdown",
    8: "display_clock_setting",
    9: "board_limit",
    10: "reliability",
}


@given(st.sets(st.integers(0, 10)))
def test_a_mask_names_every_reason_but_idleness(bits: set[int]) -> None:
    mask = sum(1 << bit for bit in bits)
    assert set(throttle_reasons(mask)) == {BITS[bit] for bit in bits if bit}


def test_a_reason_without_a_name_is_not_lost() -> None:
    assert throttle_reasons(1 << 20 | 4) == ("sw_power_cap", "unknown_0x100000")


class NVMLError(Exception):
    """What pynvml raises."""


def refuses(*_: Any) -> Any:
    raise NVMLError


def test_without_nvml_everything_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    telemetry = Telemetry("GPU-1", "0000:01:00.0")
    state = telemetry.state()
    assert (state.sm_hz, state.power_w, state.throttle_reasons, telemetry.driver_version()) == (None, None, (), None)
    telemetry.close()


def test_what_nvml_refuses_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=refuses,
        nvmlDeviceGetHandleByPciBusId=lambda bus: f"handle of {bus}",
        nvmlDeviceGetClockInfo=lambda _, kind: {1: 1755, 2: 2619}[kind],
        nvmlDeviceGetPowerUsage=refuses,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 0x5,
        nvmlSystemGetDriverVersion=lambda: b"580.65.06",
        nvmlShutdown=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    telemetry = Telemetry("GPU-1", "0000:01:00.0")
    state = telemetry.state()
    assert (state.sm_hz, state.memory_hz) == (1.755e9, 2.619e9)
    assert (state.temperature_c, state.power_w) == (None, None)
    assert state.throttle_reasons == ("sw_power_cap",)
    assert telemetry.driver_version() == "580.65.06"
    telemetry.close()
    assert telemetry.state().sm_hz is None


def test_the_delay_kernel_waits_for_the_global_timer() -> None:
    for kernel_ in compile_source(KERNELS / "bench" / "delay.cu", architectures=["sm_50", "sm_90", "sm_120"]).kernels:
        assert kernel_.mangled == "delay"
        assert kernel_.ptx.count("%globaltimer") == 2
        assert kernel_.cubin


@pytest.fixture(scope="module")
def flush_kernel() -> CompiledKernel:
    return compile_source(KERNELS / "bench" / "flush.cu", architectures=["sm_90"]).kernels[0]


@pytest.mark.parametrize("count", [1, 1000, 4096])
def test_a_flush_reads_all_of_its_buffer_once_and_writes_nothing(flush_kernel: CompiledKernel, count: int) -> None:
    data = Buffer("u32", (4 * count,), Fill("zeros"))
    arguments = (Argument("data", data), Argument("count", count))
    launch = Launch(KERNELS / "bench" / "flush.cu", "flush", (3, 1, 1), (256, 1, 1), arguments=arguments)
    counts = profile_of(*execute(flush_kernel, launch, WholeGrid()), flush_kernel, launch).counts
    requested, touched = counts[GLOBAL_BYTES_REQUESTED], counts[GLOBAL_BYTES_TOUCHED]
    stores = counts[GLOBAL_WRITE_REQUESTS]
    assert requested.value == 16 * count
    assert touched.value == -(-16 * count // 32) * 32
    assert stores.value == 0


def test_the_flush_leaves_l1_out_and_is_kept(flush_kernel: CompiledKernel) -> None:
    assert "ld.global.cg.v4.u32" in flush_kernel.ptx
    assert flush_kernel.mangled == "flush"


class Whole:
    """A device on the driver made of Python."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
        monkeypatch.setattr(queue_module, "time", clock := Clock())
        self.driver = WholeDriver(clock)
        self.device = CudaDevice(Driver(self.driver), CORE_DEVICE, "context")


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Iterator[Whole]:
    made = Whole(monkeypatch)
    yield made
    made.device.close()
    # Kernels belong to their library.
    assert set(made.driver.live.values()) <= {"delay", "flush"}


def test_a_flush_reads_twice_l2_with_all_sms(whole: Whole) -> None:
    whole.device.run([Flush(), Untimed((call(),)), Flush()])
    address, count = struct.unpack("<QQ", whole.driver.blocks[0])
    assert whole.driver.blocks[0] == whole.driver.blocks[2]
    assert 16 * count == 2 * CORE_DEVICE.properties.l2_cache_size
    # Zeros, for else the kernel would write.
    assert whole.driver.cleared == [(address, 16 * count)]
    (function, geometry), *_ = whole.driver.launched
    assert function == "flush"
    # 2048 threads per SM, the most of any generation.
    assert geometry[0] * geometry[3] == 20 * 2048


def test_a_small_l2_is_flushed_with_64_mib(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CORE_DEVICE.properties, "l2_cache_size", 2 << 20)
    small = Whole(monkeypatch)
    small.device.run([Flush()])
    assert 16 * struct.unpack("<QQ", small.driver.blocks[0])[1] == 64 << 20
    assert whole.driver.cleared == []


def test_memory_is_cleared_before_anything_goes_on(whole: Whole) -> None:
    address = whole.device.allocate(1000)
    whole.device.clear(address, 1000)
    whole.device.clear(address, 0)
    assert whole.driver.cleared == [(address, 1000)]
    assert not whole.driver.is_clearing


def test_an_unloaded_kernel_gives_its_library_back_once(whole: Whole, flush_kernel: CompiledKernel) -> None:
    before = whole.driver.count("library")
    first, second = whole.device.load(flush_kernel), whole.device.load(flush_kernel)
    whole.device.unload(first)
    assert whole.driver.count("library") == before + 1
    assert second.library in whole.driver.live
    with pytest.raises(ValueError, match="not in list"):
        whole.device.unload(first)


def test_nothing_is_unloaded_from_a_gpu_that_is_lost(whole: Whole, flush_kernel: CompiledKernel) -> None:
    loaded = whole.device.load(flush_kernel)
    with pytest.raises(DeviceLostError):
        whole.device.run([Timed((call(kernel("endless")),))])
    whole.device.unload(loaded)
    assert loaded.library in whole.driver.live
    whole.driver.live.clear()


def test_the_partitions_of_a_plan_are_kept(whole: Whole) -> None:
    for size in (*whole.device.partition_sizes(), 2, 4):
        assert whole.device.run([Flush(), Timed((call(),))], sm_count=size) == pytest.approx((3e-6,))
    assert len(whole.device.partition_sizes()) == whole.driver.count("green context") == 10
