"""The metrics of a profile: names, units, values worked out by hand, intervals."""

import csv
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.gpu import DATA, load_gpu
from kerncast.metrics import metrics_of, percentage, ratio, vocabulary
from kerncast.profiles import Count, Counts, KernelProfile, MachineMix, Origin
from kerncast.profiles.counts import FP16_FLOPS, FP32_FLOPS, FP64_FLOPS, GLOBAL_BYTES_TOUCHED, TENSOR_OPS
from tests.helpers.places import ROOT
from tests.helpers.profiles import (
    MIX,
    RESOURCES,
    SAXPY,
    SECTORS,
    THREADS,
    TILED,
    WARPS,
    access,
    accessed,
    answered,
    opcode,
)

TITAN_V = load_gpu("titan-v")
PIPES = ("fma", "alu", "fp16", "fp64", "xu", "lsu", "cbu", "adu", "uniform", "tex", "tensor")
CLASSES = (
    "fp16", "fp32", "fp64", "integer", "conversion", "control", "memory", "misc", "inter_thread", "uniform",
)  # fmt: skip

#: What ncu prints for the units of the library.
NCU_UNITS = {
    "bytes": "byte", "instructions": "inst", "l2_sectors": "sector", "l1tex_requests": "request",
    "l1tex_wavefronts": "wavefront", "l1data_bank_conflicts": "conflict", "ctas": "block", "threads": "thread",
    "warps": "warp", "percent": "%", "unitless": "", "nanoseconds": "ns", "gpc_cycles": "cycle", "invalid": "",
}  # fmt: skip


def values(profile: KernelProfile, gpu: str | None = "titan-v") -> dict[str, float]:
    return {each.name: each.count.value for each in metrics_of(profile, load_gpu(gpu) if gpu else None)}


def everything() -> KernelProfile:
    """Return a profile in which every space, operation, class and pipe occurs."""
    opcodes = [opcode("FFMA", work, PIPES[i % len(PIPES)], 1) for i, work in enumerate(CLASSES)]
    opcodes += [opcode("MOV", "misc", pipe, 1) for pipe in PIPES]
    counts = {"requests": 1, "threads": 32, "nbytes": 128, "sectors": 4, "lines": 1, "wavefronts": 1, "contention": 1}
    both = ("ld", "st", "atom", "red", "ldgsts")
    operations = {"global": both, "shared": both, "local": ("ld", "st")}
    total = Count.exact(len(opcodes))
    products = Counts.of(Origin.EXECUTED, {name: Count.exact(1) for name in set(TENSOR_OPS.values())})
    rows = [access(space, each, **counts) for space, names in operations.items() for each in names]
    return replace(
        SAXPY,
        machine=MachineMix(Origin.ESTIMATED, "sm_70", tuple(opcodes), total, total.times(32), total.times(32)),
        counts=SAXPY.counts.updated(accessed(*rows)).updated(products),
    )


def test_what_can_be_printed_is_the_vocabulary() -> None:
    gpus = [load_gpu(name) for name in ("titan-v", "h100-sxm", "k40")]
    with_barriers = replace(everything(), resources=replace(RESOURCES, barriers=1))
    printed = {each.name for gpu in gpus for each in metrics_of(with_barriers, gpu)}
    assert printed == {word.name for word in vocabulary()}


def test_without_a_gpu_exactly_what_needs_none() -> None:
    assert set(values(everything(), None)) == {word.name for word in vocabulary() if not word.needs_gpu}


def test_the_vocabulary_is_well_formed() -> None:
    words = vocabulary()
    assert len({word.name for word in words}) == len(words)
    for word in words:
        assert word.kind in {"counter", "ratio", "percentage", "fact"}
        assert (word.source == "kerncast") == word.name.startswith("kerncast__"), word.name
        assert word.source in {"ncu", "kerncast"}
        assert len(word.meaning) > 10
        assert re.fullmatch(r"[a-z0-9_]+__[a-z0-9_]+(\.sum|\.ratio|\.pct|\.max|\.avg\.[a-z_]+)?", word.name)
        assert word.name.endswith((".sum", ".max")) == (word.kind == "counter"), word.name
        assert not word.name.endswith((".ratio", ".pct")) or word.kind in {"ratio", "percentage"}
        assert (word.unit == "%") == (word.kind == "percentage")


def test_the_documents_have_the_same_vocabulary() -> None:
    link = ROOT / "docs" / "vocabulary.csv"
    assert link.read_bytes() == (DATA / "vocabulary.csv").read_bytes()


def test_units_are_those_that_ncu_prints() -> None:
    with (DATA / "ncu_metrics.csv").open(encoding="utf-8", newline="") as file:
        units = {row["name"]: row["unit"] for row in csv.DictReader(file)}
    shared = [word for word in vocabulary() if word.name in units]
    assert len(shared) > 40
    assert {word.name: word.unit for word in shared} == {word.name: units[word.name] for word in shared}


def test_names_and_units_are_those_of_nvidias_library() -> None:
    # tools/record_ncu_names.py made the file.
    with (ROOT / "tests" / "golden" / "ncu_names.csv").open(encoding="utf-8", newline="") as file:
        known = {row["name"]: row for row in csv.DictReader(file)}
    derived = ("launch__", "sm__maximum_")
    words = {word.name: word for word in vocabulary() if word.source == "ncu" and not word.name.startswith(derived)}
    assert set(words) == set(known)
    for name, word in words.items():
        assert word.unit == "/".join(NCU_UNITS[unit] for unit in known[name]["unit"].split("/")), name
    lacking = {name: row["not_on"].split() for name, row in known.items() if row["not_on"]}
    for name, chips in lacking.items():
        expected = ["GV100"] if "uniform" in name else ["GB202"] if name.startswith("dram__") else chips
        expected = ["GV100", "TU102"] if "ldgsts" in name else expected
        if "path_tensor" in name:  # tensor cores differ in the types that they have
            continue
        assert chips == expected
        assert name.startswith("dram__") or any(part in name for part in ("uniform", "pipe_fp16", "ldgsts"))


def test_a_zero_names_no_pipe_that_the_gpu_may_lack() -> None:
    names = set(values(SAXPY))
    assert not any("pipe_fp16" in name or "pipe_uniform" in name for name in names)
    assert "smsp__inst_executed_pipe_tensor.sum" in names


def test_saxpy_by_hand() -> None:
    found = values(SAXPY)
    expected = {
        "smsp__inst_executed.sum": 12 * WARPS,
        "sm__inst_executed.sum": 12 * WARPS,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum": THREADS,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": THREADS,
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": 0,
        "smsp__thread_inst_executed_per_inst_executed.ratio": 32,
        "smsp__inst_executed_pipe_lsu.sum": 3 * WARPS,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2 * WARPS,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 8 * WARPS,
        "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum": 4 * THREADS,
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 4,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 32,
        "kerncast__lines_per_request_global_st.ratio": 1,
        "l1tex__t_sector_hit_rate.pct": 0,
        "lts__t_sectors_op_read.sum": 2 * SECTORS,
        "lts__t_sectors_op_read_lookup_miss.sum": 2 * SECTORS,
        "lts__t_sector_op_write_hit_rate.pct": 100,
        "lts__t_sector_hit_rate.pct": 100 / 3,
        "dram__bytes_read.sum": 8 * THREADS,
        "dram__bytes_write.sum": THREADS,
        "kerncast__l2_dirty_bytes_left.sum": 3 * THREADS,
        "kerncast__flops_per_dram_byte.ratio": 2 / 9,
        "kerncast__flops_per_byte_touched.ratio": 2 / 8,
        "kerncast__instruction_level_parallelism.ratio": 20 / 14,
        "kerncast__dependency_distance.ratio": 2.5,
        "kerncast__wave_bytes_touched": 640 * 256 * 8,
        "launch__thread_count": THREADS,
        "smsp__warps_launched.sum": WARPS,
        "launch__waves_per_multiprocessor": 4096 / (8 * 80),
        "sm__maximum_warps_per_active_cycle_pct": 100,
        "launch__occupancy_limit_registers": 16,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_shared_memory_atomics_and_spills_by_hand() -> None:
    found = values(TILED)
    expected = {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 134 * WARPS,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 67 * WARPS,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 64 * WARPS,
        "kerncast__wavefronts_per_request_shared_atom.ratio": 4,
        "smsp__sass_data_bytes_mem_shared.sum": 268 * THREADS,
        "kerncast__atomic_contention_global.ratio": 32,
        "kerncast__atomic_contention_shared.ratio": 4,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": SECTORS,
        "l1tex__t_sectors.sum": 10 * SECTORS + WARPS,
        "kerncast__barriers_per_warp.ratio": 128,
        "lts__t_sectors_op_red.sum": WARPS,
        "kerncast__blocks_executed_share.pct": 100 * 240 / 4096,
        "launch__occupancy_limit_registers": 6,
        "sm__maximum_warps_per_active_cycle_pct": 75,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    loads = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    (metric,) = [each for each in metrics_of(TILED) if each.name == loads]
    assert (metric.count.low, metric.count.high) == pytest.approx((1.9 * WARPS, 2.1 * WARPS))
    assert metric.origin is Origin.EXECUTED


def test_warp_states_by_hand() -> None:
    found = values(SAXPY)
    stalled = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    expected = {
        "gpu__time_duration.sum": 22_000,
        "sm__cycles_elapsed.max": 30_000,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 100 * 400_000 / 10_000 / 64,
        "smsp__inst_executed.avg.per_cycle_active": 2000 / (4 * 10_000),
        "smsp__issue_active.avg.pct_of_peak_sustained_active": 5,
        "smsp__average_warp_latency_per_inst_issued.ratio": 200,
        stalled.format("selected"): 1,
        stalled.format("long_scoreboard"): 150,
        stalled.format("barrier"): 0,
        "kerncast__roof_dram.pct": 90,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert not set(expected) & set(values(replace(SAXPY, warp_states=None)))


def test_what_was_not_executed_claims_no_zeros() -> None:
    known = SAXPY.counts.only((FP32_FLOPS, FP64_FLOPS, FP16_FLOPS, GLOBAL_BYTES_TOUCHED))
    declared = replace(SAXPY, mix=None, sampling=None, blocks=(), balance=None, caches=None, machine=None, counts=known)
    found = values(declared)
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" not in found
    assert "kerncast__divergent_branches.sum" not in found
    assert found["kerncast__fp32_flops.sum"] == 2 * THREADS
    unknown = replace(answered(declared, fp64_flops=None), resources=None)
    assert "kerncast__flops_per_byte_touched.ratio" not in values(unknown)
    assert "launch__registers_per_thread" not in values(unknown)


def test_a_launch_that_no_sm_holds_has_no_waves() -> None:
    huge = replace(SAXPY, shared_bytes=200 * 1024)
    found = values(huge)
    assert found["sm__maximum_warps_per_active_cycle_pct"] == 0
    assert "launch__waves_per_multiprocessor" not in found


def test_nothing_executed_gives_no_ratio() -> None:
    none = Count.exact(0)
    empty = replace(
        SAXPY,
        mix=replace(MIX, warp_instructions=none, thread_instructions=none, kinds=()),
        counts=SAXPY.counts.updated(accessed()),
    )
    assert all(math.isfinite(value) for value in values(empty).values())
    assert "kerncast__ptx_thread_inst_executed_per_inst_executed.ratio" not in values(empty)


NUMBER = st.floats(0, 1e12)


@st.composite
def counts(draw: st.DrawFn) -> Count:
    low, value, high = sorted(draw(NUMBER) for _ in range(3))
    return Count(value, low, high)


@given(counts(), counts(), st.floats(0, 1), st.floats(0, 1))
def test_intervals_of_ratios_and_differences_enclose_the_truth(
    above: Count, below: Count, at: float, of: float
) -> None:
    top = above.low + at * (above.high - above.low)
    bottom = below.low + of * (below.high - below.low)
    found = ratio(above, below)
    assert (found is None) == (below.low == 0)
    if found is not None and math.isfinite(found.high):
        slack = 1 + 1e-12
        assert found.low <= found.value <= found.high
        assert found.low / slack <= top / bottom <= found.high * slack
    share = percentage(above, below)
    assert share is None or 0 <= share.low <= share.value <= share.high <= 100
    rest = above - below
    assert 0 <= rest.low <= rest.value <= rest.high
    assert rest.low <= max(0.0, top - bottom) <= rest.high * (1 + 1e-12)


def test_the_titan_v_is_the_one_that_the_numbers_are_for() -> None:
    assert (TITAN_V.sm_count, TITAN_V.architecture.registers_per_sm) == (80, 65536)
