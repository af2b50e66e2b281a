"""What a profile lacks is taken from the execution of its kernel, and said; what it has stays."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.caveats import CaveatKind
from kerncast.errors import KerncastError
from kerncast.forecast import Means, cases, filled, launch_of, with_missing_counts, without_launch
from kerncast.gpu import GPU
from kerncast.launch import Argument, Buffer, Fill, Launch
from kerncast.models import Question, model_named
from kerncast.models.transfer.measured_run import float_mixes_of
from kerncast.prediction import Timing
from kerncast.profiles import QUESTIONS, Balance, KernelProfile
from kerncast.profiles.counts import DRAM_BYTES, FP32_FLOPS, L1_BYTES, SHARED_BYTES
from tests.helpers.caveats import kinds, only
from tests.helpers.profiles import SAXPY, THREADS, answered, with_counts
from tests.helpers.transfers import case, exact, no_float_mixes, profiled, run

SOURCE = "__global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }"


def launch(kernel: str | None, grid: int = 8192, block: int = 256, source: str = "k.cu") -> Launch:
    """Return a launch that is never executed."""
    return Launch(Path(source), kernel, (grid, 1, 1), (block, 1, 1))


@pytest.mark.parametrize(
    ("printed", "kernel"),
    [
        ("made_up", "made_up"),
        ("void ns::made_up<float, (int)256>(const T1 *, T1 *)", "made_up<float, 256>"),
        ("made_up(float *, int) [112]", "made_up"),
        ("made_up", None),
    ],
)
def test_the_launch_of_a_profile_is_found_by_name(printed: str, kernel: str | None) -> None:
    own = launch(kernel)
    assert launch_of(replace(profiled(), kernel=printed), [launch("another"), own]) is own


def test_of_several_launches_of_a_kernel_the_one_with_its_geometry_counts() -> None:
    own = launch("made_up", 8192)
    others = [launch("made_up", 1), launch("made_up", 8192, 128), own]
    assert launch_of(profiled(), others) is own
    assert launch_of(profiled(), others[:2]) is None
    assert launch_of(profiled(), []) is None


def test_a_launch_with_other_blocks_is_not_taken_even_if_it_is_the_only_one() -> None:
    others = [launch("made_up", 16)]
    assert launch_of(profiled(), others) is None
    assert launch_of(profiled(), [launch("made_up", 8192, 64)]) is None
    bare = replace(lacking(), kernel="made_up")
    last = without_launch(bare, others).caveats[-1]
    assert (last.kind, last.details["grid"]) == (CaveatKind.LAUNCH_NOT_IN_SOURCE, "[8192, 1, 1]")
    assert without_launch(bare, [launch("another")]) is bare


def test_where_only_the_number_of_blocks_is_told_it_decides() -> None:
    flat = Launch(Path("k.cu"), "made_up", (64, 128, 1), (32, 8, 1))
    own = launch("made_up")
    assert launch_of(profiled(), [flat]) is flat
    assert launch_of(profiled(), [flat, own]) is own


def test_another_kernel_is_not_taken() -> None:
    assert launch_of(profiled(), [launch("other"), launch("made_up2")]) is None


@given(st.text(max_size=60))
def test_no_name_is_too_strange(name: str) -> None:
    strange = replace(profiled(), kernel=name)
    assert launch_of(strange, []) is None
    launch_of(strange, [launch("made_up"), launch(None)])


def lacking() -> KernelProfile:
    """Return a profile of saxpy with time and DRAM bytes only."""
    bare = answered(
        with_counts(profiled(), no_float_mixes()), l1_bytes=None, shared_bytes=None, shared_wavefronts=None,
        l2_bytes=None, fp32_flops=None, fp64_flops=None, fp16_flops=None,
    )  # fmt: skip
    return replace(
        bare,
        kernel="saxpy",
        resources=None,
        run=run("titan-v", active_threads=None),
    )


def test_what_the_profile_lacks_comes_from_the_execution() -> None:
    found = filled(lacking(), SAXPY)
    # 2 loads and a store of 4 bytes per thread, by hand.
    assert found.counts.get(L1_BYTES) == exact(12.0 * THREADS)
    assert found.counts.get(SHARED_BYTES) == exact(0.0)
    assert found.counts.get(FP32_FLOPS) == exact(2 * THREADS)
    assert [(mix.bits, mix.fused.value) for mix in float_mixes_of(found) or ()] == [(32, THREADS)]
    assert found.resources == SAXPY.resources
    assert found.run is not None
    assert found.run.active_threads == 32


def test_what_the_profile_has_stays() -> None:
    found = filled(lacking(), SAXPY)
    assert found.counts.get(DRAM_BYTES) == exact(2e8)
    assert found.run is not None
    assert found.run.seconds == 1e-3
    whole = replace(profiled(), kernel="saxpy")
    kept = filled(whole, SAXPY)
    assert kept.counts.only(whole.counts) == whole.counts
    assert (float_mixes_of(kept), kept.resources) == (float_mixes_of(whole), whole.resources)
    assert kept.run is not None
    assert kept.run.active_threads == whole.run.active_threads if whole.run else False


def test_what_was_filled_is_said_once_each() -> None:
    found = filled(lacking(), SAXPY)
    assert found.run is not None
    names = found.run.not_in_profile
    assert len(names) == len(set(names))
    assert {"l1_bytes", "l2_bytes", "fp32_flops", "float_mix", "active_threads", "resources"} <= set(names)
    caveat = only(found.caveats, CaveatKind.COUNTED_BY_EXECUTION)
    assert all(name in caveat.subject for name in names)


def test_a_filled_profile_answers_the_model_that_refused_it() -> None:
    question = Question(Timing.PROFILER)
    with pytest.raises(KerncastError, match="unknown"):
        model_named("ceilings").predict(case(lacking(), "t4"), question)
    found = model_named("ceilings").predict(case(filled(lacking(), SAXPY), "t4"), question)
    assert found.seconds > 0
    assert CaveatKind.COUNTED_BY_EXECUTION in kinds(found.caveats)


def test_a_profile_without_a_run_is_left_as_it_is() -> None:
    bare = replace(profiled(), run=None)
    assert with_missing_counts(bare, launch("made_up"), Means()) is bare


def test_a_small_kernel_is_executed_for_the_gpu_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / "twice.cu").write_text(SOURCE)
    buffers = (Buffer("f32", (32,), Fill("iota")), Buffer("f32", (32,), Fill("zeros")))
    arguments = tuple(Argument(name, value) for name, value in zip("xy", buffers, strict=True))
    twice = Launch(tmp_path / "twice.cu", "twice", (1, 1, 1), (32, 1, 1), arguments=arguments)
    bare = replace(lacking(), kernel="twice", grid=(1, 1, 1), block=(32, 1, 1))
    found = with_missing_counts(bare, twice, Means())
    assert found.resources is not None
    assert found.resources.architecture == "sm_70"
    assert found.counts.get(L1_BYTES) == exact(256)
    assert found.counts.get(FP32_FLOPS) == exact(32)


def test_a_source_that_does_not_compile_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "bad.cu").write_text("__global__ void made_up( {")
    bad = launch("made_up", source=str(tmp_path / "bad.cu"))
    with pytest.raises(KerncastError):
        with_missing_counts(profiled(), bad, Means())


def test_a_launch_is_executed_once_for_all_rows_of_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    class Known:
        def on(self, _: str) -> "Known":
            return self

        def with_caches(self, _: GPU) -> KernelProfile:
            return SAXPY

    def counted(of: Launch, architectures: list[str], _: Means) -> Known:
        asked.append((architectures[0], of.index))
        return Known()

    monkeypatch.setattr(cases, "compile_and_count", counted)
    known, own, other = Means(), launch("saxpy"), replace(launch("saxpy"), index=1)
    on_t4 = replace(lacking(), run=run("t4", active_threads=None))
    for profile, of in ((lacking(), own), (lacking(), own), (on_t4, own), (lacking(), other), (lacking(), own)):
        found = with_missing_counts(profile, of, known)
        assert found.counts.get(FP32_FLOPS) == exact(2 * THREADS)
    assert asked == [("sm_70", 0), ("sm_75", 0), ("sm_70", 1)]


def test_a_profile_that_lacks_nothing_is_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    def executed(*_: object) -> KernelProfile:
        raise AssertionError

    monkeypatch.setattr(cases, "_executed_on", executed)
    whole = replace(filled(lacking(), SAXPY), balance=Balance(1.0, 1.0, 0.0))
    gaps = [key for key, names in QUESTIONS.items() if whole.counts.first(names) is None]
    whole = answered(whole, **dict.fromkeys(gaps, exact(0)))
    assert with_missing_counts(whole, launch("saxpy"), Means()) is whole
