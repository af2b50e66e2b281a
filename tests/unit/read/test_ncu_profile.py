"""From rows of ncu to profiles: each form of a counter, the GPU, the caveats; expected numbers are worked by hand."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, KerncastError
from kerncast.gpu import load_gpu
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.prediction import Timing
from kerncast.profiles import Count, FloatMix, KernelProfile, Origin
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    DRAM_BYTES,
    FP16_FLOPS,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_BYTES_TOUCHED,
    GLOBAL_LOAD_SECTORS,
    L1_BYTES,
    L2_BYTES,
    SHARED_WAVEFRONTS,
)
from kerncast.read import Selection
from kerncast.read.ncu import NcuMetric, NcuRow, expected_units, profiles_of, read_ncu_csv
from tests.helpers.caveats import kinds
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden" / "ncu"
V100 = load_gpu("v100-pcie-16gb")


def golden(name: str, gpu: str | None = None) -> tuple[KernelProfile, ...]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return profiles_of(read_ncu_csv(lines, name), load_gpu(gpu) if gpu else None, name)


def metrics(**values: float) -> tuple[NcuMetric, ...]:
    """Return metrics in their base units; _DOT_ is a point in a name."""
    named = {name.replace("_DOT_", "."): value for name, value in values.items()}
    return tuple(NcuMetric(name, value, min(expected_units(name))) for name, value in named.items())


def profile_of(*found: NcuMetric, gpu: str = "v100-pcie-16gb") -> KernelProfile:
    return profiles_of([NcuRow(0, "k(int)", (10, 1, 1), (64, 1, 1), None, found)], load_gpu(gpu))[0]


def test_the_raw_page_of_a_stencil() -> None:
    heat, total, tensor = golden("raw_2024.csv")
    assert (heat.index, heat.grid, heat.block, heat.shared_bytes) == (0, (64, 64, 1), (32, 8, 1), 0)
    assert heat.run is not None
    assert (heat.run.gpu.id, heat.run.timing) == ("rtx-3090", Timing.PROFILER)
    assert heat.run.seconds == pytest.approx(10.8e-6)
    assert (heat.run.achieved_occupancy, heat.run.active_threads) == (0.8125, 32)
    assert heat.run.clock_hz == pytest.approx(1.4e9)
    one, four = Count.exact(2**20), Count.exact(2**22)
    assert float_mixes_of(heat) == (FloatMix(32, additions=four, multiplications=one, fused=one),)
    assert heat.counts.get(FP32_FLOPS) == Count.exact(7 * 2**20)
    assert heat.counts.get(FP64_FLOPS) == Count.exact(0)
    assert heat.counts.get(FP16_FLOPS) is None
    assert heat.origin is Origin.PROFILED
    assert heat.counts[DRAM_BYTES].value == pytest.approx(8.11e6)
    assert heat.counts.get(SHARED_WAVEFRONTS) == Count.exact(98304)
    assert heat.counts.get(GLOBAL_LOAD_SECTORS) == Count.exact(524288)
    assert heat.counts.get(GLOBAL_BYTES_TOUCHED) is None
    assert heat.resources is not None
    # A tile of 34 x 10 floats is 1360 bytes, which ncu prints as 1.36 Kbyte.
    assert (heat.resources.registers_per_thread, heat.resources.static_shared_bytes) == (24, 1360)
    assert heat.machine is not None
    assert heat.machine.threads_on == Count.exact(37_748_736)
    assert CaveatKind.CLOCK_HELD_AT_BASE in kinds(heat.caveats)
    assert CaveatKind.CACHES_EMPTIED not in kinds(heat.caveats)
    assert CaveatKind.CACHES_EMPTIED in kinds(total.caveats)  # 4.19 of 6.3 MB
    assert CaveatKind.TENSOR_CORES_NOT_COUNTED in kinds(tensor.caveats)
    assert tensor.counts.get(DRAM_BYTES) is None


def test_operations_of_tensor_cores_need_no_caveat_where_they_are_counted() -> None:
    name = "sm__ops_path_tensor_src_fp16_dst_fp32.sum"
    busy = metrics(**{"sm__inst_executed_pipe_tensor.sum": 64.0})
    alone = profile_of(*busy)
    assert CaveatKind.TENSOR_CORES_NOT_COUNTED in kinds(alone.caveats)
    assert name not in alone.counts
    counted = profile_of(*busy, *metrics(**{name: 262144.0}))
    assert CaveatKind.TENSOR_CORES_NOT_COUNTED not in kinds(counted.caveats)
    assert counted.counts.get(name) == Count.exact(262144)


def test_the_raw_page_of_2020_counts_sectors() -> None:
    (axpy,) = golden("raw_2020.csv", "v100-pcie-16gb")
    elements = 16384 * 256  # each reads two and writes one of 8 bytes
    for level in (axpy.counts.get(L1_BYTES), axpy.counts.get(L2_BYTES), axpy.counts.get(DRAM_BYTES)):
        assert level == Count.exact(24 * elements)
    assert axpy.counts.get(FP64_FLOPS) == Count.exact(2 * elements)
    assert axpy.run is not None
    assert axpy.run.clock_hz == pytest.approx(112_000 / 84.5e-6)
    assert axpy.run.achieved_occupancy == 50 / 64
    assert axpy.shared_bytes == 4096  # 4.10 Kbyte


def test_rates_of_the_roofline_sections() -> None:
    (gemm,) = golden("raw_rates_2021.csv")
    cycles = 2_180_000
    counts = (Count.exact(16 * cycles), Count.exact(0.5 * cycles), Count.exact(1024 * cycles))
    assert float_mixes_of(gemm) == (FloatMix(32, *counts),)
    assert gemm.counts[DRAM_BYTES].value == pytest.approx(1e9)
    assert gemm.counts[L2_BYTES].value == pytest.approx(2.5e9)
    assert CaveatKind.COUNTS_FROM_RATES in kinds(gemm.caveats)


def test_the_details_page_has_rates_only() -> None:
    blur = golden("details_2025.csv", "h100-sxm")[0]
    assert blur.counts[DRAM_BYTES].value == pytest.approx(1.85e12 * 40e-6)
    assert blur.shared_bytes == 16384  # 16.38 Kbyte; the driver's own is not the kernel's
    assert blur.machine is not None
    assert blur.machine.thread_instructions.value == pytest.approx(5_406_720 * 31.5)
    assert blur.machine.threads_on.value == pytest.approx(5_406_720 * 29.9)
    assert float_mixes_of(blur) is None
    force, move = golden("details_2020.csv", "v100-pcie-16gb")
    assert (force.grid, force.block) == ((800, 1, 1), (128, 1, 1))
    assert force.caveats[0] == Caveat(CaveatKind.SIZE_ONLY, "grid and the block")
    assert force.counts[DRAM_BYTES].value == pytest.approx(0.4 * V100.dram_bytes_per_s * 123.456e-6)
    assert CaveatKind.DRAM_BYTES_FROM_SHARE in kinds(move.caveats)


def test_additions_and_the_rest_counted_together_are_known_within_a_factor_of_two() -> None:
    joint = metrics(smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on_DOT_sum=1000.0)
    fused = metrics(smsp__sass_thread_inst_executed_op_ffma_pred_on_DOT_sum=400.0)
    found = profile_of(*joint)
    assert found.counts.get(FP32_FLOPS) == Count(1500, 1000, 2000)
    assert CaveatKind.OPERATIONS_COUNTED_TOGETHER in kinds(found.caveats)
    assert profile_of(*joint, *fused).counts.get(FP32_FLOPS) == Count.exact(1400)


def test_opcodes_of_a_report() -> None:
    stem = "sass__thread_inst_executed_true_per_opcode"
    opcodes = {"": 900, ".FADD": 10, ".FADD32I": 5, ".FMUL": 3, ".FFMA": 7, ".DADD": 0, ".DMUL": 0, ".DFMA": 2,
               ".HADD2": 0, ".HMUL2": 0, ".HFMA2": 4}  # fmt: skip
    found = profile_of(*(NcuMetric(f"{stem}{name}", float(value), "inst") for name, value in opcodes.items()))
    assert found.counts.get(FP32_FLOPS) == Count.exact(15 + 3 + 14)
    assert found.counts.get(FP64_FLOPS) == Count.exact(4)
    assert found.counts.get(FP16_FLOPS) is None  # packed: how many halves are used is not known


def test_paired_operations_of_blackwell_count_twice() -> None:
    name = "smsp__sass_thread_inst_executed_op_f{}_pred_on.sum"
    counts = {"add": 1.0, "mul": 2.0, "fma": 4.0, "fma2": 8.0}
    found = profile_of(*(NcuMetric(name.format(kind), value, "inst") for kind, value in counts.items()))
    assert found.counts.get(FP32_FLOPS) == Count.exact(1 + 2 + 2 * (4 + 2 * 8))


def test_what_is_unknown_is_none() -> None:
    bare = profile_of()
    assert (bare.run, bare.resources, float_mixes_of(bare), bare.mix, bare.machine) == (None,) * 5
    assert not bare.counts
    assert CaveatKind.TIME_MISSING in kinds(bare.caveats)


def test_threads_that_a_predicate_switched_off_may_be_unknown() -> None:
    warps = metrics(smsp__inst_executed_DOT_sum=100.0, smsp__thread_inst_executed_DOT_sum=3000.0)
    machine = profile_of(*warps).machine
    assert machine is not None
    assert machine.threads_on == Count(3000, 0, 3000)
    assert len(machine.doubts) == 1


def test_a_thousand_launches_take_no_second() -> None:
    with (GOLDEN / "raw_2024.csv").open(encoding="utf-8") as lines:
        rows = read_ncu_csv(lines)[:1] * 1000
    profiles_of(rows[:1], None)
    start = time.process_time()
    assert len(profiles_of(rows, None)) == 1000
    assert time.process_time() - start < 15


def test_the_time_from_cycles() -> None:
    found = profile_of(*metrics(gpc__cycles_elapsed_DOT_max=1.2e6, gpc__cycles_elapsed_DOT_avg_DOT_per_second=1.2e9))
    assert found.run is not None
    assert found.run.seconds == pytest.approx(1e-3)
    assert CaveatKind.TIME_FROM_CYCLES in kinds(found.caveats)


def test_atomics_are_counted_per_warp() -> None:
    names = ("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
             "smsp__inst_executed_op_shared_atom.sum")  # fmt: skip
    none = profile_of(*(NcuMetric(name, 0.0, "") for name in names))
    some = profile_of(*(NcuMetric(name, 3.0, "") for name in names))
    assert none.counts.get(ATOMIC_THREADS) == Count.exact(0)
    assert some.counts.get(ATOMIC_THREADS) is None
    assert CaveatKind.ATOMICS_PER_WARP in kinds(some.caveats)


def found_gpu(device: str | None, capability: str | None, **attributes: float) -> KernelProfile:
    named = metrics(gpu__time_duration_DOT_sum=1000.0, **attributes)
    return profiles_of([NcuRow(0, "k", (1, 1, 1), (32, 1, 1), capability, named, device)], None, "p.csv")[0]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA TITAN V", "titan-v"),
    ],
)
def test_a_gpu_by_its_name(device: str, expected: str) -> None:
    run = found_gpu(device, "9.9").run
    assert run is not None
    assert run.gpu.id == expected


def test_a_gpu_by_its_hardware() -> None:
    found = found_gpu(None, "7.5", device__attribute_multiprocessor_count=68.0)
    assert found.run is not None
    assert found.run.gpu.id == "rtx-2080-ti"
    assert found.caveats[0].kind is CaveatKind.GPU_FOUND_BY_SMS
    assert found.caveats[0].details == {"sms": 68, "capability": "7.5"}
    # TITAN V and V100 both have 80 SMs; their memory interfaces have 3072 and 4096 bits.
    titan = found_gpu(None, "7.0", launch__sm_count=80.0, device__attribute_global_memory_bus_width=3072.0)
    assert titan.run is not None
    assert titan.run.gpu.id == "titan-v"
    kilohertz = {"device__attribute_clock_rate": 1_380_000.0}
    with pytest.raises(InputError, match=r"fits v100-pcie-16gb, v100-pcie-32gb.* --source-gpu"):
        found_gpu(None, "7.0", launch__sm_count=80.0, device__attribute_global_memory_bus_width=4096.0, **kilohertz)


@pytest.mark.parametrize(
    ("device", "capability", "attributes", "message"),
    [
        ("NVIDIA Imaginary 9000", "9.0", {}, "a GPU without data: no GPU is called 'NVIDIA Imaginary 9000'"),
        ("../../data/gpus/t4.toml", "7.5", {}, "a GPU without data"),  # a file names no file
        ("x" * 10_000, "7.5", {}, "a GPU without data"),
        (None, None, {}, "does not say on which GPU"),
        (None, "9.0", {}, "does not say on which GPU"),
        (None, "9.0", {"launch__sm_count": 3.0}, "fits no GPU with data"),
    ],
)
def test_a_gpu_that_is_not_known(
    device: str | None, capability: str | None, attributes: dict[str, float], message: str
) -> None:
    with pytest.raises(InputError, match=rf"p\.csv, launch 0: .*{message}.* --source-gpu"):
        found_gpu(device, capability, **attributes)


def test_a_gpu_that_is_given_wins_and_a_difference_is_said() -> None:
    row = NcuRow(0, "k", (1, 1, 1), (32, 1, 1), "8.6", metrics(gpu__time_duration_DOT_sum=5.0), "NVIDIA RTX A6000")
    (given,) = profiles_of([row], load_gpu("rtx-3090"))
    assert given.run is not None
    assert given.run.gpu.id == "rtx-3090"
    assert given.caveats[0] == Caveat.of(CaveatKind.GPU_NAMED_OTHERWISE, "RTX 3090", named="'NVIDIA RTX A6000'")
    (same,) = profiles_of([row], load_gpu("rtx-a6000"))
    assert same.caveats[0].kind is CaveatKind.OPERATIONS_NOT_SPLIT
    (other,) = profiles_of([NcuRow(0, "k", (1, 1, 1), (32, 1, 1), "8.6", ())], V100)
    assert other.caveats[0] == Caveat.of(CaveatKind.CAPABILITY_DIFFERS, "V100 PCIe 16GB", profiled="8.6", own="7.0")


def test_a_selection_keeps_the_places_in_the_file() -> None:
    with (GOLDEN / "raw_2024.csv").open(encoding="utf-8") as lines:
        rows = read_ncu_csv(lines)
    assert [each.index for each in profiles_of(rows, None, "p", Selection("heat_step"))] == [0, 2]
    assert [each.index for each in profiles_of(rows, None, "p", Selection(skip=1, count=1))] == [1]
    with pytest.raises(InputError, match="p: no kernel is called 'x'"):
        profiles_of(rows, None, "p", Selection("x"))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (metrics(dram__bytes_read_DOT_sum=-1.0, dram__bytes_write_DOT_sum=1.0), "dram__bytes_read.sum is -1"),
        (metrics(gpu__time_duration_DOT_sum=-5.0), "gpu__time_duration.sum is -5"),
        (metrics(launch__registers_per_thread=1e9), r"1e\+09 registers per thread"),
        (metrics(launch__shared_mem_per_block_dynamic=1e12), r"launch__shared_mem_per_block_dynamic is 1e\+12 bytes"),
    ],
)
def test_values_that_cannot_be_are_refused(found: tuple[NcuMetric, ...], message: str) -> None:
    with pytest.raises(InputError, match=f"launch 0: {message}"):
        profile_of(*found)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("dram__bytes_read.sum", ""),
        ("dram__bytes_read.sum", "KB"),
        ("dram__bytes_read.sum", "Gbit"),
        ("dram__bytes_read.sum", "sector"),
        ("lts__t_bytes.sum", "%"),
        ("gpu__time_duration.sum", "minute"),
        ("gpu__time_duration.sum", ""),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", ""),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", "%"),
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "byte"),
        ("launch__shared_mem_per_block_static", "Mbit/block"),
    ],
)
def test_a_unit_that_the_metric_does_not_have_is_refused(name: str, unit: str) -> None:
    known = {"dram__bytes_write.sum": 1.0, name: 12.0}
    row = tuple(NcuMetric(each, value, "byte" if each != name else unit) for each, value in known.items())
    with pytest.raises(InputError, match=rf"launch 0: {name} is in the unit '{unit}'\. Its base unit is"):
        profile_of(*metrics(gpu__time_duration_DOT_sum=1e5, launch__registers_per_thread=32.0), *row)


@pytest.mark.parametrize(
    ("unit", "factor"), [("byte", 1), ("Kbyte", 1000), ("Mbyte", 1e6), ("KiB", 1024), ("Kibyte", 1024), ("MiB", 2**20)]
)
def test_bytes_in_powers_of_1000_and_of_1024(unit: str, factor: float) -> None:
    """4,096,000 bytes are 4096 Kbyte, as ncu scales, and 4000 KiB."""
    page = (
        '"ID","Kernel Name","Block Size","Grid Size","CC","dram__bytes.sum"',
        f'"","","","","","{unit}"',
        '"0","k","(32, 1, 1)","(1, 1, 1)","7.0","1,500.0"',
    )
    (found,) = profiles_of(read_ncu_csv(page), V100)
    assert found.counts.get(DRAM_BYTES) == Count.exact(1500 * factor)


@pytest.mark.parametrize("nanoseconds", [1e-290, 1e-4, 1.1e16])
def test_a_time_that_no_kernel_takes_is_refused(nanoseconds: float) -> None:
    with pytest.raises(InputError, match=r"the kernel took .*Times are from 1e-12 to 1e\+07 s"):
        profile_of(*metrics(gpu__time_duration_DOT_sum=nanoseconds))


def test_the_share_of_dram_is_of_the_clock_that_it_ran_at() -> None:
    """40 % busy at 750 of 1000 MHz for 100 us are 0.3 of the peak; CUDA gives the highest clock in kHz."""
    busy = metrics(
        dram__throughput_DOT_avg_DOT_pct_of_peak_sustained_elapsed=40.0,
        gpu__time_duration_DOT_sum=1e5,
        dram__cycles_elapsed_DOT_avg_DOT_per_second=750e6,
    )
    for highest in (
        NcuMetric("device__attribute_memory_clock_rate", 1e6, ""),
        NcuMetric("device__attribute_memory_clock_rate", 1e9, "hz"),
    ):
        found = profile_of(*busy, highest).counts.get(DRAM_BYTES)
        assert found is not None
        assert found.value == pytest.approx(0.3 * V100.dram_bytes_per_s * 1e-4)


def test_the_clock_follows_from_how_often_schedulers_issue() -> None:
    """1e9 instructions on 320 schedulers that issue in half of 90 % of the cycles: 6.94e6 cycles, in 5 ms 1389 MHz."""
    issued = metrics(
        smsp__inst_executed_DOT_sum=1e9,
        smsp__issue_active_DOT_avg_DOT_pct_of_peak_sustained_active=50.0,
        smsp__cycles_active_DOT_avg_DOT_pct_of_peak_sustained_elapsed=90.0,
        gpu__time_duration_DOT_sum=5e6,
    )
    run = profile_of(*issued).run
    assert run is not None
    assert run.clock_hz == pytest.approx(1e9 / (320 * 0.5 * 0.9) / 5e-3)
    (without,) = (profile_of(*(each for each in issued if "issue_active" not in each.name)).run,)
    assert without is not None
    assert without.clock_hz is None


def test_atomics_are_a_part_of_what_l2_is_asked_for() -> None:
    parts = {"lts__t_sectors_op_read.sum": 10.0, "lts__t_sectors_op_write.sum": 20.0}
    atomics = {"lts__t_sectors_op_atom.sum": 3.0, "lts__t_sectors_op_red.sum": 4.0}
    for known, sectors in ((parts, 30), (parts | atomics, 37)):
        found = profile_of(*(NcuMetric(name, value, "sector") for name, value in known.items()))
        assert found.counts.get(L2_BYTES) == Count.exact(32 * sectors)


def test_a_launch_without_geometry_is_refused() -> None:
    with pytest.raises(InputError, match=r"launch 0: it does not give the grid\..*LaunchStats"):
        profiles_of([NcuRow(0, "k", None, (32, 1, 1), None, ())], V100)


def test_a_name_of_a_kernel_controls_no_terminal() -> None:
    (found,) = profiles_of([NcuRow(0, "k\x1b[2J\u202e(int)", (1, 1, 1), (32, 1, 1), None, ())], V100)
    assert found.kernel == r"k\x1b[2J\u202e(int)"


NAMES = st.sampled_from([
    "gpu__time_duration.sum", "gpc__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second", "dram__bytes_read.sum",
    "dram__bytes_write.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "launch__registers_per_thread",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "smsp__inst_executed.sum", "launch__sm_count",
    "smsp__thread_inst_executed_per_inst_executed.ratio", "launch__grid_size", "launch__block_size",
    "launch__shared_mem_per_block_static", "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed",
    "smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.sum", "lts__t_sectors.sum",
    "device__attribute_clock_rate",
])  # fmt: skip
VALUES = st.one_of(st.floats(-1e30, 1e30), st.integers(0, 2**40).map(float), st.just(0.0))
EXTENTS = st.none() | st.tuples(*[st.integers(0, 10**10)] * 3)


@given(st.dictionaries(NAMES, VALUES), EXTENTS, EXTENTS, st.text(max_size=20), st.sampled_from([V100, None]))
def test_any_row_is_read_or_refused(
    found: dict[str, float], grid: tuple[int, int, int], block: tuple[int, int, int], text: str, gpu: object
) -> None:
    row = NcuRow(0, text, grid, block, text[:3], tuple(NcuMetric(*each, "") for each in found.items()), text or None)
    try:
        (read,) = profiles_of([row], gpu)  # type: ignore[arg-type]
    except KerncastError:
        return
    assert read.run is None or read.run.seconds > 0
