"""The models against numbers printed in the gpuSD report, worked by hand, or true by definition."""

from dataclasses import replace

import pytest

import kerncast
from kerncast.caveats import CaveatKind
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.forecast import profile_launch
from kerncast.gpu import GPU, load_gpu
from kerncast.models import Case, Question, model_named
from kerncast.models.base import interval_factor
from kerncast.models.published.template import Template
from kerncast.models.roofline import Roofline
from kerncast.prediction import Timing
from kerncast.profiles.counts import DRAM_BYTES, FP32_FLOPS
from kerncast.read.declared import declared_profile, read_declared
from tests.helpers.caveats import kinds, only
from tests.helpers.places import ROOT

DECLARED = ROOT / "examples" / "kernels" / "gpusd_declared.toml"

#: Section 4 and 5 of the report: peak FP32 and bandwidth as it states them, then its printed times in µs.
REPORT = {
    "gtx-titan-black": (5.12e12, 3.36e11, "0.0041", "0.0610", "5.061"),
    "gtx-titan-x": (6.14e12, 3.365e11, "0.0034", "0.0609", "5.061"),
    "titan-v": (1.49e13, 6.528e11, "0.0014", "0.0314", "5.031"),
    "rtx-2080-ti": (1.345e13, 6.16e11, "0.0016", "0.0333", "5.033"),
    "rtx-4070": (2.9e13, 5.04e11, "0.0007", "0.0407", "5.041"),
}


def gpu_of_the_report(gpu_id: str) -> GPU:
    """Return a GPU with the peak and the bandwidth that the report states."""
    peak, bandwidth, *_ = REPORT[gpu_id]
    gpu = load_gpu(gpu_id)
    lanes = gpu.sm_count * gpu.architecture.fp32_lanes_per_sm
    return replace(gpu, clock_hz=peak / (2 * lanes), dram_bytes_per_s=bandwidth)


@pytest.mark.parametrize("gpu_id", REPORT)
def test_the_report_to_its_printed_digits(gpu_id: str) -> None:
    (profile,) = read_declared(DECLARED)
    prediction = Template().predict(Case(profile, gpu_of_the_report(gpu_id)), Question())
    compute, memory, total = REPORT[gpu_id][2:]
    assert f"{(prediction.term('compute') or 0) * 1e6:.4f}" == compute
    assert f"{(prediction.term('dram') or 0) * 1e6:.4f}" == memory
    assert f"{prediction.seconds * 1e6:.3f}" == total
    assert prediction.limiter == "launch"


@pytest.mark.parametrize("gpu_id", REPORT)
def test_the_totals_hold_with_our_own_gpu_facts(gpu_id: str) -> None:
    """The body is DRAM time on every GPU, so that the report's mixed clocks don't show in its totals."""
    (prediction,) = kerncast.predict(DECLARED, gpu_id, model="template")
    assert f"{prediction.seconds * 1e6:.3f}" == REPORT[gpu_id][4]


def test_the_reports_peaks_mix_base_and_boost_clocks() -> None:
    """A flaw of the report: two of its peaks are at base clock, three at boost."""
    used = {
        gpu_id: next(
            clock for clock in ("base", "boost")
            if load_gpu(gpu_id).at_clock(clock).peak_fp32_flops_per_s == pytest.approx(REPORT[gpu_id][0], rel=0.006)
        )
        for gpu_id in REPORT
    }  # fmt: skip
    assert used == {
        "gtx-titan-black": "base", "gtx-titan-x": "base", "titan-v": "boost", "rtx-2080-ti": "boost",
        "rtx-4070": "boost",
    }  # fmt: skip


def test_the_declared_counts_are_the_reports_arithmetic() -> None:
    (profile,) = read_declared(DECLARED)
    assert profile.counts[FP32_FLOPS].value == 25 * (100 * 8 + 30 + 6)
    assert profile.counts[DRAM_BYTES].value == 25 * (100 * 8 + 12 + 8)


def test_template_sums_precisions() -> None:
    gpu = load_gpu("titan-v").at_clock("boost")
    profile = declared_profile("k", (1, 1, 1), (1, 1, 1), fp32_flops=14.8992e12, fp64_flops=7.4496e12, dram_bytes=0)
    assert Template().estimate(Case(profile, gpu), Timing.SERIES).seconds == pytest.approx(2.0 + 5e-6)


def test_roofline_takes_the_slowest_resource() -> None:
    gpu = load_gpu("titan-v").at_clock("boost")  # 80 SMs: 80 blocks fill them evenly
    profile = declared_profile(
        "k", (80, 1, 1), (1, 1, 1), fp32_flops=14.8992e12, special_ops=80 * 16 * 1455e6 * 3, dram_bytes=1
    )
    estimate = Roofline().estimate(Case(profile, gpu), Timing.PROFILER)
    assert estimate.limiter == "special"
    assert estimate.seconds == pytest.approx(3.0 + 1.2e-6)


@pytest.mark.parametrize(("blocks", "rounds"), [(1, 1), (80, 1), (81, 2), (160, 2), (161, 3)])
def test_roofline_counts_whole_rounds_of_blocks(blocks: int, rounds: int) -> None:
    per_block = 1e9
    profile = declared_profile("k", (blocks, 1, 1), (1, 1, 1), fp32_flops=blocks * per_block, dram_bytes=0)
    expected = rounds * per_block / (2 * 64 * 1335e6)
    estimate = Roofline().estimate(Case(profile, load_gpu("titan-v")), Timing.SERIES)
    assert estimate.seconds - 1.6e-6 == pytest.approx(expected)


def working_set(size: float) -> "kerncast.KernelProfile":
    return declared_profile(
        "k", (4096, 1, 1), (256, 1, 1), fp32_flops=0, dram_bytes=size, global_bytes_touched=size,
        global_load_sectors=size / 32, global_store_sectors=0,
    )  # fmt: skip


def test_a_warm_working_set_in_l2_needs_no_dram() -> None:
    gpu = load_gpu("rtx-4070")  # 36 MiB of L2
    small = Roofline().estimate(Case(working_set(8e6), gpu), Timing.SERIES)
    assert small.limiter == "l2"
    assert all(term.name != "dram" for term in small.terms)
    assert Roofline().estimate(Case(working_set(8e6), gpu), Timing.COLD).limiter == "dram"
    assert Roofline().estimate(Case(working_set(400e6), gpu), Timing.SERIES).limiter == "dram"


def test_missing_evidence_is_refused_by_name() -> None:
    profile = declared_profile("k", (1, 1, 1), (1, 1, 1), fp32_flops=1)
    with pytest.raises(MissingEvidenceError, match="DRAM traffic is unknown for k"):
        Roofline().estimate(Case(profile, load_gpu("titan-v")), Timing.SERIES)


def test_an_unknown_model_lists_the_known() -> None:
    with pytest.raises(InputError, match="roofline, algorithm1, ceilings, pipes, times, template"):
        model_named("crystal ball")


def test_the_interval_factor_of_a_normal_error() -> None:
    assert interval_factor(1.0, 0.6826894921) == pytest.approx(2.718281828, rel=1e-6)


def test_code_for_another_generation_widens_the_interval() -> None:
    """As for a Kepler GPU whose code is compiled for sm_50, because the extra that compiles for sm_35 is missing."""
    profile = profile_launch(DECLARED.with_name("gpusd.toml"), gpu="GTX 980")
    gtx980, k40 = (load_gpu(name).at_clock("default") for name in ("gtx-980", "k40"))
    own = Roofline().predict(Case(profile, gtx980), Question())
    foreign = Roofline().predict(Case(profile, k40), Question())
    same_counts = Roofline().estimate(Case(profile, k40), Timing.SERIES)
    assert own.high / own.seconds == pytest.approx(interval_factor(0.6, 0.9))
    assert foreign.high / same_counts.high == pytest.approx(interval_factor(0.732, 0.9), rel=1e-3)


def test_fp16_work_is_never_free() -> None:
    """Kepler and Maxwell have no FP16 rate of their own."""
    profile = declared_profile("k", (15, 1, 1), (1, 1, 1), fp16_flops=5.04e12, dram_bytes=0)
    found = Roofline().estimate(Case(profile, load_gpu("k40").at_clock("boost")), Timing.SERIES)
    assert found.seconds == pytest.approx(1.0, rel=1e-3)  # at the K40's FP32 rate, 5.04 TFLOP/s at boost
    assert CaveatKind.FP16_RATE_OF_FP32 in kinds(found.caveats)


def test_what_is_left_out_is_named() -> None:
    found = Roofline().estimate(
        Case(declared_profile("k", (1, 1, 1), (1, 1, 1), dram_bytes=1), load_gpu("t4")), Timing.COLD
    )
    assert "fp32" in only(found.caveats, CaveatKind.RESOURCES_LEFT_OUT).subject


@pytest.mark.parametrize("gpu_id", ["t4", "rtx-4070", "titan-v"])
def test_a_working_set_far_above_l2_is_as_sure_warm_as_cold(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    warm = Roofline().predict(Case(working_set(10e9), gpu), Question(Timing.SERIES))
    cold = Roofline().predict(Case(working_set(10e9), gpu), Question(Timing.COLD))
    assert warm.low / warm.seconds == pytest.approx(cold.low / cold.seconds, rel=1e-3)


def test_foreign_code_is_said() -> None:
    profile = profile_launch(DECLARED.with_name("gpusd.toml"), gpu="GTX 980")
    found = Roofline().predict(Case(profile, load_gpu("k40")), Question())
    assert only(found.caveats, CaveatKind.CODE_OF_OTHER_GENERATION).subject == "sm_52"
