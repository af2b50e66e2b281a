"""The data files equal the tables that they were made from; where they differ, this file says so."""

import csv
import tomllib
from typing import Any

import pytest

from kerncast.gpu import GPU, Status, list_gpus, load_architecture, load_gpu, resolve_gpu
from tests.helpers.places import PACKAGE, ROOT

SHARED = ROOT.parent / "shared" / "data"

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
    "k5200": "Quadro K5200",
    "k80": "Tesla K80 (one GK210)",
    "gtx-970": "GeForce GTX 970",
    "gtx-1080-ti": "GeForce GTX 1080 Ti",
    "p4000": "Quadro P4000",
    "p6000": "Quadro P6000",
    "gv100": "Quadro GV100",
    "gtx-1650": "GeForce GTX 1650",
    "t1000": "T1000",
    "rtx-2060": "GeForce RTX 2060",
    "rtx-2070": "GeForce RTX 2070",
    "a40": "NVIDIA A40",
    "a10": "NVIDIA A10",
    "rtx-3060-laptop": "GeForce RTX 3060 Laptop GPU",
    "rtx-3060-ti": "GeForce RTX 3060 Ti",
    "rtx-3070-ti": "GeForce RTX 3070 Ti",
    "rtx-3080": "GeForce RTX 3080",
    "rtx-4090": "GeForce RTX 4090",
    "l40": "NVIDIA L40",
    "l40s": "NVIDIA L40S",
    "h100-nvl": "NVIDIA H100 NVL",
}

#: Where a file differs from gpu_specs.csv, on purpose, and what it says instead. The row of the GTX 1650 mixes two
#: cards: the clocks of the one with GDDR5 and the memory of the other. The K5200's FP64 rate is not in the table.
DIFFERENCES = {
    ("gtx-1650", "peak.clock_base_mhz"): 1410,
    ("gtx-1650", "peak.clock_boost_mhz"): 1590,
    ("gtx-1650", "peak.fp32_gflops"): 2849,
    ("gtx-1650", "peak.fp64_gflops"): 89.04,
    ("k5200", "peak.fp64_gflops"): 148,
}

#: Names of gpu-benches' runs in microbench.csv.
BENCHES = {
    "v100-pcie-16gb": "V100-PCIe-16GB",
    "a100-sxm-40gb": "A100-SXM4-40GB",
    "a100-sxm-80gb": "A100-SXM4-80GB",
    "h100-pcie": "H100-PCIe",
    "h200": "H200",
    "a40": "A40",
    "l40": "L40",
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


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gpu_id", "name"), SPECS.items())
def test_the_names_of_the_table_resolve(gpu_id: str, name: str) -> None:
    for spelt in (name, name.upper(), f"NVIDIA {name}"):
        gpu, caveats = resolve_gpu(spelt)
        assert (gpu.id, caveats) == (gpu_id, ())


@pytest.mark.parametrize("name", ["gpu_specs_raw.csv", "microbench.csv"])
def test_the_names_of_devices_in_the_tables_resolve(name: str) -> None:
    """V100 and P100 alone fit several boards and say so."""
    with_caveat = {row["gpu"] for row in table(name) if resolve_gpu(row["gpu"])[1]}
    assert with_caveat <= {"Tesla V100", "Tesla P100"}


def test_every_row_of_the_table_has_a_file() -> None:
    assert {row["gpu"] for row in table("gpu_specs.csv")} == set(SPECS.values())


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
        expected = DIFFERENCES.get((gpu_id, key)) or float(row[column])
        assert stated(gpu, key) == expected, key
    assert gpu.compute_capability == row["compute_capability"]
    assert stated(gpu, "peak.chip") == row["architecture"].split()[-1]
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
        paper = dict(OF_THE_PAPER.get(gpu_id, ()))
        assert stated(gpu, key) == (values.get((name, metric)) or paper.get(key)), key


#: Machines of table 1 of Van Lanker et al., and what no other source tells of them.
PAPER = {"v100-pcie-16gb": "V100", "a100-pcie-40gb": "A100-40", "a100-pcie-80gb": "A100-80", "h100-pcie": "H100"}
_EVERY = ("fp64_gflops", "dram_gb_per_s", "l2_gb_per_s", "l1_gb_per_s")
TAKEN = {
    "v100-pcie-16gb": ("l2_gb_per_s",), "a100-pcie-40gb": _EVERY, "a100-pcie-80gb": _EVERY,
    "h100-pcie": ("fp64_gflops",),
}  # fmt: skip


def machines_of_the_paper() -> dict[str, tuple[tuple[str, float], ...]]:
    table = tomllib.loads((PACKAGE / "data" / "vanlanker-2024.toml").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in table["machine"]}
    return {gpu: tuple((f"sustained.{key}", rows[PAPER[gpu]][key]) for key in keys) for gpu, keys in TAKEN.items()}


OF_THE_PAPER = machines_of_the_paper()


@pytest.mark.parametrize("gpu_id", PAPER)
def test_maxima_of_the_paper_are_in_the_catalogue(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    for key, value in OF_THE_PAPER[gpu_id]:
        assert stated(gpu, key) == value, key


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
    of_the_paper = {gpu for gpu, keys in TAKEN.items() if "dram_gb_per_s" in keys}
    assert with_bandwidth == BENCHES.keys() | CALIBRATIONS.keys() | of_the_paper


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


@pytest.mark.parametrize("gpu_id", SPECS)
def test_confirmed_values_agree_with_a_device(gpu_id: str) -> None:
    """A device's own report of SM count, bus width, L2 and memory clock equals ours wherever there is one."""
    gpu = load_gpu(gpu_id)
    rows = [
        row
        for row in table("gpu_specs_raw.csv")
        if row["gpu"].removeprefix("NVIDIA ") == SPECS[gpu_id].removeprefix("NVIDIA ")
        and "NeuSight" not in row["source"]
    ]
    for row in rows:
        for key, column in (("sm_count", "num_sm"), ("dram_bus_bits", "mem_bus_bits"), ("l2_kib", "l2_kib")):
            reported = float(row[column] or 0)
            assert reported in {0, stated(gpu, f"peak.{key}")}
        if float(row["mem_clock_mhz"] or 0):
            rate = 2 * float(row["mem_clock_mhz"]) / 1e3
            assert stated(gpu, "peak.dram_gbit_per_s_per_pin") == pytest.approx(rate, rel=0.005)
    if any("habitat" not in row["source"] for row in rows):
        fact = gpu.fact("peak.sm_count")
        assert fact is not None
        assert fact.status is Status.CONFIRMED
