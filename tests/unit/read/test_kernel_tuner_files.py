"""The readers of Kernel Tuner's cache and of T4 results, on small files in their formats; all numbers are made up."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError, KerncastError
from kerncast.forecast import launch_of
from kerncast.gpu import load_gpu
from kerncast.launch import Launch
from kerncast.measurements import TimedKernel
from kerncast.prediction import Timing
from kerncast.profiles import Count
from kerncast.profiles.counts import DRAM_BYTES, FP32_FLOPS
from kerncast.read import Selection
from kerncast.read.profile_files import read_kernels, read_profile, read_tuned
from kerncast.read.tuners import (
    MOST_CONFIGURATIONS,
    close_cache,
    grid_of,
    read_cache,
    read_t4,
    seconds_of,
    tuned_kernels,
    tuned_profiles,
)
from tests.helpers.caveats import kinds
from tests.helpers.places import TESTS
from tests.helpers.thorough import examples

GOLDEN = TESTS / "golden" / "tuners"
CACHE = (GOLDEN / "blur_cache.json").read_text(encoding="utf-8")
T4 = (GOLDEN / "blur_t4.json").read_text(encoding="utf-8")


def cache(**changes: Any) -> dict[str, Any]:
    return {**json.loads(close_cache(CACHE)), **changes}


def entry(**changes: Any) -> dict[str, Any]:
    return {"block_size_x": 64, "block_size_y": 1, "use_shared": 0, "time": 2.0, **changes}


def test_a_cache_that_the_tuner_left_open_is_read() -> None:
    assert CACHE.rstrip().endswith(",")
    found = read_tuned(CACHE, "cache.json")
    assert [each.parameters for each in found] == [
        "block_size_x=16, block_size_y=4, use_shared=0",
        "block_size_x=32, block_size_y=8, use_shared=1",
    ]
    assert [each.seconds for each in found] == pytest.approx([0.512e-3, 0.25e-3])


def test_a_closed_cache_says_the_same() -> None:
    closed = json.dumps(json.loads(close_cache(CACHE)), indent=1)
    assert read_tuned(closed, "cache.json") == read_tuned(CACHE, "cache.json")


def test_profiles_of_a_cache() -> None:
    first, second = read_profile(GOLDEN / "blur_cache.json")
    # 4096 x 1000 over blocks of 16 x 4 and 32 x 8
    assert (first.grid, first.block) == ((256, 250, 1), (16, 4, 1))
    assert (second.grid, second.block) == ((128, 125, 1), (32, 8, 1))
    assert (first.index, second.index) == (0, 1)
    assert first.run is not None
    assert (first.run.gpu.id, first.run.timing) == ("rtx-a4000", Timing.SINGLE)
    # 1638.4 GFLOP/s during 0.25 ms
    assert second.counts[FP32_FLOPS].value == pytest.approx(4.096e8)
    assert second.counts.get(DRAM_BYTES) == Count.exact(2 * 16384000)  # by its observer of ncu's counters
    assert first.counts.get(DRAM_BYTES) is None
    assert first.resources is None
    assert Caveat(CaveatKind.TUNED_WITH, "block_size_x=16, block_size_y=4, use_shared=0") in first.caveats
    assert {CaveatKind.GRID_FROM_PROBLEM_SIZE, CaveatKind.OPERATIONS_FROM_RATE} <= set(kinds(first.caveats))


@pytest.mark.parametrize(
    "failure",
    [
        {"time": "InvalidConfig"}, {"time": "CompilationFailedConfig"}, {"time": "RuntimeFailedConfig"},
        {"time": 1e20}, {"time": 1.7e308}, {"time": 3.0, "__error__": "InvalidConfig"},
    ],
)  # fmt: skip
def test_failed_configurations_are_left_out(failure: dict[str, Any]) -> None:
    table = cache(cache={"a": entry(**failure), "b": entry()})
    assert len(read_cache(table, "cache.json")) == 1


def test_a_file_in_which_everything_failed_is_refused() -> None:
    found = read_cache(cache(cache={"a": entry(time="InvalidConfig")}), "cache.json")
    with pytest.raises(InputError, match="no configuration in it ran"):
        tuned_profiles(found)


@pytest.mark.parametrize(
    ("problem", "grid"),
    [
        (1000, (16, 1, 1)),
        ([1000], (16, 1, 1)),
        ([1000, 3], (16, 3, 1)),
        ([1000, 3, 5], (16, 3, 5)),
        ("(1000, 3)", (16, 3, 1)),
        ("1000", (16, 1, 1)),
        ("(n, m)", None),
        (None, None),
        ([1000.5], None),
        ([True], None),
        ([0], None),
        ([10**15], None),
    ],
)
def test_the_grid_is_the_problem_over_the_block(problem: object, grid: tuple[int, int, int] | None) -> None:
    (found,) = read_cache(cache(problem_size=problem, cache={"a": entry()}), "cache.json")
    assert (found.block, found.grid) == ((64, 1, 1), grid)


def test_a_block_under_other_names_cannot_be_told() -> None:
    table = cache(tune_params_keys=["tx"], cache={"a": {"tx": 64, "time": 1.0}})
    with pytest.raises(InputError, match=r"the block of 'tx=64' cannot be told .*--measured"):
        tuned_profiles(read_cache(table, "cache.json"))


@pytest.mark.parametrize(
    ("time", "what"),
    [
        (None, "missing"),
        (-1.0, "-1"),
        (float("nan"), "nan"),
        (0, "the time is 0"),
        (True, "True"),
        (1e15, "the time is 1e.15 ms"),
        ([1.0], "a list"),
    ],
)
def test_times_that_are_none(time: object, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        read_cache(cache(cache={"a,b": entry(time=time)}), "cache.json")
    assert "cache.json, configuration 'a,b'" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kernel_name": None}, "kernel_name"),
        ({"kernel_name": "a\nb"}, "kernel_name"),
        ({"device_name": 5}, "device_name"),
        ({"tune_params_keys": "block_size_x"}, "tune_params_keys"),
        ({"cache": []}, "cache is missing"),
        ({"cache": {"a": 3}}, "not an object"),
        ({"cache": {"a": entry(**{"GFLOP/s": -2})}}, "GFLOP/s is -2"),
        ({"cache": {"a": entry(**{"dram__bytes.sum": "many"})}}, "dram__bytes.sum is 'many'"),
        ({"cache": dict.fromkeys(map(str, range(MOST_CONFIGURATIONS + 1)))}, "too large"),
    ],
)
def test_faults_of_a_cache(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        read_cache(cache(**changes), "cache.json")
    assert caught.value.cure


def test_results_in_the_t4_format() -> None:
    (found,) = read_t4(json.loads(T4), "blur_t4.json")
    assert (found.kernel, found.device, found.block, found.grid) == ("blur_t4", None, (16, 4, 1), None)
    assert found.seconds == pytest.approx(0.512e-3)
    assert found.flops == pytest.approx(800e9 * 0.512e-3)
    with pytest.raises(InputError, match=r"the grid of .* cannot be told"):
        read_profile(GOLDEN / "blur_t4.json", load_gpu("RTX A4000"))


def test_results_without_a_grid_are_known_by_their_times() -> None:
    (found,) = read_kernels(GOLDEN / "blur_t4.json", load_gpu("RTX A4000"))
    assert isinstance(found, TimedKernel)
    assert (found.kernel, found.index) == ("blur_t4", 0)
    (time,) = found.times
    assert (time.gpu.id, time.timing) == ("rtx-a4000", Timing.SINGLE)
    assert time.seconds == pytest.approx(0.512e-3)
    assert kinds(found.caveats) == [CaveatKind.TUNED_WITH]


def test_a_measurement_whose_name_is_no_text_is_none() -> None:
    table = json.loads(T4)
    expected = read_t4(json.loads(T4), "t4.json")
    table["results"][0]["measurements"].append({"name": {"a": 1}, "value": 1, "unit": ""})
    assert read_t4(table, "t4.json") == expected


def test_a_grid_that_is_missing_beside_counters_is_asked_for() -> None:
    table = json.loads(T4)
    table["results"][0]["measurements"].append({"name": "dram__bytes_read.sum", "value": 1e6, "unit": ""})
    with pytest.raises(InputError, match=r"the grid of .* cannot be told"):
        tuned_kernels(read_t4(table, "t4.json"), load_gpu("RTX A4000"))


def tuned(*block: int, grid: int = 100, kernel: str = "blur", **defines: object) -> Launch:
    """Return a launch that is never executed."""
    sizes = (*block, 1, 1)
    pairs = tuple((name, str(value)) for name, value in defines.items())
    return Launch(Path("blur.cu"), kernel, (grid, 1, 1), (sizes[0], sizes[1], 1), defines=pairs)


def test_a_launch_of_the_source_says_what_t4_results_do_not() -> None:
    others = [tuned(16, 8), tuned(16, 4, tile=2, block_size_x=32)]
    (profile,) = read_profile(GOLDEN / "blur_t4.json", load_gpu("RTX A4000"), None, [*others, tuned(16, 4, grid=7)])
    assert (profile.kernel, profile.grid, profile.block) == ("blur", (7, 1, 1), (16, 4, 1))
    assert profile.run is not None
    assert profile.run.timing is Timing.SINGLE
    assert profile.run.seconds == pytest.approx(0.512e-3)
    assert CaveatKind.GEOMETRY_FROM_SOURCE in kinds(profile.caveats)
    with pytest.raises(InputError, match=r"the grid of .* cannot be told .*--source"):
        read_profile(GOLDEN / "blur_t4.json", load_gpu("RTX A4000"), None, others)
    with pytest.raises(InputError, match="fits several launches"):
        read_profile(GOLDEN / "blur_t4.json", load_gpu("RTX A4000"), None, [tuned(16, 4), tuned(16, 4, grid=9)])


def test_configurations_without_a_launch_are_left_out_and_counted() -> None:
    table = json.loads(T4)
    first = table["results"][0]
    for width in (32, 64):
        table["results"].append({**first, "configuration": {"block_size_x": width, "block_size_y": 4}})
    found = tuned_profiles(read_t4(table, "t4.json"), load_gpu("T4"), "t4.json", None, [tuned(64, 4), tuned(16, 4)])
    assert [profile.block for profile in found] == [(16, 4, 1), (64, 4, 1)]
    left_out = Caveat.of(CaveatKind.CONFIGURATIONS_LEFT_OUT, left_out=1, all=3)
    assert all(left_out in profile.caveats for profile in found)


def test_counts_come_only_from_a_launch_that_is_tuned_alike() -> None:
    first, second = read_profile(GOLDEN / "blur_cache.json")
    launches = [
        Launch(Path("blur.cu"), "blur", (256, 250, 1), (16, 4, 1), defines=(("use_shared", value),))
        for value in ("1", "0")
    ]
    assert launch_of(first, launches) is launches[1]
    assert launch_of(first, launches[:1]) is None
    assert launch_of(second, launches) is None


def test_results_of_ktt_in_the_t4_format() -> None:
    (profile,) = read_profile(GOLDEN / "coulomb_ktt_t4.json")
    assert (profile.kernel, profile.grid, profile.block) == ("coulomb_ktt_t4", (128, 16, 1), (64, 4, 1))
    assert profile.run is not None
    assert profile.resources is not None
    assert profile.run.seconds == pytest.approx(320.5e-6)  # its unit stands in the metadata
    assert profile.run.gpu.id == "rtx-2080-ti"
    assert profile.resources.registers_per_thread == 40
    assert profile.counts.get(DRAM_BYTES) == Count.exact((4096 + 2048) * 32)


def test_the_grid_of_opencl_is_in_threads() -> None:
    table = json.loads((GOLDEN / "coulomb_ktt_t4.json").read_text(encoding="utf-8"))
    table["metadata"]["compute_api"] = "OpenCL"
    (found,) = read_t4(table, "x.json")
    assert found.grid == (2, 4, 1)
    assert grid_of((130, 16, 1), (64, 4, 1), is_threads=True) == (3, 4, 1)


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [("ms", 2e-3), ("us", 2e-6), ("s", 2.0), ("milliseconds", 2e-3), ("Nanoseconds", 2e-9), ("microseconds", 2e-6)],
)
def test_units_of_time(unit: str, seconds: float) -> None:
    assert seconds_of(2, unit, "x") == pytest.approx(seconds)


@pytest.mark.parametrize("unit", ["", None, "cycles", "GB/s", 3, "5ms"])
def test_a_time_without_a_unit_is_refused(unit: object) -> None:
    with pytest.raises(InputError, match="unit of the time") as caught:
        seconds_of(2, unit, "x")
    assert '"unit": "ms"' in str(caught.value)


def test_a_selection_keeps_the_places() -> None:
    found = read_profile(GOLDEN / "blur_cache.json", None, Selection("blur", skip=1))
    assert [profile.index for profile in found] == [1]
    with pytest.raises(InputError, match="no kernel is called 'other'"):
        read_profile(GOLDEN / "blur_cache.json", None, Selection("other"))


def test_equal_counters_are_read_once_and_say_the_same() -> None:
    table = cache(cache={str(n): entry(block_size_x=32 << (n % 3), time=1.0 + n) for n in range(7)})
    every = tuned_profiles(read_cache(table, "cache.json"))
    for place, profile in enumerate(every):
        (alone,) = tuned_profiles(read_cache(table, "cache.json"), None, "cache.json", Selection(skip=place, count=1))
        assert profile == alone


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_mutated_file_never_ends_in_another_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from((CACHE, T4, (GOLDEN / "coulomb_ktt_t4.json").read_text(encoding="utf-8"))))
    start = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 60))
    pieces = st.sampled_from(("null", "[]", "{}", "-1", "1e999", "NaN", '"x"', "}}", ",", "[" * 2000, "9" * 5000))
    mutated = text[:start] + data.draw(st.one_of(st.text(max_size=8), pieces)) + text[start + length :]
    with contextlib.suppress(KerncastError):
        tuned_profiles(read_tuned(mutated, "mutated.json"))
