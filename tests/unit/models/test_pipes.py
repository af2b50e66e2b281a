"""Pipes: closed forms worked out by hand, ratios that the hardware's facts give, and what must hold for all runs."""

import doctest
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.bench.counters import metrics_needed
from kerncast.caveats import CaveatKind
from kerncast.errors import MissingEvidenceError, Refusal
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.models import Case, Question, model_named
from kerncast.models.transfer import pipes
from kerncast.models.transfer.pipes import (
    busy_sms,
    latency,
    own_issue,
    resource_cycles,
    soft_maximum,
    waiting,
    work_of,
)
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import Count, Counts, KernelProfile, Origin
from kerncast.profiles.counts import (
    DRAM_BYTES,
    GLOBAL_LOAD_REQUESTS,
    INSTRUCTIONS,
    L1_BYTES,
    L2_BYTES,
    LOCAL_BYTES_REQUESTED,
    PIPES,
    SHARED_WAVEFRONTS,
    pipe_instructions,
    work_threads,
)
from kerncast.read.ncu.profile import profiles_of
from kerncast.read.ncu.rows import NcuMetric, NcuRow
from tests.helpers.caveats import kinds
from tests.helpers.profiles import with_counts
from tests.helpers.transfers import profiled, run

#: Of one launch: 65,536 warps with 100 instructions each.
TOTAL = 6_553_600.0
COUNTS = {
    INSTRUCTIONS: TOTAL,
    pipe_instructions("fma"): TOTAL / 2,
    pipe_instructions("alu"): TOTAL / 4,
    pipe_instructions("fp64"): 0.0,
    pipe_instructions("xu"): 0.0,
    pipe_instructions("lsu"): TOTAL / 8,
    SHARED_WAVEFRONTS: TOTAL / 32,
    GLOBAL_LOAD_REQUESTS: TOTAL / 16,
    L1_BYTES: 128 * TOTAL / 16,
    L2_BYTES: 64 * TOTAL / 16,
    DRAM_BYTES: 32 * TOTAL / 16,
}
#: GPUs with every fact, of the families that have the same SMs throughout.
gpus = st.sampled_from(
    [gpu for gpu in list_gpus() if gpu.l2_rate and gpu.dram_latency and gpu.architecture.cycles.fp64]
)


def counted(source: str | GPU = "rtx-2080-ti", seconds: float = 1e-3, **run_fields: object) -> KernelProfile:
    """Return a profile of 8192 blocks of 256 threads with these counts and no others."""
    found = profiled(source, seconds)
    bare = replace(found, counts=Counts.of(Origin.PROFILED, {name: Count.exact(v) for name, v in COUNTS.items()}))
    return replace(bare, run=run(source, seconds, **run_fields))


def forecast(profile: KernelProfile, target: str | GPU, level: float = 0.9) -> Prediction:
    gpu = load_gpu(target) if isinstance(target, str) else target
    return model_named("pipes").predict(Case(profile, gpu, source=profile), Question(Timing.PROFILER, level))


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(pipes).failed == 0


def test_each_resource_takes_its_own_cycles() -> None:
    """On the RTX 2080 Ti: 68 SMs of 4 schedulers; FMA and ALU 2 cycles, LSU and wavefront 2, L1 64 bytes."""
    gpu = load_gpu("rtx-2080-ti")
    found = resource_cycles(work_of(counted()), gpu)
    per_sm = TOTAL / (8192 / math.ceil(8192 / 68))
    assert found["issue"] == pytest.approx(per_sm / 4)
    assert found["fma"] == pytest.approx(per_sm / 2 * 2 / 4)
    assert found["alu"] == pytest.approx(per_sm / 4 * 2 / 4)
    assert found["lsu"] == pytest.approx(per_sm / 8 * 2)
    assert found["shared"] == pytest.approx(per_sm / 32 * 2)
    assert found["l1"] == pytest.approx(per_sm / 16 * 128 / 64)
    assert gpu.dram_rate is not None
    assert found["dram"] == pytest.approx(32 * TOTAL / 16 / gpu.dram_rate.bytes_per_s * gpu.clock_hz)
    assert "xu" not in found


def test_integer_work_takes_the_fma_pipe_of_ampere() -> None:
    """GA10x: FP32 has all 128 lanes, half of which integers share: an ALU instruction costs the FMA pipe one cycle."""
    found = resource_cycles(work_of(counted()), load_gpu("rtx-3090"))
    per_sm = TOTAL / busy_sms(8192, 82)
    assert found["fma"] == pytest.approx((per_sm / 2 + per_sm / 4) / 4)


@given(st.floats(1, 1e9), st.floats(0, 1), st.floats(1, 64))
def test_waiting_and_resources_join_to_the_cycles_of_the_run(cycles: float, share: float, warps: float) -> None:
    resources = cycles * share
    waits = waiting(cycles, resources, warps)
    assert soft_maximum([resources, waits / warps], 1.75) == pytest.approx(cycles, rel=1e-6)


def test_a_stream_scales_with_dram_bandwidth() -> None:
    """A copy that runs at the sustained bandwidth of a TITAN V does so elsewhere: nothing is left to wait for."""
    volta, ampere = load_gpu("titan-v"), load_gpu("rtx-3090")
    assert volta.dram_rate is not None
    assert ampere.dram_rate is not None
    few = {name: value / 1000 for name, value in COUNTS.items() if name not in {DRAM_BYTES, L2_BYTES}}
    nbytes = {DRAM_BYTES: 1e9, L2_BYTES: 1e9}
    profile = with_counts(counted("titan-v", 1e9 / volta.dram_rate.bytes_per_s), {
        name: Count.exact(value) for name, value in (few | nbytes).items()
    })  # fmt: skip
    found = forecast(profile, ampere)
    assert found.limiter == "dram"
    assert found.seconds == pytest.approx(1e9 / ampere.dram_rate.bytes_per_s, rel=0.01)


def test_arithmetic_scales_with_the_clock() -> None:
    """The same GPU at another clock: cycles of an SM stay, but those to L2 and DRAM do not."""
    gpu = load_gpu("a100-sxm-40gb")
    profile = with_counts(counted(gpu, 1e-3), {
        DRAM_BYTES: Count.exact(0), L2_BYTES: Count.exact(0), GLOBAL_LOAD_REQUESTS: Count.exact(0),
        L1_BYTES: Count.exact(0),
    })  # fmt: skip
    found = forecast(profile, gpu.at_clock(gpu.clock_hz / 2))
    assert found.seconds == pytest.approx(2e-3, rel=1e-9)


def test_the_clock_that_the_profiler_counted_is_that_of_the_run() -> None:
    gpu = load_gpu("rtx-2080-ti")
    at_base = forecast(counted(gpu, 1e-3, clock_hz=1.35e9), gpu)
    assert at_base.seconds < 1e-3  # the card itself runs at 1545 MHz
    assert at_base.transfer is not None
    clock = at_base.transfer.figure("clock")
    assert clock is not None
    assert (clock.source, clock.target) == (1.35e9, gpu.clock_hz)


@given(gpus, st.floats(1e-5, 1), st.floats(0.05, 1))
def test_the_gpu_of_the_run_gets_the_run_back(gpu: GPU, seconds: float, occupancy: float) -> None:
    found = forecast(counted(gpu, seconds, achieved_occupancy=occupancy), gpu)
    assert found.seconds == pytest.approx(seconds, rel=1e-9)
    assert (found.low, found.high) == (found.seconds, found.seconds)
    assert CaveatKind.TIME_AS_MEASURED in kinds(found.caveats)


@given(gpus, gpus, st.floats(1e-3, 1))
def test_there_and_back_gives_the_start(one: GPU, other: GPU, seconds: float) -> None:
    profile = counted(one, seconds, achieved_occupancy=None)
    there = forecast(profile, other)
    back = forecast(replace(profile, run=run(other, there.seconds, achieved_occupancy=None)), one)
    assert back.seconds == pytest.approx(seconds, rel=1e-6)


@given(gpus, gpus, st.floats(1e-3, 1), st.floats(1, 8))
def test_more_bandwidth_and_more_clock_are_never_slower(one: GPU, other: GPU, seconds: float, factor: float) -> None:
    profile = counted(one, seconds)
    assert other.dram_rate is not None
    assert other.l2_rate is not None
    wide = replace(
        other,
        sustained_dram_bytes_per_s=other.dram_rate.bytes_per_s * factor,
        l2_bytes_per_s=other.l2_rate.bytes_per_s * factor,
    )
    slow = forecast(profile, other).seconds
    assert forecast(profile, wide).seconds <= slow * (1 + 1e-9)
    assert forecast(profile, other.at_clock(other.clock_hz * factor)).seconds <= slow * (1 + 1e-9)


def test_fewer_blocks_than_sms_leave_the_others_idle() -> None:
    """A grid that does not fill the GPU of the run gains nothing from more SMs of the same kind."""
    base = load_gpu("a100-sxm-40gb")
    small = replace(counted(base, 1e-3), grid=(40, 1, 1))
    more = replace(base, id="made-up", sm_count=2 * base.sm_count)
    assert forecast(small, more).seconds == pytest.approx(1e-3, rel=0.01)


def test_pipes_are_told_by_threads_where_they_are_not_counted() -> None:
    """nvprof counts instructions by threads; 16 active threads a warp make 1/16 as many warp instructions."""
    bare = {name: value for name, value in COUNTS.items() if not any(name == pipe_instructions(p) for p in PIPES)}
    table = {**bare, work_threads("fp32"): 16 * TOTAL / 2, work_threads("integer"): 16 * TOTAL / 4}
    found = counted(active_threads=16.0)
    found = replace(found, counts=Counts.of(Origin.PROFILED, {name: Count.exact(v) for name, v in table.items()}))
    work = work_of(found)
    assert dict(work.by_pipe) == {"fma": TOTAL / 2, "alu": TOTAL / 4}
    assert work.not_counted == ("fp64", "xu", "lsu")
    assert CaveatKind.RESOURCES_LEFT_OUT in kinds(forecast(found, "rtx-3090").caveats)


@pytest.mark.parametrize(("missing", "named"), [(INSTRUCTIONS, "smsp__inst_executed"), (DRAM_BYTES, "dram__bytes")])
def test_what_it_cannot_do_without_is_named(missing: str, named: str) -> None:
    found = counted()
    rest = {name: Count.exact(value) for name, value in COUNTS.items() if name != missing}
    with pytest.raises(MissingEvidenceError, match=named):
        forecast(replace(found, counts=Counts.of(Origin.PROFILED, rest)), "rtx-3090")


def test_a_launch_that_does_not_fit_is_refused() -> None:
    big = replace(counted("a100-sxm-40gb"), shared_bytes=150 * 1024)
    with pytest.raises(Refusal, match="cannot run on RTX 3090"):
        forecast(big, "rtx-3090")


def test_spills_widen_the_interval_between_architectures() -> None:
    plain = forecast(counted(), "rtx-3090")
    spilling = forecast(with_counts(counted(), {LOCAL_BYTES_REQUESTED: Count.exact(1e6)}), "rtx-3090")
    assert spilling.seconds == plain.seconds
    assert spilling.high / spilling.low > 2 * plain.high / plain.low
    assert CaveatKind.BUILD_MAY_DIFFER in kinds(spilling.caveats)
    same = forecast(with_counts(counted(), {LOCAL_BYTES_REQUESTED: Count.exact(1e6)}), "titan-rtx")
    assert CaveatKind.BUILD_MAY_DIFFER not in kinds(same.caveats)


def test_another_family_of_instruction_sets_widens_the_interval() -> None:
    near, far = forecast(counted(), "rtx-3090"), forecast(counted(), "gtx-980")
    assert far.high / far.low > 2 * near.high / near.low
    assert CaveatKind.TIME_OF_OTHER_GENERATION in kinds(far.caveats)
    assert CaveatKind.TIME_OF_OTHER_GENERATION not in kinds(near.caveats)


def test_a_run_faster_than_its_resources_says_so_and_keeps_its_lead() -> None:
    found = forecast(counted(seconds=1e-5), "rtx-3090")
    assert CaveatKind.FASTER_THAN_LEVEL in kinds(found.caveats)
    roofs = [resource_cycles(work_of(counted()), load_gpu(name)) for name in ("rtx-2080-ti", "rtx-3090")]
    clocks = [load_gpu(name).clock_hz for name in ("rtx-2080-ti", "rtx-3090")]
    longest = [soft_maximum(list(roof.values()), 16) / clock for roof, clock in zip(roofs, clocks, strict=True)]
    assert found.seconds == pytest.approx(1e-5 * longest[1] / longest[0])


def test_a_run_that_no_gpu_could_make_is_not_carried_over() -> None:
    """Three times as fast as all that it counted: the counts are of another launch."""
    with pytest.raises(MissingEvidenceError, match="times as fast as its"):
        forecast(counted(seconds=1e-6), "rtx-3090")
    with pytest.raises(MissingEvidenceError, match="was not profiled"):
        forecast(replace(counted(), origin=Origin.EXECUTED), "rtx-3090")


def test_what_is_collected_for_it_is_all_that_it_needs() -> None:
    """A raw page with the metrics of ``kerncast collect --for pipes`` leaves no resource out."""
    metrics = tuple(
        NcuMetric(each.name, 1e6 if each.name.startswith("gpu__time") else 64.0, each.unit)
        for each in metrics_needed(["pipes"], "8.6")
    )
    row = NcuRow(0, "k", (1024, 1, 1), (256, 1, 1), "8.6", metrics)
    (found,) = profiles_of([row], load_gpu("rtx-3090"))
    assert work_of(found).not_counted == ()


def test_own_issue_is_what_intervals_take() -> None:
    """Half FMA and a quarter ALU at 2 cycles, an eighth LSU at 2, an eighth at 1: 1.875 cycles an instruction."""
    gpu = load_gpu("rtx-2080-ti")
    assert own_issue(work_of(counted()), gpu) == pytest.approx(1.875 * TOTAL / busy_sms(8192, 68))


def test_latency_mixes_the_levels_by_their_bytes() -> None:
    """Half of the loads hit L1, a quarter L2, a quarter come from DRAM."""
    gpu = load_gpu("rtx-2080-ti")
    c = gpu.architecture.cycles
    assert c.alu_latency
    assert c.shared_latency
    assert gpu.l1_latency
    assert gpu.l2_latency
    assert gpu.dram_latency
    load = gpu.l1_latency / 2 + gpu.l2_latency / 4 + gpu.dram_latency / 4
    expected = TOTAL * (7 / 8 * c.alu_latency + 1 / 16 * c.shared_latency + 1 / 16 * load)
    assert latency(work_of(counted()), gpu) == pytest.approx(expected)
