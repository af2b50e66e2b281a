"""Elasticities against closed forms: bandwidth, homogeneity of all rates, curves made by hand."""

import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.launch import load_launches
from kerncast.models import Question
from kerncast.studies.sensitivity.elasticities import (
    Elasticity,
    Kind,
    Parameter,
    Point,
    Sensitivity,
    changed,
    parameters,
    parameters_named,
    sensitivity_of,
)
from tests.helpers.places import ROOT
from tests.helpers.planted import launches
from tests.helpers.thorough import sampled

#: Coalesced and not: the others are planted differently, which changes no law.
USUAL = {"pairs", "transpose"}
CAPACITY = Parameter("dram_bandwidth", Kind.CAPACITY, ("peak.dram_gb_per_s",))


@cache
def of(kernel: str, gpu: str = "rtx-3080") -> Sensitivity:
    return sensitivity_of([launches()[kernel]], load_gpu(gpu), Question()).found[0]


def named(found: Sensitivity, name: str) -> Elasticity:
    return next(each for each in found.elasticities if each.parameter.name == name)


def test_streaming_follows_dram_bandwidth_alone() -> None:
    found = of("pairs")
    dram = named(found, "dram_bandwidth")
    assert dram.elasticity == pytest.approx(-(1 - found.launch_share), abs=0.05)
    assert found.elasticities[0] is dram
    # With half of the threads or SMs too few bytes are on their way; more of anything gains nothing.
    assert all(each.high > -0.05 for each in found.elasticities[1:])


def test_arithmetic_follows_clock_and_sms() -> None:
    found = of("iterate")
    assert named(found, "sm_clock").elasticity == pytest.approx(-(1 - found.launch_share), abs=0.03)
    assert named(found, "dram_bandwidth").elasticity == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kernel", sampled(["pairs", "far_sums", "transpose", "scale_runs"], USUAL))
def test_all_rates_together_scale_the_time_but_for_launching(kernel: str) -> None:
    # Euler: time is homogeneous of degree -1 in the rates. L2 follows the clock; DRAM has its bandwidth and latency.
    found = of(kernel)
    clock, bandwidth, latency = (
        named(found, name).elasticity for name in ("sm_clock", "dram_bandwidth", "dram_latency")
    )
    # A part of DRAM's latency is that of L2, in cycles.
    rest = -(1 - found.launch_share)
    assert clock + bandwidth - max(0.0, latency) <= rest + 0.08
    assert clock + bandwidth >= rest - 0.08


@pytest.mark.parametrize("kernel", sampled(["pairs", "iterate", "transpose", "scale_runs"], USUAL))
def test_more_of_a_capacity_is_no_slower(kernel: str) -> None:
    for each in of(kernel).elasticities:
        sign = -1 if each.parameter.kind is Kind.CAPACITY else 1
        assert -0.05 <= sign * each.elasticity <= 1.05, each.parameter.name
        assert each.low <= each.elasticity <= each.high


def test_the_same_blocks_give_the_same_elasticities() -> None:
    launch, gpu = launches()["transpose"], load_gpu("titan-v")
    wanted = parameters_named(["l2_latency"])
    one, other = (sensitivity_of([launch], gpu, Question(), wanted).found[0] for _ in range(2))
    assert one.elasticities == other.elasticities


def test_several_launches_count_by_their_times() -> None:
    files = load_launches(ROOT / "examples" / "saxpy.toml")
    both = [files[0], launches()["iterate"]]
    wanted = parameters_named(["sm_clock", "dram_bandwidth"])
    first, second, total = sensitivity_of(both, load_gpu("rtx-3080"), Question(), wanted).found
    assert total.seconds == pytest.approx(first.seconds + second.seconds)
    for name in ("sm_clock", "dram_bandwidth"):
        parts = [(each.seconds, named(each, name).elasticity) for each in (first, second)]
        mean = sum(seconds * elasticity for seconds, elasticity in parts) / total.seconds
        assert named(total, name).elasticity == pytest.approx(mean)


@given(st.floats(0.2, 0.9), st.floats(1.2, 7.0))
def test_a_knee_is_found_where_it_is(slow: float, knee: float) -> None:
    # t = max(1, knee / factor): beyond the knee, nothing is gained; the curve is linear in logarithms.
    def seconds(factor: float) -> float:
        return max(1.0, knee / factor)

    factors = sorted({0.5, slow, 1.0, 1.1, knee, 8.0})
    curve = Elasticity(CAPACITY, -1.0, -1.0, 0.0, tuple(Point(f, seconds(f)) for f in factors))
    assert curve.enough == pytest.approx(knee / 1.03, rel=1e-6)
    assert curve.seconds_at(0.5 * (0.5 + slow)) == pytest.approx(seconds(0.5 * (0.5 + slow)), rel=1e-6)


def test_a_latency_is_enough_where_a_shorter_one_gains_nothing() -> None:
    latency = Parameter("l2_latency", Kind.LATENCY, ("cycles.l2_latency",))
    points = tuple(Point(f, max(1.0, f / 0.5)) for f in (0.25, 0.5, 1.0, 2.0))
    assert Elasticity(latency, 1.0, 0.0, 1.0, points).enough == pytest.approx(0.515, rel=1e-6)


@pytest.mark.parametrize("parameter", parameters(), ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["titan-v", "h100-sxm", "gtx-1070", "k40"])
def test_each_parameter_changes_what_the_gpu_knows(parameter: Parameter, name: str) -> None:
    gpu = load_gpu(name)
    found = changed(gpu, parameter, 2.0)
    known = {fact.key for fact in gpu.all_facts if isinstance(fact.value, int | float)}
    if found is None:
        assert known.isdisjoint({*parameter.keys, *parameter.inverse})
        return
    other, factor = found
    assert factor == pytest.approx(2.0, rel=0.02)
    assert other != gpu


def test_unknown_parameters_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="no parameter is called 'speed'") as raised:
        parameters_named(["speed"])
    assert "dram_bandwidth" in str(raised.value)


def test_whole_numbers_tell_their_real_factor() -> None:
    gpu = load_gpu("titan-v")
    found = changed(gpu, parameters_named(["sm_count"])[0], 1.01)
    assert found is not None
    assert found[0].sm_count == 81
    assert found[1] == 81 / 80
    assert math.isclose(found[0].clock_hz, gpu.clock_hz)
