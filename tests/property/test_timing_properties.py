"""What must hold for every simulated kernel: more of anything is never slower, beyond the granularity that is stated.

More SMs, or a larger grid, move where rounds of blocks end; a faster resource changes when warps meet one another, so
that the simulation of some blocks may differ by some percent either way.
"""

import math
from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.execute import profile_of, run_launch
from kerncast.execute.recording import LaunchRecorder
from kerncast.forecast import compile_launch
from kerncast.forecast.compiled_launch import gathered
from kerncast.gpu import GPU, load_gpu
from kerncast.launch import load_launches
from kerncast.models import Case, Question, model_named
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import KernelProfile
from tests.helpers.places import ROOT
from tests.helpers.thorough import THOROUGH

KERNELS = ROOT / "examples" / "kernels"
MODEL = model_named("simulation")
#: So much longer a launch may take on what is better.
GRANULARITY = 1.05
few = settings(max_examples=6 if THOROUGH else 3, deadline=None)
gpus = st.sampled_from(["titan-v", "t4"])
#: Streaming, loads that L1 serves, shared memory and barriers, little work in few blocks.
kernels = st.sampled_from([("vector_add", 0), ("matmul_naive", 0), ("shared_transpose", 1), ("reduce_sum", 0)])
#: The same kernels with more blocks: name, launch, one of four times its grid.
grown = st.sampled_from([("reduce_sum", 0, 1), ("shared_transpose", 0, 1), ("matmul_naive", 0, 1)])
factors = st.floats(1.05, 8.0)


@cache
def case(name: str, index: int, gpu_id: str) -> tuple[KernelProfile, LaunchRecorder]:
    """Compile a launch of the examples for a GPU, and execute it; once."""
    launch = load_launches(KERNELS / f"{name}.toml")[index]
    kernel = compile_launch(launch, [load_gpu(gpu_id).architecture.code_name]).kernels[0]
    executed = run_launch(kernel, launch)
    return profile_of(executed.trace, executed.sampler, kernel, launch), LaunchRecorder.after(executed)


def forecast(
    kernel: tuple[str, int], gpu_id: str, gpu: GPU | None = None, question: Question | None = None
) -> Prediction:
    """Return the forecast of a kernel that was compiled for one GPU on a variation of it."""
    found, recorder = case(*kernel, gpu_id)
    variation = gpu or load_gpu(gpu_id)
    known = Case(found, variation, gathered(found, variation, recorder))
    return MODEL.predict(known, question or Question(Timing.SERIES))


def slower(kernel: tuple[str, int], gpu_id: str, better: GPU) -> float:
    """Return the time on something better over that on the GPU."""
    return forecast(kernel, gpu_id, better).seconds / forecast(kernel, gpu_id).seconds


@few
@given(kernels, gpus, factors)
def test_more_dram_bandwidth_is_never_slower(kernel: tuple[str, int], gpu_id: str, factor: float) -> None:
    gpu = load_gpu(gpu_id)
    measured = gpu.sustained_dram_bytes_per_s
    better = replace(
        gpu,
        dram_bytes_per_s=gpu.dram_bytes_per_s * factor,
        sustained_dram_bytes_per_s=measured and measured * factor,
    )
    assert slower(kernel, gpu_id, better) <= GRANULARITY


@few
@given(kernels, gpus, factors)
def test_more_l2_bandwidth_is_never_slower(kernel: tuple[str, int], gpu_id: str, factor: float) -> None:
    gpu = load_gpu(gpu_id)
    assert gpu.l2_rate
    assert slower(kernel, gpu_id, replace(gpu, l2_bytes_per_s=gpu.l2_rate.bytes_per_s * factor)) <= GRANULARITY


@few
@given(kernels, gpus, st.integers(2, 8))
def test_a_larger_l2_is_never_slower(kernel: tuple[str, int], gpu_id: str, factor: int) -> None:
    gpu = load_gpu(gpu_id)
    assert gpu.l2_bytes
    assert slower(kernel, gpu_id, replace(gpu, l2_bytes=gpu.l2_bytes * factor)) <= GRANULARITY


@few
@given(kernels, gpus, factors)
def test_a_higher_clock_is_never_slower(kernel: tuple[str, int], gpu_id: str, factor: float) -> None:
    gpu = load_gpu(gpu_id)
    assert slower(kernel, gpu_id, gpu.at_clock(gpu.clock_hz * factor)) <= GRANULARITY


@few
@given(kernels, gpus)
def test_the_base_clock_is_never_faster_than_boost(kernel: tuple[str, int], gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    base, boost = (forecast(kernel, gpu_id, gpu.at_clock(clock)).seconds for clock in ("base", "boost"))
    assert base >= boost / GRANULARITY


@few
@given(kernels, gpus, st.sampled_from([2, 3, 4]))
def test_more_sms_are_never_slower(kernel: tuple[str, int], gpu_id: str, factor: int) -> None:
    """With the same DRAM and L2, up to the last round of blocks: the busiest SM has its share of them to the end."""
    gpu = load_gpu(gpu_id)
    more = replace(gpu, sm_count=gpu.sm_count * factor)
    rounding = last_round(kernel, gpu_id, more.sm_count) / last_round(kernel, gpu_id, gpu.sm_count)
    assert slower(kernel, gpu_id, more) <= GRANULARITY * max(1.0, rounding)


def last_round(kernel: tuple[str, int], gpu_id: str, sms: int) -> float:
    """Return the blocks that all SMs would do in the time of the busiest one, over those of the launch."""
    blocks = math.prod(case(*kernel, gpu_id)[0].grid)
    return -(-blocks // sms) * sms / blocks


@few
@given(grown, gpus)
def test_a_larger_grid_takes_at_least_as_long(names: tuple[str, int, int], gpu_id: str) -> None:
    name, small, large = names
    assert forecast((name, large), gpu_id).seconds >= forecast((name, small), gpu_id).seconds / GRANULARITY


@few
@given(kernels, gpus, st.sampled_from(list(Timing)), st.floats(0.01, 0.99))
def test_the_interval_contains_the_forecast(kernel: tuple[str, int], gpu_id: str, timing: Timing, level: float) -> None:
    found = forecast(kernel, gpu_id, question=Question(timing, level))
    assert 0 < found.low <= found.seconds <= found.high
    assert found.limiter in {*(term.name for term in found.terms), "latency"}
    assert all(term.seconds >= 0 for term in found.terms)


@few
@given(kernels, gpus)
def test_a_cold_l2_is_never_faster(kernel: tuple[str, int], gpu_id: str) -> None:
    cold, warm = (
        forecast(kernel, gpu_id, question=Question(timing)).seconds for timing in (Timing.COLD, Timing.SINGLE)
    )
    assert cold >= warm / GRANULARITY
