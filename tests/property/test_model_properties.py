"""What must hold for every kernel and GPU: more of anything is never slower, intervals contain their forecast."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kerncast.gpu import GPU, list_gpus
from kerncast.models import Case, Model, Question, model_named
from kerncast.prediction import Timing
from kerncast.profiles import KernelProfile
from kerncast.profiles.counts import DRAM_BYTES, FP32_FLOPS
from kerncast.read.declared import declared_profile
from tests.helpers.profiles import answered

counts = st.floats(0, 1e15)
gpus = st.sampled_from(list_gpus())
models = st.sampled_from([model_named("roofline"), model_named("template")])
timings = st.sampled_from(list(Timing))
factors = st.floats(1, 100)


@st.composite
def profiles(draw: st.DrawFn) -> KernelProfile:
    """Draw a profile with all the counts that the models read."""
    blocks = draw(st.integers(1, 10**6))
    names = ("fp32_flops", "fp64_flops", "special_ops", "integer_ops", "dram_bytes", "global_bytes_touched")
    values = {name: draw(counts) for name in names}
    values |= {"global_load_sectors": draw(counts), "global_store_sectors": draw(counts)}
    return declared_profile("k", (blocks, 1, 1), (128, 1, 1), 0, **values)


def seconds(model: Model, profile: KernelProfile, gpu: GPU, timing: Timing) -> float:
    return model.predict(Case(profile, gpu), Question(timing)).seconds


@given(profiles(), gpus, models, timings, st.floats(0.01, 0.99))
def test_the_interval_contains_the_forecast(
    profile: KernelProfile, gpu: GPU, model: Model, timing: Timing, level: float
) -> None:
    found = model.predict(Case(profile, gpu), Question(timing, level))
    assert 0 <= found.low <= found.seconds <= found.high
    assert found.limiter in {term.name for term in found.terms}


@given(profiles(), gpus, models, st.floats(0.01, 0.98), st.floats(0.001, 0.01))
def test_a_higher_level_is_never_narrower(
    profile: KernelProfile, gpu: GPU, model: Model, level: float, more: float
) -> None:
    narrow = model.predict(Case(profile, gpu), Question(Timing.SERIES, level))
    wide = model.predict(Case(profile, gpu), Question(Timing.SERIES, level + more))
    assert wide.low <= narrow.low
    assert wide.high >= narrow.high


@given(profiles(), gpus, models, timings, factors)
def test_more_bandwidth_is_never_slower(
    profile: KernelProfile, gpu: GPU, model: Model, timing: Timing, factor: float
) -> None:
    better = replace(
        gpu,
        dram_bytes_per_s=gpu.dram_bytes_per_s * factor,
        sustained_dram_bytes_per_s=gpu.sustained_dram_bytes_per_s and gpu.sustained_dram_bytes_per_s * factor,
    )
    assert seconds(model, profile, better, timing) <= seconds(model, profile, gpu, timing) * (1 + 1e-12)


@given(profiles(), gpus, models, timings, st.floats(1, 10))
def test_a_faster_clock_is_never_slower(
    profile: KernelProfile, gpu: GPU, model: Model, timing: Timing, factor: float
) -> None:
    faster = gpu.at_clock(gpu.clock_hz * factor)
    assert seconds(model, profile, faster, timing) <= seconds(model, profile, gpu, timing) * (1 + 1e-12)


@given(profiles(), gpus, models, timings, st.integers(1, 200))
def test_more_sms_are_never_slower(profile: KernelProfile, gpu: GPU, model: Model, timing: Timing, more: int) -> None:
    larger = replace(gpu, sm_count=gpu.sm_count + more)
    assert seconds(model, profile, larger, timing) <= seconds(model, profile, gpu, timing) * (1 + 1e-12)


@given(profiles(), gpus, models, timings, st.floats(1, 100))
def test_more_work_is_never_faster(
    profile: KernelProfile, gpu: GPU, model: Model, timing: Timing, factor: float
) -> None:
    work, traffic = (profile.counts[name].times(factor) for name in (FP32_FLOPS, DRAM_BYTES))
    more = answered(profile, fp32_flops=work, dram_bytes=traffic)
    assert seconds(model, more, gpu, timing) >= seconds(model, profile, gpu, timing) * (1 - 1e-12)
