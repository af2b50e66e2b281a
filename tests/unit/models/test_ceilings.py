"""Ceilings (Van Lanker et al., Euro-Par 2024) against the paper's Table 1 and numbers worked out by hand."""

import doctest
from dataclasses import replace

import pytest

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.execute import Executed, WholeGrid, run_launch
from kerncast.execute.recording import LaunchRecorder
from kerncast.gpu import Fact, Status, load_gpu
from kerncast.models import Case, Question, model_named
from kerncast.models.transfer.ceilings import (
    Ceilings,
    Demand,
    KernelCeilings,
    compute_ceiling,
    kernel_ceilings,
    kernel_rooflines,
    project,
)
from kerncast.models.transfer.machine_maxima import MachineMaxima, Maximum, maxima_of, published_machine
from kerncast.models.transfer.special_functions import (
    estimated_flops,
    float_mixes_on_both,
    machine_flops,
    special_blocks,
)
from kerncast.prediction import Timing
from kerncast.profiles import FloatMix, KernelProfile, MachineMix, OpcodeCount, Origin
from tests.helpers.caveats import kinds, only
from tests.helpers.execute_helpers import compiled, launch
from tests.helpers.places import ROOT
from tests.helpers.profiles import answered, with_counts
from tests.helpers.transfers import NOTHING, case, exact, no_float_mixes, profiled, run

#: Table 1: Perf^Max in GFLOP/s; DRAM, L2 and L1 in GB/s.
TABLE_1 = {
    "V100": (6890, 846, 2460, 13963),
    "A100-40": (9476, 1375, 4710, 19492),
    "A100-80": (9476, 1678, 4710, 19492),
    "H100": (24979, 1907, 7758, 25330),
}
#: A made-up FP64 kernel: each level takes a round time on the V100. See docs/projecting.md.
KERNEL = Demand(
    mixes=(FloatMix(64, exact(1e9), exact(1e9), exact(2e9)),),
    active_threads=24,
    l1_bytes=11.1335e9,
    shared_bytes=1.3963e9,
    shared_wavefronts=1.3963e9 / 64,
    l2_bytes=4.152e9,
    dram_bytes=1.692e9,
)
SPECIAL = """extern "C" __global__ void k(float *x, float y) {
  int i = threadIdx.x;
  float v = x[i] * 2.0f + 1.0f;
  if (i < 8) v = v / y + logf(v);
  x[i] = v;
}"""


def test_the_machines_are_those_of_table_1() -> None:
    for name, printed in TABLE_1.items():
        machine = published_machine(name)
        found = (machine.fma(64).rate, machine.dram.rate, machine.l2.rate, machine.l1.rate)
        assert [rate / 1e9 for rate in found] == list(printed)
        assert machine.shared == machine.l1
    with pytest.raises(InputError, match="A100-40"):
        published_machine("A100")
    with pytest.raises(MissingEvidenceError, match="FP32"):
        published_machine("V100").fma(32)


def test_the_worked_example_on_the_v100() -> None:
    """2 ms of DRAM, 1 ms of L2, 0.5 ms of L1, 0.2 ms of shared memory; 6 GFLOP at 6890 x 3/4 x 3/4 GFLOP/s."""
    found = kernel_ceilings(KERNEL, published_machine("V100"))
    assert [level.seconds * 1e3 for level in found.levels] == pytest.approx([3.7, 3.0, 2.0])
    assert [level.ceiling_bytes_per_s / 1e9 for level in found.levels] == pytest.approx([12.5298 / 3.7e-3, 1384, 846])
    assert found.compute.max_flops_per_s == 6890e9
    assert found.compute.mix_flops_per_s == 6890e9 * 3 / 4
    assert found.compute.ceiling_flops_per_s == 6890e9 * 3 / 4 * 24 / 32
    assert found.flops == 6e9
    assert [found.roof(level) / 1e9 for level in found.levels] == pytest.approx([6 / 3.7e-3, 2000, 3000])


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("A100-40", (3.0463, 2.9214, 3.0764)),
        ("A100-80", (2.7461, 2.5511, 2.8141)),  # DRAM: 6 GFLOP at 9476 x 9/16 take longer than the bytes
        ("H100", (2.1489, 2.0072, 2.2181)),
    ],
)
def test_the_worked_example_on_the_others(name: str, times: tuple[float, ...]) -> None:
    source, target = (kernel_ceilings(KERNEL, published_machine(each)) for each in ("V100", name))
    assert [level.seconds * 1e3 for level in project(5e-3, source, target)] == pytest.approx(times, abs=5e-5)


def test_the_document_computes_what_it_says() -> None:
    document = ROOT / "docs" / "projecting.md"
    assert doctest.testfile(str(document), module_relative=False).failed == 0


def test_projected_times_are_equation_9() -> None:
    """Perf_t by equation 9 from the roofs of equation 1, and FLOP over it."""
    source, target = (kernel_ceilings(KERNEL, published_machine(each)) for each in ("V100", "H100"))
    for n, found in enumerate(project(5e-3, source, target)):
        rate = 6e9 / 5e-3 / source.roof(source.levels[n]) * target.roof(target.levels[n])
        assert found.seconds == pytest.approx(6e9 / rate, rel=1e-12)
        assert found.efficiency == pytest.approx(6e9 / 5e-3 / source.roof(source.levels[n]), rel=1e-12)


def test_bank_conflicts_take_as_many_times_longer() -> None:
    machine = published_machine("V100")
    only = replace(KERNEL, l1_bytes=0.0, l2_bytes=0.0, dram_bytes=0.0)
    times = [
        kernel_ceilings(replace(only, shared_wavefronts=only.shared_bytes / 128 * ways), machine).levels[0].seconds
        for ways in (1, 2, 32)
    ]
    assert times == pytest.approx([0.1e-3, 0.2e-3, 3.2e-3])


def test_a_level_asked_for_less_than_the_next_delivers_nothing() -> None:
    """DRAM may move more than L2 is asked for: lines are fetched and written back whole."""
    machine = published_machine("V100")
    l1, l2, dram = kernel_ceilings(replace(KERNEL, l2_bytes=1e9, l1_bytes=1e9, shared_bytes=0.0), machine).levels
    assert l2.ceiling_bytes_per_s == dram.ceiling_bytes_per_s == machine.dram.rate
    assert l1.crossing_bytes == 1e9


def test_precisions_take_their_times_one_after_the_other() -> None:
    """1 GFLOP of fused FP32 at 14 TFLOP/s and 1 GFLOP of FP64 additions at half of 7: 71.4 + 285.7 us."""
    machine = replace(published_machine("V100"), fp32=Maximum(14e12), fp64=Maximum(7e12))
    mixes = (FloatMix(32, NOTHING, NOTHING, exact(0.5e9)), FloatMix(64, exact(1e9), NOTHING, NOTHING))
    found = compute_ceiling(replace(KERNEL, mixes=mixes, active_threads=32), machine)
    assert 2e9 / found.ceiling_flops_per_s == pytest.approx(1e9 / 14e12 + 1e9 / 3.5e12)
    assert 2e9 / found.max_flops_per_s == pytest.approx(1e9 / 14e12 + 1e9 / 7e12)


def test_without_operations_the_limit_is_taken() -> None:
    """The projection of ever fewer operations ends in that of none."""
    source, target = published_machine("V100"), published_machine("H100")

    def times(flops: float) -> list[float]:
        demand = replace(KERNEL, mixes=(FloatMix(64, NOTHING, NOTHING, exact(flops / 2)),))
        found = project(5e-3, kernel_ceilings(demand, source), kernel_ceilings(demand, target))
        return [level.seconds for level in found]

    assert times(0.0) == pytest.approx(times(1.0), rel=1e-9)
    assert times(0.0)[2] == pytest.approx(5e-3 * 846 / 1907)


def test_a_kernel_that_does_nothing_is_refused() -> None:
    nothing = answered(
        profiled(flops=0.0), l1_bytes=NOTHING, shared_bytes=NOTHING, shared_wavefronts=NOTHING, l2_bytes=NOTHING,
        dram_bytes=NOTHING,
    )  # fmt: skip
    with pytest.raises(MissingEvidenceError, match="no floating-point operations"):
        Ceilings().estimate(case(nothing, "rtx-3090"), Timing.PROFILER)


def test_the_interval_is_the_span_and_the_forecast_its_middle() -> None:
    found = model_named("ceilings").predict(case(profiled(), "rtx-3090"), Question(Timing.PROFILER))
    assert found.transfer is not None
    times = [
        figure.target or 0.0
        for name in ("l1", "l2", "dram")
        if (figure := found.transfer.figure(f"{name} time")) is not None
    ]
    assert (found.low, found.high) == (min(times), max(times))
    assert found.seconds == pytest.approx((found.low + found.high) / 2)
    assert found.low < found.high
    assert found.limiter in {term.name for term in found.terms}
    assert found.caveats[-1].kind is CaveatKind.INTERVAL_PUBLISHED
    assert found.transfer.gpu_id == "titan-v"
    assert found.transfer.measured_seconds == 1e-3


def test_the_active_threads_of_a_profile_lower_the_compute_ceiling() -> None:
    """Equation 3: 24 of 32 threads leave 3/4 of what the mix allows."""
    for threads, share in ((32.0, 1.0), (24.0, 0.75), (8.0, 0.25)):
        profile = replace(profiled(), run=run("titan-v", active_threads=threads))
        source, target = kernel_rooflines(case(profile, "rtx-3090"))
        for roofline in (source, target):
            assert roofline.ceiling_flops_per_s == pytest.approx(share * roofline.mix_flops_per_s)


def test_broken_assumptions_are_said_here_too() -> None:
    """2 blocks of a made-up kernel leave 78 SMs of the TITAN V idle: the paper's section 5.3."""
    few = replace(profiled(), grid=(2, 1, 1))
    found = model_named("ceilings").predict(case(few, "rtx-3090"), Question())
    assert Caveat.of(CaveatKind.SMS_IDLE, "TITAN V", blocks=2, idle=78, sms=80) in found.caveats


def test_a_run_above_its_roof_is_told() -> None:
    """2 GB in 1 ms are 3.28 times the 609.8 GB/s of the TITAN V."""
    found = model_named("ceilings").predict(case(profiled(dram_bytes=2e9), "rtx-3090"), Question())
    beyond = [each for each in found.caveats if each.kind is CaveatKind.FASTER_THAN_LEVEL]
    assert {each.subject: each.details["times"] for each in beyond}["dram"] == pytest.approx(3.28, abs=0.005)


def test_on_its_own_gpu_the_measured_time_comes_back() -> None:
    found = model_named("ceilings").predict(case(profiled(), "titan-v"), Question())
    assert (found.low, found.seconds, found.high) == pytest.approx((1e-3, 1e-3, 1e-3))
    assert found.timing is Timing.PROFILER
    assert only(found.caveats, CaveatKind.TIMING_OF_RUN).details["asked"] == "series"


@pytest.mark.parametrize(
    ("level", "metric"),
    [
        ("l1_bytes", "l1tex__t_bytes.sum"),
        ("shared_bytes", "smsp__sass_data_bytes_mem_shared.sum"),
        ("shared_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
        ("l2_bytes", "lts__t_bytes.sum"),
        ("dram_bytes", "dram__bytes_read.sum"),
    ],
)
def test_a_missing_level_is_named_with_its_metric(level: str, metric: str) -> None:
    with pytest.raises(MissingEvidenceError) as error:
        Ceilings().estimate(case(answered(profiled(), **{level: None}), "rtx-3090"), Timing.PROFILER)
    assert metric in str(error.value)
    assert "ncu --metrics" in str(error.value)


def test_missing_operations_threads_and_runs_are_named() -> None:
    known = profiled()
    for broken, named in (
        (with_counts(known, no_float_mixes()), "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"),
        (replace(known, run=run("titan-v", active_threads=None)), "smsp__thread_inst_executed_per_inst_executed.ratio"),
        (replace(known, run=None), '--measured "GPU=TIME"'),
    ):
        with pytest.raises(MissingEvidenceError) as error:
            Ceilings().predict(case(broken, "rtx-3090"), Question())
        assert named in str(error.value)


def test_maxima_by_the_share_that_the_other_reaches() -> None:
    """L1 of the V100 PCIe reaches 13920.5 of 14131.2 GB/s; the A100 SXM 40 GB, not measured, has 19491.84."""
    volta, ampere = load_gpu("v100-pcie-16gb"), load_gpu("a100-sxm-40gb")
    pair = maxima_of(volta, ampere, (64,))
    assert pair.source.l1 == Maximum(13920.5e9, is_measured=True, peak=14131.2e9)
    assert pair.target.l1.rate == pytest.approx(19491.84e9 * 13920.5 / 14131.2)
    assert not pair.target.l1.is_measured
    assert pair.target.fma(64).rate == pytest.approx(9745.92e9 * 6603 / 7065.6)
    back = maxima_of(ampere, volta, (64,))
    assert (back.source, back.target) == (pair.target, pair.source)
    assert only(pair.caveats, CaveatKind.MAXIMA_BY_SHARE).subject == "A100 SXM 40GB"
    unmeasured = maxima_of(load_gpu("v100-sxm2-16gb"), ampere, (64,))
    assert "l2" in only(unmeasured.caveats, CaveatKind.MAXIMA_UNMEASURED).subject


def test_shared_memory_has_the_bandwidth_of_l1_where_they_are_one_memory() -> None:
    """Turing's serves 64 bytes per clock, 4352/64 SMs at 1545 MHz; Maxwell's of 128 is apart from L1 of 32."""
    pair = maxima_of(load_gpu("rtx-2080-ti").at_clock("boost"), load_gpu("gtx-980"), (32,))
    assert pair.source.shared.rate == pair.source.l1.rate == 64 * 68 * 1545e6
    assert pair.target.shared.rate == pytest.approx(4 * pair.target.l1.rate)


def test_rates_inside_the_sms_follow_the_clock() -> None:
    volta = load_gpu("v100-pcie-16gb")
    slow = maxima_of(volta.at_clock("base"), volta, (64,))
    for name in ("fp64", "l1"):
        assert getattr(slow.source, name).rate == pytest.approx(getattr(slow.target, name).rate * 1230 / 1380)
    assert slow.source.dram == slow.target.dram


def test_a_kernel_that_only_writes_has_the_bandwidth_of_writes() -> None:
    writes = profiled(flops=0.0)
    writes = answered(writes, global_load_requests=NOTHING, global_store_requests=exact(1e6))
    found = Ceilings().estimate(case(writes, "rtx-2080-ti"), Timing.PROFILER)
    assert CaveatKind.WRITE_RATE_UNKNOWN in kinds(found.caveats)

    def with_init(name: str, rate: float) -> MachineMaxima:
        gpu = load_gpu(name)
        fact = Fact("sustained.dram_init_gb_per_s", rate, "GB/s", ("made up",), Status.SINGLE_SOURCE)
        return replace(gpu, facts=(*gpu.facts, fact))  # type: ignore[return-value]

    source, target = with_init("titan-v", 500), with_init("rtx-2080-ti", 400)
    writes = replace(writes, run=run(source))  # type: ignore[arg-type]
    found = Ceilings().estimate(case(writes, target), Timing.PROFILER)  # type: ignore[arg-type]
    assert found.transfer is not None
    assert found.transfer.figure("dram ceiling") is not None
    by_dram = found.transfer.figure("dram time")
    assert by_dram is not None
    assert by_dram.target == pytest.approx(1e-3 * 500 / 400)


def test_the_rooflines_for_pictures() -> None:
    source, target = kernel_rooflines(case(profiled(), "rtx-3090"))
    assert [level.level for level in source.levels] == ["l1", "l2", "dram"]
    assert source.low_flops_per_s == source.high_flops_per_s == 6e8 / 1e-3
    assert target.is_projected
    assert not source.is_projected
    assert target.low_flops_per_s < target.high_flops_per_s
    found = model_named("ceilings").predict(case(profiled(), "rtx-3090"), Question())
    assert target.low_flops_per_s == pytest.approx(6e8 / found.high)
    # A quarter of the instructions are additions, as many multiplications, as many fused: (1/3 + 2/3 x 1/2) = 2/3.
    assert source.mix_flops_per_s == pytest.approx(source.max_flops_per_s * 2 / 3)
    assert source.ceiling_flops_per_s == source.mix_flops_per_s
    for level in (*source.levels, *target.levels):
        assert level.intensity == pytest.approx(6e8 / level.crossing_bytes)
        assert level.ceiling_bytes_per_s <= level.max_bytes_per_s * (1 + 1e-12)
    assert source.levels[0].crossing_bytes == 3.5 * 2e8  # shared memory too


def test_a_level_without_bytes_is_in_no_picture() -> None:
    cached = answered(profiled(), dram_bytes=NOTHING)
    source, _ = kernel_rooflines(case(cached, "rtx-3090"))
    assert [level.level for level in source.levels] == ["l1", "l2"]
    found = Ceilings().estimate(case(cached, "rtx-3090"), Timing.PROFILER)
    assert found.transfer is not None
    assert found.transfer.figure("dram time") is not None
    assert found.transfer.figure("dram intensity") is None


def machine(origin: Origin, architecture: str, fused: float) -> MachineMix:
    """Return machine code that makes so many fused multiply-adds, and 1000 additions."""
    opcodes = tuple(
        OpcodeCount(name, "fp32", "fma", exact(count / 32), exact(count), exact(count))
        for name, count in (("FADD", 1000.0), ("FFMA", fused), ("IMAD", 5000.0))
    )
    return MachineMix(origin, architecture, opcodes, NOTHING, NOTHING, NOTHING)


def special(profile: KernelProfile, count: float = 100.0) -> KernelProfile:
    return answered(profile, special_ops=exact(count))


def test_machine_code_of_both_gpus_gives_the_ratio_of_operations() -> None:
    """1000 + 2 x 2000 operations on the source and 1000 + 2 x 2500 on the target: 1.2 times as many."""
    source = replace(special(profiled()), machine=machine(Origin.ESTIMATED, "sm_70", 2000))
    target = replace(source, machine=machine(Origin.ESTIMATED, "sm_86", 2500))
    found = float_mixes_on_both(Case(target, load_gpu("rtx-3090"), None, source), source)
    assert found.target[0].flops.value == pytest.approx(1.2 * found.source[0].flops.value)
    assert found.caveats[0].kind is CaveatKind.SPECIAL_FUNCTIONS_DIFFER
    assert dict(found.caveats[0].numbers) == {"ratio": pytest.approx(1.2), "bits": 32}
    mixed = replace(target, machine=machine(Origin.DISASSEMBLED, "sm_86", 2500))
    found = float_mixes_on_both(Case(mixed, load_gpu("rtx-3090"), None, source), source)
    assert found.source == found.target
    assert machine_flops(machine(Origin.ESTIMATED, "sm_70", 2000)).fp32 == 5000


def executed() -> Executed:
    kernel = compiled(SPECIAL)
    return run_launch(kernel, launch([2], [64], x="f32[64] ones", y=2.0), WholeGrid())


def test_blocks_with_special_functions_are_weighted_by_their_threads() -> None:
    """A division of FP32 is a sequence of fused multiply-adds; of each block's 64 threads 8 divide."""
    found = executed()
    special_ones = special_blocks(found.trace)
    assert len(special_ones) >= 1
    threads = found.trace.counts.block_threads.sum(axis=0)
    assert {int(threads[block]) for block in special_ones} == {16}
    same = estimated_flops(found.trace, 70, 90, of_target=False)
    assert same == estimated_flops(found.trace, 70, 70, of_target=True)
    # Disassembled for sm_75 to sm_90 it makes 32 additions, 32 multiplications and 384 fused multiply-adds.
    for number in (52, 70, 90):
        assert estimated_flops(found.trace, 70, number, of_target=True).fp32 == pytest.approx(32 + 32 + 768, rel=0.02)


def test_special_functions_become_what_the_target_makes_of_them() -> None:
    """2 x 64 threads make a fused multiply-add, 2 x 8 of them a root: 6 operations each since sm_70, none before."""
    code = """extern "C" __global__ void k(float *x, float y) {
      int i = threadIdx.x;
      float v = x[i] * y + 1.0f;
      if (i < 8) v = sqrtf(v);
      x[i] = v;
    }"""
    trace = run_launch(compiled(code), launch([2], [64], x="f32[64] ones", y=2.0), WholeGrid()).trace
    for source, target, before, after in ((52, 90, 256, 256 + 96), (90, 52, 256 + 96, 256), (70, 90, 352, 352)):
        assert estimated_flops(trace, source, target, of_target=False).fp32 == before
        assert estimated_flops(trace, source, target, of_target=True).fp32 == after


def test_an_executed_kernel_without_special_functions_has_the_same_operations() -> None:
    plain = special(profiled(), 0.0)
    asked = Case(plain, load_gpu("rtx-3090"), LaunchRecorder.after(executed()).execution(), plain)
    found = float_mixes_on_both(asked, plain)
    assert found.source == found.target
    assert found.caveats == ()
    unknown = float_mixes_on_both(case(profiled(), "rtx-3090"), profiled())
    assert kinds(unknown.caveats) == [CaveatKind.SPECIAL_FUNCTIONS_UNKNOWN]


def test_ceilings_never_exceed_the_machine() -> None:
    found: KernelCeilings = kernel_ceilings(KERNEL, published_machine("A100-80"))
    machine = published_machine("A100-80")
    for level, maximum in zip(found.levels, (machine.l1, machine.l2, machine.dram), strict=True):
        assert level.ceiling_bytes_per_s <= maximum.rate
    assert found.compute.ceiling_flops_per_s <= found.compute.mix_flops_per_s <= found.compute.max_flops_per_s
