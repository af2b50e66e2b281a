"""Algorithm 1 of the cross-GPU report against numbers worked out by hand from its equations."""

from dataclasses import replace

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import MissingEvidenceError, Refusal
from kerncast.gpu import GPU, load_gpu
from kerncast.models import Case, Question, model_named
from kerncast.models.transfer.algorithm1 import Algorithm1, efficiency, occupancies, target_seconds
from kerncast.models.transfer.checks import Roofs
from kerncast.prediction import Prediction, Timing, Transfer
from kerncast.profiles import KernelProfile, Resources
from tests.helpers.caveats import kinds, only
from tests.helpers.profiles import answered, with_counts
from tests.helpers.transfers import NOTHING, case, exact, no_float_mixes, profiled, run

#: Sustained rates of Table 1 of Van Lanker et al., as GPUs: FP64 by HPL in GFLOP/s, DRAM by STREAM in GB/s.
MACHINES = {"v100-pcie-16gb": (6890, 846), "a100-sxm-40gb": (9476, 1375), "h100-pcie": (24979, 1907)}


def machine(gpu_id: str) -> GPU:
    flops, bandwidth = MACHINES[gpu_id]
    return replace(load_gpu(gpu_id), sustained_fp64_flops_per_s=flops * 1e9, sustained_dram_bytes_per_s=bandwidth * 1e9)


def kernel(shared_bytes: int = 24 * 1024) -> KernelProfile:
    """Return the kernel of docs/projecting.md: 6 GFLOP, 1.692 GB, 5 ms on the V100."""
    found = profiled("v100-pcie-16gb", 5e-3, flops=6e9, dram_bytes=1.692e9, bits=64)
    return replace(found, shared_bytes=shared_bytes, run=run(machine("v100-pcie-16gb"), 5e-3))


def transfer_of(found: Prediction) -> Transfer:
    assert found.transfer is not None
    return found.transfer


def figure(found: Prediction, name: str) -> tuple[float | None, float | None]:
    figure = transfer_of(found).figure(name)
    assert figure is not None
    return figure.source, figure.target


def predict(profile: KernelProfile, target: str | GPU) -> Prediction:
    return model_named("algorithm1").predict(case(profile, target), Question(Timing.PROFILER))


@pytest.mark.parametrize(
    ("gpu_id", "occupied", "roof", "milliseconds"),
    [
        # 6 GFLOP / 1.692 GB x 1375 GB/s; 6 / (0.8 x 0.75 x 4875.9)
        ("a100-sxm-40gb", 0.75, 4875.887, 2.05091),
        # 6 GFLOP / 1.692 GB x 1907 GB/s; 6 / (0.8 x 1 x 6762.4)
        ("h100-pcie", 1.0, 6762.411, 1.10907),
    ],
)
def test_the_worked_example(gpu_id: str, occupied: float, roof: float, milliseconds: float) -> None:
    """On the V100: O = 1/2 by shared memory, Roof = 6 / 2 ms = 3 TFLOP/s, P = 1.2 TFLOP/s, eta = 0.8."""
    found = predict(kernel(), machine(gpu_id))
    assert found.seconds * 1e3 == pytest.approx(milliseconds, abs=5e-6)
    assert figure(found, "occupancy") == (0.5, occupied)
    assert figure(found, "efficiency") == pytest.approx((0.8, 0.8))
    assert figure(found, "roof") == pytest.approx((3000e9, roof * 1e9), rel=1e-6)
    assert figure(found, "achieved") == pytest.approx((1200e9, 6e9 / found.seconds))
    assert found.limiter == "dram"
    assert found.low < found.seconds < found.high


def test_the_equations_one_by_one() -> None:
    assert efficiency(1200e9, 0.5, 3000e9) == 0.8
    assert target_seconds(6e9, 0.8, 0.75, 4875.887e9) == pytest.approx(2.05091e-3, abs=5e-9)


def test_without_operations_bandwidth_efficiency_moves() -> None:
    """Equations 6 to 8: 2 GB in 5 ms are 400 GB/s of 0.5 x 846; 2 GB / (0.9456 x 1 x 1907 GB/s) = 1.10907 ms."""
    copy = profiled("v100-pcie-16gb", 5e-3, flops=0.0, dram_bytes=2e9)
    copy = replace(copy, shared_bytes=24 * 1024, run=run(machine("v100-pcie-16gb"), 5e-3))
    found = predict(copy, machine("h100-pcie"))
    assert found.seconds == pytest.approx(5e-3 * 846 / 1907 * 0.5 / 1.0)
    assert figure(found, "efficiency")[0] == pytest.approx(400 / 423)
    assert figure(found, "roof") == (846e9, 1907e9)
    assert [f.unit for f in transfer_of(found).figures if f.name == "roof"] == ["B/s"]


def test_the_bottleneck_may_change() -> None:
    """Arithmetic on the TITAN V, DRAM on the RTX 4070: sgemm of 13.48 and 17.155 TFLOP/s, copies of 609.8 and 449."""
    flops, nbytes = 1e11, 3.5e9
    found = predict(profiled("titan-v", 10e-3, flops=flops, dram_bytes=nbytes), "rtx-4070")
    before, after = load_gpu("titan-v"), load_gpu("rtx-4070")
    assert before.sgemm_flops_per_s
    assert after.sustained_dram_bytes_per_s
    assert figure(found, "roof")[0] == before.sgemm_flops_per_s
    assert figure(found, "roof")[1] == pytest.approx(flops / nbytes * after.sustained_dram_bytes_per_s)
    assert "cuBLAS" in str(only(found.caveats, CaveatKind.COMPUTE_MAXIMUM).details["measure"])
    roofs = only(found.caveats, CaveatKind.ROOF_CHANGES).details
    assert (roofs["source"], roofs["source_roof"], roofs["target_roof"]) == ("TITAN V", "arithmetic", "DRAM")


def test_both_maxima_are_of_one_kind() -> None:
    """The A100 SXM 40 GB has measured multiply-adds, the V100 none: peaks of both."""
    found = predict(profiled("v100-pcie-16gb", flops=1e12), "a100-sxm-40gb")
    before, after = load_gpu("v100-pcie-16gb"), load_gpu("a100-sxm-40gb")
    assert figure(found, "compute maximum") == pytest.approx(
        (before.peak_fp32_flops_per_s, after.peak_fp32_flops_per_s)
    )
    assert any("data-sheet peaks" in str(caveat.details.get("measure")) for caveat in found.caveats)


def test_two_precisions_take_their_times_one_after_the_other() -> None:
    """1 GFLOP of FP32 at 14131.2 and 1 GFLOP of FP64 at 6603 GFLOP/s make 9000.4 GFLOP/s."""
    mixed = profiled("v100-pcie-16gb", flops=1e9)
    mixed = answered(mixed, fp64_flops=exact(1e9))
    found = predict(mixed, "v100-pcie-16gb")
    rate = 2 / (1 / 14131.2 + 1 / 6603)
    assert figure(found, "compute maximum") == pytest.approx((rate * 1e9, rate * 1e9))
    assert found.seconds == pytest.approx(1e-3)
    assert Caveat(CaveatKind.PRECISIONS_IN_TURN, "FP32 and FP64") in found.caveats


def test_each_gpu_has_its_own_registers() -> None:
    """Compiled for each: 64 registers leave 32 of 64 warps on the V100, 48 leave 40 of 64 on the A100."""
    source = replace(profiled("v100-pcie-16gb"), resources=Resources("sm_70", 64, 0, 0, 0, 0, 0, 0, None))
    target = replace(source, resources=Resources("sm_80", 48, 0, 0, 0, 0, 0, 0, None), run=None)
    shares, notes = occupancies(Case(target, load_gpu("a100-sxm-40gb"), None, source))
    assert shares == (0.5, 0.625)
    assert notes == ()
    _, notes = occupancies(case(source, "a100-sxm-40gb"))
    assert kinds(notes) == [CaveatKind.REGISTERS_TAKEN_AS_SAME]


def test_without_registers_the_achieved_occupancy_moves() -> None:
    """Blocks of 256 threads fill the TITAN V (64 warps) and the RTX 3090 (48): O stays the achieved 0.6."""
    shares, notes = occupancies(case(replace(profiled(), resources=None), "rtx-3090"))
    assert list(shares) == pytest.approx([0.6, 0.6])
    assert kinds(notes) == [CaveatKind.REGISTERS_UNKNOWN]
    unknown = replace(profiled(), resources=None, run=run("titan-v", achieved_occupancy=None))
    with pytest.raises(MissingEvidenceError, match="launch__registers_per_thread"):
        occupancies(case(unknown, "rtx-3090"))


def test_a_launch_that_the_target_cannot_run_is_refused() -> None:
    with pytest.raises(Refusal, match="shared memory"):
        predict(kernel(shared_bytes=90 * 1024), "gtx-980")


def test_what_is_missing_is_named() -> None:
    known = profiled()
    without_bytes = answered(known, dram_bytes=None)
    without_flops = answered(with_counts(known, no_float_mixes()), fp32_flops=None)
    for broken, named in (
        (without_bytes, "dram__bytes_read.sum"),
        (without_flops, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"),
        (replace(known, run=None), '--measured "GPU=TIME"'),
    ):
        with pytest.raises(MissingEvidenceError) as error:
            predict(broken, "rtx-3090")
        assert named in str(error.value)
    nothing = profiled(flops=0.0, dram_bytes=0.0)
    with pytest.raises(MissingEvidenceError, match="no floating-point operations"):
        predict(nothing, "rtx-3090")


def test_a_precision_that_nobody_counted_is_not_zero_in_silence() -> None:
    """Without FP32 operations an FP64 kernel would be taken for a copy; with some, what is left out is said."""
    known = profiled("titan-v", flops=0.0)
    uncounted = answered(with_counts(known, no_float_mixes()), fp64_flops=None)
    with pytest.raises(MissingEvidenceError, match=r"FP64 work .* smsp__sass_thread_inst_executed_op_dadd_pred_on.sum"):
        predict(uncounted, "rtx-3090")
    some = profiled("titan-v")
    some = answered(some, fp64_flops=None)
    for model in ("algorithm1", "ceilings"):
        found = model_named(model).predict(case(some, "rtx-3090"), Question(Timing.PROFILER))
        assert Caveat(CaveatKind.OPERATIONS_TAKEN_AS_NONE, "FP64") in found.caveats
        whole = model_named(model).predict(case(profiled("titan-v"), "rtx-3090"), Question(Timing.PROFILER))
        assert CaveatKind.OPERATIONS_TAKEN_AS_NONE not in kinds(whole.caveats)


def test_a_compute_roof_follows_the_clock() -> None:
    """Half the boost clock on the target is half its matrix product, and twice the time of arithmetic."""
    source, target = profiled("titan-v", flops=1e13, dram_bytes=1e6), load_gpu("rtx-4070")
    full, half = predict(source, target), predict(source, target.at_clock(target.clock_boost_hz / 2))
    assert target.sgemm_flops_per_s
    assert figure(full, "roof")[1] == pytest.approx(target.sgemm_flops_per_s)
    assert figure(half, "roof")[1] == pytest.approx(target.sgemm_flops_per_s / 2)
    assert half.seconds == pytest.approx(2 * full.seconds)


def test_operations_of_a_profiler_serve_where_no_work_is_stated() -> None:
    known = profiled()
    bare = answered(known, fp32_flops=None, fp64_flops=None, fp16_flops=None)
    assert predict(bare, "rtx-3090").seconds == predict(known, "rtx-3090").seconds


def test_all_in_caches_leaves_the_arithmetic() -> None:
    found = predict(profiled(dram_bytes=0.0), "rtx-3090")
    assert found.seconds == pytest.approx(
        1e-3 * load_gpu("titan-v").peak_fp32_flops_per_s / load_gpu("rtx-3090").peak_fp32_flops_per_s
    )
    assert found.limiter == "compute"


def test_an_efficiency_above_1_is_told() -> None:
    """1 ms at 609.8 GB/s is 609.8 MB: 2 GB are 3.28 times as many; at half occupancy 400 MB are 1.31 times half."""
    beyond = predict(profiled(flops=0.0, dram_bytes=2e9), "rtx-3090")
    assert only(beyond.caveats, CaveatKind.FASTER_THAN_ROOF).details["times"] == pytest.approx(3.28, abs=0.005)
    half = replace(profiled(flops=0.0, dram_bytes=4e8), resources=Resources("sm_70", 64, 0, 0, 0, 0, 0, 0, None))
    above = only(predict(half, "rtx-3090").caveats, CaveatKind.EFFICIENCY_ABOVE_ONE)
    assert above.details["efficiency"] == pytest.approx(1.31, abs=0.005)
    assert CaveatKind.EFFICIENCY_ABOVE_ONE not in kinds(predict(profiled(), "rtx-3090").caveats)


def test_the_forecast_is_of_the_timing_that_was_measured() -> None:
    found = model_named("algorithm1").predict(case(profiled(), "rtx-3090"), Question(Timing.SERIES))
    assert found.timing is Timing.PROFILER
    assert Caveat.of(CaveatKind.TIMING_OF_RUN, measured="profiler", asked="series") in found.caveats
    slow = replace(profiled(), run=run("titan-v", clock_hz=1.2e9))
    assert only(predict(slow, "rtx-3090").caveats, CaveatKind.CLOCK_OF_RUN).details["run_hz"] == 1.2e9


def test_the_same_gpu_gives_the_measured_time() -> None:
    assert Algorithm1().estimate(case(profiled(), "titan-v"), Timing.PROFILER).seconds == pytest.approx(1e-3)


def test_the_roofline_of_bytes_alone() -> None:
    roofs = Roofs(0.0, 1e9, (1e12, 2e12), (1e11, 2e11))
    assert (roofs.source, roofs.target, roofs.unit, roofs.work) == (1e11, 2e11, "B/s", 1e9)
    assert NOTHING.value == roofs.compute_s[0]


def width(profile: KernelProfile, target: str) -> float:
    """Return the higher end over the forecast, at a known clock."""
    asked = case(profile, target)
    found = Algorithm1().predict(replace(asked, gpu=asked.gpu.at_clock("default")), Question(level=0.9))
    return found.high / found.seconds


def test_between_generations_the_interval_is_wider_wherever_the_counts_are_from() -> None:
    # docs/projection-validation.md: 1.84 within a generation that was measured, 2.51 elsewhere.
    assert width(profiled("k20"), "k40") == pytest.approx(1.84, abs=0.005)
    assert width(profiled("rtx-2080-ti"), "titan-v") == pytest.approx(2.51, abs=0.005)
    unknown = replace(profiled("rtx-2080-ti"), resources=None)
    executed = profiled("rtx-2080-ti")
    assert executed.resources is not None
    recompiled = replace(executed, resources=replace(executed.resources, architecture="sm_90"))
    for profile in (profiled("rtx-2080-ti"), unknown, recompiled):
        assert width(profile, "h100-pcie") == pytest.approx(2.51, abs=0.005)
    told = Algorithm1().predict(case(unknown, "h100-pcie"), Question(level=0.9)).caveats
    wider = only(told, CaveatKind.TIME_OF_OTHER_GENERATION), only(told, CaveatKind.MICROARCHITECTURE_NOT_MEASURED)
    assert [each.subject for each in wider] == ["7.5", "Hopper"]
    assert [each.details["factor"] for each in wider] == pytest.approx([2.51, 2.51], abs=0.005)


def test_without_any_counted_operations_the_interval_holds_both_roofs() -> None:
    bare = profiled("v100-pcie-16gb", 1e-3, dram_bytes=4e8)
    assert bare.resources is not None
    bare = answered(with_counts(bare, no_float_mixes()), fp16_flops=None, fp32_flops=None, fp64_flops=None)
    found = Algorithm1().estimate(case(bare, "h100-pcie"), Timing.PROFILER)
    # Copies 804 and 1704 GB/s (GPU files); FP32 by the data sheets 2 x 64 x 80 x 1.38 GHz, 2 x 128 x 114 x 1.755 GHz.
    assert found.seconds == pytest.approx(1e-3 * 804 / 1704)
    assert found.low == pytest.approx(1e-3 * (128 * 80 * 1.38) / (256 * 114 * 1.755))
    assert found.high == found.seconds
    assert CaveatKind.OPERATIONS_UNKNOWN in kinds(found.caveats)
    for known in (profiled("v100-pcie-16gb", flops=1e6), profiled("v100-pcie-16gb", flops=1e12)):
        # Whatever the operations would have been, the forecast with them lies in the interval.
        own = with_counts(known, bare.counts)
        assert (
            found.low <= Algorithm1().estimate(case(own, "h100-pcie"), Timing.PROFILER).seconds <= found.high * 1.000001
        )
