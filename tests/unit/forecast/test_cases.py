"""What a model is told of a launch or a profile, a GPU each."""

from dataclasses import replace
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.forecast import (
    Choices,
    LaunchCases,
    ProfileCases,
    matched,
    measured_of,
)
from kerncast.gpu import load_gpu
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.measurements import Observation
from kerncast.prediction import Timing
from kerncast.profiles import SourceRun
from kerncast.read.observations import read_observations
from tests.helpers.transfers import profiled, run

SOURCE = "__global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }"
CHOICES = Choices(Timing.SERIES, with_caches=False)


def time_on(gpu: str, seconds: float = 1e-3, launch: int | None = None) -> Observation:
    """Return a measured time."""
    return Observation(load_gpu(gpu), seconds, launch)


def launch_in(folder: Path, **fields: object) -> Launch:
    """Return a launch of one warp that doubles 32 numbers."""
    (folder / "twice.cu").write_text(SOURCE)
    buffers = (Buffer("f32", (32,), Fill("iota")), Buffer("f32", (32,), Fill("zeros")))
    arguments = tuple(Argument(name, value) for name, value in zip("xy", buffers, strict=True))
    launch = Launch(folder / "twice.cu", "twice", (1, 1, 1), (32, 1, 1), arguments=arguments)
    return replace(launch, **fields)  # type: ignore[arg-type]


def test_a_profile_tells_every_gpu_the_same_and_is_its_own_source() -> None:
    profile = profiled("titan-v", seconds=2e-3)
    cases = ProfileCases(profile, (), (), CHOICES)
    for name in ("t4", "h100-pcie"):
        case = cases.on(load_gpu(name))
        assert case is not None
        assert case.profile == case.source == profile
        assert case.gpu.id == name
        assert cases.source_on(case.gpu) is None
    assert cases.kernel == "made_up"
    assert cases.failures == ()


def test_a_profile_without_a_run_has_no_source() -> None:
    case = ProfileCases(replace(profiled(), run=None), (), (), CHOICES).on(load_gpu("t4"))
    assert case is not None
    assert case.source is None


def test_a_time_beside_a_profile_replaces_its_run() -> None:
    case = ProfileCases(profiled("titan-v"), (), (time_on("t4", 5e-3),), CHOICES).on(load_gpu("l4"))
    assert case is not None
    assert case.source is not None
    assert case.source.run is not None
    assert (case.source.run.gpu.id, case.source.run.seconds) == ("t4", 5e-3)
    assert case.source.run.timing is Timing.SERIES


def test_what_threads_do_is_kept_beside_another_time_and_what_sms_do_is_not() -> None:
    own = replace(profiled(), run=run("titan-v", active_threads=17.0, clock_hz=1.2e9, not_in_profile=("l2_bytes",)))
    case = ProfileCases(own, (), (time_on("t4"),), CHOICES).on(load_gpu("l4"))
    assert case is not None
    assert case.source is not None
    assert case.source.run == SourceRun(
        load_gpu("t4"), 1e-3, Timing.SERIES, active_threads=17.0, not_in_profile=("l2_bytes",)
    )


def test_a_source_that_cannot_be_executed_fails_its_launch_alone(tmp_path: Path) -> None:
    faulty = launch_in(tmp_path, block=(64, 1, 1))
    seen = replace(profiled(), kernel="twice", grid=faulty.grid, block=faulty.block)
    cases = ProfileCases(seen, (faulty,), (), CHOICES)
    assert cases.on(load_gpu("t4")) is None
    (failure,) = cases.failures
    assert (failure.kernel, failure.architecture) == ("twice", None)
    assert "out of bounds" in str(failure.refusal)


@pytest.mark.parametrize(
    ("target", "source"),
    [("rtx-3090", "rtx-2080-ti"), ("t4", "rtx-2080-ti"), ("gtx-980", "gtx-1070"), ("gtx-1070", "gtx-1070")],
)
def test_of_several_times_the_nearest_generation_counts(target: str, source: str) -> None:
    measured = (time_on("gtx-1070"), time_on("rtx-2080-ti"))
    case = ProfileCases(profiled(), (), measured, CHOICES).on(load_gpu(target))
    assert case is not None
    assert case.source is not None
    assert case.source.run is not None
    assert case.source.run.gpu.id == source


def test_a_time_on_the_very_gpu_counts_before_others_of_its_generation() -> None:
    measured = (time_on("rtx-2080-ti", 1e-3), time_on("t4", 3e-3))
    case = ProfileCases(profiled(), (), measured, CHOICES).on(load_gpu("t4"))
    assert case is not None
    assert case.source is not None
    assert case.source.run is not None
    assert case.source.run.seconds == 3e-3


def test_a_launch_is_compiled_for_target_and_source(tmp_path: Path) -> None:
    targets = [load_gpu("h100-pcie"), load_gpu("t4")]
    cases = LaunchCases(launch_in(tmp_path), targets, (time_on("gtx-980", 4e-6),), CHOICES)
    for gpu in targets:
        case = cases.on(gpu)
        assert case is not None
        assert case.profile.resources is not None
        assert case.profile.resources.architecture.removesuffix("a") == gpu.architecture.code_name
        assert cases.source_on(gpu) is not None
        assert case.profile.run is None
        assert case.profile.caches is None
        assert case.source is not None
        assert case.source.resources is not None
        assert case.source.resources.architecture == "sm_52"
        assert case.source.run is not None
        assert case.source.run.seconds == 4e-6
    assert cases.kernel == "twice"


def test_caches_are_those_of_each_gpu_where_a_model_asks_for_them(tmp_path: Path) -> None:
    choices = Choices(Timing.SERIES, with_caches=True)
    cases = LaunchCases(launch_in(tmp_path), [load_gpu("t4")], (time_on("titan-v"),), choices)
    case = cases.on(load_gpu("t4"))
    assert case is not None
    assert case.profile.caches is not None
    assert case.profile.caches.gpu == "t4"
    assert case.source is not None
    assert case.source.caches is not None
    assert case.source.caches.gpu == "titan-v"
    # 32 numbers of 4 bytes are four sectors, on both.
    assert [each.counts["dram__sectors_read.sum"].value for each in (case.source, case.profile)] == [4, 4]


def test_a_launch_of_an_architecture_that_was_not_asked_for_has_no_case(tmp_path: Path) -> None:
    cases = LaunchCases(launch_in(tmp_path), [load_gpu("t4")], (), CHOICES)
    assert cases.on(load_gpu("h100-pcie")) is None
    case = cases.on(load_gpu("t4"))
    assert case is not None
    assert case.source is None


def test_times_name_their_launch() -> None:
    measured = read_observations(["Titan V = 2ms", "RTX 2080 Ti#3=1.5us"])
    assert [(each.gpu.id, each.seconds, each.launch) for each in measured] == [
        ("titan-v", 2e-3, None),
        ("rtx-2080-ti", pytest.approx(1.5e-6), 3),
    ]
    assert measured_of(measured, 3) == measured[1:]
    (alone,) = matched(measured[:1], [replace(profiled(), index=4)])
    assert measured_of((alone,), 4) == (alone,)


def test_a_time_without_its_launch_is_refused_where_there_are_several() -> None:
    several = [profiled(), replace(profiled(), index=4)]
    with pytest.raises(InputError, match=r"does not say which of the 2 launches.*TITAN V#0="):
        matched((time_on("titan-v"),), several)
    with pytest.raises(InputError, match=r"names launch 3, which does not exist.*Known: 0, 4"):
        matched((time_on("titan-v", launch=3),), several)
    matched((time_on("titan-v", launch=4),), several)


def test_launches_of_one_index_are_one() -> None:
    matched((time_on("titan-v"),), [profiled()])
    matched((), [])
