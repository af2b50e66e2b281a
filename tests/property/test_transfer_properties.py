"""What must hold for every kernel and every pair of GPUs when a measured time is carried over."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kerncast.errors import KerncastError, MissingEvidenceError
from kerncast.gpu import GPU, list_gpus
from kerncast.models import Model, Question, model_named
from kerncast.models.transfer.ceilings import Demand, kernel_ceilings, project
from kerncast.models.transfer.machine_maxima import MachineMaxima, Maximum
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import FloatMix, KernelProfile, SourceRun
from tests.helpers.profiles import answered, with_counts
from tests.helpers.transfers import case, exact, float_mixes, no_float_mixes, profiled

#: 24 KiB of shared memory and 256 threads fit every GPU. Of chips that share the CPU's memory, L2 is unknown.
gpus = st.sampled_from([gpu for gpu in list_gpus() if gpu.l2_rate is not None])
models = st.sampled_from([model_named("algorithm1"), model_named("ceilings")])
amounts = st.floats(1.0, 1e15)
rates = st.floats(1e9, 1e14)
seconds = st.floats(1e-6, 10)
LEVELS = ("l1_bytes", "shared_bytes", "shared_wavefronts", "l2_bytes", "dram_bytes")
factors = st.floats(1, 100)


@st.composite
def profiles(draw: st.DrawFn) -> KernelProfile:
    """Draw a profile with a run, with or without floating-point operations."""
    flops = draw(st.one_of(st.just(0.0), amounts))
    found = profiled(draw(gpus), draw(seconds), flops, draw(amounts), draw(st.sampled_from([16, 32, 64])))
    levels = {level: exact(draw(amounts)) for level in LEVELS}
    assert found.run is not None
    run = replace(found.run, active_threads=draw(st.floats(1, 32)))
    return replace(answered(found, **levels), run=run, shared_bytes=draw(st.sampled_from([0, 24 * 1024])))


@st.composite
def hostile_profiles(draw: st.DrawFn) -> KernelProfile:
    """Draw a profile of numbers that no GPU gives, as a damaged file may hold them."""
    counts = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e-40]), st.floats(0, 1e30)).map(exact)
    found = draw(profiles())
    assert found.run is not None
    mix = FloatMix(draw(st.sampled_from([16, 32, 64])), *(draw(counts) for _ in range(3)))
    answers = {each: draw(counts) for each in (*LEVELS, "fp32_flops", "fp64_flops")}
    return replace(
        answered(with_counts(found, float_mixes(mix)), **answers),
        grid=(draw(st.sampled_from([1, 2**31 - 1])), 1, 1),
        resources=draw(st.sampled_from([None, found.resources])),
        run=replace(
            found.run,
            seconds=draw(st.floats(1e-15, 1e15)),
            active_threads=draw(st.floats(0, 1e9)),
            achieved_occupancy=draw(st.floats(0, 1)),
        ),
    )


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    mixes = tuple(
        FloatMix(bits, *(exact(draw(st.one_of(st.just(0.0), amounts))) for _ in range(3)))
        for bits in draw(st.lists(st.sampled_from([16, 32, 64]), unique=True))
    )
    return Demand(mixes, draw(st.floats(1, 32)), *(draw(amounts) for _ in range(5)))


@st.composite
def machines(draw: st.DrawFn) -> MachineMaxima:
    return MachineMaxima("made up", *(Maximum(draw(rates)) for _ in range(7)))


def predict(model: Model, profile: KernelProfile, gpu: GPU) -> Prediction:
    return model.predict(case(profile, gpu), Question(Timing.PROFILER))


@given(profiles(), gpus, models)
def test_the_interval_contains_the_forecast(profile: KernelProfile, gpu: GPU, model: Model) -> None:
    found = predict(model, profile, gpu)
    assert 0 < found.low <= found.seconds <= found.high < math.inf
    assert found.limiter in {term.name for term in found.terms}
    assert found.transfer is not None
    assert all(f.source is not None and math.isfinite(f.source) for f in found.transfer.figures)


@given(profiles(), st.sampled_from([gpu for gpu in list_gpus() if gpu.l2_rate is None]))
def test_a_gpu_whose_l2_is_unknown_is_refused_by_name(profile: KernelProfile, gpu: GPU) -> None:
    with pytest.raises(MissingEvidenceError, match=f"l2 rate of {gpu.name} is unknown"):
        predict(model_named("ceilings"), profile, gpu)


@given(profiles(), gpus)
def test_algorithm1_there_and_back_gives_the_start(profile: KernelProfile, gpu: GPU) -> None:
    assert profile.run is not None
    model = model_named("algorithm1")
    there = predict(model, profile, gpu)
    back = replace(profile, run=SourceRun(gpu, there.seconds, Timing.PROFILER))
    assert predict(model, back, profile.run.gpu).seconds == pytest.approx(profile.run.seconds, rel=1e-12)


@given(demands(), machines(), machines(), seconds)
def test_each_level_there_and_back_gives_the_start(
    demand: Demand, one: MachineMaxima, other: MachineMaxima, time: float
) -> None:
    source, target = kernel_ceilings(demand, one), kernel_ceilings(demand, other)
    for n, there in enumerate(project(time, source, target)):
        assert project(there.seconds, target, source)[n].seconds == pytest.approx(time, rel=1e-12)


@given(demands(), machines(), machines(), seconds, factors)
def test_faster_machines_are_never_slower(
    demand: Demand, source: MachineMaxima, target: MachineMaxima, time: float, factor: float
) -> None:
    before = project(time, kernel_ceilings(demand, source), kernel_ceilings(demand, target))
    for name in ("fp16", "fp32", "fp64", "l1", "shared", "l2", "dram"):
        better = replace(target, **{name: Maximum(getattr(target, name).rate * factor)})  # type: ignore[arg-type]
        after = project(time, kernel_ceilings(demand, source), kernel_ceilings(demand, better))
        assert all(b.seconds <= a.seconds * (1 + 1e-12) for a, b in zip(before, after, strict=True))


@given(profiles(), gpus, models, factors)
def test_more_bandwidth_on_the_target_is_never_slower(
    profile: KernelProfile, gpu: GPU, model: Model, factor: float
) -> None:
    better = replace(
        gpu,
        dram_bytes_per_s=gpu.dram_bytes_per_s * factor,
        sustained_dram_bytes_per_s=gpu.sustained_dram_bytes_per_s and gpu.sustained_dram_bytes_per_s * factor,
    )
    assert predict(model, profile, better).seconds <= predict(model, profile, gpu).seconds * (1 + 1e-12)


@given(profiles(), gpus, models, factors)
def test_the_forecast_scales_with_the_measured_time(
    profile: KernelProfile, gpu: GPU, model: Model, factor: float
) -> None:
    assert profile.run is not None
    longer = replace(profile, run=replace(profile.run, seconds=profile.run.seconds * factor))
    assert predict(model, longer, gpu).seconds == pytest.approx(factor * predict(model, profile, gpu).seconds, rel=1e-9)


@given(profiles(), gpus, models, factors)
def test_a_kernel_that_does_all_so_many_times_takes_the_same_share(
    profile: KernelProfile, gpu: GPU, model: Model, factor: float
) -> None:
    """Only ratios of counts matter: all counts times a factor, in the same time, give the same forecast."""
    more = with_counts(profile, {name: count.times(factor) for name, count in profile.counts.items()})
    assert predict(model, more, gpu).seconds == pytest.approx(predict(model, profile, gpu).seconds, rel=1e-9)


@given(demands(), machines())
def test_ceilings_lie_between_the_slowest_and_the_fastest_memory(demand: Demand, machine: MachineMaxima) -> None:
    assume(demand.shared_bytes <= 128 * demand.shared_wavefronts)
    found = kernel_ceilings(demand, machine)
    fastest = max(machine.l1.rate, machine.shared.rate, machine.l2.rate, machine.dram.rate)
    assert all(level.ceiling_bytes_per_s <= fastest * (1 + 1e-9) for level in found.levels)
    assert found.levels[2].ceiling_bytes_per_s == pytest.approx(machine.dram.rate)
    compute = found.compute
    assert 0 < compute.ceiling_flops_per_s <= compute.mix_flops_per_s * (1 + 1e-9)
    assert compute.mix_flops_per_s <= compute.max_flops_per_s * (1 + 1e-9)


@given(demands(), machines(), machines(), seconds)
def test_a_second_implementation_agrees(demand: Demand, one: MachineMaxima, other: MachineMaxima, time: float) -> None:
    """The paper's equations once more, step by step and only with operations, as equation 9 needs them."""
    assume(demand.flops > 1)
    rates = []
    for m in (one, other):
        n_dram = demand.dram_bytes
        n_l2 = max(demand.l2_bytes - n_dram, 0)
        n_l1 = max(demand.l1_bytes - demand.l2_bytes, 0)
        t_dram, t_l2, t_l1 = n_dram / m.dram.rate, n_l2 / m.l2.rate, n_l1 / m.l1.rate
        t_shared = demand.shared_wavefronts * 128 / m.shared.rate
        ceilings = {
            "l1": (n_l1 + demand.shared_bytes + n_l2 + n_dram) / (t_l1 + t_shared + t_l2 + t_dram),
            "l2": (n_l2 + n_dram) / (t_l2 + t_dram),
            "dram": m.dram.rate,
        }
        crossing = {"l1": demand.l1_bytes + demand.shared_bytes, "l2": demand.l2_bytes, "dram": n_dram}
        busy = 0.0
        for mix in demand.mixes:
            fused, plain = mix.fused.value, mix.additions.value + mix.multiplications.value
            if fused + plain > 0:
                fma = {16: m.fp16, 32: m.fp32, 64: m.fp64}[mix.bits]
                assert fma is not None
                rate = (fma.rate * fused + fma.rate / 2 * plain) / (fused + plain)
                busy += (plain + 2 * fused) / (rate * demand.active_threads / 32)
        perf = demand.flops / busy
        rates.append({name: min(ceilings[name] * demand.flops / crossing[name], perf) for name in ceilings})
    for found in project(time, kernel_ceilings(demand, one), kernel_ceilings(demand, other)):
        expected = demand.flops / (demand.flops / time / rates[0][found.level] * rates[1][found.level])
        assert found.seconds == pytest.approx(expected, rel=1e-9)


@given(profiles(), gpus, models, st.sampled_from(["run", "resources", "float mixes", "all but DRAM", *LEVELS]))
def test_unknown_values_are_refused_and_nothing_else_happens(
    profile: KernelProfile, gpu: GPU, model: Model, unknown: str
) -> None:
    if unknown in LEVELS:
        broken = answered(profile, **{unknown: None})
    elif unknown == "float mixes":
        broken = with_counts(profile, no_float_mixes())
    elif unknown == "all but DRAM":
        broken = replace(profile, counts=profile.counts.only(["dram__bytes.sum"]))
    else:
        broken = replace(profile, **{unknown: None})  # type: ignore[arg-type]
    try:
        found = predict(model, broken, gpu)
    except KerncastError as error:
        cure = error.cure
    else:
        cure = f"none is needed: {found.seconds} s"
    assert cure


@given(hostile_profiles(), gpus, models)
def test_numbers_that_no_gpu_gives_are_refused_or_forecast(profile: KernelProfile, gpu: GPU, model: Model) -> None:
    try:
        found = predict(model, profile, gpu)
    except KerncastError:
        return
    assert 0 <= found.low <= found.seconds <= found.high < math.inf
