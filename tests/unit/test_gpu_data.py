"""The data files: complete, consistent, and equal to the tables that they were made from."""

import csv
import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kerncast.architecture import Architecture, Cycles
from kerncast.gpu import GPU, Status, list_gpus, load_architecture, load_gpu
from kerncast.gpu_files import DATA, rules
from kerncast.gpu_names import normalise, read_names

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"

GPU_FILES = sorted((DATA / "gpus").glob("*.toml"))
ARCHITECTURE_FILES = sorted((DATA / "architectures").glob("*.toml"))
ALL_FILES = [*GPU_FILES, *ARCHITECTURE_FILES, DATA / "launch_overhead.toml"]

#: Rows of gpu_specs.csv by id.
SPECS = {
    "gtx-680": "GeForce GTX 680",
    "k20": "Tesla K20c",
    "k40": "Tesla K40c",
    "gtx-titan": "GeForce GTX TITAN",
    "gtx-titan-black": "GeForce GTX TITAN Black",
    "gtx-750": "GeForce GTX 750",
    "gtx-980": "GeForce GTX 980",
    "gtx-titan-x": "GeForce GTX TITAN X",
    "p100-pcie": "Tesla P100-PCIE-16GB",
    "gtx-1070": "GeForce GTX 1070",
    "p4": "Tesla P4",
    "titan-v": "TITAN V",
    "v100-pcie-16gb": "Tesla V100-PCIE-16GB",
    "v100-pcie-32gb": "Tesla V100-PCIE-32GB",
    "rtx-2080-ti": "GeForce RTX 2080 Ti",
    "titan-rtx": "TITAN RTX",
    "t4": "Tesla T4",
    "a100-pcie-40gb": "NVIDIA A100-PCIE-40GB",
    "a100-sxm-40gb": "NVIDIA A100-SXM4-40GB",
    "a100-pcie-80gb": "NVIDIA A100 80GB PCIe",
    "a100-sxm-80gb": "NVIDIA A100-SXM4-80GB",
    "rtx-3060": "GeForce RTX 3060",
    "rtx-3090": "GeForce RTX 3090",
    "rtx-a4000": "NVIDIA RTX A4000",
    "rtx-a6000": "NVIDIA RTX A6000",
    "rtx-4070": "GeForce RTX 4070",
    "l4": "NVIDIA L4",
    "h100-pcie": "NVIDIA H100 PCIe",
    "h100-sxm": "NVIDIA H100 80GB HBM3",
    "h200": "NVIDIA H200",
}

#: Names of gpu-benches' runs in microbench.csv.
BENCHES = {
    "v100-pcie-16gb": "V100-PCIe-16GB",
    "a100-sxm-40gb": "A100-SXM4-40GB",
    "a100-sxm-80gb": "A100-SXM4-80GB",
    "h100-pcie": "H100-PCIe",
    "h200": "H200",
}
CALIBRATIONS = {"titan-v": "TITAN V", "rtx-2080-ti": "GeForce RTX 2080 Ti", "rtx-4070": "GeForce RTX 4070"}


def table(name: str) -> list[dict[str, str]]:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"the source table {name} is not beside this checkout, only in the project's workplace")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def measured() -> dict[tuple[str, str], float]:
    return {(row["gpu"], row["metric"]): float(row["value"]) for row in table("microbench.csv")}


def stated(gpu: GPU, key: str) -> Any:
    fact = gpu.fact(key)
    return None if fact is None else fact.value


# --- form -----------------------------------------------------------------------------------------


def test_the_required_gpus_are_here() -> None:
    assert {path.stem for path in GPU_FILES} == set(SPECS)
    assert {path.stem for path in ARCHITECTURE_FILES} == {
        f"sm_{number}" for number in (30, 35, 37, 50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 120)
    }


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: path.stem)
def test_every_value_has_source_and_status(path: Path) -> None:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = document.pop("sources")
    used: set[str] = set()
    for section in document.values():
        for entry in section.values() if isinstance(section, dict) else ():
            if entry == {"status": "unknown"}:  # what a relative has need not be true here
                continue
            assert entry.keys() == {"value", "source", "status"}
            named = [entry["source"]] if isinstance(entry["source"], str) else entry["source"]
            assert (entry["status"] == "confirmed") == (len(named) > 1)
            used.update(named)
    assert used == set(sources), "every source is used, and every one that is used is declared"


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.stem)
def test_gpu_files_give_the_whole_data_sheet(path: Path) -> None:
    gpu = load_gpu(path)
    assert not re.match("(NVIDIA|GeForce|Tesla|Quadro) ", gpu.name), "names are short: the words are ignored anyway"
    for key in rules("gpu"):
        assert not key.startswith("peak.") or stated(gpu, key) is not None


def test_ids_are_safe_file_names() -> None:
    for gpu in list_gpus():
        assert gpu.id == gpu.id.lower()
        assert normalise(gpu.id) == gpu.id.replace("-", "")


def test_no_two_names_collide() -> None:
    owners: dict[str, set[str]] = {}
    for path in GPU_FILES:
        for name in (path.stem, *read_names(path)):
            owners.setdefault(normalise(name), set()).add(path.stem)
    families = tomllib.loads((DATA / "families.toml").read_text(encoding="utf-8"))["family"]
    for family in families:
        assert family["means"] in SPECS
        for name in family["names"]:
            owners.setdefault(normalise(name), set()).add(f"the family {family['means']}")
    assert "" not in owners
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}


def test_schema_and_nouns_have_the_same_fields() -> None:
    fields = {rule.field for rule in rules("gpu").values() if rule.field}
    own = {"id", "name", "architecture", "clock_hz", "facts"}
    assert fields == {field.name for field in dataclasses.fields(GPU)} - own
    fields = {rule.field for rule in rules("architecture").values() if rule.field}
    cycles = {f"cycles.{field.name}" for field in dataclasses.fields(Cycles)}
    own = {"id", "name", "compute_capability", "cycles", "facts"}
    assert fields == ({field.name for field in dataclasses.fields(Architecture)} - own) | cycles


def test_every_rule_has_unit_and_meaning() -> None:
    for kind in ("gpu", "architecture", "launch_overhead"):
        for rule in rules(kind).values():
            assert rule.unit
            assert rule.meaning
            assert rule.kind in {"whole", "number", "fraction", "list", "flag"}


# --- meaning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_peak_rates_are_lanes_times_sms_times_clock(gpu: GPU) -> None:
    assert gpu.peak_fp32_flops_per_s / 1e9 == pytest.approx(stated(gpu, "peak.fp32_gflops"), rel=0.01)
    assert gpu.peak_fp64_flops_per_s / 1e9 == pytest.approx(stated(gpu, "peak.fp64_gflops"), rel=0.01)


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_sustained_is_at_most_peak(gpu: GPU) -> None:
    assert gpu.dram_rate is not None
    assert 0.5 * gpu.dram_bytes_per_s < gpu.dram_rate.bytes_per_s <= gpu.dram_bytes_per_s
    for rate, peak in (
        (gpu.sustained_fp32_flops_per_s, gpu.peak_fp32_flops_per_s),
        (gpu.sgemm_flops_per_s, gpu.peak_fp32_flops_per_s),
        (gpu.sustained_fp64_flops_per_s, gpu.peak_fp64_flops_per_s),
    ):
        assert rate is None or rate <= peak
    # The study's estimate for Kepler puts L2 just below DRAM on the TITAN Black.
    assert gpu.l2_rate is None or gpu.l2_rate.bytes_per_s > 0.95 * gpu.dram_rate.bytes_per_s
    assert gpu.l1_bytes_per_s is None or gpu.l2_bytes_per_s is None or gpu.l1_bytes_per_s > gpu.l2_bytes_per_s


@pytest.mark.parametrize("path", ARCHITECTURE_FILES, ids=lambda path: path.stem)
def test_architectures_make_sense(path: Path) -> None:
    found = load_architecture(path.stem)
    assert path.stem == f"sm_{found.number}"
    assert found.max_threads_per_sm % 32 == 0
    assert found.registers_per_sm % (found.schedulers_per_sm * found.register_allocation_unit) == 0
    assert found.warp_instructions_per_clock_per_sm >= found.schedulers_per_sm
    if found.shared_carveouts_bytes is not None and found.l1_and_shared_bytes is not None:
        assert found.shared_carveouts_bytes[-1] == found.shared_bytes_per_sm
        assert found.shared_bytes_per_sm < found.l1_and_shared_bytes


@pytest.mark.parametrize("path", ARCHITECTURE_FILES, ids=lambda path: path.stem)
def test_pipe_cycles_agree_with_lanes(path: Path) -> None:
    """32 threads over the lanes of a sub-partition: the study and the guides say the same."""
    found = load_architecture(path.stem)
    for cycles, lanes in (
        (found.cycles.fma, found.fp32_lanes_per_sm),
        (found.cycles.special, found.special_lanes_per_sm),
        (found.cycles.fp64, found.fp64_lanes_per_sm),
        (found.cycles.alu, found.int32_lanes_per_sm),
    ):
        assert cycles == pytest.approx(32 * found.schedulers_per_sm / lanes, rel=0.01)
    if found.fp16_lanes_per_sm is not None:
        # Both halves of a packed instruction count.
        assert found.cycles.fp16 == 64 * found.schedulers_per_sm / found.fp16_lanes_per_sm
    units = next(fact.value for fact in found.facts if fact.key == "lanes.load_store_per_sm")
    assert isinstance(units, int)
    assert found.cycles.load_store_sm == 32 / units


def test_sustained_values_that_are_inherited_on_purpose() -> None:
    """A new architecture does not get its relative's measurements unnoticed."""
    own = {
        path.stem: set(tomllib.loads(path.read_text(encoding="utf-8")).get("sustained", {}))
        for path in ARCHITECTURE_FILES
    }
    relatives = {"sm_35", "sm_37", "sm_50", "sm_100", "sm_120"}
    assert {name for name, keys in own.items() if "dram_fraction" not in keys} == relatives
    assert {name for name, keys in own.items() if "l2_bytes_per_clock_per_channel" not in keys} == relatives


# --- equal to the tables --------------------------------------------------------------------------


@pytest.mark.parametrize("gpu_id", SPECS)
def test_equal_to_the_table_of_specifications(gpu_id: str) -> None:
    row = next(row for row in table("gpu_specs.csv") if row["gpu"] == SPECS[gpu_id])
    gpu = load_gpu(gpu_id)
    for key, column in (
        ("peak.sm_count", "num_sm"),
        ("peak.clock_base_mhz", "clock_base_mhz"),
        ("peak.clock_boost_mhz", "clock_boost_mhz"),
        ("peak.dram_gb_per_s", "mem_bw_gbs"),
        ("peak.dram_gib", "mem_gb"),
        ("peak.dram_bus_bits", "mem_bus_bits"),
        ("peak.l2_kib", "l2_kib"),
        ("peak.fp32_gflops", "fp32_peak_gflops"),
        ("peak.fp64_gflops", "fp64_peak_gflops"),
        ("peak.tdp_w", "tdp_w"),
        ("lanes.fp32_per_sm", "fp32_cores_per_sm"),
        ("shared.per_sm_kib", "smem_per_sm_kib"),
        ("registers.per_sm", "regs_per_sm"),
        ("limits.max_blocks_per_sm", "max_blocks_per_sm"),
    ):
        assert stated(gpu, key) == float(row[column]), key
    assert gpu.compute_capability == row["compute_capability"]
    assert gpu.architecture.max_warps_per_sm == int(row["max_warps_per_sm"])


@pytest.mark.parametrize(("gpu_id", "name"), BENCHES.items())
def test_equal_to_the_micro_benchmarks(gpu_id: str, name: str) -> None:
    gpu, values = load_gpu(gpu_id), measured()
    for key, metric in (
        ("sustained.l2_gb_per_s", "l2_read_GBps"),
        ("sustained.l1_gb_per_s", "l1_read_GBps"),
        ("sustained.fp32_gflops", "fp32_achieved_GFLOPs_roofline"),
        ("sustained.fp64_gflops", "fp64_achieved_GFLOPs_roofline"),
        ("sustained.clock_mhz", "clock_under_compute_load_MHz"),
        ("sustained.l1_latency_cycles", "l1_latency_cycles"),
        ("sustained.l2_latency_cycles", "l2_latency_cycles"),
        ("sustained.dram_latency_ns", "dram_latency_ns"),
        ("sustained.launch_interval_us", "min_kernel_interval_us"),
        ("sustained.graph_interval_us", "min_kernel_interval_graph_us"),
    ):
        # The table holds 0 where the benchmark could not resolve the interval.
        assert stated(gpu, key) == (values.get((name, metric)) or None), key


@pytest.mark.parametrize(("gpu_id", "name"), BENCHES.items())
def test_sustained_dram_follows_the_documented_rule(gpu_id: str, name: str) -> None:
    values = measured()
    half, full = (values[name, f"dram_stream_scale_GBps_at_occ{percent}"] for percent in (50, 100))
    metric = "dram_stream_triad_GBps" if full > 1.1 * half else "dram_stream_scale_GBps"
    assert stated(load_gpu(gpu_id), "sustained.dram_gb_per_s") == values[name, metric]


@pytest.mark.parametrize(("gpu_id", "name"), CALIBRATIONS.items())
def test_equal_to_the_calibration_runs(gpu_id: str, name: str) -> None:
    gpu, values = load_gpu(gpu_id), measured()
    assert stated(gpu, "sustained.dram_gb_per_s") == values[name, "dram_stream_GBps"]
    assert stated(gpu, "sustained.sgemm_gflops") == values[name, "cublas_sgemm_GFLOPs"]


def test_nothing_else_counts_as_measured() -> None:
    with_bandwidth = {gpu.id for gpu in list_gpus() if gpu.sustained_dram_bytes_per_s is not None}
    assert with_bandwidth == BENCHES.keys() | CALIBRATIONS.keys()


#: Names of mt4g's runs in microbench.csv.
POINTER_CHASES = {
    "v100-pcie-16gb": "Tesla V100-PCIE-16GB",
    "rtx-2080-ti": "NVIDIA GeForce RTX 2080 Ti",
    "a100-pcie-40gb": "NVIDIA A100-PCIE-40GB",
    "h100-sxm": "NVIDIA H100 80GB HBM3",
}


@pytest.mark.parametrize(("gpu_id", "name"), POINTER_CHASES.items())
def test_l1_that_pointer_chases_see_is_a_little_below_the_largest(gpu_id: str, name: str) -> None:
    a = load_gpu(gpu_id).architecture
    assert a.l1_and_shared_bytes is not None
    assert a.shared_carveouts_bytes is not None
    largest = a.l1_and_shared_bytes - a.shared_carveouts_bytes[0]
    assert 0.88 * largest < measured()[name, "l1_size_mt4g"] <= largest


#: Counters of kernels on a Volta card (accel-sim/accel-sim-framework): 32-byte sectors between L1 and L2 in both
#: directions, each with its request; lookups of L2 for reading that hit and that miss; sectors written.
VOLTA_COUNTERS = [
    ("kmeansPoint: single sectors through textures", 26_022_036, 6_742_186, 12_321_532, 102_400, 64),
    ("CUDAkernel1DCT: half lines through textures", 131_072, 16_384, 32_768, 32_768, 64),
    ("histogram64Kernel: whole lines", 4_264_224, 0, 2_097_152, 34_960, 32),
    ("fwtBatch2Kernel: whole lines", 4_194_304, 0, 1_048_576, 1_048_576, 32),
]


@pytest.mark.parametrize("row", VOLTA_COUNTERS, ids=lambda row: row[0].partition(":")[0])
def test_a_miss_in_the_l2_of_volta_brings_its_neighbour(row: tuple[str, int, int, int, int, int]) -> None:
    """Lookups beyond those that L1 asked for are the second halves of what misses bring."""
    _, between, hits, misses, written, brought = row
    asked = between / 2 - written
    promoted = hits + misses - asked
    assert 32 * misses / (misses - promoted) == pytest.approx(brought, rel=0.002)
    assert load_architecture("sm_70").l2_fetch_bytes == 64


def test_l2_of_the_2080_ti_is_converted_from_gib() -> None:
    value = measured()["NVIDIA GeForce RTX 2080 Ti", "l2_readBandwidth_mt4g"] * 2**30 / 1e9
    assert stated(load_gpu("rtx-2080-ti"), "sustained.l2_gb_per_s") == pytest.approx(value, abs=0.05)


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_confirmed_values_agree_with_a_device(gpu: GPU) -> None:
    """A device's own report of SM count, bus width and L2 equals ours wherever there is one."""
    rows = [
        row
        for row in table("gpu_specs_raw.csv")
        if row["gpu"].endswith(SPECS[gpu.id]) and "NeuSight" not in row["source"]
    ]
    for row in rows:
        for key, column in (("sm_count", "num_sm"), ("dram_bus_bits", "mem_bus_bits"), ("l2_kib", "l2_kib")):
            reported = float(row[column] or 0)
            assert reported in {0, stated(gpu, f"peak.{key}")}
    if any("habitat" not in row["source"] for row in rows):
        fact = gpu.fact("peak.sm_count")
        assert fact is not None
        assert fact.status is Status.CONFIRMED
