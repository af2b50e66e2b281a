"""Forecasts from times alone: against the equations solved another way, and what must hold of any evidence."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.caveats import CaveatKind
from kerncast.errors import InputError, MissingEvidenceError
from kerncast.gpu import GPU, list_gpus, load_gpu
from kerncast.measurements import Observation, TimedKernel
from kerncast.models import Question
from kerncast.models.transfer.times import (
    RESOURCES,
    Body,
    Posterior,
    Priors,
    Times,
    log_rates,
    posterior,
    read_priors,
    shared_variance,
)
from kerncast.prediction import Prediction, Timing
from tests.helpers.caveats import kinds, only
from tests.helpers.thorough import examples

GPUS = [gpu for gpu in list_gpus() if np.isfinite(log_rates(gpu)).all()]
PRIORS = read_priors()
ONE_RESOURCE = replace(PRIORS, l2=0, issue=0, mixed=0, fp32=0, fp64=0, latency=0, dram=1)

#: A GPU's id, milliseconds, and the spread over the time.
times_of = st.tuples(st.sampled_from([gpu.id for gpu in GPUS]), st.floats(10, 1000), st.none() | st.floats(0.001, 0.1))
names = st.sampled_from([gpu.id for gpu in GPUS])
Time = tuple[str, float, float | None]


def observed(time: Time) -> Observation:
    name, milliseconds, spread = time
    seconds = milliseconds / 1e3
    return Observation(load_gpu(name), seconds, spread_seconds=None if spread is None else spread * seconds)


def forecast(times: Sequence[Observation], gpu: GPU, level: float = 0.9) -> Prediction:
    return Times().predict_timed(TimedKernel("k", 0, tuple(times)), gpu, Question(Timing.SERIES, level))


def body(name: str, seconds: float) -> Body:
    return Body(load_gpu(name), math.log(seconds), 1e-4)


def kriged(bodies: Sequence[Body], target: GPU, resource: int) -> tuple[float, float]:
    """Return mean and variance under one hypothesis, by ordinary kriging's system of equations (Cressie, 1993, 3.2)."""
    gpus = [each.gpu for each in bodies]
    above = np.array([each.log_seconds + log_rates(each.gpu)[resource] for each in bodies])
    count = len(bodies)
    system = np.ones((count + 1, count + 1))
    system[count, count] = 0.0
    system[:count, :count] = [[shared_variance(a, b, PRIORS) for b in gpus] for a in gpus]
    system[:count, :count] += np.diag([each.variance for each in bodies])
    right = np.array([*(shared_variance(gpu, target, PRIORS) for gpu in gpus), 1.0])
    found = np.linalg.solve(system, right)
    return (
        float(found[:count] @ above - log_rates(target)[resource]),
        float(shared_variance(target, target, PRIORS) - found @ right),
    )


def test_each_hypothesis_is_ordinary_kriging() -> None:
    bodies = [body("RTX 2080 Ti", 4e-3), body("T4", 9e-3), body("V100 SXM2 16GB", 3e-3), body("RTX 3090", 2e-3)]
    target = load_gpu("A40")
    found = posterior(bodies, target, 0.9)
    expected = [kriged(bodies, target, place)[0] for place in range(len(RESOURCES))]
    assert found.means == pytest.approx(expected)
    assert found.log_seconds == pytest.approx(np.dot(found.probabilities, expected))
    assert sum(found.probabilities) == pytest.approx(1)


def test_the_interval_of_one_hypothesis_is_a_normal_one() -> None:
    bodies = [body("T4", 9e-3)]
    found = posterior(bodies, load_gpu("A40"), 0.95, ONE_RESOURCE)
    mean, variance = kriged(bodies, load_gpu("A40"), 0)
    assert found.log_seconds == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.959964 * math.sqrt(variance), abs=1e-6)
    assert found.high == pytest.approx(mean + 1.959964 * math.sqrt(variance), abs=1e-6)


def test_two_times_weigh_the_hypotheses_by_how_well_they_fit() -> None:
    """The difference of two times is normal around that of the rates: the probabilities are those of its densities."""
    one, other = load_gpu("RTX 2080 Ti"), load_gpu("RTX 3090")
    found = posterior([Body(one, math.log(1e-2), 1e-4), Body(other, math.log(4e-3), 1e-4)], other, 0.9)
    seen = math.log(0.4)
    expected = log_rates(one) - log_rates(other)
    variance = 2 * (PRIORS.gpu + PRIORS.generation) + 2e-4
    slots = [math.log(seconds * 4 * gpu.sm_count * gpu.clock_hz) for gpu, seconds in ((one, 1e-2), (other, 4e-3))]
    prior = np.exp(PRIORS.log_of(np.array([sum(slots) / 2])))[0]
    density = prior * np.exp(-((seen - expected) ** 2) / (2 * variance))
    assert found.probabilities == pytest.approx(density / density.sum())


def test_half_of_a_mixture_lies_below_its_median() -> None:
    found = posterior([body("RTX 2080 Ti", 4e-3)], load_gpu("RTX 3090"), 1e-3)
    assert found.low <= found.log_seconds <= found.high  # the mean is not the median
    wide = posterior([body("RTX 2080 Ti", 4e-3)], load_gpu("RTX 3090"), 0.9)
    spread = math.sqrt(2 * (PRIORS.gpu + PRIORS.generation) + 1e-4)

    def below(end: float) -> float:
        each = [0.5 * (1 + math.erf((end - mean) / spread / math.sqrt(2))) for mean in wide.means]
        return float(np.dot(wide.probabilities, each))

    assert below(wide.low) == pytest.approx(0.05)
    assert below(wide.high) == pytest.approx(0.95)


@given(st.lists(times_of, min_size=1, max_size=5), names, st.integers(1, 4))
@settings(max_examples=examples(40), deadline=None)
def test_the_order_of_times_does_not_matter(times: list[Time], gpu: str, turn: int) -> None:
    known = [observed(each) for each in times]
    one = forecast(known, load_gpu(gpu))
    for other in (known[turn:] + known[:turn], known[::-1]):
        found = forecast(other, load_gpu(gpu))
        assert found.seconds == pytest.approx(one.seconds)
        assert found.low == pytest.approx(one.low)
        assert found.high == pytest.approx(one.high)


@given(st.lists(times_of, min_size=1, max_size=5), times_of, names)
@settings(max_examples=examples(60), deadline=None)
def test_a_further_time_never_widens(times: list[Time], further: Time, gpu: str) -> None:
    def width(known: Sequence[Time]) -> float:
        bodies = [body(name, milliseconds / 1e3) for name, milliseconds, _ in known]
        return posterior(bodies, load_gpu(gpu), 0.9).log_width

    assert width([*times, further]) <= width(times) + 1e-9


@given(times_of, st.lists(times_of, max_size=3))
@settings(max_examples=examples(40), deadline=None)
def test_a_gpu_that_was_measured_gets_its_time(own: Time, others: list[Time]) -> None:
    elsewhere = [observed(each) for each in others if each[0] != own[0]]
    time = observed(own)
    found = forecast([*elsewhere, time], time.gpu)
    assert found.seconds == time.seconds
    assert found.low < time.seconds < found.high
    spread = 0.01 if own[2] is None else own[2]
    assert found.high / found.low <= math.exp(2 * 1.645 * spread) * 1.0001


@given(times_of, names)
@settings(max_examples=examples(40), deadline=None)
def test_there_and_back_is_the_time(own: Time, gpu: str) -> None:
    """Up to the prior of latency, which depends on how large a kernel is."""
    time = observed(own)
    there = forecast([time], load_gpu(gpu))
    back = forecast([Observation(load_gpu(gpu), there.seconds)], time.gpu)
    assert back.seconds == pytest.approx(time.seconds, rel=0.01)


@given(times_of, names, st.floats(1.0, 3.0))
@settings(max_examples=examples(40), deadline=None)
def test_a_faster_gpu_is_never_slower(own: Time, name: str, factor: float) -> None:
    gpu = replace(load_gpu(name), id="another")
    faster = replace(
        gpu, clock_hz=gpu.clock_hz * factor, clock_boost_hz=gpu.clock_boost_hz * factor,
        dram_bytes_per_s=gpu.dram_bytes_per_s * factor,
    )  # fmt: skip
    assert forecast([observed(own)], faster).seconds <= forecast([observed(own)], gpu).seconds * (1 + 1e-9)


@given(times_of, names, names)
@settings(max_examples=examples(60), deadline=None)
def test_of_two_gpus_the_one_with_higher_rates_is_not_slower(own: Time, one: str, other: str) -> None:
    gpus = load_gpu(one), load_gpu(other)
    if (log_rates(gpus[0]) >= log_rates(gpus[1])).all() and own[0] not in {one, other}:
        first, second = (forecast([observed(own)], gpu).seconds for gpu in gpus)
        assert first <= second * (1 + 1e-9)


def test_times_of_two_memories_tell_a_kernel_that_dram_limits() -> None:
    """Half of the bandwidth, all else equal: a kernel that takes twice as long there waits for DRAM."""
    fast = load_gpu("RTX 3090")
    slow = replace(fast, id="slow", dram_bytes_per_s=fast.dram_bytes_per_s / 2)
    found = forecast([Observation(fast, 1e-2), Observation(slow, 2e-2)], load_gpu("A40"))
    assert (found.limiter, found.evidence is not None) == ("dram", True)
    assert found.evidence
    assert found.evidence.limits[0].probability > 0.95
    same = forecast([Observation(fast, 1e-2), Observation(slow, 1e-2)], load_gpu("A40"))
    assert same.evidence
    assert {limit.resource: limit.probability for limit in same.evidence.limits}["dram"] < 0.01


def test_a_time_of_the_launch_itself_stays() -> None:
    found = forecast([Observation(load_gpu("T4"), 1.7e-6)], load_gpu("H100 SXM"))
    assert found.limiter == "launch"
    assert 1.6e-6 < found.seconds < 1.7e-6


def test_a_time_in_the_wrong_unit_is_named() -> None:
    pairs = (("RTX 2080 Ti", 2e-3), ("TITAN RTX", 1.7e-3), ("T4", 4e-3))
    times = [Observation(load_gpu(name), seconds) for name, seconds in pairs]
    wrong = replace(Observation(load_gpu("TITAN RTX"), 2.0), where="times.csv, line 5")
    found = forecast([times[0], wrong, times[2]], load_gpu("RTX 3090"))
    odd = [each for each in found.caveats if each.kind is CaveatKind.TIME_CONTRADICTS]
    assert "TITAN RTX" in {each.subject for each in odd}
    assert CaveatKind.TIME_CONTRADICTS not in kinds(forecast(times, load_gpu("RTX 3090")).caveats)


def test_what_only_times_told_is_said() -> None:
    found = forecast([Observation(load_gpu("T4"), 1e-3)], load_gpu("RTX 3090"))
    assert only(found.caveats, CaveatKind.CLOCK_TAKEN_AS_DEFAULT).subject == "T4"
    assert only(found.caveats, CaveatKind.ONLY_TIMES_KNOWN).subject.startswith(found.limiter)
    known = forecast([Observation(load_gpu("T4").at_clock(1.1e9), 1e-3)], load_gpu("RTX 3090"))
    assert CaveatKind.CLOCK_TAKEN_AS_DEFAULT not in kinds(known.caveats)


def test_the_clock_of_a_run_counts() -> None:
    t4 = load_gpu("T4")
    found = forecast([Observation(t4.at_clock(t4.clock_boost_hz / 2), 1e-2)], t4)
    assert 5e-3 < found.seconds < 1e-2
    assert found.low < 5.2e-3  # where the SMs limit
    assert found.evidence
    seconds = {limit.resource: limit.seconds for limit in found.evidence.limits}
    assert seconds["issue"] == pytest.approx(5e-3, rel=1e-3)
    assert seconds["dram"] == pytest.approx(1e-2, rel=1e-3)


def test_the_timing_that_was_measured_is_forecast() -> None:
    single = Observation(load_gpu("T4"), 1e-3, timing=Timing.SINGLE)
    found = forecast([single], load_gpu("T4"))
    assert (found.timing, found.seconds) == (Timing.SINGLE, 1e-3)
    assert CaveatKind.TIMING_OF_RUN in kinds(found.caveats)
    both = forecast([single, Observation(load_gpu("A2"), 1e-3, timing=Timing.COLD)], load_gpu("T4"))
    assert both.timing is Timing.SERIES


def test_a_resource_of_unknown_rate_is_left_out() -> None:
    unknown = next(gpu for gpu in list_gpus() if gpu.l2_rate is None)
    found: Posterior = posterior([Body(load_gpu("T4"), math.log(1e-3), 1e-4)], unknown, 0.9)
    place = RESOURCES.index("l2")
    assert (found.probabilities[place], math.isnan(found.means[place])) == (0.0, True)
    assert sum(found.probabilities) == pytest.approx(1)


def test_no_time_is_refused() -> None:
    with pytest.raises(MissingEvidenceError, match="no time of k"):
        forecast([], load_gpu("T4"))


def test_500_times_are_forecast() -> None:
    times = [Observation(GPUS[n % len(GPUS)], 1e-3 * (1 + n / 1000)) for n in range(500)]
    assert forecast(times, load_gpu("RTX 3090")).seconds > 0


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("version = 1", "version = 2", "version is 2"),
        ("dram = ", "dran = ", "dran"),
        ("era = ", "era = -", "negative"),
        ("latency = 0.", "latency = 1.", "no probabilities"),
        ("[variances]", "[variance]", "variances"),
        ("kernels = ", "kernels = [1] #", "int"),
    ],
)
def test_faulty_priors_are_named(tmp_path: Path, before: str, after: str, fault: str) -> None:
    text = (Path(__file__).parents[3] / "src/kerncast/data/calibration/times.toml").read_text(encoding="utf-8")
    file = tmp_path / "times.toml"
    file.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        read_priors(file)


def test_the_shipped_priors_are_probabilities() -> None:
    assert sum(getattr(PRIORS, name) for name in RESOURCES[:-1]) == pytest.approx(1, abs=1e-3)
    assert isinstance(PRIORS, Priors)
    assert PRIORS.fp64 > 0


@given(st.floats(1e-12, 1e7), st.sampled_from(["t4", "a2", "h100-sxm"]))
def test_every_time_that_is_read_gives_a_forecast(seconds: float, target: str) -> None:
    """Times below a launch's own are almost unknown, but no longer than ten times as long."""
    found = Times().predict_timed(
        TimedKernel("k", 0, (Observation(load_gpu("t4"), seconds),), ()), load_gpu(target), Question(Timing.SERIES)
    )
    assert 0 < found.low <= found.seconds <= found.high < math.inf
    assert found.high <= 1e4 * max(seconds, 1.6e-6)


def test_two_times_of_one_gpu_that_differ_span_the_interval() -> None:
    times = (Observation(load_gpu("t4"), 1e-3), Observation(load_gpu("t4"), 2e-3))
    found = Times().predict_timed(TimedKernel("k", 0, times, ()), load_gpu("t4"), Question(Timing.SERIES))
    assert found.low <= 1e-3 * 1.0001
    assert found.high >= 2e-3 * 0.9999
