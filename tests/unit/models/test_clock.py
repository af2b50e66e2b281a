"""An unknown clock makes an interval wider, as far as the time follows the clock of the SMs."""

import math
from dataclasses import replace

import pytest

import kerncast
from kerncast.caveats import CaveatKind
from kerncast.gpu import GPU, load_gpu
from kerncast.models import Case, Question, model_named
from kerncast.models.clock import clock_share, slower_under_tensor_load, unknown_clock
from kerncast.observation import Observation
from kerncast.prediction import Prediction, Term, Timing
from kerncast.profiles.kernel_profile import SourceRun
from kerncast.read.declared import declared_profile
from tests.helpers.places import ROOT

ARITHMETIC = {"fp32_flops": 1e12, "dram_bytes": 1e6}
STREAM = {"fp32_flops": 1e6, "dram_bytes": 1e10}


def forecast(gpu: GPU, work: dict[str, float], model: str = "roofline", level: float = 0.9) -> Prediction:
    profile = declared_profile("k", (8192, 1, 1), (256, 1, 1), index=0, **work)
    return model_named(model).predict(Case(profile, gpu), Question(level=level))


@pytest.mark.parametrize(
    ("terms", "share"),
    [
        ((Term("fp32", 1.0), Term("dram", 0.1)), 1.0),
        ((Term("dram", 1.0), Term("issue", 0.1)), 0.0),
        ((Term("l2", 1.0),), 0.0),
        ((Term("launch", 1.0),), 0.0),
        ((Term("dram", 1.0), Term("fp32", 1.0)), 0.5),
        ((), 1.0),  # what no resource explains is latency
    ],
)
def test_the_share_that_follows_the_clock(terms: tuple[Term, ...], share: float) -> None:
    assert clock_share(1.0, terms) == pytest.approx(share, abs=0.001)


def test_a_range_is_the_ends_of_a_90_percent_interval() -> None:
    t4 = load_gpu("t4")
    found = unknown_clock(t4, 1.0, (Term("fp32", 1.0),))
    assert math.exp(1.6449 * found.slower) == pytest.approx(1590 / 900, rel=1e-4)
    assert found.faster == 0.0


def test_the_clock_is_a_term_of_its_own_in_quadrature() -> None:
    t4 = load_gpu("t4")
    unknown, known = forecast(t4, ARITHMETIC), forecast(t4.at_clock("default"), ARITHMETIC)
    assert (unknown.seconds, unknown.low) == (known.seconds, known.low)
    ends = [math.log(each.high / each.seconds) for each in (unknown, known)]
    assert ends[0] == pytest.approx(math.hypot(ends[1], math.log(1590 / 900)), rel=1e-3)


@pytest.mark.parametrize("name", ["t4", "k40", "rtx-3080", "gtx-980", "l40"])
@pytest.mark.parametrize("work", [ARITHMETIC, STREAM])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("model", ["roofline", "template"])
def test_no_interval_is_narrower_with_the_range(name: str, work: dict[str, float], level: float, model: str) -> None:
    gpu = load_gpu(name)
    unknown, known = (forecast(each, work, model, level) for each in (gpu, gpu.at_clock("default")))
    assert unknown.low <= known.low <= known.high <= unknown.high
    assert unknown.seconds == known.seconds


def test_a_stream_is_as_sure_as_with_a_known_clock() -> None:
    t4 = load_gpu("t4")
    unknown, known = forecast(t4, STREAM), forecast(t4.at_clock("default"), STREAM)
    assert unknown.high == pytest.approx(known.high, rel=1e-6)


def test_what_the_term_does_is_told() -> None:
    (told,) = [each for each in forecast(load_gpu("t4"), ARITHMETIC).caveats if each.kind is CaveatKind.CLOCK_UNKNOWN]
    assert told.subject == "T4"
    assert told.details["slower"] == pytest.approx(1590 / 900, rel=1e-3)
    for gpu, work in (
        (load_gpu("t4"), STREAM),
        (load_gpu("t4").at_clock(1e9), ARITHMETIC),
        (load_gpu("gb10"), ARITHMETIC),
    ):
        assert CaveatKind.CLOCK_UNKNOWN not in {each.kind for each in forecast(gpu, work).caveats}


def test_a_time_on_the_gpu_itself_holds_what_its_clock_does() -> None:
    t4, profile = load_gpu("t4"), declared_profile("k", (8192, 1, 1), (256, 1, 1), index=0, **ARITHMETIC)
    model = model_named("roofline")
    own = Case(profile, t4, times=(Observation(t4, 1e-3),))
    run = Case(profile, t4, source=replace(profile, run=SourceRun(t4, 1e-3, Timing.SERIES)))
    other = Case(profile, t4, times=(Observation(load_gpu("rtx-3090"), 1e-3), Observation(t4.at_clock(1e9), 1e-3)))
    assert model.knows_clock(own)
    assert model.knows_clock(run)
    assert not model.knows_clock(other)
    ends = [model.predict(case, Question()).high for case in (own, other)]
    assert ends[0] < ends[1]


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("k40", (0.0740714914988078, 0.1987291623139881, 0.5331778685009344)),
        ("rtx-2080-ti", (0.027839136758836064, 0.07469065649524677, 0.20039034313520107)),
        ("t4", (0.04583022215997248, 0.12295960934797562, 0.3298929138556865)),
    ],
)
def test_the_boost_clock_gives_what_it_gave_before_boards_had_ranges(name: str, ends: tuple[float, ...]) -> None:
    found = forecast(load_gpu(name).at_clock("boost"), ARITHMETIC)
    assert (found.low, found.seconds, found.high) == pytest.approx(ends, rel=1e-12)


def test_the_option_says_the_clock() -> None:
    def forecast_at(clock: str | float | None) -> Prediction:
        (found,) = kerncast.predict(
            ROOT / "examples" / "kernels" / "gpusd_declared.toml", "k40", clock=clock, model="roofline"
        )
        return found

    usual, default, boost = (forecast_at(clock) for clock in (None, "default", "boost"))
    assert usual.seconds == default.seconds == forecast_at(745e6).seconds
    assert boost.seconds <= default.seconds
    assert usual.low <= default.low


@pytest.mark.parametrize(
    ("busy", "blocks", "factor"),
    [
        (1.0, 132, 1980 / 1830),
        (0.5, 264, 1980 / 1830),
        (0.25, 132, (1980 / 1830) ** 0.5),
        (1.0, 0, 1.0),
        (0.0, 132, 1.0),
    ],
)
def test_busy_tensor_cores_lower_the_clock_to_that_of_the_data_sheets_peak(
    busy: float, blocks: int, factor: float
) -> None:
    """989.4 TFLOP/s of 132 SMs are 1830 MHz; half of the time is full load, and blocks on few SMs draw little."""
    gpu = load_gpu("h100-sxm")
    terms = (Term("tensor", busy), Term("issue", 1.0))
    profile = declared_profile("k", (blocks, 1, 1), (256, 1, 1), index=0)
    assert slower_under_tensor_load(gpu, 1.0, terms, profile) == pytest.approx(factor, rel=0.002)
    assert slower_under_tensor_load(gpu.at_clock(1.98e9), 1.0, terms, profile) == 1.0
    assert slower_under_tensor_load(load_gpu("a100-sxm-80gb"), 1.0, terms, profile) == 1.0
    in_l2 = (Term("tensor", busy / 2), Term("l2", 1.0))
    assert slower_under_tensor_load(gpu, 1.0, in_l2, profile) == pytest.approx(1.0, abs=0.01)  # has a clock of its own
