"""The reader of KTT's JSON, on a small file in the form that its sources write; all numbers are made up."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, KerncastError
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.prediction import Timing
from kerncast.profiles import Count
from kerncast.profiles.counts import DRAM_BYTES, L2_BYTES, SHARED_WAVEFRONTS
from kerncast.read.profile_files import read_profile, read_tuned
from kerncast.read.tuners import read_ktt, tuned_profiles
from tests.helpers.caveats import kinds
from tests.helpers.places import ROOT
from tests.helpers.thorough import examples

GOLDEN = ROOT / "tests" / "golden" / "tuners" / "transpose_ktt.json"
MEASURED = ROOT.parent / "shared" / "data" / "ktt_counters" / "measurements.parquet"
TEXT = GOLDEN.read_text(encoding="utf-8")


def table() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(TEXT)
    return document


def first_run(document: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = document["Results"][0]["ComputationResults"][0]
    return run


def test_every_valid_run_is_a_profile() -> None:
    first, second = read_profile(GOLDEN)
    assert (first.kernel, first.index, second.index) == ("transpose", 0, 1)
    # with CUDA, KTT writes the grid that it launched, though the tuner was set up in threads (GlobalSizeType)
    assert (first.grid, first.block) == ((64, 64, 1), (32, 8, 1))
    assert first.run is not None
    assert (first.run.gpu.id, first.run.timing) == ("rtx-2080-ti", Timing.SINGLE)
    assert first.run.seconds == pytest.approx(61.44e-6)
    assert first.run.achieved_occupancy == pytest.approx(0.875)
    assert first.run.active_threads == 32
    assert first.resources is not None
    assert (first.resources.registers_per_thread, first.resources.static_shared_bytes) == (22, 32 * 33 * 4)
    # 2048 x 2048 floats read once and written once
    assert first.counts.get(DRAM_BYTES) == Count.exact(2 * 2048 * 2048 * 4)
    assert first.counts.get(L2_BYTES) == Count.exact((524300 + 524290) * 32)
    assert first.counts.get(SHARED_WAVEFRONTS) == Count.exact(2 * 131072)
    assert float_mixes_of(first) is None  # all FP32 instructions are counted, but not which
    assert Caveat(CaveatKind.TUNED_WITH, "TILE=32, PAD=0.5") in first.caveats


def test_counters_of_a_tuner_that_was_stopped_are_left_out() -> None:
    _, second = read_profile(GOLDEN)
    assert second.counts.get(DRAM_BYTES) is None
    assert CaveatKind.COUNTERS_INCOMPLETE in kinds(second.caveats)


@pytest.mark.parametrize(
    ("unit", "seconds"), [("Nanoseconds", 61.44e-6), ("Microseconds", 61.44e-3), ("Milliseconds", 61.44)]
)
def test_the_unit_of_time_is_read(unit: str, seconds: float) -> None:
    document = table()
    document["Metadata"]["TimeUnit"] = unit
    assert read_ktt(document, "x.json")[0].seconds == pytest.approx(seconds)


def test_with_opencl_sizes_are_in_threads() -> None:
    document = table()
    document["Metadata"]["ComputeApi"] = "OpenCL"
    assert read_ktt(document, "x.json")[0].grid == (2, 8, 1)


def test_counters_of_gpus_before_volta_have_names_of_cupti() -> None:
    document = table()
    document["Metadata"]["Device"] = "GeForce GTX 1070"
    first_run(document)["ProfilingData"]["Counters"] = [
        {"Name": "dram_read_transactions", "Type": "UnsignedInt", "Value": 1000},
        {"Name": "dram_write_transactions", "Type": "UnsignedInt", "Value": 500},
        {"Name": "achieved_occupancy", "Type": "Double", "Value": 0.5},
        {"Name": "warp_execution_efficiency", "Type": "Percent", "Value": 50.0},
        {"Name": "dram_utilization", "Type": "UtilizationLevel", "Value": 7},
    ]
    profile = tuned_profiles(read_ktt(document, "x.json"))[0]
    assert profile.run is not None
    assert profile.counts.get(DRAM_BYTES) == Count.exact(1500 * 32)
    assert (profile.run.achieved_occupancy, profile.run.active_threads) == (0.5, 16)


def test_every_kernel_of_a_composite_result_is_its_own() -> None:
    document = table()
    runs = document["Results"][0]["ComputationResults"]
    runs.append({**runs[0], "KernelFunction": "reduce", "Duration": 5.0})
    assert [each.kernel for each in read_ktt(document, "x.json")] == ["transpose", "reduce", "transpose"]


def test_a_measured_configuration_of_a_2080_ti() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    if not MEASURED.exists():
        pytest.skip("the measured counters are not at hand")
    where = [("benchmark", "==", "convolution"), ("gpu", "==", "GeForce RTX 2080 Ti")]
    row = pq.read_table(MEASURED, filters=where).slice(0, 1).to_pylist()[0]
    counters = [{"Name": name, "Value": row[name]} for name in row if "__" in name and row[name] is not None]
    document = table()
    document["Metadata"].update({"Device": row["gpu"], "TimeUnit": "Microseconds"})
    first_run(document).update(
        Duration=row["time_us"],
        GlobalSize={axis.upper(): row[f"grid_{axis}"] for axis in "xyz"},
        LocalSize={axis.upper(): row[f"block_{axis}"] for axis in "xyz"},
        ProfilingData={"RemainingProfilingRuns": 0, "Counters": counters},
    )
    profile = tuned_profiles(read_ktt(document, "x.json"))[0]
    assert profile.run is not None
    assert profile.run.seconds == pytest.approx(row["time_us"] / 1e6)
    dram = row["dram__sectors_read.sum"] + row["dram__sectors_write.sum"]
    assert profile.counts[DRAM_BYTES].value == dram * 32
    # DRAM was busy that share of the time at 616 GB/s, within 15 % (the counters' clock and the time's differ)
    busy = row["dram__throughput.avg.pct_of_peak_sustained_elapsed"] / 100
    assert dram * 32 / (busy * 616e9) == pytest.approx(profile.run.seconds, rel=0.15)
    # each of 4096 x 4096 threads writes one float: at least its sectors pass L2
    assert profile.counts[L2_BYTES].value > 4096 * 4096 * 4


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda d: d["Metadata"].update(TimeUnit="Days"), "unit of the time"),
        (lambda d: d["Metadata"].update(ComputeApi="Vulkan"), "ComputeApi is 'Vulkan'"),
        (lambda d: d["Metadata"].update(ComputeApi=["CUDA"]), "ComputeApi is a list|ComputeApi is"),
        (lambda d: d["Metadata"].update(Device=None), "Device is missing"),
        (lambda d: d.update(Results={}), "Results are missing"),
        (lambda d: first_run(d).update(Duration=-1), "the time is a int|the time is"),
        (lambda d: first_run(d).update(KernelFunction=""), "KernelFunction"),
        (lambda d: first_run(d)["CompilationData"].update(RegistersCount=-3), "CompilationData"),
        (lambda d: first_run(d)["ProfilingData"].update(Counters=[{"Value": 1}]), "no Name"),
        (lambda d: first_run(d)["ProfilingData"]["Counters"][0].update(Value="x"), "dram__sectors_read.sum is 'x'"),
        (lambda d: d["Results"][0].update(Configuration=None), "Configuration is missing"),
        (lambda d: d["Results"][0].pop("ComputationResults"), "ComputationResults is missing"),
        (lambda d: first_run(d).pop("GlobalSize"), "the grid of"),
        (lambda d: first_run(d).update(LocalSize={"X": 4096, "Y": 1, "Z": 1}), "the block of"),
    ],
)
def test_faults_name_their_place_and_cure(change: Any, what: str) -> None:
    document = table()
    change(document)
    with pytest.raises(InputError, match=what) as caught:
        tuned_profiles(read_ktt(document, "x.json"), None, "x.json")
    assert str(caught.value).startswith("x.json")
    assert caught.value.cure


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_mutated_file_never_ends_in_another_error(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(TEXT) - 1))
    length = data.draw(st.integers(0, 60))
    pieces = st.sampled_from(("null", "[]", "{}", "-1", "1e999", "NaN", '"x"', "}}", ",", "true", "9" * 5000))
    mutated = TEXT[:start] + data.draw(st.one_of(st.text(max_size=8), pieces)) + TEXT[start + length :]
    with contextlib.suppress(KerncastError):
        tuned_profiles(read_tuned(mutated, "mutated.json"))
