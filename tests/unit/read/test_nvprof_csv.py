"""The reader of nvprof's CSV, on tables in the forms of CUDA 5.5 to 11, and its counters on kernels of known traffic.

The files under ``golden/nvprof`` are made up in the form of public ones; the kernels' counts were worked out by hand.
"""

import contextlib
import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, KerncastError
from kerncast.gpu import DATA, load_gpu
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.prediction import Timing
from kerncast.profiles import Count, Origin
from kerncast.profiles.counts import (
    DRAM_BYTES,
    FP32_FLOPS,
    FP64_FLOPS,
    GLOBAL_LOAD_SECTORS,
    GLOBAL_SECTORS_WRITTEN,
    L2_BYTES,
    SHARED_BYTES,
    SHARED_WAVEFRONTS,
    SPECIAL_OPS,
)
from kerncast.read import Selection
from kerncast.read.nvprof import (
    NvprofLaunch,
    NvprofMetric,
    counted_metrics,
    is_nvprof_header,
    ncu_row,
    nvprof_profiles,
    printed_values,
    read_nvprof,
)
from tests.helpers.caveats import kinds
from tests.helpers.places import ROOT
from tests.helpers.thorough import examples

GOLDEN = ROOT / "tests" / "golden" / "nvprof"
MEASURED = ROOT.parent / "shared" / "data" / "gpuperfpredict" / "vecmat_counters.parquet"
TRACE = (GOLDEN / "k20_trace_and_metrics.csv").read_text(encoding="utf-8")
LAUNCHES = (GOLDEN / "gtx980_launches.csv").read_text(encoding="utf-8")
N = 2**20


def read(text: str) -> tuple[NvprofLaunch, ...]:
    return read_nvprof(text.split("\n"), "nvprof.csv")


def every_metric() -> list[str]:
    with (DATA / "nvprof_metrics.csv").open(encoding="utf-8", newline="") as file:
        return [row["name"] for row in csv.DictReader(file)]


def without_trace(text: str) -> str:
    return text[text.index('"Device","Kernel"') :]


def test_the_trace_tells_each_launch() -> None:
    first, second, third = read(TRACE)
    assert first.kernel == third.kernel == "axpy(float, float const *, float const *, float*, int)"
    assert (first.device, first.grid, first.block) == ("Tesla K20c", (4096, 1, 1), (256, 1, 1))
    assert [launch.seconds for launch in (first, second, third)] == pytest.approx([98.304e-6, 41.792e-6, 98.016e-6])
    # 1024 B of static memory; 0.5 KB of dynamic memory are 512 B
    assert (second.static_shared_bytes, second.dynamic_shared_bytes, second.registers_per_thread) == (1024, 512, 18)


def test_a_kilobyte_of_nvprof_is_1024_bytes() -> None:
    # a public file: a memset of 1.003906 KB in 1.888 us at 0.507097 GB/s, which are 1028 bytes and 2**30 bytes per GB
    assert pytest.approx(1.003906, abs=1e-6) == 1028 / 1024
    assert pytest.approx(0.507097, rel=1e-5) == 1028 / 1.888e-6 / 2**30
    assert [launch.static_shared_bytes for launch in read(LAUNCHES)] == [1040, 1040]  # 1.015625 KB


def test_means_by_kernel_reach_every_launch_of_it() -> None:
    first, second, third = read(TRACE)
    assert first.metrics == third.metrics
    assert (first.averaged_over, second.averaged_over) == (2, 1)
    assert NvprofMetric("achieved_occupancy", 0.813, "") in first.metrics
    assert NvprofMetric("warp_execution_efficiency", 100.0, "%") in first.metrics


def test_levels_and_overflows_are_no_values() -> None:
    names = {metric.name for launch in read(TRACE) for metric in launch.metrics}
    assert not names & {"dram_utilization", "sysmem_read_transactions"}


def test_metrics_of_each_launch_join_the_trace_in_order() -> None:
    first, second = read(LAUNCHES)
    assert [first.seconds, second.seconds] == pytest.approx([1.204512e-3, 1.198304e-3])
    assert printed_values(first.metrics)["achieved_occupancy"] == 0.9125
    assert printed_values(second.metrics)["achieved_occupancy"] == 0.9
    # 93.75 under the unit % in one row, 93.75% in the other
    assert printed_values(first.metrics)["warp_execution_efficiency"] == 93.75
    assert printed_values(second.metrics)["warp_execution_efficiency"] == 93.75
    assert first.averaged_over is None


def test_a_vector_sum_on_kepler_has_the_traffic_worked_by_hand() -> None:
    profile = nvprof_profiles(read(TRACE))[0]
    assert (profile.grid, profile.block, profile.shared_bytes) == ((4096, 1, 1), (256, 1, 1), 0)
    assert profile.run is not None
    assert profile.resources is not None
    assert profile.run.gpu.id == "k20"
    assert profile.run.timing is Timing.PROFILER
    assert profile.run.achieved_occupancy == pytest.approx(0.813)
    assert profile.run.active_threads == 32
    assert (profile.resources.registers_per_thread, profile.resources.architecture) == (12, "sm_35")
    # two floats read and one written by each thread: 65536 + 32768 transactions of 128 bytes
    assert profile.counts.get(GLOBAL_LOAD_SECTORS) == Count.exact(2 * N * 4 / 32)
    assert profile.counts.first(GLOBAL_SECTORS_WRITTEN) == Count.exact(N * 4 / 32)
    assert profile.counts.get(L2_BYTES) == Count.exact((262168 + 131078) * 32)
    assert profile.counts.get(DRAM_BYTES) == Count.exact((327685 + 163844) * 32)
    assert profile.origin is Origin.PROFILED
    assert profile.counts.get(FP32_FLOPS) == Count.exact(2 * N)
    assert profile.counts.get(SPECIAL_OPS) == Count.exact(0)
    (mix,) = float_mixes_of(profile) or ()
    assert (mix.bits, mix.additions.value, mix.multiplications.value, mix.fused.value) == (32, 0, 0, N)
    assert Caveat.of(CaveatKind.MEANS_OVER_LAUNCHES, launches=2) in profile.caveats


def test_shared_memory_of_kepler_counts_256_bytes_per_transaction() -> None:
    profile = nvprof_profiles(read(TRACE))[1]
    assert profile.counts.get(SHARED_WAVEFRONTS) == Count.exact(4096 + 2048)
    assert profile.counts.get(SHARED_BYTES) == Count.exact((4096 + 2048) * 256 / 2)
    assert profile.counts.get(DRAM_BYTES) is None  # not collected: unknown, and not 0


def test_nvprof_does_not_empty_the_caches() -> None:
    profiles = [profile for text in (TRACE, LAUNCHES) for profile in nvprof_profiles(read(text))]
    held = {CaveatKind.CLOCK_HELD_AT_BASE, CaveatKind.CACHES_EMPTIED}
    assert not any(held.intersection(kinds(profile.caveats)) for profile in profiles)


def level_1(**printed: float) -> dict[str, float]:
    return {metric.name: metric.value for metric in counted_metrics(printed, 52)}


@pytest.mark.parametrize(
    "said",
    [{"local_memory_overhead": 0.0}, {"local_load_requests": 0.0, "inst_executed_local_stores": 0.0}],
)
def test_local_memory_that_is_not_used_has_no_transactions(said: dict[str, float]) -> None:
    found = level_1(gld_transactions=10.0, gst_transactions=5.0, **said)
    assert [found[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{way}.sum"] for way in ("ld", "st")] == [0, 0]


def test_local_memory_of_which_nothing_is_said_is_unknown() -> None:
    for said in ({}, {"local_memory_overhead": 3.7}, {"local_memory_overhead": 0.0, "local_load_requests": 8.0}):
        assert "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum" not in level_1(gld_transactions=10.0, **said)
    assert (
        level_1(local_memory_overhead=0.0, local_load_transactions=4.0)["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"]
        == 4
    )


def test_the_unified_cache_counts_loads_on_maxwell() -> None:
    profile = nvprof_profiles(read(LAUNCHES))[0]
    assert profile.run is not None
    assert profile.run.gpu.id == "gtx-980"
    assert profile.run.active_threads == pytest.approx(30)  # 93.75 % of 32
    assert profile.counts.get(GLOBAL_LOAD_SECTORS) == Count.exact(1310720)
    assert profile.counts.get(FP64_FLOPS) == Count.exact(1048576 + 524288 + 2 * 2097152)
    assert profile.counts.get(FP32_FLOPS) is None


def test_totals_of_flops_serve_where_the_mix_is_unknown() -> None:
    lines = [line for line in TRACE.split("\n") if "flop_count_sp_" not in line]
    profile = nvprof_profiles(read("\n".join(lines)))[0]
    assert profile.counts.get(FP32_FLOPS) == Count.exact(2 * N)
    assert float_mixes_of(profile) is None


def test_the_total_tells_the_one_kind_of_operation_that_is_missing() -> None:
    lines = [line for line in TRACE.split("\n") if "flop_count_sp_fma" not in line]
    profile = nvprof_profiles(read("\n".join(lines)))[0]
    assert profile.counts.get("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum") == Count.exact(N)


def test_columns_of_public_tables_are_known_by_their_descriptions() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    if not MEASURED.exists():
        pytest.skip("the measured counters are not at hand")
    columns = {*pq.read_schema(MEASURED).names, *pq.read_schema(MEASURED.with_name("rodinia.parquet")).names}
    known = printed_values([NvprofMetric(column, 1.0, "") for column in sorted(columns)])
    # what these GPUs have no counters for, and what its authors did not collect
    assert set(every_metric()) - set(known) == {
        "flop_count_hp", "flop_count_hp_add", "flop_count_hp_mul", "flop_count_hp_fma", "inst_fp_16",
        "flop_count_dp_fma", "local_load_transactions", "local_store_transactions",
        "local_load_requests", "local_store_requests", "inst_executed_local_loads", "inst_executed_local_stores",
    }  # fmt: skip


def test_a_share_is_one_of_1_with_or_without_its_sign() -> None:
    """nvprof prints achieved_occupancy as 0.813, and some tables as 81.3%."""
    for value, unit in ((0.813, ""), (81.3, "%")):
        printed = printed_values([NvprofMetric("achieved_occupancy", value, unit)])
        assert printed["achieved_occupancy"] == pytest.approx(0.813)
        (found,) = counted_metrics(printed, 35)
        assert found.value == pytest.approx(81.3)
        assert found.unit == "%"
    # A share that nvprof prints in percent stays so.
    printed = printed_values([NvprofMetric("warp_execution_efficiency", 93.75, "%")])
    assert printed["warp_execution_efficiency"] == 93.75


def test_percent_of_32_threads_agrees_with_what_a_2080_ti_counted_both_ways() -> None:
    # Kernel Tuning Toolkit's file: 30.956669498725578 and 96.73959218351743 % of the same run
    (found,) = counted_metrics({"warp_execution_efficiency": 96.73959218351743}, 75)
    assert found.value == pytest.approx(30.956669498725578, rel=1e-12)


def test_shared_bytes_of_a_tiled_product_on_six_gpus() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    if not MEASURED.exists():
        pytest.skip("the measured counters are not at hand")
    table = pq.read_table(MEASURED, filters=[("app", "==", "matMul_gpu_sharedmem"), ("input_size", "==", 4352)])
    seen = set()
    for row in table.to_pylist():
        if row["block_x"] != 16:
            continue
        printed = {
            "shared_load_transactions": row["shared_load_transactions"],
            "shared_store_transactions": row["shared_store_transactions"],
            "shared_efficiency": row["shared_memory_efficiency"],
        }
        found = {metric.name: metric.value for metric in counted_metrics(printed, 52 if "980" in row["gpu"] else 35)}
        # two loads of 4 bytes per thread and step, two stores per thread and tile of 16 x 16
        expected = 4352**3 * 8 + 4352**2 * (4352 // 16) * 8
        assert found["smsp__sass_data_bytes_mem_shared.sum"] == pytest.approx(expected, rel=1e-8)
        seen.add(row["gpu"])
    assert len(seen) == 6


def test_loads_past_l1_of_kepler_are_what_l2_was_asked_for() -> None:
    # a naive product of 4352 x 4352 on a GTX 680: 4 sectors per warp and step, in transactions of less than 128 bytes
    warps = 4352 * 4352 // 32
    printed = {"gld_transactions": 7727480832.0, "l2_read_transactions": 10303307880.0}
    found = {metric.name: metric.value for metric in counted_metrics(printed, 30)}
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == pytest.approx(warps * 4352 * 4, rel=1e-7)


def test_metrics_alone_are_refused_with_what_is_missing() -> None:
    launches = read(without_trace(TRACE))
    assert [launch.seconds for launch in launches] == [None, None]
    with pytest.raises(InputError, match=r"Duration, Grid and Block .* --print-gpu-trace"):
        nvprof_profiles(launches)


def test_a_row_for_ncu_lacks_what_nvprof_did_not_tell() -> None:
    row = ncu_row(read(without_trace(TRACE))[0], 3, 35)
    assert (row.number, row.grid, row.block, row.compute_capability) == (3, None, None, "3.5")
    assert row.value("gpu__time_duration.sum") is None


def test_a_gpu_that_is_given_wins_over_the_name() -> None:
    text = TRACE.replace("Tesla K20c", "Quadro K9000")
    with pytest.raises(InputError, match="source-gpu"):
        nvprof_profiles(read(text))
    (profile, *_) = nvprof_profiles(read(text), load_gpu("K40"))
    assert profile.run is not None
    assert profile.run.gpu.id == "k40"


def test_a_name_in_a_file_is_never_a_path(tmp_path: Path) -> None:
    text = TRACE.replace("Tesla K20c", f"{tmp_path}/gpu.toml")
    with pytest.raises(InputError, match="source-gpu"):
        nvprof_profiles(read(text))


def test_launches_are_selected_by_name_and_keep_their_places() -> None:
    profiles = nvprof_profiles(read(TRACE), None, "nvprof.csv", Selection("axpy", skip=1))
    assert [profile.index for profile in profiles] == [2]


def test_tables_of_different_runs_are_not_joined() -> None:
    lines = LAUNCHES.split("\n")
    fewer = "\n".join(line for line in lines if '[102]",0.9,' not in line)
    with pytest.raises(InputError, match="stands 2 times in one table and 1 in another"):
        read(fewer)
    fewer = "\n".join(line for line in lines if not line.startswith("0.203422"))
    with pytest.raises(InputError, match="stands 2 times in one table and 1 in another"):
        read(fewer)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("98.304000", "-98.3", "Duration"),
        ("98.304000", "nan", "Duration"),
        ("98.304000", "1e400", "Duration"),
        ("98.304000", "1e20", "Duration"),
        ("ms,us,", "ms,parsec,", "Duration"),
        (",4096,1,1,256", ",4096,0,1,256", "Grid"),
        (",4096,1,1,256", ",9999999999,1,1,256", "Grid"),
        (",256,1,1,12,", ",256,1,1,-12,", "Registers"),
        (",12,0,0.000000", ",12,1e30,0.0", "Static SMem"),
        (",1048576,1048576,1048576", ",1048576,1048576,-1", "flop_count_sp_fma"),
        (",262160,262176,262168", ",262160,262176,26%2168", "l2_read_transactions"),
        ('","1","7","axpy', '","1","7","ax"py', "quote"),
        (",65536,65536,65536", ",65536,65536", "7 values for 8 columns"),
    ],
)
def test_faults_name_the_line_and_the_cure(old: str, new: str, what: str) -> None:
    assert old in TRACE
    with pytest.raises(InputError, match=what) as caught:
        nvprof_profiles(read(TRACE.replace(old, new, 1)))
    assert "nvprof.csv, line" in str(caught.value)
    assert caught.value.cure


def test_a_unit_that_no_count_has_is_refused() -> None:
    with pytest.raises(InputError, match="l2_read_transactions is 12"):
        printed_values([NvprofMetric("l2_read_transactions", 12.0, "GB/s")])


def test_text_without_a_table_is_refused() -> None:
    with pytest.raises(InputError, match="no kernel of nvprof"):
        read("==1== NVPROF is profiling process 1\nhello, world\n")


def test_a_header_is_known() -> None:
    assert is_nvprof_header('"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n')
    assert is_nvprof_header('"Start","Duration","Grid X","Name"')
    assert not is_nvprof_header('"ID","Kernel Name"')
    assert not is_nvprof_header('"Device","Ker')


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_mutated_file_never_ends_in_another_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from((TRACE, LAUNCHES)))
    start = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 80))
    replacement = data.draw(
        st.one_of(st.text(max_size=12), st.sampled_from(('"', ",", "\n", "-1", "1e999", "%", "nan")))
    )
    mutated = text[:start] + replacement + text[start + length :]
    with contextlib.suppress(KerncastError):
        nvprof_profiles(read(mutated))
