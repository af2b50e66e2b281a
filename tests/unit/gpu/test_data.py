"""The data files: complete and consistent; test_gpu_tables.py compares them with the tables they were made from."""

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kerncast.gpu import (
    DATA,
    GPU,
    Architecture,
    Cycles,
    Status,
    list_gpus,
    list_incomplete,
    load_architecture,
    load_gpu,
    normalise,
    read_names,
    rules,
)
from kerncast.gpu.confidence import doubts
from tests.helpers.places import ROOT

GPU_FILES = sorted((DATA / "gpus").glob("*.toml"))
ARCHITECTURE_FILES = sorted((DATA / "architectures").glob("*.toml"))
INCOMPLETE_FILES = sorted((DATA / "incomplete_gpus").glob("*.toml"))
ALL_FILES = [*GPU_FILES, *INCOMPLETE_FILES, *ARCHITECTURE_FILES, DATA / "launch_overhead.toml"]


def stated(gpu: GPU, key: str) -> Any:
    fact = gpu.fact(key)
    return None if fact is None else fact.value


# --- form -----------------------------------------------------------------------------------------


#: GPUs beyond the table of 51.
FURTHER = {
    "gp100", "titan-xp", "v100-sxm2-16gb", "v100-sxm2-32gb", "a30", "a10g", "a2", "rtx-4060", "rtx-4060-ti",
    "rtx-4060-ti-16gb", "rtx-4070-super", "rtx-4070-ti", "rtx-4070-ti-super", "rtx-4080", "rtx-4080-super",
    "rtx-6000-ada", "gh200-96gb", "b100", "b200", "b300", "rtx-5070", "rtx-5070-ti", "rtx-5080", "rtx-5090",
    "rtx-pro-6000", "rtx-pro-6000-server", "gb10", "jetson-agx-xavier", "jetson-agx-orin-64gb",
}  # fmt: skip
#: Architectures whose chips share the CPU's memory.
INTEGRATED = {"sm_72", "sm_87", "sm_121"}
#: On AGX Orin reads alone are slower than a copy.
SLOWER_READS = {"sm_87"}
PROJECT_TABLE = (
    "NVIDIA data sheet or white paper, as recalled in the project's table of 51 GPUs; "
    "peak rates are 2 x SMs x lanes x boost"
)
STILL_FROM_MEMORY = {f"sm_{number}" for number in (30, 50, 52, 60, 61, 70, 75, 80, 86)}


def test_the_required_gpus_are_here() -> None:
    ids = {path.stem for path in GPU_FILES}
    assert ids >= FURTHER
    assert len(ids - FURTHER) == 51
    numbers = "30 32 35 37 50 52 53 60 61 62 70 72 75 80 86 87 89 90 100 103 110 120 121"
    assert {path.stem for path in ARCHITECTURE_FILES} == {f"sm_{number}" for number in numbers.split()}


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


def test_no_value_of_a_gpu_is_from_memory() -> None:
    """Only the project's table of 51 GPUs may be: it lies with the measured data, and others are compared with it."""
    remembered = {
        path.stem: found
        for path in (*GPU_FILES, *INCOMPLETE_FILES)
        if (found := {source for source in _sources(path) if "recalled" in source} - {PROJECT_TABLE})
    }
    assert remembered == {}


def test_architectures_with_values_from_memory() -> None:
    """Whoever finds a source shortens the list; none of its members came with the catalogue's newest GPUs."""
    remembered = {path.stem for path in ARCHITECTURE_FILES if any("recalled" in source for source in _sources(path))}
    assert remembered == STILL_FROM_MEMORY


def _sources(path: Path) -> set[str]:
    return set(tomllib.loads(path.read_text(encoding="utf-8"))["sources"].values())


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.stem)
def test_gpu_files_give_the_whole_data_sheet(path: Path) -> None:
    gpu = load_gpu(path)
    assert not re.match("(NVIDIA|GeForce|Tesla|Quadro) ", gpu.name), "names are short: the words are ignored anyway"
    for key in rules("gpu"):
        fact = gpu.fact(key)
        assert not key.startswith("peak.") or fact is not None, "what nobody could find says so"
        assert fact is None or (fact.value is None) == (fact.status is Status.UNKNOWN)


def test_ids_are_safe_file_names() -> None:
    for gpu in list_gpus():
        assert gpu.id == gpu.id.lower()
        assert normalise(gpu.id) == gpu.id.replace("-", "")


def test_no_two_names_collide() -> None:
    owners: dict[str, set[str]] = {}
    for path in (*GPU_FILES, *INCOMPLETE_FILES):
        for name in (path.stem, *read_names(path)):
            owners.setdefault(normalise(name), set()).add(path.stem)
    families = tomllib.loads((DATA / "families.toml").read_text(encoding="utf-8"))["family"]
    for family in families:
        assert (DATA / "gpus" / f"{family['means']}.toml").is_file()
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
            assert rule.kind in {"whole", "number", "fraction", "list", "flag", "text"}


# --- meaning --------------------------------------------------------------------------------------


def test_incomplete_files_give_the_whole_data_sheet_and_lack_what_a_forecast_needs() -> None:
    assert [gpu.id for gpu in list_incomplete()] == ["h20"]
    for gpu in list_incomplete():
        keys = {fact.key for fact in gpu.facts}
        assert keys >= {key for key in rules("gpu") if key.startswith("peak.")}
        assert gpu.lacks


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_no_value_is_most_likely_a_slip(gpu: GPU) -> None:
    assert doubts(gpu) == ()


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_peak_rates_are_lanes_times_sms_times_clock(gpu: GPU) -> None:
    boosted = gpu.at_clock("boost")
    for key, rate in (("fp32", boosted.peak_fp32_flops_per_s), ("fp64", boosted.peak_fp64_flops_per_s)):
        value = stated(gpu, f"peak.{key}_gflops")
        assert value is None or rate / 1e9 == pytest.approx(value, rel=0.01)


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_dram_bandwidth_is_data_rate_times_bus(gpu: GPU) -> None:
    rate, bits = stated(gpu, "peak.dram_gbit_per_s_per_pin"), gpu.dram_bus_bits
    assert bits is not None
    assert rate is None or gpu.dram_bytes_per_s / 1e9 == pytest.approx(rate * bits / 8, rel=0.01)


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_dram_type_fits_its_data_rate_and_its_time(gpu: GPU) -> None:
    """Gbit/s per pin by JEDEC's standards and NVIDIA's boards; no board is older than its memory."""
    lowest, highest, since = {
        "GDDR5": (5, 8.1, 2008), "GDDR5X": (9, 11.5, 2016), "GDDR6": (10, 20, 2018), "GDDR6X": (19, 23.1, 2020),
        "GDDR7": (25, 32, 2025), "HBM2": (1.4, 2.5, 2016), "HBM2e": (2.4, 3.7, 2020), "HBM3": (5, 6.5, 2022),
        "HBM3e": (6, 9.3, 2024), "LPDDR4X": (3, 4.3, 2018), "LPDDR5": (5, 6.5, 2021), "LPDDR5X": (8, 9.6, 2025),
    }[stated(gpu, "peak.dram_type")]  # fmt: skip
    rate, year = stated(gpu, "peak.dram_gbit_per_s_per_pin"), stated(gpu, "peak.launch_year")
    assert rate is None or lowest <= rate <= highest
    assert year is None or since <= year <= 2026


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_sms_are_whole_tpcs(gpu: GPU) -> None:
    assert gpu.architecture.sms_per_tpc is None or gpu.sm_count % gpu.architecture.sms_per_tpc == 0


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_a_gpu_that_differs_from_its_architecture_says_all_of_it(gpu: GPU) -> None:
    """Lanes and cycles agree, whether they are the architecture's or the GPU's own."""
    a = gpu.architecture
    assert a.cycles.fp64 == pytest.approx(32 * a.schedulers_per_sm / a.fp64_lanes_per_sm, rel=0.01)
    tensor = stated(gpu, "lanes.tensor_fp16_per_sm")
    assert (tensor is None) == (a.cycles.tensor is None)
    assert tensor is None or a.cycles.tensor == 2048 * a.schedulers_per_sm / tensor


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_sustained_is_at_most_peak(gpu: GPU) -> None:
    if gpu.architecture.id not in INTEGRATED:
        assert gpu.dram_rate is not None
    if gpu.dram_rate is not None:
        assert 0.5 * gpu.dram_bytes_per_s < gpu.dram_rate.bytes_per_s <= gpu.dram_bytes_per_s
    for rate, peak in (
        (gpu.sustained_fp32_flops_per_s, gpu.peak_fp32_flops_per_s),
        (gpu.sgemm_flops_per_s, gpu.peak_fp32_flops_per_s),
        (gpu.sustained_fp64_flops_per_s, gpu.peak_fp64_flops_per_s),
    ):
        assert rate is None or rate <= peak
    # The study's estimate for Kepler puts L2 just below DRAM on the TITAN Black.
    assert not (gpu.l2_rate and gpu.dram_rate) or gpu.l2_rate.bytes_per_s > 0.95 * gpu.dram_rate.bytes_per_s
    assert gpu.l1_bytes_per_s is None or gpu.l2_bytes_per_s is None or gpu.l1_bytes_per_s > gpu.l2_bytes_per_s


@pytest.mark.parametrize("gpu", list_gpus(), ids=lambda gpu: gpu.id)
def test_reads_alone_sustain_more_of_dram_than_a_copy_but_not_more_than_there_is(gpu: GPU) -> None:
    rates = [gpu.dram_bytes_per_s_of(written) for written in (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)]
    assert rates == sorted(rates, reverse=gpu.architecture.id not in SLOWER_READS)
    assert rates[0] <= gpu.dram_bytes_per_s
    if gpu.dram_rate is not None:
        assert rates[3] == rates[5] == pytest.approx(gpu.dram_rate.bytes_per_s)
        gain = min(gpu.architecture.dram_one_way or 1.0, gpu.dram_bytes_per_s / gpu.dram_rate.bytes_per_s)
        assert rates[0] == pytest.approx(gain * gpu.dram_rate.bytes_per_s)


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
    relatives = {"sm_35", "sm_37", "sm_50", "sm_100", "sm_103", "sm_120"}
    assert {name for name, keys in own.items() if "dram_fraction" not in keys} == relatives
    assert {name for name, keys in own.items() if "l2_bytes_per_clock_per_channel" not in keys} == relatives


def test_the_page_on_the_gpus_is_up_to_date() -> None:
    text = (ROOT / "docs" / "gpus.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    listed = {gpu_id: (capability, name) for capability, name, ids in rows for gpu_id in ids.split(", ")}
    assert listed == {gpu.id: (gpu.compute_capability, gpu.architecture.name) for gpu in list_gpus()}
    found = [fact.status for gpu in list_gpus() for fact in gpu.facts if fact.key.startswith("peak.")]
    confirmed, single, unknown = (found.count(status) for status in Status)
    assert f"Of {len(found)} values from data sheets (`[peak]`), {confirmed} are confirmed" in text
    assert f"{single} have one source, and {unknown} are unknown" in text
