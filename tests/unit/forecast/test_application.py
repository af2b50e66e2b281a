"""Forecasts of whole applications against sums of what their parts are forecast to take."""

from pathlib import Path

import numpy as np
import pytest

from kerncast.forecast import Options, forecast_all, resolve_gpus
from kerncast.forecast.application import Application, between, forecast_application, link_of
from kerncast.forecast.library_calls import forecast_library_calls
from kerncast.gpu import load_gpu
from kerncast.prediction import Timing
from kerncast.read.launches import launches_of
from kerncast.recording import LibraryCall, Recording
from tests.helpers.recorded_programs import written

GEMM = LibraryCall("cublasSgemm_v2", "gemm(M=4096, N=4096, K=4096, dtype=fp16)", 2 * 4096**3, 3 * 4096**2 * 2)
#: Twice the numbers of daxpy with 2^24 elements.
SUM = LibraryCall("cublasDaxpy_v2", "", 2 * 2**24, 3 * 8 * 2**24, double=True)


def forecast(recording: Recording, gpu: str = "T4") -> Application:
    (found,) = forecast_application(recording, resolve_gpus(gpu), Options()).found
    return found


def test_a_program_takes_the_time_of_its_launches_copies_and_own_work(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 512 * 8)] * 30 + [(1, 128 * 9)])
    found, link = forecast(recording), link_of(load_gpu("t4"))
    alone = forecast_all(launches_of(recording), resolve_gpus("T4"), Options(timing=Timing.PROFILER)).predictions
    seconds = {each.kernel: each.seconds for each in alone}
    kernels = 30 * seconds["scale"] + seconds["gather"]
    assert found.timeline.kernels == pytest.approx(kernels)
    assert found.timeline.copies == pytest.approx(1e6 / link.to_device_bytes_per_s)
    assert found.timeline.seconds > 1.0 + found.timeline.copies + kernels
    # Short kernels of one stream begin one interval after the other.
    longest = 1.0 + found.timeline.copies + 31 * max(link.interval_s, *seconds.values()) + 1e-4
    assert found.low < found.timeline.seconds < min(found.high, longest)
    assert [(each.kernel, each.launches) for each in found.kernels] == [("scale", 30), ("gather", 1)]
    assert sum(each.seconds for each in found.kernels) == pytest.approx(kernels)
    assert found.refused == ()


def test_calls_of_libraries_are_part_of_a_program(tmp_path: Path) -> None:
    gpu = load_gpu("a100-pcie-40gb")
    found = forecast(written(tmp_path, [], calls=[GEMM, SUM]), gpu.name)
    times = [each.seconds for each in forecast_library_calls([GEMM, SUM], gpu, Options())]
    assert found.timeline.kernels == pytest.approx(sum(times))
    assert [each.kernel for each in found.kernels] == ["cublasSgemm_v2", "cublasDaxpy_v2"]
    # 312 TFLOP/s of the data sheet, and 1555 GB/s.
    assert GEMM.operations / 312e12 < times[0] < 3 * GEMM.operations / 312e12
    assert SUM.nbytes / 1555e9 <= times[1] < 2 * SUM.nbytes / 1555e9


def test_numbers_of_double_precision_take_longer_where_a_gpu_has_few_lanes_for_them() -> None:
    gpu, work = load_gpu("t4"), LibraryCall("cublasSsyrk_v2", "", 1e12, 1e6)
    single, double = forecast_library_calls([work, LibraryCall("cublasDsyrk_v2", "", 1e12, 1e6, True)], gpu, Options())
    assert double.seconds / single.seconds == pytest.approx(32, rel=0.05)  # 1/32 of the rate (Turing whitepaper)


def test_a_launch_lies_between_two_that_are_kept_by_its_work(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 100), (0, 400), (0, 10**9), (0, 1), (1, 5)])
    values = between(recording, {0: 2.0})
    # In proportion to its work, up to a factor of 64; of the other group nothing is known.
    assert values[:4] == pytest.approx([2.0, 8.0, 2.0 * 64, 2.0 / 64])
    assert np.isnan(values[4])
    assert between(recording, {0: 0.5}, scales=False)[:4] == pytest.approx([0.5] * 4)


def test_a_kernel_that_no_gpu_runs_is_named_and_the_others_are_forecast(tmp_path: Path) -> None:
    recording = written(tmp_path, [(0, 512 * 8), (1, 128 * 9)], raw={1: bytes(24)})
    found = forecast(recording)
    assert [each.kernel for each in found.refused] == ["gather"]
    assert [each.kernel for each in found.kernels if each.seconds] == ["scale"]
