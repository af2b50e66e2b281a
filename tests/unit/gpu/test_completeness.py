"""Every GPU that occurs in the measured data has all that the models need, or a written reason why not."""

import csv

import pytest

from kerncast.gpu import GPU, Status, load_gpu, resolve_gpu, rules
from kerncast.models.missing_facts import missing_facts
from tests.helpers.places import ROOT

SHARED = ROOT.parent / "shared" / "data"

#: Columns that name GPUs, by data set, and what they hold beside the makers' other chips.
COLUMNS = {
    "gpuperfpredict/vecmat_times.parquet": ("gpu", "device"),
    "gpuperfpredict/vecmat_counters.parquet": ("gpu", "device"),
    "gpuperfpredict/rodinia.parquet": ("gpu",),
    "gpuperfpredict/rodinia_k40_repeats.parquet": ("gpu",),
    "kernel_tuner_hub/convolution_milo.parquet": ("gpu",),
    "kernel_tuner_hub/convolution_kt2023.parquet": ("gpu",),
    "kernel_tuner_hub/gemm_kt2023.parquet": ("gpu",),
    "ktt_counters/measurements.parquet": ("gpu",),
    "ktt_counters/projection_2080Ti_to_targets.parquet": ("counter_gpu",),
    "neusight/ops.parquet": ("gpu",),
    "gpuflopbench/rtx3080.parquet": ("device",),
    "microbench.csv": ("gpu",),
    "gpu_specs_raw.csv": ("gpu",),
    "gpu_specs.csv": ("gpu",),
}
#: Names of gpuperfpredict that are no marketing names.
NICKNAMES = {"Titan": "gtx-titan", "TitanBlack": "gtx-titan-black"}

#: Every GPU that occurs, so that the check runs where the data are not. The Volta card of accelsim_volta_hw is a V100.
OCCURRING = (
    "a10", "a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb", "a40", "gb10", "gp100", "gtx-1070",
    "gtx-1080-ti", "gtx-1650", "gtx-680", "gtx-750", "gtx-970", "gtx-980", "gtx-titan", "gtx-titan-black",
    "gtx-titan-x", "gv100", "h100-nvl", "h100-pcie", "h100-sxm", "h200", "k20", "k40", "k5200", "k80", "l4", "l40",
    "l40s", "p100-pcie", "p4", "p4000", "p6000", "rtx-2060", "rtx-2070", "rtx-2080-ti", "rtx-3060", "rtx-3060-laptop",
    "rtx-3060-ti", "rtx-3070-ti", "rtx-3080", "rtx-3090", "rtx-4070", "rtx-4090", "rtx-a4000", "rtx-a6000", "t1000",
    "t4", "titan-rtx", "titan-v", "v100-pcie-16gb", "v100-pcie-32gb",
)  # fmt: skip
#: What stays unknown of them: docs/gpus.md says why.
UNKNOWN = {
    ("h200", "peak.dram_gbit_per_s_per_pin"),
    ("gtx-1650", "lanes.tensor_cores_per_sm"), ("gtx-1650", "lanes.tensor_fp16_per_sm"), ("gtx-1650", "cycles.tensor"),
    ("t1000", "lanes.tensor_cores_per_sm"), ("t1000", "lanes.tensor_fp16_per_sm"), ("t1000", "cycles.tensor"),
}  # fmt: skip
#: What models lack of them: likewise.
MISSING: dict[str, set[str]] = {}

#: The issue's list, by the names that people use.
ASKED_FOR = (
    "TITAN Xp", "RTX 4060", "RTX 4070", "RTX 4080", "RTX 4090", "RTX 5070", "RTX 5080", "RTX 5090", "RTX 6000 Ada",
    "RTX PRO 6000", "B100", "B200", "GH200", "A30", "A2", "A10G", "Jetson AGX Xavier", "Xavier", "Jetson AGX Orin",
    "Orin",
)  # fmt: skip


def names(data_set: str, column: str) -> set[str]:
    path = SHARED / data_set
    if not path.is_file():
        pytest.skip(f"{data_set} is not beside this checkout, only in the project's workplace")
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return {row[column] for row in csv.DictReader(file)}
    import pyarrow.parquet as pq

    return set(pq.read_table(path, columns=[column])[column].unique().to_pylist())


@pytest.mark.parametrize(("data_set", "column"), [(name, c) for name, columns in COLUMNS.items() for c in columns])
def test_every_gpu_of_the_data_is_on_the_list(data_set: str, column: str) -> None:
    plain = {name.partition(" (")[0] for name in names(data_set, column) if not name.startswith("AMD")}
    assert {resolve_gpu(NICKNAMES.get(name, name))[0].id for name in plain} <= set(OCCURRING)


def test_every_gpu_of_the_list_occurs() -> None:
    found = {
        name.partition(" (")[0] for data_set, columns in COLUMNS.items() for c in columns for name in names(data_set, c)
    }
    ids = {resolve_gpu(NICKNAMES.get(name, name))[0].id for name in found if not name.startswith("AMD")}
    assert ids == set(OCCURRING)


@pytest.mark.parametrize("gpu_id", OCCURRING)
def test_no_model_lacks_anything_of_it(gpu_id: str) -> None:
    assert {key for each in missing_facts(load_gpu(gpu_id)) for key in each.keys} == MISSING.get(gpu_id, set())


@pytest.mark.parametrize("gpu_id", OCCURRING)
def test_every_value_of_its_data_sheet_is_known(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    unknown = {(gpu_id, fact.key) for fact in gpu.facts if fact.status is Status.UNKNOWN}
    assert unknown == {each for each in UNKNOWN if each[0] == gpu_id}


@pytest.mark.parametrize("gpu_id", OCCURRING)
def test_every_value_that_its_issue_asks_for_is_known(gpu_id: str) -> None:
    """SMs, TPCs, lanes, clocks, memory, caches, limits, granularities, latencies, power and year."""
    gpu = load_gpu(gpu_id)
    keys = {key for key in rules("gpu") if key.startswith("peak.")}
    keys |= {key for key in rules("architecture") if key.startswith(("limits.", "registers."))} - {
        "limits.barriers_per_sm"
    }
    keys |= {f"lanes.{kind}_per_sm" for kind in ("fp32", "fp64", "int32", "special", "load_store")}
    keys |= {
        f"shared.{key}" for key in ("per_sm_kib", "per_block_kib", "reserved_per_block_kib", "allocation_unit_bytes")
    }
    keys |= {f"cycles.{kind}_latency" for kind in ("alu", "shared", "l1", "special", "fp64")}
    known = {fact.key for fact in gpu.all_facts if fact.value is not None}
    assert keys - known == {key for owner, key in UNKNOWN if owner == gpu_id and key in keys}
    assert gpu.tpc_count is not None
    assert gpu_id in MISSING or (gpu.l2_latency is not None and gpu.dram_latency is not None)


@pytest.mark.parametrize("name", ASKED_FOR)
def test_the_names_that_people_use_resolve(name: str) -> None:
    gpu: GPU = resolve_gpu(name)[0]
    assert gpu.sm_count > 0


def test_the_page_names_each_exception() -> None:
    page = (ROOT / "docs" / "gpus.md").read_text(encoding="utf-8")
    for phrase in ("GB10 and the Jetsons", "data rate of the H200's memory", "GTX 1650 and T1000 have no tensor cores"):
        assert phrase in page
