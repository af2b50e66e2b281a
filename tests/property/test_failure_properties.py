"""What physics demands where the published projection of ceilings fails: our forecast must react, a case per failure.

The failures are those of ``docs/failures``. Where a bound or an identity of the equations says what the published model
does there, that is asserted, too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast import predict
from kerncast.execute import profile_of, run_launch
from kerncast.execute.recording import LaunchRecorder
from kerncast.forecast import compile_launch, profile_launch
from kerncast.forecast.compiled_launch import gathered
from kerncast.gpu import GPU, WARP_SIZE, load_gpu
from kerncast.launch import Argument, Buffer, Fill, Launch, load_launches
from kerncast.models import Case, Question, model_named
from kerncast.models.transfer.ceilings import Demand, kernel_ceilings, project
from kerncast.models.transfer.machine_maxima import MachineMaxima, Maximum
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import Count, FloatMix, KernelProfile, Resources
from tests.helpers.places import ROOT
from tests.helpers.thorough import THOROUGH

EXAMPLES = ROOT / "examples" / "failures"
few = settings(max_examples=5 if THOROUGH else 3, deadline=None)
rates = st.floats(1e9, 1e14)
amounts = st.floats(1.0, 1e15)
MASKED = """
extern "C" __global__ void masked(float *y, int active) {
    float a = threadIdx.x, b = 1;
    if (threadIdx.x % 32 < active) {
        for (int k = 0; k < 512; ++k) { a = a * 1.5f + b; b = b * 0.5f + a; }
        y[blockIdx.x * blockDim.x + threadIdx.x] = a + b;
    }
}
"""


@cache
def launch(name: str) -> Launch:
    return load_launches(EXAMPLES / f"{name}.toml")[0]


def simulated(evidence: Launch, gpu: GPU) -> Prediction:
    return predict(evidence, gpu, timing=Timing.PROFILER)[0]


def projected(name: str, gpu: GPU, source: str, seconds: float) -> Prediction:
    measured = [f"{source}={seconds * 1e6}us"]
    return predict(launch(name), gpu, "ceilings", measured=measured, timing=Timing.PROFILER)[0]


def seconds_of(found: Prediction, name: str) -> float:
    return next((term.seconds for term in found.terms if term.name == name), 0.0)


# Cache capacity: LULESH's kernel touches 13.8 MB.


WORKING_SET = 13.8e6


@few
@given(st.floats(0.1, 0.7), st.floats(1.2, 4.0))
def test_an_l2_below_the_working_set_makes_dram_deliver_it(below: float, above: float) -> None:
    gpu = load_gpu("a100-pcie-40gb")
    assert gpu.l2_partitions
    small, large = (
        simulated(launch("lulesh"), replace(gpu, l2_bytes=int(WORKING_SET * fill * gpu.l2_partitions)))
        for fill in (below, above)
    )
    # Half of the set is outputs, which may stay in L2: all else must come from DRAM, at its peak rate or slower.
    assert seconds_of(small, "dram") >= WORKING_SET / 2 / gpu.dram_bytes_per_s
    assert seconds_of(large, "dram") == 0.0
    assert small.seconds > large.seconds


def test_ceilings_see_no_capacity_of_the_target() -> None:
    gpu = load_gpu("a100-pcie-40gb")
    assert gpu.l2_bytes
    times = {
        projected("lulesh", replace(gpu, l2_bytes=int(gpu.l2_bytes * factor)), "V100 PCIe 32GB", 23e-6).seconds
        for factor in (0.1, 1)
    }
    assert len(times) == 1


# An under-used GPU: four blocks.


@few
@given(st.integers(2, 8), st.sampled_from(["v100-pcie-32gb", "titan-v", "t4"]))
def test_sms_without_a_block_add_nothing(factor: int, gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    times = [simulated(launch("corr_mean"), replace(gpu, sm_count=gpu.sm_count * more)).seconds for more in (1, factor)]
    assert times[1] == pytest.approx(times[0], rel=0.02)


@few
@given(st.integers(2, 4), st.sampled_from(["v100-pcie-32gb", "a100-pcie-40gb"]))
def test_fewer_blocks_below_one_wave_are_not_faster_in_proportion(blocks: int, gpu_id: str) -> None:
    gpu, whole = load_gpu(gpu_id), launch("corr_mean")
    one, all_of_them = (simulated(replace(whole, grid=(grid, 1, 1)), gpu).seconds for grid in (1, blocks))
    assert one >= 0.9 * all_of_them


# Active threads: a warp instruction takes its slot whatever number of its threads is active.


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    folder = tmp_path_factory.mktemp("masked")
    (folder / "masked.cu").write_text(MASKED, encoding="utf-8")
    buffer = Buffer("f32", (320 * 128,), Fill("zeros"))
    arguments = (Argument("y", buffer), Argument("active", WARP_SIZE))
    return Launch(folder / "masked.cu", "masked", (320, 1, 1), (128, 1, 1), arguments=arguments)


@few
@given(st.integers(1, WARP_SIZE), st.sampled_from(["v100-pcie-32gb", "rtx-3090", "gtx-980"]))
def test_inactive_threads_save_no_issue_slots(masked: Launch, active: int, gpu_id: str) -> None:
    few_of_them = replace(masked, arguments=(masked.arguments[0], Argument("active", active)))
    times = [simulated(each, load_gpu(gpu_id)).seconds for each in (few_of_them, masked)]
    assert times[0] == pytest.approx(times[1], rel=0.05)


@given(st.floats(1, 32), st.floats(1, 32), amounts, rates, rates)
def test_active_threads_cancel_where_arithmetic_is_every_roof(
    one: float, other: float, operations: float, here: float, there: float
) -> None:
    """Equation 3 scales both GPUs alike, so that equation 9 divides it out."""

    def middle(active: float) -> float:
        mix = FloatMix(32, Count.exact(0.0), Count.exact(0.0), Count.exact(operations))
        demand = Demand((mix,), active, *(1e-9 * operations for _ in range(5)))
        source, target = (kernel_ceilings(demand, machine_of(rate)) for rate in (here, there))
        return max(found.seconds for found in project(1.0, source, target))

    assert middle(one) == pytest.approx(middle(other))


def machine_of(rate: float) -> MachineMaxima:
    return MachineMaxima("made up", *(Maximum(rate) for _ in range(7)))


# A recompiled kernel: more registers leave room for fewer warps, which hide less latency.


@cache
def executed_for(name: str, gpu_id: str) -> tuple[KernelProfile, LaunchRecorder]:
    gpu = load_gpu(gpu_id)
    kernel = compile_launch(launch(name), [gpu.architecture.code_name]).kernels[0]
    executed = run_launch(kernel, launch(name))
    return profile_of(executed.trace, executed.sampler, kernel, launch(name)), LaunchRecorder.after(executed)


def rebuilt(name: str, gpu_id: str, build: Callable[[Resources], Resources]) -> Prediction:
    """Return the forecast of a kernel as if the compiler had built it with other resources."""
    own, recorder = executed_for(name, gpu_id)
    assert own.resources
    built, gpu = replace(own, resources=build(own.resources)), load_gpu(gpu_id)
    case = Case(built, gpu, gathered(built, gpu, recorder))
    return model_named("simulation").predict(case, Question(Timing.PROFILER))


def test_a_build_that_leaves_room_for_one_block_hides_less_latency() -> None:
    """Of 32 registers a block of 256 threads fits an A100's SM eight times, of 255 once."""
    full, single = (
        rebuilt("convolution", "a100-pcie-40gb", partial(replace, registers_per_thread=count)).seconds
        for count in (32, 255)
    )
    assert single > 1.1 * full


@few
@given(st.integers(1024, 8192), st.sampled_from(["v100-pcie-32gb", "v100-sxm2-16gb"]))
def test_what_a_build_spills_passes_l2(spilled: int, gpu_id: str) -> None:
    """Frames of more than 1 KiB fit no L1: the stores and loads of all threads take at least what L2 can move.

    Where the machine code is read, it says what is spilled.
    """
    gpu, threads = load_gpu(gpu_id), 709 * 64

    def spilling(own: Resources) -> Resources:
        return replace(own, local_bytes_per_thread=spilled, spill_store_bytes=spilled, spill_load_bytes=spilled)

    found = rebuilt("lulesh", gpu_id, spilling)
    assert gpu.l2_rate
    most = 64 * gpu.sm_count * gpu.clock_hz  # an SM takes 64 bytes a clock from L2
    assert found.seconds >= 2 * spilled * threads / max(most, gpu.l2_rate.bytes_per_s)


# Other FP32 width: twice the lanes, as many issue slots.


SCHEDULERS = 4


def test_no_forecast_is_faster_than_its_instructions_can_be_issued() -> None:
    gpu = load_gpu("rtx-3090")
    machine = profile_launch(launch("noise"), gpu).machine
    assert machine
    instructions = sum(opcode.warp_instructions.value for opcode in machine.opcodes)
    least = instructions / (SCHEDULERS * gpu.sm_count * gpu.clock_hz)
    source = simulated(launch("noise"), load_gpu("rtx-2080-ti")).seconds
    assert simulated(launch("noise"), gpu).seconds >= least
    assert projected("noise", gpu, "RTX 2080 Ti", source).seconds < least  # why the published model cannot be right
